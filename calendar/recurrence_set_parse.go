package calendar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac/internal/excerpt"
)

const (
	maxSetText     = 64 << 10
	maxSetProblems = 20
	maxSetQuoted   = 40 // bytes of bad text that a problem repeats
)

// ParseRecurrenceSet reads a recurrence set as RFC 5545 writes it, a property on each line:
//
//	DTSTART;TZID=America/New_York:20270315T090000
//	RRULE:FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10
//	RDATE;TZID=America/New_York:20270320T110000
//	EXDATE;TZID=America/New_York:20270322T090000,20270324T090000
//
// The properties may stand in any order, in upper or lower case. DTSTART is required. There can be one
// RRULE, and any number of RDATE and EXDATE. A line ends with a line feed, with or without a carriage
// return; a line that begins with a space or a tab continues the line before, as section 3.1 folds lines.
//
// RDATE and EXDATE follow the form of DTSTART. If DTSTART has a TZID, they have the same TZID or are
// in UTC. If DTSTART is in UTC, they are in UTC. If DTSTART has neither, all are wall times without
// a zone. An EXDATE can also be dates, "EXDATE;VALUE=DATE:20270322", for all slots of these dates.
// Dates have no TZID (section 3.2.19).
//
// The error is an [*InvalidRecurrenceError] that names everything that is wrong: every other
// property and parameter, other dates without a time of day and periods, a TZID that
// [LoadTimezone] refuses, and what [ParseRRule] refuses. A text may have 64 KiB.
//
// The systems are the calendars that RSCALE may name, besides the Gregorian one. A set with such a
// rule must have no RDATE, and has the keys of the rule: see [RRule]. Its DTSTART and EXDATE are
// Gregorian dates.
func ParseRecurrenceSet(text string, systems ...System) (RecurrenceSet, error) {
	p := setParser{systems: systems}
	if len(text) > maxSetText {
		p.refuse("the text has %d bytes, more than %d", len(text), maxSetText)
		return RecurrenceSet{}, p.failure(text)
	}
	lines := p.lines(text)
	for _, l := range lines {
		if l.name == "DTSTART" {
			p.begin(l)
		}
	}
	if p.began == 0 {
		p.refuse("DTSTART is missing")
	}
	for _, l := range lines {
		p.read(l)
	}
	if p.set.rule.by != nil && len(p.set.dates) > 0 {
		p.refuse("RDATE is not for a rule by another calendar")
	}
	if err := p.failure(text); err != nil {
		return RecurrenceSet{}, err
	}
	return p.set.ordered(), nil
}

// setParser reads the lines of a recurrence set, and collects what is wrong.
type setParser struct {
	set         RecurrenceSet
	systems     []System
	began       int // how often there is a DTSTART
	ruled       int // how often there is an RRULE
	form        setForm
	problems    []string
	leftUnnamed int
}

// setForm is how the times of a set are written.
type setForm int

const (
	formUnknown  setForm = iota // DTSTART is missing, or is bad
	formFloating                // wall times of no zone
	formZoned                   // wall times of the zone of a TZID
	formUTC
)

// setLine is a property.
type setLine struct {
	name   string // in upper case
	params []setParam
	value  string
}

type setParam struct{ name, value string } // the name in upper case

// isDate reports whether a parameter makes the values of its property dates.
func (p setParam) isDate() bool { return p.name == "VALUE" && upperASCII(p.value) == "DATE" }

func (p *setParser) refuse(format string, args ...any) {
	if len(p.problems) == maxSetProblems {
		p.leftUnnamed++
		return
	}
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// failure returns the error about everything that is wrong with a text, or nil.
func (p *setParser) failure(text string) error {
	if p.leftUnnamed > 0 {
		return invalidRecurrence(text, append(p.problems, fmt.Sprintf("and %d more", p.leftUnnamed)))
	}
	return invalidRecurrence(text, p.problems)
}

// lines unfolds a text and takes its lines apart.
func (p *setParser) lines(text string) (list []setLine) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	text = strings.NewReplacer("\n ", "", "\n\t", "").Replace(text)
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		if l, ok := cutLine(line); ok {
			list = append(list, l)
			continue
		}
		p.refuse("%s is not of the form NAME:VALUE", quoted(line))
	}
	return list
}

// cutLine takes a line apart. Within quotation marks, colons and semicolons part nothing.
func cutLine(line string) (l setLine, ok bool) {
	inQuotes := false
	begin := 0
	for i, c := range []byte(line) {
		if c == '"' {
			inQuotes = !inQuotes
		}
		if inQuotes || c != ';' && c != ':' {
			continue
		}
		if part := line[begin:i]; l.name == "" {
			l.name = upperASCII(part)
		} else {
			name, value, _ := strings.Cut(part, "=")
			l.params = append(l.params, setParam{upperASCII(name), strings.Trim(value, `"`)})
		}
		if begin = i + 1; l.name == "" {
			return l, false
		}
		if c == ':' {
			l.value = line[begin:]
			return l, true
		}
	}
	return l, false
}

// begin reads DTSTART.
func (p *setParser) begin(l setLine) {
	if p.began++; p.began > 1 {
		p.refuse("DTSTART is there more than once")
		return
	}
	zone, given, ok := p.params(l)
	if !ok {
		return
	}
	at, utc, ok := p.time(l.name, l.value)
	switch {
	case !ok:
	case utc && given:
		p.refuse("DTSTART has a TZID and is in UTC")
	case utc:
		p.form, zone = formUTC, utcZone()
	case given:
		p.form = formZoned
	default:
		p.form = formFloating
	}
	p.set.start, p.set.zone, p.set.in = at, zone, zone
}

// utcZone is UTC, for which every machine has data.
func utcZone() Timezone { return StoredTimezone("UTC") }

// params reads the parameters of a property whose values are times, and returns the zone of its
// TZID and whether there is one.
func (p *setParser) params(l setLine) (zone Timezone, given, ok bool) {
	ok = true
	for _, param := range l.params {
		switch param.name {
		case "TZID":
			if given {
				p.refuse("%s has more than one TZID", l.name)
			}
			given = true
			var bad *InvalidTimezoneError
			var err error
			if zone, err = LoadTimezone(param.value); errors.As(err, &bad) {
				p.refuse("%s: TZID %s %s", l.name, quoted(bad.Name), bad.Problem())
				ok = false
			}
		case "VALUE":
			switch value := upperASCII(param.value); value {
			case "DATE-TIME":
			case "DATE":
				p.refuse("%s is a date; a recurrence needs a time of day", l.name)
				ok = false
			default:
				p.refuse("%s: VALUE %s is not understood", l.name, quoted(value))
				ok = false
			}
		default:
			p.refuse("%s: the parameter %s is not understood", l.name, quoted(param.name))
		}
	}
	return zone, given, ok
}

// read reads every property but DTSTART.
func (p *setParser) read(l setLine) {
	switch l.name {
	case "DTSTART":
	case "RRULE":
		p.rule(l)
	case "EXDATE":
		if slices.ContainsFunc(l.params, setParam.isDate) {
			p.dates(l)
			return
		}
		p.times(l)
	case "RDATE":
		p.times(l)
	default:
		p.refuse("%s is no property of a recurrence set", quoted(l.name))
	}
}

func (p *setParser) rule(l setLine) {
	if p.ruled++; p.ruled > 1 {
		p.refuse("RRULE is there more than once")
		return
	}
	for _, param := range l.params {
		p.refuse("RRULE: the parameter %s is not understood", quoted(param.name))
	}
	start := p.set.start
	if !start.Valid() {
		start = WallTime{Date: Date{Year: 2000, Month: time.January, Day: 1}} // to see what else is wrong
	}
	rule, err := ParseRRule(l.value, start, p.systems...)
	if bad, ok := errors.AsType[*InvalidRecurrenceError](err); ok {
		for _, problem := range bad.Problems {
			p.refuse("RRULE: %s", problem)
		}
	}
	if _, utc, ok := rule.rule.Until(); ok && utc && p.form == formFloating {
		p.refuse("RRULE: UNTIL is in UTC, and DTSTART is a wall time of no zone")
	}
	rule.zone = p.set.zone
	p.set.rule = rule
}

// dates reads an EXDATE of dates.
func (p *setParser) dates(l setLine) {
	for _, param := range l.params {
		switch {
		case param.isDate():
		case param.name == "TZID":
			p.refuse("%s: dates have no TZID", l.name)
		default:
			p.refuse("%s: the parameter %s is not understood", l.name, quoted(param.name))
		}
	}
	for value := range strings.SplitSeq(l.value, ",") {
		t, err := time.Parse(dateForm, value)
		switch {
		case err == nil && len(value) == len(dateForm) && t.Year() >= 1:
			p.set.exceptOn = append(p.set.exceptOn, WallTimeOf(t))
		case looksLike(value, dateForm):
			p.refuse("%s: %s is on no calendar", l.name, quoted(value))
		default:
			p.refuse("%s: %s is not of the form YYYYMMDD", l.name, quoted(value))
		}
	}
}

// times reads the times of RDATE or EXDATE.
func (p *setParser) times(l setLine) {
	zone, given, ok := p.params(l)
	if !ok {
		return
	}
	if p.form != formUnknown && given && (p.form != formZoned || !zone.Equal(p.set.zone)) {
		p.refuse("%s has another TZID than DTSTART", l.name)
		return
	}
	for value := range strings.SplitSeq(l.value, ",") {
		at, utc, ok := p.time(l.name, value)
		if !ok {
			continue
		}
		switch {
		case p.form == formUnknown:
			continue
		case utc && given:
			p.refuse("%s: %s is in UTC and has a TZID", l.name, quoted(value))
			continue
		case utc && p.form == formFloating, !utc && !given && p.form != formFloating:
			p.refuse("%s: %s has another form than DTSTART", l.name, quoted(value))
			continue
		}
		instant := at.Labelled()
		switch {
		case utc && p.form == formZoned && l.name == "EXDATE":
			p.set.exceptAt = append(p.set.exceptAt, instant)
		case l.name == "EXDATE":
			p.set.except = append(p.set.except, at)
		case utc && p.form == formZoned:
			p.set.dates = append(p.set.dates, p.set.zone.WallTime(instant))
		default:
			p.set.dates = append(p.set.dates, at)
		}
	}
}

// time reads a time of a property, and reports whether it is in UTC.
func (p *setParser) time(property, text string) (at WallTime, utc, ok bool) {
	local := strings.TrimSuffix(upperASCII(text), "Z")
	if looksLike(local, dateForm) {
		problem := "a recurrence needs a time of day"
		if property == "EXDATE" {
			problem = "for all slots of the date, write EXDATE;VALUE=DATE"
		}
		p.refuse("%s: %s is a date; %s", property, quoted(text), problem)
		return WallTime{}, false, false
	}
	t, err := time.Parse(wallForm, local)
	if err != nil || len(local) != len(wallForm) || t.Year() < 1 {
		problem := "is not of the form YYYYMMDDTHHMMSS"
		if looksLike(local, wallForm) {
			problem = "is on no calendar, or no clock shows it"
		}
		p.refuse("%s: %s %s", property, quoted(text), problem)
		return WallTime{}, false, false
	}
	return WallTimeOf(t), len(local) < len(text), true
}

// ordered returns s with its times in order and each once. Without a rule, the start is a date.
func (s RecurrenceSet) ordered() RecurrenceSet {
	if s.start.Valid() && !s.rule.start.Valid() {
		s.dates = append(s.dates, s.start)
	}
	each := func(list []WallTime) []WallTime {
		slices.SortFunc(list, WallTime.Compare)
		return slices.Compact(list)
	}
	s.dates, s.except, s.exceptOn = each(s.dates), each(s.except), each(s.exceptOn)
	slices.SortFunc(s.exceptAt, time.Time.Compare)
	s.exceptAt = slices.CompactFunc(s.exceptAt, time.Time.Equal)
	return s
}

// upperASCII is strings.ToUpper for ASCII alone: Unicode has letters whose capitals are in ASCII.
func upperASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, text)
}

func quoted(text string) string { return fmt.Sprintf("%q", excerpt.Of(text, maxSetQuoted)) }
