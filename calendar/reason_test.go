package calendar_test

import (
	"errors"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func TestResolutionsHaveAReason(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		zone, wall string
		policies   calendar.Policies
		want       string
	}{
		"once":                            {"Asia/Tokyo", "2026-05-01T09:00:00", calendar.Policies{}, "exact"},
		"once, after a gap":               {"America/New_York", "2026-03-08T03:00:00", calendar.Policies{}, "exact"},
		"once, after a fold":              {"America/New_York", "2026-11-01T02:00:00", calendar.Policies{}, "exact"},
		"gap, forward":                    {"America/New_York", "2026-03-08T02:30:00", calendar.Policies{}, "moved forward 60 min because clocks skip 02:00–03:00"},
		"gap, backward":                   {"America/New_York", "2026-03-08T02:30:00", backward, "moved back 60 min because clocks skip 02:00–03:00"},
		"gap, boundary":                   {"America/New_York", "2026-03-08T02:20:00", boundary, "moved forward 40 min because clocks skip 02:00–03:00"},
		"gap, boundary, half a minute":    {"America/New_York", "2026-03-08T02:59:30", boundary, "moved forward 30s because clocks skip 02:00–03:00"},
		"gap, boundary, and some minutes": {"America/New_York", "2026-03-08T02:49:30", boundary, "moved forward 10m30s because clocks skip 02:00–03:00"},
		"gap, boundary, ten seconds":      {"America/New_York", "2026-03-08T02:58:50", boundary, "moved forward 1m10s because clocks skip 02:00–03:00"},
		"half an hour":                    {"Australia/Lord_Howe", "2026-10-04T02:15:00", calendar.Policies{}, "moved forward 30 min because clocks skip 02:00–02:30"},
		"two hours":                       {"Antarctica/Troll", "2026-03-29T01:30:00", calendar.Policies{}, "moved forward 2 h because clocks skip 01:00–03:00"},
		"an hour and a half":              {"Pacific/Apia", "2011-12-30T22:30:00", boundary, "moved forward 90 min because clocks skip 2011-12-30 00:00–2011-12-31 00:00"},
		"a day":                           {"Pacific/Apia", "2011-12-30T09:00:00", calendar.Policies{}, "moved forward 24 h because clocks skip 2011-12-30 00:00–2011-12-31 00:00"},
		"a day, backward":                 {"Pacific/Apia", "2011-12-30T09:00:00", backward, "moved back 24 h because clocks skip 2011-12-30 00:00–2011-12-31 00:00"},
		"a day, boundary":                 {"Pacific/Apia", "2011-12-30T09:00:00", boundary, "moved forward 15 h because clocks skip 2011-12-30 00:00–2011-12-31 00:00"},
		"midnight":                        {"America/Sao_Paulo", "2018-11-04T00:00:00", calendar.Policies{}, "moved forward 60 min because clocks skip 00:00–01:00"},
		"over midnight":                   {"America/Nuuk", "2025-03-29T23:30:00", calendar.Policies{}, "moved forward 60 min because clocks skip 2025-03-29 23:00–2025-03-30 00:00"},
		"a width in seconds":              {"Africa/Monrovia", "1972-01-07T00:10:00", calendar.Policies{}, "moved forward 44m30s because clocks skip 00:00–00:44:30"},
		"fold, first":                     {"America/New_York", "2026-11-01T01:30:00", calendar.Policies{}, "first of two showings: clocks go back from 02:00 to 01:00"},
		"fold, second":                    {"America/New_York", "2026-11-01T01:30:00", second, "second of two showings: clocks go back from 02:00 to 01:00"},
		"fold over midnight":              {"America/Sao_Paulo", "2019-02-16T23:30:00", calendar.Policies{}, "first of two showings: clocks go back from 2019-02-17 00:00 to 2019-02-16 23:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r, err := zone(t, tt.zone).Resolve(wall(t, tt.wall), tt.policies)

			if got := r.Reason(); err != nil || got != tt.want {
				t.Errorf("%s in %s under %+v: %q, %v; want %q", tt.wall, tt.zone, tt.policies, got, err, tt.want)
			}
		})
	}
}

func TestOccurrencesHaveAReason(t *testing.T) {
	t.Parallel()

	leap := func(hour, minute int) calendar.Yearly {
		return calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: hour, Minute: minute}}
	}
	monthEnd := calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 9}}
	skipped := rrule(t, "FREQ=MONTHLY;BYMONTHDAY=30;RSCALE=GREGORIAN;SKIP=FORWARD", "2027-01-30T09:00:00")
	mar1 := calendar.Policies{LeapDay: calendar.LeapDayMar1}
	tests := map[string]struct {
		rule     calendar.Recurrence
		policies calendar.Policies
		zone     string
		after    string
		want     string
	}{
		"an ordinary day":               {monthEnd, calendar.Policies{}, "UTC", "2027-01-01T00:00:00Z", "exact"},
		"a leap day that is there":      {leap(9, 0), calendar.Policies{}, "UTC", "2028-01-01T00:00:00Z", "exact"},
		"a leap day on the 28th":        {leap(9, 0), calendar.Policies{}, "UTC", "2027-01-01T00:00:00Z", "29 February moved to 28 February"},
		"a leap day on 1 March":         {leap(9, 0), mar1, "UTC", "2027-01-01T00:00:00Z", "29 February moved to 1 March"},
		"a month end":                   {monthEnd, calendar.Policies{}, "UTC", "2027-04-01T00:00:00Z", "31 April moved to 30 April"},
		"a month end by RRULE":          {skipped, calendar.Policies{}, "UTC", "2027-02-01T00:00:00Z", "30 February moved to 1 March"},
		"an RRULE's ordinary day":       {skipped, calendar.Policies{}, "UTC", "2027-03-02T00:00:00Z", "exact"},
		"a gap":                         {calendar.Daily{At: calendar.Clock{Hour: 2}}, calendar.Policies{}, "Europe/Berlin", "2026-03-28T12:00:00Z", "moved forward 60 min because clocks skip 02:00–03:00"},
		"a month end moved into a gap":  {calendar.Monthly{Day: 31, At: calendar.Clock{Minute: 30}}, calendar.Policies{}, "Africa/Cairo", "2010-04-01T00:00:00Z", "31 April moved to 30 April; moved forward 60 min because clocks skip 00:00–01:00"},
		"a month end moved into a fold": {calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 23, Minute: 30}}, calendar.Policies{}, "Asia/Almaty", "2024-02-01T12:00:00Z", "31 February moved to 29 February; first of two showings: clocks go back from 2024-03-01 00:00 to 2024-02-29 23:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for next, err := range calendar.Occurrences(tt.rule, zone(t, tt.zone), tt.policies, instant(t, tt.after)) {
				if got := next.Reason(); err != nil || got != tt.want {
					t.Errorf("%+v in %s after %s: %q, %v; want %q", tt.rule, tt.zone, tt.after, got, err, tt.want)
				}
				return
			}
			t.Errorf("%+v in %s after %s: nothing; want %q", tt.rule, tt.zone, tt.after, tt.want)
		})
	}
}

func TestChangesDescribeTheClockChange(t *testing.T) {
	t.Parallel()

	const h = time.Hour
	tests := map[string]struct {
		change   calendar.Change
		width    time.Duration
		from, to string
		text     string
	}{
		"forward":           {calendar.Change{instant(t, "2026-03-08T07:00:00Z"), -5 * h, -4 * h}, h, "2026-03-08T02:00:00", "2026-03-08T03:00:00", "clocks skip 02:00–03:00"},
		"back":              {calendar.Change{instant(t, "2026-11-01T06:00:00Z"), -4 * h, -5 * h}, -h, "2026-11-01T02:00:00", "2026-11-01T01:00:00", "clocks go back from 02:00 to 01:00"},
		"half an hour":      {calendar.Change{instant(t, "2026-10-03T15:30:00Z"), 10*h + h/2, 11 * h}, h / 2, "2026-10-04T02:00:00", "2026-10-04T02:30:00", "clocks skip 02:00–02:30"},
		"a day":             {calendar.Change{instant(t, "2011-12-30T10:00:00Z"), -10 * h, 14 * h}, 24 * h, "2011-12-30T00:00:00", "2011-12-31T00:00:00", "clocks skip 2011-12-30 00:00–2011-12-31 00:00"},
		"at midnight":       {calendar.Change{instant(t, "2018-11-04T03:00:00Z"), -3 * h, -2 * h}, h, "2018-11-04T00:00:00", "2018-11-04T01:00:00", "clocks skip 00:00–01:00"},
		"back over the day": {calendar.Change{instant(t, "2019-02-17T02:00:00Z"), -2 * h, -3 * h}, -h, "2019-02-17T00:00:00", "2019-02-16T23:00:00", "clocks go back from 2019-02-17 00:00 to 2019-02-16 23:00"},
		"by seconds":        {calendar.Change{instant(t, "1901-01-01T00:00:00Z"), 10 * time.Second, 70 * time.Second}, time.Minute, "1901-01-01T00:00:10", "1901-01-01T00:01:10", "clocks skip 00:00:10–00:01:10"},
		"elsewhere labelled": {calendar.Change{instant(t, "2026-03-08T07:00:00Z").In(time.FixedZone("elsewhere", 9*3600)), -5 * h, -4 * h}, h,
			"2026-03-08T02:00:00", "2026-03-08T03:00:00", "clocks skip 02:00–03:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := tt.change
			if c.IsZero() || c.Width() != tt.width || c.From() != wall(t, tt.from) || c.To() != wall(t, tt.to) || c.String() != tt.text {
				t.Errorf("%+v: %v wide, from %s to %s, %q; want %v wide, from %s to %s, %q", c, c.Width(), c.From(), c.To(), c, tt.width, tt.from, tt.to, tt.text)
			}
		})
	}
	if !(calendar.Change{}).IsZero() {
		t.Error("the zero Change is not IsZero")
	}
}

func TestWallTimeErrorsDescribeTheClockChange(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		zone, wall string
		policies   calendar.Policies
		want       string
	}{
		"skipped":  {"Europe/Berlin", "2026-03-29T02:30:00", skipGap, "calendar: clocks in Europe/Berlin show 2026-03-29T02:30:00 never: clocks skip 02:00–03:00"},
		"rejected": {"Europe/Berlin", "2026-03-29T02:30:00", reject, "calendar: clocks in Europe/Berlin show 2026-03-29T02:30:00 never: clocks skip 02:00–03:00"},
		"twice":    {"Europe/Berlin", "2026-10-25T02:30:00", reject, "calendar: clocks in Europe/Berlin show 2026-10-25T02:30:00 twice: clocks go back from 03:00 to 02:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := zone(t, tt.zone).Resolve(wall(t, tt.wall), tt.policies)

			var refused *calendar.WallTimeError
			if !errors.As(err, &refused) || refused.Error() != tt.want {
				t.Errorf("%s in %s: %v; want %q", tt.wall, tt.zone, err, tt.want)
			}
		})
	}
}

// The scan looks at every day, then at the hours, minutes and seconds of those that
// end with another offset.
func TestNextChangeAgreesWithAScan(t *testing.T) {
	t.Parallel()

	names := []string{
		"UTC", "Asia/Tokyo", "Asia/Kolkata", "America/New_York", "Europe/Berlin", "Europe/London", "Europe/Dublin", "Australia/Lord_Howe",
		"Australia/Sydney", "Antarctica/Troll", "Africa/Cairo", "Africa/Casablanca", "America/Nuuk", "America/Santiago", "America/Havana",
		"America/Asuncion", "Asia/Beirut", "Asia/Jerusalem", "Asia/Almaty", "Pacific/Easter", "Pacific/Chatham",
	}
	until := time.Date(2038, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			z := zone(t, name)
			at := time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)
			for _, want := range scan(z, at, until) {
				for _, after := range []time.Time{at, want.At.Add(-time.Nanosecond)} {
					if got, ok := z.NextChange(after); !ok || got != want {
						t.Fatalf("after %v: %+v, %v; want %+v", after, got, ok, want)
					}
				}
				at = want.At
			}
			if got, ok := z.NextChange(at); ok && got.At.Before(until) {
				t.Errorf("after %v: %+v; want none before %v", at, got, until)
			}
		})
	}
}

// scan lists the changes of clocks in z from an instant on.
func scan(z calendar.Timezone, at, until time.Time) []calendar.Change {
	offset := func(at time.Time) time.Duration { return z.WallTime(at).Labelled().Sub(at) }
	var changes []calendar.Change
	for ; at.Before(until); at = at.AddDate(0, 0, 1) {
		if offset(at) == offset(at.AddDate(0, 0, 1)) {
			continue
		}
		last := at
		for _, step := range []time.Duration{time.Hour, time.Minute, time.Second} {
			for offset(last.Add(step)) == offset(at) {
				last = last.Add(step)
			}
		}
		first := last.Add(time.Second)
		changes = append(changes, calendar.Change{At: first, Before: offset(at), After: offset(first)})
	}
	return changes
}

func TestNextChangeFindsNoneInAZoneWithoutChanges(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		zone  calendar.Timezone
		after string
	}{
		"Tokyo":                     {zone(t, "Asia/Tokyo"), "2026-01-01T00:00:00Z"},
		"UTC":                       {zone(t, "UTC"), "2026-01-01T00:00:00Z"},
		"Apia, which abolished it":  {zone(t, "Pacific/Apia"), "2026-01-01T00:00:00Z"},
		"Honolulu, 21 years before": {zone(t, "Pacific/Honolulu"), "1912-01-01T00:00:00Z"},
		"no zone":                   {calendar.Timezone{}, "2026-01-01T00:00:00Z"},
		"a zone without data":       {calendar.StoredTimezone("America/Atlantis"), "2026-01-01T00:00:00Z"},
	}
	for name, tt := range tests {
		if got, ok := tt.zone.NextChange(instant(t, tt.after)); ok || !got.IsZero() {
			t.Errorf("%s after %s: %+v, %v; want none", name, tt.after, got, ok)
		}
	}
}
