// Package calendars has calendars other than the Gregorian one, for yearly rules by them: [Chinese],
// [Korean], [Hebrew], [UmmAlQura], [IslamicCivil], [Persian] and [Ethiopic]. [Load] finds one by the
// name that is stored with a birth date.
//
//	birthday := calendar.YearlyBy{System: calendars.Hebrew(), Month: 5, Leap: true, Day: 8, At: calendar.Clock{Hour: 9}}
//	next, err := calendar.Next(birthday, zone, calendar.Policies{}, time.Now())
//	rule, err := calendar.ParseRRule("RSCALE=HEBREW;FREQ=YEARLY;BYMONTH=5L;BYMONTHDAY=8;SKIP=FORWARD", start, calendars.All()...)
//
// A calendar is a [calendar.System]. It converts dates both ways, lists the months of a year, and says
// which years it has. A day outside of these years is a [*calendar.SystemError] that matches
// [calendar.ErrOutOfRange]. All calendars can be used by several goroutines at once. The package
// needs nothing but the standard library and package calendar.
//
// # Where the days come from
//
// Hebrew, tabular Islamic and Ethiopic days are arithmetic, by the rules in Reingold and Dershowitz,
// Calendrical Calculations. Persian days are the rule of 33 years, within the years for which
// Iran's calendar authority has published its leap years.
//
// Umm al-Qura is the table of ICU 78.2 for the years 1300 to 1600. ICU names KACST, the King Abdulaziz City
// for Science and Technology, as its source. Others have compared the same table in OpenJDK with the
// service of KACST for 1356 to 1500, and found no difference. What was printed in Saudi Arabia before 1420
// differs from this table in many months.
//
// Chinese and Korean months were computed in November 2026: a month begins on the day of the new
// moon in Beijing or Seoul, and the leap months follow GB/T 33661-2017. Where the Hong Kong
// Observatory has another day, its day holds. So all Chinese days from 1901-02-19 to 2100 are those of
// the Observatory. All Korean months of 1900 to 2050 are those of the Korea Astronomy and Space
// Science Institute. A test compares them with copies of the two tables. The README names the copies.
// No authority has published Korean months after 2050. They are provisional: a month that begins
// within minutes of midnight may begin a day later.
//
// Each table has a release, see [calendar.SystemInfo]. A table that is corrected gets a later release.
//
// # Compared
//
// A test compares each day from 1900 to 2100, and all of Umm al-Qura, with ICU 78.2. It lists each
// disagreement, with the authority that decides. So the tables equal those of ICU, with the
// corrections in the list. The README has the list.
package calendars
