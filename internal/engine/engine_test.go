package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

func TestDo_hasAResultWhenItDoesNotReturn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do   func()
		want string
	}{
		"after a panic":             {func() { explode("boom") }, "boom at explode"},
		"after a panic without any": {func() { explode(nil) }, "panic called with nil argument at explode"},
		"after Goexit":              {func() { depart() }, "<nil> at depart"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(soon(1, 0, 0), soon(2, time.Second, 0))
				e := s.engine()
				e.Settings.Slots = 1
				e.Do = returning(func(ctx context.Context, it item) item {
					if it.id == 1 {
						tt.do()
					}
					return s.do(ctx, it)
				})
				e.Exited = func(it item, cause any, stack []byte) item {
					at := "nowhere"
					for _, name := range []string{"explode", "depart"} {
						if strings.Contains(string(stack), "engine_test."+name) {
							at = name
						}
					}
					return it.ended(fmt.Sprint(cause, " at ", at))
				}
				stop := begin(t, e)
				s.pass(time.Second)

				if got := s.settled[1]; got != tt.want {
					t.Errorf("settled as %q, want %q", got, tt.want)
				}
				if s.settled[2] != "done" {
					t.Error("the next item is not done")
				}
				stopClean(t, stop)
			})
		})
	}
}

func explode(cause any) { panic(cause) }

func depart() { runtime.Goexit() }

func TestTasks_runFromTheStartAtTheirInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		e := s.engine()
		var minutely, hourly []time.Duration
		e.Tasks = []engine.Task{
			{Name: "minutely", Every: time.Minute, Do: func(context.Context) error {
				minutely = append(minutely, s.now())
				return nil
			}},
			{Name: "hourly", Every: time.Hour, Do: func(context.Context) error {
				hourly = append(hourly, s.now())
				return nil
			}},
		}
		stop := begin(t, e)
		s.pass(90 * time.Minute)
		stopClean(t, stop)

		if got := len(hourly); got != 2 || hourly[0] != 0 {
			t.Errorf("hourly task at %v, want at the start and after an hour or so", hourly)
		}
		if got := len(minutely); got < 80 || got > 102 || minutely[0] != 0 {
			t.Errorf("minutely task %d times in 90 minutes, first at %v", got, minutely[0])
		}
		for i := range minutely[1:] {
			if gap := minutely[i+1] - minutely[i]; gap < 48*time.Second || gap > 72*time.Second {
				t.Fatalf("minutely task after %v, want a minute give or take a fifth", gap)
			}
		}
	})
}

func TestTasks_continueAfterErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		e := s.engine()
		var rounds []time.Duration
		e.Tasks = []engine.Task{{Name: "sweep", Every: time.Hour, Do: func(context.Context) error {
			rounds = append(rounds, s.now())
			if len(rounds) <= 3 || len(rounds) == 5 {
				return errStore
			}
			return nil
		}}}
		stop := begin(t, e)
		s.pass(130 * time.Minute)
		stopClean(t, stop)

		ms := time.Millisecond
		if want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms}; len(rounds) < 6 || !slices.Equal(rounds[:4], want) {
			t.Fatalf("rounds at %v, want to begin with %v and go on", rounds, want)
		}
		if gap := rounds[5] - rounds[4]; gap != 100*ms {
			t.Errorf("a round after a later failure came after %v, want the first backoff again", gap)
		}
		if got := s.log.count("level=WARN msg=\"maintenance task failed\" task=sweep"); got != 4 {
			t.Errorf("%d warnings, want 4", got)
		}
	})
}

func TestTasks_areCancelledWhenTheyHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		e := s.engine()
		var rounds atomic.Int64
		e.Tasks = []engine.Task{{Name: "hang", Every: time.Second, Do: func(ctx context.Context) error {
			rounds.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}}}
		stop := begin(t, e)
		s.pass(e.Leases.TTL + time.Second)
		if got := rounds.Load(); got != 2 {
			t.Errorf("%d rounds, want the second after the first was cut off", got)
		}
		stopClean(t, stop)
	})
}

func TestRun_refusesToRunTwiceAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 2*time.Second, 0))
		e := s.engine()
		e.Wake() // harmless before Run
		stop := begin(t, e)
		s.pass(time.Second)

		if err := e.Run(t.Context()); !errors.Is(err, engine.ErrRunning) {
			t.Errorf("second Run = %v, want %v", err, engine.ErrRunning)
		}
		stopClean(t, stop)

		e.Wake() // and after
		stop = begin(t, e)
		s.pass(time.Second)
		if s.settled[1] != "done" {
			t.Error("the engine does nothing when run again")
		}
		stopClean(t, stop)
	})
}

func TestRun_doesNothingWhenStoppedAlready(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		e := s.engine()
		e.Tasks = []engine.Task{{Name: "any", Every: time.Second, Do: func(context.Context) error {
			t.Error("a task ran")
			return nil
		}}}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()

		if err := e.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		if len(s.claims) != 0 {
			t.Errorf("%d claims, want none", len(s.claims))
		}
	})
}

// Context values, such as a trace, reach the callbacks during the drain as well.
func TestRun_passesOnTheValuesOfItsContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		e := s.engine()
		e.Settle = func(ctx context.Context, results []item) ([]int, error) {
			if ctx.Value(key{}) != "trace" {
				t.Error("Settle does not see the value")
			}
			return s.settle(ctx, results)
		}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Second)
		defer cancel()
		if err := e.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

func TestRun_returnsAllComplaintsAtOnce(t *testing.T) {
	t.Parallel()

	e := &machine{
		Settings: engine.Settings{MaxClaim: -1, Settlers: -1, Linger: -1, Drain: -1, Abandon: -1},
		Tasks:    []engine.Task{{Name: "nothing"}},
	}
	err := e.Run(t.Context())
	if err == nil {
		t.Fatal("Run of an empty engine = nil")
	}
	complaints := []string{
		"no Claim", "no Until", "no Do", "no Limit", "no Exited", "no Settle", "no Leases.Key", "no Leases.Renew",
		"Leases.TTL of 0s is under a millisecond", "0 Slots", "MaxClaim of -1", "Batch of 0", "-1 Settlers", "Linger of -1ns",
		"Poll of 0s is under a millisecond", "Drain of -1ns", "Abandon of -1ns", "no Backoff",
		`task "nothing" has no Do`, `task "nothing" runs every 0s, under a millisecond`,
	}
	want := "engine: " + strings.Join(complaints, "\nengine: ")
	if err.Error() != want {
		t.Errorf("Run = %v\nwant %s", err, want)
	}
}
