package almanac

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/isolate"
)

// Scheduler plans events at local times of day, and runs them. It is safe for concurrent use.
// A program that only plans never calls Run. Any number of programs can use one database.
type Scheduler interface {
	Planner
	Operator
	Runner

	// Preview returns the next n occurrences of a type for a user, with the instant of each and how
	// it was resolved. n is 1 to 1,000. It stores nothing and locks nothing. The result is shorter
	// when the recurrence ends. It leaves out occurrences that a policy skips or that give way to
	// another occurrence. It is empty if the user has opted out of the type.
	//
	// Preview skips used occurrences (see [UsedKeys]), such as one that was cancelled or run
	// before its time. The event that is due now counts as used.
	//
	// When an occurrence cannot be resolved, as under the policy reject, Preview returns the earlier ones
	// together with the error. If the handler has several series, the other series are still previewed.
	Preview(ctx context.Context, userID uuid.UUID, eventType string, n int) (PreviewResult, error)

	// PreviewUser is Preview for a user as given, whether the user is stored or not. It shows what
	// a change would move: [User.Edit] returns the user with another time zone or date of birth,
	// and PreviewUser the occurrences of that user. An occurrence keeps its key when the change
	// moves it. PreviewUser leaves out the occurrences that the user with this id has used.
	//
	// The error is a [*ValidationError] if the user has no time zone, or one that this
	// program cannot load. Other errors are those of Preview.
	PreviewUser(ctx context.Context, u User, eventType string, n int) (PreviewResult, error)

	// Foresee returns the events of a user that end from r.Now until an instant, if programs run all the time and each
	// first attempt succeeds. They are as they end, in the order of UpdatedAt, which is when. r has the user with the
	// open events and used keys of all types (see [UserRepository].Rosters). With replan, the pending events are
	// planned again first, as by RescheduleType with the same passed. Without replan, passed has no effect. Foresee makes
	// no call to the repository.
	//
	// Foresee obeys opt-outs, quiet hours, spread and catch-up, and plans follow-ups. It does not know the host's checks,
	// the limits and pauses of lanes, and events whose type has no handler. If an event cannot be planned, or if there
	// are more than 10,000 events, the error says so, beside the events before.
	Foresee(ctx context.Context, r Roster, until time.Time, replan bool, passed time.Duration) ([]Event, error)

	// ChannelOf returns the channel that the handler of an event chooses for it now. It is "" if the handler
	// delivers its events itself (see [Executor]). The error is an [*UnsupportedEventTypeError] if the type
	// has no handler, or says that the handler panicked or is blocked.
	ChannelOf(ctx context.Context, e Event) (Channel, error)

	// Reconcile compares the program's zone rules with the rules that the database follows. For
	// each zone whose rules are newer in the program, it resolves the pending events again from
	// their wall times. Events that were ever claimed keep their instant. When the program's rules
	// are older, all events keep theirs. An interrupted call can be repeated, by any process, and
	// continues the work. Run calls Reconcile (see [WithZoneCheck]).
	//
	// It does the same for the work calendars of the program's handlers ([Execution].WorkCalendars), and for the
	// calendars that the process knows ([calendar.RegisterSystems]): events that looked at a year which a newer release
	// has changed are planned again by their handlers. Reconcile goes on past users whose events cannot be planned. If
	// the database follows the same release of a calendar with other days, the error matches [*calendar.ReleaseError],
	// and the events of that calendar stay. Until the calendars agree, no call of this program plans such events.
	Reconcile(ctx context.Context, options ReconcileOptions) (ReconcileResult, error)

	// With returns a scheduler that uses another repository and has everything else in common with
	// this one. If that repository is bound to a transaction of the host, all that the new
	// scheduler stores is part of the transaction, and observers are not notified. In PostgreSQL
	// that transaction is READ COMMITTED: above that level, edits fail with an error. A context
	// that ends during a call ends the connection, and with it the transaction.
	With(r Repository) Scheduler

	// Repository returns the repository that the scheduler uses.
	Repository() Repository

	// Registry returns the registry of the scheduler's handlers.
	Registry() Registry
}

// Planner stores users and plans their events. On a scheduler that is bound to a transaction of
// the host, all changes are part of that transaction. An edit that waits for a handler keeps a
// goroutine until the handler returns, even if the context of the edit ends before. After five seconds
// the call counts as blocked, and ten blocked calls of a handler make further ones fail (see [Health]).
type Planner interface {
	// CreateUser stores a user together with the user's first event of each registered type that has an
	// occurrence for the user, in one transaction. The error is a [*ValidationError] if the profile is
	// invalid, an [*ExternalIDTakenError] if another user has the external id. It matches [ErrExists] if
	// the id is taken, and [ErrLocked] while a user with this id is being deleted: then try again later.
	CreateUser(ctx context.Context, p Profile) (UserWithEvents, error)

	// UpdateUser changes a user and replans the user's pending events, in one transaction. Events
	// that were ever claimed keep their instant; their successors follow the change. The error is a
	// [*ValidationError] if the change is invalid, a [*NotFoundError] if the user does not exist,
	// an [*ExternalIDTakenError] if another user has the external id, and an [*OptimisticLockError]
	// if the user has another version than [ProfileChange].Version.
	UpdateUser(ctx context.Context, id uuid.UUID, c ProfileChange) (UpdateUserResult, error)

	// UpdateUsers changes users as UpdateUser does, up to 1,000 in one transaction. changes has an element for
	// each id. Each user is changed or has an error. If an id comes twice, its changes are made in their order.
	UpdateUsers(ctx context.Context, ids []uuid.UUID, changes []ProfileChange) ([]UpdateUserResult, []error)

	// DeleteUser deletes a user together with the user's events. [DeleteOptions] says how
	// deliveries in flight are treated. The error is a [*NotFoundError] if the user does not exist.
	DeleteUser(ctx context.Context, id uuid.UUID, options DeleteOptions) (DeleteResult, error)

	// Schedule stores the next event of one type for a user, as when a host introduces a type. A
	// handler with several series has one event for each of them (see [MultiSeries]). A series that
	// has an open event is left unchanged. Schedule returns all open events of the type, in the
	// order of series and occurrence keys. The error matches [calendar.ErrNoOccurrence] if the user
	// has no occurrence of the type, and [ErrOptedOut] if the user has opted out of it.
	Schedule(ctx context.Context, userID uuid.UUID, eventType string) ([]Event, error)

	// Reschedule replans a user's pending events without a change of the user. Call it after
	// a change of the handlers, or to continue a series whose successor could not be planned.
	Reschedule(ctx context.Context, userID uuid.UUID) (UpdateUserResult, error)

	// CreateUsers stores users as [Planner].CreateUser does, up to 1,000 in one transaction. A user
	// is stored with all first events, or not at all. Existing users are left unchanged. So an
	// interrupted call can be repeated from the beginning, and several processes can make the same
	// call, if the host sets the ids. Suitable ids are UUIDs of version 5, made from the host's own
	// ids. A profile without an id creates another user each time.
	//
	// A user who cannot be stored is listed in Refused, and the other users are stored.
	// CreateUsers stops at the first error of profiles, of the repository or of ctx. It
	// waits for the batches that are being stored, and returns the error with the counts of
	// what is stored. When the repository fails in the middle of a batch, CreateUsers looks
	// up which users are stored. The counts leave out users that cannot be looked up.
	CreateUsers(ctx context.Context, profiles iter.Seq2[Profile, error], options CreateUsersOptions) (CreateUsersResult, error)

	// PutUsers creates the users of profiles who do not exist, and changes those who do, as an import does. A
	// profile is for the user with its id, or without one for the user with its external id, which it then needs.
	// It changes what it states: "" and nil Attributes leave what is stored, OptOuts are added, and CreationDigest
	// is for new users. A user whom it does not change is neither written nor locked. The others are stored up
	// to 1,000 in one transaction, each with the events, errors and notices of CreateUser and UpdateUser.
	//
	// The results have the order of the profiles. So have the users before the call: with Version zero if the user did
	// not exist, and the Version of the result if the user is unchanged. A profile for the user of an earlier one comes
	// after it. If another call creates the same user meanwhile, the error is that of CreateUser: try again. Each user
	// who may not be stored has the error of the repository. A dry run only compares, and returns no events.
	PutUsers(ctx context.Context, profiles []Profile, dryRun bool) (results []UpdateUserResult, before []User, errs []error)

	// Backfill stores the next events of one type for all existing users who have no open event of it,
	// as [Planner].Schedule does for one user. It can be interrupted, repeated, and run by several
	// processes at the same time. It locks the users of a page, at most two pages at a time, while it
	// plans and stores their events. Edits and deliveries of other users go on. After an error, one page
	// more may be stored than the result counts. A user who is created meanwhile gets the events from
	// the program that creates the user, if that program has the handler.
	//
	// Backfill does not wait for locks. If a user stays locked for seconds, or until an error
	// ends the call, Backfill lists the user in Refused with [ErrLocked]. A Backfill that
	// continues from Next leaves that user out, but a Backfill from the beginning does not.
	// The error is an [*UnsupportedEventTypeError] if the type has no handler.
	Backfill(ctx context.Context, eventType string, options BackfillOptions) (BackfillResult, error)

	// RescheduleType replans the pending events of one type for a page of users, as after a change of its
	// handler. The result has an item for each user who was replanned, in the order of ids. Series without
	// an open event are planned, as in Backfill. The rules are those of Reschedule, except as passed says.
	// Each user whose events change is one transaction, and four such transactions are in progress at a
	// time. The other users are read without locks. Repeating a call changes nothing twice.
	//
	// passed says what becomes of a pending event if the time that the handler names now differs from that
	// of the event, and has passed. Zero means the rule of an edit: the event is removed, and the next
	// occurrence is planned. An event that is due stays due if its new time is on the same day. It also
	// stays due if a new release of a calendar moved it. A positive duration makes the event due at once if its new time
	// was at most that long ago; otherwise the rule of an edit holds. [PassedNow] has no such limit. A
	// negative duration, such as [PassedSkip], removes each such event.
	//
	// A user who cannot be replanned is in the list of refusals. If another transaction has locked the user
	// for five seconds, the refusal is [ErrLocked]: repeat the page, or call Reschedule for that user. The error is an
	// [*UnsupportedEventTypeError] if the type has no handler, a [*ValidationError] if the page is invalid,
	// and that of the repository if the users cannot be read. When ctx ends, users in
	// progress are processed to the end. The result has them, Next continues after the last one, and the
	// error is the cause of ctx. When the database fails while a user is edited, the page ends in the same way with
	// that error, which has a method User() uuid.UUID. Next then continues with this user. The result can also have up to
	// three users after Next, who were in progress. For all pages of a type, with counts, use ops.RollOut.
	RescheduleType(ctx context.Context, eventType string, page Page, passed time.Duration) (List[UpdateUserResult], []Refusal, error)

	// PreviewReschedule returns what RescheduleType would return. It stores nothing and locks nothing.
	PreviewReschedule(ctx context.Context, eventType string, page Page, passed time.Duration) (List[UpdateUserResult], []Refusal, error)

	// ScheduleAt stores one event of a type for a user, due when clocks show a wall time. The event has no
	// successor, unless its handler is a [Follower]. If the instant has passed, the event is due at once. On
	// a scheduler that is bound to a transaction of the host, the event is part of that transaction.
	//
	// The key names the event among the events of the user and the type, permanently. A
	// repeated call with the same options returns the stored event, whatever its status,
	// and changes nothing. Concurrent calls store one event. A call with [ScheduleAtOptions].Move
	// moves the event to another time, or changes its payload.
	//
	// Later edits of the user leave the wall time and the policies unchanged. The event follows the user to
	// another zone only with FollowUser. A payload from the options stays; a payload that the handler made is
	// made again. A change of zone rules moves the event like any other. Deleting the user deletes the event.
	//
	// The error is a [*ValidationError] that names each invalid option, or says that the user has
	// 10,000 open events, which each edit of a user reads. It is an [*UnsupportedEventTypeError] if
	// the type has no handler, and a [*NotFoundError] if the user does not exist. It matches
	// [ErrOptedOut] if the user refuses events of the type. It is a [*calendar.WallTimeError] if
	// the policies reject or skip the wall time. It matches [ErrExists] if the key names an event
	// with other options; the result then has that event. Otherwise a second event at one time
	// without a key would be lost without an error. [Operator].RunNow does not change the options
	// of an event. The error also matches ErrExists if the key names an event that was pruned. It is
	// an [*InvalidStateTransitionError] if Move finds an event that was claimed or has ended, with
	// other options; the result then has that event.
	ScheduleAt(ctx context.Context, userID uuid.UUID, eventType string, o ScheduleAtOptions) (ScheduleAtResult, error)

	// ScheduleAtEach plans the event of ScheduleAt for many users, for packages such as broadcast that store events
	// themselves. It calls add, which has a repository lock some users, and passes plan to it as
	// [UserRepository].AddEvents takes it. Plan also returns the users who are refused: those who have opted out, with
	// [ErrOptedOut], and those whose event cannot be planned. A user who has an event with the key gets no other one.
	// When add has returned, ScheduleAtEach notifies observers of the events in its result. It calls add again if a
	// handler blocks. The result is that of add, and Refused also has the users whom plan refused. The errors are those
	// of add, a [*ValidationError] and an [*UnsupportedEventTypeError]. Move has no effect.
	ScheduleAtEach(ctx context.Context, eventType string, o ScheduleAtOptions, add func(plan func(users []UserSeries, now time.Time) ([]Event, []Refusal, error)) (AddEventsResult, error)) (AddEventsResult, error)

	// OptOut stores that a user refuses events. In the same transaction:
	//
	//   - PENDING events that were never claimed are removed. Their occurrence keys are not
	//     used.
	//   - PENDING events that wait for another attempt are CANCELLED for
	//     [ReasonOptedOut]. Their occurrence keys are used.
	//   - PROCESSING events cannot be recalled. If such a delivery succeeds, the event is
	//     COMPLETED. After a failure it is CANCELLED instead of another attempt.
	//
	// A change of opt-outs alone leaves all other events as they are, and calls no handlers of
	// their types. So no handler can refuse or delay an opt-out without an end.
	//
	// If the opt-out has an end, the first events on or after that day are planned in place of those
	// that are removed, and no occurrence before it is delivered later (see [OptOut].Until).
	//
	// No program plans events of a type that the user has opted out of. An opt-out survives edits,
	// imports and backfills of the user, until its end or OptIn. The errors of OptOut and OptIn are those of
	// UpdateUser, which can make the same changes together with others (see [ProfileChange]).
	//
	// Events of types without a handler in this program stay PENDING. The program that delivers them
	// compares the user's opt-outs before each attempt, and ends what is refused as CANCELLED. The same
	// holds for an opt-out with a Channel. An opt-out that the user has already is not stored again.
	OptOut(ctx context.Context, userID uuid.UUID, what OptOut) (UpdateUserResult, error)

	// OptIn removes the opt-out of the same type and channel, if the user has it. The types that are owed again are
	// planned from now on, in the same transaction. If an occurrence was removed and its
	// instant is still to come, it is planned again.
	OptIn(ctx context.Context, userID uuid.UUID, what OptOut) (UpdateUserResult, error)
}

// Operator changes events, and pauses types of events, at the request of an operator. On a
// scheduler that is bound to a transaction of the host, the changes are part of that transaction.
type Operator interface {
	// Cancel ends a pending event before it is delivered. The event becomes CANCELLED, its occurrence
	// key is used, and the series continues with the next occurrence. If this program has no handler for
	// the type, the successor is left to a program that has one: Run of such a program plans the
	// successor within one sweep (see [WithSweep]). The error is a [*NotFoundError] if the event does
	// not exist, and an [*InvalidStateTransitionError] if it has started or ended. It is an
	// [*OptimisticLockError] if the event ended during the call, or has another version than
	// [CancelOptions].Version. It is a [*SuccessorError] if the successor cannot be planned, as when a
	// policy rejects its wall time. Then [CancelOptions].EndSeries cancels the event alone.
	Cancel(ctx context.Context, id uuid.UUID, options CancelOptions) (CancelResult, error)

	// CancelEach calls a function that has a repository cancel events, and notifies observers of the events that the
	// function returns. It is for packages such as broadcast that cancel many events in one transaction.
	CancelEach(ctx context.Context, cancel func() ([]Event, error)) ([]Event, error)

	// RequeueEach calls a function that has a repository requeue events of many users. The function locks the users, and
	// stores what again returns: the events that repeat the given ones, as [Event.Requeue] makes them. The second argument
	// of again has the user of each event. An event that follows its user is in the user's present zone. If this program
	// has no handler for the type, or the handler fails, it keeps its payload. If its wall time does not exist there and its
	// policies reject that, again leaves it out. RequeueEach notifies observers of the events that the function returns. It
	// is for packages such as broadcast. A user who has opted out meanwhile is asked at the delivery. It returns what the
	// function has stored, also together with errors of handlers.
	RequeueEach(ctx context.Context, requeue func(again func(events []Event, users []User, now time.Time) ([]Event, error)) ([]Event, error)) ([]Event, error)

	// RunNow makes a pending event due at once. If the event is delayed before another attempt, RunNow makes
	// it available at once. Its identity and its idempotency key stay, and the series continues from the next
	// occurrence. In the user's quiet hours (see [WithWindow]) the event becomes due at their end, unless
	// [ForceOptions].Force is set. Until the event is claimed, an edit that changes its occurrence or the
	// user's zone moves it back, and so do [Planner].Reschedule and an opt-out of the type that has an end. The
	// errors are those of Cancel. The error matches [ErrOptedOut] if the user is not owed the event today.
	RunNow(ctx context.Context, id uuid.UUID, options ForceOptions) (Event, error)

	// Requeue delivers a FAILED or CANCELLED event again. It stores a new event (see [Event.Requeue]),
	// because an ended event never changes. The error is a [*NotFoundError] if the event does not exist,
	// an [*InvalidStateTransitionError] if it is neither FAILED nor CANCELLED. It matches [ErrOptedOut]
	// if the user has opted out of the type, unless [ForceOptions].Force is set. It matches [ErrExists]
	// if the event was requeued before; then requeue the event that repeats it, which the text names.
	Requeue(ctx context.Context, id uuid.UUID, options ForceOptions) (Event, error)

	// CancelEvents does what Cancel does for each of the events, in order, with few transactions (see
	// [UserRepository].EditUsers), but one for each event of the same user. After an error of the repository
	// that concerns more than one event, the events that follow have that error.
	CancelEvents(ctx context.Context, ids []uuid.UUID, options CancelOptions) ([]CancelResult, []error)
	// RunEventsNow does what RunNow does for each of the events, as CancelEvents does.
	RunEventsNow(ctx context.Context, ids []uuid.UUID, options ForceOptions) ([]Event, []error)
	// RequeueEvents does what Requeue does for each of the events, as CancelEvents does.
	RequeueEvents(ctx context.Context, ids []uuid.UUID, options ForceOptions) ([]Event, []error)

	// Pause stops all processes from claiming events of a lane or of a type. The pause is stored, so it also
	// holds for processes that start later, until its end or Resume. Deliveries that are under way
	// continue. Events that were claimed ahead of their instant still start, for at most
	// [WithLookAhead]. Planning continues, and due events wait. Pausing a paused type keeps its
	// beginning, and replaces the reason, the author and the end. The error is a [*ValidationError] if a
	// field is wrong or the end has passed, an [*UnsupportedEventTypeError] if the type has no handler,
	// or matches [errors.ErrUnsupported] if the repository cannot pause.
	Pause(ctx context.Context, p Pause) error

	// Resume lets processes claim events of a lane again, oldest first. Processes that receive
	// hints (see [Repository].Listen) start at once, the others within one poll (see [WithPoll]).
	// The lane needs no handler. Resume also closes the [Breaker] of the lane. If the lane is not paused and has no
	// breaker, nothing changes.
	Resume(ctx context.Context, lane string) error

	// Paused returns the paused types, in alphabetical order.
	Paused(ctx context.Context) ([]Pause, error)

	// SetLane stores the limits of a lane, for all processes, in place of those that it had. Claims obey them
	// from then on. The lane has no tokens at first. If the same limits are stored, nothing changes. The limits
	// of a lane without any are removed; a pause stays. The error is a [*ValidationError], an
	// [*UnsupportedEventTypeError] if there are limits and the type has no handler, or matches
	// [errors.ErrUnsupported] if the repository cannot limit.
	SetLane(ctx context.Context, l Lane) error

	// Lanes returns the lanes that have limits, in alphabetical order.
	Lanes(ctx context.Context) ([]Lane, error)
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
	Was       []Event     // the events of Moved as they were before, in the same order
	Refreshed []Event     // pending events with the same wall time and instant, and another payload, zone or policy
	Added     []Event     // new events: of series that had no open event, and in place of removed ones
	Removed   []Event     // pending events that are dropped: their occurrence no longer exists, has passed or is refused
	Cancelled []Event     // events that waited for another attempt, and are refused now; see Planner.OptOut
	Skipped   []uuid.UUID // events that were claimed or requeued before and keep the old data; observers are notified of each by EventSkipped
	Unchanged int         // how many other pending events of the replanned types there are
	Passed    []uuid.UUID // of Moved and Removed, the events whose new time has passed
	SameDay   []Event     // of Moved and Added, those on a local day that has or had another event of their type
	// LeftOut are occurrences that are not delivered, because they count as used after the
	// change: of each series that the change replanned, or whose event is in flight, at most the
	// next occurrence after now. On a day that had an event by the old rule there is none by the
	// new rule, so a yearly rule can miss a year. An occurrence that was itself delivered or
	// cancelled is not left out. To deliver something at once, use [Operator].RunNow.
	LeftOut map[Series]Occurrence
}

// NewScheduler returns a scheduler that stores events of the registry's types in a
// repository. The error joins all options that are out of range.
func NewScheduler(r Repository, registry Registry, options ...Option) (Scheduler, error) {
	s := settingsOf(options)
	if err := s.check(r, registry); err != nil {
		return nil, err
	}
	return &scheduler{settings: s, repository: r, registry: registry, running: &running{host: isolate.NewGroup(min(stuckAfter, s.lease/12)), again: again{snoozed: make(map[uuid.UUID]bool)}}, zones: new(atomic.Pointer[zoneView]), days: new(sync.Map)}, nil
}

type scheduler struct {
	settings
	repository Repository
	registry   Registry
	running    *running // shared by all schedulers that With made from this one
	zones      *atomic.Pointer[zoneView]
	days       *sync.Map // what calendars say: calendar.DayRules by daysOf
}

func (s *scheduler) Repository() Repository { return s.repository }

func (s *scheduler) Registry() Registry { return s.registry }

func (s *scheduler) With(r Repository) Scheduler {
	bound := *s
	bound.repository = r
	if !bound.inTransaction() { // it may be in another database
		bound.zones = new(atomic.Pointer[zoneView])
	}
	return &bound
}
