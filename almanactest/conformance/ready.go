package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// readyIn makes an event ready at d from now, which is later than its instant.
func readyIn(d time.Duration) almanactest.EventOption {
	return func(e *almanac.Event, now time.Time) {
		e.ReadyAt = now.UTC().Add(d).Truncate(time.Microsecond)
		e.AvailableAt = e.ReadyAt
	}
}

// readyCases are about events that become ready after their instant: see [almanac.Execution].
var readyCases = cases{
	"ReadyAt/an event is claimed when it is ready, not at its instant": func(k *kit) {
		e, ready := k.newEvent(readyIn(time.Hour)), k.newEvent(readyIn(-time.Minute))
		k.same("available", e.AvailableAt, e.ReadyAt)
		k.same("claimed", ids(k.take(request(10)).Events), []uuid.UUID{ready.ID})
		wait, known := k.until(time.Time{})
		k.same("known", known, true)
		k.same("until it is ready", wait > 59*time.Minute && wait <= time.Hour, true)
		k.same("missed", len(must(k.r.FindMissed(k.Context(), []string{e.Type}, 0, 0))(k)), 0)
	},
	"ReadyAt/holds for a successor, and not for the one after it": func(k *kit) {
		e := k.newEvent(almanactest.Of("2026"))
		next := k.event(k.storedUser(e.UserID), almanactest.OfSeries(e.Series, "2027"), almanactest.ReadyFor(2*time.Minute), readyIn(time.Hour))
		settled := k.settle(almanac.Settlement{Event: k.claimed(e), Outcome: almanac.Delivered(k.now), Next: planned(next)})
		k.succeeded(settled, next)
		k.same("claimed", len(k.take(request(10)).Events), 0)
		k.same("found by its instant", ids(k.find(almanac.DueBetween{From: next.Due, Until: next.Due.Add(time.Second)})), []uuid.UUID{next.ID})

		again := k.apply(e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			at := r.Pending[0]
			at.Version++
			at.ReadyAt = time.Time{}
			place(&at, k.now.Add(-time.Minute))
			return almanac.Edit{Changed: []almanac.Event{at}}, nil
		}).Changed[0]
		last := k.event(k.storedUser(e.UserID), almanactest.OfSeries(e.Series, "2028"))
		settled = k.settle(almanac.Settlement{Event: k.claimed(again), Outcome: almanac.Delivered(k.now), Next: planned(last)})
		k.same("ready", k.succeeded(settled, last).ReadyAt.IsZero(), true)
	},
	"ReadyAt/a change of a pending event changes its ReadyAt": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour), readyIn(2*time.Hour))
		moved := later(e)
		moved.ReadyAt = e.ReadyAt.Add(time.Hour)
		moved = k.change(e.UserID, moved)[0]
		k.same("ready after an edit", moved.ReadyAt, e.ReadyAt.Add(time.Hour))
		k.same("available after an edit", moved.AvailableAt, moved.ReadyAt)
		k.found(moved)

		moved = anHourLater(moved)
		moved.ReadyAt = e.ReadyAt.Add(2 * time.Hour)
		moved = k.moveEvents(moved)[0]
		k.same("ready under other zone rules", moved.ReadyAt, e.ReadyAt.Add(2*time.Hour))
		k.found(moved)

		none := later(moved)
		none.ReadyAt = time.Time{}
		none = k.change(e.UserID, none)[0]
		k.same("ready at its instant", none.ReadyAt.IsZero(), true)
		k.same("available at its instant", none.AvailableAt, none.Due)
		k.found(none)
	},
	"ReadyAt/an instant that passes by an edit makes nothing ready earlier": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour), readyIn(2*time.Hour))
		passed := later(e)
		place(&passed, k.now.Add(-2*time.Hour))
		passed.ReadyAt = k.now.Add(time.Minute).UTC().Truncate(time.Microsecond)
		is := k.change(e.UserID, passed)[0]
		k.same("ready", is.ReadyAt, passed.ReadyAt)
		k.found(is)
	},
	"ReadyAt/is kept in the history, and lateness counts from it": func(k *kit) {
		e := k.newEvent(readyIn(-time.Minute))
		ended := k.settle(almanac.Settlement{Event: k.claimed(e), Outcome: almanac.Delivered(e.ReadyAt.Add(time.Second))}).Event
		k.same("lateness", ended.Lateness(), time.Second)
		k.found(ended)
	},
}

// readyAheadCases claim events ahead that become ready after their instant.
var readyAheadCases = cases{
	"ReadyAt/an event that is not ready has not started": ifAhead(func(k *kit) {
		e := k.newEvent(readyIn(10 * time.Minute))
		k.same("due", k.take(request(1)).Events == nil, true)
		claimed := k.ahead(1).Events
		k.same("claimed ahead", ids(claimed), []uuid.UUID{e.ID})
		k.same("held", k.confirm(claimed...).Held, []uuid.UUID{e.ID})
		returned := must(k.r.Return(k.Context(), claimed))(k)[0]
		k.same("claims", returned.ClaimCount, 0)
		k.same("available", returned.AvailableAt, e.ReadyAt)
		k.found(returned)

		claimed = k.ahead(1).Events
		k.release(claimed[0].LeaseToken)
		k.same("claims after a release", k.stored(e.ID).ClaimCount, 0)
		k.same("available after a release", k.stored(e.ID).AvailableAt, e.ReadyAt)

		k.ahead(1)
		r := k.roster(e.UserID)
		k.same("pending for an edit", ids(r.Pending), []uuid.UUID{e.ID})
		k.same("available after an edit", k.stored(e.ID).AvailableAt, e.ReadyAt)
		k.same("claimed again", ids(k.ahead(1).Events), []uuid.UUID{e.ID})
	}),
}
