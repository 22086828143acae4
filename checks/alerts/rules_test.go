package alerts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
)

// program returns the path of a program that must be installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "install Debian's package prometheus, or put the program into PATH")
	return path
}

// The file in testdata has the cases.
func TestRulesFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	said, err := exec.CommandContext(t.Context(), program(t, "promtool"), "test", "rules", "testdata/prometheus.yml").CombinedOutput()
	require.NoError(t, err, "%s", said)
}

// Four hundred events are due, their receiver answers 503, and they may be retried for days.
func TestAnOutageOfTheReceiverFiresAnAlertWithinAMinute(t *testing.T) {
	t.Parallel()
	const users = 400
	handler := almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{Attempts: 100, First: time.Hour}}}
	registry, err := almanac.NewRegistry(handler)
	require.NoError(t, err)
	repository, events := almanactest.NewRepository(nil), almanacprom.NewEvents(registry)
	away := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return errors.New("webhook: receiver answered 503") })
	scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithObserver(events), almanac.WithLogger(slog.New(slog.DiscardHandler)),
		almanac.WithDeliverer(almanac.ChannelWebhook, events.Middleware(away)))
	require.NoError(t, err)
	backlog, err := almanacprom.NewBacklog(repository, registry, almanacprom.WithAge(0))
	require.NoError(t, err)
	metrics := prometheus.NewPedanticRegistry()
	metrics.MustRegister(events, almanacprom.NewHealth(scheduler), backlog)
	target := httptest.NewServer(promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	t.Cleanup(target.Close)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- scheduler.Run(ctx) }()
	server := startPrometheus(t, target.Listener.Addr().String())
	require.Eventually(t, func() bool { return server.value(t, `almanac_event_releases_total{cause="failure"}`) == "0" }, time.Minute, 100*time.Millisecond)

	for range users {
		u := almanactest.User()
		_, _, err := almanactest.CreateUser(ctx, repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.ReadyFor(time.Second)))
		require.NoError(t, err)
	}
	began := time.Now()
	require.Eventually(t, func() bool {
		return server.value(t, `ALERTS{alertname="AlmanacAttemptsFail",alertstate="firing",type="BIRTHDAY"}`) == "1"
	}, time.Minute, 100*time.Millisecond)
	t.Logf("fired after %v", time.Since(began))

	require.Eventually(t, func() bool { return server.value(t, "almanac_events_retrying") == fmt.Sprint(users) }, time.Minute, 100*time.Millisecond)
	require.Equal(t, "0", server.value(t, "almanac_backlog_events"), "which is why other rules see nothing")
	health := scheduler.Health()
	require.NoError(t, health.Err())
	require.EqualError(t, health.Deliveries[almanac.TypeBirthday].Err, "webhook: receiver answered 503")
	stop()
	require.NoError(t, <-ended)
}

// running is a Prometheus with the rules of contrib/prometheus.
type running struct{ address string }

// startPrometheus starts a Prometheus that scrapes an address each second.
func startPrometheus(t *testing.T, target string) running {
	t.Helper()
	rules, err := filepath.Abs("../../contrib/prometheus/alerts.yml")
	require.NoError(t, err)
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: test, static_configs: [{targets: [%q]}]}]\n", rules, target)
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	var said bytes.Buffer
	server := exec.Command(program(t, "prometheus"), "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	server.Stdout, server.Stderr = &said, &said
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed
		if t.Failed() {
			t.Logf("Prometheus: %s", said.String())
		}
	})
	return running{address}
}

// value returns the value of the only series that a query finds, or "".
func (r running) value(t *testing.T, query string) string {
	t.Helper()
	answer, err := http.Get("http://" + r.address + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return "" // it starts
	}
	defer func() { _ = answer.Body.Close() }()
	var found struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if json.NewDecoder(answer.Body).Decode(&found) != nil || len(found.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(found.Data.Result[0].Value[1])
}
