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

func TestHealthIsJudged(t *testing.T) {
	t.Parallel()
	lost := almanac.Failure{For: 31 * time.Second, Err: errLost}
	well := almanac.Health{
		Running: true, Workers: 10, Held: 10, Stuck: 5, Patience: 30 * time.Second,
		Claim: almanac.Failure{For: 30 * time.Second, Err: errLost}, Maintenance: map[string]almanac.Failure{"sweep": lost},
	}
	tests := map[string]struct {
		change func(h *almanac.Health)
		is     error
		text   string
	}{
		"well, with half of the workers, patience and chores": {func(*almanac.Health) {}, nil, ""},
		"not running, and then nothing else": {func(h *almanac.Health) { h.Running, h.Stuck = false, 10 },
			almanac.ErrNotRunning, "almanac: scheduler is not running"},
		"claims fail": {func(h *almanac.Health) { h.Claim = lost },
			errLost, "almanac: claim: failing for 31s: connection lost"},
		"outcomes cannot be stored": {func(h *almanac.Health) { h.Settle = lost },
			errLost, "almanac: settle: failing for 31s: connection lost"},
		"leases cannot be renewed": {func(h *almanac.Health) { h.Renew = lost },
			errLost, "almanac: renew: failing for 31s: connection lost"},
		"most workers are stuck": {func(h *almanac.Health) { h.Stuck = 6 },
			almanac.ErrStuck, "almanac: deliveries do not return: 6 of 10 workers are stuck"},
		"leases were lost": {func(h *almanac.Health) { h.Lost = 3 },
			almanac.ErrLeaseLost, "almanac: lease lost: the event is no longer held: 3 lately"},
		"everything at once": {func(h *almanac.Health) { h.Claim.Err, h.Claim.For, h.Stuck = nil, time.Minute, 10 },
			almanac.ErrStuck, "almanac: claim: no answer for 1m0s\nalmanac: deliveries do not return: 10 of 10 workers are stuck"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := well
			tt.change(&h)

			err := h.Err()

			if tt.is == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.is)
			require.EqualError(t, err, tt.text)
			require.Equal(t, tt.is == almanac.ErrStuck, errors.Is(err, almanac.ErrStuck), "which is what a liveness probe asks")
		})
	}
}

// Two users are owed something each second. Something happens after ten seconds,
// and it is over after twenty.
func TestHealthFailsAndRecoversWithTheRepository(t *testing.T) {
	t.Parallel()
	at, long := 10*time.Second, 10*time.Second
	tests := map[string]struct {
		faults  []fault
		deliver func(ctx context.Context, now time.Duration) error
		is      error
	}{
		"nothing happens":                       {},
		"the database is gone":                  {faults: []fault{{"claim", fails, at, long}, {"until", fails, at, long}, {"settle", fails, at, long}, {"renew", fails, at, long}}, is: errLost},
		"the database does not answer":          {faults: []fault{{"claim", hangs, at, long}, {"until", hangs, at, long}, {"settle", hangs, at, long}, {"renew", hangs, at, long}}, is: context.DeadlineExceeded},
		"nothing can be claimed":                {faults: []fault{{"claim", fails, at, long}}, is: errLost},
		"no outcome can be stored":              {faults: []fault{{"settle", fails, at, long}}, is: errLost},
		"leases cannot be renewed":              {faults: []fault{{"renew", fails, at, long}}, deliver: slowly, is: errLost},
		"leases are lost":                       {faults: []fault{{"renew", fails, at, long}, {"settle", fails, at, long}}, is: almanac.ErrLeaseLost},
		"maintenance fails, which is a warning": {faults: []fault{{"sweep", fails, at, long}}},
		"deliveries take long and are stopped":  {deliver: slowly},
		"deliveries ignore that they have to stop": {deliver: func(ctx context.Context, now time.Duration) error {
			if now >= at && now < at+long {
				time.Sleep(20 * time.Second)
			}
			return ctx.Err()
		}, is: almanac.ErrStuck},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := rehearse(t, tt.faults, tt.deliver)
				for ; h.now() < at; pass(time.Second) {
					require.NoError(t, h.scheduler.Health().Err(), "before")
				}
				red := 0
				for ; h.now() < 2*time.Minute; pass(100 * time.Millisecond) {
					if err := h.scheduler.Health().Err(); err != nil {
						red++
						if tt.is == nil {
							require.NoError(t, err, "after %v", h.now())
						}
						h.matched = h.matched || errors.Is(err, tt.is)
					}
				}
				if tt.is != nil {
					require.Positive(t, red, "it never turned red")
					require.True(t, h.matched, "it was red for other reasons than %v", tt.is)
				}
				health := h.scheduler.Health()
				require.NoError(t, health.Err(), "it stays red")
				require.Empty(t, health.Maintenance)
				require.Zero(t, health.Stuck)
				require.NoError(t, h.stop())
				require.ErrorIs(t, h.scheduler.Health().Err(), almanac.ErrNotRunning)
			})
		})
	}
}

// slowly takes a second and a half, unless it is told to stop.
func slowly(ctx context.Context, _ time.Duration) error {
	select {
	case <-time.After(1500 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rehearsal is a scheduler that runs in a bubble.
type rehearsal struct {
	scheduler almanac.Scheduler
	start     time.Time
	matched   bool
	stop      func() error
}

func (h *rehearsal) now() time.Duration { return time.Since(h.start) }

// rehearse lets a scheduler run for two users with an event each second
// of the first two minutes.
func rehearse(t *testing.T, faults []fault, deliver func(context.Context, time.Duration) error) *rehearsal {
	t.Helper()
	h := &rehearsal{start: time.Now()}
	ticks := series{
		Execution: almanac.Execution{AttemptTimeout: faultAttempt, RetryPolicy: almanac.RetryPolicy{Attempts: 50, First: 100 * time.Millisecond, Factor: 1}},
		eventType: "TICK",
		execute: func(ctx context.Context, _ almanac.Delivery) error {
			if deliver == nil {
				return nil
			}
			return deliver(ctx, h.now())
		},
	}
	for n := range 120 {
		ticks.seconds = append(ticks.seconds, h.start.UTC().Truncate(time.Second).Add(time.Duration(n+1)*time.Second))
	}
	repository := almanactest.NewRepository(nil)
	storeEvent(t, repository, ticks)
	storeEvent(t, repository, ticks)
	registry, err := almanac.NewRegistry(ticks)
	require.NoError(t, err)
	h.scheduler, err = almanac.NewScheduler(newFaulty(repository, h.start, faults...), registry,
		almanac.WithWorkers(3), almanac.WithLease(faultLease), almanac.WithSweep(faultSweep))
	require.NoError(t, err)
	require.ErrorIs(t, h.scheduler.Health().Err(), almanac.ErrNotRunning)
	ctx, cancel := context.WithCancel(t.Context())
	var result error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result = h.scheduler.Run(ctx)
	}()
	synctest.Wait()
	h.stop = func() error {
		cancel()
		<-ended
		return result
	}
	t.Cleanup(func() { _ = h.stop() })
	return h
}

// The receiver is away from the tenth to the fortieth second. Before, and in the middle, some
// deliveries are snoozed.
func TestHealthSaysSinceWhenDeliveriesFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errAway := errors.New("HTTP 503")
		h := rehearse(t, nil, func(_ context.Context, now time.Duration) error {
			switch s := now / time.Second; {
			case s == 5 || s == 20:
				return almanac.Snooze(time.Second, "later")
			case s >= 10 && s < 40:
				return errAway
			}
			return nil
		})
		for ; h.now() < 10*time.Second; pass(100 * time.Millisecond) {
			require.Empty(t, h.scheduler.Health().Deliveries, "after %v", h.now())
		}
		pass(20 * time.Second)
		health := h.scheduler.Health()
		require.Len(t, health.Deliveries, 1)
		require.InDelta(t, 20, health.Deliveries["TICK"].For.Seconds(), 1)
		require.ErrorIs(t, health.Deliveries["TICK"].Err, errAway)
		require.NoError(t, health.Err(), "a restart would not help")
		pass(11 * time.Second)
		require.Empty(t, h.scheduler.Health().Deliveries)
		require.NoError(t, h.stop())
		require.Nil(t, h.scheduler.Health().Deliveries)
	})
}

func TestHealthIsSharedByTheSchedulersOfOneProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := rehearse(t, nil, slowly)
		pass(1200 * time.Millisecond)

		health := h.scheduler.With(almanactest.NewRepository(nil)).Health()

		require.NoError(t, health.Err())
		require.Equal(t, 2, health.Held)
		require.Equal(t, 3, health.Workers)
		require.Equal(t, faultLease/2, health.Patience)
		require.NoError(t, h.stop())
	})
}

// refusesClaims is a repository of which every claim fails.
type refusesClaims struct {
	almanac.Repository
	claims atomic.Int64
}

func (r *refusesClaims) Claim(ctx context.Context, _ almanac.ClaimRequest) (almanac.ClaimResult, error) {
	if r.claims.Add(1) > 1000 { // virtual time stands still for who never waits
		<-ctx.Done()
	}
	return almanac.ClaimResult{}, errBusy
}

// The waits grow from a tenth of a second to five seconds.
func TestRunWaitsBetweenCallsOfAFailingRepository(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &refusesClaims{Repository: almanactest.NewRepository(nil)}
		w := openOn(r)
		w.run(t, series{eventType: "FINE"})
		time.Sleep(time.Minute)
		require.NoError(t, w.stop())
		require.Greater(t, r.claims.Load(), int64(10))
		require.Less(t, r.claims.Load(), int64(30))
	})
}

// Of two receivers of one type, one fails. The other one does not hide it.
func TestHealthSaysWhichReceiverFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		errAway := errors.New("HTTP 503")
		w := openOn(almanactest.NewRepository(nil))
		retries := almanac.RetryPolicy{Attempts: 100, First: time.Second, Factor: 1}
		h := series{almanac.Execution{RetryPolicy: retries}, "LETTER", nil, func(_ context.Context, d almanac.Delivery) error {
			if d.Event.Lane == "crm/a" {
				return errAway
			}
			return nil
		}}
		for i := range 20 {
			u := almanactest.User()
			lane := []string{"crm/a", "crm/b", ""}[i%3]
			almanactest.Store(t, w.store, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.OfType("LETTER"), almanactest.InLane(lane), almanactest.DueIn(time.Duration(i)*time.Second)))
		}
		s := w.run(t, h)
		time.Sleep(30 * time.Second)
		failing := s.Health().Deliveries
		require.Len(t, failing, 1)
		require.ErrorIs(t, failing["crm/a"].Err, errAway)
		require.InDelta(t, 30, failing["crm/a"].For.Seconds(), 1)
		require.NoError(t, w.stop())
	})
}
