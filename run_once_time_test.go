package almanac_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestRunOnceRunsOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
			time.Sleep(time.Second)
			return nil
		}}
		owe(t, w.store, h)
		s := w.scheduler(t, h)
		go func() { _, _ = s.RunOnce(t.Context(), almanac.RunOnceOptions{}) }()
		synctest.Wait()

		_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.ErrorIs(t, err, almanac.ErrRunning)
		require.ErrorIs(t, s.Run(t.Context()), almanac.ErrRunning)
		require.NoError(t, s.Health().Err())
		require.Equal(t, 1, s.Health().InHand)

		time.Sleep(2 * time.Second)
		require.Equal(t, almanac.RunOnceResult{}, w.once(t, s, almanac.RunOnceOptions{}))
		require.ErrorIs(t, s.Health().Err(), almanac.ErrNotRunning)
	})
}

// Deliveries go on for as long as a drain lasts once the time of a pass is over.
func TestRunOnceEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		h := series{eventType: "DIGEST", seconds: ago(time.Minute)}
		h.AttemptTimeout = time.Hour
		lasting := map[int]time.Duration{0: time.Second, 1: 12 * time.Second, 2: time.Minute, 3: time.Minute}
		var mu sync.Mutex
		begun := 0
		h.execute = func(ctx context.Context, _ almanac.Delivery) error {
			mu.Lock()
			takes := time.After(lasting[begun%4])
			begun++
			mu.Unlock()
			select {
			case <-takes:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for range 10 {
			owe(t, w.store, h)
		}
		began := time.Now()

		did := w.once(t, w.scheduler(t, h, almanac.WithWorkers(4), almanac.WithDrain(5*time.Second)), almanac.RunOnceOptions{Within: 10 * time.Second})

		// One after a second, which the fifth follows, whose second is over too, and so on.
		require.Equal(t, 15*time.Second, time.Since(began).Truncate(time.Second))
		require.True(t, did.More)
		require.Positive(t, did.Completed)
		require.Positive(t, did.Released)
		require.Zero(t, did.Unstored)
	})
}

// A pass waits for the rate of a type, and holds up no other type meanwhile.
func TestRunOnceWaitsForARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, slow, other := openOn(almanactest.NewRepository(nil)), new(receiver), new(receiver)
		handlers := []almanac.EventHandler{
			series{eventType: "SLOW", seconds: ago(time.Minute), execute: slow.Deliver},
			series{eventType: "OTHER", seconds: ago(time.Minute), execute: other.Deliver},
		}
		for range 10 {
			owe(t, w.store, handlers[0].(series))
			owe(t, w.store, handlers[1].(series))
		}
		s := w.schedulerOf(t, handlers, almanac.WithLimit("SLOW", almanac.Limit{Rate: 2, Burst: 1}))
		began := time.Now()

		did := w.once(t, s, almanac.RunOnceOptions{})

		require.Equal(t, almanac.RunOnceResult{Claimed: 20, Completed: 20}, did)
		require.InDelta(t, 4.5, time.Since(began).Seconds(), 0.5, "one at once, and nine at two a second")
		for _, d := range other.deliveries() {
			require.Less(t, d.At.Sub(began), time.Second)
		}
	})
}

// narrow counts the calls that are under way at once, each of which takes a while.
type narrow struct {
	*almanactest.Repository
	mu        sync.Mutex
	now, peak int
}

func (n *narrow) enter() (leave func()) {
	n.mu.Lock()
	n.now++
	n.peak = max(n.peak, n.now)
	n.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.now--
	}
}

func (n *narrow) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.Claim, error) {
	defer n.enter()()
	return n.Repository.Claim(ctx, r)
}

func (n *narrow) Settle(ctx context.Context, s []almanac.Settlement) ([]almanac.Settled, error) {
	defer n.enter()()
	return n.Repository.Settle(ctx, s)
}

func (n *narrow) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	defer n.enter()()
	return n.Repository.Renew(ctx, tokens, lease)
}

func (n *narrow) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	defer n.enter()()
	return n.Repository.Until(ctx, types, mark)
}

// However many types have limits, and engines of their own.
func TestRunOnceNeedsTwoConnectionsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &narrow{Repository: almanactest.NewRepository(nil)}
		w := openOn(n)
		var handlers []almanac.EventHandler
		var options []almanac.Option
		for i := range 5 {
			h := series{eventType: fmt.Sprint("TYPE", i), seconds: ago(time.Minute)}
			h.execute = func(context.Context, almanac.Delivery) error {
				time.Sleep(time.Duration(3+i) * time.Second)
				return nil
			}
			for range 10 {
				owe(t, w.store, h)
			}
			handlers, options = append(handlers, h), append(options, almanac.WithLimit(h.eventType, almanac.Limit{Workers: 2}))
		}

		did := w.once(t, w.schedulerOf(t, handlers, append(options, almanac.WithLease(6*time.Second))...), almanac.RunOnceOptions{})

		require.Equal(t, almanac.RunOnceResult{Claimed: 50, Completed: 50}, did)
		require.Equal(t, 2, n.peak)
	})
}

// upkept is a narrow repository that counts the calls of upkeep too.
type upkept struct{ *narrow }

func (u upkept) Confirm(ctx context.Context, events []almanac.Event) (almanac.Confirmed, error) {
	defer u.enter()()
	return u.Repository.Confirm(ctx, events)
}

func (u upkept) ReleaseExpired(ctx context.Context, limit int) ([]almanac.Event, error) {
	defer u.enter()()
	return u.Repository.ReleaseExpired(ctx, limit)
}

func (u upkept) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.Standing, time.Time) ([]almanac.Event, []uuid.UUID, error)) (almanac.Added, error) {
	defer u.enter()()
	return u.Repository.AddSuccessors(ctx, eventType, page, plan)
}

func (u upkept) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	defer u.enter()()
	return u.Repository.ZoneRules(ctx)
}

// However many events are delivered at once, and though each outcome comes by itself.
func TestRunNeedsSevenConnectionsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &narrow{Repository: almanactest.NewRepository(nil)}
		w := openOn(upkept{n})
		var begun atomic.Int64
		h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: func(context.Context, almanac.Delivery) error {
			time.Sleep(time.Duration(begun.Add(1)%100) * 2 * time.Millisecond)
			return nil
		}}
		const events = 500
		for range events {
			owe(t, w.store, h)
		}

		w.run(t, h, almanac.WithLease(3*time.Second), almanac.WithSweep(time.Second/10))
		for range events {
			w.await(t, almanac.EventCompleted)
		}
		require.NoError(t, w.stop())

		require.LessOrEqual(t, n.peak, 7)
		require.Greater(t, n.peak, 2, "calls are counted")
	})
}

// unwilling is a repository that stores no outcomes.
type unwilling struct{ *almanactest.Repository }

func (unwilling) Settle(context.Context, []almanac.Settlement) ([]almanac.Settled, error) {
	return nil, errBusy
}

func TestRunOnceSaysWhatItCouldNotStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, r := openOn(unwilling{almanactest.NewRepository(nil)}), new(receiver)
		h := series{eventType: "DIGEST", seconds: ago(time.Minute), execute: r.Deliver}
		owe(t, w.store, h)

		did, err := w.scheduler(t, h).RunOnce(t.Context(), almanac.RunOnceOptions{Within: 5 * time.Second})

		require.ErrorContains(t, err, "results given up: 1")
		require.Equal(t, almanac.RunOnceResult{Claimed: 1, Unstored: 1}, did)
	})
}
