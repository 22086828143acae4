package almanac

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// announcer announces the days of a rule some calendar days before, at the rule's time of day
// or at an opening of the window. With zero days the rule itself happens.
type announcer struct {
	of       calendar.Recurrence // a Yearly or a YearlyBy
	at       calendar.Clock      // of the rule
	days     int
	window   calendar.Window
	policies calendar.Policies
}

// within returns a recurrence that keeps r in the window, on its days if the window opens on them.
func (a announcer) within(r calendar.Recurrence) calendar.Recurrence {
	if a.window == (calendar.Window{}) {
		return r
	}
	return calendar.Within{Of: r, Window: a.window, KeepDay: true}
}

// maxDaysBefore keeps an announcement after the anniversary of the year before.
const maxDaysBefore = 364

// next returns the first occurrence strictly after the given instant. It leaves out an announcement
// that would not come before what it announces. That happens where clocks skip a whole day.
func (a announcer) next(z calendar.Timezone, after time.Time) (calendar.Occurrence, error) {
	if a.days == 0 {
		return calendar.Next(a.within(a.of), z, a.policies, after)
	}
	if a.days < 0 || a.days > maxDaysBefore {
		problem := fmt.Sprintf("%d days before are not between 0 and %d", a.days, maxDaysBefore)
		return calendar.Occurrence{}, &calendar.InvalidRecurrenceError{Rule: "before", Problems: []string{problem}}
	}
	announcements := a.within(calendar.Offset{Of: a.of, Days: -a.days, At: a.at})
	for o, err := range calendar.Occurrences(announcements, z, a.policies, after) {
		if err != nil {
			return calendar.Occurrence{}, err
		}
		of, err := z.Resolve(o.Announces, a.policies)
		if err != nil || o.Resolution.Instant.Before(of.Instant) {
			return o, nil
		}
	}
	return calendar.Occurrence{}, fmt.Errorf("%w after %s", calendar.ErrNoOccurrence, z.WallTime(after))
}

// announcement is what a payload says about the day of its event: what it announces, and why the rule chose the
// day or the time. It is empty if the event announces nothing and has no such reason.
type announcement struct {
	Date       string `json:"date,omitempty"`
	DaysBefore int    `json:"daysBefore,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

// announced returns what an occurrence announces. A window can have moved the occurrence to another day. So the
// days are counted, unless the occurrence is one of the host's own: that one can be on any day.
func (a announcer) announced(o Occurrence) (announcement, error) {
	says := announcement{Reason: o.whyChosen()}
	if a.days == 0 {
		return says, nil
	}
	slot, err := a.slot(o.Key)
	if says.Date, says.DaysBefore = slot.Wall.Date.String(), a.days; o.Nominal.Date == slot.Wall.Date {
		says.DaysBefore = o.Wall.Date.DaysUntil(slot.Wall.Date)
	}
	return says, err
}

// kept returns the occurrence of a pending event that keeps its time. It reads the reason and the announced day from
// the payload, because only the rule that planned the event knows them. Only ready-made handlers use these two, so
// members of other payloads that have these names do no harm.
func (e Event) kept() Occurrence {
	o := e.Occurrence()
	var says struct {
		Reason string
		Date   string
	}
	if json.Unmarshal(e.Payload, &says) != nil {
		return o
	}
	o.moved = says.Reason
	if date, err := calendar.ParseDate(says.Date); err == nil {
		o.announces = calendar.WallTime{Date: date, Clock: e.nominal().Clock}
	}
	return o
}

// whyChosen says how a policy of another calendar, working days or a window chose the day or the time of an
// occurrence, or "" if none did. An Offset or a Monthly that counts working days chooses the day by them, too.
func (o Occurrence) whyChosen() string {
	move := o.Move.Reason()
	if o.DayReason != "" && move != "" {
		return o.DayReason + "; " + move
	}
	return cmp.Or(move, o.DayReason, o.moved)
}

// slot returns the slot of the rule with a key. A policy can have moved that of the year before into this year.
func (a announcer) slot(key string) (calendar.Slot, error) {
	year, err := yearOf(key)
	if err != nil {
		return calendar.Slot{}, err
	}
	begin := calendar.Date{Year: year, Month: time.January, Day: 1}
	if other, is := a.of.(calendar.YearlyBy); is {
		if begin, err = other.System.Date(calendar.SystemDate{Year: year, Month: 1, Day: 1}); err != nil {
			return calendar.Slot{}, err
		}
	}
	slot, err := a.of.After(calendar.WallTime{Date: begin.AddDays(-1), Clock: calendar.Clock{Hour: 23, Minute: 59, Second: 59}}, a.policies)
	if err == nil && slot.Key < key {
		slot, err = a.of.After(slot.Wall, a.policies)
	}
	if err == nil && slot.Key != key {
		err = fmt.Errorf("almanac: no birthday or anniversary has the key %q", key)
	}
	return slot, err
}

// yearOf returns the year that is the key of a birthday or an anniversary.
func yearOf(key string) (year int, err error) {
	if _, err := fmt.Sscanf(key, "%04d", &year); err != nil {
		return 0, fmt.Errorf("almanac: %q is not the key of a birthday or an anniversary", key)
	}
	return year, nil
}

// payloadOf encodes a payload, unless there was an error.
func payloadOf(payload any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(payload)
}

// announcedInTime returns x with a limit on how late an announcement may be, also after a
// failed attempt: until about an hour before what it announces. The hour is for clocks that
// go forward meanwhile. A wide Spread leaves an hour.
func announcedInTime(x Execution, days int) Execution {
	if p := &x.CatchUpPolicy; days > 0 && p.SkipOlder == 0 {
		p.SkipOlder, p.SkipTried = max(time.Duration(days)*24*time.Hour-time.Hour-x.Spread, time.Hour), true
	}
	return x
}

// inDays returns how a message says that something is some days ahead.
func inDays(days int) string {
	switch days {
	case 0:
		return ""
	case 1:
		return " tomorrow"
	}
	return fmt.Sprintf(" in %d days", days)
}

// nineOr returns the time of day that a handler sets for u, 09:00 by default.
func nineOr(at func(User) calendar.Clock, u User) calendar.Clock {
	if at == nil {
		return calendar.Clock{Hour: 9}
	}
	return at(u)
}

// windowOf returns the window that a handler sets for u, the whole week by default.
func windowOf(window func(User) calendar.Window, u User) calendar.Window {
	if window == nil {
		return calendar.Window{}
	}
	return window(u)
}
