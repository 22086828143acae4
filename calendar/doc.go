// Package calendar answers when clocks on a wall show a time: when is 02:30 in New York, on
// the second Sunday of a month, on the night on which clocks change?
//
// It needs no database and no other package of Almanac.
//
//	newYork, err := calendar.LoadTimezone("America/New_York")
//	start, err := calendar.ParseWallTime("2027-02-01T02:30:00")
//	rule, err := calendar.ParseRRule("FREQ=MONTHLY;BYDAY=2SU", start)
//	next, err := calendar.Next(rule, newYork, calendar.Policies{}, time.Now())
//	fmt.Println(next.Wall, next.Resolution.Instant, next.Reason())
//
// # Wall times and instants
//
// A [Date] and a [Clock] reading make a [WallTime], without zone or offset: that is what users
// mean by "15 March at nine". [ParseDate], [ParseClock] and [ParseWallTime] read them. An instant
// is a [time.Time]. A [Timezone], from [LoadTimezone], resolves a wall time to an instant:
// [Timezone.Resolve] is the one function that does. Its answer is a [Resolution], which has the
// [Reading] (shown once, never or twice), the [Change] of clocks behind it, and a reason in words.
// [Timezone.WallTime] is the way back, and [Timezone.NextChange] finds the next change of clocks.
//
// Of some users only the country is known. [ZonesOf] has the zones of a country, and [InAllZones]
// finds a [SharedTime] for all of them.
//
// # What a calendar leaves open
//
// Clocks skip some wall times, and show others twice. A common year has no 29 February, and
// April has no 31st. [Policies] choose what happens then: a [GapPolicy], a [FoldPolicy], a
// [LeapDayPolicy] and a [MonthEndPolicy]. The zero [Policies] move a skipped wall time later
// by the width of the gap, and take the first of two showings, as RFC 5545 does. For missing
// days they take 28 February and the last day of the month.
//
// # Recurrences
//
// A [Recurrence] is a rule that yields wall times, each a [Slot]: [Once], [Daily], [Weekly],
// [Monthly], [Yearly], an [RRule] ([ParseRRule]), a [Cron] expression ([ParseCron]), or a
// [RecurrenceSet] with dates and exceptions ([ParseRecurrenceSet]). [Bounded] gives any of them a
// start, an end, a count and exceptions. [Offset] announces any of them, such as three days
// before, at 09:00. [Within] keeps any of them on working days and in a [Window]. [RuleText] reads
// any of them from the words of a form. A type with the method After is a recurrence of your own.
//
// [Next] finds the first [Occurrence] after an instant, and [Occurrences] yields all later ones in
// order. Each occurrence has its instant and a key, such as "2027-03". The key stays the same when
// clocks, the zone or its rules change. Its [Unit] says what the key names: here a month.
//
// # Working days and windows
//
// A [WorkCalendar] has a week and named days ([WorkWeek], [NamedDay]): holidays, and extra working
// days. It is made of [WorkCalendarOptions], or of a text ([ParseWorkCalendar]);
// [ParseICalendarDays] reads holidays from an iCalendar file. A [Within] moves slots from days off by
// a [Convention], such as [ModifiedFollowing]. [Monthly] and [Offset] can count working days.
//
// A [Window] is a part of the week, of [Hours] on some days ([NewWindow], [ParseWindow]).
// [ParseQuietHours] returns the window outside of hours that are the same each day. A slot says how it was moved
// ([Move]), and which days of which calendars were looked up ([Consulted], [ParseConsulted]).
//
// # Other calendars
//
// A [System] is another calendar, such as the Hebrew or the Chinese one. It converts a [Date] to a
// [SystemDate] and back, and knows each [SystemMonth] of a year. [SystemInfo] has its name, its
// release and its years. [YearlyBy] is a yearly rule by a system, and [Yahrzeit] the rule for the
// anniversary of a death by the Hebrew calendar. [Missing] has a [MissingPolicy] for a leap month
// that a year lacks, and one for a day that a month lacks, such as the 30th. [ParseSystemDate]
// reads a birth date by a system. [ParseRRule] takes the systems that RSCALE may name. This package
// has no systems. The module contrib/calendars has them. [RegisterSystems] makes them known to the whole
// process, so that [LoadSystem] finds the one whose name is stored with a birth date.
//
// # Zone rules
//
// Rules come from the program's own zone data, see [OwnZoneData]: programs, not libraries, should
// import time/tzdata. [OpenZoneData] opens other [ZoneData], to see which occurrences would move.
// [ZoneData.Reload] reads files that were replaced. [Timezone.Rules] returns [ZoneRules] with a
// fingerprint, by which two programs find out whether their rules for a zone agree. [DayRules] are
// the same for the days of a work calendar or a system ([SystemRules]).
//
// # Errors
//
// An unknown zone name is an [*InvalidTimezoneError], which suggests the nearest name. An invalid rule
// is an [*InvalidRecurrenceError]. A wall time that a policy refuses is a [*WallTimeError]. A text in
// the wrong form is a [*FormatError]. An unknown policy or country, a bad window or a bad work calendar
// is an [*InputError], with an [InputProblem] for each bad field or line. A day that a system lacks is a
// [*SystemError], and a name that no registered system has an [*UnknownSystemError]. Two calendars of one
// release that differ are a [*ReleaseError]. The error at the end of a recurrence matches [ErrNoOccurrence].
//
// Several goroutines can use any value of this package at once. What other software does when
// clocks change, and every kind of change, is in docs/clocks.md of the module.
package calendar
