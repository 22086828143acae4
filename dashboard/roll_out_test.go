package dashboard

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestRollingOutAsksBeforeItStores(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	u, _, err := almanactest.CreateUser(t.Context(), h.repository, almanactest.User()) // without events
	require.NoError(t, err)
	h.createUser(t, ada())
	status, body := h.get(t, "/roll-out?type=BIRTHDAY")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/roll-out", body)
	require.Contains(t, body, `name="type" value="BIRTHDAY"`)

	events := func() int {
		n, err := h.repository.Count(t.Context(), almanac.OfType("BIRTHDAY"))
		require.NoError(t, err)
		return n
	}
	form := url.Values{"type": {"BIRTHDAY"}, "passed": {"edit"}}
	status, body = h.post(t, "/roll-out", form)
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/roll-out", body)
	require.Contains(t, body, "Nothing has changed yet.")
	require.Contains(t, body, u.ID.String(), "an example")
	require.Contains(t, body, `name="confirm" value="yes"`)
	require.Equal(t, 1, events())

	form.Set("confirm", "yes")
	form.Set("sums", `{"Would": {"Users": 2, "Added": 2}}`)
	status, body = h.post(t, "/roll-out", form)
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/roll-out", body)
	require.Contains(t, body, "All users were processed.")
	require.Contains(t, body, "differs", "the dry run said another number")
	require.Equal(t, 2, events())

	form.Set("sums", `{"Would": {"Users": 2}, "Refused": 3}`)
	_, body = h.post(t, "/roll-out", form)
	require.Contains(t, body, "All users were processed, but 3 users could not be planned.", "of the requests before it")

	status, body = h.post(t, "/roll-out", url.Values{"type": {"OTHER"}})
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, body, "no handler of that type")
	status, _ = h.post(t, "/roll-out", url.Values{"type": {"BIRTHDAY"}, "sums": {"{"}})
	require.Equal(t, http.StatusBadRequest, status)
}
