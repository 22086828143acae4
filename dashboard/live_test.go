package dashboard

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// pipes is a listener in memory, so that time in a test is virtual.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.connections <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// serveInMemory serves a handler, and returns a client. The server limits how long an answer
// takes, as servers should.
func serveInMemory(t *testing.T, h http.Handler, http2 bool) *http.Client {
	t.Helper()
	listener := &pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	server := &http.Server{Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 5 * time.Second, ReadHeaderTimeout: time.Second, Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	transport := &http.Transport{DialContext: listener.dial, Protocols: protocols}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
	return &http.Client{Transport: transport}
}

// watched is what a viewer got from a stream.
type watched struct {
	mu       sync.Mutex
	status   int
	header   http.Header
	messages []string
	ended    error // io.EOF after an orderly end
}

// watch opens a stream.
func watch(t *testing.T, client *http.Client, page string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/live?page="+page, nil)
	require.NoError(t, err)
	answer, err := client.Do(r)
	require.NoError(t, err)
	w := &watched{status: answer.StatusCode, header: answer.Header}
	go func() {
		defer answer.Body.Close()
		var message strings.Builder
		for body := bufio.NewReader(answer.Body); ; {
			line, err := body.ReadString('\n')
			message.WriteString(line)
			w.mu.Lock()
			if line == "\n" || err != nil && message.Len() > 0 {
				w.messages = append(w.messages, message.String())
				message.Reset()
			}
			w.ended = err
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	synctest.Wait()
	return w
}

// take returns what came since the last call, and how the stream has ended.
func (w *watched) take() ([]string, error) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.messages
	w.messages = nil
	return taken, w.ended
}

func TestAStreamSendsAPageWhenItChanges(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t)
				w := watch(t, serveInMemory(t, h, http2), "pauses")
				require.Equal(t, http.StatusOK, w.status)
				require.Equal(t, "text/event-stream", w.header.Get("Content-Type"))
				require.Equal(t, "no", w.header.Get("X-Accel-Buffering"))
				time.Sleep(2 * time.Second) // the first numbers may come after the page
				got, _ := w.take()
				require.NotEmpty(t, got)
				require.True(t, strings.HasPrefix(got[0], "event: page\ndata: "), got[0])
				require.Contains(t, got[0], "No type is paused")
				require.NotContains(t, got[0], "<html")

				time.Sleep(heartbeat - 3*time.Second)
				got, err := w.take()
				require.Empty(t, got, "nothing changes")
				require.NoError(t, err)
				time.Sleep(2*heartbeat + 2*time.Second)
				got, err = w.take()
				require.NoError(t, err, "no write limit ends it between messages")
				require.Len(t, got, 3)
				require.Equal(t, ": still here\n\n", got[0])

				require.NoError(t, h.scheduler.Pause(t.Context(), almanac.Pause{Lane: "BIRTHDAY"}))
				time.Sleep(2 * streamPace)
				got, _ = w.take()
				require.Len(t, got, 1)
				require.Contains(t, got[0], "BIRTHDAY")
			})
		})
	}
}

func TestAStreamEndsWithTheAccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var in, may atomic.Bool
		in.Store(true)
		may.Store(true)
		h := newHostFor(t, WithAuthentication(func(*http.Request) (string, bool) { return "", in.Load() }),
			WithPermissions(func(*http.Request, Action, uuid.UUID) (bool, error) { return may.Load(), nil }))
		client := serveInMemory(t, h, false)
		for _, lost := range []*atomic.Bool{&in, &may} {
			w := watch(t, client, "pauses")
			time.Sleep(10 * time.Second)
			_, err := w.take()
			require.NoError(t, err)
			lost.Store(false)
			time.Sleep(2 * streamPace)
			_, err = w.take()
			require.ErrorIs(t, err, io.EOF)
			require.Zero(t, h.open(), "its place is free")
			lost.Store(true)
		}
		in.Store(false)
		require.Equal(t, http.StatusUnauthorized, watch(t, client, "pauses").status)
	})
}

// open returns how many streams are open.
func (h host) open() int {
	s := &h.Handler.(*dashboard).streams
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func TestAStreamEndsAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		w := watch(t, serveInMemory(t, h, false), "pauses")
		time.Sleep(streamLimit - time.Second)
		got, err := w.take()
		require.NoError(t, err)
		require.NotContains(t, strings.Join(got, ""), "offline")
		time.Sleep(2 * time.Second)
		got, err = w.take()
		require.ErrorIs(t, err, io.EOF)
		require.NotContains(t, strings.Join(got, ""), "offline")
		require.Zero(t, h.open())
	})
}

func TestStreamsEndWhenTheProgramStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		h := newHost(t, WithContext(ctx))
		client := serveInMemory(t, h, false)
		w := watch(t, client, "pauses")
		stop()
		_, err := w.take()
		require.ErrorIs(t, err, io.EOF, "at once")
		w = watch(t, client, "pauses")
		_, err = w.take()
		require.ErrorIs(t, err, io.EOF, "also one that begins later")
	})
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		client := serveInMemory(t, h, false)
		for range maxStreams {
			require.Equal(t, http.StatusOK, watch(t, client, "pauses").status)
		}
		w := watch(t, client, "pauses")
		require.Equal(t, http.StatusServiceUnavailable, w.status)
		require.Equal(t, "30", w.header.Get("Retry-After"))
		require.Equal(t, http.StatusNotFound, watch(t, client, "nothing").status)
		time.Sleep(streamLimit + time.Second)
		require.Zero(t, h.open())
		require.Equal(t, http.StatusOK, watch(t, client, "pauses").status)
	})
}

// A stream whose page cannot be rendered ends. The log says why.
func TestAStreamThatCannotBeRenderedIsLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := newHost(t, WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Handler.(*dashboard)
	raw := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/live?page=now", nil)
	err := d.push(t.Context(), new(stream), raw, "", func(*request) (answer, error) { return answer{template: "now", data: 7}, nil })
	require.Error(t, err)
	require.Contains(t, log.String(), "Dashboard stream failed")
}

func TestHeadDoesNotHoldAStream(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	require.Equal(t, http.StatusNotFound, h.send(t, http.MethodHead, "/live?page=pauses", nil).Code)
}

// brokenPauses is a scheduler that cannot list pauses, or panics.
type brokenPauses struct {
	almanac.Scheduler
	how atomic.Int32 // 0 works, 1 fails, 2 panics, 3 is refused
}

func (b *brokenPauses) Paused(ctx context.Context) ([]almanac.Pause, error) {
	switch b.how.Load() {
	case 1:
		return nil, errors.New("connection refused")
	case 2:
		panic("ada@example.com")
	case 3:
		return nil, sqlError("42501")
	}
	return b.Scheduler.Paused(ctx)
}

func TestAStreamSaysThatTheDatabaseDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHost(t)
		broken := &brokenPauses{Scheduler: h.scheduler}
		made, err := New(broken, h.repository, AllowAll(), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		w := watch(t, serveInMemory(t, made, false), "pauses")
		time.Sleep(2 * time.Second)
		w.take()
		broken.how.Store(1)
		time.Sleep(10 * time.Second)
		got, err := w.take()
		require.NoError(t, err)
		require.Equal(t, []string{"event: offline\ndata: The database does not answer.\n\n"}, got)
		require.Equal(t, 1, strings.Count(log.String(), "Dashboard stream failed"), "not once a second")
		broken.how.Store(3)
		time.Sleep(2 * time.Second)
		got, _ = w.take()
		require.Equal(t, []string{"event: offline\ndata: The database refuses this. The log of the program says why.\n\n"}, got)
		broken.how.Store(0)
		time.Sleep(2 * time.Second)
		got, _ = w.take()
		require.Contains(t, strings.Join(got, ""), "event: page\n")

		broken.how.Store(2)
		time.Sleep(2 * time.Second)
		got, err = w.take()
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF, "the connection is aborted")
		require.NotContains(t, strings.Join(got, ""), "<html")
		require.Contains(t, log.String(), "panic: string")
		require.NotContains(t, log.String(), "ada@")
	})
}

func TestAStreamEndsWhenTheViewerDoesNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		client := serveInMemory(t, h, false)
		connection, err := client.Transport.(*http.Transport).DialContext(t.Context(), "", "")
		require.NoError(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		_, err = io.WriteString(connection, "GET /live?page=pauses HTTP/1.1\r\nHost: localhost\r\n\r\n")
		require.NoError(t, err)
		_, err = connection.Read(make([]byte, 64<<10))
		require.NoError(t, err)
		require.Equal(t, 1, h.open())
		time.Sleep(heartbeat + sendLimit + 2*streamPace)
		synctest.Wait()
		require.Zero(t, h.open(), "the next message could not be sent")
	})
}

func TestAStreamThatEndsIsNotOffline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var slow atomic.Bool
		h := newHost(t, WithContext(ctx), WithPermissions(func(r *http.Request, _ Action, _ uuid.UUID) (bool, error) {
			if slow.Load() {
				<-r.Context().Done()
			}
			return true, r.Context().Err()
		}))
		w := watch(t, serveInMemory(t, h, false), "pauses")
		slow.Store(true)
		time.Sleep(2 * streamPace)
		stop()
		got, err := w.take()
		require.ErrorIs(t, err, io.EOF)
		require.NotContains(t, strings.Join(got, ""), "offline")
	})
}
