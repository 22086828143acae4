package calendar

import (
	"iter"
	"slices"
	"strings"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// Consulted says which calendars decided where a slot is, and which days were looked up in them, also
// if the slot was not moved: work calendars, and each [System]. The zero Consulted means that no
// calendar was looked up.
//
// Store it with an event to find the events that a new release of a calendar can move: see [DayRules].
// Several calendars share one span of days, so that Consulted is small and comparable with ==. The span
// can be too wide: then an event is planned again, and does not move.
type Consulted struct {
	// Calendars are the names of the calendars with their releases, in order and with a comma between
	// them: "DE-BY@2026-11-02,system:hebrew@2026-11-28". The name of a System begins with "system:".
	Calendars string
	// From is the first day that was looked up. In an [Occurrence] that [Next] found, it is at
	// latest the day on which the search began, because the search can have passed over a holiday
	// since then.
	From  Date
	Until Date // the last day that was looked up
	// Provisional reports whether a day after the end of a work calendar was looked up (see
	// [WorkCalendarOptions]), or whether the slot is on a provisional day of a System (see
	// [SystemInfo]). A later release of the calendar can move the slot.
	Provisional bool
}

// systemPrefix begins the names by which a System is consulted. No work calendar has a colon in its name.
const systemPrefix = "system:"

// provisionalMark ends the text of a provisional Consulted.
const provisionalMark = " provisional"

// String returns the text that [ParseConsulted] reads: "DE-BY@2026-11-02 2026-11-28 2026-12-28", with
// " provisional" behind it if c is provisional. The text of the zero Consulted is empty.
func (c Consulted) String() string {
	if c.Calendars == "" {
		return ""
	}
	text := c.Calendars + " " + c.From.String() + " " + c.Until.String()
	if c.Provisional {
		text += provisionalMark
	}
	return text
}

// ParseConsulted reads what [Consulted.String] writes. The error is a [*FormatError].
func ParseConsulted(s string) (Consulted, error) {
	if s == "" {
		return Consulted{}, nil
	}
	text, provisional := strings.CutSuffix(s, provisionalMark)
	parts := strings.Split(text, " ")
	if len(parts) == 3 && !slices.ContainsFunc(strings.Split(parts[0], ","), func(one string) bool { return !strings.Contains(one, "@") }) {
		from, errFrom := ParseDate(parts[1])
		until, errUntil := ParseDate(parts[2])
		if errFrom == nil && errUntil == nil {
			return Consulted{parts[0], from, until, provisional}, nil
		}
	}
	return Consulted{}, &FormatError{excerpt.Of(s, maxQuoted), "is not of the form NAME@RELEASE YYYY-MM-DD YYYY-MM-DD"}
}

// Releases yields the name and the release of each calendar that was looked up, in the order of the names.
func (c Consulted) Releases() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for one := range strings.SplitSeq(c.Calendars, ",") {
			if name, release, ok := strings.Cut(one, "@"); ok && !yield(name, release) {
				return
			}
		}
	}
}

// Release returns the release in which a calendar was looked up, by its name in Calendars, and reports
// false if it was not.
func (c Consulted) Release(name string) (string, bool) {
	for one, release := range c.Releases() {
		if one == name {
			return release, true
		}
	}
	return "", false
}

// Since returns c with the days from another day on, if that is an earlier day: a search has begun on it.
// A day that is on no calendar makes no difference.
func (c Consulted) Since(day Date) Consulted {
	if c.Calendars != "" && day.Valid() && day.Before(c.From) {
		c.From = day
	}
	return c
}

// consulted is what is said of the days from low to high, looked up in c.
func (c *WorkCalendar) consulted(low, high int) Consulted {
	looked := Consulted{Calendars: c.stamp, From: dateOf(low), Provisional: high > c.end}
	if looked.Until = looked.From; high != low {
		looked.Until = dateOf(high)
	}
	return looked
}

// stampOf is how a calendar is named in a Consulted.
func stampOf(name, release string) string { return name + "@" + release }

// aheadOfLeap is how many days after a slot decide whether its year has a leap month: a leap month comes
// at most a month after the day that stands for one of its own.
const aheadOfLeap = 60

// consultedBy is what is said of a slot by another calendar on a date.
func consultedBy(info SystemInfo, d Date) Consulted {
	until := dayNumber(d) + aheadOfLeap
	if last := dayNumber(lastDate); until > last {
		until = last
	}
	provisional := info.Provisional != Date{} && !d.Before(info.Provisional)
	return Consulted{systemPrefix + stampOf(info.Name, info.Release), d, dateOf(until), provisional}
}

// lastDate is the last date of all.
var lastDate = Date{9999, 12, 31}

// and adds what was looked up besides.
func (c Consulted) and(other Consulted) Consulted {
	if c.Calendars == "" || other.Calendars == "" {
		if c.Calendars == "" {
			return other
		}
		return c
	}
	if c.Calendars != other.Calendars {
		names := append(strings.Split(c.Calendars, ","), strings.Split(other.Calendars, ",")...)
		slices.Sort(names)
		c.Calendars = strings.Join(slices.Compact(names), ",")
	}
	if other.From.Before(c.From) {
		c.From = other.From
	}
	if c.Until.Before(other.Until) {
		c.Until = other.Until
	}
	c.Provisional = c.Provisional || other.Provisional
	return c
}
