package engine

import (
	"sync"
	"time"
)

// Health is the state of an engine at a moment, by its own observations: it asks no store.
// The caller judges the values.
type Health struct {
	// Running is whether Run runs and was not asked to stop. Before and after Run all other
	// fields are zero.
	Running bool

	// Claim is the failure of Claim and Until, Settle that of storing results, and Renew
	// that of renewing leases. A first call that has not returned yet counts too.
	Claim, Settle, Renew Failure

	// Tasks are the tasks whose last round failed, by name.
	Tasks map[string]Failure

	// Held is how many items are claimed and not yet settled.
	Held int

	// Stuck is how many items have not returned for Settings.Abandon after their contexts
	// ended. Each keeps its slot until it returns.
	Stuck int

	// Lost is how many items lost their lease before their result was stored. It returns to zero
	// when no item has lost its lease for a whole Leases.TTL. Items that were stuck do not count.
	Lost int
}

// Failure is a kind of call that does not succeed. The zero Failure means that all is well.
type Failure struct {
	For time.Duration // since the first try after the last success
	Err error         // of the last try; nil while the first is on its way
}

// Health returns the state of the engine. It is cheap, and safe for concurrent use before,
// during and after Run.
func (e *Engine[T]) Health() Health {
	r := e.live.current.Load()
	if r == nil {
		return Health{}
	}
	now := time.Now()
	h := Health{
		Running: !r.isStopping(),
		Claim:   r.claiming.failure(now),
		Renew:   r.renewing.failure(now),
		Held:    int(r.slots.held.Load()) + r.postponer.count(),
		Tasks:   make(map[string]Failure),
	}
	for i := range r.settling {
		if failure := r.settling[i].failure(now); failure.For > h.Settle.For {
			h.Settle = failure
		}
	}
	h.Stuck, h.Lost = r.ledger.health(now)
	for i, c := range e.Tasks {
		if failure := r.tasks[i].failure(now); failure.Err != nil {
			h.Tasks[c.Name] = failure
		}
	}
	return h
}

// isStopping reports whether Run was asked to stop, or has nothing left to do.
func (r *run[T]) isStopping() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// tracker records the tries of a call until it succeeds. It is safe for concurrent use.
type tracker struct {
	mu    sync.Mutex
	since time.Time // the first try since the last success; zero when there was none
	err   error     // of the last failed try since then
}

// try records that a try begins.
func (v *tracker) try() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		v.since = time.Now()
	}
}

// tried records the result of a try.
func (v *tracker) tried(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err = err; err == nil {
		v.since = time.Time{}
	}
}

// idle records that there is nothing to try.
func (v *tracker) idle() { v.tried(nil) }

func (v *tracker) failure(now time.Time) Failure {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		return Failure{}
	}
	return Failure{For: max(now.Sub(v.since), 0), Err: v.err}
}
