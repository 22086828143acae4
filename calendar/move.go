package calendar

import (
	"cmp"
	"fmt"
	"strconv"
)

// Move says how a [Within] moved the wall time of a slot. A zone has not resolved that wall time
// yet. The zero Move means that the slot was not moved. Moves are comparable with ==.
type Move struct {
	From WallTime // the wall time before the first move

	// The first move has its parts here, and becomes words only when they are asked for.
	to      WallTime
	because string
	then    string // what else there is to say, in words
}

// quietHours is why slots move to the end of quiet hours. Its words leave out the day.
const quietHours = "quiet hours"

// Reason says in a few words of English why: "moved from 23:30 to 08:00 because of quiet hours",
// "moved from Saturday 31 October to Friday 30 October because of the weekend". Semicolons separate
// several reasons. An [Offset] that counts working days adds their number. A [Monthly] that counts them
// adds which one it is: "third working day of DE-BY". Reason returns "" for the zero Move.
func (m Move) Reason() string {
	if m.because == "" {
		return m.then
	}
	return joined(moveText(m.From, m.to, m.because), m.then)
}

// moved adds a move.
func (m Move) moved(from, to WallTime, because string) Move {
	if m == (Move{}) {
		return Move{From: from, to: to, because: because}
	}
	if m.From == (WallTime{}) {
		m.From = from
	}
	return m.saying(moveText(from, to, because))
}

// saying adds a reason.
func (m Move) saying(reason string) Move {
	m.then = joined(m.then, reason)
	return m
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

func moveText(from, to WallTime, because string) string {
	if from.Date == to.Date || because == quietHours {
		return fmt.Sprintf("moved from %s to %s because of %s", from.Clock.short(), to.Clock.short(), because)
	}
	day := func(w WallTime) string {
		text := fmt.Sprintf("%s %d %s", w.Date.Weekday(), w.Date.Day, w.Date.Month)
		if from.Clock != to.Clock {
			text += " " + w.Clock.short()
		}
		return text
	}
	return fmt.Sprintf("moved from %s to %s because of %s", day(from), day(to), because)
}

// because says because of what a slot moved from a wall time to its target: what closes that time, and
// the first holiday that closes a day beyond.
func (m *mover) because(from WallTime, t *target) string {
	why := m.closed(from, t.dayOff)
	if also := m.holidayBeyond(dayNumber(from.Date), t.day); also != "" && also != why {
		return why + " and " + also
	}
	return why
}

// closed says what closes a wall time.
func (m *mover) closed(w WallTime, dayOff bool) string {
	day := dayNumber(w.Date)
	name := m.holidayOn(day)
	switch {
	case dayOff && name != "":
		return name
	case dayOff && m.work != nil && !m.work.working(day):
		return "the weekend"
	case m.open(day, w.Clock.seconds()):
		return "an earlier one"
	case m.Window.of != nil && m.Window.of.quiet:
		return quietHours
	}
	return "closed hours"
}

// holidayOn returns the name of the holiday on a day, or "" if there is none.
func (m *mover) holidayOn(day int) string {
	for _, c := range [...]*WorkCalendar{m.work, m.holidays} {
		if c != nil && c.holiday(day) {
			return cmp.Or(c.listed[day].Name, "a holiday")
		}
	}
	return ""
}

// holidayBeyond returns the name of the first holiday that closes a day between one day and the day to
// which a slot moved from it. If the end of the month turned the slot back, a holiday on the other side counts too.
func (m *mover) holidayBeyond(day, to int) string {
	step := 1
	if to < day {
		step = -1
	}
	closes := func(d int) bool { // not the week
		return len(m.week[place(weekdayOn(d))]) > 0 && (m.work == nil || m.work.inWeek(d)) && m.holidayOn(d) != ""
	}
	for d := day + step; (to-d)*step > 0; d += step {
		if closes(d) {
			return m.holidayOn(d)
		}
	}
	turned := m.Convention == ModifiedFollowing && to < day || m.Convention == ModifiedPreceding && to > day
	for d := day - step; turned && sameMonth(d, day); d -= step {
		if closes(d) {
			return m.holidayOn(d)
		}
	}
	return ""
}

// ordinal says which one of several a number counts: "third", "21st", or from the end "last" and "second-last".
func ordinal(n int) string {
	if n == -1 {
		return "last"
	}
	if n < 0 {
		return ordinal(-n) + "-last"
	}
	if words := [...]string{"", "first", "second", "third", "fourth", "fifth"}; n < len(words) {
		return words[n]
	}
	switch n { // a month has at most 31
	case 21, 31:
		return strconv.Itoa(n) + "st"
	case 22:
		return "22nd"
	case 23:
		return "23rd"
	}
	return strconv.Itoa(n) + "th"
}
