package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestListsAndResumeSayThatATypeIsNotKnown(t *testing.T) {
	t.Parallel()
	c := stageOf(t)
	resume := func(eventType string) result {
		return almanacAt(t, today, "resume", eventType, "--database-url", c.url)
	}
	const unknown = `no event of type "NOPE" is pending, in flight or among the last 10000 that ended; known types are "A", "B", "C"` + "\n"

	require.Equal(t, result{exitOK, "no events\n", unknown}, c.run("list", "--type", "NOPE"))
	require.Equal(t, result{exitOK, "", unknown}, c.run("list", "--type", "NOPE", "--json"))
	require.Equal(t, result{exitOK, "no events\n", ""}, c.run("list", "--type", "A", "--failed"), "the type is known")
	require.Equal(t, result{exitOK, "NOPE was not paused\n", unknown}, resume("NOPE"))
	require.Equal(t, result{exitOK, "A was not paused\n", ""}, resume("A"))
	require.Equal(t, exitOK, almanacAt(t, today, "pause", "NOPE", "--force", "--database-url", c.url).code)
	require.Empty(t, resume("NOPE").errs, "it was paused")

	host, url := hostOf(t, renewals()), pgtest.URL(t)
	require.Empty(t, runAs(t.Context(), host, "events", "list", "--type", "RENEWAL", "--database-url", url).errs, "there is a handler")
	require.Contains(t, runAs(t.Context(), host, "events", "list", "--type", "renewals", "--database-url", url).errs, `known types are "RENEWAL" (did you mean "RENEWAL"?)`)
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
