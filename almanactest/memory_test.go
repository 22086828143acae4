package almanactest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/almanactest/conformance"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/ops"
)

func TestMemoryRepository(t *testing.T) {
	t.Parallel()
	conformance.TestRepository(t, func(*testing.T) almanac.Repository { return almanactest.NewRepository(nil) })
	conformance.TestStatistics(t, func(*testing.T) (almanac.Repository, ops.Statistics) {
		r := almanactest.NewRepository(nil)
		return r, r
	})
	conformance.TestBroadcasts(t, func(*testing.T) (almanac.Repository, broadcast.Store) {
		r := almanactest.NewRepository(nil)
		return r, r
	})
}

// A type that embeds a repository, such as one that counts calls, must pass the suite too.
func TestDecoratedRepository(t *testing.T) {
	t.Parallel()
	type decorated struct{ almanac.Repository }
	conformance.TestRepository(t, func(*testing.T) almanac.Repository { return decorated{almanactest.NewRepository(nil)} })
}

// trivial is a repository that implements its optional abilities trivially.
type trivial struct{ *almanactest.Repository }

func (m trivial) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	r.Ahead = 0
	return m.Repository.Claim(ctx, r)
}

func (trivial) Confirm(context.Context, []almanac.Event) (almanac.ConfirmResult, error) {
	return almanac.ConfirmResult{}, errors.ErrUnsupported
}

func (trivial) Return(context.Context, []almanac.Event) ([]almanac.Event, error) {
	return nil, errors.ErrUnsupported
}

func (trivial) Pause(context.Context, almanac.Pause) error      { return errors.ErrUnsupported }
func (trivial) Resume(context.Context, string) error            { return errors.ErrUnsupported }
func (trivial) PutLane(context.Context, almanac.Lane) error     { return errors.ErrUnsupported }
func (trivial) Paused(context.Context) ([]almanac.Pause, error) { return nil, nil }

func (trivial) PutSetting(context.Context, almanac.Setting) error   { return errors.ErrUnsupported }
func (trivial) Settings(context.Context) ([]almanac.Setting, error) { return nil, nil }

func TestTrivialImplementationsAreAllowed(t *testing.T) {
	t.Parallel()
	conformance.TestRepository(t, func(*testing.T) almanac.Repository { return trivial{almanactest.NewRepository(nil)} })
}

// A run needs none of the optional abilities.
func TestRunOnARepositoryWithTrivialImplementations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := trivial{almanactest.NewRepository(nil)}
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		recorder := new(almanactest.Recorder)
		scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithDeliverer(almanac.ChannelWebhook, recorder))
		if err != nil {
			t.Fatal(err)
		}
		if err := scheduler.Pause(t.Context(), almanac.Pause{Lane: almanac.TypeBirthday}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("pause: %v, want ErrUnsupported", err)
		}
		u := almanactest.User()
		if _, _, err := almanactest.CreateUser(t.Context(), repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.DueIn(time.Minute))); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		if err := scheduler.Run(ctx); err != nil {
			t.Error(err)
		}
		if n := len(recorder.Attempts()); n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
	})
}

func TestLeasesFromBeforeAClockChangeExpire(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 10, 9, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	take := func() almanac.ClaimRequest {
		u := almanactest.User()
		if _, _, err := almanactest.CreateUser(t.Context(), repository, u, almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(48*time.Hour))); err != nil {
			t.Fatal(err)
		}
		r := almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute}
		if claim, err := repository.Claim(t.Context(), r); err != nil || len(claim.Events) != 1 {
			t.Fatalf("claimed %d events, %v", len(claim.Events), err)
		}
		return r
	}
	take()
	renewed := take()
	for _, step := range []struct {
		passed   time.Duration
		renew    bool
		released int
	}{
		{passed: -2 * time.Hour, renew: true}, {passed: time.Minute, renew: true}, {passed: time.Second, renew: true, released: 1},
		{passed: time.Minute, renew: true}, {passed: time.Minute}, {passed: time.Second, released: 1},
	} {
		now = now.Add(step.passed)
		if step.renew {
			if held, err := repository.Renew(t.Context(), []uuid.UUID{renewed.Token}, renewed.Lease); err != nil || len(held) != 1 {
				t.Fatalf("at %v: renewed %d leases, %v", now, len(held), err)
			}
		}
		if released, err := repository.ReleaseExpired(t.Context(), 10, 1000); err != nil || len(released) != step.released {
			t.Fatalf("at %v: released %d events, %v; want %d", now, len(released), err, step.released)
		}
	}
}

func TestYearsOfBirthdaysRunInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		var delivered []time.Time
		scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithPoll(24*time.Hour), almanac.WithSweep(24*time.Hour), almanac.WithLease(72*time.Hour),
			almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
				delivered = append(delivered, time.Now().UTC())
				return nil
			})))
		if err != nil {
			t.Fatal(err)
		}
		enrolment, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1996-02-29", Timezone: "Europe/London"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 400*24*time.Hour)
		defer stop()
		if err := scheduler.Run(ctx); err != nil {
			t.Error(err)
		}
		// A bubble starts on 2000-01-01.
		want := []string{"2000-02-29T09:00:00Z"}
		if len(delivered) != len(want) || delivered[0].Format(time.RFC3339) != want[0] {
			t.Errorf("delivered at %v, want %v", delivered, want)
		}
		next := almanactest.PendingEvent(t, repository, enrolment.User.ID, almanac.TypeBirthday)
		if got := next.Due.Format(time.RFC3339); got != "2001-02-28T09:00:00Z" {
			t.Errorf("next birthday at %s, want 2001-02-28T09:00:00Z", got)
		}
	})
}

// Looks and claims depend on how many lanes there are, and not on how many events wait in them.
func TestAMemoryRepositoryLooksQuicklyWhereManyEventsWait(t *testing.T) {
	t.Parallel()
	repository, types := almanactest.NewRepository(nil), []string{almanac.TypeBirthday}
	now := time.Now()
	for i := range 5000 {
		u := almanactest.User()
		e := almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Hour))
		e.Lane = "crm/" + []string{"large", "small"}[i%2]
		if _, _, err := almanactest.CreateUser(t.Context(), repository, u, e); err != nil {
			t.Fatal(err)
		}
	}
	open := almanac.Breaker{Allowed: 1, RetryAt: now.Add(-time.Second), OpenedAt: now.Add(-time.Minute)}
	if _, err := repository.Report(t.Context(), "crm", func(almanac.Breaker, time.Time) almanac.Breaker { return open }); err != nil {
		t.Fatal(err)
	}
	began, claimed := time.Now(), 0
	for range 200 {
		claim, err := repository.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: types, Limit: 100, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		claimed += len(claim.Events)
		if wait, known, err := repository.Until(t.Context(), types, time.Time{}); err != nil || !known || wait <= 0 {
			t.Fatalf("until the next event: %v %v %v, want half a second while the only place is taken", wait, known, err)
		}
	}
	if claimed != 1 {
		t.Errorf("claimed %d events, want one, because the breaker is open", claimed)
	}
	if took := time.Since(began); took > 2*time.Second { // milliseconds, and more than a minute if each event that waits is looked at
		t.Errorf("200 claims and looks took %v", took)
	}
}
