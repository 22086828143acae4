package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/ops"
)

// spying notes by which rules what follows an event was planned.
type spying struct {
	almanac.Repository
	planned []*calendar.ZoneRules
}

func (r *spying) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.SettleResult, error) {
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
		silent bool // no process has read the rules for long
		marked bool
	}{
		"by the same rules":     {},
		"by older rules":        {adopt: true, marked: true},
		"by an unknown version": {silent: true, marked: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				spy := &spying{Repository: almanactest.NewRepository(nil)}
				w := openOn(spy)
				daily := almanac.Recurring{Type: "TICK", Rule: func(almanac.User) (calendar.Recurrence, error) { return calendar.Daily{}, nil }}
				planner := w.scheduler(t, daily)
				_, err := planner.CreateUser(t.Context(), inBeirut)
				require.NoError(t, err)
				if tt.adopt {
					_, err := planner.Reconcile(t.Context(), newest(t))
					require.NoError(t, err)
				}
				sweep := time.Minute
				if tt.silent {
					sweep = 48 * time.Hour // give or take a fifth: no task reads the rules after the start
				}
				w.run(t, daily, almanac.WithSweep(sweep), almanac.WithZoneCheck(48*time.Hour), almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(
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
	e, err := almanac.NewEvent(u, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
	require.NoError(t, err)
	e.Due = e.Due.Add(time.Hour)
	e.AvailableAt = e.Due
	e.PlannedBy = &calendar.ZoneRules{Zone: beirut, Fingerprint: 42, Since: now.Year(), Version: version}
	_, stored, err := almanactest.CreateUser(t.Context(), w.store, u, e)
	require.NoError(t, err)
	return stored[0]
}

// Marks are looked at within minutes, and need not wait for the next check.
func TestRunChecksZoneMarksSoon(t *testing.T) {
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

// A mark of a zone for which no program has data stays. It causes no check each minute.
func TestMarksOfZonesWithoutDataCauseNoChecks(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"No/Where", "europe/berlin"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				repository := &edits{Repository: almanactest.NewRepository(nil)}
				w := openOn(repository)
				e := byOther(t, w, "2000a")
				w.run(t, almanac.Birthday{}, almanac.WithZoneCheck(30*24*time.Hour))
				time.Sleep(3 * time.Hour) // the doubts of the beginning are over
				require.Empty(t, w.marks(t))
				e.ID, e.OccurrenceKey = uuid.New(), "2099"
				e.PlannedBy = &calendar.ZoneRules{Zone: zone, Fingerprint: 42, Since: 2026, Version: "2099a"}
				u, err := almanac.NewUser(inBeirut, e.CreatedAt)
				require.NoError(t, err)
				e.UserID = u.ID
				_, _, err = almanactest.CreateUser(t.Context(), w.store, u, e)
				require.NoError(t, err)
				require.Len(t, w.marks(t), 1)
				before := repository.n.Load()

				time.Sleep(time.Hour)

				require.Equal(t, before, repository.n.Load(), "edits of zone rules")
				require.Len(t, w.marks(t), 1, "for a program with the data")
				require.NoError(t, w.stop())
			})
		})
	}
}

func (w *world) marks(t *testing.T) []calendar.ZoneRules {
	t.Helper()
	book, err := w.store.ZoneRules(t.Context())
	require.NoError(t, err)
	return book.Marks
}

// edits counts the edits of zone rules.
type edits struct {
	almanac.Repository
	n atomic.Int64
}

func (r *edits) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	r.n.Add(1)
	return r.Repository.EditZoneRules(ctx, edit)
}

// A program that only plans may have the newest rules. What it plans stays, though all
// who compare rules have older ones.
func TestProgramsKeepRulesThatOnlyAPlannerHas(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			s := w.scheduler(t, almanac.Birthday{})
			_, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{}) // in doubt for an hour
			require.NoError(t, err)
			newer := byOther(t, w, "2099b")
			for range 2 {
				got, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{})
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

func (r *interrupted) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	r.before()
	return r.Repository.CreateUsers(ctx, users)
}

// Between reading the rules and storing what was planned by them, a newer program
// brings others, and has looked at everything. It looks again when the grace is over.
func TestRulesThatChangeDuringPlanning(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"where there were others": true, "where there were none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
			r := &interrupted{Repository: almanactest.NewRepository(func() time.Time { return now })}
			w := openOn(r)
			s := w.scheduler(t, almanac.Birthday{})
			if known {
				_, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{})
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
			require.Empty(t, book.Marks, "no process knew the new rules")
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

// An event that was locked during the last search is examined once more.
func TestAnIncompleteCheckDoesNotEndARecheck(t *testing.T) {
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

// These tests are those of a program whose own zone data are older than what a
// database follows: there Beirut has summer time all the year.
const beirut = "Asia/Beirut"

func newest(t *testing.T) almanac.ReconcileOptions {
	return almanac.ReconcileOptions{Data: rulesOf(t, "2099b", beirutAllSummer)}
}

// adopt has a repository follow the newest rules, without a doubt left.
func (w *world) adopt(t *testing.T, s almanac.Scheduler) {
	t.Helper()
	_, err := s.Reconcile(t.Context(), newest(t))
	require.NoError(t, err)
	w.endDoubts(t)
}

func (w *world) endDoubts(t *testing.T) {
	t.Helper()
	require.NoError(t, w.store.EditZoneRules(t.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
		for i := range book.Rules {
			book.Rules[i].Recheck = time.Time{}
		}
		return almanac.ZoneBook{Rules: book.Rules}, nil
	}))
}

// inStep checks that the one pending event of Beirut follows the newest rules once they
// were compared.
func (w *world) inStep(t *testing.T, s almanac.Scheduler) {
	t.Helper()
	_, err := s.Reconcile(t.Context(), newest(t))
	require.NoError(t, err)
	found, err := w.store.Find(t.Context(), almanac.And{almanac.InStatus(almanac.Pending), almanac.InZone{beirut}}, almanac.Page{})
	require.NoError(t, err)
	require.NotEmpty(t, found.Items)
	for _, e := range found.Items {
		require.Equal(t, e.Wall.Labelled().Add(-3*time.Hour), e.Due, "of %s %s", e.Type, e.OccurrenceKey)
	}
}

var inBeirut = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-15", Timezone: beirut}

// What an older program plans by its own rules, a newer one moves when it looks next,
// though nothing was in doubt and the older one has compared nothing.
func TestEventsPlannedByOlderRulesAreChecked(t *testing.T) {
	t.Parallel()
	create := func(p almanac.Profile) func(*testing.T, almanac.Scheduler) uuid.UUID {
		return func(t *testing.T, s almanac.Scheduler) uuid.UUID {
			e, err := s.CreateUser(t.Context(), p)
			require.NoError(t, err)
			return e.User.ID
		}
	}
	elsewhere := inBeirut
	elsewhere.Timezone = "Europe/Berlin"
	tests := map[string]struct {
		before func(*testing.T, almanac.Scheduler) uuid.UUID
		plan   func(*testing.T, almanac.Scheduler, uuid.UUID)
	}{
		"created": {plan: func(t *testing.T, s almanac.Scheduler, _ uuid.UUID) { create(inBeirut)(t, s) }},
		"enrolled": {plan: func(t *testing.T, s almanac.Scheduler, _ uuid.UUID) {
			_, err := s.CreateUsers(t.Context(), func(yield func(almanac.Profile, error) bool) { yield(inBeirut, nil) }, almanac.CreateUsersOptions{})
			require.NoError(t, err)
		}},
		"moved there": {before: create(elsewhere), plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{Timezone: new(beirut)})
			require.NoError(t, err)
		}},
		"born on another day": {before: create(inBeirut), plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{DateOfBirth: new("1990-02-15")})
			require.NoError(t, err)
		}},
		"cancelled, and followed": {before: create(inBeirut), plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
			done, err := ops.Operate(t.Context(), s, ops.Cancel, almanac.ForUser(id), ops.OperateOptions{})
			require.NoError(t, err)
			require.Len(t, done.Events, 1)
		}},
		"scheduled anew": {
			before: create(inBeirut),
			plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
				_, err := ops.Operate(t.Context(), s, ops.Cancel, almanac.ForUser(id), ops.OperateOptions{Cancel: almanac.CancelOptions{EndSeries: true}})
				require.NoError(t, err)
				_, err = s.Schedule(t.Context(), id, almanac.TypeBirthday)
				require.NoError(t, err)
			},
		},
		"backfilled": {
			before: create(inBeirut),
			plan: func(t *testing.T, s almanac.Scheduler, id uuid.UUID) {
				_, err := ops.Operate(t.Context(), s, ops.Cancel, almanac.ForUser(id), ops.OperateOptions{Cancel: almanac.CancelOptions{EndSeries: true}})
				require.NoError(t, err)
				done, err := s.Backfill(t.Context(), almanac.TypeBirthday, almanac.BackfillOptions{})
				require.NoError(t, err)
				require.Equal(t, 1, done.Events)
			},
		},
	}
	for name, tt := range tests {
		for where, repository := range onBoth {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w := openOn(repository(t))
				newer, older := w.scheduler(t, almanac.Birthday{}), w.scheduler(t, almanac.Birthday{})
				var id uuid.UUID
				if tt.before != nil {
					id = tt.before(t, newer)
				}
				w.adopt(t, newer)

				tt.plan(t, older, id)

				w.inStep(t, newer)
			})
		}
	}
}

// What an older program does not plan anew keeps the instant that newer rules gave it.
func TestOlderRulesLeaveInstantsThatTheyDoNotPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*testing.T, almanac.Scheduler, uuid.UUID) error{
		"another first name": func(t *testing.T, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{FirstName: new("Augusta")})
			return err
		},
		"other attributes": func(t *testing.T, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.UpdateUser(t.Context(), id, almanac.ProfileChange{Merge: json.RawMessage(`{"shoes": 39}`)})
			return err
		},
		"rescheduled": func(t *testing.T, s almanac.Scheduler, id uuid.UUID) error {
			_, err := s.Reschedule(t.Context(), id)
			return err
		},
	}
	for name, edit := range tests {
		for where, repository := range onBoth {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				w := openOn(repository(t))
				s := w.scheduler(t, almanac.Birthday{})
				initial := enrol(t, s, beirut, "1990-01-15")
				w.adopt(t, s)
				require.Equal(t, initial.Due.Add(-time.Hour), w.event(t, initial).Due)

				require.NoError(t, edit(t, s, initial.UserID))

				kept := w.event(t, initial)
				require.Equal(t, initial.Due.Add(-time.Hour), kept.Due)
				require.Equal(t, name == "another first name", kept.Version == 3, "where the payload was made anew")
				book, err := w.store.ZoneRules(t.Context())
				require.NoError(t, err)
				require.Empty(t, book.Marks, "nothing was planned")
			})
		}
	}
}

// By the older rules clocks skip the wall time, and the policy with them: an edit of
// something else leaves the occurrence where it is, and a correction moves it.
func TestOlderRulesLeaveEventsThatTheyWouldSkip(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	w := openOn(almanactest.NewRepository(func() time.Time { return now }))
	at := calendar.Clock{Minute: 30} // in 2027 summer time begins on 28 March at midnight, as far as this program knows
	s := w.scheduler(t, almanac.Birthday{At: func(almanac.User) calendar.Clock { return at }, Policies: calendar.Policies{Gap: calendar.GapSkip}})
	initial := enrol(t, s, beirut, "1990-03-29")
	moved := initial
	moved.OccurrenceKey, moved.Wall.Date.Day, moved.Version = "2027", 28, 2 // as a program with the newest rules has it
	moved.Due = moved.Wall.Labelled().Add(-3 * time.Hour)
	moved.AvailableAt = moved.Due
	_, err := w.store.EditUser(t.Context(), initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
		u, err := r.User.Edit(almanac.ProfileChange{DateOfBirth: new("1990-03-28")}, now)
		return almanac.Edit{User: &u, Changed: []almanac.Event{moved}}, err
	})
	require.NoError(t, err)
	w.adopt(t, s)

	_, err = s.UpdateUser(t.Context(), initial.UserID, almanac.ProfileChange{FirstName: new("Augusta")})
	require.NoError(t, err)
	kept := w.event(t, initial)
	require.Equal(t, moved.Wall, kept.Wall)
	require.Equal(t, moved.Due, kept.Due)
	require.Contains(t, string(kept.Payload), "Augusta")

	_, err = s.UpdateUser(t.Context(), initial.UserID, almanac.ProfileChange{DateOfBirth: new("1990-04-15")})
	require.NoError(t, err)
	require.Equal(t, "2027-04-15T00:30:00", w.event(t, initial).Wall.String())
}

// An event that is to run now has an instant, whatever clocks show there by then.
func TestRunNowWithOlderRulesStoresTheTimeInUTC(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			s := w.scheduler(t, almanac.Birthday{})
			initial := enrol(t, s, beirut, "1990-01-15")
			w.adopt(t, s)

			now, err := s.RunNow(t.Context(), initial.ID, almanac.ForceOptions{})
			require.NoError(t, err)

			options := newest(t)
			options.Trust = true
			_, err = s.Reconcile(t.Context(), options)
			require.NoError(t, err)
			require.Equal(t, now.Due, w.event(t, initial).Due)
			_, err = s.Reschedule(t.Context(), initial.UserID)
			require.NoError(t, err)
			back := w.event(t, initial)
			require.Equal(t, beirut, back.Zone, "an edit puts it back")
			require.Equal(t, initial.Wall, back.Wall)
			w.inStep(t, s)
		})
	}
}

// ticker is a handler of the host's own that knows no recurrence: something happens
// at every second whose number since 1970, as clocks show it, is a multiple of each.
type ticker struct {
	each int64
	last int64 // the last second; 0 for none
}

func (t ticker) EventType() string { return "TICK" }

func (t ticker) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	shown := u.Timezone.WallTime(after).Labelled().Unix()
	for {
		next := (shown/t.each + 1) * t.each
		if t.last > 0 && next > t.last {
			return calendar.Occurrence{}, calendar.ErrNoOccurrence
		}
		w := calendar.WallTimeOf(time.Unix(next, 0).UTC())
		r, err := u.Timezone.Resolve(w, calendar.Policies{})
		if err != nil {
			return calendar.Occurrence{}, err
		}
		switch {
		case r.Reading == calendar.ShownNever:
			shown = r.Change.To().Labelled().Unix() - 1
		case !r.Instant.After(after):
			shown = r.Change.From().Labelled().Unix() - 1
		default:
			return calendar.Occurrence{Key: w.String(), Wall: w}, nil
		}
	}
}

func (t ticker) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) {
	return json.RawMessage(`{}`), nil
}

func (t ticker) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

// recurringBy is a ready-made handler for one rule.
func recurringBy(r calendar.Recurrence) almanac.EventHandler {
	return almanac.Recurring{Type: "TICK", Rule: func(almanac.User) (calendar.Recurrence, error) { return r, nil }}
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

// move changes the user's zone, and returns the user's events.
func (w *traveller) move(to string) []almanac.Event {
	_, err := w.scheduler.UpdateUser(w.ctx, w.id, almanac.ProfileChange{Timezone: &to})
	require.NoError(w, err)
	found, err := w.repository.Find(w.ctx, almanac.InStatus(almanac.Pending), almanac.Page{})
	require.NoError(w, err)
	return found.Items
}

// firstUnused is the answer by looking at each occurrence, one after the other.
func firstUnused(h almanac.EventHandler, u almanac.User, after time.Time, used string) (calendar.Occurrence, error) {
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
func TestAMoveWestSkipsUsedOccurrences(t *testing.T) {
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
		"bounded, every minute":      {handler: recurringBy(calendar.Bounded{Rule: every, End: wall(t, "2026-11-01T14:01:00")}), ends: true},
		"bounded, with exceptions":   {handler: recurringBy(calendar.Bounded{Rule: every, Except: []calendar.WallTime{wall(t, "2026-11-01T14:02:00")}})},
		"the host's, every second":   {handler: ticker{each: 1}},
		"the host's, every minute":   {handler: ticker{each: 60}},
		"the host's, until a minute": {handler: ticker{each: 60, last: instant(t, "2026-11-01T14:01:00Z").Unix()}, ends: true},
		"every hour":                 {handler: recurringBy(cron(t, "0 * * * *"))},
		"every day":                  {handler: recurringBy(calendar.Daily{At: calendar.Clock{Hour: 14, Minute: 1}})},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(t *testing.T, w *traveller, used string, initial []almanac.Event) {
				t.Helper()
				u, err := w.repository.User(t.Context(), w.id)
				require.NoError(t, err)
				want, err := firstUnused(tt.handler, u, w.now, used)
				if tt.ends {
					require.ErrorIs(t, err, calendar.ErrNoOccurrence)
					require.Empty(t, initial)
					return
				}
				require.NoError(t, err)
				require.Len(t, initial, 1)
				require.Equal(t, want.Key, initial[0].OccurrenceKey)
				require.Equal(t, want.Wall, initial[0].Wall)
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
					require.ErrorIs(t, err, calendar.ErrNoOccurrence)
				} else {
					require.NoError(t, err)
				}
				check(t, w, done.OccurrenceKey, w.move(west))
			})
		})
	}
}

// What is in flight during the move is followed by the next that is not used up.
func TestAMoveWestInFlightSkipsUsedOccurrences(t *testing.T) {
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
		s := calendartest.DrawCase(t)
		if s.Change.Year() < 1991 { // before the users of these tests were born
			return
		}
		from := rapid.SampledFrom(farZones).Draw(t, "from")
		every := rapid.SampledFrom([]int64{1, 7, 60, 3599, 3600, 86400}).Draw(t, "seconds")
		handler := rapid.SampledFrom([]almanac.EventHandler{
			recurringBy(s.Rule), ticker{each: every}, ticker{each: every, last: s.Change.Add(12 * time.Hour).Unix()},
		}).Draw(t, "handler")
		at := s.Change.Add(time.Duration(rapid.IntRange(-40*3600, 40*3600).Draw(t, "start")) * time.Second)
		w := travel(t, handler, from, at)
		if _, known, err := w.repository.Until(t.Context(), []string{"TICK"}, time.Time{}); err != nil || !known {
			return
		}
		done := w.claim()
		w.end(done)

		initial := w.move(s.Zone.String())

		u, err := w.repository.User(t.Context(), w.id)
		require.NoError(t, err)
		want, err := firstUnused(handler, u, w.now, done.OccurrenceKey)
		if errors.Is(err, calendar.ErrNoOccurrence) {
			require.Empty(t, initial)
			return
		}
		require.NoError(t, err)
		require.Len(t, initial, 1)
		require.Equal(t, want.Key, initial[0].OccurrenceKey)
	})
}
