package calendar

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is a part of the week, such as Monday to Friday from 9 to 18 and Saturday from 10 to 14.
// Make it with [NewWindow], [ParseWindow] or [ParseQuietHours]. The zero Window is the whole week.
//
// Each of its intervals belongs to the day on which it begins. One that begins on Friday at 22:00
// and ends at 02:00 is Friday's, also at 01:00 on Saturday. So a holiday closes what begins on it,
// and not what is left of the evening before.
type Window struct{ of *window } // nil for the whole week

// window is what is behind a Window.
type window struct {
	week     week
	holidays *WorkCalendar // on whose holidays nothing begins, or nil
	quiet    bool          // it is the rest of quiet hours
}

// week is the intervals that begin on each day from Monday on, in order and apart.
type week [7][]span

// span is an interval in seconds since midnight, without until. It can end on the next day, and
// several that overlap make one that is longer than a day.
type span struct{ from, until int }

// Hours are an interval of a [Window]: from From to Until, without Until itself, on some days. If
// Until is not after From, the interval ends on the next day, and 00:00 is the end of the day. If
// both are equal, the interval has 24 hours.
type Hours struct {
	On          []time.Weekday // the days on which the interval begins; none means every day
	From, Until Clock
}

// NewWindow returns the window of some hours, at least one. The error is an [*InputError] that
// names each bad one, such as "hours 2".
func NewWindow(hours ...Hours) (Window, error) {
	var bad inputProblems
	w := &window{}
	if len(hours) == 0 {
		bad.refuse("window", "has no hours: it never opens")
	}
	for i, h := range hours {
		field, on := fmt.Sprintf("hours %d", i+1), weekdaysOf(h.On)
		if on > everyDay {
			bad.refuse(field, "are on a day that is no day of the week")
		}
		for _, c := range []Clock{h.From, h.Until} {
			if !c.Valid() {
				bad.refuse(field, "have %s, which no clock shows", c)
			}
		}
		w.add(cmp.Or(on, everyDay), spanOf(h.From, h.Until))
	}
	if err := bad.err(); err != nil {
		return Window{}, err
	}
	return Window{w}, nil
}

func spanOf(from, until Clock) span {
	s := span{from.seconds(), until.seconds()}
	if s.until <= s.from {
		s.until += secondsPerDay
	}
	return s
}

// seconds returns how many seconds c is after midnight.
func (c Clock) seconds() int { return (c.Hour*60+c.Minute)*60 + c.Second }

// wallAt returns the wall time of a day and the seconds after its midnight, which can be those of the next day.
func wallAt(day, second int) WallTime {
	day, second = day+second/secondsPerDay, second%secondsPerDay
	return WallTime{dateOf(day), Clock{second / 3600, second / 60 % 60, second % 60}}
}

// add adds an interval to some days, and joins those that overlap.
func (w *window) add(on weekdays, s span) {
	for i := range w.week {
		if on>>i&1 == 0 {
			continue
		}
		all := append(slices.Clone(w.week[i]), s)
		slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		apart := all[:1]
		for _, next := range all[1:] {
			if last := &apart[len(apart)-1]; next.from <= last.until {
				last.until = max(last.until, next.until)
			} else {
				apart = append(apart, next)
			}
		}
		w.week[i] = apart
	}
}

// ClosedOnHolidays returns w without the intervals that begin on a holiday of c. Other days off of
// c make no difference: w itself says on which days of the week it opens. A nil c closes nothing.
func (w Window) ClosedOnHolidays(c *WorkCalendar) Window {
	closed := window{week: wholeWeek}
	if w.of != nil {
		closed = *w.of
	}
	closed.holidays = c
	return Window{&closed}
}

// Holidays returns the work calendar on whose holidays w is closed, or nil.
func (w Window) Holidays() *WorkCalendar { return w.schedule().holidays }

// wholeWeek has the intervals of the zero Window.
var wholeWeek = week{wholeDay, wholeDay, wholeDay, wholeDay, wholeDay, wholeDay, wholeDay}

var wholeDay = []span{{0, secondsPerDay}}

// Includes reports whether the window is open when clocks show t.
func (w Window) Includes(t WallTime) bool {
	return w.schedule().open(dayNumber(t.Date), t.Clock.seconds())
}

// Next returns the first instant, not before now, at which clocks in z show a time in the window,
// and the first instant after it at which they do not. If the window is open at now, the first
// instant is now. If clocks skip an opening, the window opens at the end of the gap, if it is open
// then. If clocks are put back to a time before the opening, it opens twice.
//
// A window that stays open for 400 days has the zero time as its end. Next reports false if the
// window does not open for 400 days, and for a zone without data.
func (w Window) Next(z Timezone, now time.Time) (opens, closes time.Time, ok bool) {
	if opens, ok = w.turn(z, now, true); !ok {
		return now, time.Time{}, false
	}
	if w.of != nil {
		closes, _ = w.turn(z, opens, false)
	}
	return opens, closes, true
}

// turn returns the first instant, not before at, at which w is open, or is closed, and whether
// there is one in the next 400 days.
func (w Window) turn(z Timezone, at time.Time, open bool) (time.Time, bool) {
	r, s := z.rules(), w.schedule()
	if r == nil {
		return time.Time{}, false
	}
	for sec, last := at.Unix(), at.Unix()+daysSearched*secondsPerDay; sec < last; {
		offset := r.offset(sec)
		label := sec + offset - beginning
		if label < 0 {
			return time.Time{}, false
		}
		day, second := int(label/secondsPerDay), int(label%secondsPerDay)
		if s.open(day, second) == open {
			if sec == at.Unix() {
				return at, true
			}
			return time.Unix(sec, 0).UTC(), true
		}
		wait, ok := s.wait(day, second, open)
		if !ok {
			return time.Time{}, false
		}
		next := min(sec+int64(wait), sec+changeStride) // between which there is at most one change
		if r.offset(next) != offset {
			next = r.changeBetween(sec, next).At.Unix()
		}
		sec = next
	}
	return time.Time{}, false
}

// schedule is when a window or a Within is open.
type schedule struct {
	week     *week
	holidays *WorkCalendar // nothing begins on its holidays; nil for none
	work     *WorkCalendar // everything begins on its working days; nil for all days
}

func (w Window) schedule() schedule {
	if w.of == nil {
		return schedule{week: &wholeWeek}
	}
	return schedule{week: &w.of.week, holidays: w.of.holidays}
}

// on returns the intervals that begin on a day.
func (s schedule) on(day int) []span {
	if s.work != nil && !s.work.working(day) || s.holidays != nil && s.holidays.holiday(day) {
		return nil
	}
	return s.week[place(weekdayOn(day))]
}

// opensOn reports whether an interval that begins on a day holds a time, in seconds since its midnight.
func (s schedule) opensOn(day, second int) bool {
	for _, interval := range s.on(day) {
		if interval.from <= second && second < interval.until {
			return true
		}
	}
	return false
}

// open reports whether a time is in an interval of its day, or of the eve.
func (s schedule) open(day, second int) bool {
	return s.opensOn(day, second) || s.opensOn(day-1, second+secondsPerDay)
}

// opening returns the first beginning of an interval on a day that is after a time.
func (s schedule) opening(day, second int) (from int, ok bool) {
	for _, interval := range s.on(day) {
		if interval.from > second {
			return interval.from, true
		}
	}
	return 0, false
}

// openDay returns the next day after day on which an interval begins, or with a step of -1 the one before.
func (s schedule) openDay(day, step int) (open int, ok bool) {
	for range daysSearched {
		if day += step; len(s.on(day)) > 0 {
			return day, true
		}
	}
	return day, false
}

// wait returns how many seconds after a closed time s opens, or after an open one closes, on the
// wall, and whether it does in the next 400 days.
func (s schedule) wait(day, second int, open bool) (seconds int, ok bool) {
	if open {
		if from, ok := s.opening(day, second); ok {
			return from - second, true
		}
		next, ok := s.openDay(day, 1)
		if !ok {
			return 0, false
		}
		return (next-day)*secondsPerDay + s.on(next)[0].from - second, true
	}
	for seconds < daysSearched*secondsPerDay {
		at := second + seconds
		until := s.end(day+at/secondsPerDay, at%secondsPerDay)
		if until == 0 {
			return seconds, true
		}
		seconds += until
	}
	return 0, false
}

// end returns how many seconds an interval still lasts that holds a time: the longest of several, and 0 if none does.
func (s schedule) end(day, second int) (seconds int) {
	for back := range 2 {
		second := second + back*secondsPerDay
		for _, interval := range s.on(day - back) {
			if interval.from <= second {
				seconds = max(seconds, interval.until-second)
			}
		}
	}
	return seconds
}

// String returns the window in the form that [ParseWindow] reads, such as
// "Mo-Fr 09:00-18:00; Sa 10:00-14:00". It does not say on which holidays the window is closed.
func (w Window) String() string {
	var rules []string
	intervals := w.schedule().week
	for i, spans := range intervals {
		if len(spans) == 0 || slices.ContainsFunc(intervals[:i], func(other []span) bool { return slices.Equal(other, spans) }) {
			continue
		}
		var on weekdays
		for j, other := range intervals {
			if slices.Equal(other, spans) {
				on |= 1 << j
			}
		}
		var hours []string
		for _, s := range spans {
			until := min(s.until, s.from+secondsPerDay)
			hours = append(hours, shortSpan(span{s.from, until}))
			if until < s.until {
				hours = append(hours, shortSpan(span{s.until - secondsPerDay, s.until}))
			}
		}
		rules = append(rules, on.String()+" "+strings.Join(hours, ","))
	}
	return strings.Join(rules, "; ")
}

func shortSpan(s span) string {
	return wallAt(0, s.from).Clock.short() + "-" + wallAt(0, s.until).Clock.short()
}
