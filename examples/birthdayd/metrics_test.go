package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// scrape requests the metrics as Prometheus does, with a token unless it is "".
func (p *process) scrape(token string) (status int, text string) {
	p.t.Helper()
	return p.at(http.MethodGet, token)
}

// at sends a request to the path of the metrics.
func (p *process) at(method, token string) (status int, text string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+"/metrics", nil)
	require.NoError(p.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Do(r)
	require.NoError(p.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(body)
}

func TestMetricsCountADelivery(t *testing.T) {
	t.Parallel()
	h := listen(t, http.StatusOK)
	p := launch(t, append(h.flags(), "-database-url", pgtest.URL(t))...)
	event, _ := p.enrol("Asia/Kathmandu")
	p.ends(event, "COMPLETED")

	// The outcome is counted after it is stored.
	told := func() bool {
		_, text := p.scrape("")
		return strings.Contains(text, `almanac_event_changes_total{change="completed",type="BIRTHDAY"} 1`)
	}
	require.Eventually(t, told, patience, pollEvery)
	status, text := p.scrape("")
	require.Equal(t, http.StatusOK, status)
	for _, line := range []string{
		`almanac_delivery_duration_seconds_count{outcome="accepted",type="BIRTHDAY"} 1`, `almanac_running 1`, `almanac_workers 100`,
		`almanac_backlog_events 0`, `almanac_reading_errors_total{reading="clock"} 0`, `go_goroutines `, `process_open_fds `,
	} {
		require.Contains(t, text, "\n"+line)
	}
	for _, secret := range []string{"Ada", "Lovelace", "1992-", "Kathmandu", event["userId"].(string), event["id"].(string)} {
		require.NotContains(t, text, secret)
	}
	status, _ = p.at(http.MethodPost, "")
	require.Equal(t, http.StatusMethodNotAllowed, status)
	require.Equal(t, 0, p.stop())
}

// A client that can only reach the API must not see how many users are greeted, and when. A
// client that reads metrics need not be allowed to change users.
func TestMetricsRequireTheirOwnToken(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t),
		"-api-token", apiToken, "-metrics-token", "watcher")...)
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "watcher": http.StatusOK, apiToken: http.StatusOK,
	} {
		status, text := p.scrape(token)
		require.Equal(t, want, status, token)
		require.Equal(t, want == http.StatusOK, strings.Contains(text, "almanac_running"), token)
	}
	status, _ := p.send("GET", "/events", "", "Authorization: Bearer watcher")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Equal(t, 0, p.stop())
}

func TestMetricsAcceptTheTokenOfTheAPI(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t), "-api-token", apiToken)...)
	for token, want := range map[string]int{"": http.StatusUnauthorized, apiToken: http.StatusOK} {
		status, _ := p.scrape(token)
		require.Equal(t, want, status, token)
	}
	require.Equal(t, 0, p.stop())
}

func TestMetricsCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", pgtest.URL(t), "-metrics=false")...)
	status, _ := p.scrape("")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, 0, p.stop())
}

// While the database is unavailable, the metrics of the process itself are still served.
func TestMetricsAreServedWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	w := lay(t, pgtest.URL(t))
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", w.url, "-lease", "3s")...)
	p.says("/readyz", http.StatusOK)
	w.cut()
	p.says("/readyz", http.StatusServiceUnavailable)

	status, text := p.scrape("")

	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "\nalmanac_reading_errors_total{reading=\"backlog\"} 1")
	require.NotContains(t, text, "\nalmanac_backlog_events")
	require.Contains(t, text, "\nalmanac_running 1")
	w.mend()
	require.Equal(t, 0, p.stop())
}
