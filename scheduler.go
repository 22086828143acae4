package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// Scheduler makes things happen at a local time of day. It is safe for concurrent
// use. A program that only plans never calls Run; any number of programs may run
// on one database.
type Scheduler interface {
	Planner

	// Run claims and executes events until ctx is done. Then it claims nothing more,
	// lets what is in hand finish for as long as [WithDrain] says, cancels and gives
	// back the rest, stores every outcome and returns nil. It waits for every
	// goroutine that it started, except those of deliveries that ignore their
	// context, of which the error tells.
	//
	// A scheduler runs once at a time; a second concurrent Run returns [ErrRunning].
	Run(ctx context.Context) error

	// Missed reports which events have been ready for longer than the grace (see
	// [WithMissedGrace]), as after a downtime, and logs a line about them. They need no
	// further care: Run executes them, oldest first. Run calls it at its start.
	Missed(ctx context.Context) (Missed, error)

	// With returns a scheduler on another repository, with everything else the same.
	// On one that is bound to the host's transaction, what the scheduler stores is
	// part of that transaction, and observers are not told.
	With(r Repository) Scheduler
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
	// who does not exist, a [*NotFoundError].
	UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (Rescheduled, error)

	// DeleteUser deletes a person and what they were owed. See
	// [UserRepository].DeleteUser for what becomes of deliveries in flight.
	DeleteUser(ctx context.Context, id uuid.UUID) (Deletion, error)

	// Schedule stores the next event of one type for a person, as when a host
	// introduces a type. An open event of that type is returned as it is instead.
	// The error matches [ErrNoOccurrence] when the person is owed none.
	Schedule(ctx context.Context, userID uuid.UUID, eventType string) (Event, error)

	// Reschedule replans a person's pending events without changing the person: after
	// the handlers have changed, or to mend a series that had come to a stand.
	Reschedule(ctx context.Context, userID uuid.UUID) (Rescheduled, error)
}

// Enrolment is a person as stored, with their first events.
type Enrolment struct {
	User   User
	Events []Event // ordered by event type
}

// Rescheduled says what a change to a person did to their events.
type Rescheduled struct {
	User      User        // as stored
	Moved     []Event     // pending events that have another target now
	Refreshed []Event     // pending events whose target stayed; their payload was made anew
	Added     []Event     // events of types that the person is newly owed
	Removed   []Event     // events of types that the person is no longer owed
	Skipped   []uuid.UUID // events in flight, which keep the old data
}

// NewScheduler returns a scheduler of the registry's event types on a repository.
// Settings out of their bounds are all reported at once.
func NewScheduler(r Repository, registry Registry, options ...Option) (Scheduler, error) {
	s, err := newSettings(r, registry, options)
	if err != nil {
		return nil, err
	}
	return &scheduler{settings: s, repository: r, registry: registry, running: new(running)}, nil
}

type scheduler struct {
	settings
	repository Repository
	registry   Registry
	running    *running // shared by the schedulers that With made
}

func (s *scheduler) With(r Repository) Scheduler {
	bound := *s
	bound.repository = r
	return &bound
}

func (s *scheduler) CreateUser(ctx context.Context, p Profile) (Enrolment, error) {
	now, err := s.repository.Now(ctx)
	if err != nil {
		return Enrolment{}, err
	}
	u, err := NewUser(p, now)
	if err != nil {
		return Enrolment{}, err
	}
	var events []Event
	for _, eventType := range s.registry.EventTypes() {
		e, err := s.first(eventType, Roster{User: u, Now: now})
		if errors.Is(err, ErrNoOccurrence) {
			continue
		}
		if err != nil {
			return Enrolment{}, err
		}
		events = append(events, e)
	}
	u, events, err = s.repository.CreateUser(ctx, u, events...)
	if err != nil {
		return Enrolment{}, err
	}
	s.tell(ctx, Notice{Kind: UserCreated, User: u})
	s.tellEvents(ctx, EventCreated, events)
	s.running.wake()
	return Enrolment{u, events}, nil
}

// first plans the next event of a type for a roster's user.
func (s *scheduler) first(eventType string, r Roster) (Event, error) {
	h, err := s.registry.Handler(eventType)
	if err != nil {
		return Event{}, err
	}
	return guarded("planning "+eventType, func() (Event, error) {
		return plan(h, r.User, r.Now, r.Used[eventType])
	})
}

func (s *scheduler) UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (Rescheduled, error) {
	return s.edit(ctx, id, func(r Roster) (User, error) {
		if c.isEmpty() {
			return r.User, nil
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
	stored, err := s.repository.EditUser(ctx, id, func(r Roster) (Edit, error) {
		before = r
		u, err := change(r)
		if err != nil {
			return Edit{}, err
		}
		return s.replanAll(r, u)
	})
	if err != nil {
		return Rescheduled{}, err
	}
	result := s.summarize(before, stored)
	s.tellEdit(ctx, before.User, stored)
	s.running.wake()
	return result, nil
}

// replanAll returns the edit that makes a roster what it should be for u.
func (s *scheduler) replanAll(r Roster, u User) (Edit, error) {
	edit := Edit{}
	if u.Version != r.User.Version {
		edit.User = &u
	}
	open := make(map[string]bool)
	for _, e := range r.InFlight {
		open[e.Type] = true
	}
	for _, e := range r.Pending {
		open[e.Type] = true
		h, err := s.registry.Handler(e.Type)
		if err != nil {
			continue // another program's type: its own handler will see to it
		}
		next, err := guarded("replanning "+e.Type, func() (Event, error) { return replan(h, r, u, e) })
		switch {
		case errors.Is(err, ErrNoOccurrence):
			edit.Removed = append(edit.Removed, e)
		case err != nil:
			return Edit{}, err
		default:
			edit.Moved = append(edit.Moved, next)
		}
	}
	for _, eventType := range s.registry.EventTypes() {
		if open[eventType] {
			continue
		}
		e, err := s.first(eventType, Roster{User: u, Used: r.Used, Now: r.Now})
		if errors.Is(err, ErrNoOccurrence) {
			continue
		}
		if err != nil {
			return Edit{}, err
		}
		edit.Added = append(edit.Added, e)
	}
	return edit, nil
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

func (s *scheduler) Schedule(ctx context.Context, id uuid.UUID, eventType string) (Event, error) {
	if _, err := s.registry.Handler(eventType); err != nil {
		return Event{}, err
	}
	var existing *Event
	stored, err := s.repository.EditUser(ctx, id, func(r Roster) (Edit, error) {
		existing = nil
		for _, e := range slices.Concat(r.InFlight, r.Pending) {
			if e.Type == eventType {
				existing = &e
				return Edit{}, nil
			}
		}
		e, err := s.first(eventType, r)
		return Edit{Added: []Event{e}}, err
	})
	if err != nil {
		return Event{}, err
	}
	if existing != nil {
		return *existing, nil
	}
	if len(stored.Added) != 1 {
		return Event{}, fmt.Errorf("almanac: %s of user %s was stored by another", eventType, id)
	}
	s.tellEvents(ctx, EventCreated, stored.Added)
	s.running.wake()
	return stored.Added[0], nil
}

func (s *scheduler) DeleteUser(ctx context.Context, id uuid.UUID) (Deletion, error) {
	d, err := s.repository.DeleteUser(ctx, id)
	if err != nil {
		return Deletion{}, err
	}
	s.tell(ctx, Notice{Kind: UserDeleted, User: User{ID: id}})
	return d, nil
}

func (c ProfileChange) isEmpty() bool {
	return c.FirstName == nil && c.LastName == nil && c.DateOfBirth == nil && c.Timezone == nil && c.Attributes == nil
}
