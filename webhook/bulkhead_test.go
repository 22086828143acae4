package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/webhook"
)

// slow is a receiver that takes a while for each delivery, and counts its deliveries.
type slow struct {
	takes    time.Duration
	now      atomic.Int32
	most     atomic.Int32
	received atomic.Int32
}

func (s *slow) receive(c net.Conn) {
	if _, err := c.Read(make([]byte, 4<<10)); err != nil {
		return
	}
	s.received.Add(1)
	now := s.now.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	gone := make(chan struct{})
	go func() { defer close(gone); untilClosed(c) }()
	select {
	case <-time.After(s.takes):
		s.now.Add(-1) // before the response is sent
		_, _ = c.Write([]byte("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"))
		<-gone
	case <-gone:
		s.now.Add(-1)
	}
}

// deliverMany makes many deliveries at once, spread over the deliverers. It returns the
// error and the duration of each.
func deliverMany(t *testing.T, many int, by ...*webhook.Deliverer) (results []error, took []time.Duration) {
	t.Helper()
	results, took = make([]error, many), make([]time.Duration, many)
	began := time.Now()
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			results[i] = by[i%len(by)].Deliver(t.Context(), greeting(began))
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	return results, took
}

func busy(results []error) int {
	n := 0
	for _, err := range results {
		if errors.Is(err, webhook.ErrBusy) {
			n++
		}
	}
	return n
}

func TestASlowReceiverTakesNoMoreThanItsShare(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		bound     int
		takes     time.Duration
		many      int
		most      int32 // at once
		delivered int
		last      time.Duration // when the last result was known
	}{
		"without a bound":                 {0, 4 * time.Second, 50, 50, 50, 4 * time.Second},
		"one after the other":             {1, 200 * time.Millisecond, 5, 1, 5, time.Second},
		"some wait and are delivered":     {10, 4 * time.Second, 20, 10, 20, 8 * time.Second},
		"some wait and are not delivered": {10, 4 * time.Second, 50, 10, 20, 8 * time.Second},
		"all others are not delivered":    {2, 8 * time.Second, 12, 2, 2, 8 * time.Second},
		"a bound that is never reached":   {1 << 30, 4 * time.Second, 20, 20, 20, 4 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slow{takes: tt.takes}
				bound := webhook.WithConcurrency(tt.bound)
				d := connected(t, "http://receiver.example/", s.receive, bound)

				results, took := deliverMany(t, tt.many, d)

				require.Equal(t, tt.most, s.most.Load(), "at once")
				require.Equal(t, tt.many-tt.delivered, busy(results))
				require.EqualValues(t, tt.delivered, s.received.Load(), "deliveries that did not start sent nothing")
				halves := 0
				for i, err := range results {
					if err == nil {
						require.LessOrEqual(t, took[i], tt.last)
						continue
					}
					require.ErrorIs(t, err, webhook.ErrBusy)
					require.ErrorIs(t, err, almanac.ErrSnoozed)
					require.Contains(t, []time.Duration{time.Second, 7500 * time.Millisecond}, took[i], "half of the default timeout, for the first of the queue")
					halves += int(took[i] / (7500 * time.Millisecond))
				}
				require.LessOrEqual(t, halves, tt.bound, "few occupy a worker for long")
				require.Zero(t, webhook.Remembered(bound), "nothing is kept of idle receivers")
				require.NoError(t, d.Deliver(t.Context(), greeting(time.Now())))
			})
		})
	}
}

// At a slow receiver, only as many deliveries wait as may be under way. The others return at once.
func TestFewDeliveriesWaitForASlowReceiver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: 3 * time.Second}
		d := connected(t, "http://receiver.example/", s.receive, webhook.WithConcurrency(2))
		var first sync.WaitGroup
		for range 3 {
			first.Go(func() { _ = d.Deliver(t.Context(), greeting(time.Now())) })
			time.Sleep(1100 * time.Millisecond)
		}
		results, took := deliverMany(t, 20, d)
		first.Wait()
		require.Equal(t, 18, busy(results))
		for i, err := range results {
			if err != nil {
				require.Zero(t, took[i])
			}
		}
	})
}

// Two URLs of one receiver share its bound. Two receivers do not.
func TestConcurrencyIsBoundedPerReceiver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		one, other string
		shared     bool
	}{
		"two paths":        {"http://receiver.example/a", "http://receiver.example/b?c", true},
		"a default port":   {"http://receiver.example/", "http://receiver.example:80/", true},
		"another spelling": {"http://receiver.example/", "http://Receiver.Example./", true},
		"another host":     {"http://receiver.example/", "http://www.receiver.example/", false},
		"another port":     {"http://receiver.example/", "http://receiver.example:8080/", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slow{takes: 200 * time.Millisecond}
				bound := webhook.WithConcurrency(1)
				one, other := connected(t, tt.one, s.receive, bound), connected(t, tt.other, s.receive, bound)

				results, _ := deliverMany(t, 4, one, other)

				require.NoError(t, errors.Join(results...))
				require.Equal(t, map[bool]int32{true: 1, false: 2}[tt.shared], s.most.Load())
				require.Zero(t, webhook.Remembered(bound))
			})
		})
	}
}

func TestSeparateOptionsHaveSeparateBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slow{takes: time.Second}
		one := connected(t, "http://receiver.example/", s.receive, webhook.WithConcurrency(1))
		other := connected(t, "http://receiver.example/", s.receive, webhook.WithConcurrency(1))
		results, _ := deliverMany(t, 4, one, other)
		require.NoError(t, errors.Join(results...))
		require.EqualValues(t, 2, s.most.Load())
	})
}

// A waiting delivery stops waiting when its context ends. It waits for at most half of its
// remaining time, if that is less than half of the deliverer's timeout.
func TestWaitingForAReceiverEndsWithTheContext(t *testing.T) {
	t.Parallel()
	stopping := errors.New("the process stops")
	tests := map[string]struct {
		context func(context.Context) (context.Context, context.CancelFunc)
		want    error
		after   time.Duration
	}{
		"it is stopped": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(stopping) })
			return ctx, func() { cancel(nil) }
		}, stopping, time.Second},
		"it has little time": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 3*time.Second)
		}, webhook.ErrBusy, 1500 * time.Millisecond},
		"it has none left": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 0)
		}, context.DeadlineExceeded, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slow{takes: 10 * time.Second}
				bound := webhook.WithConcurrency(1)
				d := connected(t, "http://receiver.example/", s.receive, bound)
				var first sync.WaitGroup
				first.Go(func() { _ = d.Deliver(t.Context(), greeting(time.Now())) })
				synctest.Wait()
				ctx, cancel := tt.context(t.Context())
				defer cancel()
				began := time.Now()

				err := d.Deliver(ctx, greeting(began))

				require.ErrorIs(t, err, tt.want)
				require.Equal(t, tt.after, time.Since(began))
				first.Wait()
				require.EqualValues(t, 1, s.received.Load(), "nothing was sent")
				require.Zero(t, webhook.Remembered(bound))
			})
		})
	}
}

// However a delivery ends, the next one may start, and nothing races.
func TestEveryEndOfADeliveryStartsTheNext(t *testing.T) {
	t.Parallel()
	bound := webhook.WithConcurrency(3)
	var now, most atomic.Int32
	var turn atomic.Int32
	r := listen(t, func(w http.ResponseWriter, r *http.Request) {
		defer now.Add(-1)
		for n, m := now.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond) // others come meanwhile
		switch turn.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusGone)
		case 1:
			panic(http.ErrAbortHandler)
		}
	})
	by := make([]*webhook.Deliverer, 4)
	for i := range by {
		by[i] = deliverer(t, fmt.Sprintf("%s/%d", r.URL, i), bound)
	}
	for range 50 {
		results, _ := deliverMany(t, 6, by...) // more may wait for a second only, which a busy machine exceeds
		require.Zero(t, busy(results))
	}
	require.LessOrEqual(t, most.Load(), int32(3))
	require.Zero(t, webhook.Remembered(bound))
}

// Events that a slow receiver has no place for return at its pace, so few claims are in vain, and one pass
// delivers all.
func TestAPassDeliversAllToASlowReceiver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bound, events int
		takes, within time.Duration // within: for the whole pass
	}{
		"one place":    {1, 20, time.Second, 40 * time.Second},
		"two places":   {2, 100, 500 * time.Millisecond, 50 * time.Second},
		"slow":         {10, 100, 6 * time.Second, 2 * time.Minute},
		"a large wave": {2, 300, time.Second, 4 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slow{takes: tt.takes}
				d := connected(t, "http://receiver.example/", s.receive, webhook.WithConcurrency(tt.bound), webhook.WithLogger(slog.New(slog.DiscardHandler)))
				registry, err := almanac.NewRegistry(almanac.OneOff{})
				require.NoError(t, err)
				scheduler, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry,
					almanac.WithDeliverer(almanac.ChannelWebhook, d), almanac.WithLogger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				for range tt.events {
					u, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1915-12-10", Timezone: "UTC"})
					require.NoError(t, err)
					_, err = scheduler.ScheduleAt(t.Context(), u.User.ID, almanac.TypeOneOff, almanac.ScheduleAtOptions{At: calendar.WallTimeOf(time.Now().UTC().Add(time.Second))})
					require.NoError(t, err)
				}
				time.Sleep(2 * time.Second)
				began := time.Now()

				did, err := scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{Within: time.Hour, Limit: 1_000_000})

				require.NoError(t, err)
				require.Equal(t, tt.events, did.Completed)
				require.LessOrEqual(t, time.Since(began), tt.within, did.Claimed)
				require.LessOrEqual(t, did.Claimed, 6*tt.events, time.Since(began))
			})
		})
	}
}
