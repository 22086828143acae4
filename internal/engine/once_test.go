package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

// once returns an engine that ends by itself. Its Until reports only items that are due
// already.
func (s *store) once() *machine {
	e := s.engine()
	e.Settings.Once = true
	e.Until = func(ctx context.Context) (time.Duration, bool, error) {
		wait, known, err := s.until(ctx)
		return 0, known && wait <= 0, err
	}
	return e
}

// done counts the items that were settled as done.
func (s *store) done() (n int) {
	for _, outcome := range s.settled {
		if outcome == "done" {
			n++
		}
	}
	return n
}

func TestOnceDoesWhatIsDueAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(0, time.Hour, 0))
		for id := range 25 { // more than there are slots
			s.add(soon(id+1, 0, time.Second))
		}

		if err := s.once().Run(t.Context()); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}

		if s.done() != 25 || s.held != 0 || len(s.waiting) != 1 {
			t.Errorf("%d of 25 done, %d held, %d of 1 waiting", s.done(), s.held, len(s.waiting))
		}
		if took := s.now(); took != 3*time.Second {
			t.Errorf("took %v, want 3s: three rounds of ten slots", took)
		}
	})
}

func TestOnceEndsAtOnceWhenNothingIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, time.Minute, 0))

		if err := s.once().Run(t.Context()); err != nil || s.now() != 0 || len(s.looks) != 1 || len(s.claims) != 0 {
			t.Errorf("Run = %v after %v, %d looks and %d claims; want nil at once after a look", err, s.now(), len(s.looks), len(s.claims))
		}
	})
}

// An item that becomes due because another has ended is done too, however long others take.
func TestOnceDoesFollowUpItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Millisecond), soon(2, 0, time.Minute))
		e := s.once()
		e.Settle = func(ctx context.Context, results []item) ([]int, error) {
			for _, r := range results {
				if r.id%10 == 1 && r.id < 31 {
					s.add(soon(r.id+10, 0, time.Millisecond))
					defer e.Wake()
				}
			}
			return s.settle(ctx, results)
		}

		if err := e.Run(t.Context()); err != nil || s.done() != 5 {
			t.Errorf("Run = %v, done %v; want nil and all five", err, s.settled)
		}
		if at := s.begun[31]; at > time.Second {
			t.Errorf("the last of the chain began after %v: it waited for another", at)
		}
	})
}

func TestOnceEndsWhenOthersHoldTheDueItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, time.Second))
		e := s.once()
		e.Until = func(context.Context) (time.Duration, bool, error) { return 0, true, nil }

		if err := e.Run(t.Context()); err != nil || s.done() != 1 {
			t.Errorf("Run = %v, done %v; want nil and the one", err, s.settled)
		}
		if took := s.now(); took > 2*time.Second || len(s.claims) > 30 {
			t.Errorf("took %v and %d claims: it neither ends nor waits", took, len(s.claims))
		}
	})
}

func TestOnceEndsWhenTheStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	afterTheFirst := func(call int) error {
		if call == 1 {
			return nil
		}
		return errStore
	}
	tests := map[string]func(*store){
		"a claim":             func(s *store) { s.failClaim = always },
		"a look":              func(s *store) { s.failUntil = always },
		"a look later":        func(s *store) { s.failUntil = afterTheFirst },
		"neither, ever since": func(s *store) { s.failClaim, s.failUntil = always, afterTheFirst },
	}
	for name, fail := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore(soon(1, 0, 10*time.Second))
				fail(s)

				err := s.once().Run(t.Context())

				if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, errStore) {
					t.Errorf("Run = %v, want ErrUnavailable and the store's", err)
				}
				if s.held != 0 || len(s.waiting)+s.done() != 1 {
					t.Errorf("%d held, %d waiting, %d done: claimed items were not finished", s.held, len(s.waiting), s.done())
				}
				if took := s.now(); took > 20*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func TestOnceContinuesAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		s.failClaim = func(call int) error {
			if call < 5 {
				return errStore
			}
			return nil
		}

		if err := s.once().Run(t.Context()); err != nil || s.done() != 1 {
			t.Errorf("Run = %v, done %v; want nil and the one", err, s.settled)
		}
	})
}

// The end of the context acts as in any Run: items that can finish do, the rest are
// cancelled.
func TestOnceDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 2*time.Second), soon(2, 0, time.Hour))
		for id := range 20 { // more than there are slots
			s.add(soon(id+3, 0, time.Hour))
		}
		e := s.once()
		e.Settings.Drain = 5 * time.Second
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()

		if err := e.Run(ctx); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}

		if s.settled[1] != "done" || s.settled[2] != engine.ErrDraining.Error() || len(s.settled) != 10 || len(s.waiting) != 12 {
			t.Errorf("settled %v, %d waiting; want one done, nine cut off, twelve never claimed", s.settled, len(s.waiting))
		}
		if took := s.now(); took != 6*time.Second {
			t.Errorf("took %v, want 6s", took)
		}
	})
}

func TestOnceReportsUnsettledResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		s.failSettle = always
		s.failRenew = always

		if err := s.once().Run(t.Context()); !errors.Is(err, engine.ErrUnsettled) {
			t.Errorf("Run = %v, want ErrUnsettled", err)
		}
	})
}
