package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/webhook"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

// hook is a receiver of a third party.
type hook struct {
	t        *testing.T
	server   *httptest.Server
	requests chan request
	free     func() // releases the waiting answers
}

// request is a received webhook.
type request struct {
	header http.Header
	body   string
	at     time.Time
}

func (r request) key() string { return r.header.Get("X-Idempotency-Key") }

// listen returns a receiver that answers with the given statuses in order, and then always
// with the last.
func listen(t *testing.T, statuses ...int) *hook {
	t.Helper()
	h := listenBehind(t, statuses...)
	h.free()
	return h
}

// listenBehind is like listen, but its answers wait until free is called.
func listenBehind(t *testing.T, statuses ...int) *hook {
	t.Helper()
	gate := make(chan struct{})
	h := &hook{t: t, requests: make(chan request, 100), free: sync.OnceFunc(func() { close(gate) })}
	var mu sync.Mutex
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := time.Now()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		status := statuses[0]
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
		mu.Unlock()
		h.requests <- request{r.Header.Clone(), string(body), at}
		<-gate
		w.WriteHeader(status)
	}))
	t.Cleanup(h.server.Close) // waits for the answers
	t.Cleanup(h.free)
	return h
}

// flags returns the flags that make birthdayd deliver here.
func (h *hook) flags() []string {
	return []string{"-webhook-url", h.server.URL, "-webhook-secret", secret, "-webhook-allow-private"}
}

// next waits for a request, which must have a valid signature.
func (h *hook) next() request {
	h.t.Helper()
	select {
	case r := <-h.requests:
		v, err := webhook.NewVerifier(secret)
		require.NoError(h.t, err)
		require.NoError(h.t, v.Verify(r.header, []byte(r.body), r.at))
		return r
	case <-time.After(patience):
		h.t.Fatal("no webhook arrived")
		return request{}
	}
}

// silent requires that no further request has arrived.
func (h *hook) silent() {
	h.t.Helper()
	require.Empty(h.t, h.requests, "another webhook arrived")
}
