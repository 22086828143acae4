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
)

// Store is what WatchBacklog asks: a repository.
type Store interface {
	// Missed counts the events that have been ready for longer than a grace.
	Missed(ctx context.Context, types []string, grace time.Duration) (almanac.Missed, error)

	almanac.Timekeeper
}

// BacklogOption is a setting of [WatchBacklog].
type BacklogOption func(*backlog)

// WithAge sets how old an answer may be. It must not be negative. The default is ten
// seconds.
func WithAge(d time.Duration) BacklogOption { return func(b *backlog) { b.age = d } }

// WithDeadline sets how long the database may take to answer all questions of one
// observation. It must be positive, and shorter than the provider's reader waits. The
// default is two seconds.
func WithDeadline(d time.Duration) BacklogOption { return func(b *backlog) { b.deadline = d } }

// WatchBacklog has the provider, or the global one if it is nil, observe what of the
// registry's types waits in the database, and how far the database's clock is from
// this machine's, until the registration is undone. All processes on one database say
// the same, so one of them is enough.
//
// It spares the database: one observation asks at a time; answers, errors too, are
// kept for a while (see [WithAge]); and the next questions wait twenty times as long
// as the last took. What could not be read within the deadline (see [WithDeadline]) is
// absent until it can be, and is counted.
//
// Settings out of their bounds are all reported at once. Other errors are the
// provider's.
func WatchBacklog(p metric.MeterProvider, s Store, registry almanac.Registry, options ...BacklogOption) (metric.Registration, error) {
	b := &backlog{store: s, types: registry.EventTypes(), age: 10 * time.Second, deadline: 2 * time.Second, turn: make(chan struct{}, 1)}
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

// backlog reads the database for observers.
type backlog struct {
	store    Store
	types    []string
	age      time.Duration
	deadline time.Duration

	turn chan struct{} // holds one while somebody looks
	next time.Time     // until then the answers that are kept will do
	kept []answer      // one for each reading
}

// answer is what a reading came to the last time, and how often it has failed.
type answer struct {
	name     string
	value    float64
	err      error
	failures int64
}

// rest is how many times as long as the last readings took the next ones wait.
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

// reading is something to ask the database, and the gauge that the answer is for.
type reading struct {
	name                     string // in the counter of errors
	gauge, unit, description string
	take                     func(context.Context) (float64, error)
}

// readings are in the order in which they are taken: what is cheap first, since they
// share a deadline.
func (b *backlog) readings() []reading {
	return []reading{
		{"clock", "almanac.database.clock_offset", "s",
			"How far the database's clock is ahead of this machine's, to within half of the time that the answer took.", b.offset},
		{"oldest", "almanac.backlog.oldest_age", "s",
			"For how long the event that waits longest could have been claimed; 0 when none waits.", b.oldest},
		{"backlog", "almanac.backlog.events", "{event}",
			"Events that could be claimed and are not.", b.count},
	}
}

// offset takes the answer for the time halfway between the question and the answer.
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

// watch makes the instruments and has them observed.
func (b *backlog) watch(meter metric.Meter) (metric.Registration, error) {
	failures, err := meter.Int64ObservableCounter("almanac.reading.errors", metric.WithUnit("{error}"),
		metric.WithDescription("Readings of the database that failed, for want of time too; what they are for is absent."))
	var gauges []metric.Float64ObservableGauge
	watched, errs := []metric.Observable{failures}, []error{err}
	for _, r := range b.readings() {
		g, err := meter.Float64ObservableGauge(r.gauge, metric.WithUnit(r.unit), metric.WithDescription(r.description))
		gauges, watched, errs = append(gauges, g), append(watched, g), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		for i, a := range b.look(ctx) {
			if a.err == nil {
				o.ObserveFloat64(gauges[i], a.value)
			}
			o.ObserveInt64(failures, a.failures, metric.WithAttributes(attribute.String("almanac.reading", a.name)))
		}
		return nil
	}, watched...)
}

// look takes the readings, unless those that are kept will do. It returns none if ctx
// ends before its turn.
func (b *backlog) look(ctx context.Context) []answer {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-b.turn }()
	began := time.Now()
	if began.Before(b.next) {
		return slices.Clone(b.kept)
	}
	ctx, cancel := context.WithTimeout(ctx, b.deadline)
	defer cancel()
	for i, r := range b.readings() {
		value, err := r.take(ctx)
		b.kept[i].value, b.kept[i].err = value, err
		if err != nil {
			b.kept[i].failures++
		}
	}
	ended := time.Now()
	b.next = ended.Add(max(b.age, rest*ended.Sub(began)))
	return slices.Clone(b.kept)
}
