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

// ErrBusy reports that a delivery did not get its turn: as many as
// [WithConcurrency] allows were under way to the same receiver for half of the
// time that it had. Nothing was sent, and another attempt is worth it.
var ErrBusy = errors.New("webhook: busy receiver")

// bulkhead bounds how many deliveries are under way to one receiver, so that one
// that is slow does not sink the others. It keeps nothing of a receiver to whom
// nobody delivers. It is safe for concurrent use; a nil one bounds nothing.
type bulkhead struct {
	most int // to one receiver at once; zero is no bound

	mu        sync.Mutex
	receivers map[string]*berths // by host and port, of those to whom somebody delivers
}

// berths are the places for deliveries to one receiver.
type berths struct {
	taken chan struct{} // holds one for each delivery under way; who waits gets in by turns
	users int           // under way or waiting
}

// enter waits for a place of its own to deliver to a receiver. Who got in calls
// leave; an error says that nobody did.
func (b *bulkhead) enter(ctx context.Context, receiver string) (leave func(), err error) {
	if b == nil || b.most == 0 {
		return func() {}, nil
	}
	at := b.join(receiver)
	select { // lest a timer be made for nothing
	case at.taken <- struct{}{}:
		return func() { <-at.taken; b.part(receiver) }, nil
	default:
	}
	deadline, _ := ctx.Deadline() // which each delivery has
	patience, stop := context.WithTimeout(ctx, time.Until(deadline)/2)
	defer stop()
	select {
	case at.taken <- struct{}{}:
		return func() { <-at.taken; b.part(receiver) }, nil
	case <-patience.Done():
		b.part(receiver)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("%w: %d deliveries to %s are under way", ErrBusy, b.most, receiver)
}

func (b *bulkhead) join(receiver string) *berths {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.receivers[receiver]
	if at == nil {
		at = &berths{taken: make(chan struct{}, b.most)}
		b.receivers[receiver] = at
	}
	at.users++
	return at
}

func (b *bulkhead) part(receiver string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.receivers[receiver]
	if at.users--; at.users == 0 {
		delete(b.receivers, receiver)
	}
}

// receiverOf names who a URL leads to: two spellings of one host are one receiver.
func receiverOf(u *url.URL) string {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return net.JoinHostPort(host, strconv.Itoa(int(portOf(u))))
}
