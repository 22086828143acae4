package calendar

import (
	"slices"
	"strings"
)

// Consulted says which work calendars decided where a slot is, and which days were looked up in
// them, also if the slot was not moved. The zero Consulted means that no work calendar was looked
// up.
//
// Store it with an event to find the events that a new release of a work calendar can move. These
// are the events with the name of the calendar and with a day in a year whose [WorkCalendar.Hash]
// has changed. Several calendars share one span of days, so that Consulted is small and comparable
// with ==. The span can be too wide: then an event is planned again, and does not move.
type Consulted struct {
	// Calendars are the names of the work calendars, in order, with a comma between them.
	Calendars string
	// From is the first day that was looked up. In an [Occurrence] that [Next] found, it is at
	// latest the day on which the search began, because the search can have passed over a holiday
	// since then.
	From  Date
	Until Date // the last day that was looked up
	// Provisional reports whether a day after the end of a calendar was looked up: see
	// [WorkCalendarOptions]. A later release of the calendar can move the slot.
	Provisional bool
}

// consulted is what is said of the days from low to high, looked up in c.
func (c *WorkCalendar) consulted(low, high int) Consulted {
	return Consulted{Calendars: c.name, From: dateOf(low), Until: dateOf(high), Provisional: high > c.end}
}

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

// since adds the days from the one on which a search began.
func (c Consulted) since(day Date) Consulted {
	if c.Calendars != "" && day.Valid() && day.Before(c.From) {
		c.From = day
	}
	return c
}
