package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// Reader is the part of an [almanac.Repository] from which the pages are read. Give the
// dashboard a reader that can only read and that bounds each statement, as a store with
// postgres.ReadOnly is, on a pool of its own. The dashboard makes at most two calls at a time.
type Reader interface {
	// Event returns an event, or an [*almanac.NotFoundError].
	Event(ctx context.Context, id uuid.UUID) (almanac.Event, error)
	// Find returns a page of the events that match spec.
	Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error)
	// User returns a user, or an [*almanac.NotFoundError].
	User(ctx context.Context, id uuid.UUID) (almanac.User, error)
	// FindUsers returns a page of the users whom the filter selects.
	FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error)
	// ZoneRules returns the stored rules and marks of zones.
	ZoneRules(ctx context.Context) (almanac.ZoneBook, error)
	// Now returns the repository's time, UTC.
	Now(ctx context.Context) (time.Time, error)
	// Stalled returns the stalled series of a user, or of all users if the id is zero.
	Stalled(ctx context.Context, userID uuid.UUID, limit int) ([]almanac.StalledSeries, error)
	ops.Statistics
}

// Option is an option of [New].
type Option func(*dashboard)

// WithName sets the name of the instance, such as "production" or the name of a tenant.
// Each page shows it. The default is "", none.
func WithName(name string) Option { return func(d *dashboard) { d.name = name } }

// WithLogger sets the logger. Each change that a viewer makes is a line at Info, with the
// principal, the action, and ids. An operation on many events is a line for each step, with
// numbers. Failures are lines at Error, with the route of a request that failed. If the shared
// numbers cannot be read, there is one line at Error, and one at Info when they are read again.
// No line has names, addresses, payloads or queries. The default is [slog.Default].
func WithLogger(log *slog.Logger) Option { return func(d *dashboard) { d.log = log } }

// WithMonitor shows what a [Monitor] has measured in this process: lateness, rates, and the
// events that were just delivered. By default these parts of the pages are empty.
func WithMonitor(m *Monitor) Option { return func(d *dashboard) { d.monitor = m } }

// WithTrail shows the steps of an event or of a user from an audit trail, as the method
// Audit of a postgres.Store returns them. By default pages show what the event itself says.
func WithTrail(trail func(ctx context.Context, id uuid.UUID) ([]ops.AuditStep, error)) Option {
	return func(d *dashboard) { d.trail = trail }
}

// WithHealth replaces the conditions that the first page shows as the health of this process. The
// function returns nil if all is well. The default is the Err of [almanac.Health] of the scheduler.
// A program that only shows the dashboard and never calls Run needs it.
func WithHealth(health func(context.Context) error) Option {
	return func(d *dashboard) { d.health = health }
}

// WithContext ends all streams when ctx is done, so that a server can shut down: give it
// the context that ends when the program is to stop. By default streams end only with
// their requests, and [http.Server.Shutdown] waits for them, at most five minutes.
func WithContext(ctx context.Context) Option { return func(d *dashboard) { d.ctx = ctx } }

// New returns the dashboard as a handler, safe for concurrent use. It can be mounted at any
// path, with [http.StripPrefix], and behind a proxy that removes a path: all links are
// relative. Several dashboards can be mounted side by side.
//
// The scheduler previews, and makes the changes that viewers ask for. It should have the
// handlers of the program that delivers. The reader is read from.
//
// New refuses to make a dashboard without a rule of access. Exactly one of [WithAuthentication],
// [WithTokenLogin] and [AllowAll] is required. The error names every nil argument and every wrong option.
//
// The server must not end streams early: the dashboard extends the write deadline of its
// streams, which last at most five minutes.
func New(scheduler almanac.Scheduler, reader Reader, options ...Option) (http.Handler, error) {
	d := &dashboard{scheduler: scheduler, now: time.Now, hosting: hosting{log: slog.Default(), ctx: context.Background()}}
	d.may = func(_ *http.Request, a Action, _ uuid.UUID) (bool, error) {
		return a != SeeNames && a != SeePayloads, nil
	}
	for _, option := range options {
		option(d)
	}
	if err := d.check(reader); err != nil {
		return nil, err
	}
	if d.health == nil {
		d.health = func(context.Context) error { return scheduler.Health().Err() }
	}
	slots := throttled{reader, make(chan struct{}, readers)}
	d.reader = slots
	if trail := d.trail; trail != nil {
		d.trail = func(ctx context.Context, id uuid.UUID) ([]ops.AuditStep, error) {
			return bounded(ctx, slots, func(ctx context.Context) ([]ops.AuditStep, error) { return trail(ctx, id) })
		}
	}
	d.numbers = &numbers{read: d.readNumbers, now: d.now, log: d.log}
	d.route()
	return d, nil
}

// readers is how many calls of the reader run at a time.
const readers = 2

type dashboard struct {
	access
	hosting
	scheduler almanac.Scheduler
	reader    Reader
	numbers   *numbers
	streams   streams
	results
	pauses shared[[]almanac.Pause]
	lanes  shared[[]ops.LaneLoad]
	clock  shared[time.Time] // the reader's
	now    func() time.Time  // of this machine; the reader's time decides what is due
	mux    *http.ServeMux
}

// results are what takes long, kept for the next requests.
type results struct {
	dryRuns    dryRuns
	rehearsals rehearsals
}

// hosting is what a host sets, beside who is let in.
type hosting struct {
	name    string
	monitor *Monitor
	broadcasting
	trail  func(context.Context, uuid.UUID) ([]ops.AuditStep, error)
	health func(context.Context) error
	log    *slog.Logger
	ctx    context.Context // streams end with it
	bad    []error         // wrong options
}

// check returns an error that names every wrong argument and option.
func (d *dashboard) check(reader Reader) error {
	errs := append(d.bad, d.access.check())
	refuse := func(bad bool, what string) {
		if bad {
			errs = append(errs, errors.New("dashboard: "+what+" is nil"))
		}
	}
	refuse(d.scheduler == nil, "scheduler")
	refuse(reader == nil, "reader")
	refuse(d.log == nil, "logger")
	refuse(d.ctx == nil, "context")
	return errors.Join(errs...)
}

// bounded waits for a slot, and makes one call within readLimit.
func bounded[T any](ctx context.Context, t throttled, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	return call(ctx)
}

func (t throttled) Event(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.Event, error) { return t.Reader.Event(ctx, id) })
}

func (t throttled) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.List[almanac.Event], error) { return t.Reader.Find(ctx, spec, page) })
}

func (t throttled) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.User, error) { return t.Reader.User(ctx, id) })
}

func (t throttled) FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.List[almanac.User], error) {
		return t.Reader.FindUsers(ctx, filter, page)
	})
}

func (t throttled) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	return bounded(ctx, t, t.Reader.ZoneRules)
}

func (t throttled) Now(ctx context.Context) (time.Time, error) { return bounded(ctx, t, t.Reader.Now) }

func (t throttled) Stats(ctx context.Context) (ops.Stats, error) {
	return bounded(ctx, t, t.Reader.Stats)
}

func (t throttled) DueCounts(ctx context.Context, r ops.DueCountsRequest) (ops.DueCountsResult, error) {
	return bounded(ctx, t, func(ctx context.Context) (ops.DueCountsResult, error) { return t.Reader.DueCounts(ctx, r) })
}

func (t throttled) LaneLoads(ctx context.Context) ([]ops.LaneLoad, error) {
	return bounded(ctx, t, t.Reader.LaneLoads)
}

func (t throttled) LaneWait(ctx context.Context, e almanac.Event) (ops.LaneWait, error) {
	return bounded(ctx, t, func(ctx context.Context) (ops.LaneWait, error) { return t.Reader.LaneWait(ctx, e) })
}

func (t throttled) Leases(ctx context.Context, limit int) ([]ops.Lease, error) {
	return bounded(ctx, t, func(ctx context.Context) ([]ops.Lease, error) { return t.Reader.Leases(ctx, limit) })
}

func (t throttled) Retries(ctx context.Context) (ops.Retries, error) {
	return bounded(ctx, t, t.Reader.Retries)
}

func (t throttled) Stalled(ctx context.Context, userID uuid.UUID, limit int) ([]almanac.StalledSeries, error) {
	return bounded(ctx, t, func(ctx context.Context) ([]almanac.StalledSeries, error) {
		return t.Reader.Stalled(ctx, userID, limit)
	})
}
