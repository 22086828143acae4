package almanacotel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacotel "github.com/almanac-go/almanac/contrib/otel"
)

// errRefused is a temporary refusal by a receiver.
var errRefused = errors.New("refused")

// tracing is one process: a provider, and its exported spans.
type tracing struct {
	*sdktrace.TracerProvider
	spans *tracetest.InMemoryExporter
}

func newTracing(options ...sdktrace.TracerProviderOption) tracing {
	spans := tracetest.NewInMemoryExporter()
	options = append([]sdktrace.TracerProviderOption{sdktrace.WithSyncer(spans), sdktrace.WithIDGenerator(almanacotel.IDGenerator(nil))}, options...)
	return tracing{sdktrace.NewTracerProvider(options...), spans}
}

// named returns the spans with a name.
func (t tracing) named(name string) tracetest.SpanStubs {
	return slices.DeleteFunc(t.spans.GetSpans(), func(s tracetest.SpanStub) bool { return s.Name != name })
}

func registryOf(t *testing.T, handlers ...almanac.EventHandler) almanac.Registry {
	t.Helper()
	r, err := almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	return r
}

// schedulerOf returns a scheduler of birthdays that are retried after a second.
func schedulerOf(t *testing.T, r almanac.Repository, options ...almanac.Option) almanac.Scheduler {
	t.Helper()
	birthday := almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Second}}}
	s, err := almanac.NewScheduler(r, registryOf(t, birthday), options...)
	require.NoError(t, err)
	return s
}

// newborn returns a profile with a birthday tomorrow.
func newborn() almanac.Profile {
	return almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: time.Now().AddDate(0, 0, 1).Format("1990-01-02"), Timezone: "UTC"}
}

// attributes returns the attributes of a span, by name.
func attributes(s tracetest.SpanStub) map[attribute.Key]any {
	all := make(map[attribute.Key]any)
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.AsInterface()
	}
	return all
}

// A request schedules an event in one process. Another process delivers it, and knows of
// the first only what is in the database.
func TestADeliveryIsTracedToTheRequestThatScheduledIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		front, back := newTracing(), newTracing()
		planner := schedulerOf(t, repository, almanac.WithObserver(almanacotel.NewTraces(front)))
		ctx, request := front.Tracer("test").Start(t.Context(), "POST /user")
		enrolment, err := planner.CreateUser(ctx, newborn())
		require.NoError(t, err)
		request.End()

		traces, tries := almanacotel.NewTraces(back), 0
		deliverer := almanac.DelivererFunc(func(ctx context.Context, _ almanac.Delivery) error {
			_, inner := back.Tracer("test").Start(ctx, "POST")
			defer inner.End()
			if tries++; tries == 1 {
				return errRefused
			}
			return nil
		})
		worker := schedulerOf(t, repository, almanac.WithObserver(traces), almanac.WithDeliverer(almanac.ChannelWebhook, traces.Middleware(deliverer)))
		running, stop := context.WithTimeout(t.Context(), 48*time.Hour)
		defer stop()
		require.NoError(t, worker.Run(running))

		event := enrolment.Events[0]
		created := front.named("create BIRTHDAY")
		require.Len(t, created, 1)
		require.Equal(t, trace.SpanKindProducer, created[0].SpanKind)
		require.Equal(t, almanacotel.TraceOf(event.ID), created[0].SpanContext.TraceID())
		require.False(t, created[0].Parent.IsValid())
		require.Len(t, created[0].Links, 1)
		require.Equal(t, request.SpanContext(), created[0].Links[0].SpanContext)

		attempts := back.named("deliver BIRTHDAY")
		require.Len(t, attempts, 2)
		for i, attempt := range attempts {
			require.Equal(t, trace.SpanKindConsumer, attempt.SpanKind)
			require.Equal(t, created[0].SpanContext.TraceID(), attempt.SpanContext.TraceID())
			require.Len(t, attempt.Links, 1)
			require.True(t, attempt.Links[0].SpanContext.Equal(created[0].SpanContext.WithRemote(true).WithTraceFlags(0)))
			require.EqualValues(t, i+1, attributes(attempt)["almanac.delivery.attempt"])
			require.Equal(t, event.ID.String(), attributes(attempt)["messaging.message.id"])
			require.Equal(t, attempt.SpanContext.SpanID(), back.named("POST")[i].Parent.SpanID())
		}
		require.NotEqual(t, attempts[0].SpanContext.SpanID(), attempts[1].SpanContext.SpanID())
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "refused"}, attempts[0].Status)
		require.Equal(t, "failed", attributes(attempts[0])["error.type"])
		require.Equal(t, codes.Unset, attempts[1].Status.Code)
		require.NotContains(t, attributes(attempts[1]), attribute.Key("error.type"))

		successor := back.named("create BIRTHDAY")
		require.Len(t, successor, 1)
		require.Empty(t, successor[0].Links)
		require.NotEqual(t, created[0].SpanContext.TraceID(), successor[0].SpanContext.TraceID())
	})
}

func TestSpansContainNoPersonalData(t *testing.T) {
	t.Parallel()
	process := newTracing()
	traces := almanacotel.NewTraces(process)
	due := time.Date(2026, 12, 10, 9, 0, 0, 0, time.UTC)
	user := almanactest.User(almanactest.Named("Wilhelmina", "Vandersteen"))
	e := almanactest.Event(due, almanactest.For(user), almanactest.DueIn(0), almanactest.InLane("crm/a"))
	e.ClaimCount, e.Payload = 4, []byte(`{"message":"Hey, Wilhelmina"}`)
	traces.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCreated, Event: e})
	deliverer := traces.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil }))
	require.NoError(t, deliverer.Deliver(t.Context(), almanac.Delivery{Event: e, Attempt: 2, At: due.Add(1500 * time.Millisecond)}))

	spans := process.spans.GetSpans()
	require.Len(t, spans, 2)
	both := map[attribute.Key]any{
		"messaging.system": "almanac", "messaging.destination.name": e.Type, "messaging.message.id": e.ID.String(),
		"almanac.event.due": "2026-12-10T09:00:00Z", "almanac.event.wall": e.Wall.String(), "almanac.event.zone": e.Zone,
		"almanac.event.idempotency_key": e.IdempotencyKey.String(), "almanac.user.id": user.ID.String(), "almanac.event.lane": "crm/a",
	}
	for i, more := range []map[attribute.Key]any{
		{"messaging.operation.name": "create", "messaging.operation.type": "create"},
		{"messaging.operation.name": "deliver", "messaging.operation.type": "process",
			"almanac.delivery.attempt": int64(2), "almanac.event.claims": int64(4), "almanac.event.lateness": 1.5},
	} {
		for name, value := range both {
			more[name] = value
		}
		require.Equal(t, more, attributes(spans[i]))
	}
}

func TestOutcomesAreErrorTypes(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the process stops")
	tests := map[string]struct {
		cause, err error
		want       any
	}{
		"accepted":         {nil, nil, nil},
		"refused":          {nil, errRefused, "failed"},
		"put off":          {nil, almanac.Snooze(time.Minute, ""), "snoozed"},
		"called off":       {nil, almanac.NotOwed("no address"), "not_owed"},
		"refused for good": {nil, almanac.Permanent(errRefused), "permanent"},
		"too slow":         {context.DeadlineExceeded, errRefused, "timeout"},
		"cut short":        {stopped, errRefused, "canceled"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			process := newTracing()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			deliverer := almanacotel.NewTraces(process).Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
				if tt.cause != nil {
					cancel(tt.cause)
				}
				return tt.err
			}))
			require.Equal(t, tt.err, deliverer.Deliver(ctx, almanac.Delivery{}))
			span := process.spans.GetSpans()[0]
			require.Equal(t, tt.want, attributes(span)["error.type"])
			failed := tt.err != nil && !errors.Is(tt.err, almanac.ErrNotOwed)
			require.Equal(t, failed, span.Status.Code == codes.Error)
		})
	}
}

func TestAPanicEndsTheSpanAndGoesOn(t *testing.T) {
	t.Parallel()
	process := newTracing()
	deliverer := almanacotel.NewTraces(process).Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { panic("oops") }))

	require.PanicsWithValue(t, "oops", func() { _ = deliverer.Deliver(t.Context(), almanac.Delivery{}) })

	spans := process.spans.GetSpans()
	require.Len(t, spans, 1)
	require.Equal(t, "panicked", attributes(spans[0])["error.type"])
	require.Equal(t, codes.Error, spans[0].Status.Code)
}

// Spans that a deliverer starts, in whatever way, have their own ids.
func TestOnlySpansAboutTheEventHaveDerivedIDs(t *testing.T) {
	t.Parallel()
	process, seen := newTracing(), make(map[trace.SpanID]bool)
	e := almanac.Event{ID: uuid.New()}
	deliverer := almanacotel.NewTraces(process).Middleware(almanac.DelivererFunc(func(ctx context.Context, _ almanac.Delivery) error {
		for range 3 {
			_, child := process.Tracer("test").Start(ctx, "child")
			child.End()
			_, other := process.Tracer("test").Start(ctx, "other", trace.WithNewRoot())
			other.End()
			require.NotEqual(t, almanacotel.TraceOf(e.ID), other.SpanContext().TraceID())
		}
		return nil
	}))
	require.NoError(t, deliverer.Deliver(t.Context(), almanac.Delivery{Event: e}))
	for _, span := range process.spans.GetSpans() {
		require.False(t, seen[span.SpanContext.SpanID()])
		seen[span.SpanContext.SpanID()] = true
	}
	require.Len(t, seen, 7)
}

func TestSamplersSeeAllSpansOfAnEventAlike(t *testing.T) {
	t.Parallel()
	front, back := newTracing(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(.25)))),
		newTracing(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(.25))))
	deliverer := almanacotel.NewTraces(back).Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil }))
	observer := almanacotel.NewTraces(front)
	const events = 2000
	for range events {
		id, err := uuid.NewV7()
		require.NoError(t, err)
		observer.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCreated, Event: almanac.Event{ID: id}})
		require.NoError(t, deliverer.Deliver(t.Context(), almanac.Delivery{Event: almanac.Event{ID: id}}))
	}

	created, delivered := front.spans.GetSpans(), back.spans.GetSpans()
	require.InDelta(t, events/4, len(created), 120) // six standard deviations
	require.Len(t, delivered, len(created))
	for i := range created {
		require.Equal(t, created[i].SpanContext.TraceID(), delivered[i].SpanContext.TraceID())
	}
}

func TestEventsScheduledInAnUnsampledTraceHaveNoCreation(t *testing.T) {
	t.Parallel()
	process := newTracing()
	traces := almanacotel.NewTraces(process)
	unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})
	ctx := trace.ContextWithSpanContext(t.Context(), unsampled)
	traces.Observe(ctx, almanac.Notice{Kind: almanac.EventCreated})
	traces.Observe(t.Context(), almanac.Notice{Kind: almanac.EventClaimed})
	require.Empty(t, process.spans.GetSpans())
	traces.Observe(trace.ContextWithSpanContext(ctx, unsampled.WithTraceFlags(trace.FlagsSampled)), almanac.Notice{Kind: almanac.EventCreated})
	require.Len(t, process.spans.GetSpans(), 1)
}

// No other test sets the global error handler.
func TestAProviderWithoutTheGeneratorIsReportedOnce(t *testing.T) {
	t.Parallel()
	var reported []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err) }))
	for _, process := range []tracing{newTracing(), newTracing(sdktrace.WithSampler(sdktrace.NeverSample()))} {
		almanacotel.NewTraces(process).Observe(t.Context(), almanac.Notice{Kind: almanac.EventCreated})
	}
	require.Empty(t, reported)

	spans := tracetest.NewInMemoryExporter()
	traces := almanacotel.NewTraces(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	for range 3 {
		traces.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCreated})
	}
	require.Len(t, reported, 1)
	require.ErrorContains(t, reported[0], "IDGenerator")
	require.Len(t, spans.GetSpans(), 3)
}

// fixed is a host's own generator.
type fixed struct{}

func (fixed) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	return trace.TraceID{7}, trace.SpanID{7}
}
func (fixed) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return trace.SpanID{8} }

func TestOtherIDsComeFromTheHostsGenerator(t *testing.T) {
	t.Parallel()
	g := almanacotel.IDGenerator(fixed{})
	traceID, spanID := g.NewIDs(t.Context())
	require.Equal(t, trace.TraceID{7}, traceID)
	require.Equal(t, trace.SpanID{7}, spanID)
	require.Equal(t, trace.SpanID{8}, g.NewSpanID(t.Context(), traceID))
}
