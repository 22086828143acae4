package calendars

import (
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// Chinese returns the calendar of China, "chinese". It has the years 1900 to 2100: from 31 January
// 1900 to 28 January 2101. A year has the number of the Gregorian year in which it begins.
//
// The calendar depends on the place: a month begins on the day of the new moon there. So it is not
// the calendar of Korea or Vietnam. The customs are backward: a birthday in a leap month is in the
// month before it, and one on the 30th of a short month on the 29th.
func Chinese() calendar.System { return chinese }

// Korean returns the calendar of Korea, "dangi", with the years and customs of [Chinese]. Its days after
// 2050 are provisional, since no authority has published them.
func Korean() calendar.System { return korean }

var chinese = newSystem(system{
	info: calendar.SystemInfo{Name: "chinese", Release: chineseRelease, First: chineseFirst, Last: chineseFirst + len(chineseRows) - 1, Missing: lastDay},
	year: func(number int) year { return chineseRows[number-chineseFirst].year() },
	name: chineseMonth,
})

// afterKASI is the first date that the Korea Astronomy and Space Science Institute has not published.
var afterKASI = calendar.Date{Year: 2051, Month: time.January, Day: 1}

var korean = newSystem(system{
	info: calendar.SystemInfo{Name: "dangi", Release: koreanRelease, First: koreanFirst, Last: koreanFirst + len(koreanRows) - 1, Missing: lastDay, Provisional: afterKASI},
	year: func(number int) year { return koreanRows[number-koreanFirst].year() },
	name: chineseMonth,
})

var chineseMonths = [...]string{"First Month", "Second Month", "Third Month", "Fourth Month", "Fifth Month", "Sixth Month",
	"Seventh Month", "Eighth Month", "Ninth Month", "Tenth Month", "Eleventh Month", "Twelfth Month"}

func chineseMonth(number int, leap bool, _ year) string {
	if leap {
		return "Leap " + chineseMonths[number-1]
	}
	return chineseMonths[number-1]
}
