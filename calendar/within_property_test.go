package calendar_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

var conventions = []calendar.Convention{"", calendar.Following, calendar.ModifiedFollowing, calendar.Preceding, calendar.ModifiedPreceding, calendar.Nearest, calendar.SkipDay}

// drawWorkCalendar draws a calendar with days off and extra working days near a day.
func drawWorkCalendar(t *rapid.T, name string, near calendar.Date) *calendar.WorkCalendar {
	o := calendar.WorkCalendarOptions{Name: name, Release: "2026-01-01", Until: near.AddDays(20)}
	weeks := [][]time.Weekday{nil, {time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday}, {time.Tuesday, time.Friday}, {time.Monday}}
	if week := rapid.SampledFrom(weeks).Draw(t, "week"); week != nil {
		o.Weeks = []calendar.WorkWeek{{Days: week}}
	}
	for i := range 41 {
		day := calendar.NamedDay{Date: near.AddDays(i - 20), Name: fmt.Sprint("day ", i)}
		switch rapid.IntRange(0, 9).Draw(t, "kind of day") {
		case 0, 1:
			o.Holidays = append(o.Holidays, day)
		case 2:
			o.Work = append(o.Work, day)
		}
	}
	c, err := calendar.NewWorkCalendar(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A drawnWithin is a Within, and what its window is made of.
type drawnWithin struct {
	calendar.Within
	hours  []calendar.Hours // nil for the whole week
	closed *calendar.WorkCalendar
}

func drawWithin(t *rapid.T, s calendartest.Case) drawnWithin {
	near := s.DrawWall(t, "near").Date
	d := drawnWithin{Within: calendar.Within{
		Of: s.Rule, Convention: rapid.SampledFrom(conventions).Draw(t, "convention"), KeepDay: rapid.Bool().Draw(t, "keep day"),
	}}
	if rapid.Bool().Draw(t, "with a window") {
		clock := func(name string) calendar.Clock {
			m := rapid.IntRange(0, 24*4-1).Draw(t, name) * 15
			return calendar.Clock{Hour: m / 60, Minute: m % 60}
		}
		for range rapid.IntRange(1, 3).Draw(t, "intervals") {
			h := calendar.Hours{From: clock("from"), Until: clock("until")}
			for day := range 7 {
				if rapid.IntRange(0, 3).Draw(t, "on the day") > 0 {
					h.On = append(h.On, time.Weekday(day))
				}
			}
			d.hours = append(d.hours, h)
		}
		w, err := calendar.NewWindow(d.hours...)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "closed on holidays") {
			d.closed = drawWorkCalendar(t, "CLOSED", near)
			w = w.ClosedOnHolidays(d.closed)
		}
		d.Window = w
	}
	if d.hours == nil || rapid.Bool().Draw(t, "with working days") {
		d.WorkDays = drawWorkCalendar(t, "WORK", near)
		if _, err := d.After(calendar.WallTime{}, s.Policies); errors.Is(err, calendar.ErrInvalidRecurrence) {
			d.WorkDays = nil // the window never opens on them
		}
	}
	return d
}

// intervals returns the intervals that begin on a day, from wall time to wall time.
func (d drawnWithin) intervals(day calendar.Date) [][2]time.Time {
	if d.WorkDays != nil {
		if works, _ := d.WorkDays.IsWorking(day); !works {
			return nil
		}
	}
	if d.closed != nil {
		if _, off := d.closed.Holiday(day); off {
			return nil
		}
	}
	midnight := calendar.WallTime{Date: day}.Labelled()
	if d.hours == nil {
		return [][2]time.Time{{midnight, midnight.AddDate(0, 0, 1)}}
	}
	var list [][2]time.Time
	for _, h := range d.hours {
		if len(h.On) > 0 && !slices.Contains(h.On, day.Weekday()) {
			continue
		}
		from, until := calendar.WallTime{Date: day, Clock: h.From}.Labelled(), calendar.WallTime{Date: day, Clock: h.Until}.Labelled()
		if !until.After(from) {
			until = until.AddDate(0, 0, 1)
		}
		list = append(list, [2]time.Time{from, until})
	}
	slices.SortFunc(list, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	// Those that overlap are one, as is documented of no opening within another.
	var apart [][2]time.Time
	for _, one := range list {
		if n := len(apart) - 1; n >= 0 && !one[0].After(apart[n][1]) {
			apart[n][1] = slices.MaxFunc([]time.Time{apart[n][1], one[1]}, time.Time.Compare)
			continue
		}
		apart = append(apart, one)
	}
	return apart
}

func (d drawnWithin) opensOn(day calendar.Date, at time.Time) bool {
	return slices.ContainsFunc(d.intervals(day), func(one [2]time.Time) bool { return !at.Before(one[0]) && at.Before(one[1]) })
}

// walk returns the nearest day in a direction on which the window opens.
func (d drawnWithin) walk(day calendar.Date, step int) calendar.Date {
	for range 400 {
		if day = day.AddDays(step); len(d.intervals(day)) > 0 {
			return day
		}
	}
	return calendar.Date{}
}

// target is what the documentation of Within says, word for word: where a slot belongs, on which
// day, and whether it comes from a day off.
func (d drawnWithin) target(w calendar.WallTime) (to calendar.WallTime, dayOff, ok bool) {
	at, day := w.Labelled(), w.Date
	if d.opensOn(day, at) || d.opensOn(day.AddDays(-1), at) {
		return w, false, true
	}
	next, last := d.walk(day, 1), d.walk(day, -1)
	month := func(a calendar.Date) bool { return a.Month == day.Month && a.Year == day.Year }
	open := d.intervals(day)
	if len(open) > 0 {
		for _, one := range open {
			if one[0].After(at) {
				return calendar.WallTimeOf(one[0]), false, true
			}
		}
		if d.KeepDay || d.Convention == calendar.Preceding || d.Convention == calendar.ModifiedPreceding ||
			d.Convention == calendar.ModifiedFollowing && !month(next) || next == (calendar.Date{}) {
			return calendar.WallTimeOf(open[len(open)-1][0]), false, true
		}
		return calendar.WallTimeOf(d.intervals(next)[0][0]), false, true
	}
	to.Date = next
	switch d.Convention {
	case calendar.SkipDay:
		return to, true, false
	case calendar.Preceding:
		to.Date = last
	case calendar.ModifiedFollowing:
		if !month(next) {
			to.Date = last
		}
	case calendar.ModifiedPreceding:
		if to.Date = last; !month(last) {
			to.Date = next
		}
	case calendar.Nearest:
		if last.DaysUntil(day) < day.DaysUntil(next) {
			to.Date = last
		}
	}
	to.Clock = w.Clock
	if d.opensOn(to.Date, to.Labelled()) {
		return to, true, true
	}
	open = d.intervals(to.Date)
	for _, one := range open {
		if one[0].After(to.Labelled()) {
			return calendar.WallTimeOf(one[0]), true, true
		}
	}
	return calendar.WallTimeOf(open[len(open)-1][0]), true, true
}

// A movedSlot is a slot with its place.
type movedSlot struct {
	calendar.Slot
	to     calendar.WallTime
	dayOff bool
}

// kept lists what the documentation says of slots that meet, over all slots at once.
func (d drawnWithin) kept(all []movedSlot) []movedSlot {
	var kept []movedSlot
	for i, s := range all {
		stays := func(o movedSlot) bool { return o.Wall == s.to && o.to == o.Wall }
		home := func(o movedSlot) bool {
			own := !o.dayOff && o.Wall.Date == s.to.Date && o.to.Date == s.to.Date
			return own || o.dayOff && o.to.Date == s.to.Date && o.Wall.Date.Before(s.Wall.Date)
		}
		switch {
		case s.dayOff && slices.ContainsFunc(all, home), s.to != s.Wall && !s.dayOff && slices.ContainsFunc(all, stays):
		case slices.ContainsFunc(kept, func(o movedSlot) bool { return !o.to.Before(s.to) }):
		default:
			kept = append(kept, all[i])
		}
	}
	return kept
}

// Within yields what its documentation says, from whichever wall time it is asked.
func TestWithinIsWhatIsDocumented(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := calendartest.DrawCase(t)
		d := drawWithin(t, s)
		middle := s.DrawWall(t, "from")
		var all []movedSlot
		for w := (calendar.WallTime{Date: middle.Date.AddDays(-75)}); len(all) < 5000; {
			slot, err := s.Rule.After(w, s.Policies)
			if errors.Is(err, calendar.ErrNoOccurrence) || err == nil && middle.Date.AddDays(75).Before(slot.Wall.Date) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			w = slot.Wall
			if to, dayOff, ok := d.target(w); ok {
				all = append(all, movedSlot{slot, to, dayOff})
			}
		}
		var want []movedSlot
		for _, k := range d.kept(all) {
			if middle.Before(k.to) && k.to.Date.Before(middle.Date.AddDays(15)) {
				want = append(want, k)
			}
		}
		w := middle
		for i := range min(len(want), 25) {
			k := want[i]
			between := calendar.WallTimeOf(w.Labelled().Add(k.to.Labelled().Sub(w.Labelled()) / 2).Truncate(time.Second))
			for _, from := range []calendar.WallTime{w, between, calendar.WallTimeOf(k.to.Labelled().Add(-time.Second))} {
				if !from.Before(k.to) {
					continue
				}
				got, err := d.After(from, s.Policies)
				if err != nil || got.Wall != k.to || got.Key != k.Key || got.Unit != k.Unit || got.Named != k.Named {
					t.Fatalf("%+v\nwith hours %v, after %s: %+v, %v; want %s at %s", d.Within, d.hours, from, got, err, k.Key, k.to)
				}
				nominal, moved := k.Nominal, k.to != k.Wall
				if moved {
					nominal = cmp.Or(nominal, k.Wall)
				}
				if got.Nominal != nominal || moved != (got.Move != k.Move) {
					t.Fatalf("%+v, want the nominal wall time %s, and moved: %v", got, nominal, moved)
				}
			}
			w = k.to
		}
	})
}

// wrap puts a rule into one of the wrappers.
func wrap(t *rapid.T, s calendartest.Case, r calendar.Recurrence) (calendar.Recurrence, string) {
	s.Rule = r
	near := s.DrawWall(t, "near a day").Date
	switch kind := rapid.SampledFrom([]string{"bounded", "announced", "announced by working days", "within", "each"}).Draw(t, "wrapper"); kind {
	case "bounded":
		return s.DrawBounds(t), kind
	case "announced":
		return calendar.Offset{Of: r, Days: rapid.IntRange(-9, 9).Draw(t, "days"), At: s.DrawWall(t, "at").Clock}, kind
	case "announced by working days":
		return calendar.Offset{Of: r, Days: rapid.IntRange(-9, 9).Draw(t, "days"), At: s.DrawWall(t, "at").Clock, WorkDays: drawWorkCalendar(t, "OFFSET", near)}, kind
	case "each":
		d := drawWithin(t, s)
		d.Each = true
		return d.Within, kind
	default:
		return drawWithin(t, s).Within, kind
	}
}

// moves reports whether a drawn rule moves slots itself.
func moves(r calendar.Recurrence) bool {
	if b, ok := r.(calendar.Bounded); ok {
		return moves(b.Rule)
	}
	_, ok := r.(calendar.Within)
	return ok
}

// Whatever is around what: keys are those of the rule and grow, with instants, and the nominal wall
// time is that of the rule. What comes after an instant does not depend on where the search began.
func TestWrappersKeepKeysAndOrder(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := calendartest.DrawCase(t)
		inner, first := wrap(t, s, s.Rule)
		outer, second := wrap(t, s, inner)
		after := s.Change.Add(time.Duration(rapid.IntRange(-40*24, 40*24).Draw(t, "hours")) * time.Hour)
		say := func(o calendar.Occurrence) string {
			return fmt.Sprintf("%+v\n%s in %s of %+v: %+v", outer, first, second, s.Rule, o)
		}
		key, seen := "", 0
		last := after
		for o, err := range calendar.Occurrences(outer, s.Zone, s.Policies, after) {
			if err != nil {
				t.Fatal(err)
			}
			if !last.Before(o.Resolution.Instant) || o.Key <= key {
				t.Fatalf("%s after %s and key %q", say(o), last, key)
			}
			nominal := cmp.Or(o.Nominal, o.Wall)
			plain, err := s.Rule.After(calendar.WallTimeOf(nominal.Labelled().Add(-time.Second)), s.Policies)
			if !moves(s.Rule) && (err != nil || plain.Key != o.Key || plain.Unit != o.Unit || plain.Wall != nominal || plain.Named != o.Named) {
				t.Fatalf("%s, want that of %+v, %v", say(o), plain, err)
			}
			again, err := calendar.Next(outer, s.Zone, s.Policies, o.Resolution.Instant.Add(-time.Second))
			if again.Consulted.From = o.Consulted.From; err != nil || again != o {
				t.Fatalf("%s, and a second before it %+v, %v", say(o), again, err)
			}
			key, last = o.Key, o.Resolution.Instant
			if seen++; seen == 12 {
				break
			}
		}
	})
}

// In every zone, over thirty years: each occurrence is on a working day and in the window, on the
// clocks of the zone. A yearly holiday is on each 1 May.
func TestOccurrencesAreOnWorkingDaysInEveryZone(t *testing.T) {
	t.Parallel()

	o := calendar.WorkCalendarOptions{Name: "MAY", Release: "2026-01-01", Until: date(2056, 12, 31)}
	for year := 2026; year <= 2056; year++ {
		o.Holidays = append(o.Holidays, calendar.NamedDay{Date: date(year, time.May, 1)})
	}
	c, err := calendar.NewWorkCalendar(o)
	if err != nil {
		t.Fatal(err)
	}
	hours := window(t, "Mo-Fr 06:30-20:15")
	for i, name := range calendar.TimezoneNames() {
		z, err := calendar.LoadTimezone(name)
		if err != nil {
			continue
		}
		rules := []calendar.Recurrence{
			calendar.Monthly{Day: 1 + i%31, At: calendar.Clock{Hour: i % 24, Minute: 30}},
			calendar.Weekly{On: []time.Weekday{time.Weekday(i % 7)}, At: calendar.Clock{Hour: 2, Minute: 30}, Every: 5, From: date(2026, 1, 1)},
		}
		within := calendar.Within{Of: rules[i%2], WorkDays: c, Window: hours, Convention: conventions[i%6], KeepDay: i%3 == 0}
		count, key := 0, ""
		for o, err := range calendar.Occurrences(within, z, calendar.Policies{}, instant(t, "2026-02-01T00:00:00Z")) {
			if err != nil {
				t.Fatal(err)
			}
			shown := o.Resolution.Shown()
			if shown.Date.Year > 2055 {
				break
			}
			works, known := c.IsWorking(shown.Date)
			if !works || !known || !hours.Includes(shown) || o.Key <= key || o.Consulted.Calendars != "MAY@2026-01-01" || o.Consulted.Provisional {
				t.Fatalf("%+v in %s: %+v at %s", within, z, o, shown)
			}
			count, key = count+1, o.Key
		}
		if count < 300 || count > 360 {
			t.Fatalf("%+v in %s has %d occurrences in thirty years", within, z, count)
		}
	}
}
