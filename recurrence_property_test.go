package almanac_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
)

// oddChanges are changes of clocks that differ in width, hour and company.
var oddChanges = []struct{ zone, at string }{
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
	{"Pacific/Kwajalein", "1993-08-21T12:00:00Z"}, // so here
	{"America/Juneau", "1867-10-19T00:31:13Z"},    // a day is repeated
	{"America/Recife", "2000-10-08T03:00:00Z"},    // again a week later
	{"Africa/Freetown", "1939-09-01T01:00:00Z"},   // again four days later
	{"Asia/Tokyo", "2026-01-01T00:00:00Z"},        // none
}

// A someSeries is a recurrence, near a change of clocks.
type someSeries struct {
	rule     almanac.Recurrence
	until    time.Time // the last instant of the rule; zero for none
	zone     almanac.Timezone
	change   time.Time
	policies almanac.Policies
}

func drawSeries(t *rapid.T) someSeries {
	odd := rapid.SampledFrom(oddChanges).Draw(t, "change")
	z, err := almanac.LoadTimezone(odd.zone)
	if err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339, odd.at)
	if err != nil {
		t.Fatal(err)
	}
	s := someSeries{zone: z, change: at, policies: drawPolicies(t)}
	s.rule = s.drawRule(t)
	if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
		s.rule = s.drawBounds(t)
	}
	return s
}

func drawPolicies(t *rapid.T) almanac.Policies {
	return almanac.Policies{
		Gap:      rapid.SampledFrom([]almanac.GapPolicy{"", almanac.GapForward, almanac.GapBackward, almanac.GapBoundary, almanac.GapSkip}).Draw(t, "gap"),
		Fold:     rapid.SampledFrom([]almanac.FoldPolicy{"", almanac.FoldFirst, almanac.FoldSecond}).Draw(t, "fold"),
		LeapDay:  rapid.SampledFrom([]almanac.LeapDayPolicy{"", almanac.LeapDayFeb28, almanac.LeapDayMar1, almanac.LeapDaySkip}).Draw(t, "leap day"),
		MonthEnd: rapid.SampledFrom([]almanac.MonthEndPolicy{"", almanac.MonthEndClamp, almanac.MonthEndSkip}).Draw(t, "month end"),
	}
}

// drawWall draws a wall time within two days of the change, most often within
// three hours.
func (s someSeries) drawWall(t *rapid.T, name string) almanac.WallTime {
	minutes := rapid.OneOf(rapid.IntRange(-180, 180), rapid.IntRange(-2880, 2880)).Draw(t, name)
	return s.zone.WallTime(s.change.Add(time.Duration(minutes) * time.Minute))
}

func (s *someSeries) drawRule(t *rapid.T) almanac.Recurrence {
	w := s.drawWall(t, "wall time of the rule")
	every := rapid.SampledFrom([]int{0, 1, 1, 2, 3}).Draw(t, "every")
	from := almanac.DateOf(w.Labelled().AddDate(0, 0, -rapid.IntRange(0, 40).Draw(t, "days before")))
	switch rapid.SampledFrom(strings.Fields("once yearly monthly weekly daily rrule rrule cron cron listed")).Draw(t, "kind") {
	case "once":
		return almanac.Once{At: w}
	case "yearly":
		return almanac.Yearly{Month: w.Date.Month, Day: w.Date.Day, At: w.Clock, Every: every, From: from}
	case "monthly":
		day := rapid.SampledFrom([]int{w.Date.Day, 29, 30, 31, -1, -2}).Draw(t, "day")
		return almanac.Monthly{Day: day, At: w.Clock, Every: every, From: from}
	case "weekly":
		day := rapid.IntRange(0, 6)
		on := rapid.SliceOfN(rapid.Map(day, func(n int) time.Weekday { return time.Weekday(n) }), 1, 3).Draw(t, "on")
		return almanac.Weekly{On: on, At: w.Clock, Every: every, From: from}
	case "daily":
		return almanac.Daily{At: w.Clock, Every: every, From: from}
	case "rrule":
		return s.drawRRule(t, almanac.WallTime{Date: from, Clock: w.Clock})
	case "cron":
		return drawCron(t)
	}
	l := listed{w}
	for range rapid.IntRange(0, 8).Draw(t, "others") {
		l = append(l, s.drawWall(t, "other"))
	}
	slices.SortFunc(l, func(a, b almanac.WallTime) int { return a.Labelled().Compare(b.Labelled()) })
	return slices.Compact(l)
}

func (s *someSeries) drawRRule(t *rapid.T, start almanac.WallTime) almanac.Recurrence {
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
		s.until = s.change.Add(time.Duration(rapid.IntRange(-3000, 3000).Draw(t, "until")) * time.Minute)
		text += s.until.Format(";UNTIL=20060102T150405Z")
	}
	r, err := almanac.ParseRRule(text, start)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func drawCron(t *rapid.T) almanac.Recurrence {
	draw := func(name string, fields ...string) string { return rapid.SampledFrom(fields).Draw(t, name) }
	text := strings.Join([]string{
		draw("minute", "0", "*/15", "10,50", "59", "*/7", "30-45/5"),
		draw("hour", "*", "*/2", "1-3", "2,3", "0,23", "9", "2"),
		draw("day of the month", "*", "*", "*/2", "L", "1-8"),
		draw("month", "*", "*", "3,10,11", "12"),
		draw("day of the week", "*", "*", "SUN", "FRI,SAT", "SUN#1", "5L"),
	}, " ")
	c, err := almanac.ParseCron(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *someSeries) drawBounds(t *rapid.T) almanac.Recurrence {
	b := almanac.Bounded{Rule: s.rule, Except: []almanac.WallTime{s.drawWall(t, "exception")}}
	if rapid.Bool().Draw(t, "starts") {
		b.Start, b.Count = s.drawWall(t, "start"), rapid.IntRange(0, 60).Draw(t, "count from the start")
	}
	if rapid.Bool().Draw(t, "ends") {
		b.End = s.drawWall(t, "end")
	}
	return b
}

// drawAfter draws an instant near the change, now and then at it or off the second.
func (s someSeries) drawAfter(t *rapid.T) time.Time {
	seconds := rapid.OneOf(rapid.IntRange(-90*minute, 90*minute), rapid.IntRange(-2*day, 2*day), rapid.Just(0), rapid.Just(-1)).Draw(t, "after")
	nanos := rapid.SampledFrom([]int{0, 0, 1, 999_999_999}).Draw(t, "nanoseconds")
	return s.change.Add(time.Duration(seconds)*time.Second + time.Duration(nanos))
}

// A resolvedSlot is a slot of a series where clocks put it.
type resolvedSlot struct {
	almanac.Slot
	label, instant int64
	moved          bool
}

// slots lists all slots of a series with a wall time from two days before an
// instant until two days after the first that comes after it.
func (s someSeries) slots(t *rapid.T, after time.Time) []resolvedSlot {
	const twoDays = 48 * time.Hour
	w := almanac.WallTimeOf(s.zone.WallTime(after).Labelled().Add(-twoDays))
	var list []resolvedSlot
	enough := false
	var last time.Time
	for {
		slot, err := s.rule.After(w, s.policies)
		if errors.Is(err, almanac.ErrNoOccurrence) || enough && slot.Wall.Labelled().After(last) {
			return list
		}
		if err != nil || !w.Before(slot.Wall) {
			t.Fatalf("%+v after %s = %+v, %v", s.rule, w, slot, err)
		}
		w = slot.Wall
		r, err := s.zone.Resolve(w, s.policies)
		if errors.Is(err, almanac.ErrSkippedWallTime) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, resolvedSlot{slot, w.Labelled().Unix(), r.Instant.Unix(), r.Reading == almanac.ShownNever})
		if !enough && r.Instant.After(after) && w.Labelled().After(s.zone.WallTime(after).Labelled()) {
			enough, last = true, w.Labelled().Add(twoDays)
		}
	}
}

// first is what Next documents, word for word: of the slots that do not give way,
// the first whose instant comes after the given one.
func (s someSeries) first(t *rapid.T, after time.Time) (resolvedSlot, bool) {
	list := s.slots(t, after)
	for _, slot := range list {
		at := time.Unix(slot.instant, 0)
		if !at.After(after) || slices.ContainsFunc(list, slot.givesWayTo) {
			continue
		}
		return slot, s.until.IsZero() || !at.After(s.until)
	}
	return resolvedSlot{}, false
}

// givesWayTo says whether a slot that was moved meets or passes another one, which
// was not moved, or was and comes first.
func (s resolvedSlot) givesWayTo(other resolvedSlot) bool {
	meetsOrPasses := (s.label < other.label) != (s.instant < other.instant)
	return s.label != other.label && s.moved && meetsOrPasses && (!other.moved || other.label < s.label)
}

func TestNextIsTheFirstOfAllSlotsThatDoNotGiveWay(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := drawSeries(t)
		for range 5 {
			s.checkNext(t, s.drawAfter(t))
		}
	})
}

// checkNext compares four steps from an instant on with what is documented.
func (s someSeries) checkNext(t *rapid.T, after time.Time) {
	for range 4 {
		want, ok := s.first(t, after)

		got, err := almanac.Next(s.rule, s.zone, s.policies, after)

		if !ok {
			if !errors.Is(err, almanac.ErrNoOccurrence) {
				t.Fatalf("%+v in %s after %v: %+v, %v; want ErrNoOccurrence", s.rule, s.zone, after, got, err)
			}
			return
		}
		if err != nil || got.Key != want.Key || got.Wall != want.Wall || got.Named != want.Named || got.Zone != s.zone || got.Policies != s.policies {
			t.Fatalf("%+v in %s after %v: %+v, %v; want %+v", s.rule, s.zone, after, got, err, want)
		}
		after = time.Unix(want.instant, 0)
	}
}

// What Bounded knows of our own rules must not change what it yields.
func TestBoundedYieldsTheSameOfARuleOfTheHosts(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := drawSeries(t)
		asked := 0
		hidden := s
		hidden.rule = opaque{s.rule, &asked}
		b := s.drawBounds(t).(almanac.Bounded)
		same := b
		same.Rule = hidden.rule
		w := s.drawWall(t, "after")
		for range 10 {
			want, errWant := same.After(w, s.policies)
			got, err := b.After(w, s.policies)
			if got != want || errors.Is(err, almanac.ErrNoOccurrence) != errors.Is(errWant, almanac.ErrNoOccurrence) {
				t.Fatalf("%+v after %s: %+v, %v; want %+v, %v", b, w, got, err, want, errWant)
			}
			if err != nil {
				return
			}
			w = got.Wall
		}
	})
}

func TestNextWalksUpwards(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := drawSeries(t)
		after, key := s.drawAfter(t), ""
		for range 30 {
			got, err := almanac.Next(s.rule, s.zone, s.policies, after)
			again, errAgain := almanac.Next(s.rule, s.zone, s.policies, after)
			if got != again || fmt.Sprint(err) != fmt.Sprint(errAgain) {
				t.Fatalf("%+v after %v: %+v, %v; asked again: %+v, %v", s.rule, after, got, err, again, errAgain)
			}
			if errors.Is(err, almanac.ErrNoOccurrence) {
				return
			}
			if err != nil {
				t.Fatalf("%+v after %v: %v", s.rule, after, err)
			}
			r, err := s.zone.Resolve(got.Wall, s.policies)
			if err != nil || !r.Instant.After(after) || got.Key <= key || len(got.Key) > 100 {
				t.Fatalf("%+v after %v and key %q: %+v at %v, %v", s.rule, after, key, got, r.Instant, err)
			}
			after, key = r.Instant, got.Key
		}
	})
}

func FuzzNext(f *testing.F) {
	for i, odd := range oddChanges {
		at := instant(f, odd.at).Unix()
		for _, text := range []string{"FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30", "FREQ=HOURLY", "FREQ=MONTHLY;BYMONTHDAY=31;RSCALE=GREGORIAN;SKIP=FORWARD", "*/15 * * * *", "0 0 29 2 *"} {
			f.Add(text, uint8(i), at-1)
		}
	}
	f.Add("* * * * * *", uint8(0), instant(f, oddChanges[0].at).Unix()-1)
	f.Add("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", uint8(0), int64(-1<<63))
	f.Add("FREQ=YEARLY;UNTIL=20260101T000000Z", uint8(1), int64(1<<63-1))
	f.Fuzz(func(t *testing.T, text string, n uint8, sec int64) {
		z, after := zone(t, oddChanges[int(n)%len(oddChanges)].zone), time.Unix(sec, 0)
		var rule almanac.Recurrence
		if strings.Contains(strings.ToUpper(text), "FREQ") {
			r, err := almanac.ParseRRule(text, z.WallTime(after.Add(-90*time.Minute)))
			checkTyped(t, err)
			rule = r
		} else {
			c, err := almanac.ParseCron(text)
			checkTyped(t, err)
			rule = c
		}
		for _, p := range []almanac.Policies{{}, {Gap: almanac.GapBackward, Fold: almanac.FoldSecond}, {Gap: almanac.GapReject, Fold: almanac.FoldReject}} {
			got, err := almanac.Next(rule, z, p, after)
			if checkTyped(t, err); err != nil {
				continue
			}
			if r, err := z.Resolve(got.Wall, p); err != nil || !r.Instant.After(after) || got.Key == "" {
				t.Fatalf("%q in %s after %v: %+v at %v, %v", text, z, after, got, r.Instant, err)
			}
		}
	})
}

// checkTyped fails for an error that a caller could not tell from others.
func checkTyped(t *testing.T, err error) {
	t.Helper()
	known := errors.Is(err, almanac.ErrNoOccurrence) || errors.As(err, new(*almanac.InvalidRecurrenceError)) || errors.As(err, new(*almanac.WallTimeError))
	if err != nil && !known {
		t.Fatalf("untyped error %v", err)
	}
}
