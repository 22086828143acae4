package almanac_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

const agenda = `{"reminders": {
	"dentist": {"at": "2027-03-15T09:00:00", "message": "Brush your teeth"},
	"call":    {"at": "2027-03-15T09:00:00", "message": "Ring the bank"},
	"flight":  {"at": "2027-03-15T09:00:00", "timezone": "Asia/Tokyo", "message": "To the gate"},
	"past":    {"at": "2025-12-31T23:59:59", "message": "Too late"}}}`

// plan makes a fresh scheduler of one handler plan for a user, at an instant.
func plan(t testing.TB, h almanac.EventHandler, attributes, now string) (almanac.UserWithEvents, error) {
	t.Helper()
	registry, err := almanac.NewRegistry(h)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return instant(t, now) }), registry)
	if err != nil {
		t.Fatal(err)
	}
	p := adasProfile()
	p.Attributes = json.RawMessage(attributes)
	return scheduler.CreateUser(t.Context(), p)
}

func TestReminderIsOneSeriesForEachAppointment(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		name, key, due string
	}{
		"in the user's own zone":   {"dentist", "2027-03-15T09:00:00", "2027-03-15T09:00:00Z"},
		"at the very same instant": {"call", "2027-03-15T09:00:00", "2027-03-15T09:00:00Z"},
		"in a zone of its own":     {"flight", "2027-03-15T09:00:00", "2027-03-15T00:00:00Z"},
	}
	u := having(t, agenda)
	var r almanac.Reminder
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			o, err := r.NextIn(u, tt.name, instant(t, "2026-01-01T00:00:00Z"))
			if err != nil {
				t.Fatal(err)
			}
			resolved, err := o.Zone.Resolve(o.Wall, o.Policies)

			if err != nil || o.Key != tt.key || !resolved.Instant.Equal(instant(t, tt.due)) {
				t.Errorf("NextIn(%q) = %+v at %v, %v; want %s at %s", tt.name, o, resolved, err, tt.key, tt.due)
			}
			if o, err := r.NextIn(u, tt.name, resolved.Instant); !errors.Is(err, calendar.ErrNoOccurrence) {
				t.Errorf("NextIn(%q) after it = %+v, %v; want ErrNoOccurrence", tt.name, o, err)
			}
		})
	}

	names, err := r.Series(u)
	slices.Sort(names)
	if want := []string{"call", "dentist", "flight", "past"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("Series = %q, %v; want %q", names, err, want)
	}
	for _, name := range []string{"past", "Dentist", ""} {
		if o, err := r.NextIn(u, name, instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
			t.Errorf("NextIn(%q) = %+v, %v; want ErrNoOccurrence", name, o, err)
		}
	}
}

func TestReminderNextIsTheFirstOfAll(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ after, want string }{
		"by instants, not by wall times":   {"2026-01-01T00:00:00Z", "2027-03-15T00:00:00Z"},
		"two at one instant":               {"2027-03-15T00:00:00Z", "2027-03-15T09:00:00Z"},
		"past appointments are ignored":    {"2027-03-15T08:59:59Z", "2027-03-15T09:00:00Z"},
		"from the beginning of all things": {"2000-01-01T00:00:00Z", "2025-12-31T23:59:59Z"},
	}
	u := having(t, agenda)
	for name, tt := range tests {
		if o, err := (almanac.Reminder{}).Next(u, instant(t, tt.after)); err != nil || !o.Resolution.Instant.Equal(instant(t, tt.want)) {
			t.Errorf("%s: Next after %s = %+v, %v; want %q", name, tt.after, o, err, tt.want)
		}
	}
	if o, err := (almanac.Reminder{}).Next(u, instant(t, "2027-03-15T09:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
		t.Errorf("Next after them all = %+v, %v; want ErrNoOccurrence", o, err)
	}
}

func TestReminderPlansEachAppointmentUnderItsName(t *testing.T) {
	t.Parallel()

	enrolment, err := plan(t, almanac.Reminder{}, agenda, "2026-01-01T00:00:00Z")
	if err != nil {
		t.Fatal(err)
	}

	want := []struct{ key, zone, due, payload string }{ // in the order of names; the past appointment has no event
		{"call 2027-03-15T09:00:00", "Europe/London", "2027-03-15T09:00:00Z", `{"name":"call","message":"Ring the bank"}`},
		{"dentist 2027-03-15T09:00:00", "Europe/London", "2027-03-15T09:00:00Z", `{"name":"dentist","message":"Brush your teeth"}`},
		{"flight 2027-03-15T09:00:00", "Asia/Tokyo", "2027-03-15T00:00:00Z", `{"name":"flight","message":"To the gate"}`},
	}
	if len(enrolment.Events) != len(want) {
		t.Fatalf("%d events %+v, want %d", len(enrolment.Events), enrolment.Events, len(want))
	}
	keys := make(map[almanac.IdempotencyKey]bool)
	for i, e := range enrolment.Events {
		w := want[i]
		if e.Series+" "+e.OccurrenceKey != w.key || e.Zone != w.zone || !e.Due.Equal(instant(t, w.due)) || string(e.Payload) != w.payload {
			t.Errorf("event %d = %s in %s at %s: %s; want %+v", i, e.OccurrenceKey, e.Zone, e.Due, e.Payload, w)
		}
		keys[e.IdempotencyKey] = true
	}
	if len(keys) != len(want) {
		t.Errorf("idempotency keys %v, want %d different ones", keys, len(want))
	}
}

func TestReminderObeysItsSettings(t *testing.T) {
	t.Parallel()

	r := almanac.Reminder{
		Execution: almanac.Execution{AttemptTimeout: time.Second},
		Type:      "APPOINTMENT",
		Attribute: "agenda",
		Policies:  calendar.Policies{Gap: calendar.GapBoundary},
		Via:       "sms",
	}
	u := having(t, `{"reminders": {"no": {"at": "2026-02-01T09:00:00"}}, "agenda": {"yes": {"at": "2026-03-29T01:30:00", "message": "Now"}}}`)

	o, err := r.Next(u, instant(t, "2026-01-01T00:00:00Z"))
	want := calendar.Occurrence{Key: "2026-03-29T01:30:00", Wall: wall(t, "2026-03-29T01:30:00"), Zone: u.Timezone, Policies: r.Policies}
	if err != nil || calendartest.Unresolved(o) != want {
		t.Errorf("Next = %+v, %v; want %+v", o, err, want)
	}
	if said := payloadOf(t, r, u, almanac.Occurrence{Occurrence: o, Series: "yes"}); said.Name != "yes" || said.Message != "Now" {
		t.Errorf("Payload = %+v, want Now of yes", said)
	}
	if r.EventType() != "APPOINTMENT" || r.Channel(almanac.Event{}) != "sms" || almanac.Configurer(r).Settings().AttemptTimeout != time.Second {
		t.Errorf("type %q, channel %q, timeout %v; want APPOINTMENT by sms within a second", r.EventType(), r.Channel(almanac.Event{}), r.AttemptTimeout)
	}
	var zero almanac.Reminder
	if zero.EventType() != "REMINDER" || zero.Channel(almanac.Event{}) != almanac.ChannelWebhook {
		t.Errorf("by default type %q, channel %q; want REMINDER by webhook", zero.EventType(), zero.Channel(almanac.Event{}))
	}
}

// In London, clocks skipped 01:00 to 02:00 on 29 March 2026.
func TestReminderInAGapFollowsThePolicy(t *testing.T) {
	t.Parallel()

	u := having(t, `{"reminders": {"night": {"at": "2026-03-29T01:30:00"}}}`)
	after := instant(t, "2026-01-01T00:00:00Z")
	if o, err := (almanac.Reminder{Policies: calendar.Policies{Gap: calendar.GapSkip}}).NextIn(u, "night", after); !errors.Is(err, calendar.ErrNoOccurrence) {
		t.Errorf("skipped: NextIn = %+v, %v; want ErrNoOccurrence", o, err)
	}
	reject := almanac.Reminder{Policies: calendar.Policies{Gap: calendar.GapReject}}
	if o, err := reject.Next(u, after); !errors.Is(err, calendar.ErrRejectedWallTime) {
		t.Errorf("rejected: Next = %+v, %v; want ErrRejectedWallTime", o, err)
	}
	if o, err := reject.Next(u, instant(t, "2026-03-30T00:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
		t.Errorf("rejected, but past: Next = %+v, %v; want ErrNoOccurrence", o, err)
	}
}

func TestReminderHasNoOccurrenceWithoutAppointments(t *testing.T) {
	t.Parallel()

	tests := map[string]string{
		"no attribute":           `{}`,
		"null":                   `{"reminders": null}`,
		"an empty object":        `{"reminders": {}}`,
		"only past appointments": `{"reminders": {"old": {"at": "2025-12-31T23:59:59"}}}`,
		"what is past to here":   `{"reminders": {"old": {"at": "2026-01-01T05:00:00", "timezone": "Asia/Tokyo"}}}`,
	}
	for name, attributes := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enrolment, err := plan(t, almanac.Reminder{}, attributes, "2026-01-01T00:00:00Z")
			if err != nil || len(enrolment.Events) != 0 {
				t.Errorf("owed %+v, %v; want nothing", enrolment.Events, err)
			}
		})
	}
}

func TestReminderNamesEveryInvalidAppointment(t *testing.T) {
	t.Parallel()

	const (
		noWall  = " is no appointment: "
		another = "attributes.reminders has another type than it should"
	)
	tests := map[string]struct {
		value string
		want  []string
	}{
		"no object":         {`[]`, []string{another}},
		"a text":            {`"dentist"`, []string{another}},
		"no time":           {`{"a": {"message": "Now"}}`, []string{"attributes.reminders.a" + noWall + `"" is not a wall time of the form YYYY-MM-DDTHH:MM or YYYY-MM-DDTHH:MM:SS`}},
		"an instant":        {`{"a": {"at": "2027-03-15T09:00:00Z"}}`, []string{"attributes.reminders.a" + noWall + `"2027-03-15T09:00:00Z" is not a wall time of the form YYYY-MM-DDTHH:MM or YYYY-MM-DDTHH:MM:SS`}},
		"no such day":       {`{"a": {"at": "2027-02-29T09:00:00"}}`, []string{"attributes.reminders.a" + noWall + `"2027-02-29T09:00:00" is not a day of the calendar: February 2027 has 28 days`}},
		"null for one":      {`{"a": null}`, []string{"attributes.reminders.a" + noWall + `"" is not a wall time of the form YYYY-MM-DDTHH:MM or YYYY-MM-DDTHH:MM:SS`}},
		"no such zone":      {`{"a": {"at": "2027-03-15T09:00:00", "timezone": "Mars/Base"}}`, []string{"attributes.reminders.a" + noWall + `"Mars/Base" is not a known time zone`}},
		"a number for one":  {`{"a": 7}`, []string{"attributes.reminders.a" + noWall + `an appointment is an object with the texts "at", "timezone" and "message"`}},
		"no name":           {`{"": {"at": "2027-03-15T09:00:00"}}`, []string{"attributes.reminders. has a name that has 0 bytes, not 1 to 50"}},
		"too many":          {crowd(101), []string{"attributes.reminders has 101 members, more than 100"}},
		"a long text":       {`{"a": {"at": "` + strings.Repeat("x", 60_000) + `"}}`, []string{"attributes.reminders.a" + noWall + `"` + strings.Repeat("x", 64) + `…" is not`}},
		"two bad, one good": {`{"z": {}, "good": {"at": "2027-03-15T09:00:00"}, "a": {"at": "soon", "timezone": "EST"}}`, []string{"attributes.reminders.a", "attributes.reminders.z"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := having(t, `{"reminders": `+tt.value+`}`)

			appointments, err := almanac.Reminder{}.Appointments(u)

			got := complaints(t, err)
			same := func(got, want string) bool { return strings.HasPrefix(got, want) }
			if appointments != nil || !slices.EqualFunc(got, tt.want, same) {
				t.Errorf("Appointments of %s = %v, %q; want %q", tt.value, appointments, got, tt.want)
			}
			if _, err := plan(t, almanac.Reminder{}, string(u.Attributes), "2026-01-01T00:00:00Z"); !errors.Is(err, almanac.ErrInvalid) {
				t.Errorf("CreateUser with %s: %v, want a *ValidationError", tt.value, err)
			}
		})
	}
}

func TestReminderErrorsWrapTheirCauses(t *testing.T) {
	t.Parallel()

	u := having(t, `{"reminders": {"a": {"at": "soon", "timezone": "America/New_Yorc"}}}`)
	_, err := almanac.Reminder{}.NextIn(u, "a", instant(t, "2026-01-01T00:00:00Z"))

	var unknown *calendar.InvalidTimezoneError
	if !errors.As(err, &unknown) || unknown.Suggestion != "America/New_York" || !strings.Contains(err.Error(), `"soon" is not a wall time`) {
		t.Errorf("error %v, want one that names both the wall time and the zone", err)
	}
	long := strings.Repeat("x", 10_000)
	if _, err := (almanac.Reminder{}).Appointments(having(t, `{"reminders": {"`+long+`": {}}}`)); len(err.Error()) > 500 {
		t.Errorf("an error of %d bytes repeats a long name", len(err.Error()))
	}
}

func TestReminderRefusesNamesThatCannotNameASeries(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		name string
		good bool
	}{
		"a letter":                      {"a", true},
		"blanks and signs":              {"tea & cake, 4 o'clock", true},
		"another script":                {"歯医者", true},
		"as long as it may be":          {strings.Repeat("x", 50), true},
		"too long":                      {strings.Repeat("x", 51), false},
		"50 characters, but more bytes": {strings.Repeat("é", 50), false},
		"none":                          {"", false},
		"a slash":                       {"dentist/2027", true},
		"nothing but a slash":           {"/", true},
		"a tilde":                       {"~again-x", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attributes, err := json.Marshal(map[string]any{"reminders": map[string]any{tt.name: map[string]string{"at": "2027-03-15T09:00:00"}}})
			if err != nil {
				t.Fatal(err)
			}

			enrolment, err := plan(t, almanac.Reminder{}, string(attributes), "2026-01-01T00:00:00Z")

			if !tt.good && err == nil {
				t.Errorf("the name %q was taken: %+v", tt.name, enrolment.Events)
			}
			if tt.good && (err != nil || len(enrolment.Events) != 1 || enrolment.Events[0].Series != tt.name || enrolment.Events[0].OccurrenceKey != "2027-03-15T09:00:00") {
				t.Errorf("the name %q: %+v, %v; want one event", tt.name, enrolment.Events, err)
			}
		})
	}
}

// crowd is an attribute of n appointments.
func crowd(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"a%d": {"at": "2027-03-15T09:00:00"}`, i)
	}
	return "{" + strings.Join(members, ", ") + "}"
}

func TestReminderAcceptsAHundredAppointments(t *testing.T) {
	t.Parallel()

	enrolment, err := plan(t, almanac.Reminder{}, `{"reminders": `+crowd(100)+`}`, "2026-01-01T00:00:00Z")
	if err != nil || len(enrolment.Events) != 100 {
		t.Errorf("CreateUser with a hundred reminders = %d events, %v", len(enrolment.Events), err)
	}
}

// named is a handler whose series a test names.
type named struct {
	almanac.Reminder
	series func() ([]string, error)
}

func (n named) Series(almanac.User) ([]string, error) { return n.series() }

func TestSeriesOfTheHostAreChecked(t *testing.T) {
	t.Parallel()

	cause := errors.New("no such diary")
	tests := map[string]struct {
		series func() ([]string, error)
		want   string
	}{
		"one twice":         {func() ([]string, error) { return []string{"call", "dentist", "call"}, nil }, `almanac: handler of "REMINDER": the name "call" of a series occurs twice`},
		"half a character":  {func() ([]string, error) { return []string{"\xff"}, nil }, "of a series contains characters that cannot be stored"},
		"an error":          {func() ([]string, error) { return nil, cause }, "no such diary"},
		"a panic":           {func() ([]string, error) { panic("no") }, "almanac: naming the series of REMINDER panicked: no"},
		"unknown names":     {func() ([]string, error) { return []string{"unknown", "past"}, nil }, ""},
		"no series at all":  {func() ([]string, error) { return nil, nil }, ""},
		"some that are set": {func() ([]string, error) { return []string{"dentist", "call"}, nil }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enrolment, err := plan(t, named{series: tt.series}, agenda, "2026-01-01T00:00:00Z")
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("CreateUser = %+v, %v; want %q", enrolment.Events, err, tt.want)
			}
		})
	}
}

func TestAppointmentIsTheSameAfterJSON(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		appointment almanac.Appointment
		text        string
	}{
		"in the user's own zone": {almanac.Appointment{At: wall(t, "2027-03-15T09:00:00"), Message: "Brush"}, `{"at":"2027-03-15T09:00:00","message":"Brush"}`},
		"in a zone of its own": {
			almanac.Appointment{At: wall(t, "2027-03-15T09:00:01"), Timezone: zone(t, "Asia/Tokyo"), Message: "\"é\"\n"},
			`{"at":"2027-03-15T09:00:01","timezone":"Asia/Tokyo","message":"\"é\"\n"}`,
		},
		"under an old name": {almanac.Appointment{At: wall(t, "0001-01-01T00:00:00"), Timezone: zone(t, "Asia/Calcutta")}, `{"at":"0001-01-01T00:00:00","timezone":"Asia/Calcutta","message":""}`},
	}
	all := make(map[string]almanac.Appointment)
	for name, tt := range tests {
		text, err := json.Marshal(tt.appointment)
		if err != nil || string(text) != tt.text {
			t.Errorf("%s: %s, %v; want %s", name, text, err, tt.text)
		}
		var back almanac.Appointment
		if err := json.Unmarshal(text, &back); err != nil || back != tt.appointment {
			t.Errorf("%s: %s reads as %+v, %v; want %+v", name, text, back, err, tt.appointment)
		}
		all[name] = tt.appointment
	}

	attributes, err := json.Marshal(map[string]any{"reminders": all})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (almanac.Reminder{}).Appointments(having(t, string(attributes))); err != nil || !maps.Equal(got, all) {
		t.Errorf("as attributes they read as %+v, %v; want %+v", got, err, all)
	}
}

func TestAppointmentThatCannotBeReadStaysAsItWas(t *testing.T) {
	t.Parallel()

	was := almanac.Appointment{At: wall(t, "2027-03-15T09:00:00"), Message: "Brush"}
	for _, text := range []string{`{"at": "2027-03-15"}`, `{"at": "2027-03-15T09:00:00", "timezone": "local"}`, `[]`, `{"at": 7}`} {
		got := was
		if err := json.Unmarshal([]byte(text), &got); err == nil || got != was {
			t.Errorf("%s reads as %+v, %v; want an error", text, got, err)
		}
	}
}

// always is a Recurring handler of one rule for every user.
func always(r calendar.Recurrence) almanac.Recurring {
	return almanac.Recurring{Type: "DIGEST", Rule: func(almanac.User) (calendar.Recurrence, error) { return r, nil }}
}

// feasts is a recurrence of the host's own: two days of 2026, at noon.
type feasts struct{}

func (feasts) After(w calendar.WallTime, _ calendar.Policies) (calendar.Slot, error) {
	for _, day := range []calendar.Date{{Year: 2026, Month: time.April, Day: 5}, {Year: 2026, Month: time.May, Day: 24}} {
		if noon := (calendar.WallTime{Date: day, Clock: calendar.Clock{Hour: 12}}); w.Before(noon) {
			return calendar.Slot{Key: day.String(), Wall: noon}, nil
		}
	}
	return calendar.Slot{}, calendar.ErrNoOccurrence
}

func TestRecurringFollowsEveryKindOfRule(t *testing.T) {
	t.Parallel()

	eight := calendar.Clock{Hour: 8}
	rrule, err := calendar.ParseRRule("FREQ=MONTHLY;BYDAY=-1FR;COUNT=2", wall(t, "2026-01-01T17:00:00"))
	if err != nil {
		t.Fatal(err)
	}
	cron, err := calendar.ParseCron("*/30 9 * * MON-FRI")
	if err != nil {
		t.Fatal(err)
	}
	daily := calendar.Daily{At: eight}

	tests := map[string]struct {
		rule calendar.Recurrence
		keys []string // of the first three in 2026, or of all
		due  string   // of the first
	}{
		"once":    {calendar.Once{At: wall(t, "2026-07-01T08:00:00")}, []string{"2026-07-01T08:00:00"}, "2026-07-01T07:00:00Z"},
		"yearly":  {calendar.Yearly{Month: time.July, Day: 1, At: eight}, []string{"2026", "2027", "2028"}, "2026-07-01T07:00:00Z"},
		"monthly": {calendar.Monthly{Day: 31, At: eight}, []string{"2026-01", "2026-02", "2026-03"}, "2026-01-31T08:00:00Z"},
		"weekly":  {calendar.Weekly{On: []time.Weekday{time.Monday}, At: eight}, []string{"2026-01-05", "2026-01-12", "2026-01-19"}, "2026-01-05T08:00:00Z"},
		"daily":   {daily, []string{"2026-01-01", "2026-01-02", "2026-01-03"}, "2026-01-01T08:00:00Z"},
		"an RRULE": {
			rrule, []string{"2026-01-30", "2026-02-27"}, "2026-01-30T17:00:00Z",
		},
		"a cron expression": {
			cron, []string{"2026-01-01T09:00:00", "2026-01-01T09:30:00", "2026-01-02T09:00:00"}, "2026-01-01T09:00:00Z",
		},
		"bounded": {
			calendar.Bounded{Rule: daily, Start: wall(t, "2026-06-01T00:00:00"), Count: 3, Except: []calendar.WallTime{wall(t, "2026-06-02T08:00:00")}},
			[]string{"2026-06-01", "2026-06-03"}, "2026-06-01T07:00:00Z",
		},
		"the host's own": {feasts{}, []string{"2026-04-05", "2026-05-24"}, "2026-04-05T11:00:00Z"},
		"by pointer":     {&daily, []string{"2026-01-01", "2026-01-02", "2026-01-03"}, "2026-01-01T08:00:00Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := ada(t)
			h := always(tt.rule)
			var keys []string
			var dues []time.Time
			for after := instant(t, "2026-01-01T00:00:00Z"); len(keys) < 3; after = dues[len(dues)-1] {
				o, err := h.Next(u, after)
				if errors.Is(err, calendar.ErrNoOccurrence) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				r, err := o.Zone.Resolve(o.Wall, o.Policies)
				if err != nil {
					t.Fatal(err)
				}
				keys, dues = append(keys, o.Key), append(dues, r.Instant)
			}

			if !slices.Equal(keys, tt.keys) || !dues[0].Equal(instant(t, tt.due)) {
				t.Errorf("keys %q from %v on, want %q from %s on", keys, dues, tt.keys, tt.due)
			}
		})
	}
}

func TestRecurringDependsOnTheUser(t *testing.T) {
	t.Parallel()

	h := almanac.Recurring{Type: "DIGEST", Rule: func(u almanac.User) (calendar.Recurrence, error) {
		if string(u.Attributes) == "{}" {
			return nil, nil
		}
		return calendar.Daily{At: calendar.Clock{Hour: len(u.FirstName)}}, nil
	}}
	after := instant(t, "2026-01-01T00:00:00Z")

	if o, err := h.Next(having(t, `{"digest": true}`), after); err != nil || o.Wall != wall(t, "2026-01-01T03:00:00") {
		t.Errorf("Next = %+v, %v; want three o'clock", o, err)
	}
	if o, err := h.Next(ada(t), after); !errors.Is(err, calendar.ErrNoOccurrence) {
		t.Errorf("with a nil recurrence: Next = %+v, %v; want ErrNoOccurrence", o, err)
	}
	enrolment, err := plan(t, h, `{}`, "2026-01-01T00:00:00Z")
	if err != nil || len(enrolment.Events) != 0 {
		t.Errorf("with a nil recurrence: owed %+v, %v; want nothing", enrolment.Events, err)
	}
}

func TestRecurringSaysWhatItAnnounces(t *testing.T) {
	t.Parallel()
	checkUps := calendar.Monthly{From: calendar.Date{Year: 2027, Month: time.January, Day: 7}, Every: 6, Day: 7, At: calendar.Clock{Hour: 10}}
	for want, rule := range map[string]calendar.Recurrence{
		`{"message":"","occurrence":"2027-07","date":"2027-07-07","daysBefore":3}`: calendar.Offset{Of: checkUps, Days: -3, At: calendar.Clock{Hour: 9}},
		`{"message":"","occurrence":"2027-07","date":"2027-07-07"}`:                calendar.Offset{Of: checkUps, At: calendar.Clock{Hour: 9}},
		`{"message":"","occurrence":"2027-07"}`:                                    checkUps,
	} {
		h, u := always(rule), almanactest.User()
		next, err := h.Next(u, time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC))
		if err != nil {
			t.Fatal(err)
		}
		payload, err := h.Payload(u, almanac.Occurrence{Occurrence: next})
		if string(payload) != want || err != nil {
			t.Errorf("payload %s, %v; want %s", payload, err, want)
		}
	}
}

func TestRecurringFollowsTheClocksOfItsZone(t *testing.T) {
	t.Parallel()

	now := instant(t, "2026-03-26T00:00:00Z")
	berlin, err := calendar.LoadTimezone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	stream := always(calendar.Weekly{On: []time.Weekday{time.Friday}, At: calendar.Clock{Hour: 20}})
	stream.Zone = berlin
	registry, err := almanac.NewRegistry(stream)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return now }), registry)
	if err != nil {
		t.Fatal(err)
	}
	p := adasProfile()
	p.Timezone = "Asia/Tokyo"
	created, err := scheduler.CreateUser(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if e := created.Events[0]; e.Zone != "Europe/Berlin" || !e.Due.Equal(instant(t, "2026-03-27T19:00:00Z")) {
		t.Errorf("the event is due at %s in %s; want 20:00 in Berlin", e.Due, e.Zone)
	}

	newYork := "America/New_York"
	moved, err := scheduler.UpdateUser(t.Context(), created.User.ID, almanac.ProfileChange{Timezone: &newYork})
	if err != nil || len(moved.Moved)+len(moved.Removed)+len(moved.Added) != 0 {
		t.Errorf("after a move of the user: %+v, %v; want the same instant", moved, err)
	}
	ahead, err := scheduler.Preview(t.Context(), created.User.ID, stream.Type, 2)
	want := []string{"2026-03-27 2026-03-27T19:00:00Z exact", "2026-04-03 2026-04-03T18:00:00Z exact"} // summer time begins in between
	if got := lines(ahead.Ahead); err != nil || !slices.Equal(got, want) {
		t.Errorf("Preview = %q, %v; want %q", got, err, want)
	}
}

func TestRecurringPassesErrorsOn(t *testing.T) {
	t.Parallel()

	cause := errors.New("no such plan")
	rule := func(r calendar.Recurrence, err error) func(almanac.User) (calendar.Recurrence, error) {
		return func(almanac.User) (calendar.Recurrence, error) { return r, err }
	}
	tests := map[string]struct {
		rule func(almanac.User) (calendar.Recurrence, error)
		want error
	}{
		"the host's own":           {rule(nil, cause), cause},
		"even with a rule":         {rule(calendar.Daily{}, cause), cause},
		"no reminder":              {rule(nil, calendar.ErrNoOccurrence), calendar.ErrNoOccurrence},
		"a rule that has ended":    {rule(calendar.Once{At: wall(t, "2025-01-01T00:00:00")}, nil), calendar.ErrNoOccurrence},
		"a rule that makes none":   {rule(calendar.Weekly{}, nil), calendar.ErrInvalidRecurrence},
		"a zero RRULE":             {rule(calendar.RRule{}, nil), calendar.ErrInvalidRecurrence},
		"a zero cron schedule":     {rule(calendar.Cron{}, nil), calendar.ErrInvalidRecurrence},
		"bounds of nothing at all": {rule(calendar.Bounded{}, nil), calendar.ErrInvalidRecurrence},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := almanac.Recurring{Type: "DIGEST", Rule: tt.rule}

			if o, err := h.Next(ada(t), instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, tt.want) {
				t.Errorf("Next = %+v, %v; want %v", o, err, tt.want)
			}
			enrolment, err := plan(t, h, `{}`, "2026-01-01T00:00:00Z")
			if none := errors.Is(tt.want, calendar.ErrNoOccurrence); none != (err == nil) || len(enrolment.Events) != 0 || !none && !errors.Is(err, tt.want) {
				t.Errorf("CreateUser = %+v, %v; want %v, or nothing owed", enrolment.Events, err, tt.want)
			}
		})
	}
}

func TestRecurringNamesItselfWhereItHasNoRule(t *testing.T) {
	t.Parallel()

	_, err := almanac.Recurring{Type: "DIGEST"}.Next(ada(t), instant(t, "2026-01-01T00:00:00Z"))
	if want := `calendar: invalid recurrence "DIGEST": the handler has no rule`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestRecurringObeysItsSettings(t *testing.T) {
	t.Parallel()

	u := ada(t)
	h := always(calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 8}})
	after := instant(t, "2026-02-01T00:00:00Z")
	if h.EventType() != "DIGEST" || h.Channel(almanac.Event{}) != almanac.ChannelWebhook {
		t.Errorf("by default type %q, channel %q; want DIGEST by webhook", h.EventType(), h.Channel(almanac.Event{}))
	}
	o, err := h.Next(u, after)
	if want := (calendar.Date{Year: 2026, Month: 2, Day: 31}); err != nil || o.Key != "2026-02" || o.Named != want {
		t.Errorf("Next = %+v, %v; want the end of February instead of the 31st", o, err)
	}
	payload, err := h.Payload(u, almanac.Occurrence{Occurrence: o})
	if got, want := string(payload), `{"message":"","occurrence":"2026-02"}`; err != nil || got != want {
		t.Errorf("Payload = %s, %v; want %s", got, err, want)
	}

	h.Execution = almanac.Execution{AttemptTimeout: time.Second}
	h.Policies = calendar.Policies{MonthEnd: calendar.MonthEndSkip}
	h.Message = func(u almanac.User, o almanac.Occurrence) string { return u.FirstName + " on " + o.Wall.Date.String() }
	h.Via = "sms"
	if o, err = h.Next(u, after); err != nil || o.Key != "2026-03" || o.Policies != h.Policies {
		t.Errorf("Next = %+v, %v; want that of March, with its policies", o, err)
	}
	payload, err = h.Payload(u, almanac.Occurrence{Occurrence: o})
	if got, want := string(payload), `{"message":"Ada on 2026-03-31","occurrence":"2026-03"}`; err != nil || got != want {
		t.Errorf("Payload = %s, %v; want %s", got, err, want)
	}
	if h.Channel(almanac.Event{}) != "sms" || almanac.Configurer(h).Settings().AttemptTimeout != time.Second {
		t.Errorf("channel %q, timeout %v; want sms within a second", h.Channel(almanac.Event{}), h.AttemptTimeout)
	}
}

func TestRecurringWithoutATypeIsRefused(t *testing.T) {
	t.Parallel()

	if _, err := almanac.NewRegistry(almanac.Recurring{Rule: always(calendar.Daily{}).Rule}); err == nil {
		t.Error("a registry took a handler without a type")
	}
}

// Planning asks for the next occurrence of each appointment, and for its payload.
func TestReminderParsesOneAppointmentForAnEvent(t *testing.T) {
	appointments := make(map[string]almanac.Appointment)
	for i := range 100 {
		appointments[fmt.Sprint("visit-", i)] = almanac.Appointment{At: wall(t, "2099-03-15T09:00:00"), Timezone: zone(t, "Europe/Berlin"), Message: "Brush"}
	}
	attributes, err := json.Marshal(map[string]any{"reminders": appointments})
	require.NoError(t, err)
	u := almanactest.User(almanactest.WithAttributes(string(attributes)))
	var failed error
	allocated := func(f func() error) float64 {
		return testing.AllocsPerRun(10, func() { failed = errors.Join(failed, f()) })
	}

	all := allocated(func() error { _, err := almanac.Reminder{}.Series(u); return err })
	next := allocated(func() error { _, err := almanac.Reminder{}.NextIn(u, "visit-1", time.Time{}); return err })
	payload := allocated(func() error {
		_, err := almanac.Reminder{}.Payload(u, almanac.Occurrence{Series: "visit-1"})
		return err
	})

	require.NoError(t, failed)
	require.Less(t, next, all/2)
	require.Less(t, payload, all/2)
}
