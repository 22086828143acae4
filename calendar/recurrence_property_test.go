package calendar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// A someSeries is a recurrence, near a change of clocks.
type someSeries struct{ calendartest.Case }

func drawSeries(t *rapid.T) someSeries { return someSeries{calendartest.DrawCase(t)} }

// drawAfter draws an instant near the change, now and then at it or off the second.
func (s someSeries) drawAfter(t *rapid.T) time.Time {
	seconds := rapid.OneOf(rapid.IntRange(-90*minute, 90*minute), rapid.IntRange(-2*day, 2*day), rapid.Just(0), rapid.Just(-1)).Draw(t, "after")
	nanos := rapid.SampledFrom([]int{0, 0, 1, 999_999_999}).Draw(t, "nanoseconds")
	return s.Change.Add(time.Duration(seconds)*time.Second + time.Duration(nanos))
}

// A resolvedSlot is a slot of a series where clocks put it.
type resolvedSlot struct {
	calendar.Slot
	label, instant int64
	moved          bool
}

// slots lists all slots of a series with a wall time from two days before an
// instant until two days after the first that comes after it. A count leaves out what clocks
// skip in the zone, and a window opens at the end of a gap.
func (s someSeries) slots(t *rapid.T, after time.Time) []resolvedSlot {
	const twoDays = 48 * time.Hour
	rule := calendar.InZone(s.Rule, s.Zone, s.Policies) // TestACountYieldsTheFirstOccurrences proves it
	w := calendar.WallTimeOf(s.Zone.WallTime(after).Labelled().Add(-twoDays))
	var list []resolvedSlot
	enough := false
	var last time.Time
	for {
		slot, err := rule.After(w, s.Policies)
		if errors.Is(err, calendar.ErrNoOccurrence) || enough && slot.Wall.Labelled().After(last) {
			return list
		}
		if err != nil || !w.Before(slot.Wall) {
			t.Fatalf("%+v after %s = %+v, %v", s.Rule, w, slot, err)
		}
		w = slot.Wall
		r, err := s.Zone.Resolve(w, s.Policies)
		if errors.Is(err, calendar.ErrSkippedWallTime) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, resolvedSlot{slot, w.Labelled().Unix(), r.Instant.Unix(), r.Reading == calendar.ShownNever})
		if !enough && r.Instant.After(after) && w.Labelled().After(s.Zone.WallTime(after).Labelled()) {
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
		return slot, s.Until.IsZero() || !at.After(s.Until)
	}
	return resolvedSlot{}, false
}

// givesWayTo says whether a slot that was moved meets or passes another one, which
// was not moved, or was and comes first.
func (s resolvedSlot) givesWayTo(other resolvedSlot) bool {
	meetsOrPasses := (s.label < other.label) != (s.instant < other.instant)
	return s.label != other.label && s.moved && meetsOrPasses && (!other.moved || other.label < s.label)
}

func TestNextIsTheFirstSlotThatIsNotDropped(t *testing.T) {
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

		got, err := calendar.Next(s.Rule, s.Zone, s.Policies, after)

		if !ok {
			if !errors.Is(err, calendar.ErrNoOccurrence) {
				t.Fatalf("%+v in %s after %v: %+v, %v; want ErrNoOccurrence", s.Rule, s.Zone, after, got, err)
			}
			return
		}
		policies := s.Policies
		policies.Missing = want.Missing
		if err != nil || got.Key != want.Key || got.Wall != want.Wall || got.Named != want.Named || got.Zone != s.Zone || got.Policies != policies {
			t.Fatalf("%+v in %s after %v: %+v, %v; want %+v", s.Rule, s.Zone, after, got, err, want)
		}
		after = time.Unix(want.instant, 0)
	}
}

// A count of n under the policy skip is the first n occurrences of the same rule without a count:
// those never ask what a count leaves out.
func TestACountYieldsTheFirstOccurrences(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		c := calendartest.DrawCase(t)
		c.Policies.Gap = calendar.GapSkip
		start, count := c.DrawWall(t, "start"), rapid.IntRange(1, 60).Draw(t, "count")
		text := rapid.SampledFrom([]string{"FREQ=DAILY", "FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=0,30", "FREQ=HOURLY", "FREQ=MINUTELY;INTERVAL=25", "FREQ=WEEKLY;BYDAY=SU,FR"}).Draw(t, "rule")
		read := func(text string) calendar.RRule {
			r, err := calendar.ParseRRule(text, start)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		endless, counted := read(text), read(fmt.Sprintf("%s;COUNT=%d", text, count))
		var want []string
		for next, err := range calendar.Occurrences(endless, c.Zone, c.Policies, time.Time{}) {
			if err != nil {
				t.Fatal(err)
			}
			if want = append(want, next.Wall.String()); len(want) == count {
				break
			}
		}
		for name, rule := range map[string]calendar.Recurrence{
			"RRULE": counted, "bounded": calendar.Bounded{Rule: endless, Start: start, Count: count},
			"bounded RRULE": calendar.Bounded{Rule: counted, Start: start, Count: count + 1},
		} {
			var got []string
			for next, err := range calendar.Occurrences(rule, c.Zone, c.Policies, time.Time{}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, next.Wall.String())
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s of %s from %s in %s: %q, want %q", name, text, start, c.Zone, got, want)
			}
		}
	})
}

// What Bounded knows of our own rules must not change what it yields.
func TestBoundedTreatsAHostsRuleAlike(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := drawSeries(t)
		asked := 0
		hidden := s
		hidden.Rule = opaque{s.Rule, &asked}
		b := s.DrawBounds(t).(calendar.Bounded)
		same := b
		same.Rule = hidden.Rule
		w := s.DrawWall(t, "after")
		for range 10 {
			want, errWant := same.After(w, s.Policies)
			got, err := b.After(w, s.Policies)
			if got != want || errors.Is(err, calendar.ErrNoOccurrence) != errors.Is(errWant, calendar.ErrNoOccurrence) {
				t.Fatalf("%+v after %s: %+v, %v; want %+v, %v", b, w, got, err, want, errWant)
			}
			if err != nil {
				return
			}
			w = got.Wall
		}
	})
}

func TestNextAscends(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		s := drawSeries(t)
		after, key := s.drawAfter(t), ""
		for range 30 {
			got, err := calendar.Next(s.Rule, s.Zone, s.Policies, after)
			again, errAgain := calendar.Next(s.Rule, s.Zone, s.Policies, after)
			if got != again || fmt.Sprint(err) != fmt.Sprint(errAgain) {
				t.Fatalf("%+v after %v: %+v, %v; asked again: %+v, %v", s.Rule, after, got, err, again, errAgain)
			}
			if errors.Is(err, calendar.ErrNoOccurrence) {
				return
			}
			if err != nil {
				t.Fatalf("%+v after %v: %v", s.Rule, after, err)
			}
			r, err := s.Zone.Resolve(got.Wall, s.Policies)
			if err != nil || !r.Instant.After(after) || got.Key <= key || len(got.Key) > 100 {
				t.Fatalf("%+v after %v and key %q: %+v at %v, %v", s.Rule, after, key, got, r.Instant, err)
			}
			after, key = r.Instant, got.Key
		}
	})
}

func FuzzNext(f *testing.F) {
	for i, odd := range calendartest.OddChanges {
		at := instant(f, odd.At).Unix()
		for _, text := range []string{"FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30", "FREQ=HOURLY", "FREQ=MONTHLY;BYMONTHDAY=31;RSCALE=GREGORIAN;SKIP=FORWARD", "*/15 * * * *", "0 0 29 2 *"} {
			f.Add(text, uint8(i), at-1)
		}
	}
	f.Add("* * * * * *", uint8(0), instant(f, calendartest.OddChanges[0].At).Unix()-1)
	f.Add("FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", uint8(0), int64(-1<<63))
	f.Add("FREQ=YEARLY;UNTIL=20260101T000000Z", uint8(1), int64(1<<63-1))
	f.Fuzz(func(t *testing.T, text string, n uint8, sec int64) {
		z, after := zone(t, calendartest.OddChanges[int(n)%len(calendartest.OddChanges)].Zone), time.Unix(sec, 0)
		var rule calendar.Recurrence
		if strings.Contains(strings.ToUpper(text), "FREQ") {
			r, err := calendar.ParseRRule(text, z.WallTime(after.Add(-90*time.Minute)))
			checkTyped(t, err)
			rule = r
		} else {
			c, err := calendar.ParseCron(text)
			checkTyped(t, err)
			rule = c
		}
		for _, p := range []calendar.Policies{{}, {Gap: calendar.GapBackward, Fold: calendar.FoldSecond}, {Gap: calendar.GapReject, Fold: calendar.FoldReject}} {
			got, err := calendar.Next(rule, z, p, after)
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
	known := errors.Is(err, calendar.ErrNoOccurrence) || errors.As(err, new(*calendar.InvalidRecurrenceError)) || errors.As(err, new(*calendar.WallTimeError))
	if err != nil && !known {
		t.Fatalf("untyped error %v", err)
	}
}
