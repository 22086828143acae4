package rrule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxText     = 4 << 10
	maxCount    = 10_000
	maxInterval = 1<<31 - 1 // the greatest integer of RFC 5545
	maxProblems = 20        // a text of 4 KiB can have two thousand
	maxQuoted   = 40        // bytes of invalid text that a problem quotes
)

// Error describes everything that is wrong with the text of a rule.
type Error struct {
	// Problems are clauses in lower case, each about one part. There is at least one. When
	// there are very many, the last says how many more there are.
	Problems []string
}

func (e *Error) Error() string { return "bad recurrence rule: " + strings.Join(e.Problems, "; ") }

// Parse parses a rule such as "FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10". Case is ignored, and the
// prefix "RRULE:" is allowed.
//
// The error is an [*Error]. Parse refuses what RFC 5545 and RFC 7529 forbid. It also
// refuses text above 4 KiB, a COUNT above 10,000 (counting begins at the start each time)
// and an INTERVAL above 2,147,483,647. Further it refuses the second 60, which no wall clock
// shows, parts with other names, including X- names, and a calendar other than GREGORIAN and
// those whose names are given in capital letters.
func Parse(text string, scales ...string) (Rule, error) {
	if len(text) > maxText {
		return Rule{}, &Error{[]string{fmt.Sprintf("%d bytes long, more than %d", len(text), maxText)}}
	}
	text = strings.TrimPrefix(upper(text), "RRULE:")
	p := parser{rule: Rule{interval: 1, weekStart: time.Monday, scale: scaleOf(text, scales)}, given: map[string]bool{}, scales: scales}
	for part := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			p.complain("%s is not of the form NAME=VALUE", quote(part))
			continue
		case p.given[name]:
			p.complain("%s is given more than once", quote(name))
			continue
		}
		p.given[name] = true
		p.read(name, value)
	}
	p.checkTogether()
	if p.total > 0 {
		if more := p.total - len(p.problems); more > 0 {
			p.problems = append(p.problems, fmt.Sprintf("and %d more", more))
		}
		return Rule{}, &Error{p.problems}
	}
	return p.rule, nil
}

// upper is strings.ToUpper for ASCII only: some Unicode letters become an I or an S in
// upper case, and must not match.
func upper(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

type parser struct {
	rule     Rule
	given    map[string]bool
	scales   []string // the calendars besides the Gregorian one
	problems []string
	total    int // the number of problems, including those left out
}

func (p *parser) complain(format string, args ...any) {
	p.total++
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, fmt.Sprintf(format, args...))
	}
}

func quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.Quote(text[:maxQuoted]) + "..."
	}
	return strconv.Quote(text)
}

// read processes one part.
func (p *parser) read(name, value string) {
	r := &p.rule
	switch name {
	case "FREQ":
		r.freq = frequency(p.oneOf(name, value, frequencyNames[1:]) + 1)
	case "INTERVAL":
		r.interval = int64(p.number(name, value, field{low: 1, high: maxInterval}))
	case "COUNT":
		r.count = p.number(name, value, field{low: 1, high: maxCount})
	case "UNTIL":
		r.until = p.until(value)
	case "WKST":
		r.weekStart = time.Weekday(p.oneOf(name, value, dayNames[:]))
	case "RSCALE":
		p.oneOf(name, value, append([]string{gregorian}, p.scales...))
	case "SKIP":
		r.skip = skip(p.oneOf(name, value, skipNames[:]))
	case "BYDAY":
		for entry := range strings.SplitSeq(value, ",") {
			p.weekday(entry)
		}
	default:
		field := r.by.field(name)
		if field.set == nil {
			p.complain("%s is no part of a rule", quote(name))
			return
		}
		for entry := range strings.SplitSeq(value, ",") {
			if name == "BYMONTH" && r.scale != "" {
				p.month(entry)
				continue
			}
			field.set.add(p.number(name, entry, field))
		}
	}
}

// oneOf returns the index of value among names, or -1.
func (p *parser) oneOf(name, value string, names []string) int {
	i := slices.Index(names, value)
	if i < 0 {
		p.complain("%s=%s is not %s", name, quote(value), strings.Join(names, ", "))
	}
	return i
}

// number parses text as a number of the part, and adds a problem if it is invalid.
func (p *parser) number(name, text string, in field) int {
	n, ok := whole(text, in.signed)
	if size := max(n, -n); !ok || size < in.low || size > in.high {
		p.complain("%s=%s is not %s", name, quote(text), in)
		return 0
	}
	return n
}

// String describes which numbers the part accepts.
func (f field) String() string {
	if f.signed {
		return fmt.Sprintf("a number from %d to %d or from -%[2]d to -%[1]d", f.low, f.high)
	}
	return fmt.Sprintf("a number from %d to %d", f.low, f.high)
}

// whole parses a number, with a sign only if signed.
func whole(text string, signed bool) (int, bool) {
	digits := text
	if signed && text != "" && (text[0] == '+' || text[0] == '-') {
		digits = text[1:]
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// weekday processes an entry of BYDAY: a weekday, possibly with a number before it.
func (p *parser) weekday(entry string) {
	number, name := "", entry
	if len(entry) > 2 {
		number, name = entry[:len(entry)-2], entry[len(entry)-2:]
	}
	w := slices.Index(dayNames[:], name)
	n, ok := whole(number, true)
	if number == "" {
		n, ok = 0, true
	} else if n == 0 || max(n, -n) > 53 {
		ok = false
	}
	if w < 0 || !ok {
		p.complain("BYDAY=%s is not one of %s, alone or after a number from 1 to 53 or from -53 to -1",
			quote(entry), strings.Join(dayNames[:], ", "))
		return
	}
	p.rule.by.weekday.add(time.Weekday(w), n)
}

func (p *parser) until(value string) until {
	for form := untilDate; form <= untilUTC; form++ {
		layout := untilLayouts[form]
		t, err := time.Parse(layout, value)
		if err != nil || len(value) != len(layout) || t.Year() < 1 {
			continue
		}
		if form == untilDate {
			t = t.Add(24*time.Hour - time.Second)
		}
		return until{form, t.Unix()}
	}
	p.complain("UNTIL=%s is not a date of the form YYYYMMDD, YYYYMMDDTHHMMSS or YYYYMMDDTHHMMSSZ", quote(value))
	return until{}
}

// checkTogether checks combinations of parts. It does not report parts that are invalid themselves.
func (p *parser) checkTogether() {
	given := p.given
	others := func(name string) bool { return name != "BYSETPOS" && given[name] }
	if !given["FREQ"] {
		p.complain("FREQ is missing")
	}
	if given["COUNT"] && given["UNTIL"] {
		p.complain("COUNT and UNTIL exclude each other")
	}
	if given["BYSETPOS"] && !slices.ContainsFunc(byNames, others) {
		p.complain("BYSETPOS needs another part whose name begins with BY")
	}
	if given["SKIP"] && !given["RSCALE"] {
		p.complain("SKIP needs RSCALE, such as RSCALE=GREGORIAN")
	}
	if p.rule.scale != "" {
		p.checkScale()
	}
	if freq := p.rule.freq; freq != 0 {
		p.checkFrequency(freq, p.rule.by.weekday.ordinals)
	}
}

func (p *parser) checkFrequency(freq frequency, ordinals bool) {
	if p.given["BYWEEKNO"] && freq != yearly {
		p.complain("BYWEEKNO is for FREQ=YEARLY only")
	}
	if p.given["BYYEARDAY"] && (freq == daily || freq == weekly || freq == monthly) {
		p.complain("BYYEARDAY is not for FREQ=%s", frequencyNames[freq])
	}
	if p.given["BYMONTHDAY"] && freq == weekly {
		p.complain("BYMONTHDAY is not for FREQ=WEEKLY")
	}
	if ordinals && freq != monthly && freq != yearly {
		p.complain("BYDAY takes numbers with FREQ=MONTHLY and FREQ=YEARLY only")
	}
	if ordinals && freq == yearly && p.given["BYWEEKNO"] {
		p.complain("BYDAY takes no numbers beside BYWEEKNO")
	}
}
