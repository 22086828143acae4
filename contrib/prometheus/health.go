package almanacprom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac"
)

// Health is a [prometheus.Collector] of what [almanac.Health] says at the moment of
// the scrape. It is safe for concurrent use and asks nobody but the scheduler and its
// conditions.
type Health struct {
	runner     Runner
	conditions []func(context.Context) error
	gauges     healthGauges
}

// Runner is what Health asks: a scheduler.
type Runner interface {
	// Health returns how Run does at the moment.
	Health() almanac.Health
}

type healthGauges struct {
	running, ready, workers, inHand, stuck, lost, trouble *prometheus.Desc
}

var _ prometheus.Collector = (*Health)(nil)

// readyLimit is how long the conditions of almanac_ready have to answer, all together.
const readyLimit = 2 * time.Second

// NewHealth returns the Health of a scheduler that the process runs. A program that
// only plans has none. The conditions are what the program's readiness probe asks
// besides the scheduler, such as whether the database answers: almanac_ready is 1
// while none returns an error and the scheduler is well, so that it says what the
// probe says. They are asked at each scrape, must be safe for concurrent use, and have
// two seconds.
func NewHealth(r Runner, conditions ...func(context.Context) error) *Health {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Health{r, conditions, healthGauges{
		running: describe("almanac_running", "Whether Run runs and was not told to stop: 1 or 0."),
		ready:   describe("almanac_ready", "Whether all is well, as a readiness probe sees it: 1 or 0."),
		workers: describe("almanac_workers", "How many events can be delivered at once."),
		inHand:  describe("almanac_events_in_hand", "Events that are claimed and whose outcome is not stored yet."),
		stuck:   describe("almanac_deliveries_stuck", "Deliveries that have not returned for five seconds after their context ended; each takes up a worker."),
		lost:    describe("almanac_events_lost", "Events that lost their lease lately, so that others may deliver them too."),
		trouble: describe("almanac_trouble_seconds", "For how long a part has not succeeded, since the first try after the last success; 0 when all is well. The chores are there only while they fail.", "part"),
	}}
}

// Describe describes every metric of h.
func (h *Health) Describe(ch chan<- *prometheus.Desc) {
	g := h.gauges
	for _, d := range []*prometheus.Desc{g.running, g.ready, g.workers, g.inHand, g.stuck, g.lost, g.trouble} {
		ch <- d
	}
}

// Collect tells every metric of h.
func (h *Health) Collect(ch chan<- prometheus.Metric) {
	is, g := h.runner.Health(), h.gauges
	tell := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	tell(g.running, number(is.Running))
	tell(g.ready, number(h.ready(is)))
	tell(g.workers, float64(is.Workers))
	tell(g.inHand, float64(is.InHand))
	tell(g.stuck, float64(is.Stuck))
	tell(g.lost, float64(is.Lost))
	tell(g.trouble, is.Claim.For.Seconds(), "claim")
	tell(g.trouble, is.Settle.For.Seconds(), "settle")
	tell(g.trouble, is.Renew.For.Seconds(), "renew")
	for chore, trouble := range is.Chores {
		tell(g.trouble, trouble.For.Seconds(), chore)
	}
}

// ready judges what the scheduler says, and the conditions.
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
