package almanac_test

import (
	"slices"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/zones"
)

const (
	hour    = 60 * 60
	quarter = hour / 4 // every offset and every change since 2024 is a multiple of it
)

// The oracle knows of zones only what clocks show at an instant. It finds the
// instants of a wall time by looking at all of them.

// offsetAt returns what the zone's clocks add to UTC at the Unix time sec.
func offsetAt(loc *time.Location, sec int64) int64 {
	_, offset := time.Unix(sec, 0).In(loc).Zone()
	return int64(offset)
}

// change is an instant from which a zone's clocks add something else to UTC.
type change struct{ at, before, after int64 }

// changesOf finds every change from 2024 to 2037. A half day with equal offsets at
// both ends is taken to hold none: no zone undoes a change within hours.
func changesOf(loc *time.Location) []change {
	const stride = 12
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	until := time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	var changes []change
	for sec := from; sec < until; sec += stride * hour {
		if offsetAt(loc, sec) == offsetAt(loc, sec+stride*hour) {
			continue
		}
		for at := sec; at < sec+stride*hour; at += quarter {
			if before, after := offsetAt(loc, at), offsetAt(loc, at+quarter); before != after {
				changes = append(changes, change{at + quarter, before, after})
			}
		}
	}
	return changes
}

// readings maps each reading that the clocks show within thirty hours of a
// change, and around the wall times that are asked for, to the instants that show it.
func readings(loc *time.Location, c change) map[int64][]int64 {
	shown := make(map[int64][]int64)
	for sec := c.at - 33*hour; sec <= c.at+33*hour; sec += quarter {
		reading := sec + offsetAt(loc, sec)
		shown[reading] = append(shown[reading], sec)
	}
	return shown
}

// want is the oracle's answer under a policy.
func (c change) want(shown []int64, reading int64, p almanac.Policies) (sec int64, r almanac.Reading) {
	switch {
	case len(shown) == 2 && p.Fold == almanac.FoldSecond:
		return shown[1], almanac.Twice
	case len(shown) == 2:
		return shown[0], almanac.Twice
	case len(shown) == 1:
		return shown[0], almanac.Once
	case p.Gap == almanac.GapBackward:
		return reading - c.after, almanac.Never
	case p.Gap == almanac.GapBoundary:
		return c.at, almanac.Never
	}
	return reading - c.before, almanac.Never
}

func TestResolveAgreesWithLookingAtEveryClock(t *testing.T) {
	t.Parallel()

	policies := []almanac.Policies{
		{},
		{Gap: almanac.GapBackward, Fold: almanac.FoldSecond},
		{Gap: almanac.GapBoundary},
	}
	for _, name := range zones.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			z := zone(t, name)
			for _, c := range changesOf(loc) {
				shown := readings(loc, c)
				middle := c.at + (c.before+c.after)/2/quarter*quarter
				for reading := middle - 4*hour; reading <= middle+4*hour; reading += quarter {
					w := almanac.WallTimeOf(time.Unix(reading, 0).UTC())
					for _, p := range policies {
						sec, r := c.want(shown[reading], reading, p)
						if got, err := z.Resolve(w, p); err != nil || got.Instant.Unix() != sec || got.Reading != r {
							t.Fatalf("%s under %+v = %v, %v; want %v, %s", w, p, got, err, time.Unix(sec, 0).UTC(), r)
						}
					}
				}
			}
		})
	}
}

// The oracle must have something to say: so many changes lie ahead that a zone
// data file which lost its future would be noticed here.
func TestTheOracleSeesChanges(t *testing.T) {
	t.Parallel()

	tests := map[string]int{"Europe/Berlin": 28, "America/New_York": 28, "Australia/Lord_Howe": 28, "Asia/Tokyo": 0, "UTC": 0}
	for name, want := range tests {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(changesOf(loc)); got != want {
			t.Errorf("%s changes its clocks %d times from 2024 to 2037, want %d", name, got, want)
		}
	}
}

func FuzzResolve(f *testing.F) {
	names := zones.Names()
	slices.Sort(names)
	from := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	until := time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for i, name := range names {
		switch name {
		case "Europe/Berlin", "Pacific/Apia", "America/Sao_Paulo", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Manila":
			f.Add(uint16(i), instant(f, "2026-03-29T02:30:00Z").Unix()-from)
			f.Add(uint16(i), instant(f, "2011-12-30T09:00:00Z").Unix()-from)
			f.Add(uint16(i), instant(f, "1945-05-24T02:30:00Z").Unix()-from)
		}
	}
	f.Fuzz(func(t *testing.T, n uint16, since int64) {
		name := names[int(n)%len(names)]
		label := from + ((since%(until-from))+(until-from))%(until-from)
		checkResolution(t, zone(t, name), almanac.WallTimeOf(time.Unix(label, 0).UTC()))
	})
}

// checkResolution compares every answer about w with what clocks in z show.
func checkResolution(t *testing.T, z almanac.Timezone, w almanac.WallTime) {
	t.Helper()
	resolve := func(p almanac.Policies) almanac.Resolution {
		r, err := z.Resolve(w, p)
		if err != nil {
			t.Fatalf("%s in %s under %+v: %v", w, z, p, err)
		}
		return r
	}
	first := resolve(almanac.Policies{})
	second := resolve(almanac.Policies{Gap: almanac.GapBackward, Fold: almanac.FoldSecond})
	if shown, says := showings(z, w), map[almanac.Reading]int{almanac.Never: 0, almanac.Once: 1, almanac.Twice: 2}; len(shown) != says[first.Reading] {
		t.Fatalf("clocks in %s show %s at %v, Resolve says %s", z, w, shown, first.Reading)
	}
	if first.Reading != second.Reading || second.Instant.Before(first.Instant) && first.Reading != almanac.Never {
		t.Fatalf("%s in %s: first %v, second %v", w, z, first, second)
	}
	if first.Reading != almanac.Never {
		if a, b := z.WallTime(first.Instant), z.WallTime(second.Instant); a != w || b != w {
			t.Fatalf("%s in %s: clocks show %s at %v and %s at %v", w, z, a, first, b, second)
		}
		return
	}
	end := resolve(almanac.Policies{Gap: almanac.GapBoundary}).Instant
	last, next := z.WallTime(end.Add(-time.Second)).Labelled(), z.WallTime(end).Labelled()
	if !last.Before(w.Labelled()) || !next.After(w.Labelled()) {
		t.Fatalf("%s in %s: the gap ends at %v, but clocks go from %v to %v", w, z, end, last, next)
	}
	if first.Instant.Before(end) || !second.Instant.Before(end) {
		t.Fatalf("%s in %s: forward %v, backward %v, the gap ends at %v", w, z, first, second, end)
	}
}

// showings returns the instants at which clocks in z show w, by reading w with
// every offset that was in force within thirty hours of it.
func showings(z almanac.Timezone, w almanac.WallTime) []time.Time {
	var shown []time.Time
	label := w.Labelled()
	tried := make(map[time.Duration]bool)
	for near := label.Add(-30 * time.Hour); !near.After(label.Add(30 * time.Hour)); near = near.Add(quarter * time.Second) {
		offset := z.WallTime(near).Labelled().Sub(near)
		if tried[offset] {
			continue
		}
		tried[offset] = true
		if at := label.Add(-offset); z.WallTime(at) == w {
			shown = append(shown, at)
		}
	}
	return shown
}
