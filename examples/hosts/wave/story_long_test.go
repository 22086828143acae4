//go:build long

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// inbox is a receiver in virtual time. It takes 100 ms for a greeting.
type inbox struct {
	mu       sync.Mutex
	requests []time.Time
	greeted  map[string]int       // by user
	last     map[string]time.Time // the last greeting of each tenant
	again    int                  // requests that were not the first attempt
	attempt  int                  // the highest number of an attempt
	present  int
	down     bool
	since    int  // greetings that were accepted since the receiver is up again
	flood    bool // whether more came at once than had been accepted before
}

func (i *inbox) Deliver(_ context.Context, d almanac.Delivery) error {
	down := i.begin(d)
	time.Sleep(100 * time.Millisecond)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.present--; down {
		return errors.New("receiver answered 503")
	}
	return nil
}

// begin notes a request, and reports whether the receiver is down.
func (i *inbox) begin(d almanac.Delivery) (down bool) {
	tenant := strings.TrimPrefix(d.Event.Lane, receiver.Name+"/")
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests = append(i.requests, time.Now())
	i.present++
	if i.attempt = max(i.attempt, d.Attempt); d.Attempt > 1 {
		i.again++
	}
	if !i.down {
		i.greeted[d.User.ID.String()]++
		i.last[tenant] = time.Now()
		i.since++
		i.flood = i.flood || i.present > 1<<(bits.Len(uint(i.since))-1)
	}
	return i.down
}

// set takes the receiver down, or up again, and returns how many requests it has had.
func (i *inbox) set(down bool) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down, i.since, i.flood = down, 0, false
	return len(i.requests)
}

// profiles are those of the tenants' users, whose birthday is on 2 January.
func profiles(sizes map[string]int) iter.Seq2[almanac.Profile, error] {
	return func(yield func(almanac.Profile, error) bool) {
		for tenant, n := range sizes {
			for i := range n {
				if !yield(almanac.Profile{
					FirstName: "Ada", LastName: fmt.Sprint(i), DateOfBirth: "1990-01-02", Timezone: "Europe/London",
					Attributes: json.RawMessage(`{"tenant": "` + tenant + `"}`),
				}, nil) {
					return
				}
			}
		}
	}
}

// It is nine o'clock for all users of a zone: 55,000 greetings are due at one instant. The receiver takes fifty a
// second from all processes together. Two of its tenants do not wait behind the third. A third process starts on the
// way, as in a deploy, and for a minute the receiver is down. Twenty-five minutes pass in virtual time.
func TestNineOClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const users = 55_000
		sizes := map[string]int{"large": users - 10_000, "mid": 7_000, "small": 3_000}
		in := &inbox{greeted: make(map[string]int), last: make(map[string]time.Time)}
		nine := time.Date(2000, 1, 2, 9, 0, 0, 0, time.UTC)
		after := func(d time.Duration) { time.Sleep(time.Until(nine.Add(d))) }
		after(-time.Minute)
		repository := almanactest.NewRepository(nil)
		first := newScheduler(repository, in)
		require.NoError(t, first.SetLane(t.Context(), receiver))
		_, err := first.CreateUsers(t.Context(), profiles(sizes), almanac.CreateUsersOptions{})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var processes sync.WaitGroup
		run := func(s almanac.Scheduler) { processes.Go(func() { require.NoError(t, s.Run(ctx)) }) }
		run(first)
		run(newScheduler(repository, in))
		after(5 * time.Minute)
		run(newScheduler(repository, in))
		after(10 * time.Minute)
		before := in.set(true)
		after(11 * time.Minute)
		require.Less(t, in.set(false)-before, 60, "single greetings are tried while the receiver is down")
		after(25 * time.Minute)
		stop()
		processes.Wait()

		require.Len(t, in.greeted, users)
		for user, n := range in.greeted {
			require.Equal(t, 1, n, "greetings of %s", user)
		}
		require.LessOrEqual(t, in.attempt, 2)
		require.LessOrEqual(t, in.again, 10, "only failures before the breaker opens count as attempts")
		require.False(t, in.flood, "more greetings at once than had been accepted since the receiver is up")
		in.keepsTheRate(t)
		for _, tenant := range []string{"mid", "small"} { // each has at least a third of the rate
			require.Less(t, in.last[tenant].Sub(nine), time.Duration(3*sizes[tenant])*time.Second/50+time.Second, tenant)
		}
		// A minute of the receiver's, half a minute until a greeting is tried again, and a ramp.
		require.Less(t, in.last["large"].Sub(nine), users*time.Second/50+2*time.Minute)
		events, err := repository.Find(t.Context(), almanac.InStatus(almanac.Failed), almanac.Page{})
		require.NoError(t, err)
		require.Empty(t, events.Items)
	})
}

// keepsTheRate checks that in any time, no more requests came than the burst and the rate allow, with the quarter of a
// second that a start may take.
func (i *inbox) keepsTheRate(t *testing.T) {
	t.Helper()
	const rate, burst = 50.0, 10.0 // a fifth of the rate
	var level float64
	for n, at := range i.requests {
		if n > 0 {
			level = max(0, level-rate*at.Sub(i.requests[n-1]).Seconds())
		}
		level++
		require.LessOrEqual(t, level, burst+rate/4, "request %d", n)
	}
}
