package almanacotel

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

// Generator makes the ids of traces and spans. It has the methods of IDGenerator in the
// SDK's package trace.
type Generator interface {
	// NewIDs returns the ids of a new trace and of its first span.
	NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID)
	// NewSpanID returns the id of a new span of a trace.
	NewSpanID(ctx context.Context, traceID trace.TraceID) trace.SpanID
}

// IDGenerator returns the generator that the tracer provider needs for [Traces]. It derives
// the ids of the spans about an event from the event's id, so that they are the same in all
// processes. The generator next makes all other ids; nil makes random ones. IDGenerator's
// result is safe for concurrent use if next is.
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

// creationOf returns the span of an event's creation, in whatever process. The ids are a
// digest, because the first bytes of an event's id are a time. Samplers that compare ids
// need random ones.
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
