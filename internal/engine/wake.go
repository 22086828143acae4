package engine

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// hint is a signal without content. Hints that are given before the first is taken merge
// into one. The zero hint is ready for use; a hint must not be copied.
type hint struct {
	once sync.Once
	c    chan struct{}
}

// given returns the channel from which a hint can be taken.
func (h *hint) given() chan struct{} {
	h.once.Do(func() { h.c = make(chan struct{}, 1) })
	return h.c
}

// give sends a hint unless one waits already. It never blocks.
func (h *hint) give() {
	select {
	case h.given() <- struct{}{}:
	default:
	}
}

// forget takes the waiting hint, if there is one.
func (h *hint) forget() {
	select {
	case <-h.given():
	default:
	}
}

// end is the reason for which a pause ended.
type end int

const (
	elapsed end = iota // the time passed
	hinted             // a hint came first
	stopped            // the context ended first
)

// pause sleeps for d, unless a hint arrives or ctx ends before. A nil channel gives no hints.
func pause(ctx context.Context, d time.Duration, hints <-chan struct{}) end {
	if ctx.Err() != nil {
		return stopped
	}
	if d <= 0 {
		return elapsed
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return stopped
	case <-hints:
		return hinted
	case <-timer.C:
		return elapsed
	}
}

// jitter returns d give or take a fifth, so that processes started together do not keep
// calling the store at the same time.
func jitter(d time.Duration) time.Duration {
	fifth := d / 5
	return d - fifth + rand.N(2*fifth+1)
}
