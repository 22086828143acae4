package calendar

import (
	"fmt"
	"strings"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// ParseWindow reads a window such as "Mo-Fr 09:00-18:00; Sa 10:00-14:00", a part of the form that
// OpenStreetMap has for opening hours. A rule has days, and then hours with commas between them, or
// the word off. The days are names of at least two letters, ranges of names, or several of these
// with commas between them. A rule without days is for every day. A rule replaces what an earlier
// rule says of its days. Hours end on the next day if their end is not after their beginning; 24:00
// is the end of the day. "24/7" is the whole week.
//
// Holidays (PH) are no part of the text: see [Window.ClosedOnHolidays]. The error is an [*InputError]
// that names every bad rule, such as "rule 2". A window that never opens is refused.
func ParseWindow(text string) (Window, error) {
	if strings.TrimSpace(text) == "24/7" {
		return Window{}, nil
	}
	var bad inputProblems
	w := &window{}
	if len(text) > maxTextBytes {
		bad.refuse("window", "has %d bytes, more than %d", len(text), maxTextBytes)
		return Window{}, bad.err()
	}
	for i, rule := range strings.Split(text, ";") {
		if rule = strings.TrimSpace(rule); rule == "" {
			continue
		}
		if problem := w.read(rule); problem != "" {
			bad.refuse(fmt.Sprintf("rule %d", i+1), "%s", problem)
		}
	}
	if err := bad.err(); err != nil {
		return Window{}, err
	}
	for _, spans := range w.week {
		if len(spans) > 0 {
			return Window{w}, nil
		}
	}
	bad.refuse("window", "has no hours: it never opens")
	return Window{}, bad.err()
}

// ParseQuietHours returns the window outside of the quiet hours of each day. They have the form
// HH:MM-HH:MM, with or without seconds, such as 22:00-08:00, and can include midnight. The times must
// differ. The error is a [*FormatError].
func ParseQuietHours(s string) (Window, error) {
	first, last, _ := strings.Cut(s, "-")
	from, err := ParseClock(first)
	until, failed := ParseClock(last)
	if err != nil || failed != nil || from == until {
		return Window{}, &FormatError{excerpt.Of(s, maxQuoted), "is not two different times of day, such as 22:00-08:00"}
	}
	w := &window{quiet: true}
	w.add(everyDay, spanOf(until, from))
	return Window{w}, nil
}

// read reads a rule, and returns as a clause what is wrong with it.
func (w *window) read(rule string) (problem string) {
	days, off := cutOff(rule)
	if !off {
		end := strings.IndexAny(rule, "0123456789")
		if end < 0 {
			return quoted(rule) + " has no hours, such as 09:00-18:00"
		}
		days = rule[:end]
	}
	on := everyDay
	if days = strings.TrimSpace(days); days != "" {
		var ok bool
		if on, ok = parseWeekdays(days); !ok {
			return quoted(days) + " is not days of the week, such as Mo-Fr or Mo,We; holidays are in a work calendar"
		}
	}
	for i := range w.week {
		if on>>i&1 == 1 {
			w.week[i] = nil
		}
	}
	if off {
		return ""
	}
	for item := range strings.SplitSeq(rule[strings.IndexAny(rule, "0123456789"):], ",") {
		from, until, ok := parseHours(strings.TrimSpace(item))
		if !ok {
			return quoted(item) + " is not hours, such as 09:00-18:00"
		}
		w.add(on, spanOf(from, until))
	}
	return ""
}

// cutOff cuts the word off from the end of a rule.
func cutOff(rule string) (days string, ok bool) {
	for _, word := range []string{"OFF", "CLOSED"} {
		if days, ok := strings.CutSuffix(upperASCII(rule), word); ok {
			return days, true
		}
	}
	return rule, false
}

func parseHours(text string) (from, until Clock, ok bool) {
	first, last, _ := strings.Cut(text, "-")
	from, err := ParseClock(strings.TrimSpace(first))
	if err != nil {
		return from, until, false
	}
	if last = strings.TrimSpace(last); last == "24:00" {
		last = "00:00"
	}
	until, err = ParseClock(last)
	return from, until, err == nil
}
