package ops_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

var errLost = errors.New("the connection is lost")

// losing is a repository whose n-th reading of the facts fails, and a store of broadcasts that is one of them.
type losing struct {
	almanac.Repository
	broadcast.Store
	n *int
}

func (l losing) lost() error {
	if *l.n--; *l.n == 0 {
		return errLost
	}
	return nil
}

func try[V any](l losing, read func() (V, error)) (v V, err error) {
	if err := l.lost(); err != nil {
		return v, err
	}
	return read()
}

func (l losing) Now(ctx context.Context) (time.Time, error) {
	return try(l, func() (time.Time, error) { return l.Repository.Now(ctx) })
}

func (l losing) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	return try(l, func() (almanac.User, error) { return l.Repository.User(ctx, id) })
}

func (l losing) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	return try(l, func() (almanac.List[almanac.Event], error) { return l.Repository.Find(ctx, spec, page) })
}

func (l losing) Stalled(ctx context.Context, id uuid.UUID, limit int) ([]almanac.StalledSeries, error) {
	return try(l, func() ([]almanac.StalledSeries, error) { return l.Repository.Stalled(ctx, id, limit) })
}

func (l losing) Paused(ctx context.Context) ([]almanac.Pause, error) {
	return try(l, func() ([]almanac.Pause, error) { return l.Repository.Paused(ctx) })
}

func (l losing) UsedKeys(ctx context.Context, id uuid.UUID, series []almanac.Series) (map[almanac.Series]almanac.UsedKeys, error) {
	return try(l, func() (map[almanac.Series]almanac.UsedKeys, error) { return l.Repository.UsedKeys(ctx, id, series) })
}

func (l losing) Settings(ctx context.Context) ([]almanac.Setting, error) {
	return try(l, func() ([]almanac.Setting, error) { return l.Repository.Settings(ctx) })
}

func (l losing) Lanes(ctx context.Context) ([]almanac.Lane, error) {
	return try(l, func() ([]almanac.Lane, error) { return l.Repository.Lanes(ctx) })
}

func (l losing) BroadcastsAbout(ctx context.Context, u almanac.User, eventType string, day calendar.Date) ([]broadcast.About, error) {
	return try(l, func() ([]broadcast.About, error) { return l.Store.BroadcastsAbout(ctx, u, eventType, day) })
}

// A part of the facts that cannot be read makes an error: an answer without it could be wrong.
func TestWhyAnswersNothingWithoutAllFacts(t *testing.T) {
	t.Parallel()
	w := newWhyHost(t, news(calendar.Daily{At: calendar.Clock{Hour: 9}}), "Etc/UTC")
	sender, err := broadcast.New(w.scheduler, w.store)
	require.NoError(t, err)
	at := calendar.WallTime{Date: calendar.Date{Year: 2026, Month: time.March, Day: 22}, Clock: calendar.Clock{Hour: 10}}
	_, err = sender.Start(t.Context(), broadcast.Broadcast{Name: "sale", Type: newsletter, At: at, Passed: broadcast.Skip})
	require.NoError(t, err)
	request := ops.WhyRequest{User: w.user.ID, Type: newsletter, Day: at.Date}
	want, err := ops.Why(t.Context(), w.scheduler, request, ops.WhyOptions{Broadcasts: sender})
	require.NoError(t, err)
	require.Equal(t, []ops.WhyCode{ops.WhyExpected, ops.WhyNotStored}, codes(want))
	for n := 1; ; n++ {
		left := n
		l := losing{Repository: w.store, Store: w.store, n: &left}
		lossy, err := broadcast.New(w.scheduler, l)
		require.NoError(t, err)
		trail := func(context.Context, uuid.UUID) ([]ops.AuditStep, error) { return nil, l.lost() }
		found, err := ops.Why(t.Context(), w.scheduler.With(l), request, ops.WhyOptions{Broadcasts: lossy, Trail: trail})
		if left > 0 { // all readings succeeded
			require.NoError(t, err)
			require.Equal(t, want, found)
			require.Greater(t, n, 12)
			return
		}
		require.ErrorIs(t, err, errLost, "reading %d", n)
	}
}
