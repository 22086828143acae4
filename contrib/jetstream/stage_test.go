package almanacjetstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	almanacjetstream "github.com/almanac-go/almanac/contrib/jetstream"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

const (
	lease   = 18 * time.Second // none runs out on a busy machine: a slow database gets three seconds per call
	short   = 6 * time.Second  // a lease that tests wait for
	patient = 30 * time.Second
)

// ping is a handler without next events. It retries after a second.
type ping struct{ almanac.Execution }

func (ping) EventType() string { return "PING" }
func (ping) Next(almanac.User, time.Time) (calendar.Occurrence, error) {
	return calendar.Occurrence{}, calendar.ErrNoOccurrence
}
func (ping) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) { return nil, nil }
func (ping) Channel(almanac.Event) almanac.Channel                             { return "ping" }

// stage is a database, a stream, and the deliveries.
type stage struct {
	*testing.T
	execute  func(statement string) error
	database string
	store    *postgres.Store
	server   *server.Server
	settings almanacjetstream.Settings
	received ledger
}

func newStage(t *testing.T) *stage {
	pool := pgtest.Pool(t)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	quick := almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Second, Factor: 1}}
	registry, err := almanac.NewRegistry(ping{quick})
	require.NoError(t, err)
	execute := func(statement string) error {
		_, err := pool.Exec(t.Context(), statement)
		return err
	}
	s := &stage{T: t, execute: execute, database: pool.Config().ConnString(), store: store, server: serve(t, t.TempDir(), server.RANDOM_PORT)}
	s.settings = almanacjetstream.Settings{JetStream: connect(t, s.server), Repository: store, Registry: registry, Lease: lease,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	return s
}

func serve(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	return serveWith(t, &server.Options{Port: port, StoreDir: dir})
}

func serveWith(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoLog, o.NoSigs = "127.0.0.1", true, true, true
	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(patient))
	t.Cleanup(func() { halt(s) })
	return s
}

func halt(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func connect(t *testing.T, s *server.Server) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// due stores due events, each of another user.
func (s *stage) due(n int, options ...almanactest.EventOption) []almanac.Event {
	s.Helper()
	var events []almanac.Event
	for i := range n {
		u := almanactest.User()
		payload := func(e *almanac.Event, _ time.Time) { e.Payload = fmt.Appendf(nil, `{"text": "<%d> & more"}`, i) }
		options := append([]almanactest.EventOption{almanactest.OfType("PING"), almanactest.For(u), payload}, options...)
		events = append(events, almanactest.Store(s, s.store, u, almanactest.Event(time.Now(), options...))...)
	}
	return events
}

// dispatch runs a dispatcher until the returned function is called, or the test ends.
func (s *stage) dispatch(options ...almanac.Option) (stop func()) {
	s.Helper()
	// A message can be in the stream before its acknowledgement has come. A dispatcher that stops waits for the acknowledgement.
	options = append(append(quick(), almanac.WithDrain(patient)), options...)
	d, err := almanacjetstream.NewDispatcher(s.settings, options...)
	require.NoError(s, err)
	return s.run(d.Run)
}

// publish stores due events, each of another user, and runs a dispatcher until it has published them.
// The dispatcher goes on until stop is called, or the test ends.
func (s *stage) publish(n int, options ...almanactest.EventOption) (events []almanac.Event, stop func()) {
	s.Helper()
	events, stop = s.due(n, options...), s.dispatch()
	s.published(n)
	return events, stop
}

// work runs a worker. The function deliver makes its deliveries, and they are recorded
// under name.
func (s *stage) work(name string, deliver almanac.DelivererFunc, options ...almanac.Option) (stop func()) {
	s.Helper()
	return s.workOn(s.store, name, deliver, options...)
}

func (s *stage) workOn(r almanac.Repository, name string, deliver almanac.DelivererFunc, options ...almanac.Option) (stop func()) {
	s.Helper()
	settings := s.settings
	settings.Repository = r
	noting := almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		s.received.add(name, d.Event)
		return deliver(ctx, d)
	})
	w, err := almanacjetstream.NewWorker(settings, append(append(quick(), almanac.WithDeliverer("ping", noting)), options...)...)
	require.NoError(s, err)
	return s.run(w.Run)
}

func quick() []almanac.Option {
	return []almanac.Option{almanac.WithPoll(100 * time.Millisecond), almanac.WithSweep(200 * time.Millisecond), almanac.WithDrain(0)}
}

func accept(context.Context, almanac.Delivery) error { return nil }

func (s *stage) run(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = run(ctx) // a worker that is made to die returns an error
	}()
	stop = func() {
		cancel()
		<-ended
	}
	s.Cleanup(stop)
	return stop
}

// receiver starts an HTTP receiver for workers in other processes, and returns its address.
func (s *stage) receiver() string {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.Error(err)
		}
		s.received.add(r.Header.Get("Worker"), almanac.Event{IdempotencyKey: almanac.IdempotencyKey(r.Header.Get("Idempotency-Key")), Payload: body})
	}))
	s.Cleanup(receiver.Close)
	return receiver.URL
}

// stream returns the present stream.
func (s *stage) stream() jetstream.Stream {
	s.Helper()
	stream, err := s.settings.JetStream.Stream(s.Context(), "ALMANAC")
	require.NoError(s, err)
	return stream
}

// inStream returns how many messages the stream has, or -1 when it does not exist.
func (s *stage) inStream() int {
	stream, err := s.settings.JetStream.Stream(s.Context(), "ALMANAC")
	if err != nil {
		return -1
	}
	return int(stream.CachedInfo().State.Msgs)
}

func (s *stage) eventually(condition func() bool, saying string) {
	s.Helper()
	require.Eventually(s, condition, patient, 20*time.Millisecond, saying)
}

// published waits until the stream has that many messages.
func (s *stage) published(n int) {
	s.Helper()
	s.eventually(func() bool { return s.inStream() == n }, fmt.Sprintf("%d messages", n))
}

// expire expires all leases in the database.
func (s *stage) expire() {
	s.Helper()
	past := `UPDATE almanac.leases SET claimed_at = now() - interval '1 hour', expires_at = now() - interval '1 minute'`
	require.NoError(s, s.execute(past))
}

// ended waits until that many events are COMPLETED.
func (s *stage) ended(n int) {
	s.Helper()
	s.eventually(func() bool {
		is, err := s.store.Count(s.Context(), almanac.InStatus(almanac.Completed))
		return err == nil && is == n
	}, fmt.Sprintf("%d delivered", n))
}

// settled waits until all events have ended and the stream is empty. It checks that each is
// COMPLETED once and that all deliveries of one event were the same.
func (s *stage) settled(events []almanac.Event) []almanac.Event {
	s.Helper()
	s.ended(len(events))
	s.published(0)
	ended := make([]almanac.Event, len(events))
	for i, e := range events {
		var err error
		ended[i], err = s.store.Event(s.Context(), e.ID)
		require.NoError(s, err)
		require.Equal(s, almanac.Completed, ended[i].Status)
		require.NotEmpty(s, s.received.of(e), "what is COMPLETED was delivered")
		for _, r := range s.received.of(e) {
			require.Equal(s, string(ended[i].Payload), r.payload, "byte by byte, in each process")
		}
	}
	return ended
}

// ledger is the received deliveries, by key.
type ledger struct {
	mu    sync.Mutex
	byKey map[almanac.IdempotencyKey][]receipt
}

type receipt struct{ worker, payload string }

func (l *ledger) add(worker string, e almanac.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[almanac.IdempotencyKey][]receipt)
	}
	l.byKey[e.IdempotencyKey] = append(l.byKey[e.IdempotencyKey], receipt{worker, string(e.Payload)})
}

func (l *ledger) of(e almanac.Event) []receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[e.IdempotencyKey]
}

// workers returns the workers that delivered an event, in order.
func (l *ledger) workers(e almanac.Event) string {
	var names []string
	for _, r := range l.of(e) {
		names = append(names, r.worker)
	}
	return strings.Join(names, " ")
}
