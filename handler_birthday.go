package almanac

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// TypeBirthday is the event type of [Birthday].
const TypeBirthday = "BIRTHDAY"

// Birthday is the ready-made handler that greets each user on their birthday, in the
// user's zone. The zero Birthday greets at 09:00, by webhook, with the message "Hey,
// {first name} {last name} it's your birthday".
//
// The occurrence key is the year. By default, a user who was born on 29 February is
// greeted on 28 February in common years. Policies can change that.
type Birthday struct {
	Execution
	// At returns the time of day at which u is greeted. Nil means 09:00.
	At func(u User) calendar.Clock
	// Message returns the text. Nil means BirthdayMessage.
	Message func(u User) string
	// Policies say how birthdays on 29 February, and wall times that clocks skip or show
	// twice, are resolved. The zero Policies mean the defaults.
	Policies calendar.Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// BirthdayMessage returns the default message of [Birthday].
func BirthdayMessage(u User) string {
	return fmt.Sprintf("Hey, %s it's your birthday", u.Name())
}

// EventType returns [TypeBirthday].
func (b Birthday) EventType() string { return TypeBirthday }

// Next returns the user's first birthday strictly after the given instant. The day of
// birth counts as a birthday.
func (b Birthday) Next(u User, after time.Time) (calendar.Occurrence, error) {
	born := u.DateOfBirth.Date()
	return calendar.Next(calendar.Yearly{Month: born.Month, Day: born.Day, At: nineOr(b.At, u)}, u.Timezone, b.Policies, after)
}

// Payload returns {"message": …}.
func (b Birthday) Payload(u User, _ Occurrence) (json.RawMessage, error) {
	message := BirthdayMessage
	if b.Message != nil {
		message = b.Message
	}
	return json.Marshal(struct {
		Message string `json:"message"`
	}{message(u)})
}

// Channel returns b.Via, or [ChannelWebhook].
func (b Birthday) Channel(Event) Channel { return orElse(b.Via, ChannelWebhook) }

// TypeAnniversary is the default event type of [Anniversary].
const TypeAnniversary = "ANNIVERSARY"

// Anniversary is the ready-made handler for a date that returns every year, such as a
// hire date. The first anniversary is one year after the date. The zero Anniversary takes
// the date from the user's attribute "anniversary" and delivers at 09:00 in the user's
// zone, by webhook.
//
// The occurrence key is the year. Use two handlers with two types for two kinds of
// anniversary.
type Anniversary struct {
	Execution
	// Type is the event type. Empty means TypeAnniversary.
	Type string
	// Attribute is the name of the user's attribute that has the date, as "2019-04-01".
	// Empty means "anniversary". A user without the attribute has no anniversaries.
	Attribute string
	// At returns the time of day for u. Nil means 09:00.
	At func(u User) calendar.Clock
	// Message returns the text for a number of years. Nil means AnniversaryMessage.
	Message func(u User, years int) string
	// Policies say how anniversaries of 29 February, and wall times that clocks skip or
	// show twice, are resolved. The zero Policies mean the defaults.
	Policies calendar.Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// AnniversaryMessage returns the default message of [Anniversary].
func AnniversaryMessage(u User, years int) string {
	if years == 1 {
		return fmt.Sprintf("Hey, %s it's your first anniversary", u.Name())
	}
	return fmt.Sprintf("Hey, %s it's your anniversary: %d years", u.Name(), years)
}

// EventType returns a.Type, or [TypeAnniversary].
func (a Anniversary) EventType() string { return orElse(a.Type, TypeAnniversary) }

// Next returns the first anniversary strictly after the given instant. The error is a
// [*ValidationError] if the attribute is not a date.
func (a Anniversary) Next(u User, after time.Time) (calendar.Occurrence, error) {
	day, err := a.day(u)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	if day.Year == 9999 {
		return calendar.Occurrence{}, fmt.Errorf("%w after %s", calendar.ErrNoOccurrence, u.Timezone.WallTime(after))
	}
	yearly := calendar.Yearly{Month: day.Month, Day: day.Day, At: nineOr(a.At, u), From: calendar.Date{Year: day.Year + 1, Month: time.January, Day: 1}}
	return calendar.Next(yearly, u.Timezone, a.Policies, after)
}

// day returns the date whose anniversaries u has.
func (a Anniversary) day(u User) (calendar.Date, error) {
	name := orElse(a.Attribute, "anniversary")
	var text string
	found, err := attribute(u, name, &text)
	if err != nil {
		return calendar.Date{}, err
	}
	if !found {
		return calendar.Date{}, fmt.Errorf("%w: user %s has no attribute %q", calendar.ErrNoOccurrence, u.ID, name)
	}
	day, err := calendar.ParseDate(text)
	if err != nil {
		return calendar.Date{}, badAttribute(name, problemOf(err))
	}
	return day, nil
}

// Payload returns {"message": …, "years": …}.
func (a Anniversary) Payload(u User, o Occurrence) (json.RawMessage, error) {
	day, err := a.day(u)
	if err != nil {
		return nil, err
	}
	message := AnniversaryMessage
	if a.Message != nil {
		message = a.Message
	}
	// A change of clocks can move the wall time across New Year, so the year comes from
	// the key.
	years := 0
	if _, err := fmt.Sscanf(o.Key, "%04d", &years); err != nil {
		return nil, fmt.Errorf("almanac: %q is not the key of an anniversary", o.Key)
	}
	years -= day.Year
	return json.Marshal(struct {
		Message string `json:"message"`
		Years   int    `json:"years"`
	}{message(u, years), years})
}

// Channel returns a.Via, or [ChannelWebhook].
func (a Anniversary) Channel(Event) Channel { return orElse(a.Via, ChannelWebhook) }

// orElse returns s, or otherwise if s is empty.
func orElse[T ~string](s, otherwise T) T {
	if s == "" {
		return otherwise
	}
	return s
}

// nineOr returns the time of day that a handler sets for u, 09:00 by default.
func nineOr(at func(User) calendar.Clock, u User) calendar.Clock {
	if at == nil {
		return calendar.Clock{Hour: 9}
	}
	return at(u)
}

// attribute decodes one member of a user's attributes. It reports false if the member is
// missing or null.
func attribute(u User, name string, into any) (bool, error) {
	var members map[string]json.RawMessage
	if len(u.Attributes) > 0 {
		if err := json.Unmarshal(u.Attributes, &members); err != nil {
			return false, fmt.Errorf("almanac: attributes of user %s: %w", u.ID, err)
		}
	}
	raw, found := members[name]
	if !found || string(raw) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return false, badAttribute(name, "has another type than it should")
	}
	return true, nil
}

func badAttribute(name, problem string) error {
	return &ValidationError{Fields: []FieldError{{Field: "attributes." + name, Problem: problem}}}
}
