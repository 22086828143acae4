package almanac

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// Option is a setting of a [Scheduler].
type Option func(*settings)

type settings struct {
	workers    int
	lease      time.Duration
	drain      time.Duration
	poll       time.Duration
	lookAhead  time.Duration
	sweep      time.Duration
	grace      time.Duration
	crashes    int
	zoneCheck  time.Duration
	retention  time.Duration
	checks     Checks
	limits     map[string]Limit
	deliverers map[Channel]Deliverer
	middleware []Middleware
	observers  []Observer
	log        *slog.Logger
}

// WithWorkers sets how many events are delivered at once, at least 1. The default
// is 100: deliveries mostly wait for somebody else's network. However many they are,
// they are claimed by two thousand at most.
func WithWorkers(n int) Option { return func(s *settings) { s.workers = n } }

// WithLease sets how long a claimed event is held before another process may take
// it back; a lease in use is renewed. It is how long an event of a dead process
// waits. It must be at least three seconds. The default is a minute.
func WithLease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// WithDrain sets how long Run lets deliveries finish once it is told to stop. Zero
// cancels them at once. The default is 25 seconds, which fits into the half
// minute that Kubernetes grants.
func WithDrain(d time.Duration) Option { return func(s *settings) { s.drain = d } }

// WithPoll sets the longest that Run sleeps before it looks at the database again.
// Events are not late by it: Run sleeps until the next one is due. It bounds how
// late an event can be that another process stores for a nearer instant, where no
// hint of that is heard (see [Listener]); package postgres gives hints of what is
// less than a minute ahead, which is enough for polls of up to 50 seconds. What was
// due already when it was stored is another matter, see [WithSweep]. It must be
// positive. The default is a second.
func WithPoll(d time.Duration) Option { return func(s *settings) { s.poll = d } }

// WithLookAhead sets how long before their instants Run claims events, so that at the
// instant itself it only has to ask whether they are still as they were. An edit or a
// deletion made before the instant wins all the same, and no event begins before the
// repository's clock has reached it, though it is PROCESSING before. At most half of the
// workers are taken up by events that are not due yet. Zero claims at the instant, as
// does a repository that is no [Confirmer]: a few milliseconds later. It must not be
// negative, and be at most a third of the lease. The default is half a second.
func WithLookAhead(d time.Duration) Option { return func(s *settings) { s.lookAhead = d } }

// WithSweep sets how often leases are looked over for those that ran out, and how
// often claims begin at the very beginning instead of where the last one ended: it is
// the longest that an event waits which another process stores when its instant is
// past already, or held locked and let go. It must be positive. The default is five
// seconds.
func WithSweep(d time.Duration) Option { return func(s *settings) { s.sweep = d } }

// WithMissedGrace sets for how long an event must have been ready to count as
// missed. It must not be negative. The default is five seconds.
func WithMissedGrace(d time.Duration) Option { return func(s *settings) { s.grace = d } }

// WithCrashLimit sets after how many deaths of its worker an event is FAILED
// instead of delivered once more, at least 1. A delivery that ignored the end of its
// context until the lease was lost counts as one. The default is 5.
func WithCrashLimit(n int) Option { return func(s *settings) { s.crashes = n } }

// WithZoneCheck sets how often Run reads zone data anew, compares it with the rules
// that the database follows, and brings pending events into step; it does so first
// at its start. What programs with other zone data plan it sees to within a minute, or
// a sweep if that is longer. It must be positive. The default is a day.
func WithZoneCheck(d time.Duration) Option { return func(s *settings) { s.zoneCheck = d } }

// WithRetention lets Run delete events once they have ended longer than that ago,
// in small steps, once an hour. What is used up is remembered, so that no
// occurrence is ever given twice. It must not be negative. The default, zero, keeps
// everything.
func WithRetention(d time.Duration) Option { return func(s *settings) { s.retention = d } }

// WithChecks adds to the validation chain that each event passes before it is
// delivered. An event that is refused is FAILED with the refusal as its reason,
// and its series goes on.
func WithChecks(checks ...Check) Option {
	return func(s *settings) { s.checks = append(s.checks, checks...) }
}

// WithLimit bounds how the events of a type are delivered by this process. Limits are
// each process's own: ten processes with a rate of 5 make 50 in a second. Each
// limited type takes up to four connections more at a time.
func WithLimit(eventType string, l Limit) Option {
	return func(s *settings) { s.limits[eventType] = l }
}

// WithMiddleware wraps every delivery. The first is outermost: it sees a delivery
// first and its error last.
func WithMiddleware(around ...Middleware) Option {
	return func(s *settings) { s.middleware = append(s.middleware, around...) }
}

// WithDeliverer sets who delivers the events of a channel. Where at least one channel has
// a deliverer, NewScheduler refuses a handler whose channel has none with a
// [*NoDelivererError]. Where none has, as in a program that only plans, Run writes the
// same to the log at Error.
func WithDeliverer(c Channel, d Deliverer) Option {
	return func(s *settings) { s.deliverers[c] = d }
}

// WithObserver adds an observer. Observers are told in the order in which they
// were added. One that is a [ClaimMeasurer] or an [UpdateMeasurer] also gets
// measurements.
func WithObserver(o Observer) Option {
	return func(s *settings) { s.observers = append(s.observers, o) }
}

// WithLogger sets where the scheduler logs what it does. Info: starts, stops, missed
// events, and edits that move events. Warn: what is tried again, and events that an edit
// skips. Error: what is lost. A delivery that fails is one line, at Warn when it will be
// tried again and at Error when it will not; an attempt that begins is one line at Debug.
// A [LogObserver] writes the lines about attempts and failed deliveries instead, if there
// is one. Edits in the host's transaction are not logged, since they may be rolled back.
// Lines have ids, keys and errors, never names or payloads. The default is
// [slog.Default], as it is when NewScheduler is called.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

func newSettings(r Repository, registry Registry, options []Option) (settings, error) {
	s := settings{
		workers:    100,
		lease:      time.Minute,
		drain:      25 * time.Second,
		poll:       time.Second,
		lookAhead:  500 * time.Millisecond,
		sweep:      5 * time.Second,
		grace:      5 * time.Second,
		crashes:    5,
		zoneCheck:  24 * time.Hour,
		limits:     make(map[string]Limit),
		deliverers: make(map[Channel]Deliverer),
		log:        slog.Default(),
	}
	for _, option := range options {
		option(&s)
	}
	return s, s.check(r, registry)
}

// check judges all settings together and returns every complaint.
func (s settings) check(r Repository, registry Registry) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("almanac: "+format, args...))
		}
	}
	refuse(r == nil, "repository is nil")
	refuse(registry == nil, "registry is nil")
	refuse(s.workers < 1, "%d workers", s.workers)
	refuse(s.lease < 3*time.Second, "lease of %v is under three seconds", s.lease)
	refuse(s.drain < 0, "drain of %v is negative", s.drain)
	refuse(s.poll <= 0, "poll of %v is not positive", s.poll)
	refuse(s.lookAhead < 0 || s.lookAhead > s.lease/3, "look-ahead of %v is not between 0 and a third of the lease", s.lookAhead)
	refuse(s.sweep <= 0, "sweep of %v is not positive", s.sweep)
	refuse(s.grace < 0, "missed grace of %v is negative", s.grace)
	refuse(s.crashes < 1, "crash limit of %d", s.crashes)
	refuse(s.zoneCheck <= 0, "zone check of %v is not positive", s.zoneCheck)
	refuse(s.retention < 0, "retention of %v is negative", s.retention)
	refuse(s.log == nil, "logger is nil")
	for i, check := range s.checks {
		refuse(check == nil, "check %d is nil", i)
	}
	for _, eventType := range slices.Sorted(maps.Keys(s.limits)) {
		known := false
		if registry != nil {
			_, err := registry.Handler(eventType)
			known = err == nil
		}
		refuse(!known, "limit for event type %q, which has no handler", eventType)
		if err := s.limits[eventType].check(); err != nil {
			errs = append(errs, fmt.Errorf("almanac: limit for event type %q: %w", eventType, err))
		}
	}
	for i, around := range s.middleware {
		refuse(around == nil, "middleware %d is nil", i)
	}
	for i, o := range s.observers {
		refuse(o == nil, "observer %d is nil", i)
	}
	for channel, d := range s.deliverers {
		refuse(d == nil, "deliverer of channel %q is nil", channel)
	}
	if registry != nil && len(s.deliverers) > 0 {
		for _, err := range s.unwired(registry) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unwired returns a [*NoDelivererError] for each handler whose channel is known to have
// no deliverer.
func (s settings) unwired(registry Registry) []*NoDelivererError {
	var errs []*NoDelivererError
	for _, eventType := range registry.EventTypes() {
		h, err := registry.Handler(eventType)
		if err != nil {
			continue
		}
		if c := fixedChannel(h); c != "" {
			if _, ok := s.deliverers[c]; !ok {
				errs = append(errs, &NoDelivererError{eventType, c})
			}
		}
	}
	return errs
}
