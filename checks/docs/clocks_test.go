// Package docs_test keeps what the documents say true.
package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/teambition/rrule-go"

	"github.com/almanac-go/almanac/calendar"
)

// The table in clocks.md says what becomes of a wall time here, in Go, and with two
// libraries that are given a zone. Each row is what they do.
func TestTheTableOfClocksIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ zone, wall string }{
		{"America/New_York", "2026-03-08T02:30:00"},
		{"Europe/Berlin", "2026-03-29T02:30:00"},
		{"Australia/Lord_Howe", "2026-10-04T02:15:00"},
		{"America/Santiago", "2026-09-06T00:30:00"},
		{"Asia/Beirut", "2026-03-29T00:30:00"},
		{"America/Nuuk", "2026-03-28T23:30:00"},
		{"Pacific/Apia", "2011-12-30T09:00:00"},
		{"America/New_York", "2026-11-01T01:30:00"},
		{"Europe/Berlin", "2026-10-25T02:30:00"},
		{"Australia/Lord_Howe", "2026-04-05T01:45:00"},
	} {
		w, err := calendar.ParseWallTime(c.wall)
		if err != nil {
			t.Fatal(err)
		}
		row := rowOf(t, c.zone, w)
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("clocks.md has no row\n%s", row)
		}
	}
}

func rowOf(t *testing.T, name string, w calendar.WallTime) string {
	t.Helper()
	zone, err := calendar.LoadTimezone(name)
	if err != nil {
		t.Fatal(err)
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zone.Resolve(w, calendar.Policies{})
	if err != nil {
		t.Fatal(err)
	}
	label := w.Labelled()
	date := time.Date(label.Year(), label.Month(), label.Day(), label.Hour(), label.Minute(), 0, 0, location)
	show := func(instants ...time.Time) string {
		if len(instants) == 0 {
			return "nothing"
		}
		var shown []string
		for _, at := range instants {
			at = at.In(location)
			text := at.Format("15:04 -07:00")
			if at.Day() != label.Day() {
				text = at.Format("_2 Jan 15:04 -07:00")
			}
			shown = append(shown, strings.TrimSpace(text))
		}
		return strings.Join(shown, " and ")
	}
	return fmt.Sprintf("| %s | %s %s | %s | %s | %s | %s |", name, w.Date, label.Format("15:04"), show(r.Instant), show(date),
		show(byCron(t, name, w, r.Instant)...), show(byRRule(t, location, w, r.Instant)...))
}

// near is shorter than the time between two days' occurrences.
const near = 14 * time.Hour

func byCron(t *testing.T, zone string, w calendar.WallTime, around time.Time) (instants []time.Time) {
	t.Helper()
	daily, err := cron.ParseStandard(fmt.Sprintf("CRON_TZ=%s %d %d * * *", zone, w.Clock.Minute, w.Clock.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for at := daily.Next(around.Add(-near)); at.Before(around.Add(near)); at = daily.Next(at) {
		instants = append(instants, at)
	}
	return instants
}

func byRRule(t *testing.T, location *time.Location, w calendar.WallTime, around time.Time) []time.Time {
	t.Helper()
	start := w.Labelled().AddDate(0, 0, -10)
	daily, err := rrule.NewRRule(rrule.ROption{Freq: rrule.DAILY, Count: 30,
		Dtstart: time.Date(start.Year(), start.Month(), start.Day(), start.Hour(), start.Minute(), 0, 0, location)})
	if err != nil {
		t.Fatal(err)
	}
	return daily.Between(around.Add(-near), around.Add(near), true)
}
