package calendar_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// upcoming prints the first n occurrences of a rule in London from New Year 2027 on.
func upcoming(r calendar.Recurrence, p calendar.Policies, n int) {
	london := must(calendar.LoadTimezone("Europe/London"))
	for next, err := range calendar.Occurrences(r, london, p, time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(next.Key, "at", next.Wall)
		if n--; n == 0 {
			return
		}
	}
}

func ExampleOnce() {
	upcoming(calendar.Once{At: must(calendar.ParseWallTime("2027-03-15T09:00:00"))}, calendar.Policies{}, 2)
	// Output:
	// 2027-03-15T09:00:00 at 2027-03-15T09:00:00
}

func ExampleYearly() {
	upcoming(calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: 9}}, calendar.Policies{}, 2)
	// Output:
	// 2027 at 2027-02-28T09:00:00
	// 2028 at 2028-02-29T09:00:00
}

// Rent on the last day of every other month, from April on.
func ExampleMonthly() {
	upcoming(calendar.Monthly{Day: -1, At: calendar.Clock{Hour: 8}, Every: 2, From: calendar.Date{Year: 2027, Month: time.April, Day: 1}}, calendar.Policies{}, 3)
	// Output:
	// 2027-04 at 2027-04-30T08:00:00
	// 2027-06 at 2027-06-30T08:00:00
	// 2027-08 at 2027-08-31T08:00:00
}

func ExampleWeekly() {
	upcoming(calendar.Weekly{On: []time.Weekday{time.Monday, time.Thursday}, At: calendar.Clock{Hour: 18, Minute: 30}}, calendar.Policies{}, 3)
	// Output:
	// 2027-01-04 at 2027-01-04T18:30:00
	// 2027-01-07 at 2027-01-07T18:30:00
	// 2027-01-11 at 2027-01-11T18:30:00
}

func ExampleDaily() {
	upcoming(calendar.Daily{At: calendar.Clock{Hour: 7}}, calendar.Policies{}, 2)
	// Output:
	// 2027-01-01 at 2027-01-01T07:00:00
	// 2027-01-02 at 2027-01-02T07:00:00
}

func ExampleCron() {
	weekdays := must(calendar.ParseCron("30 8 * * MON-FRI"))
	upcoming(weekdays, calendar.Policies{}, 2)
	// Output:
	// 2027-01-01 at 2027-01-01T08:30:00
	// 2027-01-04 at 2027-01-04T08:30:00
}

// The last Friday of each month.
func ExampleRRule() {
	friday := must(calendar.ParseRRule("FREQ=MONTHLY;BYDAY=-1FR", must(calendar.ParseWallTime("2027-01-01T17:00:00"))))
	upcoming(friday, calendar.Policies{}, 2)
	// Output:
	// 2027-01-29 at 2027-01-29T17:00:00
	// 2027-02-26 at 2027-02-26T17:00:00
}

// sunrises is a recurrence of one's own: places in a list.
type sunrises []calendar.WallTime

func (s sunrises) After(w calendar.WallTime, _ calendar.Policies) (calendar.Slot, error) {
	for _, at := range s {
		if w.Before(at) {
			return calendar.Slot{Key: at.Date.String(), Wall: at}, nil
		}
	}
	return calendar.Slot{}, calendar.ErrNoOccurrence
}

func ExampleRecurrence() {
	upcoming(sunrises{
		must(calendar.ParseWallTime("2027-06-21T04:43:00")),
		must(calendar.ParseWallTime("2027-06-22T04:44:00")),
	}, calendar.Policies{}, 5)
	// Output:
	// 2027-06-21 at 2027-06-21T04:43:00
	// 2027-06-22 at 2027-06-22T04:44:00
}

// A slot says which day was meant where the calendar lacks it.
func ExampleSlot() {
	leapDay := calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: 9}}
	slot := must(leapDay.After(must(calendar.ParseWallTime("2027-01-01T00:00:00")), calendar.Policies{LeapDay: calendar.LeapDayMar1}))
	fmt.Println(slot.Key, slot.Wall, "for", slot.Named)
	// Output:
	// 2027 2027-03-01T09:00:00 for 2027-02-29
}

// A month that has no 31st.
func ExampleMonthEndPolicy() {
	payday := calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 9}, From: calendar.Date{Year: 2027, Month: time.April, Day: 1}, Every: 1}
	for _, p := range []calendar.MonthEndPolicy{calendar.MonthEndClamp, calendar.MonthEndSkip} {
		fmt.Println(p)
		upcoming(payday, calendar.Policies{MonthEnd: p}, 2)
	}
	// Output:
	// clamp
	// 2027-04 at 2027-04-30T09:00:00
	// 2027-05 at 2027-05-31T09:00:00
	// skip
	// 2027-05 at 2027-05-31T09:00:00
	// 2027-07 at 2027-07-31T09:00:00
}

func ExampleLeapDayPolicy() {
	leapDay := calendar.Yearly{Month: time.February, Day: 29, At: calendar.Clock{Hour: 9}}
	for _, p := range []calendar.LeapDayPolicy{calendar.LeapDayFeb28, calendar.LeapDayMar1, calendar.LeapDaySkip} {
		fmt.Println(p)
		upcoming(leapDay, calendar.Policies{LeapDay: p}, 1)
	}
	// Output:
	// feb28
	// 2027 at 2027-02-28T09:00:00
	// mar1
	// 2027 at 2027-03-01T09:00:00
	// skip
	// 2028 at 2028-02-29T09:00:00
}

func ExamplePolicies() {
	p := calendar.Policies{Gap: calendar.GapBoundary}
	fmt.Println(p.Valid(), p.WithDefaults().Fold)
	fmt.Println(calendar.Policies{Fold: "third"}.Valid())
	// Output:
	// true first
	// false
}

// A pill every other morning, four in all from 1 June on, without the second.
func ExampleBounded() {
	eight, june := calendar.Clock{Hour: 8}, calendar.Date{Year: 2026, Month: time.June, Day: 1}
	pills := calendar.Bounded{
		Rule:   calendar.Daily{At: eight, Every: 2, From: june},
		Start:  calendar.WallTime{Date: june},
		Count:  4,
		Except: []calendar.WallTime{{Date: calendar.Date{Year: 2026, Month: time.June, Day: 3}, Clock: eight}},
	}
	london := must(calendar.LoadTimezone("Europe/London"))

	for next, err := range calendar.Occurrences(pills, london, calendar.Policies{}, time.Time{}) {
		fmt.Println(next.Wall, err)
	}
	// Output:
	// 2026-06-01T08:00:00 <nil>
	// 2026-06-05T08:00:00 <nil>
	// 2026-06-07T08:00:00 <nil>
}

// A reminder at 23:30 waits for the morning, and keeps the key of its day.
func ExampleParseQuietHours_within() {
	night := must(calendar.ParseQuietHours("22:00-08:00"))
	upcoming(calendar.Within{Of: calendar.Daily{At: calendar.Clock{Hour: 23, Minute: 30}}, Window: night}, calendar.Policies{}, 2)
	// Output:
	// 2026-12-31 at 2027-01-01T08:00:00
	// 2027-01-01 at 2027-01-02T08:00:00
}
