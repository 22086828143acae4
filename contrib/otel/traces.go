package almanacotel

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/almanac-go/almanac"
)

// scope names who tells.
const scope = "github.com/almanac-go/almanac/contrib/otel"

// Traces follows events from their scheduling to their delivery. Each event has a
// trace of its own, in all processes and however much later:
//
//   - "create" and the event's type, of kind producer, when it is stored. It links to
//     the span that was current for whoever scheduled it, such as that of a request.
//   - "deliver" and the event's type, of kind consumer, for each attempt, linked to the
//     creation. It is current for the deliverer.
//
// Nothing is stored for that: the ids of the trace and of the creation follow from the
// event's id, by [IDGenerator], which the tracer provider of each process must have.
// One that does not have it is reported to OpenTelemetry's error handler, once, and
// its spans are in traces of their own.
//
// Whether a trace is sampled is for the provider's sampler to say, which sees all
// spans of an event as roots of the same trace: one that compares trace ids takes all
// or none. What is scheduled in a trace that is not sampled has no creation.
//
// Traces is an [almanac.Observer], has a Middleware for deliverers, and is safe for
// concurrent use.
type Traces struct {
	tracer trace.Tracer
	alien  sync.Once // reports a provider that has other ids
}

var _ almanac.Observer = (*Traces)(nil)

// errAlien is reported, once, of a tracer provider that makes other ids.
var errAlien = errors.New("almanacotel: links lead nowhere: the tracer provider was made without almanacotel.IDGenerator")

// NewTraces returns Traces of the provider; nil is the global one.
func NewTraces(p trace.TracerProvider) *Traces {
	if p == nil {
		p = otel.GetTracerProvider()
	}
	return &Traces{tracer: p.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))}
}

// Observe tells of the creation of events. It has no interest in other changes.
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

// Middleware returns a deliverer that makes a span of each attempt of next.
func (t *Traces) Middleware(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		created := creationOf(d.Event.ID)
		options := append(attributesOf(d.Event, semconv.MessagingOperationTypeProcess, "deliver"),
			trace.WithSpanKind(trace.SpanKindConsumer),
			trace.WithLinks(trace.Link{SpanContext: created}),
			trace.WithAttributes(
				attribute.Int("almanac.delivery.attempt", d.Attempt),
				attribute.Int("almanac.event.claims", d.Event.ClaimCount),
				attribute.Float64("almanac.event.lateness", d.At.Sub(d.Event.Due).Seconds()),
			))
		span := t.start(ctx, created.WithSpanID(trace.SpanID{}), "deliver "+d.Event.Type, options)
		how := panicked
		defer func() {
			if how != accepted {
				span.SetAttributes(semconv.ErrorTypeKey.String(string(how)))
			}
			if how == panicked {
				span.SetStatus(codes.Error, "the delivery did not return")
			}
			span.End()
		}()
		err := next.Deliver(trace.ContextWithSpan(ctx, span), d)
		if how = outcomeOf(ctx, err); err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		return err
	})
}

// start begins a span with given ids, or in a given trace, outside of any other. The
// ids are for it alone, so its context is not handed on.
func (t *Traces) start(ctx context.Context, ids trace.SpanContext, name string, options []trace.SpanStartOption) trace.Span {
	_, span := t.tracer.Start(context.WithValue(ctx, chosen{}, ids), name, append(options, trace.WithNewRoot())...)
	if span.IsRecording() && span.SpanContext().TraceID() != ids.TraceID() {
		t.alien.Do(func() { otel.Handle(errAlien) })
	}
	return span
}

// attributesOf are what is told of an event by every span about it.
func attributesOf(e almanac.Event, operation attribute.KeyValue, name string) []trace.SpanStartOption {
	return []trace.SpanStartOption{trace.WithAttributes(
		system, operation, semconv.MessagingOperationName(name),
		semconv.MessagingDestinationName(e.Type), semconv.MessagingMessageID(e.ID.String()),
		attribute.String("almanac.event.due", e.Due.Format(time.RFC3339Nano)),
		attribute.String("almanac.event.wall", e.Wall.String()),
		attribute.String("almanac.event.zone", e.Zone),
		attribute.String("almanac.event.idempotency_key", e.IdempotencyKey.String()),
		attribute.String("almanac.user.id", e.UserID.String()),
	)}
}

// system is the messaging system, which has no name in the conventions.
var system = semconv.MessagingSystemKey.String("almanac")
