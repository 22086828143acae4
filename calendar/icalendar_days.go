package calendar

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// ParseICalendarDays returns the days of the all-day events in an iCalendar file (RFC 5545), such
// as a government's list of holidays. It returns no day after until. The name of a day is the
// SUMMARY of its event. Use the result as the Holidays of [WorkCalendarOptions], or choose the days
// of Work by their names. The days are in order, and a day of two events is there twice.
//
// An event of several days has a DTEND, which is the day after its last, or a DURATION such as P3D.
// An end that is not after the start means one day, because some lists are written so. RRULE and
// RDATE repeat an event; EXDATE, a RECURRENCE-ID of another event with its UID, and the STATUS
// CANCELLED leave days out. A DTSTART counts also if the RRULE does not yield it. Everything else
// is ignored, also TRANSP, which lists of holidays use in contradictory ways.
//
// The error is an [*InputError] that names every bad line by its number: a start, end or exception
// that has a time of day or does not exist, an RRULE that [ParseRRule] refuses or that yields
// several times a day, and a duration of more than 366 days. A text of more than 4 MiB, of more
// than 100,000 days, or without any all-day event is refused.
func ParseICalendarDays(text string, until Date) ([]NamedDay, error) {
	p := daysParser{until: until}
	if len(text) > maxDaysText {
		p.bad.refuse("text", "has %d bytes, more than %d", len(text), maxDaysText)
		return nil, p.bad.err()
	}
	if !until.Valid() {
		p.bad.refuse("until", "is %s, which is on no calendar", until)
	}
	p.readEvents(text)
	if len(p.events) == 0 && len(p.bad.named) == 0 {
		p.bad.refuse("text", "has no all-day event")
	}
	if err := p.bad.err(); err != nil {
		return nil, err
	}
	days := p.days()
	if err := p.bad.err(); err != nil {
		return nil, err
	}
	return days, nil
}

const (
	maxEventDays  = 366
	maxListedDays = 100_000
)

// daysParser reads the events of a file.
type daysParser struct {
	until  Date
	events []dayEvent
	bad    inputProblems

	line int // of the property that is being read
}

// dayEvent is an all-day event.
type dayEvent struct {
	line         int // of BEGIN:VEVENT
	uid, summary string
	started      bool // there is a DTSTART, good or bad
	start, end   Date // end is the day after the last; zero if it is not given
	days         int  // the duration; 0 if it is not given
	rule         textLine
	more, except []Date
	instead      Date // the RECURRENCE-ID, or zero
	cancelled    bool
}

func (p *daysParser) refuse(format string, args ...any) {
	p.bad.refuse(lineName(p.line), format, args...)
}

// readEvents takes a file apart. Properties of parts within an event, such as an alarm, are not the event's.
func (p *daysParser) readEvents(text string) {
	var within []string
	var event dayEvent
	for _, l := range unfolded(text) {
		p.line = l.number
		property, ok := cutLine(l.text)
		if !ok {
			p.refuse("is not of the form NAME:VALUE: %s", quoted(l.text))
			continue
		}
		switch part := upperASCII(property.value); {
		case property.name == "BEGIN":
			if within = append(within, part); part == "VEVENT" {
				event = dayEvent{line: l.number}
			}
		case property.name == "END":
			if len(within) == 0 || within[len(within)-1] != part {
				p.refuse("ends %s, which has not begun", quoted(part))
				return
			}
			if within = within[:len(within)-1]; part == "VEVENT" {
				p.add(event)
			}
		case len(within) > 0 && within[len(within)-1] == "VEVENT":
			p.read(&event, property)
		}
	}
	if len(within) > 0 {
		p.refuse("is the last, and %s does not end", quoted(within[len(within)-1]))
	}
}

// textLine is a line, after unfolding, with the number of its first part.
type textLine struct {
	number int
	text   string
}

func unfolded(text string) (lines []textLine) {
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		switch {
		case line == "":
		case (line[0] == ' ' || line[0] == '\t') && len(lines) > 0:
			lines[len(lines)-1].text += line[1:]
		default:
			lines = append(lines, textLine{number, line})
		}
	}
	return lines
}

func (p *daysParser) add(e dayEvent) {
	if p.line = e.line; !e.started {
		p.refuse("begins an event without a DTSTART")
		return
	}
	p.events = append(p.events, e)
}

func (p *daysParser) read(e *dayEvent, l setLine) {
	switch l.name {
	case "UID":
		e.uid = l.value
	case "SUMMARY":
		e.summary = summaryOf(l.value)
	case "STATUS":
		e.cancelled = upperASCII(l.value) == "CANCELLED"
	case "DTSTART":
		e.start, e.started = p.date(l.name, l.value), true
	case "DTEND":
		e.end = p.date(l.name, l.value)
	case "DURATION":
		e.days = p.duration(l.value)
	case "RECURRENCE-ID":
		e.instead = p.date(l.name, l.value)
	case "RRULE":
		if e.rule != (textLine{}) {
			p.refuse("is a second RRULE")
		}
		e.rule = textLine{p.line, l.value}
	case "RDATE", "EXDATE":
		for value := range strings.SplitSeq(l.value, ",") {
			if day := p.date(l.name, value); l.name == "RDATE" {
				e.more = append(e.more, day)
			} else {
				e.except = append(e.except, day)
			}
		}
	}
}

// date reads a day, or refuses the line and returns the zero Date.
func (p *daysParser) date(property, text string) Date {
	t, err := time.Parse(dateForm, text)
	switch {
	case err == nil && len(text) == len(dateForm) && t.Year() >= 1:
		return DateOf(t)
	case looksLike(text, dateForm):
		p.refuse("has the %s %s, which is on no calendar", property, quoted(text))
	case len(text) > len(dateForm) && upperASCII(text)[len(dateForm)] == 'T':
		p.refuse("has the %s %s with a time of day, which an all-day event does not have", property, quoted(text))
	default:
		p.refuse("has the %s %s, which is not of the form YYYYMMDD", property, quoted(text))
	}
	return Date{}
}

// duration reads a number of days or weeks.
func (p *daysParser) duration(text string) int {
	number, ok := strings.CutPrefix(upperASCII(text), "P")
	number, inWeeks := strings.CutSuffix(number, "W")
	unit := 7
	if !inWeeks {
		var inDays bool
		number, inDays = strings.CutSuffix(number, "D")
		unit, ok = 1, ok && inDays
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if !ok || err != nil || n < 1 || int(n)*unit > maxEventDays {
		p.refuse("has the DURATION %s, which is not P1D to P%dD", quoted(text), maxEventDays)
		return 0
	}
	return int(n) * unit
}

// summaryOf returns the text of a SUMMARY on one line, and not too long for the name of a day.
func summaryOf(value string) string {
	const ellipsis = len("…")
	value = strings.NewReplacer(`\\`, `\`, `\n`, " ", `\N`, " ", `\,`, ",", `\;`, ";").Replace(value)
	value = strings.Join(strings.FieldsFunc(value, func(r rune) bool { return r == ' ' || isControl(r) }), " ")
	return excerpt.Of(strings.ToValidUTF8(value, "?"), maxDayName-ellipsis)
}

// days returns the days of all events. Every event has been read without a problem.
func (p *daysParser) days() []NamedDay {
	moved := make(map[string][]Date) // the days of an event, by UID, that another event replaces
	for _, e := range p.events {
		if e.instead != (Date{}) {
			moved[e.uid] = append(moved[e.uid], e.instead)
		}
	}
	var list []NamedDay
	for _, e := range p.events {
		if e.cancelled {
			continue
		}
		if e.instead == (Date{}) {
			e.except = append(e.except, moved[e.uid]...)
		}
		length := p.length(e)
		for _, start := range p.starts(e) {
			for i := range length {
				if day := start.AddDays(i); !p.until.Before(day) {
					list = append(list, NamedDay{day, e.summary})
				}
			}
			if len(list) > maxListedDays {
				p.bad.refuse("text", "has more than %d days until %s", maxListedDays, p.until)
				return nil
			}
		}
	}
	slices.SortStableFunc(list, func(a, b NamedDay) int { return a.Date.Compare(b.Date) })
	return list
}

// length returns how many days an event has.
func (p *daysParser) length(e dayEvent) int {
	days := max(e.days, 1)
	if e.end != (Date{}) {
		days = max(e.start.DaysUntil(e.end), 1)
	}
	if days > maxEventDays {
		p.line = e.line
		p.refuse("begins an event of %d days, more than %d", days, maxEventDays)
		return 0
	}
	return days
}

// starts returns the first days of an event and its repetitions, each once.
func (p *daysParser) starts(e dayEvent) []Date {
	starts := append([]Date{e.start}, e.more...)
	if e.rule != (textLine{}) {
		p.line = e.rule.number
		rule, err := ParseRRule(e.rule.text, WallTime{Date: e.start})
		rule.zone = utcZone() // for an UNTIL in UTC
		bad, isBad := errors.AsType[*InvalidRecurrenceError](err)
		switch {
		case isBad:
			p.refuse("has an RRULE that is invalid: %s", strings.Join(bad.Problems, "; "))
		case !rule.rule.OncePerDay():
			p.refuse("has an RRULE that yields several times a day")
		default:
			for slot, err := range rule.slots(WallTime{}, Policies{}) {
				if err != nil || p.until.Before(slot.Wall.Date) || len(starts) > maxListedDays {
					break
				}
				starts = append(starts, slot.Wall.Date)
			}
		}
	}
	except := make(map[Date]bool, len(e.except))
	for _, day := range e.except {
		except[day] = true
	}
	slices.SortFunc(starts, Date.Compare)
	return slices.DeleteFunc(slices.Compact(starts), func(day Date) bool { return except[day] })
}
