package almanac_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// A birthday with its own time of day, text and channel takes a few lines.
func ExampleBirthday() {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	}, now)
	if err != nil {
		panic(err)
	}
	lunch := almanac.Birthday{
		At:      func(almanac.User) calendar.Clock { return calendar.Clock{Hour: 12, Minute: 30} },
		Message: func(u almanac.User) string { return "Many happy returns, " + u.FirstName + "!" },
		Via:     "sms",
	}

	o, err := lunch.Next(user, now)
	if err != nil {
		panic(err)
	}
	payload, err := lunch.Payload(user, almanac.Occurrence{Occurrence: o})
	fmt.Println(o.Wall, "in", o.Zone)
	fmt.Println(string(payload), err)
	// Output:
	// 2026-12-10T12:30:00 in Europe/London
	// {"message":"Many happy returns, Ada!"} <nil>
}

// The error for an invalid profile names every invalid field.
func ExampleNewUser() {
	_, err := almanac.NewUser(almanac.Profile{
		FirstName: "Ada", DateOfBirth: "1990-02-30", Timezone: "Europe/Kyev",
	}, time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(err)
	// Output: almanac: invalid input: lastName is empty; dateOfBirth is not a day of the calendar: February 1990 has 28 days; timezone is not a known time zone; did you mean "Europe/Kyiv"?
}

func ExampleBirthday_Next() {
	now := time.Date(2026, time.December, 10, 9, 0, 0, 0, time.UTC)
	ada, err := almanac.NewUser(almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace",
		DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	}, now)
	if err != nil {
		fmt.Println(err)
		return
	}

	// At exactly 09:00 this year's birthday has passed, so the next one is returned.
	o, err := almanac.Birthday{}.Next(ada, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.Key, o.Wall, o.Zone)
	fmt.Println(almanac.BirthdayMessage(ada))
	// Output:
	// 2027 2027-12-10T09:00:00 Europe/London
	// Hey, Ada Lovelace it's your birthday
}

// The date is one of the user's attributes. The first anniversary is one year after the
// date.
func ExampleAnniversary() {
	hired := almanac.Anniversary{Type: "HIRED", Attribute: "hired"}
	now := time.Date(2024, time.February, 29, 8, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1990-12-09", Timezone: "America/New_York",
		Attributes: json.RawMessage(`{"hired": "2024-02-29"}`),
	}, now)
	if err != nil {
		panic(err)
	}

	for after := now; after.Year() < 2026; after = after.AddDate(1, 0, 1) {
		o, err := hired.Next(user, after)
		if err != nil {
			panic(err)
		}
		payload, err := hired.Payload(user, almanac.Occurrence{Occurrence: o})
		if err != nil {
			panic(err)
		}
		fmt.Println(o.Wall, string(payload))
	}
	// Output:
	// 2025-02-28T09:00:00 {"message":"Hey, Grace Hopper it's your first anniversary","years":1}
	// 2026-02-28T09:00:00 {"message":"Hey, Grace Hopper it's your anniversary: 2 years","years":2}
}
