package almanacotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/almanac-go/almanac"
)

// calls measures claims and counts versioned updates.
type calls struct {
	query   metric.Float64Histogram
	claims  metric.Float64Histogram
	found   metric.Int64Histogram
	batches metric.Int64Histogram
	updates metric.Int64Counter
}

func newCalls(meter metric.Meter) (c calls, err error) {
	// The thresholds of the alerts are among the bounds: 100 ms, 200 ms and a second.
	durations := metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .2, .5, 1, 2.5, 5, 10, 20)
	sizes := metric.WithExplicitBucketBoundaries(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
	var errs [5]error
	c.query, errs[0] = meter.Float64Histogram("almanac.claim.query.duration", metric.WithUnit("s"), durations,
		metric.WithDescription("How long the statement of a claim took, from having a connection to the last row."))
	c.claims, errs[1] = meter.Float64Histogram("almanac.claim.duration", metric.WithUnit("s"), durations,
		metric.WithDescription("How long a whole claim took, including the wait for a connection and retries."))
	c.found, errs[2] = meter.Int64Histogram("almanac.claim.events", metric.WithUnit("{event}"), sizes,
		metric.WithDescription("How many events a claim found."))
	c.batches, errs[3] = meter.Int64Histogram("almanac.claim.batch_size", metric.WithUnit("{event}"), sizes,
		metric.WithDescription("How many events a claim asked for at most."))
	c.updates, errs[4] = meter.Int64Counter("almanac.versioned_updates", metric.WithUnit("{update}"),
		metric.WithDescription("Updates that named the version to replace, and whether that was the one stored."))
	return c, errors.Join(errs[:]...)
}

// MeasureClaim measures one claim.
func (m *Metrics) MeasureClaim(ctx context.Context, claim almanac.ClaimMeasurement) {
	m.calls.batches.Record(ctx, int64(claim.BatchSize))
	if claim.Err != nil {
		m.calls.claims.Record(ctx, claim.Total.Seconds(), metric.WithAttributes(semconv.ErrorTypeKey.String(string(failed))))
		return
	}
	m.calls.claims.Record(ctx, claim.Total.Seconds())
	m.calls.found.Record(ctx, int64(claim.Found))
	if claim.Query > 0 {
		m.calls.query.Record(ctx, claim.Query.Seconds())
	}
}

// MeasureUpdate counts versioned updates.
func (m *Metrics) MeasureUpdate(ctx context.Context, update almanac.UpdateMeasurement) {
	kind := attribute.String("almanac.update.kind", string(update.Kind))
	for result, count := range map[string]int{"stored": update.Stored, "conflict": update.Conflicts} {
		// Add zero too, so that the first conflict is an increase.
		m.calls.updates.Add(ctx, int64(count), metric.WithAttributes(kind, attribute.String("almanac.update.result", result)))
	}
}
