package almanac_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// halfSwept has an event that cannot be released, beside others.
type halfSwept struct {
	almanac.Repository
	calls int
}

func (r *halfSwept) ReleaseExpired(context.Context, int) ([]almanac.Event, error) {
	if r.calls++; r.calls > 3 {
		return nil, nil
	}
	return []almanac.Event{{ID: uuid.New()}}, errBusy
}

// One event that cannot be released does not end the sweep, which releases the others and reports the error.
func TestTheSweepGoesOnPastAnEventThatCannotBeReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &halfSwept{Repository: almanactest.NewRepository(nil)}
		_, err := openOn(r).scheduler(t, series{eventType: "FINE", seconds: ago(-time.Hour)}).RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.ErrorIs(t, err, errBusy)
		require.Equal(t, 4, r.calls)
	})
}

// halfPruned has an event that cannot be deleted, on the first of three pages.
type halfPruned struct {
	almanac.Repository
	after []almanac.Cursor
}

func (r *halfPruned) Prune(_ context.Context, _ time.Time, page almanac.Page) (int, almanac.Cursor, error) {
	r.after = append(r.after, page.After)
	switch len(r.after) {
	case 1:
		return 1, "1", errBusy
	case 2:
		return 1, "2", nil
	}
	return 1, "", nil
}

// One event that cannot be deleted does not end retention, which deletes the others, and is tried again.
func TestRetentionGoesOnPastAnEventThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &halfPruned{Repository: almanactest.NewRepository(nil)}
		w := openOn(r)
		w.run(t, series{eventType: "FINE", seconds: ago(-time.Hour)}, almanac.WithRetention(24*time.Hour))
		time.Sleep(10 * time.Minute)
		require.NoError(t, w.stop())
		require.Equal(t, []almanac.Cursor{"", "1", "2", ""}, r.after[:4])
	})
}
