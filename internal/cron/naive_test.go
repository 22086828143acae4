package cron_test

import (
	"strconv"
	"strings"
	"time"
)

// naive is an independent parser of expressions that Parse accepts. It fills tables of
// booleans by trying every value against the text, and checks days one by one with package
// time. It shares no code with the package.
type naive struct {
	seconds, minutes, hours, dates, months [64]bool

	dayOfMonth []string
	dayOfWeek  []string
	restricted int // day fields that do not begin with * or ?
}

func readNaively(expr string) naive {
	fields := strings.Fields(expr)
	switch expr = strings.Join(fields, " "); expr {
	case "@yearly", "@annually":
		fields = strings.Fields("0 0 1 1 *")
	case "@monthly":
		fields = strings.Fields("0 0 1 * *")
	case "@weekly":
		fields = strings.Fields("0 0 * * 0")
	case "@daily", "@midnight":
		fields = strings.Fields("0 0 * * *")
	case "@hourly":
		fields = strings.Fields("0 * * * *")
	}
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	n := naive{dayOfMonth: strings.Split(strings.ToUpper(fields[3]), ","), dayOfWeek: strings.Split(strings.ToUpper(fields[5]), ",")}
	for value := range 64 {
		n.seconds[value] = listed(fields[0], value, [2]int{0, 59})
		n.minutes[value] = listed(fields[1], value, [2]int{0, 59})
		n.hours[value] = listed(fields[2], value, [2]int{0, 23})
		n.dates[value] = listed(fields[3], value, [2]int{1, 31})
		n.months[value] = listed(fields[4], value, [2]int{1, 12})
	}
	for _, f := range []string{fields[3], fields[5]} {
		if f[0] != '*' && f[0] != '?' {
			n.restricted++
		}
	}
	return n
}

// listed reports whether an item of the list contains value; bounds are the bounds of *.
func listed(list string, value int, bounds [2]int) bool {
	for item := range strings.SplitSeq(strings.ToUpper(list), ",") {
		if within(item, value, bounds) {
			return true
		}
	}
	return false
}

func within(item string, value int, bounds [2]int) bool {
	if strings.HasPrefix(item, "L-") {
		return false // no range
	}
	span, by, stepped := strings.Cut(item, "/")
	low, high := bounds[0], bounds[1]
	if span != "*" && span != "?" {
		from, to, ranged := strings.Cut(span, "-")
		low = spelled(from)
		switch {
		case ranged:
			high = spelled(to)
		case stepped:
			high = max(low, high)
		default:
			high = low
		}
		if high == 0 && low > 0 {
			high = 7
		}
	}
	if !stepped {
		by = "1"
	}
	return value >= low && value <= high && (value-low)%spelled(by) == 0
}

// spelled returns the value of a number or a name, and -9 for anything else.
func spelled(text string) int {
	for i, name := range strings.Fields("SUN MON TUE WED THU FRI SAT") {
		if text == name {
			return i
		}
	}
	for i, name := range strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC") {
		if text == name {
			return i + 1
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -9
	}
	return n
}

// day reports whether n matches the date of t.
func (n naive) day(t time.Time) bool {
	if !n.months[t.Month()] {
		return false
	}
	date, weekday := n.dates[t.Day()], false
	for _, item := range n.dayOfMonth {
		date = date || onDate(item, t)
	}
	for _, item := range n.dayOfWeek {
		weekday = weekday || onWeekday(item, t)
	}
	if n.restricted == 2 {
		return date || weekday
	}
	return date && weekday
}

// onDate reports whether an item with an L or a W means the date of t: it walks from the day in question.
func onDate(item string, t time.Time) bool {
	last := time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC)
	if item == "L" {
		return t.Day() == last.Day()
	}
	if back, ok := strings.CutPrefix(item, "L-"); ok {
		return t.Day() == last.Day()-spelled(back)
	}
	day, ok := strings.CutSuffix(item, "W")
	if !ok || t.Weekday() == time.Saturday || t.Weekday() == time.Sunday {
		return false
	}
	wanted := spelled(day)
	if day == "L" {
		wanted = last.Day()
	}
	for distance := range 3 {
		for _, at := range []int{wanted - distance, wanted + distance} {
			weekday := time.Date(t.Year(), t.Month(), at, 0, 0, 0, 0, time.UTC).Weekday()
			if wanted <= last.Day() && at >= 1 && at <= last.Day() && weekday != time.Saturday && weekday != time.Sunday {
				return at == t.Day()
			}
		}
	}
	return false
}

func onWeekday(item string, t time.Time) bool {
	if which, count, ok := strings.Cut(item, "#"); ok {
		return spelled(which)%7 == int(t.Weekday()) && (t.Day()+6)/7 == spelled(count)
	}
	if which, ok := strings.CutSuffix(item, "L"); ok {
		return spelled(which)%7 == int(t.Weekday()) && t.AddDate(0, 0, 7).Month() != t.Month()
	}
	sunday := t.Weekday() == time.Sunday && within(item, 7, [2]int{0, 6})
	return sunday || within(item, int(t.Weekday()), [2]int{0, 6})
}

// matches reports whether n matches t.
func (n naive) matches(t time.Time) bool {
	return n.hours[t.Hour()] && n.minutes[t.Minute()] && n.seconds[t.Second()] && n.day(t)
}
