package almanacotel_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacotel "github.com/almanac-go/almanac/contrib/otel"
	"github.com/almanac-go/almanac/ops"
)

// statisticsStore is a repository with statistics. A postgres.Store is one.
type statisticsStore interface {
	almanac.Repository
	ops.Statistics
}

// watched returns a scheduler with traces and metrics.
func watched(store statisticsStore, types almanac.Registry, deliverer almanac.Deliverer) (almanac.Scheduler, error) {
	// Add exporters and readers, as for the rest of the program.
	tracers := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil)))
	meters := sdkmetric.NewMeterProvider()

	traces := almanacotel.NewTraces(tracers)
	metrics, err := almanacotel.NewMetrics(meters, types)
	if err != nil {
		return nil, err
	}
	scheduler, err := almanac.NewScheduler(store, types,
		almanac.WithObserver(traces), almanac.WithObserver(metrics),
		almanac.WithDeliverer(almanac.ChannelWebhook, traces.Middleware(metrics.Middleware(deliverer))))
	if err != nil {
		return nil, err
	}
	if _, err := almanacotel.WatchHealth(meters, scheduler); err != nil {
		return nil, err
	}
	_, err = almanacotel.WatchBacklog(meters, store, types)
	return scheduler, err
}

// Traces and metrics also work separately.
func Example() {
	var store statisticsStore // package postgres has one
	types, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	deliverer := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	scheduler, err := watched(store, types, deliverer)
	if err != nil {
		panic(err)
	}
	_ = scheduler.Run(context.Background())
}

// birthdays is a registry of one type.
func birthdays() almanac.Registry {
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	return registry
}

// show prints the value of a gauge or a counter without attributes.
func show(reader sdkmetric.Reader, name string) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		panic(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				fmt.Println(name, data.DataPoints[0].Value)
			case metricdata.Sum[int64]:
				fmt.Println(name, data.DataPoints[0].Value)
			}
		}
	}
}

// All spans about an event are in one trace, in all processes.
func ExampleTraces() {
	spans := tracetest.NewInMemoryExporter()
	traces := almanacotel.NewTraces(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil))))
	e := almanac.Event{ID: uuid.MustParse("0198a1f0-7c3e-7d6a-9b1f-2f6d1c0e4a55"), Type: almanac.TypeBirthday}
	deliver := traces.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil }))
	_ = deliver.Deliver(context.Background(), almanac.Delivery{Event: e, Attempt: 1})
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name, s.SpanContext.TraceID() == almanacotel.TraceOf(e.ID))
	}
	// Output: deliver BIRTHDAY true
}

// Metrics count stored changes.
func ExampleMetrics() {
	reader := sdkmetric.NewManualReader()
	metrics, err := almanacotel.NewMetrics(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), birthdays())
	if err != nil {
		panic(err)
	}
	metrics.Observe(context.Background(), almanac.Notice{Kind: almanac.UserCreated})
	show(reader, "almanac.user.changes")
	// Output: almanac.user.changes 1
}

// numbered makes predictable ids.
type numbered struct{ last *uint64 }

func (n numbered) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id := trace.TraceID{15: 7}
	return id, n.NewSpanID(ctx, id)
}

func (n numbered) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	*n.last++
	binary.BigEndian.PutUint64(id[:], *n.last)
	return id
}

// Spans that are not about an event get their ids from another generator.
func ExampleGenerator() {
	var g almanacotel.Generator = numbered{new(uint64)}
	provider := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(almanacotel.IDGenerator(g)))
	_, span := provider.Tracer("example").Start(context.Background(), "POST /user")
	fmt.Println(span.SpanContext().TraceID(), span.SpanContext().SpanID())
	// Output: 00000000000000000000000000000007 0000000000000001
}

// idle is a scheduler that does not run.
type idle struct{}

func (idle) Health() almanac.Health { return almanac.Health{Workers: 100} }

func ExampleRunner() {
	reader := sdkmetric.NewManualReader()
	var r almanacotel.Runner = idle{}
	if _, err := almanacotel.WatchHealth(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), r); err != nil {
		panic(err)
	}
	show(reader, "almanac.scheduler.workers")
	show(reader, "almanac.scheduler.ready")
	// Output:
	// almanac.scheduler.workers 100
	// almanac.scheduler.ready 0
}

// A repository is a Store.
func ExampleStore() {
	now := time.Date(2027, time.March, 15, 14, 0, 0, 0, time.UTC)
	repository, ada := almanactest.NewRepository(func() time.Time { return now }), almanactest.User()
	if _, _, err := almanactest.CreateUser(context.Background(), repository, ada, almanactest.Event(now, almanactest.For(ada), almanactest.ReadyFor(time.Minute))); err != nil {
		panic(err)
	}
	var store almanacotel.Store = repository
	reader := sdkmetric.NewManualReader()
	if _, err := almanacotel.WatchBacklog(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), store, birthdays()); err != nil {
		panic(err)
	}
	show(reader, "almanac.backlog.events")
	// Output: almanac.backlog.events 1
}

// WatchBacklog reports every setting that is out of bounds.
func ExampleBacklogOption() {
	_, err := almanacotel.WatchBacklog(nil, almanactest.NewRepository(nil), birthdays(), almanacotel.WithAge(-time.Second), almanacotel.WithDeadline(0))
	fmt.Println(err)
	// Output:
	// almanacotel: age of -1s is negative
	// almanacotel: deadline of 0s is not positive
}
