package calendars_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// A birthday on the fifth day of the eighth lunar month, in China.
func Example() {
	shanghai, err := calendar.LoadTimezone("Asia/Shanghai")
	if err != nil {
		panic(err)
	}
	birthday := calendar.YearlyBy{System: calendars.Chinese(), Month: 8, Day: 5, At: calendar.Clock{Hour: 9}}
	n := 0
	for next, err := range calendar.Occurrences(birthday, shanghai, calendar.Policies{}, time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(next.Unit, next.Key, "on", next.Wall.Date, err)
		if n++; n == 3 {
			break
		}
	}
	// Output:
	// year:chinese 2027 on 2027-09-05 <nil>
	// year:chinese 2028 on 2028-09-23 <nil>
	// year:chinese 2029 on 2029-09-12 <nil>
}

// A birthday in Adar I, which common years lack.
func ExampleHebrew() {
	day, err := calendars.Hebrew().Day(calendar.Date{Year: 2014, Month: time.February, Day: 8})
	fmt.Println(day, err)
	birthday := calendar.YearlyBy{System: calendars.Hebrew(), Month: day.Month, Leap: day.Leap, Day: day.Day, At: calendar.Clock{Hour: 9}}
	slot, err := birthday.After(calendar.WallTime{Date: calendar.Date{Year: 2026, Month: time.January, Day: 1}}, calendar.Policies{})
	fmt.Println(slot.Wall.Date, slot.DayReason, err)
	// Output:
	// 5774-05L-08 <nil>
	// 2026-02-25 8 Adar I moved to 8 Adar <nil>
}

// The name of a calendar that a user has chosen.
func ExampleLoad() {
	for _, name := range []string{"islamic-umalqura", "islamic"} {
		s, err := calendars.Load(name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		day, err := s.Day(calendar.Date{Year: 2027, Month: time.January, Day: 25})
		fmt.Println(day, err)
	}
	// Output:
	// 1448-08-17 <nil>
	// calendars: "islamic" only approximates the sighting of the moon; choose islamic-umalqura or islamic-civil
}

// Outside of its table a calendar has no days.
func ExampleUmmAlQura() {
	_, err := calendars.UmmAlQura().Date(calendar.SystemDate{Year: 1601, Month: 1, Day: 1})
	fmt.Println(err)
	// Output:
	// calendar: the calendar islamic-umalqura has no year 1601: its years are 1300 to 1600
}
