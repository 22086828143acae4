package calendar_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
)

// A wrapper is a recurrence around another one. If keeps is true, it is a Within, and its slots are in the
// window and on working days.
type wrapper struct {
	name   string
	around func(calendar.Recurrence) calendar.Recurrence
	keeps  *calendar.Within
}

// wrappersOf returns the wrappers of which every pair is tested.
func wrappersOf(tb testing.TB) []wrapper {
	work := workCalendar(tb, "TEST", "2026-12-25 holiday", "2027-01-01 holiday", "2027-01-06 holiday", "2027-03-29 holiday")
	within := func(name string, w calendar.Within) wrapper {
		around := func(r calendar.Recurrence) calendar.Recurrence {
			of := w // a copy: courses run side by side
			of.Of = r
			return of
		}
		return wrapper{name, around, &w}
	}
	office, night := window(tb, "Mo-Fr 09:00-18:00; Sa 10:00-14:00"), window(tb, "Mo-Su 22:00-02:30")
	return []wrapper{
		within("working days", calendar.Within{WorkDays: work}),
		within("modified following", calendar.Within{WorkDays: work, Convention: calendar.ModifiedFollowing}),
		within("preceding", calendar.Within{WorkDays: work, Convention: calendar.Preceding}),
		within("nearest, each", calendar.Within{WorkDays: work, Convention: calendar.Nearest, Each: true}),
		within("window", calendar.Within{Window: office}),
		within("window over midnight", calendar.Within{Window: night, KeepDay: true}),
		within("window and holidays", calendar.Within{Window: office.ClosedOnHolidays(work), Convention: calendar.SkipDay}),
		within("working days and window", calendar.Within{WorkDays: work, Window: office}),
		{"days before", func(r calendar.Recurrence) calendar.Recurrence {
			return calendar.Offset{Of: r, Days: -3, At: calendar.Clock{Hour: 23, Minute: 30}}
		}, nil},
		{"working days after", func(r calendar.Recurrence) calendar.Recurrence {
			return calendar.Offset{Of: r, Days: 2, WorkDays: work, At: calendar.Clock{Hour: 2, Minute: 30}}
		}, nil},
		{"bounded", func(r calendar.Recurrence) calendar.Recurrence {
			return calendar.Bounded{Rule: r, Start: wall(tb, "2000-01-01T00:00:00")}
		}, nil},
	}
}

// wrapped returns the rules that are wrapped.
func wrapped() map[string]calendar.Recurrence {
	late, early := calendar.Clock{Hour: 23, Minute: 30}, calendar.Clock{Hour: 2, Minute: 30}
	return map[string]calendar.Recurrence{
		"daily":     calendar.Daily{At: early},
		"weekly":    calendar.Weekly{On: []time.Weekday{time.Saturday, time.Sunday}, At: late},
		"monthly":   calendar.Monthly{Day: 31, At: early},
		"by a moon": calendar.YearlyBy{System: lunar, Month: 3, Day: 30, At: late},
		"midnight":  calendar.Weekly{On: []time.Weekday{time.Monday}, At: calendar.Clock{}},
	}
}

// A pair is a rule in two wrappers, asked in a zone around a clock change of a year.
type pair struct {
	rule         string
	inner, outer wrapper
	zone         calendar.Timezone
	policies     calendar.Policies
	year         int
}

func (p pair) String() string {
	return fmt.Sprintf("%s of %s of %s, %s %d, %v", p.outer.name, p.inner.name, p.rule, p.zone, p.year, p.policies)
}

// check returns what is wrong with the first occurrences: they come in order, under ascending keys of the inner
// rule; the answer does not depend on the instant from which it is sought; a Within keeps its promise; and a
// spread stays in the interval.
func (p pair) check(rules map[string]calendar.Recurrence) error {
	r := p.outer.around(p.inner.around(rules[p.rule]))
	after := time.Date(p.year, 2, 26, 0, 0, 0, 0, time.UTC)
	if change, ok := p.zone.NextChange(after); ok && change.At.Year() == p.year {
		after = change.At.Add(-50 * time.Hour)
	}
	key := ""
	for range 4 {
		o, err := calendar.Next(r, p.zone, p.policies, after)
		if err != nil {
			return fmt.Errorf("after %s: %w", after, err)
		}
		at := o.Resolution.Instant
		if !at.After(after) || o.Key <= key {
			return fmt.Errorf("%s at %s comes after %s at %s", o.Key, at, key, after)
		}
		for _, from := range []time.Time{at.Add(-time.Second), after.Add(at.Sub(after) / 2).Truncate(time.Second)} {
			if again, err := calendar.Next(r, p.zone, p.policies, from); err != nil || again.Key != o.Key || again.Wall != o.Wall {
				return fmt.Errorf("from %s: %s at %s, %w; want %s at %s", from, again.Key, again.Wall, err, o.Key, o.Wall)
			}
		}
		if w := p.outer.keeps; w != nil && !keeps(*w, o.Wall) {
			return fmt.Errorf("%s at %s is outside", o.Key, o.Wall)
		}
		if err := p.spread(o); err != nil {
			return err
		}
		after, key = at, o.Key
	}
	return nil
}

// keeps reports whether a wall time is in the window and on a working day, as in an interval that begins on one.
func keeps(w calendar.Within, at calendar.WallTime) bool {
	works := true
	if w.WorkDays != nil {
		works, _ = w.WorkDays.IsWorking(at.Date)
	}
	return works && w.Window.Includes(at)
}

// spread checks an occurrence that is spread over a day.
func (p pair) spread(o calendar.Occurrence) error {
	left, ok := o.OpenFor()
	at := o.Resolution.Instant
	if change, changes := p.zone.NextChange(at.Add(-24 * time.Hour)); p.outer.keeps == nil || changes && change.At.Before(at.Add(48*time.Hour)) {
		return nil // the clocks that change show what the interval lacks
	}
	if !ok {
		return fmt.Errorf("%s at %s: it is in no interval", o.Key, o.Wall)
	}
	if left <= 0 {
		return fmt.Errorf("%s at %s: its interval has no time left", o.Key, o.Wall)
	}
	for _, by := range []time.Duration{left / 3, left - time.Microsecond} {
		if start := p.zone.WallTime(at.Add(min(by, 24*time.Hour))); !keeps(*p.outer.keeps, start) {
			return fmt.Errorf("%s at %s starts at %s, outside", o.Key, o.Wall, start)
		}
	}
	return nil
}

// pairPolicies are the policies in which pairs are tested.
var pairPolicies = []calendar.Policies{
	{}, {Gap: calendar.GapSkip, MonthEnd: calendar.MonthEndSkip}, {Gap: calendar.GapBackward, Fold: calendar.FoldSecond}, {Gap: calendar.GapBoundary},
}

// All pairs, zones and years are tested with the tag long.
func TestEveryPairOfWrappersKeepsTheLaws(t *testing.T) {
	t.Parallel()
	wrappers, rules := wrappersOf(t), wrapped()
	names := slices.DeleteFunc(calendar.TimezoneNames(), func(name string) bool {
		_, err := calendar.LoadTimezone(name)
		return err != nil
	})
	rapid.Check(t, func(t *rapid.T) {
		zone, err := calendar.LoadTimezone(rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		p := pair{
			rule:  rapid.SampledFrom([]string{"daily", "weekly", "monthly", "by a moon", "midnight"}).Draw(t, "rule"),
			inner: wrappers[rapid.IntRange(0, len(wrappers)-1).Draw(t, "inner")], outer: wrappers[rapid.IntRange(0, len(wrappers)-1).Draw(t, "outer")],
			zone: zone, policies: rapid.SampledFrom(pairPolicies).Draw(t, "policies"), year: rapid.IntRange(2007, 2036).Draw(t, "year"),
		}
		if err := p.check(rules); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
	})
}
