package almanac_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// must makes examples short: what cannot fail in them panics.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// upcoming prints the first n occurrences of a rule in London from New Year 2027 on.
func upcoming(r almanac.Recurrence, p almanac.Policies, n int) {
	london := must(almanac.LoadTimezone("Europe/London"))
	for next, err := range almanac.Occurrences(r, london, p, time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(next.Occurrence.Key, "at", next.Occurrence.Wall)
		if n--; n == 0 {
			return
		}
	}
}

func ExampleOnce() {
	upcoming(almanac.Once{At: must(almanac.ParseWallTime("2027-03-15T09:00:00"))}, almanac.Policies{}, 2)
	// Output:
	// 2027-03-15T09:00:00 at 2027-03-15T09:00:00
}

func ExampleYearly() {
	upcoming(almanac.Yearly{Month: time.February, Day: 29, At: almanac.Clock{Hour: 9}}, almanac.Policies{}, 2)
	// Output:
	// 2027 at 2027-02-28T09:00:00
	// 2028 at 2028-02-29T09:00:00
}

// Rent on the last day of every other month, from April on.
func ExampleMonthly() {
	upcoming(almanac.Monthly{Day: -1, At: almanac.Clock{Hour: 8}, Every: 2, From: almanac.Date{Year: 2027, Month: time.April, Day: 1}}, almanac.Policies{}, 3)
	// Output:
	// 2027-04 at 2027-04-30T08:00:00
	// 2027-06 at 2027-06-30T08:00:00
	// 2027-08 at 2027-08-31T08:00:00
}

func ExampleWeekly() {
	upcoming(almanac.Weekly{On: []time.Weekday{time.Monday, time.Thursday}, At: almanac.Clock{Hour: 18, Minute: 30}}, almanac.Policies{}, 3)
	// Output:
	// 2027-01-04 at 2027-01-04T18:30:00
	// 2027-01-07 at 2027-01-07T18:30:00
	// 2027-01-11 at 2027-01-11T18:30:00
}

func ExampleDaily() {
	upcoming(almanac.Daily{At: almanac.Clock{Hour: 7}}, almanac.Policies{}, 2)
	// Output:
	// 2027-01-01 at 2027-01-01T07:00:00
	// 2027-01-02 at 2027-01-02T07:00:00
}

func ExampleCron() {
	weekdays := must(almanac.ParseCron("30 8 * * MON-FRI"))
	upcoming(weekdays, almanac.Policies{}, 2)
	// Output:
	// 2027-01-01 at 2027-01-01T08:30:00
	// 2027-01-04 at 2027-01-04T08:30:00
}

// The last Friday of each month.
func ExampleRRule() {
	friday := must(almanac.ParseRRule("FREQ=MONTHLY;BYDAY=-1FR", must(almanac.ParseWallTime("2027-01-01T17:00:00"))))
	upcoming(friday, almanac.Policies{}, 2)
	// Output:
	// 2027-01-29 at 2027-01-29T17:00:00
	// 2027-02-26 at 2027-02-26T17:00:00
}

// sunrises is a recurrence of one's own: places in a list.
type sunrises []almanac.WallTime

func (s sunrises) After(w almanac.WallTime, _ almanac.Policies) (almanac.Slot, error) {
	for _, at := range s {
		if w.Before(at) {
			return almanac.Slot{Key: at.Date.String(), Wall: at}, nil
		}
	}
	return almanac.Slot{}, almanac.ErrNoOccurrence
}

func ExampleRecurrence() {
	upcoming(sunrises{
		must(almanac.ParseWallTime("2027-06-21T04:43:00")),
		must(almanac.ParseWallTime("2027-06-22T04:44:00")),
	}, almanac.Policies{}, 5)
	// Output:
	// 2027-06-21 at 2027-06-21T04:43:00
	// 2027-06-22 at 2027-06-22T04:44:00
}

// A slot says which day was meant where the calendar lacks it.
func ExampleSlot() {
	leapDay := almanac.Yearly{Month: time.February, Day: 29, At: almanac.Clock{Hour: 9}}
	slot := must(leapDay.After(must(almanac.ParseWallTime("2027-01-01T00:00:00")), almanac.Policies{LeapDay: almanac.LeapDayMar1}))
	fmt.Println(slot.Key, slot.Wall, "for", slot.Named)
	// Output:
	// 2027 2027-03-01T09:00:00 for 2027-02-29
}

// A month that has no 31st.
func ExampleMonthEndPolicy() {
	payday := almanac.Monthly{Day: 31, At: almanac.Clock{Hour: 9}, From: almanac.Date{Year: 2027, Month: time.April, Day: 1}, Every: 1}
	for _, p := range []almanac.MonthEndPolicy{almanac.MonthEndClamp, almanac.MonthEndSkip} {
		fmt.Println(p)
		upcoming(payday, almanac.Policies{MonthEnd: p}, 2)
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
	leapDay := almanac.Yearly{Month: time.February, Day: 29, At: almanac.Clock{Hour: 9}}
	for _, p := range []almanac.LeapDayPolicy{almanac.LeapDayFeb28, almanac.LeapDayMar1, almanac.LeapDaySkip} {
		fmt.Println(p)
		upcoming(leapDay, almanac.Policies{LeapDay: p}, 1)
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
	p := almanac.Policies{Gap: almanac.GapBoundary}
	fmt.Println(p.Valid(), p.WithDefaults())
	fmt.Println(almanac.Policies{Fold: "third"}.Valid())
	// Output:
	// true {boundary first feb28 clamp}
	// false
}
