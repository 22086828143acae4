package almanacprom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac"
)

// Health is a [prometheus.Collector] of the [almanac.Health] at the moment of the scrape.
// It is safe for concurrent use. It calls only the scheduler and the given conditions.
type Health struct {
	runner     Runner
	conditions []func(context.Context) error
	gauges     healthGauges
}

// Runner is the part of a scheduler that Health reads.
type Runner interface {
	// Health returns the present state of Run.
	Health() almanac.Health
}

type healthGauges struct {
	running, ready, workers, inHand, stuck, blocked, lost, failing *prometheus.Desc
}

var _ prometheus.Collector = (*Health)(nil)

// readyLimit is the time for all conditions of almanac_ready together.
const readyLimit = 2 * time.Second

// NewHealth returns the Health of a scheduler in this process. It is for programs that call Run. The
// conditions are what the readiness probe checks besides the scheduler, such as the database. Then
// almanac_ready equals the probe: it is 1 while no condition returns an error and the scheduler is well.
// The conditions are called at each scrape, must be safe for concurrent use, and have two seconds together.
func NewHealth(r Runner, conditions ...func(context.Context) error) *Health {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Health{r, conditions, healthGauges{
		running: describe("almanac_running", "Whether Run runs and was not asked to stop: 1 or 0."),
		ready:   describe("almanac_ready", "Whether all is well, as a readiness probe sees it: 1 or 0."),
		workers: describe("almanac_workers", "How many events can be delivered at once."),
		inHand:  describe("almanac_events_held", "Events that are claimed and whose outcome is not stored yet."),
		stuck:   describe("almanac_deliveries_stuck", "Deliveries that have not returned for five seconds after their context ended; each takes up a worker."),
		blocked: describe("almanac_calls_blocked", "Calls of handlers' planning code and of observers that do not return; each keeps a goroutine."),
		lost:    describe("almanac_events_lost", "Events that lost their lease lately, so that others may deliver them too."),
		failing: describe("almanac_failure_seconds", "For how long a part has not succeeded, since the first try after the last success; 0 when all is well. Maintenance tasks are present only while they fail.", "part"),
	}}
}

// Describe describes every metric of h.
func (h *Health) Describe(ch chan<- *prometheus.Desc) {
	g := h.gauges
	for _, d := range []*prometheus.Desc{g.running, g.ready, g.workers, g.inHand, g.stuck, g.blocked, g.lost, g.failing} {
		ch <- d
	}
}

// Collect sends every metric of h.
func (h *Health) Collect(ch chan<- prometheus.Metric) {
	is, g := h.runner.Health(), h.gauges
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	send(g.running, number(is.Running))
	send(g.ready, number(h.ready(is)))
	send(g.workers, float64(is.Workers))
	send(g.inHand, float64(is.Held))
	send(g.stuck, float64(is.Stuck))
	send(g.blocked, float64(is.Blocked))
	send(g.lost, float64(is.Lost))
	send(g.failing, is.Claim.For.Seconds(), "claim")
	send(g.failing, is.Settle.For.Seconds(), "settle")
	send(g.failing, is.Renew.For.Seconds(), "renew")
	for task, failure := range is.Maintenance {
		send(g.failing, failure.For.Seconds(), task)
	}
}

// ready reports whether the scheduler is well and all conditions hold.
func (h *Health) ready(is almanac.Health) bool {
	if is.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	for _, holds := range h.conditions {
		if holds(ctx) != nil {
			return false
		}
	}
	return true
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

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

func newCalls(common histogramMaker) calls {
	c := calls{
		query: common.histogram("almanac_claim_query_duration_seconds",
			"How long the statement of a claim took, from having a connection to the last row.", claimBuckets()),
		claims: common.histogram("almanac_claim_duration_seconds",
			"How long a whole claim took, including the wait for a connection and retries.", claimBuckets(), "outcome"),
		found:   common.histogram("almanac_claim_events", "How many events a claim found.", sizeBuckets()),
		batches: common.histogram("almanac_claim_batch_size", "How many events a claim asked for at most.", sizeBuckets()),
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

// Measure measures one claim, or counts versioned updates or a late request.
func (e *Events) Measure(_ context.Context, m almanac.Measurement) {
	switch m.Kind {
	case almanac.MeasuredLate:
		e.late.WithLabelValues(e.label(m.Type)).Inc()
		return
	case almanac.MeasuredClaim:
	default:
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
