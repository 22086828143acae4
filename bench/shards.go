package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/shards"
)

// plainStore is the row to which those of other layouts are compared.
const plainStore = "no shards"

const (
	shardTakes   = 50 * time.Millisecond // a receiver of the rows with receivers
	shardWorkers = 50                    // workers of these rows, which their receivers limit
)

// layout is how users are divided.
type layout struct {
	name     string
	contract string
	plain    bool // by postgres.Store alone
	schemas  int
	servers  int
	takes    time.Duration // how long receivers take
}

// layouts are the rows. One of them has a number of schemas.
func layouts(many int) []layout {
	return []layout{
		{name: plainStore, contract: "postgres.Store, a schema on a server, a backlog", plain: true, schemas: 1, servers: 1},
		{name: "1 schema", contract: "shards.Store over the same schema", schemas: 1, servers: 1},
		{name: fmt.Sprintf("%d schemas", many), contract: "shards.Store over as many schemas on a server, with a part of the backlog each", schemas: many, servers: 1},
		{name: "1 server, receivers of 50ms", contract: "shards.Store over a schema, 50 workers", schemas: 1, servers: 1, takes: shardTakes},
		{name: "2 servers, receivers of 50ms", contract: "shards.Store over a schema on each of two servers, 50 workers", schemas: 2, servers: 2, takes: shardTakes},
	}
}

// shards measures stores over several schemas, and a move between servers.
func (b *bench) shards(ctx context.Context) (err error) {
	const section = "shards"
	clusters := []*cluster{b.cluster}
	defer func() {
		for _, c := range clusters[1:] {
			err = errors.Join(err, c.close(ctx))
		}
	}()
	var entries []entry
	for _, l := range layouts(b.Shards) {
		if !b.chosen(section, l.name) {
			continue
		}
		if l.servers > len(clusters) {
			second, err := startCluster(ctx, b.settings)
			if err != nil {
				return err
			}
			clusters = append(clusters, second)
		}
		for i, c := range clusters[:l.servers] {
			began := time.Now()
			if err := c.template(ctx, l.template(i), b.fillShard(l, i)); err != nil {
				return err
			}
			b.filling += time.Since(began)
		}
		entries = append(entries, entry{name: l.name, contract: l.contract, run: func(ctx context.Context) ([]reading, error) {
			return b.workOffShards(ctx, clusters[:l.servers], l)
		}})
	}
	if err := b.rounds(ctx, section, b.Rounds, entries); err != nil {
		return err
	}
	b.report.compare(section, plainStore)
	if b.chosen(section, moveRow) {
		move := entry{name: moveRow, contract: "500 events a second, while shards.Move moves their schema to another server", run: b.moveLoaded}
		return b.rounds(ctx, section, 1, []entry{move})
	}
	return nil
}

// template is the database of a server.
func (l layout) template(server int) string {
	return fmt.Sprintf("shards_%d_of_%d_%d", server, l.servers, l.schemas)
}

// on returns the names of the schemas of a server, with their index.
func (l layout) on(server int) map[int]string {
	names := make(map[int]string)
	for i := server; i < l.schemas; i += l.servers {
		names[i] = fmt.Sprintf("almanac_%d", i)
	}
	return names
}

// from returns the first slot of a schema, as [shards.NewDirectory] divides them.
func (l layout) from(schema int) int { return (schema*shards.Slots + l.schemas - 1) / l.schemas }

// fillShard returns what fills the database of a server.
func (b *bench) fillShard(l layout, server int) func(context.Context, database) error {
	return func(ctx context.Context, db database) error {
		for i, schema := range l.on(server) {
			if err := migrateSchema(ctx, db, schema); err != nil {
				return err
			}
			if err := oweShard(ctx, db, schema, b.Events, l.from(i), l.from(i+1)); err != nil {
				return err
			}
		}
		return nil
	}
}

// migrateSchema is migrateAlmanac for a schema of another name.
func migrateSchema(ctx context.Context, db database, schema string) error {
	if err := postgres.Migrate(ctx, db.pool, postgres.WithSchema(schema)); err != nil {
		return err
	}
	store, err := postgres.New(db.pool, postgres.WithSchema(schema))
	if err != nil {
		return err
	}
	scheduler, err := schedulerOn(store, hooks{})
	if err != nil {
		return err
	}
	if _, err := scheduler.Reconcile(ctx, almanac.ReconcileOptions{}); err != nil {
		return err
	}
	_, err = db.pool.Exec(ctx, "UPDATE "+schema+".zone_rules SET recheck = NULL")
	return err
}

func schedulerOn(store almanac.Repository, e hooks, options ...almanac.Option) (almanac.Scheduler, error) {
	registry, err := almanac.NewRegistry(almanac.Birthday{}, appointment{})
	if err != nil {
		return nil, err
	}
	return almanac.NewScheduler(store, registry, e.options(options...)...)
}

// oweShard stores those of so many users with an overdue event whose slots are from one to before another.
func oweShard(ctx context.Context, db database, schema string, count, from, to int) error {
	sql := strings.NewReplacer(
		"WITH owed AS MATERIALIZED (", "WITH everyone AS MATERIALIZED (",
		"), people AS (", `), owed AS MATERIALIZED (
			SELECT * FROM everyone
			WHERE get_byte(sha256(uuid_send(user_id)), 0) * 4 + get_byte(sha256(uuid_send(user_id)), 1) / 64 BETWEEN $4 AND $5 - 1
		), people AS (`,
		"almanac.", schema+".",
	).Replace(oweSQL)
	return db.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		if _, err := conn.Exec(ctx, uuid7); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, sql, count, nil, time.Duration(0), from, to)
		return err
	})
}

// parts are the databases of a run, one for each server.
type parts struct {
	layout
	databases []database
}

// store returns a store over all schemas.
func (p parts) store() (almanac.Repository, error) {
	directory := make([]shards.Place, p.schemas)
	list := make([]shards.Schema, p.schemas)
	for server, db := range p.databases {
		for i, schema := range p.on(server) {
			store, err := postgres.New(db.pool, postgres.WithSchema(schema), postgres.PollOnly())
			if err != nil || p.plain {
				return store, err
			}
			directory[i] = shards.Place{Schema: schema}
			list[i] = shards.Schema{Name: schema, Repository: store, Statistics: store}
		}
	}
	return shards.New(shards.Options{Directory: shards.NewDirectory(directory...), Schemas: list})
}

// check makes sure that everything that ended has its successor, and that as much is stored as was counted.
func (p parts) check(ctx context.Context, done int) error {
	completed := 0
	for server, db := range p.databases {
		for schema := range maps.Values(p.on(server)) {
			var ended, followed int
			err := db.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'PENDING' AND available_at > now())
				FROM `+schema+`.events`).Scan(&ended, &followed)
			if err != nil {
				return err
			}
			if ended != followed {
				return fmt.Errorf("schema %s: %d events are COMPLETED, and %d have a successor", schema, ended, followed)
			}
			completed += ended
		}
	}
	if completed < done {
		return fmt.Errorf("counted %d events, but %d are COMPLETED", done, completed)
	}
	return nil
}

// workOffShards works most of a backlog off, on copies of the databases. How many events there are differs by chance.
func (b *bench) workOffShards(ctx context.Context, clusters []*cluster, l layout) (readings []reading, err error) {
	p := parts{layout: l}
	defer func() {
		for i, db := range p.databases {
			err = errors.Join(err, clusters[i].discard(ctx, db))
		}
	}()
	for i, c := range clusters {
		db, err := c.copy(ctx, l.template(i))
		if err != nil {
			return nil, err
		}
		p.databases = append(p.databases, db)
	}
	store, err := p.store()
	if err != nil {
		return nil, err
	}
	m, err := p.databases[0].meter(ctx, b.Events*9/10)
	if err != nil {
		return nil, err
	}
	workers := almanacWorkers
	if l.takes > 0 {
		workers = shardWorkers
	}
	scheduler, err := schedulerOn(store, hooks{stored: m.one, takes: l.takes}, almanac.WithWorkers(workers))
	if err != nil {
		return nil, err
	}
	r := run(ctx, scheduler)
	// Each connection reads the catalog of each schema first.
	t, err := m.wait(ctx, b.Limit+time.Duration(l.schemas)*b.Limit/2)
	if err := errors.Join(err, r.stop()); err != nil {
		return nil, err
	}
	if err := p.check(ctx, t.done); err != nil {
		return nil, err
	}
	if l.takes > 0 {
		possible := float64(workers) / l.takes.Seconds()
		return []reading{{"stored", "events/s", t.rate()}, {"of what is possible", "%", 100 * t.rate() / possible}}, nil
	}
	return append([]reading{{"rate", "events/s", t.rate()}}, t.spent.readings(t.done)[:2]...), nil
}
