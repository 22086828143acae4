package almanac

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
)

// EventHandler defines one type of event: when it happens, what is delivered, and by
// which channel. Handlers are values of the host's program. They must be safe for
// concurrent use, and must not keep state between calls. Only [NewEvent] makes events, so no
// handler can get an instant or an idempotency key wrong.
//
// A handler can have more abilities, by the methods of [Configurer], [MultiSeries],
// [Follower] or [Executor]. Embed an [Execution] to get the first.
type EventHandler interface {
	// EventType returns the handler's event type, such as "BIRTHDAY". It has 1 to 50
	// bytes and never changes.
	EventType() string

	// Next returns u's first occurrence strictly after the given instant, usually by [calendar.Next].
	// The library resolves an occurrence that has no Resolution. An occurrence without a Zone is in the
	// user's zone. Its Key has 1 to 100 bytes. The result must depend only on the arguments. The error
	// matches [calendar.ErrNoOccurrence] if u has no further occurrence.
	Next(u User, after time.Time) (calendar.Occurrence, error)

	// Payload returns the JSON value to deliver for the occurrence. The library calls it when it plans
	// the event, and again whenever the user's profile changes before the event is claimed. A payload has
	// at most 64 KiB as PostgreSQL writes it, and a text of at most 256 KiB (see [Profile].Attributes).
	Payload(u User, o Occurrence) (json.RawMessage, error)

	// Channel returns the channel that delivers e. The scheduler's [Deliverer] for this channel makes the
	// attempts (see [WithDeliverer]). Channel is not called for deliveries if the handler is an [Executor].
	//
	// NewScheduler calls Channel once with an event that has only its type, and refuses a channel
	// without a deliverer. If the choice depends on other fields, return "" for such an event.
	Channel(e Event) Channel
}

// Occurrence is a wall time at which an event of a user happens. Its Key identifies it permanently
// among the occurrences of its user, event type and series. So the key prevents a second greeting
// for the same year. A key has 1 to 100 bytes. The zero Zone means the user's zone.
type Occurrence struct {
	calendar.Occurrence
	// Series is the name of the series, if the handler is a [MultiSeries]. Otherwise it is empty.
	Series string
	// Available is when an event of the occurrence can first be claimed, UTC: the instant, or later
	// by [Execution].Spread. [Planner].Preview sets it. Otherwise it is zero.
	Available time.Time

	// A stored event has no Move, no DayReason and no Announces. These are from its payload; see Event.kept.
	moved     string            // the "reason"
	announces calendar.WallTime // the "date", at the time of day of the Nominal
}

// Channel names a way of delivery.
type Channel string

// ChannelWebhook is the channel of HTTP receivers. Package webhook has its deliverer.
const ChannelWebhook Channel = "webhook"

// Delivery is one attempt at one event.
type Delivery struct {
	Event Event // as claimed, PROCESSING
	// User is the event's user at the time of the claim. Edits after the claim do not
	// change it. In contrib/jetstream, a worker looks up the user if the message lacks it.
	// If the user was deleted meanwhile, that gives the zero User.
	User    User
	Attempt int       // 1 for the first
	At      time.Time // the present time by the database clock, UTC, for signatures and measurements
}

// Deliverer delivers events by one channel. It must be safe for concurrent use. It must return
// when ctx is done: the attempt has timed out, the lease is lost, or the process stops.
//
// A nil error means that the receiver accepted the event. Any other error is transient,
// so the event will be tried again, unless [Permanent] wraps the error. [RetryAfter] and
// [Snooze] delay the next attempt, and [NotOwed] calls the event off. The same event can
// be delivered more than once, always with the same idempotency key and the same payload.
type Deliverer interface {
	// Deliver makes one attempt.
	Deliver(ctx context.Context, d Delivery) error
}

// DelivererFunc makes a Deliverer from a function.
type DelivererFunc func(ctx context.Context, d Delivery) error

// Deliver calls f.
func (f DelivererFunc) Deliver(ctx context.Context, d Delivery) error { return f(ctx, d) }

// Executor is the ability of a handler to make the attempts itself, instead of a
// channel's deliverer. The contract is that of [Deliverer].
type Executor interface {
	// Execute makes one attempt.
	Execute(ctx context.Context, d Delivery) error
}

// Configurer is the ability of a handler to say how its events are executed.
type Configurer interface {
	// Settings returns the settings. Zero in a field means its default. The result never changes.
	Settings() Execution
}

// RetryPolicy says how often an event is tried, and the waits between the attempts. Zero
// in a field means its default. By default, the second attempt comes after the seconds that a
// deployment of the receiver takes, and the third after the minutes of an incident.
type RetryPolicy struct {
	Attempts int           // the most attempts, at least 1; default 3
	First    time.Duration // the wait after the first failed attempt; default 10 s
	Factor   float64       // the ratio of each wait to the wait before, at least 1; default 30
	Max      time.Duration // the longest wait before jitter, also if a receiver asks for a longer one; default 24 h
	Jitter   float64       // the largest random share that is added to a wait, 0 to 1; default 0.2
}

// PatientRetry returns a policy for receivers that may fail for a whole weekend. It has
// twelve attempts. The first six waits are 30 s, 2 min, 8 min, 32 min, 2 h 8 min and 8 h
// 32 min, and the other five are 13 h. From the first attempt to the last that is 76.4 h,
// and up to 91.7 h with jitter, plus the time of the attempts.
func PatientRetry() RetryPolicy {
	return RetryPolicy{Attempts: 12, First: 30 * time.Second, Factor: 4, Max: 13 * time.Hour}
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.Attempts = cmp.Or(p.Attempts, 3)
	p.First = cmp.Or(p.First, 10*time.Second)
	p.Factor = cmp.Or(p.Factor, 30)
	p.Max = cmp.Or(p.Max, 24*time.Hour)
	p.Jitter = cmp.Or(p.Jitter, 0.2)
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
	// Written so that NaN, for which every comparison is false, is out of range.
	refuse(p.Factor >= 1 && !math.IsInf(p.Factor, 1), "factor of %v is not 1 or more", p.Factor)
	refuse(p.Jitter >= 0 && p.Jitter <= 1, "jitter of %v is not between 0 and 1", p.Jitter)
	return errors.Join(errs...)
}

// CatchUp says what happens to occurrences that passed during a downtime. A series has one
// open event at a time. The policy says whether that event is still delivered when it is
// late, and from where the series continues.
type CatchUp struct {
	// All delivers every missed occurrence, one after the other. The default is false:
	// the pending event is delivered, and the series continues from the present.
	All bool
	// SkipOlder is how late an event may be. A later event ends as FAILED with a reason
	// that begins with "missed", and is not delivered. The lateness counts from
	// [Event.FirstAvailable]. It must not be negative. Zero means no limit.
	SkipOlder time.Duration
	// SkipTried makes SkipOlder end retries too: an event with a failed attempt is given
	// up when it is later than SkipOlder. The default is false: an event whose first
	// attempt was not too late is tried as often as its RetryPolicy says.
	SkipTried bool
}

// Execution says how a handler's events are executed. Embed it to make a handler a
// [Configurer]. The zero Execution means the defaults.
type Execution struct {
	// AttemptTimeout is how long one attempt may take. Then the context of the attempt ends. An attempt
	// that does not return within five seconds after that is stuck (see [Health]). Zero means 20 seconds.
	AttemptTimeout time.Duration
	// RetryPolicy says how often events are tried, and when.
	RetryPolicy RetryPolicy
	// CatchUpPolicy says what happens to occurrences that passed during a long downtime.
	CatchUpPolicy CatchUp
	// Breaker protects a receiver that is down, and the attempts of its events. After some failures, all processes
	// together try one event of the lane at a time, and the others wait. See [Breaker]. The default is false.
	Breaker bool
	// PauseAfter is how long the breaker of the lane may stay open, from [Breaker].OpenedAt. The first try that fails
	// after that pauses the lane, and its event keeps its attempts. The author of the [Pause] is "breaker". It lasts
	// until [Operator].Resume, which also closes the breaker. A lane that is paused already keeps its pause. Zero means
	// never. It must not be negative, and needs Breaker.
	PauseAfter time.Duration
	// Fallback is the type of the event that follows an event which is FAILED, such as a letter after a message that
	// was refused. It is a [FollowUp] that is due at once. Its key is made of the type of the
	// failed event, the name of its series if it has one, and its key, with slashes between them: "BIRTHDAY/2027".
	// A key of another calendar has the name of the calendar before it: "BIRTHDAY/hebrew:5787".
	// If that is longer than 90 bytes, it is the idempotency key of the failed event. A requeued event
	// that fails again has the same key, so no second event follows. The type must have a handler. Empty means none.
	Fallback string
	// OverrideOptOuts makes events owed to users who have opted out of them, as for notices
	// that the law requires. The default is false.
	OverrideOptOuts bool
	// Spread is the length of a window that begins at the wall time. Each event becomes available at a fixed point of
	// the window (see [Series.Spread]), so that not all users of a zone are due at once. Due, the wall time and the
	// keys stay, and lateness counts from [Event.FirstAvailable]. It must be between 0 and 24 hours, and should be
	// shorter than the time between two occurrences. If a [calendar.Within] keeps the occurrence in an interval, the
	// window ends with it at the latest (see [calendar.Occurrence.OpenFor]). Zero means no window. A changed Spread
	// holds for events that are planned or moved from then on. A one-off event that moves is spread no further than it
	// was.
	Spread time.Duration
	// WorkCalendars are the work calendars that the rules of the handler look up, for all users. If users can
	// choose a calendar, list each calendar that they can choose.
	// [Scheduler].Reconcile then plans pending events again when the program has a newer release of one.
	// Events whose rules look up another work calendar are stored too, and stay as they were planned. All
	// handlers of a registry that name a calendar have the same release of it. Empty means none. Calendars such
	// as the Hebrew one are not named here, but registered: see [calendar.RegisterSystems].
	WorkCalendars []*calendar.WorkCalendar
}

// Settings returns x.
func (x Execution) Settings() Execution { return x }

// Registry finds the handler of an event type. Its content never changes, so it is safe for concurrent use.
type Registry interface {
	// Handler returns the handler of an event type. The error is an
	// [*UnsupportedEventTypeError] if there is none.
	Handler(eventType string) (EventHandler, error)
	// EventTypes returns the types that have a handler, in alphabetical order. The caller
	// may modify the slice.
	EventTypes() []string
}

// NewRegistry returns the registry of the given handlers. The error joins all problems: two
// handlers for one type, a nil handler, and an event type or a setting out of its bounds.
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
			errs = append(errs, fmt.Errorf("almanac: event type %q %s", excerpt.Of(eventType, maxEventType), problem))
		}
		err := executionOf(h).check()
		if made, ok := h.(interface{ validate() error }); ok { // a ready-made handler, or what embeds one
			err = errors.Join(err, made.validate())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("almanac: handler of %q: %w", eventType, err))
		}
		r[eventType] = h
	}
	for eventType, h := range r {
		if to := givenExecution(h).Fallback; to != "" && (r[to] == nil || to == eventType) {
			errs = append(errs, fmt.Errorf("almanac: handler of %q: fallback %q is not the type of another handler", eventType, excerpt.Of(to, maxEventType)))
		}
	}
	errs = append(errs, checkCalendars(r)...)
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

// fixedChannel returns the channel that a handler chooses for every event. It returns ""
// if the choice depends on the event, or if the handler is an Executor.
func fixedChannel(h EventHandler) Channel {
	if _, ok := h.(Executor); ok {
		return ""
	}
	c, err := guarded(unbound(), "choosing a channel for", h.EventType(), func() (Channel, error) { return h.Channel(Event{Type: h.EventType()}), nil })
	if err != nil { // the choice needs more of the event than its type
		return ""
	}
	return c
}

// givenExecution returns a handler's settings as it says them.
func givenExecution(h EventHandler) Execution {
	switch h := h.(type) {
	case oneSeries:
		return givenExecution(h.EventHandler)
	case withPayload:
		return givenExecution(h.EventHandler)
	case Configurer:
		return h.Settings()
	}
	return Execution{}
}

// executionOf returns a handler's settings, with the defaults filled in.
func executionOf(h EventHandler) Execution {
	x := givenExecution(h)
	x.AttemptTimeout = cmp.Or(x.AttemptTimeout, 20*time.Second)
	x.RetryPolicy = x.RetryPolicy.withDefaults()
	return x
}

func (x Execution) check() error {
	var errs []error
	if isShort(x.AttemptTimeout) {
		errs = append(errs, fmt.Errorf("timeout of %v is under a microsecond", x.AttemptTimeout))
	}
	if isShort(x.CatchUpPolicy.SkipOlder) {
		errs = append(errs, fmt.Errorf("catch-up age of %v is under a microsecond", x.CatchUpPolicy.SkipOlder))
	}
	if isShort(x.PauseAfter) {
		errs = append(errs, fmt.Errorf("pause after %v, which is under a microsecond", x.PauseAfter))
	}
	if x.PauseAfter > 0 && !x.Breaker {
		errs = append(errs, fmt.Errorf("pause after %v without a breaker", x.PauseAfter))
	}
	if x.Spread < 0 || x.Spread > maxSpread {
		errs = append(errs, fmt.Errorf("spread of %v is not between 0 and %v", x.Spread, maxSpread))
	}
	return errors.Join(append(errs, x.RetryPolicy.check())...)
}

// maxSpread is the longest [Execution].Spread.
const maxSpread = 24 * time.Hour

// Spread returns how long after its wall time an event of the series becomes available, if its
// type is spread over a window. The result is at least 0, less than the window, and in whole
// microseconds. It is the same for all events of the series: the first 8 bytes of SHA-256 over
// "userId-type-name" are an integer h (big endian), and the result is window · h / 2^64, rounded
// down. The user id is written in lower case with hyphens. Detached does not count.
func (s Series) Spread(user uuid.UUID, window time.Duration) time.Duration {
	if window < time.Microsecond {
		return 0
	}
	sum := sha256.Sum256([]byte(user.String() + "-" + s.Type + "-" + s.Name))
	by, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:8]), uint64(window.Microseconds()))
	return time.Duration(by) * time.Microsecond
}
