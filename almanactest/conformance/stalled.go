package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// stalledCases check the series whose next event is still to be planned.
var stalledCases = cases{
	"Stalled/keeps a series whose successor could not be planned": func(k *kit) {
		for _, outcome := range []almanac.Outcome{almanac.Delivered(k.now), almanac.GaveUp("HTTP 404"), almanac.CalledOff("not owed")} {
			claimed := k.newClaimed(almanactest.OfSeries("a", "2027"))
			got := k.settle(almanac.Settlement{Event: claimed, Outcome: outcome, Next: unable})
			k.is(got.PlanErr, errPlan)
			if got.Stalled == nil {
				k.Fatalf("the series has not stalled after %s", outcome.Status)
			}
			s := *got.Stalled
			k.same("series", []any{s.UserID, s.Series, s.Due, s.Error, s.Failures}, []any{claimed.UserID, birthdays("a"), claimed.Due, errPlan.Error(), 1})
			k.same("next attempt", s.RetryAt.After(s.Since), true)
			k.stalls(claimed.UserID, s)
			k.same("before the next attempt", k.succeed(claimed.Type, nil, nil), almanac.AddEventsResult{})
		}
		all := must(k.r.Stalled(k.Context(), uuid.Nil, 2))(k)
		k.same("up to the limit", len(all), 2)
		_, err := k.r.Stalled(k.Context(), uuid.Nil, 1001)
		k.is(err, almanac.ErrInvalid)
	},
	"Stalled/leaves out series that ended or go on": func(k *kit) {
		ended, goes := k.newEvent(almanactest.OfSeries("a", "2027")), k.newEvent(almanactest.OfSeries("a", "2027"))
		for _, e := range k.claim(2) {
			next := unable
			if e.UserID == ended.UserID {
				next = func(almanac.User, time.Time) (almanac.Event, error) { return almanac.Event{}, calendar.ErrNoOccurrence }
			}
			k.settle(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now), Next: next})
		}
		k.stalls(ended.UserID)
		k.apply(goes.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{New: []almanac.Event{k.event(r.User, almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))}}, nil
		})
		k.stalls(goes.UserID)
	},
	"Stalled/is over when the next event is stored, and with the user": func(k *kit) {
		next, erased := k.newEvent(almanactest.OfSeries("a", "2027")), k.newEvent(almanactest.OfSeries("b", "2027"))
		k.unplanned(next)
		k.unplanned(erased)
		before := must(k.r.Stalled(k.Context(), next.UserID, 0))(k)
		k.same("left to another program", []any{len(before), before[0].Error, before[0].Failures, before[0].RetryAt.After(before[0].Since)}, []any{1, "", 0, false})
		k.deleteUser(erased.UserID)
		k.stalls(erased.UserID)
		again := before[0]
		again.Error, again.Failures, again.RetryAt = "no plan", 1, k.now
		used := map[almanac.Series]string{birthdays("a"): "2027"}
		k.succeed(next.Type, used, func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			return nil, []almanac.StalledSeries{again}, nil
		})
		k.stalls(next.UserID, again)
		k.succeed(next.Type, used, func(u almanac.User, now time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			return []almanac.Event{almanactest.Event(now, almanactest.For(u), almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))}, nil, nil
		})
		k.stalls(next.UserID)
	},
}

// unable is the Next of a settlement whose handler fails.
func unable(almanac.User, time.Time) (almanac.Event, error) { return almanac.Event{}, errPlan }

// stalls checks which series of a user have stalled. Times are compared as they are stored.
func (k *kit) stalls(user uuid.UUID, want ...almanac.StalledSeries) {
	k.Helper()
	got := must(k.r.Stalled(k.Context(), user, 0))(k)
	k.same("stalled series", len(got), len(want))
	for i := range want {
		if d := got[i].RetryAt.Sub(want[i].RetryAt).Abs() + got[i].Since.Sub(want[i].Since).Abs(); d > 10*time.Microsecond {
			k.Errorf("stalled %+v, want %+v", got[i], want[i])
		}
		got[i].RetryAt, got[i].Since = want[i].RetryAt, want[i].Since
	}
	if len(want) > 0 {
		k.same("stalled", got, want)
	}
}
