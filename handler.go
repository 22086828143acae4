package almanac

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// EventHandler is the strategy for one type of event: when it happens, what is
// delivered, and by which channel. Handlers are values of the host's program; they
// must be safe for concurrent use and must not keep state between calls.
//
// A handler can do more by having the methods of [Timeouter], [Retrier],
// [CatchUpper] or [Executor]. Embedding an [Execution] is the short way to the
// first three.
type EventHandler interface {
	// EventType returns the handler's event type, such as "BIRTHDAY": 1 to 50 bytes,
	// always the same.
	EventType() string

	// Next returns the first occurrence that u is owed strictly after the given
	// instant. It speaks of wall times; instants are the library's affair. It must
	// depend on nothing but its arguments. An error that matches [ErrNoOccurrence]
	// says that u is owed none (any more).
	Next(u User, after time.Time) (Occurrence, error)

	// Payload returns the JSON value to deliver for the occurrence, at most 64 KiB.
	// It is asked when the event is planned and again whenever the user's profile
	// changes, until the event is claimed.
	Payload(u User, o Occurrence) (json.RawMessage, error)

	// Channel chooses how e is delivered. The [Deliverer] that the scheduler knows by
	// this name does it. It is not asked when the handler is an [Executor].
	//
	// NewScheduler asks it once with an event that has only its type, and refuses a
	// channel without a deliverer. A handler that chooses by more than the type returns
	// "" where it cannot choose.
	Channel(e Event) Channel
}

// Channel names a way of delivery.
type Channel string

// ChannelWebhook is the channel of an HTTP receiver; package webhook delivers it.
const ChannelWebhook Channel = "webhook"

// Delivery is one attempt at one event.
type Delivery struct {
	Event   Event     // as claimed: PROCESSING
	Attempt int       // 1 for the first
	At      time.Time // now by the database's clock, UTC: for signatures and measurements
}

// Deliverer delivers events by one channel. It must be safe for concurrent use
// and must return when ctx is done: then the attempt has timed out, the lease is
// lost, or the process stops.
//
// A nil error means that the delivery was accepted. Any other is transient, and
// the event will be tried again, unless it is wrapped by [Permanent]; see also
// [RetryAfter]. The same event can be delivered more than once, always with the
// same idempotency key and the same payload.
type Deliverer interface {
	// Deliver makes one attempt.
	Deliver(ctx context.Context, d Delivery) error
}

// DelivererFunc makes a Deliverer of a function.
type DelivererFunc func(ctx context.Context, d Delivery) error

// Deliver calls f.
func (f DelivererFunc) Deliver(ctx context.Context, d Delivery) error { return f(ctx, d) }

// Middleware wraps what delivers events, whether a channel's [Deliverer] or a handler
// that is an [Executor], by another with the same contract: to measure, to trace, to
// refuse. It is called once per event type when Run begins.
type Middleware func(next Deliverer) Deliverer

// Executor is the ability of a handler to do its work itself instead of leaving
// the delivery to a channel. The contract is that of [Deliverer].
type Executor interface {
	// Execute makes one attempt.
	Execute(ctx context.Context, d Delivery) error
}

// Timeouter is the ability of a handler to bound one attempt.
type Timeouter interface {
	// Timeout returns how long one attempt may take. Then its context ends, and an
	// attempt that ignores that for five seconds is stuck: see [Health]. Zero means 20
	// seconds.
	Timeout() time.Duration
}

// Retrier is the ability of a handler to choose how often and when it is tried.
type Retrier interface {
	// Retry returns the policy. The zero RetryPolicy is the default one.
	Retry() RetryPolicy
}

// CatchUpper is the ability of a handler to say what a long downtime owes.
type CatchUpper interface {
	// CatchUp returns the policy. The zero CatchUp is the default one.
	CatchUp() CatchUp
}

// RetryPolicy says how often an event is tried and how long it waits in between.
// A zero field takes its default.
type RetryPolicy struct {
	Attempts int           // how many attempts in all, at least 1; default 3
	First    time.Duration // the wait after the first failed attempt; default 10 s
	Factor   float64       // by how much each wait exceeds the one before, at least 1; default 30
	Max      time.Duration // no wait is longer before jitter, not even one that a receiver asks for; default 24 h
	Jitter   float64       // up to this share is added to a wait, also to one that is asked for, 0 to 1; default 0.2
}

// PatientRetry is a policy for deliveries that must survive a receiver's lost
// weekend: twelve attempts, the first waits 30 s, 2 min, 8 min, 32 min, 2 h 8 min
// and 8 h 32 min, the other five 13 h. From the first attempt to the last that is
// 76.4 h, and up to 91.7 h with jitter: three to four days, and the time that the
// attempts themselves take.
func PatientRetry() RetryPolicy {
	return RetryPolicy{Attempts: 12, First: 30 * time.Second, Factor: 4, Max: 13 * time.Hour}
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.Attempts == 0 {
		p.Attempts = 3
	}
	if p.First == 0 {
		p.First = 10 * time.Second
	}
	if p.Factor == 0 {
		p.Factor = 30
	}
	if p.Max == 0 {
		p.Max = 24 * time.Hour
	}
	if p.Jitter == 0 {
		p.Jitter = 0.2
	}
	return p
}

func (p RetryPolicy) check() error {
	var errs []error
	refuse := func(good bool, format string, args ...any) {
		if !good {
			errs = append(errs, fmt.Errorf("retry policy: "+format, args...))
		}
	}
	refuse(p.Attempts >= 1, "%d attempts, not 1 or more", p.Attempts)
	refuse(p.First >= 0, "first wait of %v is negative", p.First)
	refuse(p.Max >= 0, "longest wait of %v is negative", p.Max)
	// Asked so that NaN, which compares with nothing, is out of range.
	refuse(p.Factor >= 1 && !math.IsInf(p.Factor, 1), "factor of %v is not 1 or more", p.Factor)
	refuse(p.Jitter >= 0 && p.Jitter <= 1, "jitter of %v is not between 0 and 1", p.Jitter)
	return errors.Join(errs...)
}

// CatchUp says what becomes of occurrences that passed while nothing ran. The
// pending event of a series always exists once; the question is whether it still
// fires when it is found late, and where the series goes on.
type CatchUp struct {
	// All makes each occurrence that was missed fire, one after the other. By
	// default the pending one fires and the series goes on from the present.
	All bool
	// SkipOlder lets an event that is found later than this after its instant end as
	// FAILED, with a reason that begins with "missed", instead of firing. Zero means
	// that no event is too late.
	SkipOlder time.Duration
}

// Execution is how a handler's events are executed, as a value to embed: it gives
// the handler the abilities [Timeouter], [Retrier] and [CatchUpper]. The zero
// Execution is all defaults.
type Execution struct {
	AttemptTimeout time.Duration // see Timeouter
	RetryPolicy    RetryPolicy   // see Retrier
	CatchUpPolicy  CatchUp       // see CatchUpper
}

// Timeout returns x.AttemptTimeout.
func (x Execution) Timeout() time.Duration { return x.AttemptTimeout }

// Retry returns x.RetryPolicy.
func (x Execution) Retry() RetryPolicy { return x.RetryPolicy }

// CatchUp returns x.CatchUpPolicy.
func (x Execution) CatchUp() CatchUp { return x.CatchUpPolicy }

// Registry finds the handler of an event type. It is complete when it is made and
// never changes, so it is safe for concurrent use and needs no lock.
type Registry interface {
	// Handler returns the handler of an event type, or an [*UnsupportedEventTypeError].
	Handler(eventType string) (EventHandler, error)
	// EventTypes returns the types that have a handler, in alphabetical order. The
	// caller owns the slice.
	EventTypes() []string
}

// NewRegistry returns the registry of the given handlers. Two handlers for one
// type, a nil interface for a handler, an event type out of its bounds and settings out of theirs
// are errors, all reported at once.
func NewRegistry(handlers ...EventHandler) (Registry, error) {
	r := make(registry, len(handlers))
	var errs []error
	for i, h := range handlers {
		if h == nil {
			errs = append(errs, fmt.Errorf("almanac: handler %d is nil", i))
			continue
		}
		eventType := h.EventType()
		if _, taken := r[eventType]; taken {
			errs = append(errs, fmt.Errorf("almanac: two handlers for event type %q", eventType))
		}
		if problem := tokenProblem(eventType, maxEventType); problem != "" {
			errs = append(errs, fmt.Errorf("almanac: event type %q %s", clip(eventType, maxEventType), problem))
		}
		if err := executionOf(h).check(); err != nil {
			errs = append(errs, fmt.Errorf("almanac: handler of %q: %w", eventType, err))
		}
		r[eventType] = h
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

type registry map[string]EventHandler

func (r registry) Handler(eventType string) (EventHandler, error) {
	h, ok := r[eventType]
	if !ok {
		return nil, &UnsupportedEventTypeError{eventType}
	}
	return h, nil
}

func (r registry) EventTypes() []string {
	types := make([]string, 0, len(r))
	for eventType := range r {
		types = append(types, eventType)
	}
	slices.Sort(types)
	return types
}

// fixedChannel returns the channel that a handler chooses whatever the event, or "" where
// it depends on the event or the handler delivers its events itself.
func fixedChannel(h EventHandler) Channel {
	if _, ok := h.(Executor); ok {
		return ""
	}
	c, err := guarded("choosing a channel", func() (Channel, error) { return h.Channel(Event{Type: h.EventType()}), nil })
	if err != nil { // it needs more of the event than its type
		return ""
	}
	return c
}

// executionOf finds out once what a handler can do, and fills in the defaults.
func executionOf(h EventHandler) Execution {
	var x Execution
	if t, ok := h.(Timeouter); ok {
		x.AttemptTimeout = t.Timeout()
	}
	if r, ok := h.(Retrier); ok {
		x.RetryPolicy = r.Retry()
	}
	if c, ok := h.(CatchUpper); ok {
		x.CatchUpPolicy = c.CatchUp()
	}
	if x.AttemptTimeout == 0 {
		x.AttemptTimeout = 20 * time.Second
	}
	x.RetryPolicy = x.RetryPolicy.withDefaults()
	return x
}

func (x Execution) check() error {
	var errs []error
	if x.AttemptTimeout < 0 {
		errs = append(errs, fmt.Errorf("timeout of %v is negative", x.AttemptTimeout))
	}
	if x.CatchUpPolicy.SkipOlder < 0 {
		errs = append(errs, fmt.Errorf("catch-up age of %v is negative", x.CatchUpPolicy.SkipOlder))
	}
	return errors.Join(append(errs, x.RetryPolicy.check())...)
}
