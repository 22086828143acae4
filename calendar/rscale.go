package calendar

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac/internal/rrule"
)

// scaled is a rule of RFC 7529 by another calendar. It never changes.
type scaled struct {
	rrule.Scaled
	system  System
	info    SystemInfo
	missing Missing
	begin   SystemDate // the day of the start
	before  int        // the months before it in its year
	start   WallTime
}

// maxInterval is more than the days of all years of a calendar.
const maxInterval = 4_000_000

// maxBarren is how many years of a rule without a slot are searched.
const maxBarren = 400

// newScaled returns the rule that begins at start, or what is wrong with it as clauses.
func newScaled(parts rrule.Scaled, start WallTime, systems []System) (*scaled, []string) {
	of := systems[slices.IndexFunc(systems, func(s System) bool { return scaleOf(s) == parts.Scale })]
	s := &scaled{Scaled: parts, system: of, info: of.Info(), start: start}
	s.Interval = min(s.Interval, maxInterval)
	policy := map[string]MissingPolicy{"OMIT": MissingSkip, "BACKWARD": MissingBackward, "FORWARD": MissingForward}[parts.Skip]
	s.missing = Missing{Month: policy, Day: policy}
	if parts.HasYearDays() {
		s.missing.Day = MissingSkip // BYYEARDAY comes before the SKIP of days, and no year has the day
	}
	var err error
	var months []SystemMonth
	if s.begin, err = of.Day(start.Date); err == nil {
		months, err = of.Months(s.begin.Year)
	}
	if err != nil {
		return nil, []string{fmt.Sprintf("the start is not in the calendar: %v", err)}
	}
	s.before = slices.IndexFunc(months, func(m SystemMonth) bool { return m.Number == s.begin.Month && m.Leap == s.begin.Leap })
	var problems []string
	for _, n := range slices.Concat(parts.Months, parts.LeapMonths) {
		if !slices.ContainsFunc(months, func(m SystemMonth) bool { return m.Number == n }) {
			problems = append(problems, fmt.Sprintf("the calendar %s has no month %d", s.info.Name, n))
		}
	}
	return s, problems
}

// scaleOf returns the name of a calendar as RSCALE has it.
func scaleOf(s System) string { return upperASCII(s.Info().Name) }

// slots yields the slots strictly after w, and at last an error. It observes COUNT, and UNTIL: one in UTC
// two days late.
func (s *scaled) slots(rule rrule.Rule, w WallTime) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		from := justBefore(s.start)
		if rule.Count() == 0 {
			from = laterOf(from, w)
		}
		end, utc, ends := rule.Until()
		if utc {
			end = end.Add(48 * time.Hour)
		}
		n := 0
		for slot, err := range s.after(from) {
			if err != nil {
				yield(Slot{}, err)
				return
			}
			if ends && end.Before(slot.Wall.Labelled()) {
				break
			}
			if w.Before(slot.Wall) && !yield(slot, nil) {
				return
			}
			if n++; n == rule.Count() {
				break
			}
		}
		yield(Slot{}, noOccurrence(w))
	}
}

// after yields the slots strictly after w without a count and an end. The error comes at the end of the calendar.
func (s *scaled) after(w WallTime) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		r := dayOfYear{system: s.system, info: s.info}
		year, err := r.yearOn(w.Date)
		if err != nil {
			yield(Slot{}, err)
			return
		}
		step, passed := 1, 0 // passed counts the months before a year
		near := year - 1     // a slot can move into the next year
		switch {
		case s.Frequency == "YEARLY":
			step = s.Interval
			year = align(near, s.begin.Year, step)
		case s.Frequency == "MONTHLY" && s.Interval > 1:
			year = s.begin.Year
		default:
			year = max(near, s.begin.Year)
		}
		var held []Slot
		for barren := 0; year <= s.info.Last; year += step {
			months, err := s.system.Months(year)
			if err == nil && year >= near {
				held, err = s.year(held, year, s.asked(year, months, passed))
				barren++
			}
			if err != nil {
				yield(Slot{}, err)
				return
			}
			passed += len(months)
			if len(held) > 0 {
				barren = 0
			}
			if barren > maxBarren {
				yield(Slot{}, noOccurrence(w))
				return
			}
			begin, err := s.system.Date(SystemDate{Year: year + 1, Month: 1, Day: 1})
			for len(held) > 0 && (err != nil || held[0].Wall.Date.Before(begin)) {
				if w.Before(held[0].Wall) && !yield(held[0], nil) {
					return
				}
				held = held[1:]
			}
		}
		for _, slot := range held {
			if w.Before(slot.Wall) && !yield(slot, nil) {
				return
			}
		}
		yield(Slot{}, r.over(w))
	}
}

// asked returns the months of a year that the rule asks for, without their day. A month may be missing
// if the rule is yearly.
func (s *scaled) asked(year int, months []SystemMonth, passed int) (list []SystemDate) {
	if s.Frequency == "YEARLY" {
		for _, n := range s.Months {
			list = append(list, SystemDate{Year: year, Month: n})
		}
		for _, n := range s.LeapMonths {
			list = append(list, SystemDate{Year: year, Month: n, Leap: true})
		}
		if len(list) > 0 {
			return list
		}
		if len(s.MonthDays) == 0 && !s.HasWeekdays() && !s.HasYearDays() {
			return []SystemDate{{Year: year, Month: s.begin.Month, Leap: s.begin.Leap}}
		}
	}
	for i, m := range months {
		named := s.Months
		if m.Leap {
			named = s.LeapMonths
		}
		every := s.Frequency != "MONTHLY" || s.Interval == 1 || (passed+i-s.before)%s.Interval == 0
		if every && (len(s.Months)+len(s.LeapMonths) == 0 || slices.Contains(named, m.Number)) {
			list = append(list, SystemDate{Year: year, Month: m.Number, Leap: m.Leap})
		}
	}
	return list
}

// year adds the slots of the months of a year to those that the year before moved into it, in order and
// each wall time once.
func (s *scaled) year(held []Slot, year int, asked []SystemDate) ([]Slot, error) {
	var period []Slot
	for i, month := range asked {
		days, err := s.days(year, month)
		if err != nil && !errors.Is(err, errLeftOut) && !errors.Is(err, ErrOutOfRange) {
			return nil, err
		}
		for _, day := range days {
			slot, err := s.slot(year, month, day)
			switch {
			case errors.Is(err, errLeftOut), errors.Is(err, ErrOutOfRange):
			case err != nil:
				return nil, err
			default:
				period = append(period, slot)
			}
		}
		if s.Frequency != "YEARLY" || i == len(asked)-1 {
			held = append(held, s.choose(inOrder(period))...)
			period = period[:0]
		}
	}
	return inOrder(held), nil
}

// inOrder sorts slots, and returns those with different wall times.
func inOrder(slots []Slot) []Slot {
	slices.SortFunc(slots, func(a, b Slot) int {
		// Of two names for one day, the first is that of a day that was not moved.
		return cmp.Or(a.Wall.Compare(b.Wall), cmp.Compare(len(a.DayReason), len(b.DayReason)), strings.Compare(a.Key, b.Key))
	})
	return slices.CompactFunc(slots, func(a, b Slot) bool { return a.Wall == b.Wall })
}

// choose applies BYSETPOS to the slots of a year or a month.
func (s *scaled) choose(period []Slot) []Slot {
	places, given := s.Picks(len(period))
	if !given {
		return period
	}
	chosen := make([]Slot, len(places))
	for i, place := range places {
		chosen[i] = period[place]
	}
	return chosen
}

// days returns the days of a month that the rule asks for. The month may be too short for days that BYMONTHDAY
// names, of which negative ones count from its end.
func (s *scaled) days(year int, month SystemDate) (days []int, err error) {
	daily := s.Frequency == "DAILY" || s.Frequency == "WEEKLY"
	if !daily && len(s.MonthDays) > 0 {
		return s.MonthDays, nil
	}
	if !daily && !s.HasWeekdays() && !s.HasYearDays() {
		return []int{s.begin.Day}, nil
	}
	month.Day = 1
	r := dayOfYear{system: s.system, info: s.info, day: month, missing: s.missing, told: "the day"}
	is, m, err := r.monthOf(year)
	if err != nil {
		return nil, err
	}
	first, err := s.system.Date(is)
	if err != nil {
		return nil, err
	}
	months, err := s.system.Months(is.Year)
	if err != nil {
		return nil, err
	}
	for is.Day = 1; is.Day <= m.Days; is.Day++ {
		date := first.AddDays(is.Day - 1)
		if s.selects(date.Weekday(), is, months) && (!daily || s.reaches(date, is.Day, m.Days)) {
			days = append(days, is.Day)
		}
	}
	return days, nil
}

// reaches reports whether a daily or weekly rule has a date, which is a day of a month of that length.
func (s *scaled) reaches(date Date, day, length int) bool {
	start := s.start.Date
	periods := start.DaysUntil(date)
	if periods < 0 || len(s.MonthDays) > 0 && !slices.Contains(s.MonthDays, day) && !slices.Contains(s.MonthDays, day-length-1) {
		return false
	}
	if s.Frequency == "WEEKLY" {
		if !s.HasWeekdays() && date.Weekday() != start.Weekday() {
			return false
		}
		periods = (periods + (int(start.Weekday()-s.WeekStart)+7)%7) / 7
	}
	return periods%s.Interval == 0
}

// selects reports whether BYDAY and BYYEARDAY have a day of a year with these months, or are not given. The
// numbers of BYDAY count within the month, or within the year if the rule names no months.
func (s *scaled) selects(w time.Weekday, is SystemDate, months []SystemMonth) bool {
	if !s.HasWeekdays() && !s.HasYearDays() {
		return true
	}
	yearDay, yearLength, monthLength := is.Day, 0, 0
	for _, m := range months {
		yearLength += m.Days
		switch {
		case m.Number < is.Month || m.Number == is.Month && is.Leap && !m.Leap:
			yearDay += m.Days
		case m.Number == is.Month && m.Leap == is.Leap:
			monthLength = m.Days
		}
	}
	place, length := is.Day, monthLength
	if s.Frequency == "YEARLY" && len(s.Months)+len(s.LeapMonths) == 0 {
		place, length = yearDay, yearLength
	}
	return (!s.HasWeekdays() || s.OnWeekday(w, place, length)) && (!s.HasYearDays() || s.OnYearDay(yearDay, yearLength))
}

// slot returns the slot for a day of a month, which counts from the end if it is negative. BYDAY and BYYEARDAY
// can leave out the day to which SKIP moves it.
func (s *scaled) slot(year int, named SystemDate, day int) (Slot, error) {
	r := dayOfYear{system: s.system, info: s.info, day: named, missing: s.missing, at: s.start.Clock, told: "the day"}
	if day < 0 {
		_, month, err := r.monthOf(year)
		if day += month.Days + 1; err != nil || day < 1 {
			return Slot{}, cmp.Or(err, errLeftOut)
		}
	}
	named.Day, r.day.Day = day, day
	slot, err := r.slot(year)
	if err != nil {
		return Slot{}, err
	}
	is, err := s.system.Day(slot.Wall.Date)
	if err != nil {
		return Slot{}, err
	}
	if len(s.MonthDays) > 0 {
		months, err := s.system.Months(is.Year)
		if err != nil {
			return Slot{}, err
		}
		if !s.selects(slot.Wall.Date.Weekday(), is, months) {
			return Slot{}, errLeftOut
		}
	}
	slot.Key, slot.Unit, slot.DayReason = named.String(), UnitDay+Unit(":"+s.info.Name), ""
	if is != named {
		slot.DayReason = fmt.Sprintf("%s moved to %s", named, is)
	}
	return slot, nil
}
