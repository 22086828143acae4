package conformance

import (
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// rosterCases check the roster that an edit gets.
var rosterCases = cases{
	"EditUser/shows the greatest key of each type that was ever claimed": func(k *kit) {
		u := almanactest.User()
		created := []almanac.Event{
			k.event(u, almanactest.Of("2027"), almanactest.ReadyFor(4*time.Hour)),
			k.event(u, almanactest.Of("2026"), almanactest.OfType("CLAIMED"), almanactest.ReadyFor(3*time.Hour)),
			k.event(u, almanactest.Of("9999"), almanactest.OfType("RELEASED"), almanactest.ReadyFor(2*time.Hour)),
			k.event(u, almanactest.Of("3000"), almanactest.OfType("UNCLAIMED")),
		}
		k.create(u, created...)
		claim := k.take(request(3, "CLAIMED", "RELEASED"))
		next := k.event(u, almanactest.Of("2029"), almanactest.DueIn(time.Hour))
		for _, e := range claim.Events { // in every status a claimed event can have
			switch e.OccurrenceKey {
			case "2027":
				k.settle(almanac.Settlement{Event: e, Outcome: almanac.GaveUp("HTTP 404"), Next: planned(next)})
			case "9999":
				k.settle(almanac.Settlement{Event: e, Outcome: almanac.Released(almanac.AfterShutdown, "stop", 0)})
			}
		}
		r := k.roster(u.ID)
		k.same("used", keysOf(r.Used), map[almanac.Series]string{birthdays(""): "2027", {Type: "CLAIMED"}: "2026", {Type: "RELEASED"}: "9999"})
		k.same("pending", ids(r.Pending), []uuid.UUID{created[3].ID, next.ID})
		k.same("in flight", ids(r.InFlight), []uuid.UUID{created[1].ID, created[2].ID})
	},
	"EditUser/shows the greatest key of each series that was ever claimed": func(k *kit) {
		u := almanactest.User()
		created := []almanac.Event{
			k.event(u, almanactest.OfSeries("dentist", "2026-05-01"), almanactest.ReadyFor(4*time.Hour)),
			k.event(u, almanactest.OfSeries("barber", "2026-06-01"), almanactest.ReadyFor(2*time.Hour)),
			k.event(u, almanactest.OfSeries("plumber", "2027-01-01"), almanactest.DueIn(time.Hour)),
		}
		k.create(u, created...)
		first := k.claim(2)[0]
		next := k.event(u, almanactest.OfSeries("dentist", "2026-11-01"), almanactest.ReadyFor(3*time.Hour))
		k.settle(almanac.Settlement{Event: first, Outcome: almanac.Delivered(k.now), Next: planned(next)})
		k.claim(1)
		k.same("used", keysOf(k.roster(u.ID).Used), map[almanac.Series]string{birthdays("barber"): "2026-06-01", birthdays("dentist"): "2026-11-01"})
	},
	"EditUser/returns the error of the edit unchanged": func(k *kit) {
		e := k.newEvent()
		_, err := k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{}, errRefused })
		k.same("error", err == errRefused, true)
	},
}

var refusedEditCases = cases{
	"EditUser/refuses events that have changed": func(k *kit) {
		u := almanactest.User()
		_, created := k.create(u, k.event(u), k.event(u, almanactest.DueIn(time.Hour)))
		claimed := k.claim(1)[0]
		released := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Released(almanac.AfterShutdown, "stop", time.Hour)}).Event
		stale, gone := created[1], k.event(u)
		stale.Version++
		for name, wanted := range map[string]almanac.Edit{
			"moved at another version":   {Changed: []almanac.Event{later(stale)}},
			"moved as before its claim":  {Changed: []almanac.Event{later(created[0])}},
			"moved and not there":        {Changed: []almanac.Event{later(gone)}},
			"removed at another version": {Removed: []almanac.Event{stale}},
			"removed after its release":  {Removed: []almanac.Event{released}},
		} {
			_, err := k.r.EditUser(k.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
				changed := r.User
				changed.Version++
				wanted.User, wanted.New = &changed, []almanac.Event{k.event(u)}
				return wanted, nil
			})
			var conflict *almanac.OptimisticLockError
			k.same(name+": is an *OptimisticLockError", errors.As(err, &conflict), true)
		}
		begun, other := created[1], later(created[1])
		begun.Status, begun.ClaimCount, begun.AvailableAt, begun.LeaseToken = almanac.Processing, 1, time.Time{}, uuid.New()
		begun.Version++
		other.IdempotencyKey = "event-another"
		for name, wanted := range map[string]almanac.Event{"moved after its release": later(released), "begun": begun, "another": other} {
			_, err := k.r.EditUser(k.Context(), u.ID, changing(wanted))
			k.same(name+" is refused, as CheckChange says", err != nil, true)
		}
		k.same("released", k.stored(released.ID), released)
		k.same("pending", k.stored(created[1].ID), created[1])
		k.same("version of the user", k.storedUser(u.ID).Version, 1)
		k.same("events", k.count(nil), 2)
	},
	"EditUser/compares an edit with the stored events, not with the roster": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		_, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			r.Pending[0].Version++
			r.Pending[0].IdempotencyKey = "event-another"
			return almanac.Edit{Changed: []almanac.Event{later(r.Pending[0])}}, nil
		})
		k.is(err, almanac.ErrOptimisticLock)
		k.same("event", k.stored(e.ID), e)
	},
	"EditUser/moves no event to another key or to another series": func(k *kit) {
		e := k.newEvent(almanactest.Of("2026"))
		next := almanactest.Event(k.now, almanactest.DueIn(time.Hour), almanactest.Of("2027"))
		next.UserID = e.UserID
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: planned(next)})
		next = k.stored(next.ID)
		for _, to := range []almanactest.EventOption{
			almanactest.Of("2026"), almanactest.Of("2028"), almanactest.OfSeries("dentist", "2028"), asFollowUp,
			almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginRequeued, From: e.ID}),
		} {
			_, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
				moved := later(r.Pending[0])
				to(&moved, k.now)
				return almanac.Edit{Changed: []almanac.Event{moved}}, nil
			})
			k.same("another occurrence or series is refused", err != nil, true)
		}
		k.same("event", k.stored(next.ID), next)
	},
}

// keysOf returns the greatest used key of each series. The key of a second unit follows a
// comma.
func keysOf(used map[almanac.Series]almanac.UsedKeys) map[almanac.Series]string {
	keys := make(map[almanac.Series]string, len(used))
	for one, list := range used {
		var texts []string
		for _, k := range list {
			texts = append(texts, k.Key)
		}
		keys[one] = strings.Join(texts, ",")
	}
	return keys
}
