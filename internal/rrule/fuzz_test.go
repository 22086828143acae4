package rrule_test

import (
	"errors"
	"testing"
	"time"

	"github.com/almanac-go/almanac/internal/rrule"
)

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"FREQ=DAILY;COUNT=10", "rrule:freq=weekly;byday=mo,we;until=19971224T000000Z;wkst=su",
		"FREQ=MONTHLY;INTERVAL=2;BYDAY=1SU,-1SU,TU;BYSETPOS=-2", "FREQ=YEARLY;BYWEEKNO=20,-1;BYHOUR=8;BYMINUTE=30;BYSECOND=0",
		"FREQ=YEARLY;BYMONTH=1,12;BYMONTHDAY=-31,31;RSCALE=GREGORIAN;SKIP=FORWARD", "FREQ=HOURLY;BYYEARDAY=+366,-366;UNTIL=20270101",
		"FREQ=", "FREQ=DAILY;COUNT=9223372036854775808", "FREQ=DAILY;;=;X=", "BYDAY=+-1MO,\xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := rrule.Parse(text)
		var bad *rrule.Error
		if err != nil {
			if !errors.As(err, &bad) || len(bad.Problems) == 0 || len(bad.Problems) > 21 || rule != (rrule.Rule{}) {
				t.Errorf("Parse(%q) = %q, %v: want no rule, and from 1 to 21 problems", text, rule, err)
			}
			return
		}
		again, err := rrule.Parse(rule.String())
		if err != nil || again != rule || again.String() != rule.String() {
			t.Errorf("Parse(%q) = %q, which is read back as %q, %v", text, rule, again, err)
		}
		if _, _, ok := rule.Until(); ok && rule.String() == "" {
			t.Errorf("Parse(%q) has an end, but no text", text)
		}
	})
}

func FuzzNext(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text, int64(1_777_626_000), int64(0))
	}
	for _, text := range []string{
		"FREQ=MONTHLY;BYMONTHDAY=1,31;BYHOUR=9,17;BYSETPOS=1,-1;RSCALE=GREGORIAN;SKIP=FORWARD", "FREQ=WEEKLY;WKST=SU;BYDAY=SU,MO;BYSETPOS=-1",
		"FREQ=YEARLY;BYWEEKNO=1,53,-1;BYDAY=MO,SU", "FREQ=MINUTELY;INTERVAL=90;UNTIL=20991231T000000Z", "FREQ=SECONDLY;BYSETPOS=-1;BYSECOND=7;COUNT=30",
	} {
		f.Add(text, int64(-62_135_596_800), int64(1<<40))
		f.Add(text, int64(253_402_300_000), int64(-5))
	}
	f.Fuzz(func(t *testing.T, text string, from, ahead int64) {
		rule, err := rrule.Parse(text)
		if err != nil {
			return
		}
		start, after := time.Unix(from, 0).UTC(), time.Unix(from+ahead, 0).UTC()
		end, utc, ok := rule.Until()
		for range 5 {
			slot, more := rule.Next(start, after)
			if again, same := rule.Next(start, after); again != slot || same != more {
				t.Fatalf("%s from %v: after %v comes %v, and then %v", rule, start, after, slot, again)
			}
			if !more {
				break
			}
			if !slot.Wall.After(after) || slot.Wall.Before(start) || slot.Wall.Location() != time.UTC || slot.Wall.Year() > 9999 {
				t.Fatalf("%s from %v: after %v comes %v", rule, start, after, slot.Wall)
			}
			if ok && (!utc && slot.Wall.After(end) || slot.Wall.After(end.Add(48*time.Hour))) {
				t.Fatalf("%s from %v: %v comes after the end", rule, start, slot.Wall)
			}
			if near, ok := rule.Next(start, slot.Wall.Add(-time.Second)); !ok || near != slot {
				t.Fatalf("%s from %v: after %v comes %v, but just before that %v", rule, start, after, slot, near)
			}
			if moved := slot.Day != 0; moved && time.Date(slot.Year, slot.Month, slot.Day, 0, 0, 0, 0, time.UTC).Day() == slot.Day {
				t.Fatalf("%s from %v: %v was moved from a day that exists", rule, start, slot)
			}
			after = slot.Wall
		}
	})
}
