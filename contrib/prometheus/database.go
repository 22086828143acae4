package almanacprom

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac"
)

// calls measures claims and counts versioned updates.
type calls struct {
	query   *prometheus.HistogramVec
	claims  *prometheus.HistogramVec // by outcome
	found   *prometheus.HistogramVec
	batches *prometheus.HistogramVec
	updates *prometheus.CounterVec // by kind, result
}

// Results of a claim and of a versioned update.
const (
	answered = "answered" // possibly with no event
	refused  = "failed"

	stored   = "stored"
	conflict = "conflict" // another version was stored
)

func newCalls(newHistogram histogramMaker) calls {
	c := calls{
		query: newHistogram("almanac_claim_query_duration_seconds",
			"How long the statement of a claim took, from having a connection to the last row.", claimBuckets()),
		claims: newHistogram("almanac_claim_duration_seconds",
			"How long a whole claim took, including the wait for a connection and retries.", claimBuckets(), "outcome"),
		found:   newHistogram("almanac_claim_events", "How many events a claim found.", sizeBuckets()),
		batches: newHistogram("almanac_claim_batch_size", "How many events a claim asked for at most.", sizeBuckets()),
		updates: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_versioned_updates_total", Help: "Updates that named the version to replace, and whether that was the one stored.",
		}, []string{"kind", "result"}),
	}
	for _, one := range []*prometheus.HistogramVec{c.query, c.found, c.batches} {
		one.WithLabelValues()
	}
	for _, outcome := range []string{answered, refused} {
		c.claims.WithLabelValues(outcome)
	}
	for _, kind := range []string{almanac.MeasuredOutcome, almanac.MeasuredUser, almanac.MeasuredEvent} {
		for _, result := range []string{stored, conflict} {
			c.updates.WithLabelValues(string(kind), result)
		}
	}
	return c
}

// claimBuckets include the thresholds of the alerts: 100 ms, 200 ms and a second.
func claimBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .2, .5, 1, 2.5, 5, 10, 20}
}

// sizeBuckets go to 2,000, which is the largest size of a claim.
func sizeBuckets() []float64 { return []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000} }

// Measure measures one claim, or counts versioned updates.
func (e *Events) Measure(_ context.Context, m almanac.Measurement) {
	if m.Kind != almanac.MeasuredClaim {
		e.calls.updates.WithLabelValues(string(m.Kind), stored).Add(float64(m.Stored))
		e.calls.updates.WithLabelValues(string(m.Kind), conflict).Add(float64(m.Conflicts))
		return
	}
	outcome := answered
	if m.Err != nil {
		outcome = refused
	} else {
		e.calls.found.WithLabelValues().Observe(float64(m.Found))
		if m.Query > 0 {
			e.calls.query.WithLabelValues().Observe(m.Query.Seconds())
		}
	}
	e.calls.batches.WithLabelValues().Observe(float64(m.BatchSize))
	e.calls.claims.WithLabelValues(outcome).Observe(m.Total.Seconds())
}

func (c calls) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.query, c.claims, c.found, c.batches, c.updates}
}
