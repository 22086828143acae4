package chaos_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

const (
	attempts = 20        // of [chaos.Ticks], at most
	memory   = 200 << 20 // what a worker may have at once, whatever it is sent
	each     = 2         // users of each hostile receiver
)

// face is a hostile receiver and what must become of its events.
type face struct {
	url     string // of one that is no face of the run's receiver
	act     chaos.Act
	status  string
	retries int
	resent  bool   // net/http may send a failed attempt once more by itself, which is then none of ours
	reason  string // which a FAILED event's begins with
}

// delivered is the end of events whose first so many attempts failed.
func delivered(act chaos.Act, retries int) face {
	return face{act: act, status: "COMPLETED", retries: retries}
}

// refused is the end of events for which an attempt was enough.
func refused(act chaos.Act, reason string) face {
	return face{act: act, status: "FAILED", retries: 1, reason: "webhook: receiver answered " + reason}
}

// despaired is the end of events whose every attempt failed.
func despaired(act chaos.Act, reason string) face {
	return face{act: act, status: "FAILED", retries: attempts, reason: "webhook: " + reason}
}

// patient is for rows in which receivers take all the time that they are given: no
// lease runs out, and ten seconds are long enough for all other receivers.
func patient(o *chaos.Orders) { o.Lease, o.Patience = time.Minute, 10*time.Second }

// confront runs workers against receivers, some of them hostile, and checks what
// became of each event, that the others were delivered, and that afterwards the
// workers are as good as new.
func confront(r *chaos.Run, faces map[string]face, change ...func(*chaos.Orders)) {
	r.Helper()
	receivers := make(map[string]string)
	for name, f := range faces {
		receivers[name] = f.url
		if f.url == "" {
			receivers[name] = r.Receiver.Act(name, f.act)
		}
		r.CreateUsers(each, chaos.Plan{Start: chaos.From(lead), Interval: 3600, Count: 1, To: name})
		r.Count("hostile", each)
	}
	others := make(map[string]bool)
	for _, id := range r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 6}) {
		others[id.String()] = true
	}
	workers := two(r, append(change, func(o *chaos.Orders) { o.Receivers = receivers })...)
	r.Drained(150 * time.Second)

	for name, f := range faces {
		var wrong []string
		rows, err := r.Pool().Query(r.Context(), `SELECT format('%s after %s: %s', status, retry_count, coalesce(failure_reason, last_error)) FROM almanac.events
			WHERE delivery_payload->>'message' LIKE '% ' || $1 AND (status <> $2 OR retry_count NOT BETWEEN $3 - $5::integer AND $3 OR NOT starts_with(coalesce(failure_reason, ''), $4))`,
			name, f.status, f.retries, f.reason, map[bool]int{true: 1}[f.resent])
		require.NoError(r, err)
		for rows.Next() {
			var row string
			require.NoError(r, rows.Scan(&row))
			wrong = append(wrong, row)
		}
		require.NoError(r, rows.Err())
		if len(wrong) > 0 {
			r.Errorf("%s: want %s after %d: %s…, are %q", name, f.status, f.retries, f.reason, wrong)
		}
	}
	report(r, others)
	r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 3600, Count: 1}) // who need every slot
	r.Drained(60 * time.Second)
	for _, w := range workers {
		peak, err := w.Peak()
		require.NoError(r, err)
		r.Logf("worker %s has had %d MiB at once", w.Name, peak>>20)
		if peak > memory {
			r.Errorf("worker %s has had %d MiB at once", w.Name, peak>>20)
		}
	}
	r.Check("hostile")
}

// report says how late those were who had nothing to do with the hostile ones.
func report(r *chaos.Run, others map[string]bool) {
	r.Helper()
	var late []time.Duration
	ledger, _ := r.Receiver.Ledger()
	for _, e := range ledger {
		person, key, _ := strings.Cut(e.Occurrence, " ")
		due, err := time.Parse("2006-01-02T15:04:05", key)
		require.NoError(r, err)
		if others[person] {
			late = append(late, e.At.Sub(due))
		}
	}
	slices.Sort(late)
	r.Logf("%d deliveries to others, late p50 %v p99 %v max %v", len(late),
		late[len(late)/2].Round(time.Millisecond), late[len(late)*99/100].Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
}

// always answers every attempt alike.
func always(status int, answer http.HandlerFunc) chaos.Act {
	return func(int) (int, http.HandlerFunc) { return status, answer }
}

// twice misbehaves at the first two attempts at an event and takes the third.
func twice(answer http.HandlerFunc) chaos.Act {
	return func(attempt int) (int, http.HandlerFunc) {
		if attempt > 2 {
			return http.StatusOK, nil
		}
		return 0, answer
	}
}

// raw takes the connection, to say on it what no web server would, and then waits
// for the other end to give up.
func raw(say func(io.Writer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		if say(conn) == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}
}

// words says some words, and then others for ever, with a pause before each.
func words(first, then string, pause time.Duration) http.HandlerFunc {
	return raw(func(w io.Writer) error {
		_, err := io.WriteString(w, first)
		for err == nil && then != "" {
			time.Sleep(pause)
			_, err = io.WriteString(w, then)
		}
		return err
	})
}

// hangsUp says some words and hangs up.
func hangsUp(first string) http.HandlerFunc {
	return raw(func(w io.Writer) error {
		_, _ = io.WriteString(w, first)
		return io.EOF
	})
}

// elsewhere counts connections to an address to which none should be opened.
func elsewhere(t *testing.T) (url string, contacted *atomic.Int64) {
	t.Helper()
	contacted = new(atomic.Int64)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			contacted.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, contacted
}

// Every status there is, and some that there are not.
func TestEveryStatus(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		target, contacted := elsewhere(t)
		faces := make(map[string]face)
		for _, code := range []int{
			200, 201, 202, 203, 204, 205, 206, 226, 299, 300, 301, 302, 303, 304, 305, 307, 308, 399, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409,
			410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 511, 599, 999,
		} {
			act := always(code, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", target)
				w.WriteHeader(code)
			})
			reason := strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code)))
			name := strconv.Itoa(code)
			switch {
			case code/100 == 2:
				faces[name] = delivered(act, 0)
			case code/100 == 4 && code != 408 && code != 425 && code != 429:
				faces[name] = refused(act, reason)
			default:
				faces[name] = despaired(act, "receiver answered "+reason)
			}
		}
		confront(r, faces, unhurried)
		require.Zero(t, contacted.Load(), "redirects are not followed")
	})
}

// Receivers who ask to be left alone, for a time that is honoured up to the limit
// of the retry policy, or in words that say nothing.
func TestRetryAfter(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		const limit = time.Second // of chaos.Ticks
		later := func(d time.Duration) func() string {
			return func() string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		}
		just := func(value string) func() string { return func() string { return value } }
		heeded := map[string]func() string{
			"seconds": just("1"), "a-minute": just("60"), "ten-years": just("315360000"), "beyond-numbers": just("99999999999999999999999999"),
			"date": later(10 * time.Second), "date-in-ten-years": later(10 * 365 * 24 * time.Hour),
		}
		ignored := map[string]func() string{
			"negative": just("-5"), "garbage": just("soon"), "empty": just(""), "zero": just("0"), "fraction": just("1.5"), "passed": later(-time.Hour),
		}
		faces := make(map[string]face)
		for _, group := range []map[string]func() string{heeded, ignored} {
			for name, value := range group {
				faces[name] = delivered(twice(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", value())
					w.WriteHeader(http.StatusTooManyRequests)
				}), 2)
			}
		}
		confront(r, faces, unhurried)

		asked := make(map[string]bool)
		rows, err := r.Pool().Query(t.Context(), "SELECT user_id::text, split_part(delivery_payload->>'message', ' ', 4) FROM almanac.events")
		require.NoError(t, err)
		for rows.Next() {
			var person, name string
			require.NoError(t, rows.Scan(&person, &name))
			asked[person] = heeded[name] != nil
		}
		require.NoError(t, rows.Err())
		before := make(map[string]time.Time)
		ledger, _ := r.Receiver.Ledger()
		for _, e := range ledger {
			person, _, _ := strings.Cut(e.Occurrence, " ")
			if was, again := before[e.Key]; again && asked[person] {
				r.Count("waits", 1)
				if waited := e.At.Sub(was); waited < limit {
					t.Errorf("tried again after %v", waited)
				}
			}
			before[e.Key] = e.At
		}
		require.Equal(t, 2*each*len(heeded), r.Counted("waits"))
	})
}

// Receivers who are slow, endless, large, or no web servers at all.
func TestHostileReceivers(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		target, contacted := elsewhere(t)
		const ok = "HTTP/1.1 200 OK\r\n"
		const lost = "no answer: "
		large := strings.Repeat("x", 64<<10)
		faces := map[string]face{
			"silent":       delivered(twice(words("", "", 0)), 2),
			"slow-headers": delivered(twice(words(ok+"X-Slow: ", "x", time.Second)), 2),
			"interim":      delivered(twice(words("", "HTTP/1.1 103 Early Hints\r\n\r\n", time.Second)), 2),
			// The receiver has accepted, and hangs up without an answer. On a connection that
			// was used before, net/http assumes that the connection had ended in between.
			"silent-later":     {act: twice(hangsUp("")), status: "COMPLETED", retries: 2, resent: true},
			"half-an-answer":   delivered(twice(hangsUp("HTTP/1.1 200 O")), 2),
			"slow-body":        delivered(always(200, words(ok+"\r\n", "x", time.Second)), 0),
			"slow-refusal":     refused(always(410, words("HTTP/1.1 410 Gone\r\n\r\n", "x", time.Second)), "410 Gone"),
			"endless-body":     delivered(always(200, words(ok+"\r\n", large, 0)), 0),
			"endless-chunk":    delivered(always(200, words(ok+"Transfer-Encoding: chunked\r\n\r\nffffffffffffff\r\n", large, 0)), 0),
			"endless-trouble":  despaired(always(503, words("HTTP/1.1 503 No\r\n\r\n", large, 0)), "receiver answered 503 Service Unavailable"),
			"short-body":       delivered(always(200, hangsUp(ok+"Content-Length: 1000000000\r\n\r\nx")), 0),
			"gzip-bomb":        delivered(always(200, bomb(t)), 0),
			"endless-headers":  despaired(always(0, words(ok+"X-Long: ", large, 0)), lost+"the connection was lost"),
			"a-million-of-one": despaired(always(0, words(ok, strings.Repeat("X-More: x\r\n", 5000), 0)), lost+"the connection was lost"),
			"endless-interim":  despaired(always(0, words("", "HTTP/1.1 103 Early Hints\r\n\r\n", 0)), lost+"the connection was lost"),
			"another-language": despaired(always(0, words("220 mail.example ESMTP\r\n", "", 0)), lost+"the connection was lost"),
			"another-protocol": despaired(always(101, words("HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "", 0)), "receiver answered 101 Switching Protocols"),
			"redirect-loop": despaired(always(307, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
			}), "receiver answered 307 Temporary Redirect"),
			"redirect-inside": despaired(always(302, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, target, http.StatusFound)
			}), "receiver answered 302 Found"),
			"unreachable": {url: "http://" + unused(t), status: "FAILED", retries: attempts, reason: "webhook: no answer: dial tcp"},
		}
		confront(r, faces, patient)
		require.Zero(t, contacted.Load(), "redirects are not followed")
	})
}

// bomb is a gigabyte of nothing, packed small.
func bomb(t *testing.T) http.HandlerFunc {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for zeros, n := make([]byte, 1<<20), 0; n < 1<<10; n++ {
		_, err := w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes()) // who asked for less hangs up
	}
}

// unused is an address without a listener, which no other test's receiver gets.
func unused(t *testing.T) string {
	t.Helper()
	port, err := chaos.ReservePort()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, port.Close()) })
	return port.Address()
}
