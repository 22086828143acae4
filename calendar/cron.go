package calendar

import (
	"errors"

	"github.com/almanac-go/almanac/internal/cron"
)

// Cron is a recurrence by a cron expression, as in crontab(5), with an optional field for seconds
// in front. It is evaluated on wall readings and resolved like every other wall time; so "30 2 * *
// *" in a night without a half past two follows the gap policy, and "0 * * * *" happens once when
// clocks show an hour twice. Make it with [ParseCron]. Its keys are dates, or wall times where the
// expression can happen more than once a day.
type Cron struct{ schedule cron.Schedule }

// ParseCron reads an expression of five fields (minute, hour, day of the month, month, day of the
// week) or six (second first), with lists, ranges, steps and English names, or one of @yearly,
// @monthly, @weekly, @daily and @hourly. If both day fields are restricted, a day that matches
// either of them counts. The error is an [*InvalidRecurrenceError] that names every bad field.
//
// The day of the month can also be L, the last day, or L-3, the last day minus 3. LW is the last day
// from Monday to Friday. 15W is the day from Monday to Friday that is nearest to the 15th, in the same
// month. A month without the day has no slot. W does not know holidays: to move a day from a
// holiday, wrap a [Monthly] in a [Within]. The day of the week can also be 5L, the last Friday of
// the month, and 5#2, the second Friday.
func ParseCron(text string) (Cron, error) {
	schedule, err := cron.Parse(text)
	if bad, ok := errors.AsType[*cron.Error](err); ok {
		return Cron{}, invalidRecurrence(text, bad.Problems)
	}
	return Cron{schedule}, nil
}

// After returns the first slot strictly after w.
func (c Cron) After(w WallTime, _ Policies) (Slot, error) {
	if c.schedule == (cron.Schedule{}) {
		return Slot{}, invalidRecurrence("cron", []string{"it was not made by ParseCron"})
	}
	next, ok := c.schedule.Next(w.Labelled())
	if !ok {
		return Slot{}, noOccurrence(w)
	}
	wall := WallTimeOf(next)
	daily := c.schedule.OncePerDay()
	return Slot{Key: keyOf(wall, daily), Unit: unitOf(daily), Wall: wall}, nil
}

// String returns the expression.
func (c Cron) String() string { return c.schedule.String() }
