package calendar_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestQuietHoursEnd(t *testing.T) {
	t.Parallel()
	night := calendartest.Quiet("22:00-08:00")
	short := calendartest.Quiet("01:00-02:30")
	for name, tt := range map[string]struct {
		hours    calendar.Window
		zone     string
		now, end string // the same for an instant outside
	}{
		"a second before they begin":          {night, "Europe/Berlin", "2027-01-10T20:59:59Z", "2027-01-10T20:59:59Z"},
		"as they begin":                       {night, "Europe/Berlin", "2027-01-10T21:00:00Z", "2027-01-11T07:00:00Z"},
		"after midnight":                      {night, "Europe/Berlin", "2027-01-11T02:00:00Z", "2027-01-11T07:00:00Z"},
		"as they end":                         {night, "Europe/Berlin", "2027-01-11T07:00:00Z", "2027-01-11T07:00:00Z"},
		"the night that clocks go forward":    {night, "Europe/Berlin", "2027-03-27T21:00:00Z", "2027-03-28T06:00:00Z"},
		"the night that clocks go back":       {night, "Europe/Berlin", "2027-10-30T20:00:00Z", "2027-10-31T07:00:00Z"},
		"clocks skip the end":                 {short, "Europe/Berlin", "2027-03-28T00:30:00Z", "2027-03-28T01:00:00Z"},
		"clocks show the end twice":           {short, "Europe/Berlin", "2027-10-31T00:15:00Z", "2027-10-31T00:30:00Z"},
		"clocks show the end again":           {short, "Europe/Berlin", "2027-10-31T01:15:00Z", "2027-10-31T01:30:00Z"},
		"clocks skip the day on which to end": {night, "Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-30T18:00:00Z"},
		"none":                                {calendar.Window{}, "Europe/Berlin", "2027-01-11T02:00:00Z", "2027-01-11T02:00:00Z"},
		"all but half an hour, skipped": {
			calendartest.Quiet("03:00-02:30"),
			"Europe/Berlin", "2027-03-27T03:00:00Z", "2027-03-29T00:30:00Z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := calendartest.Instant(t, tt.now)
			end, _, opens := tt.hours.Next(calendartest.Zone(t, tt.zone), now)
			require.True(t, opens)
			require.Equal(t, tt.end, end.Format(time.RFC3339))
		})
	}
}

// Compared with a walk from minute to minute, in every zone, around both nights of a change.
func TestQuietHoursEndAtTheFirstMinuteOutside(t *testing.T) {
	t.Parallel()
	zones := slices.DeleteFunc(calendar.TimezoneNames(), func(name string) bool {
		_, err := calendar.LoadTimezone(name)
		return err != nil
	})
	rapid.Check(t, func(t *rapid.T) {
		zone, err := calendar.LoadTimezone(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		minutes := func(name string) calendar.Clock {
			m := rapid.IntRange(0, 24*60-1).Draw(t, name)
			return calendar.Clock{Hour: m / 60, Minute: m % 60}
		}
		from, until := minutes("from"), minutes("until")
		now := time.Date(rapid.IntRange(1975, 2035).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		if change, ok := zone.NextChange(now); ok {
			now = change.At
		}
		now = now.Add(time.Duration(rapid.IntRange(-36*60, 36*60).Draw(t, "minutes after the change")) * time.Minute)

		outside := func(at time.Time) bool {
			c := zone.WallTime(at).Clock
			if from.Before(until) {
				return c.Before(from) || !c.Before(until)
			}
			return from == until || !c.Before(until) && c.Before(from)
		}
		first := now
		for ; !outside(first); first = first.Add(time.Minute) {
			if first.Sub(now) > 80*time.Hour {
				t.Fatal("no minute outside")
			}
		}
		end, _, opens := calendartest.Quiet(from.String()+"-"+until.String()).Next(zone, now)
		require.True(t, opens)
		require.True(t, end.Equal(first), "%s is not %s", end, first)
	})
}

func TestWithinMovesSlotsOutOfQuietHours(t *testing.T) {
	t.Parallel()

	night := calendartest.Quiet("22:00-08:00")
	noon := calendartest.Quiet("12:00-14:00")
	at := func(hour int) calendar.Recurrence { return calendar.Daily{At: calendar.Clock{Hour: hour}} }
	hourly := rrule(t, "FREQ=HOURLY", "2027-01-01T00:00:00")
	leap := calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: 23}}
	tests := map[string]struct {
		within calendar.Within
		after  string
		want   string // the key, the wall time, and what it was moved from
	}{
		"by day":                        {calendar.Within{Of: at(9), Window: night}, "2027-03-01T00:00:00", "2027-03-01 2027-03-01T09:00:00"},
		"early":                         {calendar.Within{Of: at(6), Window: night}, "2027-03-01T00:00:00", "2027-03-01 2027-03-01T08:00:00 2027-03-01T06:00:00"},
		"as they begin":                 {calendar.Within{Of: at(22), Window: night}, "2027-03-01T12:00:00", "2027-03-01 2027-03-02T08:00:00 2027-03-01T22:00:00"},
		"as they end":                   {calendar.Within{Of: at(8), Window: night}, "2027-03-01T00:00:00", "2027-03-01 2027-03-01T08:00:00"},
		"late, already on its way":      {calendar.Within{Of: at(23), Window: night}, "2027-03-02T07:59:59", "2027-03-01 2027-03-02T08:00:00 2027-03-01T23:00:00"},
		"late, just passed":             {calendar.Within{Of: at(23), Window: night}, "2027-03-02T08:00:00", "2027-03-02 2027-03-03T08:00:00 2027-03-02T23:00:00"},
		"late, on its own day":          {calendar.Within{Of: at(23), Window: night, KeepDay: true}, "2027-03-01T07:00:00", "2027-03-01 2027-03-01T08:00:00 2027-03-01T23:00:00"},
		"late, on its own day, passed":  {calendar.Within{Of: at(23), Window: night, KeepDay: true}, "2027-03-01T08:00:00", "2027-03-02 2027-03-02T08:00:00 2027-03-02T23:00:00"},
		"over noon":                     {calendar.Within{Of: at(13), Window: noon}, "2027-03-01T00:00:00", "2027-03-01 2027-03-01T14:00:00 2027-03-01T13:00:00"},
		"over noon, on its own day":     {calendar.Within{Of: at(13), Window: noon, KeepDay: true}, "2027-03-01T00:00:00", "2027-03-01 2027-03-01T14:00:00 2027-03-01T13:00:00"},
		"no quiet hours":                {calendar.Within{Of: at(23)}, "2027-03-01T00:00:00", "2027-03-01 2027-03-01T23:00:00"},
		"many, one there by itself":     {calendar.Within{Of: hourly, Window: night}, "2027-03-01T21:30:00", "2027-03-02T08:00:00 2027-03-02T08:00:00"},
		"and only that":                 {calendar.Within{Of: hourly, Window: night}, "2027-03-02T08:00:00", "2027-03-02T09:00:00 2027-03-02T09:00:00"},
		"the first of many":             {calendar.Within{Of: rrule(t, "FREQ=HOURLY;INTERVAL=5", "2027-03-01T11:00:00"), Window: night}, "2027-03-01T21:30:00", "2027-03-02T02:00:00 2027-03-02T08:00:00 2027-03-02T02:00:00"},
		"of a leap day":                 {calendar.Within{Of: leap, Window: night}, "2027-01-01T00:00:00", "2027 2027-03-01T08:00:00 2027-02-28T23:00:00"},
		"of what is outside of another": {calendar.Within{Of: calendar.Within{Of: at(13), Window: noon}, Window: calendartest.Quiet("14:00-15:00")}, "2027-03-01T00:00:00", "2027-03-01 2027-03-01T15:00:00 2027-03-01T13:00:00"},
		"the first day of all":          {calendar.Within{Of: at(6), Window: night}, "", "0001-01-01 0001-01-01T08:00:00 0001-01-01T06:00:00"},
		"none beyond the last day":      {calendar.Within{Of: at(23), Window: night}, "9999-12-31T08:00:00", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			slot, err := tt.within.After(wallOrBeginning(t, tt.after), calendar.Policies{})

			if tt.want == "" {
				require.ErrorIs(t, err, calendar.ErrNoOccurrence)
				return
			}
			require.NoError(t, err)
			got := []string{slot.Key, slot.Wall.String()}
			if slot.Move.From != (calendar.WallTime{}) {
				got = append(got, slot.Move.From.String())
			}
			require.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

func TestWithinSaysWhyItMoved(t *testing.T) {
	t.Parallel()

	of := calendar.Offset{Of: calendar.Monthly{Day: 15, At: calendar.Clock{Hour: 9}}, Days: -1, At: calendar.Clock{Hour: 1}}
	early := calendartest.Quiet("00:00-02:30")
	o, err := calendar.Next(calendar.Within{Of: of, Window: early}, zone(t, "America/New_York"), calendar.Policies{}, instant(t, "2027-03-01T00:00:00Z"))
	require.NoError(t, err)
	require.Equal(t, "1 day before 15 March; moved from 01:00 to 03:00 because of quiet hours", o.Reason())
}

func TestWithinRefusesWhatItCannotMove(t *testing.T) {
	t.Parallel()

	for _, o := range []calendar.Within{
		{}, {Of: calendar.Within{}}, {Of: calendar.Daily{}, Convention: "sideways"},
	} {
		_, err := o.After(calendar.WallTime{}, calendar.Policies{})
		require.ErrorIs(t, err, calendar.ErrInvalidRecurrence)
	}
	_, err := calendar.Within{Convention: "sideways"}.After(calendar.WallTime{}, calendar.Policies{})
	var invalid *calendar.InvalidRecurrenceError
	require.True(t, errors.As(err, &invalid))
	require.Len(t, invalid.Problems, 2)
}

// Beside any change of clocks: no slot is in the quiet hours, they come in order, each has the key of
// a slot of the recurrence, none gets lost that is alone in its day, and asking from any moment gives
// the same list.
func TestWithinKeepsOrderAndKeys(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := calendartest.DrawCase(t)
		clock := func(name string) calendar.Clock {
			m := rapid.IntRange(0, 24*60-1).Draw(t, name)
			return calendar.Clock{Hour: m / 60, Minute: m % 60}
		}
		w, days := s.DrawWall(t, "wall time"), rapid.IntRange(1, 3).Draw(t, "every so many days")
		daily := calendar.Daily{At: clock("at"), Every: days, From: w.Date}
		from, until := clock("from"), clock("until")
		quiet := calendartest.Quiet(from.String() + "-" + until.String())
		o := calendar.Within{Of: daily, Window: quiet, KeepDay: rapid.Bool().Draw(t, "keep day")}

		start := calendar.WallTimeOf(w.Labelled().AddDate(0, 0, -3))
		last, key := start, ""
		for range 5 {
			slot, err := o.After(last, calendar.Policies{})
			require.NoError(t, err)
			require.True(t, last.Before(slot.Wall))
			require.Less(t, key, slot.Key)
			of := slot.Move.From
			if of == (calendar.WallTime{}) {
				of = slot.Wall
			}
			require.Equal(t, daily.At, of.Clock)
			require.Equal(t, of.Date.String(), slot.Key)
			if o.KeepDay {
				require.Equal(t, of.Date, slot.Wall.Date)
			}
			if from != until {
				inside := !slot.Wall.Clock.Before(from) && slot.Wall.Clock.Before(until)
				if until.Before(from) {
					inside = !slot.Wall.Clock.Before(from) || slot.Wall.Clock.Before(until)
				}
				require.False(t, inside, "%s is not within %v", slot.Wall, quiet)
			}
			middle := calendar.WallTimeOf(last.Labelled().Add(slot.Wall.Labelled().Sub(last.Labelled()) / 2).Truncate(time.Second))
			again, err := o.After(middle, calendar.Policies{})
			require.NoError(t, err)
			if middle.Before(slot.Wall) {
				require.Equal(t, slot, again, "asked at %s", middle)
			}
			last, key = slot.Wall, slot.Key
		}
		require.Less(t, last.Labelled().Sub(start.Labelled()), time.Duration(days*6+4)*24*time.Hour, "one was lost")

		previous := time.Time{}
		for next, err := range calendar.Occurrences(o, s.Zone, calendar.Policies{}, start.Labelled()) {
			require.NoError(t, err)
			require.True(t, previous.Before(next.Resolution.Instant))
			if previous = next.Resolution.Instant; last.Before(next.Wall) {
				break
			}
		}
	})
}
