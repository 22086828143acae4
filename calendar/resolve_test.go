package calendar_test

import (
	"errors"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

func TestResolve(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		zone, wall string
		want       string // the instant
		reading    calendar.Reading
	}{
		"ordinary morning":                        {"Asia/Tokyo", "2026-05-01T09:00:00", "2026-05-01T00:00:00Z", calendar.ShownOnce},
		"ordinary morning of UTC":                 {"UTC", "2026-05-01T09:00:00", "2026-05-01T09:00:00Z", calendar.ShownOnce},
		"the zone furthest ahead":                 {"Pacific/Kiritimati", "2026-01-01T09:00:00", "2025-12-31T19:00:00Z", calendar.ShownOnce},
		"the zone furthest behind":                {"Pacific/Niue", "2025-12-31T23:30:00", "2026-01-01T10:30:00Z", calendar.ShownOnce},
		"a zone off by a quarter":                 {"Asia/Kathmandu", "2026-05-01T09:00:00", "2026-05-01T03:15:00Z", calendar.ShownOnce},
		"a zone whose sign POSIX turned":          {"Etc/GMT+5", "2026-05-01T09:00:00", "2026-05-01T14:00:00Z", calendar.ShownOnce},
		"gap east of Greenwich":                   {"Europe/Berlin", "2026-03-29T02:30:00", "2026-03-29T01:30:00Z", calendar.ShownNever},
		"gap west of Greenwich":                   {"America/New_York", "2026-03-08T02:30:00", "2026-03-08T07:30:00Z", calendar.ShownNever},
		"gap at Greenwich":                        {"Europe/London", "2026-03-29T01:30:00", "2026-03-29T01:30:00Z", calendar.ShownNever},
		"last second before a gap":                {"Europe/Berlin", "2026-03-29T01:59:59", "2026-03-29T00:59:59Z", calendar.ShownOnce},
		"first second of a gap":                   {"Europe/Berlin", "2026-03-29T02:00:00", "2026-03-29T01:00:00Z", calendar.ShownNever},
		"last second of a gap":                    {"Europe/Berlin", "2026-03-29T02:59:59", "2026-03-29T01:59:59Z", calendar.ShownNever},
		"first second after a gap":                {"Europe/Berlin", "2026-03-29T03:00:00", "2026-03-29T01:00:00Z", calendar.ShownOnce},
		"midnight that never struck":              {"America/Sao_Paulo", "2018-11-04T00:00:00", "2018-11-04T03:00:00Z", calendar.ShownNever},
		"midnight gap in Beirut":                  {"Asia/Beirut", "2024-03-31T00:30:00", "2024-03-30T22:30:00Z", calendar.ShownNever},
		"midnight gap in Cairo":                   {"Africa/Cairo", "2024-04-26T00:00:00", "2024-04-25T22:00:00Z", calendar.ShownNever},
		"midnight gap in Santiago":                {"America/Santiago", "2024-09-08T00:30:00", "2024-09-08T04:30:00Z", calendar.ShownNever},
		"midnight gap in Havana":                  {"America/Havana", "2024-03-10T00:30:00", "2024-03-10T05:30:00Z", calendar.ShownNever},
		"evening gap that rolls the date":         {"America/Nuuk", "2025-03-29T23:30:00", "2025-03-30T01:30:00Z", calendar.ShownNever},
		"day that never dawned":                   {"Pacific/Apia", "2011-12-30T09:00:00", "2011-12-30T19:00:00Z", calendar.ShownNever},
		"day before it":                           {"Pacific/Apia", "2011-12-29T09:00:00", "2011-12-29T19:00:00Z", calendar.ShownOnce},
		"day after it":                            {"Pacific/Apia", "2011-12-31T09:00:00", "2011-12-30T19:00:00Z", calendar.ShownOnce},
		"gap of half an hour":                     {"Australia/Lord_Howe", "2026-10-04T02:15:00", "2026-10-03T15:45:00Z", calendar.ShownNever},
		"after a gap of half an hour":             {"Australia/Lord_Howe", "2026-10-04T02:30:00", "2026-10-03T15:30:00Z", calendar.ShownOnce},
		"gap of two hours":                        {"Antarctica/Troll", "2026-03-29T02:30:00", "2026-03-29T02:30:00Z", calendar.ShownNever},
		"fold is its first showing":               {"Europe/Berlin", "2026-10-25T02:30:00", "2026-10-25T00:30:00Z", calendar.ShownTwice},
		"fold west of Greenwich":                  {"America/New_York", "2026-11-01T01:30:00", "2026-11-01T05:30:00Z", calendar.ShownTwice},
		"last second before a fold":               {"Europe/Berlin", "2026-10-25T01:59:59", "2026-10-24T23:59:59Z", calendar.ShownOnce},
		"first second of a fold":                  {"Europe/Berlin", "2026-10-25T02:00:00", "2026-10-25T00:00:00Z", calendar.ShownTwice},
		"last second of a fold":                   {"Europe/Berlin", "2026-10-25T02:59:59", "2026-10-25T00:59:59Z", calendar.ShownTwice},
		"first second after a fold":               {"Europe/Berlin", "2026-10-25T03:00:00", "2026-10-25T02:00:00Z", calendar.ShownOnce},
		"fold of half an hour":                    {"Australia/Lord_Howe", "2026-04-05T01:45:00", "2026-04-04T14:45:00Z", calendar.ShownTwice},
		"fold in the last hour of a leap day":     {"Asia/Almaty", "2024-02-29T23:30:00", "2024-02-29T17:30:00Z", calendar.ShownTwice},
		"Dublin's summer is its standard time":    {"Europe/Dublin", "2026-03-29T01:30:00", "2026-03-29T01:30:00Z", calendar.ShownNever},
		"Dublin's winter is its saving":           {"Europe/Dublin", "2026-10-25T01:30:00", "2026-10-25T00:30:00Z", calendar.ShownTwice},
		"Casablanca turns back for Ramadan":       {"Africa/Casablanca", "2025-02-23T02:30:00", "2025-02-23T01:30:00Z", calendar.ShownTwice},
		"Casablanca turns on after Ramadan":       {"Africa/Casablanca", "2025-04-06T02:30:00", "2025-04-06T02:30:00Z", calendar.ShownNever},
		"gap a week before clocks turn back":      {"America/Recife", "2000-10-08T00:30:00", "2000-10-08T03:30:00Z", calendar.ShownNever},
		"fold a week after clocks turned on":      {"America/Recife", "2000-10-14T23:30:00", "2000-10-15T01:30:00Z", calendar.ShownTwice},
		"gap four days before the next change":    {"Africa/Freetown", "1939-09-01T00:10:00", "1939-09-01T01:10:00Z", calendar.ShownNever},
		"fold four days after a change":           {"Africa/Freetown", "1939-09-04T23:50:00", "1939-09-05T00:30:00Z", calendar.ShownTwice},
		"beyond the last change that a file has":  {"Europe/Berlin", "2100-03-28T02:30:00", "2100-03-28T01:30:00Z", calendar.ShownNever},
		"last day of a leap year in compact data": {"America/New_York", "2028-12-31T09:00:00", "2028-12-31T14:00:00Z", calendar.ShownOnce},
		"the first of all wall times":             {"UTC", "0001-01-01T00:00:00", "0001-01-01T00:00:00Z", calendar.ShownOnce},
		"the last of all wall times":              {"UTC", "9999-12-31T23:59:59", "9999-12-31T23:59:59Z", calendar.ShownOnce},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := zone(t, tt.zone).Resolve(wall(t, tt.wall), calendar.Policies{})

			if err != nil || got.Instant != instant(t, tt.want) || got.Reading != tt.reading {
				t.Errorf("%s in %s = %v, %v; want %s, %s", tt.wall, tt.zone, got, err, tt.want, tt.reading)
			}
		})
	}
}

func TestResolveObeysPolicies(t *testing.T) {
	t.Parallel()

	const (
		gap  = "America/New_York 2026-03-08T02:30:00"
		fold = "America/New_York 2026-11-01T01:30:00"
	)
	tests := map[string]struct {
		when     string
		policies calendar.Policies
		want     string // the instant, "skipped" or "rejected"
	}{
		"gap, zero policy":          {gap, calendar.Policies{}, "2026-03-08T07:30:00Z"},
		"gap, forward":              {gap, calendar.Policies{Gap: calendar.GapForward}, "2026-03-08T07:30:00Z"},
		"gap, backward":             {gap, calendar.Policies{Gap: calendar.GapBackward}, "2026-03-08T06:30:00Z"},
		"gap, boundary":             {gap, calendar.Policies{Gap: calendar.GapBoundary}, "2026-03-08T07:00:00Z"},
		"gap, skip":                 {gap, calendar.Policies{Gap: calendar.GapSkip}, "skipped"},
		"gap, reject":               {gap, calendar.Policies{Gap: calendar.GapReject}, "rejected"},
		"gap, fold's policy":        {gap, calendar.Policies{Fold: calendar.FoldReject}, "2026-03-08T07:30:00Z"},
		"fold, zero policy":         {fold, calendar.Policies{}, "2026-11-01T05:30:00Z"},
		"fold, first":               {fold, calendar.Policies{Fold: calendar.FoldFirst}, "2026-11-01T05:30:00Z"},
		"fold, second":              {fold, calendar.Policies{Fold: calendar.FoldSecond}, "2026-11-01T06:30:00Z"},
		"fold, reject":              {fold, calendar.Policies{Fold: calendar.FoldReject}, "rejected"},
		"fold, gap's policy":        {fold, calendar.Policies{Gap: calendar.GapReject}, "2026-11-01T05:30:00Z"},
		"half an hour, boundary":    {"Australia/Lord_Howe 2026-10-04T02:15:00", calendar.Policies{Gap: calendar.GapBoundary}, "2026-10-03T15:30:00Z"},
		"half an hour, backward":    {"Australia/Lord_Howe 2026-10-04T02:15:00", calendar.Policies{Gap: calendar.GapBackward}, "2026-10-03T15:15:00Z"},
		"half an hour, second":      {"Australia/Lord_Howe 2026-04-05T01:45:00", calendar.Policies{Fold: calendar.FoldSecond}, "2026-04-04T15:15:00Z"},
		"vanished day, boundary":    {"Pacific/Apia 2011-12-30T09:00:00", calendar.Policies{Gap: calendar.GapBoundary}, "2011-12-30T10:00:00Z"},
		"vanished day, backward":    {"Pacific/Apia 2011-12-30T09:00:00", calendar.Policies{Gap: calendar.GapBackward}, "2011-12-29T19:00:00Z"},
		"vanished day, skip":        {"Pacific/Apia 2011-12-30T00:00:00", calendar.Policies{Gap: calendar.GapSkip}, "skipped"},
		"midnight gap, boundary":    {"Africa/Cairo 2024-04-26T00:30:00", calendar.Policies{Gap: calendar.GapBoundary}, "2024-04-25T22:00:00Z"},
		"midnight gap, first of it": {"Africa/Cairo 2024-04-26T00:00:00", calendar.Policies{Gap: calendar.GapBoundary}, "2024-04-25T22:00:00Z"},
		"a week apart, backward":    {"America/Recife 2000-10-08T00:30:00", calendar.Policies{Gap: calendar.GapBackward}, "2000-10-08T02:30:00Z"},
		"four days apart, backward": {"Africa/Freetown 1939-09-01T00:10:00", calendar.Policies{Gap: calendar.GapBackward}, "1939-09-01T00:50:00Z"},
		"once, strictest of all":    {"America/New_York 2026-03-08T03:00:00", calendar.Policies{Gap: calendar.GapReject, Fold: calendar.FoldReject}, "2026-03-08T07:00:00Z"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z, w := zone(t, tt.when[:len(tt.when)-20]), wall(t, tt.when[len(tt.when)-19:])

			got, err := z.Resolve(w, tt.policies)

			if tt.want == "skipped" || tt.want == "rejected" {
				reading := calendar.ShownNever
				if tt.when == fold {
					reading = calendar.ShownTwice
				}
				expectRefused(t, err, &calendar.WallTimeError{Wall: w, Zone: z, Reading: reading, Rejected: tt.want == "rejected"})
				return
			}
			if err != nil || !got.Instant.Equal(instant(t, tt.want)) {
				t.Errorf("%s under %+v = %v, %v; want %s", tt.when, tt.policies, got, err, tt.want)
			}
		})
	}
}

// expectRefused compares err with a WallTimeError and with the sentinels.
func expectRefused(t *testing.T, err error, want *calendar.WallTimeError) {
	t.Helper()
	var got *calendar.WallTimeError
	if !errors.As(err, &got) {
		t.Fatalf("error %v, want a *WallTimeError", err)
	}
	// The change is that of the reason, which has tests of its own.
	if want.Change = got.Change; *got != *want || got.Change.IsZero() {
		t.Errorf("error %+v, want %+v with a change", got, want)
	}
	if errors.Is(err, calendar.ErrRejectedWallTime) != want.Rejected || errors.Is(err, calendar.ErrSkippedWallTime) == want.Rejected {
		t.Errorf("error %v matches the wrong sentinel; rejected %v", err, want.Rejected)
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()

	good := wall(t, "2026-05-01T09:00:00")
	on := func(year int, month time.Month, day int) calendar.WallTime {
		return calendar.WallTime{Date: calendar.Date{Year: year, Month: month, Day: day}, Clock: good.Clock}
	}
	at := func(c calendar.Clock) calendar.WallTime { return calendar.WallTime{Date: good.Date, Clock: c} }
	tests := map[string]struct {
		wall     calendar.WallTime
		policies calendar.Policies
	}{
		"the zero WallTime":             {calendar.WallTime{}, calendar.Policies{}},
		"30 February":                   {on(2026, 2, 30), calendar.Policies{}},
		"29 February of a common year":  {on(2026, 2, 29), calendar.Policies{}},
		"a month too many":              {on(2026, 13, 1), calendar.Policies{}},
		"a month too few":               {on(2026, 0, 1), calendar.Policies{}},
		"the year 0":                    {on(0, 1, 1), calendar.Policies{}},
		"the year 10000":                {on(10000, 1, 1), calendar.Policies{}},
		"the end of the day":            {at(calendar.Clock{Hour: 24}), calendar.Policies{}},
		"a leap second":                 {at(calendar.Clock{Hour: 23, Minute: 59, Second: 60}), calendar.Policies{}},
		"a gap policy that is unknown":  {good, calendar.Policies{Gap: "later"}},
		"a fold policy that is unknown": {good, calendar.Policies{Fold: "both"}},
		"a leap policy that is unknown": {good, calendar.Policies{LeapDay: "feb27"}},
		"a policy in capitals":          {good, calendar.Policies{Gap: "FORWARD"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if got, err := zone(t, "Europe/Berlin").Resolve(tt.wall, tt.policies); err == nil || got != (calendar.Resolution{}) {
				t.Errorf("Resolve(%v, %+v) = %v, %v; want it refused", tt.wall, tt.policies, got, err)
			}
		})
	}
}

func TestPoliciesHaveDefaults(t *testing.T) {
	t.Parallel()

	want := calendar.Policies{Gap: calendar.GapForward, Fold: calendar.FoldFirst, LeapDay: calendar.LeapDayFeb28, MonthEnd: calendar.MonthEndClamp}
	if got := (calendar.Policies{}).WithDefaults(); got != want {
		t.Errorf("the zero Policies are %+v, want %+v", got, want)
	}
	chosen := calendar.Policies{Gap: calendar.GapSkip, Fold: calendar.FoldSecond, LeapDay: calendar.LeapDayMar1, MonthEnd: calendar.MonthEndSkip}
	if got := chosen.WithDefaults(); got != chosen {
		t.Errorf("%+v with defaults is %+v, want it unchanged", chosen, got)
	}
}

func BenchmarkResolve(b *testing.B) {
	tests := map[string]string{
		"once":  "2026-05-01T09:00:00",
		"never": "2026-03-29T02:30:00",
		"twice": "2026-10-25T02:30:00",
		"2100":  "2100-05-01T09:00:00",
	}
	for name, text := range tests {
		b.Run(name, func(b *testing.B) {
			z, w := zone(b, "Europe/Berlin"), wall(b, text)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := z.Resolve(w, calendar.Policies{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
