package calendar_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func ExampleLoadTimezone() {
	calcutta, err := calendar.LoadTimezone("asia/calcutta")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(calcutta, "is now called", calcutta.Canonical())

	_, err = calendar.LoadTimezone("Amercia/New_York")
	fmt.Println(err)
	// Output:
	// Asia/Calcutta is now called Asia/Kolkata
	// calendar: "Amercia/New_York" is not a known time zone; did you mean "America/New_York"?
}

// In New York clocks went from 02:00 to 03:00 on 8 March 2026.
func ExampleTimezone_Resolve_gap() {
	newYork, err := calendar.LoadTimezone("America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	w := calendar.WallTime{
		Date:  calendar.Date{Year: 2026, Month: time.March, Day: 8},
		Clock: calendar.Clock{Hour: 2, Minute: 30},
	}
	for _, gap := range []calendar.GapPolicy{calendar.GapForward, calendar.GapBackward, calendar.GapBoundary} {
		r, err := newYork.Resolve(w, calendar.Policies{Gap: gap})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(gap, "runs at", newYork.WallTime(r.Instant).Clock)
	}

	_, err = newYork.Resolve(w, calendar.Policies{Gap: calendar.GapSkip})
	fmt.Println("skipped:", errors.Is(err, calendar.ErrSkippedWallTime))
	// Output:
	// forward runs at 03:30:00
	// backward runs at 01:30:00
	// boundary runs at 03:00:00
	// skipped: true
}

// In Berlin clocks went from 03:00 back to 02:00 on 25 October 2026.
func ExampleTimezone_Resolve_fold() {
	berlin, err := calendar.LoadTimezone("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	w, err := calendar.ParseWallTime("2026-10-25T02:30:00")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, fold := range []calendar.FoldPolicy{calendar.FoldFirst, calendar.FoldSecond} {
		r, err := berlin.Resolve(w, calendar.Policies{Fold: fold})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("shown %s, %s at %s\n", r.Reading, fold, r.Instant.Format(time.RFC3339))
	}
	// Output:
	// shown twice, first at 2026-10-25T00:30:00Z
	// shown twice, second at 2026-10-25T01:30:00Z
}

// 2100 is no leap year, so who insists on 29 February waits eight years.
func ExampleNext() {
	london, err := calendar.LoadTimezone("Europe/London")
	if err != nil {
		fmt.Println(err)
		return
	}
	leapDay := calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: 9}}
	asked := time.Date(2096, time.March, 1, 0, 0, 0, 0, time.UTC)
	for _, leap := range []calendar.LeapDayPolicy{calendar.LeapDayFeb28, calendar.LeapDayMar1, calendar.LeapDaySkip} {
		o, err := calendar.Next(leapDay, london, calendar.Policies{LeapDay: leap}, asked)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s on %s\n", leap, o.Key, o.Wall)
	}
	// Output:
	// feb28: 2097 on 2097-02-28T09:00:00
	// mar1: 2097 on 2097-03-01T09:00:00
	// skip: 2104 on 2104-02-29T09:00:00
}

// Of most countries one zone is known. Of the others, the host has to know more of the user.
func ExampleZonesOf() {
	for _, country := range []string{"NO", "NZ", "UK"} {
		fmt.Println(calendar.ZonesOf(country))
	}
	// Output:
	// [Europe/Oslo] <nil>
	// [Pacific/Auckland Pacific/Chatham] <nil>
	// [] calendar: country is "UK", which is no code of ISO 3166-1; did you mean "GB"?
}

// A mail to all users in a country: at 10:00 in the zone that is the last to have it, if it is still
// in office hours in all other zones.
func ExampleInAllZones() {
	office := must(calendar.ParseWindow("Mo-Fr 09:00-18:00"))
	wanted := must(calendar.ParseWallTime("2027-01-15T10:00:00"))
	for _, country := range []string{"BR", "US", "RU"} {
		at := must(calendar.InAllZones(must(calendar.ZonesOf(country)), wanted, office))
		fmt.Println(country, at.Wall, at.Zone, at.Open, at.Outside)
	}
	// Output:
	// BR 2027-01-15T10:00:00 America/Eirunepe true 0s
	// US 2027-01-15T10:00:00 America/Adak true 0s
	// RU 2027-01-15T08:30:00 Europe/Kaliningrad false 30m0s
}
