package conformance

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// whyEventCases explain events, by a program without handlers.
var whyEventCases = cases{
	"Why/delivered": func(k *kit) {
		a := k.explains(ops.WhyDelivered, almanactest.Tried(2), almanactest.InStatus(almanac.Completed))
		k.same("attempts", a.Event.Attempts, 3)
		k.same("key", strings.Contains(a.Text, string(a.Event.IdempotencyKey)), true)
	},
	"Why/failed": func(k *kit) {
		a := k.explains(ops.WhyFailed, almanactest.OutOfAttempts())
		k.same("attempts", a.Event.Attempts, 3)
		k.same("error", a.Detail, "receiver answered 503")
	},
	"Why/cancelled": func(k *kit) {
		k.same("reason", k.explains(ops.WhyCancelled, almanactest.InStatus(almanac.Cancelled)).Detail, "moved house")
	},
	"Why/called off by a check": func(k *kit) {
		e := k.newClaimed()
		k.end(e, almanac.CalledOff("has moved away"), nil)
		k.same("reason", k.whyEvent(e, ops.WhyCalledOff).Detail, "has moved away")
	},
	"Why/opted out before an attempt": func(k *kit) {
		e := k.newClaimed()
		k.end(e, almanac.CalledOff(almanac.ReasonOptedOut), nil)
		k.whyEvent(e, ops.WhyOptedOut)
	},
	"Why/in flight": func(k *kit) { k.explains(ops.WhyInFlight, almanactest.InStatus(almanac.Processing)) },
	"Why/scheduled": func(k *kit) {
		a := k.explains(ops.WhyScheduled, almanactest.DueIn(time.Hour))
		k.same("until", a.Until, a.Due)
	},
	"Why/spread over a window": func(k *kit) {
		u := almanactest.User()
		e := k.event(u)
		e.ReadyAt = k.now.Add(time.Hour).UTC().Truncate(time.Second)
		e.AvailableAt = e.ReadyAt
		_, events := k.create(u, e)
		k.same("until", k.whyEvent(events[0], ops.WhySpread).Until, e.ReadyAt)
	},
	"Why/quiet hours": func(k *kit) {
		e := k.newClaimed()
		k.settle(almanac.Settlement{Event: e, Outcome: almanac.Released(almanac.AfterSnooze, "quiet hours until 08:00", time.Hour)})
		k.whyEvent(e, ops.WhyQuiet)
	},
	"Why/waits for another attempt": func(k *kit) {
		e := k.newClaimed()
		k.retry(e, "HTTP 503", time.Hour)
		k.same("error", k.whyEvent(e, ops.WhyRetrying).Detail, "HTTP 503")
	},
	"Why/postponed": func(k *kit) {
		e := k.newClaimed()
		k.settle(almanac.Settlement{Event: e, Outcome: almanac.Released(almanac.AfterSnooze, "on holiday", time.Hour)})
		k.same("reason", k.whyEvent(e, ops.WhyPostponed).Detail, "on holiday")
	},
	"Why/paused": func(k *kit) {
		e := k.newEvent()
		if err := k.r.Pause(almanac.WithPrincipal(k.Context(), "grace"), almanac.Pause{Lane: e.Type, Reason: "typo"}); errors.Is(err, errors.ErrUnsupported) {
			return
		}
		a := k.whyEvent(e, ops.WhyPaused)
		k.same("author and reason", a.Pause.Author+" "+a.Pause.Reason, "grace typo")
		k.whyEvent(k.newEvent(almanactest.InLane("crm/tenant-7")), ops.WhyPaused) // a pause of the type holds for all its lanes
	},
	"Why/waits in a lane that is full": func(k *kit) {
		if !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Places: 1}) {
			return
		}
		k.newEvents(1)
		k.claimOnce()
		k.whyEvent(k.newEvent(), ops.WhyLaneFull)
	},
	"Why/its lane has used the day": func(k *kit) {
		if k.statistics == nil || !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Daily: 1}) {
			return
		}
		k.newEvents(1)
		k.claimOnce()
		a := k.whyEvent(k.newEvent(), ops.WhyQuotaUsed)
		k.same("until", a.Until, k.now.UTC().Truncate(24*time.Hour).Add(24*time.Hour))
	},
	"Why/the receiver fails": func(k *kit) {
		e := k.newEvent()
		until := k.now.Add(time.Hour).UTC().Truncate(time.Second)
		if k.statistics == nil || !k.breaker(e.Type, almanac.Breaker{Allowed: 1, RetryAt: until, OpenedAt: k.now}) {
			return
		}
		k.same("until", k.whyEvent(e, ops.WhyReceiverFails).Until, until)
	},
	"Why/ready, and not claimed": func(k *kit) { k.explains(ops.WhyUnclaimed) },
	"Why/an unknown user, and a deleted one": func(k *kit) {
		e := k.newEvent()
		k.whyEvent(e, ops.WhyUnclaimed)
		k.deleteAtOnce(e.UserID)
		for _, id := range []uuid.UUID{e.UserID, uuid.New()} {
			found := must(ops.Why(k.Context(), k.scheduler(), ops.WhyRequest{User: id, Type: e.Type, Day: e.Wall.Date}, ops.WhyOptions{}))(k)
			k.same("code", found.Answers[0].Code, ops.WhyUserUnknown)
		}
	},
	"Why/no handler": func(k *kit) {
		u, _ := k.create(almanactest.User())
		k.why(k.scheduler(), u, k.now, ops.WhyNoHandler)
	},
}

// whyRuleCases explain occurrences without an event, by a program with a handler.
var whyRuleCases = cases{
	"Why/the user was created later": onWhy([]time.Duration{-time.Hour, time.Hour}, func(w *whying) {
		w.fresh(0, ops.WhyCreatedLater)
	}),
	"Why/opted out": onWhy([]time.Duration{time.Hour}, func(w *whying) {
		what := almanac.OptOut{Type: "OFFER", Reason: "too many"}
		must(w.s.OptOut(almanac.WithPrincipal(w.Context(), "ada"), w.user.ID, what))(w.kit)
		a := w.explains(0, ops.WhyOptedOut)
		w.same("author and reason", a.OptOut.Author+" "+a.OptOut.Reason, "ada too many")
	}),
	"Why/expected": onWhy([]time.Duration{time.Hour, 2 * time.Hour}, func(w *whying) {
		w.add(w.user.ID, w.event(0))
		w.explains(1, ops.WhyExpected)
	}),
	"Why/behind another event": onWhy([]time.Duration{-2 * time.Hour, -time.Hour}, func(w *whying) {
		w.add(w.user.ID, w.event(0))
		w.explains(1, ops.WhyBehind)
	}),
	"Why/passed over": onWhy([]time.Duration{-3 * time.Hour, -2 * time.Hour, time.Hour}, func(w *whying) {
		w.end(w.claimed(0), almanac.Delivered(w.now), planned(w.event(2)))
		w.explains(1, ops.WhyPassedOver)
	}),
	"Why/the rule has changed": onWhy([]time.Duration{time.Hour, 2 * time.Hour}, func(w *whying) {
		w.add(w.user.ID, w.event(1))
		w.explains(0, ops.WhyChanged)
	}),
	"Why/before the first event": onWhy([]time.Duration{-time.Hour, time.Hour}, func(w *whying) {
		w.add(w.user.ID, w.event(1))
		w.explains(0, ops.WhyBeforeFirst)
	}),
	"Why/pruned": onWhy([]time.Duration{-3 * time.Hour, -2 * time.Hour, time.Hour}, func(w *whying) {
		first := w.claimed(0)
		w.end(first, almanac.Delivered(w.now), planned(w.event(1)))
		w.end(w.claim(), almanac.Delivered(w.now), planned(w.event(2)))
		w.prune(w.later(w.clock()))
		w.explains(1, ops.WhyPruned)
		w.explains(0, ops.WhyBeforeFirst) // perhaps it was pruned, too
	}),
	"Why/counts as used": onWhy([]time.Duration{-time.Hour, time.Hour}, func(w *whying) {
		e := w.event(0)
		e.OccurrenceKey = "later than every time"
		w.add(w.user.ID, e)
		w.end(w.claim(), almanac.Delivered(w.now), nil)
		w.explains(1, ops.WhyUsed)
	}),
	"Why/stalled": onWhy([]time.Duration{-time.Hour, time.Hour}, func(w *whying) {
		w.settle(almanac.Settlement{Event: w.claimed(0), Outcome: almanac.Delivered(w.now), Next: func(almanac.User, time.Time) (almanac.Event, error) {
			return almanac.Event{}, errPlan
		}})
		w.same("error", w.explains(1, ops.WhyStalled).Detail, errPlan.Error())
	}),
	"Why/not planned": onWhy([]time.Duration{time.Hour}, func(w *whying) { w.explains(0, ops.WhyNotPlanned) }),
	"Why/ended":       onWhy(nil, func(w *whying) { w.why(w.s, w.user, w.now, ops.WhyEnded) }),
	"Why/no occurrence": onWhy([]time.Duration{240 * time.Hour}, func(w *whying) {
		found := w.why(w.s, w.user, w.now, ops.WhyNone)
		w.same("nothing plans what comes next", found.Next == nil, true)
		w.add(w.user.ID, w.event(0))
		w.same("next", w.why(w.s, w.user, w.now, ops.WhyNone).Next.Due, w.at[0])
	}),
	"Why/clocks skip the time":  func(k *kit) { k.gap(calendar.GapSkip, ops.WhyClockSkipped) },
	"Why/the policy rejects it": func(k *kit) { k.gap(calendar.GapReject, ops.WhyRejected) },
	"Why/the rule fails": func(k *kit) {
		u, _ := k.create(almanactest.User())
		s := k.scheduler(almanac.Recurring{Type: "OFFER", Rule: func(almanac.User) (calendar.Recurrence, error) { return nil, errPlan }})
		k.why(s, u, k.now, ops.WhyRuleFails)
	},
}

// gap explains a daily time on a day on which clocks skip it.
func (k *kit) gap(p calendar.GapPolicy, code ops.WhyCode) {
	k.Helper()
	u, _ := k.create(almanactest.User(almanactest.LivingIn("Europe/Berlin")))
	change, _ := u.Timezone.NextChange(k.now.Add(48 * time.Hour))
	if change.Width() < 0 {
		change, _ = u.Timezone.NextChange(change.At)
	}
	s := k.scheduler(almanac.Recurring{Type: "OFFER", Policies: calendar.Policies{Gap: p}, Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}, nil
	}})
	found := must(ops.Why(k.Context(), s, ops.WhyRequest{User: u.ID, Type: "OFFER", Day: change.From().Date}, ops.WhyOptions{}))(k)
	k.same("code", found.Answers[0].Code, code)
	k.same("local", found.Answers[0].Local, change.From().Date.String()+"T02:30:00")
}

// why explains a day in UTC, and checks the first answer.
func (k *kit) why(s almanac.Scheduler, u almanac.User, at time.Time, code ops.WhyCode) ops.WhyResult {
	k.Helper()
	found := must(ops.Why(k.Context(), s, ops.WhyRequest{User: u.ID, Type: "OFFER", Day: calendar.WallTimeOf(at).Date}, ops.WhyOptions{Statistics: k.statistics}))(k)
	k.same("code", found.Answers[0].Code, code)
	k.same("has a text", found.Answers[0].Text != "", true)
	return found
}

// explains stores a birthday, and checks its answer.
func (k *kit) explains(code ops.WhyCode, options ...almanactest.EventOption) ops.WhyAnswer {
	k.Helper()
	u := almanactest.User()
	return k.whyEvent(almanactest.Store(k.T, k.r, u, k.event(u, options...))[0], code)
}

// whyEvent explains the day of an event, and checks its answer.
func (k *kit) whyEvent(e almanac.Event, code ops.WhyCode) ops.WhyAnswer {
	k.Helper()
	found := must(ops.Why(k.Context(), k.scheduler(), ops.WhyRequest{User: e.UserID, Type: e.Type, Day: e.Wall.Date}, ops.WhyOptions{Statistics: k.statistics}))(k)
	if len(found.Answers) != 1 || found.Answers[0].Event == nil {
		k.Fatalf("answers = %+v, want one with an event", found.Answers)
	}
	a := found.Answers[0]
	k.same("event", a.Event.ID, e.ID)
	k.same("code", a.Code, code)
	k.same("has a text", a.Text != "", true)
	return a
}

// whying is a kit with a user who was created long ago, and a handler of the type OFFER.
type whying struct {
	*kit
	s    almanac.Scheduler
	user almanac.User
	at   []time.Time
	h    offer
}

// onWhy returns a case about a user whose events are at distances from now.
func onWhy(from []time.Duration, check func(*whying)) func(*kit) {
	return func(k *kit) {
		w := &whying{kit: k, h: offer{eventType: "OFFER"}}
		for _, d := range from {
			w.at = append(w.at, k.now.Add(d).UTC().Truncate(time.Second))
		}
		w.h.at = w.at
		w.user, _ = k.create(almanactest.User())
		registry := must(almanac.NewRegistry(w.h))(k)
		deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
		w.s = must(almanac.NewScheduler(older{k.r}, registry, almanac.WithDeliverer("mail", deliver)))(k)
		check(w)
	}
}

// older is a repository whose users were created a month before.
type older struct{ almanac.Repository }

func (r older) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	u, err := r.Repository.User(ctx, id)
	u.CreatedAt = u.CreatedAt.AddDate(0, -1, 0)
	return u, err
}

// event returns the event of an occurrence.
func (w *whying) event(i int) almanac.Event {
	w.Helper()
	o := must(w.h.Next(w.user, w.at[i].Add(-time.Second)))(w.kit)
	return must(almanac.NewEvent(w.user, w.h, almanac.Occurrence{Occurrence: o}))(w.kit)
}

// claimed stores and claims the event of an occurrence.
func (w *whying) claimed(i int) almanac.Event {
	w.Helper()
	w.add(w.user.ID, w.event(i))
	return w.claim()
}

func (w *whying) claim() almanac.Event {
	w.Helper()
	return w.take(request(1, "OFFER")).Events[0]
}

// explains checks the answer about an occurrence.
func (w *whying) explains(i int, code ops.WhyCode) ops.WhyAnswer {
	w.Helper()
	return w.explain(w.s, i, code)
}

// fresh is explains for the user as stored.
func (w *whying) fresh(i int, code ops.WhyCode) {
	w.Helper()
	w.explain(w.s.With(w.r), i, code)
}

func (w *whying) explain(s almanac.Scheduler, i int, code ops.WhyCode) ops.WhyAnswer {
	w.Helper()
	found := must(ops.Why(w.Context(), s, ops.WhyRequest{User: w.user.ID, Type: "OFFER", Day: calendar.WallTimeOf(w.at[i]).Date}, ops.WhyOptions{Statistics: w.statistics}))(w.kit)
	for _, a := range found.Answers {
		if a.Due.Equal(w.at[i]) {
			w.same("code", a.Code, code)
			w.same("has a text", a.Text != "", true)
			return a
		}
	}
	w.Fatalf("answers = %+v, want one of %v", found.Answers, w.at[i])
	return ops.WhyAnswer{}
}
