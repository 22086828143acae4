package calendar_test

import (
	"errors"
	"fmt"

	"github.com/almanac-go/almanac/calendar"
)

func ExampleInvalidTimezoneError() {
	_, err := calendar.LoadTimezone("Europe/Berln")
	var unknown *calendar.InvalidTimezoneError
	fmt.Println(errors.As(err, &unknown), unknown.Suggestion)
	// Output:
	// true Europe/Berlin
}

func ExampleInvalidRecurrenceError() {
	_, err := calendar.ParseCron("61 25 * * *")
	var bad *calendar.InvalidRecurrenceError
	if errors.As(err, &bad) {
		for _, problem := range bad.Problems {
			fmt.Println(problem)
		}
	}
	// Output:
	// minute "61": "61" is not between 0 and 59
	// hour "25": "25" is not between 0 and 23
}

// What has ended never changes.

func ExampleWallTimeError() {
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	_, err := berlin.Resolve(must(calendar.ParseWallTime("2027-03-28T02:30:00")), calendar.Policies{Gap: calendar.GapReject})
	var rejected *calendar.WallTimeError
	fmt.Println(errors.As(err, &rejected), errors.Is(err, calendar.ErrRejectedWallTime))
	fmt.Println(err)
	// Output:
	// true true
	// calendar: clocks in Europe/Berlin show 2027-03-28T02:30:00 never: clocks skip 02:00–03:00
}

func ExampleFormatError() {
	_, err := calendar.ParseClock("25:00")
	var bad *calendar.FormatError
	if errors.As(err, &bad) {
		fmt.Println(bad.Text, bad.Problem)
	}
	// Output:
	// 25:00 is not a time of day: hours are 00 to 23, minutes and seconds 00 to 59
}

func ExampleInputError() {
	err := calendar.Policies{Gap: "sideways", LeapDay: "feb30"}.Check()
	fmt.Println(err)
	fmt.Println(errors.Is(err, calendar.ErrInvalidInput))
	// Output:
	// calendar: gap is "sideways", which is no policy; leap day is "feb30", which is no policy
	// true
}

func ExampleInputProblem() {
	tokyo := must(calendar.LoadTimezone("Asia/Tokyo"))
	_, err := tokyo.Resolve(calendar.WallTime{Date: calendar.Date{Year: 2027, Month: 2, Day: 30}}, calendar.Policies{Fold: "third"})
	var bad *calendar.InputError
	if errors.As(err, &bad) {
		for _, p := range bad.Problems {
			fmt.Printf("%s: %s\n", p.Field, p.Problem)
		}
	}
	// Output:
	// fold: is "third", which is no policy
	// wall time: is 2027-02-30T00:00:00, which no calendar holds
}
