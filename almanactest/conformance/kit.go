package conformance

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/slots"
	"github.com/almanac-go/almanac/ops"
)

// kit is the state of one running case.
type kit struct {
	*testing.T
	r          almanac.Repository
	statistics ops.Statistics // about r; nil if there are none
	now        time.Time      // the repository's time when the case began
}

// ok fails the case at once if err is not nil.
func (k *kit) ok(err error) {
	k.Helper()
	if err != nil {
		k.Fatalf("unexpected error: %v", err)
	}
}

// must returns a function that returns the value of a call, and fails the case at once if the call
// failed.
func must[T any](v T, err error) func(*kit) T {
	return func(k *kit) T {
		k.Helper()
		k.ok(err)
		return v
	}
}

// errorOf returns the error of a call.
func errorOf[T any](_ T, err error) error { return err }

// is fails the case if err does not match the sentinel.
func (k *kit) is(err, sentinel error) {
	k.Helper()
	if !errors.Is(err, sentinel) {
		k.Errorf("error = %v, want one that matches %v", err, sentinel)
	}
}

// noError fails the case, and goes on, if a call of a goroutine failed.
func (k *kit) noError(call string, err error) {
	k.Helper()
	if err != nil {
		k.Errorf("%s: %v", call, err)
	}
}

// matches fails the case if err is not an error equal to want.
func matches[E comparable, P interface {
	*E
	error
}](k *kit, err error, want E) {
	k.Helper()
	var got P
	if !errors.As(err, &got) || *got != want {
		k.Errorf("error = %v, want %v", err, P(&want))
	}
}

// same fails the case if two values differ. Payloads and attributes are compared as JSON
// values, because a repository may change their white space.
func (k *kit) same(what string, got, want any) {
	k.Helper()
	if !reflect.DeepEqual(normal(got), normal(want)) {
		k.Errorf("%s = %+v, want %+v", what, got, want)
	}
}

func normal(v any) any {
	switch v := v.(type) {
	case almanac.Event:
		v.Payload = normalJSON(v.Payload)
		return v
	case almanac.User:
		v.Attributes = normalJSON(v.Attributes)
		return v
	}
	return v
}

func normalJSON(text json.RawMessage) json.RawMessage {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return text
	}
	text, _ = json.Marshal(value) // err was nil above, so this cannot fail
	return text
}

// birthdays returns the birthday series of a name.
func birthdays(name string) almanac.Series {
	return almanac.Series{Type: almanac.TypeBirthday, Name: name}
}

// asFollowUp makes an event a follow-up of another.
var asFollowUp = almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginFollowUp, From: uuid.MustParse("0190a0a0-0000-7000-8000-000000000001")})

// planned returns a planner that plans one given event.
func planned(e almanac.Event) func(almanac.User, time.Time) (almanac.Event, error) {
	return func(almanac.User, time.Time) (almanac.Event, error) { return e, nil }
}

// after returns a planner that plans a successor: an occurrence a year later.
func after(e almanac.Event) func(almanac.User, time.Time) (almanac.Event, error) {
	return func(u almanac.User, now time.Time) (almanac.Event, error) {
		return almanactest.Event(now, almanactest.For(u), almanactest.DueIn(365*24*time.Hour), almanactest.OfSeries(e.Series, e.OccurrenceKey+"+1")), nil
	}
}

// place sets the instant of an event, truncated to the second.
func place(e *almanac.Event, due time.Time) { almanactest.DueIn(0)(e, due) }

// gone fails the case unless err is a *NotFoundError.
func (k *kit) gone(err error) {
	k.Helper()
	if _, ok := errors.AsType[*almanac.NotFoundError](err); !ok {
		k.Errorf("error = %v, want a *NotFoundError", err)
	}
}

// newEvent stores a user with one event, and returns the event.
func (k *kit) newEvent(options ...almanactest.EventOption) almanac.Event {
	k.Helper()
	u := almanactest.User()
	_, events := k.create(u, k.event(u, options...))
	return events[0]
}

func (k *kit) newEvents(n int, options ...almanactest.EventOption) {
	k.Helper()
	for range n {
		k.newEvent(options...)
	}
}

// beside returns a user in the same slot as another one. A repository over several schemas has both in one schema, and short
// idempotency keys and leases are of one schema.
func beside(id uuid.UUID, options ...almanactest.UserOption) almanac.User {
	for {
		if u := almanactest.User(options...); slots.Of(u.ID) == slots.Of(id) {
			return u
		}
	}
}

// event returns a new event of a user, not stored yet.
func (k *kit) event(u almanac.User, options ...almanactest.EventOption) almanac.Event {
	return almanactest.Event(k.now, append([]almanactest.EventOption{almanactest.For(u)}, options...)...)
}
