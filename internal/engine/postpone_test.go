package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

func TestSettle_storesTheOthersWhileSomeAreLocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for id := range 20 {
			s.add(soon(id, 0, 0))
		}
		s.lock(3, 4)
		e := s.engine()
		e.Settings.Slots = 2 // fewer than could be claimed if locked results kept their slots
		stop := begin(t, e)

		s.pass(10 * time.Minute)
		if len(s.settled) != 18 {
			t.Errorf("%d settled beside two that are locked, want 18", len(s.settled))
		}
		if h := e.Health(); h.Held != 2 || h.Lost != 0 || h.Settle != (engine.Failure{}) {
			t.Errorf("health %+v, want 2 held and nothing else", h)
		}
		if got := s.log.count("level=WARN"); got < 1 || got > 2 {
			t.Errorf("%d warnings, want one for each that waits, at most", got)
		}
		s.unlock()
		s.pass(time.Second)
		if len(s.settled) != 20 || s.held != 0 {
			t.Errorf("%d settled a second after the locks ended, and %d held; want 20 and 0", len(s.settled), s.held)
		}
		stopClean(t, stop)
	})
}

// An edit takes milliseconds. A result that meets its lock is stored soon after.
func TestSettle_retriesABrieflyLockedResultSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		s.lock(1)
		stop := begin(t, s.engine())
		s.pass(50 * time.Millisecond)
		s.unlock()
		s.pass(50 * time.Millisecond)
		if len(s.settled) != 1 {
			t.Errorf("not settled within 50 ms of the end of its lock")
		}
		stopClean(t, stop)
	})
}

func TestDrain_storesTheOthersAndDiscardsLockedResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for id := range 10 {
			s.add(soon(id, 0, time.Second))
		}
		s.lock(7)
		e := s.engine()
		stop := begin(t, e)
		s.pass(500 * time.Millisecond)
		began := s.now()
		err := stop()

		if !errors.Is(err, engine.ErrUnsettled) {
			t.Errorf("Run = %v, want %v", err, engine.ErrUnsettled)
		}
		if len(s.settled) != 9 {
			t.Errorf("%d settled, want all but the one that is locked", len(s.settled))
		}
		if took, most := s.now()-began, e.Leases.TTL+2*time.Second; took > most {
			t.Errorf("Run returned after %v, want at most %v", took, most)
		}
	})
}

func TestDrain_waitsForLocksThatEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0), soon(2, 0, 0))
		s.lock(1)
		stop := begin(t, s.engine())
		s.pass(time.Second)
		unlock := time.AfterFunc(5*time.Second, s.unlock)
		defer unlock.Stop()
		stopClean(t, stop)
		if len(s.settled) != 2 {
			t.Errorf("%d settled, want both", len(s.settled))
		}
	})
}

// A store that fails while results are postponed is tried again, and no result is
// forgotten.
func TestSettle_keepsPostponedResultsThroughAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(soon(1, 0, 0))
		s.lock(1)
		s.failSettle = func(int) error {
			if now := s.now(); now > time.Second && now < 20*time.Second {
				return errStore
			}
			return nil
		}
		e := s.engine()
		stop := begin(t, e)
		s.pass(10 * time.Second)
		if h := e.Health(); !errors.Is(h.Settle.Err, errStore) || h.Held != 1 {
			t.Errorf("health %+v in the outage, want its error and 1 held", h)
		}
		s.unlock()
		s.pass(20 * time.Second)
		if len(s.settled) != 1 {
			t.Error("not settled after the outage")
		}
		stopClean(t, stop)
	})
}
