package almanac

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/backoff"
)

// UserRepository stores and finds users, each together with the user's events.
type UserRepository interface {
	// CreateUsers stores users with their first events, one event for each series, and returns the
	// results in the order of the list. Each user is stored with all events, or not at all. A user who
	// cannot be stored has an error in the result and does not affect the others. The error matches
	// [ErrExists] if the id is taken, also by an earlier user of the list, or if two events have the
	// same series (see [SeriesOf]). It matches [ErrLocked] while a deleted user has the id: see
	// [DeleteOptions]. It is an [*ExternalIDTakenError] if only the external id is taken, also by an
	// earlier user of the list who is stored. A deleted user has no external id any more.
	//
	// If the call fails, it returns the results of the first users of the list, as far as they are
	// known. It is unknown whether the other users were stored. The same call may be repeated.
	CreateUsers(ctx context.Context, users []UserWithEvents) ([]CreateUserResult, error)

	// User returns a user, or a [*NotFoundError].
	User(ctx context.Context, id uuid.UUID) (User, error)

	// EditUser changes a user and the user's open events, all or nothing. It locks the user, calls edit
	// with the present roster, and stores the edit that the function returns. It returns an error of
	// edit unchanged, and then stores nothing. Edit must be quick and must not use the repository. Edit
	// is called again when the transaction has to be repeated, and when it adds an event whose
	// occurrence is used by keys that were missing in the roster. The last result counts. The error is a
	// [*NotFoundError] if the user does not exist, an [*ExternalIDTakenError] if another user has the
	// external id, and that of [Roster.Check] if the edit cannot be stored.
	EditUser(ctx context.Context, id uuid.UUID, edit func(Roster) (Edit, error)) (Edit, error)

	// EditUsers does what EditUser does for each of the users, in the order of ids, with fewer
	// transactions. It returns what EditUser would return: the edit as stored, and the error, of the user with
	// each id. Each user is edited all or nothing, and a user who cannot be edited does not affect the others.
	// Edit gets the index of the id. For a user whose id is given twice, the second edit gets the roster
	// after the first. It is called by one goroutine at a time.
	//
	// After an error of the database that does not concern one user alone, EditUsers edits no other user. Each
	// user whose result is unknown, or who was not edited, then has that error.
	EditUsers(ctx context.Context, ids []uuid.UUID, edit func(i int, r Roster) (Edit, error)) ([]Edit, []error)

	// UsedKeys returns the used keys of series of a user, as they are now. An open event counts
	// as ended now if it was claimed before or can be claimed. A series without used keys is missing in
	// the result, and so are all series of a user who does not exist. UsedKeys locks nothing.
	UsedKeys(ctx context.Context, userID uuid.UUID, series []Series) (map[Series]UsedKeys, error)

	// DeleteUser deletes a user and everything about the user, either now or when the events in flight
	// have ended (see [DeleteOptions]). The error is a [*NotFoundError] if the user does not exist.
	DeleteUser(ctx context.Context, id uuid.UUID, options DeleteOptions) (DeleteResult, error)

	// UserByExternalID returns the user with an external id, or a [*NotFoundError]. No
	// user has the external id "".
	UserByExternalID(ctx context.Context, externalID string) (User, error)

	// Users returns the users who have one of the ids or one of the external ids, once or twice each and in
	// any order, without deleted users.
	Users(ctx context.Context, ids []uuid.UUID, externalIDs []string) ([]User, error)

	// FindUsers returns a page of the users whom the filter selects, without deleted users. With a
	// name the order is that of the matching names without case, byte by byte, otherwise that of
	// the ids. A user who is renamed between two pages can be left out or repeated. The error is a
	// [*ValidationError] if the page or the filter is invalid.
	FindUsers(ctx context.Context, filter UserFilter, page Page) (List[User], error)

	// Rosters returns a page of all users, in the order of their ids, with their open events of some types. It
	// locks nothing and waits for no lock, so a change that is committed meanwhile may be missing in a part
	// of a roster. Pending, InFlight, Used and Stalled have the events and the series of these types alone. Used
	// also has the single series of each of the types, if it has no open event. An event that is claimed ahead
	// of its instant is in InFlight. The error is a [*ValidationError] if the page is invalid.
	Rosters(ctx context.Context, types []string, page Page) (List[Roster], error)

	// AddEvents stores events of one type for a page of the users, in order of their ids.
	// It locks the users against edits. Users that another transaction has locked are
	// left out, so AddEvents waits for no lock. It calls plan with the users and their
	// series of the type, and stores the events that plan returns. An event is left out
	// if its series has an open event, or a used key of the same unit that is not lower.
	//
	// If an event of a user cannot be stored, or that takes too long, no event of the user
	// is stored. The user is in Refused, and does not affect the others. If it takes too long
	// for every user, AddEvents fails and refuses no user.
	//
	// AddEvents returns an error of plan unchanged. With an error, the result has what was
	// stored before it. Plan must be quick and must not use the repository. It is called again if it returns an event
	// whose occurrence is used by keys that were missing in UserSeries.Used, and if the
	// transaction has to be repeated. It is called for some of the users if the events of
	// all cannot be stored together. For each user the last result counts.
	AddEvents(ctx context.Context, eventType string, page Page, plan func(users []UserSeries, now time.Time) ([]Event, error)) (AddEventsResult, error)
}

// UserFilter selects the users who match every field that is not empty. The zero
// UserFilter selects all users. An index finds users by each field, except by [ZoneDeclared].
//
// Names and addresses are compared without case, as by strings.EqualFold: by the simple case folding of
// Unicode, in every script and whatever the locale of the database is. "åsa" selects "Åsa", and "ελύτης"
// selects "ΕΛΎΤΗΣ". No letter becomes two: "ss" does not select "ß". Accents count, and a letter that is
// written with a combining accent is another letter. "İ" counts as "i", but "ı" is a letter of its own.
type UserFilter struct {
	// Name is the beginning of the last name or of the full name, which is [User.Name].
	// "ada" and "ada lo" and "love" all select Ada Lovelace.
	Name string
	// Email is a whole e-mail address, in upper or lower case.
	Email string
	// ExternalID is a whole external id, byte by byte.
	ExternalID string
	// ZoneSource is where the user's time zone comes from.
	ZoneSource ZoneSource
}

// Bounds returns the page's limit with its default, and the user after whom the page
// begins: the id, and with a Name also the names that the user had on the page before. The
// error is a [*ValidationError] that names each invalid field of the page and the filter.
func (f UserFilter) Bounds(p Page) (limit int, after User, err error) {
	if f.Name != "" && p.After != "" {
		p.After, after.FirstName, after.LastName = p.After.named()
	}
	limit, after.ID, err = p.Bounds()
	var bad ValidationError
	if invalid, ok := errors.AsType[*ValidationError](err); ok {
		bad.Fields = invalid.Fields
	}
	for _, text := range [...]struct{ field, value string }{{"name", f.Name}, {"email", f.Email}, {"externalId", f.ExternalID}} {
		if !isText(text.value) {
			bad.Fields = append(bad.Fields, FieldError{Field: text.field, Problem: "is not text that can be stored"})
		}
	}
	switch f.ZoneSource {
	case "", ZoneDeclared, ZoneGuessed, ZoneDefault:
	default:
		bad.Fields = append(bad.Fields, FieldError{Field: "zoneSource", Problem: "is not one of declared, guessed, default"})
	}
	if len(bad.Fields) > 0 {
		return 0, User{}, &bad
	}
	return limit, after, nil
}

// named returns the id and the names that a cursor of a list by name has, or a cursor that is invalid.
func (c Cursor) named() (id Cursor, first, last string) {
	parts := strings.Split(string(c), "/")
	if len(parts) != 3 {
		return "/", "", ""
	}
	first, err := url.PathUnescape(parts[1])
	last, err2 := url.PathUnescape(parts[2])
	if err != nil || err2 != nil || !isText(first) || !isText(last) {
		return "/", "", ""
	}
	return Cursor(parts[0]), first, last
}

// isText reports whether a text can be stored: valid UTF-8 without the character 0.
func isText(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// PageOf returns the page of the first limit users of a list. Pass a list of up to limit +
// 1 users: one user more than limit shows that there is a next page.
func (f UserFilter) PageOf(users []User, limit int) List[User] {
	if len(users) <= limit {
		return List[User]{Items: users}
	}
	last := users[limit-1]
	next := last.ID.String()
	if f.Name != "" {
		next += "/" + url.PathEscape(last.FirstName) + "/" + url.PathEscape(last.LastName)
	}
	return List[User]{Items: users[:limit], Next: Cursor(next)}
}

// Roster is a locked user with the user's open events.
type Roster struct {
	User User
	// Pending are the events that were never claimed, by id. They are locked too.
	Pending []Event
	// InFlight are the open events that were claimed at least once, by id. They keep their instant.
	InFlight []Event
	// Used has the used keys of each series: of the events that have ended, and of an
	// event in flight, which counts as ended now. Series of requeued events are left out. A
	// series without an open event may be missing, because a user may have thousands of
	// them, until edit adds an event with a used occurrence to the series.
	Used map[Series]UsedKeys
	// Stalled are the stalled series of all types.
	Stalled []StalledSeries
	// Now is the present time by the repository's clock.
	Now time.Time
}

// open returns the series of a roster that have a pending event or one in flight, with
// the occurrence keys of these events.
func (r Roster) open() map[Series]string {
	open := make(map[Series]string)
	for _, e := range slices.Concat(r.InFlight, r.Pending) {
		open[SeriesOf(e)] = e.OccurrenceKey
	}
	return open
}

// Edit is a change of a user and of their open events, which a Roster holds. The caller passes the
// change to store, and gets back the change as stored. [Roster.Check] says which edits can be stored.
type Edit struct {
	User *User // the changed user, with its version raised by one; nil leaves the user unchanged

	// Changed are PENDING events of the roster in their new form, with their versions raised by
	// one. An event can have another instant, be available at another time, or be CANCELLED. The
	// events are changed before new events are stored, so a new event can succeed a cancelled one.
	Changed []Event

	// New are events to store, planned or returned by [Event.Requeue]. An event is not
	// stored, and is left out of the stored edit, if its series has an open event, or a used
	// key of the same unit that is not lower.
	New []Event

	Removed []Event // pending events to delete, because their occurrence no longer exists
}

// DeleteOptions says how a user is deleted. The zero DeleteOptions lets deliveries that are under way
// end first. Until then the user is hidden: it can be neither read nor edited. The events in flight end
// without a successor and are not tried again. Then the next sweeps remove the user and all events.
type DeleteOptions struct {
	// AtOnce deletes the user and all the user's events in one transaction, including ended
	// events and events in flight, as for erasure by law. A hidden user is deleted too.
	// After the commit, no row but those of the outbox has the id of the user, and none has
	// data about the user. A delivery that is under way may still arrive. Its outcome is
	// not stored, because Settle returns that the event does not exist.
	//
	// One transaction would take too long if the user has more than 5,000 ended events, or as many used
	// keys or rows of the audit trail or outbox. The call then deletes all open events and a page of the
	// rest, and hides the user. The sweeps of Run and RunOnce delete the other pages. DeleteResult.Hidden
	// reports this. The erasure is complete when another call with AtOnce returns a [*NotFoundError].
	//
	// The lease of events that were in flight lists their ids and series ids until all
	// other events of the lease have ended. Nothing connects these ids to the user. Used
	// occurrence keys are deleted, so a new user with the same id has no history.
	AtOnce bool

	// Version is the version of the user to delete. If the stored user has another version,
	// nothing is deleted, and the error is an [*OptimisticLockError]. Zero means any version.
	Version int
}

// DeleteResult is the result of deleting a user.
type DeleteResult struct {
	Removed  int         // pending events that were deleted
	InFlight []uuid.UUID // events that were in flight, by id; AtOnce has deleted them too
	Hidden   bool        // whether rows of the user are left; the user is hidden until a sweep has deleted them
}

// CreateUserResult is the result of storing one of many users.
type CreateUserResult struct {
	UserWithEvents // as stored, if Err is nil
	// Err matches ErrExists if the id is taken, and ErrLocked while a user with the id is being deleted.
	// It is an *ExternalIDTakenError if the external id is taken, also by an earlier user of the list.
	Err error
}

// UserSeries is a locked user with the user's series of one type of event.
type UserSeries struct {
	User User
	// Open are the series with an open event, and the keys of these events. Series of
	// requeued events are left out.
	Open map[Series]string
	// Used are the series without an open event, and their used keys. A series other than
	// the single series of a type may be missing until plan returns an event of it with a
	// used occurrence. In AddSuccessors, Used has the stalled series.
	Used map[Series]UsedKeys
	// Stalled are the stalled series; in AddSuccessors, only those to plan.
	Stalled []StalledSeries
}

// AddEventsResult is the result of adding events for a page of users.
type AddEventsResult struct {
	Users  int         // how many users were processed
	Locked []uuid.UUID // users that another transaction has locked; they were not processed
	// Refused are the users, of those processed, whose events could not be stored, and why.
	// AddSuccessors has them in Stalled instead.
	Refused []Refusal
	Stalled []StalledSeries // in AddSuccessors: the series that have stalled further
	Events  []Event         // as stored
	Next    Cursor          // the cursor of the next page; empty if this was the last page
}

// StalledSeries is a series without an open event whose next event is still to be planned.
// A series stalls when its handler fails while an event ends, or when a program without the
// handler cancels its event. Run plans the next event later: it tries again after an error,
// at first after ten seconds, then after twice as long each time, up to an hour. The wait is
// at most about a minute and a half if the program does not know the calendar of the user's
// date of birth, because another program may know it. A series whose handler has no next occurrence does not stall.
type StalledSeries struct {
	UserID uuid.UUID
	Series Series
	// Due is the due instant of the last event, UTC.
	Due time.Time
	// Error is why the last attempt to plan the next event failed. It is empty if no program
	// with the handler has tried.
	Error    string
	Failures int       // attempts that failed
	Since    time.Time // when the last event ended, UTC
	RetryAt  time.Time // when the next attempt is made, UTC; it may have passed
}

// maxUnknownWaits bounds how often the wait is doubled after failures of programs that do not know the calendar
// of the user. So a program that knows it tries within about a minute, although all count the same failures.
const maxUnknownWaits = 4

// replanAgain has the waits between attempts to plan the next event of a stalled series.
var replanAgain = backoff.Exponential{First: 10 * time.Second, Max: time.Hour, Factor: 2, Jitter: 0.2}

// Stalled returns the series of an event that ended at now, if its handler could not plan
// the next event because of err. Repositories store it with the outcome.
func (e Event) Stalled(err error, now time.Time) StalledSeries {
	return StalledSeries{UserID: e.UserID, Series: SeriesOf(e), Due: e.Due, Since: now}.Again(err, now)
}

// Again returns the series after another attempt at now, which failed because of err: with one
// failure more, and the time of the next attempt.
func (s StalledSeries) Again(err error, now time.Time) StalledSeries {
	s.Failures++
	s.Error = storable(err.Error())
	waits := s.Failures
	if errors.Is(err, calendar.ErrUnknownSystem) {
		waits = min(waits, maxUnknownWaits)
	}
	s.RetryAt = now.Add(replanAgain.Delay(waits, rand.Float64()))
	return s
}
