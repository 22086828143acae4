package calendar_test

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// Half past two on each day, over the night in which New York has none.
func ExampleOccurrences() {
	newYork, err := calendar.LoadTimezone("America/New_York")
	if err != nil {
		panic(err)
	}
	nightly := calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}, From: calendar.Date{Year: 2026, Month: time.March, Day: 7}}
	for next, err := range calendar.Occurrences(nightly, newYork, calendar.Policies{}, time.Time{}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(next.Key, next.Resolution.Instant.Format(time.RFC3339), next.Reason())
		if next.Key == "2026-03-09" {
			break // it has no end
		}
	}
	// Output:
	// 2026-03-07 2026-03-07T07:30:00Z exact
	// 2026-03-08 2026-03-08T07:30:00Z moved forward 60 min because clocks skip 02:00–03:00
	// 2026-03-09 2026-03-09T06:30:00Z exact
}

// When clocks change next, by how much, or not at all.
func ExampleTimezone_NextChange() {
	after := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "Asia/Tokyo"} {
		zone, err := calendar.LoadTimezone(name)
		if err != nil {
			panic(err)
		}
		if change, ok := zone.NextChange(after); ok {
			fmt.Printf("%s: %s at %s\n", name, change, change.At.Format(time.RFC3339))
		} else {
			fmt.Println(name, "keeps its offset")
		}
	}
	// Output:
	// Europe/Berlin: clocks go back from 03:00 to 02:00 at 2026-10-25T01:00:00Z
	// Australia/Lord_Howe: clocks skip 02:00–02:30 at 2026-10-03T15:30:00Z
	// Asia/Tokyo keeps its offset
}

// A program can look at a new release of the zone database beside its own, if
// there is one.
func ExampleOpenZoneData() {
	data, err := calendar.OpenZoneData("no/such/zoneinfo.zip")
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Println("no new release")
		data = calendar.OwnZoneData()
	}
	tokyo, err := data.Timezone("Asia/Tokyo")
	fmt.Println(tokyo, err)
	// Output:
	// no new release
	// Asia/Tokyo <nil>
}

// An occurrence comes with its instant, and says how that was found.
func ExampleOccurrence_Reason() {
	birthday := calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: 9}}
	london := must(calendar.LoadTimezone("Europe/London"))
	for next, err := range calendar.Occurrences(birthday, london, calendar.Policies{}, time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(next.Key, next.Wall, next.Resolution.Instant.Format(time.RFC3339), next.Reason(), err)
		break
	}
	// Output: 2027 2027-02-28T09:00:00 2027-02-28T09:00:00Z 29 February moved to 28 February <nil>
}

// The key of an occurrence names it, whatever becomes of its wall time.
func ExampleOccurrence() {
	night := calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}
	newYork := must(calendar.LoadTimezone("America/New_York"))
	o := must(calendar.Next(night, newYork, calendar.Policies{}, time.Date(2027, time.March, 14, 0, 0, 0, 0, time.UTC)))
	fmt.Println(o.Key, "is", o.Wall, "in", o.Zone)
	// Output: 2027-03-14 is 2027-03-14T02:30:00 in America/New_York
}
