package almanac

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
)

// Repository stores users and events. Package postgres has the Repository for production,
// and package almanactest has one in memory. The suite almanactest.TestRepository defines
// what every Repository must do.
//
// A Repository is safe for concurrent use unless it is bound to a transaction. Its clock
// alone decides what is due and when a lease ends. Errors for known cases have the types
// of this package. All other errors come from the database, and do not say whether the
// operation took effect. If such an error has a method SafeToRetry() bool that returns
// true, the operation did not take effect.
//
// All that a Scheduler needs of a Repository is in this method set. So a type can embed a
// Repository and replace some of its methods. Some abilities are optional: [Confirmer],
// [PauseRepository], [Listener], [Verifier] and [Transactional] say what a Repository
// without the ability returns. See docs/adr/0047-contract.md.
type Repository interface {
	UserRepository
	UserFinder
	EventRepository
	ClaimRepository
	Confirmer
	Leaser
	SuccessionRepository
	BackfillRepository
	ZoneRepository
	RetentionRepository
	RecoveryRepository
	PauseRepository
	StatsRepository
	Timekeeper
	Listener
	Verifier
	Transactional
}

// EventRepository finds events, and changes one event at a time.
type EventRepository interface {
	// Event returns an event, or a [*NotFoundError].
	Event(ctx context.Context, id uuid.UUID) (Event, error)

	// Find returns a page of the events that match spec, in the order of the page. A nil
	// spec matches every event. [Spec] says what a page costs if there are many events.
	//
	// [OldestFirst] and [NewestFirst] are the order of the ids, so an event that is
	// rescheduled between two pages is neither left out nor repeated. With [NextFirst], an
	// event that is rescheduled or released between two pages can be left out or
	// repeated.
	//
	// A program that continues from the last event it has seen finds events that are
	// created later. Two kinds of events can appear after others with greater ids. The
	// first are events of a transaction that commits late. The second are successors that
	// are due within ten minutes of their creation. Their ids can be up to ten minutes
	// old, and older if they are overdue when they are stored. To find these too, read
	// again from a cursor that is ten minutes old.
	Find(ctx context.Context, spec Spec, page Page) (FindResult, error)

	// Count returns how many events match spec.
	Count(ctx context.Context, spec Spec) (int, error)

	// Update replaces a stored event if it has the expected version, and returns it as
	// stored, at expected + 1. The error is an [*OptimisticLockError] if the event has
	// another version. It is a [*NotFoundError] if the event does not exist, or if it
	// would be PENDING again and its user was deleted. It is the error of [CheckChange]
	// if the change is not allowed. An event that becomes PROCESSING this way is leased
	// for one minute.
	Update(ctx context.Context, e Event, expected int) (Event, error)

	// Missed counts the events of the given types that have been ready to be claimed for
	// longer than grace.
	Missed(ctx context.Context, types []string, grace time.Duration) (Missed, error)
}

// Page asks for a part of a list.
type Page struct {
	Limit int    // the most events to return, 1 to 1,000; zero means 50
	After Cursor // Next of the page before; empty means the first page
	// Order is for [EventRepository].Find. Other methods refuse every order but the zero
	// value.
	Order Order
}

// Order is the order in which Find lists events.
type Order int

// The orders of events.
const (
	OldestFirst Order = iota // in order of creation
	NewestFirst              // the reverse of OldestFirst
	// NextFirst lists PENDING events only, in the order in which they can be claimed:
	// by [Event].AvailableAt, then by id. AvailableAt is the due instant, or later for an
	// event that waits for its next attempt.
	NextFirst
)

// Cursor is a position in a list. It is opaque: take it from the Next of an earlier
// result, such as [FindResult].
type Cursor string

// FindResult is a page of events.
type FindResult struct {
	Events []Event
	Next   Cursor // the cursor of the next page; empty if this is the last page
}

const (
	defaultPage = 50
	maxPage     = 1000
)

// Bounds returns the page's limit with its default, and the id after which the page
// begins. The error is a [*ValidationError] that names each invalid field.
func (p Page) Bounds() (limit int, after uuid.UUID, err error) {
	limit, _, after, err = p.bounds(OldestFirst)
	return limit, after, err
}

// EventBounds is Bounds for a page of any [Order]. In order of creation, the page has the
// events with greater ids than after. With [NewestFirst] it has the events with smaller
// ids. With [NextFirst] it has the events that are available later than at, or at the same
// time with greater ids. In the other orders, at is the zero time.
func (p Page) EventBounds() (limit int, at time.Time, after uuid.UUID, err error) {
	return p.bounds(p.Order)
}

// bounds returns the bounds of a page in one of the allowed orders, which are all orders
// up to highest.
func (p Page) bounds(highest Order) (limit int, at time.Time, after uuid.UUID, err error) {
	var bad ValidationError
	refuse := func(field, problem string) {
		bad.Fields = append(bad.Fields, FieldError{Field: field, Problem: problem})
	}
	if p.Limit < 0 || p.Limit > maxPage {
		refuse("limit", "is not between 1 and 1000")
	}
	if p.Order < OldestFirst || p.Order > min(highest, NextFirst) {
		refuse("order", "is not an order of this list")
	}
	if at, after, err = p.After.position(p.Order); err != nil {
		refuse("cursor", "is not a cursor of an earlier page")
	}
	if len(bad.Fields) > 0 {
		return 0, time.Time{}, uuid.Nil, &bad
	}
	if p.Limit == 0 {
		p.Limit = defaultPage
	}
	return p.Limit, at, after, nil
}

// position returns the position that a cursor of a list in the given order has.
func (c Cursor) position(order Order) (at time.Time, after uuid.UUID, err error) {
	id := string(c)
	switch {
	case c == "" && order == NewestFirst:
		return time.Time{}, uuid.Max, nil
	case c == "":
		return time.Time{}, uuid.Nil, nil
	case order == NextFirst:
		instant, rest, _ := strings.Cut(id, "/")
		if at, err = time.Parse(time.RFC3339Nano, instant); err != nil {
			return time.Time{}, uuid.Nil, err
		}
		id = rest
	}
	after, err = uuid.Parse(id)
	return at, after, err
}

// PageOf returns the page of the first limit events of a list in the given order. Pass a
// list of up to limit + 1 events: one event more than limit shows that there is a next
// page.
func PageOf(events []Event, limit int, order Order) FindResult {
	if len(events) <= limit {
		return FindResult{Events: events}
	}
	last := events[limit-1]
	next := last.ID.String()
	if order == NextFirst {
		next = last.AvailableAt.UTC().Format(time.RFC3339Nano) + "/" + next
	}
	return FindResult{Events: events[:limit], Next: Cursor(next)}
}

// ClaimRepository claims due events and stores their outcomes.
type ClaimRepository interface {
	// Claim takes due events, oldest first, and makes them PROCESSING under the request's
	// token. Concurrent claims never take the same event and never wait for each other.
	// No event is taken before it is due, except ahead: see [Confirmer].
	Claim(ctx context.Context, r ClaimRequest) (ClaimResult, error)

	// Renew extends the leases of the given tokens to the given time from now, and
	// returns the tokens that still hold an event. The other leases are lost: their
	// events were released, have ended or are deleted.
	Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error)

	// Settle stores outcomes, each at most once, and in one transaction with the
	// successor of the event that ends. A series has at most one open event, so a
	// successor is stored only if its occurrence is after that of the ended event. Settle
	// may store the settlements in any order, and returns the results in the order of the
	// settlements.
	//
	// A settlement that cannot be stored has an error in its result and does not affect
	// the others. Settle waits for no lock that another transaction may hold for long.
	// The result of a locked event has an error that matches [ErrLocked], and the event
	// can be settled later. After an error of the call, it is unknown which outcomes were
	// stored. The same call may be repeated: an outcome that was stored before has the
	// same result.
	Settle(ctx context.Context, settlements []Settlement) ([]SettleResult, error)

	// Release releases the events that are still held under a token, as after a shutdown
	// or after a claim whose answer was lost, and returns them. An event that another
	// transaction has locked stays under the token. The token's lease counts as expired
	// from then on.
	Release(ctx context.Context, token uuid.UUID) ([]Event, error)

	// ReleaseExpired releases up to limit events of expired leases, as after a crash, and
	// returns them. It returns no events if there are no more. An event that another
	// transaction has locked stays under its lease until the next call. If the clock was
	// set back, a lease lasts its full duration from then on, unless it is renewed.
	// ReleaseExpired also removes deleted users without events in flight, and deletes
	// tokens without events. A call that returns limit events may leave both to the next
	// call.
	ReleaseExpired(ctx context.Context, limit int) ([]Event, error)
}

// Leaser gives claimed events leases of their own.
type Leaser interface {
	// LeaseEach gives each of the events a lease of its own, with a new token, for the
	// given time from now. It takes the events that are still held as they were claimed,
	// and returns them with their new tokens, in the order of the list. The old token
	// still holds the other events of its claim. From then on each event is renewed,
	// settled and released independently. If several calls name the same event, only one
	// of them gets it. Owner is as in a [ClaimRequest].
	//
	// LeaseEach is no transition: versions and counters stay. After an error, the caller
	// does not know which tokens the events have. New tokens that were not returned
	// expire after the given time.
	LeaseEach(ctx context.Context, events []Event, owner string, lease time.Duration) ([]Event, error)
}

// ZoneRepository stores the zone rules that stored instants follow.
type ZoneRepository interface {
	// ZoneRules returns the stored rules and marks of zones. It waits for no lock.
	ZoneRules(ctx context.Context) (ZoneBook, error)

	// EditZoneRules changes the stored rules of zones, all or nothing, and one caller at
	// a time. It calls edit with the stored rules and marks. It stores the rules that
	// edit returns, adding or replacing zones, and deletes the marks of these zones that
	// edit received. EditZoneRules returns an error of edit unchanged, and then stores
	// nothing. Edit must be quick and must not use the repository.
	EditZoneRules(ctx context.Context, edit func(ZoneBook) ([]ZoneRecord, error)) error

	// MoveEvents stores another instant for each of the events, with the version raised
	// by one, and returns the events that it stored. It leaves out events that are not
	// PENDING, were claimed before, have another version, or are locked. MoveEvents waits
	// for no lock.
	MoveEvents(ctx context.Context, events []Event) ([]Event, error)
}

// ZoneBook has the zone rules and marks that a repository stores.
type ZoneBook struct {
	// Rules are the rules that stored instants follow, in alphabetical order of zones.
	Rules []ZoneRecord
	// Marks are other rules by which pending events were planned, without repetition, in
	// alphabetical order of zones. A mark becomes visible together with the events that
	// have it as their [Event].PlannedBy. It stays until an edit that received it stores
	// rules of its zone.
	Marks []calendar.ZoneRules
	// Now is the repository's clock, UTC.
	Now time.Time
}

// RetentionRepository deletes events that have ended.
type RetentionRepository interface {
	// Prune reads a page of the ended events, in order of creation, and deletes those
	// that ended before an instant, are due before it, and were due before it when they
	// were created, which is the instant that the idempotency key hashes. Events that were
	// created after the instant are not read. The last deleted event with an idempotency key frees the
	// key. From then on, an event that is planned for an instant before that one takes
	// the long form of its key, because the short form may have been used. Used
	// occurrence keys stay used, so no pruned event is repeated.
	Prune(ctx context.Context, before time.Time, page Page) (PruneResult, error)
}

// RecoveryRepository finds the events that were missed during a downtime, and the ended
// events that were requeued.
type RecoveryRepository interface {
	// FindMissed returns up to limit of the events that [EventRepository].Missed counts,
	// in the order in which they became available. That is the order of their due
	// instants, except for released events. The limit is 1 to 1,000. Zero means 1,000.
	// Any other limit is a [*ValidationError]. FindMissed changes nothing and locks
	// nothing.
	FindMissed(ctx context.Context, types []string, grace time.Duration, limit int) ([]Event, error)

	// Requeued returns the ids of those of the events that were requeued before, in any
	// order. An event stays requeued after the event that repeats it was pruned.
	Requeued(ctx context.Context, events []Event) ([]uuid.UUID, error)
}

// MissedLimit returns the limit of a call of FindMissed or Leases: limit, or the default if
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

// PruneResult is the result of pruning a page of events.
type PruneResult struct {
	Count int    // how many events were deleted
	Next  Cursor // the cursor of the next page; empty if this was the last page
}

// Timekeeper is the clock of a repository.
type Timekeeper interface {
	// Now returns the repository's time, UTC.
	Now(ctx context.Context) (time.Time, error)

	// Until returns how long until the next event of the given types can be claimed, by
	// the repository's clock. The result is zero or less if an event can be claimed now.
	// Until reports false if no event is pending. The mark is as in a [ClaimRequest]:
	// events that became available before it are left out.
	Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error)
}

// Verifier checks whether a program can work on a repository, together with the other
// programs that do. Run calls Verify before it claims any event.
type Verifier interface {
	// Verify returns nil when the program can work on the repository, and an error that
	// matches [ErrOutdated] when a migration is missing. Any other error means that the
	// check failed. A repository without migrations returns nil.
	Verify(ctx context.Context) error

	// PutSetting stores a setting of this program. If the repository has the setting with
	// this value already, nothing changes. A repository that stores no settings returns an
	// error that matches [errors.ErrUnsupported].
	PutSetting(ctx context.Context, s Setting) error

	// Settings returns the stored settings, in the order of their names. A repository that
	// stores no settings returns none.
	Settings(ctx context.Context) ([]Setting, error)
}

// Setting is a setting that all programs of a repository must have with the same value.
// The repository has the value of the program that started last. The only setting is
// "quiet hours": see [WithQuietHours].
type Setting struct {
	Name    string    // at most 50 bytes
	Value   string    // such as "22:00:00-08:00:00", at most 200 bytes; empty for a program without the setting
	Program string    // the program that stored the value, such as "birthdayd v0.1.0", at most 250 bytes; empty if unknown
	Since   time.Time // when the value was stored, UTC; the repository sets it
}

// Transactional reports whether a repository is bound to a transaction of the host.
// Changes in such a transaction may still be rolled back, so the scheduler notifies no
// observers.
type Transactional interface {
	// InTransaction reports whether the repository is bound to a transaction. A
	// repository that is never bound to one returns false.
	InTransaction() bool
}

//go:embed schema.sql
var schemaSQL string

// Schema returns the whole database schema as commented SQL, for a database that does not
// have it yet. The text refers to the PostgreSQL schema that holds the tables as the psql
// variable schema:
//
//	psql -v ON_ERROR_STOP=1 -v schema=almanac -f schema.sql
//
// A database that was created this way counts as migrated. Programs need not apply the
// schema, because package postgres migrates.
func Schema() string { return schemaSQL }
