package almanac

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/almanac-go/almanac/internal/isolate"
)

// Health is the condition of a scheduler's Run, as this process observes it. [Health.Err]
// judges it. The fields are for metrics. Durations follow the process's monotonic clock.
type Health struct {
	// Running is whether Run is active and was not asked to stop. Without an active Run,
	// all fields below are zero, except Workers, Blocked and Patience.
	Running bool

	// Claim, Settle and Renew say how long the repository has failed to return due
	// events, to store outcomes and to renew leases. A first call that is not answered
	// yet counts too, so a few milliseconds are normal. Claim also fails if the repository
	// refuses events of one type, while those of other types are claimed.
	Claim, Settle, Renew Failure

	// Maintenance has the maintenance tasks whose last run failed, by name. They are
	// tried again. Err ignores them.
	Maintenance map[string]Failure

	// Deliveries has the lanes of which the last attempt in this process failed, by name. The lane of
	// an event without a named lane is its type. For is the time since the first failed attempt after
	// the last success. An attempt that is snoozed or not owed is neither. At most 1,000 lanes are kept:
	// when there are more, the times begin anew. Err ignores them, because a restart mends no receiver.
	// What waits for lanes, and which are paused, is in the statistics of package ops.
	Deliveries map[string]Failure

	// Workers is how many events can be delivered at the same time (see [WithWorkers]).
	Workers int

	// Held is how many events are claimed and have no stored outcome yet.
	Held int

	// Stuck is how many deliveries have not returned five seconds after the end of their
	// context. A stuck delivery occupies a worker until it returns. When its lease has expired,
	// other workers can claim the event, and its worker counts as dead (see [WithCrashLimit]).
	Stuck int

	// Blocked is how many calls of handlers' planning code and of observers were given up, and have not returned since.
	// A call is given up after five seconds, or a twelfth of a lease if that is less. It is given up earlier when the
	// context of the edit that waits for it is done, and counts after that time. Each keeps a goroutine. Run goes on
	// without them: the events whose successors they plan end without one. An edit fails, and so do further edits that
	// need the same call for the same user. Blocked counts without an active Run too.
	Blocked int

	// Lost is how many events lost their lease before their outcome was stored, so that
	// they may be delivered again. Stuck deliveries do not count. The count returns to
	// zero when no lease was lost for the duration of a lease.
	Lost int

	// Patience is how long a call may fail before Err reports it. It is half a lease, so
	// Err reports a failing renewal before the lease expires.
	Patience time.Duration
}

// Failure says how long and why a call fails. The zero Failure means that it succeeds.
type Failure struct {
	For time.Duration // the time since the first attempt after the last success
	Err error         // the error of the last attempt; nil while the first attempt runs
}

// Err returns nil if Run is healthy, and otherwise an error that joins all problems. The error matches
//
//   - [ErrNotRunning] if Run is not active or was asked to stop; then it has no other problems
//   - [ErrStuck] if more than half of the workers are stuck, or ten calls or more are
//     blocked
//   - [ErrLeaseLost] if leases were lost recently
//
// and the errors of the repository, if Claim, Settle or Renew has failed for longer than Patience.
//
// Use Err for a readiness probe. Every condition except ErrStuck clears by itself.
// Restart the process only on ErrStuck. With a liveness probe that asks the database, all
// processes restart while the database is away.
func (h Health) Err() error {
	if !h.Running {
		return ErrNotRunning
	}
	var errs []error
	for _, one := range []struct {
		what string
		Failure
	}{{"claim", h.Claim}, {"settle", h.Settle}, {"renew", h.Renew}} {
		if one.For > h.Patience {
			errs = append(errs, one.overdue(one.what))
		}
	}
	if 2*h.Stuck > h.Workers {
		errs = append(errs, fmt.Errorf("%w: %d of %d workers are stuck", ErrStuck, h.Stuck, h.Workers))
	}
	if h.Blocked >= isolate.MaxBlocked {
		errs = append(errs, fmt.Errorf("%w: %d calls of handlers or observers are blocked", ErrStuck, h.Blocked))
	}
	if h.Lost > 0 {
		errs = append(errs, fmt.Errorf("%w: %d lately", ErrLeaseLost, h.Lost))
	}
	return errors.Join(errs...)
}

func (t Failure) overdue(what string) error {
	since := t.For.Round(time.Millisecond)
	if t.Err == nil {
		return fmt.Errorf("almanac: %s: no answer for %v", what, since)
	}
	return fmt.Errorf("almanac: %s: failing for %v: %w", what, since, t.Err)
}

func (s *scheduler) Health() Health {
	h := Health{Patience: s.lease / 2, Blocked: s.running.host.Blocked()}
	h.Workers = s.workers
	w := s.running.worker.Load()
	if w == nil {
		return h
	}
	h.Maintenance, h.Deliveries = make(map[string]Failure), make(map[string]Failure)
	is := w.engine.Health()
	h.Running, h.Held, h.Stuck, h.Lost = is.Running, is.Held, is.Stuck, is.Lost
	h.Claim, h.Settle, h.Renew = Failure(is.Claim), Failure(is.Settle), Failure(is.Renew)
	for name, failure := range is.Tasks {
		h.Maintenance[name] = Failure(failure)
	}
	w.attempts.show(h.Deliveries)
	refused := make(map[string]Failure)
	w.refused.show(refused)
	for eventType, is := range refused { // the longest failure counts
		if is.For > h.Claim.For {
			h.Claim = Failure{For: is.For, Err: fmt.Errorf("events of type %s: %w", eventType, is.Err)}
		}
	}
	return h
}

// attempts has the lanes of which the last attempt to deliver failed, or the types of which the last attempt to claim
// did.
type attempts struct {
	mu      sync.Mutex
	failing map[string]failing // by lane or event type
}

// mostFailing is how many are kept. When there are more, all are forgotten, and those are noted again that still fail.
const mostFailing = 1000

// failing says since when and why the attempts of a type fail.
type failing struct {
	since time.Time
	err   error
	times int       // in a row
	retry time.Time // of a type that is refused: when it is claimed again
}

// note notes the result of an attempt.
func (a *attempts) note(name string, err error) {
	if _, asked := askedFor(err); asked {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.failing, name)
		return
	}
	is, ok := a.failing[name]
	if !ok {
		is.since = time.Now()
	}
	if a.failing == nil || !ok && len(a.failing) >= mostFailing {
		a.failing = make(map[string]failing)
	}
	is.err, is.times = err, is.times+1
	is.retry = time.Now().Add(tryAgain.Delay(is.times, rand.Float64()))
	a.failing[name] = is
}

func (a *attempts) show(failures map[string]Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for eventType, is := range a.failing {
		failures[eventType] = Failure{For: time.Since(is.since), Err: is.err}
	}
}
