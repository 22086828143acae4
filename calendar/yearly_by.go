package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// YearlyBy is the recurrence of birthdays and feasts by another calendar: on the same day of its
// year, at the same time of day. Its keys are years of that calendar in four digits, "5787", and
// their unit has the name of the calendar, "year:hebrew".
//
// Years of two calendars do not match, so a Gregorian year can have two slots, or none. A slot has a
// DayReason if a policy moved it. The recurrence ends with the last year of the System. The error
// then matches both [ErrNoOccurrence] and [ErrOutOfRange].
type YearlyBy struct {
	System System
	Month  int  // its number, from 1
	Leap   bool // whether the leap month with this number is meant
	Day    int  // of the month, from 1
	At     Clock
	// Missing says what happens in a year that lacks the month or the day. An empty policy means
	// that of [Policies].Missing. If that is empty too, it means that of the System: see [SystemInfo].
	Missing Missing
	Every   int  // interval in years of the System, counted from the year of From: 2 means every second year; 0 means 1
	From    Date // no slot on an earlier day; zero means no such bound. If Every exceeds 1, it lies in a year of the System
}

// After returns the first slot strictly after w. Of the policies, only Missing applies.
func (y YearlyBy) After(w WallTime, p Policies) (Slot, error) {
	y.Missing = y.Missing.or(p.Missing)
	step, err := y.check()
	if err != nil {
		return Slot{}, err
	}
	r := dayOfYear{system: y.System, info: y.System.Info(), day: SystemDate{Month: y.Month, Leap: y.Leap, Day: y.Day}, at: y.At, step: step}
	r.first, r.missing = r.info.First, y.Missing.or(r.info.Missing)
	if step > 1 {
		if r.first, err = r.countedFrom(y.From); err != nil {
			return Slot{}, err
		}
	}
	if y.From != (Date{}) {
		w = laterOf(w, justBefore(WallTime{Date: y.From}))
	}
	return r.after(w)
}

func (y YearlyBy) check() (step int, err error) {
	problems := y.Missing.problems()
	if y.System == nil {
		problems = append(problems, "there is no calendar")
	}
	if y.Month < 1 || y.Day < 1 {
		problems = append(problems, fmt.Sprintf("no year has a month %d with a day %d", y.Month, y.Day))
	}
	return checkRule(yearlyBy, problems, y.At, pace{y.Every, y.From})
}

const yearlyBy = "yearly by another calendar"

// dayOfYear is a rule for one day in each year of another calendar.
type dayOfYear struct {
	system  System
	info    SystemInfo
	day     SystemDate // looked for in each year; its own year has no meaning
	missing Missing
	at      Clock
	first   int // the first year; the others are a number of steps later
	step    int
	told    string // the day as reasons name it, once that is known: "30 Kislev"
}

// after returns the first slot strictly after w.
func (r *dayOfYear) after(w WallTime) (Slot, error) {
	year, err := r.yearOn(w.Date)
	if err != nil {
		return Slot{}, err
	}
	// A policy can move the slot of a year into the next year.
	for year = align(year-1, r.first, r.step); year <= r.info.Last; year += r.step {
		slot, err := r.slot(year)
		switch {
		case errors.Is(err, errLeftOut):
		case errors.Is(err, ErrOutOfRange): // moved past the last year
		case err != nil || w.Before(slot.Wall):
			return slot, err
		}
	}
	return Slot{}, r.over(w)
}

// over returns the error at the end of the calendar.
func (r *dayOfYear) over(w WallTime) error {
	end := &SystemError{System: r.info.Name, Problem: fmt.Sprintf("ends with its year %d", r.info.Last), OutOfRange: true}
	return fmt.Errorf("%w: %w", noOccurrence(w), end)
}

// yearOn returns the year in which a date lies, or the nearest year that the calendar has.
func (r *dayOfYear) yearOn(d Date) (int, error) {
	begin, err := r.begin()
	if err != nil || d.Before(begin) {
		return r.info.First, err
	}
	if d.Year > 9999 { // a zone in the east shows it at the end
		return r.info.Last, nil
	}
	day, err := r.system.Day(d)
	if errors.Is(err, ErrOutOfRange) {
		return r.info.Last, nil
	}
	return day.Year, err
}

// countedFrom returns the year of a date. Years are not counted from a date before the first year.
func (r *dayOfYear) countedFrom(d Date) (int, error) {
	begin, err := r.begin()
	if err == nil && d.Before(begin) {
		err = invalidRecurrence(yearlyBy, []string{fmt.Sprintf("years are not counted from %s, before the calendar %s begins on %s", d, r.info.Name, begin)})
	}
	if err != nil {
		return 0, err
	}
	return r.yearOn(d)
}

// begin returns the first day of the calendar.
func (r *dayOfYear) begin() (Date, error) {
	return r.system.Date(SystemDate{Year: r.info.First, Month: 1, Day: 1})
}

// errLeftOut means that a policy leaves a year out.
var errLeftOut = errors.New("calendar: a policy leaves the year out")

// slot returns the slot of a year.
func (r *dayOfYear) slot(year int) (Slot, error) {
	months, err := r.system.Months(year)
	if err != nil {
		return Slot{}, err
	}
	at := slices.IndexFunc(months, r.in)
	if at < 0 {
		if at, err = r.withoutMonth(year, months); err != nil {
			return Slot{}, err
		}
	}
	chosen, month, err := r.month(year, months, at)
	if err == nil && r.day.Day > month.Days {
		chosen, month, err = r.withoutDay(year, months, at)
	}
	if err != nil {
		return Slot{}, err
	}
	date, err := r.system.Date(chosen)
	if err != nil {
		return Slot{}, err
	}
	slot := Slot{Key: strconv.Itoa(10_000 + year)[1:], Unit: UnitYear + Unit(":"+r.info.Name), Wall: WallTime{date, r.at}, Missing: r.missing, Consulted: consultedBy(r.info, date)}
	if r.told != "" && r.told != told(chosen.Day, month) {
		slot.DayReason = r.told + " moved to " + told(chosen.Day, month)
	}
	return slot, nil
}

// monthOf returns the day of the rule in its month of a year, or in the month that stands for it, and that month.
func (r *dayOfYear) monthOf(year int) (SystemDate, SystemMonth, error) {
	months, err := r.system.Months(year)
	if err != nil {
		return SystemDate{}, SystemMonth{}, err
	}
	at := slices.IndexFunc(months, r.in)
	if at < 0 {
		if at, err = r.withoutMonth(year, months); err != nil {
			return SystemDate{}, SystemMonth{}, err
		}
	}
	return r.month(year, months, at)
}

// in reports whether a month is the one of the rule.
func (r *dayOfYear) in(m SystemMonth) bool { return m.Number == r.day.Month && m.Leap == r.day.Leap }

// withoutMonth returns the index of the month that stands for the missing one. It can be the first
// index past the end.
func (r *dayOfYear) withoutMonth(year int, months []SystemMonth) (int, error) {
	if err := r.exists(year); err != nil {
		return 0, err
	}
	before := slices.IndexFunc(months, func(m SystemMonth) bool { return m.Number == r.day.Month })
	switch {
	case r.missing.Month == MissingSkip || before < 0:
		return 0, errLeftOut
	case r.missing.Month == MissingForward:
		return before + 1, nil
	}
	return before, nil
}

// withoutDay returns the day that stands for one that a month of a year does not have, and its month.
func (r *dayOfYear) withoutDay(year int, months []SystemMonth, at int) (SystemDate, SystemMonth, error) {
	if err := r.exists(year); err != nil {
		return SystemDate{}, SystemMonth{}, err
	}
	if r.missing.Day == MissingSkip {
		return SystemDate{}, SystemMonth{}, errLeftOut
	}
	if r.missing.Day == MissingForward {
		day, month, err := r.month(year, months, at+1)
		day.Day = 1
		return day, month, err
	}
	day, month, err := r.month(year, months, at)
	day.Day = month.Days
	return day, month, err
}

// month returns the day of the rule in the month at an index of a year, and that month. The index can
// be past the end of the year.
func (r *dayOfYear) month(year int, months []SystemMonth, at int) (SystemDate, SystemMonth, error) {
	if at >= len(months) {
		next, err := r.system.Months(year + 1)
		if err != nil {
			return SystemDate{}, SystemMonth{}, err
		}
		return r.month(year+1, next, at-len(months))
	}
	m := months[at]
	return SystemDate{year, m.Number, m.Leap, r.day.Day}, m, nil
}

// exists returns an error if no year has the day of the rule. Otherwise it finds out how reasons
// name the day. It looks at the nearest years first: of a leap month, one is mostly near.
func (r *dayOfYear) exists(near int) error {
	if r.told != "" {
		return nil
	}
	for distance := 0; near-distance >= r.info.First || near+distance <= r.info.Last; distance++ {
		for _, year := range [...]int{near - distance, near + distance} {
			if year < r.info.First || year > r.info.Last {
				continue
			}
			months, err := r.system.Months(year)
			if err != nil {
				return err
			}
			if at := slices.IndexFunc(months, r.in); at >= 0 && months[at].Days >= r.day.Day {
				r.told = told(r.day.Day, months[at])
				return nil
			}
		}
	}
	leap := ""
	if r.day.Leap {
		leap = "leap "
	}
	return invalidRecurrence(yearlyBy, []string{
		fmt.Sprintf("no year of the calendar %s has a %smonth %d with a day %d", r.info.Name, leap, r.day.Month, r.day.Day)})
}

// told is a day as reasons name it: "30 Kislev".
func told(day int, m SystemMonth) string { return fmt.Sprintf("%d %s", day, m.Name) }
