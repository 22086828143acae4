package almanacprom

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac"
)

// unregistered is the label for types that the registry does not have.
const unregistered = "unregistered"

// Events counts the changes that its process stores. It also measures the process's deliveries, claims
// and versioned updates. It is an [almanac.Observer], has a Middleware for deliverers, and is a
// [prometheus.Collector]. It is safe for concurrent use and calls neither the scheduler nor the database.
type Events struct {
	types      map[string]bool
	changes    *prometheus.CounterVec   // by type, change
	releases   *prometheus.CounterVec   // by type, cause
	failures   *prometheus.CounterVec   // by type, cause
	users      *prometheus.CounterVec   // by change
	lateness   *prometheus.HistogramVec // by type
	deliveries *prometheus.HistogramVec // by type, outcome
	inFlight   *prometheus.GaugeVec     // by type
	late       *prometheus.CounterVec   // by type
	calls      calls
}

var (
	_ almanac.Observer     = (*Events)(nil)
	_ almanac.Measurer     = (*Events)(nil)
	_ prometheus.Collector = (*Events)(nil)
)

// NewEvents returns the Events of the registry's types. Series that are known in advance start
// at zero, so that the first failure is an increase. The histograms are both classic and native
// (see [WithClassicHistograms]); a server that supports native histograms may drop the buckets.
func NewEvents(registry almanac.Registry, options ...EventsOption) *Events {
	common := histogramMaker{NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}
	for _, option := range options {
		option(&common)
	}
	e := &Events{
		types: make(map[string]bool),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_event_changes_total", Help: "Changes to events that this process stored.",
		}, []string{"type", "change"}),
		releases: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_event_releases_total", Help: "Events that this process released to be claimed again.",
		}, []string{"type", "cause"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_event_failures_total", Help: "Events that this process stored as FAILED.",
		}, []string{"type", "cause"}),
		users: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_user_changes_total", Help: "Changes to users that this process stored.",
		}, []string{"change"}),
		lateness: common.histogram("almanac_event_lateness_seconds",
			"How long after its due instant, or its later creation or move, an event was delivered, by the database's clock.", latenessBuckets(), "type"),
		deliveries: common.histogram("almanac_delivery_duration_seconds",
			"How long an attempt at a delivery took.", durationBuckets(), "type", "outcome"),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "almanac_deliveries_in_flight", Help: "Attempts at deliveries that have not returned yet.",
		}, []string{"type"}),
		late: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "almanac_late_requests_total", Help: "Requests that began more than 250 ms after the lane of their event admitted it.",
		}, []string{"type"}),
		calls: newCalls(common),
	}
	for _, eventType := range registry.EventTypes() {
		e.types[eventType] = true
		e.lateness.WithLabelValues(eventType)
		e.inFlight.WithLabelValues(eventType)
		e.late.WithLabelValues(eventType)
		for _, outcome := range []string{accepted, "failed", "permanent"} {
			e.deliveries.WithLabelValues(eventType, outcome)
		}
		for _, cause := range []almanac.ReleaseCause{almanac.AfterFailure, almanac.AfterCrash, almanac.AfterShutdown, almanac.AfterSnooze} {
			e.releases.WithLabelValues(eventType, string(cause))
		}
		for _, cause := range failureCauses() {
			e.failures.WithLabelValues(eventType, string(cause))
		}
		for _, kind := range eventKinds() {
			e.changes.WithLabelValues(eventType, changeOf(kind))
		}
	}
	for _, kind := range userKinds() {
		e.users.WithLabelValues(changeOf(kind))
	}
	return e
}

// EventsOption is a setting of [Events].
type EventsOption func(*histogramMaker)

// WithClassicHistograms makes histograms with the buckets that the alerting rules and the
// dashboard use, and without native buckets. It is for metrics that go to OpenTelemetry: its
// bridge turns native histograms into exponential histograms, and drops the classic buckets.
func WithClassicHistograms() EventsOption {
	return func(m *histogramMaker) { *m = histogramMaker{} }
}

// histogramMaker has the options that all histograms share.
type histogramMaker prometheus.HistogramOpts

func (m histogramMaker) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	m.Name, m.Help, m.Buckets = name, help, buckets
	return prometheus.NewHistogramVec(prometheus.HistogramOpts(m), labels)
}

// latenessBuckets go from a millisecond, the lateness of a healthy process, to an hour, which is an outage.
func latenessBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
}

// durationBuckets go to a minute. An attempt may take 20 seconds, unless its handler sets another limit.
func durationBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 60}
}

func eventKinds() []almanac.NoticeKind {
	return []almanac.NoticeKind{
		almanac.EventCreated, almanac.EventClaimed, almanac.EventReleased, almanac.EventRescheduled,
		almanac.EventRemoved, almanac.EventCompleted, almanac.EventFailed, almanac.EventCancelled, almanac.EventRequeued,
		almanac.EventSkipped, almanac.SeriesStalled, almanac.FollowUpsLost,
	}
}

func failureCauses() []almanac.FailureCause {
	return []almanac.FailureCause{
		almanac.FailedPermanent, almanac.FailedAttempts, almanac.FailedCrashes, almanac.FailedMissed,
		almanac.FailedCheck, almanac.FailedUserDeleted,
	}
}

func userKinds() []almanac.NoticeKind {
	return []almanac.NoticeKind{
		almanac.UserCreated, almanac.UserTimezoneChanged, almanac.UserBirthdayChanged, almanac.UserOptOutsChanged, almanac.UserDeleted,
	}
}

// changeOf returns the part of a kind after the dot: "claimed" of "event.claimed".
func changeOf(k almanac.NoticeKind) string {
	_, change, _ := strings.Cut(string(k), ".")
	return change
}

// Observe counts one stored change, or one event that an edit skipped.
func (e *Events) Observe(_ context.Context, n almanac.Notice) {
	if n.Lane != "" {
		return // Backlog has the lanes
	}
	if strings.HasPrefix(string(n.Kind), "user.") {
		e.users.WithLabelValues(changeOf(n.Kind)).Inc()
		return
	}
	eventType := e.label(n.Event.Type)
	e.changes.WithLabelValues(eventType, changeOf(n.Kind)).Inc()
	switch n.Kind {
	case almanac.EventReleased:
		e.releases.WithLabelValues(eventType, string(n.Cause)).Inc()
	case almanac.EventFailed:
		e.failures.WithLabelValues(eventType, string(n.Failure)).Inc()
	case almanac.EventCompleted:
		e.lateness.WithLabelValues(eventType).Observe(n.Event.Lateness().Seconds())
	}
}

// label returns the label for a type, so that types stored by other programs create no new series.
func (e *Events) label(eventType string) string {
	if e.types[eventType] {
		return eventType
	}
	return unregistered
}

// Describe describes every metric of e.
func (e *Events) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range e.collectors() {
		c.Describe(ch)
	}
}

// Collect sends every metric of e.
func (e *Events) Collect(ch chan<- prometheus.Metric) {
	for _, c := range e.collectors() {
		c.Collect(ch)
	}
}

func (e *Events) collectors() []prometheus.Collector {
	return append(e.calls.collectors(), e.changes, e.releases, e.failures, e.users, e.lateness, e.deliveries, e.inFlight, e.late)
}
