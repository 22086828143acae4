package almanactest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// UserOption changes a property of [User].
type UserOption func(*almanac.Profile)

// Named sets the names; "" means none.
func Named(first, last string) UserOption {
	return func(p *almanac.Profile) { p.FirstName, p.LastName = first, last }
}

// BornOn sets the date of birth, as YYYY-MM-DD, or as --MM-DD without the year; "" means none.
func BornOn(date string) UserOption {
	return func(p *almanac.Profile) { p.DateOfBirth = date }
}

// LivingIn sets the zone, by its IANA name.
func LivingIn(zone string) UserOption {
	return func(p *almanac.Profile) { p.Timezone = zone }
}

// WithAttributes sets the attributes, as a JSON object.
func WithAttributes(object string) UserOption {
	return func(p *almanac.Profile) { p.Attributes = json.RawMessage(object) }
}

// WithLocale sets the locale, as a language tag of BCP 47.
func WithLocale(tag string) UserOption {
	return func(p *almanac.Profile) { p.Locale = tag }
}

// WithEmail sets the e-mail address.
func WithEmail(address string) UserOption {
	return func(p *almanac.Profile) { p.Email = address }
}

// WithExternalID sets the external id, which no other user may have.
func WithExternalID(id string) UserOption {
	return func(p *almanac.Profile) { p.ExternalID = id }
}

// WithUserID sets the id. The zero id is replaced by a new one.
func WithUserID(id uuid.UUID) UserOption {
	return func(p *almanac.Profile) { p.ID = id }
}

// User returns a valid user with a new id: Ada Lovelace, born on 1990-01-01, living in America/New_York.
// The repository sets the time of creation. User panics if the options make an invalid user.
func User(options ...UserOption) almanac.User {
	p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01", Timezone: "America/New_York"}
	for _, option := range options {
		option(&p)
	}
	// A late day, so that no user is too young, whatever a test's clock shows.
	u, err := almanac.NewUser(p, time.Date(9000, time.January, 1, 0, 0, 0, 0, time.UTC), almanac.WithOptionalProfile())
	if err != nil {
		panic(fmt.Sprintf("almanactest: %v", err))
	}
	u.CreatedAt, u.UpdatedAt = time.Time{}, time.Time{}
	return u
}

// EventOption changes a property of [Event]. Options apply in order.
type EventOption func(e *almanac.Event, now time.Time)

// ReadyFor sets the instant to d before now: the event is ready, or overdue.
func ReadyFor(d time.Duration) EventOption { return DueIn(-d) }

// DueIn sets the instant to d after now.
func DueIn(d time.Duration) EventOption {
	return func(e *almanac.Event, now time.Time) { place(e, now.Add(d)) }
}

// InLane sets the name of the lane.
func InLane(name string) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.Lane = name }
}

// Tried makes an event whose first n attempts failed, ready for another attempt.
func Tried(n int) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.RetryCount, e.ClaimCount, e.Version = e.RetryCount+n, e.ClaimCount+n, e.Version+2*n
		e.LastError = "receiver answered 503"
	}
}

// OutOfAttempts makes a FAILED event whose three attempts, the default of a handler, have
// failed. Give it last, like [InStatus].
func OutOfAttempts() EventOption {
	return func(e *almanac.Event, now time.Time) {
		Tried(2)(e, now)
		FailedBecause(e.LastError)(e, now)
	}
}

// Crashed makes an event whose workers died in n attempts, ready for another attempt.
func Crashed(n int) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.CrashCount, e.ClaimCount, e.Version = e.CrashCount+n, e.ClaimCount+n, e.Version+2*n
		e.LastError = "lease expired"
	}
}

// DelayedFor delays the next attempt of an event that was tried or has crashed until d from now.
func DelayedFor(d time.Duration) EventOption {
	return func(e *almanac.Event, now time.Time) { e.AvailableAt = now.Add(d).UTC().Truncate(time.Second) }
}

// For assigns the event to a user, in the user's zone.
func For(u almanac.User) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.UserID, e.UserVersion, e.Zone = u.ID, u.Version, u.Timezone.String()
		place(e, e.Due)
	}
}

// WithID sets the id of the event. Its series stays unique; set it with [Of] or [OfSeries].
func WithID(id uuid.UUID) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.ID = id }
}

// OfUser assigns the event to the user with an id, and keeps its zone; see [For].
func OfUser(id uuid.UUID) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.UserID = id }
}

// OfType sets the event type. The default is BIRTHDAY.
func OfType(eventType string) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.Type = eventType }
}

// Of sets the occurrence key, in the single series of the event's type.
func Of(occurrenceKey string) EventOption { return OfSeries("", occurrenceKey) }

// OfSeries sets the series, as an [almanac.MultiSeries] has them, and the occurrence key.
// The unit of the key follows from its form: "2027" is a year.
func OfSeries(series, occurrenceKey string) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		e.Series, e.OccurrenceKey, e.KeyUnit = series, occurrenceKey, unitOf(occurrenceKey)
	}
}

// unitOf returns the unit of the keys of recurrences that have the form of a key.
func unitOf(key string) calendar.Unit {
	for unit, form := range map[calendar.Unit]string{
		calendar.UnitTime: "2006-01-02T15:04:05", calendar.UnitDay: time.DateOnly, calendar.UnitMonth: "2006-01", calendar.UnitYear: "2006",
	} {
		if t, err := time.Parse(form, key); err == nil && t.Format(form) == key {
			return unit
		}
	}
	return calendar.UnitText
}

// WithOrigin sets the origin of the event.
func WithOrigin(o almanac.Origin) EventOption {
	return func(e *almanac.Event, _ time.Time) { e.Origin = o }
}

// InStatus takes the event from PENDING to a status, at now, through the necessary
// transitions. Give it after the options for the due time and the failed attempts.
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

// DeliveredLate makes a COMPLETED event that was delivered that long after its instant.
// Give it last, like [InStatus].
func DeliveredLate(by time.Duration) EventOption {
	return func(e *almanac.Event, _ time.Time) { deliverAt(e, e.Due.Add(by)) }
}

// FailedBecause makes a FAILED event with a reason. Give it last, like [InStatus].
func FailedBecause(reason string) EventOption {
	return claimed(func(e almanac.Event) (almanac.Event, error) { return e.Fail(reason) })
}

func deliverAt(e *almanac.Event, at time.Time) {
	claimed(func(e almanac.Event) (almanac.Event, error) { return e.Complete(at) })(e, at)
}

// claimed claims an event and then applies step.
func claimed(step func(almanac.Event) (almanac.Event, error)) EventOption {
	return became(func(e almanac.Event) (almanac.Event, error) {
		next, err := e.Claim(uuid.New())
		if err == nil {
			next, err = step(next)
		}
		return next, err
	})
}

// became applies step to an event.
func became(step func(almanac.Event) (almanac.Event, error)) EventOption {
	return func(e *almanac.Event, _ time.Time) {
		next, err := step(*e)
		if err != nil {
			panic(fmt.Sprintf("almanactest: %v", err))
		}
		*e = next
	}
}

// Event returns a valid pending event with a new id, user id, series and key. It is a
// birthday that has been ready for five minutes at now.
func Event(now time.Time, options ...EventOption) almanac.Event {
	id := uuid.Must(uuid.NewV7())
	e := almanac.Event{
		ID: id, UserID: uuid.New(), Type: almanac.TypeBirthday, Series: id.String(), OccurrenceKey: "1", Status: almanac.Pending,
		Zone: "UTC", Policies: calendar.Policies{}.WithDefaults(), Payload: json.RawMessage(`{"message": "Hey"}`),
		UserVersion: 1, Version: 1,
	}
	place(&e, now.Add(-5*time.Minute))
	for _, option := range options {
		option(&e, now)
	}
	e.IdempotencyKey = almanac.NewIdempotencyKey(e.UserID.String()+e.Series+e.OccurrenceKey, e.Due, e.Type)
	return e
}

// place sets the instant of an event, truncated to the second.
func place(e *almanac.Event, due time.Time) {
	e.Due = due.UTC().Truncate(time.Second)
	e.AvailableAt = e.Due
	e.Wall = calendar.StoredTimezone(e.Zone).WallTime(e.Due)
}
