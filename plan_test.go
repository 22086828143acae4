package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
)

// plain is a handler that does what a test says.
type plain struct {
	eventType string
	payload   json.RawMessage
	err       error
}

func (p plain) EventType() string { return p.eventType }

func (p plain) Next(almanac.User, time.Time) (calendar.Occurrence, error) {
	return calendar.Occurrence{}, calendar.ErrNoOccurrence
}

func (p plain) Payload(almanac.User, almanac.Occurrence) (json.RawMessage, error) {
	return p.payload, p.err
}

func (plain) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

// digest is an occurrence of a plain handler, in the user's own zone.
func digest(t testing.TB) almanac.Occurrence {
	t.Helper()
	return almanac.Occurrence{Occurrence: calendar.Occurrence{Key: "2026-01-15", Wall: wall(t, "2026-01-15T14:00:00")}}
}

func TestNewEvent(t *testing.T) {
	t.Parallel()

	u := ada(t)
	tokyo := digest(t)
	tokyo.Zone, tokyo.Policies = zone(t, "Asia/Tokyo"), calendar.Policies{Gap: calendar.GapSkip}
	tests := map[string]struct {
		occurrence almanac.Occurrence
		zone, due  string
		policies   calendar.Policies
		key        almanac.IdempotencyKey
	}{
		"in the user's zone": {
			digest(t), "Europe/London", "2026-01-15T14:00:00Z",
			calendar.Policies{Gap: calendar.GapForward, Fold: calendar.FoldFirst, LeapDay: calendar.LeapDayFeb28, MonthEnd: calendar.MonthEndClamp},
			"event-2d8e0bd97295e5df",
		},
		"in a zone of its own": {
			tokyo, "Asia/Tokyo", "2026-01-15T05:00:00Z",
			calendar.Policies{Gap: calendar.GapSkip, Fold: calendar.FoldFirst, LeapDay: calendar.LeapDayFeb28, MonthEnd: calendar.MonthEndClamp},
			almanac.NewIdempotencyKey(u.ID.String(), instant(t, "2026-01-15T05:00:00Z"), "BIRTHDAY"),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := almanac.NewEvent(u, plain{eventType: "BIRTHDAY", payload: json.RawMessage(`{"a":1}`)}, tt.occurrence)

			due := instant(t, tt.due)
			want := almanac.Event{
				ID: got.ID, UserID: u.ID, Type: "BIRTHDAY", OccurrenceKey: "2026-01-15", Status: almanac.Pending, Due: due,
				Wall: tt.occurrence.Wall, Zone: tt.zone, Policies: tt.policies, IdempotencyKey: tt.key, Payload: json.RawMessage(`{"a":1}`),
				UserVersion: 1, AvailableAt: due, Version: 1,
			}
			if err != nil || got.ID.Version() != 7 || !reflect.DeepEqual(got, want) {
				t.Errorf("NewEvent = %+v, %v\nwant %+v", got, err, want)
			}
			long := almanac.NewLongIdempotencyKey(u.ID.String(), due, "BIRTHDAY", "2026-01-15")
			if got.LongKey() != long {
				t.Errorf("LongKey = %s, want %s", got.LongKey(), long)
			}
		})
	}
}

func TestNewEventChecksBounds(t *testing.T) {
	t.Parallel()

	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	tests := map[string]struct {
		eventType, key string
		payload        json.RawMessage
		want           []string // the fields that are refused
	}{
		"at the lower bounds":             {"A", "1", json.RawMessage(`0`), nil},
		"at the upper bounds":             {strings.Repeat("A", 50), strings.Repeat("1", 100), text(64 << 10), nil},
		"payload of null":                 {"A", "1", json.RawMessage(`null`), nil},
		"payload with a surrogate pair":   {"A", "1", json.RawMessage(`"\ud83c\udf82"`), nil},
		"no type":                         {"", "1", json.RawMessage(`0`), []string{"event type"}},
		"type too long":                   {strings.Repeat("A", 51), "1", json.RawMessage(`0`), []string{"event type"}},
		"no key":                          {"A", "", json.RawMessage(`0`), []string{"occurrence key"}},
		"key too long":                    {"A", strings.Repeat("1", 101), json.RawMessage(`0`), []string{"occurrence key"}},
		"no payload":                      {"A", "1", nil, []string{"payload"}},
		"payload too long":                {"A", "1", text(64<<10 + 1), []string{"payload"}},
		"payload text too long":           {"A", "1", json.RawMessage(strings.Repeat(" ", 256<<10) + "1"), []string{"payload"}},
		"payload that grows":              {"A", "1", json.RawMessage("[" + strings.Repeat("1e308,", 10_000) + "1]"), []string{"payload"}},
		"payload that is no JSON":         {"A", "1", json.RawMessage(`{`), []string{"payload"}},
		"payload of two values":           {"A", "1", json.RawMessage(`0 0`), []string{"payload"}},
		"payload with a NUL":              {"A", "1", json.RawMessage(`"\u0000"`), []string{"payload"}},
		"payload that is not UTF-8":       {"A", "1", json.RawMessage("\"\xff\""), []string{"payload"}},
		"payload with half a pair":        {"A", "1", json.RawMessage(`"\ud83c"`), []string{"payload"}},
		"payload of a number too great":   {"A", "1", json.RawMessage(`1e200000`), []string{"payload"}},
		"everything at once, in an order": {"", "", nil, []string{"event type", "occurrence key", "payload"}},
		"type with a NUL":                 {"A\x00", "1", json.RawMessage(`0`), []string{"event type"}},
		"type that is not UTF-8":          {"\xff", "1", json.RawMessage(`0`), []string{"event type"}},
		"key with a NUL":                  {"A", "1\x00", json.RawMessage(`0`), []string{"occurrence key"}},
		"key that is not UTF-8":           {"A", "\xff", json.RawMessage(`0`), []string{"occurrence key"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := digest(t)
			o.Key = tt.key

			e, err := almanac.NewEvent(ada(t), plain{eventType: tt.eventType, payload: tt.payload}, o)

			var invalid *almanac.ValidationError
			var fields []string
			if errors.As(err, &invalid) {
				for _, f := range invalid.Fields {
					fields = append(fields, f.Field)
				}
			}
			if !slices.Equal(fields, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("NewEvent: %v, want %q refused", err, tt.want)
			}
			if err != nil && e.ID != uuid.Nil {
				t.Errorf("NewEvent refused, but returned %+v", e)
			}
		})
	}
}

// What the calendar refuses of an occurrence is bad input like the rest.
func TestNewEventNamesFieldsThatTheCalendarRefuses(t *testing.T) {
	t.Parallel()

	o := digest(t)
	o.Policies.Gap, o.Wall.Date.Day = "sideways", 32

	_, err := almanac.NewEvent(ada(t), plain{eventType: "A"}, o)

	var invalid *almanac.ValidationError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 2 || invalid.Fields[0].Field != "gap" || invalid.Fields[1].Field != "wall time" {
		t.Errorf("NewEvent: %v, want gap and wall time refused", err)
	}
}

func TestNewEventPassesErrorsOn(t *testing.T) {
	t.Parallel()

	broken := errors.New("template is broken")
	gap := digest(t)
	gap.Wall = wall(t, "2026-03-29T01:30:00") // skipped in London
	skipped, rejected := gap, gap
	skipped.Policies.Gap, rejected.Policies.Gap = calendar.GapSkip, calendar.GapReject
	nowhere := digest(t)
	nowhere.Zone = calendar.StoredTimezone("America/Atlantis")
	tests := map[string]struct {
		occurrence almanac.Occurrence
		handler    plain
		want       error
	}{
		"of the handler":            {digest(t), plain{eventType: "A", err: broken}, broken},
		"of a gap that is skipped":  {skipped, plain{eventType: "A"}, calendar.ErrSkippedWallTime},
		"of a gap that is rejected": {rejected, plain{eventType: "A"}, calendar.ErrRejectedWallTime},
		"of a zone without data":    {nowhere, plain{eventType: "A"}, calendar.ErrInvalidTimezone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if e, err := almanac.NewEvent(ada(t), tt.handler, tt.occurrence); !errors.Is(err, tt.want) || e.ID != uuid.Nil {
				t.Errorf("NewEvent = %+v, %v; want %v", e, err, tt.want)
			}
		})
	}
}

// The instant that Next found is the event's. Rules that are replaced between the two are what a
// second resolution would follow.
func TestAnOccurrenceIsResolvedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	east := func(hours int) {
		file := zonetest.File(hours*3600, nil, "")
		require.NoError(t, zonetest.WriteDir(dir, "", map[string][]byte{"Asia/Beirut": file}))
	}
	east(2)
	data, err := calendar.OpenZoneData(dir)
	require.NoError(t, err)
	there, err := data.Timezone("Asia/Beirut")
	require.NoError(t, err)
	u := ada(t)
	u.Timezone = there

	next, err := almanac.Birthday{}.Next(u, instant(t, "2027-01-01T00:00:00Z"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "Asia", "Beirut")))
	east(3)
	require.NoError(t, data.Reload())

	for name, tt := range map[string]struct {
		change func(o *almanac.Occurrence)
		hours  time.Duration // east of UTC
	}{
		"as it was found":  {func(*almanac.Occurrence) {}, 2},
		"at another time":  {func(o *almanac.Occurrence) { o.Wall.Clock.Minute = 30 }, 3},
		"by other rules":   {func(o *almanac.Occurrence) { o.Policies.Gap = calendar.GapSkip }, 3},
		"in another zone":  {func(o *almanac.Occurrence) { o.Zone = zone(t, "Europe/Moscow") }, 3},
		"made by the host": {func(o *almanac.Occurrence) { o.Occurrence = calendar.Occurrence{Key: o.Key, Wall: o.Wall} }, 3},
	} {
		o := almanac.Occurrence{Occurrence: next}
		tt.change(&o)
		e, err := almanac.NewEvent(u, almanac.Birthday{}, o)
		require.NoError(t, err)
		require.Equal(t, o.Wall.Labelled().Add(-tt.hours*time.Hour), e.Due, name)
	}
}

// ruleOf returns the rule of a user.
type ruleOf func(almanac.User) calendar.Recurrence

// ruled is a user with one series, whose rule and clock a test changes. Everything is stored
// in memory.
type ruled struct {
	t         require.TestingT
	ctx       context.Context
	now       time.Time
	rule      ruleOf
	id        uuid.UUID
	scheduler almanac.Scheduler
	store     *almanactest.Repository
	delivered []almanac.UsedKey // what each delivery used, in order
}

// sameZones is a repository whose zone rules are those of the program. Comparing them takes most
// of the time of a pass.
type sameZones struct{ *almanactest.Repository }

func (sameZones) EditZoneRules(context.Context, func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	return nil
}

// begin creates a user in a zone. If all is true, late events are delivered one by one.
func (l ruled) begin(zone string, now time.Time, rule ruleOf, all bool) *ruled {
	l.now, l.rule = now, rule
	l.store = almanactest.NewRepository(func() time.Time { return l.now })
	handler := almanac.Recurring{Type: "DIGEST", Rule: func(u almanac.User) (calendar.Recurrence, error) { return l.rule(u), nil }}
	handler.CatchUpPolicy.All = all
	registry, err := almanac.NewRegistry(handler)
	require.NoError(l.t, err)
	l.scheduler, err = almanac.NewScheduler(sameZones{l.store}, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		l.delivered = append(l.delivered, d.Event.Uses(d.User, l.now))
		return nil
	})))
	require.NoError(l.t, err)
	created, err := l.scheduler.CreateUser(l.ctx, almanac.Profile{FirstName: "Ada", LastName: "King", DateOfBirth: "1990-03-15", Timezone: zone})
	require.NoError(l.t, err)
	l.id = created.User.ID
	return &l
}

// run delivers one event that is due at a time.
func (l *ruled) run(at time.Time) {
	l.now = at
	_, err := l.scheduler.RunOnce(l.ctx, almanac.RunOnceOptions{Limit: 1})
	require.NoError(l.t, err)
}

// pending returns the pending event, if there is one.
func (l *ruled) pending() (almanac.Event, bool) {
	found, err := l.store.Find(l.ctx, almanac.InStatus(almanac.Pending), almanac.Page{})
	require.NoError(l.t, err)
	require.LessOrEqual(l.t, len(found.Items), 1)
	if len(found.Items) == 0 {
		return almanac.Event{}, false
	}
	return found.Items[0], true
}

// change gives the user another zone or birth date, or only replans with the present rule.
func (l *ruled) change(c almanac.ProfileChange) almanac.UpdateUserResult {
	change := func() (almanac.UpdateUserResult, error) { return l.scheduler.UpdateUser(l.ctx, l.id, c) }
	if c.Timezone == nil && c.DateOfBirth == nil {
		change = func() (almanac.UpdateUserResult, error) { return l.scheduler.Reschedule(l.ctx, l.id) }
	}
	result, err := change()
	require.NoError(l.t, err)
	return result
}

func forAll(r calendar.Recurrence) ruleOf {
	return func(almanac.User) calendar.Recurrence { return r }
}

// following moves each slot of a rule on a Saturday or a Sunday to the Monday.
type following struct{ calendar.Recurrence }

func (f following) After(w calendar.WallTime, p calendar.Policies) (calendar.Slot, error) {
	for from := calendar.WallTimeOf(w.Labelled().AddDate(0, 0, -3)); ; {
		slot, err := f.Recurrence.After(from, p)
		if err != nil {
			return slot, err
		}
		from, slot.Nominal = slot.Wall, slot.Wall
		for at := slot.Wall.Labelled(); ; at = at.AddDate(0, 0, 1) {
			if slot.Wall = calendar.WallTimeOf(at); at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
				break
			}
		}
		if w.Before(slot.Wall) {
			return slot, nil
		}
	}
}

// orders is a daily rule with the host's own keys.
type orders struct{ calendar.Daily }

func (o orders) After(w calendar.WallTime, p calendar.Policies) (calendar.Slot, error) {
	slot, err := o.Daily.After(w, p)
	slot.Key, slot.Unit = "order "+slot.Key, calendar.UnitText
	return slot, err
}

func mustSet(text string) calendar.Recurrence {
	set, err := calendar.ParseRecurrenceSet(text)
	if err != nil {
		panic(err)
	}
	return set
}

func mustCron(text string) calendar.Recurrence {
	c, err := calendar.ParseCron(text)
	if err != nil {
		panic(err)
	}
	return c
}

func mustRRule(text, start string) calendar.Recurrence {
	w, err := calendar.ParseWallTime(start)
	if err != nil {
		panic(err)
	}
	r, err := calendar.ParseRRule(text, w, lunar)
	if err != nil {
		panic(err)
	}
	return r
}

func dailyAt(hour int) calendar.Recurrence { return calendar.Daily{At: calendar.Clock{Hour: hour}} }

func monthlyOn(day int) calendar.Recurrence {
	return calendar.Monthly{Day: day, At: calendar.Clock{Hour: 9}}
}

func yearlyOn(m time.Month, day, hour int) calendar.Recurrence {
	return calendar.Yearly{Month: m, Day: day, At: calendar.Clock{Hour: hour}}
}

// onBirthday is a yearly rule on the user's birthday.
func onBirthday(u almanac.User) calendar.Recurrence {
	born := u.DateOfBirth.Date()
	return yearlyOn(born.Month, born.Day, 9)
}

// The table of docs/adr/0065-used-days.md, with a scheduler: a user's event is delivered, then
// the rule changes.
func TestAChangeOfTheRulePlansWhatTheUserIsStillOwed(t *testing.T) {
	t.Parallel()
	daily, christmas := dailyAt(9), yearlyOn(time.December, 25, 9)
	set := func(hour int) calendar.Recurrence {
		return mustSet(fmt.Sprintf("DTSTART:20261101T%02d0000\nRRULE:FREQ=DAILY", hour))
	}
	rrule := func(text string) calendar.Recurrence { return mustRRule(text, "2026-01-01T09:00:00") }
	announced := func(days int) calendar.Recurrence {
		return calendar.Offset{Of: christmas, Days: -days, At: calendar.Clock{Hour: 9}}
	}
	workdays := calendar.Weekly{On: []time.Weekday{time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday}, At: calendar.Clock{Hour: 9}}
	adar := listed("hebrew", "5786 2026-03-07", "5787 2027-03-27", "5788 2028-03-16")
	holiday := calendar.Bounded{Rule: workdays, Except: []calendar.WallTime{wall(t, "2026-11-27T09:00:00")}}
	tests := map[string]struct {
		begin  string // when the user is created
		rule   calendar.Recurrence
		ran    string // when the event is delivered
		change string // when the rule changes
		to     calendar.Recurrence
		next   string // the wall time of the next event
		left   string // the occurrence that is left out, if one is
		edit   almanac.ProfileChange
		zone   string
		runNow bool // an operator makes the event due when it is delivered
		early  bool // the rule changes while the event is pending, and late events are delivered one by one
	}{
		"1: a day, then a year later in the year":      {begin: "2026-11-26T08:00:00Z", rule: daily, ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: christmas, next: "2026-12-25T09:00:00"},
		"2: a day, then a month later in the month":    {begin: "2026-11-26T08:00:00Z", rule: daily, ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: monthlyOn(28), next: "2026-11-28T09:00:00"},
		"3: a day, then a year on the same day":        {begin: "2026-11-26T08:00:00Z", rule: daily, ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: yearlyOn(time.November, 26, 18), next: "2027-11-26T18:00:00", left: "2026-11-26T18:00:00"},
		"4: the day before, then a year on this day":   {begin: "2026-11-25T08:00:00Z", rule: daily, ran: "2026-11-25T09:00:00Z", change: "2026-11-26T08:00:00Z", to: yearlyOn(time.November, 26, 18), next: "2026-11-26T18:00:00"},
		"5: a day, then hourly":                        {begin: "2026-11-26T08:00:00Z", rule: daily, ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: mustCron("0 * * * *"), next: "2026-11-26T11:00:00"},
		"6: an hour, then daily":                       {begin: "2026-11-26T13:30:00Z", rule: mustCron("0 * * * *"), ran: "2026-11-26T14:00:00Z", change: "2026-11-26T14:30:00Z", to: dailyAt(20), next: "2026-11-27T20:00:00", left: "2026-11-26T20:00:00"},
		"7: a day of a rule, then twice a day":         {begin: "2026-11-26T08:00:00Z", rule: rrule("FREQ=DAILY"), ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: rrule("FREQ=DAILY;BYHOUR=9,18"), next: "2026-11-26T18:00:00"},
		"8: twice a day, then once":                    {begin: "2026-11-26T17:00:00Z", rule: rrule("FREQ=DAILY;BYHOUR=9,18"), ran: "2026-11-26T18:00:00Z", change: "2026-11-26T19:00:00Z", to: rrule("FREQ=DAILY;BYHOUR=20"), next: "2026-11-27T20:00:00", left: "2026-11-26T20:00:00"},
		"9: a set, then a later hour":                  {begin: "2026-11-26T08:00:00Z", rule: set(9), ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: set(11), next: "2026-11-26T11:00:00"},
		"10: a day, then a later hour":                 {begin: "2026-11-26T08:00:00Z", rule: daily, ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: dailyAt(18), next: "2026-11-27T18:00:00", left: "2026-11-26T18:00:00"},
		"11: a month, then a later day of the month":   {begin: "2026-11-28T08:00:00Z", rule: monthlyOn(28), ran: "2026-11-28T09:00:00Z", change: "2026-11-29T10:00:00Z", to: monthlyOn(30), next: "2026-12-30T09:00:00", left: "2026-11-30T09:00:00"},
		"12: a month, then weekly":                     {begin: "2026-11-28T08:00:00Z", rule: monthlyOn(28), ran: "2026-11-28T09:00:00Z", change: "2026-11-29T10:00:00Z", to: calendar.Weekly{On: []time.Weekday{time.Monday}, At: calendar.Clock{Hour: 9}}, next: "2026-11-30T09:00:00"},
		"13: a birth date corrected to later":          {begin: "2026-03-15T08:00:00Z", ran: "2026-03-15T09:00:00Z", change: "2026-11-20T10:00:00Z", edit: almanac.ProfileChange{DateOfBirth: ptr("1990-12-20")}, next: "2027-12-20T09:00:00", left: "2026-12-20T09:00:00"},
		"14: a birth date corrected to earlier":        {begin: "2026-12-20T08:00:00Z", rule: yearlyOn(time.December, 20, 9), ran: "2026-12-20T09:00:00Z", change: "2026-12-21T10:00:00Z", to: yearlyOn(time.March, 15, 9), next: "2027-03-15T09:00:00"},
		"15: an announcement, then monthly":            {begin: "2026-11-25T08:00:00Z", rule: announced(30), ran: "2026-11-25T09:00:00Z", change: "2026-11-25T10:00:00Z", to: monthlyOn(28), next: "2026-11-28T09:00:00"},
		"16: an announcement, then a later one":        {begin: "2026-11-25T08:00:00Z", rule: announced(30), ran: "2026-11-25T09:00:00Z", change: "2026-11-25T10:00:00Z", to: announced(3), next: "2027-12-22T09:00:00"},
		"17: run before its time, then monthly":        {begin: "2026-12-01T11:00:00Z", rule: yearlyOn(time.March, 15, 9), ran: "2026-12-01T12:00:00Z", runNow: true, change: "2026-12-01T13:00:00Z", to: monthlyOn(15), next: "2026-12-15T09:00:00"},
		"18: run before its time, then Hebrew":         {begin: "2026-12-01T11:00:00Z", rule: yearlyOn(time.March, 15, 9), ran: "2026-12-01T12:00:00Z", runNow: true, change: "2026-12-01T13:00:00Z", to: adar, next: "2028-03-16T09:00:00", left: "2027-03-27T09:00:00"},
		"19: a Hebrew birthday, then Gregorian":        {begin: "2026-03-07T08:00:00Z", rule: adar, ran: "2026-03-07T09:00:00Z", change: "2026-03-10T10:00:00Z", to: yearlyOn(time.March, 15, 9), next: "2027-03-15T09:00:00", left: "2026-03-15T09:00:00"},
		"20: a Gregorian birthday, then Hebrew":        {begin: "2026-03-15T08:00:00Z", rule: yearlyOn(time.March, 15, 9), ran: "2026-03-15T09:00:00Z", change: "2026-04-01T10:00:00Z", to: adar, next: "2027-03-27T09:00:00"},
		"21: a Gregorian birthday, then Islamic":       {begin: "2026-03-15T08:00:00Z", rule: yearlyOn(time.March, 15, 9), ran: "2026-03-15T09:00:00Z", change: "2026-04-01T10:00:00Z", to: listed("islamic-umalqura", "1447 2026-02-05", "1448 2027-01-25"), next: "2027-01-25T09:00:00"},
		"22: a new year in China, then in Korea":       {begin: "2027-02-06T08:00:00Z", rule: listed("chinese", "2027 2027-02-06", "2028 2028-01-26"), ran: "2027-02-06T09:00:00Z", change: "2027-02-06T10:00:00Z", to: listed("dangi", "2027 2027-02-07", "2028 2028-01-27"), next: "2028-01-27T09:00:00", left: "2027-02-07T09:00:00"},
		"23: a table that is corrected":                {begin: "2026-02-17T08:00:00Z", rule: listed("chinese", "2026 2026-02-17", "2027 2027-02-07"), ran: "2026-02-17T09:00:00Z", change: "2026-11-01T10:00:00Z", to: listed("chinese", "2026 2026-02-17", "2027 2027-02-06"), next: "2027-02-06T09:00:00"},
		"25: another policy for a month that is none":  {begin: "2025-08-03T08:00:00Z", rule: listed("chinese", "2025 2025-08-03", "2026 2026-07-23"), ran: "2025-08-03T09:00:00Z", change: "2025-12-01T10:00:00Z", to: listed("chinese", "2025 2025-08-03", "2026 2026-08-22"), next: "2026-08-22T09:00:00"},
		"26: a moved slot, then daily":                 {begin: "2026-10-31T10:00:00Z", rule: following{monthlyOn(31)}, ran: "2026-11-02T09:00:00Z", change: "2026-11-02T10:00:00Z", to: dailyAt(18), next: "2026-11-03T18:00:00", left: "2026-11-02T18:00:00"},
		"27: a day in Tokyo, then in Los Angeles":      {begin: "2026-11-25T23:00:00Z", zone: "Asia/Tokyo", rule: daily, ran: "2026-11-26T00:00:00Z", change: "2026-11-26T01:00:00Z", edit: almanac.ProfileChange{Timezone: ptr("America/Los_Angeles")}, next: "2026-11-27T09:00:00"},
		"28: a late day, then monthly":                 {begin: "2026-11-01T08:00:00Z", rule: daily, change: "2026-11-26T11:00:00Z", to: monthlyOn(15), early: true, ran: "2026-11-26T12:00:00Z", next: "2026-11-15T09:00:00"},
		"29: a cron expression, then another":          {begin: "2026-11-16T08:00:00Z", rule: mustCron("0 9 16 * *"), ran: "2026-11-16T09:00:00Z", change: "2026-11-16T10:00:00Z", to: mustCron("0 9 20 * *"), next: "2026-11-20T09:00:00"},
		"30: a text, then daily":                       {begin: "2026-11-26T08:00:00Z", rule: orders{calendar.Daily{At: calendar.Clock{Hour: 9}}}, ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: dailyAt(18), next: "2026-11-27T18:00:00", left: "2026-11-26T18:00:00"},
		"31: a day that becomes a holiday":             {begin: "2026-11-26T08:00:00Z", rule: workdays, ran: "2026-11-26T09:00:00Z", change: "2026-11-26T10:00:00Z", to: holiday, next: "2026-11-30T09:00:00"},
		"32: a pending day, whose new time has passed": {begin: "2026-11-25T08:00:00Z", rule: dailyAt(18), ran: "2026-11-25T18:00:00Z", change: "2026-11-26T15:00:00Z", to: dailyAt(14), next: "2026-11-27T14:00:00"},
		"33: run before its time, then hourly":         {begin: "2026-11-26T10:00:00Z", rule: daily, ran: "2026-11-26T10:30:00Z", runNow: true, change: "2026-11-26T10:40:00Z", to: mustCron("0 * * * *"), next: "2026-11-26T11:00:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, rule := t.Context(), ruleOf(onBirthday)
			if tt.rule != nil {
				rule = forAll(tt.rule)
			}
			l := ruled{t: t, ctx: ctx}.begin(orElse(tt.zone, "UTC"), instant(t, tt.begin), rule, tt.early)
			first, ok := l.pending()
			require.True(t, ok)
			if tt.runNow {
				l.now = instant(t, tt.ran)
				_, err := l.scheduler.RunNow(ctx, first.ID, almanac.ForceOptions{})
				require.NoError(t, err)
			}
			change := func() almanac.UpdateUserResult {
				l.now = instant(t, tt.change)
				if tt.to != nil {
					l.rule = forAll(tt.to)
				}
				if tt.early {
					return almanac.UpdateUserResult{}
				}
				return l.change(tt.edit)
			}
			var result almanac.UpdateUserResult
			if tt.early {
				result = change()
			}
			l.run(instant(t, tt.ran))
			require.Len(t, l.delivered, 1)
			if !tt.early {
				was, _ := l.pending()
				result = change()
				gone := len(result.Removed) == 1 && result.Removed[0].ID == was.ID
				moved := len(result.Moved)+len(result.Refreshed) == 1
				require.True(t, gone || moved, "%+v", result)
			}

			next, ok := l.pending()
			require.True(t, ok)
			require.Equal(t, tt.next, next.Wall.String())
			require.Equal(t, tt.left, leftOf(result))
			ahead, err := l.scheduler.Preview(ctx, l.id, "DIGEST", 1)
			require.NoError(t, err)
			if !tt.early { // the event is due, so it counts as used
				require.Equal(t, tt.next, ahead.Ahead[0].Wall.String())
				require.Equal(t, tt.left != "", len(ahead.LeftOut) == 1)
			}
		})
	}
}

// leftOf returns the wall time of the occurrence that an edit left out, or "".
func leftOf(result almanac.UpdateUserResult) string {
	if o, ok := result.LeftOut[almanac.Series{Type: "DIGEST"}]; ok {
		return o.Wall.String()
	}
	return ""
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func TestAnEditThatChangesNoRuleLeavesNothingOut(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	l := ruled{t: t, ctx: ctx}.begin("UTC", instant(t, "2026-11-26T08:00:00Z"), forAll(dailyAt(9)), false)
	l.run(instant(t, "2026-11-26T09:00:00Z"))
	l.now = instant(t, "2026-11-26T10:00:00Z")
	l.rule = forAll(yearlyOn(time.November, 26, 18))
	require.Equal(t, "2026-11-26T18:00:00", leftOf(l.change(almanac.ProfileChange{})))

	later, err := l.scheduler.UpdateUser(ctx, l.id, almanac.ProfileChange{Email: ptr("ada@example.com")})
	require.NoError(t, err)
	require.Empty(t, later.LeftOut, "the edit before has reported it")
	event, _ := l.pending()
	_, err = l.scheduler.Cancel(ctx, event.ID, almanac.CancelOptions{})
	require.NoError(t, err)
	moved, err := l.scheduler.UpdateUser(ctx, l.id, almanac.ProfileChange{Timezone: ptr("America/New_York")})
	require.NoError(t, err)
	require.Len(t, moved.Moved, 1)
	require.Equal(t, "2026-11-26T18:00:00", leftOf(moved), "it is replanned, and that occurrence is still ahead")
}

// everyRule are rules of every kind, each with several occurrences in the year from November 2026
// on, and some on one day.
var everyRule = map[string]ruleOf{
	"once":             forAll(calendar.Once{At: calendar.WallTime{Date: calendar.Date{Year: 2026, Month: time.December, Day: 3}, Clock: calendar.Clock{Hour: 12}}}),
	"yearly":           onBirthday,
	"yearly, in fall":  forAll(yearlyOn(time.November, 28, 18)),
	"by a moon":        forAll(calendar.YearlyBy{System: lunar, Month: 11, Day: 2, At: calendar.Clock{Hour: 9}}),
	"in a leap moon":   forAll(calendar.YearlyBy{System: lunar, Month: 2, Leap: true, Day: 1, At: calendar.Clock{Hour: 17}}),
	"at full moon":     forAll(mustRRule("FREQ=MONTHLY;RSCALE=LUNAR;BYMONTHDAY=15", "2026-01-01T19:00:00")),
	"monthly":          forAll(monthlyOn(28)),
	"monthly, clamped": forAll(calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 20}}),
	"weekly":           forAll(calendar.Weekly{On: []time.Weekday{time.Saturday, time.Tuesday}, At: calendar.Clock{Hour: 7}}),
	"daily":            forAll(dailyAt(9)),
	"daily, late":      forAll(calendar.Daily{At: calendar.Clock{Hour: 23, Minute: 30}}),
	"every second day": forAll(mustRRule("FREQ=DAILY;INTERVAL=2", "2026-01-01T10:00:00")),
	"twice a day":      forAll(mustRRule("FREQ=DAILY;BYHOUR=8,17", "2026-01-01T08:00:00")),
	"cron, daily":      forAll(mustCron("15 11 * * 1-5")),
	"cron, hourly":     forAll(mustCron("0 */6 * * *")),
	"set":              forAll(mustSet("DTSTART:20261101T160000\nRRULE:FREQ=WEEKLY\nRDATE:20261127T090000")),
	"announcement":     forAll(calendar.Offset{Of: yearlyOn(time.December, 25, 9), Days: -25, At: calendar.Clock{Hour: 10}}),
	"day before":       forAll(calendar.Offset{Of: calendar.Monthly{Day: 1, At: calendar.Clock{Hour: 9}}, Days: -1, At: calendar.Clock{Hour: 21}}),
	"within":           forAll(calendar.Within{Of: dailyAt(23), Window: calendartest.Quiet("22:00-08:00")}),
	"bounded":          forAll(calendar.Bounded{Rule: dailyAt(14), Start: calendar.WallTime{Date: calendar.Date{Year: 2026, Month: time.November, Day: 20}}, Count: 30}),
	"working days":     forAll(following{monthlyOn(28)}),
	"text":             forAll(orders{calendar.Daily{At: calendar.Clock{Hour: 13}}}),
}

// turn is how a ruled goes: by one rule, then by another.
type turn struct {
	zone, to string // the user's zones before and after
	start    time.Duration
	events   int           // how many are delivered by the first rule
	late     time.Duration // how late each is delivered
	lead     bool          // an operator runs one more event before its time
	wait     time.Duration // from the last delivery to the change
	born     string        // a corrected date of birth; "" if it stays
	inFlight bool          // the rule changes while the last event is in flight, as far as the program knows
}

var turns = rapid.Custom(func(r *rapid.T) turn {
	zones := []string{"UTC", "Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago"}
	hours := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(r, name)) * time.Hour
	}
	one := turn{
		zone: rapid.SampledFrom(zones).Draw(r, "zone"), start: hours("start", 14*24), events: rapid.IntRange(0, 4).Draw(r, "events"),
		late: rapid.SampledFrom([]time.Duration{0, time.Minute, 5 * time.Hour, 30 * time.Hour}).Draw(r, "late"),
		lead: rapid.Bool().Draw(r, "lead"), wait: hours("wait", 48), inFlight: rapid.Bool().Draw(r, "in flight"),
		born: rapid.SampledFrom([]string{"", "1990-11-25", "1990-12-20", "1990-02-01"}).Draw(r, "born"),
	}
	if one.to = one.zone; rapid.Bool().Draw(r, "moves") {
		one.to = rapid.SampledFrom(zones).Draw(r, "to")
	}
	return one
})

// Every rule is followed by every other, with moves, corrections, late and early deliveries.
func TestNobodyIsServedTwiceOrLeftOutWhenARuleChanges(t *testing.T) {
	t.Parallel()
	for from, rule := range everyRule {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			for to, other := range everyRule {
				one := turns.Example(int(crc32.ChecksumIEEE([]byte(from + to))))
				t.Run("then "+to, func(t *testing.T) {
					t.Logf("%+v", one)
					one.play(t, t.Context(), rule, other)
				})
			}
		})
	}
	t.Run("at random", func(t *testing.T) {
		t.Parallel()
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range everyRule {
				if !yield(name) {
					return
				}
			}
		})
		rapid.Check(t, func(r *rapid.T) {
			from, to := rapid.SampledFrom(names).Draw(r, "from"), rapid.SampledFrom(names).Draw(r, "to")
			turns.Draw(r, "turn").play(r, t.Context(), everyRule[from], everyRule[to])
		})
	})
}

// play lives a turn and checks what the user gets.
func (one turn) play(t require.TestingT, ctx context.Context, rule, other ruleOf) {
	l := ruled{t: t, ctx: ctx}.begin(one.zone, time.Date(2026, time.November, 20, 0, 0, 0, 0, time.UTC).Add(one.start), rule, false)
	deliver := func(late time.Duration) bool {
		e, ok := l.pending()
		if ok {
			l.run(later(l.now, e.AvailableAt).Add(late))
		}
		return ok
	}
	for range one.events {
		deliver(one.late)
	}
	if e, ok := l.pending(); ok && one.lead {
		l.now = l.now.Add(10 * time.Minute)
		_, err := l.scheduler.RunNow(ctx, e.ID, almanac.ForceOptions{})
		require.NoError(t, err)
		l.run(l.now)
	}
	l.now = l.now.Add(one.wait)
	if e, ok := l.pending(); ok && !e.Due.After(l.now) {
		l.run(l.now)
	}
	edit := almanac.ProfileChange{}
	if one.to != one.zone {
		edit.Timezone = &one.to
	}
	if one.born != "" {
		edit.DateOfBirth = &one.born
	}
	if one.inFlight {
		l.rule = other
		deliver(one.late) // the program that delivers knows the new rule already
	}
	l.rule = other
	before := slices.Clone(l.delivered)
	was, open := l.pending()
	result := l.change(edit)

	// What is owed now: every occurrence by the new rule that no delivery has used.
	u, err := l.store.User(ctx, l.id)
	require.NoError(t, err)
	var owed, left []calendar.Occurrence
	after := l.now
	earlier := false // another zone has an earlier occurrence still to come
	for o, err := range calendar.Occurrences(other(u), u.Timezone, calendar.Policies{}, l.now) {
		require.NoError(t, err)
		if !usedBefore(before, o) {
			earlier = open && one.to != one.zone && was.Due.After(l.now) && o.Unit == was.KeyUnit && o.Key < was.OccurrenceKey
			break
		}
	}
	if open && !earlier { // an event of the same occurrence stays, also if its time has passed where the user is now
		for o, err := range calendar.Occurrences(other(u), u.Timezone, calendar.Policies{}, was.Due.AddDate(0, 0, -3)) {
			require.NoError(t, err)
			if o.Unit == was.KeyUnit && o.Key == was.OccurrenceKey && o.Wall == was.Wall {
				owed, after = append(owed, o), later(l.now, o.Resolution.Instant)
			}
			if o.Resolution.Instant.After(was.Due.AddDate(0, 0, 3)) {
				break
			}
		}
	}
	for o, err := range calendar.Occurrences(other(u), u.Timezone, calendar.Policies{}, after) {
		require.NoError(t, err)
		if usedBefore(before, o) {
			left = append(left, o)
		} else if owed = append(owed, o); len(owed) == 3 {
			break
		}
	}
	if !one.inFlight && len(left) > 0 && len(owed) > 0 && left[0].Resolution.Instant.Before(owed[0].Resolution.Instant) && !wasItself(before, left[0]) {
		require.Equal(t, left[0].Wall.String(), leftOf(result), "the result has the first occurrence that is left out")
	}
	for _, want := range owed {
		e, ok := l.pending()
		require.True(t, ok, "%s is owed", want.Key)
		require.Equal(t, want.Wall.String(), e.Wall.String())
		require.Equal(t, want.Key, e.OccurrenceKey)
		l.run(later(l.now, e.AvailableAt))
	}
	one.neverTwice(t, before, l.delivered[len(before):], left)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// usedBefore says by the rules A to E which occurrences are used, from all
// deliveries: the library keeps only the last of each unit.
func usedBefore(delivered []almanac.UsedKey, o calendar.Occurrence) bool {
	nominal := o.Nominal
	if nominal == (calendar.WallTime{}) {
		nominal = o.Wall
	}
	latest := make(map[calendar.Unit]almanac.UsedKey)
	for _, d := range delivered {
		if d.Key >= latest[d.Unit].Key {
			latest[d.Unit] = d
		}
	}
	for _, d := range latest {
		sameDay := nominal.Date == d.Ended.Date || o.Wall.Date == d.Ended.Date
		if d.Unit != o.Unit && ofYears(d.Unit) && ofYears(o.Unit) {
			if d.Nominal.Date.DaysUntil(nominal.Date) <= 176 {
				return true
			}
			continue
		}
		switch text := d.Unit == calendar.UnitText || o.Unit == calendar.UnitText; {
		case d.Unit == o.Unit && o.Key <= d.Key,
			d.Unit != o.Unit && text && nominal.Date.String() <= d.Ended.Date.String(),
			d.Unit != o.Unit && !text && o.Unit == calendar.UnitTime && nominal.String() <= min(d.Nominal.String(), d.Ended.String()),
			d.Unit != o.Unit && !text && o.Unit != calendar.UnitTime && (sameDay || nominal.Date.String() <= min(d.Nominal.Date.String(), d.Ended.Date.String())):
			return true
		}
	}
	return false
}

func ofYears(u calendar.Unit) bool { return strings.HasPrefix(string(u), "year") }

// neverTwice checks what holds whatever the rules say: no key comes twice, the local day of the
// last event has no other one by a rule of days, months or years, and at most one occurrence of
// such a rule is left out, and one more each if the user or the occurrences have moved. Between the
// host's own keys and others, the day is the one that the occurrence is named for (rule E).
func (one turn) neverTwice(t require.TestingT, before, after []almanac.UsedKey, left []calendar.Occurrence) {
	for i, k := range after {
		for _, d := range slices.Concat(before, after[:i]) {
			require.False(t, d.Unit == k.Unit && d.Key == k.Key, "%s %s twice", k.Unit, k.Key)
		}
	}
	if len(before) == 0 || len(after) == 0 {
		return
	}
	last, next := before[len(before)-1], after[0]
	if last.Unit == next.Unit || next.Unit == calendar.UnitTime {
		return
	}
	on := next.Ended.Date
	if last.Unit == calendar.UnitText || next.Unit == calendar.UnitText {
		on = next.Nominal.Date
	}
	require.NotEqual(t, last.Ended.Date, on, "two events on one day")
	years := ofYears(last.Unit) && ofYears(next.Unit)
	if years {
		require.Greater(t, last.Nominal.Date.DaysUntil(next.Nominal.Date), 176, "two events for one birthday")
	}
	byOther := slices.DeleteFunc(slices.Clone(left), func(o calendar.Occurrence) bool {
		return slices.ContainsFunc(before, func(d almanac.UsedKey) bool { return d.Unit == o.Unit })
	})
	most := 1
	if one.zone != one.to {
		most++
	}
	if one.lead && years {
		most++ // that event is for a birthday of its own
	}
	if slices.ContainsFunc(byOther, func(o calendar.Occurrence) bool {
		return o.Nominal != (calendar.WallTime{}) && o.Nominal.Date != o.Wall.Date
	}) {
		most++ // one is named for the day, and another shown on it
	}
	require.LessOrEqual(t, len(byOther), most)
}
