// Package rrule parses recurrence rules and computes their readings: the RRULE of RFC 5545
// section 3.3.10, with the SKIP of RFC 7529 for the Gregorian calendar. Of a rule by another calendar,
// it has the parts; package calendar computes the readings (see [Rule.Scale]).
//
// It knows no time zones. Every time that it takes or returns is a wall reading: the date and time of
// day that a calendar and a clock show, to the second, in UTC. The caller resolves readings to instants.
//
// The type RRule of package calendar documents the deviations from the standards, and the choices where
// the standards are ambiguous. Why this is not an existing library: docs/adr/0015-recurrences.md.
package rrule

import (
	"cmp"
	"iter"
	"sort"
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
	count     int // 0 means without end
	until     until
	weekStart time.Weekday
	skip      skip
	scale     string // the calendar of RSCALE in capital letters, empty for the Gregorian one
	by        parts
}

// parts are the BYxxx parts of a rule. An empty part was not given.
type parts struct {
	month, weekNo, yearDay, monthDay numbers
	leapMonth                        numbers // months of BYMONTH with an L, of another calendar
	weekday                          weekdays
	hour, minute, second             numbers
	setPos                           numbers
}

// frequency is the unit of a rule's interval. A slower frequency is greater.
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

// skip is the treatment of a day that a month lacks.
type skip uint8

const (
	omit     skip = iota // the day is omitted
	backward             // the last day of the month replaces it
	forward              // the first day of the next month replaces it
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

// frequencyNames, skipNames and dayNames are indexed by their constants.
var (
	frequencyNames = [...]string{"", "SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"}
	skipNames      = [...]string{"OMIT", "BACKWARD", "FORWARD"}
	dayNames       = [...]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
)

// The layouts of UNTIL, by form.
var untilLayouts = [...]string{untilDate: "20060102", untilLocal: "20060102T150405", untilUTC: "20060102T150405Z"}

// Until returns the end of the rule, which is included. It returns ok false when the rule has none.
//
// If utc is true, the end is an instant. The caller, which knows the zone, must then drop
// readings that resolve to a later instant: [Rule.Next] cannot. Otherwise the end is a wall
// reading that Next observes. For an UNTIL that is a date, it is the last second of that day.
func (r Rule) Until() (t time.Time, utc, ok bool) {
	if r.until.form == endless {
		return time.Time{}, false, false
	}
	return time.Unix(r.until.last, 0).UTC(), r.until.form == untilUTC, true
}

// Count returns the COUNT of the rule, or 0 if it has none.
func (r Rule) Count() int { return r.count }

// Uncounted returns the rule without its COUNT.
func (r Rule) Uncounted() Rule {
	r.count = 0
	return r
}

// OncePerDay reports whether each day has at most one reading of the rule, so that the date
// identifies an occurrence. It ignores BYSETPOS.
func (r Rule) OncePerDay() bool {
	return r.freq >= daily && r.by.hour.size <= 1 && r.by.minute.size <= 1 && r.by.second.size <= 1
}

// String returns the rule in its shortest form, FREQ first, in capital letters, with each
// list in order and without default values (INTERVAL=1, WKST=MO, SKIP=OMIT). [Parse] of the
// result returns an equal rule. The zero Rule is "".
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
		if name == "BYMONTH" && !r.by.leapMonth.empty() {
			add(name, r.by.months())
		} else if field := r.by.field(name); !field.set.empty() {
			add(name, field.set.String())
		}
	}
	if r.weekStart != time.Monday {
		add("WKST", dayNames[r.weekStart])
	}
	if r.skip != omit || r.scale != "" {
		add("RSCALE", cmp.Or(r.scale, gregorian))
	}
	if r.skip != omit {
		add("SKIP", skipNames[r.skip])
	}
	return string(b)
}

// byNames are the BYxxx parts in the order in which they are evaluated.
var byNames = strings.Fields("BYMONTH BYWEEKNO BYYEARDAY BYMONTHDAY BYDAY BYHOUR BYMINUTE BYSECOND BYSETPOS")

// field is a BYxxx part that is a list of numbers, with the numbers that it accepts.
type field struct {
	set       *numbers
	low, high int
	signed    bool // also accepts negative numbers, which count from the end
}

// field returns the part with that name. Its set is nil if the part is not a list of numbers.
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

// Slot is one reading of a series.
type Slot struct {
	Wall time.Time // the wall reading, labelled UTC
	// Year, Month and Day are the date that the rule names when SKIP moved the reading: 30
	// February for a reading on 28 February. They are zero when the reading was not moved,
	// and when the rule also names the day of the reading.
	Year  int
	Month time.Month
	Day   int
}

// Next returns the first reading strictly after the given one, in the series that begins at
// start. The start itself is a reading if it fits the rule. Next returns false when there
// is none before the year 10000.
//
// Both arguments are wall readings in UTC, truncated to the second. Next observes COUNT,
// and UNTIL unless that is in UTC. For an UNTIL in UTC it stops two days late, and the
// caller compares instants (see [Rule.Until]).
//
// The cost does not depend on the distance between start and after, except with COUNT,
// which counts from the start. It is bounded for every rule, because the search ends where
// the calendar repeats. For a rule below daily with readings more than 400 years apart,
// Next may return false although further readings exist.
func (r Rule) Next(start, after time.Time) (Slot, bool) {
	if s, ok := newSeries(r, start); ok {
		for slot := range s.after(after.Unix()) {
			return slot, true
		}
	}
	return Slot{}, false
}

// Slots yields the successive results of [Rule.Next]. It counts from the start only once.
func (r Rule) Slots(start, after time.Time) iter.Seq[Slot] {
	return func(yield func(Slot) bool) {
		if s, ok := newSeries(r, start); ok {
			s.after(after.Unix())(yield)
		}
	}
}

// after yields the readings of the series after a second, in order.
func (s *series) after(second int64) iter.Seq[Slot] {
	if second >= s.end {
		return func(func(Slot) bool) {}
	}
	from := max(s.start, second+1)
	if s.count == 0 {
		return s.from(from)
	}
	return func(yield func(Slot) bool) {
		count := 0
		for slot := range s.from(s.start) {
			if slot.Wall.Unix() >= from && !yield(slot) {
				return
			}
			if count++; count == s.count {
				return
			}
		}
	}
}

// from yields the readings of the series from a second on, in order, ignoring COUNT.
func (s *series) from(second int64) iter.Seq[Slot] {
	if s.unit != 0 {
		return s.inShortPeriods(second)
	}
	return s.inLongPeriods(second)
}

// clock is a set of times of day: each of the hours with each of the minutes and each of the
// seconds. It may contain all 86,400 times and is never expanded; times are found by index.
type clock struct {
	hours, minutes, seconds []int
}

func (c clock) len() int { return len(c.hours) * len(c.minutes) * len(c.seconds) }

// at returns the time at index i, in seconds of the day.
func (c clock) at(i int) int64 {
	i, second := i/len(c.seconds), c.seconds[i%len(c.seconds)]
	i, minute := i/len(c.minutes), c.minutes[i%len(c.minutes)]
	return int64(c.hours[i]*3600 + minute*60 + second)
}

// search returns the index of the first time not before second, or the length.
func (c clock) search(second int64) int {
	if second <= 0 {
		return 0
	}
	hour, minute := int(second/3600), int(second/60%60)
	h := sort.SearchInts(c.hours, hour)
	perHour := len(c.minutes) * len(c.seconds)
	if h == len(c.hours) || c.hours[h] > hour {
		return h * perHour
	}
	m := sort.SearchInts(c.minutes, minute)
	if m == len(c.minutes) || c.minutes[m] > minute {
		return h*perHour + m*len(c.seconds)
	}
	return h*perHour + m*len(c.seconds) + sort.SearchInts(c.seconds, int(second%60))
}
