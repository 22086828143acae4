package dashboard

import (
	"log/slog"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// laneWait is what an event waits for, and when it starts by an estimate.
type laneWait struct {
	ops.LaneWait
	Start estimate
	Now   bool // whether its lane has room
}

// Paused returns the pause that holds the event, or nil.
func (w laneWait) Paused() *almanac.Pause {
	for _, p := range []almanac.Pause{w.Type, w.In.Pause, w.Lane.Pause} {
		if p.Lane != "" {
			return &p
		}
	}
	return nil
}

// Failing returns the breaker that holds the event, or nil.
func (w laneWait) Failing() *almanac.Breaker {
	for _, b := range []almanac.Breaker{w.In.Breaker, w.Lane.Breaker} {
		if b.Allowed > 0 {
			return &b
		}
	}
	return nil
}

// waitOf returns what an event waits for, or nil. A page without it is better than no page.
func (d *dashboard) waitOf(r *request, e almanac.Event) *laneWait {
	w, err := d.reader.LaneWait(r.Context(), e)
	if err != nil {
		d.log.ErrorContext(r.Context(), "Dashboard lane failed", slog.String("route", r.Pattern), slog.Any("error", err))
		return nil
	}
	start, waits := w.Start()
	if !waits {
		return nil
	}
	return &laneWait{w, estimate{start}, !start.At.IsZero() && !start.At.After(w.At)}
}
