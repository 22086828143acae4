package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServerIsNotReadyWhileItWaitsForTheLastRequests(t *testing.T) {
	t.Parallel()
	inside, gate := make(chan struct{}), make(chan struct{})
	d := &deployment{draining: make(chan struct{}), server: &http.Server{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(inside)
			<-gate
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
	require.NoError(t, d.accepting(ctx))

	cancel()
	<-d.draining

	require.ErrorIs(t, d.accepting(t.Context()), errDraining)
	require.Empty(t, served, "it did not wait for the request")
	close(gate)
	require.NoError(t, <-answered)
	require.NoError(t, <-served)
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

func TestServerThatFailsTellsWhy(t *testing.T) {
	t.Parallel()
	d := &deployment{draining: make(chan struct{}), server: &http.Server{ReadHeaderTimeout: time.Second}}
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
		pool, err := open(t.Context(), "postgres://192.0.2.1/nowhere", 1) // which nobody asks for anything
		require.NoError(t, err)
		defer pool.Close()
		d, err := assemble(c, pools{pool, pool}, slog.New(slog.DiscardHandler), nil)
		require.NoError(t, err)
		refused := false
		for range 100 {
			w := httptest.NewRecorder()
			d.server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/nowhere", nil))
			refused = refused || w.Code == http.StatusTooManyRequests
		}

		require.Equal(t, limited, refused, "-api-rate %s", rate)
	}
}
