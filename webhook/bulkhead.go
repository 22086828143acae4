package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/almanac-go/almanac"
)

// ErrBusy reports that a delivery was not sent because [WithConcurrency] deliveries to its receiver were
// under way. The delivery waited for half of its time, or was not allowed to wait. The error matches
// [almanac.ErrSnoozed]: the event waits for one to five seconds, and no attempt is counted.
var ErrBusy = errors.New("webhook: busy receiver")

// bulkhead bounds how many deliveries to one receiver are under way, so that a slow
// receiver does not delay the others. It stores nothing about a receiver without
// deliveries. It is safe for concurrent use. A nil bulkhead has no bound.
type bulkhead struct {
	most int // deliveries to one receiver at once; zero means no bound

	mu        sync.Mutex
	receivers map[string]*semaphore // by host and port; only receivers with deliveries under way or waiting
}

// semaphore bounds the deliveries to one receiver.
type semaphore struct {
	taken      chan struct{} // holds one element for each delivery under way; waiting deliveries get in first come, first served
	deliveries int           // under way or waiting
	took       time.Duration // average duration of a delivery; zero until one has ended
}

// enter waits until another delivery to a receiver may start. On success, the caller calls leave when
// the delivery has ended. enter returns the cause if ctx has ended, and [ErrBusy] when half of the time
// of ctx has passed, or at once if the delivery may not wait (see join).
func (b *bulkhead) enter(ctx context.Context, receiver string) (leave func(), err error) {
	if b == nil || b.most == 0 {
		return func() {}, nil
	}
	at, mayWait := b.join(receiver)
	entered := func() func() {
		begun := time.Now()
		return func() { <-at.taken; b.leave(receiver, time.Since(begun)) }
	}
	select { // first without a timer, which is rarely needed
	case at.taken <- struct{}{}:
		return entered(), nil
	default:
	}
	if mayWait {
		deadline, _ := ctx.Deadline() // every delivery has one
		waiting, stop := context.WithTimeout(ctx, time.Until(deadline)/2)
		defer stop()
		select {
		case at.taken <- struct{}{}:
			return entered(), nil
		case <-waiting.Done():
		}
	}
	b.leave(receiver, 0)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	reason := fmt.Sprintf("%v: %d deliveries to %s are under way", ErrBusy, b.most, receiver)
	return nil, busyError{almanac.Snooze(time.Duration(1+rand.IntN(5))*time.Second, reason)}
}

// busyError is an error for the scheduler that matches [ErrBusy] too.
type busyError struct{ error }

func (e busyError) Unwrap() []error { return []error{e.error, ErrBusy} }

// join returns the semaphore of a receiver, and whether a delivery may wait there: if it is one of the
// first b.most to wait, or its expected wait is under a second (zero until a delivery has ended).
func (b *bulkhead) join(receiver string) (at *semaphore, mayWait bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at = b.receivers[receiver]
	if at == nil {
		at = &semaphore{taken: make(chan struct{}, b.most)}
		b.receivers[receiver] = at
	}
	at.deliveries++
	waiting := at.deliveries - b.most
	return at, waiting <= b.most || time.Duration(waiting)*at.took/time.Duration(b.most) < time.Second
}

// leave notes that a delivery has ended and how long it took, or zero if it has not begun.
func (b *bulkhead) leave(receiver string, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.receivers[receiver]
	if took > 0 {
		at.took = (3*cmp.Or(at.took, took) + took) / 4
	}
	if at.deliveries--; at.deliveries == 0 {
		delete(b.receivers, receiver)
	}
}

// receiverOf returns the host and port of a URL. Different spellings of a host give the same result.
func receiverOf(u *url.URL) string {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return net.JoinHostPort(host, strconv.Itoa(int(portOf(u))))
}
