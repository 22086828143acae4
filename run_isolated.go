package almanac

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// hostCalls runs the host's code that a worker needs for many events at once: the planning
// code of handlers, and observers. A call that panics, ends its goroutine or does not return
// in time must not affect the other events.
type hostCalls struct {
	limit time.Duration // how long a call may take; it is given up after at most twice as long

	blocked atomic.Int64 // calls that were given up and have not returned
	mu      sync.Mutex
	open    map[hostCall]int // the number of these calls, by name and by group
}

// hostCall names the code and the data of a call.
type hostCall struct {
	group    string // the event type; empty for an observer
	observer int    // the number of an observer
	// subject is the user. While a call for a user is blocked, it is not made again. Zero
	// means that each call is another one.
	subject uuid.UUID
}

func (h hostCall) wholeGroup() hostCall {
	h.subject = uuid.Nil
	return h
}

// maxBlocked is how many blocked calls of a group there may be. Each keeps a goroutine.
// Further calls of the group are refused until one returns.
const maxBlocked = 10

var (
	errHostExited  = errors.New("ended its goroutine")
	errHostBlocked = errors.New("did not return in time")
	errHostRefused = errors.New("was not called: earlier calls have not returned")
)

func newHostCalls(lease time.Duration) *hostCalls {
	return &hostCalls{limit: min(stuckAfter, lease/12), open: make(map[hostCall]int)}
}

// isolated returns the results of call for 0 to n - 1. It makes the calls one after the
// other in a goroutine of their own. A call that panics, ends the goroutine or is blocked
// has the result of lost, and the next calls are made in another goroutine.
func isolated[R any](c *hostCalls, n int, name func(int) hostCall, call func(int) R, lost func(int, error) R) []R {
	results := make([]R, n)
	for from := 0; from < n; {
		s := &stretch[R]{hostCalls: c, results: results, name: name, call: call, ended: make(chan error, 1)}
		s.at.Store(int64(2 * from))
		go s.run(from)
		at, err := s.wait(from)
		if err != nil {
			results[at] = lost(at, err)
		}
		from = at + 1
	}
	return results
}

// stretch is a run of calls in one goroutine.
type stretch[R any] struct {
	*hostCalls
	results []R
	name    func(int) hostCall
	call    func(int) R
	ended   chan error // why the goroutine ended; nil after the last call
	// at is twice the index of the present call, one more while its result is stored, and
	// givenUp from when the waiting goroutine goes on without the call.
	at atomic.Int64
}

const givenUp = -1

func (s *stretch[R]) run(i int) {
	var cause error
	defer func() {
		if panicked := recover(); panicked != nil {
			cause = fmt.Errorf("panicked: %v", panicked)
		}
		if !s.at.CompareAndSwap(int64(2*i), int64(2*i+1)) {
			s.returned(s.name(i))
			return
		}
		s.ended <- cause
	}()
	for ; i < len(s.results); i++ {
		if cause = s.refusal(s.name(i)); cause != nil {
			return
		}
		cause = errHostExited
		result := s.call(i)
		if !s.at.CompareAndSwap(int64(2*i), int64(2*i+1)) {
			return
		}
		s.results[i] = result
		s.at.Store(int64(2*i + 2))
	}
	cause = nil
}

// wait returns the index of the call at which the goroutine ended, or at which it is given
// up, with the reason. Without an error all calls have returned.
func (s *stretch[R]) wait(from int) (at int, err error) {
	limit := time.NewTimer(s.limit)
	defer limit.Stop()
	for seen := int64(2 * from); ; {
		select {
		case err := <-s.ended:
			return int(s.at.Load() / 2), err
		case <-limit.C:
		}
		is := s.at.Load()
		if i := int(is / 2); is == seen && is%2 == 0 && i < len(s.results) && s.giveUp(i) {
			return i, fmt.Errorf("%w: %v have passed", errHostBlocked, s.limit)
		}
		seen = is
		limit.Reset(s.limit)
	}
}

// giveUp goes on without a call, unless it has returned.
func (s *stretch[R]) giveUp(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.CompareAndSwap(int64(2*i), givenUp) {
		return false
	}
	s.count(s.name(i), 1)
	return true
}

// returned forgets a blocked call that has returned.
func (c *hostCalls) returned(name hostCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(name, -1)
}

// count counts a blocked call, or one less. The caller holds mu.
func (c *hostCalls) count(name hostCall, n int) {
	c.blocked.Add(int64(n))
	c.open[name.wholeGroup()] += n
	if name.subject != uuid.Nil {
		c.open[name] += n
	}
	for _, one := range []hostCall{name, name.wholeGroup()} {
		if c.open[one] == 0 {
			delete(c.open, one)
		}
	}
}

// refusal returns an error if a call must not be made, because the same call or too many of
// its group are blocked.
func (c *hostCalls) refusal(name hostCall) error {
	if c.blocked.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name.subject != uuid.Nil && c.open[name] > 0 || c.open[name.wholeGroup()] >= maxBlocked {
		return errHostRefused
	}
	return nil
}
