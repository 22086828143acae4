package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var claimCases = cases{
	"Claim/takes due events, oldest first": func(k *kit) {
		young, old := k.newEvent(almanactest.ReadyFor(time.Minute)), k.newEvent(almanactest.ReadyFor(time.Hour))
		k.newEvent(almanactest.DueIn(time.Hour))
		k.newEvent(almanactest.OfType("OTHER"))
		r := request(10)
		claim := k.take(r)
		k.same("claimed", ids(claim.Events), []uuid.UUID{old.ID, young.ID})
		k.same("time", claim.At.Before(k.now), false)
		k.became(claim.Events[0])(old.Claim(r.Token))
		k.became(claim.Events[1])(young.Claim(claim.Events[1].LeaseToken))
		k.same("left", len(k.take(request(10)).Events), 0)
	},
	"Claim/takes the oldest when it cannot take all": func(k *kit) {
		for age := range 6 {
			k.newEvent(almanactest.ReadyFor(time.Duration(age) * time.Hour))
		}
		k.same("oldest", k.claim(2)[0].Due, k.now.Add(-5*time.Hour).Truncate(time.Second))
		k.same("next", k.claim(2)[0].Due, k.now.Add(-3*time.Hour).Truncate(time.Second))
	},
	"Claim/never takes an event before it is due": func(k *kit) {
		k.newEvent(almanactest.DueIn(2 * time.Second))
		k.same("claimed", len(k.take(request(1)).Events), 0)
	},
	"Claim/never takes an event before it is available again": func(k *kit) {
		k.retry(k.newClaimed(), "busy", time.Hour)
		k.same("claimed", len(k.take(request(1)).Events), 0)
	},
	"Claim/by 3 claimers at once shares nothing":   func(k *kit) { k.claimConcurrently(10, 3, 5) },
	"Claim/by 100 claimers at once shares nothing": func(k *kit) { k.claimConcurrently(1000, 100, 10) },
}

// claimConcurrently lets claimers take batches of events at once, and then claims the rest.
func (k *kit) claimConcurrently(events, claimers, batch int) {
	k.Helper()
	u := almanactest.User()
	pending := make([]almanac.Event, events)
	for i := range pending {
		pending[i] = k.event(u, almanactest.ReadyFor(time.Duration(i%60+1)*time.Minute))
	}
	k.create(u, pending...)

	var claiming sync.WaitGroup
	claims := make(chan []almanac.Event, claimers)
	for range claimers {
		claiming.Go(func() {
			claim, err := k.r.Claim(k.Context(), request(batch))
			k.noError("claim", err)
			claims <- claim.Events
		})
	}
	claiming.Wait()
	close(claims)
	times := make(map[uuid.UUID]int)
	for batch := range claims {
		for _, e := range batch {
			times[e.ID]++
		}
	}
	// A claimer skips events that another claimer has locked at that moment, so it may get
	// fewer. The rest must still be there.
	for _, e := range k.take(request(events)).Events {
		times[e.ID]++
	}
	for id, n := range times {
		k.same("claims of event "+id.String(), n, 1)
	}
	k.same("events claimed", len(times), events)
	for _, e := range pending {
		stored := k.stored(e.ID)
		k.same("status and version", []any{stored.Status, stored.Version}, []any{almanac.Processing, 2})
	}
}

var leaseCases = cases{
	"ReleaseExpired/releases the events of expired leases": func(k *kit) {
		pending := k.newEvent()
		claimed, released := k.crash(1)
		k.same("released", ids(released), []uuid.UUID{pending.ID})
		k.became(released[0])(claimed[0].Release(almanac.AfterCrash, "lease expired", released[0].AvailableAt))
		k.claim(1)
	},
	"ReleaseExpired/counts some crashes only of an event that was tried alone": func(k *kit) {
		first := k.newEvent()
		for range 2 {
			u := beside(first.UserID)
			k.create(u, k.event(u))
		}
		claim := k.take(expiring(3))
		for _, e := range claim.Events[:2] {
			k.ok(k.r.TryAlone(k.Context(), e))
		}
		var released []almanac.Event
		for len(released) < 3 {
			released = append(released, must(k.r.ReleaseExpired(k.Context(), 10, 0))(k)...)
		}
		for i, crashes := range []int{0, 1, 0} {
			is := k.stored(claim.Events[i].ID)
			k.same("crashes and claims", []int{is.CrashCount, is.ClaimCount}, []int{crashes, 1})
			k.among("released", released, is)
		}
		k.is(k.r.TryAlone(k.Context(), claim.Events[0]), almanac.ErrLeaseLost)
	},
	"ReleaseExpired/ignores leases in force": func(k *kit) {
		e := k.newClaimed()
		k.same("released", len(k.releaseExpired(10)), 0)
		k.same("event", k.stored(e.ID), e)
	},
	"ReleaseExpired/ignores settled events": func(k *kit) {
		k.newEvents(2)
		claim := k.take(expiring(2))
		k.settle(almanac.Settlement{Event: claim.Events[0], Outcome: almanac.Delivered(claim.At)})
		k.same("released", ids(k.expire(1, 10)), ids(claim.Events[1:]))
		k.same("status", k.stored(claim.Events[0].ID).Status, almanac.Completed)
	},
	"ReleaseExpired/removes a token that holds no event": func(k *kit) {
		emptied, kept := k.newClaimed(), k.newEvent()
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{kept.ID})
		k.deleteAtOnce(emptied.UserID)
		k.releaseExpired(10)
		k.unknown(emptied.LeaseToken)
		k.same("what is held", k.stored(kept.ID).Status, almanac.Processing)
	},
	"Renew/keeps a lease from running out": func(k *kit) {
		k.newEvent()
		r := expiring(1)
		k.take(r)
		k.same("held", k.renew(uuid.New(), r.Token), []uuid.UUID{r.Token})
		k.same("released", len(k.releaseExpired(10)), 0)
	},
	"Renew/omits lost leases": func(k *kit) {
		k.newEvent()
		claimed, _ := k.crash(1)
		done := k.claim(1)[0]
		k.deliver(done)
		k.same("held", len(k.renew(claimed[0].LeaseToken, done.LeaseToken)), 0)
	},
	"Release/releases the events of a token": func(k *kit) {
		k.newEvents(3)
		other := k.claim(1)[0]
		r := request(2)
		claim := k.take(r)
		k.settle(almanac.Settlement{Event: claim.Events[0], Outcome: almanac.Delivered(claim.At)})
		released := k.release(claim.Events[1].LeaseToken)
		k.same("released", ids(released), ids(claim.Events[1:]))
		k.same("crashes", released[0].CrashCount, 0)
		k.same("failures", released[0].RetryCount, 0)
		k.same("another's", k.stored(other.ID), other)
		k.same("of an unknown token", len(k.release(uuid.New())), 0)
		k.claim(1)
	},
	"Release and Settle/never make an event available before its instant": func(k *kit) {
		// As after a database clock that was set back: claimed, and no longer due.
		early := func(token uuid.UUID) almanac.Event {
			pending := k.newEvent(almanactest.DueIn(time.Hour))
			return k.step(pending)(pending.Claim(token))
		}
		token := uuid.New()
		e := early(token)
		k.same("released", ids(k.release(token)), []uuid.UUID{e.ID})
		k.same("available", k.stored(e.ID).AvailableAt, e.Due)
		e = early(uuid.New())
		k.retry(e, "busy", time.Minute)
		k.same("available after a failure", k.stored(e.ID).AvailableAt, e.Due)
	},
}

// waitCases check what a repository reports about waiting events.
var waitCases = cases{
	"Until/returns the time until the next event": func(k *kit) {
		_, known := k.until(time.Time{})
		k.same("known", known, false)
		k.newEvent(almanactest.DueIn(2 * time.Hour))
		k.newEvent(almanactest.DueIn(time.Hour))
		k.newEvent(almanactest.OfType("OTHER"))
		wait, known := k.until(time.Time{})
		k.same("known", known, true)
		k.same("about an hour", wait > 59*time.Minute && wait <= time.Hour, true)
		k.newEvent()
		wait, _ = k.until(time.Time{})
		k.same("due", wait <= 0, true)
		k.claim(1)
		wait, _ = k.until(time.Time{})
		k.same("claimed events are out of the way", wait > 0, true)
	},
	"Missed/counts events that are ready for too long": func(k *kit) {
		oldest, newest := k.newEvent(almanactest.ReadyFor(48*time.Hour)), k.newEvent(almanactest.ReadyFor(2*time.Hour))
		k.newEvent(almanactest.ReadyFor(time.Minute))
		k.newEvent(almanactest.DueIn(time.Hour))
		k.newEvent(almanactest.ReadyFor(72*time.Hour), almanactest.OfType("OTHER"))
		m := must(k.r.Missed(k.Context(), []string{almanac.TypeBirthday}, time.Hour))(k)
		k.same("missed", m, almanac.Missed{Count: 2, Oldest: oldest.Due, Newest: newest.Due})
		m = must(k.r.Missed(k.Context(), []string{"NONE"}, time.Hour))(k)
		k.same("missed of no type", m, almanac.Missed{})
	},
	"FindMissed/lists the events that are ready longest first": func(k *kit) {
		types := []string{almanac.TypeBirthday, almanac.TypeAnniversary, almanac.TypeBirthday}
		third, first := k.newEvent(almanactest.ReadyFor(2*time.Hour)), k.newEvent(almanactest.ReadyFor(48*time.Hour))
		second := k.newEvent(almanactest.ReadyFor(24*time.Hour), almanactest.OfType(almanac.TypeAnniversary))
		k.newEvent(almanactest.ReadyFor(time.Minute))
		k.newEvent(almanactest.DueIn(time.Hour))
		k.newEvent(almanactest.ReadyFor(72*time.Hour), almanactest.OfType("OTHER"))
		found := must(k.r.FindMissed(k.Context(), types, time.Hour, 0))(k)
		k.same("missed", found, []almanac.Event{k.stored(first.ID), k.stored(second.ID), k.stored(third.ID)})
		found = must(k.r.FindMissed(k.Context(), types, time.Hour, 2))(k)
		k.same("the oldest of them", ids(found), []uuid.UUID{first.ID, second.ID})
		found = must(k.r.FindMissed(k.Context(), []string{"NONE"}, time.Hour, 2))(k)
		k.same("missed of no type", len(found), 0)
		for _, limit := range []int{-1, 1001} {
			k.is(errorOf(k.r.FindMissed(k.Context(), types, time.Hour, limit)), almanac.ErrInvalid)
		}
	},
}

// unknown checks that a token behaves like one that was never used.
func (k *kit) unknown(token uuid.UUID) {
	k.Helper()
	pending, r := k.newEvent(), request(1)
	r.Token = token
	k.same("claimed under a token that was forgotten", ids(k.take(r).Events), []uuid.UUID{pending.ID})
}

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
		k.same("missed", must(k.r.Missed(k.Context(), []string{almanac.TypeBirthday}, time.Minute))(k), almanac.Missed{})
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
		k.same("released", ids(k.release(claim.Events[1].LeaseToken)), ids(claim.Events[1:]))
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
