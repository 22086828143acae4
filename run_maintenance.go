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

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/engine"
	"github.com/almanac-go/almanac/internal/isolate"
	"github.com/almanac-go/almanac/internal/program"
)

const (
	pruneEvery = time.Hour
	prunePage  = 1000
)

// maintenance returns the tasks that a running scheduler does besides delivering.
func (w *worker) maintenance() []engine.Task {
	tasks := []engine.Task{
		{Name: "release expired leases", Every: w.sweep, Do: w.releaseExpired},
		{Name: "plan stalled series", Every: w.sweep, Do: w.planStalled},
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

// prune deletes the events that ended longer ago than the retention, one page at a time. It goes
// on past events that cannot be deleted, and returns the last error.
func (w *worker) prune(ctx context.Context) error {
	now, err := w.repository.Now(ctx)
	if err != nil {
		return err
	}
	before, pruned := now.Add(-w.retention), 0
	var failed error
	for page := (Page{Limit: prunePage}); ; {
		deleted, next, err := w.repository.Prune(ctx, before, page)
		failed = cmp.Or(err, failed)
		pruned += deleted
		if page.After = next; page.After == "" {
			break
		}
	}
	if pruned > 0 {
		w.log.InfoContext(ctx, "ended events pruned", slog.Int("count", pruned), slog.Time("before", before))
	}
	return failed
}

// zoneFollower is the maintenance task that keeps events in line with zone data. It notices when
// the program's zone data is replaced, and when programs with other zone data plan events.
type zoneFollower struct {
	*scheduler
	checked time.Time            // when zone data was last loaded, by the repository's clock
	every   time.Duration        // the time until it is loaded again
	doubts  map[string]time.Time // the rechecks that remained after that, by zone
	refused error                // about events that could not be moved by then, and about calendars
	left    leftDays             // the events that could not be planned again by then
	looked  map[string]time.Time // when a type with many texts was last looked at, by the repository's clock
}

func (s *scheduler) followZones() engine.Task {
	f := &zoneFollower{scheduler: s, looked: make(map[string]time.Time)}
	return engine.Task{Name: "compare zone rules", Every: min(s.zoneCheck, max(s.sweep, zoneLook)), Limit: s.zoneCheck, Do: f.follow}
}

// follow checks zone rules when the interval is over, or when the repository has marks or
// rechecks. Until the next check it returns the error about refused events, so that Health has it.
func (f *zoneFollower) follow(ctx context.Context) error {
	_, book, err := f.readZones(ctx)
	if err == nil {
		err = f.register(ctx, book)
	}
	if err != nil {
		return err
	}
	since := book.Now.Sub(f.checked)
	if f.checked.IsZero() || since < 0 || since >= f.every || (f.refused != nil || len(f.left) > 0 || len(book.waiting()) > 0) && since >= recheckGrace {
		return f.check(ctx, true)
	}
	comparable := func(mark calendar.ZoneRules) bool { return isComparable(mark) && !f.holdsZone(book, mark.Zone) }
	if slices.ContainsFunc(book.Marks, comparable) || f.isInDoubt(book) {
		return f.check(ctx, false)
	}
	news, err := f.hasNewDays(ctx, book)
	if err != nil {
		return err
	}
	if news {
		return f.check(ctx, false)
	}
	return f.refused
}

// seenEvery is how often programs that run store that they have the handler of a type. One of them does.
const seenEvery = 5 * time.Minute

// register stores the types of this program that no program has stored lately, so that ops.Why can say which types no
// running program has.
func (f *zoneFollower) register(ctx context.Context, book ZoneBook) error {
	now := book.Now.UTC().Truncate(seenEvery).Format(time.RFC3339)
	for _, eventType := range f.registry.EventTypes() {
		mine := Setting{Name: program.HandlerSetting(eventType), Value: now, Program: program.Own()}
		if slices.ContainsFunc(book.Settings, func(one Setting) bool { return one.Name == mine.Name && one.Value == now }) {
			continue
		}
		if err := f.repository.PutSetting(ctx, mine); err != nil {
			if errors.Is(err, errors.ErrUnsupported) {
				return nil
			}
			return err
		}
	}
	return nil
}

// leftLooks is how many texts are counted in a look, of those of events that the last check left. There can be
// as many as events if a handler fails. Events of further texts wait for the next check, at most an hour.
const leftLooks = 100

// minuteTexts is the largest number of texts of earlier releases with which a type is read each minute. A type with
// more is read once in recheckGrace. There can be many, because an event that no change concerns keeps its release
// while it is pending.
const minuteTexts = 1000

// hasNewDays reports whether pending events must be planned again, besides those that the last check left. A
// program with an older release of a calendar, which runs beside this one, plans such events.
func (f *zoneFollower) hasNewDays(ctx context.Context, book ZoneBook) (bool, error) {
	work, looks := f.compareDays(book, f.uncounted(book)), 0
	for _, rules := range work.held {
		if !book.holds(releaseKey{rules.Name, true}, rules.Release) {
			return true, nil // it was not counted yet
		}
	}
	for _, eventType := range f.registry.EventTypes() {
		if rested := book.Now.Sub(f.looked[eventType]); rested >= 0 && rested < recheckGrace {
			continue
		}
		list, others, err := f.outdatedDays(ctx, eventType, work)
		if err != nil {
			return false, err
		}
		for _, c := range list {
			left := f.left[lookedUp{eventType, c}]
			if left == 0 {
				return true, nil
			}
			if looks++; looks > leftLooks || left >= maxMoves {
				continue
			}
			found, err := f.repository.FindConsulted(ctx, eventType, c, Page{Limit: left + 1})
			if err != nil || len(found.Items) > left {
				return err == nil, err
			}
		}
		if others > minuteTexts { // and none is news, which a failed check must find again
			f.looked[eventType] = book.Now
		}
	}
	return false, nil
}

// isComparable reports whether a check of this program compares a mark, and then removes it. A
// mark of a zone without data stays for programs that have the data.
func isComparable(mark calendar.ZoneRules) bool {
	z, err := calendar.OwnZoneData().Timezone(mark.Zone)
	return err == nil && z.String() == mark.Zone // marks are compared under the proper name of a zone
}

// isInDoubt reports whether pending events need a check: a recheck is new, or its time
// has passed so that a check can end it, unless events were refused.
func (f *zoneFollower) isInDoubt(book ZoneBook) bool {
	for _, rules := range book.Rules {
		if rules.Recheck.IsZero() || f.doubts[rules.Zone].Equal(rules.Recheck) && (f.refused != nil || !rules.Recheck.Before(book.Now)) {
			continue
		}
		z := calendar.StoredTimezone(rules.Zone)
		if _, err := z.Rules(book.Now.Year()); err != nil {
			continue
		}
		if _, verdict := compareRules(z, &rules, book.Now.Year(), false); verdict == doubted {
			return true
		}
	}
	return false
}

// check compares zone rules, and updates pending events. If anew is true, it loads the zone data again first.
func (f *zoneFollower) check(ctx context.Context, anew bool) error {
	var reloaded error
	if anew {
		reloaded = calendar.OwnZoneData().Refresh()
	}
	q, err := f.screen(ctx)
	if err != nil {
		return errors.Join(reloaded, err)
	}
	r, left, err := f.reconcile(ctx, ReconcileOptions{}, q)
	for _, z := range r.Zones {
		if z.Moved+z.Left > 0 {
			f.log.InfoContext(ctx, "zone rules changed", slog.String("zone", z.Zone), slog.String("version", z.Version),
				slog.Int("checked", z.Checked), slog.Int("moved", z.Moved), slog.Int("left", z.Left),
				slog.Duration("smallest", z.Smallest), slog.Duration("largest", z.Largest))
		}
	}
	if !anew {
		r.OutdatedCalendars = nil
	}
	f.logCalendars(ctx, r)
	if anew && len(r.Outdated) > 0 {
		f.log.WarnContext(ctx, "zone data is older than the database's", slog.Any("zones", r.Outdated))
	}
	if reloaded != nil || err != nil && !isFinal(err) {
		return errors.Join(reloaded, err)
	}
	f.refused, f.left = err, left
	_, book, err := f.readZones(ctx)
	if err != nil {
		return err
	}
	if anew || len(q.over) > 0 {
		f.logWaiting(ctx, book)
	}
	f.doubts = make(map[string]time.Time)
	for _, rules := range book.Rules {
		f.doubts[rules.Zone] = rules.Recheck
	}
	if anew {
		f.checked = book.Now
		f.every = time.Duration(float64(f.zoneCheck) * (0.8 + 0.4*rand.Float64())) // so that programs do not check at the same time
	}
	return f.refused
}

// isFinal reports whether an error of Reconcile stays the same for now: all that it joins is about events that
// the database refuses, or about calendars.
func isFinal(err error) bool {
	parts := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		parts = joined.Unwrap()
	}
	return !slices.ContainsFunc(parts, func(part error) bool {
		return !isReleaseError(part) && !isRefused(part)
	})
}

// stalledPage is how many users with stalled series are locked at once.
const stalledPage = 100

// planStalled plans the next events of stalled series (see [StalledSeries]).
func (w *worker) planStalled(ctx context.Context) error {
	var errs []error
	for _, eventType := range w.registry.EventTypes() {
		if ctx.Err() != nil {
			break
		}
		h, err := w.registry.Handler(eventType)
		if err == nil {
			err = w.planStalledOf(ctx, h)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// planStalledOf plans the stalled series of one type, one page of users at a time. After a
// failure the next round has fewer users in a page. So a user who takes too long is found,
// also if that takes longer than a round.
func (w *worker) planStalledOf(ctx context.Context, h EventHandler) error {
	zones, err := w.zoneView(ctx)
	if err != nil {
		return err
	}
	planAll := func(users []UserSeries, now time.Time) (events []Event, again []StalledSeries, err error) {
		for _, p := range w.planAllStalled(h, users, now) {
			events, again = append(events, p.events...), append(again, p.again...)
		}
		return zones.stampAll(events), again, nil
	}
	for after := Cursor(""); ; {
		var added AddEventsResult
		err := w.running.stalled.Call(stalledPage, w.lease/3, func(n int) (err error) {
			added, err = w.repository.AddSuccessors(ctx, h.EventType(), Page{Limit: n, After: after}, planAll)
			return err
		})
		for _, s := range added.Stalled {
			w.log.WarnContext(ctx, "stalled series not planned", slog.String("event_type", s.Series.Type), slog.String("series", s.Series.Name),
				slog.String("user_id", s.UserID.String()), slog.Int("failures", s.Failures), slog.Time("retry_at", s.RetryAt), slog.String("error", s.Error))
		}
		w.notifyEvents(ctx, EventCreated, added.Events)
		w.running.wakeFor(added.Events...)
		if after = added.Next; err != nil || after == "" {
			return err
		}
	}
}

// replanned is the result of planning the stalled series of one user.
type replanned struct {
	events []Event
	again  []StalledSeries
}

func (w *worker) planAllStalled(h EventHandler, users []UserSeries, now time.Time) []replanned {
	return isolate.Run(w.running.host, isolate.Calls[replanned]{
		N:    len(users),
		Name: func(i int) isolate.Name { return isolate.Name{Type: h.EventType(), User: users[i].User.ID} },
		Call: func(i int) replanned { return planStalled(h, users[i], now, w.zones.Load()) },
		Lost: func(i int, err error) (r replanned) {
			err = fmt.Errorf("almanac: planning %s %w", h.EventType(), err)
			for _, s := range users[i].Stalled {
				r.again = append(r.again, s.Again(err, now))
			}
			return r
		},
	})
}

// planStalled plans the next event of each stalled series of a user. A series that the user
// no longer has, and one without a next occurrence, have none.
func planStalled(h EventHandler, one UserSeries, now time.Time, zones *zoneView) (r replanned) {
	list, err := seriesFor(h, one.User)
	for _, s := range one.Stalled {
		i := slices.IndexFunc(list, func(h oneSeries) bool { return h.id() == s.Series })
		switch {
		case err != nil:
			r.again = append(r.again, s.Again(err, now))
			continue
		case i < 0:
			continue
		}
		e, err := list[i].first(Roster{User: one.User, Stalled: one.Stalled, Used: one.Used, Now: now})
		if err == nil {
			err = zones.permits(e)
		}
		switch {
		case errors.Is(err, calendar.ErrNoOccurrence):
		case err != nil:
			r.again = append(r.again, s.Again(err, now))
		default:
			e.ID = stamped(e.ID, ticksOf(now))
			r.events = append(r.events, e)
		}
	}
	return r
}

// releaseExpired releases the events of processes that died. It goes on past events that cannot be
// released, and returns the last error.
func (w *worker) releaseExpired(ctx context.Context) error {
	var failed error
	for {
		var events []Event
		err := w.running.releases.Call(sweepEvents, w.lease/3, func(n int) (err error) {
			events, err = w.repository.ReleaseExpired(ctx, n, w.sharedCrashes())
			return err
		})
		w.notifyReleased(ctx, events, AfterCrash)
		if len(events) > 0 {
			w.log.WarnContext(ctx, "leases ran out, their events are released", slog.Int("events", len(events)))
			w.running.wakeFor(events...)
		}
		failed = cmp.Or(err, failed)
		if len(events) == 0 {
			return failed
		}
	}
}
