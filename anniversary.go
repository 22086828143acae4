package almanac

import (
	"encoding/json"
	"fmt"
	"time"
)

// TypeAnniversary is the event type of [Anniversary] unless it says otherwise.
const TypeAnniversary = "ANNIVERSARY"

// Anniversary is the ready-made handler for a day that comes round every year,
// such as the one on which somebody was hired: from the first year after it, in the
// user's own zone. The zero Anniversary reads the date from the user's attribute
// "anniversary" and speaks at 09:00, by webhook.
//
// The occurrence key is the year. Two kinds of anniversary are two handlers with
// two types.
type Anniversary struct {
	Execution
	// Type is the event type. Empty means TypeAnniversary.
	Type string
	// Attribute names the member of the user's attributes that holds the date, as
	// "2019-04-01". Empty means "anniversary". Who has no such member is owed nothing.
	Attribute string
	// At returns the time of day for u. Nil means 09:00.
	At func(u User) Clock
	// Message returns the words for a number of years. Nil means those of
	// AnniversaryMessage.
	Message func(u User, years int) string
	// Policies say how the calendar's open questions are answered.
	Policies Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// AnniversaryMessage returns the words that [Anniversary] uses by default.
func AnniversaryMessage(u User, years int) string {
	if years == 1 {
		return fmt.Sprintf("Hey, %s it's your first anniversary", u.Name())
	}
	return fmt.Sprintf("Hey, %s it's your anniversary: %d years", u.Name(), years)
}

// EventType returns a.Type, or [TypeAnniversary].
func (a Anniversary) EventType() string { return orElse(a.Type, TypeAnniversary) }

// Next returns the first anniversary strictly after the given instant. The error
// is a [*ValidationError] when the attribute holds no date.
func (a Anniversary) Next(u User, after time.Time) (Occurrence, error) {
	day, err := a.day(u)
	if err != nil {
		return Occurrence{}, err
	}
	if day.Year == 9999 {
		return Occurrence{}, noOccurrence(u.Timezone.WallTime(after))
	}
	yearly := Yearly{Month: day.Month, Day: day.Day, At: nineOr(a.At, u), From: Date{day.Year + 1, time.January, 1}}
	return Next(yearly, u.Timezone, a.Policies, after)
}

// day returns the date of which u has anniversaries.
func (a Anniversary) day(u User) (Date, error) {
	name := orElse(a.Attribute, "anniversary")
	var text string
	found, err := attribute(u, name, &text)
	if err != nil {
		return Date{}, err
	}
	if !found {
		return Date{}, fmt.Errorf("%w: user %s has no attribute %q", ErrNoOccurrence, u.ID, name)
	}
	day, err := ParseDate(text)
	if err != nil {
		return Date{}, badAttribute(name, dateProblem(text))
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
	// The occurrence's own year may be that of a day moved across New Year by a
	// change of clocks; its key is not.
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

// orElse returns s, or what it means to leave it out.
func orElse[T ~string](s, otherwise T) T {
	if s == "" {
		return otherwise
	}
	return s
}

// nineOr returns the time of day that a handler chooses for u.
func nineOr(at func(User) Clock, u User) Clock {
	if at == nil {
		return Clock{Hour: 9}
	}
	return at(u)
}

// attribute reads one member of a user's attributes; it reports false if there is
// none or it is null.
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
