package calendar

import "fmt"

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
// several reasons. An [Offset] that counts working days adds their number. Reason returns "" for
// the zero Move.
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
