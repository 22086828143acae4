package almanac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

// Option is a setting of a [Scheduler]. NewScheduler returns an error if a value is out
// of its range. Zero is out of range, except where the option says what zero means.
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
	quarantine *moveLimits // nil means that new releases are followed at once
	checks     Checks
	deliverers map[Channel]Deliverer
	middleware []func(next Deliverer) Deliverer
	observers  []Observer
	log        *slog.Logger
	window     func(User) calendar.Window // nil means the whole week for all users
	profiles   profileRules
	nils       []int // the places of options that are nil
}

// WithWorkers sets how many events are delivered at the same time. It must be at least 1.
// The default is 100, because deliveries mostly wait for the network. One claim takes at
// most 2,000 events, even with more workers.
func WithWorkers(n int) Option { return func(s *settings) { s.workers = n } }

// WithLease sets how long a claimed event is leased to this process. The lease must be at least three
// seconds. The default is one minute. Run renews the lease while the delivery runs. When a process dies,
// its events wait until the lease has expired, and then another process releases them.
func WithLease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// WithDrain sets how long deliveries may go on after the context of Run is done. It must
// not be negative. The default is 25 seconds, which fits into the 30 seconds that
// Kubernetes grants. Zero cancels deliveries at once.
func WithDrain(d time.Duration) Option { return func(s *settings) { s.drain = d } }

// WithPoll sets the longest time that Run sleeps before it queries the database again. It
// must be positive. The default is one second.
//
// A long poll does not delay the events that Run knows of, because Run wakes up for the next one. It can
// delay an event that another process stores for an earlier instant, if Run receives no hint of the event
// (see [Repository].Listen). Package postgres sends hints of events that are due in less than a minute, which
// is enough for polls of up to 50 seconds. For an event that is overdue when it is stored, see [WithSweep].
func WithPoll(d time.Duration) Option { return func(s *settings) { s.poll = d } }

// WithLookAhead sets how long before their instants Run claims events. At the instant,
// Run then only has to confirm that the event is unchanged. It must not be negative, and
// must be at most a third of the lease. The default is 500 milliseconds. Zero claims each
// event at its instant, and the event starts a few milliseconds later.
//
// An edit or a deletion before the instant still takes effect. No event starts before its
// instant by the repository's clock, although its status is PROCESSING before. Events
// that are not due yet take up at most half of the workers. A repository that cannot
// claim ahead (see [ClaimRepository].Confirm) behaves as with zero.
func WithLookAhead(d time.Duration) Option { return func(s *settings) { s.lookAhead = d } }

// WithSweep sets how often Run looks for expired leases, and how often a claim searches from the beginning
// instead of from where the last claim ended. It must be positive. The default is five seconds. The sweep
// also bounds how late an event can be when another process stores it already overdue, or had its row locked.
func WithSweep(d time.Duration) Option { return func(s *settings) { s.sweep = d } }

// WithMissedGrace sets how long an event must have been ready to count as missed. It must
// not be negative. The default is five seconds. Zero counts every event that is ready.
func WithMissedGrace(d time.Duration) Option { return func(s *settings) { s.grace = d } }

// WithCrashLimit sets how many times the worker of an event may die before the event is FAILED instead of delivered
// once more. The default is 5, the minimum 1. A delivery that ignores the end of its context until its lease is lost
// counts as a death. So does a process that ends while it plans what follows the event. One death below the limit, each
// process tries such events one after the other, so that they do not fail each other. With a limit of 1, a death fails
// all events that the worker held. All programs need the same limit.
func WithCrashLimit(n int) Option { return func(s *settings) { s.crashes = n } }

// WithZoneCheck sets how often Run reloads the zone data, compares it with the rules that
// the database follows, and updates pending events. It must be positive. The default is
// one day. The first check is at the start of Run. Events that programs with other zone
// data plan are checked sooner: within one minute, or one sweep if that is longer.
func WithZoneCheck(d time.Duration) Option { return func(s *settings) { s.zoneCheck = d } }

// WithQuarantine makes a release of zone rules or of a calendar wait for an operator if it would change more pending
// events than events, or move one by more than shift. Run counts before it moves any. The zones of a release are
// counted and wait together; each calendar is counted by itself, with the events that its release removes or
// adds. If events is 0, any changed event is enough. If shift is 0, any moved one is enough. Neither may be
// negative. By default no release waits. A holiday moves most events by a day or more, so a shift under a day makes
// all holidays wait.
//
// A release that waits is stored (see [Quarantine]), and holds in all programs on the repository. Until an operator
// answers by [Scheduler].Reconcile, pending events keep their times. What a program with the new data plans meanwhile,
// such as successors and the events of new users, follows the new data. docs/quarantine.md says more. A later release is
// counted anew.
//
// A program with the option stores the limits when it calls Run or RunOnce. They hold in all programs on the repository
// without the option, also after a restart. Programs with other limits follow their own. To end it, set limits that
// nothing exceeds in one program.
func WithQuarantine(events int, shift time.Duration) Option {
	return func(s *settings) { s.quarantine = &moveLimits{events, shift} }
}

// WithRetention lets Run delete events that ended longer ago than d, in small steps, once
// an hour. It must not be under a microsecond, as a number without a unit is. The default is zero, which
// keeps all events. Used occurrence keys are kept after a deletion, so no occurrence is repeated.
func WithRetention(d time.Duration) Option { return func(s *settings) { s.retention = d } }

// isShort reports whether a duration that may be zero is negative, or a number without a unit.
func isShort(d time.Duration) bool { return d != 0 && d < time.Microsecond }

// WithChecks adds checks to the validation chain that each event passes before it is
// delivered. An event that a check refuses is FAILED, with the refusal as its reason, and
// its series goes on. A check that returns [Snooze] postpones the event instead.
func WithChecks(checks ...Check) Option {
	return func(s *settings) { s.checks = append(s.checks, checks...) }
}

// WithMiddleware wraps every delivery, for example to measure, to trace or to refuse deliveries. So a host
// adds steps around deliveries by functions, and derives no handler from a base type. A middleware wraps the
// [Deliverer] of a channel, or a handler that is an [Executor]. Its result must behave as a Deliverer must.
// It is called once for each event type when Run starts. [ErrorType] classifies what next returned. The first
// middleware is the outermost: it sees a delivery first, and the delivery's error last.
func WithMiddleware(around ...func(next Deliverer) Deliverer) Option {
	return func(s *settings) { s.middleware = append(s.middleware, around...) }
}

// WithDeliverer sets the deliverer of a channel. If any channel has a deliverer, NewScheduler returns an
// error that matches [ErrNoDeliverer] for each handler whose channel has none. If no channel has a
// deliverer, as in a program that only plans, NewScheduler accepts that, and Run logs it at Error.
func WithDeliverer(c Channel, d Deliverer) Option {
	return func(s *settings) { s.deliverers[c] = d }
}

// WithObserver adds an observer. Observers are notified in the order in which they were
// added. An observer that is a [Measurer] also gets measurements.
func WithObserver(o Observer) Option {
	return func(s *settings) { s.observers = append(s.observers, o) }
}

// WithLogger sets the logger of the scheduler. The default is [slog.Default] at the time
// of NewScheduler. Nil is an error.
//
// Info has starts, stops, missed events, and edits that move events. Warn has work that is tried
// again, and events that an edit skips. Error has work that is given up. A failed delivery is one
// line, at Warn if it will be tried again and at Error if not. The start of an attempt is one line
// at Debug. If there is a [LogObserver], it writes the lines about attempts and failed deliveries
// instead. Edits in a transaction of the host are not logged, because they may be rolled back.
// Lines contain ids, keys and errors, never names or payloads.
func WithLogger(log *slog.Logger) Option { return func(s *settings) { s.log = log } }

// WithOptionalProfile makes the first name, the last name and the date of birth optional,
// and accepts a date of birth without its year, as "--03-15". A user of one name has
// either a first or a last name. By default all three are required, and the date must have
// a year. Users who are stored without them can always be read, edited and greeted.
//
// [Birthday] plans nothing for a user without a date of birth. A birthday without a year is
// greeted every year.
func WithOptionalProfile() Option { return func(s *settings) { s.profiles.optional = true } }

// WithZoneGuess makes the time zone of a user optional. A user without a zone gets the zone that
// guess returns, or else the default zone fallback. By default a zone is required.
//
// Guess gets the user without a zone, with everything else of the profile, such as a country among
// the attributes (see [calendar.ZonesOf]) or the region of the locale. It returns an IANA name, or
// "" if it does not know the zone. Nil guesses nothing. Fallback is an IANA name. If it is "",
// there is no default zone, and a user without a zone and a guess is refused. If the option is
// given again, a nil guess and an empty fallback leave those of the option before. Whether a date
// of birth is in the future is judged in the zone that was guessed.
//
// [User].ZoneSource says where a zone comes from. A zone that a profile gives is declared, and is
// never replaced by a guess. Otherwise guess is called again at each change of the profile, in the
// same transaction. A new guess replaces the zone, and the user's events are replanned. Without a
// new guess, the zone stays. So a new function or default moves no user by itself. To apply it,
// change [ProfileChange].Timezone to "" for the users whom it concerns. [UserFilter].ZoneSource
// finds these users.
//
// Give the option to every program that creates or edits users. A program without it refuses users
// without a zone, and leaves the zones of others as they are. Guess must be safe for concurrent use, must
// be quick, because an edit holds its transaction open, and must depend only on u. A user is refused with
// a [*ValidationError] if the name that guess returns is no zone.
func WithZoneGuess(fallback string, guess func(u User) string) Option {
	return func(s *settings) {
		s.profiles.guesses = true
		s.profiles.fallback = cmp.Or(fallback, s.profiles.fallback)
		if guess != nil {
			s.profiles.guess = func(u User) (string, error) { return guess(u), nil }
		}
	}
}

// WithWindow sets the window of a user, in which late events are delivered, by clocks in the user's present
// zone. The time outside of it is the quiet hours of the user. It can be the window of some hours each day
// (see [calendar.ParseQuietHours]), or of hours that differ by the day of the week, and can be closed on
// holidays (see [calendar.Window]). The default is the whole week, and so are nil and the zero Window.
//
// An event is late if an attempt at it has failed. It is also late if it begins later after its instant than
// [WithMissedGrace] allows, as after a downtime. In the quiet hours, Run postpones it to the next opening of
// the window, and counts no attempt. [CatchUp].SkipOlder is compared then. A window that does not open
// within 400 days postpones nothing.
//
// An event that is on time is delivered at its instant, whatever the hour: a user who chose 06:00 gets it at
// 06:00. [Execution].Spread alone delivers no event in quiet hours, and neither does waiting for a [Lane]: an
// event that has waited begins in quiet hours only if its instant is in the same ones. To plan in the window too,
// set the field Window of a ready-made handler, or wrap a recurrence in [calendar.Within]. An event that
// [Operator].RunNow makes due in the quiet hours becomes due at their end, unless it is forced. The events of
// a handler that overrides opt-outs, and those that were requeued by force, are never postponed.
//
// Give the same windows to every program that delivers events, makes them due or edits users. Run stores
// that of the zero User, and logs a warning if another program stored another one (see [Setting]).
//
// The function is called before each attempt at an event that is late or of a lane with limits. It must be safe
// for concurrent use, must be quick, so it does not parse a window, and must depend only on u. NewScheduler and
// Run call it with the zero User.
func WithWindow(of func(u User) calendar.Window) Option {
	return func(s *settings) { s.window = of }
}

// profileRulesOf returns the rules of the options for profiles.
func profileRulesOf(options []Option) profileRules {
	if len(options) == 0 {
		return profileRules{}
	}
	return settingsOf(options).profiles
}

// profileRules returns the rules for profiles. They isolate the scheduler from the host's guess.
func (s *scheduler) profileRules(ctx context.Context) profileRules {
	rules := s.profiles
	if rules.guess != nil {
		rules.guess = func(u User) (string, error) {
			return guarded(s.guard(ctx, u.ID), "guessing", "a time zone", func() (string, error) { return s.profiles.guess(u) })
		}
	}
	return rules
}

// settingsOf returns the settings that the options make of the defaults. No default depends on
// the machine, so all processes of a deployment have the same.
func settingsOf(options []Option) settings {
	s := settings{
		workers:    100,
		lease:      time.Minute, // how long the events of a dead process wait
		drain:      25 * time.Second,
		poll:       time.Second,
		lookAhead:  500 * time.Millisecond, // enough for a claim of half of the workers, and few edits fall into it
		sweep:      5 * time.Second,
		grace:      5 * time.Second, // a running system is late by milliseconds
		crashes:    5,               // a deployment kills a worker once, a poison event each time
		zoneCheck:  24 * time.Hour,
		deliverers: make(map[Channel]Deliverer),
		log:        slog.Default(),
	}
	for i, option := range options {
		if option == nil {
			s.nils = append(s.nils, i)
			continue
		}
		option(&s)
	}
	return s
}

// check returns all problems of the settings, joined.
func (s settings) check(r Repository, registry Registry) error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("almanac: "+format, args...))
		}
	}
	refuse(r == nil, "repository is nil")
	refuse(registry == nil, "registry is nil")
	for _, i := range s.nils {
		refuse(true, "option %d is nil", i)
	}
	refuse(s.workers < 1, "%d workers, not 1 or more", s.workers)
	refuse(s.lease < 3*time.Second, "lease of %v is under three seconds", s.lease)
	refuse(s.drain < 0, "drain of %v is negative", s.drain)
	refuse(s.poll <= 0, "poll of %v is not positive", s.poll)
	refuse(s.lookAhead < 0 || s.lease >= 3*time.Second && s.lookAhead > s.lease/3, "look-ahead of %v is not between 0 and a third of the lease", s.lookAhead)
	refuse(s.sweep <= 0, "sweep of %v is not positive", s.sweep)
	refuse(s.grace < 0, "missed grace of %v is negative", s.grace)
	refuse(s.crashes < 1, "crash limit of %d, not 1 or more", s.crashes)
	refuse(s.zoneCheck <= 0, "zone check of %v is not positive", s.zoneCheck)
	refuse(s.quarantine != nil && (s.quarantine.events < 0 || s.quarantine.shift < 0), "a limit of the quarantine is negative")
	refuse(isShort(s.retention), "retention of %v is under a microsecond", s.retention)
	refuse(s.log == nil, "logger is nil")
	if s.profiles.fallback != "" {
		_, err := calendar.LoadTimezone(s.profiles.fallback)
		refuse(err != nil, "default zone: %v", err)
	}
	refuse(s.profiles.guesses && s.profiles.fallback == "" && s.profiles.guess == nil, "neither a default zone nor a guess")
	if s.window != nil {
		_, err := guarded(unbound(), "choosing", "a window", func() (calendar.Window, error) { return s.window(User{}), nil })
		refuse(err != nil, "window of the zero user: %v", err)
	}
	for i, check := range s.checks {
		refuse(check == nil, "check %d is nil", i)
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

// unwired returns an error for each handler whose channel is known and has no deliverer.
func (s settings) unwired(registry Registry) []*noDelivererError {
	var errs []*noDelivererError
	for _, eventType := range registry.EventTypes() {
		h, err := registry.Handler(eventType)
		if err != nil {
			continue
		}
		if c := fixedChannel(h); c != "" {
			if _, ok := s.deliverers[c]; !ok {
				errs = append(errs, &noDelivererError{eventType, c})
			}
		}
	}
	return errs
}
