package calendar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// slotsAfter returns up to n slots after a wall time, one to a blank: each as its
// wall time to the minute, and the day that was meant where that is another. The
// series ends in "end" when there are no more.
func slotsAfter(t *testing.T, r calendar.Recurrence, p calendar.Policies, w calendar.WallTime, n int) string {
	t.Helper()
	var list []string
	for range n {
		slot, err := r.After(w, p)
		if errors.Is(err, calendar.ErrNoOccurrence) {
			list = append(list, "end")
			break
		}
		if err != nil || !w.Before(slot.Wall) || !slot.Wall.Valid() {
			t.Fatalf("%+v after %s = %+v, %v", r, w, slot, err)
		}
		text := strings.TrimSuffix(slot.Wall.String(), ":00")
		if slot.Named != (calendar.Date{}) {
			text += "(" + slot.Named.String() + ")"
		}
		list, w = append(list, text), slot.Wall
	}
	return strings.Join(list, " ")
}

// wallOrBeginning reads a wall time; "" is the zero one, which comes before all.
func wallOrBeginning(t *testing.T, text string) calendar.WallTime {
	t.Helper()
	if text == "" {
		return calendar.WallTime{}
	}
	return wall(t, text)
}

func date(year int, month time.Month, day int) calendar.Date {
	return calendar.Date{Year: year, Month: month, Day: day}
}

type slotCase struct {
	rule     calendar.Recurrence
	policies calendar.Policies
	after    string // "" is before all
	want     string // as slotsAfter has it
}

func checkSlots(t *testing.T, tests map[string]slotCase) {
	t.Helper()
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got := slotsAfter(t, tt.rule, tt.policies, wallOrBeginning(t, tt.after), len(strings.Fields(tt.want)))

			if got != tt.want {
				t.Errorf("%+v under %+v after %q = %s; want %s", tt.rule, tt.policies, tt.after, got, tt.want)
			}
		})
	}
}

func TestOnceAndYearlyYieldSlots(t *testing.T) {
	t.Parallel()

	nine := calendar.Clock{Hour: 9}
	once := calendar.Once{At: wall(t, "2026-03-15T09:00:00")}
	march := calendar.Yearly{Month: time.March, Day: 15, At: nine}
	leap := calendar.Yearly{Month: time.February, Day: 29, At: nine}
	bound := func(y calendar.Yearly, every int, from calendar.Date) calendar.Yearly {
		y.Every, y.From = every, from
		return y
	}
	skip, mar1 := calendar.Policies{LeapDay: calendar.LeapDaySkip}, calendar.Policies{LeapDay: calendar.LeapDayMar1}
	checkSlots(t, map[string]slotCase{
		"once, from before all":                  {once, calendar.Policies{}, "", "2026-03-15T09:00 end"},
		"once, a second before":                  {once, calendar.Policies{}, "2026-03-15T08:59:59", "2026-03-15T09:00 end"},
		"once, at the time itself":               {once, calendar.Policies{}, "2026-03-15T09:00:00", "end"},
		"once, at the first of all wall times":   {calendar.Once{At: wall(t, "0001-01-01T00:00:00")}, calendar.Policies{}, "", "0001-01-01T00:00 end"},
		"once, at the last of all wall times":    {calendar.Once{At: wall(t, "9999-12-31T23:59:59")}, calendar.Policies{}, "", "9999-12-31T23:59:59 end"},
		"yearly, from before all":                {march, calendar.Policies{}, "", "0001-03-15T09:00 0002-03-15T09:00"},
		"yearly, a second before":                {march, calendar.Policies{}, "2026-03-15T08:59:59", "2026-03-15T09:00 2027-03-15T09:00"},
		"yearly, at a slot":                      {march, calendar.Policies{}, "2026-03-15T09:00:00", "2027-03-15T09:00"},
		"yearly, up to the end of all years":     {march, calendar.Policies{}, "9998-03-15T09:00:00", "9999-03-15T09:00 end"},
		"29 February, on the 28th":               {leap, calendar.Policies{}, "2096-01-01T00:00:00", "2096-02-29T09:00 2097-02-28T09:00(2097-02-29) 2098-02-28T09:00(2098-02-29)"},
		"29 February, on 1 March":                {leap, mar1, "2096-01-01T00:00:00", "2096-02-29T09:00 2097-03-01T09:00(2097-02-29)"},
		"29 February, on 1 March, from the 28th": {leap, mar1, "2097-02-28T23:00:00", "2097-03-01T09:00(2097-02-29)"},
		"29 February, left out":                  {leap, skip, "2096-01-01T00:00:00", "2096-02-29T09:00 2104-02-29T09:00 2108-02-29T09:00"},
		"every four years from a leap year":      {bound(leap, 4, date(2024, 1, 1)), skip, "", "2024-02-29T09:00 2028-02-29T09:00 2032-02-29T09:00"},
		"every four years past a century":        {bound(leap, 4, date(2096, 1, 1)), calendar.Policies{}, "2096-03-01T00:00:00", "2100-02-28T09:00(2100-02-29) 2104-02-29T09:00"},
		"every four years, never a leap day":     {bound(leap, 4, date(2025, 1, 1)), skip, "", "end"},
		"every four years, never one on its day": {bound(leap, 4, date(2025, 1, 1)), calendar.Policies{}, "", "2025-02-28T09:00(2025-02-29) 2029-02-28T09:00(2029-02-29)"},
		"every three years, in between":          {bound(march, 3, date(2024, 1, 1)), calendar.Policies{}, "2025-01-01T00:00:00", "2027-03-15T09:00 2030-03-15T09:00"},
		"every two years from later in the year": {bound(march, 2, date(2024, 3, 16)), calendar.Policies{}, "", "2026-03-15T09:00 2028-03-15T09:00"},
		"from the day itself":                    {bound(march, 0, date(2026, 3, 15)), calendar.Policies{}, "", "2026-03-15T09:00 2027-03-15T09:00"},
		"from the day after":                     {bound(march, 1, date(2026, 3, 16)), calendar.Policies{}, "", "2027-03-15T09:00"},
		"from behind the day that stands in":     {bound(leap, 0, date(2027, 3, 1)), calendar.Policies{}, "", "2028-02-29T09:00"},
		"from the day that stands in":            {bound(leap, 0, date(2027, 3, 1)), mar1, "", "2027-03-01T09:00(2027-02-29)"},
		"rarer than there are years":             {bound(march, 10_000_000, date(2026, 1, 1)), calendar.Policies{}, "2025-01-01T00:00:00", "2026-03-15T09:00 end"},
	})
}

func TestMonthlyYieldsSlots(t *testing.T) {
	t.Parallel()

	skip := calendar.Policies{MonthEnd: calendar.MonthEndSkip}
	on := func(day int) calendar.Monthly { return calendar.Monthly{Day: day, At: calendar.Clock{Hour: 9}} }
	bound := func(day, every int, from calendar.Date) calendar.Monthly {
		return calendar.Monthly{Day: day, At: calendar.Clock{Hour: 9}, Every: every, From: from}
	}
	checkSlots(t, map[string]slotCase{
		"from before all":                        {on(15), calendar.Policies{}, "", "0001-01-15T09:00 0001-02-15T09:00"},
		"a second before":                        {on(15), calendar.Policies{}, "2026-03-15T08:59:59", "2026-03-15T09:00 2026-04-15T09:00"},
		"at a slot":                              {on(15), calendar.Policies{}, "2026-12-15T09:00:00", "2027-01-15T09:00"},
		"up to the end of all years":             {on(31), calendar.Policies{}, "9999-11-30T09:00:00", "9999-12-31T09:00 end"},
		"the 31st, clamped":                      {on(31), calendar.Policies{}, "2026-01-31T09:00:00", "2026-02-28T09:00(2026-02-31) 2026-03-31T09:00 2026-04-30T09:00(2026-04-31)"},
		"the 31st, skipped":                      {on(31), skip, "2026-01-31T09:00:00", "2026-03-31T09:00 2026-05-31T09:00"},
		"the 30th, clamped in a leap year":       {on(30), calendar.Policies{}, "2028-02-01T00:00:00", "2028-02-29T09:00(2028-02-30) 2028-03-30T09:00"},
		"the 29th, clamped":                      {on(29), calendar.Policies{}, "2027-02-01T00:00:00", "2027-02-28T09:00(2027-02-29) 2027-03-29T09:00"},
		"the 29th of a leap year is there":       {on(29), skip, "2028-02-01T00:00:00", "2028-02-29T09:00 2028-03-29T09:00"},
		"the 29th, skipped":                      {on(29), skip, "2027-02-01T00:00:00", "2027-03-29T09:00"},
		"the last day":                           {on(-1), calendar.Policies{}, "2027-12-31T09:00:00", "2028-01-31T09:00 2028-02-29T09:00 2028-03-31T09:00"},
		"the last day is never skipped":          {on(-1), skip, "2027-01-31T09:00:00", "2027-02-28T09:00 2027-03-31T09:00"},
		"the last day but one":                   {on(-2), calendar.Policies{}, "2027-01-01T00:00:00", "2027-01-30T09:00 2027-02-27T09:00"},
		"the 28th day from the end":              {on(-28), calendar.Policies{}, "2027-01-01T00:00:00", "2027-01-04T09:00 2027-02-01T09:00 2027-03-04T09:00 2027-04-03T09:00"},
		"every two months":                       {bound(31, 2, date(2026, 1, 1)), calendar.Policies{}, "", "2026-01-31T09:00 2026-03-31T09:00 2026-05-31T09:00"},
		"every two months, from a month between": {bound(31, 2, date(2026, 1, 1)), calendar.Policies{}, "2026-11-30T09:00:00", "2027-01-31T09:00"},
		"every six months, skipped":              {bound(31, 6, date(2026, 6, 1)), skip, "", "2026-12-31T09:00 2027-12-31T09:00"},
		"every 13 months":                        {bound(1, 13, date(2026, 1, 1)), calendar.Policies{}, "2026-01-02T00:00:00", "2027-02-01T09:00 2028-03-01T09:00"},
		"from later in the month":                {bound(15, 2, date(2026, 1, 16)), calendar.Policies{}, "", "2026-03-15T09:00 2026-05-15T09:00"},
		"from the day itself":                    {bound(15, 0, date(2026, 1, 15)), calendar.Policies{}, "", "2026-01-15T09:00 2026-02-15T09:00"},
		"from behind a clamped day":              {bound(31, 1, date(2026, 3, 1)), calendar.Policies{}, "", "2026-03-31T09:00"},
		"rarer than there are months":            {bound(1, 10_000_000, date(2026, 1, 1)), calendar.Policies{}, "", "2026-01-01T09:00 end"},
	})
}

func TestWeeklyAndDailyYieldSlots(t *testing.T) {
	t.Parallel()

	nine := calendar.Clock{Hour: 9}
	days := func(on ...time.Weekday) calendar.Weekly { return calendar.Weekly{On: on, At: nine} }
	weeks := func(every int, from calendar.Date, on ...time.Weekday) calendar.Weekly {
		return calendar.Weekly{On: on, At: nine, Every: every, From: from}
	}
	daily := func(every int, from calendar.Date) calendar.Daily {
		return calendar.Daily{At: nine, Every: every, From: from}
	}
	const sunday, monday, wednesday, friday = time.Sunday, time.Monday, time.Wednesday, time.Friday
	checkSlots(t, map[string]slotCase{
		"weekly, from before all, a Monday": {days(monday), calendar.Policies{}, "", "0001-01-01T09:00 0001-01-08T09:00"},
		"weekly, from before all, a Sunday": {days(sunday), calendar.Policies{}, "", "0001-01-07T09:00"},
		"weekly, at a slot":                 {days(monday), calendar.Policies{}, "2026-03-16T09:00:00", "2026-03-23T09:00"},
		"weekly, a second before":           {days(monday), calendar.Policies{}, "2026-03-16T08:59:59", "2026-03-16T09:00"},
		"weekly, days in any order, named twice": {days(friday, monday, monday), calendar.Policies{}, "2026-03-15T00:00:00",
			"2026-03-16T09:00 2026-03-20T09:00 2026-03-23T09:00"},
		"weekly, the last Friday of all":   {days(friday), calendar.Policies{}, "9999-12-24T09:00:00", "9999-12-31T09:00 end"},
		"weekly, the last Saturday of all": {days(time.Saturday), calendar.Policies{}, "9999-12-24T09:00:00", "9999-12-25T09:00 end"},
		"fortnightly from a Monday":        {weeks(2, date(2026, 3, 16), monday), calendar.Policies{}, "", "2026-03-16T09:00 2026-03-30T09:00 2026-04-13T09:00"},
		"fortnightly from a Sunday":        {weeks(2, date(2026, 3, 22), monday), calendar.Policies{}, "", "2026-03-30T09:00 2026-04-13T09:00"},
		"fortnightly, its Sunday ends the week": {weeks(2, date(2026, 3, 18), sunday, monday, wednesday), calendar.Policies{}, "",
			"2026-03-18T09:00 2026-03-22T09:00 2026-03-30T09:00 2026-04-01T09:00 2026-04-05T09:00 2026-04-13T09:00"},
		"fortnightly, from the week between":                           {weeks(2, date(2026, 3, 16), monday, friday), calendar.Policies{}, "2026-03-23T00:00:00", "2026-03-30T09:00 2026-04-03T09:00"},
		"every ten weeks over a new year":                              {weeks(10, date(2025, 12, 1), friday), calendar.Policies{}, "2025-12-06T00:00:00", "2026-02-13T09:00 2026-04-24T09:00"},
		"weekly from the day itself":                                   {weeks(0, date(2026, 3, 16), monday), calendar.Policies{}, "", "2026-03-16T09:00 2026-03-23T09:00"},
		"weekly from the day after":                                    {weeks(1, date(2026, 3, 17), monday), calendar.Policies{}, "", "2026-03-23T09:00"},
		"fortnightly, the week that follows the last is over the edge": {weeks(2, date(2026, 1, 12), monday), calendar.Policies{}, "9999-12-20T09:00:00", "end"},
		"rarer than there are weeks":                                   {weeks(10_000_000, date(2026, 1, 12), monday), calendar.Policies{}, "", "2026-01-12T09:00 end"},

		"daily, from before all":               {calendar.Daily{}, calendar.Policies{}, "", "0001-01-01T00:00 0001-01-02T00:00"},
		"daily, at a slot":                     {daily(0, calendar.Date{}), calendar.Policies{}, "2026-12-31T09:00:00", "2027-01-01T09:00"},
		"daily, a second before":               {daily(1, calendar.Date{}), calendar.Policies{}, "2026-12-31T08:59:59", "2026-12-31T09:00"},
		"daily, over a leap day":               {daily(0, calendar.Date{}), calendar.Policies{}, "2028-02-28T09:00:00", "2028-02-29T09:00 2028-03-01T09:00"},
		"daily, up to the end of all years":    {daily(0, calendar.Date{}), calendar.Policies{}, "9999-12-30T09:00:00", "9999-12-31T09:00 end"},
		"every three days":                     {daily(3, date(2026, 2, 26)), calendar.Policies{}, "", "2026-02-26T09:00 2026-03-01T09:00 2026-03-04T09:00"},
		"every three days, from a day between": {daily(3, date(2026, 2, 26)), calendar.Policies{}, "2026-02-27T00:00:00", "2026-03-01T09:00"},
		"every three days, far from there":     {daily(3, date(2026, 2, 26)), calendar.Policies{}, "2126-02-26T09:00:00", "2126-02-27T09:00 2126-03-02T09:00"},
		"daily from a day":                     {daily(0, date(2026, 3, 15)), calendar.Policies{}, "", "2026-03-15T09:00 2026-03-16T09:00"},
		"rarer than there are days":            {daily(10_000_000, date(2026, 3, 15)), calendar.Policies{}, "", "2026-03-15T09:00 end"},
	})
}

// West of Greenwich clocks still show the year 0 at the zero time.Time, from which
// hosts ask when they want the first occurrence of all.
func TestNextFromTheZeroTimeIsTheFirstOfAll(t *testing.T) {
	t.Parallel()

	at := calendar.Clock{Hour: 20}
	tests := map[string]struct {
		rule calendar.Recurrence
		want string
	}{
		"once":    {calendar.Once{At: wall(t, "0001-01-15T20:00:00")}, "0001-01-15T20:00:00"},
		"yearly":  {calendar.Yearly{Month: time.January, Day: 15, At: at}, "0001"},
		"monthly": {calendar.Monthly{Day: 15, At: at}, "0001-01"},
		"weekly":  {calendar.Weekly{On: []time.Weekday{time.Monday}, At: at}, "0001-01-01"},
		"daily":   {calendar.Daily{At: at}, "0001-01-01"},
		"RRULE":   {rrule(t, "FREQ=MONTHLY", "0001-01-15T20:00:00"), "0001-01-15"},
		"cron":    {cron(t, "0 20 15 * *"), "0001-01-15"},
		"bounded": {calendar.Bounded{Rule: calendar.Monthly{Day: 15, At: at}, Start: wall(t, "0001-01-01T00:00:00"), Count: 2}, "0001-01"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := calendar.Next(tt.rule, zone(t, "America/New_York"), calendar.Policies{}, time.Time{})

			if err != nil || got.Key != tt.want {
				t.Errorf("%+v: %q, %v; want %q", tt.rule, got.Key, err, tt.want)
			}
		})
	}
}

func TestSlotsHaveKeys(t *testing.T) {
	t.Parallel()

	at := calendar.Clock{Hour: 9, Minute: 30}
	tests := map[string]struct {
		rule calendar.Recurrence
		want string // after 1 March 2027
	}{
		"once, its wall time":                 {calendar.Once{At: wall(t, "2027-03-15T09:30:00")}, "2027-03-15T09:30:00"},
		"yearly, the year":                    {calendar.Yearly{Month: time.March, Day: 15, At: at}, "2027"},
		"yearly, the year of the day meant":   {calendar.Yearly{Month: time.February, Day: 29, At: at}, "2028"},
		"monthly, the month":                  {calendar.Monthly{Day: 15, At: at}, "2027-03"},
		"monthly, the month of the day meant": {calendar.Monthly{Day: 31, At: at, Every: 12, From: date(2026, 6, 1)}, "2027-06"},
		"weekly, the date":                    {calendar.Weekly{On: []time.Weekday{time.Monday}, At: at}, "2027-03-01"},
		"daily, the date":                     {calendar.Daily{At: at, Every: 9, From: date(2027, 3, 9)}, "2027-03-09"},
		"RRULE once a day, the date":          {rrule(t, "FREQ=WEEKLY;BYDAY=TU", "2027-01-01T09:30:00"), "2027-03-02"},
		"RRULE twice a day, the wall time":    {rrule(t, "FREQ=DAILY;BYHOUR=9,21", "2027-01-01T09:30:00"), "2027-03-01T09:30:00"},
		"RRULE every hour, the wall time":     {rrule(t, "FREQ=HOURLY", "2027-01-01T09:30:00"), "2027-03-01T00:30:00"},
		"RRULE with SKIP, the date it runs":   {rrule(t, "FREQ=MONTHLY;BYMONTHDAY=31;RSCALE=GREGORIAN;SKIP=FORWARD", "2027-01-31T09:30:00"), "2027-03-01"},
		"cron once a day, the date":           {cron(t, "30 9 * * MON"), "2027-03-01"},
		"cron twice a day, the wall time":     {cron(t, "30 9,21 * * MON"), "2027-03-01T09:30:00"},
		"cron every second, the wall time":    {cron(t, "* * * * * *"), "2027-03-01T00:00:01"},
		"bounded, as the rule that it bounds": {calendar.Bounded{Rule: calendar.Monthly{Day: 15, At: at}, Start: wall(t, "2027-04-01T00:00:00")}, "2027-04"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			got, err := tt.rule.After(wall(t, "2027-03-01T00:00:00"), calendar.Policies{})

			if err != nil || got.Key != tt.want {
				t.Errorf("%+v: key %q, %v; want %q", tt.rule, got.Key, err, tt.want)
			}
		})
	}
}

func TestInvalidRulesNameEveryProblem(t *testing.T) {
	t.Parallel()

	bad, nowhere := calendar.Clock{Hour: 24}, date(2026, 2, 30)
	tests := map[string]struct {
		rule calendar.Recurrence
		kind string
		want []string // a word of each problem, in order
	}{
		"the zero Once":               {calendar.Once{}, "once", []string{"0000-00-00"}},
		"once, on no calendar":        {calendar.Once{At: calendar.WallTime{Date: nowhere}}, "once", []string{"2026-02-30"}},
		"the zero Yearly":             {calendar.Yearly{}, "yearly", []string{"month 0"}},
		"yearly, all of it":           {calendar.Yearly{Month: 4, Day: 31, At: bad, Every: -1, From: nowhere}, "yearly", []string{"day 31", "24:00:00", "every -1", "2026-02-30"}},
		"yearly, 30 February":         {calendar.Yearly{Month: 2, Day: 30}, "yearly", []string{"day 30"}},
		"yearly, a month too many":    {calendar.Yearly{Month: 13, Day: 1}, "yearly", []string{"month 13"}},
		"yearly, a step from nowhere": {calendar.Yearly{Month: 2, Day: 1, Every: 2}, "yearly", []string{"day to count from"}},
		"the zero Monthly":            {calendar.Monthly{}, "monthly", []string{"day 0"}},
		"monthly, a day too many":     {calendar.Monthly{Day: 32}, "monthly", []string{"day 32"}},
		"monthly, a day too few":      {calendar.Monthly{Day: -29}, "monthly", []string{"day -29"}},
		"monthly, all of it":          {calendar.Monthly{At: bad, Every: 10_000_001, From: nowhere}, "monthly", []string{"day 0", "24:00:00", "every 10000001", "2026-02-30"}},
		"the zero Weekly":             {calendar.Weekly{}, "weekly", []string{"no day"}},
		"weekly, all of it":           {calendar.Weekly{On: []time.Weekday{-1, 1, 7}, At: bad, Every: 2}, "weekly", []string{"-1 is", "7 is", "24:00:00", "day to count from"}},
		"daily, all of it":            {calendar.Daily{At: bad, Every: 3}, "daily", []string{"24:00:00", "day to count from"}},
		"daily, from no day":          {calendar.Daily{From: nowhere}, "daily", []string{"2026-02-30"}},
		"the zero RRule":              {calendar.RRule{}, "rrule", []string{"ParseRRule"}},
		"the zero Cron":               {calendar.Cron{}, "cron", []string{"ParseCron"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := tt.rule.After(wall(t, "2026-01-01T00:00:00"), calendar.Policies{})

			checkInvalid(t, err, tt.kind, tt.want)
			if _, err := calendar.Next(tt.rule, zone(t, "UTC"), calendar.Policies{}, instant(t, "2026-01-01T00:00:00Z")); !errors.Is(err, calendar.ErrInvalidRecurrence) {
				t.Errorf("Next: %v, want ErrInvalidRecurrence", err)
			}
		})
	}
}

func TestParsingARuleNamesEveryProblem(t *testing.T) {
	t.Parallel()

	parseRRule := func(text string, start calendar.WallTime) error {
		_, err := calendar.ParseRRule(text, start)
		return err
	}
	parseCron := func(text string) error {
		_, err := calendar.ParseCron(text)
		return err
	}
	good, long := wall(t, "2026-01-01T00:00:00"), strings.Repeat("x", 5000)
	tests := map[string]struct {
		err  error
		kind string
		want []string
	}{
		"an RRULE with two faults":             {parseRRule("FREQ=NEVER;COUNT=0", good), "FREQ=NEVER;COUNT=0", []string{"FREQ", "COUNT"}},
		"an RRULE that begins on no day":       {parseRRule("FREQ=DAILY", calendar.WallTime{}), "FREQ=DAILY", []string{"start 0000-00-00"}},
		"a bad RRULE that begins on no day":    {parseRRule("FREQ=DAILY;COUNT=0", calendar.WallTime{}), "FREQ=DAILY;COUNT=0", []string{"COUNT", "start 0000-00-00"}},
		"an RRULE of nothing":                  {parseRRule("", good), "", []string{"NAME=VALUE", "FREQ is missing"}},
		"an RRULE too long to repeat":          {parseRRule(long, good), fmt.Sprintf("%.64s", long), []string{"5000 bytes"}},
		"a cron expression with two faults":    {parseCron("60 24 * * *"), "60 24 * * *", []string{"minute", "hour"}},
		"a cron expression of four fields":     {parseCron("* * * *"), "* * * *", []string{"field"}},
		"a cron expression of nothing":         {parseCron(" "), "", []string{"empty"}},
		"a cron expression with its own zone":  {parseCron("TZ=Asia/Tokyo 0 9 * * *"), "TZ=Asia/Tokyo 0 9 * * *", []string{"zone"}},
		"a cron expression too long to repeat": {parseCron(long), fmt.Sprintf("%.64s", long), []string{"5000 bytes"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			checkInvalid(t, tt.err, tt.kind, tt.want)
		})
	}
}

// checkInvalid compares err with an InvalidRecurrenceError of a kind of rule whose
// problems contain the given words.
func checkInvalid(t *testing.T, err error, kind string, want []string) {
	t.Helper()
	var bad *calendar.InvalidRecurrenceError
	if !errors.As(err, &bad) || !errors.Is(err, calendar.ErrInvalidRecurrence) {
		t.Fatalf("error %v, want an *InvalidRecurrenceError", err)
	}
	matches := slices.EqualFunc(bad.Problems, want, strings.Contains)
	if !matches || len(bad.Rule) > 64+len("…") || !strings.HasPrefix(bad.Rule, kind[:min(len(kind), 60)]) {
		t.Errorf("error of %q with %q; want %q with %q", bad.Rule, bad.Problems, kind, want)
	}
}
