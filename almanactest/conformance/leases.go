package conformance

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var leaseEachCases = cases{
	"LeaseEach/gives each event its own token and changes nothing else": func(k *kit) {
		was := k.newClaims(2)
		is := k.leaseEach(was)
		k.same("leased", ids(is), ids(was))
		k.same("tokens differ", is[0].LeaseToken != is[1].LeaseToken && is[0].LeaseToken != was[0].LeaseToken, true)
		for i, e := range is {
			k.same("as stored", k.stored(e.ID), e)
			e.LeaseToken, e.UpdatedAt = was[i].LeaseToken, was[i].UpdatedAt
			k.same("but for the token", e, was[i])
		}
		k.unknown(was[0].LeaseToken)
	},
	"LeaseEach/removes events from their old tokens": func(k *kit) {
		was := k.newClaimed()
		is := k.leaseEach([]almanac.Event{was})[0]
		k.is(k.deliver(was).Err, almanac.ErrLeaseLost)
		k.same("released under the old token", len(k.release(was.LeaseToken)), 0)
		k.same("settled under the new one", k.deliver(is).Err, nil)
		k.same("status", k.stored(is.ID).Status, almanac.Completed)
	},
	"LeaseEach/lets one lease expire while others are renewed": func(k *kit) {
		claimed := k.newClaims(3)
		leased := must(k.r.LeaseEach(k.Context(), claimed[:2], "suite", time.Microsecond))(k)
		k.same("renewed", k.renew(leased[0].LeaseToken), []uuid.UUID{leased[0].LeaseToken})
		released := k.expire(1, 10)
		k.same("released", ids(released), ids(leased[1:]))
		k.same("crashes", released[0].CrashCount, 1)
		k.same("renewed", k.stored(leased[0].ID).Status, almanac.Processing)
		k.same("left where it was", k.stored(claimed[2].ID), claimed[2])
	},
	"LeaseEach/leaves other events with their old token": func(k *kit) {
		claimed := k.newClaims(4)
		leased := k.leaseEach([]almanac.Event{claimed[2], claimed[0]})
		k.same("leased", ids(leased), []uuid.UUID{claimed[2].ID, claimed[0].ID})
		k.same("settled", k.deliver(claimed[1]).Err, nil)
		k.same("released", ids(k.release(claimed[0].LeaseToken)), ids(claimed[3:]))
		k.same("leased by itself", k.stored(leased[0].ID), leased[0])
	},
	"LeaseEach/skips events that are not held as claimed": func(k *kit) {
		claimed := k.newClaims(4)
		k.deliver(claimed[0])
		k.retry(claimed[1], "busy", 0)
		again := k.claim(1)[0]
		forged := claimed[3]
		forged.Version++
		k.same("leased", ids(k.leaseEach([]almanac.Event{claimed[0], claimed[1], forged, claimed[2], claimed[2]})), ids(claimed[2:3]))
		k.same("claimed again", k.stored(again.ID), again)
		k.same("forged", k.stored(claimed[3].ID), claimed[3])
		k.same("of none", len(k.leaseEach(nil)), 0)
	},
	"LeaseEach/gives an event to one of many callers": func(k *kit) {
		claimed := k.newClaims(3)
		var all sync.WaitGroup
		got := make(chan almanac.Event, 8*len(claimed))
		for range 8 {
			all.Go(func() {
				for _, e := range k.leaseEach(claimed) {
					got <- e
				}
			})
		}
		all.Wait()
		close(got)
		k.same("given", len(got), len(claimed))
		for e := range got {
			k.same("as stored", k.stored(e.ID), e)
		}
	},
	"LeaseEach/keeps events claimed ahead unstarted": ifAhead(func(k *kit) {
		pending := k.newEvent(almanactest.DueIn(10 * time.Minute))
		k.leaseEach(k.ahead(1).Events)
		k.roster(pending.UserID)
		is := k.stored(pending.ID)
		k.same("released", is.Status, almanac.Pending)
		k.same("claims", is.ClaimCount, 0)
	}),
}

func (k *kit) leaseEach(events []almanac.Event) []almanac.Event {
	k.Helper()
	leased, err := k.r.LeaseEach(k.Context(), events, "suite", time.Minute)
	k.noError("lease each", err)
	return leased
}
