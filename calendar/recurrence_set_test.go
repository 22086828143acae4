package calendar_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// set reads a recurrence set that the test itself wrote, one property to each text.
func set(t testing.TB, lines ...string) calendar.RecurrenceSet {
	t.Helper()
	s, err := calendar.ParseRecurrenceSet(strings.Join(lines, "\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const newYorkAt9 = "DTSTART;TZID=America/New_York:20270315T090000"

func TestRecurrenceSetsYieldSlots(t *testing.T) {
	t.Parallel()

	const weekly = "RRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=3"
	tests := map[string]struct {
		set  calendar.RecurrenceSet
		want string // what clocks show, each day and hour
	}{
		"a rule":                             {set(t, newYorkAt9, weekly), "03-15T09 03-22T09 03-29T09"},
		"a start alone":                      {set(t, newYorkAt9), "03-15T09"},
		"dates without a rule":               {set(t, newYorkAt9, "RDATE;TZID=America/New_York:20270401T100000,20270320T100000"), "03-15T09 03-20T10 04-01T10"},
		"a start that the rule lacks":        {set(t, "DTSTART;TZID=America/New_York:20270316T090000", weekly), "03-22T09 03-29T09 04-05T09"},
		"dates between and behind":           {set(t, newYorkAt9, weekly, "RDATE;TZID=America/New_York:20270320T100000,20270401T100000"), "03-15T09 03-20T10 03-22T09 03-29T09 04-01T10"},
		"a date before the start":            {set(t, newYorkAt9, weekly, "RDATE;TZID=America/New_York:20270301T100000"), "03-01T10 03-15T09 03-22T09 03-29T09"},
		"a date that is a slot already":      {set(t, newYorkAt9, weekly, "RDATE;TZID=America/New_York:20270322T090000,20270322T090000"), "03-15T09 03-22T09 03-29T09"},
		"a date in UTC":                      {set(t, newYorkAt9, weekly, "RDATE:20270320T140000Z"), "03-15T09 03-20T10 03-22T09 03-29T09"},
		"an exception, which is counted":     {set(t, newYorkAt9, weekly, "EXDATE;TZID=America/New_York:20270322T090000"), "03-15T09 03-29T09"},
		"an exception at another hour":       {set(t, newYorkAt9, weekly, "EXDATE;TZID=America/New_York:20270322T091500"), "03-15T09 03-22T09 03-29T09"},
		"an exception in UTC":                {set(t, newYorkAt9, weekly, "EXDATE:20270322T130000Z"), "03-15T09 03-29T09"},
		"an exception in UTC, an hour off":   {set(t, newYorkAt9, weekly, "EXDATE:20270322T140000Z"), "03-15T09 03-22T09 03-29T09"},
		"an exception of a date":             {set(t, newYorkAt9, weekly, "RDATE;TZID=America/New_York:20270320T100000", "EXDATE:20270320T140000Z"), "03-15T09 03-22T09 03-29T09"},
		"an exception of the start":          {set(t, newYorkAt9, "RDATE:20270320T140000Z", "EXDATE;TZID=America/New_York:20270315T090000"), "03-20T10"},
		"exceptions on several lines":        {set(t, newYorkAt9, "EXDATE:20270322T130000Z", weekly, "EXDATE;TZID=US/Eastern:20270315T090000"), "03-29T09"},
		"an end in UTC":                      {set(t, newYorkAt9, "RRULE:FREQ=DAILY;UNTIL=20270317T130000Z"), "03-15T09 03-16T09 03-17T09"},
		"an end in UTC, and a date later":    {set(t, newYorkAt9, "RRULE:FREQ=DAILY;UNTIL=20270317T125959Z", "RDATE:20270320T140000Z"), "03-15T09 03-16T09 03-20T10"},
		"no zone":                            {set(t, "DTSTART:20270315T090000", weekly, "RDATE:20270316T090000", "EXDATE:20270322T090000"), "03-15T09 03-16T09 03-29T09"},
		"folded lines, small letters":        {set(t, "dtstart;value=date-time;tzid=\"America/New_York\":2027", " 0315t0900", "\t00", "rrule:freq=weekly;co", " unt=2"), "03-15T09 03-22T09"},
		"a rule that a gap moves":            {set(t, "DTSTART;TZID=America/New_York:20270313T023000", "RRULE:FREQ=DAILY;COUNT=3"), "03-13T02 03-14T03 03-15T02"},
		"an exception of what a gap moves":   {set(t, "DTSTART;TZID=America/New_York:20270313T023000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE:20270314T073000Z"), "03-13T02 03-15T02"},
		"an exception of the shown time":     {set(t, "DTSTART;TZID=America/New_York:20270313T023000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE;TZID=America/New_York:20270314T033000"), "03-13T02 03-15T02"},
		"an exception of the skipped time":   {set(t, "DTSTART;TZID=America/New_York:20270313T023000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE;TZID=America/New_York:20270314T023000"), "03-13T02 03-15T02"},
		"a shown time, of no zone":           {set(t, "DTSTART:20270313T023000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE:20270314T033000"), "03-13T02 03-15T02"},
		"no shown time without a gap":        {set(t, "DTSTART;TZID=America/New_York:20270313T023000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE;TZID=America/New_York:20270313T033000"), "03-13T02 03-14T03 03-15T02"},
		"a shown time of two slots":          {set(t, "DTSTART;TZID=America/New_York:20270314T013000", "RRULE:FREQ=HOURLY;COUNT=4", "EXDATE;TZID=America/New_York:20270314T033000"), "03-14T01 03-14T04"},
		"an exception of a day":              {set(t, newYorkAt9, "RRULE:FREQ=HOURLY;INTERVAL=8;COUNT=6", "EXDATE;VALUE=DATE:20270316"), "03-15T09 03-15T17 03-17T01"},
		"an exception of days":               {set(t, newYorkAt9, "RRULE:FREQ=DAILY;COUNT=5", "EXDATE;value=date:20270318,20270316", "RDATE;TZID=America/New_York:20270316T170000"), "03-15T09 03-17T09 03-19T09"},
		"an exception of a day in UTC":       {set(t, "DTSTART:20270315T010000Z", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE;VALUE=DATE:20270316"), "03-15T01 03-17T01"},
		"an exception of a day of no zone":   {set(t, "DTSTART:20270315T010000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE;VALUE=DATE:20270316"), "03-15T01 03-17T01"},
		"an exception of the first showing":  {set(t, "DTSTART;TZID=America/New_York:20271106T013000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE:20271107T053000Z"), "11-06T01 11-08T01"},
		"an exception of the second showing": {set(t, "DTSTART;TZID=America/New_York:20271106T013000", "RRULE:FREQ=DAILY;COUNT=3", "EXDATE:20271107T063000Z"), "11-06T01 11-07T01 11-08T01"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for next, err := range calendar.Occurrences(tt.set, zone(t, "America/New_York"), calendar.Policies{}, time.Time{}) {
				if err != nil {
					t.Fatal(err)
				}
				if next.Key != next.Wall.String() {
					t.Errorf("the key of %s is %q", next.Wall, next.Key)
				}
				got = append(got, next.Resolution.Shown().Labelled().Format("01-02T15"))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s yields %q, want %q", tt.set, got, tt.want)
			}
		})
	}
}

// A date that the rule yields too is one slot, which is counted once and keeps what the rule says
// of it.
func TestRecurrenceSetsCountADateThatTheRuleYieldsOnce(t *testing.T) {
	t.Parallel()

	s := set(t, "DTSTART:20270131T090000", "RRULE:FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=BACKWARD", "RDATE:20270228T090000")
	b := calendar.Bounded{Rule: s, Start: s.Start(), Count: 3}
	var got []calendar.Slot
	for w := (calendar.WallTime{}); ; {
		slot, err := b.After(w, calendar.Policies{})
		if errors.Is(err, calendar.ErrNoOccurrence) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got, w = append(got, slot), slot.Wall
	}
	want := []calendar.Slot{
		{Key: "2027-01-31T09:00:00", Unit: calendar.UnitTime, Wall: wall(t, "2027-01-31T09:00:00")},
		{Key: "2027-02-28T09:00:00", Unit: calendar.UnitTime, Wall: wall(t, "2027-02-28T09:00:00"), Named: date(2027, 2, 31)},
		{Key: "2027-03-31T09:00:00", Unit: calendar.UnitTime, Wall: wall(t, "2027-03-31T09:00:00")},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRecurrenceSetsBecomeText(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ text, want string }{
		"in its normal form":       {newYorkAt9 + "\nRRULE:FREQ=DAILY", newYorkAt9 + "\nRRULE:FREQ=DAILY"},
		"in order, and each once":  {"EXDATE:20270322T140000Z,20270321T140000Z\nRRULE:COUNT=5;FREQ=DAILY\nEXDATE:20270321T140000Z\n\n" + newYorkAt9 + "\nEXDATE;TZID=America/New_York:20270318T090000", newYorkAt9 + "\nRRULE:FREQ=DAILY;COUNT=5\nEXDATE;TZID=America/New_York:20270318T090000\nEXDATE:20270321T140000Z,20270322T140000Z"},
		"dates in UTC":             {newYorkAt9 + "\nRDATE:20270401T130000Z", newYorkAt9 + "\nRDATE;TZID=America/New_York:20270401T090000"},
		"the start among dates":    {newYorkAt9 + "\nRDATE:20270315T130000Z", newYorkAt9},
		"the start among a rule's": {newYorkAt9 + "\nRRULE:FREQ=DAILY\nRDATE:20270315T130000Z", newYorkAt9 + "\nRRULE:FREQ=DAILY\nRDATE;TZID=America/New_York:20270315T090000"},
		"dates that are left out":  {newYorkAt9 + "\nEXDATE;VALUE=DATE:20270322,20270321\nEXDATE:20270318T140000Z\nEXDATE;VALUE=DATE:20270321", newYorkAt9 + "\nEXDATE;VALUE=DATE:20270321,20270322\nEXDATE:20270318T140000Z"},
		"UTC":                      {"DTSTART:20270315T090000Z\nRDATE:20270401T090000Z\nEXDATE:20270402T090000Z", "DTSTART:20270315T090000Z\nRDATE:20270401T090000Z\nEXDATE:20270402T090000Z"},
		"no zone":                  {"DTSTART:20270315T090000\nEXDATE:20270402T090000", "DTSTART:20270315T090000\nEXDATE:20270402T090000"},
		"a zone in small letters":  {"DTSTART;TZID=asia/tokyo:20270315T090000", "DTSTART;TZID=Asia/Tokyo:20270315T090000"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := set(t, tt.text)

			if s.String() != tt.want {
				t.Errorf("%q becomes %q, want %q", tt.text, s, tt.want)
			}
			if again := set(t, s.String()); again.String() != tt.want || again.Zone() != s.Zone() || again.Start() != s.Start() {
				t.Errorf("%q becomes %q when it is read again", tt.want, again)
			}
		})
	}
	if text := (calendar.RecurrenceSet{}).String(); text != "" {
		t.Errorf("the zero RecurrenceSet is %q", text)
	}
}

func TestParsingARecurrenceSetNamesEveryProblem(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                {"", []string{"DTSTART is missing"}},
		"no start":               {"RRULE:FREQ=DAILY", []string{"DTSTART is missing"}},
		"no property":            {"hello\n:\n" + newYorkAt9, []string{`"hello" is not of the form NAME:VALUE`, `":" is not of the form NAME:VALUE`}},
		"an open quotation mark": {`DTSTART;TZID="America/New_York:20270315T090000`, []string{`"DTSTART;TZID=\"America/New_York:20270315T…" is not of the form NAME:VALUE`, "DTSTART is missing"}},
		"other properties":       {newYorkAt9 + "\nDTEND:20270315T100000\nEXRULE:FREQ=DAILY\nBEGIN:VEVENT", []string{`"DTEND" is no property of a recurrence set`, `"EXRULE" is no property of a recurrence set`, `"BEGIN" is no property of a recurrence set`}},
		"twice":                  {newYorkAt9 + "\nRRULE:FREQ=DAILY\n" + newYorkAt9 + "\nRRULE:FREQ=WEEKLY", []string{"DTSTART is there more than once", "RRULE is there more than once"}},
		"dates":                  {"DTSTART;VALUE=DATE:20270315\nRDATE;VALUE=DATE:20270316\nEXDATE:20270317", []string{"DTSTART is a date; a recurrence needs a time of day", "RDATE is a date; a recurrence needs a time of day", `EXDATE: "20270317" is a date; for all slots of the date, write EXDATE;VALUE=DATE`}},
		"excepted dates":         {newYorkAt9 + "\nEXDATE;VALUE=DATE;TZID=America/New_York:20270316\nEXDATE;VALUE=DATE;X-A=1;VALUE=DATE-TIME:20270230,20270316T090000,,00000101", []string{"EXDATE: dates have no TZID", `EXDATE: the parameter "X-A" is not understood`, `EXDATE: the parameter "VALUE" is not understood`, `EXDATE: "20270230" is on no calendar`, `EXDATE: "20270316T090000" is not of the form YYYYMMDD`, `EXDATE: "" is not of the form YYYYMMDD`, `EXDATE: "00000101" is on no calendar`}},
		"a period":               {newYorkAt9 + "\nRDATE;VALUE=PERIOD:20270316T090000Z/PT1H", []string{`RDATE: VALUE "PERIOD" is not understood`}},
		"parameters":             {"DTSTART;X-A=1:20270315T090000\nRRULE;TZID=Asia/Tokyo:FREQ=DAILY\nEXDATE;RANGE=THISANDFUTURE:20270315T090000", []string{`DTSTART: the parameter "X-A" is not understood`, `RRULE: the parameter "TZID" is not understood`, `EXDATE: the parameter "RANGE" is not understood`}},
		"a zone that is none":    {"DTSTART;TZID=Eastern Standard Time:20270315T090000\nRRULE:FREQ=NEVER\nRDATE;TZID=Europe/Berln:20270315T090000", []string{`DTSTART: TZID "Eastern Standard Time" is not a known time zone; did you mean "America/New_York"?`, `RRULE: FREQ="NEVER" is not SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY`, `RDATE: TZID "Europe/Berln" is not a known time zone; did you mean "Europe/Berlin"?`}},
		"two zones":              {newYorkAt9[:8] + "TZID=Asia/Tokyo;" + newYorkAt9[8:], []string{"DTSTART has more than one TZID"}},
		"another zone":           {newYorkAt9 + "\nEXDATE;TZID=Asia/Tokyo:20270315T090000", []string{"EXDATE has another TZID than DTSTART"}},
		"other forms":            {newYorkAt9 + "\nEXDATE:20270315T090000\nRDATE;TZID=America/New_York:20270315T090000Z", []string{`EXDATE: "20270315T090000" has another form than DTSTART`, `RDATE: "20270315T090000Z" is in UTC and has a TZID`}},
		"other forms than UTC":   {"DTSTART:20270315T090000Z\nEXDATE:20270315T090000\nRDATE;TZID=UTC:20270315T090000", []string{`EXDATE: "20270315T090000" has another form than DTSTART`, "RDATE has another TZID than DTSTART"}},
		"other forms than local": {"DTSTART:20270315T090000\nEXDATE:20270315T090000Z\nRDATE;TZID=UTC:20270315T090000\nRRULE:FREQ=DAILY;UNTIL=20280101T000000Z", []string{`EXDATE: "20270315T090000Z" has another form than DTSTART`, "RDATE has another TZID than DTSTART", "RRULE: UNTIL is in UTC, and DTSTART is a wall time of no zone"}},
		"UTC with a zone":        {"DTSTART;TZID=Asia/Tokyo:20270315T090000Z", []string{"DTSTART has a TZID and is in UTC"}},
		"times that are none":    {"DTSTART:20270230T090000\nRDATE:20270315T0900,20270315T250000,", []string{`DTSTART: "20270230T090000" is on no calendar, or no clock shows it`, `RDATE: "20270315T0900" is not of the form YYYYMMDDTHHMMSS`, `RDATE: "20270315T250000" is on no calendar, or no clock shows it`, `RDATE: "" is not of the form YYYYMMDDTHHMMSS`}},
		"a leap second":          {"DTSTART:20161231T235960", []string{`DTSTART: "20161231T235960" is on no calendar, or no clock shows it`}},
		"very much":              {newYorkAt9 + strings.Repeat("\nX:", 30), append(slices.Repeat([]string{`"X" is no property of a recurrence set`}, 20), "and 10 more")},
		"too long":               {strings.Repeat("X", 65537), []string{"the text has 65537 bytes, more than 65536"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s, err := calendar.ParseRecurrenceSet(tt.text)

			var bad *calendar.InvalidRecurrenceError
			if !errors.As(err, &bad) || !slices.Equal(bad.Problems, tt.want) {
				t.Errorf("%v\nwant %q", err, tt.want)
			}
			if s.String() != "" {
				t.Errorf("a set with problems was returned: %s", s)
			}
		})
	}
	if _, err := (calendar.RecurrenceSet{}).After(calendar.WallTime{}, calendar.Policies{}); !errors.Is(err, calendar.ErrInvalidRecurrence) {
		t.Errorf("the zero RecurrenceSet: %v", err)
	}
}

// A set yields what its rule and its dates yield, each once, without what is left out: in any
// zone, by any policies.
func TestRecurrenceSetsAreTheUnionWithoutTheExceptions(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		c := calendartest.DrawCase(t)
		if c.Policies.Gap == calendar.GapSkip {
			c.Policies.Gap = calendar.GapForward // of the rule alone, which knows no zone, COUNT counts what is skipped
		}
		text, want := drawSet(t, c)
		s, err := calendar.ParseRecurrenceSet(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := calendar.ParseRecurrenceSet(s.String()); err != nil || again.String() != s.String() {
			t.Fatalf("%q is read again as %q, %v", s, again, err)
		}
		w := calendar.WallTime{}
		for range 60 {
			slot, err := s.After(w, c.Policies)
			expected, ok := want.after(t, c, w)
			if !ok {
				if !errors.Is(err, calendar.ErrNoOccurrence) {
					t.Fatalf("%s after %s: %+v, %v; want no more", s, w, slot, err)
				}
				return
			}
			if err != nil || slot.Wall != expected || slot.Key != expected.String() {
				t.Fatalf("%s after %s: %+v, %v; want %s", s, w, slot, err, expected)
			}
			w = slot.Wall
		}
	})
}

// Whole days are passed over, whatever a rule yields on them. One by one, the slots of these days
// would take minutes, and the events of other users would wait for them.
func TestARuleOfSecondsPassesExceptedDays(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct{ step, want string }{
		"one after the other": {"24h", "2046-03-03T00:00:00"},
		"every second day":    {"48h", "2027-01-03T00:00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			day := time.Date(2027, time.January, 2, 0, 0, 0, 0, time.UTC)
			step, err := time.ParseDuration(tt.step)
			if err != nil {
				t.Fatal(err)
			}
			var days []string
			for range 7000 {
				days = append(days, day.Format("20060102"))
				day = day.Add(step)
			}
			s := set(t, "DTSTART:20270101T120000", "RRULE:FREQ=SECONDLY", "EXDATE;VALUE=DATE:"+strings.Join(days, ","))
			slot, err := s.After(wall(t, "2027-01-01T23:59:59"), calendar.Policies{})
			if err != nil || slot.Wall.String() != tt.want {
				t.Errorf("the first slot after the days is %v, %v; want %s", slot.Wall, err, tt.want)
			}
		})
	}
}

// setModel is what a set was made of.
type setModel struct {
	rule     calendar.Recurrence // nil for none
	dates    []calendar.WallTime
	except   []calendar.WallTime
	exceptOn []calendar.Date
	exceptAt []time.Time
}

// excepts reports whether there is an exception for what a calendar shows.
func (m setModel) excepts(w calendar.WallTime) bool {
	return slices.Contains(m.except, w) || slices.Contains(m.exceptOn, w.Date)
}

// after looks at every candidate.
func (m setModel) after(t *rapid.T, c calendartest.Case, w calendar.WallTime) (calendar.WallTime, bool) {
	for {
		var best calendar.WallTime
		found := false
		if m.rule != nil {
			slot, err := m.rule.After(w, c.Policies)
			if err == nil {
				best, found = slot.Wall, true
			} else if !errors.Is(err, calendar.ErrNoOccurrence) {
				t.Fatal(err)
			}
		}
		for _, date := range m.dates {
			if w.Before(date) && (!found || date.Before(best)) {
				best, found = date, true
			}
		}
		if !found {
			return best, false
		}
		r, err := c.Zone.Resolve(best, c.Policies)
		gone := m.excepts(best) || err == nil && (m.excepts(r.Shown()) || slices.ContainsFunc(m.exceptAt, r.Instant.Equal))
		if !gone {
			return best, true
		}
		w = best
	}
}

func drawSet(t *rapid.T, c calendartest.Case) (string, setModel) {
	const form = "20060102T150405"
	zone := ";TZID=" + c.Zone.String()
	start := c.DrawWall(t, "start")
	lines := []string{"DTSTART" + zone + ":" + start.Labelled().Format(form)}
	m := setModel{dates: []calendar.WallTime{start}}
	candidates := []calendar.WallTime{start}
	if rapid.Bool().Draw(t, "ruled") {
		rule := rapid.SampledFrom([]string{"FREQ=DAILY", "FREQ=DAILY;COUNT=7", "FREQ=HOURLY;COUNT=30", "FREQ=HOURLY", "FREQ=SECONDLY;INTERVAL=1799", "FREQ=WEEKLY;BYDAY=SU,MO,FR", "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30;COUNT=40"}).Draw(t, "rule")
		r, err := calendar.ParseRRule(rule, start)
		if err != nil {
			t.Fatal(err)
		}
		lines, m.rule, m.dates = append(lines, "RRULE:"+rule), r, nil
		for w := (calendar.WallTime{}); len(candidates) < 20; {
			slot, err := r.After(w, c.Policies)
			if err != nil {
				break
			}
			candidates, w = append(candidates, slot.Wall), slot.Wall
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "dates") {
		w := rapid.OneOf(rapid.Custom(func(t *rapid.T) calendar.WallTime { return c.DrawWall(t, "date") }), rapid.SampledFrom(candidates)).Draw(t, "any date")
		lines, m.dates = append(lines, "RDATE"+zone+":"+w.Labelled().Format(form)), append(m.dates, w)
		candidates = append(candidates, w)
	}
	for range rapid.IntRange(0, 4).Draw(t, "exceptions") {
		w := rapid.SampledFrom(candidates).Draw(t, "exception")
		r, err := c.Zone.Resolve(w, c.Policies)
		switch as := rapid.SampledFrom([]string{"instant", "shown", "date", "wall time"}).Draw(t, "as"); {
		case err == nil && as == "instant":
			lines, m.exceptAt = append(lines, "EXDATE:"+r.Instant.Format(form)+"Z"), append(m.exceptAt, r.Instant)
		case err == nil && as == "shown":
			lines, m.except = append(lines, "EXDATE"+zone+":"+r.Shown().Labelled().Format(form)), append(m.except, r.Shown())
		case as == "date":
			lines, m.exceptOn = append(lines, "EXDATE;VALUE=DATE:"+w.Labelled().Format("20060102")), append(m.exceptOn, w.Date)
		default:
			lines, m.except = append(lines, "EXDATE"+zone+":"+w.Labelled().Format(form)), append(m.except, w)
		}
	}
	seed := rapid.Uint64().Draw(t, "order")
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	text := strings.Join(lines, "\n")
	if at := rapid.IntRange(0, len(text)).Draw(t, "fold"); at > 0 && at < len(text) && text[at-1] != '\n' && text[at] != '\n' {
		text = text[:at] + "\r\n " + text[at:]
	}
	return text, m
}

func FuzzParseRecurrenceSet(f *testing.F) {
	for _, seed := range []string{
		"DTSTART:20270315T090000\nRRULE:FREQ=DAILY\nEXDATE;VALUE=DATE:20270316,20270317", newYorkAt9 + "\r\nRRULE:FREQ=WEEKLY;BYDAY=MO;COUNT=3\r\nRDATE:20270320T140000Z\r\nEXDATE;TZID=America/New_York:20270322T090000\r\n",
		"DTSTART:20270315T090000Z\nRRULE:FREQ=DAI\n LY;UNTIL=20280101T000000Z\nEXDATE:20270316T090000Z", "DTSTART:20270315T090000", "DTSTART;VALUE=DATE:20270315",
		"DTSTART;TZID=\"Asia/Tokyo\";X-A=\"a:b;c\":20270315T090000", ":\n;\n", "DTSTART:00010101T000000\nRRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "RDATE:,,\nEXDATE:",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := calendar.ParseRecurrenceSet(text)
		if checkTyped(t, err); err != nil {
			return
		}
		again, err := calendar.ParseRecurrenceSet(s.String())
		if err != nil || again.String() != s.String() || again.Zone() != s.Zone() || again.Start() != s.Start() {
			t.Fatalf("%q is read as %q, and that as %q, %v", text, s, again, err)
		}
		w := s.Start()
		for range 3 {
			one, err := s.After(w, calendar.Policies{})
			if checkTyped(t, err); err != nil {
				return
			}
			if other, _ := again.After(w, calendar.Policies{}); other != one || !w.Before(one.Wall) {
				t.Fatalf("%q after %s: %+v, and read again %+v", text, w, one, other)
			}
			w = one.Wall
		}
	})
}

func ExampleRecurrenceSet() {
	lessons := must(calendar.ParseRecurrenceSet(`DTSTART;TZID=Europe/Paris:20270301T180000
RRULE:FREQ=WEEKLY;COUNT=4
RDATE;TZID=Europe/Paris:20270306T100000
EXDATE;TZID=Europe/Paris:20270315T180000`))

	for next, err := range calendar.Occurrences(lessons, lessons.Zone(), calendar.Policies{}, time.Time{}) {
		fmt.Println(next.Wall, err)
	}
	// Output:
	// 2027-03-01T18:00:00 <nil>
	// 2027-03-06T10:00:00 <nil>
	// 2027-03-08T18:00:00 <nil>
	// 2027-03-22T18:00:00 <nil>
}

// The text of a set is in a normal form.
func ExampleRecurrenceSet_String() {
	s := must(calendar.ParseRecurrenceSet("rrule:count=3;freq=daily\nEXDATE:20270302T090000Z\nDTSTART:20270301T090000Z"))
	fmt.Println(s)
	// Output:
	// DTSTART:20270301T090000Z
	// RRULE:FREQ=DAILY;COUNT=3
	// EXDATE:20270302T090000Z
}
