package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/slots"
)

// CancelOptions are options of [Operator].Cancel.
type CancelOptions struct {
	// Reason is stored as the event's FailureReason, cut to 1,000 bytes. It may be empty.
	Reason string
	// Version is the version of the event that is cancelled. If the stored event has another version,
	// nothing is cancelled, and the error is an [*OptimisticLockError]. Zero means any version.
	Version int
	// EndSeries plans no successor of the event. The series continues when a program that
	// has the handler next edits, reschedules or backfills the user.
	EndSeries bool
}

// ForceOptions are options of [Operator].RunNow and [Operator].Requeue. The zero ForceOptions
// means the defaults.
type ForceOptions struct {
	// Force makes RunNow deliver an event in the user's quiet hours too. It is then on time, and is
	// delivered at once. An event that has failed before, or whose instant has passed, still waits for
	// the end of the quiet hours. In a program without [WithWindow], Force is required if another
	// program has stored quiet hours (see [Setting]). Without it, the error is a [*ValidationError].
	// If this program has no handler of the type, Force also makes RunNow accept an event whose user has opted
	// out of the type. The event then ends as CANCELLED, unless its handler overrides opt-outs.
	//
	// It makes Requeue deliver the event whatever its user has opted out of, now or later, and in
	// the user's quiet hours too. Without it, an event is refused if the user has opted out of
	// its type, and an event whose channel the user refuses ends as CANCELLED.
	Force bool
}

// CancelResult is the result of cancelling an event.
type CancelResult struct {
	Event     Event  // as stored, CANCELLED
	Successor *Event // the next event of the series; nil if there is none
	// Unplanned is true if this program has no handler for the type, or another calendar of the same
	// release than the database. The successor is then left to a program that can plan it.
	Unplanned bool
}

func (s *scheduler) Cancel(ctx context.Context, id uuid.UUID, options CancelOptions) (CancelResult, error) {
	results, errs := s.CancelEvents(ctx, []uuid.UUID{id}, options)
	return results[0], errs[0]
}

func (s *scheduler) CancelEvents(ctx context.Context, ids []uuid.UUID, options CancelOptions) ([]CancelResult, []error) {
	results := make([]CancelResult, len(ids))
	zones, err := s.zoneView(ctx)
	if err != nil {
		return results, slices.Repeat([]error{err}, len(ids))
	}
	edits, errs := s.editEvents(ctx, ids, Cancelled, func(i int, r Roster, e Event) (edit Edit, err error) {
		edit, results[i].Unplanned, err = s.cancelled(ctx, r, e, options, zones)
		return edit, err
	})
	for i, edit := range edits {
		if errs[i] != nil {
			results[i] = CancelResult{}
			continue
		}
		results[i].Event = edit.Changed[0]
		if len(edit.New) > 0 {
			results[i].Successor = &edits[i].New[0]
		}
	}
	return results, errs
}

// cancelled returns the edit that cancels an event of a roster, and whether the successor is left to another program.
func (s *scheduler) cancelled(ctx context.Context, r Roster, e Event, options CancelOptions, zones *zoneView) (edit Edit, unplanned bool, err error) {
	if options.Version != 0 && options.Version != e.Version {
		return Edit{}, false, &OptimisticLockError{EventID: e.ID, Expected: options.Version}
	}
	done, err := e.Cancel(options.Reason)
	if err != nil || options.EndSeries || e.detached() {
		return Edit{Changed: []Event{done}}, false, err
	}
	h, err := s.registry.Handler(e.Type)
	if errors.Is(err, ErrUnsupportedEventType) {
		done.Unplanned = true
		return Edit{Changed: []Event{done}}, true, nil
	}
	if err != nil {
		return Edit{}, false, err
	}
	e.UsedBefore = r.Used[SeriesOf(e)]
	next, err := guarded(s.guard(ctx, e.UserID), "planning the successor of", e.Type, func() (Event, error) { return successor(h, &e, &r.User, r.Now) })
	if err == nil {
		err = zones.permits(next)
	}
	switch {
	case errors.Is(err, calendar.ErrNoOccurrence):
		return Edit{Changed: []Event{done}}, false, nil
	case isReleaseError(err):
		done.Unplanned = true
		return Edit{Changed: []Event{done}}, true, nil
	case err != nil:
		return Edit{}, false, &SuccessorError{e.ID, err}
	}
	return Edit{Changed: []Event{done}, New: []Event{zones.stamp(next)}}, false, nil
}

func (s *scheduler) RunNow(ctx context.Context, id uuid.UUID, options ForceOptions) (Event, error) {
	events, errs := s.RunEventsNow(ctx, []uuid.UUID{id}, options)
	return events[0], errs[0]
}

func (s *scheduler) RunEventsNow(ctx context.Context, ids []uuid.UUID, options ForceOptions) ([]Event, []error) {
	events := make([]Event, len(ids))
	if err := s.checkQuietHours(ctx, options); err != nil {
		return events, slices.Repeat([]error{err}, len(ids))
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return events, slices.Repeat([]error{err}, len(ids))
	}
	edits, errs := s.editEvents(ctx, ids, Processing, func(i int, r Roster, e Event) (Edit, error) {
		at, err := s.runAt(s.guard(ctx, e.UserID), r, e, options)
		if err != nil {
			return Edit{}, err
		}
		next, err := e.RunNow(at)
		if events[i] = next; err != nil || next.Version == e.Version {
			return Edit{}, err
		}
		_, err = s.registry.Handler(e.Type)
		if (err == nil || !options.Force) && !next.Origin.Forced && s.refuses(r.User, next, at) { // its attempt would use its key
			return Edit{}, optedOut(r.User, e.Type)
		}
		if next.ClaimCount == 0 && zones.differs(next.Zone) { // this program cannot know what clocks show there now
			next.Wall, next.Zone = calendar.WallTimeOf(next.Due), "UTC"
		}
		return Edit{Changed: []Event{next}}, nil
	})
	for i, edit := range edits {
		for _, e := range edit.Changed {
			events[i] = e
		}
	}
	return events, errs
}

// editEvents edits one open event for each id, and notifies observers. It makes an edit of the event's user,
// so it takes locks in the same order as every edit. In the roster, an event that is claimed ahead of its
// instant is PENDING.
func (s *scheduler) editEvents(ctx context.Context, ids []uuid.UUID, to Status, edit func(int, Roster, Event) (Edit, error)) ([]Edit, []error) {
	events, errs := s.eventsOf(ctx, ids)
	for i, e := range events {
		if errs[i] == nil && e.Status.Terminal() {
			errs[i] = &InvalidStateTransitionError{ids[i], e.Status, to}
		}
	}
	before, edits := s.editUsersOf(ctx, events, errs, func(i int, r Roster) (Edit, error) {
		open := slices.Concat(r.Pending, r.InFlight)
		at := slices.IndexFunc(open, func(one Event) bool { return one.ID == ids[i] })
		switch {
		case at < 0: // it ended after it was read
			return Edit{}, &OptimisticLockError{EventID: ids[i], Expected: events[i].Version}
		case open[at].Status != Pending:
			return Edit{}, &InvalidStateTransitionError{ids[i], open[at].Status, to}
		}
		return edit(i, r, open[at])
	}, func(err error) { s.measureEdit(ctx, MeasuredEvent, err) })
	for i := range edits {
		if errs[i] == nil {
			s.notifyEdit(ctx, before[i], edits[i])
			s.running.wakeFor(slices.Concat(edits[i].Changed, edits[i].New)...)
		}
	}
	return edits, errs
}

// eventsOf returns the event with each id, or an error.
func (s *scheduler) eventsOf(ctx context.Context, ids []uuid.UUID) ([]Event, []error) {
	events, errs := make([]Event, len(ids)), make([]error, len(ids))
	if len(ids) == 1 {
		events[0], errs[0] = s.repository.Event(ctx, ids[0])
		return events, errs
	}
	found, err := s.repository.Events(ctx, ids)
	of := make(map[uuid.UUID]*Event, len(found))
	for i := range found {
		of[found[i].ID] = &found[i]
	}
	for i, id := range ids {
		switch e := of[id]; {
		case err != nil:
			errs[i] = err
		case e == nil:
			errs[i] = &NotFoundError{Kind: "event", ID: id}
		default:
			events[i] = *e
		}
	}
	return events, errs
}

// editUsersOf edits the users of the events that have no error. It passes the error of each of these edits to
// edited, and adds it to errs. It returns the rosters as last passed to edit, and the edits as stored.
func (s *scheduler) editUsersOf(ctx context.Context, events []Event, errs []error, edit func(int, Roster) (Edit, error), edited func(error)) ([]Roster, []Edit) {
	before, edits := make([]Roster, len(events)), make([]Edit, len(events))
	var users []uuid.UUID
	var places []int
	for i, e := range events {
		if errs[i] == nil {
			users, places = append(users, e.UserID), append(places, i)
		}
	}
	stored, failed := s.editUsers(ctx, users, true, func(k int, r Roster) (Edit, error) {
		before[places[k]] = r
		return edit(places[k], r)
	})
	for k, i := range places {
		edits[i], errs[i] = stored[k], failed[k]
		edited(failed[k])
	}
	return before, edits
}

// editUsers edits users. One user is edited by EditUser, which a repository of the host may wrap. If abreast is true,
// many users are edited in two calls at once: while one waits for the database, the other plans. No edit may depend on another
// one then, except on that of the same user.
func (s *scheduler) editUsers(ctx context.Context, ids []uuid.UUID, abreast bool, edit func(int, Roster) (Edit, error)) ([]Edit, []error) {
	if abreast && len(ids) >= fewEdited && !s.inTransaction() {
		return s.editHalves(ctx, ids, edit)
	}
	if len(ids) != 1 {
		return s.repository.EditUsers(ctx, ids, edit)
	}
	stored, err := s.repository.EditUser(ctx, ids[0], func(r Roster) (Edit, error) { return edit(0, r) })
	return []Edit{stored}, []error{err}
}

func (s *scheduler) Requeue(ctx context.Context, id uuid.UUID, options ForceOptions) (Event, error) {
	events, errs := s.RequeueEvents(ctx, []uuid.UUID{id}, options)
	return events[0], errs[0]
}

func (s *scheduler) RequeueEvents(ctx context.Context, ids []uuid.UUID, options ForceOptions) ([]Event, []error) {
	again := make([]Event, len(ids))
	events, errs := s.eventsOf(ctx, ids)
	fresh := make([]uuid.UUID, len(ids))
	for i := range ids {
		var err error
		if fresh[i], err = uuid.NewV7(); err != nil && errs[i] == nil {
			errs[i] = fmt.Errorf("almanac: new event id: %w", err)
		}
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return again, slices.Repeat([]error{err}, len(ids))
	}
	before, edits := s.editUsersOf(ctx, events, errs, func(i int, r Roster) (Edit, error) {
		slots.Name((*[16]byte)(&fresh[i]), r.User.ID)
		next, err := events[i].Requeue(stamped(fresh[i], ticksOf(r.Now)), r.Now)
		next.Origin.Forced = options.Force
		if err == nil && next.ClaimCount == 0 {
			next, err = s.requeuedFor(ctx, r, next, events[i].Origin.Kind, zones)
		}
		if err == nil && !options.Force && s.refuses(r.User, next, r.Now) {
			err = optedOut(r.User, next.Type)
		}
		return Edit{New: []Event{next}}, err
	}, func(error) {})
	for i, edit := range edits {
		switch {
		case errs[i] != nil:
		case len(edit.New) == 0:
			errs[i] = s.requeuedBefore(ctx, events[i], before[i])
		default:
			again[i] = edit.New[0]
			s.notifyEdit(ctx, before[i], edit)
			s.running.wakeFor(edit.New...)
		}
	}
	return again, errs
}

// Pause is a pause of a type of event.
type Pause struct {
	Lane string // the name of a [Lane]: an event type, or another one
	// Reason is why. It may be empty, and is cut to 1,000 bytes.
	Reason string
	// Author is who asked for it: the principal (see [WithPrincipal]), or else the user of the database. It is
	// "breaker" if the lane's receiver has failed for too long (see [Execution].PauseAfter), and "" if unknown.
	// [Operator].Pause ignores it.
	Author string
	// Since is when it began, UTC. [Operator].Pause ignores it.
	Since time.Time
	// Until is when it ends, before the year 10000. Zero means that it lasts until [Operator].Resume.
	Until time.Time
}

// Checked returns the pause with its reason cut to 1,000 bytes. The error is a [*ValidationError] that names all
// fields that are wrong.
func (p Pause) Checked() (Pause, error) {
	var bad []FieldError
	if problem := nameProblem(p.Lane); problem != "" {
		bad = append(bad, FieldError{Field: "lane", Problem: problem})
	}
	if year := p.Until.UTC().Year(); year < 1 || year > 9999 {
		bad = append(bad, FieldError{Field: "until", Problem: fmt.Sprintf("is in the year %d, and not in 1 to 9999", year)})
	}
	if bad != nil {
		return p, &ValidationError{bad}
	}
	p.Reason = storable(p.Reason)
	return p, nil
}

func (s *scheduler) RequeueEach(ctx context.Context, requeue func(func([]Event, []User, time.Time) ([]Event, error)) ([]Event, error)) ([]Event, error) {
	zones, err := s.zoneView(ctx)
	if err != nil {
		return nil, err
	}
	p := requeuing{scheduler: s, ctx: ctx, zones: zones, failed: make(map[uuid.UUID]error)}
	stored, err := requeue(func(events []Event, users []User, now time.Time) (again []Event, err error) {
		for i, e := range events {
			next, err := p.repeat(e, Roster{User: users[i], Now: now})
			if errors.Is(err, calendar.ErrSkippedWallTime) {
				continue // it stays as it is
			}
			if err != nil {
				return nil, err
			}
			again = append(again, next)
		}
		return again, nil
	})
	s.notifyEvents(ctx, EventRequeued, stored)
	s.running.wakeFor(stored...)
	for _, e := range stored {
		err = errors.Join(err, p.failed[e.ID])
	}
	return stored, err
}

func (s *scheduler) CancelEach(ctx context.Context, cancel func() ([]Event, error)) ([]Event, error) {
	events, err := cancel()
	s.notifyEvents(ctx, EventCancelled, events)
	return events, err
}

func (s *scheduler) Pause(ctx context.Context, p Pause) error {
	p, err := p.Checked()
	if err != nil {
		return err
	}
	if !p.Until.IsZero() {
		now, err := s.repository.Now(ctx)
		if err != nil {
			return err
		}
		if !p.Until.After(now) {
			return &ValidationError{[]FieldError{{Field: "until", Problem: fmt.Sprintf("is %s, which has passed", p.Until.UTC().Format(time.RFC3339))}}}
		}
	}
	if err := s.knowsLane(p.Lane); err != nil {
		return err
	}
	return s.repository.Pause(ctx, p)
}

func (s *scheduler) Resume(ctx context.Context, eventType string) error {
	if _, err := (Pause{Lane: eventType}).Checked(); err != nil {
		return err
	}
	if err := s.repository.Resume(ctx, eventType); err != nil {
		return err
	}
	s.running.wake()
	return nil
}

func (s *scheduler) Paused(ctx context.Context) ([]Pause, error) {
	return s.repository.Paused(ctx)
}
