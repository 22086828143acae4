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
