package rrule

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const gregorian = "GREGORIAN"

// Scaled are the parts of a rule by another calendar.
type Scaled struct {
	Scale      string // the calendar, in capital letters
	Frequency  string // YEARLY, MONTHLY, WEEKLY or DAILY
	Interval   int    // in that unit
	Months     []int  // BYMONTH, in order
	LeapMonths []int  // its months with an L
	MonthDays  []int  // BYMONTHDAY: those counted from the end are negative, and come last
	WeekStart  time.Weekday
	Skip       string // OMIT, BACKWARD or FORWARD
	by         parts
}

// HasWeekdays reports whether the rule has a BYDAY.
func (s *Scaled) HasWeekdays() bool { return !s.by.weekday.empty() }

// HasYearDays reports whether the rule has a BYYEARDAY.
func (s *Scaled) HasYearDays() bool { return !s.by.yearDay.empty() }

// OnWeekday reports whether BYDAY has a day of weekday w that is the place-th day, from 1, of a month or
// a year of that length.
func (s *Scaled) OnWeekday(w time.Weekday, place, length int) bool {
	return s.by.weekday.has(w, place, length)
}

// OnYearDay reports whether BYYEARDAY has the n-th day of a year of that length.
func (s *Scaled) OnYearDay(n, length int) bool { return s.by.yearDay.counts(n, length) }

// Picks returns the indexes that BYSETPOS selects among the given number of readings, in order. It
// reports false if there is no BYSETPOS.
func (s *Scaled) Picks(of int) ([]int, bool) {
	return s.by.setPos.picks(of), !s.by.setPos.empty()
}

// Scaled returns the parts of a rule by another calendar than the Gregorian one, and reports false for
// all other rules. [Rule.Next] has no readings of a rule by another calendar.
func (r Rule) Scaled() (Scaled, bool) {
	return Scaled{
		Scale: r.scale, Frequency: frequencyNames[r.freq], Interval: int(r.interval), WeekStart: r.weekStart, Skip: skipNames[r.skip],
		Months: r.by.month.values(), LeapMonths: r.by.leapMonth.values(), MonthDays: r.by.monthDay.values(),
		by: r.by,
	}, r.scale != ""
}

// months returns the text of BYMONTH with leap months.
func (p parts) months() string {
	var list []string
	for n := 1; n <= maxMonth; n++ {
		if p.month.has(n) {
			list = append(list, strconv.Itoa(n))
		}
		if p.leapMonth.has(n) {
			list = append(list, strconv.Itoa(n)+"L")
		}
	}
	return strings.Join(list, ",")
}

// maxMonth is the greatest number of a month: the Ethiopic calendar has 13.
const maxMonth = 13

// month processes an entry of BYMONTH in a rule by another calendar.
func (p *parser) month(entry string) {
	number, leap := strings.CutSuffix(entry, "L")
	n, ok := whole(number, false)
	if !ok || n < 1 || n > maxMonth {
		p.complain("BYMONTH=%s is not a number from 1 to %d, nor one with an L", quote(entry), maxMonth)
		return
	}
	if leap {
		p.rule.by.leapMonth.add(n)
		return
	}
	p.rule.by.month.add(n)
}

// scaleOf returns the calendar that a text names with RSCALE, if it is one of the given ones.
func scaleOf(text string, scales []string) string {
	for part := range strings.SplitSeq(text, ";") {
		if value, ok := strings.CutPrefix(part, "RSCALE="); ok && slices.Contains(scales, value) {
			return value
		}
	}
	return ""
}

// scaledNames are the BY parts of a rule by another calendar.
var scaledNames = strings.Fields("BYMONTH BYYEARDAY BYMONTHDAY BYDAY BYSETPOS")

// checkScale checks a rule by another calendar.
func (p *parser) checkScale() {
	freq := p.rule.freq
	if freq != 0 && freq < daily {
		p.complain("FREQ=%s is not for RSCALE=%s, which has YEARLY, MONTHLY, WEEKLY and DAILY", frequencyNames[freq], p.rule.scale)
	}
	for _, name := range byNames {
		if p.given[name] && !slices.Contains(scaledNames, name) {
			p.complain("%s is not for RSCALE=%s, which has %s", name, p.rule.scale, strings.Join(scaledNames, ", "))
		}
	}
	if p.given["BYSETPOS"] && (freq == daily || freq == weekly) {
		p.complain("BYSETPOS with RSCALE=%s is for FREQ=YEARLY and FREQ=MONTHLY", p.rule.scale)
	}
}
