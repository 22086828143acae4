package command

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// nightly has an occurrence at a time that clocks in New York skip once a year, and never again
// after so many.
func nightly(n int) almanac.Recurring {
	return almanac.Recurring{Type: "NIGHTLY", Rule: func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Bounded{Rule: calendar.Yearly{Month: time.March, Day: 14, At: calendar.Clock{Hour: 2, Minute: 30}},
			Start: calendar.WallTime{Date: calendar.Date{Year: 2094, Month: time.January, Day: 1}}, Count: n}, nil
	}}
}

func TestUsersPreviewShowsTheNextOccurrences(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	runSQL(t, c.url, "UPDATE almanac.users SET external_id = 'member-17' WHERE id = $1", adaID)
	host := hostOf(t, nightly(2), almanac.Birthday{Before: 3})
	preview := func(args ...string) result {
		return runAs(t.Context(), host, append([]string{"users", "preview", "member-17", "--database-url", c.url}, args...)...)
	}

	r := preview("NIGHTLY")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Equal(t, "LOCAL TIME           UTC                   ZONE              KEY   REASON\n"+
		"2094-03-14T03:30:00  2094-03-14T07:30:00Z  America/New_York  2094  moved forward 60 min because clocks skip 02:00–03:00\n"+
		"2095-03-14T02:30:00  2095-03-14T06:30:00Z  America/New_York  2095  exact\n"+
		"and never again\n", r.out)
	require.NotContains(t, preview("NIGHTLY", "-n", "1").out, "never again")

	r = preview("BIRTHDAY", "-n", "2")
	require.Regexp(t, `^LOCAL TIME +UTC +ZONE +KEY +ANNOUNCES +REASON\n\d{4}-12-07T09:00:00 .* \d{4}-12-10  3 days before 10 December\n`, r.out)
	r = preview("BIRTHDAY", "-n", "3", "--json")
	var report struct {
		ID, Type    string
		Occurrences []struct{ Wall, Shown, Zone, Reason, Announces string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &report), r.errs)
	require.Equal(t, []string{adaID, "BIRTHDAY"}, []string{report.ID, report.Type})
	require.Len(t, report.Occurrences, 3)
	require.Regexp(t, `^\d{4}-12-10T`, report.Occurrences[0].Announces)
	require.Equal(t, "America/New_York", report.Occurrences[0].Zone)
	require.Equal(t, 4, countEvents(t, c.url), "nothing is stored")

	require.Equal(t, exitOK, runAs(t.Context(), host, "users", "opt-out", "member-17", "--type", "BIRTHDAY", "--database-url", c.url).code)
	require.Equal(t, result{exitOK, "no occurrences\n", "the user refuses BIRTHDAY\n"}, preview("BIRTHDAY"))
	require.Contains(t, preview("NIGTHLY").errs, `acme: <type>: this command has no handler of "NIGTHLY"; known types are "BIRTHDAY", "NIGHTLY" (did you mean "NIGHTLY"?)`)
}

func TestUsersPreviewSaysWhichDayOffMovedAnOccurrence(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	days, err := calendar.ParseWorkCalendar("name LAND\nrelease 2026-02-01\nuntil 2096-12-31\n2095-03-14 holiday Pi Day")
	require.NoError(t, err)
	yearly := nightly(3)
	rule := yearly.Rule
	yearly.WorkCalendars = []*calendar.WorkCalendar{days}
	yearly.Rule = func(u almanac.User) (calendar.Recurrence, error) {
		found, err := rule(u)
		return calendar.Within{Of: found, WorkDays: days}, err
	}
	r := runAs(t.Context(), hostOf(t, yearly), "users", "preview", adaID, "NIGHTLY", "--database-url", c.url)
	require.Equal(t, result{exitOK, "LOCAL TIME           UTC                   ZONE              KEY   REASON\n" +
		"2094-03-15T02:30:00  2094-03-15T06:30:00Z  America/New_York  2094  moved from Sunday 14 March to Monday 15 March because of the weekend\n" +
		"2095-03-15T02:30:00  2095-03-15T06:30:00Z  America/New_York  2095  moved from Monday 14 March to Tuesday 15 March because of Pi Day\n" +
		"2096-03-14T02:30:00  2096-03-14T06:30:00Z  America/New_York  2096  exact\n" +
		"and never again\n", ""}, r)
}

// The occurrences before one that a policy rejects are shown, with the error.
func TestUsersPreviewShowsWhatComesBeforeAnError(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	strict := nightly(3)
	strict.Policies = calendar.Policies{Gap: calendar.GapReject}
	rule := strict.Rule
	strict.Rule = func(u almanac.User) (calendar.Recurrence, error) {
		found, err := rule(u)
		bounded := found.(calendar.Bounded)
		bounded.Start.Date.Year = 2095 // clocks skip that time in 2100
		bounded.Count = 0
		return bounded, err
	}
	for _, form := range []string{"--json", "-n100"} {
		r := runAs(t.Context(), hostOf(t, strict), "users", "preview", adaID, "NIGHTLY", form, "--database-url", c.url)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.out, "2095-03-14T02:30:00")
		require.NotContains(t, r.out, "never again")
		require.Equal(t, "acme: handler of \"NIGHTLY\": calendar: clocks in America/New_York show 2100-03-14T02:30:00 never: clocks skip 02:00–03:00\n", r.errs)
	}
}

func TestTheStockCommandPreviewsByTheReadyMadeHandlers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	require.Equal(t, exitOK, almanacAt(t, today, append(ada, "--attributes", `{"hired": "2019-04-01"}`, "--no-events", "--database-url", url)...).code)
	preview := func(args ...string) result {
		return almanacAt(t, today, append([]string{"users", "preview", adaID, "--database-url", url}, args...)...)
	}
	require.Contains(t, preview("BIRTHDAY", "--at", "08:00").out, "-12-10T08:00:00  ")
	require.Contains(t, preview("ANNIVERSARY", "--anniversary", "hired").out, "-04-01T09:00:00  ")
	checkMisuse(t, preview("ANNIVERSARY"), `<type>: this command has no handler of "ANNIVERSARY" without --anniversary`)
	checkMisuse(t, preview("BIRTHDAY", "--no-birthday"), `<type>: this command has no handler of "BIRTHDAY" without --birthday`)
	checkMisuse(t, preview("RENEWAL", "-n", "0"), `<type>: this command has no handler of "RENEWAL", only the ready-made ones of BIRTHDAY and ANNIVERSARY; a command of your own has your handlers`,
		`--count: "0" is not a number from 1 to 1000`)
	r := almanacAt(t, today, "users", "preview", "member-18", "BIRTHDAY", "--database-url", url)
	require.Equal(t, result{exitFailed, "", "almanac: no user with this external id\n"}, r)
}
