package calendar_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

const (
	minute  = 60
	hour    = 60 * minute
	quarter = hour / 4
	day     = 24 * hour
)

// The oracle knows of a zone only what its clocks add to UTC at an instant. From
// that it makes spans of constant offset, and finds the instants of a wall time by
// what a wall time is: the instants of a span at which span and offset show it.

// span is the time from an instant to the next in which clocks add the same to UTC.
type span struct{ from, until, offset int64 }

// offsetAt returns what the zone's clocks add to UTC at the Unix time sec.
func offsetAt(loc *time.Location, sec int64) int64 {
	_, offset := time.Unix(sec, 0).In(loc).Zone()
	return int64(offset)
}

// spansOf covers 1969 to 2101. A half day with equal offsets at both ends is taken
// to hold no change: no zone undoes one within hours.
func spansOf(loc *time.Location) []span {
	at := time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	until := time.Date(2102, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	spans := []span{{from: at, offset: offsetAt(loc, at)}}
	for ; at < until; at += day / 2 {
		last := &spans[len(spans)-1]
		if next := offsetAt(loc, at+day/2); next != last.offset {
			change := at
			for step := int64(day / 2); step > 0; step /= 2 {
				for change+step <= at+day/2 && offsetAt(loc, change+step) == last.offset {
					change += step
				}
			}
			last.until = change + 1
			spans = append(spans, span{from: change + 1, offset: next})
		}
	}
	spans[len(spans)-1].until = until
	return spans
}

// showing returns the instants at which clocks show a reading, which is a wall time
// labelled UTC, looking at the spans around the change that ends spans[i].
func showing(spans []span, i int, reading int64) []int64 {
	var shown []int64
	for _, s := range spans[max(i-2, 0):min(i+4, len(spans))] {
		if at := reading - s.offset; s.from <= at && at < s.until {
			shown = append(shown, at)
		}
	}
	return shown
}

// change is the meeting of two spans.
type change struct{ before, after span }

// want is the oracle's answer for a reading near the change under a policy.
func (c change) want(shown []int64, reading int64, p calendar.Policies) (sec int64, r calendar.Reading) {
	switch {
	case len(shown) == 2 && p.Fold == calendar.FoldSecond:
		return shown[1], calendar.ShownTwice
	case len(shown) == 2:
		return shown[0], calendar.ShownTwice
	case len(shown) == 1:
		return shown[0], calendar.ShownOnce
	case p.Gap == calendar.GapBackward:
		return reading - c.after.offset, calendar.ShownNever
	case p.Gap == calendar.GapBoundary:
		return c.after.from, calendar.ShownNever
	}
	return reading - c.before.offset, calendar.ShownNever
}

// Every change that any zone makes from 1970 to 2100: each minute near the readings at which the answer
// changes, and one minute in 31 of the day before and the day after. Zones that never differ are examined once.
func TestResolveAgreesWithBruteForce(t *testing.T) {
	t.Parallel()

	var looked sync.Map
	for _, name := range calendar.TimezoneNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			spans := spansOf(loc)
			if twin, again := looked.LoadOrStore(fmt.Sprint(spans), name); again {
				t.Logf("as %v", twin)
				return
			}
			z := zone(t, name)
			for i := range len(spans) - 1 {
				lookAround(t, z, spans, i)
			}
		})
	}
}

// lookAround compares the answers for every minute within a day of the change that
// ends spans[i].
func lookAround(t *testing.T, z calendar.Timezone, spans []span, i int) {
	t.Helper()
	policies := []calendar.Policies{
		{},
		{Gap: calendar.GapBackward, Fold: calendar.FoldSecond},
		{Gap: calendar.GapBoundary},
	}
	before, after := spans[i], spans[i+1]
	first := (after.from + min(before.offset, after.offset)) / minute * minute
	last := after.from + max(before.offset, after.offset)
	step := func(reading int64) int64 {
		for _, edge := range []int64{first, last} {
			if until := edge - reading; -2*minute <= until && until <= 2*minute {
				return minute
			} else if until > 0 {
				return min(31*minute, until-2*minute)
			}
		}
		return 31 * minute
	}
	for reading := first - day; reading <= last+day; reading += step(reading) {
		w := calendar.WallTimeOf(time.Unix(reading, 0).UTC())
		shown := showing(spans, i, reading)
		for _, p := range policies {
			sec, r := change{before, after}.want(shown, reading, p)
			got, err := z.Resolve(w, p)
			if err != nil || got.Instant.Unix() != sec || got.Reading != r {
				t.Fatalf("%s under %+v = %v, %v; want %v, %s", w, p, got, err, time.Unix(sec, 0).UTC(), r)
			}
			if len(shown) == 1 {
				break // policies have no say in it
			}
			if got.Change.At.Unix() != after.from || got.Change.Before != time.Duration(before.offset)*time.Second || got.Offset != time.Duration(offsetOf(spans, i, sec))*time.Second {
				t.Fatalf("%s under %+v = %+v; want the change at %v", w, p, got, time.Unix(after.from, 0).UTC())
			}
		}
	}
}

func offsetOf(spans []span, i int, sec int64) int64 {
	if sec < spans[i].until {
		return spans[i].offset
	}
	return spans[i+1].offset
}

// The oracle must have something to say: so many changes lie ahead that a zone
// data file which lost its future would be noticed here.
func TestTheBruteForceSeesClockChanges(t *testing.T) {
	t.Parallel()

	tests := map[string]int{"Europe/Berlin": 28, "America/New_York": 28, "Australia/Lord_Howe": 28, "Asia/Tokyo": 0, "UTC": 0}
	for name, want := range tests {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		from, until := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		got := 0
		for _, s := range spansOf(loc) {
			if from <= s.from && s.from < until {
				got++
			}
		}
		if got != want {
			t.Errorf("%s changes its clocks %d times from 2024 to 2037, want %d", name, got, want)
		}
	}
}
