package almanac_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// doubtful is a repository that answers from a list whether it can be worked on, and
// counts how often it was claimed from.
type doubtful struct {
	*almanactest.Repository
	answers func(asked int) error
	asked   int
	claims  atomic.Int64
}

func (d *doubtful) Verify(context.Context) error {
	d.asked++
	return d.answers(d.asked)
}

func (d *doubtful) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.Claim, error) {
	d.claims.Add(1)
	return d.Repository.Claim(ctx, r)
}

func (d *doubtful) run(t *testing.T, limit time.Duration) error {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(d, registry)
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	return scheduler.Run(ctx)
}

func TestRunClaimsNothingWhereAMigrationIsMissing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &doubtful{Repository: almanactest.NewRepository(nil), answers: func(int) error { return almanac.ErrOutdated }}

		err := d.run(t, time.Hour)

		require.ErrorIs(t, err, almanac.ErrOutdated)
		require.Equal(t, 1, d.asked)
		require.Zero(t, d.claims.Load())
	})
}

func TestRunWaitsWhileTheRepositoryCannotBeAsked(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	synctest.Test(t, func(t *testing.T) {
		d := &doubtful{Repository: almanactest.NewRepository(nil), answers: func(asked int) error {
			if asked < 4 {
				return down
			}
			return nil
		}}
		require.NoError(t, d.run(t, time.Hour))
		require.Equal(t, 4, d.asked)
		require.NotZero(t, d.claims.Load())

		d.claims.Store(0)
		d.answers = func(int) error { return down }
		require.NoError(t, d.run(t, time.Hour), "stopped before it began")
		require.Zero(t, d.claims.Load())
	})
}
