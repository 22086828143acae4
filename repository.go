package almanac

import (
	"context"
	_ "embed"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/program"
)

// Repository stores users and events. Package postgres has the Repository for production,
// and package almanactest has one in memory. The suite conformance.TestRepository of package
// almanactest/conformance defines what every Repository must do.
//
// A Repository is safe for concurrent use unless it is bound to a transaction. Its clock
// alone decides what is due and when a lease ends. Errors for known cases have the types
// of this package. All other errors come from the database, and do not say whether the
// operation took effect. If such an error has a method SafeToRetry() bool that returns
// true, the operation did not take effect. If it also has a method Refused() bool that returns
// true, one of the rows may be the cause, and the operation may succeed without it.
//
// All that a Scheduler needs of a Repository is in this method set. So a type can embed a
// Repository and replace some of its methods. Some abilities are optional: the comments of
// Confirm, Pause, Listen, Verify, PutSetting and InTransaction say what a Repository without the
// ability returns. See docs/adr/0047-contract.md.
type Repository interface {
	UserRepository
	EventRepository
	ClaimRepository
	MaintenanceRepository
	Timekeeper

	// Listen receives hints that another process stored an event which can be claimed soon. Run then
	// searches for events at once, instead of at the next poll (see [WithPoll]). Hints need not be
	// reliable: an unnecessary hint costs one query, and the next poll makes up for a missing one.
	//
	// Listen calls wake for each hint until ctx is done. It also calls wake once when it
	// starts to receive hints, for the events that were stored before. It calls wake from one
	// goroutine at a time, and not after it has returned. The function wake does not block.
	//
	// Listen returns nil when ctx is done. A repository without hints returns nil at
	// once, and Run polls. An error means that no more hints are received. Run then calls
	// Listen again, after a wait that grows from a tenth of a second to a minute.
	Listen(ctx context.Context, wake func()) error

	// Verify checks whether the program can work on the repository, together with the other programs that do. Run calls
	// Verify before it claims any event. It returns nil when the program can work on the repository, and an error that
	// matches [ErrOutdated] when a migration is missing. Any other error means that the check failed. A repository
	// without migrations returns nil.
	Verify(ctx context.Context) error

	// PutSetting stores a setting of this program. If the repository has the setting with
	// this value already, nothing changes. A repository that stores no settings returns an
	// error that matches [errors.ErrUnsupported].
	PutSetting(ctx context.Context, s Setting) error

	// Settings returns the stored settings, in the order of their names. A repository that
	// stores no settings returns none.
	Settings(ctx context.Context) ([]Setting, error)

	// InTransaction reports whether the repository is bound to a transaction of the host. A
	// repository that is never bound to one returns false. Changes in such a transaction may
	// still be rolled back, so the scheduler notifies no observers.
	InTransaction() bool
}

// EventRepository finds events, changes one event at a time, and prunes ended events.
type EventRepository interface {
	// Event returns an event, or a [*NotFoundError].
	Event(ctx context.Context, id uuid.UUID) (Event, error)

	// Events returns the events with the given ids that exist, in any order.
	Events(ctx context.Context, ids []uuid.UUID) ([]Event, error)

	// Find returns a page of the events that match spec, in the order of the page. A nil
	// spec matches every event. [Spec] says what a page costs if there are many events.
	//
	// [OldestFirst] and [NewestFirst] are the order of the ids, so an event that is
	// rescheduled between two pages is neither left out nor repeated. With [NextFirst], an
	// event that is rescheduled or released between two pages can be left out or repeated.
	//
	// A program that continues from the last event it has seen finds events that are created later.
	// Two kinds of events can appear after others with greater ids. The first are events of a
	// transaction that commits late. The second are successors that are due within ten minutes of
	// their creation. Their ids can be up to ten minutes old, and older if they are overdue when
	// they are stored. To find these too, read again from a cursor that is ten minutes old.
	Find(ctx context.Context, spec Spec, page Page) (List[Event], error)

	// Count returns how many events match spec.
	Count(ctx context.Context, spec Spec) (int, error)

	// Update replaces a stored event if it has the expected version, and returns it as stored, at
	// expected + 1. The error is an [*OptimisticLockError] if the event has another version. It is
	// a [*NotFoundError] if the event does not exist, or if it would be PENDING again and its user
	// was deleted. It is the error of [CheckChange] if the change is not allowed. An event that
	// becomes PROCESSING this way is leased for one minute.
	Update(ctx context.Context, e Event, expected int) (Event, error)

	// Missed counts the events of the given types that have been ready to be claimed for longer than grace.
	Missed(ctx context.Context, types []string, grace time.Duration) (Missed, error)

	// FindMissed returns up to limit of the events that [EventRepository].Missed counts,
	// in the order in which they became available. That is the order of their due
	// instants, except for released events. The limit is 1 to 1,000. Zero means 1,000. Any
	// other limit is a [*ValidationError]. FindMissed changes nothing and locks nothing.
	FindMissed(ctx context.Context, types []string, grace time.Duration, limit int) ([]Event, error)

	// Requeued returns the ids of those of the events that were requeued before, in any
	// order. An event stays requeued after the event that repeats it was pruned.
	Requeued(ctx context.Context, events []Event) ([]uuid.UUID, error)

	// Prune reads a page of the ended events, in order of creation. It deletes an event
	// that ended before an instant and is due before it. The event must also have been due
	// before it when it was created, because the idempotency key hashes that instant. Events
	// that were created after the instant are not read.
	//
	// The last deleted event with an idempotency key frees the key. From then on, an event that is
	// planned for an instant before that one takes the long form of its key, because the short form
	// may have been used. Used occurrence keys stay used, so no pruned event is repeated. Prune
	// returns how many events were deleted, and the cursor of the next page. The cursor is empty
	// after the last page. If an event of the page cannot be deleted, Prune deletes the others and
	// returns the cursor with an error. After any other error the cursor is empty.
	Prune(ctx context.Context, before time.Time, page Page) (deleted int, next Cursor, err error)
}

// MaintenanceRepository has what keeps the events right while programs run: the next events of
// stalled series, the zone rules that stored instants follow, and the paused types.
type MaintenanceRepository interface {
	// AddSuccessors plans events for the series of one event type that have stalled, and
	// whose time of the next attempt has come. It takes a page of the users with such series,
	// and locks them against edits. It calls plan with these users, and stores the events
	// that plan returns. [UserSeries].Stalled has the series, and Used their used keys.
	//
	// Then the series of these users have stalled no longer, even if no event was stored. The
	// series that plan returns in again have stalled further, with the new Error, Failures and
	// RetryAt. If an event of a user cannot be stored, or that takes too long, no event of the user
	// is stored, and all these series of the user have stalled further ([StalledSeries].Again).
	// Locked users and series are left out and stay as they are.
	//
	// AddSuccessors returns an error of plan unchanged. With an error, the result has what was
	// stored before it. Plan must be quick and must not use the repository. It can be called
	// again, also for some of the users.
	AddSuccessors(ctx context.Context, eventType string, page Page, plan func(users []UserSeries, now time.Time) (events []Event, again []StalledSeries, err error)) (AddEventsResult, error)

	// Stalled returns up to limit stalled series of a user, or of all users if the id is zero: by
	// type in alphabetical order, then the next attempt first. The limit is 1 to 1,000. Zero means
	// 1,000. Any other limit is a [*ValidationError]. Stalled changes nothing and locks nothing.
	Stalled(ctx context.Context, userID uuid.UUID, limit int) ([]StalledSeries, error)

	// ZoneRules returns the stored rules and marks of zones. It waits for no lock.
	ZoneRules(ctx context.Context) (ZoneBook, error)

	// EditZoneRules changes the stored rules of zones and of calendars, all or nothing, and one caller at a time. It
	// calls edit with all that is stored. It stores the Rules, Calendars and Quarantines that edit returns, adding or
	// replacing those of a zone or a calendar, and deletes the marks of these zones that edit received. The author of a
	// [Quarantine] with an answer is the principal of ctx. EditZoneRules returns an error of edit unchanged, and then
	// stores nothing. Edit must be quick and must not use the repository.
	EditZoneRules(ctx context.Context, edit func(ZoneBook) (ZoneBook, error)) error

	// Consulted returns each different value of [Event].Consulted that the pending events of a type have, in the
	// order of its text. It leaves out a value unless one of its calendars has an earlier release than the one in
	// releases. The keys of releases are the names of calendars, as in [calendar.DayRules].
	Consulted(ctx context.Context, eventType string, releases map[string]string) ([]calendar.Consulted, error)

	// FindConsulted returns a page of the pending events of a type that have consulted exactly this, in order
	// of creation. The zero value finds none.
	FindConsulted(ctx context.Context, eventType string, c calendar.Consulted, page Page) (List[Event], error)

	// MoveEvents stores another instant for each of the events, with the version raised by one, and
	// returns the events that it stored. It leaves out events that are not PENDING, were claimed
	// before, have another version, or are locked. If an event cannot be stored, MoveEvents stores
	// the others and returns them with an error. MoveEvents waits for no lock.
	MoveEvents(ctx context.Context, events []Event) ([]Event, error)

	// Pause stores that a type is paused, with the reason and the end of p and the principal of ctx.
	// If the type is paused already, the pause keeps its beginning. Claim leaves out events of paused
	// types. After the end of a pause, Claim and Until find the events that waited for that end, even if
	// they became available before the mark. Until takes the end of a pause as the time when they become
	// available. A repository that cannot pause returns an error that matches [errors.ErrUnsupported] from Pause
	// and Resume, and no types from Paused.
	Pause(ctx context.Context, p Pause) error

	// Resume ends the pause of a lane, removes its breaker, and sends a hint to listeners.
	Resume(ctx context.Context, lane string) error

	// Paused returns the pauses that have not ended, in alphabetical order of types.
	Paused(ctx context.Context) ([]Pause, error)

	// PutLane stores the limits of a lane, with no tokens at first, and sends a hint to listeners. If the same limits
	// are stored, nothing changes. It removes the limits of a lane without any; a pause stays. Claim and Until obey the
	// stored limits. A repository that cannot limit returns an error that matches [errors.ErrUnsupported] from PutLane,
	// and no lanes from Lanes.
	PutLane(ctx context.Context, l Lane) error

	// Lanes returns the lanes that have limits, in alphabetical order.
	Lanes(ctx context.Context) ([]Lane, error)
}

// ZoneBook has the zone rules and marks that a repository stores, and what calendars say about days.
type ZoneBook struct {
	// Rules are the rules that stored instants follow, in alphabetical order of zones.
	Rules []ZoneRecord
	// Marks are other rules by which pending events were planned, without repetition, in
	// alphabetical order of zones. A mark becomes visible together with the events that have it as
	// their [Event].PlannedBy. It stays until an edit that received it stores rules of its zone.
	Marks []calendar.ZoneRules
	// Calendars are the calendars in the releases that stored events follow, in the order of names.
	Calendars []calendar.DayRules
	// Quarantines are the releases that wait for an operator, or have waited: those of zones first, in
	// the order of names. Each zone and each calendar has one at most.
	Quarantines []Quarantine
	// Settings are all stored settings, as Settings of the [Repository] returns them. EditZoneRules stores none.
	Settings []Setting
	// Now is the repository's clock, UTC.
	Now time.Time
}

// Quarantine is a release of the rules of a zone, or of a calendar, that is over a limit of [WithQuarantine]. It waits
// for an operator, or has been answered. The zones of a release wait together. An
// operator accepts it by [Scheduler].Reconcile in a program that has the release, and refuses it by Reconcile with
// [ReconcileOptions].Trust in a program with the rules that the database follows. See docs/adr/0082-quarantine.md.
type Quarantine struct {
	Name     string // the zone, or the calendar as in [calendar.DayRules]
	Calendar bool
	Release  string
	// Events is how many pending events the release would move in the zone, or would move, remove or add because of the
	// calendar, when it was counted. The count of a calendar ends at 1,000, or at the limit if that is greater.
	Events int
	// Largest, First and FirstAt are as in a [ZoneReport], about the events that were counted.
	Largest    time.Duration
	First      calendar.WallTime
	FirstAt    time.Time
	Since      time.Time // when it began to wait, by the repository's clock, UTC
	AnsweredAt time.Time // UTC; zero while it waits
	Accepted   bool      // whether the database follows it since
	Author     string    // who answered; the repository sets it (see [WithPrincipal])
	Reason     string    // of the answer
}

// Waits reports whether there is no answer yet.
func (q Quarantine) Waits() bool { return q.AnsweredAt.IsZero() }

func (q Quarantine) key() releaseKey { return releaseKey{q.Name, q.Calendar} }

// releaseKey names what has releases.
type releaseKey struct {
	name     string // as in a Quarantine
	calendar bool
}

// isNewer reports whether a release is later than another one.
func (k releaseKey) isNewer(release, other string) bool {
	if k.calendar {
		return release > other
	}
	return calendar.ZoneRules{Version: release}.NewerThan(calendar.ZoneRules{Version: other})
}

// waiting returns the releases that wait.
func (b ZoneBook) waiting() map[releaseKey]Quarantine {
	list := make(map[releaseKey]Quarantine)
	for _, q := range b.Quarantines {
		if q.Waits() {
			list[q.key()] = q
		}
	}
	return list
}

// waits reports whether this release or a later one waits.
func (b ZoneBook) waits(k releaseKey, release string) bool {
	return slices.ContainsFunc(b.Quarantines, func(q Quarantine) bool {
		return q.Waits() && q.key() == k && !k.isNewer(release, q.Release)
	})
}

// holds reports whether this release or a later one waits, or was refused by an operator.
func (b ZoneBook) holds(k releaseKey, release string) bool {
	return slices.ContainsFunc(b.Quarantines, func(q Quarantine) bool {
		return !q.Accepted && q.key() == k && !k.isNewer(release, q.Release)
	})
}

// MissedLimit returns the limit of a call of FindMissed, Stalled or Leases: limit, or the default if
// limit is zero. The error is a [*ValidationError] if the limit is out of range.
func MissedLimit(limit int) (int, error) {
	if limit < 0 || limit > maxPage {
		return 0, &ValidationError{Fields: []FieldError{{Field: "limit", Problem: "is not between 1 and 1000"}}}
	}
	if limit == 0 {
		return maxPage, nil
	}
	return limit, nil
}

// Timekeeper is the clock of a repository.
type Timekeeper interface {
	// Now returns the repository's time, UTC.
	Now(ctx context.Context) (time.Time, error)

	// Until returns how long until the next event of the given types can be claimed, by the repository's
	// clock. The result is zero or less if an event can be claimed now. Until reports false if no event is
	// pending. The mark is as in a [ClaimRequest]: events that became available before it are left out.
	Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error)
}

// Setting is a setting that concerns all programs of a repository. The repository has the value of the program that
// stored it last. The settings are "quiet hours" (see [WithWindow]), "quarantine" (see [WithQuarantine]), and one for
// each type that running programs have a handler of (see [Setting.IsOfHandler]).
type Setting struct {
	Name    string    // at most 50 bytes
	Value   string    // such as "outside Mo-Su 08:00-22:00", at most 200 bytes; empty for a program without the setting
	Program string    // the program that stored the value, such as "birthdayd v0.1.0", at most 250 bytes; empty if unknown
	Since   time.Time // when the value was stored, UTC; the repository sets it
}

// IsOfHandler reports whether s is the setting that Run and RunOnce store, once in five minutes, because the program
// has a handler of a type. Since then says when such a program ran last.
func (s Setting) IsOfHandler(eventType string) bool {
	return s.Name == program.HandlerSetting(eventType)
}

//go:embed schema.sql
var schemaSQL string

// Schema returns the whole database schema as commented SQL, for a database that does not have it
// yet. The text refers to the PostgreSQL schema that holds the tables as the psql variable schema:
//
//	psql -v ON_ERROR_STOP=1 -v schema=almanac -f schema.sql
//
// A database that was created this way counts as migrated. Programs need not apply the
// schema, because package postgres migrates.
func Schema() string { return schemaSQL }
