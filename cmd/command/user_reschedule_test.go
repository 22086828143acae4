package command

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestUsersRescheduleReplansByTheHostsHandlers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := subscribers(t, url, hostOf(t, renewals(), almanac.Birthday{}), 1)
	id := first[0].UserID.String()
	later := renewals()
	later.Rule = func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Monthly{Day: renewalDay, At: calendar.Clock{Hour: 7}}, nil
	}
	reschedule := func(host Host, args ...string) result {
		return runAs(t.Context(), host, append([]string{"users", "reschedule", id, "--database-url", url}, args...)...)
	}

	r := reschedule(hostOf(t, later, nightly(2)))
	require.Equal(t, exitOK, r.code, r.errs)
	require.Regexp(t, fmt.Sprintf(`(?m)^MOVED  .*-%02dT07:00:00  Asia/Tokyo +RENEWAL `, renewalDay), r.out)
	require.Regexp(t, `(?m)^ADDED  .*  2094-03-14T02:30:00  Asia/Tokyo +NIGHTLY `, r.out)
	require.Equal(t, "replanned user "+id+": 1 event moved, 0 refreshed, 1 added, 0 removed, 0 cancelled\n", lastLine(r))
	require.Equal(t, "1 pending event kept as before, because this command has no handler of BIRTHDAY: a program that has it replans them by Reschedule\n", r.errs)

	r = reschedule(hostOf(t, later, nightly(1), nothingDue{almanac.Birthday{}}), "--json")
	var report struct {
		Events    []changedEvent
		LeftAlone int
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &report), r.errs)
	changes := map[string]string{}
	for _, e := range report.Events {
		changes[e.Type] = e.Change
	}
	require.Equal(t, map[string]string{"BIRTHDAY": "REMOVED"}, changes, "the others are untouched")
	require.Zero(t, report.LeftAlone)
}

// nothingDue is a handler whose users have no occurrences any more.
type nothingDue struct{ almanac.Birthday }

func (nothingDue) Next(almanac.User, time.Time) (calendar.Occurrence, error) {
	return calendar.Occurrence{}, calendar.ErrNoOccurrence
}

func TestTheStockCommandReschedulesByTheReadyMadeHandlers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	require.Equal(t, exitOK, almanacAt(t, today, append(ada, "--database-url", url)...).code)
	reschedule := func(args ...string) result {
		return almanacAt(t, today, append([]string{"users", "reschedule", adaID, "--database-url", url}, args...)...)
	}
	checkMisuse(t, reschedule(), "--birthday or --anniversary is required: this command has no other handlers")
	r := reschedule("--birthday", "--at", "08:00")
	require.Equal(t, exitOK, r.code, r.errs)
	require.Regexp(t, `(?m)^MOVED  .*-12-10T08:00:00  Asia/Tokyo +BIRTHDAY `, r.out)
}
