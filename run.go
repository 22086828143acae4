package almanac

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// running lets planners wake the engine that runs in the same process.
type running struct {
	engine atomic.Pointer[machine]
	mark   mark
}

// wake has the engine look again, everywhere: nothing is known of what there is.
func (r *running) wake() {
	r.mark.reset()
	r.hint()
}

// wakeFor has the engine look again after events were stored: those that are
// PENDING are what there is.
func (r *running) wakeFor(events ...Event) {
	r.mark.tell(events...)
	r.hint()
}

func (r *running) hint() {
	if e := r.engine.Load(); e != nil {
		e.Wake()
	}
}

func (s *scheduler) Run(ctx context.Context) error {
	routes, err := s.routes()
	if err != nil {
		return err
	}
	w := &worker{scheduler: s, routes: routes, types: s.registry.EventTypes(), owner: owner()}
	e := w.engine()
	if !s.running.engine.CompareAndSwap(nil, e) {
		return ErrRunning
	}
	defer s.running.engine.Store(nil)
	if err := s.verify(ctx); err != nil {
		return fmt.Errorf("almanac: run: %w", err)
	}

	s.log.InfoContext(ctx, "scheduler started", slog.String("owner", w.owner),
		slog.Any("event_types", w.types), slog.Int("workers", s.workers))
	if _, err := s.Missed(ctx); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "missed events could not be counted", slog.Any("error", err))
	}
	err = s.runListening(ctx, e)
	s.log.InfoContext(ctx, "scheduler stopped", slog.String("owner", w.owner), slog.Any("error", err))
	if err != nil {
		return fmt.Errorf("almanac: run: %w", err)
	}
	return nil
}

// runListening runs the engine, and listens for as long as it claims.
func (s *scheduler) runListening(ctx context.Context, e *machine) error {
	hearing, stop := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() { s.listen(hearing) })
	defer listener.Wait()
	defer stop()
	return e.Run(ctx)
}

// verify returns when the repository has said that this program can work on it, or
// cannot, or when ctx is done. Other errors are tried again, as they are while Run
// claims: a program may start before its database does.
func (s *scheduler) verify(ctx context.Context) error {
	v, able := s.repository.(Verifier)
	for failures := 1; able; failures++ {
		err := v.Verify(ctx)
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
	return nil
}

// layoutMillis is RFC 3339 with milliseconds, as the log line below has it.
const layoutMillis = "2006-01-02T15:04:05.000Z07:00"

func (s *scheduler) Missed(ctx context.Context) (Missed, error) {
	m, err := s.repository.Missed(ctx, s.registry.EventTypes(), s.grace)
	if err != nil {
		return Missed{}, err
	}
	if m.Count == 0 {
		s.log.InfoContext(ctx, "No missed events found")
		return m, nil
	}
	s.log.InfoContext(ctx, "Missed events found", slog.Int("count", m.Count),
		slog.String("oldestEventTimestamp", m.Oldest.Format(layoutMillis)),
		slog.String("newestEventTimestamp", m.Newest.Format(layoutMillis)))
	return m, nil
}

// owner tells people which process holds a lease. The random part makes it unique
// where containers share names and process ids.
func owner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s/%d/%08x", clip(host, 100), os.Getpid(), rand.Uint32())
}
