package engine

import "time"

// CallSize limits how many items a call of the store has. A call with many items may take
// longer than its timeout each time, while calls with fewer items make progress. The zero
// CallSize has no limit yet. A CallSize is not safe for concurrent use.
type CallSize struct {
	most int // the limit; zero means none
}

// noLimit is more than any call has.
const noLimit = 1 << 20

// Of returns how many of n items the next call has.
func (c *CallSize) Of(n int) int {
	if c.most > 0 {
		return min(n, c.most)
	}
	return n
}

// Note notes a call with n items that began at asked. It halves the limit after an error, because the call
// may have taken too long for its timeout. It doubles the limit after a call that took less than a quarter
// of the timeout, so that twice as many items will be within it, too. After another call it raises the
// limit by an eighth: where every call takes long, the limit rises slowly, but it does not stay.
func (c *CallSize) Note(n int, asked time.Time, timeout time.Duration, err error) {
	switch {
	case err != nil:
		c.most = max(n/2, 1)
	case c.most >= noLimit:
		c.most = 0
	case time.Since(asked) < timeout/4:
		c.most *= 2
	case c.most > 0:
		c.most += max(c.most/8, 1)
	}
}

// Call calls f with n items, or fewer, and notes the call.
func (c *CallSize) Call(n int, timeout time.Duration, f func(n int) error) error {
	n, asked := c.Of(n), time.Now()
	err := f(n)
	c.Note(n, asked, timeout, err)
	return err
}
