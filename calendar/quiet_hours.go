package calendar

import (
	"strings"
	"time"

	"github.com/almanac-go/almanac/internal/excerpt"
)

// QuietHours are the hours of a day in which a user is not to be disturbed: the time from
// From up to Until, without Until itself. If Until is before From, they include midnight.
// If both are equal, as in the zero QuietHours, there are no quiet hours. For hours that differ by
// the day of the week, see [Window].
type QuietHours struct{ From, Until Clock }

// ParseQuietHours reads quiet hours of the form HH:MM-HH:MM, with or without seconds, such as
// 22:00-08:00. The times must differ. The error is a [*FormatError].
func ParseQuietHours(s string) (q QuietHours, err error) {
	from, until, _ := strings.Cut(s, "-")
	q.From, err = ParseClock(from)
	if err == nil {
		q.Until, err = ParseClock(until)
	}
	if err != nil || q.From == q.Until {
		return QuietHours{}, &FormatError{excerpt.Of(s, maxQuoted), "is not two different times of day, such as 22:00-08:00"}
	}
	return q, nil
}

// End returns when the quiet hours end, if clocks in z show a time in them at now.
// Otherwise, and in a zone without data, it reports false. If clocks skip the end, the quiet
// hours end with the gap. If clocks show the end twice, they end the first time.
func (q QuietHours) End(z Timezone, now time.Time) (end time.Time, quiet bool) {
	end, ok := q.Window().turn(z, now, true)
	if !ok || !end.After(now) {
		return now, false
	}
	return end, true
}

// Window returns the rest of each day. Of the zero QuietHours that is the whole week. A [Within]
// refuses the window of quiet hours that no clock shows.
func (q QuietHours) Window() Window {
	if q.From == q.Until {
		return Window{}
	}
	w := &window{week: wholeWeek, quiet: true}
	for _, c := range []Clock{q.From, q.Until} {
		if !c.Valid() {
			w.problems = append(w.problems, "no clock shows "+c.String())
		}
	}
	if len(w.problems) == 0 {
		rest := []span{spanOf(q.Until, q.From)}
		w.week = week{rest, rest, rest, rest, rest, rest, rest}
	}
	return Window{w}
}
