package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

func TestHealth_reportsWhetherTheEngineRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 10*time.Second))
		e := s.engine()
		expect := func(when string, running bool, held int) {
			t.Helper()
			if h := e.Health(); h.Running != running || h.Held != held {
				t.Errorf("%s: running %v with %d held, want %v with %d", when, h.Running, h.Held, running, held)
			}
		}
		expect("before Run", false, 0)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		s.pass(5 * time.Second)
		expect("while it runs", true, 1)
		cancel()
		synctest.Wait()
		expect("while it drains", false, 1)
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		expect("after Run", false, 0)
	})
}

// failures returns the calls that have failed for at least a second, and the longest time.
func failures(h engine.Health) (what string, longest time.Duration) {
	for _, one := range []struct {
		name string
		engine.Failure
	}{{"claim", h.Claim}, {"settle", h.Settle}, {"renew", h.Renew}, {"task", h.Tasks["sweep"]}} {
		if one.For < time.Second {
			continue
		}
		outcome := "hangs"
		if errors.Is(one.Err, errStore) {
			outcome = "fails"
		}
		what += one.name + " " + outcome
		longest = max(longest, one.For)
	}
	return what, longest
}

// In each case something is broken from 10 s to 110 s. Health is checked at 60 s and at 200
// s.
func TestHealth_reportsFailingCalls(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		damage func(s *store, e *machine, broken func(int) error)
		items  []time.Duration // how long each item takes
		want   string
		since  time.Duration // how long ago the failure began
	}{
		"nothing, when nothing fails": {func(*store, *machine, func(int) error) {}, []time.Duration{0, time.Minute}, "", 0},
		"claims that fail": {func(s *store, _ *machine, broken func(int) error) {
			s.failClaim = broken
			s.add(soon(9, 20*time.Second, 0)) // so that a claim is made
		}, nil, "claim fails", 40 * time.Second},
		"looks that fail, and claims with them": {func(s *store, _ *machine, broken func(int) error) {
			s.failClaim, s.failUntil = broken, broken
		}, nil, "claim fails", 50 * time.Second},
		"claims that hang": {func(s *store, e *machine, broken func(int) error) {
			e.Claim = func(ctx context.Context, free int) ([]item, error) {
				if broken(0) != nil {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return s.claim(ctx, free)
			}
			s.failUntil = broken // so that a claim is made
		}, nil, "claim hangs", 50 * time.Second},
		"not a look that fails, as long as claims succeed": {func(s *store, e *machine, broken func(int) error) {
			s.failUntil, e.Settings.Backoff = broken, func(int) time.Duration { return 100 * time.Millisecond }
		}, nil, "", 0},
		"settling that fails": {func(s *store, _ *machine, broken func(int) error) {
			s.failSettle = broken
		}, []time.Duration{15 * time.Second}, "settle fails", 45 * time.Second},
		"renewal that fails": {func(s *store, e *machine, broken func(int) error) {
			s.failRenew, e.Leases.TTL = broken, 90*time.Second
		}, []time.Duration{150 * time.Second}, "renew fails", 30 * time.Second},
		"a maintenance task that fails": {func(_ *store, e *machine, broken func(int) error) {
			e.Tasks = []engine.Task{{Name: "sweep", Every: time.Second, Do: func(context.Context) error { return broken(0) }}}
		}, nil, "task fails", 50 * time.Second},
		"not that there is no free slot": {func(s *store, e *machine, _ func(int) error) {
			e.Settings.Slots = 1
			e.Claim = func(ctx context.Context, free int) ([]item, error) {
				items, err := s.claim(ctx, free)
				if len(items) > 0 { // an error may come with items
					err = errStore
				}
				return items, err
			}
		}, []time.Duration{90 * time.Second, 0}, "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				for i, takes := range tt.items {
					s.add(soon(i+1, 0, takes))
				}
				e := s.engine()
				tt.damage(s, e, func(int) error {
					if now := s.now(); now > 10*time.Second && now < 110*time.Second {
						return errStore
					}
					return nil
				})
				stop := begin(t, e)
				s.pass(time.Minute)
				// The first try comes within about a second of the fault.
				if what, d := failures(e.Health()); what != tt.want || d > tt.since || d < tt.since-2*time.Second {
					t.Errorf("after a minute: %q for %v, want %q for %v", what, d, tt.want, tt.since)
				}
				s.pass(140 * time.Second)
				if what, d := failures(e.Health()); what != "" {
					t.Errorf("after it works again: %q for %v", what, d)
				}
				stopClean(t, stop)
			})
		})
	}
}

// ignoringContext returns a Do that ignores its context.
func ignoringContext(s *store) func(context.Context, item) item {
	return func(_ context.Context, it item) item { return s.do(context.Background(), it) }
}

func TestHealth_countsItemsThatIgnoreTheEndOfTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Minute), soon(2, 0, 10*time.Minute), soon(3, 0, 10*time.Minute))
		e := s.engine()
		e.Do = returning(ignoringContext(s))
		e.Settings.Abandon = 5 * time.Second
		e.Limit = func(it item) time.Duration { return time.Duration(it.id) * 20 * time.Second }
		stop := begin(t, e)
		for _, look := range []struct {
			after time.Duration
			stuck int
		}{
			{25*time.Second - 1, 0}, {1, 1}, {20 * time.Second, 2}, {15 * time.Second, 1}, {5 * time.Second, 2}, {10 * time.Minute, 0},
		} {
			s.pass(look.after)
			if got := e.Health().Stuck; got != look.stuck {
				t.Errorf("%d stuck after %v, want %d", got, s.now(), look.stuck)
			}
		}
		if got := e.Health(); got.Held != 0 || got.Lost != 0 {
			t.Errorf("%d held and %d lost in the end", got.Held, got.Lost)
		}
		stopClean(t, stop)
	})
}

func TestDo_isEndedAtItsLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Minute), soon(2, 0, time.Second))
		e := s.engine()
		e.Limit = func(item) time.Duration { return 7 * time.Second }
		stop := begin(t, e)
		s.pass(7*time.Second - 1)
		if got := s.settled[1]; got != "" {
			t.Errorf("ended as %q before its limit", got)
		}
		s.pass(1)
		if s.settled[1] != context.DeadlineExceeded.Error() || s.settled[2] != "done" {
			t.Errorf("ended as %q and %q", s.settled[1], s.settled[2])
		}
		stopClean(t, stop)
	})
}

// A lease is renewed while any item that is not stuck shares it. Then it is abandoned, so
// that another process can do the stuck item.
func TestStuckItems_loseTheirLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Hour), soon(2, 0, 45*time.Second), soon(3, 15*time.Second, 40*time.Minute))
		e := s.engine()
		e.Do = returning(func(ctx context.Context, it item) item {
			if it.id == 1 {
				return ignoringContext(s)(ctx, it)
			}
			return s.do(ctx, it)
		})
		e.Settings.Abandon = 5 * time.Second
		e.Limit = func(it item) time.Duration {
			if it.id == 1 {
				return 10 * time.Second
			}
			return time.Hour
		}
		var renewed []string
		e.Leases.Renew = byNumber(func(ctx context.Context, keys []int) ([]int, error) {
			slices.Sort(keys)
			renewed = append(renewed, fmt.Sprint(s.now(), keys))
			return s.renew(ctx, keys)
		})
		stop := begin(t, e)
		s.pass(75 * time.Second)

		if want := []string{"10s [1]", "20s [1 2]", "30s [1 2]", "40s [1 2]", "50s [2]", "1m0s [2]", "1m10s [2]"}; !slices.Equal(renewed, want) {
			t.Errorf("renewed %q, want %q", renewed, want)
		}
		if got := s.log.count("level=ERROR msg=\"items stuck"); got != 1 {
			t.Errorf("%d log lines about the stuck item, want once", got)
		}
		if h := e.Health(); h.Stuck != 1 || h.Held != 2 || h.Lost != 0 {
			t.Errorf("%d stuck, %d held, %d lost; want 1, 2, 0", h.Stuck, h.Held, h.Lost)
		}
		s.pass(time.Hour)
		if s.settled[1] != "done" || e.Health().Stuck != 0 {
			t.Errorf("what was stuck ended as %q, %d stuck", s.settled[1], e.Health().Stuck)
		}
		stopClean(t, stop)
	})
}

// Other processes have been able to do a stuck item since its lease was lost.
func TestStuckItems_doNotCountAsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Hour), soon(2, 0, 25*time.Second))
		s.lost[1] = true // noticed after ten seconds
		e := s.engine()
		e.Do = returning(ignoringContext(s))
		e.Limit = func(it item) time.Duration { return time.Duration(it.id*it.id*it.id) * 5 * time.Second }
		stop := begin(t, e)
		s.pass(10*time.Second + 1)
		if h := e.Health(); h.Stuck != 1 || h.Lost != 1 {
			t.Errorf("%d stuck and %d lost, want one and the other", h.Stuck, h.Lost)
		}
		s.pass(time.Hour)
		stopClean(t, stop)
	})
}

// An abandoned lease does not shorten the time for the renewal of the others.
func TestStuckItems_doNotShortenOtherRenewals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Hour), soon(2, time.Second, 2*time.Minute))
		e := s.engine()
		e.Do = returning(func(ctx context.Context, it item) item {
			if it.id == 1 {
				return ignoringContext(s)(ctx, it)
			}
			return s.do(ctx, it)
		})
		e.Settings.Abandon = 0
		e.Limit = func(it item) time.Duration {
			if it.id == 1 {
				return time.Second
			}
			return time.Hour
		}
		e.Leases.Renew = byNumber(func(ctx context.Context, keys []int) ([]int, error) {
			select { // slow, but in time
			case <-time.After(9 * time.Second):
				return s.renew(ctx, keys)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		stop := begin(t, e)
		s.pass(3 * time.Minute)
		if s.settled[2] != "done" {
			t.Errorf("the other ended as %q", s.settled[2])
		}
		s.pass(time.Hour)
		stopClean(t, stop)
	})
}

func TestHealth_reportsLostLeasesForOneTTL(t *testing.T) {
	t.Parallel()
	tests := map[string]func(s *store, e *machine){
		"of items that run": func(s *store, _ *machine) { s.lost[1] = true },
		"of results that cannot be stored": func(s *store, e *machine) {
			s.failSettle, s.failRenew = always, always
			e.Limit = func(item) time.Duration { return time.Second }
		},
		"that were over before anything could begin": func(s *store, e *machine) {
			first := true
			e.Claim = func(ctx context.Context, free int) ([]item, error) {
				items, err := s.claim(ctx, free)
				if first { // as if the process had been frozen
					first = false
					time.Sleep(30 * time.Second)
				}
				return items, err
			}
		},
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(soon(1, 0, time.Hour), soon(2, 0, time.Hour))
				e := s.engine()
				damage(s, e)
				stop := begin(t, e)
				s.pass(5 * time.Second)
				if got := e.Health().Lost; got != 0 {
					t.Errorf("%d lost before anything was", got)
				}
				most := 0
				for range 25 {
					s.pass(time.Second)
					most = max(most, e.Health().Lost)
				}
				s.pass(2 * time.Second)
				if got := max(most, e.Health().Lost); got != 2 {
					t.Errorf("%d lost, want 2", got)
				}
				s.pass(30 * time.Second)
				if h := e.Health(); h.Lost != 0 || h.Settle != (engine.Failure{}) {
					t.Errorf("%d still lost a whole lease later, and %+v", h.Lost, h.Settle)
				}
				stopClean(t, stop)
			})
		})
	}
}
