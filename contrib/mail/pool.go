package almanacmail

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// errBusy is the error of a delivery for which no connection became free.
var errBusy = errors.New("almanacmail: all connections are in use")

// errASCIIOnly is the error of an address that the server does not understand (RFC 6531).
var errASCIIOnly = errors.New("the server takes addresses in ASCII only")

// pool keeps the connections to a server. It is safe for concurrent use.
type pool struct {
	server Server
	slots  chan struct{} // holds one element for each mail that is being sent

	mu   sync.Mutex
	idle []*connection // the last one was used last
}

// send sends a mail on a connection that is open, or on a new one.
func (p *pool) send(ctx context.Context, m message) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer func() { <-p.slots }()
	if c := p.take(); c != nil {
		err := p.sendOn(ctx, c, m)
		if !stale(err) {
			return err
		}
	}
	c, err := p.server.open(ctx)
	if err != nil {
		return err
	}
	return p.sendOn(ctx, c, m)
}

func (p *pool) sendOn(ctx context.Context, c *connection, m message) error {
	defer p.put(c)
	return c.send(ctx, m)
}

// enter waits until a further mail may be sent, for at most half of the time of ctx.
func (p *pool) enter(ctx context.Context) error {
	waiting := ctx
	if end, limited := ctx.Deadline(); limited {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeout(ctx, time.Until(end)/2)
		defer stop()
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-waiting.Done():
		return fmt.Errorf("%w: %d", errBusy, cap(p.slots))
	}
}

// take returns an open connection, or nil if there is none.
func (p *pool) take() *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if c.idle.Stop() {
			return c
		}
		// Its timer has fired and closes it.
	}
	return nil
}

// put keeps a connection for another mail, unless it is broken.
func (p *pool) put(c *connection) {
	if c.broken {
		c.abort()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.idle = time.AfterFunc(idleLimit, func() {
		p.forget(c)
		c.quit()
	})
	p.idle = append(p.idle, c)
}

// forget removes a connection from those that are idle.
func (p *pool) forget(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.idle {
		if other == c {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return
		}
	}
}

// deadline returns the instant that is d from now.
func deadline(d time.Duration) time.Time { return time.Now().Add(d) }
