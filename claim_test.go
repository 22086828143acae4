package almanac_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestOutcomeApplies(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-12-10T09:00:05Z")
	e := in(t, almanac.Processing)
	done, err := almanac.Delivered(now.Add(-time.Second)).Apply(e, now)
	if err != nil || !done.ExecutedAt.Equal(now.Add(-time.Second)) {
		t.Errorf("Delivered: executed at %v, %v; want the delivery's own instant", done.ExecutedAt, err)
	}
	back, err := almanac.Released(almanac.AfterCrash, "gone", time.Minute).Apply(e, now)
	if err != nil || !back.AvailableAt.Equal(now.Add(time.Minute)) || back.CrashCount != 1 {
		t.Errorf("Released: available at %v after %d crashes, %v; want a minute from now", back.AvailableAt, back.CrashCount, err)
	}
	if back, err = almanac.Released(almanac.AfterFailure, "", -time.Minute).Apply(e, now); err != nil || !back.AvailableAt.Equal(now) {
		t.Errorf("Released with a negative delay: available at %v, %v; want now", back.AvailableAt, err)
	}
	off, err := almanac.CalledOff("no address").Apply(e, now)
	if err != nil || off.Status != almanac.Cancelled || off.RetryCount != 0 || off.LeaseToken != e.LeaseToken {
		t.Errorf("CalledOff: %+v, %v; want it CANCELLED without another failure", off, err)
	}
	for _, status := range []almanac.Status{"", "PAUSED", almanac.Processing} {
		var refused *almanac.InvalidStateTransitionError
		if _, err := (almanac.Outcome{Status: status}).Apply(e, now); !errors.As(err, &refused) || refused.To != status {
			t.Errorf("outcome %q: %v, want it refused", status, err)
		}
	}
}

func TestStoredAsRecognizesAStoredSettlement(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-12-10T09:00:05Z")
	was := in(t, almanac.Processing)
	stored := func(o almanac.Outcome, change func(*almanac.Event)) almanac.Event {
		e, err := o.Apply(was, now)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&e)
		}
		return e
	}
	delivered, gaveUp, gaveBack := almanac.Delivered(now), almanac.GaveUp("gone"), almanac.Released(almanac.AfterFailure, "busy", 0)
	crashed := almanac.Released(almanac.AfterCrash, "lease ran out", 0)
	tests := map[string]struct {
		outcome almanac.Outcome
		stored  almanac.Event
		want    bool
	}{
		"delivered, as stored":              {delivered, stored(delivered, nil), true},
		"given up, as stored":               {gaveUp, stored(gaveUp, nil), true},
		"released, as stored":               {gaveBack, stored(gaveBack, nil), true},
		"not stored yet":                    {delivered, was, false},
		"ended by another token":            {delivered, stored(delivered, func(e *almanac.Event) { e.LeaseToken = uuid.New() }), false},
		"another event":                     {delivered, stored(delivered, func(e *almanac.Event) { e.ID = uuid.New() }), false},
		"a later version":                   {delivered, stored(delivered, func(e *almanac.Event) { e.Version++ }), false},
		"released after a crash":            {gaveBack, stored(crashed, nil), false},
		"claimed by another meanwhile":      {gaveBack, stored(gaveBack, func(e *almanac.Event) { e.ClaimCount++ }), false},
		"released, but the outcome ends it": {delivered, stored(gaveBack, nil), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got := (almanac.Settlement{Event: was, Outcome: tt.outcome}).StoredAs(tt.stored); got != tt.want {
				t.Errorf("StoredAs = %v, want %v", got, tt.want)
			}
		})
	}
}

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

func (u *unsure) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if !u.failed && !u.stored {
		u.failed = true
		return almanac.ClaimResult{}, u.err
	}
	claim, err := u.Repository.Claim(ctx, r)
	if !u.failed && len(claim.Events) > 0 {
		u.failed = true
		if u.slow {
			<-ctx.Done()
		}
		return almanac.ClaimResult{}, u.err
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

func TestEventsOfAFailedClaimAreReleased(t *testing.T) {
	t.Parallel()
	lost := errors.New("the connection broke")
	for name, tt := range map[string]struct {
		err      error
		stored   bool
		slow     bool
		releases int
	}{
		"it was stored, and the answer was lost":     {lost, true, false, 1},
		"it was stored, and took all the time":       {context.DeadlineExceeded, true, true, 1},
		"it was not stored, and the answer was lost": {lost, false, false, 1},
		"it is certain that it was not stored":       {unsent{lost}, false, false, 0},
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

// Each attempt has the user as the claim for it returned them.
func TestDeliveriesHaveTheUserOfTheirClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		var scheduler almanac.Scheduler
		var delivered, middle []almanac.User
		email := "ada@new.example"
		scheduler = schedulerOn(t, repository, almanac.WithPoll(time.Minute), almanac.WithSweep(time.Minute),
			almanac.WithMiddleware(func(next almanac.Deliverer) almanac.Deliverer {
				return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
					middle = append(middle, d.User)
					return next.Deliver(ctx, d)
				})
			}),
			almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
				delivered = append(delivered, d.User)
				if d.Attempt > 1 {
					return nil
				}
				_, err := scheduler.UpdateUser(ctx, d.User.ID, almanac.ProfileChange{Email: &email})
				return errors.Join(err, errors.New("the receiver is away"))
			})))
		p := adasProfile()
		p.DateOfBirth, p.Timezone, p.Locale, p.Email, p.ExternalID = "1990-01-02", "UTC", "en-GB", "ada@old.example", "42"
		created, err := scheduler.CreateUser(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 34*time.Hour)
		defer stop()

		if err := scheduler.Run(ctx); err != nil {
			t.Fatal(err)
		}

		edited, err := repository.User(t.Context(), created.User.ID)
		if err != nil {
			t.Fatal(err)
		}
		if want := []almanac.User{created.User, edited}; edited.Email != email || !reflect.DeepEqual(delivered, want) || !reflect.DeepEqual(middle, want) {
			t.Errorf("delivered with %+v, through %+v; want %+v", delivered, middle, want)
		}
	})
}
