package calendar_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestParseWindow(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]string{
		"Mo-Fr 09:00-18:00; Sa 10:00-14:00":      "Mo-Fr 09:00-18:00; Sa 10:00-14:00",
		" mo-fr  9:00-18:00":                     "",
		"monday-FRI 09:00-12:00, 14:00-18:00;":   "Mo-Fr 09:00-12:00,14:00-18:00",
		"09:00-18:00":                            "Mo-Su 09:00-18:00",
		"09:00-18:00; We off; Su closed":         "Mo-Tu,Th-Sa 09:00-18:00",
		"Mo-Su 09:00-18:00; Sa,Su 10:00-14:00":   "Mo-Fr 09:00-18:00; Sa-Su 10:00-14:00",
		"Sa-Mo 22:00-02:00":                      "Mo,Sa-Su 22:00-02:00",
		"Mo 00:00-24:00":                         "Mo 00:00-00:00",
		"Mo 18:00-24:00":                         "Mo 18:00-00:00",
		"Mo 09:00-09:00":                         "Mo 09:00-09:00",
		"Mo 09:00-12:00,11:00-13:00,13:00-14:00": "Mo 09:00-14:00",
		"Mo 20:00-10:00,09:00-12:00":             "Mo 09:00-12:00,20:00-10:00",
		"Mo 00:00-20:00,19:00-08:00":             "Mo 00:00-00:00,08:00-08:00",
		"Mo 09:00:30-10:00":                      "Mo 09:00:30-10:00",
		"24/7":                                   "Mo-Su 00:00-00:00",
	} {
		w, err := calendar.ParseWindow(text)
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, w.String(), text)
		again, err := calendar.ParseWindow(want)
		require.NoError(t, err, want)
		require.Equal(t, want, again.String())
	}
	require.Equal(t, "Mo-Su 00:00-00:00", calendar.Window{}.String())
	require.Equal(t, "Mo-Su 08:00-22:00", calendartest.Quiet("22:00-08:00").String())
	require.Equal(t, "Mo-Su 14:00-12:00", calendartest.Quiet("12:00-14:00").String())
	require.Equal(t, calendar.Window{}, calendartest.Quiet("08:00-08:00"))
}

func TestWindowsNameEveryProblem(t *testing.T) {
	t.Parallel()

	_, err := calendar.ParseWindow("Mo-Xx 09:00-18:00; Tu; We 09:00; PH off; Th 09:00-25:00; Fr 10:00-12:00")
	require.Equal(t, []string{
		`rule 1 "Mo-Xx" is not days of the week, such as Mo-Fr or Mo,We; holidays are in a work calendar`,
		`rule 2 "Tu" has no hours, such as 09:00-18:00`,
		`rule 3 "09:00" is not hours, such as 09:00-18:00`,
		`rule 4 "PH" is not days of the week, such as Mo-Fr or Mo,We; holidays are in a work calendar`,
		`rule 5 "09:00-25:00" is not hours, such as 09:00-18:00`,
	}, inputProblems(t, err))
	for _, text := range []string{"", " ; ", "off", "Mo 09:00-18:00; off"} {
		_, err = calendar.ParseWindow(text)
		require.Equal(t, []string{"window has no hours: it never opens"}, inputProblems(t, err), text)
	}
	_, err = calendar.NewWindow()
	require.Equal(t, []string{"window has no hours: it never opens"}, inputProblems(t, err))
	_, err = calendar.NewWindow(calendar.Hours{From: calendar.Clock{Hour: 9}, Until: calendar.Clock{Hour: 18}},
		calendar.Hours{On: []time.Weekday{7}, From: calendar.Clock{Hour: 24}, Until: calendar.Clock{Minute: 60}})
	require.Equal(t, []string{"hours 2 are on a day that is no day of the week", "hours 2 have 24:00:00, which no clock shows", "hours 2 have 00:60:00, which no clock shows"}, inputProblems(t, err))
}

func TestWindowNext(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST", "2026-12-25 holiday", "2026-12-28 holiday")
	const newYork, berlin, beirut = "America/New_York", "Europe/Berlin", "Asia/Beirut"
	for name, tt := range map[string]struct {
		window                   calendar.Window
		zone, now, opens, closes string
	}{
		"open":                              {window(t, "Mo-Fr 09:00-18:00"), berlin, "2026-11-09T10:00:00Z", "2026-11-09T10:00:00Z", "2026-11-09T17:00:00Z"},
		"before it opens":                   {window(t, "Mo-Fr 09:00-18:00"), berlin, "2026-11-09T07:59:59Z", "2026-11-09T08:00:00Z", "2026-11-09T17:00:00Z"},
		"as it closes":                      {window(t, "Mo-Fr 09:00-18:00"), berlin, "2026-11-06T17:00:00Z", "2026-11-09T08:00:00Z", "2026-11-09T17:00:00Z"},
		"over holidays":                     {window(t, "Mo-Fr 09:00-18:00").ClosedOnHolidays(c), berlin, "2026-12-24T17:00:00Z", "2026-12-29T08:00:00Z", "2026-12-29T17:00:00Z"},
		"the tail of the eve of a holiday":  {window(t, "18:00-02:00").ClosedOnHolidays(c), berlin, "2026-12-25T00:30:00Z", "2026-12-25T00:30:00Z", "2026-12-25T01:00:00Z"},
		"no tail of a holiday":              {window(t, "18:00-02:00").ClosedOnHolidays(c), berlin, "2026-12-26T00:30:00Z", "2026-12-26T17:00:00Z", "2026-12-27T01:00:00Z"},
		"over midnight from day to day":     {window(t, "Sa 20:00-00:00; Su 00:00-06:00"), berlin, "2026-11-07T19:00:00Z", "2026-11-07T19:00:00Z", "2026-11-08T05:00:00Z"},
		"a short night":                     {window(t, "Su 01:00-03:00"), newYork, "2026-03-08T05:00:00Z", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"},
		"a long night":                      {window(t, "Su 01:00-03:00"), newYork, "2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z", "2026-11-01T08:00:00Z"},
		"an hour that is not there":         {window(t, "Su 00:00-01:00"), beirut, "2027-03-27T12:00:00Z", "2027-04-03T21:00:00Z", "2027-04-03T22:00:00Z"},
		"an opening that is skipped":        {window(t, "02:30-06:00"), newYork, "2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z", "2026-03-08T10:00:00Z"},
		"a closing that is skipped":         {window(t, "00:00-02:30"), newYork, "2026-03-08T06:30:00Z", "2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z"},
		"clocks are put back before it":     {window(t, "01:30-06:00"), newYork, "2026-11-01T05:00:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z"},
		"clocks were put back before it":    {window(t, "01:30-06:00"), newYork, "2026-11-01T06:00:00Z", "2026-11-01T06:30:00Z", "2026-11-01T11:00:00Z"},
		"the whole week":                    {calendar.Window{}, berlin, "2026-11-09T10:00:00Z", "2026-11-09T10:00:00Z", ""},
		"the whole week but for holidays":   {calendar.Window{}.ClosedOnHolidays(c), berlin, "2026-12-25T10:00:00Z", "2026-12-25T23:00:00Z", "2026-12-27T23:00:00Z"},
		"the whole year after the holidays": {calendar.Window{}.ClosedOnHolidays(c), berlin, "2026-12-28T10:00:00Z", "2026-12-28T23:00:00Z", ""},
		"a fraction of a second":            {window(t, "09:00-18:00"), "UTC", "2026-11-09T08:59:59.5Z", "2026-11-09T09:00:00Z", "2026-11-09T18:00:00Z"},
		"open, a fraction":                  {window(t, "09:00-18:00"), "UTC", "2026-11-09T09:00:00.5Z", "2026-11-09T09:00:00.5Z", "2026-11-09T18:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, err := time.Parse(time.RFC3339Nano, tt.now)
			require.NoError(t, err)
			opens, closes, ok := tt.window.Next(zone(t, tt.zone), now)
			require.True(t, ok)
			require.Equal(t, tt.opens, opens.Format(time.RFC3339Nano))
			if tt.closes == "" {
				require.Zero(t, closes)
				return
			}
			require.Equal(t, tt.closes, closes.Format(time.RFC3339Nano))
		})
	}
	_, _, ok := calendar.Window{}.Next(calendar.StoredTimezone("America/Atlantis"), time.Now())
	require.False(t, ok)
}

// Compared with a walk from minute to minute over what clocks show, around a change of clocks.
func TestWindowNextIsTheFirstMinuteInside(t *testing.T) {
	t.Parallel()

	zones := slices.DeleteFunc(calendar.TimezoneNames(), func(name string) bool {
		_, err := calendar.LoadTimezone(name)
		return err != nil
	})
	rapid.Check(t, func(t *rapid.T) {
		z, err := calendar.LoadTimezone(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		now := time.Date(rapid.IntRange(1975, 2035).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		if change, ok := z.NextChange(now); ok {
			now = change.At
		}
		now = now.Add(time.Duration(rapid.IntRange(-48*60, 36*60).Draw(t, "minutes after the change")) * time.Minute)
		var hours []calendar.Hours
		for range rapid.IntRange(1, 4).Draw(t, "intervals") {
			clock := func(name string) calendar.Clock {
				m := rapid.IntRange(0, 24*60-1).Draw(t, name)
				return calendar.Clock{Hour: m / 60, Minute: m % 60}
			}
			h := calendar.Hours{From: clock("from"), Until: clock("until")}
			for day := range 7 {
				if rapid.Bool().Draw(t, "on the day") {
					h.On = append(h.On, time.Weekday(day))
				}
			}
			hours = append(hours, h)
		}
		w, err := calendar.NewWindow(hours...)
		require.NoError(t, err)

		inside := func(at time.Time) bool { return insideHours(hours, z.WallTime(at)) }
		opens, closes, ok := w.Next(z, now)
		require.True(t, ok)
		at := now
		for ; !inside(at); at = at.Add(time.Minute) {
			require.Less(t, at.Sub(now), 10*24*time.Hour)
		}
		require.True(t, opens.Equal(at), "opens at %s, want %s", opens, at)
		for ; inside(at) && at.Sub(opens) < 9*24*time.Hour; at = at.Add(time.Minute) {
		}
		if inside(at) {
			require.True(t, closes.IsZero() || closes.After(at), "closes at %s", closes)
			return
		}
		require.True(t, closes.Equal(at), "closes at %s, want %s", closes, at)
	})
}

// insideHours reports whether one of the hours, of the day or of the eve, holds a wall time.
func insideHours(hours []calendar.Hours, w calendar.WallTime) bool {
	return slices.ContainsFunc(hours, func(h calendar.Hours) bool {
		on := func(d calendar.Date) bool { return len(h.On) == 0 || slices.Contains(h.On, d.Weekday()) }
		if h.From.Before(h.Until) {
			return on(w.Date) && !w.Clock.Before(h.From) && w.Clock.Before(h.Until)
		}
		return on(w.Date) && !w.Clock.Before(h.From) || on(w.Date.AddDays(-1)) && w.Clock.Before(h.Until)
	})
}

func FuzzParseWindow(f *testing.F) {
	for _, text := range []string{"Mo-Fr 09:00-18:00; Sa 10:00-14:00", "24/7", "Su-Tu 22:00-02:00,08:00-24:00; We off", "PH off", "09:00-09:00;;Mo\xff"} {
		f.Add(text, int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		w, err := calendar.ParseWindow(text)
		if err != nil {
			inputProblems(t, err)
			return
		}
		again, err := calendar.ParseWindow(w.String())
		if err != nil || again.String() != w.String() {
			t.Fatalf("%q is written as %q: %v", text, w, err)
		}
		now := time.Unix(at&(1<<32-1), 0).UTC()
		opens, closes, ok := w.Next(zone(t, "UTC"), now)
		if !ok || opens.Before(now) || !w.Includes(calendar.WallTimeOf(opens)) || !closes.IsZero() && (!closes.After(opens) || w.Includes(calendar.WallTimeOf(closes))) {
			t.Fatalf("%q from %s: opens at %s, closes at %s, %v", w, now, opens, closes, ok)
		}
	})
}
