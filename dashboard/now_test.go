package dashboard

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFirstPageShowsNumbers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUser(t, ada())
	status, body := h.get(t, "/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "This process delivers no events")
	require.Contains(t, body, "BIRTHDAY")
}

func TestUnknownPagesAreNotFound(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, path := range []string{"/nothing", "/a/b/c", "//", "/events/../x"} {
		status, _ := h.get(t, path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
}
