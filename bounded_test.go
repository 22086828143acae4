package almanac_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

func TestBoundedYieldsSlots(t *testing.T) {
	t.Parallel()

	daily := almanac.Daily{At: almanac.Clock{Hour: 9}}
	monthly := almanac.Monthly{Day: 31, At: almanac.Clock{Hour: 9}}
	at := func(day int) almanac.WallTime {
		return almanac.WallTime{Date: date(2026, 3, day), Clock: almanac.Clock{Hour: 9}}
	}
	between := func(start, end int) almanac.Bounded {
		return almanac.Bounded{Rule: daily, Start: at(start), End: at(end)}
	}
	from := func(day int) almanac.Bounded { return almanac.Bounded{Rule: daily, Start: at(day)} }
	counted := func(count int, except ...almanac.WallTime) almanac.Bounded {
		return almanac.Bounded{Rule: daily, Start: at(1), Count: count, Except: except}
	}
	second := time.Second
	moved := func(w almanac.WallTime, by time.Duration) almanac.WallTime {
		return almanac.WallTimeOf(w.Labelled().Add(by))
	}
	checkSlots(t, map[string]slotCase{
		"without bounds, the rule itself":   {almanac.Bounded{Rule: daily}, almanac.Policies{}, "", "0001-01-01T09:00 0001-01-02T09:00"},
		"a slot at the start counts":        {from(1), almanac.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00"},
		"a slot before the start does not":  {almanac.Bounded{Rule: daily, Start: moved(at(1), second)}, almanac.Policies{}, "", "2026-03-02T09:00"},
		"asked after the start":             {from(1), almanac.Policies{}, "2026-03-05T10:00:00", "2026-03-06T09:00"},
		"asked at the start":                {from(1), almanac.Policies{}, "2026-03-01T09:00:00", "2026-03-02T09:00"},
		"a slot at the end counts":          {between(1, 3), almanac.Policies{}, "2026-03-01T09:00:00", "2026-03-02T09:00 2026-03-03T09:00 end"},
		"a slot after the end does not":     {almanac.Bounded{Rule: daily, End: moved(at(3), -second)}, almanac.Policies{}, "2026-03-01T09:00:00", "2026-03-02T09:00 end"},
		"an end before the start":           {between(3, 1), almanac.Policies{}, "", "end"},
		"a start that is the end":           {between(3, 3), almanac.Policies{}, "", "2026-03-03T09:00 end"},
		"an end alone":                      {almanac.Bounded{Rule: daily, End: at(3)}, almanac.Policies{}, "2026-03-02T09:00:00", "2026-03-03T09:00 end"},
		"a start on the first day of all":   {almanac.Bounded{Rule: monthly, Start: wall(t, "0001-01-01T00:00:00"), Count: 1}, almanac.Policies{}, "", "0001-01-31T09:00 end"},
		"three of them":                     {counted(3), almanac.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 2026-03-03T09:00 end"},
		"the third of three":                {counted(3), almanac.Policies{}, "2026-03-02T09:00:00", "2026-03-03T09:00 end"},
		"none after three":                  {counted(3), almanac.Policies{}, "2027-01-01T00:00:00", "end"},
		"one":                               {counted(1), almanac.Policies{}, "", "2026-03-01T09:00 end"},
		"the count and the end, end first":  {almanac.Bounded{Rule: daily, Start: at(1), End: at(2), Count: 3}, almanac.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"the count and the end, count":      {almanac.Bounded{Rule: daily, Start: at(1), End: at(5), Count: 2}, almanac.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"an exception":                      {almanac.Bounded{Rule: daily, Except: []almanac.WallTime{at(2), at(4)}}, almanac.Policies{}, "2026-03-01T00:00:00", "2026-03-01T09:00 2026-03-03T09:00 2026-03-05T09:00"},
		"exceptions are counted":            {counted(3, at(2)), almanac.Policies{}, "", "2026-03-01T09:00 2026-03-03T09:00 end"},
		"an exception that is last":         {counted(3, at(3)), almanac.Policies{}, "2026-03-02T09:00:00", "end"},
		"nothing but exceptions":            {counted(2, at(1), at(2)), almanac.Policies{}, "", "end"},
		"an exception that is no slot":      {counted(2, at(9), moved(at(2), second)), almanac.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"policies reach the rule":           {almanac.Bounded{Rule: monthly, Start: at(1), Count: 2}, almanac.Policies{MonthEnd: almanac.MonthEndSkip}, "", "2026-03-31T09:00 2026-05-31T09:00 end"},
		"the day meant comes through":       {almanac.Bounded{Rule: monthly, Start: wall(t, "2026-04-01T00:00:00"), Count: 1}, almanac.Policies{}, "", "2026-04-30T09:00(2026-04-31) end"},
		"bounds within bounds":              {almanac.Bounded{Rule: between(1, 5), Start: at(4), Except: []almanac.WallTime{at(4)}}, almanac.Policies{}, "", "2026-03-05T09:00 end"},
		"an RRULE from its own start":       {almanac.Bounded{Rule: rrule(t, "FREQ=DAILY;COUNT=3", "2026-03-01T09:00:00"), Start: at(2), Count: 9}, almanac.Policies{}, "", "2026-03-02T09:00 2026-03-03T09:00 end"},
		"a UNTIL that is a date":            {almanac.Bounded{Rule: rrule(t, "FREQ=DAILY;UNTIL=20260302", "2026-03-01T09:00:00")}, almanac.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"a UNTIL that is a wall time":       {almanac.Bounded{Rule: rrule(t, "FREQ=DAILY;UNTIL=20260302T085959", "2026-03-01T09:00:00")}, almanac.Policies{}, "", "2026-03-01T09:00 end"},
		"cron between two days":             {almanac.Bounded{Rule: cron(t, "0 9 * * *"), Start: at(1), End: at(2)}, almanac.Policies{}, "", "2026-03-01T09:00 2026-03-02T09:00 end"},
		"a rule that ends before the start": {almanac.Bounded{Rule: almanac.Once{At: at(1)}, Start: at(2)}, almanac.Policies{}, "", "end"},
	})
}

// The last of ten thousand is counted to, and no further.
func TestBoundedCountsToTenThousand(t *testing.T) {
	t.Parallel()

	b := almanac.Bounded{Rule: almanac.Daily{}, Start: wall(t, "2026-01-01T00:00:00"), Count: 10_000}
	last := b.Start.Date
	last.Day += 10_000 - 1
	want := almanac.WallTimeOf(almanac.WallTime{Date: last}.Labelled())

	got, err := b.After(almanac.WallTimeOf(want.Labelled().Add(-time.Second)), almanac.Policies{})

	if err != nil || got.Wall != want {
		t.Errorf("the last one is %v, %v; want %v", got, err, want)
	}
	if got, err := b.After(want, almanac.Policies{}); !errors.Is(err, almanac.ErrNoOccurrence) {
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
		rule almanac.Recurrence
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
		"through bounds":            {almanac.Bounded{Rule: daily, Start: second}, "America/New_York", "02 end"},
		"through bounds in bounds":  {almanac.Bounded{Rule: almanac.Bounded{Rule: daily}, Except: []almanac.WallTime{second}}, "UTC", "01 03 end"},
		"an end that comes earlier": {almanac.Bounded{Rule: daily, End: second}, "UTC", "01 02 end"},
		"a count that comes later":  {almanac.Bounded{Rule: daily, Start: second, Count: 9}, "America/New_York", "02 end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := ""
			for next, err := range almanac.Occurrences(tt.rule, zone(t, tt.zone), almanac.Policies{}, instant(t, "2026-01-01T00:00:00Z")) {
				if err != nil {
					t.Fatal(err)
				}
				got += fmt.Sprintf("%02d ", next.Occurrence.Wall.Date.Day)
			}
			if got += "end"; got != tt.want {
				t.Errorf("%+v in %s: days %s, want %s", tt.rule, tt.zone, got, tt.want)
			}
		})
	}
}

// A slot that no clock shows, and that would come after UNTIL, is nobody's trouble:
// the series has ended.
func TestUntilInUTCEndsBeforeWhatAPolicyRefuses(t *testing.T) {
	t.Parallel()

	daily := rrule(t, "FREQ=DAILY;UNTIL=20260307T235959Z", "2026-03-01T02:30:00")
	after := instant(t, "2026-03-07T12:00:00Z")
	for _, gap := range []almanac.GapPolicy{almanac.GapForward, almanac.GapBackward, almanac.GapBoundary, almanac.GapSkip, almanac.GapReject} {
		t.Run(string(gap), func(t *testing.T) {
			t.Parallel()

			got, err := almanac.Next(daily, zone(t, "America/New_York"), almanac.Policies{Gap: gap}, after)

			if !errors.Is(err, almanac.ErrNoOccurrence) {
				t.Errorf("%s after %v = %+v, %v; want ErrNoOccurrence", daily, after, got, err)
			}
		})
	}
}

func TestBoundedNamesEveryProblem(t *testing.T) {
	t.Parallel()

	daily := almanac.Daily{}
	start, nowhere := wall(t, "2026-03-01T09:00:00"), almanac.WallTime{Date: date(2026, 2, 30)}
	tests := map[string]struct {
		bounded almanac.Bounded
		want    []string
	}{
		"the zero Bounded":            {almanac.Bounded{}, []string{"no rule"}},
		"a start on no calendar":      {almanac.Bounded{Rule: daily, Start: nowhere}, []string{"start 2026-02-30"}},
		"an end on no calendar":       {almanac.Bounded{Rule: daily, End: nowhere}, []string{"end 2026-02-30"}},
		"a negative count":            {almanac.Bounded{Rule: daily, Start: start, Count: -1}, []string{"count of -1"}},
		"a count too many":            {almanac.Bounded{Rule: daily, Start: start, Count: 10_001}, []string{"count of 10001"}},
		"a count from nowhere":        {almanac.Bounded{Rule: daily, Count: 3}, []string{"needs a start"}},
		"all of it":                   {almanac.Bounded{Start: nowhere, End: nowhere, Count: 10_001}, []string{"no rule", "start", "end", "count of 10001"}},
		"no rule, and much too often": {almanac.Bounded{Count: 10_001}, []string{"no rule", "count of 10001", "needs a start"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := tt.bounded.After(start, almanac.Policies{})

			checkInvalid(t, err, "bounded", tt.want)
		})
	}
}

func TestBoundedPassesOnWhatIsWrongWithItsRule(t *testing.T) {
	t.Parallel()

	_, err := almanac.Bounded{Rule: almanac.Bounded{Rule: almanac.Monthly{}}}.After(wall(t, "2026-01-01T00:00:00"), almanac.Policies{})

	checkInvalid(t, err, "monthly", []string{"day 0"})
}

// opaque is a rule of the host's own, of which nothing is known but its After. It
// tells how often it was asked.
type opaque struct {
	almanac.Recurrence
	asked *int
}

func (o opaque) After(w almanac.WallTime, p almanac.Policies) (almanac.Slot, error) {
	*o.asked++
	return o.Recurrence.After(w, p)
}

// Counted rules within counted rules are walked through together, once.
func TestCountingAsksOncePerSlot(t *testing.T) {
	t.Parallel()

	start := wall(t, "2026-01-01T00:00:00")
	count := func(r almanac.Recurrence) almanac.Bounded {
		return almanac.Bounded{Rule: r, Start: start, Count: 10_000}
	}
	var days []almanac.WallTime
	for day := range 3000 {
		days = append(days, almanac.WallTimeOf(start.Labelled().AddDate(0, 0, day)))
	}
	inGaps := rrule(t, "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU", "1800-01-01T02:30:00")
	tests := map[string]struct {
		bound func(almanac.Recurrence) almanac.Recurrence
		rule  almanac.Recurrence
		after string
		most  int
	}{
		"a count":            {func(r almanac.Recurrence) almanac.Recurrence { return count(r) }, almanac.Daily{}, "2096-01-01T00:00:00Z", 10_001},
		"a count of a count": {func(r almanac.Recurrence) almanac.Recurrence { return count(count(r)) }, almanac.Daily{}, "2096-01-01T00:00:00Z", 10_001},
		"by pointers": {func(r almanac.Recurrence) almanac.Recurrence {
			inner := count(r)
			outer := count(&inner)
			return &outer
		}, almanac.Daily{}, "2096-01-01T00:00:00Z", 10_001},
		"exceptions to a count": {func(r almanac.Recurrence) almanac.Recurrence { return almanac.Bounded{Rule: count(r), Except: days} }, almanac.Daily{}, "2025-01-01T00:00:00Z", 3001},
		"a count of what gaps take": {func(r almanac.Recurrence) almanac.Recurrence {
			return almanac.Bounded{Rule: r, Start: wall(t, "1800-01-01T00:00:00"), Count: 10_000}
		}, inGaps, "2026-06-01T00:00:00Z", 20_000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			asked := 0
			rule := tt.bound(opaque{tt.rule, &asked})
			got, err := almanac.Next(rule, zone(t, "America/New_York"), almanac.Policies{Gap: almanac.GapSkip}, instant(t, tt.after))

			if err != nil && !errors.Is(err, almanac.ErrNoOccurrence) {
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
func TestCountingAnRRuleGoesThroughItOnce(t *testing.T) {
	const count = 2000
	start := wall(t, "2026-01-01T09:00:00")
	daily := rrule(t, fmt.Sprintf("FREQ=DAILY;COUNT=%d", count), "2026-01-01T09:00:00")
	b := almanac.Bounded{Rule: daily, Start: start, Count: count}

	if n := testing.AllocsPerRun(1, func() {
		if got, err := b.After(wall(t, "2096-01-01T00:00:00"), almanac.Policies{}); !errors.Is(err, almanac.ErrNoOccurrence) {
			t.Errorf("after the last one comes %v, %v; want ErrNoOccurrence", got, err)
		}
	}); n > 5*count {
		t.Errorf("counting %d slots allocates %v times, want 5 times for each at most", count, n)
	}
}

// What a gap takes is counted as well, and what follows many of them is found.
func TestNextFindsWhatFollowsManyGapsInACount(t *testing.T) {
	t.Parallel()

	var l listed
	for year := 2026; year < 2046; year++ {
		second := 14 - int(time.Date(year, 3, 14, 0, 0, 0, 0, time.UTC).Weekday())
		l = append(l, almanac.WallTime{Date: date(year, 3, second), Clock: almanac.Clock{Hour: 2, Minute: 30}})
	}
	last := wall(t, "2046-06-01T09:00:00")
	l = append(l, last)
	b := almanac.Bounded{Rule: l, Start: l[0], Count: len(l)}
	newYork, skip, after := zone(t, "America/New_York"), almanac.Policies{Gap: almanac.GapSkip}, instant(t, "2026-01-01T00:00:00Z")

	if got, err := almanac.Next(b, newYork, skip, after); err != nil || got.Wall != last {
		t.Errorf("after %d gaps comes %v, %v; want %v", len(l)-1, got.Wall, err, last)
	}
	b.Count--
	if got, err := almanac.Next(b, newYork, skip, after); !errors.Is(err, almanac.ErrNoOccurrence) {
		t.Errorf("of gaps alone comes %v, %v; want ErrNoOccurrence", got.Wall, err)
	}
}

// oddDays is a host's rule that embeds one of ours, and has methods from it.
type oddDays struct{ almanac.RRule }

func (o oddDays) After(w almanac.WallTime, p almanac.Policies) (almanac.Slot, error) {
	for {
		slot, err := o.RRule.After(w, p)
		if err != nil || slot.Wall.Date.Day%2 == 1 {
			return slot, err
		}
		w = slot.Wall
	}
}

func TestBoundedAsksARuleThatEmbedsAnother(t *testing.T) {
	t.Parallel()

	odd := oddDays{rrule(t, "FREQ=DAILY;COUNT=9", "2026-03-01T09:00:00")}
	start, at := wall(t, "2026-03-01T00:00:00"), wall(t, "2026-01-01T00:00:00")
	checkSlots(t, map[string]slotCase{
		"counted":           {almanac.Bounded{Rule: odd, Start: start, Count: 3}, almanac.Policies{}, "", "2026-03-01T09:00 2026-03-03T09:00 2026-03-05T09:00 end"},
		"not counted":       {almanac.Bounded{Rule: odd, Start: start}, almanac.Policies{}, "2026-03-06T00:00:00", "2026-03-07T09:00 2026-03-09T09:00 end"},
		"one that is stuck": {almanac.Bounded{Rule: stuck{at}, Start: start, Count: 3}, almanac.Policies{}, "", "end"},
	})
}
