package dashboard

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

func TestLeasesAreGroupedByOwner(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	reader.book = &almanac.ZoneBook{Now: zonesNow}
	lease := func(owner string, events int, expires time.Duration) ops.Lease {
		return ops.Lease{
			Token: uuid.New(), Owner: owner, Program: "birthdayd 1.2", ZoneData: "2026f", Events: events,
			ClaimedAt: zonesNow.Add(-time.Minute), ExpiresAt: zonesNow.Add(expires), Expired: expires < 0,
		}
	}
	reader.leases = []ops.Lease{lease("b <script>", 1200, 40*time.Second), lease("a", 1, time.Minute), lease("b <script>", 2, -90*time.Second)}
	status, body := h.getRead(t, "/leases")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/leases", body)
	owners := strings.Split(body, `<th scope="rowgroup"`)
	require.Len(t, owners, 3)
	require.Contains(t, owners[1], "b &lt;script&gt;")
	require.Contains(t, owners[1], "2 leases, 1,202 claimed events")
	require.Contains(t, owners[1], "for 40 s more")
	require.Contains(t, owners[1], "expired</span> for 1 min 30 s")
	require.Contains(t, owners[2], "1 lease, 1 claimed event")
	require.NotContains(t, owners[2], "expired</span>")
	require.Contains(t, body, "birthdayd 1.2")
	require.Contains(t, body, "2026f")
	require.Contains(t, body, "2 owners.")
	require.Contains(t, body, "released by the next sweep")
	require.Contains(t, body, `data-live="./live?page=leases"`)
	require.NotContains(t, body, "there may be more")
}

func TestLeasesSayThatThereMayBeMore(t *testing.T) {
	t.Parallel()
	h, reader := zonesHost(t)
	reader.leases = make([]ops.Lease, leasesShown)
	_, body := h.getRead(t, "/leases")
	require.Contains(t, body, "there may be more")
	require.Contains(t, body, "unknown owner")
}

func TestNoLeasesSayWhy(t *testing.T) {
	t.Parallel()
	h, _ := zonesHost(t)
	_, body := h.getRead(t, "/leases")
	require.Contains(t, body, "No process holds an event.")
	require.Contains(t, body, "What a lease means")
}

func TestLeasesAreLive(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	h, reader := zonesHost(t, WithContext(ctx))
	reader.leases = []ops.Lease{{Owner: "worker-7"}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(cancel) // before the server closes
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/live?page=leases", nil)
	require.NoError(t, err)
	answer, err := server.Client().Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "worker-7") {
		require.NotContains(t, lines.Text(), "<h1>")
	}
	require.Contains(t, lines.Text(), "worker-7")
}
