package almanac_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// series is a handler whose occurrences are the seconds that a test lists, in UTC.
type series struct {
	almanac.Execution
	eventType string
	seconds   []time.Time // ascending
	execute   func(ctx context.Context, d almanac.Delivery) error
}

func (s series) EventType() string { return s.eventType }

func (s series) Next(_ almanac.User, after time.Time) (almanac.Occurrence, error) {
	i := slices.IndexFunc(s.seconds, func(t time.Time) bool { return t.After(after) })
	if i < 0 {
		return almanac.Occurrence{}, almanac.ErrNoOccurrence
	}
	utc, err := almanac.LoadTimezone("UTC")
	wall := almanac.WallTimeOf(s.seconds[i].UTC())
	return almanac.Occurrence{Key: wall.String(), Wall: wall, Zone: utc}, err
}

func (s series) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"message": u.FirstName + " at " + o.Key})
}

func (series) Channel(almanac.Event) almanac.Channel { return "test" }

func (s series) Execute(ctx context.Context, d almanac.Delivery) error { return s.execute(ctx, d) }

var grace = almanac.Profile{FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1990-12-09", Timezone: "America/New_York"}

// owe stores a user with the first event of a series, which may be long overdue.
func owe(t *testing.T, r almanac.Repository, s series) almanac.Event {
	t.Helper()
	now, err := r.Now(t.Context())
	require.NoError(t, err)
	u, err := almanac.NewUser(grace, now)
	require.NoError(t, err)
	o, err := s.Next(u, time.Time{})
	require.NoError(t, err)
	e, err := almanac.NewEvent(u, s, o)
	require.NoError(t, err)
	_, events, err := r.CreateUser(t.Context(), u, e)
	require.NoError(t, err)
	return events[0]
}

// world is a repository with a scheduler that runs until the test ends.
type world struct {
	store   almanac.Repository
	notices chan almanac.Notice
	stop    func() error // stops the scheduler and returns what Run did
}

// open prepares a database; run starts a scheduler on it.
func open(t *testing.T) *world {
	t.Helper()
	return openOn(openPostgres(t))
}

func openOn(r almanac.Repository) *world {
	return &world{store: r, notices: make(chan almanac.Notice, 1000)}
}

func openPostgres(t *testing.T) almanac.Repository {
	t.Helper()
	store, err := postgres.New(pgtest.Pool(t))
	require.NoError(t, err)
	return store
}

// onBoth are the repositories that must do the same: the one for production and
// the one for tests.
var onBoth = map[string]func(*testing.T) almanac.Repository{
	"on Postgres": openPostgres,
	"in memory":   func(*testing.T) almanac.Repository { return almanactest.NewRepository(nil) },
}

func (w *world) scheduler(t *testing.T, handler almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	return w.schedulerOf(t, []almanac.EventHandler{handler}, options...)
}

func (w *world) schedulerOf(t *testing.T, handlers []almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	registry, err := almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	options = append(options, almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { w.notices <- n })))
	scheduler, err := almanac.NewScheduler(w.store, registry, options...)
	require.NoError(t, err)
	return scheduler
}

func (w *world) run(t *testing.T, handler almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	return w.runAll(t, []almanac.EventHandler{handler}, options...)
}

func (w *world) runAll(t *testing.T, handlers []almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	scheduler := w.schedulerOf(t, handlers, options...)
	ctx, cancel := context.WithCancel(t.Context())
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = scheduler.Run(ctx)
	}()
	w.stop = func() error {
		cancel()
		<-ended
		return result
	}
	t.Cleanup(func() { _ = w.stop() })
	return scheduler
}

// await returns the next notice of a kind.
func (w *world) await(t *testing.T, kind almanac.NoticeKind) almanac.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		select {
		case n := <-w.notices:
			if n.Kind == kind {
				return n.Event
			}
		case <-ctx.Done():
			require.Fail(t, "nothing was told", "waiting for %s", kind)
		}
	}
}

func (w *world) event(t *testing.T, e almanac.Event) almanac.Event {
	t.Helper()
	stored, err := w.store.Event(t.Context(), e.ID)
	require.NoError(t, err)
	return stored
}

// ago returns whole seconds in the past, oldest first.
func ago(ds ...time.Duration) []time.Time {
	now := time.Now().UTC().Truncate(time.Second)
	seconds := make([]time.Time, len(ds))
	for i, d := range ds {
		seconds[i] = now.Add(-d)
	}
	return seconds
}

const nextYear = -365 * 24 * time.Hour // as an age
