package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// calls is a BatchDeliverer that notes the size of each call.
type calls struct {
	mu    sync.Mutex
	sizes []int
	do    func(ctx context.Context, batch []almanac.Delivery) []error
}

func (c *calls) DeliverBatch(ctx context.Context, batch []almanac.Delivery) []error {
	c.mu.Lock()
	c.sizes = append(c.sizes, len(batch))
	c.mu.Unlock()
	if c.do != nil {
		return c.do(ctx, batch)
	}
	return make([]error, len(batch))
}

// together delivers so many events of a lane at once, and returns their errors.
func together(ctx context.Context, d almanac.Deliverer, n int, lane string) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			errs[i] = d.Deliver(ctx, almanac.Delivery{Event: almanac.Event{Type: "X", Lane: lane, OccurrenceKey: fmt.Sprint(i)}})
		})
	}
	all.Wait()
	return errs
}

func TestBatchesHaveEventsOfOneLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := new(calls)
		d := almanac.Batched(c, 4)
		var both sync.WaitGroup
		both.Go(func() { together(t.Context(), d, 10, "") })
		both.Go(func() { together(t.Context(), d, 3, "crm") })
		began := time.Now()
		both.Wait()
		require.Equal(t, time.Millisecond, time.Since(began))
		slices.Sort(c.sizes)
		require.Equal(t, []int{2, 3, 4, 4}, c.sizes)
	})
}

func TestEachEventOfABatchHasItsOutcome(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do   func(context.Context, []almanac.Delivery) []error
		want string // of the first event
		last string // of the last one
	}{
		"one fails": {func(_ context.Context, batch []almanac.Delivery) []error {
			errs := make([]error, len(batch))
			for i, d := range batch {
				if d.Event.OccurrenceKey == "0" {
					errs[i] = errBusy
				}
			}
			return errs
		}, "receiver is busy", ""},
		"all fail": {func(_ context.Context, batch []almanac.Delivery) []error {
			return []error{errBusy, almanac.Permanent(errBusy), errBusy}
		}, "receiver is busy", "receiver is busy"},
		"an outcome is missing": {func(_ context.Context, batch []almanac.Delivery) []error { return make([]error, 2) },
			"almanac: 2 outcomes of a batch of 3 events", "almanac: 2 outcomes of a batch of 3 events"},
		"it panics": {func(context.Context, []almanac.Delivery) []error { panic("oh") },
			"almanac: the delivery of a batch panicked: oh", "almanac: the delivery of a batch panicked: oh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				errs := together(t.Context(), almanac.Batched(&calls{do: tt.do}, 10), 3, "")
				for i, want := range map[int]string{0: tt.want, 2: tt.last} {
					if want == "" {
						require.NoError(t, errs[i])
					} else {
						require.EqualError(t, errs[i], want)
					}
				}
			})
		})
	}
}

func TestABatchEndsWithItsFirstDeadlineOrItsLastEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wait := func(ctx context.Context, batch []almanac.Delivery) []error {
			<-ctx.Done()
			return slices.Repeat([]error{context.Cause(ctx)}, len(batch))
		}
		d := almanac.Batched(&calls{do: wait}, 10)
		began := time.Now()
		var both sync.WaitGroup
		for _, limit := range []time.Duration{time.Minute, time.Second} {
			both.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				require.ErrorIs(t, together(ctx, d, 1, "")[0], context.DeadlineExceeded)
			})
		}
		both.Wait()
		require.Equal(t, time.Second, time.Since(began))

		gone := errors.New("lease lost")
		first, cancelFirst := context.WithCancelCause(t.Context())
		second, cancelSecond := context.WithCancelCause(t.Context())
		both.Go(func() { require.ErrorIs(t, together(first, d, 1, "")[0], gone) })
		both.Go(func() { require.ErrorIs(t, together(second, d, 1, "")[0], gone) })
		began = time.Now()
		time.Sleep(time.Second)
		cancelFirst(gone)
		time.Sleep(time.Second)
		cancelSecond(gone)
		both.Wait()
		require.Equal(t, 2*time.Second, time.Since(began), "the other event goes on")
	})
}

// Events of a batch are claimed, fenced and settled as single ones are.
func TestEventsOfBatchesAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w, c := openOn(repository(t)), new(calls)
			h := series{eventType: "SLOW", seconds: ago(time.Minute)}
			for range 50 {
				storeEvent(t, w.store, h)
			}
			h.execute = almanac.Batched(c, 20).Deliver
			w.run(t, h, almanac.WithWorkers(50))
			require.Eventually(t, func() bool {
				n, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
				return err == nil && n == 50
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, w.stop())
			sum := 0
			for _, n := range c.sizes {
				sum += n
			}
			require.Equal(t, 50, sum)
			require.Less(t, len(c.sizes), 50)
		})
	}
}

// A receiver that refuses a batch has failed once, however many events the batch has.
func TestABatchThatFailsIsOneFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{do: func(_ context.Context, batch []almanac.Delivery) []error {
			return slices.Repeat([]error{errBusy}, len(batch))
		}}
		h := series{Execution: almanac.Execution{Breaker: true}, eventType: "SLOW", seconds: ago(time.Minute)}
		w := openOn(almanactest.NewRepository(nil))
		for range 20 {
			storeEvent(t, w.store, h)
		}
		h.execute = almanac.Batched(c, 20).Deliver
		w.run(t, h, almanac.WithWorkers(20))
		time.Sleep(5 * time.Second) // before the second attempt
		require.NoError(t, w.stop())
		events, err := w.store.Find(t.Context(), nil, almanac.Page{})
		require.NoError(t, err)
		for _, e := range events.Items {
			require.Equal(t, 1, e.RetryCount)
		}
	})
}
