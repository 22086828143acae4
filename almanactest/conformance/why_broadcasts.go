package conformance

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/ops"
)

// whyNews explains the day of a broadcast to a user, and expects one answer, with a code and with a part of its text.
func (k *broadcastKit) whyNews(user uuid.UUID, b broadcast.Broadcast, code ops.WhyCode, text string) ops.WhyAnswer {
	k.Helper()
	answers := k.allNews(user, b)
	k.same("answers", len(answers), 1)
	a := answers[0]
	k.same("code", a.Code, code)
	if !strings.Contains(a.Text, text) {
		k.Errorf("text = %q, want %q", a.Text, text)
	}
	k.same("name", a.OccurrenceKey+" "+a.Broadcast.Name, b.Name+" "+b.Name)
	return a
}

// allNews explains the day of a broadcast to a user.
func (k *broadcastKit) allNews(user uuid.UUID, b broadcast.Broadcast) []ops.WhyAnswer {
	k.Helper()
	s := k.scheduler(almanac.OneOff{Type: "NEWS"})
	request := ops.WhyRequest{User: user, Type: "NEWS", Day: b.At.Date}
	return must(ops.Why(k.Context(), s, request, ops.WhyOptions{Broadcasts: k.Sender}))(k.kit).Answers
}

// whyBroadcastCases explain why a user got an event of a broadcast, or none.
var whyBroadcastCases = map[string]func(*broadcastKit){
	"why: delivered": func(k *broadcastKit) {
		b := k.news("sale", -time.Minute)
		b.Passed = broadcast.Now
		user := k.citizens(1, "UTC")[0]
		k.send(b)
		k.deliver(k.claimNews(1)[0])
		b.At = k.events("sale")[user].Wall
		k.whyNews(user, b, ops.WhyDelivered, "It belongs to the broadcast sale.")
	},
	"why: the user refuses the type, is new, or is not in the audience": func(k *broadcastKit) {
		users := k.citizens(3, "UTC")
		lima := k.citizens(1, "America/Lima")[0]
		s, b := k.scheduler(almanac.OneOff{Type: "NEWS"}), k.news("sale", 48*time.Hour)
		ctx := almanac.WithPrincipal(k.Context(), "grace")
		must(s.OptOut(ctx, users[0], almanac.OptOut{Type: "NEWS", Reason: "too many"}))(k.kit)
		b.Audience = broadcast.Audience{Zones: []string{"UTC"}}
		k.send(b)
		k.whyNews(users[0], b, ops.WhyOptedOut, "by grace: too many.")
		k.whyNews(users[1], b, ops.WhyScheduled, "It belongs to the broadcast sale.")
		k.whyNews(lima, b, ops.WhyNotInAudience, "with certain attributes")
		k.whyNews(k.citizens(1, "UTC")[0], b, ops.WhyCreatedLater, "The user was created only at")
		must(s.OptOut(ctx, users[2], almanac.OptOut{Type: "NEWS"}))(k.kit) // removes the event
		k.whyNews(users[2], b, ops.WhyOptedOut, "The broadcast sale has no event for the user")
	},
	"why: in no list, in a list that is not complete, or not stored yet": func(k *broadcastKit) {
		users := k.citizens(2, "UTC")
		b := k.news("listed", 48*time.Hour)
		b.Audience.Listed = true
		must(k.Start(k.Context(), b))(k.kit)
		k.whyNews(users[0], b, ops.WhyNotStored, "is not complete yet")
		must(k.AddUsers(k.Context(), "listed", users[:1], nil))(k.kit)
		must(k.Complete(k.Context(), "listed"))(k.kit)
		k.whyNews(users[0], b, ops.WhyNotStored, "It is still storing events.")
		k.whyNews(users[1], b, ops.WhyNotInAudience, "not among them")
		k.stores("listed")
		k.whyNews(users[0], b, ops.WhyScheduled, "It belongs to the broadcast listed.")
	},
	"why: the hour had passed in the zone of the user": func(k *broadcastKit) {
		user, b := k.citizens(1, "UTC")[0], k.news("sale", -time.Hour)
		k.send(b)
		a := k.whyNews(user, b, ops.WhyHourPassed, "had passed in UTC when the broadcast was created")
		k.same("wall time", a.Local, b.At.String())
		b.Name, b.Passed = "again", broadcast.NextDay
		k.send(b)
		answers := k.allNews(user, b)
		k.same("answers", len(answers), 2)
		next := answers[1]
		k.same("on the next day", []any{next.Code, next.OccurrenceKey, next.Due.After(k.clock())}, []any{ops.WhyScheduled, "again", true})
	},
	"why: stopped before the event was stored, or later, and resumed": func(k *broadcastKit) {
		users, b := k.citizens(2, "UTC"), k.news("sale", 48*time.Hour)
		must(k.Start(k.Context(), b))(k.kit)
		ctx := almanac.WithPrincipal(k.Context(), "grace")
		must(k.Stop(ctx, "sale", "typo"))(k.kit)
		k.whyNews(users[0], b, ops.WhyStopped, "by grace: typo.")
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.stores("sale")
		must(k.Stop(ctx, "sale", "typo"))(k.kit)
		k.stores("sale")
		a := k.whyNews(users[0], b, ops.WhyCancelled, "because its broadcast was stopped at")
		k.same("reason", strings.Contains(a.Text, "by grace: typo."), true)
		must(k.Resume(k.Context(), "sale"))(k.kit)
		k.stores("sale")
		answers := k.allNews(users[0], b)
		k.same("answers", len(answers), 2)
		for _, a := range answers {
			want := map[ops.WhyCode]string{ops.WhyScheduled: "It repeats an event that ended at", ops.WhyCancelled: ", as the event"}[a.Code]
			if want == "" || !strings.Contains(a.Text, want) || !strings.Contains(a.Text, "It was requeued at") {
				k.Errorf("%s: %s", a.Code, a.Text)
			}
		}
	},
	"why: refused, though the user is in the audience": func(k *broadcastKit) {
		user, b := k.citizens(1, "UTC")[0], k.news("sale", 48*time.Hour)
		b.Audience.Attributes = json.RawMessage(`{"plan": "gold"}`)
		k.send(b)
		k.whyNews(user, b, ops.WhyNotInAudience, "")
		s := k.scheduler(almanac.OneOff{Type: "NEWS"})
		must(s.UpdateUser(k.Context(), user, almanac.ProfileChange{Attributes: json.RawMessage(`{"plan": "gold"}`)}))(k.kit)
		k.whyNews(user, b, ops.WhyRefused, "The user was changed last at")
	},
	"why: only broadcasts of the type and the day": func(k *broadcastKit) {
		user, b := k.citizens(1, "UTC")[0], k.news("sale", 48*time.Hour)
		k.send(b)
		day := b
		day.At.Date = b.At.Date.AddDays(-1)
		k.same("another day", k.allNews(user, day)[0].Code, ops.WhyNone)
		about := must(k.About(k.Context(), must(k.r.User(k.Context(), user))(k.kit), "OTHER", b.At.Date))(k.kit)
		k.same("another type", len(about), 0)
		instant := broadcast.Broadcast{Name: "instant", Type: "NEWS", Instant: b.At.Labelled(), Passed: broadcast.Skip, Payload: b.Payload}
		must(k.Start(k.Context(), instant))(k.kit)
		about = must(k.About(k.Context(), must(k.r.User(k.Context(), user))(k.kit), "NEWS", b.At.Date))(k.kit)
		k.same("newest first", about[0].Name+" "+about[1].Name, "instant sale")
		k.same("payload", about[0].Payload == nil, true)
		k.same("read", []bool{about[0].Read, about[1].Read}, []bool{false, true})
	},
}
