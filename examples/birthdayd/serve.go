package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/dashboard"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/postgres"
)

// serve runs the whole deployment until ctx is done or a part of it fails. Parts are stopped in the
// reverse order of their start: the database outlives the connections, and these outlive their users.
func serve(ctx context.Context, c config, std streams) (err error) {
	log := c.log.logger(std.err)
	listener, err := net.Listen("tcp", c.api.addr)
	if err != nil {
		return fmt.Errorf("-addr: %w", err)
	}
	defer listener.Close()

	var show *demo
	if c.demo {
		if show, err = newDemo(std.out); err != nil {
			return err
		}
		defer show.close()
		c.hook = show.hook()
	}

	db, err := findDatabase(ctx, c, sources{pgserver.Start, download}, log)
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, stopDatabase(ctx, db)) }()
	p, err := connect(ctx, db.url, log)
	if err != nil {
		return stopped(ctx, err)
	}
	defer p.close()
	if db.choice == "" {
		if db.choice, err = describe(ctx, p.worker); err != nil {
			return stopped(ctx, err)
		}
	}

	d, err := assemble(c, p, log, show)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	log.InfoContext(ctx, "database ready", slog.String("database", db.choice))
	log.InfoContext(ctx, "listening", slog.String("url", url))
	if show == nil {
		return d.run(ctx, listener, func(context.Context) error { return nil })
	}
	return d.runDemo(ctx, listener, show, stage{d.planner, d.store, db.choice, url, c.api.token != "", owed{}})
}

// stopped returns nil for an error that is only a consequence of the stop.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func stopDatabase(ctx context.Context, db database) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return db.stop(ctx)
}

// deployment is the parts of the program.
type deployment struct {
	scheduler almanac.Scheduler
	metrics   metrics
	monitor   *dashboard.Monitor
	planner   almanac.Scheduler // the scheduler, on the API's connections
	store     *postgres.Store   // on the API's connections, to read
	probe     *postgres.Store   // on the probe's connection
	server    *http.Server
	delay     time.Duration // before it closes the listener
	log       *slog.Logger
}

// assemble creates the parts of the library. It starts nothing.
func assemble(c config, p pools, log *slog.Logger, show *demo) (*deployment, error) {
	registry, err := almanac.NewRegistry(c.handlers()...)
	if err != nil {
		return nil, err
	}
	d := &deployment{delay: c.api.delay, metrics: newMetrics(registry), monitor: dashboard.NewMonitor(), log: log}
	options := []almanac.Option{
		almanac.WithSweep(min(5*time.Second, c.greeting.lease/3)),
		almanac.WithObserver(d.metrics.events), almanac.WithObserver(d.monitor),
		almanac.WithMiddleware(d.monitor.Middleware, d.metrics.events.Middleware),
	}
	if show != nil {
		options = append(options, almanac.WithObserver(show.observer()))
	}
	if d.scheduler, err = c.scheduler(p.worker, registry, log, options...); err != nil {
		return nil, err
	}
	if err := d.addAPI(c, p, log); err != nil {
		return nil, err
	}
	if err := d.addLinks(c, registry, log); err != nil {
		return nil, err
	}
	if err := d.addDashboard(c, p, log); err != nil {
		return nil, err
	}
	return d, d.metrics.watch(d, registry)
}

// scheduler returns a scheduler as configured, with further options.
func (c config) scheduler(pool *pgxpool.Pool, registry almanac.Registry, log *slog.Logger, further ...almanac.Option) (almanac.Scheduler, error) {
	store, err := postgres.New(pool)
	if err != nil {
		return nil, err
	}
	deliverers, err := c.deliverers(log)
	if err != nil {
		return nil, err
	}
	options := append(append(further, c.zoneGuess()...),
		almanac.WithWorkers(c.greeting.workers),
		almanac.WithLease(c.greeting.lease),
		almanac.WithWindow(c.window),
		almanac.WithObserver(almanac.LogObserver(log)),
		almanac.WithLogger(log))
	for channel, deliverer := range deliverers {
		options = append(options, almanac.WithDeliverer(channel, deliverer))
	}
	return almanac.NewScheduler(store, registry, options...)
}

// addAPI adds the HTTP server, which also serves the metrics, on separate connections. It
// uses the same scheduler, so that a user who is due soon wakes the workers.
func (d *deployment) addAPI(c config, p pools, log *slog.Logger) (err error) {
	if d.store, err = postgres.New(p.read); err != nil {
		return err
	}
	if d.probe, err = postgres.New(p.probe); err != nil {
		return err
	}
	edits, err := postgres.New(p.edit, postgres.WithLockTimeout(lockTimeout))
	if err != nil {
		return err
	}
	d.planner = d.scheduler.With(edits)
	options := append(c.attributes(), httpapi.WithLogger(log), httpapi.WithReadiness(d.ready), httpapi.WithLiveness(d.alive))
	if c.api.rate > 0 {
		options = append(options, httpapi.WithRate(float64(c.api.rate), max(1, c.api.rate/10)))
	}
	api, err := httpapi.New(d.planner, reader{d.store, d.probe}, authenticator(c.api.token), options...)
	if err != nil {
		return err
	}
	if c.metrics.on {
		api = d.metrics.beside(api, authenticator(c.api.token, c.metrics.token), log)
	}
	d.server = httpapi.Server(c.api.addr, api)
	d.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	return nil
}

// reader reads from the API's connections, and gets the time from the probe's connection.
type reader struct {
	*postgres.Store
	probe *postgres.Store
}

// Now returns the database time.
func (r reader) Now(ctx context.Context) (time.Time, error) { return r.probe.Now(ctx) }

// answers returns an error while the database does not answer.
func (d *deployment) answers(ctx context.Context) error {
	_, err := d.probe.Now(ctx)
	return err
}

// ready makes /readyz fail while the workers do not work. It also fails before the listener is closed.
func (d *deployment) ready(context.Context) error { return d.scheduler.Health().Err() }

// alive makes /healthz fail when the program should be replaced.
func (d *deployment) alive(context.Context) error {
	if err := d.scheduler.Health().Err(); errors.Is(err, almanac.ErrStuck) {
		return err
	}
	return nil
}

// run runs the scheduler, the server and also until ctx is done or one of them fails. It
// waits for all of them.
func (d *deployment) run(ctx context.Context, l net.Listener, also func(context.Context) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	parts := []func(context.Context) error{
		d.scheduler.Run,
		func(ctx context.Context) error { return d.serveHTTP(ctx, l) },
		also,
	}
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	for i, part := range parts {
		running.Go(func() {
			if errs[i] = part(ctx); errs[i] != nil {
				fail(errs[i])
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// shutdownLimit is how long running requests may take to end.
const shutdownLimit = 10 * time.Second

// serveHTTP serves until ctx is done, for the delay after that, and then until the running
// requests have ended. Requests that do not end in time, such as those of clients that do
// not read, are cut off. That is not an error.
func (d *deployment) serveHTTP(ctx context.Context, l net.Listener) error {
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		<-time.After(d.delay)
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownLimit)
		defer cancel()
		err := d.server.Shutdown(patience)
		if errors.Is(err, context.DeadlineExceeded) {
			d.log.WarnContext(ctx, "closed the connections of clients that did not read their answers in time", slog.Duration("limit", shutdownLimit))
			err = d.server.Close()
		}
		ended <- err
	})
	err := d.server.Serve(l)
	if stop() { // it ended without being asked to
		return err
	}
	return <-ended
}

// passConns is all that a pass needs: one connection to claim and to store, one to renew leases.
const passConns = 2

// pass greets the users who are due and prints the result. It ends when no event is due any
// more, or when ctx is done.
func pass(ctx context.Context, c config, std streams) error {
	return briefly(ctx, c, std, func(scheduler almanac.Scheduler, _ almanac.Registry) error {
		did, err := scheduler.RunOnce(ctx, almanac.RunOnceOptions{})
		fmt.Fprintf(std.out, "claimed %d: %d completed, %d failed, %d called off, %d to be tried again, %d released, %d not stored; %d recovered; more: %t\n",
			did.Claimed, did.Completed, did.Failed, did.Cancelled, did.Retried, did.Released, did.Unstored, did.Recovered, did.More)
		return err
	})
}

// shownRefusals is how many refused users of each type a backfill prints.
const shownRefusals = 100

// backfill stores the events that existing users lack, and prints how many for each type. It
// returns an error if users were refused.
func backfill(ctx context.Context, c config, std streams) error {
	return briefly(ctx, c, std, func(scheduler almanac.Scheduler, registry almanac.Registry) error {
		refused := 0
		for _, t := range registry.EventTypes() {
			did, err := scheduler.Backfill(ctx, t, almanac.BackfillOptions{})
			fmt.Fprintf(std.out, "%s: %d events stored for %d users, %d refused\n", t, did.Events, did.Users, len(did.Refused))
			for _, r := range did.Refused[:min(len(did.Refused), shownRefusals)] {
				fmt.Fprintf(std.err, "%s: refused %s: %q\n", t, r.UserID, r.Err.Error())
			}
			if refused += len(did.Refused); err != nil {
				return err
			}
		}
		if refused > 0 {
			return fmt.Errorf("%d users refused", refused)
		}
		return nil
	})
}

// briefly puts the library together without a service, for one call.
func briefly(ctx context.Context, c config, std streams, do func(almanac.Scheduler, almanac.Registry) error) (err error) {
	log := c.log.logger(std.err)
	db, err := findDatabase(ctx, c, sources{pgserver.Start, download}, log)
	if err != nil {
		return stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, stopDatabase(ctx, db)) }()
	pool, err := open(ctx, db.url, passConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := await(ctx, pool, log); err != nil {
		return stopped(ctx, err)
	}
	if err := postgres.Migrate(ctx, pool); err != nil {
		return stopped(ctx, err)
	}
	registry, err := almanac.NewRegistry(c.handlers()...)
	if err != nil {
		return err
	}
	scheduler, err := c.scheduler(pool, registry, log)
	if err != nil {
		return err
	}
	return do(scheduler, registry)
}
