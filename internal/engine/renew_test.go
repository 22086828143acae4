package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestRenew_renewsEveryThirdOfTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 45*time.Second), soon(2, 0, time.Second), soon(3, 15*time.Second, 10*time.Second))
		e := s.engine()
		var renewed []string
		e.Leases.Renew = byNumber(func(ctx context.Context, keys []int) ([]int, error) {
			slices.Sort(keys)
			renewed = append(renewed, fmt.Sprint(s.now(), keys))
			return s.renew(ctx, keys)
		})
		stop := begin(t, e)
		s.pass(10 * time.Minute)

		want := []string{"10s [1]", "20s [1 2]", "30s [1]", "40s [1]"}
		if !slices.Equal(renewed, want) {
			t.Errorf("renewed %q, want %q", renewed, want)
		}
		stopClean(t, stop)
	})
}

func TestRenew_cancelsTheItemsOfALostLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Hour), soon(2, 0, time.Hour), soon(3, 5*time.Second, time.Minute))
		s.lost[1] = true
		stop := begin(t, s.engine())

		s.pass(10*time.Second - 1)
		if len(s.settled) != 0 {
			t.Errorf("settled %v before the loss could be known", s.settled)
		}
		s.pass(1)
		if got := fmt.Sprint(s.settled); got != "map[1:engine: lease lost 2:engine: lease lost]" {
			t.Errorf("settled %v, want both items of the lost lease cancelled and settled", got)
		}
		s.pass(time.Minute)
		if s.settled[3] != "done" {
			t.Errorf("the item of another lease ended as %q", s.settled[3])
		}
		stopClean(t, stop)
	})
}

func TestRenew_losesTheLeaseOnlyAfterAWholeTTL(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		until time.Duration // when renewal works again
		hang  bool          // instead of failing at once
		want  string
	}{
		"for less than a lease harms nothing":   {until: 29 * time.Second, want: "done at 1m40s"},
		"for a whole lease loses it":            {until: time.Hour, want: "engine: lease lost at 30s"},
		"by hanging loses it no later":          {until: time.Hour, hang: true, want: "engine: lease lost at 30s"},
		"by hanging for a while harms nothing":  {until: 25 * time.Second, hang: true, want: "done at 1m40s"},
		"not at all is the measure of the test": {want: "done at 1m40s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(soon(1, 0, 100*time.Second))
				e := s.engine()
				e.Leases.Renew = byNumber(func(ctx context.Context, keys []int) ([]int, error) {
					if s.now() >= tt.until {
						return s.renew(ctx, keys)
					}
					if tt.hang {
						<-ctx.Done()
					}
					return nil, errStore
				})
				stop := begin(t, e)
				s.pass(10 * time.Minute)

				if len(s.batches) != 1 {
					t.Fatalf("%d batches settled, want 1", len(s.batches))
				}
				if got := fmt.Sprint(s.settled[1], " at ", s.batches[0].At); got != tt.want {
					t.Errorf("ended as %q, want %q", got, tt.want)
				}
				stopClean(t, stop)
			})
		})
	}
}

func TestRenew_continuesUntilTheResultIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		s.failSettle = func(int) error {
			if s.now() < time.Minute {
				return errStore
			}
			return nil
		}
		stop := begin(t, s.engine())
		s.pass(10 * time.Minute)

		if got := len(s.renewed); got < 6 || got > 7 {
			t.Errorf("%d renewals, want one every 10s until the result is stored after a minute", got)
		}
		stopClean(t, stop)
	})
}

// A store may use a key again, if a claim returns the key.
func TestRenew_acceptsAKeyThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		items func() []item
		want  string
	}{
		"after its loss": {
			func() []item { return []item{soon(1, 0, time.Hour), soon(2, 15*time.Second, time.Second)} },
			"map[1:engine: lease lost 2:done]",
		},
		"before its loss is noticed, with an item left": {
			func() []item { return []item{soon(1, 0, time.Hour), soon(2, 10*time.Second+1, time.Hour)} },
			"map[1:engine: lease lost 2:engine: lease lost]",
		},
		"while a renewal is on its way": {
			func() []item { return []item{soon(1, 0, 11*time.Second), soon(2, 11500*time.Millisecond, time.Second)} },
			"map[1:done 2:done]",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(tt.items()...)
				e := s.engine()
				e.Leases.Key = sameKey
				e.Leases.Renew = byNumber(func(context.Context, []int) ([]int, error) {
					time.Sleep(2 * time.Second)
					return nil, nil // not held
				})
				stop := begin(t, e)
				s.pass(20 * time.Second)

				if got := fmt.Sprint(s.settled); got != tt.want {
					t.Errorf("settled %v, want %v", got, tt.want)
				}
				stopClean(t, stop)
			})
		})
	}
}

// An item that ignores the loss of its lease must not harm the next item with a lease of
// the same key.
func TestRenew_keepsANewLeaseWithALostKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 40*time.Second), soon(2, 15*time.Second, 60*time.Second))
		e := s.engine()
		e.Leases.Key = sameKey
		s.lost[1] = true
		e.Do = returning(func(ctx context.Context, it item) item {
			if it.id == 1 {
				ctx = context.WithoutCancel(ctx)
			}
			return s.do(ctx, it)
		})
		stop := begin(t, e)
		s.pass(12 * time.Second)
		s.lost[1] = false
		s.pass(2 * time.Minute)

		if got := fmt.Sprint(s.settled); got != "map[1:done 2:done]" {
			t.Errorf("settled %v, want both done", got)
		}
		if last := s.renewed[len(s.renewed)-1]; last != 70*time.Second {
			t.Errorf("last renewed at %v, want until the second item is done", last)
		}
		stopClean(t, stop)
	})
}

// A process that was frozen during a claim resumes with items that others may have started.
func TestRun_neverStartsItemsWhoseLeaseHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0), soon(2, 35*time.Second, 0))
		e := s.engine()
		e.Settings.Slots = 1
		e.Claim = func(ctx context.Context, free int) ([]item, error) {
			items, err := s.claim(ctx, free)
			if s.now() == 0 {
				time.Sleep(30 * time.Second)
			}
			return items, err
		}
		stop := begin(t, e)
		s.pass(time.Minute)

		if got, want := fmt.Sprint(s.begun), "map[2:35s]"; got != want {
			t.Errorf("begun %v, want %v", got, want)
		}
		if got := s.log.count("level=ERROR"); got != 1 {
			t.Errorf("%d errors logged, want 1", got)
		}
		stopClean(t, stop)
	})
}

// A store over several databases returns the leases of those that answer beside an error. They are prolonged. The others are lost at their end.
func TestRenew_keepsLeasesThatComeWithAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 100*time.Second), soon(2, time.Second, 100*time.Second))
		e := s.engine()
		e.Leases.Renew = byNumber(func(_ context.Context, keys []int) ([]int, error) {
			return slices.DeleteFunc(keys, func(k int) bool { return k == 2 }), errStore
		})
		stop := begin(t, e)
		s.pass(31*time.Second - 1)
		if len(s.settled) != 0 {
			t.Errorf("settled %v before a lease has ended", s.settled)
		}
		s.pass(10 * time.Minute)
		if got, want := fmt.Sprint(s.settled), "map[1:done 2:engine: lease lost]"; got != want {
			t.Errorf("settled %v, want %v", got, want)
		}
		stopClean(t, stop)
	})
}
