package engine

import (
	"context"
	"sync"
	"time"
)

// itemContext is the context of an item. It derives from the context of all items, and ends at a
// limit or when end is called. Most items return before anything waits for the end of their context.
// So the timer and the contexts of package context are made only when something does.
type itemContext struct {
	work  context.Context
	limit time.Time

	mu    sync.Mutex
	ended bool
	cause error // of the end; nil means [context.Canceled]

	made    context.Context // nil until it is needed
	cancel  context.CancelCauseFunc
	release context.CancelFunc
}

var _ context.Context = (*itemContext)(nil)

// Deadline returns the limit.
func (c *itemContext) Deadline() (time.Time, bool) { return c.limit, true }

// Done returns a channel that is closed when the context ends.
func (c *itemContext) Done() <-chan struct{} { return c.make().Done() }

// Err returns nil until the context ends.
func (c *itemContext) Err() error {
	c.mu.Lock()
	over := c.made != nil || c.ended || c.isOver()
	c.mu.Unlock()
	if !over {
		return nil
	}
	return c.make().Err()
}

// Value returns the value for a key. Package context finds its own contexts by a key, so the made
// context has to answer once there is one or the context has ended.
func (c *itemContext) Value(key any) any {
	c.mu.Lock()
	needed := c.made != nil || c.ended
	c.mu.Unlock()
	if needed {
		return c.make().Value(key)
	}
	return c.work.Value(key)
}

// end ends the context, unless it has ended. The cause nil means [context.Canceled].
func (c *itemContext) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil && !c.ended && c.isOver() {
		c.makeLocked()
	}
	if !c.ended {
		c.ended, c.cause = true, cause
	}
	if c.made != nil {
		c.cancel(cause)
		c.release()
	}
}

// isOver reports whether the context has ended by itself.
func (c *itemContext) isOver() bool { return c.work.Err() != nil || !time.Now().Before(c.limit) }

func (c *itemContext) make() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.makeLocked()
	return c.made
}

// makeLocked makes the contexts of package context, if there are none. If end was called before, they
// have ended with its cause, whatever has happened since.
func (c *itemContext) makeLocked() {
	if c.made != nil {
		return
	}
	if c.ended {
		c.made, c.cancel = context.WithCancelCause(context.WithoutCancel(c.work))
		c.release = func() {}
		c.cancel(c.cause)
		return
	}
	var ctx context.Context
	ctx, c.release = context.WithDeadline(c.work, c.limit)
	c.made, c.cancel = context.WithCancelCause(ctx)
}
