package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// inBatchesToo returns cases for single events, and the same with batches of three.
func inBatchesToo(tests map[string]faultCase) map[string]faultCase {
	both := maps.Clone(tests)
	for name, tt := range tests {
		tt.batch = 3
		both[name+", in batches"] = tt
	}
	return both
}

// faultyBatch delivers each event of a batch as a single one, at the same time.
type faultyBatch struct {
	s *stage
	f *faulty
}

func (b faultyBatch) DeliverBatch(ctx context.Context, batch []almanac.Delivery) []error {
	if len(batch) > 1 {
		b.s.mu.Lock()
		b.s.together++
		b.s.mu.Unlock()
	}
	errs := make([]error, len(batch))
	var all sync.WaitGroup
	for i, d := range batch {
		all.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					errs[i] = fmt.Errorf("panic: %v", cause)
				}
			}()
			errs[i] = b.s.receive(ctx, b.f, d)
		})
	}
	all.Wait()
	return errs
}

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

// unexecuted is a handler whose events go to the deliverer of their channel.
type unexecuted struct {
	almanac.EventHandler
	almanac.Execution
}

func unexecutedOf(s series) unexecuted { return unexecuted{s, s.Execution} }

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
	around := func(next almanac.Deliverer) almanac.Deliverer { return almanac.DelivererFunc(next.Deliver) }
	for where, repository := range onBoth {
		for how, option := range map[string]almanac.Option{"": almanac.WithWorkers(50), ", with middleware": almanac.WithMiddleware(around)} {
			t.Run(where+how, func(t *testing.T) {
				t.Parallel()
				w, c := openOn(repository(t)), new(calls)
				h := unexecutedOf(series{eventType: "SLOW", seconds: ago(time.Minute)})
				for range 50 {
					storeEvent(t, w.store, h)
				}
				w.run(t, h, almanac.WithDeliverer("test", almanac.Batched(c, 20)), almanac.WithWorkers(50), option)
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
}

// badError is an error whose code panics, or ends its goroutine.
type badError struct{ exits bool }

func (badError) Error() string { return "bad" }

func (e badError) Is(error) bool {
	if e.exits {
		runtime.Goexit()
	}
	panic("as bad as it looks")
}

// Each event of a batch has its outcome, whatever the code of another one's error does.
func TestErrorsOfABatchHarmNoOtherEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{do: func(_ context.Context, batch []almanac.Delivery) []error {
			errs := make([]error, len(batch))
			copy(errs, []error{nil, badError{}, nil, badError{exits: true}})
			return errs
		}}
		h := unexecutedOf(series{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{Attempts: 1}}, eventType: "SLOW", seconds: ago(time.Minute)})
		w := openOn(almanactest.NewRepository(nil))
		for range 5 {
			storeEvent(t, w.store, h)
		}
		w.run(t, h, almanac.WithDeliverer("test", almanac.Batched(c, 5)), almanac.WithWorkers(5))
		time.Sleep(time.Second)
		require.NoError(t, w.stop())
		var reasons []string
		events, err := w.store.Find(t.Context(), almanac.InStatus(almanac.Failed), almanac.Page{})
		require.NoError(t, err)
		for _, e := range events.Items {
			reasons = append(reasons, e.FailureReason)
		}
		require.Len(t, reasons, 2)
		n, err := w.store.Count(t.Context(), almanac.InStatus(almanac.Completed))
		require.NoError(t, err)
		require.Equal(t, 3, n)
	})
}

// A receiver that refuses a batch has failed once, however many events the batch has.
func TestABatchThatFailsIsOneFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{do: func(_ context.Context, batch []almanac.Delivery) []error {
			return slices.Repeat([]error{errBusy}, len(batch))
		}}
		h := unexecutedOf(series{Execution: almanac.Execution{Breaker: true}, eventType: "SLOW", seconds: ago(time.Minute)})
		w := openOn(almanactest.NewRepository(nil))
		for range 20 {
			storeEvent(t, w.store, h)
		}
		w.run(t, h, almanac.WithDeliverer("test", almanac.Batched(c, 20)), almanac.WithWorkers(20))
		time.Sleep(5 * time.Second) // before the second attempt
		require.NoError(t, w.stop())
		events, err := w.store.Find(t.Context(), nil, almanac.Page{})
		require.NoError(t, err)
		for _, e := range events.Items {
			require.Equal(t, 1, e.RetryCount)
		}
	})
}

// A batch has no more events than its lane admits, and each keeps its place until the call has ended.
func TestBatchesKeepTheLimitsOfTheirLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var started []time.Time
		present, peak := 0, 0
		c := &calls{do: func(_ context.Context, batch []almanac.Delivery) []error {
			mu.Lock()
			present += len(batch)
			peak = max(peak, present)
			for range batch {
				started = append(started, time.Now())
			}
			mu.Unlock()
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			present -= len(batch)
			return make([]error, len(batch))
		}}
		h := unexecutedOf(series{eventType: "SLOW", seconds: ago(time.Minute)})
		w := openOn(almanactest.NewRepository(nil))
		require.NoError(t, w.store.PutLane(t.Context(), almanac.Lane{Name: "SLOW", Rate: 20, Burst: 8, Places: 6}))
		for range 60 {
			storeEvent(t, w.store, h)
		}
		w.run(t, h, almanac.WithDeliverer("test", almanac.Batched(c, 20)), almanac.WithWorkers(20))
		time.Sleep(time.Minute)
		require.NoError(t, w.stop())
		require.Len(t, started, 60)
		require.LessOrEqual(t, peak, 6)
		require.Greater(t, slices.Max(c.sizes), 1)
		for i, at := range started {
			for j := range i {
				require.LessOrEqual(t, float64(i-j+1), 8+20*(at.Sub(started[j]).Seconds()+0.25), "starts %d to %d", j, i)
			}
		}
	})
}

func TestABatchThatHangsDelaysNoOtherLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &calls{do: func(ctx context.Context, batch []almanac.Delivery) []error {
			if batch[0].Event.Lane == "slow" {
				<-ctx.Done()
				return slices.Repeat([]error{context.Cause(ctx)}, len(batch))
			}
			return make([]error, len(batch))
		}}
		d := almanac.Batched(c, 5)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var slow sync.WaitGroup
		slow.Go(func() {
			for _, err := range together(ctx, d, 12, "slow") {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		})
		for range 10 {
			began := time.Now()
			for _, err := range together(ctx, d, 7, "fast") {
				require.NoError(t, err)
			}
			require.Equal(t, time.Millisecond, time.Since(began))
		}
		slow.Wait()
	})
}
