package almanac

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/backoff"
)

// Breaker is the state of a lane whose receiver fails (see [Execution].Breaker). All processes share it. A lane
// "crm/tenant-7" has the breaker of "crm". The zero Breaker is closed, and nothing has failed.
//
// The breaker opens when five events in a row have failed, when half of at least 20 events within a minute have,
// or when the receiver asks for a delay of all events (see [Busy]). Each event counts once, with its last attempt.
// Permanent errors count as accepted. While the breaker is open, one event at a time is tried: after five
// seconds, and after twice as long each time that it fails, up to five minutes, and up to a fifth longer. If the
// receiver asked for a delay, the next try comes when that has passed, at most an hour. After a success, two
// events may be in flight, then four, and so on up to 64. Each step needs that many successes, or one success
// after a minute. If failures reach a third of the number, the breaker opens again.
//
// The failures that open a closed breaker, and those while it is open, do not count for their events, even if the
// attempts began before. Such an event becomes available again after those that wait already. A failure that opens the
// breaker again while it closes counts, so an event that fails alone uses up its attempts. [Operator].Resume closes a
// breaker at once, and [Operator].Pause admits no event. A breaker that stays open pauses its lane if the handler says
// so: see [Execution].PauseAfter. See docs/adr/0073-breakers.md.
type Breaker struct {
	// Allowed is the most events of the lane that may be in flight. Zero means no limit: the breaker is closed. 1
	// means that it is open. Events that were claimed before it opened do not count, unless the lane has Places.
	Allowed int
	// RetryAt is the time from which events may start, UTC, unless Allowed is zero. Answers to events that were
	// claimed before it are ignored.
	RetryAt time.Time
	// OpenedAt is when the breaker opened, UTC; zero if it is closed.
	OpenedAt time.Time
	// Failures is how often it has stayed or become open again since the last success, counted up to 1,000.
	Failures int
	// Answers are the last answers that count, at most 100, in the order of their reports: one for each event.
	Answers []Answer
	// Pause is the reason for which this report pauses the lane (see [Execution].PauseAfter). Empty means that it
	// does not. A repository does not store it as part of the breaker.
	Pause string
}

// Answer is how an attempt at an event ended, for the [Breaker] of its lane.
type Answer struct {
	EventID   uuid.UUID
	ClaimedAt time.Time     // when the event was claimed, UTC
	Failed    bool          // whether the receiver has failed
	Busy      time.Duration // the delay for which the receiver asked; zero if it did not. A repository does not store it.
}

const (
	failuresInRow  = 5           // so many events in a row open a breaker
	leastAnswers   = 20          // half of so many answers within answersWithin open it, too
	mostAnswers    = 100         // answers that a breaker keeps
	answersWithin  = time.Minute // how old answers may be of which a part opens a breaker
	longestBusy    = time.Hour   // the longest delay for which a receiver may ask
	mostAllowed    = 64          // twice as many close a breaker
	mostFailures   = 1000        // that are counted
	longestAllowed = time.Minute // after so long, one success is enough
)

// untilRetry is how long an open breaker admits no event.
var untilRetry = backoff.Exponential{First: 5 * time.Second, Max: 5 * time.Minute, Factor: 2, Jitter: 0.2}

// after returns the breaker after some answers. random is from 0 up to but not including 1.
func (b Breaker) after(answers []Answer, now time.Time, random float64) Breaker {
	b.Answers = slices.Clone(b.Answers)
	if b.RetryAt.Sub(now) > longestBusy+time.Minute { // the clock was set back
		b.RetryAt = now
	}
	for _, a := range answers {
		if b.Allowed > 0 && a.ClaimedAt.Before(b.RetryAt) {
			continue // it was in flight before the last change
		}
		b.Answers = append(slices.DeleteFunc(b.Answers, func(was Answer) bool { return was.EventID == a.EventID }), a)
		switch {
		case b.opensAfter(a, now):
			b = b.opened(a.Busy, now, random)
		case b.Allowed > 0 && !a.Failed:
			b = b.widened(now)
		}
	}
	return b.trimmed(now)
}

// opensAfter reports whether the breaker opens after an answer, which is its last one, or stays open.
func (b Breaker) opensAfter(a Answer, now time.Time) bool {
	failed := 0
	for _, one := range b.Answers {
		if one.Failed {
			failed++
		}
	}
	switch {
	case !a.Failed:
		return false
	case a.Busy > 0 || b.Allowed == 1:
		return true
	}
	inRow := len(b.Answers) >= failuresInRow &&
		!slices.ContainsFunc(b.Answers[len(b.Answers)-failuresInRow:], func(one Answer) bool { return !one.Failed })
	if b.Allowed > 1 {
		return inRow || 3*failed >= b.Allowed
	}
	lately, failed := 0, 0
	for _, one := range b.Answers {
		if now.Sub(one.ClaimedAt).Abs() < answersWithin { // or the clock was set back
			lately++
			if one.Failed {
				failed++
			}
		}
	}
	return inRow || lately >= leastAnswers && 2*failed >= lately
}

// opened returns the breaker as it is after it has opened, or after an event that was tried alone has failed.
func (b Breaker) opened(busy time.Duration, now time.Time, random float64) Breaker {
	is := Breaker{Allowed: 1, OpenedAt: b.OpenedAt, Failures: b.Failures}
	if b.Allowed == 0 {
		is.OpenedAt = now
	} else if busy == 0 {
		is.Failures = min(is.Failures+1, mostFailures)
	}
	if busy > 0 {
		is.RetryAt = now.Add(min(busy, longestBusy))
	} else {
		is.RetryAt = now.Add(untilRetry.Delay(is.Failures+1, random))
	}
	return is
}

// widened returns the breaker after a success.
func (b Breaker) widened(now time.Time) Breaker {
	succeeded := 0
	for _, one := range b.Answers {
		if !one.Failed {
			succeeded++
		}
	}
	switch {
	case succeeded < b.Allowed && now.Sub(b.RetryAt) < longestAllowed:
		return b
	case 2*b.Allowed > mostAllowed:
		return Breaker{}
	}
	b.Allowed, b.RetryAt, b.Answers, b.Failures = 2*b.Allowed, now, nil, 0
	return b
}

// pausing returns the breaker after a report, with a reason to pause the lane if it has been open for so long. Only a
// try that has failed pauses a lane. Zero means never.
func (b Breaker) pausing(was Breaker, after time.Duration, now time.Time) Breaker {
	failed := was.Allowed == 1 && !was.RetryAt.After(now) && b.Allowed == 1 && b.RetryAt.After(now)
	if after > 0 && failed && now.Sub(b.OpenedAt) >= after {
		b.Pause = "the breaker has been open since " + b.OpenedAt.UTC().Format(time.RFC3339)
	}
	return b
}

// pauseAfter returns after how long the failure of one of the jobs pauses their lane; zero for never.
func pauseAfter(jobs []*job) (after time.Duration) {
	for _, j := range jobs {
		if own := j.route.execution.PauseAfter; own > 0 && j.answer.Failed && (after == 0 || own < after) {
			after = own
		}
	}
	return after
}

// trimmed returns the breaker without the answers that do not count any more.
func (b Breaker) trimmed(now time.Time) Breaker {
	if n := len(b.Answers) - mostAnswers; n > 0 {
		b.Answers = b.Answers[n:]
	}
	if b.Allowed > 0 {
		return b
	}
	for len(b.Answers) >= failuresInRow && now.Sub(b.Answers[0].ClaimedAt).Abs() >= answersWithin {
		b.Answers = b.Answers[1:]
	}
	if !slices.ContainsFunc(b.Answers, func(one Answer) bool { return one.Failed }) {
		b.Answers = nil
	}
	return b
}

// answerOf returns what an attempt that returned err says about the receiver, or nil.
func (j *job) answerOf(err error) *Answer {
	_, moved := errors.AsType[*laneError](err)
	if _, asked := askedFor(err); asked || moved || !j.route.execution.Breaker {
		return nil
	}
	a := Answer{EventID: j.event.ID, ClaimedAt: j.event.UpdatedAt, Failed: err != nil && !errors.Is(err, ErrPermanent)}
	for asked, ok := errors.AsType[*retryAfterError](err); ok && a.Failed; asked, ok = errors.AsType[*retryAfterError](asked.err) {
		if asked.busy {
			a.Busy = asked.delay
		}
	}
	if together, ok := errors.AsType[*batchError](err); ok {
		a.EventID = together.batch
	}
	return &a
}

// breakerLane returns the lane that has the breaker of an event.
func breakerLane(e Event) string {
	if e.Lane == "" {
		return e.Type
	}
	lane, _, _ := strings.Cut(e.Lane, "/")
	return lane
}

// answered has the last successes that were not reported, by lane: a breaker gets them before a first failure. So
// some failures among many successes do not open it.
type answered struct {
	mu    sync.Mutex
	lanes map[string][]Answer
}

// mostAnswered is how many lanes have successes. When there are more, all are forgotten.
const mostAnswered = 1000

func (a *answered) note(lane string, success Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lanes == nil || len(a.lanes) >= mostAnswered {
		a.lanes = make(map[string][]Answer)
	}
	last := append(a.lanes[lane], success)
	a.lanes[lane] = last[max(0, len(last)-leastAnswers):]
}

// take returns the successes of a lane, and forgets them.
func (a *answered) take(lane string) []Answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.lanes, lane)
	return a.lanes[lane]
}

// report reports answers to the breakers of their lanes, if an event of the lane has failed lately or fails now.
// After a report that opens a closed breaker, or leaves it open, a failed attempt does not count for its event.
func (w *worker) report(ctx context.Context, jobs []*job) {
	lanes, wanted := map[string][]*job(nil), make(map[string]bool, 1)
	for _, j := range jobs {
		if j.answer == nil {
			continue
		}
		if lanes == nil {
			lanes = make(map[string][]*job)
		}
		lane := breakerLane(j.event)
		lanes[lane] = append(lanes[lane], j)
		wanted[lane] = wanted[lane] || j.answer.Failed || j.of.failing
	}
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		w.reportTo(ctx, lane, lanes[lane], wanted[lane])
		for _, j := range lanes[lane] {
			j.answer = nil // also if its outcome is stored later
		}
	}
}

func (w *worker) reportTo(ctx context.Context, lane string, jobs []*job, wanted bool) {
	if !wanted {
		for _, j := range jobs {
			w.answered.note(lane, *j.answer)
		}
		return
	}
	answers := w.answered.take(lane)
	for _, j := range jobs {
		answers = append(answers, *j.answer)
	}
	var was Breaker
	is, err := w.repository.Report(ctx, lane, func(b Breaker, now time.Time) Breaker {
		was = b
		return b.after(answers, now, rand.Float64()).pausing(b, pauseAfter(jobs), now)
	})
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return
	case err != nil:
		w.log.WarnContext(ctx, "a breaker cannot be stored", slog.String("lane", lane), slog.Any("error", err))
		return
	}
	w.notifyBreaker(ctx, lane, was, is)
	for _, j := range jobs {
		if is.Allowed == 1 && was.Allowed < 2 && j.answer.Failed {
			j.outcome = Released(AfterSnooze, "its receiver fails: "+j.outcome.Reason, 0)
		}
	}
	if was.Allowed > 0 && is.Allowed == 0 { // events of the type wait, which are before the mark
		w.mark.reset()
		w.engine.Wake()
	}
}

// notifyBreaker logs that a breaker has opened, has been open for another hour, has paused its lane, or has closed, and
// notifies observers.
func (w *worker) notifyBreaker(ctx context.Context, lane string, was, is Breaker) {
	hours := func(b Breaker) int { return int(b.RetryAt.Sub(b.OpenedAt) / time.Hour) }
	n, level, line := Notice{Kind: LaneFailing, Lane: lane, Breaker: is}, slog.LevelWarn, "a receiver fails: single events are tried"
	switch {
	case is.Allowed == 1 && was.Allowed != 1:
	case is.Pause != "":
		level, line = slog.LevelError, "a receiver has failed for too long: its lane is paused"
	case is.Allowed == 1 && hours(is) > hours(was):
		level, line = slog.LevelError, "a receiver has failed for hours"
	case is.Allowed == 0 && was.Allowed > 0:
		n.Kind, n.Breaker, level, line = LaneRecovered, was, slog.LevelInfo, "a receiver accepts events again"
	default:
		return
	}
	w.log.LogAttrs(ctx, level, line, slog.String("lane", lane), slog.Time("retry_at", n.Breaker.RetryAt), slog.Time("since", n.Breaker.OpenedAt))
	w.notify(ctx, n)
}
