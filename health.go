package almanac

import (
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

// Health is how the Run of a scheduler does at a moment, by what this process has
// seen itself. [Health.Err] judges it; the fields are for metrics and for other
// judgements. Durations are measured by the process's monotonic clock.
type Health struct {
	// Running is whether Run runs and was not told to stop. Unless it does, or drains,
	// everything below is zero but Workers and Patience.
	Running bool

	// Claim is what keeps the repository from saying what is due, Settle what keeps
	// outcomes from being stored, and Renew what keeps leases from being renewed. A
	// call that is on its way for the first time counts too, so a few milliseconds are
	// no trouble yet.
	Claim, Settle, Renew Trouble

	// Chores are the parts of the upkeep that failed the last time, by name. They are
	// tried again, and here are a warning only.
	Chores map[string]Trouble

	// Workers is how many events can be delivered at once: see [WithWorkers].
	Workers int

	// InHand is how many events are claimed and not yet stored.
	InHand int

	// Stuck is how many deliveries have not returned for five seconds after their
	// context ended. Each takes up a worker until it returns. Its event is given to
	// others once the lease has run out, and counts as one whose worker died: see
	// [WithCrashLimit].
	Stuck int

	// Lost is how many events lost their lease before their outcome was stored, so
	// that others may deliver them too. It is counted until none has for a whole
	// lease; those that are stuck do not count.
	Lost int

	// Patience is from when on Err minds Claim, Settle and Renew: half a lease, which
	// is before a lease that could not be renewed runs out.
	Patience time.Duration
}

// Trouble is something that does not succeed. It is zero when all is well.
type Trouble struct {
	For time.Duration // since the first try after the last success
	Err error         // of the last try; nil while the first is on its way
}

// Err returns nil when all is well, and otherwise an error with everything that is
// not. It matches
//
//   - [ErrNotRunning] when Run does not run or was told to stop; then it says no more
//   - [ErrStuck] when more than half of the workers are stuck
//   - [ErrLeaseLost] when leases were lost a short while ago
//
// and the errors of the repository when claiming, settling or renewing has been in
// trouble for longer than Patience.
//
// It is what a readiness probe asks. All but ErrStuck passes without help, so a
// liveness probe, which has the process replaced, is to ask for that alone.
func (h Health) Err() error {
	if !h.Running {
		return ErrNotRunning
	}
	var errs []error
	for _, one := range []struct {
		what string
		Trouble
	}{{"claim", h.Claim}, {"settle", h.Settle}, {"renew", h.Renew}} {
		if one.For > h.Patience {
			errs = append(errs, one.overdue(one.what))
		}
	}
	if 2*h.Stuck > h.Workers {
		errs = append(errs, fmt.Errorf("%w: %d of %d workers are stuck", ErrStuck, h.Stuck, h.Workers))
	}
	if h.Lost > 0 {
		errs = append(errs, fmt.Errorf("%w: %d lately", ErrLeaseLost, h.Lost))
	}
	return errors.Join(errs...)
}

func (t Trouble) overdue(what string) error {
	since := t.For.Round(time.Millisecond)
	if t.Err == nil {
		return fmt.Errorf("almanac: %s: no answer for %v", what, since)
	}
	return fmt.Errorf("almanac: %s: failing for %v: %w", what, since, t.Err)
}

func (s *scheduler) Health() Health {
	lanes := s.running.lanes.Load()
	if lanes == nil {
		h := Health{Patience: s.lease / 2}
		for _, l := range s.lanes() {
			h.Workers += l.workers
		}
		return h
	}
	h := Health{Running: true, Patience: s.lease / 2, Chores: make(map[string]Trouble)}
	for _, l := range *lanes {
		h.add(l)
	}
	return h
}

// add adds a lane to the picture: all have to run, and the worst trouble counts.
func (h *Health) add(l *lane) {
	was := l.engine.Health()
	h.Running = h.Running && was.Running
	h.Workers += l.workers
	h.InHand, h.Stuck, h.Lost = h.InHand+was.InHand, h.Stuck+was.Stuck, h.Lost+was.Lost
	h.Claim, h.Settle, h.Renew = worse(h.Claim, was.Claim), worse(h.Settle, was.Settle), worse(h.Renew, was.Renew)
	for name, trouble := range was.Chores {
		h.Chores[name] = Trouble(trouble)
	}
}

func worse(a Trouble, b engine.Trouble) Trouble {
	if a.For >= b.For {
		return a
	}
	return Trouble(b)
}
