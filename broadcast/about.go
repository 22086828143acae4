package broadcast

import (
	"context"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// About is a broadcast as it concerns one user. It does not say whether the user has an event.
type About struct {
	Status // without the Payload
	// Zone is when the broadcast is due in the zone that the user has now. Its Name is "" if the broadcast does not know the zone:
	// its audience leaves the zone out, or has no other user there and no events are being stored now.
	Zone   Zone
	Read   bool // whether all users of that zone have been read
	Listed bool // whether the user is in the list of the broadcast
}

// MostAbout is how many broadcasts About of a [Sender] and BroadcastsAbout of a [Store] return at most.
const MostAbout = 100

// About returns the broadcasts of a type that are due for a user on a local day, newest first, at most [MostAbout]. Those with a wall time or
// an instant on that day are included, also if they leave the zone of the user out. It counts no events.
func (s *Sender) About(ctx context.Context, u almanac.User, eventType string, day calendar.Date) ([]About, error) {
	return s.store.BroadcastsAbout(ctx, u, eventType, day)
}

// DayOf returns the wall times and the instants between which a day is in a zone: the first ones of the day and of the next one.
func DayOf(day calendar.Date, in calendar.Timezone) (walls [2]calendar.WallTime, instants [2]time.Time) {
	for i := range 2 {
		walls[i] = calendar.WallTime{Date: day.AddDays(i)}
		instants[i] = walls[i].Labelled() // in a zone that this program does not know
		if begins, err := in.Resolve(walls[i], calendar.Policies{}); err == nil {
			instants[i] = begins.Instant
		}
	}
	return walls, instants
}

// Concerns reports whether a broadcast is due on a day in a zone, which clocks of the user show. Stores in memory use it.
func (a About) Concerns(day calendar.Date, in calendar.Timezone) bool {
	_, instants := DayOf(day, in)
	return a.Zone.At.Date == day || a.At.Date == day || !a.Instant.IsZero() && !a.Instant.Before(instants[0]) && a.Instant.Before(instants[1])
}
