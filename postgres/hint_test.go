package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// listener is a session of the test's own that receives notifications.
type listener struct{ *pgx.Conn }

func listenTo(t *testing.T, pool *pgxpool.Pool) listener {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.Direct(t, pool.Config().ConnString()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	_, err = conn.Exec(t.Context(), `LISTEN "almanac:almanac"`)
	require.NoError(t, err)
	return listener{conn}
}

// hints returns how many were sent since it was last asked.
func (l listener) hints(t *testing.T) (n int) {
	t.Helper()
	_, err := l.Exec(t.Context(), `NOTIFY "almanac:almanac", 'end'`)
	require.NoError(t, err)
	for {
		got, err := l.WaitForNotification(t.Context())
		require.NoError(t, err)
		if got.Payload == "end" {
			return n
		}
		require.Empty(t, got.Payload)
		n++
	}
}

// dueAt gives an event its instant, to the microsecond.
func dueAt(due time.Time) almanactest.EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.Due = due.UTC().Truncate(time.Microsecond)
		e.AvailableAt = e.Due
	}
}

// writer writes events, each at an instant that is so far ahead.
type writer struct {
	*testing.T
	*postgres.Store
	pool  *pgxpool.Pool
	now   time.Time
	ahead time.Duration
}

func (w writer) event(u almanac.User, options ...almanactest.EventOption) almanac.Event {
	return almanactest.Event(w.now, append([]almanactest.EventOption{almanactest.For(u), dueAt(w.now.Add(w.ahead))}, options...)...)
}

// store stores a user with an event.
func (w writer) store(options ...almanactest.EventOption) (almanac.User, almanac.Event) {
	w.Helper()
	u := almanactest.User()
	u, events, err := almanactest.CreateUser(w.Context(), w, u, w.event(u, options...))
	require.NoError(w, err)
	return u, events[0]
}

// inNoHurry makes an event that needs no hint.
func (w writer) inNoHurry() almanactest.EventOption { return dueAt(w.now.AddDate(1, 0, 0)) }

// moved is an event as it is stored when its instant is the writer's.
func (w writer) moved(e almanac.Event) almanac.Event {
	dueAt(w.now.Add(w.ahead))(&e, w.now)
	e.Version++
	return e
}

// taken stores an event and leases it, due or not.
func (w writer) taken() almanac.Event {
	w.Helper()
	_, e := w.store()
	claimed, err := e.Claim(uuid.New())
	require.NoError(w, err)
	claimed, err = w.Update(w.Context(), claimed, e.Version)
	require.NoError(w, err)
	return claimed
}

// settle stores an outcome, and a successor.
func (w writer) settle(e almanac.Event, o almanac.Outcome, next func(almanac.User, time.Time) (almanac.Event, error)) error {
	settled, err := w.Settle(w.Context(), []almanac.Settlement{{Event: e, Outcome: o, Next: next}})
	require.NoError(w, err)
	return settled[0].Err
}

// writes are all ways to store something that can be claimed, each prepared and
// then done.
var writes = map[string]func(w writer) func() error{
	"a user's first events": func(w writer) func() error {
		return func() error {
			u := almanactest.User()
			_, _, err := almanactest.CreateUser(w.Context(), w, u, w.event(u), w.event(u), w.event(u, w.inNoHurry()))
			return err
		}
	},
	"an edit that moves": func(w writer) func() error {
		u, e := w.store(w.inNoHurry())
		return func() error {
			_, err := w.EditUser(w.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
				return almanac.Edit{Changed: []almanac.Event{w.moved(e)}}, nil
			})
			return err
		}
	},
	"an edit that moves and adds": func(w writer) func() error {
		u, e := w.store(w.inNoHurry())
		return func() error {
			_, err := w.EditUser(w.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
				return almanac.Edit{Changed: []almanac.Event{w.moved(e)}, New: []almanac.Event{w.event(u)}}, nil
			})
			return err
		}
	},
	"an update": func(w writer) func() error {
		_, e := w.store(w.inNoHurry())
		return func() error {
			_, err := w.Update(w.Context(), w.moved(e), e.Version)
			return err
		}
	},
	"other zone rules": func(w writer) func() error {
		_, e := w.store(w.inNoHurry())
		return func() error {
			_, err := w.MoveEvents(w.Context(), []almanac.Event{w.moved(e)})
			return err
		}
	},
	"another attempt": func(w writer) func() error {
		e := w.taken()
		return func() error { return w.settle(e, almanac.Released(almanac.AfterFailure, "busy", w.ahead), nil) }
	},
	"a successor": func(w writer) func() error {
		e := w.taken()
		return func() error {
			return w.settle(e, almanac.Delivered(w.now), func(u almanac.User, _ time.Time) (almanac.Event, error) { return w.event(u), nil })
		}
	},
	"a claim that is released": func(w writer) func() error {
		e := w.taken()
		return func() error {
			_, err := w.Release(w.Context(), e.LeaseToken)
			return err
		}
	},
	"a lease that ran out": func(w writer) func() error {
		w.taken()
		_, err := w.pool.Exec(w.Context(), "UPDATE almanac.leases SET claimed_at = claimed_at - interval '1 hour', expires_at = expires_at - interval '1 hour'")
		require.NoError(w, err)
		return func() error {
			_, err := w.ReleaseExpired(w.Context(), 10, 1000)
			return err
		}
	},
}

func TestATransactionSendsOneHintForEventsDueSoon(t *testing.T) {
	t.Parallel()
	for name, prepare := range writes {
		for _, tt := range []struct {
			ahead time.Duration
			hints int
		}{{-time.Hour, 1}, {50 * time.Second, 1}, {70 * time.Second, 0}, {365 * 24 * time.Hour, 0}} {
			t.Run(name+" "+tt.ahead.String()+" ahead", func(t *testing.T) {
				t.Parallel()
				pool := pgtest.ReusedPool(t)
				store := mustStore(t, pool)
				now := nowOf(t, store)
				write := prepare(writer{t, store, pool, now, tt.ahead})
				received := listenTo(t, pool)

				require.NoError(t, write())

				require.Equal(t, tt.hints, received.hints(t))
			})
		}
	}
}

func TestHintsAreSentWhenTheHostsTransactionCommits(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	received := listenTo(t, pool)
	write := func(finish func(pgx.Tx, context.Context) error) {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		store := mustStore(t, tx)
		now := nowOf(t, store)
		w := writer{t, store, pool, now, time.Second}
		for range 3 {
			w.store()
		}
		require.Zero(t, received.hints(t), "nothing is committed")
		require.NoError(t, finish(tx, t.Context()))
	}

	write(pgx.Tx.Rollback)
	require.Zero(t, received.hints(t), "of what was undone")
	write(pgx.Tx.Commit)
	require.Equal(t, 1, received.hints(t), "of three people")
}

func TestPollOnlySendsNoHints(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool, postgres.PollOnly())
	now := nowOf(t, store)
	received := listenTo(t, pool)
	w := writer{t, store, pool, now, 0}

	w.store()
	e := w.taken()
	require.NoError(t, w.settle(e, almanac.Released(almanac.AfterFailure, "busy", 0), nil))

	require.Zero(t, received.hints(t))
}
