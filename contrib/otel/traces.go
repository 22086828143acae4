package almanacotel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/almanac-go/almanac"
)

// scope is the name of the instrumentation.
const scope = "github.com/almanac-go/almanac/contrib/otel"

// Traces follows events from their scheduling to their delivery. Each event has its own trace, which spans
// all processes and any length of time. It has two kinds of span, whose names end with the event's type:
//
//   - "create", of kind producer, when the event is stored. It links to the span that was
//     current in the scheduling call, such as the span of a request.
//   - "deliver", of kind consumer, for each attempt, linked to the creation. It is the
//     current span of the deliverer.
//
// Nothing is stored for the traces: a column would be a cost for hosts that trace nothing, and
// memory ends before most events do. [IDGenerator] derives the ids of the trace and of the
// creation from the event's id, and the tracer provider of each process must use it. Without it,
// spans are in separate traces, and Traces reports that once to OpenTelemetry's error handler.
//
// The provider's sampler decides whether a trace is sampled. It sees all spans of an event
// as roots of the same trace, so a sampler that compares trace ids takes all or none. An
// event that is scheduled in a trace that is not sampled has no creation span.
//
// Traces is an [almanac.Observer], has a Middleware for deliverers, and is safe for concurrent use.
type Traces struct {
	tracer trace.Tracer
	alien  sync.Once // reports a provider with other ids
}

var _ almanac.Observer = (*Traces)(nil)

// panicked is the error.type of an attempt that did not return: it panicked, or ended its
// goroutine. All others are those of [almanac.ErrorType].
const panicked = "panicked"

// errAlien is reported once for a tracer provider without IDGenerator.
var errAlien = errors.New("almanacotel: links of spans are broken: the tracer provider was made without almanacotel.IDGenerator")

// NewTraces returns Traces of the provider. Nil means the global one.
func NewTraces(p trace.TracerProvider) *Traces {
	p = cmp.Or(p, otel.GetTracerProvider())
	return &Traces{tracer: p.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}
}

// Observe records the creation of events and ignores other changes.
func (t *Traces) Observe(ctx context.Context, n almanac.Notice) {
	scheduling := trace.SpanContextFromContext(ctx)
	if n.Kind != almanac.EventCreated || scheduling.IsValid() && !scheduling.IsSampled() {
		return
	}
	is := creationOf(n.Event.ID)
	options := append(attributesOf(n.Event, semconv.MessagingOperationTypeCreate, "create"), trace.WithSpanKind(trace.SpanKindProducer))
	if scheduling.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: scheduling}))
	}
	span := t.start(ctx, is, "create "+n.Event.Type, options)
	span.End()
}

// Middleware returns a deliverer that records a span for each attempt of next.
func (t *Traces) Middleware(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		created := creationOf(d.Event.ID)
		options := append(attributesOf(d.Event, semconv.MessagingOperationTypeProcess, "deliver"),
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithLinks(trace.Link{SpanContext: created}),
			trace.WithAttributes(
				attribute.Int("almanac.delivery.attempt", d.Attempt),
				attribute.Int("almanac.event.claims", d.Event.ClaimCount),
				attribute.Float64("almanac.event.lateness", d.At.Sub(d.Event.FirstAvailable()).Seconds()),
			))
		span := t.start(ctx, created.WithSpanID(trace.SpanID{}), "deliver "+d.Event.Type, options)
		result := panicked
		defer func() {
			if result != "" {
				span.SetAttributes(semconv.ErrorTypeKey.String(result))
			}
			if result == panicked {
				span.SetStatus(codes.Error, "the delivery did not return")
			}
			span.End()
		}()
		err := next.Deliver(trace.ContextWithSpan(ctx, span), d)
		if result = almanac.ErrorType(ctx, err); err != nil && result != "not_owed" {
			span.SetStatus(codes.Error, err.Error())
		}
		return err
	})
}

// start starts a root span with given ids, or in a given trace. The ids are only for this
// span, so its context is not passed on.
func (t *Traces) start(ctx context.Context, ids trace.SpanContext, name string, options []trace.SpanStartOption) trace.Span {
	_, span := t.tracer.Start(context.WithValue(ctx, chosen{}, ids), name, append(options, trace.WithNewRoot())...)
	if span.IsRecording() && span.SpanContext().TraceID() != ids.TraceID() {
		t.alien.Do(func() { otel.Handle(errAlien) })
	}
	return span
}

// attributesOf returns the attributes of every span about an event.
func attributesOf(e almanac.Event, operation attribute.KeyValue, name string) []trace.SpanStartOption {
	attributes := []attribute.KeyValue{
		system, operation, semconv.MessagingOperationName(name),
		semconv.MessagingDestinationName(e.Type), semconv.MessagingMessageID(e.ID.String()),
		attribute.String("almanac.event.due", e.Due.Format(time.RFC3339Nano)),
		attribute.String("almanac.event.wall", e.Wall.String()),
		attribute.String("almanac.event.zone", e.Zone),
		attribute.String("almanac.event.idempotency_key", e.IdempotencyKey.String()),
		attribute.String("almanac.user.id", e.UserID.String()),
	}
	if e.Lane != "" {
		attributes = append(attributes, attribute.String("almanac.event.lane", e.Lane))
	}
	return []trace.SpanStartOption{trace.WithAttributes(attributes...)}
}

// system is the messaging system; the conventions have no name for Almanac.
var system = semconv.MessagingSystemKey.String("almanac")

// Generator makes the ids of traces and spans. It has the methods of IDGenerator in the
// SDK's package trace.
type Generator interface {
	// NewIDs returns the ids of a new trace and of its first span.
	NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID)
	// NewSpanID returns the id of a new span of a trace.
	NewSpanID(ctx context.Context, traceID trace.TraceID) trace.SpanID
}

// IDGenerator returns the generator that the tracer provider needs for [Traces]. It derives the ids of the
// spans about an event from the event's id, so that they are the same in all processes. The generator next
// makes all other ids; nil makes random ones. IDGenerator's result is safe for concurrent use if next is.
func IDGenerator(next Generator) Generator {
	if next == nil {
		next = random{}
	}
	return generator{next}
}

type generator struct{ next Generator }

// chosen is the context key of given ids, for the one call that starts a span.
type chosen struct{}

func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	of, ok := ctx.Value(chosen{}).(trace.SpanContext)
	switch {
	case !ok:
		return g.next.NewIDs(ctx)
	case of.HasSpanID():
		return of.TraceID(), of.SpanID()
	default:
		return of.TraceID(), g.next.NewSpanID(ctx, of.TraceID())
	}
}

func (g generator) NewSpanID(ctx context.Context, traceID trace.TraceID) trace.SpanID {
	return g.next.NewSpanID(ctx, traceID)
}

// creationOf returns the span of an event's creation, in whatever process. The ids are a digest,
// because the first bytes of an event's id are a time. Samplers that compare ids need random ones.
func creationOf(event uuid.UUID) trace.SpanContext {
	digest := sha256.Sum256(append([]byte("almanac event "), event[:]...))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(digest[:16]), SpanID: trace.SpanID(digest[16:24]), Remote: true,
	})
}

// TraceOf returns the id of the trace with all spans about an event, for looking it up.
func TraceOf(event uuid.UUID) trace.TraceID { return creationOf(event).TraceID() }

// random makes random ids, as the SDK does.
type random struct{}

func (r random) NewIDs(ctx context.Context) (id trace.TraceID, _ trace.SpanID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id, r.NewSpanID(ctx, id)
}

func (random) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
