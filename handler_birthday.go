package almanac

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// TypeBirthday is the default event type of [Birthday].
const TypeBirthday = "BIRTHDAY"

// Birthday is the ready-made handler that greets each user on their birthday, in the
// user's zone. The zero Birthday greets at 09:00, by webhook, with the message "Hey,
// {first name} {last name} it's your birthday".
//
// A user without a date of birth has no birthday. If only the year is not known, the user
// is greeted every year.
//
// The occurrence key is the year. By default, a user who was born on 29 February is
// greeted on 28 February in common years. Policies can change that.
type Birthday struct {
	Execution
	// Type is the event type. Empty means TypeBirthday.
	Type string
	// At returns the time of day at which u is greeted. Nil means 09:00.
	At func(u User) calendar.Clock
	// Quiet returns the quiet hours of u. A time of day in them moves to their end, on the
	// same day. Nil means none. [WithQuietHours] is for events that are late.
	Quiet func(u User) calendar.QuietHours
	// Before is how many calendar days before the birthday the user is greeted, 0 to 364.
	// Zero means on the day. A user who is created after the day of the announcement is not
	// greeted that year. Use a handler with a Type of its own for each distance, because users
	// opt out by type. The occurrence key is that of the birthday.
	Before int
	// Message returns the text. Nil means BirthdayMessage, with "in 3 days" or "tomorrow"
	// if Before is not zero.
	Message func(u User) string
	// Policies say how birthdays on 29 February, and wall times that clocks skip or show
	// twice, are resolved. The zero Policies mean the defaults.
	Policies calendar.Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// BirthdayMessage returns the default message of [Birthday]. For a user without a name it
// is "Hey, it's your birthday".
func BirthdayMessage(u User) string { return hey(u, "it's your birthday") }

// hey returns a message that begins with the user's name, if there is one.
func hey(u User, rest string) string {
	if u.FirstName != "" && u.LastName != "" {
		return "Hey, " + u.FirstName + " " + u.LastName + " " + rest
	}
	if name := u.Name(); name != "" {
		return "Hey, " + name + " " + rest
	}
	return "Hey, " + rest
}

// EventType returns b.Type, or [TypeBirthday].
func (b Birthday) EventType() string { return cmp.Or(b.Type, TypeBirthday) }

// valid returns what NewRegistry refuses.
func (b Birthday) validate() error { return errors.Join(checkBefore(b.Before), b.Policies.Check()) }

// checkBefore returns an error for a number of days that no announcement can have.
func checkBefore(days int) error {
	if days < 0 || days > maxDaysBefore {
		return fmt.Errorf("%d days before are not between 0 and %d", days, maxDaysBefore)
	}
	return nil
}

// Settings returns b.Execution. If Before is not zero, the CatchUpPolicy has another default: an
// event is tried until about the birthday. It may be late by Before days of 24 hours, less one
// hour and the Spread. A SkipOlder of the policy overrides this default.
func (b Birthday) Settings() Execution { return announcedInTime(b.Execution, b.Before) }

// Next returns the user's first birthday strictly after the given instant, or what
// announces it. The day of birth counts as a birthday. The error matches
// [calendar.ErrNoOccurrence] if the user has no date of birth.
func (b Birthday) Next(u User, after time.Time) (calendar.Occurrence, error) {
	if u.DateOfBirth.IsZero() {
		return calendar.Occurrence{}, fmt.Errorf("%w: user %s has no date of birth", calendar.ErrNoOccurrence, u.ID)
	}
	return b.announcer(u).next(u.Timezone, after)
}

func (b Birthday) announcer(u User) announcer {
	born := u.DateOfBirth.Date()
	return announcer{calendar.Yearly{Month: born.Month, Day: born.Day, At: nineOr(b.At, u)}, b.Before, quietOf(b.Quiet, u), b.Policies}
}

// Payload returns {"message": …}. If Before is not zero, "date" is the birthday, and
// "daysBefore" is Before.
func (b Birthday) Payload(u User, o Occurrence) (json.RawMessage, error) {
	message := BirthdayMessage(u) + inDays(b.Before)
	if b.Message != nil {
		message = b.Message(u)
	}
	announced, err := b.announcer(u).announced(o.Key)
	return payloadOf(struct {
		Message string `json:"message"`
		announcement
	}{message, announced}, err)
}

// Channel returns b.Via, or [ChannelWebhook].
func (b Birthday) Channel(Event) Channel { return cmp.Or(b.Via, ChannelWebhook) }

// TypeAnniversary is the default event type of [Anniversary].
const TypeAnniversary = "ANNIVERSARY"

// Anniversary is the ready-made handler for a date that returns every year, such as a hire date.
// The first anniversary is one year after the date. The zero Anniversary takes the date from the
// user's attribute "anniversary" and delivers at 09:00 in the user's zone, by webhook.
//
// The occurrence key is the year. Use two handlers with two types for two kinds of anniversary.
type Anniversary struct {
	Execution
	// Type is the event type. Empty means TypeAnniversary.
	Type string
	// Attribute is the name of the user's attribute that has the date, as "2019-04-01".
	// Empty means "anniversary". A user without the attribute has no anniversaries.
	Attribute string
	// At returns the time of day for u. Nil means 09:00.
	At func(u User) calendar.Clock
	// Quiet returns the quiet hours of u; see Birthday.Quiet.
	Quiet func(u User) calendar.QuietHours
	// Before is how many calendar days before the anniversary the event happens; see Birthday.Before.
	Before int
	// Message returns the text for a number of years. Nil means AnniversaryMessage, with
	// "in 3 days" or "tomorrow" if Before is not zero.
	Message func(u User, years int) string
	// Policies say how anniversaries of 29 February, and wall times that clocks skip or
	// show twice, are resolved. The zero Policies mean the defaults.
	Policies calendar.Policies
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// AnniversaryMessage returns the default message of [Anniversary].
func AnniversaryMessage(u User, years int) string { return anniversaryMessage(u, years, 0) }

func anniversaryMessage(u User, years, before int) string {
	if years == 1 {
		return hey(u, "it's your first anniversary"+inDays(before))
	}
	return hey(u, fmt.Sprintf("it's your anniversary%s: %d years", inDays(before), years))
}

// EventType returns a.Type, or [TypeAnniversary].
func (a Anniversary) EventType() string { return cmp.Or(a.Type, TypeAnniversary) }

// valid returns what NewRegistry refuses.
func (a Anniversary) validate() error { return errors.Join(checkBefore(a.Before), a.Policies.Check()) }

// Settings returns a.Execution, or for Before the defaults of [Birthday].Settings.
func (a Anniversary) Settings() Execution { return announcedInTime(a.Execution, a.Before) }

// Next returns the first anniversary strictly after the given instant, or what announces
// it. The error is a [*ValidationError] if the attribute is not a date.
func (a Anniversary) Next(u User, after time.Time) (calendar.Occurrence, error) {
	day, err := a.day(u)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	if day.Year == 9999 {
		return calendar.Occurrence{}, fmt.Errorf("%w after %s", calendar.ErrNoOccurrence, u.Timezone.WallTime(after))
	}
	return a.announcer(u, day).next(u.Timezone, after)
}

func (a Anniversary) announcer(u User, day calendar.Date) announcer {
	yearly := calendar.Yearly{Month: day.Month, Day: day.Day, At: nineOr(a.At, u), From: calendar.Date{Year: day.Year + 1, Month: time.January, Day: 1}}
	return announcer{yearly, a.Before, quietOf(a.Quiet, u), a.Policies}
}

// day returns the date whose anniversaries u has.
func (a Anniversary) day(u User) (calendar.Date, error) {
	name := cmp.Or(a.Attribute, "anniversary")
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

// Payload returns {"message": …, "years": …}, and for Before what [Birthday].Payload adds.
func (a Anniversary) Payload(u User, o Occurrence) (json.RawMessage, error) {
	day, err := a.day(u)
	if err != nil {
		return nil, err
	}
	year, err := yearOf(o.Key)
	if err != nil {
		return nil, err
	}
	years := year - day.Year
	message := anniversaryMessage(u, years, a.Before)
	if a.Message != nil {
		message = a.Message(u, years)
	}
	announced, err := a.announcer(u, day).announced(o.Key)
	return payloadOf(struct {
		Message string `json:"message"`
		Years   int    `json:"years"`
		announcement
	}{message, years, announced}, err)
}

// Channel returns a.Via, or [ChannelWebhook].
func (a Anniversary) Channel(Event) Channel { return cmp.Or(a.Via, ChannelWebhook) }

// announcer announces the days of a rule some calendar days before, at the rule's time of day
// or at the end of the quiet hours. With zero days the rule itself happens.
type announcer struct {
	of       calendar.Yearly
	days     int
	quiet    calendar.QuietHours
	policies calendar.Policies
}

// outside returns a recurrence that keeps r out of the quiet hours, without leaving its days.
func (a announcer) outside(r calendar.Recurrence) calendar.Recurrence {
	if a.quiet == (calendar.QuietHours{}) {
		return r
	}
	return calendar.Within{Of: r, Window: a.quiet.Window(), KeepDay: true}
}

// maxDaysBefore keeps an announcement after the anniversary of the year before.
const maxDaysBefore = 364

// next returns the first occurrence strictly after the given instant. It leaves out an announcement
// that would not come before what it announces. That happens where clocks skip a whole day.
func (a announcer) next(z calendar.Timezone, after time.Time) (calendar.Occurrence, error) {
	if a.days == 0 {
		return calendar.Next(a.outside(a.of), z, a.policies, after)
	}
	if a.days < 0 || a.days > maxDaysBefore {
		problem := fmt.Sprintf("%d days before are not between 0 and %d", a.days, maxDaysBefore)
		return calendar.Occurrence{}, &calendar.InvalidRecurrenceError{Rule: "before", Problems: []string{problem}}
	}
	announcements := a.outside(calendar.Offset{Of: a.of, Days: -a.days, At: a.of.At})
	for o, err := range calendar.Occurrences(announcements, z, a.policies, after) {
		if err != nil {
			return calendar.Occurrence{}, err
		}
		of, err := z.Resolve(o.Announces, a.policies)
		if err != nil || o.Resolution.Instant.Before(of.Instant) {
			return o, nil
		}
	}
	return calendar.Occurrence{}, fmt.Errorf("%w after %s", calendar.ErrNoOccurrence, z.WallTime(after))
}

// announcement is what a payload says about what it announces. It is empty with zero days.
type announcement struct {
	Date       string `json:"date,omitempty"`
	DaysBefore int    `json:"daysBefore,omitempty"`
}

// announced returns what the occurrence with a key announces. The wall time of the
// occurrence does not say: clocks that skip a day can have moved it.
func (a announcer) announced(key string) (announcement, error) {
	if a.days == 0 {
		return announcement{}, nil
	}
	year, err := yearOf(key)
	if err != nil {
		return announcement{}, err
	}
	a.of.From = calendar.Date{Year: year, Month: time.January, Day: 1}
	slot, err := a.of.After(calendar.WallTime{}, a.policies)
	return announcement{slot.Wall.Date.String(), a.days}, err
}

// yearOf returns the year that is the key of a birthday or an anniversary.
func yearOf(key string) (year int, err error) {
	if _, err := fmt.Sscanf(key, "%04d", &year); err != nil {
		return 0, fmt.Errorf("almanac: %q is not the key of a birthday or an anniversary", key)
	}
	return year, nil
}

// payloadOf encodes a payload, unless there was an error.
func payloadOf(payload any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(payload)
}

// announcedInTime returns x with a limit on how late an announcement may be, also after a
// failed attempt: until about an hour before what it announces. The hour is for clocks that
// go forward meanwhile. A wide Spread leaves an hour.
func announcedInTime(x Execution, days int) Execution {
	if p := &x.CatchUpPolicy; days > 0 && p.SkipOlder == 0 {
		p.SkipOlder, p.SkipTried = max(time.Duration(days)*24*time.Hour-time.Hour-x.Spread, time.Hour), true
	}
	return x
}

// inDays returns how a message says that something is some days ahead.
func inDays(days int) string {
	switch days {
	case 0:
		return ""
	case 1:
		return " tomorrow"
	}
	return fmt.Sprintf(" in %d days", days)
}

// nineOr returns the time of day that a handler sets for u, 09:00 by default.
func nineOr(at func(User) calendar.Clock, u User) calendar.Clock {
	if at == nil {
		return calendar.Clock{Hour: 9}
	}
	return at(u)
}

// quietOf returns the quiet hours that a handler sets for u, none by default.
func quietOf(quiet func(User) calendar.QuietHours, u User) calendar.QuietHours {
	if quiet == nil {
		return calendar.QuietHours{}
	}
	return quiet(u)
}

// AtAttribute returns a function for the field At of a ready-made handler. The time of day
// is that in the user's attribute of the given name, as in {"deliverAt": "18:30"}, or
// fallback if the user has no valid one.
func AtAttribute(name string, fallback calendar.Clock) func(User) calendar.Clock {
	return func(u User) calendar.Clock {
		var text string
		if found, err := attribute(u, name, &text); err != nil || !found {
			return fallback
		}
		at, err := calendar.ParseClock(text)
		if err != nil {
			return fallback
		}
		return at
	}
}

// attribute decodes one member of a user's attributes. It reports false if the member is missing or null.
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
