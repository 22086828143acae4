package almanac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/isolate"
)

// Scheduler plans events at local times of day, and runs them. It is safe for concurrent
// use. A program that only plans never calls Run. Any number of programs can use one
// database.
type Scheduler interface {
	Planner
	BulkPlanner
	OneOffPlanner
	OptOuter
	Operator
	Pauser
	Runner

	// Preview returns the next n occurrences of a type for a user, with the instant of
	// each and how it was resolved. n is 1 to 1,000. It stores nothing and locks nothing.
	// The result is shorter when the recurrence ends. It leaves out occurrences that a
	// policy skips or that give way to another occurrence. It is empty if the user has
	// opted out of the type.
	//
	// Preview skips used occurrences (see [UsedKeys]), such as one that was cancelled or run
	// before its time. The event that is due now counts as used.
	//
	// When an occurrence cannot be resolved, as under the policy reject, Preview returns
	// the earlier ones together with the error. If the handler has several series, the
	// other series are still previewed.
	Preview(ctx context.Context, userID uuid.UUID, eventType string, n int) (PreviewResult, error)

	// PreviewUser is Preview for a user as given, whether the user is stored or not. It
	// shows what a change would move: [User.Edit] returns the user with another time zone
	// or date of birth, and PreviewUser the occurrences of that user. An occurrence keeps
	// its key when the change moves it. PreviewUser leaves out the occurrences that the
	// user with this id has used.
	//
	// The error is a [*ValidationError] if the user has no time zone, or one that this
	// program cannot load. Other errors are those of Preview.
	PreviewUser(ctx context.Context, u User, eventType string, n int) (PreviewResult, error)

	// Reconcile compares the program's zone rules with the rules that the database
	// follows. For each zone whose rules are newer in the program, it resolves the
	// pending events again from their wall times. Events that were ever claimed keep
	// their instant. When the program's rules are older, all events keep theirs. An
	// interrupted call can be repeated, by any process, and continues the work. Run calls
	// Reconcile (see [WithZoneCheck]).
	Reconcile(ctx context.Context, options ReconcileOptions) (ReconcileResult, error)

	// With returns a scheduler that uses another repository and has everything else in
	// common with this one. If that repository is bound to a transaction of the host, all
	// that the new scheduler stores is part of the transaction, and observers are not
	// notified. In PostgreSQL that transaction is READ COMMITTED: above that level, edits
	// fail with an error. A context that ends during a call ends the connection, and with
	// it the transaction.
	With(r Repository) Scheduler
}

// Runner executes the planned events, in one process.
type Runner interface {
	// Run claims and executes events until ctx is done. Then it claims nothing more and
	// lets running deliveries finish for as long as [WithDrain] says. It cancels the
	// deliveries that take longer, releases their events, stores every outcome and
	// returns nil. Run waits for every goroutine that it started, except for deliveries
	// that ignore their context. If there are such deliveries, it returns an error that
	// counts them.
	//
	// An event starts at its instant by the repository's clock, never before. If the
	// repository supports it (see [Confirmer]), Run claims an event a moment before its
	// instant, so the event is PROCESSING before it starts. At the instant, Run confirms
	// that the event is unchanged. So edits and deletions before the instant still take
	// effect (see [WithLookAhead]).
	//
	// Run learns of events that other processes store from the repository's hints (see
	// [Listener]). Without hints it finds them at the next poll (see [WithPoll]).
	//
	// Only one Run of a scheduler is active at a time: a second call returns [ErrRunning]. In a
	// transaction of the host, the error matches [errors.ErrUnsupported]. If the repository
	// lacks a migration of this release, Run claims nothing, and the error matches
	// [ErrOutdated]. A newer schema is no error. While the repository is silent, Run waits.
	Run(ctx context.Context) error

	// RunOnce makes one bounded pass of the work that Run does, for hosts that a cron or
	// a function service starts. It releases the events of expired leases, plans the
	// successors that other programs left to this one (see [CancelResult]), and compares
	// zone rules. Then it claims and executes due events until no event is due, the limit
	// is reached, or the time of the pass is over. It returns how many events had which
	// outcome. When ctx ends, the pass ends as Run does: deliveries that finish within
	// [WithDrain] are stored, and the other events are released.
	//
	// A failed event is tried again by a later pass, or by this pass if the retry becomes
	// due while other events still run. A type's [Limit] applies, so a pass may wait for
	// the rate. RunOnce uses at most two connections at a time, and works with one. It
	// does not listen for hints and does not look ahead. Any number of passes and of Runs
	// can use one database.
	//
	// The error is a [*ValidationError] if an option is out of range. It matches
	// [ErrOutdated] as for Run, [ErrRunning] while another Run or pass of this scheduler
	// is active, and [errors.ErrUnsupported] in a transaction of the host. After any
	// other error, the result still counts what was done, and the next pass continues.
	RunOnce(ctx context.Context, o RunOnceOptions) (RunOnceResult, error)

	// Missed counts the events that have been ready for longer than the grace (see
	// [WithMissedGrace]), as after a downtime, and logs the count. Missed events need no
	// action, because Run executes them, oldest first. Run calls Missed when it starts.
	Missed(ctx context.Context) (Missed, error)

	// FindMissed returns up to limit of the events that Missed counts, oldest first,
	// which is the order in which Run executes them. The limit is 1 to 1,000. Zero means
	// 1,000. Any other limit is a [*ValidationError]. FindMissed changes nothing and logs
	// nothing.
	FindMissed(ctx context.Context, limit int) ([]Event, error)

	// Health returns the present condition of Run. It makes no call to the repository, so
	// it is cheap and cannot fail. It is the same for all schedulers that
	// [Scheduler].With made from one another.
	Health() Health
}

// Planner stores users and keeps their pending events up to date.
type Planner interface {
	// CreateUser stores a user together with the user's first event of each registered
	// type that has an occurrence for the user, in one transaction. The error is a
	// [*ValidationError] if the profile is invalid, an [*ExternalIDTakenError] if another
	// user has the external id. It matches [ErrExists] if the id is taken, and [ErrLocked]
	// while a user with this id is being deleted: then try again later.
	CreateUser(ctx context.Context, p Profile) (UserWithEvents, error)

	// UpdateUser changes a user and replans the user's pending events, in one
	// transaction. Events that were ever claimed keep their target; their successors
	// follow the change. The error is a [*ValidationError] if the change is invalid, a
	// [*NotFoundError] if the user does not exist, an [*ExternalIDTakenError] if another
	// user has the external id, and an [*OptimisticLockError] if the user has another
	// version than [ProfileChange].Version.
	UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (UpdateUserResult, error)

	// DeleteUser deletes a user together with the user's events. [DeleteOptions] says how
	// deliveries in flight are treated. The error is a [*NotFoundError] if the user does
	// not exist.
	DeleteUser(ctx context.Context, id uuid.UUID, options DeleteOptions) (DeleteResult, error)

	// Schedule stores the next event of one type for a user, as when a host introduces a
	// type. A handler with several series has one event for each of them (see
	// [MultiSeries]). A series that has an open event is left unchanged. Schedule returns
	// all open events of the type, in the order of series and occurrence keys. The error
	// matches [calendar.ErrNoOccurrence] if the user has no occurrence of the type, and
	// [ErrOptedOut] if the user has opted out of it.
	Schedule(ctx context.Context, userID uuid.UUID, eventType string) ([]Event, error)

	// Reschedule replans a user's pending events without a change of the user. Call it
	// after a change of the handlers, or to continue a series whose successor could not
	// be planned.
	Reschedule(ctx context.Context, userID uuid.UUID) (UpdateUserResult, error)
}

// UserWithEvents is a stored user together with the user's first events.
type UserWithEvents struct {
	User   User
	Events []Event // in the order of event types, then of series
}

// UpdateUserResult says how a change of a user affected the user's events. An event that is
// in none of the lists is unchanged, and keeps its version.
type UpdateUserResult struct {
	User      User        // as stored
	Moved     []Event     // pending events whose occurrence has another wall time or instant now
	Refreshed []Event     // pending events with the same wall time and instant, and another payload, zone or policy
	Added     []Event     // new events: of series that had no open event, and in place of removed ones
	Removed   []Event     // pending events that are dropped: their occurrence no longer exists, has passed or is refused
	Cancelled []Event     // events that waited for another attempt, and are refused now; see OptOuter
	Skipped   []uuid.UUID // events that were claimed or requeued before and keep the old data; observers are notified of each by EventSkipped
	// LeftOut are occurrences that are not delivered, because they count as used after the
	// change: of each series that the change replanned, or whose event is in flight, at most
	// the next occurrence after now. On a day that had an event by the old rule there is
	// none by the new rule, so a yearly rule can miss a year. An occurrence that was itself
	// delivered or cancelled is not left out. To deliver something at once, use
	// [Operator].RunNow.
	LeftOut map[Series]Occurrence
}

// NewScheduler returns a scheduler that stores events of the registry's types in a
// repository. The error joins all options that are out of range.
func NewScheduler(r Repository, registry Registry, options ...Option) (Scheduler, error) {
	s, err := newSettings(r, registry, options)
	if err != nil {
		return nil, err
	}
	return &scheduler{settings: s, repository: r, registry: registry, running: &running{host: isolate.NewGroup(min(stuckAfter, s.lease/12))}, zones: new(atomic.Pointer[zoneView])}, nil
}

type scheduler struct {
	settings
	repository Repository
	registry   Registry
	running    *running // shared by all schedulers that With made from this one
	zones      *atomic.Pointer[zoneView]
}

func (s *scheduler) With(r Repository) Scheduler {
	bound := *s
	bound.repository = r
	if !bound.inTransaction() { // it may be in another database
		bound.zones = new(atomic.Pointer[zoneView])
	}
	return &bound
}

func (s *scheduler) UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (UpdateUserResult, error) {
	return s.edit(ctx, id, func(r Roster) (User, error) {
		if needed := c.needed(r.User); !needed.isEmpty() {
			return r.User.edit(needed, r.Now, s.optional)
		} else if err := r.User.expect(c.Version); err != nil || c.isEmpty() {
			return r.User, err
		}
		return r.User, errNothingToDo
	})
}

func (s *scheduler) Reschedule(ctx context.Context, id uuid.UUID) (UpdateUserResult, error) {
	return s.edit(ctx, id, func(r Roster) (User, error) { return r.User, nil })
}

// edit changes a user and replans the user's pending events, in one transaction. Then it
// notifies observers.
func (s *scheduler) edit(ctx context.Context, id uuid.UUID, change func(Roster) (User, error)) (UpdateUserResult, error) {
	var before Roster
	var left map[Series]Occurrence
	zones, err := s.zoneView(ctx)
	if err != nil {
		return UpdateUserResult{}, err
	}
	stored, err := s.repository.EditUser(ctx, id, func(r Roster) (wanted Edit, err error) {
		before, left = r, nil
		u, err := change(r)
		if errors.Is(err, errNothingToDo) {
			before = Roster{User: r.User}
			return Edit{}, nil
		}
		if err != nil {
			return Edit{}, err
		}
		p := replanning{r, u, zones}
		if wanted, err = s.replanAll(p); err == nil {
			left = s.leftOut(p, wanted)
		}
		return wanted, err
	})
	s.measureEdit(ctx, UpdateUser, err)
	if err != nil {
		s.logConflict(ctx, before, err)
		return UpdateUserResult{}, err
	}
	s.notifyEdit(ctx, before, stored)
	before.InFlight = slices.DeleteFunc(before.InFlight, func(e Event) bool { // the rest is skipped
		return slices.ContainsFunc(stored.Changed, func(is Event) bool { return is.ID == e.ID })
	})
	result := summarize(before, stored)
	result.LeftOut = left
	s.notifyEvents(ctx, EventSkipped, before.InFlight)
	if !s.inTransaction() { // a transaction of the host may still be rolled back
		s.logEdit(ctx, before, result)
	}
	s.running.wakeFor(slices.Concat(stored.Changed, stored.New)...)
	return result, nil
}

// replanAll returns the edit that brings the events of a roster up to date. It is called within the
// transaction that changes the user: see docs/adr/0007-edits.md.
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
			continue // a type of another program, whose handler replans it
		}
		if e.detached() {
			if unwanted(h, p.is, "") {
				edit.Removed = append(edit.Removed, e)
			} else if err := p.detached(h, e, &edit); err != nil {
				return Edit{}, err
			}
			continue
		}
		i := slices.IndexFunc(all, func(one oneSeries) bool { return one.id() == SeriesOf(e) })
		if i < 0 {
			edit.Removed = append(edit.Removed, e)
			continue
		}
		next, err := guarded("replanning", e.Type, func() (Event, error) { return p.event(all[i], e) })
		switch {
		case errors.Is(err, calendar.ErrNoOccurrence):
			edit.Removed = append(edit.Removed, e)
		case err != nil:
			return Edit{}, err
		case !next.sameTarget(e):
			edit.Changed = append(edit.Changed, next)
		}
	}
	done, err := s.calledOff(p)
	if err != nil {
		return Edit{}, err
	}
	edit.Changed = append(edit.Changed, done...)
	open := p.open()
	for _, e := range edit.Removed { // another occurrence may take its place
		delete(open, SeriesOf(e))
	}
	edit.New, err = firsts(all, open, Roster{User: p.is, Used: p.Used, Now: p.Now})
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
		list, err := seriesFor(h, r.User)
		if err != nil {
			return Edit{}, err
		}
		added, err := firsts(list, r.open(), r)
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
	s.measureEdit(ctx, UpdateUser, err)
	if err != nil {
		return DeleteResult{}, err
	}
	s.notify(ctx, Notice{Kind: UserDeleted, User: User{ID: id}})
	return d, nil
}
