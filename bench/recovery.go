package main

import (
	"context"
	"fmt"
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
