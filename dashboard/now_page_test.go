package dashboard

import (
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
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

// A wrong password of a mail server fails no event and leaves no backlog. The first page must show it.
func TestTheFirstPageTellsOfEventsThatWaitForAnotherAttempt(t *testing.T) {
	t.Parallel()
	for may, reason := range map[bool]string{true: "535 wrong password", false: "not shown to you"} {
		h := newHost(t, everything())
		if !may {
			h = newHost(t, allowing(Look))
		}
		u := almanactest.User()
		almanactest.Store(t, h.repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.ReadyFor(time.Hour), almanactest.Tried(1), almanactest.DelayedFor(time.Hour),
			func(e *almanac.Event, _ time.Time) { e.LastError = "535 wrong password" }))
		h.waitForNumbers(t)

		_, body := h.get(t, "/")

		require.Regexp(t, `1 due</a> event waits for another attempt, the end`, body)
		_, list := h.get(t, "/"+html.UnescapeString(between(body, `<p class="fact"><a href="./`, `"`)))
		require.Contains(t, list, reason)
		require.Contains(t, list, "delayed until")
		require.Equal(t, may, strings.Contains(list, "wrong password"))
	}
	h := newHost(t)
	h.createUser(t, ada())
	h.waitForNumbers(t)
	_, body := h.get(t, "/")
	require.NotContains(t, body, "another attempt")
}
