package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

const (
	laneRows = 400_000 // of the tables of section lanes; one in twenty is an event ahead
	laneDue  = 100_000
	allLanes = 10_000
)

// named gives the events of a history lanes, and visits, since no trigger runs in bulk. The events ahead are in all
// lanes. The rows of the queue keep their order on disk.
//
//	$1 bigint (in how many lanes the due events are) · $2 bigint (lanes)
const named = `
	WITH chosen AS (
		UPDATE almanac.series s
		SET lane = 'lane' || CASE WHEN s.target_timestamp_utc < now() THEN s.id % $1::bigint ELSE s.id % $2::bigint END
		WHERE s.event_id IS NOT NULL
		RETURNING s.id, s.lane
	), gone AS (
		DELETE FROM almanac.queue q
		RETURNING q.*, q.ctid
	), queued AS (
		INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane)
		SELECT gone.available_at, gone.event_id, gone.series_id, gone.event_type, gone.delayed_from, gone.retry_count, chosen.lane
		FROM gone JOIN chosen ON chosen.id = gone.series_id
		ORDER BY gone.ctid
		RETURNING event_type, lane, available_at
	)
	INSERT INTO almanac.visits (scope, event_type, at, lane, since)
	SELECT '', event_type, min(available_at), lane, min(available_at)
	FROM queued
	GROUP BY event_type, lane`

// lanes measures claims of events with lanes beside those without.
func (b *bench) lanes(ctx context.Context) error {
	const section = "lanes"
	var entries []entry
	for _, kind := range []struct {
		name, contract string
		of             int // in how many lanes the due events are; zero for events without lanes
		limited        bool
	}{
		{"none", "the store's claim of 100 events; no event has a lane. Then single calls", 0, false},
		{"ten", "the same; the due events are in ten of 10,000 lanes", 10, false},
		{"all", "the same; the due events are in 10,000 lanes", allLanes, false},
		{"ten, limited", "the same as ten; each lane has a rate above the load", 10, true},
		{"all, limited", "the same as all; each lane has a rate above the load", allLanes, true},
	} {
		if !b.chosen(section, kind.name) {
			continue
		}
		template := fmt.Sprintf("lanes_%d_%t", kind.of, kind.limited)
		if err := b.lanesOf(ctx, template, kind.of, kind.limited); err != nil {
			return err
		}
		db, err := b.cluster.open(ctx, template)
		if err != nil {
			return err
		}
		defer db.pool.Close()
		if err := db.warm(ctx); err != nil {
			return err
		}
		var mark time.Time
		entries = append(entries, entry{name: kind.name, contract: kind.contract, run: func(ctx context.Context) ([]reading, error) {
			if _, err := db.pool.Exec(ctx, "CHECKPOINT"); err != nil {
				return nil, err
			}
			claims, err := b.claimInFront(ctx, db, laneDue, &mark)
			if err != nil {
				return nil, err
			}
			calls, err := besideLanes(ctx, db)
			return append(claims, calls...), err
		}})
	}
	steps, err := b.oldSteps(ctx)
	if err != nil {
		return err
	}
	entries = append(entries, steps...)
	if name := "wave"; b.chosen(section, name) {
		ours := almanacSystem()
		if err := b.template(ctx, ours.template+"_backlog", ours.backlog(b.Events)); err != nil {
			return err
		}
		entries = append(entries, entry{
			name: name, contract: fmt.Sprintf("a backlog of one lane with a rate of %d a second, which two schedulers work off", waveRate),
			run: b.cluster.on(ours.template+"_backlog", b.wave),
		})
	}
	if name := "fair"; b.chosen(section, name) {
		if err := b.template(ctx, "lanes_fair", b.crowd); err != nil {
			return err
		}
		entries = append(entries, entry{
			name: name, contract: fmt.Sprintf("ten due events of a lane, beside %d of another one that are due earlier; both are in one with a rate of %d a second", b.Crowd-few, waveRate),
			run: b.cluster.on("lanes_fair", b.fair),
		})
	}
	if err := b.rounds(ctx, section, b.Rounds, entries); err != nil {
		return err
	}
	return b.lateInLanes(ctx)
}

// few is how many events are beside many.
const few = 10

// crowd prepares a backlog of two lanes in one: the last events are in the small one.
func (b *bench) crowd(ctx context.Context, db database) error {
	if err := almanacSystem().backlog(b.Crowd)(ctx, db); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			"SET LOCAL session_replication_role = replica",
			fmt.Sprintf(`
				UPDATE almanac.series s
				SET lane = CASE WHEN s.event_id IN (SELECT q.event_id FROM almanac.queue q ORDER BY q.available_at DESC LIMIT %d) THEN 'crm/small' ELSE 'crm/large' END
				WHERE s.event_id IS NOT NULL`, few),
			"SET LOCAL session_replication_role = origin", // a trigger adds the visits
			`
				WITH gone AS (DELETE FROM almanac.queue q RETURNING q.*)
				INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from, retry_count, lane)
				SELECT gone.available_at, gone.event_id, gone.series_id, gone.event_type, gone.delayed_from, gone.retry_count, s.lane
				FROM gone JOIN almanac.series s ON s.id = gone.series_id`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// fair measures how long few events wait beside many.
func (b *bench) fair(ctx context.Context, db database) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if err := store.PutLane(ctx, almanac.Lane{Name: "crm", Rate: waveRate, Burst: waveRate / 5}); err != nil {
		return nil, err
	}
	r, err := startAlmanac(ctx, db, hooks{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.stop() }() // nothing of it counts any more
	began, ended := time.Now(), 0
	for ended < few {
		if time.Since(began) > 3*waveSpans*time.Second {
			return nil, fmt.Errorf("%d of %d events have ended", ended, few)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
		if err := db.pool.QueryRow(ctx, "SELECT count(*) FROM almanac.history WHERE lane = 'crm/small'").Scan(&ended); err != nil {
			return nil, err
		}
	}
	const share = few / (waveRate / 2.0) // of the rate, in seconds
	return []reading{{"wait", "s", time.Since(began).Seconds()}, {"beyond the share", "s", time.Since(began).Seconds() - share}}, nil
}

const (
	waveRate  = 50
	waveSpans = 20 // seconds
)

// wave measures what a limited lane costs the server, and how exactly the rate is used.
func (b *bench) wave(ctx context.Context, db database) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if err := store.PutLane(ctx, almanac.Lane{Name: almanac.TypeBirthday, Rate: waveRate, Burst: waveRate / 5}); err != nil {
		return nil, err
	}
	const committed = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
	var before, after int64
	if err := db.pool.QueryRow(ctx, committed).Scan(&before); err != nil {
		return nil, err
	}
	began := time.Now()
	m := newMeter(min(waveRate*waveSpans, b.Events))
	for range 2 {
		r, err := startAlmanac(ctx, db, hooks{stored: m.one})
		if err != nil {
			return nil, err
		}
		defer func() { _ = r.stop() }() // nothing of it counts any more
	}
	t, err := m.wait(ctx, 3*waveSpans*time.Second)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Second); err != nil { // in which the sessions report
		return nil, err
	}
	if err := db.pool.QueryRow(ctx, committed).Scan(&after); err != nil {
		return nil, err
	}
	return []reading{
		{"transactions", "per second", float64(after-before) / time.Since(began).Seconds()},
		{"of the rate", "", t.rate() / waveRate},
	}, nil
}

// limitAll gives all lanes limits that no claim meets.
//
//	$1 bigint (lanes)
const limitAll = `
	WITH stored AS (
		INSERT INTO almanac.lanes (name, rate, burst)
		SELECT 'lane' || n, 100000, 100000
		FROM generate_series(0, $1::bigint - 1) n
		RETURNING name
	)
	INSERT INTO almanac.lane_states (lane, full_at)
	SELECT name, now()
	FROM stored`

// lanesOf prepares tables whose due events are in so many lanes.
func (b *bench) lanesOf(ctx context.Context, template string, of int, limited bool) error {
	return b.template(ctx, template, func(ctx context.Context, db database) error {
		if err := migrateAlmanac(ctx, db); err != nil {
			return err
		}
		return db.inBulk(ctx, func(conn *pgxpool.Conn) error {
			if _, err := conn.Exec(ctx, uuid7); err != nil {
				return err
			}
			if _, err := conn.Exec(ctx, history, laneRows, laneDue); err != nil || of == 0 {
				return err
			}
			if _, err := conn.Exec(ctx, named, of, allLanes); err != nil || !limited {
				return err
			}
			_, err := conn.Exec(ctx, limitAll, allLanes)
			return err
		})
	})
}
