package almanacprom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// Backlog is a [prometheus.Collector] of the events that wait in the database, of the stalled
// series (see [almanac.StalledSeries]), and of the offset between the database clock and this
// machine's clock. All processes on one database report the same values, so one process is enough.
//
// Backlog reads the database when it is scraped, but limits the load. Only one scrape reads at a time,
// and the others get its results. Results, also errors, are reused for a while (see [WithAge]). The next
// readings wait at least twenty times as long as the last ones took, so they use at most a twentieth of
// a connection. A value that cannot be read within the deadline (see [WithDeadline]) is absent until the
// next successful reading, and the error is counted. Backlog is safe for concurrent use.
type Backlog struct {
	store    Store
	types    []string
	age      time.Duration
	deadline time.Duration
	errors   *prometheus.CounterVec

	reading chan struct{} // full while a scrape reads
	next    time.Time     // until then the kept results are reused
	kept    []prometheus.Metric
}

// Store is the part of a repository that Backlog reads.
type Store interface {
	// Missed counts the events that have been ready for longer than grace.
	Missed(ctx context.Context, types []string, grace time.Duration) (almanac.Missed, error)

	// Retries returns what is tried again after a failure.
	Retries(ctx context.Context) (ops.Retries, error)

	// LaneLoads returns the lanes that have limits, are paused, or whose receiver fails, with what waits for them.
	LaneLoads(ctx context.Context) ([]ops.LaneLoad, error)

	// ZoneRules returns the rules that stored events follow, and the releases that wait for an operator.
	ZoneRules(ctx context.Context) (almanac.ZoneBook, error)

	almanac.Timekeeper
}

// BacklogOption is a setting of a [Backlog].
type BacklogOption func(*Backlog)

// WithAge sets for how long a result is reused at least. It must not be negative. Zero leaves
// only the wait that [Backlog] describes. The default is ten seconds.
func WithAge(d time.Duration) BacklogOption { return func(b *Backlog) { b.age = d } }

// WithDeadline sets how long all database calls of a scrape may take together. It must be
// positive, and shorter than the scrape timeout, which is ten seconds by default in
// Prometheus. The default is two seconds.
func WithDeadline(d time.Duration) BacklogOption { return func(b *Backlog) { b.deadline = d } }

// rest is the factor from the duration of the last readings to the wait before the next.
const rest = 20

var _ prometheus.Collector = (*Backlog)(nil)

// NewBacklog returns the Backlog of the registry's types. The error names every setting
// that is out of bounds.
func NewBacklog(s Store, registry almanac.Registry, options ...BacklogOption) (*Backlog, error) {
	b := &Backlog{
		store: s, types: registry.EventTypes(), age: 10 * time.Second, deadline: 2 * time.Second, reading: make(chan struct{}, 1),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_reading_errors_total", Help: "Readings of the database that failed, timeouts included. Their values are absent.",
		}, []string{"reading"}),
	}
	for _, option := range options {
		option(b)
	}
	for _, r := range b.readings() {
		b.errors.WithLabelValues(r.name)
	}
	return b, b.check()
}

func (b *Backlog) check() error {
	var errs []error
	if b.age < 0 {
		errs = append(errs, fmt.Errorf("almanacprom: age of %v is negative", b.age))
	}
	if b.deadline <= 0 {
		errs = append(errs, fmt.Errorf("almanacprom: deadline of %v is not positive", b.deadline))
	}
	return errors.Join(errs...)
}

// reading is a question to the database, and the gauges that show its answer.
type reading struct {
	name   string // in the counter of errors
	gauges []*prometheus.Desc
	take   func(context.Context) ([]prometheus.Metric, error)
}

// readings returns the readings in their order: cheap ones first, since all share a deadline.
func (b *Backlog) readings() []reading {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	single := func(name string, gauge *prometheus.Desc, take func(context.Context) (float64, error)) reading {
		return reading{name, []*prometheus.Desc{gauge}, func(ctx context.Context) ([]prometheus.Metric, error) {
			value, err := take(ctx)
			return []prometheus.Metric{gaugeOf(gauge, value)}, err
		}}
	}
	retrying := describe("almanac_events_retrying", "Events that wait for another attempt after a failed one.", "type")
	stalled := describe("almanac_series_stalled", "Series whose next event could not be planned yet.", "type")
	return []reading{
		single("clock", describe("almanac_database_clock_offset_seconds",
			"How far the database's clock is ahead of this machine's, to within half of the time that the call took."), b.offset),
		single("oldest", describe("almanac_backlog_oldest_age_seconds",
			"How long the event that waits longest has been available; 0 when none waits."), b.oldest),
		{"retries", []*prometheus.Desc{retrying, stalled}, func(ctx context.Context) ([]prometheus.Metric, error) {
			r, err := b.store.Retries(ctx)
			return append(b.byType(retrying, r.Events), b.byType(stalled, r.Series)...), err
		}},
		b.lanes(describe),
		b.quarantine(),
		single("backlog", describe("almanac_backlog_events",
			"Events that are available and not claimed."), b.count),
	}
}

func gaugeOf(gauge *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(gauge, prometheus.GaugeValue, value, labels...)
}

// byType returns a metric for each type of the registry, and one for all other types if there are any.
func (b *Backlog) byType(gauge *prometheus.Desc, groups []ops.RetryGroup) []prometheus.Metric {
	counts := make(map[string]float64)
	for _, eventType := range b.types {
		counts[eventType] = 0
	}
	for _, g := range groups {
		label := g.Type
		if !slices.Contains(b.types, label) {
			label = unregistered
		}
		counts[label] += float64(g.Count.N)
	}
	var metrics []prometheus.Metric
	for label, n := range counts {
		metrics = append(metrics, gaugeOf(gauge, n, label))
	}
	return metrics
}

// offset compares the database time with the local time halfway through the call.
func (b *Backlog) offset(ctx context.Context) (float64, error) {
	asked := time.Now()
	now, err := b.store.Now(ctx)
	return now.Sub(asked.Add(time.Since(asked) / 2)).Seconds(), err
}

func (b *Backlog) oldest(ctx context.Context) (float64, error) {
	wait, known, err := b.store.Until(ctx, b.types, time.Time{})
	if !known {
		return 0, err
	}
	return max(0, -wait.Seconds()), err
}

func (b *Backlog) count(ctx context.Context) (float64, error) {
	m, err := b.store.Missed(ctx, b.types, 0)
	return float64(m.Count), err
}

// Describe describes every metric of b.
func (b *Backlog) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range b.readings() {
		for _, gauge := range r.gauges {
			ch <- gauge
		}
	}
	b.errors.Describe(ch)
}

// Collect sends every metric of b that could be read.
func (b *Backlog) Collect(ch chan<- prometheus.Metric) {
	for _, m := range b.look() {
		ch <- m
	}
	b.errors.Collect(ch)
}

// look takes the readings, or reuses the kept results.
func (b *Backlog) look() []prometheus.Metric {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	began := time.Now()
	if began.Before(b.next) {
		return b.kept
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.deadline)
	defer cancel()
	b.kept = nil
	for _, r := range b.readings() {
		metrics, err := r.take(ctx)
		if err != nil {
			b.errors.WithLabelValues(r.name).Inc()
			continue
		}
		b.kept = append(b.kept, metrics...)
	}
	ended := time.Now()
	b.next = ended.Add(max(b.age, rest*ended.Sub(began)))
	return b.kept
}
