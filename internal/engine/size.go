package engine

// callSize limits how many items a call of the store has. A call with many items may take
// longer than its timeout each time, while calls with fewer items make progress.
type callSize struct {
	full int // the number at which there is no limit
	most int // the limit; zero means none
}

// of returns how many of n items the next call has.
func (c *callSize) of(n int) int {
	if c.most > 0 {
		return min(n, c.most)
	}
	return n
}

// note halves the limit after a failed call with n items, because that may have taken too
// long. It doubles the limit after a call that was quick: less than a quarter of its
// timeout, so that twice as many items will be within it, too.
func (c *callSize) note(n int, quick bool, err error) {
	switch {
	case err != nil:
		c.most = max(n/2, 1)
	case c.most >= c.full:
		c.most = 0
	case quick:
		c.most *= 2
	}
}
