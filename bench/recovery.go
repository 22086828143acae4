package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/almanac-go/almanac/postgres"
)

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

// on prepares an entry that runs on a copy of the empty tables.
func (b *bench) on(name, contract string, run func(ctx context.Context, db database) ([]reading, error)) entry {
	return entry{name: name, contract: contract, run: func(ctx context.Context) (readings []reading, err error) {
		err = b.cluster.with(ctx, almanacSystem().template, func(db database) error {
			readings, err = run(ctx, db)
			return err
		})
		return readings, err
	}}
}

// growing runs the entries of a section that were chosen.
func (b *bench) growing(ctx context.Context, section string, rounds int, entries []entry) error {
	entries = slices.DeleteFunc(entries, func(e entry) bool { return !b.chosen(section, e.name) })
	if len(entries) == 0 {
		return nil
	}
	if err := b.template(ctx, almanacSystem().template, migrateAlmanac); err != nil {
		return err
	}
	return b.rounds(ctx, section, rounds, entries)
}

// recovery measures how fast the events of dead workers are released.
func (b *bench) recovery(ctx context.Context) error {
	name := fmt.Sprintf("%d events", b.Dead)
	return b.growing(ctx, "recovery", 1, []entry{b.on(name, "events in the expired leases of dead workers, released in steps by one process",
		func(ctx context.Context, db database) ([]reading, error) { return recoverAll(ctx, db, b.Dead) })})
}

func recoverAll(ctx context.Context, db database, events int) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if err := storeUsers(ctx, db, load{count: events}); err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, abandoned, recoveryLease, recoveryOwner); err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, "VACUUM ANALYZE almanac.queue, almanac.series, almanac.users, almanac.leases"); err != nil {
		return nil, err
	}
	var longest time.Duration
	began := time.Now()
	for released := 0; released < events; {
		asked := time.Now()
		step, err := store.ReleaseExpired(ctx, recoveryStep)
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
