package almanac

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/engine"
)

// ahead returns how the engine claims events before they are due.
func (w *worker) ahead() engine.Ahead[*job] {
	return engine.Ahead[*job]{
		Window:  w.lookAhead,
		Claim:   func(ctx context.Context, n int) ([]*job, error) { return w.claim(ctx, n, w.lookAhead) },
		Wait:    w.wait,
		Confirm: func(ctx context.Context, jobs []*job) ([]engine.Verdict, error) { return w.confirm(ctx, jobs) },
		Return: func(ctx context.Context, jobs []*job) error {
			_, err := w.repository.Return(ctx, eventsOf(jobs))
			return err
		},
	}
}

// wait returns how long until a job that was claimed ahead is to be confirmed. It returns
// zero for other jobs.
func (w *worker) wait(j *job) time.Duration {
	if !j.early {
		return 0
	}
	return max(j.event.FirstAvailable().Sub(j.clock.now())-w.lead.get(), 1)
}

// lead is how long before an instant to send the query that confirms an event, so that the query
// arrives at the instant. It covers the travel time of the query and the error of the clock. After
// each query it is adjusted, so that one query in ten arrives too early and is repeated. The zero
// lead is no time. One goroutine may call learn while any number call get.
type lead struct {
	atomic.Int64
	found bool // whether a query has arrived too early, so that the lead is about right
}

const (
	leadStep  = 4 * time.Microsecond
	leadStart = 16 * leadStep        // the step until the first query arrives too early
	maxLead   = 2 * time.Millisecond // a longer delay is an exception, and the lead does not follow it
)

func (l *lead) get() time.Duration { return time.Duration(l.Load()) }

// learn adjusts the lead after a query that arrived late after its instant, or early if late is
// negative. The steps are small, because the next queries are already sent with the old lead.
func (l *lead) learn(late time.Duration) {
	switch now := l.get(); {
	case late < 0:
		l.found = true
		l.Store(int64(max(now-9*leadStep, 0)))
	case 0 < late && late <= maxLead && !l.found:
		l.Store(int64(min(now+leadStart, maxLead)))
	case 0 < late && late <= maxLead:
		l.Store(int64(min(now+leadStep, maxLead)))
	}
}

// confirm asks the repository whether events that were claimed ahead are still held. It
// notifies observers that the held events are claimed. Of a confirmation and an edit, one sees
// the other: see docs/adr/0027-look-ahead.md.
func (w *worker) confirm(ctx context.Context, jobs []*job) ([]engine.Verdict, error) {
	asked := time.Now()
	confirmed, err := w.repository.Confirm(ctx, eventsOf(jobs))
	if err != nil {
		return nil, err
	}
	observed := w.database.set(confirmed.At, asked)
	w.lead.learn(confirmed.At.Sub(slices.MaxFunc(jobs, (*job).later).event.FirstAvailable()))
	held := make(map[uuid.UUID]bool, len(jobs))
	for _, id := range confirmed.Held {
		held[id] = true
	}
	busy := make(map[uuid.UUID]bool, len(confirmed.Busy))
	for _, id := range confirmed.Busy {
		busy[id] = true
	}
	// An event that was released may have been claimed again by this process. The answer
	// is about its latest claim, and earlier claims are over.
	latest := make(map[uuid.UUID]int, len(jobs))
	for _, j := range jobs {
		latest[j.event.ID] = max(latest[j.event.ID], j.event.Version)
	}
	verdicts := make([]engine.Verdict, len(jobs))
	var begun []*job
	for i, j := range jobs {
		j.clock = observed
		switch id := j.event.ID; {
		case j.event.Version < latest[id]:
			verdicts[i].Gone = true
		case busy[id]:
			verdicts[i].Wait = j.patience()
		case !held[id]:
			verdicts[i].Gone = true
		case confirmed.At.Before(j.event.FirstAvailable()):
			verdicts[i].Wait = w.wait(j)
		default:
			begun = append(begun, j)
		}
	}
	w.notifyClaimed(ctx, begun)
	return verdicts, nil
}

// later compares jobs by their instants.
func (j *job) later(other *job) int {
	return j.event.FirstAvailable().Compare(other.event.FirstAvailable())
}

// patience returns how long to wait while another transaction has the event's user locked:
// a quarter of the time since the instant, so that a long transaction causes few queries.
func (j *job) patience() time.Duration {
	return min(max(j.clock.now().Sub(j.event.FirstAvailable())/4, 2*time.Millisecond), time.Second)
}

func eventsOf(jobs []*job) []Event {
	events := make([]Event, len(jobs))
	for i, j := range jobs {
		events[i] = j.event
	}
	return events
}

// clock carries the database's time forward by this machine's monotonic clock. So times
// within an attempt follow the database clock. A clock without a local time stands still.
type clock struct{ database, local time.Time }

func (c clock) now() time.Time {
	if c.local.IsZero() {
		return c.database
	}
	return c.database.Add(time.Since(c.local))
}

// databaseClock keeps the best known estimate of the database clock. It is safe for concurrent use.
type databaseClock struct {
	mu sync.Mutex
	clock
}

// set updates the estimate by the time at, which the database returned to a query that was sent at asked, and
// returns the estimate. The present time of the database is between at and at plus the duration of the query.
// An estimate within these bounds is kept, so the estimate only grows toward the true time. An estimate
// outside of them is replaced by at: nothing was known, or a clock was changed. A zero at changes nothing.
func (w *databaseClock) set(at, asked time.Time) clock {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.IsZero() {
		return w.clock
	}
	now := time.Now()
	is := w.database.Add(now.Sub(w.local))
	if is.Before(at) || is.After(at.Add(now.Sub(asked))) {
		is = at
	}
	w.clock = clock{is, now}
	return w.clock
}
