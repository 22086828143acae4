package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// aheadCases are for repositories that claim ahead: see [almanac.ClaimRepository].
var aheadCases = cases{
	"Claim ahead/takes events that are due or will be due soon": ifAhead(func(k *kit) {
		due, soon := k.newEvent(), k.newEvent(almanactest.DueIn(10*time.Minute))
		k.newEvent(almanactest.DueIn(2 * time.Hour))
		claim := k.ahead(10)
		k.same("claimed", ids(claim.Events), []uuid.UUID{due.ID, soon.ID})
		e := claim.Events[1]
		k.same("status", e.Status, almanac.Processing)
		k.same("claims", e.ClaimCount, 1)
		k.same("due", e.Due, soon.Due)
		k.same("as stored", k.stored(e.ID), e)
		k.same("left", len(k.ahead(10).Events), 0)
	}),
	"Claim ahead/takes a released event only when it is available": ifAhead(func(k *kit) {
		k.retry(k.newClaimed(), "busy", time.Minute)
		fresh := k.newEvent(almanactest.DueIn(time.Minute * 5))
		k.same("claimed", ids(k.ahead(1).Events), []uuid.UUID{fresh.ID})
	}),
	"Claim ahead/leaves events that have consulted calendars": ifAhead(func(k *kit) {
		k.newEvent(almanactest.DueIn(time.Minute*5), consulting(byDE))
		due := k.newEvent(consulting(byDE))
		k.same("claimed", ids(k.ahead(10).Events), []uuid.UUID{due.ID})
		k.consulted(byDE)
	}),
	"Confirm/returns the events that are still held": ifAhead(func(k *kit) {
		k.newEvents(3, almanactest.DueIn(10*time.Minute))
		events := k.ahead(3).Events
		k.roster(events[1].UserID)
		k.deleteAtOnce(events[2].UserID)
		forged := events[0]
		forged.Version--
		confirmed := k.confirm(append(events, forged)...)
		k.same("held", confirmed.Held, []uuid.UUID{events[0].ID})
		k.same("busy", len(confirmed.Busy), 0)
		k.same("time", confirmed.At.Before(k.now), false)
		confirmed = k.confirm(events[1:]...)
		k.same("held of none", len(confirmed.Held), 0)
		k.same("time without any", confirmed.At.IsZero(), false)
	}),
	"Confirm/confirms events of users that were edited before": ifAhead(func(k *kit) {
		e := k.newEvent(almanactest.DueIn(10 * time.Minute))
		k.roster(e.UserID)
		k.edit(e, func(r almanac.Roster) almanac.Edit { return almanac.Edit{Changed: moved(r, time.Minute)} })
		for range 2 {
			events := k.ahead(1).Events
			k.same("held", k.confirm(events...).Held, ids(events))
			must(k.r.Return(k.Context(), events))(k)
		}
	}),
	"Return/releases events that have not started and counts nothing": ifAhead(func(k *kit) {
		kept, created, settled := k.newEvent(almanactest.DueIn(10*time.Minute)), k.newEvent(almanactest.DueIn(11*time.Minute)), k.newEvent(almanactest.DueIn(12*time.Minute))
		events := k.ahead(3).Events
		k.deliver(events[2])
		returned := must(k.r.Return(k.Context(), events[1:]))(k)
		k.same("returned", ids(returned), []uuid.UUID{created.ID})
		is := k.stored(created.ID)
		k.same("as stored", returned[0], is)
		k.same("status", is.Status, almanac.Pending)
		k.same("available", is.AvailableAt, created.Due)
		k.same("claims", is.ClaimCount, 0)
		k.same("kept", k.stored(kept.ID), events[0])
		k.same("settled", k.stored(settled.ID).Status, almanac.Completed)
		k.same("leases held", k.renew(events[0].LeaseToken), []uuid.UUID{events[0].LeaseToken})
	}),
	"Release/counts no attempt of events that have not started": ifAhead(func(k *kit) {
		due, soon := k.newEvent(), k.newEvent(almanactest.DueIn(10*time.Minute))
		claim := k.ahead(2)
		for _, e := range claim.Events {
			k.release(e.LeaseToken)
		}
		k.same("claims of what was due", k.stored(due.ID).ClaimCount, 1)
		k.same("claims of what was not", k.stored(soon.ID).ClaimCount, 0)
		k.same("available", k.stored(soon.ID).AvailableAt, soon.Due)
	}),
	"ReleaseExpired/counts no crash of events that have not started": ifAhead(func(k *kit) {
		created := k.newEvent(almanactest.DueIn(10 * time.Minute))
		r := aheadRequest(1)
		r.Lease = time.Microsecond
		k.take(r)
		e := k.expire(1, 10)[0]
		k.same("released", e.ID, created.ID)
		k.same("crashes", e.CrashCount, 0)
		k.same("claims", e.ClaimCount, 0)
		k.same("available", e.AvailableAt, created.Due)
		k.same("claimed again", ids(k.ahead(1).Events), []uuid.UUID{created.ID})
	}),
	"ReleaseExpired/removes a token whose events were released by an edit": ifAhead(func(k *kit) {
		created := k.newEvent(almanactest.DueIn(10 * time.Minute))
		e := k.ahead(1).Events[0]
		k.roster(created.UserID)
		k.releaseExpired(10)
		k.unknown(e.LeaseToken)
	}),
	"Until/ignores events claimed ahead": ifAhead(func(k *kit) {
		k.newEvent(almanactest.DueIn(10 * time.Minute))
		k.ahead(1)
		_, known := k.until(time.Time{})
		k.same("known", known, false)
	}),
}

// aheadEditCases edit and delete users whose events are claimed ahead.
var aheadEditCases = cases{
	"EditUser/releases events claimed ahead": ifAhead(func(k *kit) {
		created := k.newEvent(almanactest.DueIn(10 * time.Minute))
		claim := k.ahead(1)
		e := claim.Events[0]
		stored := k.edit(e, func(r almanac.Roster) almanac.Edit {
			k.same("pending", ids(r.Pending), []uuid.UUID{e.ID})
			k.same("claims", r.Pending[0].ClaimCount, 0)
			k.same("in flight", len(r.InFlight), 0)
			k.same("used", len(r.Used), 0)
			return almanac.Edit{Changed: moved(r, time.Hour)}
		})
		is := k.stored(created.ID)
		k.same("moved", ids(stored.Changed), []uuid.UUID{created.ID})
		k.same("status", is.Status, almanac.Pending)
		k.same("due", is.Due, created.Due.Add(time.Hour))
		k.same("available", is.AvailableAt, is.Due)
		k.same("claims", is.ClaimCount, 0)
		k.same("the version rises", is.Version > e.Version, true)
		k.is(k.settle(almanac.Settlement{Event: e, Outcome: almanac.Delivered(claim.At)}).Err, almanac.ErrLeaseLost)
		k.same("leases held", len(k.renew(e.LeaseToken)), 0)
	}),
	"EditUser/releases events claimed ahead that it does not change": ifAhead(func(k *kit) {
		created := k.newEvent(almanactest.DueIn(10 * time.Minute))
		k.ahead(1)
		k.roster(created.UserID)
		is := k.stored(created.ID)
		k.same("status", is.Status, almanac.Pending)
		k.same("available", is.AvailableAt, created.Due)
		k.same("claimed again", ids(k.ahead(1).Events), []uuid.UUID{created.ID})
	}),
	"EditUser/releases nothing when it fails": ifAhead(func(k *kit) {
		created := k.newEvent(almanactest.DueIn(10 * time.Minute))
		claim := k.ahead(1)
		k.is(errorOf(k.r.EditUser(k.Context(), created.UserID, func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{}, errRefused })), errRefused)
		k.same("held", k.confirm(claim.Events...).Held, []uuid.UUID{created.ID})
	}),
	"EditUser/treats events that were due at their claim as in flight": ifAhead(func(k *kit) {
		due, byHand := k.newEvent(), k.newEvent(almanactest.DueIn(time.Hour))
		k.same("claimed", ids(k.ahead(1).Events), []uuid.UUID{due.ID})
		claimed := must(byHand.Claim(uuid.New()))(k)
		k.update(claimed, byHand.Version)
		for _, e := range []almanac.Event{due, byHand} {
			k.edit(e, func(r almanac.Roster) almanac.Edit {
				k.same("in flight", ids(r.InFlight), []uuid.UUID{e.ID})
				return almanac.Edit{}
			})
		}
	}),
	"DeleteUser/removes events claimed ahead": ifAhead(func(k *kit) {
		created := k.newEvent(almanactest.DueIn(10 * time.Minute))
		claim := k.ahead(1)
		d := k.deleteUser(created.UserID)
		k.same("removed", d.Removed, 1)
		k.same("in flight", len(d.InFlight), 0)
		k.noUser(created.UserID)
		k.noEvent(created.ID)
		k.same("held", len(k.confirm(claim.Events...).Held), 0)
	}),
}

// ifAhead makes a case for repositories that claim ahead. For other repositories the case
// checks that they claim nothing before it is due.
func ifAhead(check func(*kit)) func(*kit) {
	return func(k *kit) {
		if _, err := k.r.Confirm(k.Context(), nil); !errors.Is(err, errors.ErrUnsupported) {
			k.ok(err)
			check(k)
			return
		}
		k.newEvent(almanactest.DueIn(30 * time.Minute))
		k.same("claimed ahead", len(k.ahead(1).Events), 0)
		k.is(errorOf(k.r.Return(k.Context(), nil)), errors.ErrUnsupported)
	}
}

// aheadRequest returns a claim of n events that are due within an hour.
func aheadRequest(n int) almanac.ClaimRequest {
	r := request(n)
	r.Ahead = time.Hour
	return r
}

func (k *kit) ahead(n int) almanac.ClaimResult {
	k.Helper()
	return k.take(aheadRequest(n))
}

// edit edits the user of an event.
func (k *kit) edit(e almanac.Event, edit func(almanac.Roster) almanac.Edit) almanac.Edit {
	k.Helper()
	return k.apply(e.UserID, func(r almanac.Roster) (almanac.Edit, error) { return edit(r), nil })
}

// moved returns the pending events of a roster, moved later by d.
func moved(r almanac.Roster, d time.Duration) []almanac.Event {
	var events []almanac.Event
	for _, e := range r.Pending {
		place(&e, e.Due.Add(d))
		e.Version++
		events = append(events, e)
	}
	return events
}

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
		leased := must(k.r.LeaseEach(k.Context(), claimed[:2], "suite", time.Microsecond))(k).Events
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
		k.same("released", ids(k.release(claimed[3].LeaseToken)), ids(claimed[3:]))
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
	"LeaseEach/returns the users as they are now": func(k *kit) {
		claimed := k.newClaims(2)
		k.raise(claimed[0].UserID)
		k.deleteUser(claimed[1].UserID)
		leased := must(k.r.LeaseEach(k.Context(), claimed, "suite", time.Minute))(k)
		k.same("users", leased.Users, map[uuid.UUID]almanac.User{claimed[0].UserID: k.storedUser(claimed[0].UserID)})
		release := almanac.Settlement{Event: leased.Events[1], Outcome: almanac.Released(almanac.AfterShutdown, "released", 0)}
		k.same("of the deleted user", k.settle(release).Event.FailureReason, almanac.ReasonUserDeleted)
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
	return leased.Events
}
