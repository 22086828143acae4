package command

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// usualGrace is the default of WithMissedGrace. A host's own grace cannot be read from its
// options.
const usualGrace = 5 * time.Second

// quietHoursOf says what quiet hours do to events that were to run now. The operation began
// at an instant of the database clock. Without force, an event whose user has quiet hours is
// left available later. The program that delivers also postpones each late event, forced or
// not; whether its user has quiet hours then is not known here.
func quietHoursOf(events []almanac.Event, began time.Time, forced bool) (texts []string) {
	var onTime, late, available []almanac.Event
	for _, e := range events {
		at := began // an event that was available already is unchanged, and its update may be long ago
		if e.UpdatedAt.After(at) {
			at = e.UpdatedAt
		}
		waits := e.AvailableAt.After(at.Add(time.Second)) // a wall time has whole seconds
		switch isLate := e.RetryCount > 0 || at.Sub(e.Due) > usualGrace; {
		case waits && isLate:
			late = append(late, e)
		case waits:
			onTime = append(onTime, e)
		case isLate:
			available = append(available, e)
		}
	}
	if n := len(onTime); n > 0 {
		texts = append(texts, untilEnd(onTime, len(events))+"; --force delivers "+numbered(n, "it", "them")+" now")
	}
	if n := len(late); n > 0 {
		texts = append(texts, untilEnd(late, len(events))+", also with --force, because "+numbered(n, "it is", "they are")+" late already")
	}
	if n := len(available); n > 0 && (forced || len(texts) > 0) {
		texts = append(texts, someOf(n, len(events))+numbered(n, " is late already: if the user has quiet hours now, it waits for their end",
			" are late already: they wait for the end of the quiet hours, if their users have any now")+", also with --force")
	}
	return texts
}

// untilEnd says that events wait, and why. Of a single event it says until when.
func untilEnd(events []almanac.Event, all int) string {
	n := len(events)
	return someOf(n, all) + numbered(n, " waits until "+instantText(events[0].AvailableAt)+" because of the user's quiet hours",
		" wait because of their users' quiet hours")
}

// someOf names n of all events that were changed.
func someOf(n, all int) string {
	if all == 1 {
		return "the event"
	}
	return fmt.Sprintf("%d of the events", n)
}

func numbered(n int, singular, plural string) string {
	if n == 1 {
		return singular
	}
	return plural
}
