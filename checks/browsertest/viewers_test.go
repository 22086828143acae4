package browsertest

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watch loads a page and holds its stream, as a browser does. It returns false if no stream was
// to be had.
func (h *host) watch(ctx context.Context, t *testing.T, page string) bool {
	t.Helper()
	for _, path := range []string{strings.TrimPrefix(page, "now"), "live?page=" + page} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.root+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode == http.StatusServiceUnavailable {
			return false
		}
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		if strings.HasPrefix(path, "live") {
			line, err := bufio.NewReader(answer.Body).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "event: page\n", line)
			return true
		}
	}
	panic("unreachable")
}

// cost returns how many queries the dashboard sends in a while.
func (h *host) cost(t *testing.T) int64 {
	t.Helper()
	const while = 12 * time.Second // numbers are read every five seconds
	before := h.queries.Load()
	timer := time.NewTimer(while)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
	return h.queries.Load() - before
}

func TestTwoHundredViewersCostTheDatabaseNoMoreThanOne(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"now", "map", "leases", "lanes", "pauses"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, atRoot, letIn())
			h.waitForNumbers(t)
			ctx, leave := context.WithCancel(t.Context())
			require.True(t, h.watch(ctx, t, page))
			one := h.cost(t)
			require.Positive(t, one)
			streams := 1
			for range 199 {
				if h.watch(ctx, t, page) {
					streams++
				}
			}
			require.Equal(t, 64, streams, "the others have the page as of when it was loaded")
			all := h.cost(t)
			require.LessOrEqual(t, all, one+one/2, "queries of 200 viewers, and of one")
			leave()
			require.Eventually(t, func() bool { return h.cost(t) == 0 }, patience, time.Millisecond, "no page is open")
		})
	}
}
