package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/postgres"
)

// The points of a relay, in the order of a batch's way.
const (
	AfterRead  Point = "after read"  // read, and nothing sent
	MidRelay   Point = "mid relay"   // some of it was sent
	BeforeMove Point = "before move" // sent, and the position not moved
	MidMove    Point = "mid move"    // moved, in a transaction that is not committed
	AfterMove  Point = "after move"  // moved
)

// RelayPoints are all of them.
func RelayPoints() []Point { return []Point{AfterRead, MidRelay, BeforeMove, MidMove, AfterMove} }

const (
	relayConsumer = "relay"
	relayBatch    = 4
)

// moving marks the context in which a relay moves its position.
type moving struct{}

// relay sends domain events to a [Stream], until ctx is done.
func (w *worker) relay(ctx context.Context, store *postgres.Store) error {
	w.ready.Do(func() { w.say(Report{Point: Ready}) })
	for ctx.Err() == nil {
		n, err := store.Consume(context.WithValue(ctx, moving{}, true), relayConsumer, relayBatch, w.send)
		if n > 0 {
			w.at(AfterMove)
		}
		if err != nil || n == 0 {
			_ = pause(ctx, 20*time.Millisecond) // an outage, another relay, or nothing to send
		}
	}
	return nil
}

func (w *worker) send(ctx context.Context, _ pgx.Tx, events []postgres.DomainEvent) error {
	w.at(AfterRead)
	for i, e := range events {
		if i == (len(events)+1)/2 {
			w.at(MidRelay)
		}
		body, err := json.Marshal(e)
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Relay, bytes.NewReader(body))
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		if err := answer.Body.Close(); err != nil {
			return err
		}
	}
	w.at(BeforeMove)
	return nil
}

// Stream is where relays send domain events. It keeps all of them, in order.
type Stream struct {
	server *httptest.Server
	mu     sync.Mutex
	events []postgres.DomainEvent
}

// NewStream switches the outbox of the run on, and starts a stream.
func (r *Run) NewStream() *Stream {
	r.Helper()
	require.NoError(r, r.Store().CreateConsumer(r.Context(), relayConsumer))
	require.NoError(r, postgres.EnableOutbox(r.Context(), r.pool))
	s := &Stream{}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var e postgres.DomainEvent
		if err := json.NewDecoder(req.Body).Decode(&e); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, e)
	}))
	r.Cleanup(s.server.Close)
	return s
}

// URL is where relays send.
func (s *Stream) URL() string { return s.server.URL }

// Check waits until the outbox is read, and compares the stream with the database: each
// user and event is there, each end after its beginning, the changes of a user in order,
// and nothing that was not committed. It counts the repeats, of at most a batch a death.
func (s *Stream) Check(r *Run, deaths int) {
	r.Helper()
	for ctx := r.Within(40 * time.Second); ; {
		consumers, err := r.Store().Consumers(ctx)
		if err == nil && consumers[0].Oldest.IsZero() {
			break
		}
		require.NoError(r, pause(ctx, 20*time.Millisecond), "not read: %v\n%s", err, r.Complaints())
	}
	rows, err := r.pool.Query(r.Context(), `
		SELECT 'user_created ' || id FROM almanac.users
		UNION ALL SELECT 'event_created ' || id FROM almanac.events
		UNION ALL SELECT 'event_' || lower(status) || ' ' || id FROM almanac.history`)
	require.NoError(r, err)
	want, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(r, err)

	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	seen, latest, begun := map[uuid.UUID]bool{}, map[uuid.UUID]int64{}, map[uuid.UUID]bool{}
	for _, e := range s.events {
		if seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		id := e.UserID
		switch e.Kind {
		case postgres.UserCreated:
		case postgres.EventCreated:
			id, begun[e.EventID] = e.EventID, true
		default:
			id = e.EventID
			require.True(r, begun[id], "%s ended before it began", id)
		}
		got = append(got, fmt.Sprintf("%s %s", e.Kind, id))
		require.Greater(r, e.Sequence, latest[e.UserID], "the changes of %s come in order", e.UserID)
		latest[e.UserID] = e.Sequence
	}
	require.ElementsMatch(r, want, got)
	repeats := len(s.events) - len(seen)
	require.LessOrEqual(r, repeats, deaths*relayBatch)
	r.Count("relayed", len(seen))
	r.Count("relayed again", repeats)
}
