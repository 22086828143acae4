package calendars_test

import (
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

func BenchmarkDay(b *testing.B) {
	for _, name := range calendars.Names()[:7] {
		s := load(b, name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			date := calendar.Date{Year: 2027, Month: time.March, Day: 19}
			for b.Loop() {
				if _, err := s.Day(date); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDate(b *testing.B) {
	for _, name := range calendars.Names()[:7] {
		s := load(b, name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			day, err := s.Day(calendar.Date{Year: 2027, Month: time.March, Day: 19})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := s.Date(day); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNext is the way of a birthday: the next occurrence after now.
func BenchmarkNext(b *testing.B) {
	zone, err := calendar.LoadTimezone("UTC")
	if err != nil {
		b.Fatal(err)
	}
	now := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	for name, rule := range map[string]calendar.Recurrence{
		"hebrew":            on(calendars.Hebrew(), 6, false, 18),
		"hebrew, Adar I":    on(calendars.Hebrew(), 5, leap, 8),
		"chinese":           on(calendars.Chinese(), 8, false, 5),
		"chinese, leap":     on(calendars.Chinese(), 11, leap, 5),
		"islamic-umalqura":  on(calendars.UmmAlQura(), 9, false, 1),
		"yahrzeit":          calendar.Yahrzeit{System: calendars.Hebrew(), Of: calendar.SystemDate{Year: 5785, Month: 6, Day: 10}},
		"gregorian, beside": calendar.Yearly{Month: time.March, Day: 15},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := calendar.Next(rule, zone, calendar.Policies{}, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
