package calendar

import (
	"errors"
	"fmt"
	"strings"
)

// maxDaysText bounds a file of days, in bytes. A century of holidays is smaller.
const maxDaysText = 4 << 20

// ParseWorkCalendar reads a calendar from a text with an entry on each line:
//
//	# holidays in Bavaria
//	name DE-BY
//	release 2026-11-02
//	until 2027-12-31
//	week Mo-Fr
//	2026-12-25 holiday Christmas Day
//	2026-12-26 holiday Boxing Day
//
// The lines for name, release and until are required; see [WorkCalendarOptions]. The default week is
// Mo-Fr; one that changes has a line for each time, such as "week Su-Th from 2013-06-29". A day is
// a holiday or work; "2026-10-10 work make-up day" makes that Saturday a working day. Its name may
// be left out. Empty lines, and lines that begin with #, are comments. A text may have 4 MiB.
//
// The error is an [*InputError] that names every bad line, such as "line 7", and every bad field.
func ParseWorkCalendar(text string) (*WorkCalendar, error) {
	var bad inputProblems
	if len(text) > maxDaysText {
		bad.refuse("text", "has %d bytes, more than %d", len(text), maxDaysText)
		return nil, bad.err()
	}
	var o WorkCalendarOptions
	given := make(map[string]bool)
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest := cutWord(line)
		if word == "name" || word == "release" || word == "until" {
			if given[word] {
				bad.refuse(lineName(number), "has a second %s", word)
				continue
			}
			given[word] = true
		}
		if problem := o.read(word, rest); problem != "" {
			bad.refuse(lineName(number), "%s", problem)
		}
	}
	o.check(&bad)
	if err := bad.err(); err != nil {
		return nil, err
	}
	return NewWorkCalendar(o)
}

// cutWord returns the first word of a line, and what follows.
func cutWord(line string) (word, rest string) {
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], strings.TrimSpace(line[i:])
	}
	return line, ""
}

func lineName(number int) string { return fmt.Sprintf("line %d", number) }

// read reads a line, and returns as a clause what is wrong with it.
func (o *WorkCalendarOptions) read(word, rest string) (problem string) {
	var err error
	switch word {
	case "name":
		o.Name = rest
		return ""
	case "release":
		o.Release = rest
		return ""
	case "until":
		o.Until, err = ParseDate(rest)
		return formatProblem(err)
	case "week":
		return o.readWeek(rest)
	}
	var day NamedDay
	if day.Date, err = ParseDate(word); err != nil {
		return formatProblem(err)
	}
	kind, name := cutWord(rest)
	day.Name = name
	switch kind {
	case "holiday":
		o.Holidays = append(o.Holidays, day)
	case "work":
		o.Work = append(o.Work, day)
	default:
		return "has neither holiday nor work behind the date"
	}
	return ""
}

func (o *WorkCalendarOptions) readWeek(text string) (problem string) {
	days, from, dated := strings.Cut(text, " from ")
	set, ok := parseWeekdays(days)
	if !ok {
		return quoted(days) + " is not days of the week, such as Mo-Fr or Mo,We"
	}
	w := WorkWeek{Days: set.list()}
	if dated {
		var err error
		if w.From, err = ParseDate(strings.TrimSpace(from)); err != nil {
			return formatProblem(err)
		}
	}
	o.Weeks = append(o.Weeks, w)
	return ""
}

// formatProblem returns what a parser said of its text, as a clause.
func formatProblem(err error) string {
	if bad, ok := errors.AsType[*FormatError](err); ok {
		return quoted(bad.Text) + " " + bad.Problem
	}
	return ""
}

// validCalendarName reports whether names can be joined by commas, and be stored.
func validCalendarName(s string) bool {
	const most = 40
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}

// validRelease reports whether releases sort by their text.
func validRelease(s string) bool {
	day, counter, counted := strings.Cut(s, ".")
	_, err := ParseDate(day)
	return err == nil && (!counted || len(counter) == 1 && counter[0] >= '1' && counter[0] <= '9')
}
