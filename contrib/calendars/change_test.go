package calendars_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// used is what a series has used after the event of a slot ended at a wall time.
func used(slot calendar.Slot, ended calendar.WallTime) almanac.UsedKeys {
	return almanac.UsedKeys{{Unit: slot.Unit, Key: slot.Key, Nominal: slot.Wall, Ended: ended}}
}

// owed returns the slots of a rule after a wall time that are left out, and the first that is not.
func owed(t rapid.TB, keys almanac.UsedKeys, rule calendar.Recurrence, now calendar.WallTime) (left []calendar.Slot, next calendar.Slot) {
	t.Helper()
	for range 10 {
		slot, err := rule.After(now, calendar.Policies{})
		if err != nil {
			t.Fatal(err)
		}
		if !keys.Has(calendar.Occurrence{Key: slot.Key, Unit: slot.Unit, Wall: slot.Wall}) {
			return left, slot
		}
		left, now = append(left, slot), slot.Wall
	}
	t.Fatalf("%+v is used for ever", rule)
	return nil, calendar.Slot{}
}

func wall(t testing.TB, text string) calendar.WallTime {
	t.Helper()
	w, err := calendar.ParseWallTime(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Rows 18 to 22, 24 and 25 of the table of docs/adr/0065-used-days.md: an event of one rule has ended,
// then there is another. TestACorrectedTableMovesBirthdays is row 23.
func TestChangesOfTheCalendar(t *testing.T) {
	t.Parallel()
	march := calendar.Yearly{Month: time.March, Day: 15, At: calendar.Clock{Hour: 9}}
	adar, shaban := on(calendars.Hebrew(), 6, false, 18), on(calendars.UmmAlQura(), 8, false, 17)
	dey := on(calendars.Persian(), 10, false, 11)
	back, forth := on(calendars.Chinese(), 6, leap, 10), on(calendars.Chinese(), 6, leap, 10)
	forth.Missing = calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingForward}
	tests := []struct {
		name   string
		rule   calendar.Recurrence
		after  string // the slot after this wall time is used
		key    string
		ended  string // empty: at its wall time
		change string
		to     calendar.Recurrence
		next   string
	}{
		{"18: run before its time, then Hebrew", march, "2027-01-01T00:00:00", "2027", "2026-12-01T12:00:00", "2026-12-01T13:00:00", adar, "5788 2028-03-16"},
		{"19: Hebrew, then Gregorian", adar, "2026-01-01T00:00:00", "5786", "", "2026-03-10T10:00:00", march, "2027 2027-03-15"},
		{"20: Gregorian, then Hebrew", march, "2026-01-01T00:00:00", "2026", "", "2026-04-01T10:00:00", adar, "5787 2027-03-27"},
		{"21: Gregorian, then Umm al-Qura", march, "2026-01-01T00:00:00", "2026", "", "2026-04-01T10:00:00", shaban, "1448 2027-01-25"},
		{"22: Chinese, then Korean", on(calendars.Chinese(), 1, false, 1), "2027-01-01T00:00:00", "2027", "", "2027-02-06T10:00:00", on(calendars.Korean(), 1, false, 1), "2028 2028-01-27"},
		{"24: Persian, twice in a Gregorian year", dey, "2027-12-01T00:00:00", "1406", "", "2028-01-01T10:00:00", dey, "1407 2028-12-31"},
		{"25: backward, then forward", back, "2025-08-01T00:00:00", "2025", "", "2025-12-01T10:00:00", forth, "2026 2026-08-22"},
	}
	for _, tt := range tests {
		slot, err := tt.rule.After(wall(t, tt.after), calendar.Policies{})
		if err != nil || slot.Key != tt.key {
			t.Fatalf("%s: %+v, %v; want the key %s", tt.name, slot, err, tt.key)
		}
		ended := slot.Wall
		if tt.ended != "" {
			ended = wall(t, tt.ended)
		}
		if _, next := owed(t, used(slot, ended), tt.to, wall(t, tt.change)); next.Key+" "+next.Wall.Date.String() != tt.next {
			t.Errorf("%s: %+v, want %s", tt.name, next, tt.next)
		}
	}
}

// birthday is a yearly rule for a birth date, by a calendar or by the Gregorian one.
func birthday(t *rapid.T, name string, born calendar.Date) calendar.Recurrence {
	if name == "" {
		return calendar.Yearly{Month: born.Month, Day: born.Day, At: calendar.Clock{Hour: 9}}
	}
	s, err := calendars.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	day, err := s.Day(born)
	if err != nil {
		t.Fatal(err)
	}
	return on(s, day.Month, day.Leap, day.Day)
}

// A user who changes the calendar is greeted once for each birthday: the next greeting is at least half of
// the shortest year after the last. One birthday at most is left out, and it is the nearest to the last.
func TestAnotherCalendarGreetsNobodyTwiceAndLeavesOneOut(t *testing.T) {
	t.Parallel()
	names := append(calendars.Names(), "")
	rapid.Check(t, func(t *rapid.T) {
		born := calendar.Date{Year: 1920, Month: time.January, Day: 1}.AddDays(rapid.IntRange(0, 100*365).Draw(t, "born"))
		from, to := rapid.SampledFrom(names).Draw(t, "from"), rapid.SampledFrom(names).Draw(t, "to")
		if from == to {
			return
		}
		early, changed := rapid.IntRange(0, 100).Draw(t, "early"), rapid.IntRange(0, 200).Draw(t, "changed")
		greetings, rule := birthday(t, from, born), birthday(t, to, born)
		last := calendar.Slot{Wall: calendar.WallTime{Date: born}}
		for range 70 {
			var err error
			if last, err = greetings.After(last.Wall, calendar.Policies{}); err != nil {
				t.Fatal(err)
			}
			ended, now := last.Wall, last.Wall
			ended.Date = ended.Date.AddDays(-early)
			now.Date = ended.Date.AddDays(changed)
			left, next := owed(t, used(last, ended), rule, now)
			if days := last.Wall.Date.DaysUntil(next.Wall.Date); days <= 176 || days > 200+385 || len(left) > 1 {
				t.Fatalf("%s, %s to %s: greeted on %s, then on %s; left out: %+v", born, from, to, last.Wall, next.Wall, left)
			}
			for _, slot := range left {
				before, err := rule.After(calendar.WallTime{Date: last.Wall.Date.AddDays(-175)}, calendar.Policies{})
				if err != nil || before != slot && before.Wall.Date.DaysUntil(last.Wall.Date) < last.Wall.Date.DaysUntil(slot.Wall.Date) {
					t.Fatalf("%s, %s to %s: greeted on %s; %s is left out, but %s is nearer, %v", born, from, to, last.Wall, slot.Wall, before.Wall, err)
				}
			}
		}
	})
}
