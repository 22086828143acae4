package calendar

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"
)

// WorkCalendar says which days are working days: those of the week, except holidays, and extra
// working days. Make it with [NewWorkCalendar] or [ParseWorkCalendar]. A WorkCalendar does not
// change, and is safe for concurrent use. A look at a day takes a few nanoseconds.
//
// Its days past its end follow the week alone, because their holidays are not known yet.
type WorkCalendar struct {
	name, release string
	stamp         string           // how a Consulted names it
	weeks         []workWeek       // in order of their days
	end           int              // the number of the last day whose holidays are known
	first         int              // the number of the first day that has bits
	works         []uint64         // a bit for each day from first on: it is a working day
	holidays      []uint64         // likewise: it is a holiday
	listed        map[int]NamedDay // the days that are not, or not only, as in the week
}

// workWeek is the working days of the week from a day on.
type workWeek struct {
	from int
	days weekdays
}

// WorkCalendarOptions are what a [WorkCalendar] is made of.
type WorkCalendarOptions struct {
	// Name is the name by which events refer to the calendar, such as "DE-BY": 1 to 40 letters of
	// ASCII, digits, hyphens, dots and underscores. It is required.
	Name string
	// Release says which of two calendars of one name is newer: the greater one, compared byte by
	// byte. It is a date, such as "2026-03-19". Later releases of one day have a counter from 1 to
	// 9 behind a dot: "2026-03-19.1". It is required.
	Release string
	// Until is the end: the last day up to which all holidays are known. It is required. Days
	// after it follow the week alone.
	Until Date
	// Weeks are the working days of the week. The default is Monday to Friday.
	Weeks []WorkWeek
	// Holidays are days that are no working days. A holiday can be on a day that the week has off.
	Holidays []NamedDay
	// Work are extra working days: the week may have them off.
	Work []NamedDay
}

// WorkWeek is the working days of the week, from a day on. The zero From means from the first day of all.
type WorkWeek struct {
	From Date
	Days []time.Weekday // at least one
}

// NamedDay is a day with a name. The name may be empty, and has at most 100 bytes.
type NamedDay struct {
	Date Date
	Name string
}

const (
	maxDayName   = 100
	maxDaysOff   = 60  // at a stretch in a WorkCalendar
	daysSearched = 400 // for a day on which a window opens, and for the end of a window
)

// NewWorkCalendar returns a calendar of the given days. The error is an [*InputError] that names
// every bad field. A calendar without a working day in 60 days is refused.
func NewWorkCalendar(o WorkCalendarOptions) (*WorkCalendar, error) {
	var bad inputProblems
	o.check(&bad)
	if err := bad.err(); err != nil {
		return nil, err
	}
	c := o.calendar()
	if run := c.longestStretch(); run > maxDaysOff {
		bad.refuse("holidays", "leave no working day in %d days, more than %d", run, maxDaysOff)
		return nil, bad.err()
	}
	return c, nil
}

func (o WorkCalendarOptions) check(bad *inputProblems) {
	if !validCalendarName(o.Name) {
		bad.refuse("name", "is not 1 to 40 letters, digits, hyphens, dots and underscores")
	}
	if !validRelease(o.Release) {
		bad.refuse("release", "is not a date such as 2026-03-19, or 2026-03-19.1 for a later release of that day")
	}
	if !o.Until.Valid() {
		bad.refuse("until", "is not the last day whose holidays are known")
	}
	for i, w := range o.Weeks {
		if weekdaysOf(w.Days) == 0 || weekdaysOf(w.Days) > everyDay {
			bad.refuse("weeks", "have a week that is not one to seven days from Sunday to Saturday")
		}
		if w.From != (Date{}) && !w.From.Valid() {
			bad.refuse("weeks", "begin on %s, which is on no calendar", w.From)
		}
		if slices.ContainsFunc(o.Weeks[:i], func(other WorkWeek) bool { return other.From == w.From }) {
			bad.refuse("weeks", "have two weeks from one day on")
		}
	}
	holidays := make(map[Date]bool, len(o.Holidays))
	for _, d := range o.Holidays {
		holidays[d.Date] = true
		o.checkDay(bad, "holidays", d)
	}
	for _, d := range o.Work {
		o.checkDay(bad, "work", d)
		if holidays[d.Date] {
			bad.refuse("work", "has %s, which is a holiday too", d.Date)
		}
	}
}

func (o WorkCalendarOptions) checkDay(bad *inputProblems, field string, d NamedDay) {
	switch {
	case !d.Date.Valid():
		bad.refuse(field, "has %s, which is on no calendar", d.Date)
	case o.Until.Valid() && o.Until.Before(d.Date):
		bad.refuse(field, "has %s, which is after the end", d.Date)
	}
	if len(d.Name) > maxDayName || strings.ContainsFunc(d.Name, isControl) {
		bad.refuse(field, "has a name for %s that is longer than %d bytes or more than a line", d.Date, maxDayName)
	}
}

// calendar returns the calendar of options without problems.
func (o WorkCalendarOptions) calendar() *WorkCalendar {
	c := &WorkCalendar{name: o.Name, release: o.Release, stamp: stampOf(o.Name, o.Release), end: dayNumber(o.Until), listed: make(map[int]NamedDay)}
	for _, w := range o.Weeks {
		from := 0
		if w.From != (Date{}) {
			from = dayNumber(w.From)
		}
		c.weeks = append(c.weeks, workWeek{from, weekdaysOf(w.Days)})
	}
	slices.SortFunc(c.weeks, func(a, b workWeek) int { return cmp.Compare(a.from, b.from) })
	if len(c.weeks) == 0 || c.weeks[0].from > 0 {
		c.weeks = slices.Insert(c.weeks, 0, workWeek{0, mondayToFriday})
	}
	for _, d := range slices.Concat(o.Holidays, o.Work) {
		if day := dayNumber(d.Date); c.listed[day].Name == "" {
			c.listed[day] = NamedDay{d.Date, strings.TrimSpace(d.Name)}
		}
	}
	if len(c.listed) == 0 {
		return c
	}
	days := c.listedDays()
	c.first = days[0]
	words := (days[len(days)-1]-c.first)/64 + 1
	c.works, c.holidays = make([]uint64, words), make([]uint64, words)
	for i := range 64 * words {
		c.setBit(c.works, c.first+i, c.inWeek(c.first+i))
	}
	for _, d := range o.Holidays {
		c.setBit(c.works, dayNumber(d.Date), false)
		c.setBit(c.holidays, dayNumber(d.Date), true)
	}
	for _, d := range o.Work {
		c.setBit(c.works, dayNumber(d.Date), true)
	}
	return c
}

func (c *WorkCalendar) setBit(bits []uint64, day int, to bool) {
	word, bit := (day-c.first)/64, uint64(1)<<((day-c.first)%64)
	if bits[word] &^= bit; to {
		bits[word] |= bit
	}
}

// bit returns the bit of a day, and whether the day has one.
func (c *WorkCalendar) bit(bits []uint64, day int) (set, ok bool) {
	i := uint(day - c.first)
	if i/64 >= uint(len(bits)) {
		return false, false
	}
	return bits[i/64]>>(i%64)&1 == 1, true
}

// listedDays returns the days that have an entry of their own, in order.
func (c *WorkCalendar) listedDays() []int {
	days := make([]int, 0, len(c.listed))
	for day := range c.listed {
		days = append(days, day)
	}
	slices.Sort(days)
	return days
}

// inWeek reports whether the week has a day as a working day.
func (c *WorkCalendar) inWeek(day int) bool {
	i := len(c.weeks) - 1
	for i > 0 && day < c.weeks[i].from {
		i--
	}
	return c.weeks[i].days.has(weekdayOn(day))
}

// working reports whether a day is a working day.
func (c *WorkCalendar) working(day int) bool {
	if works, ok := c.bit(c.works, day); ok {
		return works
	}
	return c.inWeek(day)
}

func (c *WorkCalendar) holiday(day int) bool {
	is, _ := c.bit(c.holidays, day)
	return is
}

// longestStretch returns the greatest number of days between two working days. Far from a listed day
// and from a change of the week, that is at most six.
func (c *WorkCalendar) longestStretch() int {
	const near = maxDaysOff + 7
	longest := c.stretch(c.first-near, c.first+64*len(c.works)+near)
	for _, w := range c.weeks {
		longest = max(longest, c.stretch(w.from-near, w.from+near))
	}
	return longest
}

// stretch is longestStretch from a day to another.
func (c *WorkCalendar) stretch(low, high int) (longest int) {
	run := 0
	for day := low; day <= high; day++ {
		if run++; c.working(day) {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

// Name returns the name of the calendar.
func (c *WorkCalendar) Name() string { return c.name }

// Release returns the release. Of two calendars of one name, the one with the greater release is newer.
func (c *WorkCalendar) Release() string { return c.release }

// Until returns the end: the last day whose holidays are known.
func (c *WorkCalendar) Until() Date { return dateOf(c.end) }

// IsWorking reports whether d is a working day, and whether that is known. It is not known past the
// end of c; then the answer follows the week.
func (c *WorkCalendar) IsWorking(d Date) (working, known bool) {
	day := dayNumber(d)
	return c.working(day), day <= c.end
}

// Holiday returns the name of the holiday on d, and whether there is one. The name may be empty.
func (c *WorkCalendar) Holiday(d Date) (name string, ok bool) {
	day := dayNumber(d)
	if !c.holiday(day) {
		return "", false
	}
	return c.listed[day].Name, true
}

// Add returns the day so many working days after d, or before d if workingDays is negative. It does
// not count d itself, which need not be a working day, and returns d for zero: from a Saturday, 1
// is Monday, 0 is Saturday and -1 is Friday. The time it takes grows with the number of days.
func (c *WorkCalendar) Add(d Date, workingDays int) Date {
	return dateOf(c.add(dayNumber(d), workingDays))
}

func (c *WorkCalendar) add(day, workingDays int) int {
	step := 1
	if workingDays < 0 {
		step = -1
	}
	for workingDays != 0 {
		if day += step; c.working(day) {
			workingDays -= step
		}
	}
	return day
}

// Hash returns a hash of what c says of the days of a year: which ones are working days, and which
// ones holidays. Names do not count. Two calendars with the same hash agree on the year.
func (c *WorkCalendar) Hash(year int) int64 {
	hash := fnv.New64a()
	until := dayNumber(Date{year + 1, time.January, 1})
	for day := dayNumber(Date{year, time.January, 1}); day < until; day++ {
		is := byte(0)
		if c.working(day) {
			is = 1
		}
		if c.holiday(day) {
			is |= 2
		}
		_, _ = hash.Write([]byte{is}) // a hash takes everything
	}
	return int64(hash.Sum64())
}

// String returns the text of c in a normal form that [ParseWorkCalendar] reads.
func (c *WorkCalendar) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "name %s\nrelease %s\nuntil %s\n", c.name, c.release, c.Until())
	for _, w := range c.weeks {
		fmt.Fprintf(&b, "week %s", w.days)
		if w.from > 0 {
			fmt.Fprintf(&b, " from %s", dateOf(w.from))
		}
		b.WriteByte('\n')
	}
	for _, day := range c.listedDays() {
		kind := "work"
		if c.holiday(day) {
			kind = "holiday"
		}
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s %s %s", dateOf(day), kind, c.listed[day].Name)))
	}
	return b.String()
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
