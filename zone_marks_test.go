package almanac_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// spying notes by which rules what follows an event was planned.
type spying struct {
	almanac.Repository
	planned []*almanac.ZoneRules
}

func (r *spying) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.Settled, error) {
	batch = slices.Clone(batch)
	for i := range batch {
		next := batch[i].Next
		batch[i].Next = func(u almanac.User, now time.Time) (almanac.Event, error) {
			e, err := next(u, now)
			r.planned = append(r.planned, e.PlannedBy)
			return e, err
		}
	}
	return r.Repository.Settle(ctx, batch)
}

// A running program knows from what it read a minute ago whether its rules are the
// repository's, and marks what it cannot vouch for. Where they are, it marks nothing.
func TestSuccessorsByOlderRulesAreMarked(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		adopt  bool // the newest rules, before it begins
		silent bool // nobody has read the rules for long
		marked bool
	}{
		"by the same rules":        {},
		"by older rules":           {adopt: true, marked: true},
		"by who knows what though": {silent: true, marked: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				spy := &spying{Repository: almanactest.NewRepository(nil)}
				w := openOn(spy)
				daily := almanac.Recurring{Type: "TICK", Rule: func(almanac.User) (almanac.Recurrence, error) { return almanac.Daily{}, nil }}
				planner := w.scheduler(t, daily)
				_, err := planner.CreateUser(t.Context(), inBeirut)
				require.NoError(t, err)
				if tt.adopt {
					_, err := planner.Reconcile(t.Context(), newest(t))
					require.NoError(t, err)
				}
				sweep := time.Minute
				if tt.silent {
					sweep = 20 * time.Hour
				}
				w.run(t, daily, almanac.WithSweep(sweep), almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(
					func(context.Context, almanac.Delivery) error { return nil })))
				time.Sleep(30 * time.Hour)
				require.NoError(t, w.stop())

				require.NotEmpty(t, spy.planned)
				for _, rules := range spy.planned {
					require.Equal(t, tt.marked, rules != nil)
				}
				if tt.adopt {
					w.inStep(t, planner)
				}
			})
		})
	}
}

// byOther is an event as a program with other rules stores it: an hour off.
func byOther(t *testing.T, w *world, version string) almanac.Event {
	t.Helper()
	now, err := w.store.Now(t.Context())
	require.NoError(t, err)
	u, err := almanac.NewUser(inBeirut, now)
	require.NoError(t, err)
	o, err := almanac.Birthday{}.Next(u, now)
	require.NoError(t, err)
	e, err := almanac.NewEvent(u, almanac.Birthday{}, o)
	require.NoError(t, err)
	e.Due = e.Due.Add(time.Hour)
	e.AvailableAt = e.Due
	e.PlannedBy = &almanac.ZoneRules{Zone: beirut, Fingerprint: 42, Since: now.Year(), Version: version}
	_, stored, err := w.store.CreateUser(t.Context(), u, e)
	require.NoError(t, err)
	return stored[0]
}

// Marks are looked at within minutes, and need not wait for the next check.
func TestRunLooksAtMarksSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		w.run(t, almanac.Birthday{}, almanac.WithZoneCheck(30*24*time.Hour))
		time.Sleep(3 * time.Hour) // the doubts of the beginning are over
		wrong := byOther(t, w, "2000a")
		time.Sleep(2 * time.Minute)
		require.Equal(t, wrong.Due.Add(-time.Hour), w.event(t, wrong).Due)
		book, err := w.store.ZoneRules(t.Context())
		require.NoError(t, err)
		require.Empty(t, book.Marks)
		for _, rules := range book.Rules {
			require.Zero(t, rules.Recheck, rules.Zone)
		}
		require.NoError(t, w.stop())
	})
}

// A program that only plans may have the newest rules. What it plans stays, though all
// who compare rules have older ones.
func TestNobodyUndoesWhatOnlyAPlannerKnows(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			s := w.scheduler(t, almanac.Birthday{})
			_, err := s.Reconcile(t.Context(), almanac.Reconcile{}) // in doubt for an hour
			require.NoError(t, err)
			newer := byOther(t, w, "2099b")
			for range 2 {
				got, err := s.Reconcile(t.Context(), almanac.Reconcile{})
				require.NoError(t, err)
				require.Equal(t, []string{beirut}, got.Outdated)
				require.Equal(t, newer.Due, w.event(t, newer).Due)
			}
		})
	}
}

// interrupted is a repository with something that happens just before a user is stored.
type interrupted struct {
	almanac.Repository
	before func()
}

func (r *interrupted) CreateUser(ctx context.Context, u almanac.User, events ...almanac.Event) (almanac.User, []almanac.Event, error) {
	r.before()
	return r.Repository.CreateUser(ctx, u, events...)
}

// Between reading the rules and storing what was planned by them, a newer program
// brings others, and has looked at everything. It looks again when the grace is over.
func TestRulesThatChangeWhileSomebodyPlans(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"where there were others": true, "where there were none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
			r := &interrupted{Repository: almanactest.NewRepository(func() time.Time { return now })}
			w := openOn(r)
			s := w.scheduler(t, almanac.Birthday{})
			if known {
				_, err := s.Reconcile(t.Context(), almanac.Reconcile{})
				require.NoError(t, err)
			}
			r.before = func() {
				other := w.scheduler(t, almanac.Birthday{})
				for range 2 {
					_, err := other.Reconcile(t.Context(), newest(t))
					require.NoError(t, err)
					now = now.Add(25 * time.Minute) // the transaction takes its time
				}
			}

			enrol(t, s, beirut, "1990-01-15")

			book, err := w.store.ZoneRules(t.Context())
			require.NoError(t, err)
			require.Empty(t, book.Marks, "nobody knew")
			now = now.Add(time.Hour)
			w.inStep(t, s)
		})
	}
}

// stingy moves nothing, as if everything were locked.
type stingy struct {
	almanac.Repository
	locked bool
}

func (r *stingy) MoveEvents(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	if r.locked {
		return nil, nil
	}
	return r.Repository.MoveEvents(ctx, events)
}

// An event that somebody held locked during the last look is looked at once more.
func TestALookThatMissedSomethingDoesNotEndADoubt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	r := &stingy{almanactest.NewRepository(func() time.Time { return now }), true}
	w := openOn(r)
	s := w.scheduler(t, almanac.Birthday{})
	enrol(t, s, beirut, "1990-01-15")
	for range 3 {
		_, err := s.Reconcile(t.Context(), newest(t))
		require.NoError(t, err)
		now = now.Add(2 * time.Hour)
	}
	r.locked = false
	w.inStep(t, s)
	now = now.Add(2 * time.Hour)
	got, err := s.Reconcile(t.Context(), newest(t))
	require.NoError(t, err)
	require.Empty(t, got.Zones, "no doubt")
}
