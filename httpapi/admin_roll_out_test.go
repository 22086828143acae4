package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestARollOutNeedsATypeAndAnExplicitDryRun(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	for body, want := range map[string]map[string]string{
		`{}`: {"type": "is required", "dryRun": "is required"},
		`{"type":"","dryRun":1,"passed":"later","rate":0,"cursor":"x"}`: {
			"type": "is empty", "dryRun": "must be true or false", "passed": "is not one of edit, now, skip",
			"rate": "is not a whole number between 1 and 1000000", "cursor": "is not a cursor of an earlier answer"},
	} {
		require.Equal(t, want, o.complaints(o.send("POST", "/roll-outs", body)), body)
	}
	unknown := o.send("POST", "/roll-outs", `{"type":"OTHER","dryRun":true}`)
	require.Equal(t, map[string]string{"type": "has no handler in this program"}, o.complaints(unknown))
}

func TestARollOutStoresWhatItsDryRunCounts(t *testing.T) {
	t.Parallel()
	repository := newRepository()
	o := openOffice(t, repository)
	o.hire("grace")
	u, _, err := almanactest.CreateUser(t.Context(), repository, almanactest.User()) // without events
	require.NoError(t, err)
	for _, dry := range []string{"true", "false"} {
		a := o.ok("POST", "/roll-outs", `{"type":"BIRTHDAY","dryRun":`+dry+`}`)
		counts := a["counts"].(map[string]any)
		require.EqualValues(t, 2, counts["users"])
		require.EqualValues(t, 1, counts["added"])
		require.EqualValues(t, 1, counts["unchanged"])
		require.Equal(t, u.ID.String(), a["examples"].([]any)[0].(map[string]any)["userId"])
		require.Nil(t, a["nextCursor"])
	}
	n, err := repository.Count(t.Context(), almanac.OfType("BIRTHDAY"))
	require.NoError(t, err)
	require.Equal(t, 2, n)
}
