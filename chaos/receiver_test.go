package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/almanac-go/almanac/webhook"
)

// Entry is one delivery as the receiver saw it.
type Entry struct {
	Key        string // the idempotency key
	Request    string // the id of the request, if it was a batch
	Occurrence string // the user and the occurrence, as the message has them
	Born       string // when the user was, as the message has it; empty if it does not
	Body       string // a hash of the bytes
	At         time.Time
	Signed     time.Time // as the sender has it, to the second
	Clock      int       // which of the receiver's clocks At is by, counted from zero
	Status     int       // what was answered; 0 if nothing was
}

// Act is what a receiver does with the n-th attempt at an event, counted from one:
// the status that its ledger says, and how it really answers.
type Act func(attempt int) (status int, answer http.HandlerFunc)

// Receiver is where deliveries go. Its ledger only grows.
type Receiver struct {
	server   *httptest.Server
	verifier *webhook.Verifier

	mu      sync.Mutex
	ledger  []Entry
	arrived int
	refused int
	answer  func(n int, e Entry) int
	clocks  func() []time.Time
	acts    map[string]Act // by path
	tried   map[string]int // attempts, by key
}

// NewReceiver starts a receiver that accepts what is signed with the secret.
func NewReceiver(secret string) (*Receiver, error) {
	verifier, err := webhook.NewVerifier(secret)
	if err != nil {
		return nil, err
	}
	r := &Receiver{
		verifier: verifier,
		answer:   func(int, Entry) int { return http.StatusOK },
		clocks:   func() []time.Time { return []time.Time{time.Now()} },
		acts:     make(map[string]Act),
		tried:    make(map[string]int),
	}
	r.server = httptest.NewServer(r)
	return r, nil
}

// URL is where deliveries go.
func (r *Receiver) URL() string { return r.server.URL }

// Close stops the receiver.
func (r *Receiver) Close() { r.server.CloseClientConnections(); r.server.Close() }

// Answer sets what is answered to the n-th delivery, counted from zero. The status
// 0 takes the delivery and breaks the connection without an answer.
func (r *Receiver) Answer(answer func(n int, e Entry) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// Clocks sets what the receiver goes by instead of the machine's clock. Of several
// clocks the first counts by which a delivery was signed just now.
func (r *Receiver) Clocks(now func() []time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clocks = now
}

// Act gives the receiver another face, under a URL that it returns.
func (r *Receiver) Act(name string, act Act) (url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts["/"+name] = act
	return r.server.URL + "/" + name
}

// Ledger returns what was received so far, in order, and how many deliveries were
// not ours.
func (r *Receiver) Ledger() (entries []Entry, refused int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Entry(nil), r.ledger...), r.refused
}

// verify returns the first clock by which a delivery was signed just now.
func (r *Receiver) verify(header http.Header, body []byte, nows []time.Time) (clock int, err error) {
	err = errors.New("chaos: no clock")
	for clock = range nows {
		if err = r.verifier.Verify(header, body, nows[clock]); err == nil {
			break
		}
	}
	return clock, err
}

// entry is what a message says of its delivery.
func entry(message string, body []byte) Entry {
	sum := sha256.Sum256(body)
	named := append(strings.Fields(message), "", "", "")[:3] // a user, an occurrence, a birth
	return Entry{Occurrence: strings.TrimSpace(named[0] + " " + named[1]), Born: named[2], Body: hex.EncodeToString(sum[:8])}
}

// refuse answers a delivery that is not ours.
func (r *Receiver) refuse(w http.ResponseWriter) {
	r.mu.Lock()
	r.refused++
	r.mu.Unlock()
	w.WriteHeader(http.StatusUnauthorized)
}

// ServeHTTP takes a delivery, also for servers of the caller's own.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	clocks := r.clocks
	r.mu.Unlock()
	nows := clocks() // of the arrival
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // broken off: it was never received
	}
	var message struct{ Message string }
	clock, err := r.verify(req.Header, body, nows)
	batched := req.Header.Get("Content-Type") == batchType
	if err == nil && !batched {
		err = json.Unmarshal(body, &message)
	}
	if err != nil {
		r.refuse(w)
		return
	}
	e := entry(message.Message, body)
	e.Key, e.At, e.Clock = req.Header.Get("X-Idempotency-Key"), nows[clock], clock
	if seconds, err := strconv.ParseInt(req.Header.Get("Webhook-Timestamp"), 10, 64); err == nil { // as it was verified
		e.Signed = time.Unix(seconds, 0)
	}
	if batched {
		r.serveBatch(w, req, e, body)
		return
	}
	r.mu.Lock()
	n, answer := r.arrived, r.answer
	r.arrived++
	r.tried[e.Key]++
	act, attempt := r.acts[req.URL.Path], r.tried[e.Key]
	r.mu.Unlock()
	really := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(e.Status) }
	if act == nil {
		w.WriteHeader(http.StatusProcessing) // shows that the request has arrived, before its answer
		e.Status = answer(n, e)              // may take its time
	} else if status, other := act(attempt); other != nil {
		e.Status, really = status, other
	} else {
		e.Status = status
	}
	r.mu.Lock()
	r.ledger = append(r.ledger, e)
	r.mu.Unlock()
	if act == nil && e.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	really(w, req)
}
