package webhook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrBusy reports that a delivery was not sent because [WithConcurrency] deliveries to the same
// receiver were under way. The delivery waited for half of its time. Another attempt may succeed.
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
}

// enter waits until another delivery to a receiver may start. On success, the caller calls
// leave when the delivery has ended. It returns the cause when ctx has ended, and [ErrBusy]
// when half of the time of ctx has passed.
func (b *bulkhead) enter(ctx context.Context, receiver string) (leave func(), err error) {
	if b == nil || b.most == 0 {
		return func() {}, nil
	}
	at := b.join(receiver)
	select { // first without a timer, which is rarely needed
	case at.taken <- struct{}{}:
		return func() { <-at.taken; b.leave(receiver) }, nil
	default:
	}
	deadline, _ := ctx.Deadline() // every delivery has one
	waiting, stop := context.WithTimeout(ctx, time.Until(deadline)/2)
	defer stop()
	select {
	case at.taken <- struct{}{}:
		return func() { <-at.taken; b.leave(receiver) }, nil
	case <-waiting.Done():
		b.leave(receiver)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: %d deliveries to %s are under way", ErrBusy, b.most, receiver)
}

func (b *bulkhead) join(receiver string) *semaphore {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.receivers[receiver]
	if at == nil {
		at = &semaphore{taken: make(chan struct{}, b.most)}
		b.receivers[receiver] = at
	}
	at.deliveries++
	return at
}

func (b *bulkhead) leave(receiver string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.receivers[receiver]
	if at.deliveries--; at.deliveries == 0 {
		delete(b.receivers, receiver)
	}
}

// receiverOf returns the host and port of a URL. Different spellings of a host give the
// same result.
func receiverOf(u *url.URL) string {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return net.JoinHostPort(host, strconv.Itoa(int(portOf(u))))
}
