package calendar_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// When is 02:30 in New York, on the second Sunday of a month? In March clocks skip it.
func Example() {
	newYork := must(calendar.LoadTimezone("America/New_York"))
	start := must(calendar.ParseWallTime("2027-02-01T02:30:00"))
	sundays := must(calendar.ParseRRule("FREQ=MONTHLY;BYDAY=2SU;COUNT=3", start))

	for next, err := range calendar.Occurrences(sundays, newYork, calendar.Policies{}, time.Time{}) {
		fmt.Println(next.Wall, "is", next.Resolution.Instant.Format(time.RFC3339), next.Reason(), err)
	}
	// Output:
	// 2027-02-14T02:30:00 is 2027-02-14T07:30:00Z exact <nil>
	// 2027-03-14T02:30:00 is 2027-03-14T07:30:00Z moved forward 60 min because clocks skip 02:00–03:00 <nil>
	// 2027-04-11T02:30:00 is 2027-04-11T06:30:00Z exact <nil>
}

// A wall time that a user typed, in a zone that the user chose: each error says what is wrong, in
// words that can be shown.
func Example_input() {
	_, err := calendar.ParseWallTime("2027-02-29T09:00:00")
	fmt.Println(err)
	_, err = calendar.LoadTimezone("Europe/Berln")
	fmt.Println(err)
	_, err = calendar.ParseRRule("FREQ=DAYLY;COUNT=0", must(calendar.ParseWallTime("2027-03-01T09:00:00")))
	fmt.Println(err)
	// Output:
	// calendar: "2027-02-29T09:00:00" is not a day of the calendar: February 2027 has 28 days
	// calendar: "Europe/Berln" is not a known time zone; did you mean "Europe/Berlin"?
	// calendar: invalid recurrence "FREQ=DAYLY;COUNT=0": FREQ="DAYLY" is not SECONDLY, MINUTELY, HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY; COUNT="0" is not a number from 1 to 10000
}
