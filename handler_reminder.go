package almanac

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
)

// TypeReminder is the default event type of [Reminder].
const TypeReminder = "REMINDER"

// Reminder is the ready-made handler for the appointments of users, up to 100 for each user. Each
// appointment happens once and has a name. Two appointments at the same instant are two events. The
// zero Reminder takes the appointments from the user's attribute "reminders", an object by name,
//
//	{"reminders": {"dentist": {"at": "2027-03-15T09:00:00", "message": "Brush your teeth"}}}
//
// and reminds by webhook. To add, move or remove an appointment, change the attribute (see
// [ProfileChange].Merge). An appointment that moves to a later wall time is reminded of again.
type Reminder struct {
	Execution
	// Type is the event type. Empty means TypeReminder.
	Type string
	// Attribute is the name of the user's attribute that has the appointments. Empty means "reminders".
	Attribute string
	// Policies say how wall times that clocks skip or show twice are resolved. The zero
	// Policies mean the defaults.
	Policies calendar.Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// Appointment is one appointment in the attribute that a [Reminder] uses.
type Appointment struct {
	At       calendar.WallTime // "2027-03-15T09:00:00"
	Timezone calendar.Timezone // an IANA name; zero means the user's zone, also after the user has moved
	Message  string
}

// appointment is the JSON form of an Appointment.
type appointment struct {
	At       string `json:"at"`
	Timezone string `json:"timezone,omitempty"`
	Message  string `json:"message"`
}

// MarshalJSON encodes a as {"at": …, "timezone": …, "message": …}.
func (a Appointment) MarshalJSON() ([]byte, error) {
	return json.Marshal(appointment{a.At.String(), a.Timezone.String(), a.Message})
}

// UnmarshalJSON decodes the form that MarshalJSON encodes. The error joins those of
// [calendar.ParseWallTime] and [calendar.LoadTimezone].
func (a *Appointment) UnmarshalJSON(text []byte) error {
	var raw appointment
	if json.Unmarshal(text, &raw) != nil {
		return errors.New(`almanac: an appointment is an object with the texts "at", "timezone" and "message"`)
	}
	at, errAt := calendar.ParseWallTime(raw.At)
	var zone calendar.Timezone
	var errZone error
	if raw.Timezone != "" {
		zone, errZone = calendar.LoadTimezone(raw.Timezone)
	}
	if err := errors.Join(errAt, errZone); err != nil {
		return err
	}
	*a = Appointment{at, zone, raw.Message}
	return nil
}

// EventType returns r.Type, or [TypeReminder].
func (r Reminder) EventType() string { return cmp.Or(r.Type, TypeReminder) }

// valid returns what NewRegistry refuses.
func (r Reminder) validate() error { return r.Policies.Check() }

// maxAppointments limits the work of planning, which parses all appointments when one of them ends.
const maxAppointments = 100

// Appointments returns u's appointments, by name. The error is a [*ValidationError] that
// names every invalid appointment.
func (r Reminder) Appointments(u User) (map[string]Appointment, error) {
	members, err := r.members(u)
	if err != nil {
		return nil, err
	}
	var bad []FieldError
	appointments := make(map[string]Appointment, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		a, problems := r.parse(name, members[name])
		appointments[name], bad = a, append(bad, problems...)
	}
	if len(bad) > 0 {
		return nil, &ValidationError{Fields: bad}
	}
	return appointments, nil
}

// members returns the members of u's attribute, by name. They are not parsed.
func (r Reminder) members(u User) (members map[string]json.RawMessage, err error) {
	name := cmp.Or(r.Attribute, "reminders")
	if _, err := attribute(u, name, &members); err != nil {
		return nil, err
	}
	if len(members) > maxAppointments {
		return nil, badAttribute(name, fmt.Sprintf("has %d members, more than %d", len(members), maxAppointments))
	}
	return members, nil
}

// parse parses a member of the attribute. It returns what is wrong with it.
func (r Reminder) parse(name string, member json.RawMessage) (a Appointment, bad []FieldError) {
	field := fmt.Sprintf("attributes.%s.%s", cmp.Or(r.Attribute, "reminders"), excerpt.Of(name, maxSeriesName))
	if problem := tokenProblem(name, maxSeriesName); problem != "" {
		bad = append(bad, FieldError{Field: field, Problem: "has a name that " + problem})
	}
	if err := json.Unmarshal(member, &a); err != nil {
		bad = append(bad, FieldError{Field: field, Problem: "is no appointment: " + clausesOf(err), Err: err})
	}
	return a, bad
}

// appointment returns one appointment of u, and reports whether u has it. It parses no other
// appointment, because planning calls it for each of them.
func (r Reminder) appointment(u User, name string) (Appointment, bool, error) {
	members, err := r.members(u)
	member, ok := members[name]
	if err != nil || !ok {
		return Appointment{}, false, err
	}
	a, bad := r.parse(name, member)
	if len(bad) > 0 {
		return Appointment{}, false, &ValidationError{Fields: bad}
	}
	return a, true, nil
}

// clausesOf returns the texts of the errors joined in err, without the package prefix of each.
func clausesOf(err error) string {
	clauses := strings.Split(err.Error(), "\n")
	for i, clause := range clauses {
		if _, says, ok := strings.Cut(clause, ": "); ok {
			clauses[i] = says
		}
	}
	return strings.Join(clauses, "; ")
}

// Series returns the names of the appointments.
func (r Reminder) Series(u User) ([]string, error) {
	appointments, err := r.Appointments(u)
	return slices.Collect(maps.Keys(appointments)), err
}

// NextIn returns the appointment of that name, if its instant is after the given instant.
func (r Reminder) NextIn(u User, name string, after time.Time) (calendar.Occurrence, error) {
	a, ok, err := r.appointment(u, name)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	if !ok {
		return calendar.Occurrence{}, fmt.Errorf("%w: user %s has no appointment %q", calendar.ErrNoOccurrence, u.ID, name)
	}
	zone := a.Timezone
	if zone.IsZero() {
		zone = u.Timezone
	}
	return calendar.Next(calendar.Once{At: a.At}, zone, r.Policies, after)
}

// Next returns the earliest of all appointments after the given instant.
func (r Reminder) Next(u User, after time.Time) (calendar.Occurrence, error) {
	return firstOf(r, u, after)
}

// firstOf returns the earliest next occurrence among a handler's series.
func firstOf(h MultiSeries, u User, after time.Time) (calendar.Occurrence, error) {
	names, err := h.Series(u)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	slices.Sort(names)
	var first calendar.Occurrence
	var due time.Time
	for _, name := range names {
		o, err := h.NextIn(u, name, after)
		if errors.Is(err, calendar.ErrNoOccurrence) {
			continue
		}
		if err != nil {
			return calendar.Occurrence{}, err
		}
		r, err := o.Resolve()
		if err != nil {
			return calendar.Occurrence{}, err
		}
		if due.IsZero() || r.Instant.Before(due) {
			first, due = o, r.Instant
		}
	}
	if due.IsZero() {
		return calendar.Occurrence{}, fmt.Errorf("%w after %s", calendar.ErrNoOccurrence, u.Timezone.WallTime(after))
	}
	return first, nil
}

// Payload returns {"name": …, "message": …}.
func (r Reminder) Payload(u User, o Occurrence) (json.RawMessage, error) {
	a, _, err := r.appointment(u, o.Series)
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Name    string `json:"name"`
		Message string `json:"message"`
	}{o.Series, a.Message})
}

// Channel returns r.Via, or [ChannelWebhook].
func (r Reminder) Channel(Event) Channel { return cmp.Or(r.Via, ChannelWebhook) }

// Recurring is the ready-made handler for events that follow a rule, such as a weekly
// digest or a rent reminder on the first of each month. Type and Rule are required.
//
//	almanac.Recurring{
//		Type: "DIGEST",
//		Rule: func(almanac.User) (calendar.Recurrence, error) {
//			return calendar.Weekly{On: []time.Weekday{time.Monday}, At: calendar.Clock{Hour: 8}}, nil
//		},
//	}
type Recurring struct {
	Execution
	// Type is the event type.
	Type string
	// Rule returns the recurrence of a user. Its result must depend only on the user.
	// For a user without occurrences it returns a nil Recurrence, or an error that
	// matches [calendar.ErrNoOccurrence]. Any other error refuses the change of the user.
	// Return a [*ValidationError] if the data of the user is wrong.
	Rule func(u User) (calendar.Recurrence, error)
	// Zone is the zone whose clocks the rule follows. The zero Timezone means the zone of
	// each user. With a Zone, events keep their instants when their users move.
	Zone calendar.Timezone
	// Message returns the text. Nil means an empty text.
	Message func(u User, o Occurrence) string
	// Policies say how wall times that clocks skip or show twice, and dates that do not
	// exist, are resolved. The zero Policies mean the defaults.
	Policies calendar.Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// EventType returns r.Type.
func (r Recurring) EventType() string { return r.Type }

// valid returns what NewRegistry refuses.
func (r Recurring) validate() error {
	err := r.Policies.Check()
	if r.Rule == nil {
		err = errors.Join(errors.New("the handler has no rule"), err)
	}
	return err
}

// Next returns the first occurrence of u's rule strictly after the given instant, in r.Zone
// or else in u's zone.
func (r Recurring) Next(u User, after time.Time) (calendar.Occurrence, error) {
	if r.Rule == nil {
		return calendar.Occurrence{}, &calendar.InvalidRecurrenceError{Rule: r.Type, Problems: []string{"the handler has no rule"}}
	}
	rule, err := r.Rule(u)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	if rule == nil {
		return calendar.Occurrence{}, fmt.Errorf("%w: user %s has no rule", calendar.ErrNoOccurrence, u.ID)
	}
	zone := r.Zone
	if zone.IsZero() {
		zone = u.Timezone
	}
	return calendar.Next(rule, zone, r.Policies, after)
}

// Payload returns {"message": …, "occurrence": …}. The occurrence is the occurrence key. If the
// rule is a [calendar.Offset], "date" is the announced day, and "daysBefore" is its distance.
//
// "reason" is present if working days, a window or a policy of another calendar chose the day or the time. It says in
// English what moved the occurrence, or which working day it is, such as "third working day of DE-BY".
// [Birthday].Payload describes its parts.
func (r Recurring) Payload(u User, o Occurrence) (json.RawMessage, error) {
	if o.Announces == (calendar.WallTime{}) {
		o.Announces = o.announces
	}
	message := ""
	if r.Message != nil {
		message = r.Message(u, o)
	}
	announced := announcement{Reason: o.whyChosen()}
	if o.Announces != (calendar.WallTime{}) {
		midnight := func(d calendar.Date) time.Time { return calendar.WallTime{Date: d}.Labelled() }
		days := midnight(o.Announces.Date).Sub(midnight(o.Wall.Date)) / (24 * time.Hour)
		announced.Date, announced.DaysBefore = o.Announces.Date.String(), int(days)
	}
	return json.Marshal(struct {
		Message    string `json:"message"`
		Occurrence string `json:"occurrence"`
		announcement
	}{message, o.Key, announced})
}

// Channel returns r.Via, or [ChannelWebhook].
func (r Recurring) Channel(Event) Channel { return cmp.Or(r.Via, ChannelWebhook) }
