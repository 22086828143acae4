package almanacotel_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/almanac-go/almanac"
	almanacotel "github.com/almanac-go/almanac/contrib/otel"
)

// Add exporters, as for the rest of the program.
func Example() {
	var store almanac.Repository // package postgres has one
	types, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	deliverer := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })

	traces := almanacotel.NewTraces(sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil))))
	scheduler, err := almanac.NewScheduler(store, types,
		almanac.WithObserver(traces),
		almanac.WithDeliverer(almanac.ChannelWebhook, traces.Middleware(deliverer)))
	if err != nil {
		panic(err)
	}
	_ = scheduler.Run(context.Background())
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
