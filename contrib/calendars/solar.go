package calendars

import "github.com/almanac-go/almanac/calendar"

// Persian returns the Solar Hijri calendar of Iran, "persian". It has the years 1206 to 1498, from
// 22 March 1827 to 20 March 2120, for which Iran's calendar authority has published its leap years. They are
// those of a rule of 33 years. The custom for 30 Esfand is backward, to 29 Esfand.
func Persian() calendar.System { return persian }

// Ethiopic returns the calendar of Ethiopia, "ethiopic", with the Era of Mercy. It has the years 1 to
// 9991. Its month 13, Pagumen, has 5 or 6 days. The custom for the 6th is backward, to the 5th.
func Ethiopic() calendar.System { return ethiopic }

// lastDay is the custom of calendars in which a month or a day that is missing makes way for the one before.
var lastDay = calendar.Missing{Month: calendar.MissingBackward, Day: calendar.MissingBackward}

var persian = newSystem(system{
	info: calendar.SystemInfo{Name: "persian", Release: arithmeticRelease, First: 1206, Last: 1498, Missing: lastDay},
	year: persianYear,
	name: func(number int, _ bool, _ year) string { return persianMonths[number-1] },
})

// persianYear has 366 days if (25y + 11) mod 33 < 8. The new year counts those before it.
func persianYear(number int) year {
	const beforeFirst = 226895 // 1 Farvardin of the year 1 by this rule
	y := year{first: beforeFirst + 365*(number-1) + (8*number+21)/33, months: 12, days: [13]uint8{31, 31, 31, 31, 31, 31, 30, 30, 30, 30, 30, 29}}
	if (25*number+11)%33 < 8 {
		y.days[11] = 30
	}
	return y
}

var persianMonths = [...]string{"Farvardin", "Ordibehesht", "Khordad", "Tir", "Mordad", "Shahrivar", "Mehr", "Aban", "Azar", "Dey", "Bahman", "Esfand"}

var ethiopic = newSystem(system{
	info: calendar.SystemInfo{Name: "ethiopic", Release: arithmeticRelease, First: 1, Last: 9991, Missing: lastDay},
	year: func(number int) year { return ethiopicYear(number) },
	name: func(number int, _ bool, _ year) string { return ethiopicMonths[number-1] },
})

// ethiopicYear has a leap day at its end in each fourth year, as Julian years have.
func ethiopicYear(number int) year {
	const epoch = 2796 // 29 August 8 of the Julian calendar
	y := year{first: epoch + 365*(number-1) + number/4, months: 13, days: [13]uint8{30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 5}}
	if number%4 == 3 {
		y.days[12] = 6
	}
	return y
}

var ethiopicMonths = [...]string{"Meskerem", "Tekemt", "Hedar", "Tahsas", "Ter", "Yekatit", "Megabit", "Miazia", "Genbot", "Sene", "Hamle", "Nehasse", "Pagumen"}
