package almanacotel_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacotel "github.com/almanac-go/almanac/contrib/otel"
	"github.com/almanac-go/almanac/ops"
)

// measuring is a provider with its reader.
type measuring struct {
	*sdkmetric.MeterProvider
	reader *sdkmetric.ManualReader
}

func newMeasuring() measuring {
	reader := sdkmetric.NewManualReader()
	return measuring{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), reader}
}

func (m measuring) metrics(t *testing.T) []metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, m.reader.Collect(t.Context(), &all))
	if len(all.ScopeMetrics) == 0 {
		return nil
	}
	require.Len(t, all.ScopeMetrics, 1)
	return all.ScopeMetrics[0].Metrics
}

// values returns what a reading contains, by name and attributes: sums and gauges. For
// histograms it has the count under the name, and the sum under the name and "/sum".
func (m measuring) values(t *testing.T) map[string]float64 {
	t.Helper()
	shown := make(map[string]float64)
	put := func(name string, set attribute.Set, value float64) {
		shown[name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] = value
	}
	for _, m := range m.metrics(t) {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				put(m.Name, p.Attributes, float64(p.Value))
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				put(m.Name, p.Attributes, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				put(m.Name, p.Attributes, float64(p.Count))
				put(m.Name+"/sum", p.Attributes, p.Sum)
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				put(m.Name, p.Attributes, float64(p.Count))
				put(m.Name+"/sum", p.Attributes, float64(p.Sum))
			}
		default:
			t.Fatalf("%s is a %T", m.Name, data)
		}
	}
	return shown
}

// shows checks some values of a reading.
func (m measuring) shows(t *testing.T, want map[string]float64) {
	t.Helper()
	have := m.values(t)
	for name, value := range want {
		is, shown := have[name]
		require.True(t, shown, "%s is not among %v", name, have)
		require.InDelta(t, value, is, 1e-9, name)
	}
}

func metricsOf(t *testing.T, p metric.MeterProvider) *almanacotel.Metrics {
	t.Helper()
	m, err := almanacotel.NewMetrics(p, registryOf(t, almanac.Birthday{}))
	require.NoError(t, err)
	return m
}

func TestMetricsOfAScheduledEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		process := newMeasuring()
		metrics, tries := metricsOf(t, process), 0
		deliverer := metrics.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
			process.shows(t, map[string]float64{"almanac.delivery.active{almanac.event.type=BIRTHDAY}": 1})
			time.Sleep(20 * time.Millisecond)
			if tries++; tries == 1 {
				return errRefused
			}
			return nil
		}))
		scheduler := schedulerOf(t, almanactest.NewRepository(nil), almanac.WithObserver(metrics), almanac.WithDeliverer(almanac.ChannelWebhook, deliverer))
		_, err := scheduler.CreateUser(t.Context(), newborn())
		require.NoError(t, err)
		running, stop := context.WithTimeout(t.Context(), 48*time.Hour)
		defer stop()
		require.NoError(t, scheduler.Run(running))

		const acceptedOne = "{messaging.destination.name=BIRTHDAY,messaging.operation.name=deliver,messaging.system=almanac}"
		const refusedOne = "{error.type=failed,messaging.destination.name=BIRTHDAY,messaging.operation.name=deliver,messaging.system=almanac}"
		process.shows(t, map[string]float64{
			"almanac.event.changes{almanac.change=created,almanac.event.type=BIRTHDAY}":                                2,
			"almanac.event.changes{almanac.change=claimed,almanac.event.type=BIRTHDAY}":                                2,
			"almanac.event.changes{almanac.change=released,almanac.event.type=BIRTHDAY,almanac.release.cause=failure}": 1,
			"almanac.event.changes{almanac.change=completed,almanac.event.type=BIRTHDAY}":                              1,
			"almanac.user.changes{almanac.change=created}":                                                             1,
			"almanac.event.lateness{almanac.event.type=BIRTHDAY}":                                                      1,
			"almanac.delivery.active{almanac.event.type=BIRTHDAY}":                                                     0,
			"almanac.claim.events/sum{}":                                                                               2,
			"almanac.versioned_updates{almanac.update.kind=outcome,almanac.update.result=stored}":                      2,
			"almanac.versioned_updates{almanac.update.kind=outcome,almanac.update.result=conflict}":                    0,
			"messaging.process.duration" + acceptedOne:                                                                 1,
			"messaging.process.duration/sum" + acceptedOne:                                                             .02,
			"messaging.process.duration" + refusedOne:                                                                  1,
		})
		late := process.values(t)["almanac.event.lateness/sum{almanac.event.type=BIRTHDAY}"]
		require.InDelta(t, 1.14, late, .11, "20 ms, up to 1.2 s, and 20 ms")
	})
}

func TestFailuresHaveTheirCause(t *testing.T) {
	t.Parallel()
	process := newMeasuring()
	metrics := metricsOf(t, process)
	metrics.Observe(t.Context(), almanac.Notice{Kind: almanac.EventFailed, Event: almanac.Event{Type: almanac.TypeBirthday}, Failure: almanac.FailedMissed})
	process.shows(t, map[string]float64{
		"almanac.event.changes{almanac.change=failed,almanac.event.type=BIRTHDAY,almanac.failure.cause=missed}": 1,
	})
}

func TestTypesThatTheRegistryLacksShareAnAttribute(t *testing.T) {
	t.Parallel()
	process := newMeasuring()
	metrics := metricsOf(t, process)
	deliverer := metrics.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { panic("oops") }))
	for i := range 100 {
		e := almanac.Event{Type: strings.Repeat("X", i+1)}
		metrics.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted, Event: e})
		require.Panics(t, func() { _ = deliverer.Deliver(t.Context(), almanac.Delivery{Event: e}) })
	}
	process.shows(t, map[string]float64{
		"almanac.event.changes{almanac.change=completed,almanac.event.type=unregistered}":                                                                   100,
		"almanac.event.lateness{almanac.event.type=unregistered}":                                                                                           100,
		"messaging.process.duration{error.type=panicked,messaging.destination.name=unregistered,messaging.operation.name=deliver,messaging.system=almanac}": 100,
		"almanac.delivery.active{almanac.event.type=unregistered}":                                                                                          0,
	})
	require.Len(t, process.values(t), 2+2+1+1+2, "and the failures of the registry's type, which begin at zero")
}

func TestClaimsAndVersionedUpdatesAreMeasured(t *testing.T) {
	t.Parallel()
	process := newMeasuring()
	metrics := metricsOf(t, process)
	metrics.MeasureClaim(t.Context(), almanac.ClaimMeasurement{Query: 250 * time.Millisecond, Total: 500 * time.Millisecond, BatchSize: 100, Found: 7})
	metrics.MeasureClaim(t.Context(), almanac.ClaimMeasurement{Total: 250 * time.Millisecond, BatchSize: 50})
	metrics.MeasureClaim(t.Context(), almanac.ClaimMeasurement{Total: 20 * time.Second, BatchSize: 50, Err: errRefused})
	metrics.MeasureUpdate(t.Context(), almanac.UpdateMeasurement{Kind: almanac.UpdateOutcome, Stored: 98, Conflicts: 2})
	metrics.MeasureUpdate(t.Context(), almanac.UpdateMeasurement{Kind: almanac.UpdateUser, Stored: 1})

	require.Equal(t, map[string]float64{
		"almanac.event.changes{almanac.change=released,almanac.event.type=BIRTHDAY,almanac.release.cause=failure}": 0,
		"almanac.event.changes{almanac.change=follow_ups_lost,almanac.event.type=BIRTHDAY}":                        0,
		"almanac.claim.query.duration{}": 1, "almanac.claim.query.duration/sum{}": .25,
		"almanac.claim.duration{}": 2, "almanac.claim.duration/sum{}": .75,
		"almanac.claim.duration{error.type=failed}": 1, "almanac.claim.duration/sum{error.type=failed}": 20,
		"almanac.claim.events{}": 2, "almanac.claim.events/sum{}": 7,
		"almanac.claim.batch_size{}": 3, "almanac.claim.batch_size/sum{}": 200,
		"almanac.versioned_updates{almanac.update.kind=outcome,almanac.update.result=stored}":   98,
		"almanac.versioned_updates{almanac.update.kind=outcome,almanac.update.result=conflict}": 2,
		"almanac.versioned_updates{almanac.update.kind=user,almanac.update.result=stored}":      1,
		"almanac.versioned_updates{almanac.update.kind=user,almanac.update.result=conflict}":    0,
	}, process.values(t))
}

// condition is a scheduler in a given condition.
type condition struct{ health almanac.Health }

func (c *condition) Health() almanac.Health { return c.health }

func TestHealthIsReadAtEachObservation(t *testing.T) {
	t.Parallel()
	process, runner := newMeasuring(), &condition{almanac.Health{Workers: 10}}
	registration, err := almanacotel.WatchHealth(process, runner)
	require.NoError(t, err)
	process.shows(t, map[string]float64{"almanac.scheduler.running{}": 0, "almanac.scheduler.ready{}": 0, "almanac.scheduler.workers{}": 10})

	runner.health = almanac.Health{
		Running: true, Workers: 10, Held: 7, Stuck: 2, Blocked: 1, Lost: 3, Claim: almanac.Failure{For: time.Second},
		Maintenance: map[string]almanac.Failure{"prune ended events": {For: time.Hour}}, Patience: time.Minute,
	}
	require.Equal(t, map[string]float64{
		"almanac.scheduler.running{}": 1, "almanac.scheduler.ready{}": 0, "almanac.scheduler.workers{}": 10,
		"almanac.scheduler.held{}": 7, "almanac.scheduler.stuck{}": 2, "almanac.scheduler.blocked{}": 1, "almanac.scheduler.lost{}": 3,
		"almanac.scheduler.failure{almanac.scheduler.part=claim}":              1,
		"almanac.scheduler.failure{almanac.scheduler.part=settle}":             0,
		"almanac.scheduler.failure{almanac.scheduler.part=renew}":              0,
		"almanac.scheduler.failure{almanac.scheduler.part=prune ended events}": 3600,
	}, process.values(t))
	runner.health.Lost = 0
	process.shows(t, map[string]float64{"almanac.scheduler.ready{}": 1})

	require.NoError(t, registration.Unregister())
	require.Empty(t, process.values(t))
}

// store is a database with given results, which counts its calls.
type store struct {
	asked int
	takes time.Duration // of each call
	count int
	err   error // of all calls
}

func (s *store) answer(ctx context.Context) error {
	s.asked++
	select {
	case <-time.After(s.takes):
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *store) Now(ctx context.Context) (time.Time, error) {
	return time.Now().Add(s.takes/2 - 3*time.Second), s.answer(ctx)
}

func (s *store) Until(ctx context.Context, _ []string, _ time.Time) (time.Duration, bool, error) {
	return -90 * time.Second, s.count > 0, s.answer(ctx)
}

func (s *store) Missed(ctx context.Context, _ []string, _ time.Duration) (almanac.Missed, error) {
	return almanac.Missed{Count: s.count}, s.answer(ctx)
}

func (s *store) Retries(ctx context.Context) (ops.Retries, error) {
	group := func(eventType string) ops.RetryGroup {
		return ops.RetryGroup{Type: eventType, Count: ops.Count{N: int64(s.count)}}
	}
	return ops.Retries{Events: []ops.RetryGroup{group("BIRTHDAY"), group("BIRTHDAY"), group("CARD")}, Series: []ops.RetryGroup{group("BIRTHDAY")}}, s.answer(ctx)
}

func TestBacklogLimitsItsDatabaseCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		process, s := newMeasuring(), &store{takes: 100 * time.Millisecond, count: 12}
		_, err := almanacotel.WatchBacklog(process, s, registryOf(t, almanac.Birthday{}))
		require.NoError(t, err)
		first := map[string]float64{
			"almanac.backlog.events{}": 12, "almanac.backlog.oldest_age{}": 90, "almanac.database.clock_offset{}": -3,
			"almanac.events.retrying{almanac.event.type=BIRTHDAY}": 24, "almanac.events.retrying{almanac.event.type=unregistered}": 12,
			"almanac.series.stalled{almanac.event.type=BIRTHDAY}": 12,
			"almanac.reading.errors{almanac.reading=clock}":       0, "almanac.reading.errors{almanac.reading=oldest}": 0,
			"almanac.reading.errors{almanac.reading=retries}": 0, "almanac.reading.errors{almanac.reading=backlog}": 0,
		}
		require.Equal(t, first, process.values(t))
		s.count, s.takes = 0, 800*time.Millisecond // two calls fit into the deadline
		time.Sleep(10*time.Second - time.Millisecond)
		require.Equal(t, first, process.values(t))
		require.Equal(t, 4, s.asked)

		time.Sleep(time.Millisecond)
		require.Equal(t, map[string]float64{
			"almanac.backlog.oldest_age{}": 0, "almanac.database.clock_offset{}": -3,
			"almanac.reading.errors{almanac.reading=clock}": 0, "almanac.reading.errors{almanac.reading=oldest}": 0,
			"almanac.reading.errors{almanac.reading=retries}": 1, "almanac.reading.errors{almanac.reading=backlog}": 1,
		}, process.values(t))
		require.Equal(t, 8, s.asked)

		s.takes, s.err = 0, errors.New("away")
		time.Sleep(20*2*time.Second - time.Millisecond)
		process.shows(t, map[string]float64{"almanac.reading.errors{almanac.reading=clock}": 0})
		time.Sleep(time.Millisecond)
		require.Equal(t, map[string]float64{
			"almanac.reading.errors{almanac.reading=clock}": 1, "almanac.reading.errors{almanac.reading=oldest}": 1,
			"almanac.reading.errors{almanac.reading=retries}": 2, "almanac.reading.errors{almanac.reading=backlog}": 2,
		}, process.values(t))
	})
}

func TestBadSettingsOfABacklogAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := almanacotel.WatchBacklog(newMeasuring(), new(store), registryOf(t, almanac.Birthday{}), almanacotel.WithAge(-1), almanacotel.WithDeadline(0))
	require.ErrorContains(t, err, "age of -1ns is negative")
	require.ErrorContains(t, err, "deadline of 0s is not positive")
}

func TestTheTableHasEveryMetric(t *testing.T) {
	t.Parallel()
	process, registry := newMeasuring(), registryOf(t, almanac.Birthday{})
	_, err := almanacotel.WatchHealth(process, new(condition))
	require.NoError(t, err)
	_, err = almanacotel.WatchBacklog(process, new(store), registry)
	require.NoError(t, err)
	metrics := metricsOf(t, process)
	metrics.Observe(t.Context(), almanac.Notice{Kind: almanac.UserCreated})
	metrics.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted})
	metrics.MeasureClaim(t.Context(), almanac.ClaimMeasurement{Query: 1})
	metrics.MeasureUpdate(t.Context(), almanac.UpdateMeasurement{})
	require.NoError(t, metrics.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })).
		Deliver(t.Context(), almanac.Delivery{}))
	have := make(map[string]string)
	for _, m := range process.metrics(t) {
		have[m.Name] = typeOf(m) + " | " + m.Unit
		require.NotEmpty(t, m.Description, m.Name)
	}

	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	table := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([a-z]+) \\| `([^`]+)` \\|").FindAllSubmatch(text, -1) {
		table[string(row[1])] = string(row[2]) + " | " + string(row[3])
	}
	require.Equal(t, have, table)
}

// typeOf returns the type of an instrument as the README names it.
func typeOf(m metricdata.Metrics) string {
	switch data := m.Data.(type) {
	case metricdata.Histogram[float64], metricdata.Histogram[int64]:
		return "histogram"
	case metricdata.Gauge[float64]:
		return "gauge"
	case metricdata.Sum[int64]:
		if data.IsMonotonic {
			return "counter"
		}
	}
	return "updowncounter"
}
