// Package isolate runs the host's code for many events at once, so that code that panics, ends
// its goroutine or never returns affects one event alone.
package isolate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Group has the calls of one program that have not returned in time. It is safe for concurrent use.
type Group struct {
	limit time.Duration // how long a call may take; it is given up after at most twice as long

	blocked atomic.Int64 // calls that were given up and have not returned
	mu      sync.Mutex
	open    map[Name]int // the number of these calls, by name and by group
}

// Name names the code and the data of a call.
type Name struct {
	Type     string // the event type; empty for an observer
	Observer int    // the number of an observer
	// User is the user that is planned for. While a call for a user is blocked, it is not
	// made again. Zero means that each call is another one.
	User [16]byte
}

// code returns the name of the code alone.
func (n Name) code() Name {
	n.User = [16]byte{}
	return n
}

// MaxBlocked is how many blocked calls of the same code there may be, also for different users. Each
// keeps a goroutine and what it refers to, and no Go program can end it. Further calls of that code are
// refused until one returns, so the memory of the process stays bounded. Other code is called. A
// successor whose planning was refused has stalled, and is planned again after ten seconds. The
// health of the process says at this number that it is stuck, so that it is restarted.
const MaxBlocked = 10

var (
	// ErrExited is the error of a call that ended its goroutine.
	ErrExited  = errors.New("ended its goroutine")
	ErrBlocked = errors.New("did not return in time") // the error of a call that is given up
	errRefused = errors.New("was not called: earlier calls have not returned")
	errTooLate = errors.New("was not called")
)

// NewGroup returns a Group whose calls may take as long as the limit.
func NewGroup(limit time.Duration) *Group {
	return &Group{limit: limit, open: make(map[Name]int)}
}

// Blocked returns how many calls were given up and have not returned.
func (c *Group) Blocked() int { return int(c.blocked.Load()) }

// Calls are the calls 0 to N - 1, and what becomes of those that are given up.
type Calls[R any] struct {
	N int
	// Into has N elements for the results. Nil means new memory. A call that was given up does not write to it.
	Into []R
	// Context ends the patience of the caller: the present call is given up, and no other call is made. The
	// call counts as blocked if it does not return within the limit. Nil means a context that never ends.
	Context context.Context
	// Thread makes the calls. Nil means a goroutine of their own.
	Thread *Thread
	Name   func(i int) Name
	Call   func(i int) R
	Lost   func(i int, err error) R
}

// Thread is a goroutine that makes calls one after the other: a new goroutine for each call would grow its stack
// each time. After a call that panics, ends the goroutine or is given up, the next calls are made in another goroutine. The
// zero value is ready for use, by one goroutine at a time. Close ends it.
type Thread struct{ jobs chan func() }

// begin has a job done. The job before it has been done.
func (t *Thread) begin(job func()) {
	if t == nil {
		go job()
		return
	}
	if t.jobs == nil {
		jobs := make(chan func())
		t.jobs = jobs
		go func() {
			for job := range jobs {
				job()
			}
		}()
	}
	t.jobs <- job
}

// Close ends the goroutine, when its call returns.
func (t *Thread) Close() {
	if t != nil && t.jobs != nil {
		close(t.jobs)
		t.jobs = nil
	}
}

// Run returns the results of calls. It makes them one after the other in a goroutine of
// their own. A call that panics, ends the goroutine or is blocked has the result of Lost,
// and the next calls are made in another goroutine.
func Run[R any](c *Group, calls Calls[R]) []R {
	if calls.Context == nil {
		calls.Context = context.Background()
	}
	results := calls.Into
	if results == nil {
		results = make([]R, calls.N)
	}
	for from := 0; from < calls.N; {
		s := &stretch[R]{Group: c, Calls: calls, results: results, ended: make(chan error, 1)}
		s.at.Store(int64(2 * from))
		first := from
		calls.Thread.begin(func() { s.run(first) })
		at, err := s.wait(from)
		if err != nil {
			calls.Thread.Close() // its goroutine may be gone or blocked
			results[at] = calls.Lost(at, err)
		}
		from = at + 1
	}
	return results
}

// stretch is a run of calls in one goroutine.
type stretch[R any] struct {
	*Group
	Calls[R]
	results []R
	ended   chan error // why the goroutine ended; nil after the last call
	// at is twice the index of the present call, one more while its result is stored, and
	// givenUp from when the waiting goroutine goes on without the call.
	at atomic.Int64

	// These are guarded by Group.mu.
	over    bool        // whether the call that was given up has returned
	blocks  bool        // whether it counts as blocked
	waiting *time.Timer // until it counts; nil if it counts at once
}

const givenUp = -1

func (s *stretch[R]) run(i int) {
	var cause error
	defer func() {
		if panicked := recover(); panicked != nil {
			cause = fmt.Errorf("panicked: %v", panicked)
		}
		if !s.at.CompareAndSwap(int64(2*i), int64(2*i+1)) {
			s.returned(i)
			return
		}
		s.ended <- cause
	}()
	for ; i < len(s.results); i++ {
		if cause = s.refusal(i); cause != nil {
			return
		}
		cause = ErrExited
		result := s.Call(i)
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
	done := s.Context.Done()
	for seen := int64(2 * from); ; {
		select {
		case err := <-s.ended:
			return int(s.at.Load() / 2), err
		case <-done:
			done = nil // if the present call has returned, the next one is refused
			if is := s.at.Load(); is%2 == 0 && int(is/2) < len(s.results) && s.giveUp(int(is/2), s.limit) {
				return int(is / 2), fmt.Errorf("%w: %w", ErrBlocked, context.Cause(s.Context))
			}
			continue
		case <-limit.C:
		}
		is := s.at.Load()
		if i := int(is / 2); is == seen && is%2 == 0 && i < len(s.results) && s.giveUp(i, 0) {
			return i, fmt.Errorf("%w: %v have passed", ErrBlocked, s.limit)
		}
		seen = is
		limit.Reset(s.limit)
	}
}

// giveUp goes on without a call, unless it has returned. The call counts as blocked if it does not
// return in time.
func (s *stretch[R]) giveUp(i int, within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.CompareAndSwap(int64(2*i), givenUp) {
		return false
	}
	if within > 0 {
		s.waiting = time.AfterFunc(within, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.block(i)
		})
	} else {
		s.block(i)
	}
	return true
}

// block counts a call that was given up, unless it has returned. The caller holds mu.
func (s *stretch[R]) block(i int) {
	if s.blocks = !s.over; s.blocks {
		s.count(s.Name(i), 1)
	}
}

// returned forgets a call that was given up and has returned.
func (s *stretch[R]) returned(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.waiting != nil {
		s.waiting.Stop()
	}
	if s.blocks {
		s.count(s.Name(i), -1)
	}
}

// count counts a blocked call, or one less. The caller holds mu.
func (c *Group) count(name Name, n int) {
	c.blocked.Add(int64(n))
	c.open[name.code()] += n
	if name.User != [16]byte{} {
		c.open[name] += n
	}
	for _, one := range []Name{name, name.code()} {
		if c.open[one] == 0 {
			delete(c.open, one)
		}
	}
}

// refusal returns an error if the i-th call must not be made.
func (s *stretch[R]) refusal(i int) error {
	if s.Context.Err() != nil {
		return fmt.Errorf("%w: %w", errTooLate, context.Cause(s.Context))
	}
	return s.Group.refusal(s.Name(i))
}

// refusal returns an error if a call must not be made, because the same call or too many of
// its code are blocked.
func (c *Group) refusal(name Name) error {
	if c.blocked.Load() == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name.User != [16]byte{} && c.open[name] > 0 || c.open[name.code()] >= MaxBlocked {
		return errRefused
	}
	return nil
}
