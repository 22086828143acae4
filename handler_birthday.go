package almanac

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
//
// A user whose date of birth is by another calendar is greeted by that calendar, and the key is a year of it.
// Planning fails with a [*calendar.UnknownSystemError] if the program does not know the calendar (see
// [calendar.RegisterSystems]).
type Birthday struct {
	Execution
	// Type is the event type. Empty means TypeBirthday.
	Type string
	// At returns the time of day at which u is greeted. Nil means 09:00.
	At func(u User) calendar.Clock
	// Window returns the window of u, such as that of [calendar.ParseQuietHours]. A time of day outside of it
	// moves to an opening on the same day. If the window does not open on that day, the time moves to the next
	// day on which it does. If holidays close the window, name their work calendars in [Execution].WorkCalendars.
	// Nil means the whole week. [WithWindow] is for events that are late.
	Window func(u User) calendar.Window
	// Before is how many calendar days before the birthday the user is greeted, 0 to 364.
	// Zero means on the day. A user who is created after the day of the announcement is not
	// greeted that year. Use a handler with a Type of its own for each distance, because users
	// opt out by type. The occurrence key is that of the birthday.
	Before int
	// Message returns the text. Nil means BirthdayMessage, with "in 3 days" or "tomorrow"
	// if Before is not zero.
	Message func(u User) string
	// Policies say when users are greeted in a year without the day of birth, such as 29 February or a day by
	// another calendar. They also resolve wall times that clocks skip or show twice. The zero Policies mean the
	// defaults.
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
func (b Birthday) validate() error {
	return errors.Join(checkBefore(b.Before), b.Policies.Check())
}

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
	a, err := b.announcer(u)
	if err != nil {
		return calendar.Occurrence{}, fmt.Errorf("user %s: %w", u.ID, err)
	}
	return a.next(u.Timezone, after)
}

func (b Birthday) announcer(u User) (announcer, error) {
	at := nineOr(b.At, u)
	birthdays, err := u.DateOfBirth.Birthdays(at)
	return announcer{birthdays, at, b.Before, windowOf(b.Window, u), b.Policies}, err
}

// Payload returns {"message": …}. If Before is not zero, "date" is the birthday, and
// "daysBefore" is how many days it is ahead: Before, unless the Window moved the announcement to another day.
//
// "reason" says in English why the rule chose the day or the time. If Policies.Missing moved a birthday by another
// calendar, "reason" has the DayReason of the occurrence. If the Window moved the event, it has the text of
// [calendar.Move.Reason]. If both did, "; " separates the two texts. If neither did, "reason" is absent.
//
// For a user of another calendar, "date" is always there. "calendar" is the name of the calendar, and
// "calendarDate" the birthday by it, such as "5787-05L-08". "age" is the age in years of the calendar, if the year of
// birth is known. The default message ends with both dates.
func (b Birthday) Payload(u User, o Occurrence) (json.RawMessage, error) {
	if b.Before == 0 && u.DateOfBirth.system == "" { // the rule has nothing to say
		message := BirthdayMessage
		if b.Message != nil {
			message = b.Message
		}
		return messageOnly(message(u), o.whyChosen())
	}
	a, err := b.announcer(u)
	if once := b.Before == 0 && errors.Is(err, calendar.ErrNoOccurrence); err != nil && !once { // at a time of the host's
		return nil, fmt.Errorf("user %s: %w", u.ID, err)
	}
	announced, err := a.announced(o)
	if err != nil {
		return nil, err
	}
	message := BirthdayMessage(u) + inDays(announced.DaysBefore)
	both, err := b.bothDates(u, a, o)
	if err != nil {
		return nil, err
	}
	if both != nil {
		announced.Date = both.date.String()
		message += both.text
	}
	if b.Message != nil {
		message = b.Message(u)
	}
	return json.Marshal(struct {
		Message string `json:"message"`
		announcement
		*bothDates
	}{message, announced, both})
}

// messageOnly encodes a payload of a message and a reason. Most need no escapes, and so not package json.
func messageOnly(message, reason string) (json.RawMessage, error) {
	plain := reason == "" && !strings.ContainsFunc(message, func(r rune) bool {
		return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
	})
	if plain {
		return json.RawMessage(`{"message":"` + message + `"}`), nil
	}
	return json.Marshal(struct {
		Message string `json:"message"`
		announcement
	}{message, announcement{Reason: reason}})
}

// bothDates is what a payload says of a birthday by another calendar.
type bothDates struct {
	Calendar     string `json:"calendar"`
	CalendarDate string `json:"calendarDate"`
	Age          *int   `json:"age,omitempty"`
	date         calendar.Date
	text         string // for messages
}

// bothDates returns nil for a user of the Gregorian calendar, and for an occurrence of the host's own.
func (b Birthday) bothDates(u User, a announcer, o Occurrence) (*bothDates, error) {
	yearly, other := a.of.(calendar.YearlyBy)
	if !other || o.Unit.System() != u.DateOfBirth.Calendar() {
		return nil, nil
	}
	slot, err := a.slot(o.Key)
	if err != nil {
		return nil, err
	}
	date := slot.Wall.Date
	day, err := yearly.System.Day(date)
	both := &bothDates{Calendar: u.DateOfBirth.Calendar(), CalendarDate: day.String(), date: date}
	both.text = fmt.Sprintf(" (%s, %d %s %d)", day.In(yearly.System), date.Day, date.Month, date.Year)
	if years, known := u.DateOfBirth.Age(calendar.Occurrence{Key: slot.Key, Unit: slot.Unit}); known {
		both.Age = &years
	}
	return both, err
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
	// Window returns the window of u; see Birthday.Window.
	Window func(u User) calendar.Window
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
	return announcer{yearly, yearly.At, a.Before, windowOf(a.Window, u), a.Policies}
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

// Payload returns {"message": …, "years": …}, and for Before and the Window what [Birthday].Payload adds.
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
	announced, err := a.announcer(u, day).announced(o)
	message := anniversaryMessage(u, years, announced.DaysBefore)
	if a.Message != nil {
		message = a.Message(u, years)
	}
	return payloadOf(struct {
		Message string `json:"message"`
		Years   int    `json:"years"`
		announcement
	}{message, years, announced}, err)
}

// Channel returns a.Via, or [ChannelWebhook].
func (a Anniversary) Channel(Event) Channel { return cmp.Or(a.Via, ChannelWebhook) }

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
