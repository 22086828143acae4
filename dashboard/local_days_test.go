package dashboard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
)

func mustZone(t *testing.T, name string) calendar.Timezone {
	t.Helper()
	z, err := calendar.LoadTimezone(name)
	require.NoError(t, err)
	return z
}

func dayOf(t *testing.T, zone, date string) (localDay, []localHour) {
	t.Helper()
	d, err := calendar.ParseDate(date)
	require.NoError(t, err)
	z := mustZone(t, zone)
	days, _, err := daysOf(z, d, 1)
	require.NoError(t, err)
	return days[0], hoursOf(z, days[0])
}

func TestADayLiesBetweenTwoMidnights(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ zone, date, length, mark, text string }{
		{"America/New_York", "2026-03-08", "23 h", "−", "gap of 1 h: clocks skip 02:00–03:00"},
		{"America/New_York", "2026-11-01", "25 h", "+", "fold of 1 h: clocks go back from 02:00 to 01:00"},
		{"America/New_York", "2026-06-01", "24 h", "", ""},
		{"Australia/Lord_Howe", "2026-10-04", "23 h 30 min", "−", "gap of 30 min: clocks skip 02:00–02:30"},
		{"Pacific/Apia", "2011-12-30", "0 h", "×", "gap of 24 h: clocks skip 2011-12-30 00:00–2011-12-31 00:00"},
		{"Pacific/Apia", "2011-12-31", "24 h", "", ""},
		{"Pacific/Apia", "2011-12-29", "24 h", "", ""},
		{"America/Sao_Paulo", "2018-11-04", "23 h", "−", "gap of 1 h: clocks skip 00:00–01:00"},
		{"America/Sao_Paulo", "2018-11-03", "24 h", "", ""},
		{"America/Sao_Paulo", "2018-02-17", "25 h", "+", "fold of 1 h: clocks go back from 2018-02-18 00:00 to 2018-02-17 23:00"},
		{"America/Toronto", "1919-03-30", "23 h 30 min", "−", "gap of 1 h: clocks skip 1919-03-30 23:30–1919-03-31 00:30"},
		{"America/Toronto", "1919-03-31", "23 h 30 min", "−", "gap of 1 h: clocks skip 1919-03-30 23:30–1919-03-31 00:30"},
		{"Europe/Amsterdam", "1937-07-01", "23 h 59 min 32 s", "−", "gap of 28 s: clocks skip 00:00–00:00:28"},
	} {
		day, _ := dayOf(t, one.zone, one.date)
		require.Equal(t, one.length, day.LengthText(), one)
		require.Equal(t, one.mark, day.Mark(), one)
		if one.text == "" {
			require.Empty(t, day.Changes, one)
			continue
		}
		require.Len(t, day.Changes, 1, one)
		require.Equal(t, one.text, day.Changes[0].Text(), one)
	}
}

func TestHoursNameGapsAndRepeatedHours(t *testing.T) {
	t.Parallel()
	names := func(hours []localHour) (all []string) {
		for _, h := range hours {
			text := h.Name() + " " + h.Offset
			if h.Showing != "" {
				text += " " + h.Showing
			}
			if !h.Change.IsZero() {
				text = "| " + text
			}
			all = append(all, text)
		}
		return all
	}
	_, hours := dayOf(t, "America/New_York", "2026-03-08")
	require.Len(t, hours, 23)
	require.Equal(t, []string{"01:00–02:00 −05:00", "| 03:00–04:00 −04:00"}, names(hours)[1:3])
	_, hours = dayOf(t, "America/New_York", "2026-11-01")
	require.Len(t, hours, 25)
	require.Equal(t, []string{"01:00–02:00 −04:00 first time", "| 01:00–02:00 −05:00 second time"}, names(hours)[1:3])
	require.Equal(t, "23:00–24:00 −05:00", names(hours)[24])
	_, hours = dayOf(t, "Australia/Lord_Howe", "2026-04-05")
	require.Equal(t, []string{"01:00–01:30 +11:00", "01:30–02:00 +11:00 first time", "| 01:30–02:00 +10:30 second time"}, names(hours)[1:4])
	_, hours = dayOf(t, "America/St_Johns", "2006-10-29") // clocks went back from 00:01 to 23:01 of the day before
	require.Equal(t, []string{"00:00–00:01 −02:30 first time", "| 23:01–24:00 −03:30 second time", "00:00–00:01 −03:30 second time"}, names(hours)[:3])
	require.Equal(t, "2006-10-28", hours[1].Other)
}

func TestAChangeAtMidnightBelongsToTheNextDay(t *testing.T) {
	t.Parallel()
	z := mustZone(t, "Africa/Monrovia") // clocks skipped 00:00–00:44:30 on 1972-01-07
	before, changes, err := daysOf(z, calendar.Date{Year: 1972, Month: time.January, Day: 1}, 6)
	require.NoError(t, err)
	require.Len(t, before, 6)
	require.Empty(t, changes)
	_, changes, err = daysOf(z, calendar.Date{Year: 1972, Month: time.January, Day: 7}, 1)
	require.NoError(t, err)
	require.Len(t, changes, 1)
}

func TestHoursCoverEveryDayOfEveryZone(t *testing.T) {
	t.Parallel()
	for i, name := range calendar.TimezoneNames() {
		z, year := mustZone(t, name), firstYear+i*17%201
		first := calendar.Date{Year: year, Month: time.January, Day: 1}
		days, changes, err := daysOf(z, first, 365)
		require.NoError(t, err)
		at, marked := days[0].Start, 0
		for _, day := range days {
			if marked += len(day.Changes); !day.Start.Equal(at) {
				t.Errorf("%s: %s begins at %s, not %s", name, day.Date, day.Start, at)
			}
			if len(day.Changes) == 0 && day.Length() == 24*time.Hour {
				at = day.End
				continue // an ordinary day
			}
			for _, hour := range hoursOf(z, day) {
				if !hour.From.Equal(at) || !hour.Until.After(at) {
					t.Errorf("%s: an hour of %s is from %s until %s", name, day.Date, hour.From, hour.Until)
				}
				at = hour.Until
			}
			if !day.End.Equal(at) {
				t.Errorf("%s: the hours of %s end at %s", name, day.Date, at)
			}
		}
		require.GreaterOrEqual(t, marked, len(changes), name)
	}
}
