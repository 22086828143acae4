package calendar_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

func TestResolveRefusesInstantsOutsideTheCalendar(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ zone, wall, want string }{
		"the first second of the year 10000": {"America/New_York", "9999-12-31T19:00:00",
			"calendar: wall time is 9999-12-31T19:00:00, which in America/New_York is 10000-01-01T00:00:00 in UTC: years are 1 to 9999"},
		"the last wall time in the west": {"America/New_York", "9999-12-31T23:59:59",
			"calendar: wall time is 9999-12-31T23:59:59, which in America/New_York is 10000-01-01T04:59:59 in UTC: years are 1 to 9999"},
		"the first wall time in the east": {"Asia/Tokyo", "0001-01-01T00:00:00",
			"calendar: wall time is 0001-01-01T00:00:00, which in Asia/Tokyo is 0000-12-31T14:41:01 in UTC: years are 1 to 9999"},
		"the last second of the year 0": {"Asia/Tokyo", "0001-01-01T09:18:58",
			"calendar: wall time is 0001-01-01T09:18:58, which in Asia/Tokyo is 0000-12-31T23:59:59 in UTC: years are 1 to 9999"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := zone(t, tt.zone).Resolve(wall(t, tt.wall), calendar.Policies{})

			if got != (calendar.Resolution{}) || !errors.Is(err, calendar.ErrInvalidInput) || err.Error() != tt.want {
				t.Errorf("%v, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// The calendar ends at one instant everywhere. A wall time near an end is refused where its
// instant is beyond the end, and only there.
func TestResolveEndsAtTheSameInstantInEveryZone(t *testing.T) {
	t.Parallel()

	first, end := time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range calendar.TimezoneNames() {
		z := zone(t, name)
		for _, edge := range []time.Time{first, end} {
			for seconds := -20 * 3600; seconds <= 20*3600; seconds += 977 {
				at := edge.Add(time.Duration(seconds) * time.Second)
				w := z.WallTime(at)
				got, err := z.Resolve(w, calendar.Policies{})
				if good := w.Valid() && !at.Before(first) && at.Before(end); good != (err == nil) || good && got.Instant != at {
					t.Fatalf("%s in %s = %v, %v; want %v", w, name, got, err, at)
				}
			}
		}
	}
}

// A recurrence of any kind that runs to the end of the calendar ends there without an error, and
// says at which wall time.
func TestRecurrencesEndQuietlyAtTheEndOfTheCalendar(t *testing.T) {
	t.Parallel()

	late := calendar.Clock{Hour: 23, Minute: 30}
	daily := calendar.Daily{At: late}
	start := wall(t, "9999-01-01T23:30:00")
	days := []string{"9999-12-29T23:30:00", "9999-12-30T23:30:00"}
	tests := map[string]struct {
		rule calendar.Recurrence
		want []string
	}{
		"once":             {calendar.Once{At: wall(t, "9999-12-31T23:30:00")}, nil},
		"daily":            {daily, days},
		"weekly":           {calendar.Weekly{On: []time.Weekday{time.Wednesday, time.Friday}, At: late}, days[:1]},
		"monthly":          {calendar.Monthly{Day: -1, At: late}, nil},
		"yearly":           {calendar.Yearly{Month: time.December, Day: 31, At: late}, nil},
		"a rule":           {rrule(t, "FREQ=DAILY", start.String()), days},
		"a counted rule":   {rrule(t, "FREQ=DAILY;COUNT=1000", start.String()), days},
		"until an instant": {rrule(t, "FREQ=DAILY;UNTIL=99991231T235959Z", start.String()), days},
		"cron":             {cron(t, "30 23 * * *"), days},
		"a set":            {set(t, "DTSTART;TZID=America/New_York:99990101T233000", "RRULE:FREQ=DAILY"), days},
		"bounded":          {calendar.Bounded{Rule: daily, Start: start, Count: 1000}, days},
		"announced":        {calendar.Offset{Of: daily, Days: 0, At: late}, days},
		"out of the night": {calendar.Within{Of: daily, Window: calendartest.Quiet("01:00-" + late.String())}, days},
	}
	newYork := zone(t, "America/New_York")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for next, err := range calendar.Occurrences(tt.rule, newYork, calendar.Policies{}, instant(t, "9999-12-29T12:00:00Z")) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, next.Wall.String())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			const says = "calendar: no further occurrence: the next wall time is 9999-12-31T23:30:00, " +
				"which in America/New_York is 10000-01-01T04:30:00 in UTC: years are 1 to 9999"
			next, err := calendar.Next(tt.rule, newYork, calendar.Policies{}, instant(t, "9999-12-31T06:00:00Z"))
			if !errors.Is(err, calendar.ErrNoOccurrence) || errors.Is(err, calendar.ErrInvalidInput) || name != "until an instant" && err.Error() != says {
				t.Errorf("%+v, %v", next, err)
			}
		})
	}
}

// Whatever the instant after which a recurrence is asked, its occurrences are in the calendar.
func TestOccurrencesAreInTheCalendar(t *testing.T) {
	t.Parallel()

	names := calendar.TimezoneNames()
	rapid.Check(t, func(t *rapid.T) {
		z, err := calendar.LoadTimezone(rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		year := rapid.SampledFrom([]int{-300, 0, 1, 2, 9998, 9999, 10000, 12000}).Draw(t, "year")
		after := time.Date(year, time.January, 1, 0, 0, rapid.IntRange(-200_000, 200_000).Draw(t, "second"), 0, time.UTC)
		at := calendar.Clock{Hour: rapid.IntRange(0, 23).Draw(t, "hour"), Minute: rapid.IntRange(0, 59).Draw(t, "minute")}

		next, err := calendar.Next(calendar.Daily{At: at}, z, calendar.Policies{}, after)

		switch day, text := 24*time.Hour, []byte(nil); {
		case errors.Is(err, calendar.ErrNoOccurrence):
			if last := time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC); after.Before(last.Add(-day)) {
				t.Fatalf("%s in %s after %s: %v", at, z, after, err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if text, err = json.Marshal(next.Resolution.Instant); err != nil || !next.Resolution.Instant.After(after) {
				t.Fatalf("%s in %s after %s: %s, %v", at, z, after, text, err)
			}
			earliest := time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC)
			if after.After(earliest) {
				earliest = after
			}
			if next.Resolution.Instant.Sub(earliest) > 2*day {
				t.Fatalf("%s in %s after %s: %s is not the first", at, z, after, text)
			}
		}
	})
}
