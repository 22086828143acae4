package calendar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
)

// workCalendar returns a calendar with a week from Monday to Friday and the days of a text such as
// "2026-12-25 holiday Christmas Day". It ends with the year 2027.
func workCalendar(t testing.TB, name string, days ...string) *calendar.WorkCalendar {
	t.Helper()
	c, err := calendar.ParseWorkCalendar(fmt.Sprintf("name %s\nrelease 2026-01-01\nuntil 2027-12-31\n%s", name, strings.Join(days, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func window(t testing.TB, text string) calendar.Window {
	t.Helper()
	w, err := calendar.ParseWindow(text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// listedAfter returns up to n slots after a wall time, each as its key and its wall time.
func listedAfter(t testing.TB, r calendar.Recurrence, after string, n int) []string {
	t.Helper()
	var list []string
	for w := wall(t, after); len(list) < n; {
		slot, err := r.After(w, calendar.Policies{})
		if errors.Is(err, calendar.ErrNoOccurrence) {
			break
		}
		require.NoError(t, err)
		list = append(list, slot.Key+" "+slot.Wall.String()[:len("2026-01-02T15:04")])
		w = slot.Wall
	}
	return list
}

// The 30th and 31st of October 2026 are a Friday and a Saturday. Good Friday 2027 is on 26 March.
func TestConventionsMoveADayOff(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST", "2026-10-26 holiday Monday off", "2026-10-27 holiday", "2026-10-28 holiday",
		"2027-03-26 holiday Good Friday", "2027-03-29 holiday Easter Monday", "2026-10-10 work instead of the 5th", "2026-10-05 holiday")
	tests := map[string]struct{ day, following, modifiedFollowing, preceding, modifiedPreceding, nearest string }{
		"a working day":             {"2026-10-30", "10-30", "10-30", "10-30", "10-30", "10-30"},
		"a Saturday at a month end": {"2026-10-31", "11-02", "10-30", "10-30", "10-30", "10-30"},
		"a Sunday":                  {"2026-11-08", "11-09", "11-09", "11-06", "11-06", "11-09"},
		"a Sunday, the first":       {"2026-11-01", "11-02", "11-02", "10-30", "11-02", "11-02"},
		"the first of five days":    {"2026-10-24", "10-29", "10-29", "10-23", "10-23", "10-23"},
		"the second of five":        {"2026-10-25", "10-29", "10-29", "10-23", "10-23", "10-23"},
		"the third, in the middle":  {"2026-10-26", "10-29", "10-29", "10-23", "10-23", "10-29"},
		"the fourth of five":        {"2026-10-27", "10-29", "10-29", "10-23", "10-23", "10-29"},
		"Easter":                    {"2027-03-28", "03-30", "03-30", "03-25", "03-25", "03-30"},
		"Good Friday":               {"2027-03-26", "03-30", "03-30", "03-25", "03-25", "03-25"},
		"a Saturday that works":     {"2026-10-10", "10-10", "10-10", "10-10", "10-10", "10-10"},
		"a Monday in its stead":     {"2026-10-05", "10-06", "10-06", "10-02", "10-02", "10-06"},
		"past the end, a Saturday":  {"2028-01-01", "01-03", "01-03", "12-31", "01-03", "12-31"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			once := calendar.Once{At: wall(t, tt.day+"T09:00:00")}
			for convention, want := range map[calendar.Convention]string{
				"": tt.following, calendar.Following: tt.following, calendar.ModifiedFollowing: tt.modifiedFollowing,
				calendar.Preceding: tt.preceding, calendar.ModifiedPreceding: tt.modifiedPreceding, calendar.Nearest: tt.nearest,
			} {
				slot, err := calendar.Within{Of: once, WorkDays: c, Convention: convention}.After(calendar.WallTime{}, calendar.Policies{})
				require.NoError(t, err)
				require.Equal(t, want, slot.Wall.Date.String()[len("2026-"):], "%s", convention)
				require.Equal(t, once.At.Clock, slot.Wall.Clock)
				require.Equal(t, once.At.String(), slot.Key)
				require.Equal(t, calendar.UnitTime, slot.Unit)
				if moved := slot.Wall != once.At; moved {
					require.Equal(t, once.At, slot.Nominal)
					require.Equal(t, once.At, slot.Move.From)
				} else {
					require.Zero(t, slot.Nominal)
					require.Zero(t, slot.Move)
				}
			}
			slot, err := calendar.Within{Of: once, WorkDays: c, Convention: calendar.SkipDay}.After(calendar.WallTime{}, calendar.Policies{})
			if works, _ := c.IsWorking(once.At.Date); works {
				require.NoError(t, err)
				require.Equal(t, once.At, slot.Wall)
			} else {
				require.ErrorIs(t, err, calendar.ErrNoOccurrence)
			}
		})
	}
}

func TestSlotsThatMeetOnADay(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST", "2026-11-27 holiday")
	nine := calendar.Clock{Hour: 9}
	daily := calendar.Daily{At: nine}
	weekend := calendar.Weekly{On: []time.Weekday{time.Saturday, time.Sunday}, At: nine}
	twice := cron(t, "0 9,18 * * *")
	tests := map[string]struct {
		rule  calendar.Within
		after string
		want  []string
	}{
		"Monday's own": {calendar.Within{Of: daily, WorkDays: c}, "2026-11-05T12:00:00",
			[]string{"2026-11-06 2026-11-06T09:00", "2026-11-09 2026-11-09T09:00", "2026-11-10 2026-11-10T09:00"}},
		"Monday's own after a holiday": {calendar.Within{Of: daily, WorkDays: c}, "2026-11-26T12:00:00",
			[]string{"2026-11-30 2026-11-30T09:00", "2026-12-01 2026-12-01T09:00"}},
		"Friday's own, asked at any time": {calendar.Within{Of: daily, WorkDays: c, Convention: calendar.Preceding}, "2026-11-06T09:00:00",
			[]string{"2026-11-09 2026-11-09T09:00"}},
		"the earlier of two": {calendar.Within{Of: weekend, WorkDays: c}, "2026-11-05T12:00:00",
			[]string{"2026-11-07 2026-11-09T09:00", "2026-11-14 2026-11-16T09:00"}},
		"the earlier of two, at another time": {calendar.Within{Of: set(t, "DTSTART:20261107T090000", "RDATE:20261108T180000,20261114T180000"), WorkDays: c}, "2026-11-05T12:00:00",
			[]string{"2026-11-07T09:00:00 2026-11-09T09:00", "2026-11-14T18:00:00 2026-11-16T18:00"}},
		"asked between the two": {calendar.Within{Of: weekend, WorkDays: c}, "2026-11-08T12:00:00",
			[]string{"2026-11-07 2026-11-09T09:00", "2026-11-14 2026-11-16T09:00"}},
		"each": {calendar.Within{Of: daily, WorkDays: c, Each: true}, "2026-11-05T12:00:00",
			[]string{"2026-11-06 2026-11-06T09:00", "2026-11-07 2026-11-09T09:00", "2026-11-08 2026-11-09T09:00", "2026-11-09 2026-11-09T09:00", "2026-11-10 2026-11-10T09:00"}},
		"each, back": {calendar.Within{Of: daily, WorkDays: c, Convention: calendar.Preceding, Each: true}, "2026-11-06T09:00:00",
			[]string{"2026-11-07 2026-11-06T09:00", "2026-11-08 2026-11-06T09:00", "2026-11-09 2026-11-09T09:00"}},
		"several times a day": {calendar.Within{Of: twice, WorkDays: c}, "2026-11-06T12:00:00",
			[]string{"2026-11-06T18:00:00 2026-11-06T18:00", "2026-11-09T09:00:00 2026-11-09T09:00", "2026-11-09T18:00:00 2026-11-09T18:00"}},
		"several times a Saturday": {calendar.Within{Of: cron(t, "0 9,18 * * 6"), WorkDays: c}, "2026-11-06T12:00:00",
			[]string{"2026-11-07T09:00:00 2026-11-09T09:00", "2026-11-07T18:00:00 2026-11-09T18:00"}},
		"a month end, named for October": {calendar.Within{Of: calendar.Monthly{Day: 31, At: nine}, WorkDays: c}, "2026-10-15T00:00:00",
			[]string{"2026-10 2026-11-02T09:00", "2026-11 2026-11-30T09:00"}},
		"the last working day as the last stays it": {calendar.Within{Of: calendar.Monthly{Day: -1, At: nine}, WorkDays: c, Convention: calendar.Preceding}, "2026-10-15T00:00:00",
			[]string{"2026-10 2026-10-30T09:00", "2026-11 2026-11-30T09:00"}},
		"skipped": {calendar.Within{Of: calendar.Weekly{On: []time.Weekday{time.Friday}, At: nine}, WorkDays: c, Convention: calendar.SkipDay}, "2026-11-20T12:00:00",
			[]string{"2026-12-04 2026-12-04T09:00"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, listedAfter(t, tt.rule, tt.after, len(tt.want)))
		})
	}
	var seconds []int
	for w := wall(t, "2026-11-09T00:00:00"); len(seconds) < 3; {
		slot, err := calendar.Within{Of: daily, WorkDays: c, Each: true}.After(w, calendar.Policies{})
		require.NoError(t, err)
		seconds, w = append(seconds, slot.Wall.Clock.Second), slot.Wall
	}
	require.Equal(t, []int{0, 1, 2}, seconds)
}

func TestDaysAndWindowsTogether(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST", "2026-11-11 holiday Carnival", "2026-11-14 holiday Saturday off")
	office := window(t, "Mo-Fr 09:00-18:00; Sa 10:00-14:00")
	shop := office.ClosedOnHolidays(c)
	bar := window(t, "Mo-Fr 20:00-02:00; Fr,Sa 20:00-04:00").ClosedOnHolidays(c)
	siesta := window(t, "Mo-Fr 09:00-12:00,14:00-18:00")
	tests := map[string]struct {
		within   calendar.Within
		at, want string
	}{
		"open":                         {calendar.Within{Window: office}, "2026-11-09T09:00", "2026-11-09T09:00"},
		"early":                        {calendar.Within{Window: office}, "2026-11-09T08:59", "2026-11-09T09:00"},
		"late":                         {calendar.Within{Window: office}, "2026-11-09T18:00", "2026-11-10T09:00"},
		"late, on its day":             {calendar.Within{Window: office, KeepDay: true}, "2026-11-09T18:00", "2026-11-09T09:00"},
		"late on Friday":               {calendar.Within{Window: office}, "2026-11-06T23:00", "2026-11-07T10:00"},
		"late on Friday, working days": {calendar.Within{Window: office, WorkDays: c}, "2026-11-06T23:00", "2026-11-09T09:00"},
		"late on Friday, preceding":    {calendar.Within{Window: office, WorkDays: c, Convention: calendar.Preceding}, "2026-11-06T23:00", "2026-11-06T09:00"},
		"late at a month end, modified following": {
			calendar.Within{Window: office, WorkDays: c, Convention: calendar.ModifiedFollowing}, "2026-10-30T23:00", "2026-10-30T09:00"},
		"late in a month, modified following": {
			calendar.Within{Window: office, WorkDays: c, Convention: calendar.ModifiedFollowing}, "2026-11-06T23:00", "2026-11-09T09:00"},
		"at noon":                         {calendar.Within{Window: siesta}, "2026-11-09T13:00", "2026-11-09T14:00"},
		"late, the last opening":          {calendar.Within{Window: siesta, KeepDay: true}, "2026-11-09T19:00", "2026-11-09T14:00"},
		"a Sunday keeps its time":         {calendar.Within{Window: office}, "2026-11-08T11:00", "2026-11-09T11:00"},
		"a Sunday, early":                 {calendar.Within{Window: office}, "2026-11-08T07:00", "2026-11-09T09:00"},
		"a Sunday, late":                  {calendar.Within{Window: office}, "2026-11-08T20:00", "2026-11-09T09:00"},
		"a Sunday, preceding, late":       {calendar.Within{Window: office, Convention: calendar.Preceding}, "2026-11-08T20:00", "2026-11-07T10:00"},
		"a Sunday, keeping its day":       {calendar.Within{Window: office, KeepDay: true}, "2026-11-08T11:00", "2026-11-09T11:00"},
		"a Saturday, working days":        {calendar.Within{Window: office, WorkDays: c}, "2026-11-07T11:00", "2026-11-09T11:00"},
		"a holiday, which the shop keeps": {calendar.Within{Window: shop}, "2026-11-11T11:00", "2026-11-12T11:00"},
		"a holiday, which no other keeps": {calendar.Within{Window: office}, "2026-11-11T11:00", "2026-11-11T11:00"},
		"a Saturday off":                  {calendar.Within{Window: shop}, "2026-11-14T11:00", "2026-11-16T11:00"},
		"any other Saturday":              {calendar.Within{Window: shop}, "2026-11-07T11:00", "2026-11-07T11:00"},
		"the tail of the eve":             {calendar.Within{Window: bar}, "2026-11-11T01:00", "2026-11-11T01:00"},
		"begins on a holiday":             {calendar.Within{Window: bar}, "2026-11-11T21:00", "2026-11-12T21:00"},
		"the missing tail of a holiday":   {calendar.Within{Window: bar}, "2026-11-12T01:00", "2026-11-12T20:00"},
		"the tail of Saturday":            {calendar.Within{Window: bar}, "2026-11-08T03:59", "2026-11-08T03:59"},
		"the tail of a working Friday":    {calendar.Within{Window: bar, WorkDays: c}, "2026-11-07T03:00", "2026-11-07T03:00"},
		"behind the tail of a Friday":     {calendar.Within{Window: bar, WorkDays: c}, "2026-11-07T04:00", "2026-11-09T20:00"},
		"a day all of whose hours count":  {calendar.Within{WorkDays: c}, "2026-11-14T23:59", "2026-11-16T23:59"},
		"days alone, closed on holidays":  {calendar.Within{Window: calendar.Window{}.ClosedOnHolidays(c)}, "2026-11-14T23:59", "2026-11-15T23:59"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.within.Of = calendar.Once{At: wall(t, tt.at+":00")}
			require.Equal(t, []string{tt.at + ":00 " + tt.want}, listedAfter(t, tt.within, "2026-01-01T00:00:00", 2))
		})
	}
}

func TestMovesHaveAReason(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "DE", "2026-12-25 holiday Christmas Day", "2026-12-28 holiday")
	easter := workCalendar(t, "EASTER", "2026-04-03 holiday Good Friday", "2026-04-06 holiday Easter Monday", "2026-06-01 holiday Rest", "2026-06-02 holiday Rest",
		"2026-08-16 holiday Sunday", "2026-08-31 holiday Last Monday")
	office := window(t, "Mo-Fr 09:00-18:00")
	nine := calendar.Clock{Hour: 9}
	at := func(text string) calendar.Once { return calendar.Once{At: wall(t, text)} }
	tests := map[string]struct {
		rule calendar.Recurrence
		want string
	}{
		"a weekend":            {calendar.Within{Of: at("2026-10-31T09:00:00"), WorkDays: c, Convention: calendar.Preceding}, "moved from Saturday 31 October to Friday 30 October because of the weekend"},
		"a holiday":            {calendar.Within{Of: at("2026-12-25T09:00:00"), WorkDays: c, Convention: calendar.Preceding}, "moved from Friday 25 December to Thursday 24 December because of Christmas Day"},
		"a holiday of no name": {calendar.Within{Of: at("2026-12-28T09:00:00"), WorkDays: c}, "moved from Monday 28 December to Tuesday 29 December because of a holiday"},
		"a window":             {calendar.Within{Of: at("2026-11-09T07:00:00"), Window: office}, "moved from 07:00 to 09:00 because of closed hours"},
		"a window, days":       {calendar.Within{Of: at("2026-11-06T20:00:00"), Window: office}, "moved from Friday 6 November 20:00 to Monday 9 November 09:00 because of closed hours"},
		"a Sunday of a window": {calendar.Within{Of: at("2026-11-08T10:00:00"), Window: office}, "moved from Sunday 8 November to Monday 9 November because of closed hours"},
		"both":                 {calendar.Within{Of: at("2026-12-25T20:00:00"), Window: office, WorkDays: c}, "moved from Friday 25 December 20:00 to Tuesday 29 December 09:00 because of Christmas Day and a holiday"},
		"nothing":              {calendar.Within{Of: at("2026-11-09T10:00:00"), Window: office, WorkDays: c}, "exact"},
		"past the end":         {calendar.Within{Of: at("2028-01-04T10:00:00"), WorkDays: c}, "exact; provisional, because not all days of the calendar are known yet"},
		"moved twice": {calendar.Within{Of: calendar.Within{Of: at("2026-12-25T20:00:00"), WorkDays: c}, Window: office},
			"moved from Friday 25 December to Tuesday 29 December because of Christmas Day and a holiday; moved from Tuesday 29 December 20:00 to Wednesday 30 December 09:00 because of closed hours"},
		"announced": {calendar.Offset{Of: at("2026-12-30T20:00:00"), Days: -3, At: nine, WorkDays: c}, "7 days before 30 December; 3 working days of DE"},
		"an announcement": {calendar.Within{Of: calendar.Offset{Of: at("2026-12-30T20:00:00"), Days: -2, At: nine}, WorkDays: c},
			"1 day before 30 December; moved from Monday 28 December to Tuesday 29 December because of a holiday"},
		"a leap day": {calendar.Within{Of: calendar.Bounded{Rule: calendar.Yearly{Month: time.February, Day: 29, At: nine}, Start: wall(t, "2027-01-01T00:00:00")}, WorkDays: c},
			"29 February moved to 28 February; moved from Sunday 28 February to Monday 1 March because of the weekend"},
		"a holiday after a weekend":   {calendar.Within{Of: at("2026-04-04T09:00:00"), WorkDays: easter}, "moved from Saturday 4 April to Tuesday 7 April because of the weekend and Easter Monday"},
		"a holiday before a weekend":  {calendar.Within{Of: at("2026-04-05T09:00:00"), WorkDays: easter, Convention: calendar.Preceding}, "moved from Sunday 5 April to Thursday 2 April because of the weekend and Good Friday"},
		"holidays around a weekend":   {calendar.Within{Of: at("2026-04-03T09:00:00"), WorkDays: easter}, "moved from Friday 3 April to Tuesday 7 April because of Good Friday and Easter Monday"},
		"two holidays of one name":    {calendar.Within{Of: at("2026-06-01T09:00:00"), WorkDays: easter}, "moved from Monday 1 June to Wednesday 3 June because of Rest"},
		"a holiday on the weekend":    {calendar.Within{Of: at("2026-08-15T09:00:00"), WorkDays: easter}, "moved from Saturday 15 August to Monday 17 August because of the weekend"},
		"turned back by a holiday":    {calendar.Within{Of: at("2026-08-29T09:00:00"), WorkDays: easter, Convention: calendar.ModifiedFollowing}, "moved from Saturday 29 August to Friday 28 August because of the weekend and Last Monday"},
		"closed hours, and a holiday": {calendar.Within{Of: at("2026-04-05T12:00:00"), Window: office.ClosedOnHolidays(easter)}, "moved from Sunday 5 April to Tuesday 7 April because of closed hours and Easter Monday"},
		"late, before a holiday":      {calendar.Within{Of: at("2026-04-02T20:00:00"), Window: office.ClosedOnHolidays(easter)}, "moved from Thursday 2 April 20:00 to Tuesday 7 April 09:00 because of closed hours and Good Friday"},
		"the third working day":       {calendar.Monthly{Day: 3, At: nine, WorkDays: c}, "third working day of DE"},
		"the 22nd working day":        {calendar.Monthly{Day: 22, At: nine, WorkDays: c}, "22nd working day of DE"},
		"the last working day":        {calendar.Monthly{Day: -1, At: nine, WorkDays: c}, "last working day of DE"},
		"the 11th before the end":     {calendar.Monthly{Day: -11, At: nine, WorkDays: c}, "11th-last working day of DE"},
		"a working day, and hours": {calendar.Within{Of: calendar.Monthly{Day: 2, At: calendar.Clock{Hour: 7}, WorkDays: c}, Window: office},
			"second working day of DE; moved from 07:00 to 09:00 because of closed hours"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := calendar.Next(tt.rule, zone(t, "Europe/Berlin"), calendar.Policies{}, instant(t, "2026-01-01T00:00:00Z"))
			require.NoError(t, err)
			require.Equal(t, tt.want, o.Reason())
		})
	}
}

// What was looked up is there also if nothing moved, and Next begins it where its search began.
func TestSlotsSayWhatWasConsulted(t *testing.T) {
	t.Parallel()

	de, fr := workCalendar(t, "DE", "2026-11-11 holiday"), workCalendar(t, "FR")
	long, err := calendar.ParseWorkCalendar("name AT\nrelease 2026-01-01\nuntil 2030-12-31")
	require.NoError(t, err)
	nine := calendar.Clock{Hour: 9}
	at := func(text string) calendar.Once { return calendar.Once{At: wall(t, text+"T09:00:00")} }
	hours := window(t, "Mo-Fr 08:00-18:00").ClosedOnHolidays(fr)
	night := window(t, "Mo-Su 20:00-10:00").ClosedOnHolidays(fr)
	tests := map[string]struct {
		rule calendar.Recurrence
		want string
	}{
		"nothing":           {at("2026-11-10"), "  "},
		"a window alone":    {calendar.Within{Of: at("2026-11-07"), Window: window(t, "Mo-Fr 08:00-18:00")}, "  "},
		"not moved":         {calendar.Within{Of: at("2026-11-10"), WorkDays: de}, "DE 2026-11-10 2026-11-10"},
		"moved":             {calendar.Within{Of: at("2026-11-11"), WorkDays: de}, "DE 2026-11-11 2026-11-12"},
		"the other way":     {calendar.Within{Of: at("2026-10-31"), WorkDays: de, Convention: calendar.ModifiedFollowing}, "DE 2026-10-30 2026-11-02"},
		"nearest":           {calendar.Within{Of: at("2026-10-31"), WorkDays: de, Convention: calendar.Nearest}, "DE 2026-10-30 2026-11-02"},
		"holidays alone":    {calendar.Within{Of: at("2026-11-10"), Window: hours}, "FR 2026-11-10 2026-11-10"},
		"two calendars":     {calendar.Within{Of: at("2026-11-11"), WorkDays: de, Window: hours}, "DE,FR 2026-11-11 2026-11-12"},
		"the eve":           {calendar.Within{Of: at("2026-11-10"), Window: night}, "FR 2026-11-09 2026-11-10"},
		"one in another":    {calendar.Within{Of: calendar.Within{Of: at("2026-11-11"), WorkDays: fr}, WorkDays: de}, "DE,FR 2026-11-11 2026-11-12"},
		"one of two again":  {calendar.Within{Of: calendar.Within{Of: at("2026-11-11"), WorkDays: de, Window: hours}, WorkDays: fr}, "DE,FR 2026-11-11 2026-11-12"},
		"announced":         {calendar.Offset{Of: at("2026-11-13"), Days: -2, At: nine, WorkDays: de}, "DE 2026-11-10 2026-11-13"},
		"announced, moved":  {calendar.Offset{Of: calendar.Within{Of: at("2026-11-11"), WorkDays: fr}, Days: 1, At: nine, WorkDays: de}, "DE,FR 2026-11-11 2026-11-12"},
		"the second":        {calendar.Bounded{Rule: calendar.Monthly{Day: 2, At: nine, WorkDays: de}, Start: wall(t, "2026-11-01T00:00:00")}, "DE 2026-11-01 2026-11-03"},
		"the last":          {calendar.Bounded{Rule: calendar.Monthly{Day: -1, At: nine, WorkDays: de}, Start: wall(t, "2026-11-01T00:00:00")}, "DE 2026-11-30 2026-11-30"},
		"up to the end":     {calendar.Within{Of: at("2027-12-31"), WorkDays: de}, "DE 2027-12-31 2027-12-31"},
		"past the end":      {calendar.Within{Of: at("2028-01-01"), WorkDays: de, Convention: calendar.Preceding}, "DE 2027-12-31 2028-01-01 provisional"},
		"past one end":      {calendar.Within{Of: at("2028-01-03"), WorkDays: de, Window: hours}, "DE,FR 2028-01-03 2028-01-03 provisional"},
		"past the second":   {calendar.Within{Of: at("2028-01-03"), WorkDays: long, Window: hours}, "AT,FR 2028-01-03 2028-01-03 provisional"},
		"the second, later": {calendar.Bounded{Rule: calendar.Monthly{Day: 2, At: nine, WorkDays: de}, Start: wall(t, "2028-02-01T00:00:00")}, "DE 2028-02-01 2028-02-02 provisional"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := func(c calendar.Consulted) string {
				if c.Calendars == "" {
					require.Zero(t, c)
					return "  "
				}
				again, err := calendar.ParseConsulted(c.String())
				require.NoError(t, err)
				require.Equal(t, c, again)
				var names []string
				for name, release := range c.Releases() {
					require.NotEmpty(t, release)
					names = append(names, name)
				}
				text := fmt.Sprintf("%s %s %s", strings.Join(names, ","), c.From, c.Until)
				if c.Provisional {
					text += " provisional"
				}
				return text
			}
			slot, err := tt.rule.After(calendar.WallTime{}, calendar.Policies{})
			require.NoError(t, err)
			require.Equal(t, tt.want, text(slot.Consulted))
			next, err := calendar.Next(tt.rule, zone(t, "Asia/Tokyo"), calendar.Policies{}, instant(t, "2026-09-30T16:00:00Z"))
			require.NoError(t, err)
			if slot.Consulted.Calendars != "" {
				require.Equal(t, date(2026, 10, 1), next.Consulted.From)
				next.Consulted.From = slot.Consulted.From
			}
			require.Equal(t, slot.Consulted, next.Consulted)
		})
	}
}

// A release that moves a holiday changes the day, not the key.
func TestANewReleaseMovesAnOccurrence(t *testing.T) {
	t.Parallel()

	nine := calendar.Clock{Hour: 9}
	none, off := workCalendar(t, "A"), workCalendar(t, "A", "2026-12-28 holiday", "2026-12-10 holiday", "2026-12-15 holiday", "2026-11-30 holiday")
	rules := map[string]func(*calendar.WorkCalendar) (rule calendar.Recurrence, after string){
		"a 2026-12 2026-12-28T09:00, 2026-12 2026-12-29T09:00": func(c *calendar.WorkCalendar) (calendar.Recurrence, string) {
			return calendar.Within{Of: calendar.Monthly{Day: 28, At: nine}, WorkDays: c}, "2026-12-01T12:00:00"
		},
		"d 2026-12-10 2026-12-10T09:00, 2026-12-10 2026-12-09T09:00": func(c *calendar.WorkCalendar) (calendar.Recurrence, string) {
			return calendar.Within{Of: calendar.Weekly{On: []time.Weekday{time.Thursday}, At: nine}, WorkDays: c, Convention: calendar.Preceding}, "2026-12-04T00:00:00"
		},
		"e 2026-11-30 2026-11-30T09:00, 2026-12-07 2026-12-07T09:00": func(c *calendar.WorkCalendar) (calendar.Recurrence, string) {
			return calendar.Within{Of: calendar.Weekly{On: []time.Weekday{time.Monday}, At: nine}, WorkDays: c, Convention: calendar.SkipDay}, "2026-11-24T00:00:00"
		},
		"g 2026-12-17T20:00:00 2026-12-14T09:00, 2026-12-17T20:00:00 2026-12-11T09:00": func(c *calendar.WorkCalendar) (calendar.Recurrence, string) {
			return calendar.Offset{Of: calendar.Once{At: wall(t, "2026-12-17T20:00:00")}, Days: -3, At: nine, WorkDays: c}, "2026-12-01T00:00:00"
		},
	}
	for name, rule := range rules {
		var got []string
		for _, c := range []*calendar.WorkCalendar{none, off} {
			r, after := rule(c)
			got = append(got, listedAfter(t, r, after, 1)...)
		}
		require.Equal(t, name[2:], strings.Join(got, ", "))
	}
	require.NotEqual(t, none.Hash(2026), off.Hash(2026))
	require.Equal(t, none.Hash(2027), off.Hash(2027))
}

func TestWorkingDaysBeforeAnAnnouncedDay(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST")
	nine := calendar.Clock{Hour: 9}
	announce := func(day string, convention calendar.Convention, days int) string {
		var of calendar.Recurrence = calendar.Once{At: wall(t, day+"T12:00:00")}
		if convention != "" {
			of = calendar.Within{Of: of, WorkDays: c, Convention: convention}
		}
		return listedAfter(t, calendar.Offset{Of: of, Days: days, At: nine, WorkDays: c}, "2026-01-01T00:00:00", 1)[0][len("2026-10-31T12:00:00 "):]
	}
	require.Equal(t, "2026-10-28T09:00", announce("2026-10-31", "", -3))
	require.Equal(t, "2026-10-28T09:00", announce("2026-10-31", calendar.Following, -3))
	require.Equal(t, "2026-10-27T09:00", announce("2026-10-31", calendar.Preceding, -3))
	require.Equal(t, "2026-10-31T09:00", announce("2026-10-31", "", 0))
	require.Equal(t, "2026-11-02T09:00", announce("2026-10-31", "", 1))
	same, err := calendar.Offset{Of: calendar.Once{At: wall(t, "2026-10-31T12:00:00")}, At: nine, WorkDays: c}.After(calendar.WallTime{}, calendar.Policies{})
	require.NoError(t, err)
	require.Zero(t, same.Consulted, "no working day is counted")
	require.Zero(t, same.Move)

	// Saturday's, Sunday's and Monday's meet on Wednesday: the first of them is announced.
	rule := calendar.Offset{Of: calendar.Daily{At: nine}, Days: -3, At: nine, WorkDays: c}
	want := []string{"2026-10-30 2026-10-27T09:00", "2026-10-31 2026-10-28T09:00", "2026-11-03 2026-10-29T09:00", "2026-11-04 2026-10-30T09:00", "2026-11-05 2026-11-02T09:00"}
	require.Equal(t, want, listedAfter(t, rule, "2026-10-26T09:00:00", 5))
	require.Equal(t, want[1:], listedAfter(t, rule, "2026-10-27T12:00:00", 4))
}

func TestMonthlyOnWorkingDays(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST", "2026-10-01 holiday", "2026-10-30 holiday", "2026-10-03 work")
	at := func(day int, more calendar.Monthly) calendar.Recurrence {
		more.Day, more.At, more.WorkDays = day, calendar.Clock{Hour: 9}, c
		return more
	}
	for name, tt := range map[string]struct {
		rule calendar.Recurrence
		want string
	}{
		"the first":            {at(1, calendar.Monthly{}), "2026-10 2026-10-02T09:00, 2026-11 2026-11-02T09:00, 2026-12 2026-12-01T09:00"},
		"the second":           {at(2, calendar.Monthly{}), "2026-10 2026-10-03T09:00, 2026-11 2026-11-03T09:00, 2026-12 2026-12-02T09:00"},
		"the last":             {at(-1, calendar.Monthly{}), "2026-10 2026-10-29T09:00, 2026-11 2026-11-30T09:00, 2026-12 2026-12-31T09:00"},
		"the third last":       {at(-3, calendar.Monthly{}), "2026-10 2026-10-27T09:00, 2026-11 2026-11-26T09:00, 2026-12 2026-12-29T09:00"},
		"the 22nd, not in Nov": {at(22, calendar.Monthly{}), "2026-12 2026-12-30T09:00, 2027-03 2027-03-30T09:00, 2027-04 2027-04-30T09:00"},
		"every other month":    {at(1, calendar.Monthly{Every: 2, From: date(2026, 10, 1)}), "2026-10 2026-10-02T09:00, 2026-12 2026-12-01T09:00, 2027-02 2027-02-01T09:00"},
		"not before a day":     {at(1, calendar.Monthly{From: date(2026, 10, 3)}), "2026-11 2026-11-02T09:00, 2026-12 2026-12-01T09:00, 2027-01 2027-01-01T09:00"},
	} {
		require.Equal(t, tt.want, strings.Join(listedAfter(t, tt.rule, "2026-09-30T12:00:00", 3), ", "), name)
	}
	require.Empty(t, listedAfter(t, at(28, calendar.Monthly{}), "9990-01-01T00:00:00", 1))
	slot, err := at(1, calendar.Monthly{}).After(wall(t, "2026-10-01T00:00:00"), calendar.Policies{})
	require.NoError(t, err)
	require.Equal(t, calendar.UnitMonth, slot.Unit)
	require.Zero(t, slot.Nominal)
}

// An exception names the day that the rule names, or the one to which the slot moved.
func TestExceptionsKnowMovedSlots(t *testing.T) {
	t.Parallel()

	moved := calendar.Within{Of: calendar.Monthly{Day: 31, At: calendar.Clock{Hour: 9}}, WorkDays: workCalendar(t, "TEST")}
	for _, exception := range []string{"2026-10-31T09:00:00", "2026-11-02T09:00:00"} {
		b := calendar.Bounded{Rule: moved, Except: []calendar.WallTime{wall(t, exception)}}
		require.Equal(t, []string{"2026-11 2026-11-30T09:00"}, listedAfter(t, b, "2026-10-15T00:00:00", 1), exception)
	}
}

func TestWithinEndsIfNothingIsLeft(t *testing.T) {
	t.Parallel()

	c := workCalendar(t, "TEST")
	sundays := calendar.Within{Of: calendar.Weekly{On: []time.Weekday{time.Sunday}, At: calendar.Clock{Hour: 9}}, WorkDays: c, Convention: calendar.SkipDay}
	_, err := sundays.After(wall(t, "9900-01-01T00:00:00"), calendar.Policies{})
	require.ErrorIs(t, err, calendar.ErrNoOccurrence)
	_, err = calendar.Within{Of: cron(t, "* * * * * SUN"), WorkDays: c, Convention: calendar.SkipDay}.After(wall(t, "2026-01-01T00:00:00"), calendar.Policies{})
	require.ErrorIs(t, err, calendar.ErrNoOccurrence)
	_, err = calendar.Within{Of: calendar.Daily{}, WorkDays: c, Window: window(t, "Sa,Su 09:00-12:00")}.After(calendar.WallTime{}, calendar.Policies{})
	checkInvalid(t, err, "within", []string{"the window never opens on a working day of the week"})
	slot, err := calendar.Within{Of: cron(t, "* * * * * *"), WorkDays: c}.After(wall(t, "2026-11-06T23:59:59"), calendar.Policies{})
	require.NoError(t, err)
	require.Equal(t, "2026-11-09T00:00:00", slot.Key)
}

// In New York clocks skip 02:00 to 03:00 on 14 March 2027.
func TestASkippedOpeningIsTheEndOfTheGap(t *testing.T) {
	t.Parallel()

	early := window(t, "02:30-22:00")
	next := func(w calendar.Window, at calendar.Clock) string {
		o, err := calendar.Next(calendar.Within{Of: calendar.Daily{At: at}, Window: w}, zone(t, "America/New_York"), calendar.Policies{}, instant(t, "2027-03-14T04:00:00Z"))
		require.NoError(t, err)
		return fmt.Sprintf("%s %s", o.Wall, o.Resolution.Shown())
	}
	require.Equal(t, "2027-03-14T03:00:00 2027-03-14T03:00:00", next(early, calendar.Clock{Hour: 1}))
	require.Equal(t, "2027-03-14T02:45:00 2027-03-14T03:45:00", next(early, calendar.Clock{Hour: 2, Minute: 45}))
	require.Equal(t, "2027-03-14T02:30:00 2027-03-14T03:30:00", next(window(t, "02:30-02:45"), calendar.Clock{Hour: 1}))
}
