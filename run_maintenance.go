package almanac

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/engine"
)

const (
	pruneEvery = time.Hour
	prunePage  = 1000
)

// maintenance returns the tasks that a running scheduler does besides delivering.
func (w *worker) maintenance() []engine.Task {
	tasks := []engine.Task{
		{Name: "release expired leases", Every: w.sweep, Do: w.releaseExpired},
		{Name: "plan what was left to this program", Every: w.sweep, Do: w.planUnplanned},
		{Name: "look left of the mark", Every: max(w.sweep*5/6, time.Millisecond), Do: w.lookEverywhere},
		w.followZones(),
	}
	if w.retention > 0 {
		tasks = append(tasks, engine.Task{Name: "prune ended events", Every: pruneEvery, Do: w.prune})
	}
	return tasks
}

// lookEverywhere makes the engines search from the beginning. A task starts up to a fifth
// late, so five sixths of a sweep are at most one sweep.
func (w *worker) lookEverywhere(context.Context) error {
	w.running.wake()
	return nil
}

// prune deletes the events that ended longer ago than the retention, one page at a time.
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

// planUnplanned plans the successors that programs without a handler left to this one,
// when they cancelled the last event of a series.
func (w *worker) planUnplanned(ctx context.Context) error {
	var errs []error
	for _, eventType := range w.registry.EventTypes() {
		h, err := w.registry.Handler(eventType)
		if err == nil {
			err = w.planUnplannedOf(ctx, h)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// planUnplannedOf plans the successors of one type, one page of users at a time.
func (w *worker) planUnplannedOf(ctx context.Context, h EventHandler) error {
	zones, err := w.zoneView(ctx)
	if err != nil {
		return err
	}
	for page := (Page{Limit: maxPage}); ; {
		var refused []Refusal
		added, err := w.repository.AddSuccessors(ctx, h.EventType(), page, func(users []UserSeries, now time.Time) ([]Event, []uuid.UUID, error) {
			var events []Event
			var again []uuid.UUID
			refused = nil
			for _, one := range users {
				next, err := planWaiting(h, one, now)
				if err != nil {
					refused, again = append(refused, Refusal{UserID: one.User.ID, Err: err}), append(again, one.User.ID)
				}
				events = append(events, next...)
			}
			return zones.stampAll(events), again, nil
		})
		if err != nil {
			return err
		}
		for _, r := range refused {
			w.log.WarnContext(ctx, "successor not planned", slog.String("event_type", h.EventType()),
				slog.String("user_id", r.UserID.String()), slog.Any("error", r.Err))
		}
		w.notifyEvents(ctx, EventCreated, added.Events)
		w.running.wakeFor(added.Events...)
		if page.After = added.Next; page.After == "" {
			return nil
		}
	}
}

// planWaiting plans the next event of each waiting series of a user. A series that the
// user no longer has is left unchanged.
func planWaiting(h EventHandler, one UserSeries, now time.Time) ([]Event, error) {
	list, err := seriesFor(h, one.User)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(s oneSeries) bool {
		_, waits := one.Used[s.id()]
		return !waits
	})
	return firsts(list, nil, Roster{User: one.User, Used: one.Used, Now: now})
}

// zoneFollower is the maintenance task that keeps events in line with zone data. It
// notices when the program's zone data is replaced, and when programs with other zone
// data plan events.
type zoneFollower struct {
	*scheduler
	checked time.Time            // when zone data was last loaded, by the repository's clock
	every   time.Duration        // the time until it is loaded again
	doubts  map[string]time.Time // the rechecks that remained after that, by zone
}

func (s *scheduler) followZones() engine.Task {
	f := &zoneFollower{scheduler: s}
	return engine.Task{Name: "compare zone rules", Every: min(s.zoneCheck, max(s.sweep, zoneLook)), Limit: s.zoneCheck, Do: f.follow}
}

// follow checks zone rules when the interval is over, or when the repository has marks or
// rechecks.
func (f *zoneFollower) follow(ctx context.Context) error {
	_, book, err := f.readZones(ctx)
	if err != nil {
		return err
	}
	since := book.Now.Sub(f.checked)
	if f.checked.IsZero() || since < 0 || since >= f.every {
		return f.check(ctx, true)
	}
	if len(book.Marks) > 0 || f.isInDoubt(book) {
		return f.check(ctx, false)
	}
	return nil
}

// isInDoubt reports whether pending events need a check: a recheck is new, or its time
// has passed so that a check can end it.
func (f *zoneFollower) isInDoubt(book ZoneBook) bool {
	for _, rules := range book.Rules {
		if rules.Recheck.IsZero() || f.doubts[rules.Zone].Equal(rules.Recheck) && !rules.Recheck.Before(book.Now) {
			continue
		}
		z := calendar.StoredTimezone(rules.Zone)
		if _, err := z.Rules(book.Now.Year()); err != nil {
			continue
		}
		if _, verdict := judge(z, &rules, book.Now.Year(), false); verdict == doubted {
			return true
		}
	}
	return false
}

// check compares zone rules, and updates pending events. If anew is true, it loads the
// zone data again first.
func (f *zoneFollower) check(ctx context.Context, anew bool) error {
	var reloaded error
	if anew {
		reloaded = calendar.OwnZoneData().Refresh()
	}
	r, err := f.Reconcile(ctx, ReconcileOptions{})
	for _, z := range r.Zones {
		if z.Moved+z.Left > 0 {
			f.log.InfoContext(ctx, "zone rules changed", slog.String("zone", z.Zone), slog.String("version", z.Version),
				slog.Int("checked", z.Checked), slog.Int("moved", z.Moved), slog.Int("left", z.Left),
				slog.Duration("smallest", z.Smallest), slog.Duration("largest", z.Largest))
		}
	}
	if anew && len(r.Outdated) > 0 {
		f.log.WarnContext(ctx, "zone data is older than the database's", slog.Any("zones", r.Outdated))
	}
	if err := errors.Join(reloaded, err); err != nil {
		return err
	}
	_, book, err := f.readZones(ctx)
	if err != nil {
		return err
	}
	f.doubts = make(map[string]time.Time)
	for _, rules := range book.Rules {
		f.doubts[rules.Zone] = rules.Recheck
	}
	if anew {
		f.checked = book.Now
		f.every = time.Duration(float64(f.zoneCheck) * (0.8 + 0.4*rand.Float64())) // so that programs do not check at the same time
	}
	return nil
}
