package calendar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestBoundedYieldsSlots(t *testing.T) {
	t.Parallel()

	daily := calendar.Daily{At: calendar.Clock{Hour: 9}}
	monthly := calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 9}}
	at := func(day int) calendar.WallTime {
		return calendar.WallTime{Date: date(2026, 3, day), Clock: calendar.Clock{Hour: 9}}
	}
	between := func(start, end int) calendar.Bounded {
		return calendar.Bounded{Rule: daily, Start: at(start), End: at(end)}
	}
	from := func(day int) calendar.Bounded { return calendar.Bounded{Rule: daily, Start: at(day)} }
	counted := func(count int, except ...calendar.WallTime) calendar.Bounded {
		return calendar.Bounded{Rule: daily, Start: at(1), Count: count, Except: except}
	}
	second := time.Second
	moved := func(w calendar.WallTime, by time.Duration) calendar.WallTime {
		return calendar.WallTimeOf(w.Labelled().Add(by))
	}
	checkSlots(t, map[string]slotCase{
		"without bounds, the rule itself":   {calendar.Bounded{Rule: daily}, calendar.Policies{}, "", "0001-01-01T09:00 0001-01-02T09:00"},
		"a slot at the start counts":        {from(1), calendar.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00"},
		"a slot before the start does not":  {calendar.Bounded{Rule: daily, Start: moved(at(1), second)}, calendar.Policies{}, "", "2026-03-02T09:00"},
		"after the start":                   {from(1), calendar.Policies{}, "2026-03-05T10:00:00", "2026-03-06T09:00"},
		"at the start":                      {from(1), calendar.Policies{}, "2026-03-01T09:00:00", "2026-03-02T09:00"},
		"a slot at the end counts":          {between(1, 3), calendar.Policies{}, "2026-03-01T09:00:00", "2026-03-02T09:00 2026-03-03T09:00 end"},
		"a slot after the end does not":     {calendar.Bounded{Rule: daily, End: moved(at(3), -second)}, calendar.Policies{}, "2026-03-01T09:00:00", "2026-03-02T09:00 end"},
		"an end before the start":           {between(3, 1), calendar.Policies{}, "", "end"},
		"a start that is the end":           {between(3, 3), calendar.Policies{}, "", "2026-03-03T09:00 end"},
		"an end alone":                      {calendar.Bounded{Rule: daily, End: at(3)}, calendar.Policies{}, "2026-03-02T09:00:00", "2026-03-03T09:00 end"},
		"a start on the first day of all":   {calendar.Bounded{Rule: monthly, Start: wall(t, "0001-01-01T00:00:00"), Count: 1}, calendar.Policies{}, "", "0001-01-31T09:00 end"},
		"three of them":                     {counted(3), calendar.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 2026-03-03T09:00 end"},
		"the third of three":                {counted(3), calendar.Policies{}, "2026-03-02T09:00:00", "2026-03-03T09:00 end"},
		"none after three":                  {counted(3), calendar.Policies{}, "2027-01-01T00:00:00", "end"},
		"one":                               {counted(1), calendar.Policies{}, "", "2026-03-01T09:00 end"},
		"the count and the end, end first":  {calendar.Bounded{Rule: daily, Start: at(1), End: at(2), Count: 3}, calendar.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"the count and the end, count":      {calendar.Bounded{Rule: daily, Start: at(1), End: at(5), Count: 2}, calendar.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"an exception":                      {calendar.Bounded{Rule: daily, Except: []calendar.WallTime{at(2), at(4)}}, calendar.Policies{}, "2026-03-01T00:00:00", "2026-03-01T09:00 2026-03-03T09:00 2026-03-05T09:00"},
		"exceptions are counted":            {counted(3, at(2)), calendar.Policies{}, "", "2026-03-01T09:00 2026-03-03T09:00 end"},
		"an exception that is last":         {counted(3, at(3)), calendar.Policies{}, "2026-03-02T09:00:00", "end"},
		"nothing but exceptions":            {counted(2, at(1), at(2)), calendar.Policies{}, "", "end"},
		"an exception that is no slot":      {counted(2, at(9), moved(at(2), second)), calendar.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"policies reach the rule":           {calendar.Bounded{Rule: monthly, Start: at(1), Count: 2}, calendar.Policies{MonthEnd: calendar.MonthEndSkip}, "", "2026-03-31T09:00 2026-05-31T09:00 end"},
		"the day meant comes through":       {calendar.Bounded{Rule: monthly, Start: wall(t, "2026-04-01T00:00:00"), Count: 1}, calendar.Policies{}, "", "2026-04-30T09:00(2026-04-31) end"},
		"bounds within bounds":              {calendar.Bounded{Rule: between(1, 5), Start: at(4), Except: []calendar.WallTime{at(4)}}, calendar.Policies{}, "", "2026-03-05T09:00 end"},
		"an RRULE from its own start":       {calendar.Bounded{Rule: rrule(t, "FREQ=DAILY;COUNT=3", "2026-03-01T09:00:00"), Start: at(2), Count: 9}, calendar.Policies{}, "", "2026-03-02T09:00 2026-03-03T09:00 end"},
		"a UNTIL that is a date":            {calendar.Bounded{Rule: rrule(t, "FREQ=DAILY;UNTIL=20260302", "2026-03-01T09:00:00")}, calendar.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"a UNTIL that is a wall time":       {calendar.Bounded{Rule: rrule(t, "FREQ=DAILY;UNTIL=20260302T085959", "2026-03-01T09:00:00")}, calendar.Policies{}, "", "2026-03-01T09:00 end"},
		"cron between two days":             {calendar.Bounded{Rule: cron(t, "0 9 * * *"), Start: at(1), End: at(2)}, calendar.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"a rule that ends before the start": {calendar.Bounded{Rule: calendar.Once{At: at(1)}, Start: at(2)}, calendar.Policies{}, "", "end"},
	})
}

// The last of ten thousand is counted to, and no further.
func TestBoundedCountsToTenThousand(t *testing.T) {
	t.Parallel()

	b := calendar.Bounded{Rule: calendar.Daily{}, Start: wall(t, "2026-01-01T00:00:00"), Count: 10_000}
	last := b.Start.Date
	last.Day += 10_000 - 1
	want := calendar.WallTimeOf(calendar.WallTime{Date: last}.Labelled())

	got, err := b.After(calendar.WallTimeOf(want.Labelled().Add(-time.Second)), calendar.Policies{})

	if err != nil || got.Wall != want {
		t.Errorf("the last one is %v, %v; want %v", got, err, want)
	}
	if got, err := b.After(want, calendar.Policies{}); !errors.Is(err, calendar.ErrNoOccurrence) {
		t.Errorf("after the last one comes %v, %v; want ErrNoOccurrence", got, err)
	}
}

// UNTIL in UTC is an instant: how many slots come before it depends on the zone.
func TestUntilInUTCIsAnInstant(t *testing.T) {
	t.Parallel()

	const rule = "FREQ=DAILY;UNTIL=20260303T090000Z"
	daily := rrule(t, rule, "2026-03-01T09:00:00")
	second := wall(t, "2026-03-02T09:00:00")
	tests := map[string]struct {
		rule calendar.Recurrence
		zone string
		want string
	}{
		"included in UTC":           {daily, "UTC", "01 02 03 end"},
		"past it in New York":       {daily, "America/New_York", "01 02 end"},
		"far east of it":            {daily, "Pacific/Kiritimati", "01 02 03 end"},
		"far west of it":            {daily, "Pacific/Niue", "01 02 end"},
		"a second too late":         {rrule(t, rule, "2026-03-01T09:00:01"), "UTC", "01 02 end"},
		"east, a whole day earlier": {rrule(t, rule, "2026-03-01T00:00:00"), "Pacific/Kiritimati", "01 02 03 end"},
		"west, late in the evening": {rrule(t, rule, "2026-03-01T22:00:00"), "Pacific/Niue", "01 02 end"},
		"through bounds":            {calendar.Bounded{Rule: daily, Start: second}, "America/New_York", "02 end"},
		"through bounds in bounds":  {calendar.Bounded{Rule: calendar.Bounded{Rule: daily}, Except: []calendar.WallTime{second}}, "UTC", "01 03 end"},
		"an end that comes earlier": {calendar.Bounded{Rule: daily, End: second}, "UTC", "01 02 end"},
		"a count that comes later":  {calendar.Bounded{Rule: daily, Start: second, Count: 9}, "America/New_York", "02 end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := ""
			for next, err := range calendar.Occurrences(tt.rule, zone(t, tt.zone), calendar.Policies{}, instant(t, "2026-01-01T00:00:00Z")) {
				if err != nil {
					t.Fatal(err)
				}
				got += fmt.Sprintf("%02d ", next.Wall.Date.Day)
			}
			if got += "end"; got != tt.want {
				t.Errorf("%+v in %s: days %s, want %s", tt.rule, tt.zone, got, tt.want)
			}
		})
	}
}

// A slot that no clock shows, and that would come after UNTIL, is no error: the series has
// ended.
func TestUntilInUTCEndsBeforeARejectedSlot(t *testing.T) {
	t.Parallel()

	daily := rrule(t, "FREQ=DAILY;UNTIL=20260307T235959Z", "2026-03-01T02:30:00")
	after := instant(t, "2026-03-07T12:00:00Z")
	for _, gap := range []calendar.GapPolicy{calendar.GapForward, calendar.GapBackward, calendar.GapBoundary, calendar.GapSkip, calendar.GapReject} {
		t.Run(string(gap), func(t *testing.T) {
			t.Parallel()

			got, err := calendar.Next(daily, zone(t, "America/New_York"), calendar.Policies{Gap: gap}, after)

			if !errors.Is(err, calendar.ErrNoOccurrence) {
				t.Errorf("%s after %v = %+v, %v; want ErrNoOccurrence", daily, after, got, err)
			}
		})
	}
}

func TestBoundedNamesEveryProblem(t *testing.T) {
	t.Parallel()

	daily := calendar.Daily{}
	start, nowhere := wall(t, "2026-03-01T09:00:00"), calendar.WallTime{Date: date(2026, 2, 30)}
	tests := map[string]struct {
		bounded calendar.Bounded
		want    []string
	}{
		"the zero Bounded":            {calendar.Bounded{}, []string{"no rule"}},
		"a start on no calendar":      {calendar.Bounded{Rule: daily, Start: nowhere}, []string{"start 2026-02-30"}},
		"an end on no calendar":       {calendar.Bounded{Rule: daily, End: nowhere}, []string{"end 2026-02-30"}},
		"a negative count":            {calendar.Bounded{Rule: daily, Start: start, Count: -1}, []string{"count of -1"}},
		"a count too many":            {calendar.Bounded{Rule: daily, Start: start, Count: 10_001}, []string{"count of 10001"}},
		"a count from nowhere":        {calendar.Bounded{Rule: daily, Count: 3}, []string{"needs a start"}},
		"all of it":                   {calendar.Bounded{Start: nowhere, End: nowhere, Count: 10_001}, []string{"no rule", "start", "end", "count of 10001"}},
		"no rule, and much too often": {calendar.Bounded{Count: 10_001}, []string{"no rule", "count of 10001", "needs a start"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := tt.bounded.After(start, calendar.Policies{})

			checkInvalid(t, err, "bounded", tt.want)
		})
	}
}

func TestBoundedReturnsTheErrorsOfItsRule(t *testing.T) {
	t.Parallel()

	_, err := calendar.Bounded{Rule: calendar.Bounded{Rule: calendar.Monthly{}}}.After(wall(t, "2026-01-01T00:00:00"), calendar.Policies{})

	checkInvalid(t, err, "monthly", []string{"day 0"})
}

// opaque is a rule of the host's own, of which nothing is known but its After. It
// tells how often it was asked.
type opaque struct {
	calendar.Recurrence
	asked *int
}

func (o opaque) After(w calendar.WallTime, p calendar.Policies) (calendar.Slot, error) {
	*o.asked++
	return o.Recurrence.After(w, p)
}

// Counted rules within counted rules are walked through together, once.
func TestCountingCallsTheRuleOncePerSlot(t *testing.T) {
	t.Parallel()

	start := wall(t, "2026-01-01T00:00:00")
	count := func(r calendar.Recurrence) calendar.Bounded {
		return calendar.Bounded{Rule: r, Start: start, Count: 10_000}
	}
	var days []calendar.WallTime
	for day := range 3000 {
		days = append(days, calendar.WallTimeOf(start.Labelled().AddDate(0, 0, day)))
	}
	inGaps := rrule(t, "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU", "1800-01-01T02:30:00")
	tests := map[string]struct {
		bound func(calendar.Recurrence) calendar.Recurrence
		rule  calendar.Recurrence
		after string
		most  int
	}{
		"a count":            {func(r calendar.Recurrence) calendar.Recurrence { return count(r) }, calendar.Daily{}, "2096-01-01T00:00:00Z", 10_001},
		"a count of a count": {func(r calendar.Recurrence) calendar.Recurrence { return count(count(r)) }, calendar.Daily{}, "2096-01-01T00:00:00Z", 10_001},
		"by pointers": {func(r calendar.Recurrence) calendar.Recurrence {
			inner := count(r)
			outer := count(&inner)
			return &outer
		}, calendar.Daily{}, "2096-01-01T00:00:00Z", 10_001},
		"exceptions to a count": {func(r calendar.Recurrence) calendar.Recurrence { return calendar.Bounded{Rule: count(r), Except: days} }, calendar.Daily{}, "2025-01-01T00:00:00Z", 3001},
		"a count of what gaps take": {func(r calendar.Recurrence) calendar.Recurrence {
			return calendar.Bounded{Rule: r, Start: wall(t, "1800-01-01T00:00:00"), Count: 10_000}
		}, inGaps, "2026-06-01T00:00:00Z", 20_000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			asked := 0
			rule := tt.bound(opaque{tt.rule, &asked})
			got, err := calendar.Next(rule, zone(t, "America/New_York"), calendar.Policies{Gap: calendar.GapSkip}, instant(t, tt.after))

			if err != nil && !errors.Is(err, calendar.ErrNoOccurrence) {
				t.Fatal(err)
			}
			if asked > tt.most {
				t.Errorf("Next = %q, %v after %d questions, want %d at most", got.Key, err, asked, tt.most)
			}
		})
	}
}

// An RRULE cannot be asked how often it was; each time it is, it takes memory. Not
// parallel: what others allocate would count.
func TestCountingIteratesAnRRuleOnce(t *testing.T) {
	const count = 2000
	start := wall(t, "2026-01-01T09:00:00")
	daily := rrule(t, fmt.Sprintf("FREQ=DAILY;COUNT=%d", count), "2026-01-01T09:00:00")
	b := calendar.Bounded{Rule: daily, Start: start, Count: count}

	if n := testing.AllocsPerRun(1, func() {
		if got, err := b.After(wall(t, "2096-01-01T00:00:00"), calendar.Policies{}); !errors.Is(err, calendar.ErrNoOccurrence) {
			t.Errorf("after the last one comes %v, %v; want ErrNoOccurrence", got, err)
		}
	}); n > 5*count {
		t.Errorf("counting %d slots allocates %v times, want 5 times for each at most", count, n)
	}
}

// What a gap takes is not counted where it is left out, and what follows many of them is found.
func TestNextFindsTheSlotAfterManyGapsInACount(t *testing.T) {
	t.Parallel()

	var l calendartest.Listed
	for year := 2026; year < 2046; year++ {
		second := 14 - int(time.Date(year, 3, 14, 0, 0, 0, 0, time.UTC).Weekday())
		l = append(l, calendar.WallTime{Date: date(year, 3, second), Clock: calendar.Clock{Hour: 2, Minute: 30}})
	}
	last := wall(t, "2046-06-01T09:00:00")
	l = append(l, last)
	b := calendar.Bounded{Rule: l, Start: l[0], Count: 1}
	newYork, skip, after := zone(t, "America/New_York"), calendar.Policies{Gap: calendar.GapSkip}, instant(t, "2026-01-01T00:00:00Z")

	if got, err := calendar.Next(b, newYork, skip, after); err != nil || got.Wall != last {
		t.Errorf("after %d gaps comes %v, %v; want %v", len(l)-1, got.Wall, err, last)
	}
	if got, err := calendar.Next(b, newYork, calendar.Policies{}, after); err != nil || got.Wall != l[0] {
		t.Errorf("where the first gap moves it, it is %v, %v; want %v", got.Wall, err, l[0])
	}
	if got, err := calendar.Next(b, newYork, skip, instant(t, "2046-07-01T00:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
		t.Errorf("after the only one comes %v, %v; want ErrNoOccurrence", got.Wall, err)
	}
}

// RFC 5545 section 3.3.10: a time that clocks skip is ignored, and not counted. That is so under
// the policy skip; under all others it happens, and counts.
func TestACountExcludesSkippedSlots(t *testing.T) {
	t.Parallel()

	const begin = "2026-03-07T02:30:00"
	daily := calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}
	counted := calendar.Bounded{Rule: daily, Start: wall(t, begin), Count: 3}
	ruled := rrule(t, "FREQ=DAILY;COUNT=3", begin)
	bySet := set(t, "DTSTART;TZID=America/New_York:20260307T023000", "RRULE:FREQ=DAILY;COUNT=3")
	late := calendar.Clock{Hour: 23}
	rules := map[string]calendar.Recurrence{
		"bounded":                    counted,
		"bounded, by a pointer":      &counted,
		"an RRULE":                   ruled,
		"an RRULE by a pointer":      &ruled,
		"a bounded RRULE":            calendar.Bounded{Rule: ruled, Start: wall(t, begin), Count: 5},
		"a set":                      bySet,
		"a set by a pointer":         &bySet,
		"bounded twice":              calendar.Bounded{Rule: counted, Start: wall(t, begin), Count: 3},
		"on the evening of each day": calendar.Offset{Of: ruled, At: late},
		"bounded on the evening":     calendar.Offset{Of: &counted, At: late},
	}
	for name, rule := range rules {
		for policy, want := range map[calendar.GapPolicy]string{calendar.GapSkip: "7 9 10", calendar.GapForward: "7 8 9", calendar.GapBackward: "7 8 9"} {
			t.Run(name+" "+string(policy), func(t *testing.T) {
				t.Parallel()

				var days []string
				for next, err := range calendar.Occurrences(rule, zone(t, "America/New_York"), calendar.Policies{Gap: policy}, time.Time{}) {
					if err != nil {
						t.Fatal(err)
					}
					days = append(days, fmt.Sprint(next.Wall.Date.Day))
				}
				if got := strings.Join(days, " "); got != want {
					t.Errorf("on the days %s, want %s", got, want)
				}
			})
		}
	}
}

// Clocks in Apia skipped a whole day, which has 86,400 slots of a rule of every second.
func TestACountPassesOverASkippedDay(t *testing.T) {
	t.Parallel()

	apia, skip := zone(t, "Pacific/Apia"), calendar.Policies{Gap: calendar.GapSkip}
	rule := rrule(t, "FREQ=SECONDLY;COUNT=4", "2011-12-29T23:59:58")
	var walls []string
	for next, err := range calendar.Occurrences(rule, apia, skip, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		walls = append(walls, next.Wall.String())
	}
	want := []string{"2011-12-29T23:59:58", "2011-12-29T23:59:59", "2011-12-31T00:00:00", "2011-12-31T00:00:01"}
	if !slices.Equal(walls, want) {
		t.Errorf("%q, want %q", walls, want)
	}
}

// A count of slots that are all skipped comes to an end.
func TestACountOfSkippedSlotsEnds(t *testing.T) {
	t.Parallel()

	newYork, skip := zone(t, "America/New_York"), calendar.Policies{Gap: calendar.GapSkip}
	var sixty []string
	for n := range 60 {
		sixty = append(sixty, fmt.Sprint(n))
	}
	all := strings.Join(sixty, ",")
	for _, rule := range []calendar.Recurrence{
		rrule(t, "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU;BYHOUR=2;BYMINUTE="+all+";BYSECOND="+all+";COUNT=10", "2026-01-01T00:00:00"),
		calendar.Bounded{Rule: rrule(t, "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU", "2026-01-01T02:30:00"), Start: wall(t, "2026-01-01T00:00:00"), Count: 3},
	} {
		if got, err := calendar.Next(rule, newYork, skip, instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, calendar.ErrNoOccurrence) {
			t.Errorf("%v: %v, %v; want ErrNoOccurrence", rule, got.Wall, err)
		}
	}
}

// oddDays is a host's rule that embeds one of ours, and has methods from it.
type oddDays struct{ calendar.RRule }

func (o oddDays) After(w calendar.WallTime, p calendar.Policies) (calendar.Slot, error) {
	for {
		slot, err := o.RRule.After(w, p)
		if err != nil || slot.Wall.Date.Day%2 == 1 {
			return slot, err
		}
		w = slot.Wall
	}
}

func TestBoundedCallsARuleThatEmbedsAnother(t *testing.T) {
	t.Parallel()

	odd := oddDays{rrule(t, "FREQ=DAILY;COUNT=9", "2026-03-01T09:00:00")}
	start, at := wall(t, "2026-03-01T00:00:00"), wall(t, "2026-01-01T00:00:00")
	checkSlots(t, map[string]slotCase{
		"counted":                    {calendar.Bounded{Rule: odd, Start: start, Count: 3}, calendar.Policies{}, "", "2026-03-01T09:00 2026-03-03T09:00 2026-03-05T09:00 end"},
		"not counted":                {calendar.Bounded{Rule: odd, Start: start}, calendar.Policies{}, "2026-03-06T00:00:00", "2026-03-07T09:00 2026-03-09T09:00 end"},
		"a rule that repeats a slot": {calendar.Bounded{Rule: stuck{at}, Start: start, Count: 3}, calendar.Policies{}, "", "end"},
	})
}
