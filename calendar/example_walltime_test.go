package calendar_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func ExampleClock() {
	nine, half := calendar.Clock{Hour: 9}, must(calendar.ParseClock("17:30"))
	fmt.Println(nine, half, nine.Before(half), calendar.Clock{Hour: 24}.Valid())
	// Output:
	// 09:00:00 17:30:00 true false
}

func ExampleDate() {
	leapDay := must(calendar.ParseDate("2028-02-29"))
	fmt.Println(leapDay, leapDay.Before(calendar.Date{Year: 2028, Month: time.March, Day: 1}))
	_, err := calendar.ParseDate("2027-02-29")
	fmt.Println(err)
	// Output:
	// 2028-02-29 true
	// calendar: "2027-02-29" is not a day of the calendar: February 2027 has 28 days
}

func ExampleWallTime() {
	w := must(calendar.ParseWallTime("2027-03-15T09:00:00"))
	tokyo := must(calendar.LoadTimezone("Asia/Tokyo"))
	r := must(tokyo.Resolve(w, calendar.Policies{}))
	fmt.Println(w, "in", tokyo, "is", r.Instant.Format(time.RFC3339))
	fmt.Println(tokyo.WallTime(r.Instant) == w)
	// Output:
	// 2027-03-15T09:00:00 in Asia/Tokyo is 2027-03-15T00:00:00Z
	// true
}

func ExampleTimezone() {
	pacific, angeles := must(calendar.LoadTimezone("US/Pacific")), must(calendar.LoadTimezone("America/Los_Angeles"))
	fmt.Println(pacific, pacific.Canonical(), pacific.Equal(angeles), pacific == angeles)
	// Output:
	// US/Pacific America/Los_Angeles true false
}

// A resolution says why it is what it is.
func ExampleResolution() {
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	for _, w := range []string{"2027-03-28T01:30:00", "2027-03-28T02:30:00", "2027-10-31T02:30:00"} {
		r := must(berlin.Resolve(must(calendar.ParseWallTime(w)), calendar.Policies{}))
		fmt.Println(r.Instant.Format(time.RFC3339), r.Offset, r.Reason())
	}
	// Output:
	// 2027-03-28T00:30:00Z 1h0m0s exact
	// 2027-03-28T01:30:00Z 2h0m0s moved forward 60 min because clocks skip 02:00–03:00
	// 2027-10-31T00:30:00Z 2h0m0s first of two showings: clocks go back from 03:00 to 02:00
}

func ExampleReading() {
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	for _, w := range []string{"2027-03-28T01:30:00", "2027-03-28T02:30:00", "2027-10-31T02:30:00"} {
		r := must(berlin.Resolve(must(calendar.ParseWallTime(w)), calendar.Policies{}))
		fmt.Println("clocks show it", r.Reading)
	}
	// Output:
	// clocks show it once
	// clocks show it never
	// clocks show it twice
}

func ExampleChange() {
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	c, _ := berlin.NextChange(time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(c.At.Format(time.RFC3339), "from", c.From().Clock, "to", c.To().Clock, "by", c.Width())
	// Output:
	// 2027-03-28T01:00:00Z from 02:00:00 to 03:00:00 by 1h0m0s
}

// gap resolves half past two in the night in which Berlin has none.
func gap(p calendar.Policies) {
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	r, err := berlin.Resolve(must(calendar.ParseWallTime("2027-03-28T02:30:00")), p)
	if err != nil {
		fmt.Println(p.Gap, err)
		return
	}
	fmt.Println(p.Gap, "runs at", r.Shown().Clock)
}

func ExampleGapPolicy() {
	for _, p := range []calendar.GapPolicy{calendar.GapForward, calendar.GapBackward, calendar.GapBoundary, calendar.GapReject} {
		gap(calendar.Policies{Gap: p})
	}
	// Output:
	// forward runs at 03:30:00
	// backward runs at 01:30:00
	// boundary runs at 03:00:00
	// reject calendar: clocks in Europe/Berlin show 2027-03-28T02:30:00 never: clocks skip 02:00–03:00
}

func ExampleFoldPolicy() {
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	for _, p := range []calendar.FoldPolicy{calendar.FoldFirst, calendar.FoldSecond} {
		r := must(berlin.Resolve(must(calendar.ParseWallTime("2027-10-31T02:30:00")), calendar.Policies{Fold: p}))
		fmt.Println(p, r.Instant.Format(time.RFC3339))
	}
	// Output:
	// first 2027-10-31T00:30:00Z
	// second 2027-10-31T01:30:00Z
}

// Rules of two zones are the same when clocks do the same in both.
func ExampleZoneRules() {
	london, jersey := must(must(calendar.LoadTimezone("Europe/London")).Rules(2027)), must(must(calendar.LoadTimezone("Europe/Jersey")).Rules(2027))
	fmt.Println(london.Zone, jersey.Zone, london.Fingerprint == jersey.Fingerprint)
	// Output:
	// Europe/London Europe/Jersey true
}

func ExampleZoneData() {
	own := calendar.OwnZoneData()
	fmt.Println(must(own.Timezone("europe/paris")))
	// Output:
	// Europe/Paris
}
