package almanac_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// A birthday is a few lines: this one comes at lunch, and by text message.
func ExampleBirthday() {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	}, now)
	if err != nil {
		panic(err)
	}
	lunch := almanac.Birthday{
		At:      func(almanac.User) almanac.Clock { return almanac.Clock{Hour: 12, Minute: 30} },
		Message: func(u almanac.User) string { return "Many happy returns, " + u.FirstName + "!" },
		Via:     "sms",
	}

	o, err := lunch.Next(user, now)
	if err != nil {
		panic(err)
	}
	payload, err := lunch.Payload(user, o)
	fmt.Println(o.Wall, "in", o.Zone)
	fmt.Println(string(payload), err)
	// Output:
	// 2026-12-10T12:30:00 in Europe/London
	// {"message":"Many happy returns, Ada!"} <nil>
}

// A bad profile is refused with everything that is wrong with it.
func ExampleNewUser() {
	_, err := almanac.NewUser(almanac.Profile{
		FirstName: "Ada", DateOfBirth: "1990-02-30", Timezone: "Europe/Kyev",
	}, time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(err)
	// Output: almanac: invalid input: lastName is empty; dateOfBirth is not a day of the calendar: February 1990 has 28 days; timezone is not a known time zone; did you mean "Europe/Kyiv"?
}
