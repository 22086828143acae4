package used_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/used"
)

// usedAt returns what a series has used: the key of a unit, its nominal wall time, and when
// its event ended. An empty end is the nominal wall time.
func usedAt(t *testing.T, unit calendar.Unit, key, nominal, ended string) used.Keys {
	t.Helper()
	k := used.Key{Unit: unit, Key: key, Nominal: wallTime(t, nominal)}
	k.Ended = k.Nominal
	if ended != "" {
		k.Ended = wallTime(t, ended)
	}
	return used.Keys{k}
}

func wallTime(t *testing.T, text string) calendar.WallTime {
	t.Helper()
	w, err := calendar.ParseWallTime(text)
	require.NoError(t, err)
	return w
}

// The table of docs/adr/0065-used-days.md: what a changed rule delivers next. Without a
// zone, the user is in UTC.
func TestAChangedRuleNeitherRepeatsNorLosesAnOccurrence(t *testing.T) {
	t.Parallel()
	const day, month, year, at, text = calendar.UnitDay, calendar.UnitMonth, calendar.UnitYear, calendar.UnitTime, calendar.UnitText
	clock := func(hour int) calendar.Clock { return calendar.Clock{Hour: hour} }
	daily := func(hour int) calendar.Recurrence { return calendar.Daily{At: clock(hour)} }
	monthly := func(d int) calendar.Recurrence { return calendar.Monthly{Day: d, At: clock(9)} }
	yearly := func(m time.Month, d, hour int) calendar.Recurrence {
		return calendar.Yearly{Month: m, Day: d, At: clock(hour)}
	}
	cron := func(text string) calendar.Recurrence {
		c, err := calendar.ParseCron(text)
		require.NoError(t, err)
		return c
	}
	rrule := func(text string) calendar.Recurrence {
		r, err := calendar.ParseRRule(text, wallTime(t, "2026-01-01T09:00:00"))
		require.NoError(t, err)
		return r
	}
	christmas := yearly(time.December, 25, 9)
	tests := map[string]struct {
		used used.Keys
		now  string
		rule calendar.Recurrence
		zone string
		next string
	}{
		"1: a day, then a year later in the year":      {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", christmas, "", "2026-12-25T09:00:00"},
		"2: a day, then a month later in the month":    {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", monthly(28), "", "2026-11-28T09:00:00"},
		"3: a day, then a year on the same day":        {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", yearly(time.November, 26, 18), "", "2027-11-26T18:00:00"},
		"4: the day before, then a year on this day":   {usedAt(t, day, "2026-11-25", "2026-11-25T09:00:00", ""), "2026-11-26T08:00:00", yearly(time.November, 26, 18), "", "2026-11-26T18:00:00"},
		"5: a day, then hourly":                        {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", cron("0 * * * *"), "", "2026-11-26T11:00:00"},
		"6: an hour, then daily":                       {usedAt(t, at, "2026-11-26T14:00:00", "2026-11-26T14:00:00", ""), "2026-11-26T14:30:00", daily(20), "", "2026-11-27T20:00:00"},
		"7: a day of a rule, then twice a day":         {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", rrule("FREQ=DAILY;BYHOUR=9,18"), "", "2026-11-26T18:00:00"},
		"8: twice a day, then once":                    {usedAt(t, at, "2026-11-26T18:00:00", "2026-11-26T18:00:00", ""), "2026-11-26T19:00:00", rrule("FREQ=DAILY;BYHOUR=20"), "", "2026-11-27T20:00:00"},
		"10: a day, then a later hour":                 {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", daily(18), "", "2026-11-27T18:00:00"},
		"11: a month, then a later day of the month":   {usedAt(t, month, "2026-11", "2026-11-28T09:00:00", ""), "2026-11-29T10:00:00", monthly(30), "", "2026-12-30T09:00:00"},
		"12: a month, then weekly":                     {usedAt(t, month, "2026-11", "2026-11-28T09:00:00", ""), "2026-11-29T10:00:00", calendar.Weekly{On: []time.Weekday{time.Monday}, At: clock(9)}, "", "2026-11-30T09:00:00"},
		"13: a birth date corrected to later":          {usedAt(t, year, "2026", "2026-03-15T09:00:00", ""), "2026-11-20T10:00:00", yearly(time.December, 20, 9), "", "2027-12-20T09:00:00"},
		"14: a birth date corrected to earlier":        {usedAt(t, year, "2026", "2026-12-20T09:00:00", ""), "2026-12-21T10:00:00", yearly(time.March, 15, 9), "", "2027-03-15T09:00:00"},
		"15: an announcement, then monthly":            {usedAt(t, year, "2026", "2026-12-25T09:00:00", "2026-11-25T09:00:00"), "2026-11-25T10:00:00", monthly(28), "", "2026-11-28T09:00:00"},
		"16: an announcement, then a later one":        {usedAt(t, year, "2026", "2026-12-25T09:00:00", "2026-11-25T09:00:00"), "2026-11-25T10:00:00", calendar.Offset{Of: christmas, Days: -3, At: clock(9)}, "", "2027-12-22T09:00:00"},
		"17: run before its time, then monthly":        {usedAt(t, year, "2027", "2027-03-15T09:00:00", "2026-12-01T12:00:00"), "2026-12-01T13:00:00", monthly(15), "", "2026-12-15T09:00:00"},
		"26: a moved slot, then daily":                 {usedAt(t, month, "2026-10", "2026-10-31T09:00:00", "2026-11-02T09:00:00"), "2026-11-02T10:00:00", daily(18), "", "2026-11-03T18:00:00"},
		"27: a day in Tokyo, then in Los Angeles":      {usedAt(t, day, "2026-11-26", "2026-11-26T09:00:00", ""), "2026-11-26T01:00:00", daily(9), "America/Los_Angeles", "2026-11-27T09:00:00"},
		"28: a late day, then monthly":                 {usedAt(t, day, "2026-11-01", "2026-11-01T09:00:00", "2026-11-26T12:00:00"), "2026-11-01T09:00:00", monthly(15), "", "2026-11-15T09:00:00"},
		"29: a cron expression, then another":          {usedAt(t, day, "2026-11-16", "2026-11-16T09:00:00", ""), "2026-11-16T10:00:00", cron("0 9 20 * *"), "", "2026-11-20T09:00:00"},
		"30: a text, then daily":                       {usedAt(t, text, "order-7", "2026-11-26T09:00:00", ""), "2026-11-26T10:00:00", daily(18), "", "2026-11-27T18:00:00"},
		"32: a pending day, whose new time has passed": {usedAt(t, day, "2026-11-25", "2026-11-25T18:00:00", ""), "2026-11-26T15:00:00", daily(14), "", "2026-11-27T14:00:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone := calendar.StoredTimezone("UTC")
			if tt.zone != "" {
				zone = calendar.StoredTimezone(tt.zone)
			}
			for o, err := range calendar.Occurrences(tt.rule, zone, calendar.Policies{}, wallTime(t, tt.now).Labelled()) {
				require.NoError(t, err)
				if !tt.used.Has(o) {
					require.Equal(t, tt.next, o.Wall.String())
					return
				}
			}
		})
	}
}
