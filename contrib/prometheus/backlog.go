package almanacprom

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac"
)

// Backlog is a [prometheus.Collector] of what waits in the database, and of how far
// the database's clock is from this machine's. All processes on one database say the
// same, so one of them is enough.
//
// It asks when it is scraped, but spares the database: one scrape asks at a time, the
// others get its answers; answers, errors too, are kept for a while (see [WithAge]);
// and the next questions wait twenty times as long as the last took, so that they
// take up at most a twentieth of a connection. What could not be read within the
// deadline (see [WithDeadline]) is absent until it can be, and is counted. It is safe
// for concurrent use.
type Backlog struct {
	store    Store
	types    []string
	age      time.Duration
	deadline time.Duration
	errors   *prometheus.CounterVec

	turn chan struct{} // holds one while somebody looks
	next time.Time     // until then the readings that are kept will do
	kept []prometheus.Metric
}

// Store is what Backlog asks: a repository.
type Store interface {
	// Missed counts the events that have been ready for longer than a grace.
	Missed(ctx context.Context, types []string, grace time.Duration) (almanac.Missed, error)

	almanac.Timekeeper
}

// BacklogOption is a setting of a [Backlog].
type BacklogOption func(*Backlog)

// WithAge sets how old an answer may be. It must not be negative. The default is ten
// seconds.
func WithAge(d time.Duration) BacklogOption { return func(b *Backlog) { b.age = d } }

// WithDeadline sets how long the database may take to answer all questions of a
// scrape. It must be positive, and shorter than a scrape may take, which is ten
// seconds unless Prometheus is told otherwise. The default is two seconds.
func WithDeadline(d time.Duration) BacklogOption { return func(b *Backlog) { b.deadline = d } }

// rest is how many times as long as the last readings took the next ones wait.
const rest = 20

var _ prometheus.Collector = (*Backlog)(nil)

// NewBacklog returns the Backlog of the registry's types. Settings out of their
// bounds are all reported at once.
func NewBacklog(s Store, registry almanac.Registry, options ...BacklogOption) (*Backlog, error) {
	b := &Backlog{
		store: s, types: registry.EventTypes(), age: 10 * time.Second, deadline: 2 * time.Second, turn: make(chan struct{}, 1),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_reading_errors_total", Help: "Readings of the database that failed, for want of time too; what they are for is absent.",
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

// reading is something to ask the database, and the gauge that the answer is for.
type reading struct {
	name  string // in the counter of errors
	gauge *prometheus.Desc
	take  func(context.Context) (float64, error)
}

// readings are in the order in which they are taken: what is cheap first, since they
// share a deadline.
func (b *Backlog) readings() []reading {
	describe := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return []reading{
		{"clock", describe("almanac_database_clock_offset_seconds",
			"How far the database's clock is ahead of this machine's, to within half of the time that the answer took."), b.offset},
		{"oldest", describe("almanac_backlog_oldest_age_seconds",
			"For how long the event that waits longest could have been claimed; 0 when none waits."), b.oldest},
		{"backlog", describe("almanac_backlog_events",
			"Events that could be claimed and are not."), b.count},
	}
}

// offset takes the answer for the time halfway between the question and the answer.
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
		ch <- r.gauge
	}
	b.errors.Describe(ch)
}

// Collect tells every metric of b that can be told.
func (b *Backlog) Collect(ch chan<- prometheus.Metric) {
	for _, m := range b.look() {
		ch <- m
	}
	b.errors.Collect(ch)
}

// look takes the readings, unless those that are kept will do.
func (b *Backlog) look() []prometheus.Metric {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	began := time.Now()
	if began.Before(b.next) {
		return b.kept
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.deadline)
	defer cancel()
	b.kept = nil
	for _, r := range b.readings() {
		value, err := r.take(ctx)
		if err != nil {
			b.errors.WithLabelValues(r.name).Inc()
			continue
		}
		b.kept = append(b.kept, prometheus.MustNewConstMetric(r.gauge, prometheus.GaugeValue, value))
	}
	ended := time.Now()
	b.next = ended.Add(max(b.age, rest*ended.Sub(began)))
	return b.kept
}
