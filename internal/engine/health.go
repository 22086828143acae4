package engine

import (
	"sync"
	"time"
)

// Health is how an engine does at a moment, by what it has seen itself: no store
// is asked. What is too much is for the caller to say.
type Health struct {
	// Running is whether Run runs and was not asked to stop. Before and after a Run
	// everything else is zero.
	Running bool

	// Claim is what keeps Claim and Until from answering, Settle what keeps results
	// from being stored, and Renew what keeps leases from being renewed. A call that
	// is on its way for the first time counts too.
	Claim, Settle, Renew Trouble

	// Chores are those whose last round failed, by name.
	Chores map[string]Trouble

	// InHand is how many items are claimed and not yet settled.
	InHand int

	// Stuck is how many items have not returned for Settings.Abandon after their
	// contexts ended. Each keeps its slot until it does.
	Stuck int

	// Lost is how many items lost their lease before their result was stored,
	// counted until none has for a whole Leases.TTL. Those that were stuck do not
	// count.
	Lost int
}

// Trouble is something that does not succeed. It is zero when all is well.
type Trouble struct {
	For time.Duration // since the first try after the last success
	Err error         // of the last try; nil while the first is on its way
}

// Health returns how the engine does. It is cheap, and safe for concurrent use,
// before, during and after Run.
func (e *Engine[T, R, K]) Health() Health {
	r := e.live.current.Load()
	if r == nil {
		return Health{}
	}
	now := time.Now()
	h := Health{
		Running: !r.isStopping(),
		Claim:   r.claiming.trouble(now),
		Renew:   r.renewing.trouble(now),
		InHand:  int(r.slots.inHand.Load()) + r.postponer.count(),
		Chores:  make(map[string]Trouble),
	}
	for i := range r.settling {
		if trouble := r.settling[i].trouble(now); trouble.For > h.Settle.For {
			h.Settle = trouble
		}
	}
	h.Stuck, h.Lost = r.ledger.health(now)
	for i, c := range e.Chores {
		if trouble := r.chores[i].trouble(now); trouble.Err != nil {
			h.Chores[c.Name] = trouble
		}
	}
	return h
}

// isStopping reports whether Run was asked to stop, or has nothing left to do.
func (r *run[T, R, K]) isStopping() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// vigil watches over something that is tried until it succeeds. It is safe for
// concurrent use.
type vigil struct {
	mu    sync.Mutex
	since time.Time // the first try since the last success; zero when there was none
	err   error     // of the last try that failed since
}

// try notes that a try begins.
func (v *vigil) try() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		v.since = time.Now()
	}
}

// tried notes how it ended.
func (v *vigil) tried(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err = err; err == nil {
		v.since = time.Time{}
	}
}

// rest notes that there is nothing to be tried.
func (v *vigil) rest() { v.tried(nil) }

func (v *vigil) trouble(now time.Time) Trouble {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() {
		return Trouble{}
	}
	return Trouble{For: max(now.Sub(v.since), 0), Err: v.err}
}
