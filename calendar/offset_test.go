package calendar_test

import (
	"cmp"
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

func TestOffsetsAnnounceSlots(t *testing.T) {
	t.Parallel()

	nine := calendar.Clock{Hour: 9}
	first := calendar.Monthly{Day: 1, At: calendar.Clock{Hour: 14}}
	leap := calendar.Yearly{Month: time.February, Day: 29, At: nine}
	hourly := rrule(t, "FREQ=DAILY;BYHOUR=0,9,23", "2027-01-01T00:00:00")
	tests := map[string]struct {
		offset calendar.Offset
		after  string
		want   string // the key, what clocks show, what is announced
	}{
		"three days before":          {calendar.Offset{Of: first, Days: -3, At: nine}, "2027-02-20T00:00:00", "2027-03 2027-02-26T09:00:00 2027-03-01T14:00:00"},
		"on the moment before":       {calendar.Offset{Of: first, Days: -3, At: nine}, "2027-02-26T08:59:59", "2027-03 2027-02-26T09:00:00 2027-03-01T14:00:00"},
		"on the moment":              {calendar.Offset{Of: first, Days: -3, At: nine}, "2027-02-26T09:00:00", "2027-04 2027-03-29T09:00:00 2027-04-01T14:00:00"},
		"between it and the day":     {calendar.Offset{Of: first, Days: -3, At: nine}, "2027-02-28T09:00:00", "2027-04 2027-03-29T09:00:00 2027-04-01T14:00:00"},
		"on the day":                 {calendar.Offset{Of: first, At: nine}, "2027-02-28T09:00:00", "2027-03 2027-03-01T09:00:00 2027-03-01T14:00:00"},
		"later on the day":           {calendar.Offset{Of: first, At: calendar.Clock{Hour: 20}}, "2027-03-01T15:00:00", "2027-03 2027-03-01T20:00:00 2027-03-01T14:00:00"},
		"two days after":             {calendar.Offset{Of: first, Days: 2, At: nine}, "2027-03-02T00:00:00", "2027-03 2027-03-03T09:00:00 2027-03-01T14:00:00"},
		"longer than a month before": {calendar.Offset{Of: first, Days: -40, At: nine}, "2027-02-20T00:00:00", "2027-04 2027-02-20T09:00:00 2027-04-01T14:00:00"},
		"a leap day that moved":      {calendar.Offset{Of: leap, Days: -3, At: nine}, "2027-01-01T00:00:00", "2027 2027-02-25T09:00:00 2027-02-28T09:00:00"},
		"the first of a day":         {calendar.Offset{Of: hourly, Days: -1, At: nine}, "2027-03-01T00:00:00", "2027-03-02T00:00:00 2027-03-01T09:00:00 2027-03-02T00:00:00"},
		"and only that":              {calendar.Offset{Of: hourly, Days: -1, At: nine}, "2027-03-01T09:00:00", "2027-03-03T00:00:00 2027-03-02T09:00:00 2027-03-03T00:00:00"},
		"the first day of all":       {calendar.Offset{Of: calendar.Daily{At: nine}, Days: -1, At: nine}, "", "0001-01-02 0001-01-01T09:00:00 0001-01-02T09:00:00"},
		"the last day of all":        {calendar.Offset{Of: calendar.Daily{At: nine}, Days: 1, At: nine}, "9999-12-31T08:00:00", "9999-12-30 9999-12-31T09:00:00 9999-12-30T09:00:00"},
		"none beyond":                {calendar.Offset{Of: calendar.Daily{At: nine}, Days: 1, At: nine}, "9999-12-31T09:00:00", ""},
		"of an announcement":         {calendar.Offset{Of: calendar.Offset{Of: first, Days: -3, At: nine}, Days: -1, At: nine}, "2027-02-20T00:00:00", "2027-03 2027-02-25T09:00:00 2027-03-01T14:00:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			slot, err := tt.offset.After(wallOrBeginning(t, tt.after), calendar.Policies{})

			got := strings.Join([]string{slot.Key, slot.Wall.String(), slot.Announces.String()}, " ")
			if tt.want == "" {
				if !errors.Is(err, calendar.ErrNoOccurrence) {
					t.Errorf("after %s: %s, %v; want ErrNoOccurrence", tt.after, got, err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("after %s: %s, %v; want %s", tt.after, got, err, tt.want)
			}
		})
	}
}

func TestOffsetsNameTheSlotTheyAnnounce(t *testing.T) {
	t.Parallel()

	nine := calendar.Clock{Hour: 9}
	leap := calendar.Yearly{Month: time.February, Day: 29, At: nine}
	rent := calendar.Monthly{Day: 15, At: nine}
	tests := map[string]struct {
		offset   calendar.Offset
		zone     string
		policies calendar.Policies
		after    string
		named    calendar.Date
		reason   string
	}{
		"a day before":        {calendar.Offset{Of: rent, Days: -1, At: nine}, "UTC", calendar.Policies{}, "2027-03-01T00:00:00Z", calendar.Date{}, "1 day before 15 March"},
		"days after":          {calendar.Offset{Of: rent, Days: 3, At: nine}, "UTC", calendar.Policies{}, "2027-03-01T00:00:00Z", calendar.Date{}, "3 days after 15 March"},
		"the day itself":      {calendar.Offset{Of: rent, At: calendar.Clock{Hour: 7}}, "UTC", calendar.Policies{}, "2027-03-01T00:00:00Z", calendar.Date{}, "on 15 March"},
		"of a moved leap day": {calendar.Offset{Of: leap, Days: -3, At: nine}, "UTC", calendar.Policies{}, "2027-01-01T00:00:00Z", date(2027, 2, 29), "3 days before 28 February; 29 February moved to 28 February"},
		"into a gap":          {calendar.Offset{Of: calendar.Monthly{Day: 15, At: nine}, Days: -1, At: calendar.Clock{Hour: 2, Minute: 30}}, "America/New_York", calendar.Policies{}, "2027-03-01T00:00:00Z", calendar.Date{}, "1 day before 15 March; moved forward 60 min because clocks skip 02:00–03:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for next, err := range calendar.Occurrences(tt.offset, zone(t, tt.zone), tt.policies, instant(t, tt.after)) {
				if err != nil || next.Named != tt.named || next.Reason() != tt.reason {
					t.Errorf("%s: named %s, %q, %v; want %s, %q", next.Wall, next.Named, next.Reason(), err, tt.named, tt.reason)
				}
				return
			}
			t.Error("nothing")
		})
	}
}

// What announces several slots of one day is one slot, also where it is counted.
func TestOffsetsAreCountedOncePerDay(t *testing.T) {
	t.Parallel()

	thrice := rrule(t, "FREQ=DAILY;BYHOUR=0,9,23", "2027-01-01T00:00:00")
	b := calendar.Bounded{Rule: calendar.Offset{Of: thrice, Days: -1, At: calendar.Clock{Hour: 9}}, Start: wall(t, "2027-03-01T00:00:00"), Count: 3}
	var days []string
	for w := (calendar.WallTime{}); ; {
		slot, err := b.After(w, calendar.Policies{})
		if errors.Is(err, calendar.ErrNoOccurrence) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		days, w = append(days, slot.Wall.String()), slot.Wall
	}
	if want := []string{"2027-03-01T09:00:00", "2027-03-02T09:00:00", "2027-03-03T09:00:00"}; !slices.Equal(days, want) {
		t.Errorf("%q, want %q", days, want)
	}
}

// A slot that clocks skip does not happen under the policy skip, so nothing announces it.
func TestOffsetsDoNotAnnounceSkippedSlots(t *testing.T) {
	t.Parallel()

	night := calendar.Daily{At: calendar.Clock{Hour: 2, Minute: 30}}
	for policy, want := range map[calendar.GapPolicy]string{calendar.GapSkip: "13 15", calendar.GapForward: "13 14"} {
		var days []string
		for next, err := range calendar.Occurrences(calendar.Offset{Of: night, Days: -1, At: calendar.Clock{Hour: 9}}, zone(t, "America/New_York"), calendar.Policies{Gap: policy}, instant(t, "2027-03-12T12:00:00Z")) {
			if err != nil {
				t.Fatal(err)
			}
			if days = append(days, fmt.Sprint(next.Announces.Date.Day)); len(days) == 2 {
				break
			}
		}
		if got := strings.Join(days, " "); got != want {
			t.Errorf("under %s the days %s are announced, want %s", policy, got, want)
		}
	}
}

// An end in UTC ends what is announced, not the announcements.
func TestOffsetsEndWithTheRuleTheyAnnounce(t *testing.T) {
	t.Parallel()

	daily := rrule(t, "FREQ=DAILY;UNTIL=20270315T130000Z", "2027-03-01T09:00:00") // 09:00 in New York
	for days, want := range map[int]string{-3: "2027-03-12T09:00:00", 3: "2027-03-18T09:00:00"} {
		last := calendar.WallTime{}
		for next, err := range calendar.Occurrences(calendar.Offset{Of: daily, Days: days, At: calendar.Clock{Hour: 9}}, zone(t, "America/New_York"), calendar.Policies{}, instant(t, "2027-03-05T00:00:00Z")) {
			if err != nil {
				t.Fatal(err)
			}
			last = next.Wall
		}
		if last != wall(t, want) {
			t.Errorf("by %d days, the last is %s, want %s", days, last, want)
		}
	}
}

func TestOffsetsNameEveryProblem(t *testing.T) {
	t.Parallel()

	_, err := calendar.Offset{Days: 10_001, At: calendar.Clock{Hour: 24}}.After(calendar.WallTime{}, calendar.Policies{})
	checkInvalid(t, err, "offset", []string{"there is no recurrence to announce", "10001 days are not between -10000 and 10000", "no clock shows 24:00:00"})
	_, err = calendar.Offset{Of: calendar.Daily{At: calendar.Clock{Hour: 25}}}.After(calendar.WallTime{}, calendar.Policies{})
	checkInvalid(t, err, "daily", []string{"no clock shows 25:00:00"})
}

// An offset yields what moving each slot by itself yields, the first of each day.
func TestOffsetsMoveEachSlot(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		c := calendartest.DrawCase(t)
		o := calendar.Offset{Of: c.Rule, Days: rapid.IntRange(-5, 5).Draw(t, "days"), At: c.DrawWall(t, "at").Clock}
		from := calendar.WallTimeOf(c.DrawWall(t, "from").Labelled().AddDate(0, 0, -7))
		var want []calendar.Slot
		for w := from; len(want) < 40; {
			slot, err := c.Rule.After(w, c.Policies)
			if errors.Is(err, calendar.ErrNoOccurrence) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			w = slot.Wall
			slot = slot.WithoutInterval()
			announced := slot.Wall
			slot.Announces, slot.Nominal = announced, cmp.Or(slot.Nominal, announced)
			slot.Wall = calendar.WallTime{Date: calendar.DateOf(announced.Labelled().AddDate(0, 0, o.Days)), Clock: o.At}
			same := func(other calendar.Slot) bool { return other.Wall == slot.Wall }
			if !slices.ContainsFunc(want, same) {
				want = append(want, slot)
			}
		}
		if len(want) == 0 {
			return
		}
		want = want[1:] // the day of the first may have had one before
		for i := range min(len(want), 10) {
			w := calendar.WallTimeOf(want[i].Wall.Labelled().Add(-time.Second))
			if got, err := o.After(w, c.Policies); err != nil || got != want[i] {
				t.Fatalf("%+v after %s: %+v, %v; want %+v", o, w, got, err, want[i])
			}
			if i == 0 {
				continue
			}
			if got, err := o.After(want[i-1].Wall, c.Policies); err != nil || got != want[i] {
				t.Fatalf("%+v after %s: %+v, %v; want %+v", o, want[i-1].Wall, got, err, want[i])
			}
		}
	})
}

// Three days before the rent, at nine in the morning.
func ExampleOffset() {
	rent := calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 12}}
	notice := calendar.Offset{Of: rent, Days: -3, At: calendar.Clock{Hour: 9}}

	berlin := must(calendar.LoadTimezone("Europe/Berlin"))
	for next, err := range calendar.Occurrences(notice, berlin, calendar.Policies{}, time.Date(2027, time.February, 1, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(next.Wall, "for", next.Announces.Date, err)
		if next.Key == "2027-04" {
			break
		}
	}
	// Output:
	// 2027-02-25T09:00:00 for 2027-02-28 <nil>
	// 2027-03-28T09:00:00 for 2027-03-31 <nil>
	// 2027-04-27T09:00:00 for 2027-04-30 <nil>
}
