package calendar_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// The unit of a key is that of the rule, whatever contains the rule, and so is the nominal
// wall time.
func TestSlotsHaveTheUnitOfTheirRule(t *testing.T) {
	t.Parallel()
	nine := calendar.Clock{Hour: 9}
	begin := wall(t, "2027-01-01T09:00:00")
	rrule := func(text string) calendar.Recurrence {
		r, err := calendar.ParseRRule(text, begin)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	cron := func(text string) calendar.Recurrence {
		c, err := calendar.ParseCron(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	set, err := calendar.ParseRecurrenceSet("DTSTART:20270101T090000\nRRULE:FREQ=DAILY")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		rule calendar.Recurrence
		unit calendar.Unit
	}{
		"once":         {calendar.Once{At: begin}, calendar.UnitTime},
		"yearly":       {calendar.Yearly{Month: 1, Day: 1, At: nine}, calendar.UnitYear},
		"yearly by":    {yearlyOn(t, begin), "year:lunar"},
		"monthly":      {calendar.Monthly{Day: 1, At: nine}, calendar.UnitMonth},
		"weekly":       {calendar.Weekly{On: []time.Weekday{time.Friday}, At: nine}, calendar.UnitDay},
		"daily":        {calendar.Daily{At: nine}, calendar.UnitDay},
		"cron":         {cron("0 9 * * *"), calendar.UnitDay},
		"cron, hourly": {cron("0 * * * *"), calendar.UnitTime},
		"rule":         {rrule("FREQ=DAILY"), calendar.UnitDay},
		"rule, hourly": {rrule("FREQ=HOURLY"), calendar.UnitTime},
		"set":          {set, calendar.UnitTime},
	} {
		before := wall(t, "2026-12-31T23:00:00")
		plain, err := tt.rule.After(before, calendar.Policies{})
		if err != nil || plain.Unit != tt.unit || plain.Nominal != (calendar.WallTime{}) {
			t.Errorf("%s: %+v, %v; want unit %q", name, plain, err, tt.unit)
		}
		quiet := calendartest.Quiet("10:00-08:00")
		for _, r := range []calendar.Recurrence{
			calendar.Offset{Of: tt.rule, Days: 3, At: nine},
			calendar.Within{Of: calendar.Offset{Of: tt.rule, Days: 3, At: calendar.Clock{Hour: 3}}, Window: quiet},
			calendar.Offset{Of: calendar.Within{Of: tt.rule, Window: calendartest.Quiet("08:00-23:59")}, Days: 3, At: nine},
		} {
			slot, err := r.After(wall(t, "2027-01-03T12:00:00"), calendar.Policies{})
			if err != nil || slot.Unit != tt.unit || slot.Key != plain.Key || slot.Nominal != plain.Wall {
				t.Errorf("%s in %T: %+v, %v; want that of %+v", name, r, slot, err, plain)
			}
		}
	}
}
