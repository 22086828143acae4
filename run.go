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

// running lets a scheduler wake the engines that run in the same process.
type running struct {
	lanes    atomic.Pointer[[]*lane] // nil unless the engines run
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

// wake makes all engines search from the beginning, because the caller does not know
// which events are available.
func (r *running) wake() {
	r.each(func(l *lane) { l.mark.reset() })
}

// wakeFor makes the engines search again after events were stored. It moves the marks
// back to the PENDING ones of them.
func (r *running) wakeFor(events ...Event) {
	r.each(func(l *lane) { l.mark.note(events...) })
}

// each calls update for every lane, and then wakes the lane's engine.
func (r *running) each(update func(*lane)) {
	lanes := r.lanes.Load()
	if lanes == nil {
		return
	}
	for _, l := range *lanes {
		update(l)
		l.engine.Wake()
	}
}

func (s *scheduler) Run(ctx context.Context) error {
	if s.inTransaction() {
		return fmt.Errorf("almanac: run: in a transaction: %w", errors.ErrUnsupported)
	}
	routes, err := s.routes()
	if err != nil {
		return err
	}
	lanes, owner := s.lanes(), owner()
	for i, l := range lanes {
		w := &worker{scheduler: s, lane: l, routes: routes, owner: owner, program: program.Own()}
		l.engine = w.newEngine()
		if i == 0 {
			l.engine.Tasks = w.maintenance()
		}
	}
	if !s.running.lanes.CompareAndSwap(nil, &lanes) {
		return ErrRunning
	}
	defer s.running.lanes.Store(nil)
	if err := s.verify(ctx); err != nil {
		return fmt.Errorf("almanac: run: %w", err)
	}

	if len(s.deliverers) == 0 && len(s.middleware) == 0 { // NewScheduler could not know whether this program delivers
		for _, err := range s.unwired(s.registry) {
			_ = s.miswired(ctx, err)
		}
	}
	s.log.InfoContext(ctx, "scheduler started", slog.String("owner", owner),
		slog.Any("event_types", s.registry.EventTypes()), slog.Int("workers", s.workers))
	s.agree(ctx)
	if _, err := s.Missed(ctx); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "missed events could not be counted", slog.Any("error", err))
	}
	err = s.runListening(ctx, lanes)
	if err != nil {
		s.log.ErrorContext(ctx, "scheduler stopped", slog.String("owner", owner), slog.Any("error", err))
		return fmt.Errorf("almanac: run: %w", err)
	}
	s.log.InfoContext(ctx, "scheduler stopped", slog.String("owner", owner))
	return nil
}

// runListening runs the engines, and listens for hints until they end.
func (s *scheduler) runListening(ctx context.Context, lanes []*lane) error {
	listening, stop := context.WithCancel(ctx)
	var listener, engines sync.WaitGroup
	listener.Go(func() { s.listen(listening) })
	defer listener.Wait()
	defer stop()
	errs := make([]error, len(lanes))
	for i, l := range lanes {
		engines.Go(func() { errs[i] = l.engine.Run(ctx) })
	}
	engines.Wait()
	return errors.Join(errs...)
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

// listen wakes the engines for each hint of the repository, until ctx is done. It logs the
// start and the end of an outage, not each failure. Without hints, it polls the pauses.
func (s *scheduler) listen(ctx context.Context) {
	pauses := new(pausePoll)
	for failures := 0; ctx.Err() == nil; {
		err := s.repository.Listen(ctx, func() {
			if failures > 0 {
				s.log.InfoContext(ctx, "hints of other processes are received again")
			}
			failures = 0
			s.running.wake()
		})
		if err == nil || ctx.Err() != nil {
			break
		}
		failures++
		if failures == 1 {
			s.log.WarnContext(ctx, "hints of other processes are not received, their events wait for the next poll", slog.Any("error", err))
		}
		s.pollPauses(ctx, pauses, time.After(listenAgain.Delay(failures, rand.Float64())))
	}
	s.pollPauses(ctx, pauses, nil)
}

// pausePoll lets a process that receives no hints notice the end of a pause. Events that
// waited for that end may be older than the mark, where polls do not look.
type pausePoll struct {
	seen     []Pause     // the pauses at the last query
	look     *time.Timer // fires when the next query is due; nil before the first query
	failures int         // in a row
}

// pollPauses wakes the engine when a pause ends, until enough fires or ctx is done. It queries the
// pauses as often as the engine polls. After a failure it waits as long as the next attempt to listen.
func (s *scheduler) pollPauses(ctx context.Context, w *pausePoll, enough <-chan time.Time) {
	if ctx.Err() != nil {
		return
	}
	if w.look == nil {
		w.look = time.NewTimer(max(s.poll, s.lookAtPauses(ctx, w)))
	}
	for {
		select {
		case <-w.look.C:
			w.look.Reset(max(s.poll, s.lookAtPauses(ctx, w)))
		case <-enough:
			return
		case <-ctx.Done():
			return
		}
	}
}

// lookAtPauses queries the pauses, and returns the least time until the next query.
func (s *scheduler) lookAtPauses(ctx context.Context, w *pausePoll) time.Duration {
	paused, err := s.repository.Paused(ctx)
	if err != nil {
		w.failures++
		return listenAgain.Delay(w.failures, rand.Float64())
	}
	if slices.ContainsFunc(w.seen, func(was Pause) bool { return !slices.Contains(paused, was) }) {
		s.running.wake()
	}
	w.seen, w.failures = paused, 0
	return 0
}
