package almanac

import (
	"sync"
	"time"
)

// clock carries the database's time forward by this machine's monotonic clock,
// so that moments within an attempt are told in the time that decides.
type clock struct{ database, read time.Time }

func (c clock) now() time.Time { return c.database.Add(time.Since(c.read)) }

// watch keeps the clock that was set best. It is safe for concurrent use.
type watch struct {
	mu sync.Mutex
	clock
}

// set sets the watch by an answer to a question asked at asked, which had the
// database's time on it. What the watch says goes on as long as it agrees with the
// answer: the time on it is past by as long as it was on its way, so the latest that
// was ever possible is nearest to the truth. If it does not agree, a clock was
// changed, or nothing was known.
func (w *watch) set(at, asked time.Time) clock {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	is := w.database.Add(now.Sub(w.read))
	if is.Before(at) || is.After(at.Add(now.Sub(asked))) {
		is = at
	}
	w.clock = clock{is, now}
	return w.clock
}
