package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// startLimit is how long workers may take to start, and to work a backlog off.
const startLimit = 30 * time.Second

// processes measures how a backlog is shared by several processes.
func (b *bench) processes(ctx context.Context) error {
	const section = "processes"
	var entries []entry
	for _, count := range b.Processes {
		name := fmt.Sprintf("%d", count)
		if !b.chosen(section, name) {
			continue
		}
		if err := b.withholdBacklog(ctx); err != nil {
			return err
		}
		entries = append(entries, entry{name: name, contract: "worker processes on one database", run: b.cluster.on(withheld, func(ctx context.Context, db database) ([]reading, error) {
			return b.share(ctx, db, count)
		})})
	}
	return b.rounds(ctx, section, b.Rounds, entries)
}

// crew is a number of workers on one database.
type crew struct {
	processes []*process
	reported  chan struct{}
}

func muster(o orders, count int) (*crew, error) {
	c := &crew{reported: make(chan struct{}, 1)}
	for range count {
		p, err := launch(o)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.processes = append(c.processes, p)
	}
	return c, nil
}

func (c *crew) begin() error {
	for _, p := range c.processes {
		if err := p.begin(func() { hint(c.reported) }); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all workers, those that never began too.
func (c *crew) stop() error {
	var errs []error
	for _, p := range c.processes {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// stored is what each worker has stored, and when the last of it was.
func (c *crew) stored() (counts []float64, total int, last time.Time) {
	for _, p := range c.processes {
		now := p.latest.Load()
		counts, total = append(counts, float64(now.Stored)), total+int(now.Stored)
		if now.At.After(last) {
			last = now.At
		}
	}
	return counts, total, last
}

// settled waits until every worker has looked for events once: each server process has read its
// catalogs, which takes some 30 ms of a processor, and each worker is notified of new events.
func (c *crew) settled(ctx context.Context) error {
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	for {
		if !slices.ContainsFunc(c.processes, func(p *process) bool { return !p.latest.Load().Ready }) {
			return nil
		}
		select {
		case <-c.reported:
		case <-limit.C:
			return fmt.Errorf("a worker has not looked for events within %v", startLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// withheld is a template with a backlog that a lease keeps from the workers until release.
const withheld = "almanac_withheld"

// withholdBacklog prepares that template.
func (b *bench) withholdBacklog(ctx context.Context) error {
	return b.template(ctx, withheld, func(ctx context.Context, db database) error {
		if err := almanacSystem().backlog(b.Events)(ctx, db); err != nil {
			return err
		}
		_, err := db.pool.Exec(ctx, `
			CREATE TABLE withheld AS SELECT * FROM almanac.queue; TRUNCATE almanac.queue;
			INSERT INTO almanac.leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at)
			SELECT gen_random_uuid(), 'withheld', array_agg(s.id), array_agg(s.event_id), array_agg(s.version), now(), now() + interval '1 day' FROM almanac.series s WHERE s.event_id IS NOT NULL`)
		return err
	})
}

// release lets all workers find the backlog at once.
func (db database) release(ctx context.Context) error {
	_, err := db.pool.Exec(ctx, `
		INSERT INTO almanac.queue SELECT * FROM withheld;
		DELETE FROM almanac.leases WHERE owner = 'withheld';
		NOTIFY "almanac:almanac"`)
	return err
}

// flow is how a backlog is worked off by several processes.
type flow struct {
	rate            float64       // events a second, while all of them work
	least, greatest float64       // share of one, percent
	server          time.Duration // processor time of the server for an event
}

// saturate releases a backlog, and measures from when every worker has stored some of it until a
// window is over, or until all is stored.
func (b *bench) saturate(ctx context.Context, db database, c *crew) (f flow, err error) {
	before, base, _ := c.stored()
	from, err := db.gauge.read(ctx)
	if err != nil {
		return f, err
	}
	if err := db.release(ctx); err != nil {
		return f, err
	}
	released := time.Now()
	all := func() bool {
		now, total, _ := c.stored()
		for i := range now {
			if now[i] == before[i] {
				return total >= base+b.Events
			}
		}
		return true
	}
	if err := c.until(ctx, all, startLimit); err != nil {
		return f, fmt.Errorf("a worker has stored nothing: %w", err)
	}
	_, warm, began := c.stored()
	over := time.Now().Add(3 * b.Window / 10)
	err = c.until(ctx, func() bool {
		return c.beyond(base+b.Events)() || c.beyond(warm+1)() && time.Now().After(over)
	}, startLimit)
	if err != nil {
		return f, err
	}
	after, total, ended := c.stored()
	to, err := db.gauge.read(ctx)
	if err != nil {
		return f, err
	}
	if total == warm { // all was stored between two reports
		warm, began = base, released
	}
	for i := range after {
		after[i] = 100 * (after[i] - before[i]) / float64(total-base)
	}
	return flow{
		rate: float64(total-warm) / ended.Sub(began).Seconds(), least: slices.Min(after), greatest: slices.Max(after),
		server: to.since(from).server / time.Duration(total-base),
	}, nil
}

// until waits until something is so.
func (c *crew) until(ctx context.Context, so func() bool, limit time.Duration) error {
	for began := time.Now(); !so(); {
		if time.Since(began) > limit {
			_, total, _ := c.stored()
			return fmt.Errorf("%d events were stored within %v", total, limit)
		}
		if err := pause(ctx, crashGrain); err != nil {
			return err
		}
	}
	return nil
}

// beyond reports whether so many events are stored.
func (c *crew) beyond(count int) func() bool {
	return func() bool {
		_, total, _ := c.stored()
		return total >= count
	}
}

// share lets a crew work a backlog off.
func (b *bench) share(ctx context.Context, db database, count int) (readings []reading, err error) {
	c, err := muster(orders{URL: db.url}, count)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := errors.Join(c.begin(), c.settled(ctx)); err != nil {
		return nil, err
	}
	f, err := b.saturate(ctx, db, c)
	return []reading{
		{"rate", "events/s", f.rate}, {"least share", "%", f.least}, {"greatest share", "%", f.greatest},
		{"memory of one", "MiB", float64(c.processes[0].latest.Load().Memory) / 1024},
	}, err
}

// idle measures what a process costs while nothing is due.
func (b *bench) idle(ctx context.Context) error {
	const section = "idle"
	for _, rows := range b.Idle {
		name := fmt.Sprintf("%d far-off events", rows)
		if !b.chosen(section, name) {
			continue
		}
		template := fmt.Sprintf("far_off_%d", rows)
		s := almanacSystem()
		err := b.template(ctx, template, func(ctx context.Context, db database) error {
			if err := s.migrate(ctx, db); err != nil {
				return err
			}
			return storeMany(ctx, db, load{count: rows, first: time.Now().AddDate(1, 0, 0), step: time.Second})
		})
		if err != nil {
			return err
		}
		if err := b.rounds(ctx, section, 1, []entry{{name: name, contract: "one process, nothing due", run: b.cluster.on(template, b.idleFor)}}); err != nil {
			return err
		}
		if err := b.cluster.drop(ctx, template); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) idleFor(ctx context.Context, db database) (readings []reading, err error) {
	c, err := muster(orders{URL: db.url}, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.begin(); err != nil {
		return nil, err
	}
	if err := pause(ctx, 2*time.Second); err != nil { // a start is not idle
		return nil, err
	}
	transactions := func() (n int64, err error) {
		const sum = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1"
		return n, b.cluster.admin.QueryRow(ctx, sum, db.name).Scan(&n)
	}
	before, err := transactions()
	if err != nil {
		return nil, err
	}
	from := *c.processes[0].latest.Load()
	if err := pause(ctx, 2*b.Window); err != nil {
		return nil, err
	}
	after, err := transactions()
	if err != nil {
		return nil, err
	}
	to := *c.processes[0].latest.Load()
	seconds := to.At.Sub(from.At).Seconds()
	return []reading{
		{"transactions", "/s", float64(after-before) / seconds},
		{"CPU", "ms/s", millis(to.CPU-from.CPU) / seconds},
		{"memory", "MiB", float64(to.Memory) / 1024},
	}, nil
}

// held measures what a process costs that holds many events ahead of their instant:
// how long it takes to claim them and to give them back, and its memory in between.
func (b *bench) held(ctx context.Context) error {
	const section = "held"
	name := fmt.Sprintf("%d events ahead", b.Held)
	if !b.chosen(section, name) {
		return nil
	}
	s := almanacSystem()
	if err := b.template(ctx, s.template, s.migrate); err != nil {
		return err
	}
	return b.rounds(ctx, section, 1, []entry{{name: name, contract: "one process, with two workers for each event", run: b.cluster.on(s.template, b.hold)}})
}

func (b *bench) hold(ctx context.Context, db database) ([]reading, error) {
	due := time.Now().Add(2*lead + time.Duration(b.Held)*150*time.Microsecond) // storing takes a while
	if err := storeUsers(ctx, db, load{count: b.Held, first: due}); err != nil {
		return nil, err
	}
	// At most half of the workers wait for an instant.
	c, err := muster(orders{URL: db.url, Workers: 2 * b.Held, LookAhead: 20 * time.Second}, 1)
	if err != nil {
		return nil, err
	}
	claimed, err := b.holdAll(ctx, db, c, due)
	memory := c.processes[0].latest.Load().Memory
	stopping := time.Now()
	if err := errors.Join(err, c.stop()); err != nil {
		return nil, err
	}
	stopped := time.Since(stopping)
	left, err := leased(ctx, db)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d events were not released", left)
	}
	return []reading{
		{"claimed within", "s", claimed.Seconds()},
		{"memory", "MiB", float64(memory) / 1024},
		{"given back within", "s", stopped.Seconds()},
	}, err
}

// holdAll lets a worker claim, ahead of an instant, all events that are due at it. It
// returns how long the claims took, after the next report of the worker.
func (b *bench) holdAll(ctx context.Context, db database, c *crew, due time.Time) (took time.Duration, err error) {
	if err := c.begin(); err != nil {
		return 0, err
	}
	var began time.Time // when the first were claimed
	for {
		n, err := leased(ctx, db)
		if err != nil {
			return 0, err
		}
		now := time.Now()
		if n > 0 && began.IsZero() {
			began = now
		}
		if n == b.Held {
			took, err = now.Sub(began), pause(ctx, 2*time.Second)
		} else {
			err = pause(ctx, 10*time.Millisecond)
		}
		if err == nil && n < b.Held && time.Now().After(due) {
			err = fmt.Errorf("%d of %d events were held by the time that they were due", n, b.Held)
		}
		if err != nil || n == b.Held {
			return took, err
		}
	}
}

// leased is how many events are claimed.
func leased(ctx context.Context, db database) (n int, err error) {
	err = db.pool.QueryRow(ctx, "SELECT coalesce(sum(cardinality(event_ids)), 0) FROM almanac.leases").Scan(&n)
	return n, err
}
