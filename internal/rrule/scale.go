package rrule

import (
	"slices"
	"strconv"
	"strings"
)

const gregorian = "GREGORIAN"

// Scaled are the parts of a rule by another calendar.
type Scaled struct {
	Scale      string // the calendar, in capital letters
	Monthly    bool   // FREQ is MONTHLY, otherwise YEARLY
	Interval   int    // in months or years
	Months     []int  // BYMONTH, in order
	LeapMonths []int  // its months with an L
	MonthDays  []int  // BYMONTHDAY: those counted from the end are negative, and come last
	Skip       string // OMIT, BACKWARD or FORWARD
}

// Scaled returns the parts of a rule by another calendar than the Gregorian one, and reports false for
// all other rules. [Rule.Next] has no readings of a rule by another calendar.
func (r Rule) Scaled() (Scaled, bool) {
	return Scaled{
		Scale: r.scale, Monthly: r.freq == monthly, Interval: int(r.interval), Skip: skipNames[r.skip],
		Months: r.by.month.values(), LeapMonths: r.by.leapMonth.values(), MonthDays: r.by.monthDay.values(),
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

// checkScale checks a rule by another calendar.
func (p *parser) checkScale() {
	if freq := p.rule.freq; freq != 0 && freq != monthly && freq != yearly {
		p.complain("FREQ=%s is not for RSCALE=%s, which has YEARLY and MONTHLY", frequencyNames[freq], p.rule.scale)
	}
	for _, name := range byNames {
		if p.given[name] && name != "BYMONTH" && name != "BYMONTHDAY" {
			p.complain("%s is not for RSCALE=%s, which has BYMONTH and BYMONTHDAY", name, p.rule.scale)
		}
	}
}
