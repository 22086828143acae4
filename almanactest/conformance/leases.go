package conformance

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var leaseEachCases = map[string]func(*kit){
	"LeaseEach/gives each event its own token and changes nothing else": func(k *kit) {
		k.newEvent()
		k.newEvent()
		was := k.claim(2)
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
		k.newEvent()
		was := k.claim(1)[0]
		is := k.leaseEach([]almanac.Event{was})[0]
		k.is(k.settle(almanac.Settlement{Event: was, Outcome: almanac.Delivered(k.now)}).Err, almanac.ErrLeaseLost)
		released, err := k.r.Release(k.Context(), was.LeaseToken)
		k.ok(err)
		k.same("released under the old token", len(released), 0)
		k.same("settled under the new one", k.settle(almanac.Settlement{Event: is, Outcome: almanac.Delivered(k.now)}).Err, nil)
		k.same("status", k.stored(is.ID).Status, almanac.Completed)
	},
	"LeaseEach/lets one lease expire while others are renewed": func(k *kit) {
		for range 3 {
			k.newEvent()
		}
		claimed := k.claim(3)
		leased, err := k.r.LeaseEach(k.Context(), claimed[:2], "suite", time.Microsecond)
		k.ok(err)
		held, err := k.r.Renew(k.Context(), []uuid.UUID{leased[0].LeaseToken}, time.Minute)
		k.ok(err)
		k.same("renewed", held, []uuid.UUID{leased[0].LeaseToken})
		released := k.expire(1, 10)
		k.same("released", ids(released), ids(leased[1:]))
		k.same("crashes", released[0].CrashCount, 1)
		k.same("renewed", k.stored(leased[0].ID).Status, almanac.Processing)
		k.same("left where it was", k.stored(claimed[2].ID), claimed[2])
	},
	"LeaseEach/leaves other events with their old token": func(k *kit) {
		for range 4 {
			k.newEvent()
		}
		claimed := k.claim(4)
		leased := k.leaseEach([]almanac.Event{claimed[2], claimed[0]})
		k.same("leased", ids(leased), []uuid.UUID{claimed[2].ID, claimed[0].ID})
		k.same("settled", k.settle(almanac.Settlement{Event: claimed[1], Outcome: almanac.Delivered(k.now)}).Err, nil)
		released, err := k.r.Release(k.Context(), claimed[0].LeaseToken)
		k.ok(err)
		k.same("released", ids(released), ids(claimed[3:]))
		k.same("leased by itself", k.stored(leased[0].ID), leased[0])
	},
	"LeaseEach/skips events that are not held as claimed": func(k *kit) {
		for range 4 {
			k.newEvent()
		}
		claimed := k.claim(4)
		k.settle(almanac.Settlement{Event: claimed[0], Outcome: almanac.Delivered(k.now)})
		k.settle(almanac.Settlement{Event: claimed[1], Outcome: almanac.Released(almanac.AfterFailure, "busy", 0)})
		again := k.claim(1)[0]
		forged := claimed[3]
		forged.Version++
		k.same("leased", ids(k.leaseEach([]almanac.Event{claimed[0], claimed[1], forged, claimed[2], claimed[2]})), ids(claimed[2:3]))
		k.same("claimed again", k.stored(again.ID), again)
		k.same("forged", k.stored(claimed[3].ID), claimed[3])
		k.same("of none", len(k.leaseEach(nil)), 0)
	},
	"LeaseEach/gives an event to one of many callers": func(k *kit) {
		for range 3 {
			k.newEvent()
		}
		claimed := k.claim(3)
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
		k.edit(pending, func(almanac.Roster) almanac.Edit { return almanac.Edit{} })
		is := k.stored(pending.ID)
		k.same("released", is.Status, almanac.Pending)
		k.same("claims", is.ClaimCount, 0)
	}),
}

func (k *kit) leaseEach(events []almanac.Event) []almanac.Event {
	k.Helper()
	leased, err := k.r.LeaseEach(k.Context(), events, "suite", time.Minute)
	if err != nil {
		k.Errorf("unexpected error: %v", err)
	}
	return leased
}
