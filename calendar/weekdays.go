package calendar

import (
	"strings"
	"time"
)

// weekdays is a set of days of the week: bit 0 is Monday, and bit 6 Sunday.
type weekdays uint8

const (
	mondayToFriday weekdays = 1<<5 - 1
	everyDay       weekdays = 1<<7 - 1
)

// place returns the number of a day in a week that begins on Monday.
func place(day time.Weekday) int {
	const week = 7
	return int(day+week-1) % week
}

func (s weekdays) has(day time.Weekday) bool { return s>>place(day)&1 == 1 }

// weekdaysOf returns the set of days. For a day that there is not, the result is greater than everyDay.
func weekdaysOf(days []time.Weekday) weekdays {
	var set weekdays
	for _, day := range days {
		if day < time.Sunday || day > time.Saturday {
			return everyDay + 1
		}
		set |= 1 << place(day)
	}
	return set
}

// list returns the days from Monday on.
func (s weekdays) list() []time.Weekday {
	var days []time.Weekday
	for i := range 7 {
		if s>>i&1 == 1 {
			days = append(days, time.Weekday((i+1)%7))
		}
	}
	return days
}

// parseWeekdays reads days such as "Mo-Fr", "Sa,Su" or "sunday-thu": names of at least two letters.
func parseWeekdays(text string) (set weekdays, ok bool) {
	for item := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(item, "-")
		if !ranged {
			last = first
		}
		from, okFrom := weekdayOf(strings.ToLower(strings.TrimSpace(first)), 2)
		to, okTo := weekdayOf(strings.ToLower(strings.TrimSpace(last)), 2)
		if !okFrom || !okTo {
			return 0, false
		}
		for i := place(from); ; i = (i + 1) % 7 {
			if set |= 1 << i; i == place(to) {
				break
			}
		}
	}
	return set, set != 0
}

// String returns the days as parseWeekdays reads them: "Mo-Fr", "Mo-We,Sa".
func (s weekdays) String() string {
	name := func(i int) string { return time.Weekday((i + 1) % 7).String()[:2] }
	var items []string
	for i := 0; i < 7; i++ {
		if s>>i&1 == 0 {
			continue
		}
		begin := i
		for i < 6 && s>>(i+1)&1 == 1 {
			i++
		}
		item := name(begin)
		if i > begin {
			item += "-" + name(i)
		}
		items = append(items, item)
	}
	return strings.Join(items, ",")
}
