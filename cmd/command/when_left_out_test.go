package command

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestOmittedOccurrencesAreShownInOrder(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--zone", "America/New_York", "--rule", "*/30 * * * *", "--from", "2026-03-08", "-n", "5")
	want := `
     WALL TIME            CLOCKS SHOW          OFFSET  INSTANT               REASON
     2026-03-08T00:00:00  2026-03-08T00:00:00  -05:00  2026-03-08T05:00:00Z  exact
     2026-03-08T00:30:00  2026-03-08T00:30:00  -05:00  2026-03-08T05:30:00Z  exact
     2026-03-08T01:00:00  2026-03-08T01:00:00  -05:00  2026-03-08T06:00:00Z  exact
     2026-03-08T01:30:00  2026-03-08T01:30:00  -05:00  2026-03-08T06:30:00Z  exact
gap  2026-03-08T02:00:00                                                     gives way to another because clocks skip 02:00–03:00, likewise until 2026-03-08T02:30:00
     2026-03-08T03:00:00  2026-03-08T03:00:00  -04:00  2026-03-08T07:00:00Z  exact
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
	r = almanacAt(t, today, "when", "--zone", "America/New_York", "--rule", "once", "--at", "02:30", "--from", "2026-03-08", "--gap", "skip")
	want = `
     WALL TIME            CLOCKS SHOW  OFFSET  INSTANT  REASON
gap  2026-03-08T02:30:00                                left out because clocks skip 02:00–03:00
never from 2026-03-08 on
`[1:]
	if r != (result{exitOK, want, ""}) {
		t.Errorf("exit code %d, %q:\n%s\nwant:\n%s", r.code, r.errs, r.out, want)
	}
}

func TestOmittedOccurrencesHaveAReason(t *testing.T) {
	t.Parallel()
	const newYork, skip = "America/New_York", "left out because clocks skip 02:00–03:00"
	tests := map[string]struct {
		zone string
		args []string
		want []leftOut
	}{
		"nothing where all happens":       {newYork, []string{"--at", "02:30", "--from", "2026-03-07"}, nil},
		"nor in a fold":                   {newYork, []string{"--rule", "*/30 * * * *", "--from", "2026-11-01"}, nil},
		"nor where a day is only moved":   {"UTC", []string{"--rule", "yearly", "--on", "02-29"}, nil},
		"nor a day that is only an RRULE": {"UTC", []string{"--rule", "FREQ=MONTHLY;BYMONTHDAY=31"}, nil},
		"a gap":                           {newYork, []string{"--at", "02:30", "--from", "2026-03-07", "--gap", "skip"}, []leftOut{{Wall: "2026-03-08T02:30:00", Reason: skip}}},
		"the second of two that would meet": {newYork, []string{"--rule", "10,50 2 * * *", "--from", "2026-03-08", "--gap", "boundary"}, []leftOut{
			{Wall: "2026-03-08T02:50:00", Reason: "gives way to another because clocks skip 02:00–03:00"}}},
		"one that would meet an earlier one": {newYork, []string{"--rule", "@hourly", "--from", "2026-03-08", "--gap", "backward"}, []leftOut{
			{Wall: "2026-03-08T02:00:00", Reason: "gives way to another because clocks skip 02:00–03:00"}}},
		"a whole day": {"Pacific/Apia", []string{"--from", "2011-12-29"}, []leftOut{
			{Wall: "2011-12-30T09:00:00", Reason: "gives way to another because clocks skip 2011-12-30 00:00–2011-12-31 00:00"}}},
		"short months": {"UTC", []string{"--rule", "monthly", "--on", "30", "--from", "2026-01-30", "--month-end", "skip"}, []leftOut{
			{Wall: "2026-02-30T09:00:00", Reason: "left out because there is no 30 February 2026"}}},
		"common years": {"UTC", []string{"--rule", "yearly", "--on", "02-29", "--from", "2027-01-01", "--leap-day", "skip", "-n", "1"}, []leftOut{
			{Wall: "2027-02-29T09:00:00", Reason: "left out because there is no 29 February 2027"}}},
		"no more than were asked for, where nothing ever happens": {"UTC", []string{"--rule", "yearly", "--every", "4", "--on", "02-29", "--from", "2025-01-01", "--leap-day", "skip", "-n", "1"}, []leftOut{
			{Wall: "2025-02-29T09:00:00", Reason: "left out because there is no 29 February 2025"}}},
		"years without the month of another calendar": {"Asia/Jerusalem", []string{"--calendar", "hebrew", "--rule", "yearly", "--on", "05L-08", "--missing-month", "skip", "--from", "2026-01-01", "-n", "1"}, []leftOut{
			{Wall: "2026-02-25T09:00:00", Reason: "left out because 5786 has no 8 Adar I"}}},
		"years without the day of another calendar": {"Asia/Jerusalem", []string{"--calendar", "hebrew", "--rule", "yearly", "--on", "03-30", "--missing-day", "skip", "--from", "2029-01-01", "-n", "1"}, []leftOut{
			{Wall: "2029-12-06T09:00:00", Reason: "left out because 5790 has no 30 Kislev"}}},
		"the last of a rule":         {newYork, []string{"--rule", "FREQ=DAILY;COUNT=2", "--at", "02:30", "--from", "2026-03-07", "--gap", "skip"}, []leftOut{{Wall: "2026-03-08T02:30:00", Reason: skip}}},
		"the last before an instant": {newYork, []string{"--rule", "FREQ=DAILY;UNTIL=20260308T073000Z", "--at", "02:30", "--from", "2026-03-07", "--gap", "skip"}, []leftOut{{Wall: "2026-03-08T02:30:00", Reason: skip}}},
		"nothing after the last":     {newYork, []string{"--rule", "FREQ=DAILY;UNTIL=20260308T072959Z", "--at", "02:30", "--from", "2026-03-07", "--gap", "skip"}, nil},
		"days off that give way": {"Europe/Berlin", []string{"--working-days", "DE-BY", "--from", "2026-04-02"}, []leftOut{
			{Wall: "2026-04-03T09:00:00", Reason: "gives way to the one on Tuesday 7 April because of Good Friday"},
			{Wall: "2026-04-04T09:00:00", Last: "2026-04-05T09:00:00", Reason: "gives way to the one on Tuesday 7 April because of the weekend"},
			{Wall: "2026-04-06T09:00:00", Reason: "gives way to the one on Tuesday 7 April because of Easter Monday"}}},
		"days off that are left out": {"Europe/Berlin", []string{"--working-days", "DE-BY", "--convention", "skip", "--from", "2026-04-02"}, []leftOut{
			{Wall: "2026-04-03T09:00:00", Reason: "left out because of Good Friday"},
			{Wall: "2026-04-04T09:00:00", Last: "2026-04-05T09:00:00", Reason: "left out because of the weekend"},
			{Wall: "2026-04-06T09:00:00", Reason: "left out because of Easter Monday"}}},
		"days off that give way to a day before": {"Europe/Berlin", []string{"--rule", "weekly", "--on", "fri,sat", "--working-days", "DE-BY", "--convention", "preceding", "--from", "2026-03-06"}, []leftOut{
			{Wall: "2026-03-07T09:00:00", Reason: "gives way to the one on Friday 6 March because of the weekend"},
			{Wall: "2026-03-14T09:00:00", Reason: "gives way to the one on Friday 13 March because of the weekend"}}},
		"days off before the first day": {"Europe/Berlin", []string{"--working-days", "DE-BY", "--convention", "preceding", "--from", "2026-03-07"}, []leftOut{
			{Wall: "2026-03-07T09:00:00", Last: "2026-03-08T09:00:00", Reason: "left out because Friday 6 March, to which it moves, is before the first day"}}},
		"a time in quiet hours": {"Europe/Berlin", []string{"--rule", "0 */6 * * *", "--quiet", "22:00-08:00", "--from", "2026-03-07"}, []leftOut{
			{Wall: "2026-03-07T06:00:00", Reason: "gives way to the one at 08:00 because of quiet hours"}}},
		"a day of closed hours": {"Europe/Berlin", []string{"--rule", "weekly", "--on", "sat,sun", "--hours", "Mo-Fr 09:00-18:00", "--from", "2026-03-07", "-n", "2"}, []leftOut{
			{Wall: "2026-03-08T09:00:00", Reason: "gives way to the one on Monday 9 March because of closed hours"}}},
		"hours that are closed on a holiday": {"Europe/Berlin", []string{"--rule", "weekly", "--on", "thu,fri,sat", "--hours", "Mo-Fr 09:00-18:00", "--holidays", "DE-BY", "--convention", "skip", "--from", "2026-04-02", "-n", "2"}, []leftOut{
			{Wall: "2026-04-03T09:00:00", Reason: "left out because of Good Friday"},
			{Wall: "2026-04-04T09:00:00", Reason: "left out because of closed hours"}}},
		"a moved time that clocks skip": {newYork, []string{"--rule", "weekly", "--on", "fri", "--at", "02:30", "--hours", "Su-Th 00:00-24:00", "--from", "2026-03-06", "--gap", "skip", "-n", "1"}, []leftOut{
			{Wall: "2026-03-06T02:30:00", Reason: skip}}},
		"no more than were asked for, where all days are off": {"Europe/Berlin", []string{"--rule", "weekly", "--on", "sun", "--working-days", "DE-BY", "--convention", "skip", "--from", "2026-03-07"}, []leftOut{
			{Wall: "2026-03-08T09:00:00", Last: "2026-10-25T09:00:00", Reason: "left out because of the weekend"},
			{Wall: "2026-11-01T09:00:00", Reason: "left out because of All Saints' Day"},
			{Wall: "2026-11-08T09:00:00", Reason: "left out because of the weekend"}}},
		"the last of a rule, on a day off": {"Europe/Berlin", []string{"--rule", "FREQ=DAILY;COUNT=3", "--working-days", "DE-BY", "--from", "2026-03-06"}, []leftOut{
			{Wall: "2026-03-08T09:00:00", Reason: "gives way to the one on Monday 9 March because of the weekend"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := almanacAt(t, today, append([]string{"when", "--json", "-n", "3", "--zone", tt.zone}, tt.args...)...)
			var a answer
			if err := json.Unmarshal([]byte(r.out), &a); err != nil || r.code != exitOK || !slices.Equal(a.LeftOut, tt.want) {
				t.Errorf("when %q: exit code %d, %v, leaves out %+v, want %+v", tt.args, r.code, err, a.LeftOut, tt.want)
			}
		})
	}
}

func TestOmittedOccurrencesBeforeAnErrorAreShown(t *testing.T) {
	t.Parallel()
	r := almanacAt(t, today, "when", "--json", "--zone", "Europe/Berlin", "--rule", "monthly", "--on", "30", "--at", "02:30", "--from", "2031-01-30", "--month-end", "skip", "--gap", "reject")
	var a answer
	want := []leftOut{{Wall: "2031-02-30T02:30:00", Reason: "left out because there is no 30 February 2031"}}
	if err := json.Unmarshal([]byte(r.out), &a); err != nil || r.code != exitFailed || !slices.Equal(a.LeftOut, want) || a.Error == "" {
		t.Errorf("exit code %d, %v, %+v; want an error, and before it %+v", r.code, err, a, want)
	}
}
