package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLength bounds an expression, in bytes. A field that lists each of its values fits.
const maxLength = 256

// Error says what is wrong with an expression.
type Error struct {
	// Problems holds one clause for each bad field: its name and its first problem, with the offending
	// text, shortened if it is long. A problem of the whole expression has a clause without a field name.
	Problems []string
}

func (e *Error) Error() string { return "cron: " + strings.Join(e.Problems, "; ") }

// Parse reads an expression of at most 256 bytes. The error is an [*Error] that
// names every bad field at once.
func Parse(text string) (Schedule, error) {
	if len(text) > maxLength {
		return Schedule{}, &Error{[]string{fmt.Sprintf("the expression is %d bytes long, more than %d", len(text), maxLength)}}
	}
	fields := strings.Fields(text)
	text = strings.Join(fields, " ")

	var problems []string
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		problems = append(problems, clip(fields[0])+" has no place here: the time zone is chosen apart from the expression")
		fields = fields[1:]
	}
	fields, problem := sixFields(fields)
	if problem != "" {
		return Schedule{}, &Error{append(problems, problem)}
	}
	s, bad := compile(fields)
	if problems = append(problems, bad...); len(problems) > 0 {
		return Schedule{}, &Error{problems}
	}
	s.text = text
	return s, nil
}

// sixFields returns the fields from the seconds to the day of the week. Otherwise problem
// says what is wrong.
func sixFields(fields []string) (six []string, problem string) {
	if len(fields) == 0 {
		return nil, "the expression is empty"
	}
	if strings.HasPrefix(fields[0], "@") {
		text := strings.Join(fields, " ")
		expansion, ok := macros[text]
		if !ok {
			return nil, clip(text) + " is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly"
		}
		fields = strings.Fields(expansion)
	}
	switch len(fields) {
	case 5:
		return append([]string{"0"}, fields...), ""
	case 6:
		return fields, ""
	}
	return nil, fmt.Sprintf("the number of fields is %d: it should be 5 (minute, hour, day-of-month, month, day-of-week), or 6 with second first", len(fields))
}

var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// compile returns the Schedule of six fields, or what is wrong with them.
func compile(fields []string) (s Schedule, problems []string) {
	read := func(text string, f field, item func(field, string) (set, error)) set {
		var values set
		for part := range strings.SplitSeq(text, ",") {
			more, err := item(f, part)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s %s: %v", f.name, clip(text), err))
				break
			}
			values |= more
		}
		return values
	}
	var near set
	s = Schedule{
		seconds:  read(fields[0], secondField, field.item),
		minutes:  read(fields[1], minuteField, field.item),
		hours:    read(fields[2], hourField, field.item),
		days:     read(fields[3], dayOfMonthField, func(f field, text string) (set, error) { return f.dayOfMonth(text, &near) }),
		months:   read(fields[4], monthField, field.item),
		weekdays: read(fields[5], dayOfWeekField, field.weekdays),
		either:   !strings.ContainsAny(fields[3][:1]+fields[5][:1], "*?"),
	}
	s.near = near
	return s, problems
}

// field is what one field of an expression accepts.
type field struct {
	name        string
	first, last int      // the values of *
	highest     int      // the highest value that may be written
	names       []string // of the values from first on
	day         bool     // one of the two fields in which ? means *
}

var (
	secondField     = field{name: "second", last: 59, highest: 59}
	minuteField     = field{name: "minute", last: 59, highest: 59}
	hourField       = field{name: "hour", last: 23, highest: 23}
	dayOfMonthField = field{name: "day-of-month", first: 1, last: 31, highest: 31, day: true}
	monthField      = field{name: "month", first: 1, last: 12, highest: 12, names: []string{
		"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
	}}
	dayOfWeekField = field{name: "day-of-week", last: 6, highest: 7, day: true, names: []string{
		"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT",
	}}
)

// item returns the values of one item of a list: a *, a value or a range, with or without a step.
func (f field) item(text string) (set, error) {
	span, by, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		var err error
		if step, err = f.step(by); err != nil {
			return 0, err
		}
	}
	low, high, err := f.span(span, stepped)
	if err != nil {
		return 0, err
	}
	var values set
	for n := low; n <= high; n += step {
		values |= 1 << n
	}
	return values, nil
}

// span returns the bounds of the part before the step. A single value with a step extends
// to the end of the field.
func (f field) span(text string, stepped bool) (low, high int, err error) {
	if text == "*" || f.day && text == "?" {
		return f.first, f.last, nil
	}
	from, to, ranged := strings.Cut(text, "-")
	if low, err = f.value(from); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		if high, err = f.value(to); err != nil {
			return 0, 0, err
		}
	case stepped:
		high = max(low, f.last) // Sunday, written as 7, is greater than the last value
	default:
		high = low
	}
	if low > high && high == f.first && f.highest > f.last {
		high = f.highest // Sunday as the end of a range
	}
	if low > high {
		return 0, 0, fmt.Errorf("%s runs backwards: write two ranges", clip(text))
	}
	return low, high, nil
}

func (f field) step(text string) (int, error) {
	size := f.last - f.first + 1
	n, err := number(text)
	if err != nil || n < 1 || n > size {
		return 0, fmt.Errorf("step %s is not a number from 1 to %d", clip(text), size)
	}
	return n, nil
}

// value returns the value of a number or a name.
func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		// Some letters beyond ASCII become these in another case.
		if len(text) == len(name) && strings.EqualFold(text, name) {
			return f.first + i, nil
		}
	}
	n, err := number(text)
	switch {
	case text == "":
		return 0, errors.New("a value is missing")
	case err != nil && f.names != nil:
		return 0, fmt.Errorf("%s is neither a number nor a name from %s to %s", clip(text), f.names[0], f.names[len(f.names)-1])
	case err != nil:
		return 0, fmt.Errorf("%s is not a number", clip(text))
	case n < f.first || n > f.highest:
		return 0, fmt.Errorf("%s is not between %d and %d", clip(text), f.first, f.highest)
	}
	return n, nil
}

// dayOfMonth returns the days of one item of day-of-month, in the form of Schedule.days. If the item
// is one with a W, it adds the day to near instead, in the form of Schedule.near.
func (f field) dayOfMonth(text string, near *set) (set, error) {
	upper := strings.ToUpper(text)
	if back, ok := strings.CutPrefix(upper, "L-"); ok {
		n, err := number(back)
		if err != nil || n < 1 || n > 30 {
			return 0, fmt.Errorf("%s is not between L-1 and L-30", clip(text))
		}
		return 1 << (31 + n), nil
	}
	switch day, isNear := strings.CutSuffix(upper, "W"); {
	case upper == "L":
		return 1 << 0, nil
	case upper == "LW":
		*near |= 1 << 0
		return 0, nil
	case isNear:
		n, err := f.value(day)
		*near |= 1 << n
		return 0, err
	}
	return f.item(text)
}

// weekdays returns the weekdays of one item of day-of-week, in the form of Schedule.weekdays.
func (f field) weekdays(text string) (set, error) {
	if weekday, count, ok := strings.Cut(text, "#"); ok {
		day, err := f.value(weekday)
		if err != nil {
			return 0, err
		}
		n, err := number(count)
		if err != nil || n < 1 || n > 5 {
			return 0, fmt.Errorf("occurrence %s is not a number from 1 to 5", clip(count))
		}
		return 1 << (7*(n-1) + day%7), nil
	}
	if weekday := strings.TrimRight(text, "Ll"); weekday != "" && len(weekday) == len(text)-1 {
		day, err := f.value(weekday)
		return 1 << (lastRow + day%7), err
	}
	days, err := f.item(text)
	sunday := days >> 7
	return (days&(1<<7-1) | sunday) * everyRow, err
}

// number returns the value of decimal digits. For a very large one it returns another value
// that no field accepts either.
func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return int(n), err
}

// clip quotes text for a message, and marks where it was shortened.
func clip(text string) string {
	const most = 32
	if len(text) <= most {
		return strconv.Quote(text)
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strconv.Quote(text[:end]) + "..."
}
