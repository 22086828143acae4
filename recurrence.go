package almanac

import (
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/internal/civil"
)

// Occurrence is one wall time that a recurrence yields, before it is resolved.
type Occurrence struct {
	// Key names the occurrence among those of its user and event type, for ever: it
	// is what keeps a person from being greeted twice. It is nominal and local, such
	// as "2027" for a birthday or "2027-03-15" for a daily digest, never an instant.
	// Later occurrences have greater keys, compared byte by byte. 1 to 100 bytes.
	Key string
	// Wall is when the occurrence happens on the clocks of Zone.
	Wall WallTime
	// Zone is where. The zero Timezone means the user's own.
	Zone Timezone
	// Policies say how Wall is resolved. The zero Policies are the defaults.
	Policies Policies
}

// Yearly is the recurrence of birthdays and anniversaries: once a year, on the
// same day and at the same time of day.
type Yearly struct {
	Month time.Month
	Day   int // 29 February is subject to the leap day policy
	At    Clock
}

// longestWait is how many years Next looks ahead: 29 February is eight years
// away across 2100, and a skip policy can cost a few more.
const longestWait = 40

// Next returns the first occurrence in zone strictly after the given instant. Its
// key is the year, in four digits.
//
// The error matches [ErrNoOccurrence] when there is none within forty years or
// before the year 10000; otherwise it is that of [Timezone.Resolve], or tells that
// no year has such a day.
func (y Yearly) Next(zone Timezone, p Policies, after time.Time) (Occurrence, error) {
	if y.Day < 1 || y.Day > civil.DaysIn(2000, y.Month) || !y.At.Valid() {
		return Occurrence{}, fmt.Errorf("almanac: no year has a month %d with a day %d and a time %s", int(y.Month), y.Day, y.At)
	}
	if err := zone.check(); err != nil {
		return Occurrence{}, err
	}
	// An occurrence of the local year before can still lie ahead: a gap policy may
	// move the last hour of a year into the next one.
	first := max(zone.WallTime(after).Date.Year-1, 1)
	for year := first; year <= min(first+longestWait, 9999); year++ {
		date, ok := y.in(year, p.WithDefaults().LeapDay)
		if !ok {
			continue
		}
		o := Occurrence{Key: fmt.Sprintf("%04d", year), Wall: WallTime{date, y.At}, Zone: zone, Policies: p}
		r, err := zone.Resolve(o.Wall, p)
		if errors.Is(err, ErrSkippedWallTime) {
			continue
		}
		if err == nil && !r.Instant.After(after) {
			continue
		}
		if err != nil && !zone.mayFollow(o.Wall, after) {
			continue // a rejected reading in the past troubles nobody
		}
		return o, err
	}
	return Occurrence{}, fmt.Errorf("%w: yearly on %02d-%02d after %s", ErrNoOccurrence, y.Month, y.Day, after.UTC().Format(time.RFC3339))
}

// in returns the date of the occurrence in year, and whether there is one.
func (y Yearly) in(year int, leap LeapDayPolicy) (Date, bool) {
	date := Date{year, y.Month, y.Day}
	if date.Valid() {
		return date, true
	}
	switch leap { // only 29 February is missing from any year
	case LeapDayMar1:
		return Date{year, time.March, 1}, true
	case LeapDaySkip:
		return Date{}, false
	}
	return Date{year, time.February, 28}, true
}

// mayFollow reports whether clocks in z could still come to w after the instant.
func (z Timezone) mayFollow(w WallTime, after time.Time) bool {
	return w.Labelled().After(z.WallTime(after).Labelled())
}
