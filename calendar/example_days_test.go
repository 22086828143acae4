package calendar_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// The rent is due on the last day of the month, or on the working day before it.
func ExampleWithin() {
	bavaria := must(calendar.ParseWorkCalendar(`
		name DE-BY
		release 2026-11-02
		until 2027-12-31
		2027-01-01 holiday New Year
		2027-01-06 holiday Epiphany`))
	rent := calendar.Within{
		Of:       calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 9}},
		WorkDays: bavaria, Convention: calendar.ModifiedFollowing,
	}
	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	for next, err := range calendar.Occurrences(rent, berlin, calendar.Policies{}, time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(next.Key, "at", next.Wall, next.Reason(), err)
		if next.Key == "2027-02" {
			break
		}
	}
	// Output:
	// 2027-01 at 2027-01-29T09:00:00 moved from Sunday 31 January to Friday 29 January because of the weekend <nil>
	// 2027-02 at 2027-02-26T09:00:00 31 February moved to 28 February; moved from Sunday 28 February to Friday 26 February because of the weekend <nil>
}

// Calls late in the evening wait for the next opening of an office.
func ExampleWithin_window() {
	office := must(calendar.ParseWindow("Mo-Fr 09:00-18:00; Sa 10:00-14:00"))
	upcoming(calendar.Within{Of: calendar.Daily{At: calendar.Clock{Hour: 19}}, Window: office}, calendar.Policies{}, 3)
	// Output:
	// 2026-12-31 at 2027-01-01T09:00:00
	// 2027-01-01 at 2027-01-02T10:00:00
	// 2027-01-02 at 2027-01-04T09:00:00
}

func ExampleNewWorkCalendar() {
	riyadh, err := calendar.NewWorkCalendar(calendar.WorkCalendarOptions{
		Name: "SA", Release: "2026-11-02", Until: calendar.Date{Year: 2026, Month: time.December, Day: 31},
		Weeks:    []calendar.WorkWeek{{Days: []time.Weekday{time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday}}},
		Holidays: []calendar.NamedDay{{Date: calendar.Date{Year: 2026, Month: time.September, Day: 23}, Name: "National Day"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	day := calendar.Date{Year: 2026, Month: time.September, Day: 22}
	fmt.Println(riyadh.Add(day, 1), riyadh.Add(day, 3))
	// Output: 2026-09-24 2026-09-28
}

// A third working day of the month, and a notice three working days before it.
func ExampleParseWorkCalendar() {
	c := must(calendar.ParseWorkCalendar("name X\nrelease 2026-11-02\nuntil 2027-12-31\n2027-01-01 holiday New Year"))
	payday := calendar.Monthly{Day: 3, At: calendar.Clock{Hour: 12}, WorkDays: c}
	upcoming(payday, calendar.Policies{}, 1)
	upcoming(calendar.Offset{Of: payday, Days: -2, At: calendar.Clock{Hour: 9}, WorkDays: c}, calendar.Policies{}, 1)
	// Output:
	// 2027-01 at 2027-01-06T12:00:00
	// 2027-01 at 2027-01-04T09:00:00
}

func ExampleParseICalendarDays() {
	file := strings.Join([]string{
		"BEGIN:VCALENDAR",
		"BEGIN:VEVENT", "DTSTART;VALUE=DATE:20201225", "RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20211225", "SUMMARY:Christmas Day", "END:VEVENT",
		"END:VCALENDAR",
	}, "\r\n")
	days, err := calendar.ParseICalendarDays(file, calendar.Date{Year: 2022, Month: time.December, Day: 31})
	fmt.Println(days, err)
	// Output: [{2020-12-25 Christmas Day} {2022-12-25 Christmas Day}] <nil>
}

func ExampleNewWindow() {
	w, err := calendar.NewWindow(
		calendar.Hours{On: []time.Weekday{time.Monday, time.Tuesday}, From: calendar.Clock{Hour: 9}, Until: calendar.Clock{Hour: 18}},
		calendar.Hours{On: []time.Weekday{time.Friday}, From: calendar.Clock{Hour: 22}, Until: calendar.Clock{Hour: 2}},
	)
	fmt.Println(w, err)
	// Output: Mo-Tu 09:00-18:00; Fr 22:00-02:00 <nil>
}

func ExampleParseWindow() {
	office := must(calendar.ParseWindow("Mo-Fr 09:00-18:00; Sa 10:00-14:00"))
	newYork := must(calendar.LoadTimezone("America/New_York"))
	opens, closes, ok := office.Next(newYork, time.Date(2027, time.January, 9, 20, 0, 0, 0, time.UTC)) // a Saturday
	fmt.Println(opens, closes, ok)
	// Output: 2027-01-11 14:00:00 +0000 UTC 2027-01-11 23:00:00 +0000 UTC true
}

// A birth date by another calendar, as users write it. The year can be left out.
func ExampleParseSystemDate() {
	for _, text := range []string{"5774-05L-08", "08-05", "8 Adar I"} {
		day, err := calendar.ParseSystemDate(text)
		fmt.Println(day.Year, day.Month, day.Leap, day.Day, err)
	}
	// Output:
	// 5774 5 true 8 <nil>
	// 0 8 false 5 <nil>
	// 0 0 false 0 calendar: "8 Adar I" is not of the form YYYY-MM-DD or MM-DD, with an L behind the number of a leap month
}

// What an event stores says whether a newer release of a calendar concerns it.
func ExampleParseConsulted() {
	c, err := calendar.ParseConsulted("DE-BY@2026-11-02 2026-12-01 2027-01-08")
	for name, release := range c.Releases() {
		fmt.Println(name, release, c.From, c.Until, err)
	}
	bavaria := must(calendar.ParseWorkCalendar("name DE-BY\nrelease 2026-12-24\nuntil 2027-12-31\n2027-01-08 holiday"))
	fmt.Println(bavaria.Rules(2026).Outdates(c))
	// Output:
	// DE-BY 2026-11-02 2026-12-01 2027-01-08 <nil>
	// true
}
