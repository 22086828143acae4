package dashboard

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/almanactest"
)

func TestATimeInUTCStandsThereOnce(t *testing.T) {
	t.Parallel()
	at := time.Date(2027, 3, 15, 9, 0, 0, 0, time.UTC)
	for _, zone := range []string{"UTC", "Etc/UTC", "Zulu"} {
		require.Empty(t, instantOf(at, zone).Zone, zone)
	}
	require.Equal(t, "Europe/London", instantOf(at, "Europe/London").Zone)

	h := newHost(t)
	u := almanactest.User(almanactest.LivingIn("Etc/UTC"))
	almanactest.Store(t, h.repository, u, almanactest.Event(at, almanactest.For(u)))
	_, body := h.get(t, "/users/"+u.ID.String())
	for _, one := range strings.Split(body, "<time ")[1:] {
		one, _, _ = strings.Cut(one, "</time>")
		require.Equal(t, 1, strings.Count(one, "<span"), one)
	}
	require.Contains(t, body, "Etc/UTC")
}
