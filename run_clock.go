package almanac

import (
	"sync"
	"time"
)

// clock carries the database's time forward by this machine's monotonic clock. So times
// within an attempt follow the database clock.
type clock struct{ database, local time.Time }

func (c clock) now() time.Time { return c.database.Add(time.Since(c.local)) }

// databaseClock keeps the best known estimate of the database clock. It is safe for
// concurrent use.
type databaseClock struct {
	mu sync.Mutex
	clock
}

// set updates the estimate by the time at, which the database returned to a query that
// was sent at asked, and returns the estimate. The present time of the database is
// between at and at plus the duration of the query. An estimate within these bounds is
// kept, so the estimate only grows toward the true time. An estimate outside of them is
// replaced by at: nothing was known, or a clock was changed.
func (w *databaseClock) set(at, asked time.Time) clock {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	is := w.database.Add(now.Sub(w.local))
	if is.Before(at) || is.After(at.Add(now.Sub(asked))) {
		is = at
	}
	w.clock = clock{is, now}
	return w.clock
}
