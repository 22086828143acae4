package almanac_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
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

func TestBirthdayIsExecutedAsItsSettingsSay(t *testing.T) {
	t.Parallel()

	b := almanac.Birthday{Execution: almanac.Execution{AttemptTimeout: time.Second, RetryPolicy: almanac.PatientRetry(), CatchUpPolicy: almanac.CatchUp{All: true}}}
	var h almanac.EventHandler = b
	timeouter, retrier, catchUpper := h.(almanac.Timeouter), h.(almanac.Retrier), h.(almanac.CatchUpper)
	if timeouter.Timeout() != time.Second || retrier.Retry() != almanac.PatientRetry() || !catchUpper.CatchUp().All {
		t.Errorf("an embedded Execution is %v, %+v, %+v", timeouter.Timeout(), retrier.Retry(), catchUpper.CatchUp())
	}
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
	if a.EventType() != "HIRED" || a.Channel(almanac.Event{}) != "sms" || almanac.Timeouter(a).Timeout() != time.Second {
		t.Errorf("type %q, channel %q, timeout %v; want HIRED by sms within a second", a.EventType(), a.Channel(almanac.Event{}), a.Timeout())
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
	nobody := almanac.User{Timezone: zone(t, "UTC")} // nor are there attributes at all
	if o, err := (almanac.Anniversary{}).Next(nobody, instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
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
