package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac/postgres"
)

const (
	claimSize = 100 // events that a claim takes whose time is measured
	maxClaims = 60  // of them
	// unmeasured is how many claims come before: they prepare the statements, and most
	// pages that claims write have to go to the log in full once after a checkpoint.
	unmeasured = 10
	// agedSlices is into how many parts a backlog is cut that is worked off while a
	// transaction grows old.
	agedSlices = 6
)

// history stores users of whom each had a birthday that was COMPLETED, and has
// another: due for some, ahead for one in ten, and COMPLETED too for the rest.
//
//	$1 bigint (rows) · $2 bigint (due)
const history = `
	WITH people AS (
		INSERT INTO almanac.users (id, first_name, last_name, date_of_birth, timezone)
		SELECT pg_temp.uuid7(1600000000000 + n), 'Ada', 'Lovelace ' || n, '1990-01-01', 'UTC'
		FROM generate_series(1, $1::bigint / 2) n
		RETURNING id, substr(last_name, 10)::bigint AS n
	), wanted AS (
		SELECT people.id AS user_id, n, year, row_number() OVER (ORDER BY year, n) AS place,
			CASE
				WHEN year = 2019 THEN 'COMPLETED'
				WHEN n * 7919 % ($1::bigint / 2) < $2::bigint THEN 'due'
				WHEN n * 7919 % ($1::bigint / 2) < $2::bigint + $1::bigint / 20 THEN 'ahead'
				ELSE 'COMPLETED'
			END AS kind
		FROM people, generate_series(2019, 2020) year
	), timed AS (
		SELECT *, pg_temp.uuid7(1600000000000 + place) AS id, 'event-' || left(md5(user_id::text || year), 16) AS key,
			timestamptz '2019-01-01 09:00Z' + (year - 2019) * interval '1 year'
				+ CASE kind WHEN 'ahead' THEN interval '50 years' ELSE interval '0' END + n * 104729 % 3000000 * interval '10 seconds' AS due
		FROM wanted
	), ended AS (
		INSERT INTO almanac.history (
			id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local, target_timezone, policies,
			idempotency_key, delivery_payload, user_version, lease_token, executed_at, retry_count, claim_count, crash_count, version,
			created_at, updated_at)
		SELECT
			id, user_id, 'BIRTHDAY', year, kind, due, due AT TIME ZONE 'UTC', 'UTC', 'forward,first,feb28,clamp',
			key, '{"message": "Hey, Ada Lovelace it''s your birthday"}', 1, gen_random_uuid(), due, 0, 1, 0, 3, now(), now()
		FROM timed
		WHERE kind = 'COMPLETED'
		ORDER BY place
	), named AS (
		INSERT INTO almanac.keys (idempotency_key)
		SELECT key
		FROM timed
	), begun AS (
		INSERT INTO almanac.series (
			user_id, event_type, name, current_user_version, used_unit, used_key, used_nominal, used_local, event_id, occurrence_key, key_unit,
			target_timestamp_utc, target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version)
		SELECT
			user_id, 'BIRTHDAY', '', 1, 'year', CASE kind WHEN 'COMPLETED' THEN '2020' ELSE '2019' END, due AT TIME ZONE 'UTC', due AT TIME ZONE 'UTC',
			CASE WHEN kind <> 'COMPLETED' THEN id END, year, 'year', due, due AT TIME ZONE 'UTC', 'UTC', 'forward,first,feb28,clamp', key,
			'{"message": "Hey, Ada Lovelace it''s your birthday"}', 1
		FROM timed
		WHERE year = 2020
		ORDER BY place
		RETURNING id, event_id, event_type, target_timestamp_utc
	)
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
	SELECT target_timestamp_utc, event_id, id, event_type, NULL
	FROM begun
	WHERE event_id IS NOT NULL`

// historyOf prepares tables of a number of events.
func (b *bench) historyOf(ctx context.Context, rows, due int) (template string, err error) {
	template = fmt.Sprintf("history_%d_%d", rows, due)
	return template, b.template(ctx, template, func(ctx context.Context, db database) error {
		if err := migrateAlmanac(ctx, db); err != nil {
			return err
		}
		return db.inBulk(ctx, func(conn *pgxpool.Conn) error {
			if _, err := conn.Exec(ctx, uuid7); err != nil {
				return err
			}
			_, err := conn.Exec(ctx, history, rows, due)
			return err
		})
	})
}

// claims measures how long it takes to claim from tables of several sizes.
func (b *bench) claims(ctx context.Context) error {
	const section = "claims"
	for _, rows := range b.Tables {
		name := fmt.Sprintf("%d rows", rows)
		if !b.chosen(section, name) {
			continue
		}
		due := min(b.allClaims()+1000, rows*9/20)
		template, err := b.historyOf(ctx, rows, due)
		if err != nil {
			return err
		}
		if err := b.claimFrom(ctx, template, due, name); err != nil {
			return err
		}
		if err := b.cluster.drop(ctx, template); err != nil { // the large ones fill the disk
			return err
		}
	}
	return nil
}

// claimFrom claims from a template that nothing else uses, so it needs no copy. Each round goes on
// from where the round before came to.
func (b *bench) claimFrom(ctx context.Context, template string, due int, name string) error {
	db, err := b.cluster.open(ctx, template)
	if err != nil {
		return err
	}
	defer db.pool.Close()
	if err := db.warm(ctx); err != nil {
		return err
	}
	var mark time.Time
	return b.rounds(ctx, "claims", b.Rounds, []entry{{
		name: name, contract: "the store's claim of 100 events; most other rows are COMPLETED",
		run: func(ctx context.Context) ([]reading, error) {
			if _, err := db.pool.Exec(ctx, "CHECKPOINT"); err != nil {
				return nil, err
			}
			return b.claimInFront(ctx, db, due, &mark)
		},
	}})
}

// allClaims is how many events the claims of all rounds take.
func (b *bench) allClaims() int { return b.Rounds * (unmeasured + maxClaims) * claimSize }

// claimInFront claims a hundred at a time. Where fewer are due than all claims take, each
// claim is released before the next.
func (b *bench) claimInFront(ctx context.Context, db database, due int, mark *time.Time) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	var took []float64
	for n := range unmeasured + maxClaims {
		began := time.Now()
		claim, err := claimBatch(ctx, store, claimSize, mark)
		if err != nil {
			return nil, err
		}
		if len(claim.Events) < claimSize {
			break // nothing more is due
		}
		if n >= unmeasured {
			took = append(took, millis(time.Since(began)))
		}
		if due < b.allClaims() {
			if _, err := store.Release(ctx, claim.Events[0].LeaseToken); err != nil {
				return nil, err
			}
		}
	}
	return claimTimes(took)
}

func claimTimes(took []float64) ([]reading, error) {
	if len(took) == 0 {
		return nil, errors.New("nothing was claimed")
	}
	slices.Sort(took)
	return []reading{{"p50", "ms", quantile(took, 0.5)}, {"p95", "ms", quantile(took, 0.95)}, {"claims", "", float64(len(took))}}, nil
}

// horizon measures claims while a backlog is worked off, with and without an old
// transaction that keeps vacuum from removing what was claimed before.
func (b *bench) horizon(ctx context.Context) error {
	const section = "horizon"
	for _, old := range []struct {
		name string
		open bool
	}{{"no old transaction", false}, {"an old transaction", true}} {
		if !b.chosen(section, old.name) {
			continue
		}
		if err := b.agedBacklog(ctx); err != nil {
			return err
		}
		err := b.cluster.with(ctx, aged, func(db database) error {
			if !old.open {
				return b.age(ctx, db, old.name)
			}
			return besideSnapshot(ctx, db, func() error { return b.age(ctx, db, old.name) })
		})
		if err != nil {
			return fmt.Errorf("%s/%s: %w", section, old.name, err)
		}
	}
	return nil
}

// aged is the template of the backlog that horizon and recovery work off.
const aged = "aged"

func (b *bench) agedBacklog(ctx context.Context) error {
	return b.template(ctx, aged, func(ctx context.Context, db database) error {
		if err := migrateAlmanac(ctx, db); err != nil {
			return err
		}
		return storeMany(ctx, db, load{count: b.Aged})
	})
}

// besideSnapshot calls do while a REPEATABLE READ transaction holds its snapshot.
func besideSnapshot(ctx context.Context, db database, do func() error) error {
	return pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT count(*) FROM almanac.leases"); err != nil {
			return err
		}
		return do()
	})
}

// age works a backlog off and reports on each slice of it. Every other claim is a
// large one, which gets on; the time of the small ones between is measured.
func (b *bench) age(ctx context.Context, db database, name string) error {
	store, err := postgres.New(db.pool)
	if err != nil {
		return err
	}
	var mark time.Time
	for slice := range agedSlices {
		var took []float64
		began, done, part := time.Now(), 0, b.Aged/agedSlices
		for large := false; done < part; large = !large {
			size := claimSize
			if large {
				size = min(loopBatch, part-done)
			}
			asked := time.Now()
			claim, err := claimBatch(ctx, store, size, &mark)
			if err != nil {
				return err
			}
			if len(claim.Events) == 0 {
				break
			}
			if !large {
				took = append(took, millis(time.Since(asked)))
			}
			if err := settleBatch(ctx, store, claim); err != nil {
				return err
			}
			done += len(claim.Events)
		}
		readings, err := claimTimes(took)
		if err != nil {
			return err
		}
		readings = append(readings, reading{"rate", "events/s", float64(done) / time.Since(began).Seconds()})
		row := b.report.declare("horizon", fmt.Sprintf("%s, from %d on", name, slice*part),
			"claims of 100 beside claims of 1,000, settled with successors one after the other")
		row.add(readings)
		b.logf("horizon/%s: %s", row.Name, said(readings))
	}
	return nil
}

const (
	recoveryLease = 1000 // events of one lease
	recoveryStep  = 2000 // events that are released at once, as a sweep does
	recoveryOwner = "dead"
)

// abandoned leases everything that is pending to workers that are dead.
//
//	$1 integer (events of one lease) · $2 text (the owner)
const abandoned = `
	WITH taken AS (
		DELETE FROM almanac.queue RETURNING series_id, event_id
	), numbered AS (
		SELECT *, (row_number() OVER () - 1) / $1::integer AS batch FROM taken
	)
	INSERT INTO almanac.leases (token, owner, series_ids, event_ids, versions, claimed_at, expires_at)
	SELECT gen_random_uuid(), $2, array_agg(series_id), array_agg(event_id), array_agg(1), now() - interval '2 minutes', now() - interval '1 minute'
	FROM numbered
	GROUP BY batch`

// recovery measures how fast the events of dead workers are released.
func (b *bench) recovery(ctx context.Context) error {
	const section = "recovery"
	name := fmt.Sprintf("%d events", b.Aged)
	if !b.chosen(section, name) {
		return nil
	}
	if err := b.agedBacklog(ctx); err != nil {
		return err
	}
	run := b.cluster.on(aged, func(ctx context.Context, db database) ([]reading, error) { return recoverAll(ctx, db, b.Aged) })
	contract := "events in the expired leases of dead workers, released in steps by one process"
	return b.rounds(ctx, section, 1, []entry{{name: name, contract: contract, run: run}})
}

func recoverAll(ctx context.Context, db database, events int) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, abandoned, recoveryLease, recoveryOwner); err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, "VACUUM ANALYZE almanac.queue, almanac.leases"); err != nil {
		return nil, err
	}
	var longest time.Duration
	began := time.Now()
	for released := 0; released < events; {
		asked := time.Now()
		step, err := store.ReleaseExpired(ctx, recoveryStep, 1000)
		if err == nil && len(step) == 0 {
			err = fmt.Errorf("%d of %d events were released", released, events)
		}
		if err != nil {
			return nil, err
		}
		released, longest = released+len(step), max(longest, time.Since(asked))
	}
	return []reading{{"rate", "events/s", float64(events) / time.Since(began).Seconds()}, {"longest step", "ms", millis(longest)}}, nil
}
