package broadcast

import (
	"slices"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// Zone is when a broadcast is due in a time zone.
type Zone struct {
	Name string            // as users have it
	At   calendar.WallTime // what clocks of the zone show then; zero if Skipped
	Due  time.Time         // the instant, UTC, by the zone rules when the zone was planned; zero if Skipped
	// Late is whether the time had passed when the broadcast was created, and its events are due at once.
	Late bool
	// Skipped is whether the time had passed, and users of the zone get no event.
	Skipped bool
}

// ZonesOf returns when a broadcast, created at an instant, is due in each of the named zones that its audience selects. In a
// zone that this program does not know, the broadcast is due at once: no event can be planned, so its users are refused.
func ZonesOf(b Broadcast, names []string, created time.Time) []Zone {
	zones := make([]Zone, 0, len(names))
	for _, name := range names {
		if len(b.Audience.Zones) == 0 || slices.Contains(b.Audience.Zones, name) {
			zones = append(zones, b.zone(name, created.UTC()))
		}
	}
	return zones
}

// ZoneOf returns when the broadcast is due in a zone, whether or not its audience selects the zone.
func (s Status) ZoneOf(name string) Zone { return s.zone(name, s.CreatedAt.UTC()) }

func (b Broadcast) zone(name string, created time.Time) Zone {
	z := Zone{Name: name, At: b.At, Due: b.Instant}
	in := calendar.StoredTimezone(name)
	if b.Instant.IsZero() {
		resolved, err := in.Resolve(b.At, calendar.Policies{})
		if err != nil {
			z.Due = created
			return z
		}
		z.Due = resolved.Instant
	} else {
		z.At = in.WallTime(z.Due)
	}
	switch {
	case z.Due.After(created):
	case b.Passed == Skip:
		return Zone{Name: name, Skipped: true}
	case b.Passed == NextDay:
		z.At, z.Due = nextDay(in, b.At, created)
	default:
		created = created.Truncate(time.Second) // a wall time has whole seconds
		z.At, z.Due, z.Late = in.WallTime(created), created, true
	}
	return z
}

// nextDay returns the first time after an instant at which clocks show the time of day.
func nextDay(in calendar.Timezone, at calendar.WallTime, after time.Time) (calendar.WallTime, time.Time) {
	at.Date = in.WallTime(after).Date
	for range 10 {
		if r, err := in.Resolve(at, calendar.Policies{}); err == nil && r.Instant.After(after) {
			return at, r.Instant
		}
		at.Date = at.Date.AddDays(1)
	}
	return in.WallTime(after), after // after the year 9999
}

// options returns the options of the events of users of a zone.
func (b Broadcast) options(z Zone) almanac.ScheduleAtOptions {
	o := almanac.ScheduleAtOptions{At: z.At, Key: b.Name, Payload: b.Payload, Lane: b.Lane()}
	if b.Instant.IsZero() && !z.Late {
		o.FollowUser = true
		return o
	}
	o.Timezone = calendar.StoredTimezone(z.Name)
	if first, err := o.Timezone.Resolve(z.At, o.Policies); err == nil && first.Instant.Before(z.Due) {
		o.Policies.Fold = calendar.FoldSecond
	}
	return o
}
