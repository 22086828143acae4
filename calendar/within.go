package calendar

import (
	"errors"
	"fmt"
	"iter"
	"time"
)

// Within is a recurrence that keeps the slots of another one on working days, in a [Window], or
// both. A day off is one that is no working day of WorkDays, or on which no interval of the window
// begins. A slot that is in the window stays where it is. Any other slot moves:
//
//   - From a day off, to another day, by the Convention. It keeps its time of day if that is in the
//     window. Otherwise it moves to the next opening of that day, or else to the last one.
//   - From another day, to the next opening on the day. After the last closing of its day, it moves
//     to the first opening of the next day that has one. It goes back to the last opening of its own
//     day instead under KeepDay, and where the Convention does not let it go to that day:
//     [Preceding], [ModifiedPreceding], and [ModifiedFollowing] at the end of a month.
//
// So with WorkDays alone, a slot keeps its time of day, and with the window of [ParseQuietHours], a
// slot in the quiet hours goes to their end.
// In a zone whose clocks skip an opening, [Next] finds the end of the gap, if the window is open
// then. A slot that is in the window, and that clocks skip, follows the gap policy.
//
// A slot keeps its key, its Unit, its Nominal, its Named, its DayReason and its Announces. Its Move
// says from where it came, and why. Its Consulted has the days that were looked up, also if it did
// not move. Slots come in the order of their keys. If several slots move to one day or opening, the
// ones that give way are left out:
//
//   - A slot from a day off gives way to a slot of the day itself, and to one from an earlier day off.
//   - A slot that moves to an opening gives way to one that is there by itself, and to an earlier one.
//
// So with a daily rule, the slot of a Saturday gives way to that of Monday. The field Each keeps
// both.
//
// Put a Within around a [Bounded] or an [Offset], not inside: the outer recurrence decides last.
type Within struct {
	Of         Recurrence
	WorkDays   *WorkCalendar // nil means that every day is a working day
	Convention Convention    // the default is Following
	Window     Window        // the zero Window is the whole week
	// KeepDay moves a slot after the last closing of its day back to the last opening of its own
	// day. It is for what is right on one day only, such as a birthday.
	KeepDay bool
	// Each keeps all slots that meet, in the order of their keys and a second apart: 09:00:00,
	// 09:00:01. It is for recurrences of one slot a day, such as an account that is due for each day.
	Each bool

	zone Timezone // where Next looks for slots; zero if unknown
}

// maxLeftOut bounds how many slots in a row a Within leaves out. A rule of each second has fewer in
// five days off, and a rule of Sundays has fewer until the end of the calendar.
const maxLeftOut = 500_000

// After returns the first slot strictly after w.
func (o Within) After(w WallTime, p Policies) (Slot, error) {
	if counted(o.Of) {
		return firstOf(o.slots(w, p), w)
	}
	if err := o.check(); err != nil {
		return Slot{}, err
	}
	m := mover{Within: o, schedule: o.schedule(), policies: p, after: w}
	for at := m.begin(w); m.leftOut < maxLeftOut; {
		var slot Slot
		if at == m.pass && m.own.Wall != (WallTime{}) {
			slot = m.own
		} else if next, err := o.Of.After(at, p); err == nil {
			slot = next
		} else {
			return Slot{}, err
		}
		if !at.Before(slot.Wall) {
			break // a rule of the host's that does not get ahead
		}
		from := slot.Wall
		if m.move(&slot) {
			return slot, nil
		}
		at = laterOf(from, m.pass)
	}
	return Slot{}, noOccurrence(w)
}

// slots yields what After would return one after the other.
func (o Within) slots(w WallTime, p Policies) iter.Seq2[Slot, error] {
	return func(yield func(Slot, error) bool) {
		if err := o.check(); err != nil {
			yield(Slot{}, err)
			return
		}
		m := mover{Within: o, schedule: o.schedule(), policies: p, after: w}
		for slot, err := range slots(o.Of, m.begin(w), p) {
			if err != nil {
				yield(Slot{}, err)
				return
			}
			if m.move(&slot) && !yield(slot, nil) {
				return
			}
			if m.leftOut == maxLeftOut {
				break
			}
		}
		yield(Slot{}, noOccurrence(w))
	}
}

func (o Within) schedule() schedule {
	s := o.Window.schedule()
	s.work = o.WorkDays
	return s
}

func (o Within) check() error {
	var problems []string
	if o.Of == nil {
		problems = append(problems, "there is no recurrence to keep within working days or a window")
	}
	if !o.Convention.valid() {
		problems = append(problems, fmt.Sprintf("%s is no convention", quoted(string(o.Convention))))
	}
	if w := o.Window.of; w != nil && o.WorkDays != nil && w.days()&o.WorkDays.anyWeek() == 0 {
		problems = append(problems, "the window never opens on a working day of the week")
	}
	return invalidRecurrence("within", problems)
}

// days returns the days of the week on which an interval begins.
func (w *window) days() (days weekdays) {
	for i, spans := range w.week {
		if len(spans) > 0 {
			days |= 1 << i
		}
	}
	return days
}

// anyWeek returns the days that are working days in a week of any time.
func (c *WorkCalendar) anyWeek() (days weekdays) {
	for _, w := range c.weeks {
		days |= w.days
	}
	return days
}

// mover moves the slots of one call, in their order. Why it answers the same from wherever it is
// asked: docs/adr/0072-days.md.
type mover struct {
	Within
	schedule
	policies Policies
	after    WallTime // slots up to it are left out, and have a say

	leftOut  int      // how many slots in a row
	last     WallTime // where the last slot is that was kept
	filled   int      // the last day to which slots moved from a day off
	filledBy int      // from which day off
	taken    bool     // whether that day has a slot of its own
	pass     WallTime // up to which all slots give way to it
	own      Slot     // the first one after pass, if it is known
}

// A target is where a slot belongs.
type target struct {
	wall      WallTime
	day       int  // of the wall time
	dayOff    bool // the slot comes from a day off
	low, high int  // the days that were looked up
}

// begin returns a wall time before every slot that has a say in what comes after w.
func (m *mover) begin(w WallTime) WallTime {
	if w.Date.Year < 1 {
		return WallTime{}
	}
	day := dayNumber(w.Date)
	comesForward := m.Convention != Preceding && m.Convention != SkipDay
	if !m.Each && m.opensOn(day, w.Clock.seconds()) && (!comesForward || len(m.on(day-1)) > 0) {
		return w // nothing is on its way from a day before
	}
	eve, _ := m.openDay(day, -1)
	if m.Window.of == nil || m.KeepDay {
		eve++ // no slot of the eve itself leaves it
	}
	return beginOf(eve)
}

// move moves a slot to where it belongs, and reports whether that is after the wall time in question.
func (m *mover) move(slot *Slot) bool {
	to, ok := m.place(slot.Wall)
	if !ok || !m.keep(slot.Wall, &to) || !m.after.Before(to.wall) {
		m.leftOut++
		return false
	}
	m.leftOut = 0
	m.moved(slot, &to)
	return true
}

// beginOf returns a wall time before every one of a day, and after every one of the day before.
func beginOf(day int) WallTime {
	if day <= 0 {
		return WallTime{}
	}
	return WallTime{dateOf(day - 1), Clock{23, 59, 59}}
}

// place returns where a slot belongs that the other recurrence has at w, if it belongs anywhere.
func (m *mover) place(w WallTime) (t target, ok bool) {
	day, second := dayNumber(w.Date), w.Clock.seconds()
	t = target{wall: w, day: day, low: day, high: day}
	switch {
	case m.opensOn(day, second):
		return t, true
	case m.opensOn(day-1, second+secondsPerDay):
		t.low--
		return t, true
	case len(m.on(day)) == 0:
		t.dayOff = true
		if ok = m.another(&t); !ok {
			return t, false
		}
		if m.opensOn(t.day, second) {
			t.wall.Date = dateOf(t.day)
			return t, true
		}
	default:
		if _, ok := m.opening(day, second); !ok && m.leaves(&t) {
			second = -1
		}
	}
	from, ok := m.opening(t.day, second)
	if !ok {
		spans := m.on(t.day)
		from = spans[len(spans)-1].from
	}
	t.wall = m.shown(wallAt(t.day, from))
	return t, true
}

// leaves moves t to the next day that opens, unless it stays on its day after the last closing.
func (m *mover) leaves(t *target) bool {
	if m.KeepDay || m.Convention == Preceding || m.Convention == ModifiedPreceding {
		return false
	}
	next, ok := m.openDay(t.day, 1)
	t.high = next
	if !ok || m.Convention == ModifiedFollowing && !sameMonth(next, t.day) {
		return false
	}
	t.day = next
	return true
}

// shown returns an opening, or the end of the gap on the same day in which it is, if the window is open then.
func (m *mover) shown(opening WallTime) WallTime {
	if m.zone.IsZero() {
		return opening
	}
	_, err := m.zone.resolve(opening, Policies{Gap: GapSkip})
	gone, ok := errors.AsType[*WallTimeError](err)
	if !ok {
		return opening
	}
	end := gone.Change.To()
	if end.Date != opening.Date || !m.open(dayNumber(end.Date), end.Clock.seconds()) {
		return opening
	}
	return end
}

// keep reports whether a slot of a wall time has its place to itself. Under Each, it moves t to the next free second.
func (m *mover) keep(from WallTime, t *target) bool {
	free := m.last.Before(t.wall)
	switch {
	case m.Each && !free && m.last.Date == t.wall.Date:
		t.wall = WallTimeOf(m.last.Labelled().Add(time.Second))
		free = m.last.Date == t.wall.Date
	case m.Each:
	case t.dayOff:
		free = !m.givesWay(dayNumber(from.Date), t.day) && free
	case t.wall != from:
		free = free && !m.has(t.wall)
	}
	if free = free && t.wall.Valid(); free {
		m.last = t.wall
	}
	return free
}

// givesWay reports whether a day to which a slot moves from a day off has a slot of its own, or
// one from an earlier day off.
func (m *mover) givesWay(from, to int) bool {
	if m.filled == to && m.filledBy != 0 {
		return m.taken || m.filledBy != from
	}
	m.filled, m.filledBy = to, from
	before := beginOf(to)
	own, err := m.Of.After(before, m.policies)
	m.taken = false
	if err == nil && own.Wall.Date == dateOf(to) {
		at, ok := m.place(own.Wall)
		m.taken = ok && at.day == to
	}
	switch {
	case m.taken && to > from:
		m.pass, m.own = before, own // all days off between move there too
	case m.taken && m.Convention == Preceding:
		next, _ := m.openDay(from, 1)
		m.pass, m.own = beginOf(next), Slot{}
	}
	return m.taken
}

// has reports whether the other recurrence has a slot at w.
func (m *mover) has(w WallTime) bool {
	own, err := m.Of.After(justBefore(w), m.policies)
	return err == nil && own.Wall == w
}

// moved moves a slot to its target.
func (m *mover) moved(slot *Slot, t *target) {
	if m.work != nil {
		slot.Consulted = slot.Consulted.and(m.work.consulted(t.low, t.high))
	}
	if m.holidays != nil {
		slot.Consulted = slot.Consulted.and(m.holidays.consulted(t.low, t.high))
	}
	open := 0
	if m.work != nil || m.Window.of != nil {
		open = m.end(dayNumber(t.wall.Date), t.wall.Clock.seconds())
	}
	if t.wall == slot.Wall {
		if slot.open == 0 || open > 0 && open < slot.open {
			slot.open = open
		}
		return
	}
	slot.open = open
	slot.keepNominal()
	slot.Move = slot.Move.moved(slot.Wall, t.wall, m.because(slot.Wall, t))
	slot.Wall = t.wall
}
