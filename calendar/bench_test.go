package calendar_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func BenchmarkNext(b *testing.B) {
	nine, half := calendar.Clock{Hour: 9}, calendar.Clock{Hour: 2, Minute: 30}
	const ordinary, beforeGap = "2026-05-20T12:00:00Z", "2026-03-29T00:30:00Z"
	work := workCalendar(b, "TEST", "2026-12-25 holiday")
	office := window(b, "Mo-Fr 08:00-18:00")
	const friday, monday = "2026-05-22T12:00:00Z", "2026-05-25T04:00:00Z"
	tests := []struct {
		name  string
		rule  calendar.Recurrence
		after string
	}{
		{"daily, working days", calendar.Within{Of: calendar.Daily{At: nine}, WorkDays: work}, ordinary},
		{"daily, working days, over a weekend", calendar.Within{Of: calendar.Daily{At: nine}, WorkDays: work}, friday},
		{"daily, working days, on Monday", calendar.Within{Of: calendar.Daily{At: nine}, WorkDays: work}, monday},
		{"daily, working days, preceding", calendar.Within{Of: calendar.Daily{At: nine}, WorkDays: work, Convention: calendar.Preceding}, friday},
		{"daily, in a window", calendar.Within{Of: calendar.Daily{At: nine}, Window: office}, ordinary},
		{"daily, in a window, at night", calendar.Within{Of: calendar.Daily{At: nine}, Window: office}, "2026-05-20T22:00:00Z"},
		{"monthly, working days", calendar.Within{Of: calendar.Monthly{Day: 31, At: nine}, WorkDays: work}, ordinary},
		{"monthly, third day", calendar.Monthly{Day: 3, At: nine}, ordinary},
		{"monthly, third working day", calendar.Monthly{Day: 3, At: nine, WorkDays: work}, ordinary},
		{"monthly, three days before", calendar.Offset{Of: calendar.Monthly{Day: 31, At: nine}, Days: -3, At: nine}, ordinary},
		{"monthly, three working days before", calendar.Offset{Of: calendar.Monthly{Day: 31, At: nine}, Days: -3, At: nine, WorkDays: work}, ordinary},
		{"yearly", calendar.Yearly{Month: time.March, Day: 15, At: nine}, ordinary},
		{"daily", calendar.Daily{At: nine}, ordinary},
		{"weekly", calendar.Weekly{On: []time.Weekday{time.Monday, time.Thursday}, At: nine}, ordinary},
		{"monthly", calendar.Monthly{Day: 31, At: nine}, ordinary},
		{"rrule weekly", rrule(b, "FREQ=WEEKLY;BYDAY=MO,TH", "2020-01-01T09:00:00"), ordinary},
		{"rrule hourly", rrule(b, "FREQ=HOURLY;INTERVAL=3", "2020-01-01T09:00:00"), ordinary},
		{"cron hourly", cron(b, "0 * * * *"), ordinary},
		{"bounded, the 1000th", calendar.Bounded{Rule: calendar.Daily{At: nine}, Start: wall(b, "2023-08-25T09:00:00"), Count: 2000}, ordinary},
		{"daily in a gap", calendar.Daily{At: half}, beforeGap},
		{"cron hourly in a gap", cron(b, "0 * * * *"), beforeGap},
		{"cron each second in a gap", cron(b, "* * * * * *"), "2026-03-29T00:59:59Z"},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			z, after := zone(b, "Europe/Berlin"), instant(b, tt.after)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := calendar.Next(tt.rule, z, calendar.Policies{}, after); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a program does when it starts: a look at the ten years that follow, in every
// zone. Another year each time keeps fingerprints that were taken from helping.
func BenchmarkFingerprintOfAllZones(b *testing.B) {
	var all []calendar.Timezone
	for _, name := range calendar.TimezoneNames() {
		all = append(all, zone(b, name))
	}
	b.ReportAllocs()
	year := 2026
	for b.Loop() {
		for _, z := range all {
			if _, err := z.Rules(year); err != nil {
				b.Fatal(err)
			}
		}
		year = 2026 + (year-2025)%40
	}
	b.ReportMetric(float64(len(all)), "zones")
}
