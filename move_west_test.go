package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// ticker is a handler of the host's own that knows no recurrence: something happens
// at every second whose number since 1970, as clocks show it, is a multiple of each.
type ticker struct {
	each int64
	last int64 // the last second; 0 for none
}

func (t ticker) EventType() string { return "TICK" }

func (t ticker) Next(u almanac.User, after time.Time) (almanac.Occurrence, error) {
	shown := u.Timezone.WallTime(after).Labelled().Unix()
	for {
		next := (shown/t.each + 1) * t.each
		if t.last > 0 && next > t.last {
			return almanac.Occurrence{}, almanac.ErrNoOccurrence
		}
		w := almanac.WallTimeOf(time.Unix(next, 0).UTC())
		r, err := u.Timezone.Resolve(w, almanac.Policies{})
		if err != nil {
			return almanac.Occurrence{}, err
		}
		switch {
		case r.Reading == almanac.ShownNever:
			shown = r.Change.To().Labelled().Unix() - 1
		case !r.Instant.After(after):
			shown = r.Change.From().Labelled().Unix() - 1
		default:
			return almanac.Occurrence{Key: w.String(), Wall: w}, nil
		}
	}
}

func (t ticker) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}

func (t ticker) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

// recurringBy is a ready-made handler for one rule.
func recurringBy(r almanac.Recurrence) almanac.EventHandler {
	return almanac.Recurring{Type: "TICK", Rule: func(almanac.User) (almanac.Recurrence, error) { return r, nil }}
}

// traveller is a user of one handler, on a clock of the test's own.
type traveller struct {
	require.TestingT
	ctx        context.Context
	now        time.Time
	repository *almanactest.Repository
	scheduler  almanac.Scheduler
	id         uuid.UUID
}

// tester is a test, or a try of a property.
type tester interface {
	require.TestingT
	Context() context.Context
}

func travel(t tester, h almanac.EventHandler, from string, at time.Time) *traveller {
	ctx := t.Context()
	w := &traveller{TestingT: t, ctx: ctx, now: at}
	w.repository = almanactest.NewRepository(func() time.Time { return w.now })
	registry, err := almanac.NewRegistry(h)
	require.NoError(t, err)
	w.scheduler, err = almanac.NewScheduler(w.repository, registry)
	require.NoError(t, err)
	e, err := w.scheduler.CreateUser(ctx, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-15", Timezone: from})
	require.NoError(t, err)
	w.id = e.User.ID
	return w
}

// claim takes the user's event when it is due.
func (w *traveller) claim() almanac.Event {
	wait, known, err := w.repository.Until(w.ctx, []string{"TICK"}, time.Time{})
	require.NoError(w, err)
	require.True(w, known)
	w.now = w.now.Add(max(wait, 0))
	claim, err := w.repository.Claim(w.ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{"TICK"}, Limit: 1, Lease: time.Minute})
	require.NoError(w, err)
	require.Len(w, claim.Events, 1)
	return claim.Events[0]
}

// end settles an event, and plans nothing.
func (w *traveller) end(e almanac.Event) {
	settled, err := w.repository.Settle(w.ctx, []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(w.now)}})
	require.NoError(w, err)
	require.NoError(w, settled[0].Err)
}

// move changes the user's zone, and returns what they are owed.
func (w *traveller) move(to string) []almanac.Event {
	_, err := w.scheduler.UpdateUser(w.ctx, w.id, almanac.ProfileChange{Timezone: &to})
	require.NoError(w, err)
	found, err := w.repository.Find(w.ctx, almanac.InStatus(almanac.Pending), almanac.Page{})
	require.NoError(w, err)
	return found.Events
}

// firstUnused is the answer by looking at each occurrence, one after the other.
func firstUnused(h almanac.EventHandler, u almanac.User, after time.Time, used string) (almanac.Occurrence, error) {
	for {
		o, err := h.Next(u, after)
		if err != nil || o.Key > used {
			return o, err
		}
		r, err := u.Timezone.Resolve(o.Wall, o.Policies)
		if err != nil {
			return o, err
		}
		after = r.Instant
	}
}

// Clocks in Niue show what those of Kiritimati showed 25 hours before, so what was
// used up in the one is ahead in the other: up to 90,000 occurrences.
func TestAMoveWestPassesOverWhatIsUsedUp(t *testing.T) {
	t.Parallel()
	const east, west = "Pacific/Kiritimati", "Pacific/Niue"
	start := instant(t, "2026-11-01T00:00:30Z")
	counted := fmt.Sprintf(";COUNT=%d", 10_000)
	every := cron(t, "* * * * *")
	tests := map[string]struct {
		handler almanac.EventHandler
		ends    bool // before the first occurrence that is not used up
	}{
		"cron, every minute":         {handler: recurringBy(every)},
		"cron, every second":         {handler: recurringBy(cron(t, "* * * * * *"))},
		"RRULE, every minute":        {handler: recurringBy(rrule(t, "FREQ=MINUTELY", "2026-01-01T00:00:00"))},
		"RRULE, every second":        {handler: recurringBy(rrule(t, "FREQ=SECONDLY", "2026-10-01T00:00:00"))},
		"RRULE, counted minutes":     {handler: recurringBy(rrule(t, "FREQ=MINUTELY"+counted, "2026-11-01T00:00:00"))},
		"RRULE, until a minute":      {handler: recurringBy(rrule(t, "FREQ=MINUTELY;UNTIL=20261101T140100", "2026-11-01T00:00:00")), ends: true},
		"bounded, every minute":      {handler: recurringBy(almanac.Bounded{Rule: every, End: wall(t, "2026-11-01T14:01:00")}), ends: true},
		"bounded, with exceptions":   {handler: recurringBy(almanac.Bounded{Rule: every, Except: []almanac.WallTime{wall(t, "2026-11-01T14:02:00")}})},
		"the host's, every second":   {handler: ticker{each: 1}},
		"the host's, every minute":   {handler: ticker{each: 60}},
		"the host's, until a minute": {handler: ticker{each: 60, last: instant(t, "2026-11-01T14:01:00Z").Unix()}, ends: true},
		"every hour":                 {handler: recurringBy(cron(t, "0 * * * *"))},
		"every day":                  {handler: recurringBy(almanac.Daily{At: almanac.Clock{Hour: 14, Minute: 1}})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(t *testing.T, w *traveller, used string, owed []almanac.Event) {
				t.Helper()
				u, err := w.repository.User(t.Context(), w.id)
				require.NoError(t, err)
				want, err := firstUnused(tt.handler, u, w.now, used)
				if tt.ends {
					require.ErrorIs(t, err, almanac.ErrNoOccurrence)
					require.Empty(t, owed)
					return
				}
				require.NoError(t, err)
				require.Len(t, owed, 1)
				require.Equal(t, want.Key, owed[0].OccurrenceKey)
				require.Equal(t, want.Wall, owed[0].Wall)
			}
			t.Run("after it has ended", func(t *testing.T) {
				t.Parallel()
				w := travel(t, tt.handler, east, start)
				done := w.claim()
				w.end(done)
				check(t, w, done.OccurrenceKey, w.move(west))
			})
			t.Run("while it is ahead", func(t *testing.T) {
				t.Parallel()
				w := travel(t, tt.handler, east, start)
				done := w.claim()
				w.end(done)
				_, err := w.scheduler.Schedule(t.Context(), w.id, "TICK")
				if tt.ends {
					require.ErrorIs(t, err, almanac.ErrNoOccurrence)
				} else {
					require.NoError(t, err)
				}
				check(t, w, done.OccurrenceKey, w.move(west))
			})
		})
	}
}

// What is in flight during the move is followed by the next that is not used up.
func TestAMoveWestInFlightPassesOverWhatIsUsedUp(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]almanac.EventHandler{
		"cron, every second": recurringBy(cron(t, "* * * * * *")),
		"cron, every minute": recurringBy(cron(t, "* * * * *")),
		"the host's":         ticker{each: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := openOn(almanactest.NewRepository(nil))
				begun, finish := make(chan almanac.Event), make(chan struct{})
				deliver := func(_ context.Context, d almanac.Delivery) error {
					begun <- d.Event
					<-finish
					return nil
				}
				s := w.run(t, handler, almanac.WithWorkers(1), almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(deliver)))
				e, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-15", Timezone: "Pacific/Kiritimati"})
				require.NoError(t, err)
				done := <-begun
				_, err = s.UpdateUser(t.Context(), e.User.ID, almanac.ProfileChange{Timezone: new("Pacific/Niue")})
				require.NoError(t, err)
				close(finish)
				w.await(t, almanac.EventCompleted)
				next := w.await(t, almanac.EventCreated)
				require.NoError(t, w.stop())

				u, err := w.store.User(t.Context(), e.User.ID)
				require.NoError(t, err)
				want, err := firstUnused(handler, u, done.Due, done.OccurrenceKey)
				require.NoError(t, err)
				require.Equal(t, want.Key, next.OccurrenceKey)
			})
		})
	}
}

// However far apart zones are and however often a rule comes round, what is found is
// what looking at every occurrence would find.
func TestTheFirstUnusedOccurrenceIsFoundWithoutCounting(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSeries(t)
		if s.change.Year() < 1991 { // before anybody here was born
			return
		}
		from := rapid.SampledFrom(farZones).Draw(t, "from")
		every := rapid.SampledFrom([]int64{1, 7, 60, 3599, 3600, 86400}).Draw(t, "seconds")
		handler := rapid.SampledFrom([]almanac.EventHandler{
			recurringBy(s.rule), ticker{each: every}, ticker{each: every, last: s.change.Add(12 * time.Hour).Unix()},
		}).Draw(t, "handler")
		at := s.change.Add(time.Duration(rapid.IntRange(-40*3600, 40*3600).Draw(t, "start")) * time.Second)
		w := travel(t, handler, from, at)
		if _, known, err := w.repository.Until(t.Context(), []string{"TICK"}, time.Time{}); err != nil || !known {
			return
		}
		done := w.claim()
		w.end(done)

		owed := w.move(s.zone.String())

		u, err := w.repository.User(t.Context(), w.id)
		require.NoError(t, err)
		want, err := firstUnused(handler, u, w.now, done.OccurrenceKey)
		if errors.Is(err, almanac.ErrNoOccurrence) {
			require.Empty(t, owed)
			return
		}
		require.NoError(t, err)
		require.Len(t, owed, 1)
		require.Equal(t, want.Key, owed[0].OccurrenceKey)
	})
}
