package almanac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/backoff"
	"github.com/almanac-go/almanac/internal/engine"
)

const (
	maxClaim     = 2000                   // the most events in one claim, which takes about 40 ms; all of them wait for its end
	settleBatch  = 500                    // the most outcomes in one transaction
	settlers     = 2                      // concurrent transactions that store outcomes: one works while the other waits
	settleLinger = time.Millisecond       // how long an outcome waits for others to fill a batch
	stuckAfter   = 5 * time.Second        // how long a delivery may ignore the end of its context
	admittedFor  = 250 * time.Millisecond // how long after its admission an event of a lane with limits may start
	sweepEvents  = 2000                   // the most events of expired leases to release in one transaction
)

// machine is the engine that runs events.
type machine = engine.Engine[*job]

// job is one claimed event.
type job struct {
	event   Event
	user    User
	route   *route
	clock   clock
	early   bool // whether the event was claimed before its instant
	of      admission
	answer  *Answer // for the breaker of its lane, if it has one
	outcome Outcome // once it is done
	alone   int64   // the value that this job stored in running.alone; zero if none
	// Why the successor or the follow-ups are not planned: the host's code panicked, ended its goroutine or blocked.
	nextLost, followLost error
}

// worker gives the engine its functions: claim, do, settle.
type worker struct {
	*scheduler
	engine *machine
	types  []string
	routes map[string]*route
	identity
	database databaseClock
	lead     lead
	mark     mark
	attempts
	answered answered
	refused  attempts // to claim: the types of which the repository refuses an event; only the claimer changes it
	memory   workerMemory
}

// identity names the process, for operators.
type identity struct {
	owner   string
	program string // the name and version of the program
}

// tryAgain has the waits after failed calls to the repository.
var tryAgain = backoff.Exponential{First: 100 * time.Millisecond, Max: 5 * time.Second, Factor: 2, Jitter: 0.2}

func (w *worker) newEngine() *machine {
	return &machine{
		Claim:  func(ctx context.Context, free int) ([]*job, error) { return w.claim(ctx, free, 0) },
		Ahead:  w.ahead(),
		Until:  w.until,
		Do:     w.do,
		Limit:  func(j *job) time.Duration { return j.route.execution.AttemptTimeout },
		Exited: w.exited,
		Settle: w.settle,
		Leases: engine.Leases[*job]{
			Key:   func(j *job) engine.Key { return engine.Key(j.event.LeaseToken) },
			Renew: w.renew,
			TTL:   w.lease,
		},
		Settings: engine.Settings{
			Slots: w.workers, MaxClaim: maxClaim, Batch: settleBatch, Settlers: settlers, Linger: settleLinger,
			Poll: w.poll, Drain: w.drain, Abandon: stuckAfter,
			Backoff: func(failures int) time.Duration { return tryAgain.Delay(failures, rand.Float64()) },
		},
		Log: w.log,
	}
}

// renew renews leases, whose keys are their tokens, and returns those that are still held.
func (w *worker) renew(ctx context.Context, keys []engine.Key) (held []engine.Key, err error) {
	tokens := make([]uuid.UUID, len(keys))
	for i, k := range keys {
		tokens[i] = uuid.UUID(k)
	}
	kept, err := w.repository.Renew(ctx, tokens, w.lease)
	for _, token := range kept {
		held = append(held, engine.Key(token))
	}
	return held, err
}

// claim claims events that are due, or will be due within ahead, at most as many as are free. If the database refuses
// the claim of a single type, claim tries half as many, and so finds the events before the refused one.
func (w *worker) claim(ctx context.Context, free int, ahead time.Duration) (jobs []*job, err error) {
	err = w.apart(ctx, func(types []string) error {
		for n := free - len(jobs); ; n /= 2 {
			more, err := w.claimOf(ctx, types, n, ahead)
			jobs = append(jobs, more...)
			if n < 2 || len(types) > 1 || !isRefused(err) {
				return err
			}
		}
	})
	return jobs, err
}

// claimOf claims events of some types of the lane. A claim of one of several types leaves the mark, which
// is about all of them. The other types may have moved the mark past events of a type that was refused. So a
// claim that has such a type again begins at the beginning, and only its success ends the refusal.
func (w *worker) claimOf(ctx context.Context, types []string, free int, ahead time.Duration) ([]*job, error) {
	asked := time.Now()
	if len(types) == 0 || free == 0 {
		return nil, nil
	}
	from := &w.mark
	if len(types) == 1 && len(w.types) > 1 {
		from = new(mark)
	} else if slices.ContainsFunc(types, func(t string) bool { return w.refused.failing[t].times > 0 }) {
		w.mark.reset()
	}
	request := ClaimRequest{
		Token: uuid.New(), Owner: w.owner, Program: w.program, ZoneData: zoneRelease(asked),
		Types: types, Limit: free, Lease: w.lease, Mark: from.look(), Ahead: ahead, Memory: w.memory.claim,
	}
	w.memory.claim = nil // after an error, the repository may still write to it
	claimed, err := w.repository.Claim(ctx, request)
	m := Measurement{Kind: MeasuredClaim, Total: time.Since(asked), BatchSize: free, Ahead: ahead > 0, Err: err}
	if err == nil {
		m.Query, m.Found = claimed.Query, len(claimed.Events)
	}
	w.measure(ctx, m)
	w.logClaim(ctx, m)
	if err != nil {
		w.mark.failed(request.Mark, m.Total, err)
		if !safeToRetry(err) {
			err = errors.Join(err, w.disown(ctx, request.Token))
		}
		return nil, err
	}
	from.advance(request, claimed)
	for t := range w.refused.failing {
		if len(types) > 1 && slices.Contains(types, t) {
			w.refused.note(t, nil)
		}
	}
	observed := w.database.set(claimed.At, asked)
	if ahead > 0 && len(claimed.Events) > 0 {
		observed = w.setClock(ctx, observed, claimed.At)
	}
	jobs, due := w.memory.jobs.take(len(claimed.Events)), make([]*job, 0, len(claimed.Events))
	for i := range claimed.Events {
		e := &claimed.Events[i]
		jobs[i].event, jobs[i].user, jobs[i].route, jobs[i].clock = *e, claimed.Users[e.UserID], w.routes[e.Type], observed
		jobs[i].early = firstAvailable(e).After(e.UpdatedAt)
		if jobs[i].of = admittedBy(claimed, e.ID); !jobs[i].of.asked.IsZero() { // after the other events were claimed
			jobs[i].clock = w.database.set(e.UpdatedAt, jobs[i].of.asked)
		}
		if !jobs[i].early {
			due = append(due, jobs[i])
		}
	}
	w.memory.claim = &claimed
	w.notifyClaimed(ctx, due)
	return jobs, nil
}

// setClock updates the database clock by a query that returns at once. A claim of many events takes tens
// of milliseconds, so its answer says little about the present time, and events claimed ahead would start
// late. After an error, or if the database's clock was set back since the claim, it stays as it was.
func (w *worker) setClock(ctx context.Context, was clock, claimed time.Time) clock {
	asked := time.Now()
	at, err := w.repository.Now(ctx)
	if err != nil || at.Before(claimed) {
		return was
	}
	return w.database.set(at, asked)
}

// until returns how long until the next event is due and its lane has room.
func (w *worker) until(ctx context.Context) (time.Duration, bool, error) {
	if len(w.types) == 0 {
		return 0, false, nil
	}
	return w.look(ctx)
}

// look returns how long until the next event is due. If a search from the beginning finds
// a due event, the next claim searches from there too.
func (w *worker) look(ctx context.Context) (wait time.Duration, known bool, err error) {
	from, asked := w.mark.look(), time.Now()
	err = w.apart(ctx, func(types []string) error {
		next, any, err := w.repository.Until(ctx, types, from)
		if any && (!known || next < wait) {
			wait, known = next, true
		}
		return err
	})
	switch {
	case !from.IsZero():
	case err != nil:
		w.mark.failed(from, time.Since(asked), err)
	case known && wait <= 0:
		w.mark.reset()
	default:
		w.searched()
	}
	return wait, known, err
}

// do does one event, and returns it with its outcome. Its context ends when the attempt has taken too long.
// It returns false if the event waits in a batch, which then returns it.
func (w *worker) do(ctx context.Context, j *job, later engine.Later[*job]) (*job, bool) {
	outcome := w.attemptAlone(ctx, j, later)
	if outcome.Status == "" { // the batch may have returned the job already, and another event may have it
		return nil, false
	}
	j.outcome = outcome
	return j, true
}

// attempt checks and delivers one event. The zero Outcome means that the event waits in a batch.
func (w *worker) attempt(ctx context.Context, j *job, later engine.Later[*job]) Outcome {
	if outcome, ready := w.ready(j); !ready {
		return outcome
	}
	attempt := j.event.RetryCount + 1
	w.logExecution(ctx, &j.event, attempt)
	started, begun := j.starting(ctx)
	d := Delivery{j.event, j.user, attempt, j.clock.now()}
	if direct, ok := j.route.deliver.(byChannel); ok {
		deliverer, err := direct.of(ctx, &d)
		if err != nil {
			return w.outcomeAfter(ctx, j, err)
		}
		if b, ok := deliverer.(*batches); ok {
			b.add(started, &d, batchEnd{w, j, later, begun})
			return Outcome{}
		}
	}
	err := j.route.deliver.Deliver(started, d)
	w.noteLate(ctx, j, begun)
	return w.outcomeAfter(ctx, j, err)
}

// outcomeAfter returns the outcome of an attempt that returned err.
func (w *worker) outcomeAfter(ctx context.Context, j *job, err error) Outcome {
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
			// Not a failure of the event: the process stops, or the lease is lost.
			return Released(AfterShutdown, cause.Error(), 0)
		}
	}
	w.note(cmp.Or(j.event.Lane, j.event.Type), err)
	j.answer = j.answerOf(err)
	return j.outcomeOf(err)
}

// ready reports whether an event may be delivered now. If not, it returns the outcome.
func (s *scheduler) ready(j *job) (Outcome, bool) {
	if j.user.ID == uuid.Nil {
		return Released(AfterShutdown, ReasonUserDeleted, 0), false // as FAILED
	}
	if len(j.user.OptOuts) > 0 && !j.event.Origin.Forced && unwantedThen(j.route.handler, j.user, j.event, j.clock.now()) {
		return CalledOff(ReasonOptedOut), false
	}
	if j.waitedAfterAdmission() > admittedFor {
		return Released(AfterSnooze, "its lane admitted it too long ago", 0), false
	}
	if lane := j.laneSince(); lane != "" {
		return j.outcomeOf(InLane(lane)), false
	}
	if s.window != nil {
		if end, quiet := s.quietUntil(j, j.clock.now()); quiet {
			return Released(AfterSnooze, "quiet hours until "+end.UTC().Format(time.RFC3339), end.Sub(j.clock.now())), false
		}
	}
	if len(j.route.checks) > 0 { // each would get a copy of the event
		if err := j.route.checks.First(j.event, j.clock.now()); err != nil {
			if outcome, asked := askedFor(err); asked {
				return outcome, false
			}
			return gaveUp(failureOf(err), err), false
		}
	}
	return Outcome{}, true
}

// exited returns an event whose delivery panicked or ended its goroutine, with its outcome.
func (w *worker) exited(j *job, cause any, stack []byte) *job {
	err := errors.New("delivery ended its goroutine")
	if cause != nil {
		err = fmt.Errorf("delivery panicked: %v", cause)
	}
	w.log.LogAttrs(context.Background(), slog.LevelError, "delivery did not return",
		append(eventAttrs(j.event), slog.Any("error", err), slog.String("stack", string(stack)))...)
	w.note(cmp.Or(j.event.Lane, j.event.Type), err)
	j.outcome = j.outcomeOf(err)
	return j
}

// outcomeOf returns the outcome of an attempt that returned err.
func (j *job) outcomeOf(err error) Outcome {
	if err == nil {
		return Delivered(j.clock.now())
	}
	if outcome, asked := askedFor(err); asked {
		return outcome
	}
	if moved, ok := errors.AsType[*laneError](err); ok {
		if lane, fits := moved.to(j.event); fits {
			return Outcome{Status: Pending, Cause: AfterSnooze, Reason: moved.Error(), Delay: time.Second, Lane: lane}
		}
	}
	policy, tried := j.route.execution.RetryPolicy, j.event.RetryCount+1
	switch {
	case errors.Is(err, ErrPermanent):
		return gaveUp(FailedPermanent, err)
	case tried >= policy.Attempts:
		return gaveUp(FailedAttempts, err)
	}
	exponential := backoff.Exponential{First: policy.First, Max: policy.Max, Factor: policy.Factor, Jitter: policy.Jitter}
	random := rand.Float64()
	delay := exponential.Delay(tried, random)
	if asked, ok := errors.AsType[*retryAfterError](err); ok {
		delay = max(delay, exponential.Asked(asked.delay, random))
	}
	return Released(AfterFailure, err.Error(), delay)
}

// askedFor returns the outcome for which err asks, by Snooze or NotOwed, if it does.
func askedFor(err error) (Outcome, bool) {
	if snoozed, ok := errors.AsType[*snoozeError](err); ok {
		return Released(AfterSnooze, snoozed.Error(), snoozed.delay), true
	}
	if notOwed, ok := errors.AsType[*notOwedError](err); ok {
		return CalledOff(notOwed.reason), true
	}
	return Outcome{}, false
}
