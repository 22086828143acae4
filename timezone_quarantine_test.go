package almanac_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// held is a program whose zone data is newer than that of the database. It was begun by the data in older.
type held struct {
	*world
	older *calendar.ZoneData
	daily []almanac.Event // of three users
}

// holding returns a world whose events follow the older rules of Beirut.
func holding(t *testing.T, r almanac.Repository) held {
	t.Helper()
	h := held{world: openOn(r), older: rulesOf(t, "2001a", beirutAllSummer)}
	s := h.scheduler(t, almanac.Birthday{})
	for _, birth := range []string{"1990-01-15", "1990-01-16", "1990-01-14", "1990-06-15"} {
		h.daily = append(h.daily, enrol(t, s, "Asia/Beirut", birth))
	}
	_, err := s.Reconcile(t.Context(), almanac.ReconcileOptions{Data: h.older, Trust: true})
	require.NoError(t, err)
	return h
}

// offsets returns how much later than by the older rules the events of winter are, in hours.
func (h held) offsets(t *testing.T) (all []int) {
	t.Helper()
	for _, e := range h.daily[:3] {
		all = append(all, int(h.event(t, e).Due.Sub(e.Due)/time.Hour)+1)
	}
	return all
}

func (h held) pass(t *testing.T, options ...almanac.Option) {
	t.Helper()
	_, err := h.scheduler(t, almanac.Birthday{}, options...).RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err)
}

func (w *world) quarantines(t *testing.T) []almanac.Quarantine {
	t.Helper()
	book, err := w.store.ZoneRules(t.Context())
	require.NoError(t, err)
	return book.Quarantines
}

var (
	stay  = []int{0, 0, 0}
	moved = []int{1, 1, 1}
)

// Newer zone rules that move too many events, or one by too much, wait in all programs until an operator accepts them.
func TestZoneRulesWaitForAnOperator(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		for limit, option := range map[string]almanac.Option{
			"number": almanac.WithQuarantine(2, 24*time.Hour), "time": almanac.WithQuarantine(100, 59*time.Minute),
			"any": almanac.WithQuarantine(0, 24*time.Hour), "any time": almanac.WithQuarantine(100, 0),
		} {
			t.Run(where+", by "+limit, func(t *testing.T) {
				t.Parallel()
				h := holding(t, repository(t))
				require.Equal(t, stay, h.offsets(t))
				h.pass(t, option)
				require.Equal(t, stay, h.offsets(t))
				waiting := h.quarantines(t)
				require.Len(t, waiting, 1)
				first := h.event(t, h.daily[2])
				want := almanac.Quarantine{
					Name: "Asia/Beirut", Release: waiting[0].Release, Events: 3, Largest: time.Hour,
					First: first.Wall, FirstAt: first.Due, Since: waiting[0].Since,
				}
				require.Equal(t, want, waiting[0])
				require.True(t, waiting[0].Waits())

				h.pass(t) // a program without the option
				h.pass(t, option)
				require.Equal(t, []almanac.Quarantine{want}, h.quarantines(t))
				require.Equal(t, stay, h.offsets(t))
				name := "Augusta"
				_, err := h.scheduler(t, almanac.Birthday{}, option).UpdateUser(t.Context(), h.daily[0].UserID, almanac.ProfileChange{FirstName: &name})
				require.NoError(t, err)
				require.Equal(t, stay, h.offsets(t), "after an edit")

				operator := h.scheduler(t, almanac.Birthday{}, option)
				dry, err := operator.Reconcile(t.Context(), almanac.ReconcileOptions{DryRun: true})
				require.NoError(t, err)
				require.Equal(t, 3, dry.Moved())
				require.Equal(t, []almanac.Quarantine{want}, h.quarantines(t))
				done, err := operator.Reconcile(almanac.WithPrincipal(t.Context(), "grace"), almanac.ReconcileOptions{Reason: "it is law"})
				require.NoError(t, err)
				require.Equal(t, 3, done.Moved())
				require.Equal(t, moved, h.offsets(t))
				h.pass(t, option)
				answered := h.quarantines(t)
				require.Len(t, answered, 1)
				want.AnsweredAt, want.Accepted, want.Author, want.Reason = answered[0].AnsweredAt, true, "grace", "it is law"
				require.Equal(t, want, answered[0])
				require.False(t, answered[0].Waits())
			})
		}
	}
}

func TestZoneRulesWithinTheLimitsDoNotWait(t *testing.T) {
	t.Parallel()
	h := holding(t, almanactest.NewRepository(nil))
	h.pass(t, almanac.WithQuarantine(3, time.Hour))
	require.Equal(t, moved, h.offsets(t))
	require.Empty(t, h.quarantines(t))
}

// An operator refuses a release by trusting the rules that the database follows. A program that still has the release
// asks again.
func TestAnOperatorRefusesARelease(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			h := holding(t, repository(t))
			few := almanac.WithQuarantine(2, 24*time.Hour)
			h.pass(t, few)
			operator := h.scheduler(t, almanac.Birthday{}, few)
			since := h.quarantines(t)[0].Since

			// What a program with the release plans meanwhile follows the release, until a program with the older rules sees it.
			planned := enrol(t, operator, "Asia/Beirut", "1990-01-17")
			require.Len(t, h.marks(t), 1)
			h.pass(t, few)
			require.Equal(t, planned.Due, h.event(t, planned).Due)
			require.Len(t, h.marks(t), 1)
			_, err := operator.Reconcile(t.Context(), almanac.ReconcileOptions{Data: h.older})
			require.NoError(t, err)
			require.Equal(t, planned.Due.Add(-time.Hour), h.event(t, planned).Due)
			require.Empty(t, h.marks(t))
			require.True(t, h.quarantines(t)[0].Waits(), "older rules are no answer")

			_, err = operator.Reconcile(almanac.WithPrincipal(t.Context(), "grace"), almanac.ReconcileOptions{Data: h.older, Trust: true, Reason: "there is no law"})
			require.NoError(t, err)
			refused := h.quarantines(t)[0]
			require.False(t, refused.Waits())
			require.Equal(t, []any{false, "grace", "there is no law", since}, []any{refused.Accepted, refused.Author, refused.Reason, refused.Since})
			h.pass(t, few)
			again := h.quarantines(t)
			require.Len(t, again, 1)
			require.True(t, again[0].Waits())
			require.Equal(t, 4, again[0].Events)
			require.Equal(t, stay, h.offsets(t))
		})
	}
}

// What an operator refused is not followed by a program whose limits it keeps, or that has none.
func TestARefusalHoldsInAllPrograms(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			h := holding(t, repository(t))
			h.pass(t, almanac.WithQuarantine(2, 24*time.Hour))
			trusting := almanac.ReconcileOptions{Data: h.older, Trust: true, Reason: "there is no law"}
			_, err := h.scheduler(t, almanac.Birthday{}).Reconcile(t.Context(), trusting)
			require.NoError(t, err)
			refused := h.quarantines(t)
			require.False(t, refused[0].Waits())
			h.pass(t, almanac.WithQuarantine(1000, 24*time.Hour))
			enrol(t, h.scheduler(t, almanac.Birthday{}), "Asia/Beirut", "1990-01-17") // leaves a mark
			require.Len(t, h.marks(t), 1)
			h.pass(t)
			require.Equal(t, stay, h.offsets(t))
			require.Equal(t, refused, h.quarantines(t))
			require.Equal(t, moved, h.accepted(t))
		})
	}
}

// The limits of one program are stored, and hold in programs without the option.
func TestStoredLimitsHoldInProgramsWithoutTheOption(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := repository(t)
			_, err := with(t, r, almanac.Birthday{}, almanac.WithQuarantine(2, 24*time.Hour)).RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
			h := holding(t, r)
			enrol(t, h.scheduler(t, almanac.Birthday{}), "Asia/Beirut", "1990-01-17") // leaves a mark
			h.pass(t)
			require.Equal(t, stay, h.offsets(t))
			require.Len(t, h.quarantines(t), 1)
			require.True(t, h.quarantines(t)[0].Waits())
			require.Equal(t, moved, h.accepted(t))
		})
	}
}

// accepted returns the offsets when an operator has accepted the release.
func (h held) accepted(t *testing.T) []int {
	t.Helper()
	_, err := h.scheduler(t, almanac.Birthday{}).Reconcile(t.Context(), almanac.ReconcileOptions{})
	require.NoError(t, err)
	return h.offsets(t)
}

// unstored fails before it stores anything.
type unstored struct{ almanac.Repository }

func (unstored) EditZoneRules(context.Context, func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	return errKilled
}

// A program that is killed after it has counted leaves nothing. Of several that count at once, one asks.
func TestAReleaseWaitsOnce(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			h := holding(t, repository(t))
			few := almanac.WithQuarantine(2, 24*time.Hour)
			_, err := with(t, unstored{h.store}, almanac.Birthday{}, few).RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.ErrorIs(t, err, errKilled)
			require.Empty(t, h.quarantines(t))
			require.Equal(t, stay, h.offsets(t))

			var group sync.WaitGroup
			for range 4 {
				s := h.scheduler(t, almanac.Birthday{}, few)
				group.Go(func() {
					_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
					require.NoError(t, err)
				})
			}
			group.Wait()
			require.Len(t, h.quarantines(t), 1)
			require.Equal(t, stay, h.offsets(t))
		})
	}
}

// A release that waits is compared once an hour, although the programs that have it mark what they plan.
func TestAReleaseThatWaitsIsComparedOnceAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := &edits{Repository: almanactest.NewRepository(nil)}
		h := holding(t, repository)
		few := almanac.WithQuarantine(2, 24*time.Hour)
		h.run(t, almanac.Birthday{}, few)
		time.Sleep(30 * time.Hour)
		require.True(t, h.quarantines(t)[0].Waits())
		enrol(t, h.scheduler(t, almanac.Birthday{}, few), "Asia/Beirut", "1990-01-17")
		before := repository.n.Load()
		time.Sleep(10 * time.Hour)
		require.LessOrEqual(t, repository.n.Load()-before, int64(22), "two of each comparison")
		require.Len(t, h.marks(t), 1)
		require.Equal(t, stay, h.offsets(t))
		require.NoError(t, h.stop())
	})
}

func TestAReleaseOfACalendarWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := repository(t)
			now, err := r.Now(t.Context())
			require.NoError(t, err)
			w, zones := openOn(r), rulesOf(t, "2026a", beirutAsItIs)
			daily := onWorkDays(calendar.Daily{At: atNine}, calendar.SkipDay)
			few := almanac.WithQuarantine(2, 365*24*time.Hour)
			program := func(release string, holidays ...string) almanac.Scheduler {
				c := land(t, release, holidays...)
				return with(t, r, office(c, daily(c)), few)
			}
			pass := func(s almanac.Scheduler) {
				t.Helper()
				_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
				require.NoError(t, err)
			}
			older, newer := program("2026-11-01"), program("2026-12-01", daysFrom(now, 28)...)
			follow(t, older, zones)
			for range 3 {
				_, err := older.CreateUser(t.Context(), inLondon)
				require.NoError(t, err)
			}
			was := pendingOf(t, r)
			users, err := r.Find(t.Context(), nil, almanac.Page{})
			require.NoError(t, err)
			edit := func(s almanac.Scheduler) {
				t.Helper()
				name := "Augusta" + time.Now().String()[20:26]
				_, err := s.UpdateUser(t.Context(), users.Items[0].UserID, almanac.ProfileChange{FirstName: &name})
				require.NoError(t, err)
				require.Equal(t, was, pendingOf(t, r), "after an edit")
			}

			edit(newer) // before it counts
			pass(newer)
			edit(newer)
			edit(older)
			require.Equal(t, was, pendingOf(t, r))
			waiting := w.quarantines(t)
			require.Len(t, waiting, 1)
			one := waiting[0]
			require.Equal(t, []any{"LAND", true, "2026-12-01", 6, users.Items[0].Wall, users.Items[0].Due}, []any{one.Name, one.Calendar, one.Release, one.Events, one.First, one.FirstAt},
				"three are removed, and three added")
			pass(newer)
			require.Equal(t, waiting, w.quarantines(t))

			// A later release is counted anew. It may be within the limits.
			pass(program("2026-12-02", daysFrom(now, 29)...))
			require.Equal(t, "2026-12-02", w.quarantines(t)[0].Release)
			require.Equal(t, was, pendingOf(t, r))
			_, err = newer.CreateUser(t.Context(), inLondon) // planned by its own release
			require.NoError(t, err)
			final := program("2026-12-03")
			pass(final)
			require.False(t, w.quarantines(t)[0].Waits())
			require.Equal(t, "the database follows release 2026-12-03", w.quarantines(t)[0].Reason)
			require.Equal(t, append(was, was[0]), pendingOf(t, r), "also what the newer one planned meanwhile")

			last := program("2026-12-04", daysFrom(now, 28)...)
			pass(last)
			require.True(t, w.quarantines(t)[0].Waits())
			done, err := last.Reconcile(almanac.WithPrincipal(t.Context(), "grace"), almanac.ReconcileOptions{Data: zones})
			require.NoError(t, err)
			require.Equal(t, []int{4, 4}, []int{done.Calendars[0].Removed, done.Calendars[0].Added})
			require.True(t, w.quarantines(t)[0].Accepted)
			require.NotContains(t, pendingOf(t, r), was[0])
		})
	}
}

// mortal is the repository of a program that is killed before or after a call.
type mortal struct {
	almanac.Repository
	left  int // calls until then
	after bool
}

func (d *mortal) call(do func() error) error {
	if d.left--; d.left < 0 || d.left == 0 && !d.after {
		return errKilled
	}
	err := do()
	if d.left == 0 {
		return errKilled
	}
	return err
}

func (d *mortal) ZoneRules(ctx context.Context) (book almanac.ZoneBook, err error) {
	err = d.call(func() error { book, err = d.Repository.ZoneRules(ctx); return err })
	return book, err
}

func (d *mortal) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	return d.call(func() error { return d.Repository.EditZoneRules(ctx, edit) })
}

func (d *mortal) PutSetting(ctx context.Context, s almanac.Setting) error {
	return d.call(func() error { return d.Repository.PutSetting(ctx, s) })
}

func (d *mortal) MoveEvents(ctx context.Context, events []almanac.Event) (moved []almanac.Event, err error) {
	err = d.call(func() error { moved, err = d.Repository.MoveEvents(ctx, events); return err })
	return moved, err
}

// Wherever programs with and without the option are killed, no event follows a release before an operator accepts it.
func TestAReleaseWaitsWhereverProgramsAreKilled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := almanactest.NewRepository(nil)
		few := almanac.WithQuarantine(2, 24*time.Hour)
		_, err := with(t, r, almanac.Birthday{}, few).RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.NoError(rt, err)
		h := holding(t, r)
		for range rapid.IntRange(1, 6).Draw(rt, "programs") {
			var options []almanac.Option
			if rapid.Bool().Draw(rt, "has the option") {
				options = append(options, few)
			}
			if rapid.Bool().Draw(rt, "refuses") {
				_, err := h.scheduler(t, almanac.Birthday{}).Reconcile(t.Context(), almanac.ReconcileOptions{Data: h.older, Trust: true})
				require.NoError(rt, err)
			}
			if rapid.Bool().Draw(rt, "plans") {
				enrol(t, h.scheduler(t, almanac.Birthday{}), "Asia/Beirut", "1990-01-17") // leaves a mark
			}
			program := &mortal{r, rapid.IntRange(0, 12).Draw(rt, "calls"), rapid.Bool().Draw(rt, "after it")}
			_, err := with(t, program, almanac.Birthday{}, options...).RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.True(rt, err == nil || errors.Is(err, errKilled), err)
			require.Equal(rt, stay, h.offsets(t))
		}
		require.Equal(rt, moved, h.accepted(t))
	})
}

// tenSeconds needs ten seconds for each page of events.
type tenSeconds struct{ almanac.Repository }

func (r tenSeconds) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
		return almanac.List[almanac.Event]{}, ctx.Err()
	}
	return r.Repository.Find(ctx, spec, page)
}

// A host that only makes passes, which are too short for the count, asks an operator instead of counting forever.
func TestAReleaseThatCannotBeCountedInAPassWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := almanactest.NewRepository(nil)
		h := holding(t, r)
		many := almanac.WithQuarantine(1000, 24*time.Hour)
		pass := func(within time.Duration) {
			t.Helper()
			_, err := with(t, tenSeconds{r}, almanac.Birthday{}, many).RunOnce(t.Context(), almanac.RunOnceOptions{Within: within})
			require.NoError(t, err)
			require.Equal(t, stay, h.offsets(t))
		}
		pass(time.Minute)
		waiting := h.quarantines(t)
		require.NotEmpty(t, waiting)
		require.True(t, waiting[0].Waits())
		require.Equal(t, "Asia/Beirut", waiting[0].Name)
		pass(time.Minute)
		require.Equal(t, waiting, h.quarantines(t))
	})
}
