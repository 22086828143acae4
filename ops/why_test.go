package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// Ask why a user got nothing on a day.
func ExampleWhy() {
	ctx := almanac.WithPrincipal(context.Background(), "grace")
	now := time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)
	store := almanactest.NewRepository(func() time.Time { return now })
	scheduler := must(almanac.NewScheduler(store, must(almanac.NewRegistry(almanac.Birthday{}))))
	ada := must(scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	})).User
	must(scheduler.OptOut(ctx, ada.ID, almanac.OptOut{Type: almanac.TypeBirthday, Reason: "no greetings at work"}))

	for _, day := range []calendar.Date{{Year: 2026, Month: time.December, Day: 10}, {Year: 2025, Month: time.December, Day: 10}, {Year: 2026, Month: time.December, Day: 11}} {
		found := must(ops.Why(ctx, scheduler, ops.WhyRequest{User: ada.ID, Type: almanac.TypeBirthday, Day: day}, ops.WhyOptions{}))
		for _, a := range found.Answers {
			fmt.Printf("%s: %s\n", a.Code, a.Text)
		}
	}
	// Output:
	// opted_out: It was not owed at 2026-12-10 09:00:00: the user has opted out of BIRTHDAY, since 2026-06-01 13:00:00, by grace: no greetings at work. Times are those of Europe/London.
	// created_later: It would have been due at 2025-12-10 09:00:00, but the user was created only at 2026-06-01 13:00:00. Times are those of Europe/London.
	// no_occurrence: The rule of BIRTHDAY has no occurrence for this user on this day.
}

// whyHost is a program with a daily type, at a time that the test sets.
type whyHost struct {
	now       time.Time
	store     *almanactest.Repository
	scheduler almanac.Scheduler
	user      almanac.User
}

const newsletter = "NEWS"

func news(rule calendar.Recurrence) almanac.EventHandler {
	return almanac.Recurring{Type: newsletter, Via: "mail", Policies: calendar.Policies{Gap: calendar.GapSkip}, Rule: func(almanac.User) (calendar.Recurrence, error) {
		return rule, nil
	}}
}

func newWhyHost(t *testing.T, h almanac.EventHandler, zone string) *whyHost {
	t.Helper()
	w := &whyHost{now: time.Date(2026, time.March, 20, 12, 0, 0, 0, time.UTC)}
	w.store = almanactest.NewRepository(func() time.Time { return w.now })
	registry, err := almanac.NewRegistry(h)
	require.NoError(t, err)
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	w.scheduler, err = almanac.NewScheduler(w.store, registry, almanac.WithDeliverer("mail", deliver))
	require.NoError(t, err)
	made, err := w.scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: zone})
	require.NoError(t, err)
	w.user = made.User
	return w
}

func (w *whyHost) why(t *testing.T, day string) ops.WhyResult {
	t.Helper()
	date, err := calendar.ParseDate(day)
	require.NoError(t, err)
	found, err := ops.Why(t.Context(), w.scheduler, ops.WhyRequest{User: w.user.ID, Type: newsletter, Day: date}, ops.WhyOptions{Statistics: w.store})
	require.NoError(t, err)
	return found
}

func (w *whyHost) run(t *testing.T) {
	t.Helper()
	_, err := w.scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})
	require.NoError(t, err)
}

func codes(r ops.WhyResult) (all []ops.WhyCode) {
	for _, a := range r.Answers {
		all = append(all, a.Code)
	}
	return all
}

func TestWhyFollowsASeriesThroughItsDays(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}), "Europe/Berlin")
	require.Equal(t, []ops.WhyCode{ops.WhyCreatedLater}, codes(w.why(t, "2026-03-20")))
	first := w.why(t, "2026-03-21")
	require.Equal(t, []ops.WhyCode{ops.WhyScheduled}, codes(first))
	require.Equal(t, "2026-03-21T02:30:00", first.Next.Local)
	require.Equal(t, []ops.WhyCode{ops.WhyExpected}, codes(w.why(t, "2026-03-22")))
	require.Equal(t, []ops.WhyCode{ops.WhyClockSkipped}, codes(w.why(t, "2026-03-29")))

	w.now = time.Date(2026, time.March, 21, 2, 0, 0, 0, time.UTC)
	w.run(t)
	delivered := w.why(t, "2026-03-21").Answers[0]
	require.Equal(t, ops.WhyDelivered, delivered.Code)
	require.Empty(t, delivered.Event.Channel, "that of the attempt is not stored")
	require.Contains(t, delivered.Text, ", under the key event-")

	w.now = time.Date(2026, time.March, 25, 12, 0, 0, 0, time.UTC) // nothing ran for days
	waits := w.why(t, "2026-03-22")
	require.Equal(t, []ops.WhyCode{ops.WhyNoProgram}, codes(waits))
	require.Contains(t, waits.Answers[0].Text, "The last one was seen at 2026-03-21 03:00:00.")
	require.Equal(t, []ops.WhyCode{ops.WhyBehind}, codes(w.why(t, "2026-03-23")))
	w.run(t)
	require.Equal(t, []ops.WhyCode{ops.WhyDelivered}, codes(w.why(t, "2026-03-22")))
	passed := w.why(t, "2026-03-23").Answers[0]
	require.Equal(t, ops.WhyPassedOver, passed.Code)
	require.Contains(t, passed.Text, "ended only at 2026-03-25 13:00:00")
}

func TestWhyHasAnAnswerForEachOccurrenceOfADay(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(must(calendar.ParseCron("* * * * *"))), "Etc/UTC")
	found := w.why(t, "2026-03-21")
	require.Len(t, found.Answers, 100)
	require.True(t, found.More)
	require.Equal(t, ops.WhyExpected, found.Answers[99].Code)
	today := w.why(t, "2026-03-20")
	require.Equal(t, ops.WhyCreatedLater, today.Answers[0].Code)
}

func TestWhyFindsAnEventThatWasMoved(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	planned, err := w.store.Find(t.Context(), almanac.ForUser(w.user.ID), almanac.Page{})
	require.NoError(t, err)
	_, err = w.scheduler.RunNow(t.Context(), planned.Items[0].ID, almanac.ForceOptions{})
	require.NoError(t, err)
	for _, day := range []string{"2026-03-20", "2026-03-21"} { // it waits
		waits := w.why(t, day).Answers
		last := waits[len(waits)-1]
		require.Equal(t, "It is due at 2026-03-20 12:00:00. It belongs to 2026-03-21. Times are those of Etc/UTC.", last.Text)
		require.Equal(t, "2026-03-21", last.Day.String())
	}
	w.run(t)
	found := w.why(t, "2026-03-21").Answers
	require.Len(t, found, 1)
	require.Equal(t, ops.WhyDelivered, found[0].Code)
	require.WithinDuration(t, w.now, found[0].Event.EndedAt, time.Second)
	ran := w.why(t, "2026-03-20").Answers
	require.Len(t, ran, 2)
	require.Contains(t, ran[1].Text, "The occurrence of 2026-03-21 ran on this day: it was delivered at 2026-03-20 12:00:00, ")
}

func TestWhyUsesTheTrail(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	w.now = w.now.AddDate(0, 0, 10)
	what := almanac.OptOut{Type: newsletter, Author: "grace", Since: time.Date(2026, time.March, 22, 0, 0, 0, 0, time.UTC)}
	then, err := json.Marshal([]almanac.OptOut{what})
	require.NoError(t, err)
	trail := func(_ context.Context, id uuid.UUID) ([]ops.AuditStep, error) {
		if id != w.user.ID {
			return []ops.AuditStep{{Kind: "cancelled", Principal: "alan"}}, nil
		}
		return []ops.AuditStep{{At: what.Since, Kind: "opt_outs_changed", Detail: string(then)}, {At: what.Since.AddDate(0, 0, 2), Kind: "opt_outs_changed", Detail: "[]"}}, nil
	}
	ask := func(day int) ops.WhyAnswer {
		request := ops.WhyRequest{User: w.user.ID, Type: newsletter, Day: calendar.Date{Year: 2026, Month: time.March, Day: day}}
		found, err := ops.Why(t.Context(), w.scheduler, request, ops.WhyOptions{Trail: trail})
		require.NoError(t, err)
		return found.Answers[0]
	}
	require.Equal(t, ops.WhyOptedOut, ask(23).Code)
	require.Equal(t, "grace", ask(23).OptOut.Author)
	require.NotEqual(t, ops.WhyOptedOut, ask(25).Code)
	require.Equal(t, ops.WhyBehind, w.why(t, "2026-03-23").Answers[0].Code, "without the trail")

	planned, err := w.store.Find(t.Context(), almanac.ForUser(w.user.ID), almanac.Page{})
	require.NoError(t, err)
	_, err = w.scheduler.Cancel(t.Context(), planned.Items[0].ID, almanac.CancelOptions{Reason: "a typo"})
	require.NoError(t, err)
	require.Contains(t, ask(21).Text, ": a typo. alan asked for it.")
}

func TestWhyNamesEveryWrongField(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	_, err := ops.Why(t.Context(), w.scheduler, ops.WhyRequest{Day: calendar.Date{Year: 2026, Month: time.February, Day: 30}}, ops.WhyOptions{})
	var invalid *almanac.ValidationError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, []almanac.FieldError{
		{Field: "user", Problem: "is required"},
		{Field: "type", Problem: "is not an event type: 1 to 50 bytes without control characters"},
		{Field: "day", Problem: "is not a date of the years 1900 to 9998"},
	}, invalid.Fields)
}

func TestWhyHidesWhatAViewerMayNotSee(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	planned, err := w.store.Find(t.Context(), almanac.ForUser(w.user.ID), almanac.Page{})
	require.NoError(t, err)
	_, err = w.scheduler.Cancel(t.Context(), planned.Items[0].ID, almanac.CancelOptions{Reason: "Ada is ill"})
	require.NoError(t, err)
	_, err = w.scheduler.OptOut(t.Context(), w.user.ID, almanac.OptOut{Reason: "Ada is ill"})
	require.NoError(t, err)
	for day, failures := range map[string]bool{"2026-03-21": true, "2026-03-22": false} {
		found := w.why(t, day)
		require.Contains(t, found.Answers[0].Text, "Ada is ill", day)
		hidden := found.Hiding(!failures, failures)
		text, err := json.Marshal(hidden)
		require.NoError(t, err)
		require.NotContains(t, string(text), "Ada is ill", day)
		require.Contains(t, found.Answers[0].Text, "Ada is ill", "the original")
	}
}

func TestWhyFindsAnEventUnderTheDayOnWhichItRan(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Asia/Tokyo")
	w.now = time.Date(2026, time.March, 24, 16, 0, 0, 0, time.UTC) // the 25th in Tokyo
	w.run(t)
	belongs := w.why(t, "2026-03-21").Answers
	require.Len(t, belongs, 1)
	require.Contains(t, belongs[0].Text, "The occurrence of 2026-03-21 ran on 2026-03-25: it was delivered at 2026-03-25 01:00:00, under the key event-")
	ran := w.why(t, "2026-03-25").Answers
	require.Len(t, ran, 2, "its own occurrence, too")
	require.Equal(t, belongs[0].Event.ID, ran[0].Event.ID)
	require.Equal(t, "2026-03-21 2026-03-25", ran[0].Day.String()+" "+ran[0].Event.RanOn.String())
	require.Contains(t, ran[0].Text, "The occurrence of 2026-03-21 ran on this day: it was delivered at 2026-03-25 01:00:00, ")
	require.Len(t, w.why(t, "2026-03-24").Answers, 1)
}

func TestWhySaysThatATypeHasNoRule(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, almanac.OneOff{Type: newsletter, Via: "mail"}, "Etc/UTC")
	at := calendar.WallTime{Date: calendar.Date{Year: 2026, Month: time.March, Day: 25}, Clock: calendar.Clock{Hour: 9}}
	_, err := w.scheduler.ScheduleAt(t.Context(), w.user.ID, newsletter, almanac.ScheduleAtOptions{At: at, Key: "sale"})
	require.NoError(t, err)
	for _, day := range []string{"2026-03-24", "2026-03-26"} {
		found := w.why(t, day)
		require.Equal(t, []ops.WhyCode{ops.WhyNone}, codes(found))
		require.Contains(t, found.Hiding(true, true).Answers[0].Text, "The type has no rule: its events are scheduled one by one.")
		require.Equal(t, at.String(), found.Next.Local)
	}
}

func TestWhyShowsFractionsOfASecondWhereTheyMatter(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 13}}), "Etc/UTC")
	w.now = w.now.Add(time.Hour + 300*time.Millisecond)
	made, err := w.scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Etc/UTC"})
	require.NoError(t, err)
	w.user = made.User
	require.Contains(t, w.why(t, "2026-03-20").Answers[0].Text,
		"due at 2026-03-20 13:00:00.000000, but the user was created only at 2026-03-20 13:00:00.300000. Times are those of Etc/UTC.")
}
