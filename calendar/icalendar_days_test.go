package calendar_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/calendar"
)

// calendarOf returns a file of events, each of which is lines.
func calendarOf(events ...string) string {
	text := "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//test//EN\nBEGIN:VTIMEZONE\nTZID:X\nDTSTART:20260101T000000\nEND:VTIMEZONE\n"
	for _, event := range events {
		text += "BEGIN:VEVENT\n" + event + "\nEND:VEVENT\n"
	}
	return strings.ReplaceAll(text+"END:VCALENDAR\n", "\n", "\r\n")
}

func TestParseICalendarDays(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		events []string
		want   string
	}{
		"as gov.uk writes it":      {[]string{"DTEND;VALUE=DATE:20261226\nDTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas Day\nUID:1@gov.uk\nSEQUENCE:0\nDTSTAMP:20260101T120000Z"}, "12-25 Christmas Day"},
		"as France writes it":      {[]string{"SUMMARY:Noël\nDTSTART:20261225\nDTEND:20261225"}, "12-25 Noël"},
		"in order":                 {[]string{"DTSTART:20261225\nSUMMARY:b", "DTSTART:20260101\nSUMMARY:a", "DTSTART:20261225\nSUMMARY:c"}, "01-01 a, 12-25 b, 12-25 c"},
		"transparent":              {[]string{"DTSTART;VALUE=DATE:20261225\nTRANSP:TRANSPARENT\nSUMMARY:a"}, "12-25 a"},
		"of several days":          {[]string{"DTSTART;VALUE=DATE:20261001\nDTEND;VALUE=DATE:20261004\nSUMMARY:National Day"}, "10-01 National Day, 10-02 National Day, 10-03 National Day"},
		"of three days":            {[]string{"DTSTART;VALUE=DATE:20261001\nDURATION:P3D\nSUMMARY:a"}, "10-01 a, 10-02 a, 10-03 a"},
		"of a week":                {[]string{"DTSTART;VALUE=DATE:20261225\nDURATION:P1W\nSUMMARY:a"}, "12-25 a, 12-26 a, 12-27 a, 12-28 a, 12-29 a, 12-30 a, 12-31 a"},
		"over the last day":        {[]string{"DTSTART;VALUE=DATE:20261231\nDURATION:P3D\nSUMMARY:a"}, "12-31 a"},
		"each year":                {[]string{"DTSTART;VALUE=DATE:20200101\nRRULE:FREQ=YEARLY\nSUMMARY:New Year"}, "01-01 New Year"},
		"with an exception":        {[]string{"DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY;COUNT=3\nEXDATE;VALUE=DATE:20260112\nSUMMARY:a"}, "01-05 a, 01-19 a"},
		"until a day":              {[]string{"DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY;UNTIL=20260112\nSUMMARY:a"}, "01-05 a, 01-12 a"},
		"until an instant":         {[]string{"DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY;UNTIL=20260118T230000Z\nSUMMARY:a"}, "01-05 a, 01-12 a"},
		"also on other days":       {[]string{"DTSTART;VALUE=DATE:20260105\nRDATE;VALUE=DATE:20260501,20260105\nSUMMARY:a"}, "01-05 a, 05-01 a"},
		"a start beside the rule":  {[]string{"DTSTART;VALUE=DATE:20260102\nRRULE:FREQ=MONTHLY;BYMONTHDAY=1;COUNT=2\nSUMMARY:a"}, "01-02 a, 02-01 a, 03-01 a"},
		"cancelled":                {[]string{"DTSTART;VALUE=DATE:20260105\nSTATUS:CANCELLED", "DTSTART:20260106\nSTATUS:CONFIRMED"}, "01-06 "},
		"one of them on another":   {[]string{"UID:1\nDTSTART:20260105\nRRULE:FREQ=WEEKLY;COUNT=2\nSUMMARY:a", "UID:1\nRECURRENCE-ID;VALUE=DATE:20260112\nDTSTART:20260113\nSUMMARY:b", "UID:2\nDTSTART:20260112\nSUMMARY:c"}, "01-05 a, 01-12 c, 01-13 b"},
		"one of them cancelled":    {[]string{"UID:1\nRECURRENCE-ID;VALUE=DATE:20260105\nDTSTART:20260105\nSTATUS:CANCELLED", "UID:1\nDTSTART:20260105\nRRULE:FREQ=WEEKLY;COUNT=2\nSUMMARY:a"}, "01-12 a"},
		"with an alarm":            {[]string{"DTSTART:20260105\nBEGIN:VALARM\nTRIGGER:-PT15M\nDURATION:PT5M\nSUMMARY:no\nEND:VALARM\nSUMMARY:a"}, "01-05 a"},
		"a name that is folded":    {[]string{"DTSTART:20260105\nSUMMARY;LANGUAGE=en:Day of the \n Republic\\, and\\nof the Constitution"}, "01-05 Day of the Republic, and of the Constitution"},
		"a name that is too long":  {[]string{"DTSTART:20260105\nSUMMARY:" + strings.Repeat("é", 60)}, "01-05 " + strings.Repeat("é", 48) + "…"},
		"nothing up to the end":    {[]string{"DTSTART:20270105\nSUMMARY:a"}, ""},
		"a leap day in leap years": {[]string{"DTSTART:20240229\nRRULE:FREQ=YEARLY\nSUMMARY:a"}, "2024-02-29 a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			days, err := calendar.ParseICalendarDays(calendarOf(tt.events...), date(2026, 12, 31))
			require.NoError(t, err)
			var got []string
			for _, day := range days {
				if day.Date.Year == 2026 || tt.want[:2] == "20" {
					got = append(got, strings.TrimPrefix(day.Date.String(), "2026-")+" "+day.Name)
				}
			}
			require.Equal(t, tt.want, strings.Join(got, ", "))
			_, err = calendar.NewWorkCalendar(calendar.WorkCalendarOptions{Name: "A", Release: "2026-01-01", Until: date(2026, 12, 31), Holidays: days})
			require.NoError(t, err)
		})
	}
}

func TestParseICalendarDaysNamesEveryBadLine(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"a page": {"<!doctype html>\n<p>", []string{
			`line 1 is not of the form NAME:VALUE: "<!doctype html>"`, `line 2 is not of the form NAME:VALUE: "<p>"`}},
		"empty":     {"", []string{"text has no all-day event"}},
		"no events": {calendarOf(), []string{"text has no all-day event"}},
		"days": {calendarOf("DTSTART:20261225T000000\nDTEND;VALUE=DATE:20260230\nEXDATE:20261224,christmas\nRECURRENCE-ID:2026-12-25\nDURATION:PT24H\nDURATION:P367D\nDURATION:P0D"), []string{
			`line 9 has the DTSTART "20261225T000000" with a time of day, which an all-day event does not have`,
			`line 10 has the DTEND "20260230", which is on no calendar`,
			`line 11 has the EXDATE "christmas", which is not of the form YYYYMMDD`,
			`line 12 has the RECURRENCE-ID "2026-12-25", which is not of the form YYYYMMDD`,
			`line 13 has the DURATION "PT24H", which is not P1D to P366D`,
			`line 14 has the DURATION "P367D", which is not P1D to P366D`,
			`line 15 has the DURATION "P0D", which is not P1D to P366D`}},
		"no start": {calendarOf("SUMMARY:a", "DTSTART:20260101"), []string{"line 8 begins an event without a DTSTART"}},
		"rules":    {calendarOf("DTSTART:20260101\nRRULE:FREQ=SOMETIMES\nRRULE:FREQ=DAILY"), []string{"line 11 is a second RRULE"}},
		"a rule": {calendarOf("DTSTART:20260101\nRRULE:FREQ=YEARLY;BYMONTH=13", "DTSTART:20260101\nRRULE:FREQ=HOURLY"), []string{
			`line 10 has an RRULE that is invalid: BYMONTH`, `line 14 has an RRULE that yields several times a day`}},
		"too long":       {calendarOf("DTSTART:20260101\nDTEND:20270103"), []string{"line 8 begins an event of 367 days, more than 366"}},
		"not ended":      {"BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101", []string{`line 3 is the last, and "VEVENT" does not end`}},
		"ended too soon": {"BEGIN:VCALENDAR\nEND:VEVENT\nEND:VCALENDAR", []string{`line 2 ends "VEVENT", which has not begun`}},
		"too many":       {calendarOf("DTSTART:19000101\nDURATION:P366D\nRRULE:FREQ=DAILY"), []string{"text has more than 100000 days until 2026-12-31"}},
		"too large":      {strings.Repeat(" ", 4<<20+1), []string{"text has 4194305 bytes, more than 4194304"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			days, err := calendar.ParseICalendarDays(tt.text, date(2026, 12, 31))
			require.Nil(t, days)
			problems := inputProblems(t, err)
			require.Len(t, problems, len(tt.want), "%q", problems)
			for i, want := range tt.want {
				require.Contains(t, problems[i], want)
			}
		})
	}
	_, err := calendar.ParseICalendarDays(calendarOf("DTSTART:20260101"), calendar.Date{})
	require.Equal(t, []string{"until is 0000-00-00, which is on no calendar"}, inputProblems(t, err))
}

func FuzzParseICalendarDays(f *testing.F) {
	f.Add(calendarOf("UID:1\nDTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227\nSUMMARY:Christmas\\, both\nRRULE:FREQ=YEARLY\nEXDATE:20271225"))
	f.Add(calendarOf("UID:1\nRECURRENCE-ID:20261225\nDTSTART:20261226\nDURATION:P2W", "DTSTART:20260101\nRDATE:20260102\nSTATUS:CANCELLED"))
	f.Add("BEGIN:VEVENT\nBEGIN:VEVENT\nDTSTART:00010101\nRRULE:FREQ=DAILY;COUNT=10000\nEND:VEVENT\n folded\nEND:VEVENT")
	f.Fuzz(func(t *testing.T, text string) {
		until := date(2027, 12, 31)
		days, err := calendar.ParseICalendarDays(text, until)
		if err != nil {
			if problems := inputProblems(t, err); len(problems) == 0 || len(problems) > 101 {
				t.Fatalf("%q: %d problems", text, len(problems))
			}
			return
		}
		last := calendar.Date{}
		for _, day := range days {
			if !day.Date.Valid() || day.Date.Before(last) || until.Before(day.Date) || len(day.Name) > 100 {
				t.Fatalf("%q has %+v after %s", text, day, last)
			}
			last = day.Date
		}
		c, err := calendar.NewWorkCalendar(calendar.WorkCalendarOptions{Name: "FUZZ", Release: "2026-01-01", Until: until, Holidays: days})
		if err != nil { // too many days off at a stretch
			if problems := inputProblems(t, err); len(problems) != 1 || !strings.HasPrefix(problems[0], "holidays leave no working day") {
				t.Fatalf("%q: %q", text, problems)
			}
			return
		}
		for _, day := range days {
			if _, off := c.Holiday(day.Date); !off {
				t.Fatalf("%q: %s is no holiday", text, fmt.Sprint(day))
			}
		}
	})
}
