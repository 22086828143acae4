package conformance

import (
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// unstorableZone is the zone of an event that no repository stores, because it is too long.
var unstorableZone = strings.Repeat("x", 101)

var successorCases = cases{
	"AddSuccessors/plans a missing successor once": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		finished := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.apply(finished.UserID, cancelling)
		k.unplanned(initial)
		k.same("nothing of another type", k.succeed("OTHER", nil, nil), almanac.AddEventsResult{})
		added := k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(u almanac.User, now time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			k.same("user", u.ID, initial.UserID)
			return []almanac.Event{almanactest.Event(now, almanactest.For(u), almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))}, nil, nil
		})
		k.same("users", added.Users, 1)
		k.same("added", len(added.Events), 1)
		k.same("as stored", k.stored(added.Events[0].ID), added.Events[0])
		k.same("again", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
	},
	"AddSuccessors/ends the wait of a series without a next occurrence": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.unplanned(initial)
		k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) { return nil, nil, nil })
		k.same("again", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
	},
	"AddSuccessors/plans again series that could not be planned": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.unplanned(initial)
		for range 2 {
			k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(u almanac.User, _ time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
				return nil, []almanac.StalledSeries{{UserID: u.ID, Series: birthdays("a"), Error: "no plan", Failures: 1}}, nil
			})
		}
		k.is(errorOf(k.r.AddSuccessors(k.Context(), initial.Type, almanac.Page{}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			return nil, nil, errPlan
		})), errPlan)
		k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) { return nil, nil, nil })
	},
	"AddSuccessors/tries again later for a user whose event cannot be stored": func(k *kit) {
		var initial []almanac.Event
		for range 3 {
			e := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
			k.unplanned(e)
			initial = append(initial, e)
		}
		refused := initial[1].UserID
		add := func() almanac.AddEventsResult {
			added := must(k.r.AddSuccessors(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, now time.Time) (events []almanac.Event, _ []almanac.StalledSeries, _ error) {
				for _, one := range users {
					e := almanactest.Event(now, almanactest.For(one.User), almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))
					if one.User.ID == refused {
						e.Zone = unstorableZone
					}
					events = append(events, e)
				}
				return events, nil, nil
			}))(k)
			return added
		}
		added := add()
		k.same("users", added.Users, 3)
		k.same("added", len(added.Events), 2)
		k.same("stalled", len(added.Stalled), 1)
		is := added.Stalled[0]
		k.same("user", is.UserID, refused)
		k.same("failures", is.Failures, 1)
		k.same("has an error", is.Error != "", true)
		stalled := must(k.r.Stalled(k.Context(), uuid.Nil, 0))(k)
		k.same("stored", len(stalled), 1)
		k.same("as stored", stalled[0].Error, is.Error)
		k.same("before the next attempt", add(), almanac.AddEventsResult{})
	},
	"AddSuccessors/skips a series that an edit has continued": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.unplanned(initial)
		edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{New: []almanac.Event{k.event(r.User, almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))}}, nil
		})
		k.same("added", len(edit.New), 1)
		k.same("while it is open", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
		k.apply(initial.UserID, cancelling)
		k.same("finished since", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
	},
	"AddSuccessors/pages through the users and skips deleted ones": func(k *kit) {
		var initial []almanac.Event
		for range 5 {
			e := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
			k.unplanned(e)
			initial = append(initial, e)
		}
		k.deleteUser(initial[2].UserID)
		seen := make(map[uuid.UUID]bool)
		for page := (almanac.Page{Limit: 2}); ; {
			added := must(k.r.AddSuccessors(k.Context(), almanac.TypeBirthday, page, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
				for _, one := range users {
					seen[one.User.ID] = true
				}
				return nil, nil, nil
			}))(k)
			if page.After = added.Next; page.After == "" {
				break
			}
		}
		k.same("users", len(seen), 4)
		k.same("the deleted one", seen[initial[2].UserID], false)
	},
}

var followUpCases = cases{
	"Settle/stores follow-ups besides the successor": func(k *kit) {
		claimed := k.newClaimed()
		follow := func(u almanac.User, now time.Time) ([]almanac.Event, error) {
			return []almanac.Event{
				almanactest.Event(now, almanactest.For(u), almanactest.OfType("QUESTION"), almanactest.Of("gift"), asFollowUp, almanactest.DueIn(time.Hour)),
				almanactest.Event(now, almanactest.For(u), almanactest.OfType("QUESTION"), almanactest.Of("party"), asFollowUp, almanactest.DueIn(time.Hour)),
			}, nil
		}
		s := almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: after(claimed), Follow: follow}
		got := k.stores(s)
		k.same("successor", got.Successor != nil, true)
		k.same("followed", len(got.Followed), 2)
		for _, e := range got.Followed {
			k.same("status", e.Status, almanac.Pending)
		}
		k.settle(s)
		k.same("events after the settlement was repeated", k.count(nil), 4)
	},
	"Settle/stores the outcome when planning the follow-ups fails": func(k *kit) {
		claimed := k.newClaimed()
		refuse := func(almanac.User, time.Time) ([]almanac.Event, error) { return nil, errPlan }
		got := k.stores(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: after(claimed), Follow: refuse})
		k.is(got.FollowErr, errPlan)
		k.same("the series has stalled", got.Stalled != nil, false)
		k.same("status", k.stored(claimed.ID).Status, almanac.Completed)
		k.same("successor", got.Successor != nil, true)
	},
	"Settle/stores no follow-ups for a deleted user": func(k *kit) {
		claimed := k.newClaimed()
		k.deleteUser(claimed.UserID)
		asked := false
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Follow: func(almanac.User, time.Time) ([]almanac.Event, error) {
			asked = true
			return nil, nil
		}})
		k.ok(got.Err)
		k.same("asked what follows", asked, false)
	},
}

// unplanned cancels an event and leaves its successor to another program.
func (k *kit) unplanned(initial almanac.Event) {
	k.Helper()
	edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
		edit, err := cancelling(r)
		edit.Changed[0].Unplanned = true
		return edit, err
	})
	k.same("unplanned, as stored", edit.Changed[0].Unplanned, false)
}

// succeed adds successors of a type. It expects that AddSuccessors asks about one user,
// whose series waits and has the used keys, or about none when used is nil.
func (k *kit) succeed(eventType string, used map[almanac.Series]string, plan func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) almanac.AddEventsResult {
	k.Helper()
	asked := 0
	added := must(k.r.AddSuccessors(k.Context(), eventType, almanac.Page{}, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
		if asked++; used == nil || len(users) != 1 {
			k.Fatalf("%d users have series that wait", len(users))
		}
		k.same("used", keysOf(users[0].Used), used)
		return plan(users[0].User, now)
	}))(k)
	k.same("asked", asked > 0, used != nil)
	return added
}

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
		k.same("up to the limit", len(must(k.r.Stalled(k.Context(), uuid.Nil, 2))(k)), 2)
		k.is(errorOf(k.r.Stalled(k.Context(), uuid.Nil, 1001)), almanac.ErrInvalid)
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
	if _, err := k.r.User(k.Context(), user); errors.Is(err, almanac.ErrNotFound) {
		return
	}
	k.same("stalled, in the roster", lastDue(k.roster(user).Stalled), lastDue(want))
	must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
		for _, one := range users {
			if one.User.ID == user {
				k.same("stalled, for new events", lastDue(one.Stalled), lastDue(want))
			}
		}
		return nil, nil
	}))(k)
}

// lastDue returns when the last event of each stalled series was due.
func lastDue(list []almanac.StalledSeries) map[almanac.Series]time.Time {
	due := make(map[almanac.Series]time.Time)
	for _, s := range list {
		due[s.Series] = s.Due
	}
	return due
}
