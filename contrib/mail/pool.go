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

// line sends mails one after the other, over one connection as long as the server keeps it open.
type line struct {
	pool    *pool
	entered bool
	on      *connection // nil before the first mail, and after a connection has broken
	dead    error       // no connection can be opened, or none is free
}

// send sends a mail on a connection that is open, or on a new one.
func (l *line) send(ctx context.Context, m message) error {
	if !l.entered && l.dead == nil {
		l.dead = l.pool.enter(ctx)
		l.entered = l.dead == nil
	}
	if l.dead != nil {
		return l.dead
	}
	if l.on == nil {
		l.on = l.pool.take()
	}
	if l.on != nil {
		if err := l.sendOn(ctx, m); !stale(err) {
			return err
		}
		l.drop()
	}
	if l.on, l.dead = l.pool.server.open(ctx); l.dead != nil {
		return l.dead
	}
	return l.sendOn(ctx, m)
}

func (l *line) sendOn(ctx context.Context, m message) error {
	err := l.on.send(ctx, m)
	if l.on.broken {
		l.drop()
	}
	return err
}

// drop gives the connection up.
func (l *line) drop() {
	if l.on != nil {
		l.pool.put(l.on)
		l.on = nil
	}
}

// end keeps the connection for other mails.
func (l *line) end() {
	l.drop()
	if l.entered {
		<-l.pool.slots
	}
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
