package almanac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/isolate"
)

func (s *scheduler) UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (UpdateUserResult, error) {
	results, errs := s.UpdateUsers(ctx, []uuid.UUID{id}, []ProfileChange{c})
	return results[0], errs[0]
}

func (s *scheduler) Reschedule(ctx context.Context, id uuid.UUID) (UpdateUserResult, error) {
	return s.edit(ctx, id, ProfileChange{}, func(r Roster) (User, error) { return r.User, nil })
}

// edit changes a user and replans the user's pending events, in one transaction. Then it notifies observers.
func (s *scheduler) edit(ctx context.Context, id uuid.UUID, c ProfileChange, change func(Roster) (User, error)) (UpdateUserResult, error) {
	results, errs := s.editEach(ctx, []uuid.UUID{id}, false, func(_ int, r Roster) (User, ProfileChange, error) {
		u, err := change(r)
		return u, c, err
	})
	return results[0], errs[0]
}

// editEach changes users and replans their pending events, as edit does for one. The function change returns the
// changed user and the change. If abreast is true, two goroutines call it.
func (s *scheduler) editEach(ctx context.Context, ids []uuid.UUID, abreast bool, change func(int, Roster) (User, ProfileChange, error)) ([]UpdateUserResult, []error) {
	before, results, errs := s.replanEach(ctx, ids, abreast, func(i int, r Roster, zones *zoneView) (replanning, error) {
		u, c, err := change(i, r)
		return replanning{r, u, s.concerned(c, r.User, u), zones, s.guard(ctx, ids[i]), s.window, 0, nil}, err
	})
	for i, err := range errs {
		if err == nil && !s.inTransaction() { // a transaction of the host may still be rolled back
			s.logEdit(ctx, before[i], results[i])
		}
	}
	return results, errs
}

// replan stores what a replanning of a user changes, in one transaction, and notifies observers. It returns
// the roster as replanned. If begin returns errNothingToDo, nothing is stored.
func (s *scheduler) replan(ctx context.Context, id uuid.UUID, begin func(Roster, *zoneView) (replanning, error)) (before Roster, result UpdateUserResult, err error) {
	rosters, results, errs := s.replanEach(ctx, []uuid.UUID{id}, false, func(_ int, r Roster, zones *zoneView) (replanning, error) { return begin(r, zones) })
	return rosters[0], results[0], errs[0]
}

// replanEach does what replan does for each of the users, in few transactions. If abreast is true, two goroutines
// call begin.
func (s *scheduler) replanEach(ctx context.Context, ids []uuid.UUID, abreast bool, begin func(int, Roster, *zoneView) (replanning, error)) ([]Roster, []UpdateUserResult, []error) {
	before, results := make([]Roster, len(ids)), make([]UpdateUserResult, len(ids))
	zones, err := s.zoneView(ctx)
	if err != nil {
		return before, results, slices.Repeat([]error{err}, len(ids))
	}
	var threads [2]isolate.Thread
	defer threads[0].Close()
	defer threads[1].Close()
	stored, errs := s.editUsers(ctx, ids, abreast, func(i int, r Roster) (Edit, error) {
		results[i] = UpdateUserResult{} // what only the plan knows
		p, err := begin(i, r, zones)
		p.guard.thread = &threads[halfOf(ids[i])]
		before[i] = p.Roster
		if errors.Is(err, errNothingToDo) {
			before[i] = Roster{User: r.User}
			return Edit{}, nil
		}
		if err != nil {
			return Edit{}, err
		}
		wanted, err := s.replanAll(p)
		if err == nil {
			results[i] = s.shown(p, wanted)
		}
		if p.failed != nil {
			*p.failed = err
		}
		return wanted, err
	})
	for i, err := range errs {
		s.measureEdit(ctx, MeasuredUser, err)
		if err != nil {
			s.logConflict(ctx, before[i], err)
			results[i] = UpdateUserResult{}
			continue
		}
		before[i], results[i] = s.noteReplanned(ctx, before[i], stored[i], results[i])
	}
	return before, results, errs
}

// noteReplanned notifies observers of a replanning that was stored. It returns the roster with the events in flight that
// it skipped, and the result with all that is known.
func (s *scheduler) noteReplanned(ctx context.Context, before Roster, stored Edit, shown UpdateUserResult) (Roster, UpdateUserResult) {
	news := retargeted(before, stored)
	s.notifyEdit(ctx, before, news)
	changed := Roster{Pending: stored.Changed}.byID()
	before.InFlight = slices.DeleteFunc(before.InFlight, func(e Event) bool { // the rest is skipped
		return changed[e.ID] != nil
	})
	result := shown.with(before, news)
	s.notifyEvents(ctx, EventSkipped, before.InFlight)
	s.running.wakeFor(news.Changed...)
	s.running.wakeFor(news.New...)
	return before, result
}

// fewEdited is the number of users from which two transactions edit them faster than one.
const fewEdited = 100

// halfOf returns in which half of the users a user is, 0 or 1.
func halfOf(user uuid.UUID) int { return int(user[len(user)-1] & 1) }

// editHalves edits two halves of users at once.
func (s *scheduler) editHalves(ctx context.Context, ids []uuid.UUID, edit func(int, Roster) (Edit, error)) ([]Edit, []error) {
	edits, errs := make([]Edit, len(ids)), make([]error, len(ids))
	var places [2][]int
	for i, id := range ids {
		places[halfOf(id)] = append(places[halfOf(id)], i)
	}
	var group sync.WaitGroup
	for _, half := range places {
		if len(half) == 0 {
			continue
		}
		group.Go(func() {
			users := make([]uuid.UUID, len(half))
			for k, i := range half {
				users[k] = ids[i]
			}
			stored, failed := s.editUsers(ctx, users, false, func(k int, r Roster) (Edit, error) { return edit(half[k], r) })
			for k, i := range half {
				edits[i], errs[i] = stored[k], failed[k]
			}
		})
	}
	group.Wait()
	return edits, errs
}

// concerned returns the types whose events a change of a user may change. An opt-out must be stored
// whatever the handlers of other types do. So a change of opt-outs alone concerns the types that the
// user is owed before or after it, but not both.
func (s *scheduler) concerned(c ProfileChange, was, is User) []string {
	types := s.registry.EventTypes()
	if len(c.OptIn)+len(c.OptOut) == 0 || !c.withoutOptOuts().isEmpty() {
		return types
	}
	return slices.DeleteFunc(types, func(eventType string) bool { return s.refusedFrom(was, eventType) == s.refusedFrom(is, eventType) })
}

// replanAll returns the edit that brings the events of a roster up to date. It is called within the
// transaction that changes the user: see docs/adr/0007-edits.md.
func (s *scheduler) replanAll(p replanning) (Edit, error) {
	edit := Edit{}
	if p.is.Version != p.User.Version {
		edit.User = &p.is
	}
	all, err := s.seriesOf(p.types, p.guard, p.is)
	if err != nil {
		return Edit{}, err
	}
	owed := make(map[Series]oneSeries, len(all))
	for _, one := range all {
		owed[one.id()] = one
	}
	for _, e := range p.Pending {
		if !slices.Contains(p.types, e.Type) {
			continue
		}
		h, err := s.registry.Handler(e.Type)
		if err != nil {
			return Edit{}, err
		}
		if e.detached() {
			if err := p.detached(h, e, &edit); err != nil {
				return Edit{}, err
			}
			continue
		}
		one, is := owed[SeriesOf(e)]
		if !is {
			edit.Removed = append(edit.Removed, e)
			continue
		}
		next, err := guarded(p.guard, "replanning", e.Type, func() (Event, error) { return p.event(one, e) })
		switch {
		case errors.Is(err, calendar.ErrNoOccurrence), errors.Is(err, calendar.ErrSkippedWallTime):
			edit.Removed = append(edit.Removed, e)
		case err != nil:
			return Edit{}, err
		case !next.sameTarget(e) || next.Consulted.Calendars != e.Consulted.Calendars:
			edit.Changed = append(edit.Changed, next)
		}
	}
	done, err := s.calledOff(p)
	if err != nil {
		return Edit{}, err
	}
	edit.Changed = append(edit.Changed, done...)
	open, stalled := p.open(), slices.Clone(p.Stalled)
	for _, e := range edit.Removed { // another occurrence may take its place
		delete(open, SeriesOf(e))
		if !e.Due.After(p.Now) && p.passed >= 0 {
			stalled = append(stalled, StalledSeries{Series: SeriesOf(e), Due: e.Due})
		}
	}
	for _, e := range done { // an opt-out with an end lets the series go on
		if !e.detached() {
			delete(open, SeriesOf(e))
			stalled = append(stalled, StalledSeries{Series: SeriesOf(e), Due: e.Due})
		}
	}
	edit.New, err = p.guard.firsts(all, open, Roster{User: p.is, Stalled: stalled, Used: p.Used, Now: p.Now})
	if err == nil {
		err = p.zones.permits(slices.Concat(edit.New, edit.Changed)...)
	}
	p.zones.stampAll(edit.New)
	return edit, err
}

func (s *scheduler) Schedule(ctx context.Context, id uuid.UUID, eventType string) ([]Event, error) {
	h, err := s.registry.Handler(eventType)
	if err != nil {
		return nil, err
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return nil, err
	}
	var existing []Event
	var refused error
	stored, err := s.repository.EditUser(ctx, id, func(r Roster) (Edit, error) {
		if refused = nil; unwanted(h, r.User, "") {
			refused = optedOut(r.User, eventType)
		}
		existing = slices.DeleteFunc(slices.Concat(r.InFlight, r.Pending), func(e Event) bool { return e.Type != eventType })
		g := s.guard(ctx, id)
		list, err := g.series(h, r.User)
		if err != nil {
			return Edit{}, err
		}
		added, err := g.firsts(list, r.open(), r)
		if err == nil {
			err = zones.permits(added...)
		}
		return Edit{New: zones.stampAll(added)}, err
	})
	if err != nil {
		return nil, err
	}
	s.notifyEvents(ctx, EventCreated, stored.New)
	s.running.wakeFor(stored.New...)
	events := slices.Concat(existing, stored.New)
	if len(events) == 0 && refused != nil {
		return nil, refused
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: user %s has no %s", calendar.ErrNoOccurrence, id, eventType)
	}
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(strings.Compare(a.Series, b.Series), strings.Compare(a.OccurrenceKey, b.OccurrenceKey))
	})
	return events, nil
}

func (s *scheduler) DeleteUser(ctx context.Context, id uuid.UUID, options DeleteOptions) (DeleteResult, error) {
	d, err := s.repository.DeleteUser(ctx, id, options)
	s.measureEdit(ctx, MeasuredUser, err)
	if err != nil {
		return DeleteResult{}, err
	}
	s.notify(ctx, Notice{Kind: UserDeleted, User: User{ID: id}})
	return d, nil
}

// with returns a result together with the events that an edit changes. It separates the changed events: those
// that were cancelled, those that moved, and those that only have another payload, zone or policy.
func (result UpdateUserResult) with(before Roster, stored Edit) UpdateUserResult {
	result.User, result.Added, result.Removed = before.User, stored.New, stored.Removed
	if stored.User != nil {
		result.User = *stored.User
	}
	from := before.byID()
	for _, e := range stored.Changed {
		was := from[e.ID]
		switch {
		case e.Status == Cancelled:
			result.Cancelled = append(result.Cancelled, e)
		case was.Due.Equal(e.Due) && was.Wall == e.Wall:
			result.Refreshed = append(result.Refreshed, e)
		default:
			result.Moved, result.Was = append(result.Moved, e), append(result.Was, *was)
		}
	}
	changed := Roster{Pending: stored.Changed}.byID()
	for _, e := range before.InFlight {
		if changed[e.ID] == nil {
			result.Skipped = append(result.Skipped, e.ID)
		}
	}
	return result
}

// staysDue reports whether a pending event whose instant has passed stays, though its occurrence has another time of
// the same day, which has passed too. With the same nominal time, an edit before this one has kept it, or RunNow made
// it due. The latter moves with its user to another zone.
func (p replanning) staysDue(e Event, same Occurrence) bool {
	return !e.Due.After(p.Now) && same.Wall.Date == e.Wall.Date &&
		(e.ReadyAt.After(p.Now) || e.nominal() != nominalOf(same.Occurrence) || p.is.Timezone == p.User.Timezone)
}

// madeDue reports whether [Operator].RunNow made a pending event due before its occurrence or in
// the window after it, and the edit changes neither the occurrence nor the zone, nor refuses the event. It is
// false for [Planner].Reschedule, which has no edit and moves the event back to its occurrence.
func (p replanning) madeDue(h oneSeries, e Event, same Occurrence) bool {
	if e.nominal() != nominalOf(same.Occurrence) || p.is.Version == p.User.Version || p.is.Timezone != p.User.Timezone || !p.dueByNow(e) || unwantedThen(h, p.is, e, p.Now) {
		return false
	}
	if r, err := same.Resolve(); err != nil || !r.Instant.After(e.Due) && r.Instant.After(p.Now) {
		return false
	}
	was, found, err := occurrenceNamed(h, p.User, e)
	return err == nil && found && was.Wall == same.Wall && was.Zone == same.Zone
}

// dueByNow reports whether [Operator].RunNow may have made an event due: by now, or at the end of the quiet hours.
func (p replanning) dueByNow(e Event) bool {
	if p.window == nil || !e.Due.After(p.Now) {
		return !e.Due.After(p.Now)
	}
	opens, _, _ := p.window(p.User).Next(p.User.Timezone, p.Now)
	return e.Due.Equal(opens)
}

// passesOver reports whether an unused occurrence earlier than that of the pending event is still to come.
func (p replanning) passesOver(h oneSeries, e Event) bool {
	if !e.Due.After(p.Now) {
		return false
	}
	first, err := plan(h, p.is, beyond{after: stillToCome(h, &p.is, p.Now), used: p.Used[h.id()], began: p.Now})
	return err == nil && first.KeyUnit == e.KeyUnit && first.OccurrenceKey < e.OccurrenceKey
}

// leavesTimes reports whether a series lacks the occurrence of a pending event because of
// this program's zone rules, not because of the edit. That is so if the rules skip the
// wall time or show it twice, and the edit does not change the times of the series.
func (p replanning) leavesTimes(h oneSeries, e Event) bool {
	lenient := calendar.Policies{Gap: calendar.GapForward, Fold: calendar.FoldFirst}
	if r, err := calendar.StoredTimezone(e.Zone).Resolve(e.Wall, lenient); err != nil || r.Reading == calendar.ShownOnce {
		return false
	}
	from := e.Due.Add(-searchBack)
	was, errWas := nextOf(h, &p.User, from)
	is, errIs := nextOf(h, &p.is, from)
	return p.User.Timezone == p.is.Timezone && (errWas == nil) == (errIs == nil) && was == is
}

// oneOff plans the event of ScheduleAt for a user who has none with its key.
func (p *backfillPlan) oneOff(t *isolate.Thread, o ScheduleAtOptions, one UserSeries, now time.Time) ([]Event, error) {
	eventType := p.handler.EventType()
	series := SeriesOf(Event{Type: eventType, OccurrenceKey: o.Key, Origin: o.origin()})
	if one.Open[series] != "" || len(one.Used[series]) > 0 {
		return nil, nil
	}
	if unwanted(p.handler, one.User, "") {
		return nil, optedOut(one.User, eventType)
	}
	g := p.guard(p.ctx, one.User.ID)
	g.thread = t
	e, err := p.oneOffAs(g, p.handler, Roster{User: one.User, Now: now}, func() (Event, error) { return o.event(p.handler, one.User) })
	if err != nil {
		return nil, err
	}
	e.ID = stamped(e.ID, ticksOf(now))
	return []Event{e}, nil
}
