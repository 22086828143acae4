package almanactest

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// rosterCases say what an edit is shown, and which edits are refused.
var rosterCases = map[string]func(*kit){
	"EditUser/shows the greatest key of each type that was ever claimed": func(k *kit) {
		u := User()
		owed := []almanac.Event{
			Event(k.now, For(u), Of("2027"), ReadyFor(4*time.Hour)),
			Event(k.now, For(u), Of("2026"), OfType("CLAIMED"), ReadyFor(3*time.Hour)),
			Event(k.now, For(u), Of("9999"), OfType("RELEASED"), ReadyFor(2*time.Hour)),
			Event(k.now, For(u), Of("3000"), OfType("UNCLAIMED")),
		}
		_, _, err := k.r.CreateUser(k.Context(), u, owed...)
		k.ok(err)
		r := request(3)
		r.Types = append(r.Types, "CLAIMED", "RELEASED")
		claim, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		next := Event(k.now, For(u), Of("2029"), DueIn(time.Hour))
		for _, e := range claim.Events { // in every status a claimed event can have
			switch e.OccurrenceKey {
			case "2027":
				k.settle(almanac.Settlement{Event: e, Outcome: almanac.GaveUp("HTTP 404"), Next: planned(next)})
			case "9999":
				k.settle(almanac.Settlement{Event: e, Outcome: almanac.GaveBack(almanac.AfterShutdown, "stop", 0)})
			}
		}
		_, err = k.r.EditUser(k.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			k.same("used", r.Used, map[string][]string{almanac.TypeBirthday: {"2027"}, "CLAIMED": {"2026"}, "RELEASED": {"9999"}})
			k.same("pending", ids(r.Pending), []uuid.UUID{owed[3].ID, next.ID})
			k.same("in flight", ids(r.InFlight), []uuid.UUID{owed[1].ID, owed[2].ID})
			return almanac.Edit{}, nil
		})
		k.ok(err)
	},
	"EditUser/shows the greatest key of each series that was ever claimed": func(k *kit) {
		u := User()
		owed := []almanac.Event{
			Event(k.now, For(u), Of("dentist/2026-05-01"), ReadyFor(4*time.Hour)),
			Event(k.now, For(u), Of("barber/2026-06-01"), ReadyFor(2*time.Hour)),
			Event(k.now, For(u), Of("plumber/2027-01-01"), DueIn(time.Hour)),
		}
		_, _, err := k.r.CreateUser(k.Context(), u, owed...)
		k.ok(err)
		first := k.claim(2)[0]
		next := Event(k.now, For(u), Of("dentist/2026-11-01"), ReadyFor(3*time.Hour))
		k.settle(almanac.Settlement{Event: first, Outcome: almanac.Delivered(k.now), Next: planned(next)})
		k.claim(1)
		_, err = k.r.EditUser(k.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			k.same("used", r.Used, map[string][]string{almanac.TypeBirthday: {"barber/2026-06-01", "dentist/2026-11-01"}})
			return almanac.Edit{}, nil
		})
		k.ok(err)
	},
	"EditUser/answers the error of the edit as it is": func(k *kit) {
		e := k.owe()
		_, err := k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{}, errRefused })
		k.same("error", err == errRefused, true)
	},
	"EditUser/refuses what has moved on": func(k *kit) {
		u := User()
		_, owed, err := k.r.CreateUser(k.Context(), u, Event(k.now, For(u)), Event(k.now, For(u), DueIn(time.Hour)))
		k.ok(err)
		claimed := k.claim(1)[0]
		released := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.GaveBack(almanac.AfterShutdown, "stop", time.Hour)}).Event
		stale, gone := owed[1], Event(k.now, For(u))
		stale.Version++
		for name, wanted := range map[string]almanac.Edit{
			"moved at another version":   {Moved: []almanac.Event{later(stale)}},
			"moved as before its claim":  {Moved: []almanac.Event{later(owed[0])}},
			"moved after its release":    {Moved: []almanac.Event{later(released)}},
			"moved and not there":        {Moved: []almanac.Event{later(gone)}},
			"removed at another version": {Removed: []almanac.Event{stale}},
			"removed after its release":  {Removed: []almanac.Event{released}},
		} {
			_, err := k.r.EditUser(k.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
				changed := r.User
				changed.Version++
				wanted.User, wanted.Added = &changed, []almanac.Event{Event(k.now, For(u))}
				return wanted, nil
			})
			var conflict *almanac.OptimisticLockError
			if !errors.As(err, &conflict) {
				k.Errorf("%s: error = %v, want an *OptimisticLockError", name, err)
			}
		}
		k.same("released", k.stored(released.ID), released)
		k.same("pending", k.stored(owed[1].ID), owed[1])
		user, err := k.r.User(k.Context(), u.ID)
		k.ok(err)
		k.same("version of the user", user.Version, 1)
		n, err := k.r.Count(k.Context(), nil)
		k.ok(err)
		k.same("events", n, 2)
	},
	"EditUser/moves no event onto an occurrence that is used up, or into another series": func(k *kit) {
		e := k.owe(Of("2026"))
		next := Event(k.now, DueIn(time.Hour), Of("2027"))
		next.UserID = e.UserID
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: planned(next)})
		next = k.stored(next.ID)
		for _, key := range []string{"2026", "2025", "dentist/2028"} {
			_, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
				moved := later(r.Pending[0])
				moved.OccurrenceKey = key
				return almanac.Edit{Moved: []almanac.Event{moved}}, nil
			})
			if err == nil {
				k.Errorf("moved onto %q, after 2026", key)
			}
		}
		k.same("event", k.stored(next.ID), next)
	},
	"Settle/plans from the user as stored then": func(k *kit) {
		owed := k.owe()
		claimed := k.claim(1)[0]
		_, err := k.r.EditUser(k.Context(), owed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			changed := User(LivingIn("Asia/Tokyo"), Named("Grace", "Hopper"))
			changed.ID, changed.Version = r.User.ID, r.User.Version+1
			return almanac.Edit{User: &changed}, nil
		})
		k.ok(err)
		user, err := k.r.User(k.Context(), owed.UserID)
		k.ok(err)
		var planned almanac.User
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(k.now), Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			planned = u
			k.same("planned later", now.Before(k.now), false)
			return after(owed)(u, now)
		}})
		k.ok(errors.Join(got.Err, got.PlanErr))
		k.same("user", planned, user)
		k.same("planned from version", got.Successor.UserVersion, 2)
		k.same("zone", planned.Timezone.String(), "Asia/Tokyo")
	},
	"Settle/stores the outcome when the successor cannot be": func(k *kit) {
		owed, other := k.owe(), k.owe()
		claimed := k.claim(2)
		spoilt := func(u almanac.User, now time.Time) (almanac.Event, error) {
			e, err := after(owed)(u, now)
			e.Payload = nil
			return e, err
		}
		settled, err := k.r.Settle(k.Context(), []almanac.Settlement{
			{Event: claimed[0], Outcome: almanac.Delivered(k.now), Next: spoilt},
			{Event: claimed[1], Outcome: almanac.Delivered(k.now), Next: after(other)},
		})
		k.ok(err)
		k.ok(errors.Join(settled[0].Err, settled[1].Err, settled[1].PlanErr))
		k.same("there is a reason", settled[0].PlanErr != nil, true)
		k.same("status", k.stored(claimed[0].ID).Status, almanac.Completed)
		k.same("successor of the other", settled[1].Successor != nil, true)
	},
}
