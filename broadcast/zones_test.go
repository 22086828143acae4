package broadcast_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// In each zone the time is at the wall time, or as the rule for times that have passed says.
func TestZonesFollowTheRuleForTimesThatHavePassed(t *testing.T) {
	t.Parallel()
	names := []string{"UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Casablanca", "America/Havana"}
	rapid.Check(t, func(t *rapid.T) {
		created := time.Unix(rapid.Int64Range(1_300_000_000, 1_900_000_000).Draw(t, "created"), 0).UTC()
		at := calendar.WallTimeOf(created.Add(time.Duration(rapid.IntRange(-100*3600, 100*3600).Draw(t, "after")) * time.Second))
		b := broadcast.Broadcast{Name: "n", Type: "T", At: at, Passed: rapid.SampledFrom([]broadcast.Passed{broadcast.Now, broadcast.Skip, broadcast.NextDay}).Draw(t, "passed")}
		for _, z := range broadcast.ZonesOf(b, names, created) {
			in := calendar.StoredTimezone(z.Name)
			planned, err := in.Resolve(at, calendar.Policies{})
			if err != nil {
				t.Fatal(err)
			}
			passed := !planned.Instant.After(created)
			switch {
			case !passed:
				if z.At != at || !z.Due.Equal(planned.Instant) || z.Late || z.Skipped {
					t.Fatalf("%s: %+v, and not at %s", z.Name, z, planned.Instant)
				}
			case b.Passed == broadcast.Skip:
				if !z.Skipped {
					t.Fatalf("%s: %+v is not skipped", z.Name, z)
				}
			case b.Passed == broadcast.Now:
				if !z.Late || !z.Due.Equal(created) {
					t.Fatalf("%s: %+v is not due now", z.Name, z)
				}
			default:
				resolved, err := in.Resolve(z.At, calendar.Policies{})
				if err != nil || z.At.Clock != at.Clock || !z.Due.After(created) || !z.Due.Equal(resolved.Instant) || z.Due.Sub(created) > 49*time.Hour {
					t.Fatalf("%s: %+v is not on the next day", z.Name, z)
				}
				before, err := in.Resolve(calendar.WallTime{Date: z.At.Date.AddDays(-1), Clock: at.Clock}, calendar.Policies{})
				if err == nil && before.Instant.After(created) {
					t.Fatalf("%s: %+v, and the day before has not passed", z.Name, z)
				}
			}
		}
	})
}
