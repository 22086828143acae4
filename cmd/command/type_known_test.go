package command

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestATypeThatIsNotKnownIsAnError(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	resume := func(eventType string) result {
		return almanacAt(t, today, "resume", eventType, "--database-url", c.url)
	}
	const unknown = `the type "NOPE" is not known: no program has run with a handler of it, and no event of it is pending, in flight or among the last 10000 that ended; known types are "A", "B", "C"` + "\n"

	require.Equal(t, result{exitFailed, "no events\n", "almanac: " + unknown}, c.run("list", "--type", "NOPE"))
	require.Equal(t, result{exitFailed, "", "almanac: " + unknown}, c.run("list", "--type", "NOPE", "--json"))
	for _, operation := range []string{"cancel", "run-now", "requeue"} {
		r := c.run(operation, "--type", "NOPE", "--due-until", "2094-01-01", "--dry-run")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.errs, unknown, operation)
	}
	r := almanacAt(t, today, "why", adaID, "NOPE", "2094-01-01", "--database-url", c.url)
	require.Equal(t, result{exitFailed, "", "almanac: " + unknown}, r)
	require.Equal(t, result{exitOK, "no events\n", ""}, c.run("list", "--type", "A", "--failed"), "the type is known")
	require.Equal(t, result{exitOK, "NOPE was not paused\n", unknown}, resume("NOPE"))
	require.Equal(t, result{exitOK, "A was not paused\n", ""}, resume("A"))
	require.Equal(t, exitOK, almanacAt(t, today, "pause", "NOPE", "--force", "--database-url", c.url).code)
	require.Empty(t, resume("NOPE").errs, "it was paused")

	host, address := hostOf(t, renewals()), pgtest.URL(t)
	require.Empty(t, runAs(t.Context(), host, "events", "list", "--type", "RENEWAL", "--database-url", address).errs, "there is a handler")
	require.Contains(t, runAs(t.Context(), host, "events", "list", "--type", "renewals", "--database-url", address).errs, `known types are "RENEWAL" (did you mean "RENEWAL"?)`)
}

// The role of the API may store opt-outs, and may read what the check of their types reads.
func TestTheRoleOfTheAPIChecksTypes(t *testing.T) {
	t.Parallel()
	c := stageAt(t, pgtest.Direct(t, pgtest.URL(t)))
	prefix := "t" + strings.ToLower(rand.Text()) + "_"
	roles, err := os.ReadFile("../../docs/roles.sql")
	require.NoError(t, err)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), c.url)
		require.NoError(t, err)
		defer disconnect(context.Background(), conn)
		for _, role := range []string{"login", "operator", "worker", "api", "relay", "reader", "owner"} {
			_, err = conn.Exec(context.Background(), "DROP OWNED BY "+prefix+role+" CASCADE; DROP ROLE "+prefix+role)
			require.NoError(t, err)
		}
	})
	runSQL(t, c.url, strings.NewReplacer(`:"schema"`, "almanac", "almanac_", prefix).Replace(string(roles)))
	runSQL(t, c.url, "CREATE ROLE "+prefix+"login LOGIN PASSWORD 'secret' IN ROLE "+prefix+"api")
	address, err := url.Parse(c.url)
	require.NoError(t, err)
	address.User = url.UserPassword(prefix+"login", "secret")
	optOut := func(eventType string) result {
		return almanacAt(t, today, "users", "opt-out", adaID, "--type", eventType, "--database-url", address.String())
	}

	for _, known := range []string{"A", "B", "C"} { // a pending event, and ended ones
		r := optOut(known)
		require.Equal(t, exitOK, r.code, r.errs)
	}
	r := optOut("NOPE")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errs, `known types are "A", "B", "C"`)
}

func TestTheClosestTypeIsSuggested(t *testing.T) {
	t.Parallel()
	known := []string{"BIRTHDAY", "BIRTHDAY_MAIL", "RENEWAL"}
	for meant, want := range map[string]string{
		"BIRTHDY": "BIRTHDAY", "birthday": "BIRTHDAY", "BIRHTDAY": "BIRTHDAY", "RENEWALS": "RENEWAL", "BIRTHDAY_MAL": "BIRTHDAY_MAIL", "OFFER": "", "B": "", "": "",
	} {
		require.Equal(t, want, closest(known, meant), meant)
	}
	require.Equal(t, 3, distance("kitten", "sitting"))
}
