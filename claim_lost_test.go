package almanac_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// unsure is a repository whose first claim of anything fails after it was stored,
// or before.
type unsure struct {
	*almanactest.Repository
	err      error // of the first claim
	stored   bool  // it was, all the same
	slow     bool  // the answer was waited for as long as there was time
	failed   bool
	releases int
}

func (u *unsure) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.Claim, error) {
	if !u.failed && !u.stored {
		u.failed = true
		return almanac.Claim{}, u.err
	}
	claim, err := u.Repository.Claim(ctx, r)
	if !u.failed && len(claim.Events) > 0 {
		u.failed = true
		if u.slow {
			<-ctx.Done()
		}
		return almanac.Claim{}, u.err
	}
	return claim, err
}

func (u *unsure) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	u.releases++
	return u.Repository.Release(ctx, token)
}

// unsent is an error of which it is certain that nothing was stored.
type unsent struct{ error }

func (unsent) SafeToRetry() bool { return true }

func TestWhatAFailedClaimMayHaveTakenIsGivenBack(t *testing.T) {
	t.Parallel()
	lost := errors.New("the connection broke")
	for name, tt := range map[string]struct {
		err      error
		stored   bool
		slow     bool
		releases int
	}{
		"it was stored, and nobody said so":     {lost, true, false, 1},
		"it was stored, and took all the time":  {context.DeadlineExceeded, true, true, 1},
		"it was not stored, and nobody said so": {lost, false, false, 1},
		"it is certain that it was not stored":  {unsent{lost}, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &unsure{Repository: almanactest.NewRepository(nil), err: tt.err, stored: tt.stored, slow: tt.slow}
				var late []time.Duration
				s := schedulerOn(t, r, almanac.WithLease(time.Hour), almanac.WithSweep(time.Hour), almanac.WithPoll(time.Hour),
					almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
						late = append(late, time.Since(d.Event.Due))
						return nil
					})))
				enrol(t, s, "UTC", "1990-01-02")
				ctx, stop := context.WithTimeout(t.Context(), 3*24*time.Hour)
				defer stop()

				if err := s.Run(ctx); err != nil {
					t.Fatal(err)
				}

				if !r.failed || r.releases != tt.releases {
					t.Errorf("given back %d times, want %d", r.releases, tt.releases)
				}
				patience := time.Second
				if tt.slow {
					patience += time.Hour / 3 // of a call
				}
				if len(late) != 1 || late[0] > patience {
					t.Errorf("delivered %v after it was due, want once, and long before the lease is over", late)
				}
			})
		})
	}
}
