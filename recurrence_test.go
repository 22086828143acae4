package almanac_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/zones"
)

func TestYearlyNext(t *testing.T) {
	t.Parallel()

	var (
		nine    = almanac.Clock{Hour: 9}
		march   = almanac.Yearly{Month: time.March, Day: 15, At: nine}
		leap    = almanac.Yearly{Month: time.February, Day: 29, At: nine}
		newYear = almanac.Yearly{Month: time.January, Day: 1, At: nine}
		oldYear = almanac.Yearly{Month: time.December, Day: 31, At: nine}
		lateOld = almanac.Yearly{Month: time.December, Day: 31, At: almanac.Clock{Hour: 23, Minute: 30}}
		gap     = almanac.Yearly{Month: time.March, Day: 8, At: almanac.Clock{Hour: 2, Minute: 30}} // skipped in New York in 2026
		fold    = almanac.Yearly{Month: time.November, Day: 1, At: almanac.Clock{Hour: 1, Minute: 30}}
		skip    = almanac.Policies{LeapDay: almanac.LeapDaySkip}
		mar1    = almanac.Policies{LeapDay: almanac.LeapDayMar1}
	)
	tests := map[string]struct {
		yearly   almanac.Yearly
		zone     string
		policies almanac.Policies
		after    string
		wall     string
		key      string
	}{
		"later this year":                             {march, "America/New_York", almanac.Policies{}, "2026-01-01T00:00:00Z", "2026-03-15T09:00:00", "2026"},
		"later this very day":                         {march, "America/New_York", almanac.Policies{}, "2026-03-15T12:59:59Z", "2026-03-15T09:00:00", "2026"},
		"next year, asked at the instant itself":      {march, "America/New_York", almanac.Policies{}, "2026-03-15T13:00:00Z", "2027-03-15T09:00:00", "2027"},
		"next year, asked later":                      {march, "America/New_York", almanac.Policies{}, "2026-03-16T00:00:00Z", "2027-03-15T09:00:00", "2027"},
		"29 February in a leap year":                  {leap, "Europe/Berlin", almanac.Policies{}, "2027-06-01T00:00:00Z", "2028-02-29T09:00:00", "2028"},
		"29 February on the 28th in a common year":    {leap, "Europe/Berlin", almanac.Policies{}, "2026-06-01T00:00:00Z", "2027-02-28T09:00:00", "2027"},
		"29 February on 1 March, if so wished":        {leap, "Europe/Berlin", mar1, "2026-06-01T00:00:00Z", "2027-03-01T09:00:00", "2027"},
		"29 February in leap years only, if so":       {leap, "Europe/Berlin", skip, "2026-06-01T00:00:00Z", "2028-02-29T09:00:00", "2028"},
		"no leap day in 2100, skipped":                {leap, "Europe/Berlin", skip, "2096-03-01T00:00:00Z", "2104-02-29T09:00:00", "2104"},
		"no leap day in 2097, on the 28th":            {leap, "Europe/Berlin", almanac.Policies{}, "2096-03-01T00:00:00Z", "2097-02-28T09:00:00", "2097"},
		"no leap day in 2100, on the 28th":            {leap, "Europe/Berlin", almanac.Policies{}, "2099-03-01T00:00:00Z", "2100-02-28T09:00:00", "2100"},
		"mar1 leaves leap years alone":                {leap, "Europe/Berlin", mar1, "2027-06-01T00:00:00Z", "2028-02-29T09:00:00", "2028"},
		"new year far east, asked in the old UTC one": {newYear, "Pacific/Kiritimati", almanac.Policies{}, "2025-12-31T18:59:59Z", "2026-01-01T09:00:00", "2026"},
		"new year far east, just given":               {newYear, "Pacific/Kiritimati", almanac.Policies{}, "2025-12-31T19:00:00Z", "2027-01-01T09:00:00", "2027"},
		"old year far west, asked in the new UTC one": {lateOld, "Pacific/Niue", almanac.Policies{}, "2026-01-01T10:29:59Z", "2025-12-31T23:30:00", "2025"},
		"old year far west, just given":               {lateOld, "Pacific/Niue", almanac.Policies{}, "2026-01-01T10:30:00Z", "2026-12-31T23:30:00", "2026"},
		"old year far east":                           {oldYear, "Pacific/Kiritimati", almanac.Policies{}, "2025-12-30T18:00:00Z", "2025-12-31T09:00:00", "2025"},
		"new year far west":                           {newYear, "Pacific/Niue", almanac.Policies{}, "2026-01-01T12:00:00Z", "2026-01-01T09:00:00", "2026"},
		"a gap moves forward and is still ahead":      {gap, "America/New_York", almanac.Policies{}, "2026-03-08T07:29:59Z", "2026-03-08T02:30:00", "2026"},
		"a gap moved forward has passed":              {gap, "America/New_York", almanac.Policies{}, "2026-03-08T07:30:00Z", "2027-03-08T02:30:00", "2027"},
		"a gap moved backward has passed":             {gap, "America/New_York", almanac.Policies{Gap: almanac.GapBackward}, "2026-03-08T06:30:00Z", "2027-03-08T02:30:00", "2027"},
		"a gap is passed over, if so wished":          {gap, "America/New_York", almanac.Policies{Gap: almanac.GapSkip}, "2025-06-01T00:00:00Z", "2027-03-08T02:30:00", "2027"},
		"a rejected gap of the past is forgotten":     {gap, "America/New_York", almanac.Policies{Gap: almanac.GapReject}, "2026-03-09T00:00:00Z", "2027-03-08T02:30:00", "2027"},
		"a fold fires once":                           {fold, "America/New_York", almanac.Policies{}, "2026-11-01T05:30:00Z", "2027-11-01T01:30:00", "2027"},
		"a fold fires on its second showing, if so":   {fold, "America/New_York", almanac.Policies{Fold: almanac.FoldSecond}, "2026-11-01T06:29:59Z", "2026-11-01T01:30:00", "2026"},
		"an old year that vanished is still ahead":    {oldYear, "Pacific/Kiritimati", almanac.Policies{}, "1994-12-31T18:59:59Z", "1994-12-31T09:00:00", "1994"},
		"an old year that vanished, just given":       {oldYear, "Pacific/Kiritimati", almanac.Policies{}, "1994-12-31T19:00:00Z", "1995-12-31T09:00:00", "1995"},
		"from before all years":                       {march, "America/New_York", almanac.Policies{}, "0001-01-01T00:00:00Z", "0001-03-15T09:00:00", "0001"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zone(t, tt.zone)

			got, err := almanac.Next(tt.yearly, z, tt.policies, instant(t, tt.after))

			want := almanac.Occurrence{Key: tt.key, Wall: wall(t, tt.wall), Zone: z, Policies: tt.policies}
			if tt.yearly == leap && want.Wall.Date.Day != 29 {
				want.Named = almanac.Date{Year: want.Wall.Date.Year, Month: time.February, Day: 29}
			}
			if err != nil || got != want {
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
	yearly := almanac.Yearly{Month: time.December, Day: 31, At: almanac.Clock{Hour: 9}}
	after := instant(t, "1994-12-31T12:00:00Z") // 02:00 on New Year's Day there

	got, err := almanac.Next(yearly, kiritimati, almanac.Policies{}, after)

	if err != nil || got.Key != "1994" || kiritimati.WallTime(after).Date.Year != 1995 {
		t.Errorf("after %v: %+v, %v; want the occurrence of 1994", kiritimati.WallTime(after), got, err)
	}
}

func TestYearlyNextRefuses(t *testing.T) {
	t.Parallel()

	gap := almanac.Yearly{Month: time.March, Day: 8, At: almanac.Clock{Hour: 2, Minute: 30}}
	fold := almanac.Yearly{Month: time.November, Day: 1, At: almanac.Clock{Hour: 1, Minute: 30}}
	newYork := zone(t, "America/New_York")
	tests := map[string]struct {
		yearly   almanac.Yearly
		zone     almanac.Timezone
		policies almanac.Policies
		after    string
		want     error // nil means any
	}{
		"the zero Yearly":             {almanac.Yearly{}, newYork, almanac.Policies{}, "2026-01-01T00:00:00Z", nil},
		"30 February":                 {almanac.Yearly{Month: 2, Day: 30}, newYork, almanac.Policies{}, "2026-01-01T00:00:00Z", nil},
		"31 April":                    {almanac.Yearly{Month: 4, Day: 31}, newYork, almanac.Policies{}, "2026-01-01T00:00:00Z", nil},
		"a month too many":            {almanac.Yearly{Month: 13, Day: 1}, newYork, almanac.Policies{}, "2026-01-01T00:00:00Z", nil},
		"an hour too many":            {almanac.Yearly{Month: 1, Day: 1, At: almanac.Clock{Hour: 24}}, newYork, almanac.Policies{}, "2026-01-01T00:00:00Z", nil},
		"an unknown policy":           {gap, newYork, almanac.Policies{Gap: "later"}, "2026-01-01T00:00:00Z", nil},
		"no zone":                     {gap, almanac.Timezone{}, almanac.Policies{}, "2026-01-01T00:00:00Z", almanac.ErrInvalidTimezone},
		"a zone without data":         {gap, almanac.StoredTimezone("America/Atlantis"), almanac.Policies{}, "2026-01-01T00:00:00Z", almanac.ErrInvalidTimezone},
		"a gap that is rejected":      {gap, newYork, almanac.Policies{Gap: almanac.GapReject}, "2026-01-01T00:00:00Z", almanac.ErrRejectedWallTime},
		"a fold that is rejected":     {fold, newYork, almanac.Policies{Fold: almanac.FoldReject}, "2026-01-01T00:00:00Z", almanac.ErrRejectedWallTime},
		"the end of all years":        {gap, newYork, almanac.Policies{}, "9999-06-01T00:00:00Z", almanac.ErrNoOccurrence},
		"no leap day before the end":  {almanac.Yearly{Month: 2, Day: 29}, newYork, almanac.Policies{LeapDay: almanac.LeapDaySkip}, "9997-01-01T00:00:00Z", almanac.ErrNoOccurrence},
		"an instant beyond all years": {gap, newYork, almanac.Policies{}, "9999-12-31T23:59:59Z", almanac.ErrNoOccurrence},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := almanac.Next(tt.yearly, tt.zone, tt.policies, instant(t, tt.after))

			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || tt.want == nil && errors.Is(err, almanac.ErrNoOccurrence) {
				t.Errorf("%+v in %s after %s = %+v, %v; want the error %v", tt.yearly, tt.zone, tt.after, got, err, tt.want)
			}
		})
	}
}

func TestYearlyNextGoesOnAndOn(t *testing.T) {
	t.Parallel()

	names := zones.Names()
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		z, err := almanac.LoadTimezone(rapid.SampledFrom(names).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 365).Draw(t, "day of the year"))
		yearly := almanac.Yearly{Month: day.Month(), Day: day.Day(), At: almanac.Clock{
			Hour: rapid.IntRange(0, 23).Draw(t, "hour"), Minute: rapid.IntRange(0, 59).Draw(t, "minute"), Second: rapid.IntRange(0, 59).Draw(t, "second"),
		}}
		policies := almanac.Policies{
			Gap:     rapid.SampledFrom([]almanac.GapPolicy{"", almanac.GapForward, almanac.GapBackward, almanac.GapBoundary, almanac.GapSkip}).Draw(t, "gap"),
			Fold:    rapid.SampledFrom([]almanac.FoldPolicy{"", almanac.FoldFirst, almanac.FoldSecond}).Draw(t, "fold"),
			LeapDay: rapid.SampledFrom([]almanac.LeapDayPolicy{"", almanac.LeapDayFeb28, almanac.LeapDayMar1, almanac.LeapDaySkip}).Draw(t, "leap day"),
		}
		after := time.Unix(rapid.Int64Range(-2208988800, 4102444800).Draw(t, "after"), 0).UTC() // 1900 to 2100
		key := ""
		for range 12 {
			o, err := almanac.Next(yearly, z, policies, after)
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
			if missed := missedYears(key, o.Key); missed > 0 && policies.Gap != almanac.GapSkip && policies.LeapDay != almanac.LeapDaySkip {
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
