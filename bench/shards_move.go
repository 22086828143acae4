package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/shards"
)

const (
	moveRow  = "a move"
	moveStep = 2 * time.Millisecond // between two events of the load
)

// switched is the pool of the server that has the schema.
type switched struct{ atomic.Pointer[pgxpool.Pool] }

func (s *switched) Begin(ctx context.Context) (pgx.Tx, error) { return s.Load().Begin(ctx) }

func (s *switched) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	return s.Load().BeginTx(ctx, o)
}

func (s *switched) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return s.Load().Exec(ctx, sql, args...)
}

func (s *switched) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return s.Load().Query(ctx, sql, args...)
}

func (s *switched) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return s.Load().SendBatch(ctx, b)
}

// moveLoaded moves a schema whose events are being delivered.
func (b *bench) moveLoaded(ctx context.Context) (readings []reading, err error) {
	settings := maps.Clone(b.settings)
	settings["wal_level"] = "logical"
	var servers [2]database
	for i := range servers {
		c, failed := startCluster(ctx, settings)
		if failed != nil {
			return nil, failed
		}
		defer func() { err = errors.Join(err, c.close(ctx)) }()
		pool, failed := poolOf(ctx, c.server.URL(), 12)
		if failed != nil {
			return nil, failed
		}
		defer pool.Close()
		servers[i] = database{"postgres", c.server.URL(), pool, c.gauge}
	}
	if err := migrateAlmanac(ctx, servers[0]); err != nil {
		return nil, err
	}
	count := int(3 * b.Window / moveStep)
	if err := storeUsers(ctx, servers[0], load{count: count, first: time.Now().Add(lead), step: moveStep}); err != nil {
		return nil, err
	}
	return moveBetween(ctx, servers[0], servers[1], count)
}

// outcomes are when outcomes were stored.
type outcomes struct {
	mu sync.Mutex
	at []time.Time
}

func (o *outcomes) note() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at = append(o.at, time.Now())
}

// gap returns the longest time between two outcomes.
func (o *outcomes) gap() (longest time.Duration) {
	for i := range o.at[1:] {
		longest = max(longest, o.at[i+1].Sub(o.at[i]))
	}
	return longest
}

// moveBetween runs a scheduler on a number of events, and moves their schema when the first is stored.
func moveBetween(ctx context.Context, from, to database, count int) (readings []reading, err error) {
	place := new(switched)
	place.Store(from.pool)
	store, err := postgres.New(place, postgres.PollOnly())
	if err != nil {
		return nil, err
	}
	m := newMeter(count)
	began := make(chan struct{})
	var first sync.Once
	var stored outcomes
	starts := newStarts(count)
	scheduler, err := schedulerOn(store, hooks{started: starts.note, stored: func() {
		stored.note()
		first.Do(func() { close(began) })
		m.one()
	}}, almanac.WithPoll(50*time.Millisecond))
	if err != nil {
		return nil, err
	}
	r := run(ctx, scheduler)
	stop := sync.OnceValue(r.stop)
	defer func() { err = errors.Join(err, stop()) }()
	select {
	case <-began:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	moving := time.Now()
	closed, err := moveSchema(ctx, from, to, func() { place.Store(to.pool) })
	if err != nil {
		return nil, err
	}
	moved := time.Since(moving)
	if _, err := m.wait(ctx, patience+time.Duration(count)*moveStep); err != nil {
		return nil, err
	}
	if err := stop(); err != nil {
		return nil, err
	}
	var completed int
	if err := to.pool.QueryRow(ctx, "SELECT count(*) FROM almanac.events WHERE status = 'COMPLETED'").Scan(&completed); err != nil {
		return nil, err
	}
	late := starts.seen()
	return []reading{
		{"closed", "ms", millis(closed)}, {"gap", "ms", millis(stored.gap())}, {"late p50", "ms", quantile(late, 0.5)}, {"late max", "ms", slices.Max(late)}, {"whole", "s", moved.Seconds()}, {"not stored", "", float64(count - completed)},
	}, nil
}

// moveSchema moves the schema, and returns how long neither server took writes.
func moveSchema(ctx context.Context, from, to database, publish func()) (time.Duration, error) {
	var conns [2]*pgx.Conn
	for i, db := range []database{from, to} {
		conn, err := pgx.Connect(ctx, db.url)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		conns[i] = conn
	}
	result, err := shards.Move(ctx, conns[0], conns[1], shards.MoveOptions{
		Schema: postgres.DefaultSchema, Source: from.url,
		Publish: func(context.Context) error { publish(); return nil },
	})
	return result.Closed, err
}
