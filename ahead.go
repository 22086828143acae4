package almanac

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/engine"
)

// Confirmer is the ability of a repository to hand out events before they are due, so
// that nothing but a glance is left to be done at their instant. Run, where its
// repository has it, looks ahead: see [WithLookAhead].
//
// An event that was claimed ahead (see [ClaimRequest.Ahead]) is PROCESSING, but until
// its instant it has not begun: whoever edits or deletes its user finds it among what
// is pending and may do as they please with it, an edit that leaves it alone puts it
// back into the queue, and one that is given back, or whose lease runs out, was not
// claimed as far as its counters tell. Whoever holds it has to ask at its instant
// whether they still do, and may not begin before the answer. From the instant on it
// is in flight like any other.
type Confirmer interface {
	// Confirm says which of the events are still held as they were claimed. For those,
	// if its At has reached their instant, every edit that has not taken effect yet
	// finds them in flight. An event may be among them as it was claimed before it was
	// taken back, and as it was claimed again: only the later can be held. It changes
	// nothing and waits for nobody.
	Confirm(ctx context.Context, events []Event) (Confirmed, error)

	// Return gives back those of the events that are still held as they were claimed,
	// as after a shutdown, and returns them. What else their tokens hold stays; a token
	// that holds nothing any more is forgotten.
	Return(ctx context.Context, events []Event) ([]Event, error)
}

// Confirmed is the answer to [Confirmer.Confirm]. An event that it does not name
// belongs to another by now, or is gone.
type Confirmed struct {
	Held []uuid.UUID // still held
	Busy []uuid.UUID // somebody is changing them at this moment, or their user: to be asked again
	At   time.Time   // the repository's clock before it looked, UTC
}

// ahead lets the engine claim events before they are due, where the repository can.
func (w *worker) ahead() engine.Ahead[*job] {
	c, able := w.repository.(Confirmer)
	if !able || w.tokens != nil { // those that wait for their turn would be held
		return engine.Ahead[*job]{}
	}
	return engine.Ahead[*job]{
		Window:  w.lookAhead,
		Claim:   func(ctx context.Context, n int) ([]*job, error) { return w.claim(ctx, n, w.lookAhead) },
		Wait:    w.wait,
		Confirm: func(ctx context.Context, jobs []*job) ([]engine.Verdict, error) { return w.confirm(ctx, c, jobs) },
		Return: func(ctx context.Context, jobs []*job) error {
			_, err := c.Return(ctx, eventsOf(jobs))
			return err
		},
	}
}

// wait is how long it is until a job that was claimed ahead is to be asked about, and
// zero for others.
func (w *worker) wait(j *job) time.Duration {
	if !j.early {
		return 0
	}
	return max(j.event.Due.Sub(j.clock.now())-w.lead.get(), 1)
}

// lead is how long before an instant to ask about it, so that the question arrives at
// the instant: as long as it travels, and as long as the watch is late. It is found by
// trying. One question in ten is let arrive too early and is asked again, and nine in
// ten arrive late by as much as these journeys differ. The zero lead is none. It is
// safe for concurrent use by one who learns and any number who get.
type lead struct{ atomic.Int64 }

const (
	leadStep = 4 * time.Microsecond
	maxLead  = 2 * time.Millisecond // what travels longer was held up, and teaches nothing
)

func (l *lead) get() time.Duration { return time.Duration(l.Load()) }

// learn takes in that a question arrived so long after its instant. The steps are
// small, since the next questions are under way by then, with the lead of before.
func (l *lead) learn(late time.Duration) {
	switch now := l.get(); {
	case late < 0:
		l.Store(int64(max(now-9*leadStep, 0)))
	case 0 < late && late <= maxLead:
		l.Store(int64(min(now+leadStep, maxLead)))
	}
}

// confirm asks at their instant whether events that were claimed ahead are still held,
// and tells of those that are that they are claimed.
func (w *worker) confirm(ctx context.Context, c Confirmer, jobs []*job) ([]engine.Verdict, error) {
	asked := time.Now()
	confirmed, err := c.Confirm(ctx, eventsOf(jobs))
	if err != nil {
		return nil, err
	}
	read := w.watch.set(confirmed.At, asked)
	w.lead.learn(confirmed.At.Sub(slices.MaxFunc(jobs, (*job).later).event.Due))
	held := make(map[uuid.UUID]bool, len(jobs))
	for _, id := range confirmed.Held {
		held[id] = true
	}
	busy := make(map[uuid.UUID]bool, len(confirmed.Busy))
	for _, id := range confirmed.Busy {
		busy[id] = true
	}
	// One that was taken back may have been claimed again by this very process: an
	// answer that names the event means the latest claim, and the others are over.
	latest := make(map[uuid.UUID]int, len(jobs))
	for _, j := range jobs {
		latest[j.event.ID] = max(latest[j.event.ID], j.event.Version)
	}
	verdicts := make([]engine.Verdict, len(jobs))
	for i, j := range jobs {
		j.clock = read
		switch id := j.event.ID; {
		case j.event.Version < latest[id]:
			verdicts[i].Gone = true
		case busy[id]:
			verdicts[i].Wait = j.patience()
		case !held[id]:
			verdicts[i].Gone = true
		case confirmed.At.Before(j.event.Due):
			verdicts[i].Wait = w.wait(j)
		default:
			w.tell(ctx, Notice{Kind: EventClaimed, Event: j.event})
		}
	}
	return verdicts, nil
}

// later orders jobs by their instants.
func (j *job) later(other *job) int { return j.event.Due.Compare(other.event.Due) }

// patience is how long to wait for who has the event's user locked: a quarter of the
// time that it has taken, so that long transactions are not asked after too often.
func (j *job) patience() time.Duration {
	return min(max(j.clock.now().Sub(j.event.Due)/4, 2*time.Millisecond), time.Second)
}

func eventsOf(jobs []*job) []Event {
	events := make([]Event, len(jobs))
	for i, j := range jobs {
		events[i] = j.event
	}
	return events
}
