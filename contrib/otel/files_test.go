package almanacotel_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.yaml.in/yaml/v3"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacotel "github.com/almanac-go/almanac/contrib/otel"
	"github.com/almanac-go/almanac/internal/watchtest"
)

// known returns all metrics under their Prometheus names, by OpenTelemetry's own exporter.
func known(t *testing.T) watchtest.Known {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutTargetInfo(), otelprom.WithoutScopeInfo())
	require.NoError(t, err)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	metrics, e := metricsOf(t, provider), almanac.Event{Type: almanac.TypeBirthday}
	for _, kind := range []almanac.NoticeKind{almanac.EventReleased, almanac.EventFailed, almanac.EventCompleted, almanac.UserCreated} {
		metrics.Observe(t.Context(), almanac.Notice{Kind: kind, Event: e, Cause: almanac.AfterFailure, Failure: almanac.FailedAttempts})
	}
	refused := metrics.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return errRefused }))
	require.ErrorIs(t, refused.Deliver(t.Context(), almanac.Delivery{Event: e, Attempt: 1}), errRefused)
	for _, err := range []error{nil, errRefused} {
		metrics.MeasureClaim(t.Context(), almanac.ClaimMeasurement{Query: time.Millisecond, Total: time.Second, BatchSize: 100, Found: 7, Err: err})
	}
	metrics.MeasureUpdate(t.Context(), almanac.UpdateMeasurement{Kind: almanac.UpdateOutcome, Stored: 1})
	_, err = almanacotel.WatchHealth(provider, idle{})
	require.NoError(t, err)
	_, err = almanacotel.WatchBacklog(provider, almanactest.NewRepository(nil), registryOf(t, almanac.Birthday{}))
	require.NoError(t, err)

	families, err := registry.Gather()
	require.NoError(t, err)
	k := watchtest.Known{Types: make(map[string]string), Labels: make(map[string]bool)}
	for _, family := range families {
		k.Types[family.GetName()] = strings.ToLower(family.GetType().String())
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				k.Labels[label.GetName()] = true
			}
		}
	}
	return k
}

// Names as OpenTelemetry's exporter and Prometheus' own receiver make them.
func TestAlertsAreAboutMetricsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var file watchtest.Rules
	require.NoError(t, decoder.Decode(&file))
	known(t).CheckAlerts(t, file, 19)
	file.CheckLimits(t)
}

func TestTheDashboardShowsMetricsThatExist(t *testing.T) {
	t.Parallel()
	known(t).CheckDashboard(t, "dashboards/almanac.json")
}
