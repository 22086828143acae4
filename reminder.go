package almanac

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// TypeReminder is the event type of [Reminder] unless it says otherwise.
const TypeReminder = "REMINDER"

// Reminder is the ready-made handler for things that happen once: appointments
// that users have, up to 100 each, with a name of its own for each and told apart
// also when they are for the same instant. The zero Reminder reads them from the
// user's attribute "reminders", an object by name,
//
//	{"reminders": {"dentist": {"at": "2027-03-15T09:00:00", "message": "Brush your teeth"}}}
//
// and reminds by webhook. To add, move or drop one, change the attribute; see
// [ProfileChange].Merge. One that is moved to a later wall time reminds again.
type Reminder struct {
	Execution
	// Type is the event type. Empty means TypeReminder.
	Type string
	// Attribute names the member of the user's attributes that holds the appointments.
	// Empty means "reminders".
	Attribute string
	// Policies say how the calendar's open questions are answered.
	Policies Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// Appointment is what a [Reminder] reminds of, as an attribute holds it.
type Appointment struct {
	At       WallTime // "2027-03-15T09:00:00"
	Timezone Timezone // an IANA name; left out for the user's own, wherever they live by then
	Message  string
}

// appointment is its form in JSON.
type appointment struct {
	At       string `json:"at"`
	Timezone string `json:"timezone,omitempty"`
	Message  string `json:"message"`
}

// MarshalJSON writes {"at": …, "timezone": …, "message": …}.
func (a Appointment) MarshalJSON() ([]byte, error) {
	return json.Marshal(appointment{a.At.String(), a.Timezone.String(), a.Message})
}

// UnmarshalJSON reads what MarshalJSON writes. The errors about its parts are those
// of [ParseWallTime] and [LoadTimezone], joined.
func (a *Appointment) UnmarshalJSON(text []byte) error {
	var raw appointment
	if json.Unmarshal(text, &raw) != nil {
		return errors.New(`almanac: an appointment is an object with the texts "at", "timezone" and "message"`)
	}
	at, errAt := ParseWallTime(raw.At)
	var zone Timezone
	var errZone error
	if raw.Timezone != "" {
		zone, errZone = LoadTimezone(raw.Timezone)
	}
	if err := errors.Join(errAt, errZone); err != nil {
		return err
	}
	*a = Appointment{at, zone, raw.Message}
	return nil
}

// EventType returns r.Type, or [TypeReminder].
func (r Reminder) EventType() string { return orElse(r.Type, TypeReminder) }

// maxAppointments bounds the work of planning, which looks at all of them for each.
const maxAppointments = 100

// Appointments returns what u is to be reminded of, by name. The error is a
// [*ValidationError] that names every appointment that is none.
func (r Reminder) Appointments(u User) (map[string]Appointment, error) {
	name := orElse(r.Attribute, "reminders")
	var raw map[string]json.RawMessage
	if _, err := attribute(u, name, &raw); err != nil {
		return nil, err
	}
	if len(raw) > maxAppointments {
		return nil, badAttribute(name, fmt.Sprintf("has %d members, more than %d", len(raw), maxAppointments))
	}
	var bad ValidationError
	appointments := make(map[string]Appointment, len(raw))
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		field := fmt.Sprintf("attributes.%s.%s", name, clip(key, maxSeriesName))
		if problem := seriesProblem(key, maxSeriesName); problem != "" {
			bad.Fields = append(bad.Fields, FieldError{Field: field, Problem: "has a name that " + problem})
		}
		var a Appointment
		if err := json.Unmarshal(raw[key], &a); err != nil {
			clauses := strings.ReplaceAll(strings.ReplaceAll(err.Error(), "almanac: ", ""), "\n", "; ")
			bad.Fields = append(bad.Fields, FieldError{Field: field, Problem: "is no appointment: " + clauses, Err: err})
			continue
		}
		appointments[key] = a
	}
	if len(bad.Fields) > 0 {
		return nil, &bad
	}
	return appointments, nil
}

// Series returns the names of the appointments.
func (r Reminder) Series(u User) ([]string, error) {
	appointments, err := r.Appointments(u)
	return slices.Collect(maps.Keys(appointments)), err
}

// NextIn returns the appointment of that name if it is still ahead.
func (r Reminder) NextIn(u User, name string, after time.Time) (Occurrence, error) {
	appointments, err := r.Appointments(u)
	if err != nil {
		return Occurrence{}, err
	}
	a, ok := appointments[name]
	if !ok {
		return Occurrence{}, fmt.Errorf("%w: user %s has no appointment %q", ErrNoOccurrence, u.ID, name)
	}
	zone := a.Timezone
	if zone.IsZero() {
		zone = u.Timezone
	}
	return Next(Once{a.At}, zone, r.Policies, after)
}

// Next returns the first of all appointments that are still ahead.
func (r Reminder) Next(u User, after time.Time) (Occurrence, error) {
	return firstOf(r, u, after)
}

// firstOf returns the earliest next occurrence among a handler's series.
func firstOf(h MultiSeries, u User, after time.Time) (Occurrence, error) {
	names, err := h.Series(u)
	if err != nil {
		return Occurrence{}, err
	}
	slices.Sort(names)
	var first Occurrence
	var due time.Time
	for _, name := range names {
		o, err := h.NextIn(u, name, after)
		if errors.Is(err, ErrNoOccurrence) {
			continue
		}
		if err != nil {
			return Occurrence{}, err
		}
		r, err := o.Zone.Resolve(o.Wall, o.Policies)
		if err != nil {
			return Occurrence{}, err
		}
		if due.IsZero() || r.Instant.Before(due) {
			first, due = o, r.Instant
			first.Series = name
		}
	}
	if due.IsZero() {
		return Occurrence{}, noOccurrence(u.Timezone.WallTime(after))
	}
	return first, nil
}

// Payload returns {"name": …, "message": …}.
func (r Reminder) Payload(u User, o Occurrence) (json.RawMessage, error) {
	appointments, err := r.Appointments(u)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Name    string `json:"name"`
		Message string `json:"message"`
	}{o.Series, appointments[o.Series].Message})
}

// Channel returns r.Via, or [ChannelWebhook].
func (r Reminder) Channel(Event) Channel { return orElse(r.Via, ChannelWebhook) }
