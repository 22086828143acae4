package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

func TestDrain_letsItemsFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 45*time.Second), soon(2, 2*time.Second, 0))
		stop := begin(t, s.engine())
		s.pass(time.Second)
		stopClean(t, stop)

		if got := fmt.Sprint(s.settled); got != "map[1:done]" {
			t.Errorf("settled %v, want what was claimed and nothing that came later", got)
		}
		if got := s.now(); got != 45*time.Second {
			t.Errorf("Run returned at %v, want as soon as all was settled, at 45s", got)
		}
		if got := len(s.renewed); got != 4 {
			t.Errorf("%d renewals, want them to go on during the drain", got)
		}
	})
}

func TestDrain_cancelsItemsAfterTheGrace(t *testing.T) {
	t.Parallel()
	tests := map[string]time.Duration{
		"of a minute":  time.Minute,
		"of no length": 0,
	}
	for name, grace := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(soon(1, 0, time.Hour))
				e := s.engine()
				e.Settings.Drain = grace
				stop := begin(t, e)
				s.pass(time.Second)
				stopClean(t, stop)

				if got := s.settled[1]; got != engine.ErrDraining.Error() {
					t.Errorf("the item ended as %q, want %q", got, engine.ErrDraining)
				}
				if got := s.now(); got != time.Second+grace {
					t.Errorf("Run returned at %v, want %v after it was asked to", got, grace)
				}
			})
		})
	}
}

func TestDrain_abandonsItemsThatIgnoreIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0), soon(2, 0, 0), soon(3, 0, time.Hour))
		e := s.engine()
		release := make(chan struct{})
		defer close(release)
		e.Do = returning(func(ctx context.Context, it item) item {
			if it.id != 3 {
				<-release
			}
			return s.do(ctx, it)
		})
		stop := begin(t, e)
		s.pass(time.Second)
		err := stop()

		if !errors.Is(err, engine.ErrAbandoned) || !strings.Contains(err.Error(), "2 still running") {
			t.Errorf("Run = %v, want %v, of 2 items", err, engine.ErrAbandoned)
		}
		if got, want := s.now(), time.Second+time.Minute+time.Second; got != want {
			t.Errorf("Run returned at %v, want %v", got, want)
		}
		if got := fmt.Sprint(s.settled); got != "map[3:engine: draining]" {
			t.Errorf("settled %v, want the item that obeyed", got)
		}
		if got := s.log.count("level=ERROR"); got != 1 {
			t.Errorf("%d errors logged, want 1", got)
		}
	})
}

// Items taken by an interrupted claim would stay claimed until their lease ended.
func TestDrain_letsAClaimFinish(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		e := s.engine()
		e.Claim = func(ctx context.Context, free int) ([]item, error) {
			select {
			case <-time.After(2 * time.Second):
				return s.claim(ctx, free)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		stop := begin(t, e)
		s.pass(time.Second)
		stopClean(t, stop)

		if s.settled[1] != "done" {
			t.Error("the item of a claim on its way is not done")
		}
	})
}

func TestDrain_isNotLoggedAsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		e := s.engine()
		e.Settings.Drain = 0
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		e.Claim = func(ctx context.Context, _ int) ([]item, error) { return nil, hang(ctx) }
		e.Tasks = []engine.Task{{Name: "hang", Every: time.Second, Do: hang}}
		stop := begin(t, e)
		s.pass(time.Second)
		stopClean(t, stop)

		if got := s.log.count("level="); got != 0 {
			t.Errorf("%d records logged, want none: %s", got, s.log.text.String())
		}
	})
}

func TestDrain_endsAlthoughTheStoreFails(t *testing.T) {
	t.Parallel()
	refuse := func(context.Context) error { return errStore }
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := map[string]struct {
		settle      func(context.Context) error
		failRenewal bool
	}{
		"refusing all":             {refuse, true},
		"refusing results only":    {refuse, false},
		"answering nothing":        {hang, true},
		"answering only a renewal": {hang, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				for id := range 10 {
					s.add(soon(id, 0, 0))
				}
				e := s.engine()
				e.Settings.Batch = 1
				e.Settle = func(ctx context.Context, _ []item) ([]int, error) { return nil, tt.settle(ctx) }
				if tt.failRenewal {
					s.failRenew = always
				}
				stop := begin(t, e)
				s.pass(time.Second)
				err := stop()

				if !errors.Is(err, engine.ErrUnsettled) {
					t.Errorf("Run = %v, want %v", err, engine.ErrUnsettled)
				}
				if got, most := s.now(), time.Second+e.Leases.TTL+e.Leases.TTL/3; got > most {
					t.Errorf("Run returned at %v, want at most a lease after it was asked to", got)
				}
				if got := s.log.count("level=ERROR"); got != 10 {
					t.Errorf("%d results logged as given up, want 10", got)
				}
			})
		})
	}
}

// Results discarded while other items still run are reported like the rest.
func TestDrain_reportsResultsDiscardedEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0), soon(2, 0, time.Hour))
		s.failSettle = func(int) error {
			if s.now() < 35*time.Second {
				return errStore
			}
			return nil
		}
		s.failRenew = always
		e := s.engine()
		e.Do = returning(func(ctx context.Context, it item) item {
			r := s.do(ctx, it)
			time.Sleep(time.Duration(it.id-1) * 20 * time.Second) // so that the second outlives its lease
			return r
		})
		stop := begin(t, e)
		s.pass(time.Second)

		if err := stop(); !errors.Is(err, engine.ErrUnsettled) || !errors.Is(err, errStore) {
			t.Errorf("Run = %v, want %v because %v", err, engine.ErrUnsettled, errStore)
		}
		if got := fmt.Sprint(s.settled); got != "map[2:engine: lease lost]" {
			t.Errorf("settled %v, want the second only", got)
		}
	})
}

// As long as batches are stored, however slowly, the drain goes on.
func TestDrain_continuesWhileASlowStoreStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for id := range 10 {
			s.add(soon(id, 0, 0))
		}
		e := s.engine()
		e.Settings.Batch = 1
		e.Settle = func(ctx context.Context, results []item) ([]int, error) {
			time.Sleep(8 * time.Second)
			return s.settle(ctx, results)
		}
		stop := begin(t, e)
		s.pass(time.Second)
		stopClean(t, stop)

		if len(s.settled) != 10 || s.now() != 80*time.Second {
			t.Errorf("%d settled by %v, want 10 by 1m20s", len(s.settled), s.now())
		}
	})
}

func TestAhead_releasesHeldItemsAtOnceWhenStopped(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		f.add(soon(1, 0, time.Minute), soon(2, time.Second, 0), soon(3, 1100*time.Millisecond, 0))
		e.Settings.Drain = 10 * time.Second
		stop := begin(t, e)
		f.pass(900 * time.Millisecond)
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		f.pass(time.Millisecond)

		if !slices.Equal(f.returned, []int{2, 3}) || len(f.waiting) != 2 {
			t.Errorf("returned %v, %d waiting; want 2 and 3 back", f.returned, len(f.waiting))
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if _, begun := f.begun[2]; begun {
			t.Error("a released item was begun")
		}
	})
}

func TestAhead_releasesHeldItemsDuringAHangingClaim(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		stop := f.claimThen(t, e, func(ctx context.Context) { <-ctx.Done() })
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		f.pass(time.Millisecond)

		if !slices.Equal(f.returned, []int{1}) {
			t.Errorf("returned %v, want 1", f.returned)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// Released items are due within the window as before, and must not be claimed again.
func TestAhead_claimsNothingAfterAStopDuringAClaim(t *testing.T) {
	t.Parallel()
	newAheadStore().run(t, func(t *testing.T, f *aheadStore, e *machine) {
		f.add(soon(1, time.Second, 0), soon(2, time.Second, 0))
		e.Settings.MaxClaim = 1
		ctx, stop := context.WithCancel(t.Context())
		e.Ahead.Claim = func(ctx context.Context, n int) ([]item, error) {
			stop()
			if len(f.aheads) == 10 {
				runtime.Goexit() // otherwise the test would never end
			}
			return f.claimAhead(ctx, n)
		}
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(f.aheads) != 1 || len(f.begun) != 0 || len(f.waiting) != 2 {
			t.Errorf("%d claims ahead, %d begun, %d waiting; want 1, 0 and 2", len(f.aheads), len(f.begun), len(f.waiting))
		}
	})
}
