package conformance

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// orderCases check the order of claims after releases and crashes.
var orderCases = cases{
	"Claim/takes the event first that is available longest": func(k *kit) {
		old := k.newEvent(almanactest.ReadyFor(3 * time.Hour))
		k.retry(k.claim(1)[0], "busy", 0)
		young := k.newEvent(almanactest.ReadyFor(time.Hour))
		k.same("first", k.claim(1)[0].ID, young.ID)
		k.same("second", k.claim(1)[0].ID, old.ID)
	},
	"Claim/takes an event as soon as it is available, and not before": func(k *kit) {
		resting := k.retry(k.newClaimed(), "busy", 20*time.Millisecond).Event
		ctx, cancel := context.WithTimeout(k.Context(), 10*time.Second)
		defer cancel()
		for {
			claim := must(k.r.Claim(ctx, request(1)))(k)
			if len(claim.Events) == 0 {
				continue
			}
			k.same("early", claim.At.Before(resting.AvailableAt), false)
			k.same("claims", claim.Events[0].ClaimCount, 2)
			return
		}
	},
	"Until and Missed/count from the time an event is available": func(k *kit) {
		k.retry(k.newClaimed(almanactest.ReadyFor(48*time.Hour)), "busy", time.Hour)
		wait, known := k.until(time.Time{})
		k.same("about an hour", known && wait > 59*time.Minute && wait <= time.Hour, true)
		m := must(k.r.Missed(k.Context(), []string{almanac.TypeBirthday}, time.Minute))(k)
		k.same("missed", m, almanac.Missed{})
	},
	"ReleaseExpired/releases at most the given number of events": func(k *kit) {
		k.newEvents(6)
		for _, n := range []int{1, 5} {
			r := request(n)
			r.Lease = time.Microsecond
			k.same("claimed", len(k.take(r).Events), n)
		}
		k.same("of both leases", len(k.expire(1, 2)), 2)
		k.same("of the middle of the second", len(k.expire(1, 3)), 3)
		k.same("the last", len(k.expire(1, 3)), 1)
		k.same("more", len(k.releaseExpired(3)), 0)
		k.claim(6)
	},
	"Release/ignores events that another token has claimed since": func(k *kit) {
		k.newEvents(2)
		r := request(2)
		claim := k.take(r)
		k.retry(claim.Events[0], "busy", 0)
		others := k.claim(1)[0]
		k.same("released", ids(k.release(r.Token)), ids(claim.Events[1:]))
		k.same("another's", k.stored(others.ID), others)
	},
}

// markCases check which events a mark excludes.
var markCases = cases{
	"Claim/takes nothing before the mark and everything from it on": func(k *kit) {
		left, at, right := k.newEvent(almanactest.ReadyFor(3*time.Hour)), k.newEvent(almanactest.ReadyFor(2*time.Hour)), k.newEvent(almanactest.ReadyFor(time.Hour))
		k.same("claimed", ids(k.take(fromMark(10, at.AvailableAt)).Events), []uuid.UUID{at.ID, right.ID})
		k.same("left alone", k.stored(left.ID), left)
		k.same("left", len(k.take(fromMark(10, at.AvailableAt)).Events), 0)
		k.same("claimed without a mark", ids(k.claim(1)), []uuid.UUID{left.ID})
	},
	"Claim/ignores a mark in the future": func(k *kit) {
		created := k.newEvent(almanactest.ReadyFor(time.Minute))
		k.same("claimed", ids(k.take(fromMark(10, k.now.Add(time.Hour))).Events), []uuid.UUID{created.ID})
	},
	"Claim/returns the next mark": func(k *kit) {
		retried := k.retry(k.newClaimed(almanactest.ReadyFor(3*time.Hour)), "busy", 0).Event
		k.newEvent(almanactest.ReadyFor(2 * time.Hour))
		young := k.newEvent(almanactest.ReadyFor(time.Hour))
		claim := k.take(request(2))
		k.same("reached", claim.Reached, young.AvailableAt)
		claim = k.take(fromMark(2, claim.Reached))
		k.same("reached by what was due long before", claim.Reached, retried.AvailableAt)
		k.same("before the claim", claim.Reached.After(claim.At), false)
		claim = k.take(request(2))
		k.same("reached by nothing", claim.Reached, time.Time{})
	},
	"Until/ignores events before the mark": func(k *kit) {
		left := k.newEvent(almanactest.ReadyFor(2 * time.Hour))
		wait, known := k.until(left.AvailableAt)
		k.same("at the mark", known && wait <= -time.Hour, true)
		_, known = k.until(left.AvailableAt.Add(time.Microsecond))
		k.same("known right of it", known, false)
		wait, known = k.until(k.now.Add(time.Hour))
		k.same("with a mark in the future", known && wait <= -time.Hour, true)
	},
}
