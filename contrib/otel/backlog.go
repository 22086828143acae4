package almanacotel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// Store is the part of a repository that WatchBacklog reads.
type Store interface {
	// Missed counts the events that have been ready for longer than grace.
	Missed(ctx context.Context, types []string, grace time.Duration) (almanac.Missed, error)

	// Retries returns what is tried again after a failure.
	Retries(ctx context.Context) (ops.Retries, error)

	almanac.Timekeeper
}

// BacklogOption is a setting of [WatchBacklog].
type BacklogOption func(*backlog)

// WithAge sets for how long a result is reused at least. It must not be negative. Zero leaves
// only the wait that [WatchBacklog] describes. The default is ten seconds.
func WithAge(d time.Duration) BacklogOption { return func(b *backlog) { b.age = d } }

// WithDeadline sets how long all database calls of one observation may take together. It
// must be positive, and shorter than the timeout of the provider's reader. The default is
// two seconds.
func WithDeadline(d time.Duration) BacklogOption { return func(b *backlog) { b.deadline = d } }

// WatchBacklog observes the waiting events of the registry's types, the stalled series (see
// [almanac.StalledSeries]), and the offset between
// the database clock and this machine's clock. A nil provider means the global one.
// Observation ends when the registration is unregistered. All processes on one database
// report the same values, so one process is enough.
//
// WatchBacklog limits the load on the database. Only one observation reads at a time.
// Results, also errors, are reused for a while (see [WithAge]). The next readings wait at
// least twenty times as long as the last ones took. A value that cannot be read within the
// deadline (see [WithDeadline]) is absent until the next successful reading, and the error
// is counted.
//
// The error names every setting that is out of bounds, or comes from the provider.
func WatchBacklog(p metric.MeterProvider, s Store, registry almanac.Registry, options ...BacklogOption) (metric.Registration, error) {
	b := &backlog{store: s, types: registry.EventTypes(), age: 10 * time.Second, deadline: 2 * time.Second, reading: make(chan struct{}, 1)}
	for _, option := range options {
		option(b)
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	for _, r := range b.readings() {
		b.kept = append(b.kept, answer{name: r.name})
	}
	return b.watch(meterOf(p))
}

// backlog reads the database for the provider's callback.
type backlog struct {
	store    Store
	types    []string
	age      time.Duration
	deadline time.Duration

	reading chan struct{} // full while an observation reads
	next    time.Time     // until then the kept results are reused
	kept    []answer      // one for each reading
}

// answer has the last values of a reading, and the number of its failures.
type answer struct {
	name     string
	values   []value
	err      error
	failures int64
}

// value is a value of a gauge.
type value struct {
	gauge      string
	value      float64
	attributes attribute.Set
}

// rest is the factor from the duration of the last readings to the wait before the next.
const rest = 20

func (b *backlog) check() error {
	var errs []error
	if b.age < 0 {
		errs = append(errs, fmt.Errorf("almanacotel: age of %v is negative", b.age))
	}
	if b.deadline <= 0 {
		errs = append(errs, fmt.Errorf("almanacotel: deadline of %v is not positive", b.deadline))
	}
	return errors.Join(errs...)
}

// reading is a question to the database, and the gauges that show its answer.
type reading struct {
	name   string // in the counter of errors
	gauges []instrument
	take   func(context.Context) ([]value, error)
}

// instrument describes a gauge.
type instrument struct{ name, unit, description string }

// readings returns the readings in their order: cheap ones first, since all share a
// deadline.
func (b *backlog) readings() []reading {
	single := func(name string, gauge instrument, take func(context.Context) (float64, error)) reading {
		return reading{name, []instrument{gauge}, func(ctx context.Context) ([]value, error) {
			v, err := take(ctx)
			return []value{{gauge: gauge.name, value: v}}, err
		}}
	}
	retrying := instrument{"almanac.events.retrying", "{event}", "Events that wait for another attempt after a failed one."}
	stalled := instrument{"almanac.series.stalled", "{series}", "Series whose next event could not be planned yet."}
	return []reading{
		single("clock", instrument{"almanac.database.clock_offset", "s",
			"How far the database's clock is ahead of this machine's, to within half of the time that the call took."}, b.offset),
		single("oldest", instrument{"almanac.backlog.oldest_age", "s",
			"How long the event that waits longest has been available; 0 when none waits."}, b.oldest),
		{"retries", []instrument{retrying, stalled}, func(ctx context.Context) ([]value, error) {
			r, err := b.store.Retries(ctx)
			return append(b.byType(retrying, r.Events), b.byType(stalled, r.Series)...), err
		}},
		single("backlog", instrument{"almanac.backlog.events", "{event}",
			"Events that are available and not claimed."}, b.count),
	}
}

// byType returns a value for each type of the registry, and one for all other types if there
// are any.
func (b *backlog) byType(gauge instrument, groups []ops.RetryGroup) []value {
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
	var values []value
	for label, n := range counts {
		values = append(values, value{gauge.name, n, attribute.NewSet(attribute.String("almanac.event.type", label))})
	}
	return values
}

// offset compares the database time with the local time halfway through the call.
func (b *backlog) offset(ctx context.Context) (float64, error) {
	asked := time.Now()
	now, err := b.store.Now(ctx)
	return now.Sub(asked.Add(time.Since(asked) / 2)).Seconds(), err
}

func (b *backlog) oldest(ctx context.Context) (float64, error) {
	wait, known, err := b.store.Until(ctx, b.types, time.Time{})
	if !known {
		return 0, err
	}
	return max(0, -wait.Seconds()), err
}

func (b *backlog) count(ctx context.Context) (float64, error) {
	m, err := b.store.Missed(ctx, b.types, 0)
	return float64(m.Count), err
}

// watch creates the instruments and registers their callback.
func (b *backlog) watch(meter metric.Meter) (metric.Registration, error) {
	failures, err := meter.Int64ObservableCounter("almanac.reading.errors", metric.WithUnit("{error}"),
		metric.WithDescription("Readings of the database that failed, timeouts included. Their values are absent."))
	gauges := make(map[string]metric.Float64ObservableGauge)
	watched, errs := []metric.Observable{failures}, []error{err}
	for _, r := range b.readings() {
		for _, one := range r.gauges {
			gauges[one.name], err = meter.Float64ObservableGauge(one.name, metric.WithUnit(one.unit), metric.WithDescription(one.description))
			watched, errs = append(watched, gauges[one.name]), append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		for _, a := range b.look(ctx) {
			if a.err == nil {
				for _, v := range a.values {
					o.ObserveFloat64(gauges[v.gauge], v.value, metric.WithAttributeSet(v.attributes))
				}
			}
			o.ObserveInt64(failures, a.failures, metric.WithAttributes(attribute.String("almanac.reading", a.name)))
		}
		return nil
	}, watched...)
}

// look takes the readings, or reuses the kept results. It returns none if ctx ends while
// another observation reads.
func (b *backlog) look(ctx context.Context) []answer {
	select {
	case b.reading <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-b.reading }()
	began := time.Now()
	if began.Before(b.next) {
		return slices.Clone(b.kept)
	}
	ctx, cancel := context.WithTimeout(ctx, b.deadline)
	defer cancel()
	for i, r := range b.readings() {
		values, err := r.take(ctx)
		b.kept[i].values, b.kept[i].err = values, err
		if err != nil {
			b.kept[i].failures++
		}
	}
	ended := time.Now()
	b.next = ended.Add(max(b.age, rest*ended.Sub(began)))
	return slices.Clone(b.kept)
}
