package opentelemetry_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
	"github.com/almanac-go/almanac/examples/opentelemetry"
)

// exported is a metric exporter that keeps the last value of each sum and gauge, and the count
// of each histogram, by name and attributes.
type exported map[string]float64

func (exported) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (exported) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(kind)
}
func (exported) ForceFlush(context.Context) error { return nil }
func (exported) Shutdown(context.Context) error   { return nil }

func (e exported) Export(_ context.Context, all *metricdata.ResourceMetrics) error {
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			put := func(set attribute.Set, value float64) {
				e[m.Name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] = value
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(p.Attributes, float64(p.Count))
				}
			default:
				return errors.New(m.Name + " has another kind of data")
			}
		}
	}
	return nil
}

// names is an exporter that keeps the names of spans.
type names []string

func (n *names) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, span := range spans {
		*n = append(*n, span.Name())
	}
	return nil
}

func (*names) Shutdown(context.Context) error { return nil }

func birthdays(t *testing.T) almanac.Registry {
	t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	return registry
}

func TestTracesAndMetricsOfADelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, spans, metrics := almanactest.NewRepository(nil), &names{}, make(exported)
		ctx, stop := context.WithCancel(t.Context())
		deliverer := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { stop(); return nil })
		scheduler, shutdown, err := opentelemetry.NewScheduler(store, birthdays(t), deliverer, opentelemetry.Exporters{Spans: spans, Metrics: metrics})
		require.NoError(t, err)
		user := almanactest.User()
		_, _, err = almanactest.CreateUser(ctx, store, user, almanactest.Event(time.Now(), almanactest.For(user), almanactest.ReadyFor(time.Second)))
		require.NoError(t, err)

		require.NoError(t, scheduler.Run(ctx))
		require.NoError(t, shutdown(t.Context()))

		for name, want := range map[string]float64{
			"almanac_event_changes_total{change=completed,type=BIRTHDAY}":       1,
			"almanac_event_failures_total{cause=permanent,type=BIRTHDAY}":       0,
			"almanac_event_lateness_seconds{type=BIRTHDAY}":                     1,
			"almanac_delivery_duration_seconds{outcome=accepted,type=BIRTHDAY}": 1,
			"almanac_running{}":                                             0,
			"almanac_backlog_events{}":                                      0,
			"almanac_database_clock_offset_seconds{}":                       0,
			"almanac_versioned_updates_total{kind=outcome,result=conflict}": 0,
			"almanac_claim_duration_seconds{outcome=failed}":                0,
		} {
			require.Contains(t, slices.Collect(maps.Keys(metrics)), name)
			require.Equal(t, want, metrics[name], name)
		}
		require.Contains(t, *spans, "deliver BIRTHDAY")
	})
}

// typesOf returns the type of each metric by name.
func typesOf(t *testing.T, g prometheus.Gatherer) map[string]string {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	types := make(map[string]string)
	for _, family := range families {
		types[family.GetName()] = family.GetType().String()
		for _, m := range family.GetMetric() {
			require.Empty(t, m.GetHistogram().GetPositiveSpan(), "%s has native buckets, which no rule reads", family.GetName())
		}
	}
	return types
}

// foreign is a producer of another name. The exporter for Prometheus drops what comes from the
// bridge, so that a program shows it once; a collector sees the exporter's translation of names.
type foreign struct{ sdkmetric.Producer }

func (f foreign) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	scopes, err := f.Producer.Produce(ctx)
	for i := range scopes {
		scopes[i].Scope.Name = "foreign"
	}
	return scopes, err
}

type idle struct{}

func (idle) Health() almanac.Health { return almanac.Health{Workers: 100} }

// The alerting rules and the dashboard of contrib/prometheus serve hosts whose metrics come to
// Prometheus from OpenTelemetry.
func TestMetricsKeepTheirNamesOnTheWayToPrometheus(t *testing.T) {
	t.Parallel()
	backlog, err := almanacprom.NewBacklog(almanactest.NewRepository(nil), birthdays(t))
	require.NoError(t, err)
	collected := prometheus.NewPedanticRegistry()
	collected.MustRegister(almanacprom.NewEvents(birthdays(t), almanacprom.WithClassicHistograms()), almanacprom.NewHealth(idle{}), backlog)

	received := prometheus.NewPedanticRegistry()
	exporter, err := otelprom.New(otelprom.WithRegisterer(received), otelprom.WithoutTargetInfo(), otelprom.WithoutScopeInfo(),
		otelprom.WithProducer(foreign{bridge.NewMetricProducer(bridge.WithGatherer(collected))}))
	require.NoError(t, err)
	sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))

	want := typesOf(t, collected)
	require.NotEmpty(t, want)
	require.Equal(t, want, typesOf(t, received))
}
