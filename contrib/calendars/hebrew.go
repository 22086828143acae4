package calendars

import "github.com/almanac-go/almanac/calendar"

// Hebrew returns the Hebrew calendar, "hebrew". It has the years 3762 to 9999, which begin in the
// Gregorian years 1 to 6238.
//
// Its customs are forward for a missing month and a missing day: a birthday in Adar I is in Adar of a
// common year, and that on 30 Kislev on 1 Tevet. For the anniversary of a death see [calendar.Yahrzeit].
// A Hebrew day begins at the sunset before the date.
func Hebrew() calendar.System { return hebrew }

var hebrew = newSystem(system{
	info: calendar.SystemInfo{Name: "hebrew", Release: arithmeticRelease, First: 3762, Last: 9999,
		Missing: calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingForward}},
	year: hebrewYear,
	name: hebrewMonth,
})

const (
	hebrewEpoch = -1373427 // 1 Tishri of the year 1: 7 October 3761 BCE of the Julian calendar
	heshvan     = 2        // numbers of months
	kislev      = 3
	adarI       = 5 // the leap month with this number
	adar        = 6
)

// hebrewYear computes a year by chapter 8 of Calendrical Calculations. The length of a year decides
// whether Heshvan and Kislev have 29 or 30 days.
func hebrewYear(number int) year {
	y := year{first: hebrewNewYear(number), months: 12, days: [13]uint8{30, 29, 30, 29, 30, 29, 30, 29, 30, 29, 30, 29}}
	switch length := hebrewNewYear(number+1) - y.first; length % 10 {
	case 3: // 353 or 383 days
		y.days[kislev-1] = 29
	case 5: // 355 or 385 days
		y.days[heshvan-1] = 30
	}
	if (7*number+1)%19 < 7 {
		y = y.withLeap(adarI, 30)
	}
	return y
}

// hebrewNewYear returns the number of the first day of a year. The new year is delayed by a further
// day or two where a year would otherwise have 356 or 382 days.
func hebrewNewYear(number int) int {
	before, at, after := hebrewMolad(number-1), hebrewMolad(number), hebrewMolad(number+1)
	day := hebrewEpoch + at
	switch {
	case after-at == 356:
		return day + 2
	case at-before == 382:
		return day + 1
	}
	return day
}

// hebrewMolad returns the days from the epoch to the mean new moon of Tishri. It is a day later where that
// would be a Sunday, a Wednesday or a Friday, or a new moon after noon of the day before these.
func hebrewMolad(number int) int {
	const partsPerDay = 25920
	months := (235*number - 234) / 19
	day := 29*months + (12084+13753*months)/partsPerDay
	if 3*(day+1)%7 < 3 {
		return day + 1
	}
	return day
}

var hebrewMonths = [...]string{"Tishri", "Heshvan", "Kislev", "Tevet", "Shevat", "Adar", "Nisan", "Iyar", "Sivan", "Tamuz", "Av", "Elul"}

func hebrewMonth(number int, leap bool, in year) string {
	switch {
	case leap:
		return "Adar I"
	case number == adar && in.leap > 0:
		return "Adar II"
	}
	return hebrewMonths[number-1]
}
