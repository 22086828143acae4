package almanactest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// clocked is a repository with due birthdays and a clock that a test sets.
type clocked struct {
	*testing.T
	*almanactest.Repository
	now time.Time
}

func clockedRepository(t *testing.T, events int) *clocked {
	t.Helper()
	c := &clocked{T: t, now: time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)}
	c.Repository = almanactest.NewRepository(func() time.Time { return c.now })
	for range events {
		u := almanactest.User()
		if _, _, err := almanactest.CreateUser(t.Context(), c.Repository, u, almanactest.Event(c.now, almanactest.For(u), almanactest.ReadyFor(48*time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// claims sets the clock, and fails the test unless a claim then takes as many events as it should.
func (c *clocked) claims(by time.Duration, want int) {
	c.Helper()
	c.now = c.now.Add(by)
	claim, err := c.Claim(c.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 20, Lease: time.Minute})
	if err != nil || len(claim.Events) != want {
		c.Fatalf("at %v: claimed %d events, want %d; %v", c.now, len(claim.Events), want, err)
	}
}

// After the clock was set back, a breaker is open for as long as before. It tries again at once, with as many events as it allows.
func TestABreakerDoesNotStallWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	c := clockedRepository(t, 20)
	var opened, retry time.Duration
	report := func(change func(b almanac.Breaker, now time.Time) almanac.Breaker) {
		t.Helper()
		if _, err := c.Report(t.Context(), almanac.TypeBirthday, change); err != nil {
			t.Fatal(err)
		}
	}
	report(func(_ almanac.Breaker, now time.Time) almanac.Breaker {
		return almanac.Breaker{Allowed: 2, RetryAt: now.Add(10 * time.Second), OpenedAt: now.Add(-20 * time.Minute)}
	})
	c.claims(0, 0)
	c.claims(-time.Hour, 2)
	c.claims(0, 0)
	report(func(b almanac.Breaker, now time.Time) almanac.Breaker {
		opened, retry = now.Sub(b.OpenedAt), now.Sub(b.RetryAt)
		return b
	})
	if opened != 20*time.Minute || retry != 0 {
		t.Errorf("open for %v, and tried again %v ago; want 20m0s and 0s", opened, retry)
	}
}

// Each of two days has a count of its own. So a clock that is set back over midnight, and forward again, adds no quota to
// either day.
func TestADayHasOneQuotaWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	c := clockedRepository(t, 40)
	if err := c.PutLane(t.Context(), almanac.Lane{Name: almanac.TypeBirthday, Daily: 3}); err != nil {
		t.Fatal(err)
	}
	c.claims(0, 3)
	c.claims(2*time.Hour, 3)
	c.claims(-2*time.Hour, 0)
	c.claims(2*time.Hour, 0)
	c.claims(24*time.Hour, 3)
}
