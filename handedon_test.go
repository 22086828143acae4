package almanac_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// handsOn is a repository that leaves the outcomes of what was delivered to others.
type handsOn struct{ almanac.Repository }

func (h handsOn) Settle(_ context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	answers := make([]almanac.Settled, len(settlements))
	for i, s := range settlements {
		answers[i] = almanac.Settled{Event: s.Event, Err: almanac.ErrHandedOn}
	}
	return answers, nil
}

func TestWhatIsHandedOnIsNoTroubleAndNoNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		u := almanactest.User()
		stored := almanactest.Store(t, repository, u, almanactest.Event(time.Now(), almanactest.For(u)))
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		require.NoError(t, err)
		var log bytes.Buffer
		var told []almanac.NoticeKind
		handed := 0
		scheduler, err := almanac.NewScheduler(handsOn{repository}, registry,
			almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
				handed++
				return nil
			})),
			almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { told = append(told, n.Kind) })),
			almanac.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()

		require.NoError(t, scheduler.Run(ctx))

		require.Equal(t, 1, handed, "its lease runs yet, although nobody renews it here")
		require.Equal(t, []almanac.NoticeKind{almanac.EventClaimed}, told)
		require.Empty(t, log.String())
		is, err := repository.Event(t.Context(), stored[0].ID)
		require.NoError(t, err)
		require.Equal(t, almanac.Processing, is.Status)
	})
}
