package calendars_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// Greet each user by the calendar of the date of birth.
func Example_birthdays() {
	if err := calendar.RegisterSystems(calendars.All()...); err != nil { // once, as the program starts
		panic(err)
	}
	now := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	for _, born := range []almanac.Profile{{DateOfBirth: "2014-02-08"}, {DateOfBirth: "5774-05L-08", Calendar: "hebrew"}, {DateOfBirth: "1987-06L-10", Calendar: "chinese"}, {DateOfBirth: "5774-02-31", Calendar: "hebrew"}} {
		born.FirstName, born.LastName, born.Timezone = "Ada", "Lovelace", "Asia/Jerusalem"
		u, err := almanac.NewUser(born, now)
		if err != nil {
			fmt.Println(err)
			continue
		}
		next, err := almanac.Birthday{}.Next(u, now)
		if err != nil {
			panic(err)
		}
		age, _ := u.DateOfBirth.Age(next)
		fmt.Println(next.Unit, next.Key, next.Wall.Date, next.SystemDayText(), age)
	}
	// Output:
	// year 2027 2027-02-08  13
	// year:hebrew 5787 2027-02-15 8 Adar I 5787 13
	// year:chinese 2027 2027-07-13 10 Sixth Month 2027 40
	// almanac: invalid input: dateOfBirth is no day of the calendar hebrew
}
