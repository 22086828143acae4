package almanac

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync/atomic"
)

// running lets planners wake the engine that runs in the same process.
type running struct{ engine atomic.Pointer[machine] }

func (r *running) wake() {
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

	s.log.InfoContext(ctx, "scheduler started", slog.String("owner", w.owner),
		slog.Any("event_types", w.types), slog.Int("workers", s.workers))
	if _, err := s.Missed(ctx); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "missed events could not be counted", slog.Any("error", err))
	}
	err = e.Run(ctx)
	s.log.InfoContext(ctx, "scheduler stopped", slog.String("owner", w.owner), slog.Any("error", err))
	if err != nil {
		return fmt.Errorf("almanac: run: %w", err)
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
