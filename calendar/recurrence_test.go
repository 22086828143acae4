package calendar_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/internal/zones"
)

func TestYearlyNext(t *testing.T) {
	t.Parallel()

	var (
		nine    = calendar.Clock{Hour: 9}
		march   = calendar.Yearly{Month: time.March, Day: 15, At: nine}
		leap    = calendar.Yearly{Month: time.February, Day: 29, At: nine}
		newYear = calendar.Yearly{Month: time.January, Day: 1, At: nine}
		oldYear = calendar.Yearly{Month: time.December, Day: 31, At: nine}
		lateOld = calendar.Yearly{Month: time.December, Day: 31, At: calendar.Clock{Hour: 23, Minute: 30}}
		gap     = calendar.Yearly{Month: time.March, Day: 8, At: calendar.Clock{Hour: 2, Minute: 30}} // skipped in New York in 2026
		fold    = calendar.Yearly{Month: time.November, Day: 1, At: calendar.Clock{Hour: 1, Minute: 30}}
		skip    = calendar.Policies{LeapDay: calendar.LeapDaySkip}
		mar1    = calendar.Policies{LeapDay: calendar.LeapDayMar1}
	)
	tests := map[string]struct {
		yearly   calendar.Yearly
		zone     string
		policies calendar.Policies
		after    string
		wall     string
		key      string
	}{
		"later this year":                             {march, "America/New_York", calendar.Policies{}, "2026-01-01T00:00:00Z", "2026-03-15T09:00:00", "2026"},
		"later this very day":                         {march, "America/New_York", calendar.Policies{}, "2026-03-15T12:59:59Z", "2026-03-15T09:00:00", "2026"},
		"next year, from the instant itself":          {march, "America/New_York", calendar.Policies{}, "2026-03-15T13:00:00Z", "2027-03-15T09:00:00", "2027"},
		"next year, from a later instant":             {march, "America/New_York", calendar.Policies{}, "2026-03-16T00:00:00Z", "2027-03-15T09:00:00", "2027"},
		"29 February in a leap year":                  {leap, "Europe/Berlin", calendar.Policies{}, "2027-06-01T00:00:00Z", "2028-02-29T09:00:00", "2028"},
		"29 February on the 28th in a common year":    {leap, "Europe/Berlin", calendar.Policies{}, "2026-06-01T00:00:00Z", "2027-02-28T09:00:00", "2027"},
		"29 February on 1 March, if so wished":        {leap, "Europe/Berlin", mar1, "2026-06-01T00:00:00Z", "2027-03-01T09:00:00", "2027"},
		"29 February in leap years only, if so":       {leap, "Europe/Berlin", skip, "2026-06-01T00:00:00Z", "2028-02-29T09:00:00", "2028"},
		"no leap day in 2100, skipped":                {leap, "Europe/Berlin", skip, "2096-03-01T00:00:00Z", "2104-02-29T09:00:00", "2104"},
		"no leap day in 2097, on the 28th":            {leap, "Europe/Berlin", calendar.Policies{}, "2096-03-01T00:00:00Z", "2097-02-28T09:00:00", "2097"},
		"no leap day in 2100, on the 28th":            {leap, "Europe/Berlin", calendar.Policies{}, "2099-03-01T00:00:00Z", "2100-02-28T09:00:00", "2100"},
		"mar1 leaves leap years alone":                {leap, "Europe/Berlin", mar1, "2027-06-01T00:00:00Z", "2028-02-29T09:00:00", "2028"},
		"new year far east, from the old year in UTC": {newYear, "Pacific/Kiritimati", calendar.Policies{}, "2025-12-31T18:59:59Z", "2026-01-01T09:00:00", "2026"},
		"new year far east, just given":               {newYear, "Pacific/Kiritimati", calendar.Policies{}, "2025-12-31T19:00:00Z", "2027-01-01T09:00:00", "2027"},
		"old year far west, from the new year in UTC": {lateOld, "Pacific/Niue", calendar.Policies{}, "2026-01-01T10:29:59Z", "2025-12-31T23:30:00", "2025"},
		"old year far west, just given":               {lateOld, "Pacific/Niue", calendar.Policies{}, "2026-01-01T10:30:00Z", "2026-12-31T23:30:00", "2026"},
		"old year far east":                           {oldYear, "Pacific/Kiritimati", calendar.Policies{}, "2025-12-30T18:00:00Z", "2025-12-31T09:00:00", "2025"},
		"new year far west":                           {newYear, "Pacific/Niue", calendar.Policies{}, "2026-01-01T12:00:00Z", "2026-01-01T09:00:00", "2026"},
		"a gap moves forward and is still ahead":      {gap, "America/New_York", calendar.Policies{}, "2026-03-08T07:29:59Z", "2026-03-08T02:30:00", "2026"},
		"a gap moved forward has passed":              {gap, "America/New_York", calendar.Policies{}, "2026-03-08T07:30:00Z", "2027-03-08T02:30:00", "2027"},
		"a gap moved backward has passed":             {gap, "America/New_York", calendar.Policies{Gap: calendar.GapBackward}, "2026-03-08T06:30:00Z", "2027-03-08T02:30:00", "2027"},
		"a gap is passed over, if so wished":          {gap, "America/New_York", calendar.Policies{Gap: calendar.GapSkip}, "2025-06-01T00:00:00Z", "2027-03-08T02:30:00", "2027"},
		"a rejected gap of the past is forgotten":     {gap, "America/New_York", calendar.Policies{Gap: calendar.GapReject}, "2026-03-09T00:00:00Z", "2027-03-08T02:30:00", "2027"},
		"a fold fires once":                           {fold, "America/New_York", calendar.Policies{}, "2026-11-01T05:30:00Z", "2027-11-01T01:30:00", "2027"},
		"a fold fires on its second showing, if so":   {fold, "America/New_York", calendar.Policies{Fold: calendar.FoldSecond}, "2026-11-01T06:29:59Z", "2026-11-01T01:30:00", "2026"},
		"an old year that vanished is still ahead":    {oldYear, "Pacific/Kiritimati", calendar.Policies{}, "1994-12-31T18:59:59Z", "1994-12-31T09:00:00", "1994"},
		"an old year that vanished, just given":       {oldYear, "Pacific/Kiritimati", calendar.Policies{}, "1994-12-31T19:00:00Z", "1995-12-31T09:00:00", "1995"},
		"from before all years":                       {march, "America/New_York", calendar.Policies{}, "0001-01-01T00:00:00Z", "0001-03-15T09:00:00", "0001"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zone(t, tt.zone)

			got, err := calendar.Next(tt.yearly, z, tt.policies, instant(t, tt.after))

			want := calendar.Occurrence{Key: tt.key, Wall: wall(t, tt.wall), Zone: z, Policies: tt.policies}
			if tt.yearly == leap && want.Wall.Date.Day != 29 {
				want.Named = calendar.Date{Year: want.Wall.Date.Year, Month: time.February, Day: 29}
			}
			if err != nil || calendartest.Unresolved(got) != want {
				t.Errorf("%+v in %s after %s = %+v, %v; want %+v", tt.yearly, tt.zone, tt.after, got, err, want)
			}
		})
	}
}

// Kiritimati left out 31 December 1994. Moved on by the width of that gap, the
// occurrence of 1994 falls on New Year's Day of 1995, so the search has to begin in
// the local year before.
func TestYearlyNextFindsAnOccurrenceThatAGapMovedIntoTheNextYear(t *testing.T) {
	t.Parallel()

	kiritimati := zone(t, "Pacific/Kiritimati")
	yearly := calendar.Yearly{Month: time.December, Day: 31, At: calendar.Clock{Hour: 9}}
	after := instant(t, "1994-12-31T12:00:00Z") // 02:00 on New Year's Day there

	got, err := calendar.Next(yearly, kiritimati, calendar.Policies{}, after)

	if err != nil || got.Key != "1994" || kiritimati.WallTime(after).Date.Year != 1995 {
		t.Errorf("after %v: %+v, %v; want the occurrence of 1994", kiritimati.WallTime(after), got, err)
	}
}

func TestYearlyNextRefuses(t *testing.T) {
	t.Parallel()

	gap := calendar.Yearly{Month: time.March, Day: 8, At: calendar.Clock{Hour: 2, Minute: 30}}
	fold := calendar.Yearly{Month: time.November, Day: 1, At: calendar.Clock{Hour: 1, Minute: 30}}
	newYork := zone(t, "America/New_York")
	tests := map[string]struct {
		yearly   calendar.Yearly
		zone     calendar.Timezone
		policies calendar.Policies
		after    string
		want     error // nil means any
	}{
		"the zero Yearly":             {calendar.Yearly{}, newYork, calendar.Policies{}, "2026-01-01T00:00:00Z", nil},
		"30 February":                 {calendar.Yearly{Month: 2, Day: 30}, newYork, calendar.Policies{}, "2026-01-01T00:00:00Z", nil},
		"31 April":                    {calendar.Yearly{Month: 4, Day: 31}, newYork, calendar.Policies{}, "2026-01-01T00:00:00Z", nil},
		"a month too many":            {calendar.Yearly{Month: 13, Day: 1}, newYork, calendar.Policies{}, "2026-01-01T00:00:00Z", nil},
		"an hour too many":            {calendar.Yearly{Month: 1, Day: 1, At: calendar.Clock{Hour: 24}}, newYork, calendar.Policies{}, "2026-01-01T00:00:00Z", nil},
		"an unknown policy":           {gap, newYork, calendar.Policies{Gap: "later"}, "2026-01-01T00:00:00Z", nil},
		"no zone":                     {gap, calendar.Timezone{}, calendar.Policies{}, "2026-01-01T00:00:00Z", calendar.ErrInvalidTimezone},
		"a zone without data":         {gap, calendar.StoredTimezone("America/Atlantis"), calendar.Policies{}, "2026-01-01T00:00:00Z", calendar.ErrInvalidTimezone},
		"a gap that is rejected":      {gap, newYork, calendar.Policies{Gap: calendar.GapReject}, "2026-01-01T00:00:00Z", calendar.ErrRejectedWallTime},
		"a fold that is rejected":     {fold, newYork, calendar.Policies{Fold: calendar.FoldReject}, "2026-01-01T00:00:00Z", calendar.ErrRejectedWallTime},
		"the end of all years":        {gap, newYork, calendar.Policies{}, "9999-06-01T00:00:00Z", calendar.ErrNoOccurrence},
		"no leap day before the end":  {calendar.Yearly{Month: 2, Day: 29}, newYork, calendar.Policies{LeapDay: calendar.LeapDaySkip}, "9997-01-01T00:00:00Z", calendar.ErrNoOccurrence},
		"an instant beyond all years": {gap, newYork, calendar.Policies{}, "9999-12-31T23:59:59Z", calendar.ErrNoOccurrence},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := calendar.Next(tt.yearly, tt.zone, tt.policies, instant(t, tt.after))

			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && errors.Is(err, calendar.ErrNoOccurrence) {
				t.Errorf("%+v in %s after %s = %+v, %v; want the error %v", tt.yearly, tt.zone, tt.after, got, err, tt.want)
			}
		})
	}
}

func TestYearlyNextYieldsEveryYear(t *testing.T) {
	t.Parallel()

	names := zones.Names()
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		z, err := calendar.LoadTimezone(rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 365).Draw(t, "day of the year"))
		yearly := calendar.Yearly{Month: day.Month(), Day: day.Day(), At: calendar.Clock{
			Hour: rapid.IntRange(0, 23).Draw(t, "hour"), Minute: rapid.IntRange(0, 59).Draw(t, "minute"), Second: rapid.IntRange(0, 59).Draw(t, "second"),
		}}
		policies := calendar.Policies{
			Gap:     rapid.SampledFrom([]calendar.GapPolicy{"", calendar.GapForward, calendar.GapBackward, calendar.GapBoundary, calendar.GapSkip}).Draw(t, "gap"),
			Fold:    rapid.SampledFrom([]calendar.FoldPolicy{"", calendar.FoldFirst, calendar.FoldSecond}).Draw(t, "fold"),
			LeapDay: rapid.SampledFrom([]calendar.LeapDayPolicy{"", calendar.LeapDayFeb28, calendar.LeapDayMar1, calendar.LeapDaySkip}).Draw(t, "leap day"),
		}
		after := time.Unix(rapid.Int64Range(-2208988800, 4102444800).Draw(t, "after"), 0).UTC() // 1900 to 2100
		key := ""
		for range 12 {
			o, err := calendar.Next(yearly, z, policies, after)
			if err != nil {
				t.Fatalf("after %v: %v", after, err)
			}
			r, err := z.Resolve(o.Wall, o.Policies)
			if err != nil {
				t.Fatalf("%v does not resolve: %v", o, err)
			}
			if !r.Instant.After(after) || o.Key <= key || o.Key != o.Wall.Date.String()[:4] {
				t.Fatalf("after %v, key %q: got %v at %v", after, key, o, r.Instant)
			}
			if missed := missedYears(key, o.Key); missed > 0 && policies.Gap != calendar.GapSkip && policies.LeapDay != calendar.LeapDaySkip {
				t.Fatalf("after %q comes %q, %d years are missing", key, o.Key, missed)
			}
			after, key = r.Instant, o.Key
		}
	})
}

// missedYears returns how many years lie between two keys of a yearly series.
func missedYears(before, after string) int {
	if before == "" {
		return 0
	}
	from, _ := time.Parse("2006", before)
	to, _ := time.Parse("2006", after)
	return to.Year() - from.Year() - 1
}
