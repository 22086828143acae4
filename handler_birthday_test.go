package almanac_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestBirthdayGreetsAtNineInTheUsersZone(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		born, zone, after string
		key, due          string
	}{
		"an ordinary birthday":                {"1990-12-10", "Europe/London", "2026-01-01T00:00:00Z", "2026", "2026-12-10T09:00:00Z"},
		"in summer time":                      {"1990-07-10", "Europe/London", "2026-01-01T00:00:00Z", "2026", "2026-07-10T08:00:00Z"},
		"born on New Year's Eve, far east":    {"1990-12-31", "Pacific/Kiritimati", "2026-06-01T00:00:00Z", "2026", "2026-12-30T19:00:00Z"},
		"born on New Year's Eve, far west":    {"1990-12-31", "Pacific/Niue", "2026-06-01T00:00:00Z", "2026", "2026-12-31T20:00:00Z"},
		"born on New Year's Day, far east":    {"1990-01-01", "Pacific/Kiritimati", "2026-06-01T00:00:00Z", "2027", "2026-12-31T19:00:00Z"},
		"born on New Year's Day, far west":    {"1990-01-01", "Pacific/Niue", "2026-06-01T00:00:00Z", "2027", "2027-01-01T20:00:00Z"},
		"born on a leap day, common year":     {"1992-02-29", "America/New_York", "2026-06-01T00:00:00Z", "2027", "2027-02-28T14:00:00Z"},
		"born on a leap day, leap year":       {"1992-02-29", "America/New_York", "2027-06-01T00:00:00Z", "2028", "2028-02-29T14:00:00Z"},
		"born today, the day of birth counts": {"2026-03-15", "Asia/Tokyo", "2026-03-14T15:00:00Z", "2026", "2026-03-15T00:00:00Z"},
		"born today, the greeting was missed": {"2026-03-15", "Asia/Tokyo", "2026-03-15T00:00:00Z", "2027", "2027-03-15T00:00:00Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := user(t, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: tt.born, Timezone: tt.zone}, tt.after)

			o, err := almanac.Birthday{}.Next(u, instant(t, tt.after))
			if err != nil {
				t.Fatal(err)
			}
			r, err := o.Zone.Resolve(o.Wall, o.Policies)

			if err != nil || o.Key != tt.key || !r.Instant.Equal(instant(t, tt.due)) || o.Wall.Clock != (calendar.Clock{Hour: 9}) {
				t.Errorf("born %s in %s, after %s: %+v at %v, %v; want %s at %s", tt.born, tt.zone, tt.after, o, r, err, tt.key, tt.due)
			}
		})
	}
}

func TestBirthdayObeysItsSettings(t *testing.T) {
	t.Parallel()

	u := user(t, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1992-02-29", Timezone: "Asia/Tokyo"}, "2026-06-01T00:00:00Z")
	b := almanac.Birthday{
		At:       func(u almanac.User) calendar.Clock { return calendar.Clock{Hour: 7, Minute: len(u.FirstName)} },
		Message:  func(u almanac.User) string { return "Many happy returns, " + u.FirstName },
		Policies: calendar.Policies{LeapDay: calendar.LeapDayMar1},
		Via:      "sms",
	}

	o, err := b.Next(u, instant(t, "2026-06-01T00:00:00Z"))
	want := calendar.Occurrence{Key: "2027", Wall: wall(t, "2027-03-01T07:03:00"), Zone: u.Timezone, Policies: b.Policies, Named: calendar.Date{Year: 2027, Month: 2, Day: 29}}
	if err != nil || calendartest.Unresolved(o) != want {
		t.Errorf("Next = %+v, %v; want %+v", o, err, want)
	}
	payload, err := b.Payload(u, almanac.Occurrence{Occurrence: o})
	if got, want := string(payload), `{"message":"Many happy returns, Ada"}`; err != nil || got != want {
		t.Errorf("Payload = %s, %v; want %s", got, err, want)
	}
	if got := b.Channel(almanac.Event{}); got != "sms" {
		t.Errorf("Channel = %q, want sms", got)
	}
}

func TestBirthdayByDefault(t *testing.T) {
	t.Parallel()

	u := ada(t)
	var b almanac.Birthday
	if got, want := almanac.BirthdayMessage(u), "Hey, Ada Lovelace it's your birthday"; got != want {
		t.Errorf("BirthdayMessage = %q, want %q", got, want)
	}
	payload, err := b.Payload(u, almanac.Occurrence{})
	var said struct{ Message string }
	if err := json.Unmarshal(payload, &said); err != nil {
		t.Fatal(err)
	}
	if err != nil || said.Message != almanac.BirthdayMessage(u) {
		t.Errorf("Payload = %s, %v; want the default message", payload, err)
	}
	if b.EventType() != "BIRTHDAY" || b.Channel(almanac.Event{}) != almanac.ChannelWebhook {
		t.Errorf("type %q, channel %q; want BIRTHDAY by webhook", b.EventType(), b.Channel(almanac.Event{}))
	}
}

func TestBirthdayOfAUserWithoutNamesOrYear(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		first, last, born string
		leapDay           calendar.LeapDayPolicy
		message, due      string // due is empty if there is no birthday
	}{
		"a first name":                {"Sukarno", "", "1901-06-06", "", "Hey, Sukarno it's your birthday", "2027-06-06"},
		"a last name":                 {"", "Teller", "1948-02-14", "", "Hey, Teller it's your birthday", "2027-02-14"},
		"no name":                     {"", "", "1990-12-10", "", "Hey, it's your birthday", "2026-12-10"},
		"no date":                     {"Ada", "Lovelace", "", "", "Hey, Ada Lovelace it's your birthday", ""},
		"no year":                     {"Ada", "Lovelace", "--12-10", "", "Hey, Ada Lovelace it's your birthday", "2026-12-10"},
		"a leap day without its year": {"Ada", "Lovelace", "--02-29", "", "Hey, Ada Lovelace it's your birthday", "2027-02-28"},
		"the same on 1 March":         {"Ada", "Lovelace", "--02-29", calendar.LeapDayMar1, "Hey, Ada Lovelace it's your birthday", "2027-03-01"},
		"the same in leap years":      {"Ada", "Lovelace", "--02-29", calendar.LeapDaySkip, "Hey, Ada Lovelace it's your birthday", "2028-02-29"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := almanactest.User(almanactest.Named(tt.first, tt.last), almanactest.BornOn(tt.born), almanactest.LivingIn("UTC"))
			b := almanac.Birthday{Policies: calendar.Policies{LeapDay: tt.leapDay}}

			o, err := b.Next(u, instant(t, "2026-07-01T00:00:00Z"))

			if got := almanac.BirthdayMessage(u); got != tt.message {
				t.Errorf("message %q, want %q", got, tt.message)
			}
			if tt.due == "" {
				if !errors.Is(err, calendar.ErrNoOccurrence) {
					t.Errorf("Next = %v, %v; want ErrNoOccurrence", o, err)
				}
				return
			}
			if err != nil || o.Wall != wall(t, tt.due+"T09:00:00") || o.Key != tt.due[:4] {
				t.Errorf("Next = %v with key %s, %v; want %s", o.Wall, o.Key, err, tt.due)
			}
		})
	}
	if got, want := almanac.AnniversaryMessage(almanactest.User(almanactest.Named("", "")), 2), "Hey, it's your anniversary: 2 years"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestBirthdayIsExecutedAsItsSettingsSay(t *testing.T) {
	t.Parallel()

	b := almanac.Birthday{Execution: almanac.Execution{AttemptTimeout: time.Second, RetryPolicy: almanac.PatientRetry(), CatchUpPolicy: almanac.CatchUp{All: true}}}
	var h almanac.EventHandler = b
	require.Equal(t, b.Execution, h.(almanac.Configurer).Settings())
}

// having is Ada, as she was made on 1 January 2026, with attributes.
func having(t testing.TB, attributes string) almanac.User {
	t.Helper()
	p := adasProfile()
	p.Attributes = json.RawMessage(attributes)
	return user(t, p, "2026-01-01T00:00:00Z")
}

func TestAnniversaryComesEveryYearAfterTheDay(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		day, zone, after string
		key, due         string
		years            int
	}{
		"an ordinary year":                     {"2019-04-01", "Europe/London", "2026-01-01T00:00:00Z", "2026", "2026-04-01T08:00:00Z", 7},
		"at the instant itself":                {"2019-04-01", "Europe/London", "2026-04-01T08:00:00Z", "2027", "2027-04-01T08:00:00Z", 8},
		"a second before the instant":          {"2019-04-01", "Europe/London", "2026-04-01T07:59:59Z", "2026", "2026-04-01T08:00:00Z", 7},
		"the day itself is none":               {"2026-04-01", "Europe/London", "2026-01-01T00:00:00Z", "2027", "2027-04-01T08:00:00Z", 1},
		"nor is its morning":                   {"2026-04-01", "Europe/London", "2026-04-01T00:00:00Z", "2027", "2027-04-01T08:00:00Z", 1},
		"a day to come waits a year more":      {"2030-12-31", "Europe/London", "2026-01-01T00:00:00Z", "2031", "2031-12-31T09:00:00Z", 1},
		"the last day of a year":               {"2025-12-31", "Pacific/Kiritimati", "2026-01-01T00:00:00Z", "2026", "2026-12-30T19:00:00Z", 1},
		"the first day of a year":              {"2026-01-01", "Pacific/Kiritimati", "2026-06-01T00:00:00Z", "2027", "2026-12-31T19:00:00Z", 1},
		"the first day of a year, far west":    {"2025-01-01", "Pacific/Niue", "2026-01-01T00:00:00Z", "2026", "2026-01-01T20:00:00Z", 1},
		"a leap day, its first anniversary":    {"2024-02-29", "America/New_York", "2024-02-29T12:00:00Z", "2025", "2025-02-28T14:00:00Z", 1},
		"a leap day, in a leap year":           {"2024-02-29", "America/New_York", "2027-06-01T00:00:00Z", "2028", "2028-02-29T14:00:00Z", 4},
		"a leap day, in a century without one": {"2096-02-29", "America/New_York", "2099-06-01T00:00:00Z", "2100", "2100-02-28T14:00:00Z", 4},
		"before the calendar of computers":     {"0001-01-02", "UTC", "2026-01-01T00:00:00Z", "2026", "2026-01-02T09:00:00Z", 2025},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.Timezone, p.Attributes = tt.zone, json.RawMessage(`{"anniversary": "`+tt.day+`"}`)
			u := user(t, p, "2026-01-01T00:00:00Z")
			var a almanac.Anniversary

			o, err := a.Next(u, instant(t, tt.after))
			if err != nil {
				t.Fatal(err)
			}
			r, err := o.Zone.Resolve(o.Wall, o.Policies)

			if err != nil || o.Key != tt.key || !r.Instant.Equal(instant(t, tt.due)) || o.Wall.Clock != (calendar.Clock{Hour: 9}) {
				t.Errorf("of %s in %s, after %s: %+v at %v, %v; want %s at %s", tt.day, tt.zone, tt.after, o, r, err, tt.key, tt.due)
			}
			if said := payloadOf(t, a, u, almanac.Occurrence{Occurrence: o}); said.Years != tt.years || said.Message != almanac.AnniversaryMessage(u, tt.years) {
				t.Errorf("Payload = %+v, want %d years in the default words", said, tt.years)
			}
		})
	}
}

// said is what payloads of the ready-made handlers say between them.
type said struct {
	Message, Name, Occurrence string
	Years                     int
}

func payloadOf(t testing.TB, h almanac.EventHandler, u almanac.User, o almanac.Occurrence) (s said) {
	t.Helper()
	payload, err := h.Payload(u, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatalf("payload %s: %v", payload, err)
	}
	return s
}

func TestAnniversaryByDefault(t *testing.T) {
	t.Parallel()

	u := ada(t)
	if got, want := almanac.AnniversaryMessage(u, 1), "Hey, Ada Lovelace it's your first anniversary"; got != want {
		t.Errorf("AnniversaryMessage of 1 year = %q, want %q", got, want)
	}
	if got, want := almanac.AnniversaryMessage(u, 25), "Hey, Ada Lovelace it's your anniversary: 25 years"; got != want {
		t.Errorf("AnniversaryMessage of 25 years = %q, want %q", got, want)
	}
	var a almanac.Anniversary
	if a.EventType() != "ANNIVERSARY" || a.Channel(almanac.Event{}) != almanac.ChannelWebhook {
		t.Errorf("type %q, channel %q; want ANNIVERSARY by webhook", a.EventType(), a.Channel(almanac.Event{}))
	}
}

func TestAnniversaryObeysItsSettings(t *testing.T) {
	t.Parallel()

	u := having(t, `{"anniversary": "2019-04-01", "hired": "2020-02-29"}`)
	a := almanac.Anniversary{
		Execution: almanac.Execution{AttemptTimeout: time.Second},
		Type:      "HIRED",
		Attribute: "hired",
		At:        func(u almanac.User) calendar.Clock { return calendar.Clock{Hour: 7, Minute: len(u.FirstName)} },
		Message:   func(u almanac.User, years int) string { return u.FirstName + ", " + time.Duration(years).String() },
		Policies:  calendar.Policies{LeapDay: calendar.LeapDayMar1},
		Via:       "sms",
	}

	o, err := a.Next(u, instant(t, "2026-01-01T00:00:00Z"))
	want := calendar.Occurrence{Key: "2026", Wall: wall(t, "2026-03-01T07:03:00"), Zone: u.Timezone, Policies: a.Policies, Named: calendar.Date{Year: 2026, Month: 2, Day: 29}}
	if err != nil || calendartest.Unresolved(o) != want {
		t.Errorf("Next = %+v, %v; want %+v", o, err, want)
	}
	payload, err := a.Payload(u, almanac.Occurrence{Occurrence: o})
	if got, want := string(payload), `{"message":"Ada, 6ns","years":6}`; err != nil || got != want {
		t.Errorf("Payload = %s, %v; want %s", got, err, want)
	}
	if a.EventType() != "HIRED" || a.Channel(almanac.Event{}) != "sms" || almanac.Configurer(a).Settings().AttemptTimeout != time.Second {
		t.Errorf("type %q, channel %q, timeout %v; want HIRED by sms within a second", a.EventType(), a.Channel(almanac.Event{}), a.AttemptTimeout)
	}
}

func TestAnniversaryOfALeapDayThatIsSkippedComesInLeapYears(t *testing.T) {
	t.Parallel()

	u := having(t, `{"anniversary": "2024-02-29"}`)
	a := almanac.Anniversary{Policies: calendar.Policies{LeapDay: calendar.LeapDaySkip}}

	o, err := a.Next(u, instant(t, "2024-02-29T00:00:00Z"))

	if err != nil || o.Key != "2028" || o.Wall != wall(t, "2028-02-29T09:00:00") {
		t.Errorf("Next = %+v, %v; want that of 2028", o, err)
	}
	if said := payloadOf(t, a, u, almanac.Occurrence{Occurrence: o}); said.Years != 4 {
		t.Errorf("%d years, want 4", said.Years)
	}
}

func TestAnniversaryNeedsADate(t *testing.T) {
	t.Parallel()

	tests := map[string]string{
		"no attributes":               `{}`,
		"another attribute":           `{"Anniversary": "2019-04-01", "hired": "2019-04-01"}`,
		"null":                        `{"anniversary": null}`,
		"null, with blanks around it": "{\"anniversary\" :\tnull\n}",
		"the last year there is":      `{"anniversary": "9999-01-01"}`,
	}
	for name, attributes := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := having(t, attributes)
			if o, err := (almanac.Anniversary{}).Next(u, instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
				t.Errorf("Next = %+v, %v; want ErrNoOccurrence", o, err)
			}
		})
	}
	unknown := almanac.User{Timezone: zone(t, "UTC")} // nor are there attributes at all
	if o, err := (almanac.Anniversary{}).Next(unknown, instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
		t.Errorf("without attributes: Next = %+v, %v; want ErrNoOccurrence", o, err)
	}
}

func TestAnniversaryRefusesInvalidDates(t *testing.T) {
	t.Parallel()

	const noDate, noText = "attributes.hired is not a date of the form YYYY-MM-DD", "attributes.hired has another type than it should"
	tests := map[string]struct{ value, want string }{
		"nothing":                        {`""`, noDate},
		"a day that does not exist":      {`"2019-02-29"`, "attributes.hired is not a day of the calendar: February 2019 has 28 days"},
		"an instant":                     {`"2019-04-01T00:00:00Z"`, noDate},
		"another order of day and month": {`"01.04.2019"`, noDate},
		"a year of five digits":          {`"12019-04-01"`, noDate},
		"the year 0":                     {`"0000-04-01"`, "attributes.hired is not a day of the calendar: years are 0001 to 9999"},
		"a blank after it":               {`"2019-04-01 "`, noDate},
		"the word null":                  {`"null"`, noDate},
		"a number":                       {`2019`, noText},
		"a list":                         {`["2019-04-01"]`, noText},
		"an object":                      {`{"date": "2019-04-01"}`, noText},
		"a truth":                        {`true`, noText},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := having(t, `{"hired": `+tt.value+`}`)
			a := almanac.Anniversary{Attribute: "hired"}

			_, err := a.Next(u, instant(t, "2026-01-01T00:00:00Z"))
			if got := complaints(t, err); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("Next: %q, want %q", got, tt.want)
			}
			_, err = a.Payload(u, almanac.Occurrence{Occurrence: calendar.Occurrence{Key: "2026"}})
			if got := complaints(t, err); !slices.Equal(got, []string{tt.want}) {
				t.Errorf("Payload: %q, want %q", got, tt.want)
			}
		})
	}
}

// Attributes that no constructor let through are an error too, not a user who is
// without events.
func TestAnniversaryRefusesAttributesThatAreNotAnObject(t *testing.T) {
	t.Parallel()

	for _, attributes := range []string{`{`, `[]`, `"anniversary"`} {
		u := ada(t)
		u.Attributes = json.RawMessage(attributes)
		if o, err := (almanac.Anniversary{}).Next(u, instant(t, "2026-01-01T00:00:00Z")); err == nil || errors.Is(err, calendar.ErrNoOccurrence) {
			t.Errorf("attributes %s: Next = %+v, %v; want another error", attributes, o, err)
		}
	}
}

// Clocks of Samoa went from 29 December 2011 to the 31st, and those of Kiritimati
// from 30 December 1994 to the 1st: what moves there to another day, or into another
// year, is still the anniversary of its own.
func TestAnniversaryCountsYearsByItsKey(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		day, zone, after string
		key, shown       string
		years            int
	}{
		"on the day that Samoa skipped":        {"2001-12-30", "Pacific/Apia", "2011-06-01T00:00:00Z", "2011", "2011-12-31T09:00:00", 10},
		"on the New Year's Eve that was not":   {"1984-12-31", "Pacific/Kiritimati", "1994-06-01T00:00:00Z", "1994", "1995-01-01T09:00:00", 10},
		"and on the New Year's Day after that": {"1985-01-01", "Pacific/Kiritimati", "1994-06-01T00:00:00Z", "1995", "1995-01-01T09:00:00", 10},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := adasProfile()
			p.Timezone, p.Attributes = tt.zone, json.RawMessage(`{"anniversary": "`+tt.day+`"}`)
			u := user(t, p, "2026-01-01T00:00:00Z")

			o, err := almanac.Anniversary{}.Next(u, instant(t, tt.after))
			if err != nil {
				t.Fatal(err)
			}
			r, err := o.Zone.Resolve(o.Wall, o.Policies)

			if err != nil || o.Key != tt.key || r.Shown() != wall(t, tt.shown) {
				t.Errorf("%+v shown at %s, %v; want %s at %s", o, r.Shown(), err, tt.key, tt.shown)
			}
			o.Wall = r.Shown() // whatever a wall time says, the key counts
			if said := payloadOf(t, almanac.Anniversary{}, u, almanac.Occurrence{Occurrence: o}); said.Years != tt.years {
				t.Errorf("%d years, want %d", said.Years, tt.years)
			}
		})
	}
}

func TestAnniversaryRefusesAForeignKey(t *testing.T) {
	t.Parallel()

	u := having(t, `{"anniversary": "2019-04-01"}`)
	for _, key := range []string{"", "spring", "-"} {
		if payload, err := (almanac.Anniversary{}).Payload(u, almanac.Occurrence{Occurrence: calendar.Occurrence{Key: key}}); err == nil {
			t.Errorf("Payload of key %q = %s, want an error", key, payload)
		}
	}
}

func TestBirthdaysAreAnnouncedDaysBefore(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		born, zone string
		before     int
		leapDay    calendar.LeapDayPolicy
		after      string
		key, wall  string
		payload    string
	}{
		"three days":                     {"1990-03-15", "UTC", 3, "", "2027-01-01T00:00:00Z", "2027", "2027-03-12T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 3 days","date":"2027-03-15","daysBefore":3}`},
		"tomorrow":                       {"1990-03-15", "UTC", 1, "", "2027-01-01T00:00:00Z", "2027", "2027-03-14T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday tomorrow","date":"2027-03-15","daysBefore":1}`},
		"too late for this year":         {"1990-03-15", "UTC", 3, "", "2027-03-13T00:00:00Z", "2028", "2028-03-12T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 3 days","date":"2028-03-15","daysBefore":3}`},
		"New Year's Day":                 {"1990-01-01", "UTC", 3, "", "2027-06-01T00:00:00Z", "2028", "2027-12-29T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 3 days","date":"2028-01-01","daysBefore":3}`},
		"a leap day on 28 February":      {"1992-02-29", "UTC", 3, calendar.LeapDayFeb28, "2027-01-01T00:00:00Z", "2027", "2027-02-25T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 3 days","date":"2027-02-28","daysBefore":3}`},
		"a leap day on 1 March, no year": {"--02-29", "UTC", 3, calendar.LeapDayMar1, "2027-01-01T00:00:00Z", "2027", "2027-02-26T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 3 days","date":"2027-03-01","daysBefore":3}`},
		"a leap day in leap years":       {"1992-02-29", "UTC", 3, calendar.LeapDaySkip, "2027-01-01T00:00:00Z", "2028", "2028-02-26T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 3 days","date":"2028-02-29","daysBefore":3}`},
		// Samoa had no 30 December 2011, so the day before the 31st would be the 31st.
		"a day that was lost":  {"1990-12-31", "Pacific/Apia", 1, "", "2011-06-01T00:00:00Z", "2012", "2012-12-30T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday tomorrow","date":"2012-12-31","daysBefore":1}`},
		"across the lost day":  {"1990-12-31", "Pacific/Apia", 2, "", "2011-06-01T00:00:00Z", "2011", "2011-12-29T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 2 days","date":"2011-12-31","daysBefore":2}`},
		"almost a year before": {"1990-03-15", "UTC", 364, "", "2026-06-01T00:00:00Z", "2028", "2027-03-17T09:00:00", `{"message":"Hey, Ada Lovelace it's your birthday in 364 days","date":"2028-03-15","daysBefore":364}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := almanactest.User(almanactest.BornOn(tt.born), almanactest.LivingIn(tt.zone))
			b := almanac.Birthday{Type: "SOON", Before: tt.before, Policies: calendar.Policies{LeapDay: tt.leapDay}}

			o, err := b.Next(u, instant(t, tt.after))

			if err != nil || o.Key != tt.key || o.Wall != wall(t, tt.wall) {
				t.Fatalf("Next = %s of %s, %v; want %s of %s", o.Wall, o.Key, err, tt.wall, tt.key)
			}
			payload, err := b.Payload(u, almanac.Occurrence{Occurrence: calendar.Occurrence{Key: o.Key}}) // as of a stored event
			if err != nil || string(payload) != tt.payload {
				t.Errorf("Payload = %s, %v; want %s", payload, err, tt.payload)
			}
		})
	}
	for _, days := range []int{-1, 365} {
		if _, err := (almanac.Birthday{Before: days}).Next(ada(t), instant(t, "2027-01-01T00:00:00Z")); !errors.Is(err, calendar.ErrInvalidRecurrence) {
			t.Errorf("%d days before: %v, want ErrInvalidRecurrence", days, err)
		}
	}
}

func TestAnniversariesAreAnnouncedDaysBefore(t *testing.T) {
	t.Parallel()

	u := having(t, `{"anniversary": "2026-01-01", "deliverAt": "18:30"}`)
	a := almanac.Anniversary{Before: 3, At: almanac.AtAttribute("deliverAt", calendar.Clock{Hour: 9})}
	for after, want := range map[string]string{
		"2026-06-01T00:00:00Z": `2026-12-29T18:30:00 {"message":"Hey, Ada Lovelace it's your first anniversary in 3 days","years":1,"date":"2027-01-01","daysBefore":3}`,
		"2026-12-29T18:30:00Z": `2027-12-29T18:30:00 {"message":"Hey, Ada Lovelace it's your anniversary in 3 days: 2 years","years":2,"date":"2028-01-01","daysBefore":3}`,
	} {
		o, err := a.Next(u, instant(t, after))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := a.Payload(u, almanac.Occurrence{Occurrence: o})
		if got := o.Wall.String() + " " + string(payload); err != nil || got != want {
			t.Errorf("after %s: %s, %v; want %s", after, got, err, want)
		}
	}
	// What comes too late is wrong, and must not be sent.
	if got, want := a.Settings().CatchUpPolicy, (almanac.CatchUp{SkipOlder: 71 * time.Hour, SkipTried: true}); got != want {
		t.Errorf("late: %+v, want %+v", got, want)
	}
	a.CatchUpPolicy.SkipOlder = time.Hour
	if got := a.Settings().CatchUpPolicy.SkipOlder; got != time.Hour || !reflect.ValueOf((almanac.Birthday{}).Settings()).IsZero() {
		t.Errorf("may be %v late, want what the host says, and as late as can be without Before", got)
	}
}

// In any zone, beside any change of clocks: an announcement comes before what it
// announces, that many days on the calendar, under the same key, and each one comes once.
func TestAnnouncementsComeBeforeTheirBirthdays(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := calendartest.DrawCase(t)
		w, days := s.DrawWall(t, "wall time"), rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, 364)).Draw(t, "days before")
		born := w.Date
		if rapid.Bool().Draw(t, "the announcement is near the change") {
			born = calendar.DateOf(w.Labelled().AddDate(0, 0, days))
		}
		u := almanactest.User(almanactest.BornOn(fmt.Sprintf("--%02d-%02d", born.Month, born.Day)), almanactest.LivingIn(s.Zone.String()))
		b := almanac.Birthday{Before: days, Policies: s.Policies, At: func(almanac.User) calendar.Clock { return w.Clock }}
		after := s.Change.AddDate(0, 0, -rapid.IntRange(0, 800).Draw(t, "days of search before"))
		last := 0
		for range 4 {
			o, err := b.Next(u, after)
			if errors.Is(err, calendar.ErrNoOccurrence) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			of, err := u.Timezone.Resolve(o.Announces, s.Policies)
			if err != nil || !o.Resolution.Instant.Before(of.Instant) || !o.Resolution.Instant.After(after) {
				t.Fatalf("%s at %s announces %s at %s, %v", o.Wall, o.Resolution.Instant, o.Announces, of.Instant, err)
			}
			if apart := o.Announces.Labelled().Sub(o.Wall.Labelled()); apart != time.Duration(days)*24*time.Hour {
				t.Fatalf("%s announces %s, %v later; want %d days", o.Wall, o.Announces, apart, days)
			}
			year := o.Announces.Date.Year
			if o.Key != fmt.Sprintf("%04d", year) {
				t.Fatalf("the key of %s is %q", o.Announces, o.Key)
			}
			payload, err := b.Payload(u, almanac.Occurrence{Occurrence: calendar.Occurrence{Key: o.Key}})
			var said struct{ Date string }
			if err != nil || json.Unmarshal(payload, &said) != nil || said.Date != o.Announces.Date.String() {
				t.Fatalf("payload %s, %v; want %s", payload, err, o.Announces.Date)
			}
			// A year is left out only if its announcement would not come before.
			for missing := last + 1; last > 0 && missing < year; missing++ {
				anchor, err := calendar.Yearly{Month: born.Month, Day: born.Day, At: w.Clock, From: calendar.Date{Year: missing, Month: 1, Day: 1}}.After(calendar.WallTime{}, s.Policies)
				if err != nil || anchor.Wall.Date.Year != missing {
					continue // 29 February under "skip"
				}
				early := calendar.WallTime{Date: calendar.DateOf(anchor.Wall.Labelled().AddDate(0, 0, -days)), Clock: w.Clock}
				from, errFrom := u.Timezone.Resolve(early, s.Policies)
				to, errTo := u.Timezone.Resolve(anchor.Wall, s.Policies)
				if errFrom == nil && errTo == nil && from.Instant.Before(to.Instant) {
					t.Fatalf("after %d comes %d, without %s of %s", last, year, early, anchor.Wall)
				}
			}
			last, after = year, o.Resolution.Instant
		}
	})
}

// payloadOfType returns the payload of the event of a type.
func payloadOfType(events []almanac.Event, eventType string) string {
	for _, e := range events {
		if e.Type == eventType {
			return string(e.Payload)
		}
	}
	return ""
}

// The announcement and the day itself are two series, and both are explained.
func TestAUserIsGreetedBeforeAndOnTheDay(t *testing.T) {
	t.Parallel()

	now := instant(t, "2027-01-01T00:00:00Z")
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.Birthday{Type: "BIRTHDAY_SOON", Before: 3})
	if err != nil {
		t.Fatal(err)
	}
	s, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return now }), registry)
	if err != nil {
		t.Fatal(err)
	}
	created, err := s.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-03-15", Timezone: "UTC"})
	if err != nil || len(created.Events) != 2 || created.Events[1].Wall != wall(t, "2027-03-12T09:00:00") {
		t.Fatalf("planned %+v, %v", created.Events, err)
	}
	edited, err := s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{LastName: ptr("King")})
	if want := `{"message":"Hey, Ada King it's your birthday in 3 days","date":"2027-03-15","daysBefore":3}`; err != nil || len(edited.Refreshed) != 2 || payloadOfType(edited.Refreshed, "BIRTHDAY_SOON") != want {
		t.Errorf("refreshed %+v, %v; want %s", edited.Refreshed, err, want)
	}
	foreseen, err := s.Preview(t.Context(), created.User.ID, "BIRTHDAY_SOON", 1)
	if err != nil || len(foreseen.Ahead) != 1 || foreseen.Ahead[0].Reason() != "3 days before 15 March" {
		t.Errorf("preview %+v, %v", foreseen, err)
	}
}

func TestAtAttributeFallsBack(t *testing.T) {
	t.Parallel()

	preset := calendar.Clock{Hour: 9}
	for attributes, want := range map[string]calendar.Clock{
		`{"at": "18:30"}`:    {Hour: 18, Minute: 30},
		`{"at": "06:00:01"}`: {Hour: 6, Second: 1},
		`{"at": "00:00"}`:    {},
		`{"at": "24:00"}`:    preset,
		`{"at": 9}`:          preset,
		`{"at": null}`:       preset,
		`{}`:                 preset,
	} {
		if got := almanac.AtAttribute("at", preset)(almanactest.User(almanactest.WithAttributes(attributes))); got != want {
			t.Errorf("%s: %s, want %s", attributes, got, want)
		}
	}
}

// A new user has a zone where the birthday has begun, and then the right one, where it is still to come.
func TestACorrectedZoneBringsBackTheDay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, p := openOn(almanactest.NewRepository(nil)), grace
		p.Timezone, p.DateOfBirth = "Asia/Tokyo", "1990-01-01"
		time.Sleep(2 * time.Hour) // eleven o'clock in Tokyo
		s := w.scheduler(t, almanac.Birthday{})
		created, err := s.CreateUser(t.Context(), p)
		require.NoError(t, err)
		require.Equal(t, "2001", created.Events[0].OccurrenceKey)
		for _, zone := range []string{"America/New_York", "Asia/Tokyo", "Europe/Berlin"} {
			_, err = s.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{Timezone: &zone})
			require.NoError(t, err)
		}
		pending := w.all(t)
		require.Len(t, pending, 1)
		require.Equal(t, "2000", pending[0].OccurrenceKey)
		require.Equal(t, time.Date(2000, 1, 1, 8, 0, 0, 0, time.UTC), pending[0].Due)
	})
}
