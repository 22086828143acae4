package ops_test

import (
	"context"
	"errors"
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

func (w *whyHost) optOut(t *testing.T, what almanac.OptOut) {
	t.Helper()
	_, err := w.scheduler.OptOut(t.Context(), w.user.ID, what)
	require.NoError(t, err)
}

func TestWhyShowsAnOptOutOfAChannel(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	w.optOut(t, almanac.OptOut{Channel: "sms", Reason: "no telephone"})
	planned := w.why(t, "2026-03-21")
	require.Nil(t, planned.Answers[0].OptOut, "it goes by mail")
	require.NotNil(t, planned.Next)
	w.optOut(t, almanac.OptOut{Channel: "mail", Until: calendar.Date{Year: 2026, Month: time.March, Day: 23}, Reason: "on holiday"})
	planned = w.why(t, "2026-03-21")
	require.Equal(t, []ops.WhyCode{ops.WhyScheduled}, codes(planned))
	require.Contains(t, planned.Answers[0].Text, "It will be called off before its attempt: the user has opted out of everything by mail")
	require.Nil(t, planned.Next, "it is not delivered")
	ahead := w.why(t, "2026-03-22").Answers[0]
	require.Equal(t, ops.WhyExpected, ahead.Code)
	require.Contains(t, ahead.Text, "If it goes by mail, it will be called off before its attempt")

	w.now = time.Date(2026, time.March, 21, 9, 0, 0, 0, time.UTC)
	w.run(t)
	refused := w.why(t, "2026-03-21").Answers[0]
	require.Equal(t, ops.WhyOptedOut, refused.Code)
	require.Equal(t, "on holiday", refused.OptOut.Reason)
}

func TestWhyKnowsTypesThatOverrideOptOuts(t *testing.T) {
	t.Parallel()
	h := news(calendar.Daily{At: calendar.Clock{Hour: 9}}).(almanac.Recurring)
	h.OverrideOptOuts = true
	w := newWhyHost(t, h, "Etc/UTC")
	w.optOut(t, almanac.OptOut{})
	w.optOut(t, almanac.OptOut{Channel: "mail"})
	for day, code := range map[string]ops.WhyCode{"2026-03-21": ops.WhyScheduled, "2026-03-22": ops.WhyExpected} {
		found := w.why(t, day)
		require.Equal(t, []ops.WhyCode{code}, codes(found))
		require.Nil(t, found.Answers[0].OptOut)
		require.NotNil(t, found.Next)
	}
}

// The user is older than the type, whose first event was delivered and pruned.
func TestWhyDoesNotCallPrunedWhatWasBeforeTheType(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(nil), "Etc/UTC")
	w.now = time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	registry, err := almanac.NewRegistry(news(calendar.Monthly{Day: 10, At: calendar.Clock{Hour: 9}}))
	require.NoError(t, err)
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	w.scheduler, err = almanac.NewScheduler(w.store, registry, almanac.WithDeliverer("mail", deliver))
	require.NoError(t, err)
	_, err = w.scheduler.Backfill(t.Context(), newsletter, almanac.BackfillOptions{})
	require.NoError(t, err)
	w.now = time.Date(2026, time.May, 10, 9, 0, 0, 0, time.UTC)
	w.run(t)
	w.now = w.now.AddDate(0, 0, 20)
	_, _, err = w.store.Prune(t.Context(), w.now.AddDate(0, 0, -1), almanac.Page{})
	require.NoError(t, err)
	require.Equal(t, []ops.WhyCode{ops.WhyPruned}, codes(w.why(t, "2026-05-10")))
	require.Equal(t, []ops.WhyCode{ops.WhyBeforeFirst}, codes(w.why(t, "2026-04-10")))
	require.Equal(t, []ops.WhyCode{ops.WhyCreatedLater}, codes(w.why(t, "2026-03-10")))

	_, err = w.scheduler.OptOut(t.Context(), w.user.ID, almanac.OptOut{Type: newsletter})
	require.NoError(t, err)
	require.Equal(t, []ops.WhyCode{ops.WhyPruned}, codes(w.why(t, "2026-05-10")), "no event is left")
	require.Equal(t, []ops.WhyCode{ops.WhyBeforeFirst}, codes(w.why(t, "2026-04-10")))
}

func TestWhySaysThatASeriesHadNoEvent(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	w.now = time.Date(2026, time.March, 21, 9, 0, 0, 0, time.UTC)
	w.run(t)
	w.optOut(t, almanac.OptOut{})
	w.now = w.now.AddDate(0, 0, 5)
	_, err := w.scheduler.OptIn(t.Context(), w.user.ID, almanac.OptOut{})
	require.NoError(t, err)
	was := w.why(t, "2026-03-24").Answers[0]
	require.Equal(t, ops.WhyNotPlanned, was.Code)
	require.Contains(t, was.Text, "when the series had no open event. The next event was planned only at 2026-03-26 09:00:00.")
}

// minutes stores ended events of each minute from an instant on.
func (w *whyHost) minutes(t *testing.T, from time.Time, n int) {
	t.Helper()
	u := almanactest.User(almanactest.LivingIn("UTC"))
	u.CreatedAt = from.Add(-time.Hour)
	events := make([]almanac.Event, n)
	for i := range events {
		at := from.Add(time.Duration(i) * time.Minute)
		events[i] = almanactest.Event(w.now, almanactest.For(u), almanactest.OfType(newsletter), almanactest.DueIn(at.Sub(w.now)),
			almanactest.OfSeries(fmt.Sprint("minute ", i), "1"), almanactest.InStatus(almanac.Completed))
	}
	almanactest.Store(t, w.store, u, events...)
	w.user.ID = u.ID
}

func TestWhyReadsADayWithAnEventForEachMinute(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	w.now = time.Date(2026, time.March, 30, 0, 0, 0, 0, time.UTC)
	w.minutes(t, time.Date(2026, time.March, 20, 8, 0, 0, 0, time.UTC), 40*60)
	found := w.why(t, "2026-03-21")
	require.True(t, found.More)
	for _, a := range found.Answers {
		require.Equal(t, ops.WhyDelivered, a.Code)
	}
	require.Equal(t, time.Date(2026, time.March, 21, 0, 0, 0, 0, time.UTC), found.Answers[0].Due)
	require.Equal(t, time.Date(2026, time.March, 21, 1, 39, 0, 0, time.UTC), found.Answers[99].Due)
}

// unread returns the first page of each search, and says that there are more.
type unread struct{ almanac.Repository }

func (r unread) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	found, err := r.Repository.Find(ctx, spec, page)
	found.Next = "00000000-0000-0000-0000-000000000000"
	return found, err
}

func TestWhySaysWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	w.scheduler = w.scheduler.With(unread{w.store})
	found := w.why(t, "2026-03-25").Answers[0]
	require.Equal(t, ops.WhyUnknown, found.Code)
	require.Contains(t, found.Text, "What became of it is unknown")
}

func TestWhyHasNoNextThatNothingPlans(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	planned, err := w.store.Find(t.Context(), almanac.ForUser(w.user.ID), almanac.Page{})
	require.NoError(t, err)
	require.NotNil(t, w.why(t, "2026-03-21").Next)
	_, err = w.scheduler.Cancel(t.Context(), planned.Items[0].ID, almanac.CancelOptions{EndSeries: true})
	require.NoError(t, err)
	found := w.why(t, "2026-03-23")
	require.Equal(t, []ops.WhyCode{ops.WhyNotPlanned}, codes(found))
	require.Nil(t, found.Next)
	_, err = w.scheduler.Reschedule(t.Context(), w.user.ID)
	require.NoError(t, err)
	w.now = time.Date(2026, time.March, 22, 9, 0, 0, 0, time.UTC)
	claim, err := w.store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{newsletter}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	next := w.why(t, "2026-03-23").Next
	require.NotNil(t, next, "the series goes on after the event in flight")
	require.Equal(t, "2026-03-23T09:00:00", next.Local)
}

// oneLane has no loads of all lanes.
type oneLane struct{ ops.Statistics }

func (oneLane) LaneLoads(context.Context) ([]ops.LaneLoad, error) {
	return nil, errors.New("all lanes are read")
}

func TestWhyReadsTheLaneOfTheEventAlone(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	w.now = time.Date(2026, time.March, 21, 12, 0, 0, 0, time.UTC)
	require.NoError(t, w.store.PutLane(t.Context(), almanac.Lane{Name: newsletter, Places: 3}))
	found, err := ops.Why(t.Context(), w.scheduler, ops.WhyRequest{User: w.user.ID, Type: newsletter, Day: calendar.Date{Year: 2026, Month: time.March, Day: 21}},
		ops.WhyOptions{Statistics: oneLane{w.store}})
	require.NoError(t, err)
	require.Equal(t, []ops.WhyCode{ops.WhyUnclaimed}, codes(found), "the lane has room")
}
