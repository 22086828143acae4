package almanac

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/backoff"
	"github.com/almanac-go/almanac/internal/engine"
	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/isolate"
	"github.com/almanac-go/almanac/internal/program"
)

// Runner executes the planned events, in one process.
type Runner interface {
	// Run claims and executes events until ctx is done. Then it claims nothing more and
	// lets running deliveries finish for as long as [WithDrain] says. It cancels the
	// deliveries that take longer, releases their events, stores every outcome and returns
	// nil. Run waits for every goroutine that it started, except for deliveries that ignore
	// their context. If there are such deliveries, it returns an error that counts them.
	//
	// An event starts at its instant by the repository's clock, never before. If the repository
	// supports it (see [ClaimRepository].Confirm), Run claims an event a moment before its instant,
	// so the event is PROCESSING before it starts. At the instant, Run confirms that the event is
	// unchanged. So edits and deletions before the instant still take effect (see [WithLookAhead]).
	//
	// Run learns of events that other processes store from the repository's hints (see
	// [Repository].Listen). Without hints it finds them at the next poll (see [WithPoll]).
	//
	// Only one Run of a scheduler is active at a time: a second call returns [ErrRunning]. In a
	// transaction of the host, the error matches [errors.ErrUnsupported]. If the repository
	// lacks a migration of this release, Run claims nothing, and the error matches
	// [ErrOutdated]. A newer schema is no error. While the repository is silent, Run waits.
	Run(ctx context.Context) error

	// RunOnce makes one bounded pass of the work that Run does, for hosts that a cron or a function service
	// starts. It releases the events of expired leases and compares zone rules. Then it claims and executes
	// due events until no event is due, the limit is reached, or the time of the pass is over. Last, if time
	// is left, it plans the successors that other programs left to this one (see [CancelResult]), and
	// delivers those that are due. It returns how many events had which outcome. When ctx ends, the pass ends
	// as Run does: deliveries that finish within [WithDrain] are stored, and the other events are released.
	//
	// A failed event is tried again by a later pass, or by this pass if the retry becomes due while
	// other events still run. The pass tries an event once more that it snoozed for at most a minute, and
	// goes on so while such events end or fail. The limits of a [Lane] apply, so a pass may wait for them. RunOnce
	// uses at most two connections at a time, and works with one. It does not listen for hints and
	// does not look ahead. Any number of passes and of Runs can use one database.
	//
	// The error is a [*ValidationError] if an option is out of range. It matches
	// [ErrOutdated] as for Run, [ErrRunning] while another Run or pass of this scheduler
	// is active, and [errors.ErrUnsupported] in a transaction of the host. After any
	// other error, the result still counts what was done, and the next pass continues.
	RunOnce(ctx context.Context, o RunOnceOptions) (RunOnceResult, error)

	// Missed counts the events that have been ready for longer than the grace (see
	// [WithMissedGrace]), as after a downtime, and logs the count. Missed events need no
	// action, because Run executes them, oldest first. Run calls Missed when it starts.
	Missed(ctx context.Context) (Missed, error)

	// FindMissed returns up to limit of the events that Missed counts, oldest first, which
	// is the order in which Run executes them. The limit is 1 to 1,000. Zero means 1,000.
	// Any other limit is a [*ValidationError]. FindMissed changes nothing and logs nothing.
	FindMissed(ctx context.Context, limit int) ([]Event, error)

	// Health returns the present condition of Run. It makes no call to the repository, so it is cheap
	// and cannot fail. It is the same for all schedulers that [Scheduler].With made from one another.
	Health() Health
}

// running lets a scheduler wake the engines that run in the same process.
type running struct {
	worker   atomic.Pointer[worker] // nil unless the engine runs
	miswired miswired
	zones    *zoneFollower // of RunOnce; only the active pass uses it
	host     *isolate.Group
	stalled  engine.CallSize // of planStalled, which alone uses it; passes of RunOnce continue with it
	releases engine.CallSize // of releaseExpired, likewise
	alone    atomic.Int64    // when the reservation for an event tried alone ends, in nanoseconds since 1970; zero if there is none
	again    again           // whether passes of RunOnce wait for snoozed events
}

// miswired has the missing deliverers that were logged.
type miswired struct {
	logged sync.Map // of noDelivererError
	count  atomic.Int64
}

// maxMiswired bounds miswired, because a handler may read channels from payloads.
const maxMiswired = 100

// isNew reports whether err is to be logged, and notes that.
func (m *miswired) isNew(err noDelivererError) bool {
	if m.count.Load() >= maxMiswired {
		return false
	}
	_, logged := m.logged.LoadOrStore(err, true)
	return !logged && m.count.Add(1) <= maxMiswired
}

// wake makes the engine search from the beginning, because the caller does not know
// which events are available.
func (r *running) wake() {
	if w := r.worker.Load(); w != nil {
		w.mark.reset()
		w.engine.Wake()
	}
}

// wakeFor makes the engine search again after events were stored. It moves the mark
// back to the PENDING ones of them.
func (r *running) wakeFor(events ...Event) {
	if w := r.worker.Load(); w != nil {
		w.mark.note(events...)
		w.engine.Wake()
	}
}

// newWorker returns a worker without its engine.
func (s *scheduler) newWorker() (*worker, error) {
	routes, err := s.routes()
	return &worker{scheduler: s, types: s.registry.EventTypes(), routes: routes, identity: identity{owner(), program.Own()}, memory: workerMemory{batches: make(chan *batchMemory, settlers)}}, err
}

func (s *scheduler) Run(ctx context.Context) error {
	if s.inTransaction() {
		return fmt.Errorf("almanac: run: in a transaction: %w", errors.ErrUnsupported)
	}
	w, err := s.newWorker()
	if err != nil {
		return err
	}
	w.engine = w.newEngine()
	w.engine.Tasks = w.maintenance()
	if !s.running.worker.CompareAndSwap(nil, w) {
		return ErrRunning
	}
	defer s.running.worker.Store(nil)
	if err := s.verify(ctx); err != nil {
		return fmt.Errorf("almanac: run: %w", err)
	}

	if len(s.deliverers) == 0 && len(s.middleware) == 0 { // NewScheduler could not know whether this program delivers
		for _, err := range s.unwired(s.registry) {
			_ = s.miswired(ctx, err)
		}
	}
	s.log.InfoContext(ctx, "scheduler started", slog.String("owner", w.owner),
		slog.Any("event_types", s.registry.EventTypes()), slog.Int("workers", s.workers))
	s.agree(ctx)
	if _, err := s.Missed(ctx); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "missed events could not be counted", slog.Any("error", err))
	}
	err = s.runListening(ctx, w.engine)
	if err != nil {
		s.log.ErrorContext(ctx, "scheduler stopped", slog.String("owner", w.owner), slog.Any("error", err))
		return fmt.Errorf("almanac: run: %w", err)
	}
	s.log.InfoContext(ctx, "scheduler stopped", slog.String("owner", w.owner))
	return nil
}

// runListening runs the engine, and listens for hints until it ends.
func (s *scheduler) runListening(ctx context.Context, e *machine) error {
	listening, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() { s.listen(listening) })
	defer listener.Wait()
	defer stop()
	return e.Run(ctx)
}

// verify waits until the repository answers whether this program can work on it, or until ctx
// is done. It tries again after other errors, because a program may start before its database.
func (s *scheduler) verify(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := s.repository.Verify(ctx)
		if err == nil || errors.Is(err, ErrOutdated) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		s.log.WarnContext(ctx, "the repository cannot be verified yet", slog.Any("error", err))
		select {
		case <-time.After(tryAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
	}
}

// layoutMillis is RFC 3339 with milliseconds, for the log line below.
const layoutMillis = "2006-01-02T15:04:05.000Z07:00"

func (s *scheduler) Missed(ctx context.Context) (Missed, error) {
	s.log.InfoContext(ctx, "Starting recovery check")
	m, err := s.repository.Missed(ctx, s.registry.EventTypes(), s.grace)
	if err != nil {
		return Missed{}, err
	}
	if m.Count == 0 {
		s.log.InfoContext(ctx, "No missed events found")
		return m, nil
	}
	s.log.InfoContext(ctx, "Missed events found", slog.Int("count", m.Count),
		slog.String("oldest_event_timestamp", m.Oldest.Format(layoutMillis)),
		slog.String("newest_event_timestamp", m.Newest.Format(layoutMillis)))
	return m, nil
}

func (s *scheduler) FindMissed(ctx context.Context, limit int) ([]Event, error) {
	return s.repository.FindMissed(ctx, s.registry.EventTypes(), s.grace, limit)
}

// deliverer returns the Deliverer that makes the attempts at a handler's events.
func (s *scheduler) deliverer(h EventHandler) Deliverer {
	var d Deliverer = byChannel{s, h}
	if x, ok := h.(Executor); ok {
		d = DelivererFunc(x.Execute)
	}
	for _, around := range slices.Backward(s.middleware) {
		d = around(d)
	}
	return d
}

// byChannel delivers the events of a handler by the deliverers of their channels.
type byChannel struct {
	*scheduler
	handler EventHandler
}

func (c byChannel) Deliver(ctx context.Context, d Delivery) error {
	deliverer, err := c.of(ctx, &d)
	if err != nil {
		return err
	}
	return deliverer.Deliver(ctx, d)
}

// of returns the deliverer of an event.
func (c byChannel) of(ctx context.Context, d *Delivery) (Deliverer, error) {
	channel := c.handler.Channel(d.Event)
	deliverer, ok := c.deliverers[channel]
	if !ok {
		return nil, c.miswired(ctx, &noDelivererError{d.Event.Type, channel})
	}
	return deliverer, refusedBy(c.handler, d, channel)
}

// refusedBy returns an error if the user has opted out of an event by a channel.
func refusedBy(h EventHandler, d *Delivery, by Channel) error {
	if len(d.User.OptOuts) > 0 && !d.Event.Origin.Forced && d.User.refuses(d.Event, by, d.At) && !givenExecution(h).OverrideOptOuts {
		return NotOwed(ReasonOptedOut)
	}
	return nil
}

// refusedThen returns an error if the user has opted out of an event by its channel.
func refusedThen(h EventHandler, j *job, at time.Time) error {
	if _, itself := h.(Executor); itself || len(j.user.OptOuts) == 0 {
		return nil
	}
	return refusedBy(h, &Delivery{Event: j.event, User: j.user, At: at}, h.Channel(j.event))
}

// miswired logs a missing deliverer once for each type and channel, and returns err.
func (s *scheduler) miswired(ctx context.Context, err *noDelivererError) error {
	err.Channel = Channel(excerpt.Of(string(err.Channel), maxChannel))
	if s.running.miswired.isNew(*err) {
		s.log.ErrorContext(ctx, "events cannot be delivered: their channel has no deliverer",
			slog.String("event_type", err.EventType), slog.String("channel", string(err.Channel)))
	}
	return err
}

// owner returns a name for the holder of a lease, which operators can read. The random
// part makes the name unique where containers share host names and process ids.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%08x", excerpt.Of(host, 100), os.Getpid(), rand.Uint32())
}

// zoneRelease returns the release of this program's zone data, such as "2026f", or an
// empty text if the data does not name it. The release can change while the program runs. The
// zone UTC itself needs no data, so it has no release.
func zoneRelease(now time.Time) string {
	rules, err := calendar.StoredTimezone("Etc/UTC").Rules(now.Year())
	if err != nil {
		return ""
	}
	return rules.Version
}

// listenAgain has the waits after Listen has failed. Behind some poolers Listen always
// fails, so the attempts must become rare.
var listenAgain = backoff.Exponential{First: 100 * time.Millisecond, Max: time.Minute, Factor: 2, Jitter: 0.2}

// listen wakes the engine for each hint of the repository, until ctx is done. It logs the
// start and the end of an outage, not each failure.
func (s *scheduler) listen(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		err := s.repository.Listen(ctx, func() {
			if failures > 0 {
				s.log.InfoContext(ctx, "hints of other processes are received again")
			}
			failures = 0
			s.running.wake()
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		failures++
		if failures == 1 {
			s.log.WarnContext(ctx, "hints of other processes are not received, their events wait for the next poll", slog.Any("error", err))
		}
		select {
		case <-time.After(listenAgain.Delay(failures, rand.Float64())):
		case <-ctx.Done():
		}
	}
}
