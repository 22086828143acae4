package world_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/dashboard/internal/world"
)

func TestLitFromTheHourOn(t *testing.T) {
	t.Parallel()
	nine := calendar.Clock{Hour: 9}
	for _, tt := range []struct {
		zone, at string
		from     calendar.Clock
		want     bool
	}{
		{"Europe/Berlin", "2026-01-15T07:59:59Z", nine, false},
		{"Europe/Berlin", "2026-01-15T08:00:00Z", nine, true},
		{"Europe/Berlin", "2026-01-15T08:59:59.999999999Z", nine, true},
		{"Europe/Berlin", "2026-01-15T09:00:00Z", nine, false},
		{"Europe/Berlin", "2026-07-15T07:30:00Z", nine, true}, // summer time
		{"Europe/Berlin", "2026-07-15T08:30:00Z", nine, false},
		{"Asia/Kathmandu", "2026-01-15T03:15:00Z", nine, true}, // UTC+5:45
		{"Asia/Kathmandu", "2026-01-15T03:14:59Z", nine, false},
		{"Pacific/Kiritimati", "2026-01-14T19:00:00Z", nine, true}, // on the 15th there
		{"Pacific/Honolulu", "2026-01-14T19:00:00Z", nine, true},   // on the 14th there
		{"Etc/UTC", "2026-01-15T00:10:00Z", calendar.Clock{Hour: 23, Minute: 30}, true},
		{"Etc/UTC", "2026-01-15T00:30:00Z", calendar.Clock{Hour: 23, Minute: 30}, false},
		{"Etc/UTC", "1969-12-31T09:00:00.5Z", nine, true},
		{"Etc/UTC", "1969-12-31T08:59:59.5Z", nine, false},
		{"Etc/UTC", "2026-01-15T09:30:00Z", calendar.Clock{Hour: 33}, false}, // no such reading
		// Clocks skip the hour from 02:00 on, and show the hour from 01:00 on twice.
		{"America/New_York", "2026-03-08T06:59:59Z", calendar.Clock{Hour: 2}, false},
		{"America/New_York", "2026-03-08T07:00:00Z", calendar.Clock{Hour: 2}, false},
		{"America/New_York", "2026-11-01T05:30:00Z", calendar.Clock{Hour: 1}, true},
		{"America/New_York", "2026-11-01T06:30:00Z", calendar.Clock{Hour: 1}, true},
	} {
		if got := world.Lit(zone(t, tt.zone), instant(t, tt.at), tt.from); got != tt.want {
			t.Errorf("Lit(%s, %s, %s) = %v", tt.zone, tt.at, tt.from, got)
		}
	}
}

func TestLitIsFalseWithoutZoneData(t *testing.T) {
	t.Parallel()
	at := instant(t, "2026-01-15T09:30:00Z")
	for _, z := range []calendar.Timezone{{}, calendar.StoredTimezone("Mars/Olympus")} {
		if world.Lit(z, at, calendar.Clock{Hour: 9}) {
			t.Errorf("zone %q shows an hour", z)
		}
	}
}

func TestFrontIsJagged(t *testing.T) {
	t.Parallel()
	const half = 30 * time.Minute
	for _, tt := range []struct {
		at   string
		want []time.Duration
	}{
		{"2026-01-15T19:00:00Z", []time.Duration{-10 * time.Hour, -9*time.Hour - half, 14 * time.Hour}},
		{"2026-01-15T03:30:00Z", []time.Duration{5*time.Hour + half, 5*time.Hour + 45*time.Minute, 6 * time.Hour}},
		{"2026-07-15T09:00:00Z", []time.Duration{0}},              // London has summer time
		{"2026-01-15T21:30:00Z", []time.Duration{12 * time.Hour}}, // no place is at UTC-12
		{"2026-01-15T20:00:00Z", []time.Duration{-11 * time.Hour, 13 * time.Hour, 13*time.Hour + 45*time.Minute}},
	} {
		if got := world.Front(instant(t, tt.at), calendar.Clock{Hour: 9}); !slices.Equal(got, tt.want) {
			t.Errorf("at %s the front is %v, want %v", tt.at, got, tt.want)
		}
	}
}

func TestOneDatesHourGoesAroundIn25Hours(t *testing.T) {
	t.Parallel()
	var first, last time.Time
	start := instant(t, "2026-01-14T12:00:00Z")
	for at := start; at.Sub(start) < 48*time.Hour; at = at.Add(15 * time.Minute) {
		for _, offset := range world.Front(at, calendar.Clock{Hour: 9}) {
			if wall := at.Add(offset); wall.Day() == 15 && wall.Minute() == 0 {
				if first.IsZero() {
					first = at
				}
				last = at
			}
		}
	}
	if got := last.Sub(first); got != 25*time.Hour {
		t.Errorf("nine o'clock of one date takes %v from %v to %v", got, first, last)
	}
}

func TestFrontAndByOffsetAgreeWithClocks(t *testing.T) {
	t.Parallel()
	dots := world.CanonicalPlaces()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(date(1900).Unix(), date(2100).Unix()).Draw(t, "seconds"), 0).UTC()
		from := calendar.Clock{Hour: rapid.IntRange(0, 23).Draw(t, "hour"), Minute: rapid.IntRange(0, 59).Draw(t, "minute")}
		front := world.Front(at, from)
		groups := world.ByOffset(at)
		zones := 0
		for i, group := range groups {
			if i > 0 && group.Offset <= groups[i-1].Offset {
				t.Fatalf("%v precedes %v", groups[i-1].Offset, group.Offset)
			}
			if !slices.IsSorted(group.Zones) {
				t.Fatalf("%v is not in order", group.Zones)
			}
			zones += len(group.Zones)
			for _, name := range group.Zones {
				z := calendar.StoredTimezone(name)
				wall := calendar.WallTimeOf(at.Add(group.Offset))
				if z.WallTime(at) != wall {
					t.Fatalf("clocks in %s show %v, and %v by the offset", name, z.WallTime(at), wall)
				}
				shown := wall.Clock.Hour*60 + wall.Clock.Minute
				want := (shown-from.Hour*60-from.Minute+24*60)%(24*60) < 60
				if world.Lit(z, at, from) != want || slices.Contains(front, group.Offset) != want {
					t.Fatalf("%s shows %v: whether that is the hour from %v on is %v", name, wall, from, want)
				}
			}
		}
		if zones != len(dots) {
			t.Fatalf("%d zones have an offset, want %d", zones, len(dots))
		}
	})
}

func BenchmarkFront(b *testing.B) {
	at := date(2026)
	for b.Loop() {
		world.Front(at, calendar.Clock{Hour: 9})
	}
}

func BenchmarkNightPath(b *testing.B) {
	at := date(2026)
	for b.Loop() {
		world.NightPath(at, 1000)
	}
}
