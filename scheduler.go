package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Scheduler makes things happen at a local time of day. It is safe for concurrent
// use. A program that only plans never calls Run; any number of programs may run
// on one database.
type Scheduler interface {
	Planner
	BulkPlanner
	OneOffPlanner
	Operator
	Pauser
	Runner

	// Preview returns the next n occurrences of a type for a person, 1 to 1,000 of
	// them, as their handler sees it now: each with its instant and the reasons for it.
	// It stores nothing and looks at nothing stored but the person. Fewer come back
	// when the recurrence ends. What a policy skips, or what gives way to another, is
	// not among them.
	//
	// Where one cannot be resolved, as under the policy reject, those before it come
	// back with the error. Of a handler with several series, the others go on.
	Preview(ctx context.Context, userID uuid.UUID, eventType string, n int) ([]Upcoming, error)

	// Reconcile compares zone rules with those that the database follows and, where
	// they are newer, resolves the pending events of those zones anew from their wall
	// times. Events that were ever claimed keep their instant, and so do all while the
	// rules are older than the database's. It can be interrupted at any time and
	// goes on when it is called again, here or elsewhere. Run calls it (see
	// [WithZoneCheck]).
	Reconcile(ctx context.Context, how Reconcile) (Reconciliation, error)

	// With returns a scheduler on another repository, with everything else the same.
	// On one that is bound to the host's transaction, what the scheduler stores is
	// part of that transaction, and observers are not told.
	With(r Repository) Scheduler
}

// Runner executes what is planned, in one process.
type Runner interface {
	// Run claims and executes events until ctx is done. Then it claims nothing more,
	// lets what is in hand finish for as long as [WithDrain] says, cancels and gives
	// back the rest, stores every outcome and returns nil. It waits for every
	// goroutine that it started, except those of deliveries that ignore their
	// context, of which the error tells.
	//
	// An event begins at its instant by the repository's clock, never before. Where the
	// repository is a [Confirmer], Run claims it a moment ahead, so that it is PROCESSING
	// before it begins, and asks at its instant whether it is still as it was: what was
	// edited or deleted until then begins as edited, or not at all (see
	// [WithLookAhead]).
	//
	// What other processes store it finds when they give a hint that the repository
	// hears (see [Listener]), or else at the next poll (see [WithPoll]).
	//
	// A scheduler runs once at a time; a second concurrent Run returns [ErrRunning].
	// Where the repository lacks a migration of this release, Run claims nothing and
	// returns an error that matches [ErrOutdated]. One that a newer release has migrated
	// will do. While the repository cannot be asked, Run waits.
	Run(ctx context.Context) error

	// RunOnce is one pass of what Run does, for hosts that a cron or a function service
	// starts. It releases what leases that ran out held, plans what was left to this
	// program, and compares zone rules as Run does. Then it claims and executes due
	// events until none is left, the limit is reached or its time is over. It returns how
	// many events had which outcome. When ctx ends, the pass ends as Run does: what finishes within
	// [WithDrain] is stored, and the rest is released.
	//
	// An event that fails is tried again by a later pass, or by this one if its wait is
	// over while others run. A type's [Limit] holds; a pass waits for its rate.
	// RunOnce uses at most two connections at a time, and one is enough. It does not listen
	// and does not look ahead. Any number of passes and of Runs may work on one database.
	//
	// Options out of their bounds are a [*ValidationError]. The error matches [ErrOutdated]
	// as for Run, and [ErrRunning] while a Run or a pass of this scheduler runs. It matches
	// [errors.ErrUnsupported] in a host's transaction. After any other error the result
	// says what was done all the same; the next pass goes on from there.
	RunOnce(ctx context.Context, o RunOnceOptions) (RunOnceResult, error)

	// Missed reports which events have been ready for longer than the grace (see
	// [WithMissedGrace]), as after a downtime, and logs a line about them. They need no
	// further care: Run executes them, oldest first. Run calls it at its start.
	Missed(ctx context.Context) (Missed, error)

	// FindMissed returns up to limit of the events that Missed counts, oldest first: in
	// the order in which Run executes them. The limit is 1 to 1,000; zero means 1,000, any
	// other is a [*ValidationError]. FindMissed changes nothing and logs nothing.
	FindMissed(ctx context.Context, limit int) ([]Event, error)

	// Health returns how Run does at the moment. It asks nobody, so it is cheap and
	// cannot fail. All schedulers that [Scheduler].With made of one have the same.
	Health() Health
}

// Planner stores people and keeps what they are owed in step with them.
type Planner interface {
	// CreateUser stores a person and the first event of each registered type that
	// they are owed, in one transaction. A profile that is not valid is a
	// [*ValidationError]; an id that is taken matches [ErrExists].
	CreateUser(ctx context.Context, p Profile) (Enrolment, error)

	// UpdateUser changes a person and replans their pending events, in one
	// transaction. Events that were ever claimed keep their target; their successors
	// follow the change. A change that is not valid is a [*ValidationError]; a person
	// who does not exist, a [*NotFoundError]; one who is no longer at the version that
	// the change is for, an [*OptimisticLockError].
	UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (Rescheduled, error)

	// DeleteUser deletes a person and what they were owed. [Delete] says what becomes
	// of deliveries in flight. The error is a [*NotFoundError] when there is no such
	// person.
	DeleteUser(ctx context.Context, id uuid.UUID, how Delete) (Deletion, error)

	// Schedule stores the next event of one type for a person, as when a host
	// introduces a type: one for each series, see [MultiSeries]. An event that is open
	// already stays as it is. It returns all open events of the type in the order of
	// their keys. The error matches [ErrNoOccurrence] when the person is owed none.
	Schedule(ctx context.Context, userID uuid.UUID, eventType string) ([]Event, error)

	// Reschedule replans a person's pending events without changing the person: after
	// the handlers have changed, or to mend a series that had come to a stand.
	Reschedule(ctx context.Context, userID uuid.UUID) (Rescheduled, error)
}

// Enrolment is a person as stored, with their first events.
type Enrolment struct {
	User   User
	Events []Event // in the order of event types, then of series
}

// Rescheduled says what a change to a person did to their events.
type Rescheduled struct {
	User      User        // as stored
	Moved     []Event     // pending events that have another target now
	Refreshed []Event     // pending events whose target stayed; their payload was made anew
	Added     []Event     // events of types that the person is newly owed
	Removed   []Event     // events of types that the person is no longer owed
	Skipped   []uuid.UUID // events that were claimed before, which keep the old data; observers hear EventSkipped of each
}

// NewScheduler returns a scheduler of the registry's event types on a repository.
// Settings out of their bounds are all reported at once.
func NewScheduler(r Repository, registry Registry, options ...Option) (Scheduler, error) {
	s, err := newSettings(r, registry, options)
	if err != nil {
		return nil, err
	}
	return &scheduler{settings: s, repository: r, registry: registry, running: new(running), zones: new(atomic.Pointer[zoneView])}, nil
}

type scheduler struct {
	settings
	repository Repository
	registry   Registry
	running    *running // shared by the schedulers that With made
	zones      *atomic.Pointer[zoneView]
}

func (s *scheduler) With(r Repository) Scheduler {
	bound := *s
	bound.repository = r
	if !bound.inTransaction() { // it may be on another database
		bound.zones = new(atomic.Pointer[zoneView])
	}
	return &bound
}

func (s *scheduler) CreateUser(ctx context.Context, p Profile) (Enrolment, error) {
	now, err := s.repository.Now(ctx)
	if err != nil {
		return Enrolment{}, err
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return Enrolment{}, err
	}
	planned, err := s.planFirst(p, now, zones)
	if err != nil {
		return Enrolment{}, err
	}
	u, events, err := s.repository.CreateUser(ctx, planned.User, planned.Events...)
	if err != nil {
		return Enrolment{}, err
	}
	s.tell(ctx, Notice{Kind: UserCreated, User: u})
	s.tellEvents(ctx, EventCreated, events)
	s.running.wakeFor(events...)
	return Enrolment{u, events}, nil
}

// planFirst makes a user of a profile, and plans their first events.
func (s *scheduler) planFirst(p Profile, now time.Time, zones *zoneView) (Enrolment, error) {
	u, err := NewUser(p, now)
	if err != nil {
		return Enrolment{}, err
	}
	all, err := s.allSeries(u)
	if err != nil {
		return Enrolment{}, err
	}
	events, err := firsts(all, nil, Roster{User: u, Now: now})
	return Enrolment{u, zones.stampAll(events)}, err
}

func (s *scheduler) UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (Rescheduled, error) {
	return s.edit(ctx, id, func(r Roster) (User, error) {
		if c.isEmpty() {
			return r.User, r.User.expect(c.Version)
		}
		return r.User.Edit(c, r.Now)
	})
}

func (s *scheduler) Reschedule(ctx context.Context, id uuid.UUID) (Rescheduled, error) {
	return s.edit(ctx, id, func(r Roster) (User, error) { return r.User, nil })
}

// edit changes a user and brings their pending events into step, in one
// transaction, and tells what came of it.
func (s *scheduler) edit(ctx context.Context, id uuid.UUID, change func(Roster) (User, error)) (Rescheduled, error) {
	var before Roster
	zones, err := s.zoneView(ctx)
	if err != nil {
		return Rescheduled{}, err
	}
	stored, err := s.repository.EditUser(ctx, id, func(r Roster) (Edit, error) {
		before = r
		u, err := change(r)
		if err != nil {
			return Edit{}, err
		}
		return s.replanAll(replanning{r, u, zones})
	})
	s.measureEdit(ctx, UpdateUser, err)
	if err != nil {
		s.logConflict(ctx, before, err)
		return Rescheduled{}, err
	}
	result := s.summarize(before, stored)
	s.tellEdit(ctx, before.User, stored)
	s.tellEvents(ctx, EventSkipped, before.InFlight)
	if !s.inTransaction() { // which may yet be rolled back
		s.logEdit(ctx, before, result)
	}
	s.running.wakeFor(slices.Concat(stored.Moved, stored.Added)...)
	return result, nil
}

// replanAll returns the edit that makes a roster what it should be.
func (s *scheduler) replanAll(p replanning) (Edit, error) {
	edit := Edit{}
	if p.is.Version != p.User.Version {
		edit.User = &p.is
	}
	all, err := s.allSeries(p.is)
	if err != nil {
		return Edit{}, err
	}
	for _, e := range p.Pending {
		h, err := s.registry.Handler(e.Type)
		if err != nil {
			continue // another program's type: its own handler will see to it
		}
		if e.detached() {
			if err := p.detached(h, e, &edit); err != nil {
				return Edit{}, err
			}
			continue
		}
		i := slices.IndexFunc(all, func(one oneSeries) bool { return one.id() == idOf(h, e) })
		if i < 0 {
			edit.Removed = append(edit.Removed, e)
			continue
		}
		next, err := guarded("replanning "+e.Type, func() (Event, error) { return p.event(all[i], e) })
		switch {
		case errors.Is(err, ErrNoOccurrence):
			edit.Removed = append(edit.Removed, e)
		case err != nil:
			return Edit{}, err
		default:
			edit.Moved = append(edit.Moved, next)
		}
	}
	edit.Added, err = firsts(all, s.open(p.Roster), Roster{User: p.is, Used: p.Used, Now: p.Now})
	p.zones.stampAll(edit.Added)
	return edit, err
}

// open says which series of a roster have an event ahead or in flight.
func (s *scheduler) open(r Roster) map[seriesID]bool {
	open := make(map[seriesID]bool)
	for _, e := range slices.Concat(r.InFlight, r.Pending) {
		if h, err := s.registry.Handler(e.Type); err == nil {
			open[idOf(h, e)] = true
		}
	}
	return open
}

// summarize tells the events whose target moved from those that were only made anew.
func (s *scheduler) summarize(before Roster, stored Edit) Rescheduled {
	result := Rescheduled{User: before.User, Added: stored.Added, Removed: stored.Removed}
	if stored.User != nil {
		result.User = *stored.User
	}
	for _, e := range stored.Moved {
		i := slices.IndexFunc(before.Pending, func(was Event) bool { return was.ID == e.ID })
		if was := before.Pending[i]; was.Due.Equal(e.Due) && was.Wall == e.Wall {
			result.Refreshed = append(result.Refreshed, e)
		} else {
			result.Moved = append(result.Moved, e)
		}
	}
	for _, e := range before.InFlight {
		result.Skipped = append(result.Skipped, e.ID)
	}
	return result
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
	stored, err := s.repository.EditUser(ctx, id, func(r Roster) (Edit, error) {
		existing = slices.DeleteFunc(slices.Concat(r.InFlight, r.Pending), func(e Event) bool { return e.Type != eventType })
		list, err := seriesOf(h, r.User)
		if err != nil {
			return Edit{}, err
		}
		added, err := firsts(list, s.open(r), r)
		return Edit{Added: zones.stampAll(added)}, err
	})
	if err != nil {
		return nil, err
	}
	s.tellEvents(ctx, EventCreated, stored.Added)
	s.running.wakeFor(stored.Added...)
	events := slices.Concat(existing, stored.Added)
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: user %s is owed no %s", ErrNoOccurrence, id, eventType)
	}
	slices.SortFunc(events, func(a, b Event) int { return strings.Compare(a.OccurrenceKey, b.OccurrenceKey) })
	return events, nil
}

func (s *scheduler) DeleteUser(ctx context.Context, id uuid.UUID, how Delete) (Deletion, error) {
	d, err := s.repository.DeleteUser(ctx, id, how)
	s.measureEdit(ctx, UpdateUser, err)
	if err != nil {
		return Deletion{}, err
	}
	s.tell(ctx, Notice{Kind: UserDeleted, User: User{ID: id}})
	return d, nil
}

// isEmpty reports that nothing is to be changed, at whatever version.
func (c ProfileChange) isEmpty() bool {
	return c.FirstName == nil && c.LastName == nil && c.DateOfBirth == nil && c.Timezone == nil && c.Attributes == nil && c.Merge == nil
}
