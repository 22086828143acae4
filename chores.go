package almanac

import (
	"context"
	"log/slog"
	"time"

	"github.com/almanac-go/almanac/internal/engine"
)

const (
	pruneEvery = time.Hour
	prunePage  = 1000
)

// chores are what a running scheduler does beside delivering.
func (w *worker) chores() []engine.Chore {
	chores := []engine.Chore{
		{Name: "release expired leases", Every: w.sweep, Do: w.releaseExpired},
		{Name: "plan what was left to this program", Every: w.sweep, Do: w.planUnplanned},
		{Name: "look left of the mark", Every: max(w.sweep*5/6, time.Millisecond), Do: w.lookEverywhere},
		w.followZones(),
	}
	if w.retention > 0 {
		chores = append(chores, engine.Chore{Name: "prune ended events", Every: pruneEvery, Do: w.prune})
	}
	return chores
}

// lookEverywhere has the engine find what others have brought left of the mark. A
// chore is late by up to a fifth, and five sixths of a sweep are then a whole one.
func (w *worker) lookEverywhere(context.Context) error {
	w.running.wake()
	return nil
}

// prune deletes what ended longer ago than the retention, a page at a time.
func (w *worker) prune(ctx context.Context) error {
	now, err := w.repository.Now(ctx)
	if err != nil {
		return err
	}
	before, pruned := now.Add(-w.retention), 0
	for page := (Page{Limit: prunePage}); ; {
		gone, err := w.repository.Prune(ctx, before, page)
		if err != nil {
			return err
		}
		pruned += gone.Count
		if page.After = gone.Next; page.After == "" {
			break
		}
	}
	if pruned > 0 {
		w.log.InfoContext(ctx, "ended events pruned", slog.Int("count", pruned), slog.Time("before", before))
	}
	return nil
}
