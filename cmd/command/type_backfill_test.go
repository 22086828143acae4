package command

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestABackfillStoresWhatUsersLack(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	first := subscribers(t, url, hostOf(t, renewals()), 3)
	backfill := func(host Host, eventType string, args ...string) result {
		return runAs(t.Context(), host, append([]string{"backfill", eventType, "--database-url", url}, args...)...)
	}
	broken := nightly(9)
	broken.Rule = func(u almanac.User) (calendar.Recurrence, error) {
		if u.ID == first[0].UserID {
			return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{Field: "attributes.night", Problem: "is missing"}}}
		}
		return nightly(9).Rule(u)
	}

	r := backfill(hostOf(t, broken), "NIGHTLY")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "processed 3 users, stored 2 events of NIGHTLY; 1 user refused\n", r.out)
	require.Regexp(t, `^refused `+first[0].UserID.String()+`: .*is missing\nacme: 1 user refused\n$`, r.errs)

	r = backfill(hostOf(t, nightly(9)), "NIGHTLY", "--json", "--rate", "1000")
	require.Equal(t, exitOK, r.code, r.errs)
	require.JSONEq(t, `{"type": "NIGHTLY", "complete": true, "users": 3, "events": 1, "refused": []}`, regexp.MustCompile(`,\s+"seconds": [0-9.e-]+`).ReplaceAllString(r.out, ""))
	r = backfill(hostOf(t, nightly(9)), "NIGHTLY")
	require.Equal(t, result{exitOK, "processed 3 users, stored 0 events of NIGHTLY; 0 users refused\n", ""}, r)
}

func TestABackfillThatIsInterruptedSaysWhereToContinue(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	subscribers(t, url, hostOf(t, renewals()), 3)
	ctx, cancel := context.WithCancel(t.Context())
	host := hostOf(t, nightly(9))
	host.Options = []almanac.Option{almanac.WithObserver(almanac.Hooks{Created: func(context.Context, almanac.Event) { cancel() }})}

	r := runAs(ctx, host, "backfill", "NIGHTLY", "--rate", "1", "--database-url", url)

	require.Equal(t, exitInterrupted, r.code)
	require.Equal(t, "processed 1 user, stored 1 event of NIGHTLY; 0 users refused; not done to the end\n", r.out)
	next := regexp.MustCompile(`^there are more: go on with --after (\S+)\nacme: interrupted\n$`).FindStringSubmatch(r.errs)
	require.NotNil(t, next, r.errs)
	r = runAs(t.Context(), hostOf(t, nightly(9)), "backfill", "NIGHTLY", "--after", next[1], "--json", "--database-url", url)
	require.Equal(t, exitOK, r.code, r.errs)
	var report backfillReport
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.Equal(t, []int{2, 2}, []int{report.Users, report.Events})
}

func TestTheStockCommandBackfillsByTheReadyMadeHandlers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	require.Equal(t, exitOK, almanacAt(t, today, append(ada, "--no-events", "--database-url", url)...).code)
	backfill := func(args ...string) result {
		return almanacAt(t, today, append([]string{"backfill", "--database-url", url}, args...)...)
	}
	checkMisuse(t, backfill("BIRTHDAY"), `<type>: this command has no handler of "BIRTHDAY" without --birthday`)
	checkMisuse(t, backfill("BIRTHDAY", "--birthday", "--rate", "-1", "--after", "x"), `--rate: "-1" is not a number from 0 to 1000000`, `--after: "x" is not where a backfill ended`)
	require.Equal(t, result{exitOK, "processed 1 user, stored 1 event of BIRTHDAY; 0 users refused\n", ""}, backfill("BIRTHDAY", "--birthday", "--at", "08:00"))
}
