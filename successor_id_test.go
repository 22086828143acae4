package almanac_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// replanning is a repository that has each successor planned once more, as after a
// failover that lost it.
type replanning struct {
	*almanactest.Repository
	t    *testing.T
	born []almanac.Event
}

func (r *replanning) Settle(ctx context.Context, batch []almanac.Settlement) ([]almanac.Settled, error) {
	for i := range batch {
		plan := batch[i].Next
		batch[i].Next = func(u almanac.User, now time.Time) (almanac.Event, error) {
			e, err := plan(u, now)
			require.NoError(r.t, err)
			again, err := plan(u, now.Add(time.Minute))
			require.NoError(r.t, err)
			require.Equal(r.t, e, again)
			r.born = append(r.born, e)
			return e, nil
		}
	}
	return r.Repository.Settle(ctx, batch)
}

func TestASuccessorIsTheSameEventWheneverItIsBorn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &replanning{Repository: almanactest.NewRepository(nil), t: t}
		s := schedulerOn(t, r, almanac.WithLease(24*time.Hour), almanac.WithPoll(24*time.Hour), almanac.WithSweep(24*time.Hour), almanac.WithZoneCheck(10*365*24*time.Hour),
			almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })))
		enrol(t, s, "UTC", "1990-01-02")
		enrol(t, s, "UTC", "1990-01-02")
		first, err := r.Find(t.Context(), nil, almanac.Page{})
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 3*366*24*time.Hour)
		defer stop()

		require.NoError(t, s.Run(ctx))

		require.GreaterOrEqual(t, len(r.born), 6)
		before := make(map[uuid.UUID]uuid.UUID) // the last id of each person
		seen := make(map[uuid.UUID]bool)
		for _, e := range append(first.Events, r.born...) {
			require.Equal(t, uuid.Version(7), e.ID.Version())
			require.Equal(t, uuid.RFC4122, e.ID.Variant())
			require.False(t, seen[e.ID], "an id twice")
			last := before[e.UserID]
			require.Negative(t, bytes.Compare(last[:], e.ID[:]), "ids of a series ascend")
			seen[e.ID], before[e.UserID] = true, e.ID
		}
	})
}
