package rrule_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/almanac-go/almanac/internal/rrule"
)

// BenchmarkNext begins in 1990 and asks in 2026.
func BenchmarkNext(b *testing.B) {
	start, after := wall(b, "1990-01-31 09:00"), wall(b, "2026-05-01 12:00")
	for _, text := range []string{
		"FREQ=DAILY",
		"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,FR",
		"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
		"FREQ=MONTHLY;RSCALE=GREGORIAN;SKIP=FORWARD",
		"FREQ=YEARLY",
		"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
		"FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
		"FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12",
		"FREQ=SECONDLY;INTERVAL=7;BYHOUR=9;BYMINUTE=0",
		"FREQ=DAILY;COUNT=10000",
	} {
		b.Run(text, func(b *testing.B) {
			rule := parse(b, text)
			b.ReportAllocs()
			for b.Loop() {
				rule.Next(start, after)
			}
		})
	}
}

// BenchmarkNextOfHostileRules measures searches that find nothing.
func BenchmarkNextOfHostileRules(b *testing.B) {
	rules, start := hostile(), wall(b, "2026-05-01 09:00")
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		b.Run(name, func(b *testing.B) {
			rule := parse(b, rules[name])
			after := start
			if _, ok := rule.Next(start, after); ok {
				after = wall(b, "9999-12-31 23:59:58")
			}
			for b.Loop() {
				rule.Next(start, after)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rrule.Parse("FREQ=MONTHLY;UNTIL=20271224T000000Z;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"); err != nil {
			b.Fatal(err)
		}
	}
}
