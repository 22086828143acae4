package almanac

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/engine"
)

// safeToRetry reports whether a failed call certainly stored nothing. Then there is
// nothing to undo, and no need to load a failing database further.
func safeToRetry(err error) bool {
	var certain interface{ SafeToRetry() bool }
	return errors.As(err, &certain) && certain.SafeToRetry()
}

// isRefused reports whether the repository refused a row, and stored nothing. See [Repository].
func isRefused(err error) bool {
	var of interface{ Refused() bool }
	return errors.As(err, &of) && of.Refused() && safeToRetry(err)
}

// apart calls try for the types together. If they are refused together, it calls try for each of them
// alone, so that one type stops no other, and leaves those out that are refused for a time that grows to
// five seconds. An error of every type is about none of them.
func (w *worker) apart(ctx context.Context, try func(types []string) error) error {
	types := w.types
	if len(w.refused.failing) > 0 {
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return time.Until(w.refused.failing[t].retry) > 0 })
	}
	err := try(types)
	if len(types) < 2 || !isRefused(err) {
		return err
	}
	refused := make(map[string]error)
	for _, i := range rand.Perm(len(types)) { // the first ones may use up the free workers
		if alone := try(types[i : i+1]); isRefused(alone) {
			refused[types[i]] = alone
		} else if alone != nil {
			return alone
		}
	}
	if len(refused) == len(types) {
		return err
	}
	for t, err := range refused {
		w.refused.note(t, err)
		w.log.WarnContext(ctx, "events of a type cannot be claimed", slog.String("event_type", t),
			slog.Duration("retry_in", time.Until(w.refused.failing[t].retry)), slog.Any("error", err))
	}
	return nil
}

// disown releases the events of a claim whose answer was lost, even if the claim used up
// its time. If that fails too, the lease expires by itself.
func (w *worker) disown(ctx context.Context, token uuid.UUID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.lease/6)
	defer cancel()
	released, err := w.repository.Release(ctx, token)
	w.notifyReleased(ctx, released, AfterShutdown)
	return err
}

// searched notes that a search from the beginning found no due event of the types that are not left out.
func (w *worker) searched() {
	w.mark.advance(ClaimRequest{}, ClaimResult{At: time.Now()})
	for t, one := range w.refused.failing {
		if time.Until(one.retry) <= 0 {
			w.refused.note(t, nil)
		}
	}
}

// route is what a worker needs for the events of one type. It is made once and used for each event.
type route struct {
	handler   EventHandler
	execution Execution
	checks    Checks
	deliver   Deliverer // the middleware around the handler or its channel
}

func (s *scheduler) routes() (map[string]*route, error) {
	routes := make(map[string]*route)
	for _, eventType := range s.registry.EventTypes() {
		h, err := s.registry.Handler(eventType)
		if err != nil {
			return nil, err
		}
		x := executionOf(h)
		routes[eventType] = &route{h, x, append(s.ownChecks(x), s.checks...), s.deliverer(h)}
	}
	return routes, nil
}

// ownChecks returns the checks of every type, which come before those of the host.
func (s *scheduler) ownChecks(x Execution) Checks {
	checks := Checks{HasStatus(Processing), IsDue(), CrashesBelow(s.crashes), AttemptsLeft(x.RetryPolicy.Attempts)}
	if c := x.CatchUpPolicy; c.SkipOlder > 0 && c.SkipTried {
		checks = append(checks, NotOlderThan(c.SkipOlder))
	} else if c.SkipOlder > 0 {
		checks = append(checks, neverTried(NotOlderThan(c.SkipOlder)))
	}
	return checks
}

// neverTried applies a check only to events without a failed attempt. An event that was
// on time and is being retried was not missed.
func neverTried(check Check) Check {
	return func(e Event, now time.Time) error {
		if e.RetryCount > 0 {
			return nil
		}
		return check(e, now)
	}
}

// mark is the available time at which the claims of a process start to search. Index entries of claimed
// events before it stay while an old transaction may read them, and the mark avoids scanning them again.
//
// An event before the mark may still be claimable. It was skipped because it was locked, its transaction
// committed late, it was released, or the clock was set back. If this process stored the event, the mark
// moves back to it. Events of other processes are found by searches from the beginning, every few seconds
// (see [WithSweep]). The table of all cases is in docs/adr/0026-low-water-mark.md.
//
// The zero mark is the beginning. Only one goroutine calls look and advance. Any
// goroutine may call note and reset.
type mark struct {
	mu       sync.Mutex
	at       time.Time // where searches begin; zero is the beginning
	whole    bool      // whether the next search begins at the beginning, regardless of at
	delayed  time.Time // until when no search begins at the beginning, because two failed; zero for no delay
	failures int       // of searches from the beginning, in a row
	noted    time.Time // the earliest available time that was noted since the last search began; zero if none was
}

// look begins a search, and returns where it begins. Zero is the beginning.
func (m *mark) look() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noted = time.Time{}
	if m.whole && time.Until(m.delayed) <= 0 {
		m.whole = false
		return time.Time{}
	}
	return m.at
}

// failed makes a later search begin at the beginning, after a search from the given mark has failed. If two
// in a row began at the beginning, the next one is delayed by four times the duration of the second. Beside an
// old transaction, a search can exceed its time, and due events after the mark must not wait.
func (m *mark) failed(from time.Time, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.whole = true; from.IsZero() && !isRefused(err) {
		if m.failures++; m.failures > 1 {
			m.delayed = time.Now().Add(4 * took)
		}
	}
}

// advance moves the mark after a claim, which was the last search. The mark never passes
// the last claimed event, because a locked event may come right after it.
func (m *mark) advance(r ClaimRequest, c ClaimResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Mark.IsZero() {
		m.failures = 0
	}
	m.whole = m.whole || c.At.IsZero() && r.Mark.IsZero() // the repository has not searched
	if c.Reached.IsZero() {
		return
	}
	fromBeginning := r.Mark.IsZero() || c.Reached.Before(r.Mark) // the mark was later than the repository's clock
	if fromBeginning || c.Reached.After(m.at) {
		m.at = c.Reached // this may move the mark back, because the repository may have lowered the limit: more may follow
	}
	if m.at.After(c.At) {
		m.at = c.At
	}
	if !m.noted.IsZero() && m.noted.Before(m.at) {
		m.at = m.noted // the claim may have begun before the event was stored
	}
}

// note moves the mark back to the events that this process has made available.
func (m *mark) note(events ...Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		t := e.AvailableAt
		if t.IsZero() {
			continue // not PENDING
		}
		if t.Before(m.at) {
			m.at = t
		}
		if m.noted.IsZero() || t.Before(m.noted) {
			m.noted = t
		}
	}
}

// reset makes the next search begin at the beginning. If that search finds no event, the
// mark stays where it was.
func (m *mark) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.whole = true
}

// sharedCrashes returns the crash count from which an event is tried alone, and another event's crash no
// longer counts for it: the limit less one. With a limit of 1, crashes count for all events held.
func (s *scheduler) sharedCrashes() int {
	if s.crashes == 1 {
		return math.MaxInt32
	}
	return s.crashes - 1
}

func (w *worker) notifyClaimed(ctx context.Context, jobs []*job) {
	w.notifyEach(ctx, len(jobs), func(i int) Notice { return Notice{Kind: EventClaimed, Event: jobs[i].event} })
}

// attemptAlone makes an attempt. An event that one more crash makes FAILED is tried alone: TryAlone is
// called first, and the process tries no other such event until outcome and successor are stored.
// See docs/adr/0069-crashes.md.
func (w *worker) attemptAlone(ctx context.Context, j *job, later engine.Later[*job]) Outcome {
	if j.event.CrashCount < w.sharedCrashes() {
		return w.attempt(ctx, j, later)
	}
	if !w.begin(ctx, j) {
		return Released(AfterSnooze, "another event whose worker died is tried first", time.Second)
	}
	if err := w.repository.TryAlone(ctx, j.event); err != nil {
		return Released(AfterSnooze, err.Error(), time.Second)
	}
	return w.attempt(ctx, j, later)
}

// begin reserves the process for an event that is tried alone, and reports whether it could. It waits for
// at most a second or a tenth of the attempt's time. Unless ended, the reservation expires (stuckAfter).
func (w *worker) begin(ctx context.Context, j *job) bool {
	deadline, _ := ctx.Deadline() // every attempt has one
	mine, wait := deadline.Add(stuckAfter).UnixNano(), min(time.Second, time.Until(deadline)/10)
	for begun := time.Now(); ; {
		until := w.running.alone.Load()
		if time.Until(time.Unix(0, until)) <= 0 && w.running.alone.CompareAndSwap(until, mine) {
			j.alone = mine
			return true
		}
		if ctx.Err() != nil || time.Since(begun) > wait {
			return false
		}
		time.Sleep(wait / 50)
	}
}

// admission is how lanes have admitted an event.
type admission struct {
	asked   time.Time // before it, by this machine's monotonic clock; zero if the lane has no limits
	placed  bool      // whether another event may wait for its place
	failing bool      // whether successes are reported to breakers, too
}

// admittedBy returns how a claim has admitted an event.
func admittedBy(c ClaimResult, id uuid.UUID) admission {
	if asked, limited := c.Limited[id]; limited {
		return admission{asked, c.Placed, c.Failing}
	}
	return admission{failing: c.Failing}
}

// waitedAfterAdmission returns how long ago the event's lane admitted it, or for an event that was claimed
// ahead, how long ago its instant was. It is zero for lanes without limits.
func (j *job) waitedAfterAdmission() time.Duration {
	switch {
	case j.of.asked.IsZero():
		return 0
	case j.early:
		return j.clock.now().Sub(j.event.FirstAvailable())
	}
	return time.Since(j.of.asked)
}

// begunKey is the key of the function that [Begun] returns.
type begunKey struct{}

// Begun returns the function that a deliverer calls when its request is on its way to the receiver, or nil if that is of
// no interest. The deliverer may call it from any goroutine. It counts a request that began more than 250 ms after the
// lane of its event has admitted it (see [Lane].Rate): the process was frozen, or the connection took that long. Then
// the receiver gets more in a short time than the rate allows. Such a request is logged, and observers get a
// [Measurement] of the kind [MeasuredLate].
func Begun(ctx context.Context) func() {
	begun, _ := ctx.Value(begunKey{}).(func())
	return begun
}

// start is the start of an attempt at an event of a lane with limits.
type start struct {
	admitted time.Time    // by this machine's clock
	after    atomic.Int64 // how long after that the request began; zero if it has not
}

// starting returns a context whose deliverer says when the request has begun. The start is nil for an event of a lane
// without limits.
func (j *job) starting(ctx context.Context) (context.Context, *start) {
	if j.of.asked.IsZero() {
		return ctx, nil
	}
	s := &start{admitted: time.Now().Add(-j.waitedAfterAdmission())}
	return context.WithValue(ctx, begunKey{}, func() { s.after.CompareAndSwap(0, int64(time.Since(s.admitted))) }), s
}

// noteLate counts a request that began too late. The process may have been frozen after it has checked the time.
func (w *worker) noteLate(ctx context.Context, j *job, s *start) {
	if s == nil || time.Duration(s.after.Load()) <= admittedFor {
		return
	}
	after := time.Duration(s.after.Load())
	w.log.LogAttrs(ctx, slog.LevelWarn, "a request began too long after its lane admitted the event",
		append(eventAttrs(j.event), slog.String("lane", cmp.Or(j.event.Lane, j.event.Type)), slog.Duration("after", after))...)
	w.measure(ctx, Measurement{Kind: MeasuredLate, Type: j.event.Type, Total: after})
}

// waitsForALane reports whether an event is due whose lane has no room.
func (s *scheduler) waitsForALane(ctx context.Context) (bool, error) {
	lanes, err := s.repository.Lanes(ctx)
	if len(lanes) == 0 {
		return false, err
	}
	paused, err := s.repository.Paused(ctx)
	if err != nil {
		return false, err
	}
	types := slices.DeleteFunc(s.registry.EventTypes(), func(t string) bool {
		h, _ := s.registry.Handler(t)
		_, names := h.(LaneNamer)
		return !names && !slices.ContainsFunc(lanes, func(l Lane) bool { return l.Name == t }) ||
			slices.ContainsFunc(paused, func(p Pause) bool { return p.Lane == t })
	})
	if len(types) == 0 {
		return false, nil
	}
	due, err := s.repository.FindMissed(ctx, types, 0, 1)
	return len(due) > 0, err
}

// laneSince returns the lane of an event that was planned before its handler named lanes, or "". It does so when the
// event is claimed for the first time. A deliverer may move it back.
func (j *job) laneSince() string {
	if j.event.Lane != "" || j.event.ClaimCount > 1 || laneNamerOf(j.route.handler) == nil {
		return ""
	}
	lane := laneOf(j.route.handler, j.user, j.event.Occurrence())
	if lane != "" && laneProblem(lane) != "" {
		return "" // as planned
	}
	return lane
}
