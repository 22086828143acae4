// Package calendartest helps to test wall times and recurrences. It parses texts in tests,
// failing the test on an error, and has recurrences near clock changes.
package calendartest

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// Wall parses a wall time.
func Wall(t testing.TB, text string) calendar.WallTime {
	t.Helper()
	return read(t, func() (calendar.WallTime, error) { return calendar.ParseWallTime(text) })
}

// Instant parses an instant of the form "2006-01-02T15:04:05Z".
func Instant(t testing.TB, text string) time.Time {
	t.Helper()
	return read(t, func() (time.Time, error) { return time.Parse(time.RFC3339, text) }).UTC()
}

// Zone loads a zone.
func Zone(t testing.TB, name string) calendar.Timezone {
	t.Helper()
	return read(t, func() (calendar.Timezone, error) { return calendar.LoadTimezone(name) })
}

// RRule parses a rule that starts at a wall time.
func RRule(t testing.TB, text, start string) calendar.RRule {
	t.Helper()
	return read(t, func() (calendar.RRule, error) { return calendar.ParseRRule(text, Wall(t, start)) })
}

// Cron parses a cron expression.
func Cron(t testing.TB, text string) calendar.Cron {
	t.Helper()
	return read(t, func() (calendar.Cron, error) { return calendar.ParseCron(text) })
}

func read[T any](t testing.TB, parse func() (T, error)) T {
	t.Helper()
	v, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Unresolved returns an occurrence without its resolution.
func Unresolved(o calendar.Occurrence) calendar.Occurrence {
	return calendar.Occurrence{Key: o.Key, Wall: o.Wall, Zone: o.Zone, Policies: o.Policies, Named: o.Named, Announces: o.Announces}
}

// Listed is a custom recurrence: a list of wall times in order.
type Listed []calendar.WallTime

// After returns the first of l after w.
func (l Listed) After(w calendar.WallTime, _ calendar.Policies) (calendar.Slot, error) {
	for _, at := range l {
		if w.Before(at) {
			return calendar.Slot{Key: at.String(), Wall: at}, nil
		}
	}
	return calendar.Slot{}, calendar.ErrNoOccurrence
}
