package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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
// under way, and no place became free in time. The error matches [almanac.ErrSnoozed]: the event waits
// for a second to a minute, and no attempt is counted. The wait grows with the number of events for the receiver.
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
	free       time.Time     // when the receiver can take one more event that was turned away
	since      time.Time     // when the first delivery has joined
}

// enter waits until another delivery to a receiver may start. On success, the caller calls leave when
// the delivery has ended. enter returns the cause if ctx has ended, and [ErrBusy] after the wait that
// join allows, or after half of the time of ctx, if that is less.
func (b *bulkhead) enter(ctx context.Context, receiver string) (leave func(), err error) {
	if b == nil || b.most == 0 {
		return func() {}, nil
	}
	at, wait := b.join(receiver)
	entered := func() func() {
		begun := time.Now()
		return func() { <-at.taken; b.leave(receiver, time.Since(begun)) }
	}
	select { // first without a timer, which is rarely needed
	case at.taken <- struct{}{}:
		return entered(), nil
	default:
	}
	if wait > 0 {
		deadline, _ := ctx.Deadline() // every delivery has one
		waiting, stop := context.WithTimeout(ctx, min(wait, time.Until(deadline)/2))
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
	return nil, busyError{almanac.Snooze(b.turnAway(at), reason)}
}

// busyError is an error for the scheduler that matches [ErrBusy] too.
type busyError struct{ error }

func (e busyError) Unwrap() []error { return []error{e.error, ErrBusy} }

// turnAway returns how long to snooze an event that finds no place. Events that fit into the next minute
// get successive times. Further events get a random wait of 30 to 60 seconds.
func (b *bulkhead) turnAway(at *semaphore) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, each := time.Now(), at.took/time.Duration(b.most)
	if at.free.Before(now) {
		at.free = now.Add(time.Duration(at.deliveries) * each)
	}
	switch wait := at.free.Sub(now); {
	case each == 0: // nothing is known of the receiver yet
		return time.Second + rand.N(4*time.Second)
	case wait > time.Minute:
		return time.Minute/2 + rand.N(time.Minute/2)
	default:
		at.free = at.free.Add(each)
		return max(wait, time.Second)
	}
}

// join returns the semaphore of a receiver, and how long a delivery may wait there. The first b.most that
// wait have no limit. Others may wait for a second, if their expected wait is shorter. While nothing is known
// of the receiver, they may wait until a second after its first delivery has joined.
func (b *bulkhead) join(receiver string) (at *semaphore, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at = b.receivers[receiver]
	if at == nil {
		at = &semaphore{taken: make(chan struct{}, b.most), since: time.Now()}
		b.receivers[receiver] = at
	}
	at.deliveries++
	waiting := at.deliveries - b.most
	switch {
	case waiting <= b.most:
		wait = math.MaxInt64
	case at.took == 0:
		wait = time.Until(at.since.Add(time.Second))
	case time.Duration(waiting)*at.took/time.Duration(b.most) < time.Second:
		wait = time.Second
	}
	return at, wait
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
