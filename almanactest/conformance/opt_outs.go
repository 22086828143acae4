package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// optOutCases are the rows of the table in docs/handlers.md.
var optOutCases = cases{
	"OptOut/PENDING, never claimed: removed, and its key is not used": onOffers(func(o *opting) {
		result := o.out(offers)
		o.same("removed", ids(result.Removed), []uuid.UUID{o.first.ID})
		o.noEvent(o.first.ID)
		o.same("planned", len(o.openEvents("OFFER")), 0)
		o.same("stored", bare(result.User.OptOuts), []almanac.OptOut{offers})
		o.same("version", o.out(offers).User.Version, result.User.Version) // a second time changes nothing
		added := o.in(offers).Added
		o.same("planned anew", added[0].Due.After(o.now), true) // the first occurrence after now
		o.out(offers)
		again := o.in(offers)
		o.same("the same occurrence returns", again.Added[0].OccurrenceKey, added[0].OccurrenceKey)
		o.same("opted in", again.User.OptOuts == nil, true)
	}),
	"OptOut/PENDING, claimed before: CANCELLED, and its key is used": onOffers(func(o *opting) {
		o.deliver = func(almanac.Delivery) error { return almanac.Snooze(time.Hour, "") }
		o.same("put off", o.pass().Retried, 1)
		result := o.out(offers)
		o.same("cancelled", ids(result.Cancelled), []uuid.UUID{o.first.ID})
		o.same("skipped", len(result.Skipped), 0)
		o.ended(o.first, almanac.Cancelled, almanac.ReasonOptedOut)
		o.same("planned", len(o.openEvents("OFFER")), 0)
		o.same("next occurrence", o.in(offers).Added[0].OccurrenceKey > o.first.OccurrenceKey, true)
	}),
	"OptOut/held ahead: taken back, then removed": onOffers(func(o *opting) {
		o.out(offers)
		o.in(offers)
		r := request(10)
		r.Types, r.Ahead = []string{"OFFER"}, 90*time.Minute
		claim := o.take(r)
		removed := o.out(offers).Removed
		o.same("removed", len(removed), 1)
		for _, e := range claim.Events { // none, if the repository claims nothing ahead
			held := o.confirm(e)
			o.same("held", len(held.Held), 0)
		}
		o.same("the same occurrence returns", o.in(offers).Added[0].OccurrenceKey, removed[0].OccurrenceKey)
	}),
	"OptOut/PROCESSING: cannot be recalled, and success is COMPLETED": onOffers(func(o *opting) {
		o.deliver = func(almanac.Delivery) error {
			o.same("skipped", o.out(offers).Skipped, []uuid.UUID{o.first.ID})
			return nil
		}
		o.same("completed", o.pass().Completed, 1)
		o.ended(o.first, almanac.Completed, "")
		o.same("planned", len(o.openEvents("OFFER")), 0)
		o.same("next occurrence", o.in(offers).Added[0].OccurrenceKey > o.first.OccurrenceKey, true)
	}),
	"OptOut/PROCESSING: after a failure the next claim ends it CANCELLED": onOffers(func(o *opting) {
		o.deliver = func(almanac.Delivery) error {
			o.out(offers)
			return errPlan
		}
		o.same("released", o.pass().Retried, 1)
		o.same("called off", o.pass().Cancelled, 1)
		o.same("failed attempts", o.ended(o.first, almanac.Cancelled, almanac.ReasonOptedOut).RetryCount, 1)
		o.same("attempts", len(o.sent), 1)
		o.same("planned", len(o.openEvents("OFFER")), 0)
		o.same("next occurrence", o.in(offers).Added[0].OccurrenceKey > o.first.OccurrenceKey, true)
	}),
	"OptOut/FAILED: stays, and a requeue is refused unless forced": onOffers(func(o *opting) {
		failed := o.failed()
		o.out(everything)
		o.same("failed event", o.stored(failed.ID), failed)
		o.is(errorOf(o.s.Requeue(o.Context(), failed.ID, almanac.ForceOptions{})), almanac.ErrOptedOut)
		o.is(errorOf(o.scheduler().Requeue(o.Context(), failed.ID, almanac.ForceOptions{})), almanac.ErrOptedOut) // of a program without handlers
		done := must(ops.Operate(o.Context(), o.s, ops.Requeue, almanac.ForUser(o.user.ID), ops.OperateOptions{}))(o.kit)
		o.same("refused", len(done.Events) == 0 && len(done.Refused) == 1 && errors.Is(done.Refused[0].Err, almanac.ErrOptedOut), true)
		done, err := ops.Operate(o.Context(), o.s, ops.Requeue, almanac.ForUser(o.user.ID),
			ops.OperateOptions{Requeue: almanac.ForceOptions{Force: true}})
		o.ok(err)
		o.same("forced", len(done.Events) == 1 && done.Events[0].Origin.Forced, true)
		o.out(byMail)
		o.in(everything)
		o.same("cancelled", len(o.out(offers).Cancelled), 0)
		o.same("delivered", o.pass().Completed, 1)
		o.ended(done.Events[0], almanac.Completed, "")
	}),
	"OptIn/FAILED: a requeue is allowed": onOffers(func(o *opting) {
		failed := o.failed()
		o.out(offers)
		o.in(offers)
		must(o.s.Requeue(o.Context(), failed.ID, almanac.ForceOptions{}))(o.kit)
		o.same("delivered", o.pass().Completed, 1)
	}),
	"OptOut/follow-up: as the row of its status, and its parent's type does not count": onOffers(func(o *opting) {
		o.deliver = func(almanac.Delivery) error {
			o.out(offers)
			return nil
		}
		o.pass()
		followed := o.openEvents("THANKS")
		o.same("followed", len(followed), 1)
		o.same("removed", ids(o.out(almanac.OptOut{Type: "THANKS"}).Removed), ids(followed))
	}),
	"OptOut/follow-up: not planned": onOffers(func(o *opting) {
		o.out(almanac.OptOut{Type: "THANKS"})
		o.same("completed", o.pass().Completed, 1)
		o.same("followed", len(o.openEvents("THANKS")), 0)
	}),
	"OptOut/requeued: as the row of its status": onOffers(func(o *opting) {
		again := must(o.s.Requeue(o.Context(), o.failed().ID, almanac.ForceOptions{}))(o.kit)
		o.same("cancelled", ids(o.out(offers).Cancelled), []uuid.UUID{again.ID})
		o.ended(again, almanac.Cancelled, almanac.ReasonOptedOut)
	}),
}

// optOutScopeCases check what an opt-out covers, when it is compared, and what it survives.
var optOutScopeCases = cases{
	"OptOut/a pending event of another type is untouched": onOffers(func(o *opting) {
		must(o.s.Schedule(o.Context(), o.user.ID, "NOTICE"))(o.kit)
		before := o.openEvents("NOTICE")[0]
		for _, result := range []almanac.UpdateUserResult{o.out(offers), o.in(offers)} {
			o.same("moved, refreshed", len(result.Moved)+len(result.Refreshed), 0)
			o.same("stored", o.stored(before.ID), before)
		}
		reschedule := must(o.s.Reschedule(o.Context(), o.user.ID))(o.kit)
		o.same("changed without a change", len(reschedule.Moved)+len(reschedule.Refreshed)+len(reschedule.Removed)+len(reschedule.Added), 0)
		o.same("stored", o.stored(before.ID), before)
		must(o.s.RunNow(o.Context(), before.ID, almanac.ForceOptions{}))(o.kit)
		o.pass() // its settlement accepts the plan, although it was made from an earlier version of the user
		o.same("delivered", o.stored(before.ID).Status, almanac.Completed)
		o.same("open afterwards", len(o.openEvents("NOTICE")), 1)
	}),
	"OptOut/of a channel: applies at delivery, and the series goes on": onOffers(func(o *opting) {
		o.same("removed", len(o.out(byMail).Removed), 0)
		o.same("called off", o.pass().Cancelled, 1)
		o.ended(o.first, almanac.Cancelled, almanac.ReasonOptedOut)
		o.same("attempts", len(o.sent), 0)
		o.same("next", len(o.openEvents("OFFER")), 1)
		o.out(almanac.OptOut{Type: "OFFER", Channel: "letter"})
		o.in(byMail)
		must(o.s.RunNow(o.Context(), o.openEvents("OFFER")[0].ID, almanac.ForceOptions{}))(o.kit)
		o.same("by another channel", o.pass().Completed, 1)
	}),
	"OptOut/of everything: a mandatory handler overrides it": onOffers(func(o *opting) {
		o.out(everything)
		o.out(byMail)
		notice := must(o.s.Schedule(o.Context(), o.user.ID, "NOTICE"))(o.kit)
		must(o.s.RunNow(o.Context(), notice[0].ID, almanac.ForceOptions{}))(o.kit)
		o.same("delivered", o.pass().Completed, 1)
	}),
	"OptOut/is compared before each attempt": onOffers(func(o *opting) {
		o.out(offers)
		o.add(o.user.ID, o.first) // by a program that does not know opt-outs
		o.same("called off", o.pass().Cancelled, 1)
		o.ended(o.first, almanac.Cancelled, almanac.ReasonOptedOut)
		o.same("attempts", len(o.sent), 0)
	}),
	"OptOut/is compared before each attempt of an Executor, and its channel is not": onOffers(func(o *opting) {
		attempts := 0
		deliver := func(context.Context, almanac.Delivery) error { attempts++; return nil }
		o.out(offers)
		o.out(byMail)
		again := o.first
		again.ID, again.IdempotencyKey, again.OccurrenceKey = uuid.Must(uuid.NewV7()), "event-again", again.OccurrenceKey+" again"
		for i, e := range []almanac.Event{o.first, again} {
			o.s = o.scheduler(executed{offer{eventType: "OFFER"}, deliver})
			o.add(o.user.ID, e)
			o.same("called off", o.pass().Cancelled, 1-i)
			o.in(offers)
		}
		o.same("attempts", attempts, 1)
	}),
	"OptOut/by a program without the handler: left to the one that delivers": onOffers(func(o *opting) {
		o.same("removed", len(must(o.scheduler().OptOut(o.Context(), o.user.ID, offers))(o.kit).Removed), 0)
		o.same("called off", o.pass().Cancelled, 1)
	}),
	"OptOut/survives edits, enrolments, backfills, reschedules and reconciles": onOffers(func(o *opting) {
		o.out(offers)
		name, zone := "Grace", "Asia/Tokyo"
		must(o.s.UpdateUser(o.Context(), o.user.ID, almanac.ProfileChange{FirstName: &name, Timezone: &zone}))(o.kit)
		again := almanac.Profile{ID: o.user.ID, FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "UTC"}
		created := must(o.s.CreateUsers(o.Context(), func(yield func(almanac.Profile, error) bool) { yield(again, nil) }, almanac.CreateUsersOptions{}))(o.kit)
		o.same("existing", created.Existing, 1)
		must(o.s.Backfill(o.Context(), "OFFER", almanac.BackfillOptions{}))(o.kit)
		must(o.s.Reschedule(o.Context(), o.user.ID))(o.kit)
		must(o.s.Reconcile(o.Context(), almanac.ReconcileOptions{}))(o.kit)
		o.is(errorOf(o.s.Schedule(o.Context(), o.user.ID, "OFFER")), almanac.ErrOptedOut)
		o.is(errorOf(o.s.ScheduleAt(o.Context(), o.user.ID, "OFFER", almanac.ScheduleAtOptions{At: calendar.WallTimeOf(o.now)})), almanac.ErrOptedOut)
		o.same("planned", len(o.openEvents("OFFER")), 0)
		o.same("opt-outs", bare(o.storedUser(o.user.ID).OptOuts), []almanac.OptOut{offers})
	}),
	"OptOut/of everything is accepted whatever else is stored": onOffers(func(o *opting) {
		var full almanac.ProfileChange
		for i := range 100 {
			full.OptOut = append(full.OptOut, almanac.OptOut{Type: fmt.Sprintf("NEWS-%d", i)})
		}
		must(o.s.UpdateUser(o.Context(), o.user.ID, full))(o.kit)
		o.is(errorOf(o.s.OptOut(o.Context(), o.user.ID, almanac.OptOut{Type: "NEWS"})), almanac.ErrInvalid)
		o.out(everything)
		o.same("planned", len(o.openEvents("OFFER")), 0)
		o.same("opt-outs", len(o.storedUser(o.user.ID).OptOuts), 101)
		o.in(everything)
		o.same("opt-outs", len(o.storedUser(o.user.ID).OptOuts), 100)
	}),
	"OptOut/of a new user: nothing refused is planned": onOffers(func(o *opting) {
		p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "UTC", OptOuts: []almanac.OptOut{offers, everything, offers}}
		created := must(o.s.CreateUser(o.Context(), p))(o.kit)
		o.same("opt-outs", bare(created.User.OptOuts), []almanac.OptOut{everything, offers})
		o.same("planned", len(created.Events), 1)
		o.same("type", created.Events[0].Type, "NOTICE")
	}),
}
