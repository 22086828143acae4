package rrule_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	reference "github.com/teambition/rrule-go"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/internal/rrule"
)

// TestNextAgreesWithBruteForce writes series out day by day and time by time.
func TestNextAgreesWithBruteForce(t *testing.T) {
	t.Parallel()

	periods := map[string]int{"YEARLY": 5, "MONTHLY": 26, "WEEKLY": 60, "DAILY": 120, "HOURLY": 400, "MINUTELY": 400, "SECONDLY": 400}
	rapid.Check(t, func(t *rapid.T) {
		s, start := someSpec(t), someStart(t)
		s.skip = rapid.SampledFrom([]string{"", "", "OMIT", "BACKWARD", "FORWARD"}).Draw(t, "skip")
		rule, err := rrule.Parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		want, complete := s.oracle(start, periods[s.freq])
		after := start.Add(-time.Second)
		for _, r := range want[:min(len(want), 300)] {
			got, ok := next(rule, start, after)
			if !ok || got != r {
				t.Fatalf("%s from %s: after %s comes %v, want %v", s, start, after, got, r)
			}
			after = r.at
		}
		after = time.Unix(rapid.Int64Range(start.Unix()-5, complete.Unix()).Draw(t, "after"), 0).UTC()
		want = slices.DeleteFunc(want, func(r reading) bool { return !r.at.After(after) })
		got, ok := next(rule, start, after)
		if len(want) > 0 && (!ok || got != want[0]) {
			t.Fatalf("%s from %s: after %s comes %v, want %v", s, start, after, got, want[0])
		}
		if len(want) == 0 && ok && got.at.Before(complete) {
			t.Fatalf("%s from %s: after %s comes %v, want none before %s", s, start, after, got, complete)
		}
	})
}

func TestSlotsAgreeWithRepeatedNext(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s, start := someSpec(t), someStart(t)
		s.skip = rapid.SampledFrom([]string{"", "BACKWARD", "FORWARD"}).Draw(t, "skip")
		rule, err := rrule.Parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		after := start.Add(time.Duration(rapid.IntRange(-1, 90*86400).Draw(t, "after")) * time.Second)
		left := 50
		for got := range rule.Slots(start, after) {
			if want, ok := rule.Next(start, after); !ok || got != want {
				t.Fatalf("%s from %s: after %s comes %v, want %v", s, start, after, got, want)
			}
			if after, left = got.Wall, left-1; left == 0 {
				return
			}
		}
		if more, ok := rule.Next(start, after); ok {
			t.Fatalf("%s from %s: after %s comes nothing, want %v", s, start, after, more)
		}
	})
}

func next(rule rrule.Rule, start, after time.Time) (reading, bool) {
	slot, ok := rule.Next(start, after)
	r := reading{at: slot.Wall}
	if slot.Day != 0 {
		r.named = fmt.Sprintf("%04d-%02d-%d", slot.Year, slot.Month, slot.Day)
	}
	return r, ok
}

// TestNextAgreesWithTheReference compares with another implementation where that is
// sound. By its faults, or by another reading of the RFC, it differs on plain and
// numbered days together, on the sixth weekday of a month, on the first and the last
// weeks of years, on numbered weeks without a weekday, and on the first week of a
// weekly BYSETPOS; it knows no SKIP. Its search for what never comes does not end, so
// it is not asked for more than there is.
func TestNextAgreesWithTheReference(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s, start := sound(someSpec(t)), someStart(t)
		if start.IsZero() {
			start = start.AddDate(0, 0, 1) // to the reference the zero time is now
		}
		rule, err := rrule.Parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		other, err := reference.NewRRule(s.reference(start))
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		theirs := other.Iterator()
		after := start.Add(-time.Second)
		for range 100 {
			got, ok := next(rule, start, after)
			if !ok || got.at.Year() > start.Year()+20 {
				break
			}
			if want, ok := theirs(); !ok || want != got.at {
				t.Fatalf("%s from %s: after %s comes %s, the reference has %s", s, start, after, got.at, want)
			}
			after = got.at
		}
	})
}

func sound(s spec) spec {
	s.skip = ""
	plain := slices.ContainsFunc(s.day, func(n nth) bool { return n.n == 0 })
	for i, n := range s.day {
		if plain {
			s.day[i].n = 0
		} else if s.freq == "MONTHLY" || s.month != nil {
			s.day[i].n = min(max(n.n, -5), 5)
		}
	}
	if s.weekNo != nil {
		s.weekNo = slices.DeleteFunc(s.weekNo, func(n int) bool { return max(n, -n) > 51 })
		s.weekNo = append(s.weekNo, 20)
		if s.day == nil && s.yearDay == nil && s.monthDay == nil {
			s.day = []nth{{0, time.Tuesday}}
		}
	}
	if s.freq == "WEEKLY" {
		s.at = nil
	}
	return s
}

func (s spec) reference(start time.Time) reference.ROption {
	frequencies := []string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"}
	days := []reference.Weekday{reference.SU, reference.MO, reference.TU, reference.WE, reference.TH, reference.FR, reference.SA}
	option := reference.ROption{
		Freq: reference.Frequency(slices.Index(frequencies, s.freq)), Dtstart: start, Interval: s.interval, Count: s.count, Wkst: days[s.wkst],
		Bymonth: s.month, Byweekno: s.weekNo, Byyearday: s.yearDay, Bymonthday: s.monthDay,
		Byhour: s.hour, Byminute: s.minute, Bysecond: s.second, Bysetpos: s.at,
	}
	for _, n := range s.day {
		option.Byweekday = append(option.Byweekday, days[n.w].Nth(n.n))
	}
	return option
}

func someStart(t *rapid.T) time.Time {
	first := time.Date(rapid.SampledFrom([]int{1, 1969, 1999, 2023, 2024, 2096, 2026}).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
	start := first.AddDate(0, 0, rapid.OneOf(rapid.IntRange(0, 365), rapid.SampledFrom([]int{0, 29, 30, 58, 59, 364})).Draw(t, "day"))
	return start.Add(time.Duration(rapid.IntRange(0, 86399).Draw(t, "second")) * time.Second)
}

func someSpec(t *rapid.T) spec {
	s := spec{
		freq: rapid.SampledFrom([]string{"YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"}).Draw(t, "freq"),
		wkst: time.Weekday(rapid.IntRange(0, 6).Draw(t, "wkst")),
	}
	short := s.unit() != 0
	intervals := []int{1, 1, 1, 2, 3, 5}
	if short {
		intervals = []int{1, 1, 7, 11, 25, 90, 1440, 5000}
	}
	s.interval = rapid.SampledFrom(intervals).Draw(t, "interval")
	s.count = rapid.SampledFrom([]int{0, 0, 0, 1, 5, 40}).Draw(t, "count")
	list := func(name string, one *rapid.Generator[int], likely bool) []int {
		if rapid.IntRange(0, 9).Draw(t, name+" given") < 7 != likely {
			return nil
		}
		return rapid.SliceOfNDistinct(one, 1, 4, rapid.ID[int]).Draw(t, name)
	}
	signed := func(high int) *rapid.Generator[int] {
		return rapid.OneOf(rapid.IntRange(1, high), rapid.IntRange(-high, -1), rapid.SampledFrom([]int{1, -1, high, high - 1, 1 - high, -high}))
	}
	s.month = list("month", rapid.IntRange(1, 12), false)
	if s.freq == "YEARLY" {
		s.weekNo = list("week", signed(53), false)
	}
	if s.freq == "YEARLY" || short {
		s.yearDay = list("day of year", signed(366), false)
	}
	if s.freq != "WEEKLY" {
		s.monthDay = list("day of month", signed(31), false)
	}
	ordinals := rapid.Just(0)
	if s.weekNo == nil && (s.freq == "MONTHLY" || s.freq == "YEARLY") {
		ordinals = rapid.OneOf(rapid.Just(0), rapid.IntRange(-5, 5), rapid.IntRange(-53, 53))
	}
	for _, w := range list("weekday", rapid.IntRange(0, 6), true) {
		s.day = append(s.day, nth{ordinals.Draw(t, "ordinal"), time.Weekday(w)})
	}
	s.hour = list("hour", rapid.IntRange(0, 23), false)
	s.minute = list("minute", rapid.IntRange(0, 59), false)
	s.second = list("second", rapid.IntRange(0, 59), false)
	if s.month != nil || s.monthDay != nil || s.day != nil || s.hour != nil {
		s.at = list("position", rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(-3, -1), signed(366)), false)
	}
	return s
}
