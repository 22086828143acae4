package conformance

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// optOutUntilCases check opt-outs that have an end. See docs/adr/0076-opt-outs-until.md.
var optOutUntilCases = cases{
	"OptOut/until a day: the first event after it is planned at once": onDays(func(o *opting) {
		result := o.out(o.until(3))
		o.same("removed", ids(result.Removed), []uuid.UUID{o.first.ID})
		o.same("planned", len(result.Added), 1)
		o.same("key", result.Added[0].OccurrenceKey, o.key(3))
		o.same("stored", o.openEvents("OFFER")[0].OccurrenceKey, o.key(3))
		o.is(errorOf(o.s.RunNow(o.Context(), result.Added[0].ID, almanac.ForceOptions{Force: true})), almanac.ErrOptedOut) // it would be refused, and its key be used
		o.same("version", o.out(o.until(3)).User.Version, result.User.Version)                                             // a second time changes nothing
		o.same("later", o.out(o.until(5)).Added[0].OccurrenceKey, o.key(5))                                                // and replaces the first one
		o.same("opt-outs", len(o.storedUser(o.user.ID).OptOuts), 1)
		o.same("for ever", len(o.out(offers).Added)+len(o.openEvents("OFFER")), 0)
	}),
	"OptOut/until a day: an opt-in plans the next event": onDays(func(o *opting) {
		o.out(o.until(3))
		o.in(offers)
		o.same("open", len(o.openEvents("OFFER")), 1)
		o.same("key", o.openEvents("OFFER")[0].OccurrenceKey, o.key(1))
	}),
	"OptOut/until a day: an event in flight ends, and the series goes on after that day": onDays(func(o *opting) {
		o.deliver = func(almanac.Delivery) error {
			o.out(o.until(3))
			return nil
		}
		o.same("completed", o.pass().Completed, 1)
		o.same("open", len(o.openEvents("OFFER")), 1)
		o.same("key", o.openEvents("OFFER")[0].OccurrenceKey, o.key(3))
	}),
	"OptOut/until a day: edits, enrolments and reschedules keep what is planned": onDays(func(o *opting) {
		planned := o.out(o.until(3)).Added[0].OccurrenceKey
		name := "Grace"
		must(o.s.UpdateUser(o.Context(), o.user.ID, almanac.ProfileChange{FirstName: &name}))(o.kit)
		must(o.s.Reschedule(o.Context(), o.user.ID))(o.kit)
		must(o.s.Backfill(o.Context(), "OFFER", almanac.BackfillOptions{}))(o.kit)
		o.same("scheduled", must(o.s.Schedule(o.Context(), o.user.ID, "OFFER"))(o.kit)[0].OccurrenceKey, planned)
		o.same("open", len(o.openEvents("OFFER")), 1)
		ahead := must(o.s.Preview(o.Context(), o.user.ID, "OFFER", 1))(o.kit).Ahead
		o.same("preview", ahead[0].Key, planned)
	}),
	"OptOut/until a day: a one-off event is refused before it, and accepted after it": onDays(func(o *opting) {
		before := must(o.s.ScheduleAt(o.Context(), o.user.ID, "NOTES", almanac.ScheduleAtOptions{Key: "a", At: calendar.WallTimeOf(o.at(1))}))(o.kit)
		o.same("removed", len(o.out(almanac.OptOut{Until: o.until(3).Until}).Removed), 2)
		o.noEvent(before.Event.ID)
		o.is(errorOf(o.s.ScheduleAt(o.Context(), o.user.ID, "NOTES", almanac.ScheduleAtOptions{Key: "b", At: calendar.WallTimeOf(o.at(2))})), almanac.ErrOptedOut)
		must(o.s.ScheduleAt(o.Context(), o.user.ID, "NOTES", almanac.ScheduleAtOptions{Key: "c", At: calendar.WallTimeOf(o.at(3))}))(o.kit)
	}),
	"OptOut/that has ended: what lay in it is not delivered, and the series goes on": onDays(func(o *opting) {
		o.out(offers)
		ended := o.until(0)
		ended.Since = o.at(-3)
		must(o.scheduler().OptOut(o.Context(), o.user.ID, ended))(o.kit) // of a program that plans nothing
		within := o.late(1)
		o.add(o.user.ID, within) // by a program that does not know opt-outs
		o.same("called off", o.pass().Cancelled, 1)
		o.ended(within, almanac.Cancelled, almanac.ReasonOptedOut)
		o.same("attempts", len(o.sent), 0)
		o.same("next", o.openEvents("OFFER")[0].OccurrenceKey, o.key(1))
	}),
	"OptOut/that has ended: what lay before it is delivered": onDays(func(o *opting) {
		o.out(offers)
		ended := o.until(-1)
		ended.Since = o.at(-3)
		must(o.scheduler().OptOut(o.Context(), o.user.ID, ended))(o.kit)
		o.add(o.user.ID, o.late(5))
		o.same("delivered", o.pass().Completed, 1)
	}),
	"OptOut/until a day: a late event of a day before it is not delivered": onDays(func(o *opting) {
		o.out(offers)
		must(o.scheduler().OptOut(o.Context(), o.user.ID, o.until(3)))(o.kit)
		o.add(o.user.ID, o.late(1))
		o.same("called off", o.pass().Cancelled, 1)
	}),
	"OptOut/until two days: the later one counts": onDays(func(o *opting) {
		o.out(o.until(3))
		o.out(almanac.OptOut{Until: o.until(5).Until})
		o.same("key", o.openEvents("OFFER")[0].OccurrenceKey, o.key(5))
	}),
	"OptOut/of a channel until a day: applies at delivery": onDays(func(o *opting) {
		o.out(almanac.OptOut{Channel: "mail", Until: o.until(1).Until})
		o.same("called off", o.pass().Cancelled, 1)
		o.same("next", o.openEvents("OFFER")[0].OccurrenceKey, o.key(1))
		must(o.s.RunNow(o.Context(), o.openEvents("OFFER")[0].ID, almanac.ForceOptions{}))(o.kit)
		o.same("run on a day within it", o.pass().Cancelled, 1)
	}),
	"OptOut/stores since when, by whom and why": onDays(func(o *opting) {
		ctx := almanac.WithPrincipal(o.Context(), "support")
		what := almanac.OptOut{Type: "OFFER", Until: o.until(3).Until, Reason: "on leave"}
		must(o.s.OptOut(ctx, o.user.ID, what))(o.kit)
		stored := o.storedUser(o.user.ID).OptOuts[0]
		o.same("since", stored.Since.After(o.now.Add(-time.Minute)) && !stored.Since.After(o.clock()), true)
		what.Since, what.Author = stored.Since, "support"
		o.same("stored", stored, what)
		must(o.s.OptOut(o.Context(), o.user.ID, almanac.OptOut{Type: "OFFER", Until: what.Until}))(o.kit) // as a mail program repeats it
		o.same("stored", o.storedUser(o.user.ID).OptOuts[0], what)
		change := almanac.ProfileChange{OptOut: []almanac.OptOut{{Type: "OFFER", Until: what.Until, Reason: "moved", Since: o.at(2)}, {Type: "NOTES", Author: "user"}}}
		must(o.s.UpdateUser(ctx, o.user.ID, change))(o.kit)
		o.same("given", change.OptOut[0].Author, "")
		all := o.storedUser(o.user.ID).OptOuts
		o.same("by whom", all[0].Author, "user")
		o.same("by whom and why", all[1].Author+" "+all[1].Reason, "support moved")
		o.same("not since tomorrow", all[1].Since.After(o.clock()), false)
		o.is(errorOf(o.s.OptOut(o.Context(), o.user.ID, almanac.OptOut{Until: calendar.Date{Year: 2027, Month: 2, Day: 30}})), almanac.ErrInvalid)
		o.is(errorOf(o.s.OptOut(o.Context(), o.user.ID, almanac.OptOut{Reason: "\x00"})), almanac.ErrInvalid)
	}),
}

// optOutUntilEventCases check what becomes of events that were claimed, made due or planned in another zone.
var optOutUntilEventCases = cases{
	"OptOut/until a day: PENDING, claimed before: CANCELLED, and the series goes on after it": onDays(func(o *opting) {
		o.deliver = func(almanac.Delivery) error { return almanac.Snooze(time.Hour, "") }
		o.same("put off", o.pass().Retried, 1)
		result := o.out(o.until(3))
		o.same("cancelled", ids(result.Cancelled), []uuid.UUID{o.first.ID})
		o.same("planned", len(result.Added), 1)
		o.same("key", o.openEvents("OFFER")[0].OccurrenceKey, o.key(3))
	}),
	"OptOut/of another type: leaves an event that is refused already to its next claim, which plans the next one": onDays(func(o *opting) {
		o.deliver = func(almanac.Delivery) error { return almanac.Snooze(time.Hour, "") }
		o.same("put off", o.pass().Retried, 1)
		must(o.s.RunNow(o.Context(), o.first.ID, almanac.ForceOptions{}))(o.kit)
		must(o.scheduler().OptOut(o.Context(), o.user.ID, o.until(3)))(o.kit) // of a program that plans nothing
		o.same("cancelled", len(o.out(almanac.OptOut{Type: "NOTES"}).Cancelled), 0)
		o.same("called off", o.pass().Cancelled, 1)
		o.same("key", o.openEvents("OFFER")[0].OccurrenceKey, o.key(3))
	}),
	"OptOut/until a day: RunNow is refused before it": onDays(func(o *opting) {
		planned := o.out(o.until(3)).Added[0]
		o.is(errorOf(o.s.RunNow(o.Context(), planned.ID, almanac.ForceOptions{})), almanac.ErrOptedOut)
		o.is(errorOf(o.s.RunNow(o.Context(), planned.ID, almanac.ForceOptions{Force: true})), almanac.ErrOptedOut)
		o.is(errorOf(o.scheduler().RunNow(o.Context(), planned.ID, almanac.ForceOptions{})), almanac.ErrOptedOut) // of a program without handlers
		o.same("stored", o.stored(planned.ID), planned)
		o.same("forced", must(o.scheduler().RunNow(o.Context(), planned.ID, almanac.ForceOptions{Force: true}))(o.kit).Due.Equal(planned.Due), false)
	}),
	"OptOut/until a day: moves an event that RunNow made due back to its occurrence": onDays(func(o *opting) {
		planned := o.out(o.until(3)).Added[0]
		must(o.scheduler().OptIn(o.Context(), o.user.ID, offers))(o.kit) // of a program that plans nothing
		must(o.s.RunNow(o.Context(), planned.ID, almanac.ForceOptions{}))(o.kit)
		o.same("moved", ids(o.out(o.until(3)).Moved), []uuid.UUID{planned.ID})
		o.same("due", o.stored(planned.ID).Due, planned.Due)
	}),
	"OptOut/until a day: an event in a zone west of the user's is delivered if it is that day for the user": onDays(func(o *opting) {
		o.firstIn(west)
		zone, what := east, o.until(0)
		what.Until, what.Since = calendar.StoredTimezone(east).WallTime(o.first.Due).Date, o.at(-3)
		must(o.scheduler().UpdateUser(o.Context(), o.user.ID, almanac.ProfileChange{Timezone: &zone, OptOut: []almanac.OptOut{what}}))(o.kit)
		o.same("delivered", o.pass().Completed, 1)
	}),
	"OptOut/until a day: an event of that day waits for its retry, and the user moves west": onDays(func(o *opting) {
		o.firstIn(east)
		o.deliver = func(almanac.Delivery) error { return almanac.Snooze(time.Hour, "") }
		o.same("put off", o.pass().Retried, 1)
		must(o.s.RunNow(o.Context(), o.first.ID, almanac.ForceOptions{}))(o.kit)
		o.deliver = nil
		zone, what := west, o.until(0)
		what.Until, what.Since = o.first.Wall.Date, o.at(-3)
		must(o.scheduler().OptOut(o.Context(), o.user.ID, what))(o.kit)
		o.same("cancelled", len(must(o.s.UpdateUser(o.Context(), o.user.ID, almanac.ProfileChange{Timezone: &zone}))(o.kit).Cancelled), 0)
		o.same("delivered", o.pass().Completed, 1)
	}),
	"OptOut/until a day whose midnight clocks skip: the first event of that day is planned, and none of the evening before": func(k *kit) {
		beirut := must(calendar.LoadTimezone("Asia/Beirut"))(k)
		gap, is := beirut.NextChange(k.now.Add(48 * time.Hour))
		for is && (gap.Width() < 0 || gap.From().Clock != (calendar.Clock{})) {
			gap, is = beirut.NextChange(gap.At)
		}
		k.same("midnight is skipped", is, true)
		midnight := gap.From()
		for at, due := range map[calendar.Clock]time.Time{{}: gap.At.UTC().Add(-gap.Width()), {Hour: 23, Minute: 30}: gap.At.UTC().Add(22*time.Hour + 30*time.Minute)} {
			u, _ := k.create(almanactest.User(almanactest.LivingIn("Asia/Beirut")))
			s := k.scheduler(almanac.Recurring{Type: "OFFER", Policies: calendar.Policies{Gap: calendar.GapBackward}, Rule: func(almanac.User) (calendar.Recurrence, error) {
				return calendar.Daily{At: at}, nil
			}})
			planned := must(s.OptOut(k.Context(), u.ID, almanac.OptOut{Type: "OFFER", Until: midnight.Date}))(k).Added
			k.same("planned", len(planned), 1)
			k.same("key", planned[0].OccurrenceKey, midnight.Date.String())
			k.same("due", planned[0].Due, due)
		}
	},
	"OptOut/with an end that has passed: refused, unless it is stored or says since when": onDays(func(o *opting) {
		o.out(offers)
		o.is(errorOf(o.s.OptOut(o.Context(), o.user.ID, o.until(-2))), almanac.ErrInvalid)
		o.same("stored", bare(o.storedUser(o.user.ID).OptOuts), []almanac.OptOut{offers})
		record := o.until(-2)
		record.Since = o.at(-5)
		stored := o.out(record).User
		o.same("repeated", o.out(o.until(-2)).User.Version, stored.Version)
		o.same("today", len(o.out(o.until(0)).User.OptOuts), 1)
	}),
	"OptOut/beside one that would be refused today": onDays(func(o *opting) {
		odd := almanac.OptOut{Type: "NOTES", Reason: strings.Repeat("a", 300), Since: o.at(-3)}
		o.apply(o.user.ID, func(r almanac.Roster) (almanac.Edit, error) { // by another program
			r.User.OptOuts, r.User.Version = []almanac.OptOut{odd}, r.User.Version+1
			return almanac.Edit{User: &r.User}, nil
		})
		o.same("stored", bare(o.out(offers).User.OptOuts), bare([]almanac.OptOut{odd, offers}))
	}),
}

// onDays returns a case about a user in UTC. The first OFFER was due a moment ago, and the next ones are due
// each day at the same time.
func onDays(check func(*opting)) func(*kit) {
	return func(k *kit) {
		o := &opting{kit: k}
		var at []time.Time
		for day := range 8 {
			at = append(at, o.at(day))
		}
		o.s = o.scheduler(offer{eventType: "OFFER", at: at}, offer{eventType: "NOTES"})
		o.user = almanactest.User(almanactest.LivingIn("UTC"))
		first, err := almanac.NewEvent(o.user, offer{eventType: "OFFER"}, almanac.Occurrence{Occurrence: calendar.Occurrence{
			Key: o.key(0), Wall: calendar.WallTimeOf(at[0]), Zone: calendar.StoredTimezone("UTC"),
		}})
		k.ok(err)
		_, events := k.create(o.user, first)
		o.first = events[0]
		check(o)
	}
}

// at returns when an OFFER of onDays is due, some days after the first one.
func (o *opting) at(days int) time.Time {
	return o.now.UTC().Truncate(time.Second).AddDate(0, 0, days)
}

// key returns the key of the OFFER that is due then.
func (o *opting) key(days int) string { return calendar.WallTimeOf(o.at(days)).String() }

// until returns the opt-out of OFFER until the day of the event that is due then.
func (o *opting) until(days int) almanac.OptOut {
	return almanac.OptOut{Type: "OFFER", Until: calendar.WallTimeOf(o.at(days)).Date}
}

// late returns an OFFER that was due the given number of days ago.
func (o *opting) late(days int) almanac.Event {
	e, at := o.first, o.at(-days)
	e.ID, e.IdempotencyKey, e.OccurrenceKey = uuid.Must(uuid.NewV7()), "event-late", o.key(-days)
	e.Wall, e.Due, e.AvailableAt = calendar.WallTimeOf(at), at, at
	return e
}

// east and west are zones in which it is never the same day.
const (
	east = "Pacific/Kiritimati"
	west = "Etc/GMT+12"
)

// firstIn replaces the first OFFER by one in a zone, at the same instant.
func (o *opting) firstIn(zone string) {
	o.out(offers)
	must(o.scheduler().OptIn(o.Context(), o.user.ID, offers))(o.kit) // of a program that plans nothing
	o.first.ID, o.first.Zone, o.first.Wall = uuid.Must(uuid.NewV7()), zone, calendar.StoredTimezone(zone).WallTime(o.first.Due)
	o.first = o.add(o.user.ID, o.first)[0]
}

// bare returns opt-outs without the time at which they were stored.
func bare(all []almanac.OptOut) (list []almanac.OptOut) {
	for _, o := range all {
		o.Since = time.Time{}
		list = append(list, o)
	}
	return list
}
