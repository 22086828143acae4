package conformance

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// fieldCases store events and users with a distinct value in every field. They use every
// way of storing, and check every way of reading.
var fieldCases = cases{
	"Fields/fixtures have all of them": func(k *kit) {
		const later = "Origin.Forced PlannedBy UsedBefore Unplanned LeaseToken ExecutedAt FailureReason LastError RetryCount ClaimCount CrashCount CreatedAt UpdatedAt"
		u, now := almanactest.User(), time.Date(2026, time.March, 14, 15, 9, 26, 0, time.UTC) // hour, minute and second are not zero
		planned, scheduled, followUp := full(now, u, 1), scheduled(full(now, u, 2)), full(now, u, 3, asFollowUp)
		k.same("without a value in all events", slices.DeleteFunc(empty(planned), func(field string) bool {
			return !slices.Contains(empty(scheduled), field) || !slices.Contains(empty(followUp), field)
		}), strings.Fields(later))
		k.same("without a value in a user", empty(fullUser(1)), []string{"CreatedAt", "UpdatedAt"})
	},
	"Fields/of a planned event": func(k *kit) {
		u := almanactest.User()
		given := full(k.now, u, 1)
		_, events := k.create(u, given)
		k.kept(events[0], given)
		claimed := k.claimed(events[0])
		released := k.retry(claimed, "busy", 0).Event
		k.found(released)
		k.found(k.giveUp(k.claimed(released), "HTTP 404").Event)
	},
	"Fields/of a successor": func(k *kit) {
		u := almanactest.User()
		given := []almanac.Event{full(k.now, u, 1), full(k.now, u, 2), full(k.now, u, 3, almanactest.OfSeries("other", "3")), full(k.now, u, 4, asFollowUp)}
		_, events := k.create(u, given[0])
		settled := k.settle(almanac.Settlement{
			Event: k.claimed(events[0]), Outcome: almanac.Delivered(k.now), Next: planned(given[1]),
			Follow: func(almanac.User, time.Time) ([]almanac.Event, error) { return given[3:], nil },
		})
		k.found(settled.Event)
		successor := k.succeeded(settled, given[1])
		k.kept(settled.Followed[0], given[3])
		settled = k.settle(almanac.Settlement{Event: k.claimed(successor), Outcome: almanac.Delivered(k.now), Next: planned(given[2])})
		k.found(settled.Event)
		k.succeeded(settled, given[2])
	},
	"Fields/of events of several users": func(k *kit) {
		var users []almanac.UserWithEvents
		for n := range 2 {
			u := almanactest.User()
			users = append(users, almanac.UserWithEvents{User: u, Events: []almanac.Event{full(k.now, u, 1), scheduled(full(k.now, u, 2+n))}})
		}
		stored := k.createUsers(users...)
		for n, one := range stored {
			for i, e := range one.Events {
				k.kept(e, users[n].Events[i])
			}
		}
	},
	"Fields/of an event whose worker dies": func(k *kit) {
		u := almanactest.User()
		_, events := k.create(u, full(k.now, u, 1))
		claimed, released := k.crash(1)
		k.kept(released[0], must(claimed[0].Release(almanac.AfterCrash, "lease expired", released[0].AvailableAt))(k))
		claim := k.take(expiring(1))
		k.deleteUser(u.ID)
		ended := must(claim.Events[0].Fail(almanac.ReasonUserDeleted))(k)
		got := k.expire(1, 10)[0]
		ended.CreatedAt, ended.UpdatedAt = events[0].CreatedAt, got.UpdatedAt
		k.same("event of a deleted user", got, ended)
	},
}

var editFieldCases = cases{
	"Fields/of events of an edit": func(k *kit) {
		u, _ := k.create(almanactest.User())
		first := []almanac.Event{full(k.now, u, 1), scheduled(full(k.now, u, 2)), full(k.now, u, 3, asFollowUp)}
		stored := k.add(u.ID, first...)
		for i, e := range stored {
			k.kept(e, first[i])
		}
		moved := full(k.now, u, 4)
		moved.ID, moved.OccurrenceKey, moved.KeyUnit = first[0].ID, first[0].OccurrenceKey, first[0].KeyUnit
		moved.IdempotencyKey, moved.Version = first[0].IdempotencyKey, 2
		again := []almanac.Event{scheduled(full(k.now, u, 5)), full(k.now, u, 6, asFollowUp)}
		again[0].OccurrenceKey, again[0].Origin.FollowsUser, again[0].Origin.PayloadMade = first[1].OccurrenceKey, false, false
		again[1].OccurrenceKey, again[1].Origin.From = first[2].OccurrenceKey, first[0].ID
		k.apply(u.ID, func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{Removed: stored[1:]}, nil })
		edit := k.apply(u.ID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Changed: []almanac.Event{moved}, New: again}, nil
		})
		k.kept(edit.Changed[0], moved)
		k.kept(edit.New[0], again[0])
		k.kept(edit.New[1], again[1])
		cancelled := k.apply(u.ID, cancelling).Changed
		for _, e := range cancelled {
			k.found(e)
		}
		next := full(k.now, u, 7)
		k.kept(k.add(u.ID, next)[0], next)
		requeued := k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			edit, err := requeuing(cancelled[0])(r)
			edit.New[0].Origin.Forced = true
			return edit, err
		}).New[0]
		want := must(cancelled[0].Requeue(requeued.ID, requeued.AvailableAt))(k)
		want.Origin.Forced = true
		k.kept(requeued, want)
	},
	"Fields/of a user": func(k *kit) {
		given, other, edited := fullUser(1), fullUser(3), fullUser(2)
		u, _ := k.create(given, full(k.now, given, 1))
		k.keptUser(u, given)
		k.keptUser(k.createUsers(almanac.UserWithEvents{User: other}, almanac.UserWithEvents{User: almanactest.User()})[0].User, other)
		edited.ID, edited.Version, edited.CreationDigest = u.ID, 2, u.CreationDigest
		u = *k.apply(u.ID, func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{User: &edited}, nil }).User
		k.keptUser(u, edited)
		k.gone(errorOf(k.r.UserByExternalID(k.Context(), given.ExternalID)))
		claim := k.take(request(1))
		k.same("user of a claim", claim.Users[u.ID], u)
		settled := k.settle(almanac.Settlement{Event: claim.Events[0], Outcome: almanac.Delivered(k.now), Next: func(locked almanac.User, _ time.Time) (almanac.Event, error) {
			k.same("user of a settlement", locked, u)
			return almanac.Event{}, calendar.ErrNoOccurrence
		}})
		k.ok(settled.Err)
	},
}

// full returns an event with distinct values, the n-th of its series. Each field that does
// not belong to the series differs from the events before and after.
func full(now time.Time, u almanac.User, n int, options ...almanactest.EventOption) almanac.Event {
	zone := []string{"Pacific/Kiritimati", "Pacific/Pago_Pago"}[n%2] // never on the same day
	policies := []calendar.Policies{
		{Gap: calendar.GapBackward, Fold: calendar.FoldSecond, LeapDay: calendar.LeapDayMar1, MonthEnd: calendar.MonthEndSkip,
			Missing: calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingSkip}},
		{Gap: calendar.GapBoundary, Fold: calendar.FoldReject, LeapDay: calendar.LeapDaySkip, MonthEnd: calendar.MonthEndClamp},
	}[n%2]
	full := func(e *almanac.Event, now time.Time) {
		e.Zone, e.Policies, e.UserVersion = zone, policies, 10+n
		e.Lane = []string{"crm/tenant-7", "mail"}[n%2]
		e.KeyUnit = []calendar.Unit{calendar.UnitDay, "year:hebrew"}[n%2]
		e.Nominal = calendar.WallTimeOf(now.UTC().Truncate(time.Second).Add(time.Duration(n) * 25 * time.Hour))
		e.Payload = json.RawMessage(`{"n": ` + strconv.Itoa(n) + `}`)
		day := calendar.Date{Year: 2026, Month: time.November, Day: n}
		e.Consulted = calendar.Consulted{Calendars: "DE-BY@2026-11-" + strconv.Itoa(10+n), From: day, Until: day.AddDays(n), Provisional: n%2 == 1}
		place(e, now.Add(time.Duration(n-60)*time.Minute))
		e.ReadyAt = e.Due.Add(time.Duration(n) * 30 * time.Second)
		e.AvailableAt = e.ReadyAt
	}
	return almanactest.Event(now, append([]almanactest.EventOption{almanactest.For(u), almanactest.OfSeries("named", strconv.Itoa(n)), full}, options...)...)
}

// scheduled makes an event look as if a host had scheduled it.
func scheduled(e almanac.Event) almanac.Event {
	e.Origin = almanac.Origin{Kind: almanac.OriginScheduled, FollowsUser: true, PayloadMade: true}
	return e
}

// fullUser returns a user with distinct values.
func fullUser(n int) almanac.User {
	u := almanactest.User(almanactest.Named("Grace "+strconv.Itoa(n), "Hopper "+strconv.Itoa(n)), almanactest.BornOn("1906-12-0"+strconv.Itoa(n)),
		almanactest.LivingIn([]string{"Pacific/Kiritimati", "Pacific/Pago_Pago"}[n%2]), almanactest.WithAttributes(`{"n": `+strconv.Itoa(n)+`}`),
		almanactest.WithLocale([]string{"pt-BR", "zh-Hant-TW"}[n%2]), almanactest.WithEmail("gráce."+strconv.Itoa(n)+"@bücher.example"), almanactest.WithExternalID("№ "+strconv.Itoa(n)))
	u.CreationDigest = "digest " + strconv.Itoa(n)
	u.ZoneSource = []almanac.ZoneSource{almanac.ZoneDefault, almanac.ZoneGuessed, almanac.ZoneDeclared}[n%3]
	u.OptOuts = []almanac.OptOut{{Channel: "e-mail"}, {Type: "TYPE " + strconv.Itoa(n)}, {Type: "<&>", Channel: "é", Until: calendar.Date{Year: 2027, Month: 3, Day: 1}, Reason: "<é>", Author: "☃", Since: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}}[n%2 : 1+2*(n%2)]
	return u
}

// empty returns the names of the zero fields of a struct, in order, including those of
// struct fields whose type has exported fields.
func empty(row any) (fields []string) {
	v := reflect.ValueOf(row)
	for i := range v.NumField() {
		name, field := v.Type().Field(i).Name, v.Field(i)
		if field.Kind() == reflect.Struct && field.Type().Field(0).IsExported() {
			for _, inner := range empty(field.Interface()) {
				fields = append(fields, name+"."+inner)
			}
		} else if field.IsZero() {
			fields = append(fields, name)
		}
	}
	return fields
}

// claimed claims an event and checks its fields.
func (k *kit) claimed(pending almanac.Event) almanac.Event {
	k.Helper()
	got := k.claim(1)[0]
	got.UsedBefore = nil // which a claim alone returns
	k.became(got)(pending.Claim(got.LeaseToken))
	k.found(got)
	return got
}

// succeeded checks that a settlement stored the given successor.
func (k *kit) succeeded(settled almanac.SettleResult, given almanac.Event) almanac.Event {
	k.Helper()
	if settled.Successor == nil {
		k.Fatalf("no successor: %v", settled.PlanErr)
	}
	k.kept(*settled.Successor, given)
	return *settled.Successor
}

// kept checks that an event was stored as given, with the repository's times.
func (k *kit) kept(got, given almanac.Event) {
	k.Helper()
	given.CreatedAt, given.UpdatedAt = got.CreatedAt, got.UpdatedAt
	if given.Status == almanac.Pending && given.ClaimCount == 0 {
		given.AvailableAt = given.FirstAvailable()
	}
	k.same("event", got, given)
	k.found(got)
}

// found checks that every way of reading returns the same event.
func (k *kit) found(want almanac.Event) {
	k.Helper()
	k.same("by id", k.stored(want.ID), want)
	k.among("found", k.find(almanac.ForUser(want.UserID)), want)
	if want.Status.Terminal() {
		return
	}
	r := k.roster(want.UserID)
	k.among("in the roster", slices.Concat(r.Pending, r.InFlight), want)
	if want.Status == almanac.Pending && want.AvailableAt.Before(k.now) {
		missed := must(k.r.FindMissed(k.Context(), []string{want.Type}, 0, 0))(k)
		k.among("missed", missed, want)
	}
}

// among checks that an event is one of a list.
func (k *kit) among(what string, events []almanac.Event, want almanac.Event) {
	k.Helper()
	i := slices.IndexFunc(events, func(e almanac.Event) bool { return e.ID == want.ID })
	if i < 0 {
		k.Fatalf("%s: not %v, which is %s", what, want.ID, want.Status)
	}
	k.same(what, events[i], want)
}

// keptUser checks that a user was stored as given, with the repository's times, and is read unchanged.
func (k *kit) keptUser(got, given almanac.User) {
	k.Helper()
	given.CreatedAt, given.UpdatedAt = got.CreatedAt, got.UpdatedAt
	k.same("user", got, given)
	read := k.storedUser(got.ID)
	k.same("user, read", read, got)
	if got.ExternalID != "" {
		k.same("user, by external id", must(k.r.UserByExternalID(k.Context(), got.ExternalID))(k), got)
	}
	k.same("user of a roster", k.roster(got.ID).User, got)
	must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
		for _, one := range users {
			if one.User.ID == got.ID {
				k.same("user of a page", one.User, got)
			}
		}
		return nil, nil
	}))(k)
}
