package calendar_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func FuzzResolve(f *testing.F) {
	names := calendar.TimezoneNames()
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
		checkResolution(t, zone(t, name), calendar.WallTimeOf(time.Unix(label, 0).UTC()))
	})
}

// checkResolution compares every answer about w with what clocks in z show.
func checkResolution(t *testing.T, z calendar.Timezone, w calendar.WallTime) {
	t.Helper()
	resolve := func(p calendar.Policies) calendar.Resolution {
		r, err := z.Resolve(w, p)
		if err != nil {
			t.Fatalf("%s in %s under %+v: %v", w, z, p, err)
		}
		return r
	}
	first := resolve(calendar.Policies{})
	second := resolve(calendar.Policies{Gap: calendar.GapBackward, Fold: calendar.FoldSecond})
	if shown, says := showings(z, w), map[calendar.Reading]int{calendar.ShownNever: 0, calendar.ShownOnce: 1, calendar.ShownTwice: 2}; len(shown) != says[first.Reading] {
		t.Fatalf("clocks in %s show %s at %v, Resolve says %s", z, w, shown, first.Reading)
	}
	if first.Reading != second.Reading || second.Instant.Before(first.Instant) && first.Reading != calendar.ShownNever {
		t.Fatalf("%s in %s: first %v, second %v", w, z, first, second)
	}
	if first.Reading != calendar.ShownNever {
		if a, b := z.WallTime(first.Instant), z.WallTime(second.Instant); a != w || b != w {
			t.Fatalf("%s in %s: clocks show %s at %v and %s at %v", w, z, a, first, b, second)
		}
		return
	}
	end := resolve(calendar.Policies{Gap: calendar.GapBoundary}).Instant
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
func showings(z calendar.Timezone, w calendar.WallTime) []time.Time {
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
