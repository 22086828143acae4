package almanac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/engine"
)

// RunOnceOptions are options of one pass. The zero RunOnceOptions means the defaults.
type RunOnceOptions struct {
	// Limit is the most events that the pass claims, 1 to 1,000,000. An event that is
	// tried again in the same pass counts again. Zero means 10,000.
	Limit int

	// Within is how long the pass claims events. It must not be negative. Zero means one minute.
	// Deliveries that are under way at the end may continue for as long as [WithDrain] says. Longer
	// deliveries are cancelled, and their events are released. Storing the last outcomes takes a
	// few moments more, and at most one lease (see [WithLease]).
	Within time.Duration

	// Prune deletes ended events as [WithRetention] says, after the deliveries. It reads every event
	// that ended before the retention, so once a day is enough. Without a retention it does nothing.
	Prune bool
}

// RunOnceResult counts what one pass did. Claimed is the sum of Completed, Failed,
// Cancelled, Retried, Released and Unstored.
type RunOnceResult struct {
	// Claimed is how many events were claimed. An event that was claimed twice counts twice.
	Claimed int
	// Completed is how many events were delivered.
	Completed int
	// Failed is how many events ended as FAILED.
	Failed int
	// Cancelled is how many events were called off, because their delivery was [NotOwed].
	Cancelled int
	// Retried is how many events were released after a failure or a snooze, to be tried again.
	Retried int
	// Released is how many events were released because the pass ended before their
	// delivery. No attempt of these events is counted.
	Released int
	// Unstored is how many events have an outcome that was not stored. The lease was
	// lost, the user was deleted with [DeleteOptions].AtOnce, or the database did not
	// answer. Unless it was deleted, such an event runs again when its lease has expired.
	Unstored int
	// Recovered is how many events of expired leases were released before the first claim, as after a crash.
	Recovered int
	// CutShort names the maintenance tasks that had too little time, such as "plan stalled series", which
	// has what the deliveries leave. The next pass continues. If every pass names a task, the task needs a
	// longer Within.
	CutShort []string
	// More is whether more events are due: the limit was reached, the time was over, or another
	// transaction had events locked. Events that were snoozed for at most a minute count as due if
	// others of them have ended or failed in the last minute. Another pass can start at once.
	More bool
}

const (
	defaultPassLimit = 10_000
	maxPassLimit     = 1_000_000
	defaultPassTime  = time.Minute
)

func (o RunOnceOptions) withDefaults() (RunOnceOptions, error) {
	var bad ValidationError
	if o.Limit < 0 || o.Limit > maxPassLimit {
		bad.Fields = append(bad.Fields, FieldError{Field: "limit", Problem: "is not between 1 and 1000000"})
	}
	if o.Within < 0 {
		bad.Fields = append(bad.Fields, FieldError{Field: "within", Problem: "is negative"})
	}
	if len(bad.Fields) > 0 {
		return o, &bad
	}
	o.Limit = cmp.Or(o.Limit, defaultPassLimit)
	o.Within = cmp.Or(o.Within, defaultPassTime)
	return o, nil
}

func (s *scheduler) RunOnce(ctx context.Context, o RunOnceOptions) (RunOnceResult, error) {
	o, err := o.withDefaults()
	if err != nil {
		return RunOnceResult{}, err
	}
	if s.inTransaction() {
		return RunOnceResult{}, fmt.Errorf("almanac: run once: in a transaction: %w", errors.ErrUnsupported)
	}
	p := newOnePass(s, o)
	result, err := p.run(ctx)
	s.log.InfoContext(ctx, "pass ended", slog.Int("claimed", result.Claimed), slog.Int("completed", result.Completed),
		slog.Int("failed", result.Failed), slog.Int("cancelled", result.Cancelled), slog.Int("retried", result.Retried),
		slog.Int("released", result.Released),
		slog.Int("unstored", result.Unstored), slog.Int("recovered", result.Recovered), slog.Bool("more", result.More))
	if err != nil {
		return result, fmt.Errorf("almanac: run once: %w", err)
	}
	return result, nil
}

// onePass is one call of RunOnce. It uses at most two connections of
// the repository: one to claim events and to store outcomes, one to renew leases.
type onePass struct {
	*scheduler
	RunOnceOptions
	working  chan struct{} // full while a claim, a search or a batch of outcomes uses the repository
	left     int           // events that may still be claimed; guarded by working
	renewing chan struct{} // full while a renewal uses the repository
	end      time.Time

	mu     sync.Mutex
	held   map[uuid.UUID]bool // events that were claimed and have no stored outcome yet
	result RunOnceResult
}

func newOnePass(s *scheduler, o RunOnceOptions) *onePass {
	p := &onePass{RunOnceOptions: o, left: o.Limit, working: make(chan struct{}, 1), renewing: make(chan struct{}, 1), held: make(map[uuid.UUID]bool)}
	own := *s
	own.observers = append([]Observer{ObserverFunc(p.count)}, s.observers...)
	p.scheduler = &own
	return p
}

// count counts what was stored, by the notices.
func (p *onePass) count(_ context.Context, n Notice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := n.Event.ID
	switch {
	case n.Kind == EventClaimed:
		p.result.Claimed++
		p.held[id] = true
		return
	case n.Kind == EventReleased && n.Cause == AfterCrash:
		p.result.Recovered++
		return
	case !p.held[id]: // a successor, or an event of a claim whose answer was lost
		return
	case n.Kind == EventCompleted:
		p.result.Completed++
	case n.Kind == EventFailed:
		p.result.Failed++
	case n.Kind == EventCancelled:
		p.result.Cancelled++
	case n.Kind == EventReleased && n.Cause == AfterShutdown:
		p.result.Released++
	case n.Kind == EventReleased:
		p.result.Retried++
	default:
		return
	}
	delete(p.held, id)
	p.running.again.note(n)
}

// again decides whether a pass waits for snoozed events. The passes of one scheduler share it, so that
// each continues where the last one ended.
type again struct {
	mu       sync.Mutex
	snoozed  map[uuid.UUID]bool // events that were snoozed briefly, and have not ended or failed
	until    time.Time          // when the last of them becomes available
	once     time.Time          // when the last one becomes available that was snoozed once: each is tried again
	progress time.Time          // when one of them ended or failed last: repeated snoozes alone do not prolong a pass
}

// longestAgain is the longest snooze for which a pass waits, and how long progress counts.
const longestAgain = time.Minute

func (a *again) note(n Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, id := time.Now(), n.Event.ID
	switch snooze := n.Event.AvailableAt.Sub(n.Event.UpdatedAt); { // both by the database's clock
	case (n.Kind != EventReleased || n.Cause == AfterFailure) && a.snoozed[id]:
		delete(a.snoozed, id)
		a.progress = now
	case n.Kind == EventReleased && n.Cause == AfterSnooze && snooze <= longestAgain:
		a.until = later(a.until, now.Add(snooze))
		if !a.snoozed[id] {
			a.snoozed[id], a.once = true, later(a.once, now.Add(snooze))
		}
	}
}

// waits reports whether a pass may wait this long for the next event, and whether one that was snoozed
// has ended or failed lately.
func (a *again) waits(wait time.Duration) (waits, progress bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, end := time.Now(), a.once
	if progress = now.Sub(a.progress) <= longestAgain; progress {
		end = a.until
	}
	return now.Add(wait).Before(end.Add(time.Second)), progress // the second is for roundings
}

// forget forgets all events.
func (a *again) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.snoozed, a.until, a.once = make(map[uuid.UUID]bool), time.Time{}, time.Time{}
}

// counted returns the result so far.
func (p *onePass) counted() RunOnceResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Unstored = len(p.held)
	return p.result
}

func (p *onePass) run(ctx context.Context) (RunOnceResult, error) {
	w, err := p.newWorker()
	if err != nil {
		return RunOnceResult{}, err
	}
	w.engine = p.engine(w)
	if !p.running.worker.CompareAndSwap(nil, w) {
		return RunOnceResult{}, ErrRunning
	}
	defer p.running.worker.Store(nil)
	p.end = time.Now().Add(p.Within)
	bounded, cancel := context.WithDeadline(ctx, p.end)
	defer cancel()
	if err := p.repository.Verify(bounded); err != nil {
		return RunOnceResult{}, err
	}
	p.agree(bounded)
	errs := []error{
		p.upkeep(bounded, engine.Task{Name: "release expired leases", Do: w.releaseExpired}),
		p.upkeep(bounded, engine.Task{Name: "compare zone rules", Do: p.followZonesOnce}),
		p.deliver(bounded, w.engine),
	}
	if p.Prune && p.retention > 0 {
		errs = append(errs, p.upkeep(bounded, engine.Task{Name: "prune ended events", Limit: time.Until(p.end) / 2, Do: w.prune}))
	}
	// After the deliveries: a handler that ends the process must not keep each pass from delivering.
	errs = append(errs, p.upkeep(bounded, engine.Task{Name: "plan stalled series", Do: w.planStalled}))
	if err := errors.Join(errs...); err != nil {
		return p.counted(), err
	}
	more, err := p.more(ctx)
	if more && err == nil && bounded.Err() == nil { // such as events of series that were planned
		p.running.wake()
		if err = p.deliver(bounded, w.engine); err == nil {
			more, err = p.more(ctx)
		}
	}
	result := p.counted()
	if result.More = more && err == nil; !result.More {
		p.running.again.forget()
	}
	return result, err
}

// deliver runs the engine until no event is due, the limit is reached, or ctx is done.
func (p *onePass) deliver(ctx context.Context, e *machine) error {
	return errors.Join(e.Run(ctx), p.Health().Claim.Err) // the last error is of a type that is refused
}

// upkeepShare limits each maintenance task to the pass's time divided by upkeepShare. Without that
// limit, long maintenance tasks would prevent every pass from delivering. By default, the share of
// each task is longer than the timeout of a store, so that a call that reaches it is noticed.
const upkeepShare = 6

// upkeep runs a maintenance task of Run.
func (p *onePass) upkeep(ctx context.Context, task engine.Task) error {
	share, cancel := context.WithTimeout(ctx, cmp.Or(task.Limit, p.Within/upkeepShare))
	defer cancel()
	err := unlessOver(share, task.Do(share))
	if errors.Is(share.Err(), context.DeadlineExceeded) {
		p.log.WarnContext(ctx, "maintenance of a pass was cut short", "task", task.Name)
		p.mu.Lock()
		p.result.CutShort = append(p.result.CutShort, task.Name)
		p.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", task.Name, err)
	}
	return nil
}

// unlessOver returns err, or nil if the time of the pass is over: the next pass continues the work.
func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// followZonesOnce compares zone rules as Run does. The scheduler remembers the time of
// the comparison from one pass to the next.
func (p *onePass) followZonesOnce(ctx context.Context) error {
	f := p.running.zones
	if f == nil {
		f = &zoneFollower{looked: make(map[string]time.Time)}
		p.running.zones = f
	}
	f.scheduler = p.scheduler
	return f.follow(ctx)
}

// engine returns the engine of the pass.
func (p *onePass) engine(w *worker) *machine {
	e := w.newEngine()
	e.Ahead.Window = 0
	e.Settings.Settlers, e.Settings.Once = 1, true
	e.Claim = exclusive(p.working, func(ctx context.Context, free int) ([]*job, error) {
		jobs, err := w.claim(ctx, min(free, p.left), 0)
		p.left -= len(jobs)
		return jobs, err
	})
	until := exclusive(p.working, func(ctx context.Context, due *bool) (wait time.Duration, err error) {
		if p.left > 0 {
			wait, *due, err = w.untilIfDue(ctx, func(wait time.Duration) bool { // leaves the tasks after it their time
				waits, _ := p.running.again.waits(wait)
				return waits && time.Now().Add(wait+p.Within/upkeepShare).Before(p.end)
			})
		}
		return wait, err
	})
	e.Until = func(ctx context.Context) (wait time.Duration, due bool, err error) {
		wait, err = until(ctx, &due)
		return wait, due, err
	}
	e.Settle, e.Leases.Renew = exclusive(p.working, e.Settle), exclusive(p.renewing, e.Leases.Renew)
	return e
}

// exclusive returns a function that calls f while no other call uses slot. It returns the
// context's error if ctx is done before that.
func exclusive[A, R any](slot chan struct{}, f func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, a A) (result R, err error) {
		select {
		case slot <- struct{}{}:
		case <-ctx.Done():
			return result, ctx.Err()
		}
		defer func() { <-slot }()
		return f(ctx, a)
	}
}

// untilIfDue reports whether an event is due, or is snoozed so briefly that the pass waits. It also
// returns how long it is until the event is due.
func (w *worker) untilIfDue(ctx context.Context, waits func(time.Duration) bool) (time.Duration, bool, error) {
	if len(w.types) == 0 {
		return 0, false, nil
	}
	wait, known, err := w.look(ctx)
	if err != nil || !known || wait <= 0 || waits(wait) {
		return max(wait, 0), known && err == nil, err
	}
	if wait > longestAgain {
		return wait, false, nil
	}
	limited, err := w.waitsForALane(ctx)
	return wait, limited, err
}

// more reports whether an event is due now, or is snoozed so briefly that the next pass waits.
func (p *onePass) more(ctx context.Context) (bool, error) {
	types := p.registry.EventTypes()
	if len(types) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.lease/6)
	defer cancel()
	wait, known, err := p.repository.Until(ctx, types, time.Time{})
	if waits, progress := p.running.again.waits(wait); err != nil || !known || wait <= 0 || waits && progress {
		return known, err
	}
	if wait > longestAgain {
		return false, nil
	}
	return p.waitsForALane(ctx)
}
