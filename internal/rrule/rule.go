// Package rrule reads recurrence rules and tells when they recur: the RRULE of
// RFC 5545 section 3.3.10, with the SKIP of RFC 7529 for the Gregorian calendar.
//
// It knows no time zone. Every time that goes in or comes out is a wall reading:
// what a calendar and a clock on a wall show, to the second, labelled UTC. Whoever
// needs instants resolves the readings afterwards.
//
// Where it leaves the standards, and which choice it made where they leave one, is
// told by the RRule of package almanac, whose readers it concerns.
package rrule

import (
	"strconv"
	"strings"
	"time"
)

// Rule is a recurrence rule. Rules are immutable, comparable with == and safe for
// concurrent use; two are equal when they differ only in spelling and order. The
// zero Rule never recurs; use [Parse] to make others.
type Rule struct {
	freq      frequency
	interval  int64
	count     int // 0: without end
	until     until
	weekStart time.Weekday
	skip      skip
	by        parts
}

// parts are the BYxxx parts of a rule. An empty one was not given.
type parts struct {
	month, weekNo, yearDay, monthDay numbers
	weekday                          weekdays
	hour, minute, second             numbers
	setPos                           numbers
}

// frequency says what the interval of a rule counts. The slower is the greater.
type frequency uint8

const (
	secondly frequency = iota + 1
	minutely
	hourly
	daily
	weekly
	monthly
	yearly
)

// skip says what becomes of a day that a month lacks.
type skip uint8

const (
	omit     skip = iota // it is left out
	backward             // the last day of the month stands in
	forward              // the first day of the next month stands in
)

// until is the end of a rule, the last second included.
type until struct {
	form untilForm
	last int64 // in seconds since 1970, of a wall reading or for a UTC form of an instant
}

type untilForm uint8

const (
	endless untilForm = iota
	untilDate
	untilLocal
	untilUTC
)

// frequencyNames, skipNames and dayNames are indexed by what they name.
var (
	frequencyNames = [...]string{"", "SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"}
	skipNames      = [...]string{"OMIT", "BACKWARD", "FORWARD"}
	dayNames       = [...]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
)

// The layouts of UNTIL, by its form.
var untilLayouts = [...]string{untilDate: "20060102", untilLocal: "20060102T150405", untilUTC: "20060102T150405Z"}

// Until returns the end of the rule, which is included, and whether it has one.
//
// With utc it is an instant, and the caller, who alone knows the zone, drops what
// resolves to a later one: [Rule.Next] cannot. Otherwise it is a wall reading that
// Next observes; for an UNTIL that is a date it is the last second of that day.
func (r Rule) Until() (t time.Time, utc, ok bool) {
	if r.until.form == endless {
		return time.Time{}, false, false
	}
	return time.Unix(r.until.last, 0).UTC(), r.until.form == untilUTC, true
}

// Counted reports whether the rule has a COUNT.
func (r Rule) Counted() bool { return r.count > 0 }

// OncePerDay reports whether no day holds more than one reading of the rule, so
// that its date alone names an occurrence. It does not look at BYSETPOS.
func (r Rule) OncePerDay() bool {
	return r.freq >= daily && r.by.hour.size <= 1 && r.by.minute.size <= 1 && r.by.second.size <= 1
}

// String returns the rule in its shortest words, FREQ first, in capital letters,
// with each list in order and without what says nothing (INTERVAL=1, WKST=MO,
// SKIP=OMIT). [Parse] reads it as the same rule. The zero Rule is "".
func (r Rule) String() string {
	if r.freq == 0 {
		return ""
	}
	b := []byte("FREQ=" + frequencyNames[r.freq])
	add := func(name, value string) { b = append(b, ";"+name+"="+value...) }
	if r.interval != 1 {
		add("INTERVAL", strconv.FormatInt(r.interval, 10))
	}
	if r.count != 0 {
		add("COUNT", strconv.Itoa(r.count))
	}
	if t, _, ok := r.Until(); ok {
		add("UNTIL", t.Format(untilLayouts[r.until.form]))
	}
	for _, name := range byNames {
		if name == "BYDAY" {
			if !r.by.weekday.empty() {
				add(name, r.by.weekday.String())
			}
			continue
		}
		if field := r.by.field(name); !field.set.empty() {
			add(name, field.set.String())
		}
	}
	if r.weekStart != time.Monday {
		add("WKST", dayNames[r.weekStart])
	}
	if r.skip != omit {
		add("RSCALE", "GREGORIAN")
		add("SKIP", skipNames[r.skip])
	}
	return string(b)
}

// byNames are the BYxxx parts in the order in which they are evaluated.
var byNames = strings.Fields("BYMONTH BYWEEKNO BYYEARDAY BYMONTHDAY BYDAY BYHOUR BYMINUTE BYSECOND BYSETPOS")

// field is a BYxxx part that is a list of numbers, and which numbers it takes.
type field struct {
	set       *numbers
	low, high int
	signed    bool // takes them from the end as well, below zero
}

// field returns the part of that name; its set is nil for one that is no list of
// numbers.
func (p *parts) field(name string) field {
	switch name {
	case "BYMONTH":
		return field{&p.month, 1, 12, false}
	case "BYWEEKNO":
		return field{&p.weekNo, 1, 53, true}
	case "BYYEARDAY":
		return field{&p.yearDay, 1, 366, true}
	case "BYMONTHDAY":
		return field{&p.monthDay, 1, 31, true}
	case "BYHOUR":
		return field{&p.hour, 0, 23, false}
	case "BYMINUTE":
		return field{&p.minute, 0, 59, false}
	case "BYSECOND":
		return field{&p.second, 0, 59, false}
	case "BYSETPOS":
		return field{&p.setPos, 1, maxPosition, true}
	}
	return field{}
}
