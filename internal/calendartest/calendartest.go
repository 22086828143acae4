// Package calendartest helps to test wall times and recurrences. It parses texts in tests,
// failing the test on an error, and has recurrences near clock changes.
package calendartest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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
	return calendar.Occurrence{Key: o.Key, Wall: o.Wall, Zone: o.Zone, Policies: o.Policies, Named: o.Named, DayReason: o.DayReason, Announces: o.Announces}
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

// OddChanges are clock changes of different widths, hours and neighbours.
var OddChanges = []struct{ Zone, At string }{
	{"America/New_York", "2026-03-08T07:00:00Z"},
	{"America/New_York", "2026-11-01T06:00:00Z"},
	{"Europe/Berlin", "2100-03-28T01:00:00Z"},
	{"Europe/Dublin", "2026-10-25T01:00:00Z"},
	{"Australia/Lord_Howe", "2026-10-03T15:30:00Z"}, // half an hour
	{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"},
	{"Antarctica/Troll", "2026-03-29T01:00:00Z"}, // two hours
	{"Antarctica/Troll", "2026-10-25T01:00:00Z"},
	{"America/Sao_Paulo", "2018-11-04T03:00:00Z"}, // at midnight
	{"America/Sao_Paulo", "2019-02-17T02:00:00Z"},
	{"Africa/Cairo", "2024-04-25T22:00:00Z"},
	{"Africa/Casablanca", "2025-04-06T02:00:00Z"},
	{"Pacific/Apia", "2011-12-30T10:00:00Z"},      // a day is skipped
	{"Pacific/Kwajalein", "1993-08-21T12:00:00Z"}, // and here
	{"America/Juneau", "1867-10-19T00:31:13Z"},    // a day is repeated
	{"America/Recife", "2000-10-08T03:00:00Z"},    // and again a week later
	{"Africa/Freetown", "1939-09-01T01:00:00Z"},   // and again four days later
	{"Asia/Tokyo", "2026-01-01T00:00:00Z"},        // no change
}

// Case is a recurrence near a clock change.
type Case struct {
	Rule     calendar.Recurrence
	Until    time.Time // the last instant of the rule; zero for none
	Zone     calendar.Timezone
	Change   time.Time
	Policies calendar.Policies
}

// DrawCase draws a recurrence of any kind, possibly bounded, and policies that reject nothing.
func DrawCase(t *rapid.T) Case {
	odd := rapid.SampledFrom(OddChanges).Draw(t, "change")
	z, err := calendar.LoadTimezone(odd.Zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, odd.At)
	if err != nil {
		t.Fatal(err)
	}
	s := Case{Zone: z, Change: at, Policies: drawPolicies(t)}
	s.Rule = s.drawRule(t)
	if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
		s.Rule = s.DrawBounds(t)
	}
	return s
}

func drawPolicies(t *rapid.T) calendar.Policies {
	return calendar.Policies{
		Gap:      rapid.SampledFrom([]calendar.GapPolicy{"", calendar.GapForward, calendar.GapBackward, calendar.GapBoundary, calendar.GapSkip}).Draw(t, "gap"),
		Fold:     rapid.SampledFrom([]calendar.FoldPolicy{"", calendar.FoldFirst, calendar.FoldSecond}).Draw(t, "fold"),
		LeapDay:  rapid.SampledFrom([]calendar.LeapDayPolicy{"", calendar.LeapDayFeb28, calendar.LeapDayMar1, calendar.LeapDaySkip}).Draw(t, "leap day"),
		MonthEnd: rapid.SampledFrom([]calendar.MonthEndPolicy{"", calendar.MonthEndClamp, calendar.MonthEndSkip}).Draw(t, "month end"),
		Missing:  calendar.Missing{Month: DrawMissing(t, "month of the policies"), Day: DrawMissing(t, "day of the policies")},
	}
}

// DrawWall draws a wall time within two days of the change, mostly within three hours.
func (s Case) DrawWall(t *rapid.T, name string) calendar.WallTime {
	minutes := rapid.OneOf(rapid.IntRange(-180, 180), rapid.IntRange(-2880, 2880)).Draw(t, name)
	return s.Zone.WallTime(s.Change.Add(time.Duration(minutes) * time.Minute))
}

func (s *Case) drawRule(t *rapid.T) calendar.Recurrence {
	w := s.DrawWall(t, "wall time of the rule")
	every := rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "every")
	from := calendar.DateOf(w.Labelled().AddDate(0, 0, -rapid.IntRange(0, 40).Draw(t, "days before")))
	switch rapid.SampledFrom(strings.Fields("once yearly yearlyby monthly weekly daily rrule rrule cron cron within listed")).Draw(t, "kind") {
	case "once":
		return calendar.Once{At: w}
	case "yearly":
		return calendar.Yearly{Month: w.Date.Month, Day: w.Date.Day, At: w.Clock, Every: every, From: from}
	case "yearlyby":
		return drawYearlyBy(t, w, calendar.YearlyBy{At: w.Clock, Every: every, From: from})
	case "monthly":
		day := rapid.SampledFrom([]int{w.Date.Day, 29, 30, 31, -1, -2}).Draw(t, "day")
		return calendar.Monthly{Day: day, At: w.Clock, Every: every, From: from}
	case "weekly":
		day := rapid.IntRange(0, 6)
		on := rapid.SliceOfN(rapid.Map(day, func(n int) time.Weekday { return time.Weekday(n) }), 1, 3).Draw(t, "on")
		return calendar.Weekly{On: on, At: w.Clock, Every: every, From: from}
	case "daily":
		return calendar.Daily{At: w.Clock, Every: every, From: from}
	case "rrule":
		return s.drawRRule(t, calendar.WallTime{Date: from, Clock: w.Clock})
	case "cron":
		return drawCron(t)
	case "within":
		quiet := Quiet(w.Clock.String() + "-" + s.DrawWall(t, "end of the quiet hours").Clock.String())
		return calendar.Within{Of: drawCron(t), Window: quiet, KeepDay: rapid.Bool().Draw(t, "keep day")}
	}
	l := Listed{w}
	for range rapid.IntRange(0, 8).Draw(t, "others") {
		l = append(l, s.DrawWall(t, "other"))
	}
	slices.SortFunc(l, func(a, b calendar.WallTime) int { return a.Labelled().Compare(b.Labelled()) })
	return slices.Compact(l)
}

// drawYearlyBy completes a rule for the day of w in an invented calendar, or for the end of its month.
func drawYearlyBy(t *rapid.T, w calendar.WallTime, y calendar.YearlyBy) calendar.Recurrence {
	day, err := Lunar{}.Day(w.Date)
	if err != nil {
		t.Fatal(err)
	}
	y.System, y.Month, y.Leap, y.Day = Lunar{}, day.Month, day.Leap, day.Day
	if rapid.Bool().Draw(t, "last day of a long month") {
		y.Month, y.Leap, y.Day = 12, false, 30
	}
	y.Missing = calendar.Missing{Month: DrawMissing(t, "month"), Day: DrawMissing(t, "day")}
	return y
}

// DrawMissing draws a policy for a missing month or day, or none.
func DrawMissing(t *rapid.T, of string) calendar.MissingPolicy {
	all := []calendar.MissingPolicy{"", calendar.MissingBackward, calendar.MissingForward, calendar.MissingSkip}
	return rapid.SampledFrom(all).Draw(t, "missing "+of)
}

func (s *Case) drawRRule(t *rapid.T, start calendar.WallTime) calendar.Recurrence {
	text := rapid.SampledFrom([]string{
		"FREQ=YEARLY", "FREQ=MONTHLY;BYMONTHDAY=-1", "FREQ=MONTHLY;BYMONTHDAY=30,31;RSCALE=GREGORIAN;SKIP=BACKWARD",
		"FREQ=MONTHLY;BYMONTHDAY=29,31;RSCALE=GREGORIAN;SKIP=FORWARD", "FREQ=WEEKLY;BYDAY=SU,MO,FR", "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU,TH,SA",
		"FREQ=DAILY", "FREQ=DAILY;INTERVAL=2", "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30", "FREQ=DAILY;BYHOUR=0,23;BYMINUTE=10,50", "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=5,20,50;BYSETPOS=2,5,-1",
		"FREQ=HOURLY", "FREQ=HOURLY;INTERVAL=5", "FREQ=HOURLY;BYMINUTE=0,20,40", "FREQ=MINUTELY;INTERVAL=25", "FREQ=MINUTELY;INTERVAL=50;BYHOUR=0,1,2,3,9",
		"FREQ=SECONDLY;INTERVAL=1000",
	}).Draw(t, "rule")
	switch rapid.IntRange(0, 5).Draw(t, "end") {
	case 0:
		text += ";COUNT=" + fmt.Sprint(rapid.IntRange(1, 60).Draw(t, "count"))
	case 1:
		s.Until = s.Change.Add(time.Duration(rapid.IntRange(-3000, 3000).Draw(t, "until")) * time.Minute)
		text += s.Until.Format(";UNTIL=20060102T150405Z")
	}
	r, err := calendar.ParseRRule(text, start)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func drawCron(t *rapid.T) calendar.Recurrence {
	draw := func(name string, fields ...string) string { return rapid.SampledFrom(fields).Draw(t, name) }
	text := strings.Join([]string{
		draw("minute", "0", "*/15", "10,50", "59", "*/7", "30-45/5"),
		draw("hour", "*", "*/2", "1-3", "2,3", "0,23", "9", "2"),
		draw("day of the month", "*", "*", "*/2", "L", "1-8"),
		draw("month", "*", "*", "3,10,11", "12"),
		draw("day of the week", "*", "*", "SUN", "FRI,SAT", "SUN#1", "5L"),
	}, " ")
	c, err := calendar.ParseCron(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// DrawBounds draws bounds of the case's rule.
func (s *Case) DrawBounds(t *rapid.T) calendar.Recurrence {
	b := calendar.Bounded{Rule: s.Rule, Except: []calendar.WallTime{s.DrawWall(t, "exception")}}
	if rapid.Bool().Draw(t, "starts") {
		b.Start, b.Count = s.DrawWall(t, "start"), rapid.IntRange(0, 60).Draw(t, "count from the start")
	}
	if rapid.Bool().Draw(t, "ends") {
		b.End = s.DrawWall(t, "end")
	}
	return b
}

// Quiet returns the window outside of quiet hours such as 22:00-08:00, and the whole week if both times are equal.
func Quiet(hours string) calendar.Window {
	if from, until, _ := strings.Cut(hours, "-"); from == until {
		return calendar.Window{}
	}
	w, err := calendar.ParseQuietHours(hours)
	if err != nil {
		panic(err)
	}
	return w
}
