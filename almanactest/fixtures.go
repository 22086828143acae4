package almanactest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// UserOption changes what [User] makes.
type UserOption func(*almanac.Profile)

// Named gives a name.
func Named(first, last string) UserOption {
	return func(p *almanac.Profile) { p.FirstName, p.LastName = first, last }
}

// BornOn gives a date of birth, as YYYY-MM-DD.
func BornOn(date string) UserOption {
	return func(p *almanac.Profile) { p.DateOfBirth = date }
}

// LivingIn gives a zone, by its IANA name.
func LivingIn(zone string) UserOption {
	return func(p *almanac.Profile) { p.Timezone = zone }
}

// WithAttributes gives attributes, as a JSON object.
func WithAttributes(object string) UserOption {
	return func(p *almanac.Profile) { p.Attributes = json.RawMessage(object) }
}

// WithUserID gives the id. The zero id is replaced by one that nobody has.
func WithUserID(id uuid.UUID) UserOption {
	return func(p *almanac.Profile) { p.ID = id }
}

// User returns a valid user with an id of their own: Ada Lovelace, born on
// 1990-01-01, living in America/New_York. When they were created is for the
// repository to say. It panics on options that make no valid user.
func User(options ...UserOption) almanac.User {
	p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "America/New_York"}
	for _, option := range options {
		option(&p)
	}
	// As of a distant day, so that no one is too young, whatever a test's clock says.
	u, err := almanac.NewUser(p, time.Date(9000, time.January, 1, 0, 0, 0, 0, time.UTC))
	if err != nil {
		panic(fmt.Sprintf("almanactest: %v", err))
	}
	u.CreatedAt, u.UpdatedAt = time.Time{}, time.Time{}
	return u
}

// EventOption changes what [Event] makes. Options apply in order.
type EventOption func(e *almanac.Event, now time.Time)

// ReadyFor makes an event whose instant passed that long ago: ready, or overdue.
func ReadyFor(d time.Duration) EventOption { return DueIn(-d) }

// DueIn makes an event whose instant is that far ahead.
func DueIn(d time.Duration) EventOption {
	return func(e *almanac.Event, now time.Time) { place(e, now.Add(d)) }
}

// Tried makes an event of which n attempts have failed, ready for another.
func Tried(n int) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.RetryCount, e.ClaimCount, e.Version = e.RetryCount+n, e.ClaimCount+n, e.Version+2*n
		e.LastError = "receiver answered 503"
	}
}

// Crashed makes an event whose workers died in n attempts, ready for another.
func Crashed(n int) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.CrashCount, e.ClaimCount, e.Version = e.CrashCount+n, e.ClaimCount+n, e.Version+2*n
		e.LastError = "lease expired"
	}
}

// RestingFor lets an event that was tried, or crashed, wait that long for its next
// attempt.
func RestingFor(d time.Duration) EventOption {
	return func(e *almanac.Event, now time.Time) { e.AvailableAt = now.Add(d).UTC().Truncate(time.Second) }
}

// For gives the event to a user, in the user's zone.
func For(u almanac.User) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.UserID, e.UserVersion, e.Zone = u.ID, u.Version, u.Timezone.String()
		place(e, e.Due)
	}
}

// WithID gives the id of the event. Its occurrence key stays one that no other event
// has; see [Of] to give that too.
func WithID(id uuid.UUID) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.ID = id }
}

// OfUser gives the event to the user of an id, without their zone; see [For].
func OfUser(id uuid.UUID) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.UserID = id }
}

// OfType makes an event of another type than BIRTHDAY.
func OfType(eventType string) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.Type = eventType }
}

// Of names the occurrence.
func Of(occurrenceKey string) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.OccurrenceKey = occurrenceKey }
}

// InStatus takes the event through the steps that lead from PENDING to a status, at
// now. Give it after the options that say when the event is due and how often it
// was tried.
func InStatus(s almanac.Status) EventOption {
	switch s {
	case almanac.Completed:
		return func(e *almanac.Event, now time.Time) { deliverAt(e, now) }
	case almanac.Failed:
		return FailedBecause("receiver answered 404")
	case almanac.Cancelled:
		return became(func(e almanac.Event) (almanac.Event, error) { return e.Cancel("moved house") })
	case almanac.Processing:
		return claimed(func(e almanac.Event) (almanac.Event, error) { return e, nil })
	default:
		return func(*almanac.Event, time.Time) {}
	}
}

// DeliveredLate makes an event that is COMPLETED, that long after its instant. Give
// it last, as [InStatus].
func DeliveredLate(by time.Duration) EventOption {
	return func(e *almanac.Event, _ time.Time) { deliverAt(e, e.Due.Add(by)) }
}

// FailedBecause makes an event that is FAILED for a reason. Give it last, as
// [InStatus].
func FailedBecause(reason string) EventOption {
	return claimed(func(e almanac.Event) (almanac.Event, error) { return e.Fail(reason) })
}

func deliverAt(e *almanac.Event, at time.Time) {
	claimed(func(e almanac.Event) (almanac.Event, error) { return e.Complete(at) })(e, at)
}

// claimed makes an event of what becomes of it once it is claimed.
func claimed(step func(almanac.Event) (almanac.Event, error)) EventOption {
	return became(func(e almanac.Event) (almanac.Event, error) {
		next, err := e.Claim(uuid.New())
		if err == nil {
			next, err = step(next)
		}
		return next, err
	})
}

// became makes an event of what becomes of it.
func became(step func(almanac.Event) (almanac.Event, error)) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		next, err := step(*e)
		if err != nil {
			panic(fmt.Sprintf("almanactest: %v", err))
		}
		*e = next
	}
}

// Event returns a valid pending event with an id, a user id, a series and a key of
// its own: a birthday that has been ready for five minutes at now.
func Event(now time.Time, options ...EventOption) almanac.Event {
	id := uuid.Must(uuid.NewV7())
	e := almanac.Event{
		ID: id, UserID: uuid.New(), Type: almanac.TypeBirthday, OccurrenceKey: id.String() + "/1", Status: almanac.Pending,
		Zone: "UTC", Policies: almanac.Policies{}.WithDefaults(), Payload: json.RawMessage(`{"message": "Hey"}`),
		UserVersion: 1, Version: 1,
	}
	place(&e, now.Add(-5*time.Minute))
	for _, option := range options {
		option(&e, now)
	}
	e.IdempotencyKey = almanac.NewIdempotencyKey(e.UserID.String()+e.OccurrenceKey, e.Due, e.Type)
	return e
}

// place gives an event its instant, to the second.
func place(e *almanac.Event, due time.Time) {
	e.Due = due.UTC().Truncate(time.Second)
	e.AvailableAt = e.Due
	e.Wall = almanac.StoredTimezone(e.Zone).WallTime(e.Due)
}
