package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/almanac-go/almanac/webhook"
)

// receiver is a webhook receiver on this machine. It accepts only signed deliveries, and
// recognizes repeats.
type receiver struct {
	url      string
	secret   string
	verifier *webhook.Verifier
	server   *http.Server
	serving  sync.WaitGroup
	arrivals chan arrival
	refused  atomic.Int64

	mu   sync.Mutex
	seen map[string]bool // the keys that arrived
}

// arrival is a received greeting.
type arrival struct {
	key     string
	message string
	at      time.Time
	repeat  bool
}

const (
	maxGreeting = 256 << 10 // bytes
	backlog     = 1024      // arrivals waiting to be shown
)

// newReceiver returns a receiver that listens on a free port of the loopback interface
// until it is closed.
func newReceiver() (*receiver, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	r := &receiver{
		secret:   "whsec_" + base64.StdEncoding.EncodeToString(key),
		arrivals: make(chan arrival, backlog),
		seen:     make(map[string]bool),
	}
	var err error
	if r.verifier, err = webhook.NewVerifier(r.secret); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.url = "http://" + l.Addr().String() + "/greetings"
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 5 * time.Second}
	r.serving.Go(func() { _ = r.server.Serve(l) }) // it ends with close
	return r, nil
}

// close closes the receiver at once: its senders have stopped before.
func (r *receiver) close() error {
	err := r.server.Close()
	r.serving.Wait()
	return err
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxGreeting))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	if err := r.verifier.Verify(req.Header, body, at); err != nil {
		r.refused.Add(1)
		http.Error(w, "the signature is not good", http.StatusUnauthorized)
		return
	}
	var greeting struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(body, &greeting); err != nil {
		http.Error(w, "the body is not a greeting", http.StatusBadRequest)
		return
	}
	a := arrival{key: req.Header.Get("X-Idempotency-Key"), message: greeting.Message, at: at}
	a.repeat = r.know(a.key)
	select {
	case r.arrivals <- a:
		w.WriteHeader(http.StatusNoContent)
	case <-req.Context().Done():
	}
}

// know stores a key, and reports whether it was stored already.
func (r *receiver) know(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.seen[key]
	r.seen[key] = true
	return known
}
