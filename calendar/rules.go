package calendar

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/almanac-go/almanac/internal/civil"
)

// Once is the recurrence that happens a single time. Its key is the wall time.
type Once struct{ At WallTime }

// After returns o.At if that comes after w.
func (o Once) After(w WallTime, _ Policies) (Slot, error) {
	if !o.At.Valid() {
		return Slot{}, invalidRecurrence("once", []string{fmt.Sprintf("%s is on no calendar", o.At)})
	}
	if !w.Before(o.At) {
		return Slot{}, noOccurrence(w)
	}
	return Slot{Key: o.At.String(), Unit: UnitTime, Wall: o.At}, nil
}

// Yearly is the recurrence of birthdays and anniversaries: on the same day of the
// year, at the same time of day. Its keys are years in four digits, "2027".
type Yearly struct {
	Month time.Month
	Day   int // 29 February is subject to the leap day policy
	At    Clock
	Every int  // interval in years, counted from From: 2 means every second year; 0 means 1
	From  Date // no slot on an earlier day; zero means no such bound, and is refused if Every exceeds 1
}

// After returns the first slot strictly after w.
func (y Yearly) After(w WallTime, p Policies) (Slot, error) {
	step, err := y.check()
	if err != nil {
		return Slot{}, err
	}
	leap := p.WithDefaults().LeapDay
	for year := align(max(w.Date.Year, 1), y.From.Year, step); year <= 9999; year += step {
		named := Date{year, y.Month, y.Day}
		slot := Slot{Wall: WallTime{named, y.At}}
		if !named.Valid() { // only 29 February is missing from any year
			switch leap {
			case LeapDaySkip:
				continue
			case LeapDayMar1:
				slot.Wall.Date = Date{year, time.March, 1}
			default:
				slot.Wall.Date = Date{year, time.February, 28}
			}
			slot.Named = named
		}
		if w.Before(slot.Wall) && !slot.Wall.Date.Before(y.From) {
			slot.Key, slot.Unit = strconv.Itoa(10_000 + year)[1:], UnitYear // four digits
			return slot, nil
		}
	}
	return Slot{}, noOccurrence(w)
}

func (y Yearly) check() (step int, err error) {
	var problems []string
	if y.Day < 1 || y.Day > civil.DaysIn(2000, y.Month) {
		problems = append(problems, fmt.Sprintf("no year has a month %d with a day %d", int(y.Month), y.Day))
	}
	return checkRule("yearly", problems, y.At, pace{y.Every, y.From})
}

// Monthly is the recurrence of rents and reports: on the same day of the month, at
// the same time of day. Its keys are months, "2027-03".
type Monthly struct {
	Day   int // 1 to 31, subject to the month end policy; -1 is the last day, -2 the one before, down to -28
	At    Clock
	Every int  // interval in months, counted from From: 2 means every second month; 0 means 1
	From  Date // no slot on an earlier day; zero means no such bound, and is refused if Every exceeds 1
	// WorkDays makes Day a working day of the month: 3 is the third, and -1 the last. A month
	// with fewer has no slot, whatever the month end policy. Nil, the default, counts all days. To
	// move a day of the month that is no working day, see [Within].
	WorkDays *WorkCalendar
}

// After returns the first slot strictly after w.
func (m Monthly) After(w WallTime, p Policies) (Slot, error) {
	step, err := m.check()
	if err != nil {
		return Slot{}, err
	}
	skip := p.WithDefaults().MonthEnd == MonthEndSkip
	const months = 12
	first := months // January of the year 1
	if w.Date.Year > 0 {
		first = w.Date.Year*months + int(w.Date.Month) - 1
	}
	from := m.From.Year*months + int(m.From.Month) - 1
	for month := align(first, from, step); month < 10000*months; month += step {
		year, name := month/months, time.Month(month%months+1)
		named, days := Date{year, name, m.Day}, civil.DaysIn(year, name)
		slot := Slot{Wall: WallTime{named, m.At}}
		switch {
		case m.WorkDays != nil:
			if !m.onWorkDay(&slot) {
				continue
			}
		case m.Day < 0:
			slot.Wall.Date.Day = days + 1 + m.Day
		case m.Day > days && skip:
			continue
		case m.Day > days:
			slot.Wall.Date.Day, slot.Named = days, named
		}
		if w.Before(slot.Wall) && !slot.Wall.Date.Before(m.From) {
			if m.WorkDays != nil {
				slot.Move = slot.Move.saying(ordinal(m.Day) + " working day of " + m.WorkDays.name)
			}
			slot.Key, slot.Unit = Date{year, name, 1}.String()[:len("2006-01")], UnitMonth
			return slot, nil
		}
	}
	return Slot{}, noOccurrence(w)
}

// onWorkDay puts a slot on the working day of its month, and reports whether there is one.
func (m Monthly) onWorkDay(slot *Slot) bool {
	month := slot.Wall.Date
	first := dayNumber(Date{month.Year, month.Month, 1})
	last := first + civil.DaysIn(month.Year, month.Month) - 1
	day, low, high := 0, first, last
	if m.Day > 0 {
		day = m.WorkDays.add(first-1, m.Day)
		high = day
	} else {
		day = m.WorkDays.add(last+1, m.Day)
		low = day
	}
	slot.Wall.Date, slot.Consulted = dateOf(day), m.WorkDays.consulted(low, high)
	return first <= day && day <= last
}

func (m Monthly) check() (step int, err error) {
	var problems []string
	if m.Day < -28 || m.Day == 0 || m.Day > 31 {
		problems = append(problems, fmt.Sprintf("day %d is neither between 1 and 31 nor between -28 and -1", m.Day))
	}
	return checkRule("monthly", problems, m.At, pace{m.Every, m.From})
}

// Weekly is the recurrence of digests and lessons: on some days of the week, at
// the same time of day. Its keys are dates, "2027-03-15".
type Weekly struct {
	On    []time.Weekday // at least one
	At    Clock
	Every int  // interval in weeks from Monday to Sunday, counted from the week of From: 2 means every second week; 0 means 1
	From  Date // no slot on an earlier day; zero means no such bound, and is refused if Every exceeds 1
}

// After returns the first slot strictly after w.
func (r Weekly) After(w WallTime, _ Policies) (Slot, error) {
	step, err := r.check()
	if err != nil {
		return Slot{}, err
	}
	const week = 7
	// Days since 1 January of the year 1, a Monday.
	for day := firstDay(w, r.At, r.From); day < daysOfCalendar; day++ {
		if monday := day - day%week; step > 1 {
			day = max(day, align(monday/week, dayNumber(r.From)/week, step)*week)
		}
		if day < daysOfCalendar && slices.Contains(r.On, time.Weekday((day+1)%week)) {
			return dated(day, r.At), nil
		}
	}
	return Slot{}, noOccurrence(w)
}

func (r Weekly) check() (step int, err error) {
	var problems []string
	if len(r.On) == 0 {
		problems = append(problems, "no day of the week is given")
	}
	for _, day := range r.On {
		if day < time.Sunday || day > time.Saturday {
			problems = append(problems, fmt.Sprintf("%d is no day of the week", int(day)))
		}
	}
	return checkRule("weekly", problems, r.At, pace{r.Every, r.From})
}

// Daily is the recurrence of reminders to take a pill: at the same time of day.
// Its keys are dates, "2027-03-15".
type Daily struct {
	At    Clock
	Every int  // interval in days, counted from From: 2 means every second day; 0 means 1
	From  Date // no slot on an earlier day; zero means no such bound, and is refused if Every exceeds 1
}

// After returns the first slot strictly after w.
func (d Daily) After(w WallTime, _ Policies) (Slot, error) {
	step, err := checkRule("daily", nil, d.At, pace{d.Every, d.From})
	if err != nil {
		return Slot{}, err
	}
	day := firstDay(w, d.At, d.From)
	if step > 1 {
		day = align(day, dayNumber(d.From), step)
	}
	if day >= daysOfCalendar {
		return Slot{}, noOccurrence(w)
	}
	return dated(day, d.At), nil
}

// pace is how often a rule comes round.
type pace struct {
	every int
	from  Date
}

// maxEvery is longer than the calendar, in days.
const maxEvery = 10_000_000

// checkRule adds what can be wrong with any rule, and returns the step between two of its periods.
func checkRule(rule string, problems []string, at Clock, p pace) (step int, err error) {
	if !at.Valid() {
		problems = append(problems, fmt.Sprintf("no clock shows %s", at))
	}
	if p.every < 0 || p.every > maxEvery {
		problems = append(problems, fmt.Sprintf("every %d is not between 1 and %d", p.every, maxEvery))
	}
	if p.from != (Date{}) && !p.from.Valid() {
		problems = append(problems, fmt.Sprintf("the day %s to begin from is on no calendar", p.from))
	}
	if p.every > 1 && p.from == (Date{}) {
		problems = append(problems, fmt.Sprintf("every %d needs a day to count from", p.every))
	}
	return max(p.every, 1), invalidRecurrence(rule, problems)
}

// align returns the first number not less than n, nor than from, that is a whole number of steps from it.
func align(n, from, step int) int {
	if n <= from {
		return from
	}
	return from + (n-from+step-1)/step*step
}

const (
	secondsPerDay  = 24 * 60 * 60
	beginning      = -62135596800 // the Unix time of 1 January of the year 1, a Monday, in UTC
	daysOfCalendar = 3652059      // from then to the end of the year 9999
)

// dayNumber counts days from the beginning of the calendar.
func dayNumber(d Date) int { return civil.DayNumber(d.Year, d.Month, d.Day) }

// dateOf returns the day of a number of [dayNumber]. It may lie outside of the years 1 to 9999.
func dateOf(day int) Date {
	year, month, dayOfMonth := civil.DateOf(day)
	return Date{year, month, dayOfMonth}
}

// weekdayOn returns the day of the week of a number of [dayNumber]. Day 0 is a Monday.
func weekdayOn(day int) time.Weekday {
	const week = 7
	return time.Weekday(((day+1)%week + week) % week)
}

// firstDay returns the number of the first day, not before from, whose clock reading comes after w.
func firstDay(w WallTime, at Clock, from Date) int {
	day := 0
	if w.Date.Year > 0 {
		day = dayNumber(w.Date)
		if !w.Before(WallTime{w.Date, at}) {
			day++
		}
	}
	if from != (Date{}) {
		day = max(day, dayNumber(from))
	}
	return day
}

// dated is a slot that its date names.
func dated(day int, at Clock) Slot {
	date := dateOf(day)
	return Slot{Key: date.String(), Unit: UnitDay, Wall: WallTime{date, at}}
}
