package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

// localDay is a date on the clocks of a zone: the time from its midnight to the next one.
// It is empty if clocks skip the whole date.
type localDay struct {
	Date       calendar.Date
	Start, End time.Time     // UTC
	Changes    []clockChange // the changes of clocks that make the day shorter or longer
}

// Length is how long the day lasts.
func (d localDay) Length() time.Duration { return d.End.Sub(d.Start) }

// LengthText is the length in words.
func (d localDay) LengthText() string { return exactly(d.Length()) }

// Missing reports whether clocks skip the whole date.
func (d localDay) Missing() bool { return d.Length() == 0 }

// Mark is one character for an unusual day, and "" for one of 24 hours without changes.
func (d localDay) Mark() string {
	switch length := d.Length(); {
	case length == 0:
		return "×"
	case length < 24*time.Hour:
		return "−"
	case length > 24*time.Hour:
		return "+"
	case len(d.Changes) > 0:
		return "±"
	}
	return ""
}

// Note says what is unusual about the day, or "".
func (d localDay) Note() string {
	if d.Mark() == "" {
		return ""
	}
	parts := []string{d.LengthText()}
	if d.Missing() {
		parts[0] = "a date that clocks skip"
	}
	for _, c := range d.Changes {
		parts = append(parts, c.Text())
	}
	return strings.Join(parts, ", ")
}

// clockChange is a change of clocks as pages show it.
type clockChange struct{ calendar.Change }

// Offsets are the offsets from UTC before and after.
func (c clockChange) Offsets() string { return clockOffset(c.Before) + " → " + clockOffset(c.After) }

// Text says what clocks do, with the width of the gap or fold.
func (c clockChange) Text() string {
	kind := "gap"
	if c.Width() < 0 {
		kind = "fold"
	}
	return fmt.Sprintf("%s of %s: %s", kind, exactly(c.Width().Abs()), c.Change)
}

// exactly returns a duration to the second. Clocks of former times moved by odd seconds.
func exactly(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
		if n := d / unit.size; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, unit.name))
		}
		d %= unit.size
	}
	if len(parts) == 0 {
		return "0 h"
	}
	return strings.Join(parts, " ")
}

// midnight returns the first instant of a date. If clocks skip midnight, the date begins at
// the end of the gap.
func midnight(z calendar.Timezone, d calendar.Date) (time.Time, error) {
	at, err := z.Resolve(calendar.WallTime{Date: d}, calendar.Policies{Gap: calendar.GapBoundary})
	return at.Instant, err
}

// daysOf returns n local days from a date on, and the changes of clocks in them.
func daysOf(z calendar.Timezone, first calendar.Date, n int) (days []localDay, changes []clockChange, err error) {
	start, err := midnight(z, first)
	if err != nil {
		return nil, nil, err
	}
	for i := range n {
		end, err := midnight(z, dateAfter(first, i+1))
		if err != nil {
			return nil, nil, err
		}
		days = append(days, localDay{Date: dateAfter(first, i), Start: start, End: end})
		start = end
	}
	for _, c := range changesIn(z, days[0].Start, start) {
		found := false
		for i := range days {
			if days[i].has(c) {
				days[i].Changes = append(days[i].Changes, c)
				found = true
			}
		}
		if found {
			changes = append(changes, c)
		}
	}
	return days, changes, nil
}

// has reports whether a change of clocks makes the day shorter or longer. A gap belongs to
// the dates that it takes time from, also if it ends at their midnight.
func (d localDay) has(c clockChange) bool {
	if c.Width() > 0 {
		last := calendar.WallTimeOf(c.To().Labelled().Add(-time.Second))
		return !d.Date.Before(c.From().Date) && !last.Date.Before(d.Date)
	}
	return !c.At.Before(d.Start) && c.At.Before(d.End)
}

// changesIn returns the changes of clocks from one instant up to another. A gap that ends at
// the second one counts, because it takes time from before.
func changesIn(z calendar.Timezone, from, until time.Time) []clockChange {
	var changes []clockChange
	for at := from.Add(-time.Second); ; {
		c, ok := z.NextChange(at)
		if !ok || c.At.After(until) || c.At.Equal(until) && c.Width() < 0 {
			return changes
		}
		changes = append(changes, clockChange{c})
		at = c.At
	}
}

// dateAfter returns the date n days after another one.
func dateAfter(d calendar.Date, n int) calendar.Date {
	return calendar.DateOf(calendar.WallTime{Date: d}.Labelled().AddDate(0, 0, n))
}

// localHour is a row of a day: an hour on the clocks, or the part of it on one side of a change.
type localHour struct {
	From, Until time.Time
	Wall, Last  calendar.Clock // what clocks show at From, and just before Until
	Other       string         // the date that clocks show, if that is another one
	Offset      string         // from UTC
	Showing     string         // which showing of a repeated hour; "" for all others
	Change      clockChange    // the change of clocks at From; zero if there is none
	Count       ops.Count
	Events      []dayEvent // of which the page lists some or all
}

// Name is how the clocks name the hour.
func (h localHour) Name() string {
	until := h.Last
	until.Second++
	if until.Second == 60 {
		until.Minute, until.Second = until.Minute+1, 0
	}
	if until.Minute == 60 {
		until.Hour, until.Minute = until.Hour+1, 0
	}
	return clockText(h.Wall) + "–" + clockText(until)
}

// clockText leaves out seconds that are zero.
func clockText(c calendar.Clock) string { return strings.TrimSuffix(c.String(), ":00") }

// hoursOf returns the hours of a day in order. A repeated hour comes twice, and a skipped one not at all.
func hoursOf(z calendar.Timezone, day localDay) []localHour {
	var cuts []time.Time // where an hour on the clocks is no whole one
	for _, c := range day.Changes {
		cuts = append(cuts, c.At)
		if c.Width() < 0 { // the first showing begins before it, and the second ends after it
			cuts = append(cuts, c.At.Add(c.Width()), c.At.Add(-c.Width()))
		}
	}
	var hours []localHour
	for at := day.Start; at.Before(day.End); {
		wall := z.WallTime(at)
		until := at.Add(time.Hour - time.Duration(wall.Clock.Minute)*time.Minute - time.Duration(wall.Clock.Second)*time.Second)
		for _, cut := range cuts {
			if cut.After(at) && cut.Before(until) {
				until = cut
			}
		}
		hours = append(hours, hourOf(z, day, localHour{From: at, Until: until}))
		at = until
	}
	return hours
}

// hourOf completes a row of a day.
func hourOf(z calendar.Timezone, day localDay, h localHour) localHour {
	wall := z.WallTime(h.From)
	h.Wall, h.Last = wall.Clock, z.WallTime(h.Until.Add(-time.Second)).Clock
	if wall.Date != day.Date {
		h.Other = wall.Date.String()
	}
	h.Offset = clockOffset(wall.Labelled().Sub(h.From))
	for _, c := range day.Changes {
		if c.At.Equal(h.From) {
			h.Change = c
		}
		if c.Width() < 0 && !h.From.Before(c.At.Add(c.Width())) && h.From.Before(c.At) {
			h.Showing = "first time"
		}
		if c.Width() < 0 && !h.From.Before(c.At) && h.From.Before(c.At.Add(-c.Width())) {
			h.Showing = "second time"
		}
	}
	return h
}

// clockOffset returns an offset from UTC, such as "+05:30".
func clockOffset(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign = "−"
	}
	seconds := int(d.Abs() / time.Second)
	return sign + clockText(calendar.Clock{Hour: seconds / 3600, Minute: seconds / 60 % 60, Second: seconds % 60})
}
