package almanac_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// Who asked for the digest gets it on Mondays at eight, where they live.
func ExampleRecurring() {
	digest := almanac.Recurring{
		Type: "DIGEST",
		Rule: func(u almanac.User) (almanac.Recurrence, error) {
			var wants struct{ Digest bool }
			if err := json.Unmarshal(u.Attributes, &wants); err != nil || !wants.Digest {
				return nil, err // no recurrence: owed none
			}
			return almanac.Weekly{On: []time.Weekday{time.Monday}, At: almanac.Clock{Hour: 8}}, nil
		},
		Message: func(u almanac.User, _ almanac.Occurrence) string { return "Your week, " + u.FirstName },
	}
	now := time.Date(2026, time.January, 10, 0, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Asia/Tokyo",
		Attributes: json.RawMessage(`{"digest": true}`),
	}, now)
	if err != nil {
		panic(err)
	}

	o, err := digest.Next(user, now)
	if err != nil {
		panic(err)
	}
	payload, err := digest.Payload(user, o)
	fmt.Println(o.Wall, "in", o.Zone)
	fmt.Println(string(payload), err)
	// Output:
	// 2026-01-12T08:00:00 in Asia/Tokyo
	// {"message":"Your week, Ada","occurrence":"2026-01-12"} <nil>
}

// The last working day of each month, at the time of day of the start.
func ExampleParseRRule() {
	start, err := almanac.ParseWallTime("2026-01-01T17:00:00")
	if err != nil {
		panic(err)
	}
	payday, err := almanac.ParseRRule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=3", start)
	if err != nil {
		panic(err)
	}
	london, err := almanac.LoadTimezone("Europe/London")
	if err != nil {
		panic(err)
	}

	for next, err := range almanac.Occurrences(payday, london, almanac.Policies{}, time.Time{}) {
		fmt.Println(next.Occurrence.Wall, err)
	}
	// Output:
	// 2026-01-30T17:00:00 <nil>
	// 2026-02-27T17:00:00 <nil>
	// 2026-03-31T17:00:00 <nil>
}

// In the night in which New York shows an hour twice, each half hour comes once.
func ExampleParseCron() {
	halves, err := almanac.ParseCron("*/30 * * * *")
	if err != nil {
		panic(err)
	}
	newYork, err := almanac.LoadTimezone("America/New_York")
	if err != nil {
		panic(err)
	}

	after := time.Date(2026, time.November, 1, 4, 30, 0, 0, time.UTC)
	for range 3 {
		o, err := almanac.Next(halves, newYork, almanac.Policies{}, after)
		if err != nil {
			panic(err)
		}
		r, err := o.Zone.Resolve(o.Wall, o.Policies)
		fmt.Println(o.Wall.Clock, "at", r.Instant.Format(time.TimeOnly), "UTC", err)
		after = r.Instant
	}

	_, err = almanac.ParseCron("61 * * * FRY")
	fmt.Println(errors.Is(err, almanac.ErrInvalidRecurrence))
	// Output:
	// 01:00:00 at 05:00:00 UTC <nil>
	// 01:30:00 at 05:30:00 UTC <nil>
	// 02:00:00 at 07:00:00 UTC <nil>
	// true
}

// A pill every other morning, four in all from 1 June on, without the second.
func ExampleBounded() {
	eight, june := almanac.Clock{Hour: 8}, almanac.Date{Year: 2026, Month: time.June, Day: 1}
	pills := almanac.Bounded{
		Rule:   almanac.Daily{At: eight, Every: 2, From: june},
		Start:  almanac.WallTime{Date: june},
		Count:  4,
		Except: []almanac.WallTime{{Date: almanac.Date{Year: 2026, Month: time.June, Day: 3}, Clock: eight}},
	}
	london, err := almanac.LoadTimezone("Europe/London")
	if err != nil {
		panic(err)
	}

	for next, err := range almanac.Occurrences(pills, london, almanac.Policies{}, time.Time{}) {
		fmt.Println(next.Occurrence.Wall, err)
	}
	// Output:
	// 2026-06-01T08:00:00 <nil>
	// 2026-06-05T08:00:00 <nil>
	// 2026-06-07T08:00:00 <nil>
}
