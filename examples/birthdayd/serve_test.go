package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestServerWaitsForTheLastRequests(t *testing.T) {
	t.Parallel()
	inside, gate := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	d := &deployment{delay: time.Millisecond, server: &http.Server{
		// Only the first request waits. Others are answered while the server listens.
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if first.CompareAndSwap(false, true) {
				close(inside)
				<-gate
			}
		}),
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served, answered := make(chan error, 1), make(chan error, 1)
	go func() { served <- d.serveHTTP(ctx, l) }()
	go func() { answered <- ask(t.Context(), "http://"+l.Addr().String()) }()
	<-inside

	cancel()

	require.Eventually(t, func() bool { return ask(t.Context(), "http://"+l.Addr().String()) != nil }, patience, pollEvery, "it goes on listening")
	require.Empty(t, served, "it did not wait for the request")
	close(gate)
	require.NoError(t, <-answered)
	require.NoError(t, <-served)
}

// condition is a scheduler in a given condition.
type condition struct {
	almanac.Scheduler
	health almanac.Health
}

func (c condition) Health() almanac.Health { return c.health }

func TestOnlyStuckWorkersFailTheLivenessProbe(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		health       almanac.Health
		ready, alive bool
	}{
		"well":     {almanac.Health{Running: true, Workers: 2, Stuck: 1}, true, true},
		"stuck":    {almanac.Health{Running: true, Workers: 2, Stuck: 2}, false, false},
		"degraded": {almanac.Health{Running: true, Workers: 2, Claim: almanac.Failure{For: time.Second}}, false, true},
		"stopping": {almanac.Health{Workers: 2}, false, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &deployment{scheduler: condition{health: tt.health}}
			require.Equal(t, tt.ready, d.ready(t.Context()) == nil)
			require.Equal(t, tt.alive, d.alive(t.Context()) == nil)
		})
	}
}

func ask(ctx context.Context, url string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestAFailingServerReturnsItsError(t *testing.T) {
	t.Parallel()
	d := &deployment{server: &http.Server{ReadHeaderTimeout: time.Second}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())

	err = d.serveHTTP(t.Context(), l)

	require.True(t, errors.Is(err, net.ErrClosed), "%v", err)
}

func TestTheRateOfTheAPICanBeSet(t *testing.T) {
	t.Parallel()
	for rate, limited := range map[string]bool{"1": true, "0": false} {
		c, err := parse([]string{"-webhook-url", "https://example.com/", "-api-rate", rate}, environment())
		require.NoError(t, err)
		pool, err := open(t.Context(), "postgres://192.0.2.1/nowhere", 1) // never used
		require.NoError(t, err)
		defer pool.Close()
		d, err := assemble(c, pools{pool, pool, pool, pool, pool}, slog.New(slog.DiscardHandler), nil)
		require.NoError(t, err)
		refused := false
		for range 100 {
			w := httptest.NewRecorder()
			d.server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/nowhere", nil))
			refused = refused || w.Code == http.StatusTooManyRequests
		}

		require.Equal(t, limited, refused, "-api-rate %s", rate)
	}
}
