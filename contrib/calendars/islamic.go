package calendars

import (
	"math/bits"

	"github.com/almanac-go/almanac/calendar"
)

// UmmAlQura returns the calendar of Saudi Arabia, "islamic-umalqura", as ICU has it. It has the
// years 1300 to 1600 of that table, from 12 November 1882 to 25 November 2174. Beyond these years,
// other software continues with a tabular calendar and reports no error.
//
// Feasts follow the sighting of the moon, and can be a day from this calendar. An Islamic day begins at
// the sunset before the date.
func UmmAlQura() calendar.System { return ummAlQura }

// IslamicCivil returns the tabular Islamic calendar that is most common, "islamic-civil". Its days
// differ from those of [UmmAlQura] about half of the time. [Load] has its variants.
func IslamicCivil() calendar.System { return islamicCivil }

var ummAlQura = newSystem(system{
	info: islamicInfo("islamic-umalqura", ummAlQuraRelease, ummAlQuraFirst, ummAlQuraFirst+len(ummAlQuraRows)-1),
	year: func(number int) year { return ummAlQuraRows[number-ummAlQuraFirst].year() },
	name: islamicMonth,
})

func islamicInfo(name, release string, first, last int) calendar.SystemInfo {
	return calendar.SystemInfo{Name: name, Release: release, First: first, Last: last, Missing: lastDay}
}

// Epochs of the tabular calendars: 1 Muharram of the year 1.
const (
	thursday = 227014 // 15 July 622 of the Julian calendar, for astronomers
	friday   = 227015 // 16 July, in civil use
)

// The patterns of leap years in a cycle of 30 years, as bits.
var (
	leapYearsI   = leapYears(2, 5, 7, 10, 13, 15, 18, 21, 24, 26, 29)
	leapYearsII  = leapYears(2, 5, 7, 10, 13, 16, 18, 21, 24, 26, 29)
	leapYearsIII = leapYears(2, 5, 8, 10, 13, 16, 19, 21, 24, 27, 29)
	leapYearsIV  = leapYears(2, 5, 8, 11, 13, 16, 19, 21, 24, 27, 30)
)

func leapYears(years ...int) (set uint32) {
	for _, n := range years {
		set |= 1 << n
	}
	return set
}

var (
	islamicCivil = tabular("islamic-civil", friday, leapYearsII)
	tabulars     = []*system{
		islamicCivil,
		tabular("islamic-civil-i", friday, leapYearsI),
		tabular("islamic-civil-iii", friday, leapYearsIII),
		tabular("islamic-civil-iv", friday, leapYearsIV),
		tabular("islamic-tbla", thursday, leapYearsII),
		tabular("islamic-tbla-i", thursday, leapYearsI),
		tabular("islamic-tbla-iii", thursday, leapYearsIII),
		tabular("islamic-tbla-iv", thursday, leapYearsIV),
	}
)

// tabular returns a calendar in which months have 30 and 29 days in turn, and the last month of a leap
// year has 30.
func tabular(name string, epoch int, leap uint32) *system {
	return newSystem(system{
		info: islamicInfo(name, arithmeticRelease, 1, 9665),
		year: func(number int) year {
			const cycle, perCycle = 30, 11
			cycles, in := (number-1)/cycle, (number-1)%cycle+1
			before := perCycle*cycles + bits.OnesCount32(leap&(1<<in-1))
			y := year{first: epoch + 354*(number-1) + before, months: 12, days: [13]uint8{30, 29, 30, 29, 30, 29, 30, 29, 30, 29, 30, 29}}
			if leap>>in&1 == 1 {
				y.days[11] = 30
			}
			return y
		},
		name: islamicMonth,
	})
}

var islamicMonths = [...]string{"Muharram", "Safar", "Rabiʻ I", "Rabiʻ II", "Jumada I", "Jumada II", "Rajab", "Shaʻban", "Ramadan", "Shawwal", "Dhuʻl-Qiʻdah", "Dhuʻl-Hijjah"}

func islamicMonth(number int, _ bool, _ year) string { return islamicMonths[number-1] }
