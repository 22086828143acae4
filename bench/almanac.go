package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// almanacWorkers is how many events are in flight at once. Handlers that do nothing
// need few; what counts is that a claim asks for many.
const almanacWorkers = 2000

// uuid7 makes ids in the order of their milliseconds. It belongs to a session.
const uuid7 = `
	CREATE OR REPLACE FUNCTION pg_temp.uuid7(millis bigint) RETURNS uuid LANGUAGE sql VOLATILE AS $$
		SELECT (lpad(to_hex(millis), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid
	$$`

//go:embed owe.sql
var oweSQL string

// load is a number of events to store. They are overdue, unless there is a first
// one: then each is due a step after the one before.
type load struct {
	count int
	first time.Time
	step  time.Duration
}

// storeUsers stores users with an event each.
func storeUsers(ctx context.Context, db database, o load) error {
	return db.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error { return o.storeOn(ctx, conn) })
}

// storeMany does the same in tables that nothing else uses.
func storeMany(ctx context.Context, db database, o load) error {
	return db.inBulk(ctx, func(conn *pgxpool.Conn) error { return o.storeOn(ctx, conn) })
}

// storeOn stores users on one connection, for a function that the statement calls is of the session.
func (o load) storeOn(ctx context.Context, conn *pgxpool.Conn) error {
	if _, err := conn.Exec(ctx, uuid7); err != nil {
		return err
	}
	var first *time.Time
	if !o.first.IsZero() {
		first = &o.first
	}
	_, err := conn.Exec(ctx, oweSQL, o.count, first, o.step)
	return err
}

// hooks are called when a system does something.
type hooks struct {
	started func(place uint64, due time.Time) // a handler begins
	stored  func()                            // an outcome is committed
	takes   time.Duration                     // how long a delivery waits for its receiver
}

// system is a scheduler or a queue that runs in this process.
type system struct {
	name     string
	contract string
	template string // of a database with its tables
	migrate  func(ctx context.Context, db database) error
	store    func(ctx context.Context, db database, o load) error
	start    func(ctx context.Context, db database, e hooks) (*running, error)
}

// running is a system at work.
type running struct {
	plan func(ctx context.Context, due time.Time) error // stores one more event
	stop func() error                                   // ends the work, and waits for its end
}

func almanacSystem() system {
	return system{
		name: "almanac", template: "almanac",
		contract: "one process; the successor is stored in the transaction that ends an event",
		migrate:  migrateAlmanac,
		store:    storeUsers,
		start:    startAlmanac,
	}
}

// collectRarely is a value of GOGC that lets the heap grow to five times what is in use.
const collectRarely = 400

// almanacGOGC collects garbage less often than Go does by default, as docs/scaling.md says.
func almanacGOGC() system {
	s := almanacSystem()
	s.name, s.contract = "almanac-gogc", "the same with GOGC=400"
	s.start = func(ctx context.Context, db database, e hooks) (*running, error) {
		before := debug.SetGCPercent(collectRarely)
		r, err := startAlmanac(ctx, db, e)
		if err != nil {
			debug.SetGCPercent(before)
			return nil, err
		}
		stop := func() error {
			defer debug.SetGCPercent(before)
			return r.stop()
		}
		return &running{r.plan, stop}, nil
	}
	return s
}

// almanacLane has its events in a lane with limits above what one process does.
func almanacLane() system {
	s := almanacSystem()
	s.name, s.contract = "almanac-lane", "the same with a rate over all processes, above the load"
	s.start = func(ctx context.Context, db database, e hooks) (*running, error) {
		store, err := postgres.New(db.pool)
		if err == nil {
			err = store.PutLane(ctx, almanac.Lane{Name: almanac.TypeBirthday, Rate: 100_000, Burst: 100_000})
		}
		if err != nil {
			return nil, err
		}
		return startAlmanac(ctx, db, e)
	}
	return s
}

// batchSize is how many events a delivery of the row almanac-batch has at most.
const batchSize = 500

// nothingTogether is a BatchDeliverer that does nothing.
type nothingTogether struct{}

func (nothingTogether) DeliverBatch(_ context.Context, batch []almanac.Delivery) []error {
	return make([]error, len(batch))
}

// almanacBatch delivers its events in batches.
func almanacBatch() system {
	s := almanacSystem()
	s.name, s.contract = "almanac-batch", "the same with a BatchDeliverer, of up to 500 events in a call"
	s.start = func(ctx context.Context, db database, e hooks) (*running, error) {
		store, err := postgres.New(db.pool)
		if err != nil {
			return nil, err
		}
		registry, err := almanac.NewRegistry(almanac.Birthday{}, appointment{})
		if err != nil {
			return nil, err
		}
		scheduler, err := almanac.NewScheduler(store, registry, e.options(
			almanac.WithDeliverer(almanac.ChannelWebhook, almanac.Batched(nothingTogether{}, batchSize)))...)
		if err != nil {
			return nil, err
		}
		return run(ctx, scheduler), nil
	}
	return s
}

// migrateAlmanac makes the tables, and brings them to where they are once a program has run for a
// while: the zone rules are known, and no event is in doubt of them. Otherwise a start looks at
// every pending event, and brings those to the second whose instant no wall clock shows.
func migrateAlmanac(ctx context.Context, db database) error {
	if err := postgres.Migrate(ctx, db.pool); err != nil {
		return err
	}
	scheduler, err := newScheduler(db.pool, hooks{})
	if err != nil {
		return err
	}
	if _, err := scheduler.Reconcile(ctx, almanac.ReconcileOptions{}); err != nil {
		return err
	}
	_, err = db.pool.Exec(ctx, "UPDATE almanac.zone_rules SET recheck = NULL")
	return err
}

// almanacElsewhere plans further events by a scheduler that does not run, as
// another process would: nothing wakes the one that does.
func almanacElsewhere() system {
	s := almanacSystem()
	s.name, s.contract = "almanac-elsewhere", "planned by another process than the one that runs"
	s.start = func(ctx context.Context, db database, e hooks) (*running, error) {
		r, err := startAlmanac(ctx, db, e)
		if err != nil {
			return nil, err
		}
		idle, err := newScheduler(db.pool, hooks{})
		if err != nil {
			return nil, fmt.Errorf("%w; %w", err, r.stop())
		}
		r.plan = planner(idle)
		return r, nil
	}
	return s
}

func startAlmanac(ctx context.Context, db database, e hooks) (*running, error) {
	return startHandlers(ctx, db, e)
}

// startHandlers runs a process with more types of events than the others.
func startHandlers(ctx context.Context, db database, e hooks, more ...almanac.EventHandler) (*running, error) {
	scheduler, err := newSchedulerOf(db.pool, e, append([]almanac.EventHandler{almanac.Birthday{}, appointment{}}, more...))
	if err != nil {
		return nil, err
	}
	return run(ctx, scheduler), nil
}

// run runs a scheduler until it is stopped.
func run(ctx context.Context, scheduler almanac.Scheduler) *running {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- scheduler.Run(ctx) }()
	stop := func() error {
		cancel()
		return <-ended
	}
	return &running{planner(scheduler), stop}
}

// newScheduler returns a scheduler whose deliveries do nothing but tell.
func newScheduler(pool *pgxpool.Pool, e hooks, options ...almanac.Option) (almanac.Scheduler, error) {
	return newSchedulerOf(pool, e, []almanac.EventHandler{almanac.Birthday{}, appointment{}}, options...)
}

func newSchedulerOf(pool *pgxpool.Pool, e hooks, handlers []almanac.EventHandler, options ...almanac.Option) (almanac.Scheduler, error) {
	store, err := postgres.New(pool)
	if err != nil {
		return nil, err
	}
	registry, err := almanac.NewRegistry(handlers...)
	if err != nil {
		return nil, err
	}
	return almanac.NewScheduler(store, registry, e.options(options...)...)
}

// options are those of a scheduler with these hooks, and further options.
func (e hooks) options(options ...almanac.Option) []almanac.Option {
	deliver := func(ctx context.Context, d almanac.Delivery) error {
		if e.started != nil {
			e.started(placeOf(d.Event), d.Event.Due)
		}
		if e.takes > 0 {
			return pause(ctx, e.takes)
		}
		return nil
	}
	observe := func(_ context.Context, n almanac.Notice) {
		if n.Kind == almanac.EventCompleted && e.stored != nil {
			e.stored()
		}
	}
	return append([]almanac.Option{
		almanac.WithWorkers(almanacWorkers),
		almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(deliver)),
		almanac.WithObserver(almanac.ObserverFunc(observe)),
		almanac.WithLogger(slog.New(slog.DiscardHandler)),
	}, options...)
}

// placeOf orders events as they were stored: an id begins with its millisecond.
func placeOf(e almanac.Event) uint64 { return binary.BigEndian.Uint64(e.ID[:8]) }

// appointment is the handler of an event at a single instant, which is an attribute of the user.
type appointment struct{ almanac.Birthday }

func (appointment) EventType() string { return "APPOINTMENT" }

func (appointment) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	var facts struct{ At string }
	if err := json.Unmarshal(u.Attributes, &facts); err != nil {
		return calendar.Occurrence{}, err
	}
	if facts.At == "" {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	}
	at, err := calendar.ParseWallTime(facts.At)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	return calendar.Next(calendar.Once{At: at}, u.Timezone, calendar.Policies{}, after)
}

// pausedType is the type of events whose handler is there, and whose claims are paused.
const pausedType = "PAUSED"

// paused is the handler of that type. It plans nothing.
type paused struct{ appointment }

func (paused) EventType() string { return pausedType }

// planner stores a user with an appointment.
func planner(s almanac.Scheduler) func(context.Context, time.Time) error {
	return func(ctx context.Context, due time.Time) error {
		p := profile(due.Nanosecond())
		p.Attributes = json.RawMessage(`{"at": "` + calendar.WallTimeOf(due.UTC()).String() + `"}`)
		_, err := s.CreateUser(ctx, p)
		return err
	}
}

// profile is the profile of a user whose birthday is far away.
func profile(n int) almanac.Profile {
	born := time.Now().UTC().AddDate(-30, -2, 0)
	return almanac.Profile{FirstName: "Ada", LastName: "Lovelace " + strconv.Itoa(n), DateOfBirth: born.Format(time.DateOnly), Timezone: "UTC"}
}

// checkAlmanac makes sure that what was counted is what is stored: everything that
// ended has its successor, and nothing is left in between.
func checkAlmanac(ctx context.Context, db database, done int) error {
	var completed, followed, processing int
	err := db.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE status = 'COMPLETED'),
			count(*) FILTER (WHERE status = 'PENDING' AND available_at > now()),
			count(*) FILTER (WHERE status = 'PROCESSING')
		FROM almanac.events`).Scan(&completed, &followed, &processing)
	if err != nil {
		return err
	}
	if completed < done || completed != followed || processing != 0 {
		return fmt.Errorf("counted %d events, but %d are COMPLETED, %d have a successor and %d are PROCESSING", done, completed, followed, processing)
	}
	return nil
}
