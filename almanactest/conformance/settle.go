package conformance

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

var errPlan = errors.New("no plan")

var settleCases = cases{
	"Settle/stores a delivery and its successor": func(k *kit) {
		claimed := k.newClaimed()
		at := claimed.UpdatedAt.Add(time.Millisecond)
		var planned almanac.User
		s := almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(at), Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			planned = u
			return after(claimed)(u, now)
		}}
		got := k.stores(s)
		k.became(got.Event)(claimed.Complete(at))
		k.same("planned for", planned.ID, claimed.UserID)
		k.same("successor's status", got.Successor.Status, almanac.Pending)
		k.same("successor's version", got.Successor.Version, 1)
	},
	"Settle/repeats the result of a call whose result was lost": func(k *kit) {
		pending := k.newEvent()
		s := almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: after(pending)}
		s.Follow = func(u almanac.User, now time.Time) ([]almanac.Event, error) {
			return []almanac.Event{almanactest.Event(now, almanactest.For(u), almanactest.OfType("QUESTION"), almanactest.Of("gift"), asFollowUp, almanactest.DueIn(time.Hour))}, nil
		}
		lost := k.stores(s)
		k.same("followed", len(lost.Followed), 1)
		again := k.settle(s)
		k.same("event", again.Event, lost.Event)
		if again.Successor == nil || len(again.Followed) != 1 {
			k.Fatalf("the successor %v and %d that follow, want both", again.Successor, len(again.Followed))
		}
		k.same("successor", *again.Successor, *lost.Successor)
		k.same("followed", again.Followed[0], lost.Followed[0])
	},
	"Settle/stores a failure and its successor": func(k *kit) {
		claimed := k.newClaimed()
		got := k.end(claimed, almanac.GaveUp("HTTP 404"), after(claimed))
		k.became(got.Event)(claimed.Fail("HTTP 404"))
		k.same("successor", got.Successor != nil, true)
	},
	"Settle/stores a release": func(k *kit) {
		claimed := k.newClaimed()
		got := k.end(claimed, almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour), after(claimed))
		k.became(got.Event)(claimed.Release(almanac.AfterFailure, "HTTP 503", got.Event.AvailableAt))
		k.same("delayed", got.Event.AvailableAt.Sub(k.now) >= time.Hour, true)
		k.same("successor", got.Successor == nil, true)
	},
	"Settle/keeps the error of an earlier attempt": func(k *kit) {
		k.retry(k.newClaimed(), "HTTP 503", 0)
		k.same("last error", k.end(k.claim(1)[0], almanac.Delivered(k.now), nil).Event.LastError, "HTTP 503")
	},
	"Settle/accepts an outcome that it has stored already": func(k *kit) {
		for name, o := range map[string]almanac.Outcome{
			"delivery": almanac.Delivered(k.now), "failure": almanac.GaveUp("HTTP 404"), "cancellation": almanac.CalledOff(""),
			"release": almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour),
		} {
			pending := k.newEvent()
			s := almanac.Settlement{Event: k.claim(1)[0], Outcome: o, Next: after(pending)}
			first := k.settle(s)
			again := k.settle(s)
			k.ok(errors.Join(first.Err, again.Err))
			k.same(name, again.Event, first.Event)
			k.same(name+" as stored", k.stored(pending.ID), first.Event)
			k.same("events after a "+name, k.count(almanac.ForUser(pending.UserID)) <= 2, true)
		}
	},
	"Settle/calls an event off": func(k *kit) {
		for _, reason := range []string{"no address", ""} {
			claimed := k.newClaimed()
			got := k.end(claimed, almanac.CalledOff(reason), after(claimed))
			k.became(got.Event)(claimed.Cancel(reason))
			k.same("successor", got.Successor != nil, true)
			k.same("requeued", len(k.apply(claimed.UserID, requeuing(got.Event)).New), 1)
			k.deliver(k.claim(1)[0])
		}
	},
}

// staleCases settle events that the caller no longer holds, or never held.
var staleCases = cases{
	"Settle/stores the present outcome after one of an earlier claim in force": func(k *kit) {
		both := k.newClaims(2)
		stale := both[0]
		k.settle(almanac.Settlement{Event: stale, Outcome: almanac.Released(almanac.AfterShutdown, "stopped", 0)})
		held := k.claim(1)[0]
		settled := must(k.r.Settle(k.Context(), []almanac.Settlement{
			{Event: stale, Outcome: almanac.GaveUp("HTTP 404")},
			{Event: held, Outcome: almanac.Delivered(k.now)},
		}))(k)
		k.is(settled[0].Err, almanac.ErrLeaseLost)
		k.ok(settled[1].Err)
		k.same("result", settled[1].Event, k.stored(held.ID))
		k.same("status", settled[1].Event.Status, almanac.Completed)
	},
	"Settle/stores the first of several outcomes of one event": func(k *kit) {
		stale := k.newClaimed()
		k.settle(almanac.Settlement{Event: stale, Outcome: almanac.Released(almanac.AfterShutdown, "stopped", 0)})
		held := k.claim(1)[0]
		settled := must(k.r.Settle(k.Context(), []almanac.Settlement{
			{Event: held, Outcome: almanac.GaveUp("HTTP 404")},
			{Event: stale, Outcome: almanac.Delivered(k.now)},
			{Event: held, Outcome: almanac.Delivered(k.now)},
		}))(k)
		k.is(settled[1].Err, almanac.ErrLeaseLost)
		for _, i := range []int{0, 2} {
			k.ok(settled[i].Err)
			k.same("result", settled[i].Event, k.stored(held.ID))
		}
		k.same("status", k.stored(held.ID).Status, almanac.Failed)
	},
	"Settle/refuses an outcome whose lease is lost": func(k *kit) {
		k.newEvent()
		stale, _ := k.crash(1)
		holder := k.claim(1)[0]
		for _, o := range []almanac.Outcome{almanac.Delivered(k.now), almanac.GaveUp("late"), almanac.Released(almanac.AfterFailure, "late", 0)} {
			k.is(k.settle(almanac.Settlement{Event: stale[0], Outcome: o, Next: after(holder)}).Err, almanac.ErrLeaseLost)
			k.same("event", k.stored(holder.ID), holder)
		}
		k.ok(k.deliver(holder).Err)
		k.is(k.giveUp(stale[0], "late").Err, almanac.ErrLeaseLost)
		k.same("events", k.count(nil), 1)
	},
	"Settle/refuses an outcome after a release, though the lease holds another event": func(k *kit) {
		claimed := k.newClaims(2)
		stale := claimed[0]
		released := k.retry(stale, "busy", 0)
		k.ok(released.Err)
		k.is(k.deliver(stale).Err, almanac.ErrLeaseLost)
		k.same("event", k.stored(stale.ID), released.Event)
		holder := k.claim(1)[0]
		k.same("claimed again", holder.ID, stale.ID)
		for _, o := range []almanac.Outcome{almanac.Delivered(k.now), almanac.GaveUp("late"), almanac.Released(almanac.AfterFailure, "late", 0)} {
			k.is(k.settle(almanac.Settlement{Event: stale, Outcome: o, Next: after(holder)}).Err, almanac.ErrLeaseLost)
			k.same("event", k.stored(holder.ID), holder)
		}
		for _, e := range []almanac.Event{holder, claimed[1]} {
			k.ok(k.deliver(e).Err)
		}
	},
	"Settle/refuses a token that is not the event's": func(k *kit) {
		e := k.newClaimed()
		for _, forge := range []func(*almanac.Event){
			func(e *almanac.Event) { e.LeaseToken = uuid.New() },
			func(e *almanac.Event) { e.Version++ },
		} {
			forged := e
			forge(&forged)
			k.is(k.deliver(forged).Err, almanac.ErrLeaseLost)
		}
		k.same("event", k.stored(e.ID), e)
	},
	"Settle/reports a missing event": func(k *kit) {
		e := k.newClaimed()
		unknown := e
		unknown.ID = uuid.New()
		got := k.deliver(unknown)
		matches(k, got.Err, almanac.NotFoundError{Kind: "event", ID: unknown.ID})
		k.same("event", k.stored(e.ID), e)
	},
	"Settle/distinguishes a lost claim from the present one in a batch": func(k *kit) {
		for _, first := range []int{0, 1} { // the order of the two must not matter
			k.newEvent()
			lost, _ := k.crash(1)
			batch := make([]almanac.Settlement, 2)
			batch[first] = almanac.Settlement{Event: lost[0], Outcome: almanac.Delivered(k.now)}
			batch[1-first] = almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour)}
			settled := k.settleAll(batch...)
			k.is(settled[first].Err, almanac.ErrLeaseLost)
			k.ok(settled[1-first].Err)
			k.same("status", settled[1-first].Event.Status, almanac.Pending)
		}
	},
}

// plannedCases check the successors that a settlement stores.
var plannedCases = cases{
	"Settle/plans a successor at the time of its creation": func(k *kit) {
		pending := k.newEvent()
		var planned time.Time // ids contain their time of creation
		got := k.stores(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			planned = now
			return after(pending)(u, now)
		}})
		k.same("created", got.Successor.CreatedAt, planned)
		k.same("created after the claim", planned.Before(k.now), false)
	},
	"Settle/plans from the user as stored at that time": func(k *kit) {
		claimed := k.newClaimed()
		k.apply(claimed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			changed := almanactest.User(almanactest.LivingIn("Asia/Tokyo"), almanactest.Named("Grace", "Hopper"))
			changed.ID, changed.Version = r.User.ID, r.User.Version+1
			return almanac.Edit{User: &changed}, nil
		})
		user := k.storedUser(claimed.UserID)
		var planned almanac.User
		got := k.stores(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(k.now), Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			planned = u
			k.same("planned later", now.Before(k.now), false)
			return after(claimed)(u, now)
		}})
		k.same("user", planned, user)
		k.same("planned from version", got.Successor.UserVersion, 2)
		k.same("zone", planned.Timezone.String(), "Asia/Tokyo")
	},
	"Settle/stores the outcome when the successor cannot be stored": func(k *kit) {
		created, other := k.newEvent(), k.newEvent()
		claimed := k.claim(2)
		spoilt := func(u almanac.User, now time.Time) (almanac.Event, error) {
			e, err := after(created)(u, now)
			e.Payload = nil
			return e, err
		}
		settled := must(k.r.Settle(k.Context(), []almanac.Settlement{
			{Event: claimed[0], Outcome: almanac.Delivered(k.now), Next: spoilt},
			{Event: claimed[1], Outcome: almanac.Delivered(k.now), Next: after(other)},
		}))(k)
		k.ok(errors.Join(settled[0].Err, settled[1].Err, settled[1].PlanErr))
		k.same("there is a reason", settled[0].PlanErr != nil, true)
		k.same("status", k.stored(claimed[0].ID).Status, almanac.Completed)
		k.same("successor of the other", settled[1].Successor != nil, true)
	},
	"Settle/returns the results of a batch in order": func(k *kit) {
		claimed := k.newClaims(4)
		batch := []almanac.Settlement{
			{Event: claimed[3], Outcome: almanac.Delivered(k.now), Next: after(claimed[3])},
			{Event: claimed[1], Outcome: almanac.GaveUp("HTTP 404"), Next: func(almanac.User, time.Time) (almanac.Event, error) { return almanac.Event{}, errPlan }},
			{Event: claimed[2], Outcome: almanac.Delivered(k.now), Next: func(almanac.User, time.Time) (almanac.Event, error) {
				return almanac.Event{}, calendar.ErrNoOccurrence
			}},
			{Event: claimed[0], Outcome: almanac.Delivered(k.now)},
		}
		batch[3].Event.LeaseToken = uuid.New()
		settled := k.settleAll(batch...)
		k.same("successor", settled[0].Successor != nil, true)
		k.is(settled[1].PlanErr, errPlan)
		k.same("status without a plan", k.stored(claimed[1].ID).Status, almanac.Failed)
		k.ok(errors.Join(settled[2].Err, settled[2].PlanErr))
		k.same("successor of the last", settled[2].Successor == nil, true)
		k.is(settled[3].Err, almanac.ErrLeaseLost)
		for i, want := range []almanac.Event{claimed[3], claimed[1], claimed[2]} {
			k.ok(settled[i].Err)
			k.same("result", settled[i].Event.ID, want.ID)
		}
		k.same("answers to nothing", len(k.settleAll()), 0)
	},
	"Settle/stores an occurrence once": func(k *kit) {
		u := almanactest.User()
		k.create(u, k.event(u, almanactest.Of("2026")), k.event(u, almanactest.OfSeries("a", "2027"), almanactest.DueIn(time.Hour)), k.event(u, almanactest.OfSeries("b", "2027")))
		for _, e := range k.claim(2) {
			used := map[string]almanactest.EventOption{"2026": almanactest.Of("2026"), "2027": almanactest.OfSeries("a", "2028")}[e.OccurrenceKey] // used itself, or in a series that has an open event
			k.same("successor", k.end(e, almanac.Delivered(k.now), planned(k.event(u, used))).Successor == nil, true)
		}
	},
	"Settle/stores a successor whose idempotency key exists": func(k *kit) {
		other := k.newEvent(almanactest.DueIn(time.Hour))
		for _, series := range []string{"", "dentist"} { // the series of the event, and another
			u := beside(other.UserID)
			e := k.event(u, almanactest.Of("2026"))
			k.create(u, e)
			next := almanactest.Event(k.now, almanactest.DueIn(time.Hour), almanactest.OfSeries(series, "2027"))
			next.UserID, next.IdempotencyKey = e.UserID, other.IdempotencyKey
			got := k.end(k.claim(1)[0], almanac.Delivered(k.now), planned(next))
			k.same("successor", *got.Successor, k.stored(next.ID))
			k.same("key", got.Successor.IdempotencyKey, next.LongKey())
		}
	},
}
