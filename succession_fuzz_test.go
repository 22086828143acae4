package almanac_test

import (
	"errors"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
)

// FuzzSuccession follows a person's birthdays from any instant on, wherever they
// live and whatever is decided about leap days: each is later than the one before,
// by its key and by its instant, and once in each year.
func FuzzSuccession(f *testing.F) {
	for i, odd := range oddChanges {
		at := instant(f, odd.at)
		f.Add(at.AddDate(-30, 0, 0).Unix()/86400, uint8(i), at.Add(-time.Hour).Unix(), uint8(i))
	}
	f.Add(instant(f, "1996-02-29T00:00:00Z").Unix()/86400, uint8(0), instant(f, "2095-03-01T00:00:00Z").Unix(), uint8(2))
	f.Fuzz(func(t *testing.T, day int64, n uint8, from int64, choices uint8) {
		after := time.Unix(from, 0).UTC()
		born, err := almanac.ParseDateOfBirth(time.Unix(day%50_000*86400, 0).UTC().Format(time.DateOnly))
		if err != nil || after.Year() < 1900 || after.Year() > 2200 {
			return
		}
		u := almanac.User{DateOfBirth: born, Timezone: zone(t, oddChanges[int(n)%len(oddChanges)].zone)}
		early := func(almanac.User) almanac.Clock { return almanac.Clock{Hour: int(n) / len(oddChanges) % 4, Minute: 30} }
		handler := almanac.Birthday{At: early, Policies: almanac.Policies{
			LeapDay: []almanac.LeapDayPolicy{"", almanac.LeapDayFeb28, almanac.LeapDayMar1, almanac.LeapDaySkip}[choices%4],
			Gap:     []almanac.GapPolicy{"", almanac.GapBackward, almanac.GapBoundary, almanac.GapSkip}[choices/4%4],
			Fold:    []almanac.FoldPolicy{"", almanac.FoldSecond}[choices/16%2],
		}}
		year, key := 0, ""
		for range 10 {
			o, err := handler.Next(u, after)
			if errors.Is(err, almanac.ErrNoOccurrence) {
				return
			}
			if err != nil {
				t.Fatalf("born %v in %s, after %v: %v", u.DateOfBirth, u.Timezone, after, err)
			}
			r, err := o.Zone.Resolve(o.Wall, o.Policies)
			if err != nil || !r.Instant.After(after) || o.Key <= key || o.Wall.Date.Year <= year {
				t.Fatalf("born %v in %s, after %v and %q: %+v at %v, %v", u.DateOfBirth, u.Timezone, after, key, o, r.Instant, err)
			}
			after, key, year = r.Instant, o.Key, o.Wall.Date.Year
		}
	})
}
