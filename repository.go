package almanac

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// Repository keeps users and events. Package postgres has the Repository for production,
// and package almanactest has a Repository in memory. The suite
// almanactest.TestRepository says what every Repository must do.
//
// A Repository is safe for concurrent use unless it is bound to a transaction. Its clock
// alone decides what is due and when a lease ends. Errors that name a case have the types
// of this package. All other errors come from the database, and do not say whether the
// operation took effect. If such an error has a method SafeToRetry() bool that returns
// true, the operation did not take effect.
type Repository interface {
	UserRepository
	EventRepository
	ClaimRepository
	Leaser
	SuccessionRepository
	ZoneRepository
	RetentionRepository
	RecoveryRepository
	Timekeeper
}

// UserRepository keeps users, each together with the user's events.
type UserRepository interface {
	// CreateUser stores a user and their first events, one of each series, all or
	// nothing, and returns them as stored. A series is named by the type and the part
	// of a key before its first slash. The error matches [ErrExists] when the id is
	// taken or a series is there twice.
	CreateUser(ctx context.Context, u User, events ...Event) (User, []Event, error)

	// User returns a user, or a [*NotFoundError].
	User(ctx context.Context, id uuid.UUID) (User, error)

	// EditUser changes a user and their open events, all or nothing. It locks the user,
	// shows edit the roster as of then, and stores what edit returns. An error of edit is
	// returned as it is, and nothing is stored. Edit must be quick and must not use the
	// repository. Edit is called again when the transaction has to be repeated, and when
	// it adds an event whose used occurrence was missing in the roster. The last answer
	// counts. The error is a [*NotFoundError] when there is no such user.
	EditUser(ctx context.Context, id uuid.UUID, edit func(Roster) (Edit, error)) (Edit, error)

	// DeleteUser deletes a user and everything about the user. It does so now or, as
	// [Delete] says, when the events in flight have ended. The error is a
	// [*NotFoundError] when there is no such user.
	DeleteUser(ctx context.Context, id uuid.UUID, how Delete) (Deletion, error)
}

// Roster is a locked user with the user's open events.
type Roster struct {
	User User
	// Pending are the events that were never claimed, by id. They are locked too.
	Pending []Event
	// InFlight are the open events that were claimed at least once, by id. They keep
	// their target.
	InFlight []Event
	// Used holds, by event type and in the order of keys, the greatest occurrence key of
	// each series that was ever claimed. A series is named by the part of a key before
	// its first slash. Those occurrences, and all before them in the series, are used up.
	// A series without an open event can be missing until edit adds to it an event whose
	// occurrence is used up, because a user may have thousands of such series.
	Used map[string][]string
	// Now is the repository's clock.
	Now time.Time
}

// Edit is a change to a roster: what to store, and then what was stored.
type Edit struct {
	User    *User   // the changed user, its version raised by one; nil leaves the row alone
	Moved   []Event // pending events that were never claimed, their versions raised by one
	Added   []Event // new events; an event whose series has an open event or used up its occurrence is left out of the answer
	Removed []Event // pending events that are no longer owed

	// Cancelled are pending events that end, as [Event.Cancel] returns them. They end
	// before anything is added, so what is added can succeed them.
	Cancelled []Event

	// Unplanned are the ids of cancelled events whose successors this program cannot
	// plan, because it has no handler for them. [SuccessionRepository] plans them later.
	Unplanned []uuid.UUID

	// Hurried are pending events that were claimed before, their versions raised by one.
	// Only the moment changes at which they can be claimed again.
	Hurried []Event

	// Requeued are events to begin again, as [Event.Requeue] returns them. An event whose
	// series has an open event or used up its occurrence is left out of the answer.
	Requeued []Event
}

// Delete says how a user is deleted. The zero Delete lets deliveries under way end first.
// Until then the user is hidden, and cannot be read or edited. The events in flight end
// without a successor and are not tried again. Then the next sweep removes the user with
// all events.
type Delete struct {
	// AtOnce is for erasure, as the law may ask for it: the user and all the user's
	// events, ended ones and those in flight included, are deleted in one transaction.
	// When it is committed, no row has the id of the user or anything about the user.
	// Events that were in flight stay listed in their lease until everything else in that
	// lease has ended. The lease lists ids of events and series that lead nowhere and
	// that nothing ties to the user. A user who is hidden already is deleted too. A
	// delivery that is under way cannot be called back and may still arrive; its outcome
	// is not stored, because Settle answers that the event does not exist. Used
	// occurrence keys are forgotten: a user who is created with that id again is a
	// stranger.
	AtOnce bool

	// Version is the version of the user that the deletion is meant for. If the stored user
	// has another version, nothing is deleted, and the error is an [*OptimisticLockError].
	// Zero means any version.
	Version int
}

// Deletion is the result of deleting a user.
type Deletion struct {
	Removed  int         // pending events that were deleted
	InFlight []uuid.UUID // events that were being delivered, by id; after a deletion at once they are gone too
}

// EventRepository finds events and changes one at a time.
type EventRepository interface {
	// Event returns an event, or a [*NotFoundError].
	Event(ctx context.Context, id uuid.UUID) (Event, error)

	// Find returns the events that match spec in order of creation, a page at a time.
	// The order is that of the ids, so an event that is rescheduled between two pages is
	// neither passed over nor shown twice. A nil spec matches every event. [Spec] says what
	// a page costs where there are many events.
	//
	// A program that reads on from the last event it has seen finds what is created from
	// then on. Two kinds of events can appear after others with greater ids. The first are
	// those of a transaction that commits late. The second are successors that are due
	// within ten minutes of their creation: their ids can be up to ten minutes old, and
	// older if they are overdue when they are stored. Read again from a cursor ten minutes
	// old to find those too.
	Find(ctx context.Context, spec Spec, page Page) (Found, error)

	// Count returns how many events match spec.
	Count(ctx context.Context, spec Spec) (int, error)

	// Update replaces a stored event, if it is still at the expected version, and returns
	// it as stored, at expected + 1. The error is an [*OptimisticLockError] if the event
	// has another version. It is a [*NotFoundError] if the event is gone, or if it would
	// be PENDING again and its user was deleted. If the change is not allowed, it is the
	// error of [CheckChange]. An event that becomes PROCESSING this way is leased for a
	// minute.
	Update(ctx context.Context, e Event, expected int) (Event, error)

	// Missed counts the events of the given types that have been ready to be claimed
	// for longer than grace.
	Missed(ctx context.Context, types []string, grace time.Duration) (Missed, error)
}

// Page asks for a part of a list.
type Page struct {
	Limit int    // the most events to return, 1 to 1,000; zero means 50
	After Cursor // where the page before ended; empty begins at the beginning
}

// Cursor is a place in a list. It is opaque: pass back what [Found] held.
type Cursor string

// Found is a page of events.
type Found struct {
	Events []Event
	Next   Cursor // where the next page begins; empty when this is the last
}

const (
	defaultPage = 50
	maxPage     = 1000
)

// Bounds returns the page's limit with its default, and the id after which it
// begins. The error is a [*ValidationError] that names what is wrong with the page.
func (p Page) Bounds() (limit int, after uuid.UUID, err error) {
	var bad ValidationError
	if p.Limit < 0 || p.Limit > maxPage {
		bad.Fields = append(bad.Fields, FieldError{Field: "limit", Problem: "is not between 1 and 1000"})
	}
	if p.After != "" {
		if after, err = uuid.Parse(string(p.After)); err != nil {
			bad.Fields = append(bad.Fields, FieldError{Field: "cursor", Problem: "is not one that a page ended with"})
		}
	}
	if len(bad.Fields) > 0 {
		return 0, uuid.Nil, &bad
	}
	if p.Limit == 0 {
		return defaultPage, after, nil
	}
	return p.Limit, after, nil
}

// PageOf makes a page of at most limit events from a list that holds up to one event
// more. That event shows that there is a next page.
func PageOf(events []Event, limit int) Found {
	if len(events) <= limit {
		return Found{Events: events}
	}
	return Found{Events: events[:limit], Next: Cursor(events[limit-1].ID.String())}
}

// ClaimRepository hands out due events and takes their outcomes.
type ClaimRepository interface {
	// Claim takes events that are due, oldest first, and makes them PROCESSING under
	// the request's token. Concurrent claims never share an event and never wait for
	// each other. An event is never taken before it is due, unless the request looks
	// ahead: see [Confirmer].
	Claim(ctx context.Context, r ClaimRequest) (Claim, error)

	// Renew lets the leases of the given tokens run for another lease from now, and
	// returns the tokens that still hold an event. The other leases are lost: their
	// events were released, or every event under them has ended or is gone.
	Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error)

	// Settle stores outcomes, each at most once and in one transaction with the successor
	// of the event that ends. A series has at most one open event: a successor is not
	// stored unless its occurrence is after that of the ended event. Settle answers in
	// the order of the settlements. A settlement that cannot be stored has its own error
	// and does not hold up the others. Settle waits for no lock that another transaction
	// may hold for long: an event that is locked has an error that matches [ErrLocked],
	// and can be settled later. After an error of the call it is not known which outcomes
	// were stored. The same call may then be repeated: an outcome that was stored before
	// is answered again.
	Settle(ctx context.Context, settlements []Settlement) ([]Settled, error)

	// Release releases the events that are still held under a token, as after a shutdown,
	// and returns them. It also resolves a claim whose answer was lost. An event that
	// another transaction has locked is left under the token, which counts as expired
	// from then on.
	Release(ctx context.Context, token uuid.UUID) ([]Event, error)

	// ReleaseExpired releases up to limit events of expired leases, as after a crash, and
	// returns them. It returns none when there are no others. An event that another
	// transaction has locked stays under its lease until the next call. When the clock
	// was set back, a lease lasts from then on as long as it would have lasted from its
	// claim, unless it is renewed. ReleaseExpired also removes deleted users without
	// events in flight, and forgets tokens that hold no event any more. A call that
	// returns limit events may leave both to the next call.
	ReleaseExpired(ctx context.Context, limit int) ([]Event, error)
}

// Leaser gives claimed events leases of their own.
type Leaser interface {
	// LeaseEach gives events a lease of their own, with a new token, for the given time
	// from now. LeaseEach takes the events that are still held as they were claimed, and
	// returns them with their new tokens, in the order of the list. The old token no
	// longer holds these events; it still holds the rest of its claim. From then on each
	// event is renewed, settled and released independently of the others. When several
	// calls name the same event, only one of them gets it. Owner is as in a
	// [ClaimRequest]. LeaseEach is no transition: versions and counters stay. After an
	// error the caller does not know which tokens the events have. New tokens that it did
	// not get expire after the given time.
	LeaseEach(ctx context.Context, events []Event, owner string, lease time.Duration) ([]Event, error)
}

// SuccessionRepository plans the successors that programs without a handler left out.
type SuccessionRepository interface {
	// AddSuccessors plans events for series of one event type that wait for a successor.
	// A series waits when an [Edit] cancelled its last event and named it among
	// Unplanned, and nothing was stored in it since. AddSuccessors takes a page of the
	// users who have such series, in order of their ids, and locks them against edits. It
	// calls plan with them and with the keys that their waiting series have used, in
	// [Standing].Used, and stores the events that plan returns. Then the series of these
	// users no longer wait, whether an event was stored or not, except for the users that
	// plan returns in again. Locked users and series are left out, and still wait. An
	// error of plan is returned as it is, and nothing is stored. Plan must be quick and
	// must not use the repository; it can be called again.
	AddSuccessors(ctx context.Context, eventType string, page Page, plan func(users []Standing, now time.Time) (events []Event, again []uuid.UUID, err error)) (Added, error)
}

// ZoneRepository keeps the rules that stored instants follow.
type ZoneRepository interface {
	// ZoneRules returns the stored rules and marks of zones. It waits for no lock.
	ZoneRules(ctx context.Context) (ZoneBook, error)

	// EditZoneRules changes the stored rules of zones, all or nothing and one caller at a
	// time. It shows edit the stored rules and marks. Then it stores the rules that edit
	// returns, adding zones or replacing them, and deletes the marks of those zones that
	// edit was shown. An error of edit is returned as it is, and nothing is stored. Edit
	// must be quick and must not use the repository.
	EditZoneRules(ctx context.Context, edit func(ZoneBook) ([]ZoneRules, error)) error

	// MoveEvents gives events another instant, each with its version raised by one, and
	// returns the events that it stored. The others are not PENDING any more, were
	// claimed, or have another version than the one before. MoveEvents waits for no lock:
	// an event that is locked is left out too.
	MoveEvents(ctx context.Context, events []Event) ([]Event, error)
}

// ZoneBook is what a repository stores about zones.
type ZoneBook struct {
	// Rules are the rules that stored instants follow, in alphabetical order of zones.
	Rules []ZoneRules
	// Marks are other rules by which pending events were planned, each once, in
	// alphabetical order of zones. A mark becomes visible together with the events that
	// have it as their [Event].PlannedBy, and stays until an edit of its zone has seen it.
	// Its Recheck is zero.
	Marks []ZoneRules
	// Now is the repository's clock, UTC.
	Now time.Time
}

// RetentionRepository deletes events that have ended.
type RetentionRepository interface {
	// Prune looks at a page of the events that have ended, in order of creation, and
	// deletes those that ended before an instant and were due before it. An idempotency
	// key goes with the last event that has it. From then on an event that is planned for
	// an instant before that one takes the long form of its key, because the short form
	// may have been used. Used occurrences stay used: no pruned event can come again.
	// Events that were created after the instant are not examined.
	Prune(ctx context.Context, before time.Time, page Page) (Pruned, error)
}

// RecoveryRepository finds the events that a downtime left behind.
type RecoveryRepository interface {
	// FindMissed returns up to limit of the events that [EventRepository].Missed counts,
	// oldest first: in the order in which they became available, which is that of their
	// instants except for events that were released. The limit is 1 to 1,000, and zero
	// means 1,000. Any other limit is a [*ValidationError]. FindMissed changes nothing
	// and locks nothing.
	FindMissed(ctx context.Context, types []string, grace time.Duration, limit int) ([]Event, error)
}

// MissedLimit returns the limit of a FindMissed with its default, or a
// [*ValidationError] that says what is wrong with it.
func MissedLimit(limit int) (int, error) {
	if limit < 0 || limit > maxPage {
		return 0, &ValidationError{Fields: []FieldError{{Field: "limit", Problem: "is not between 1 and 1000"}}}
	}
	if limit == 0 {
		return maxPage, nil
	}
	return limit, nil
}

// Pruned is the result of pruning a page of events.
type Pruned struct {
	Count int    // how many were deleted
	Next  Cursor // where the next page begins; empty when this was the last
}

// Timekeeper is the clock that decides.
type Timekeeper interface {
	// Now returns the repository's time, UTC.
	Now(ctx context.Context) (time.Time, error)

	// Until returns how long it is until the next event of the given types can be
	// claimed, by the repository's clock; zero or less when an event can be claimed now.
	// It reports false when no event is pending. The mark is as in a [ClaimRequest]:
	// events that became available before the mark are not examined.
	Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error)
}

// Verifier is the ability of a repository to check whether a program of this release can
// work on it. Run calls Verify before it claims any event.
type Verifier interface {
	// Verify returns nil when the program can work on the repository, and an error that
	// matches [ErrOutdated] when a migration is missing. Any other error means that the
	// check failed.
	Verify(ctx context.Context) error
}

// Transactional is the ability of a repository to be bound to a transaction of the
// host's. Changes through such a repository may still be rolled back, so its scheduler
// notifies no observers.
type Transactional interface {
	// InTransaction reports whether the repository is bound to a transaction.
	InTransaction() bool
}
