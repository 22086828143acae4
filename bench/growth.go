package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

const (
	growthTries   = 40   // operations that are measured in a round, after as many that are not
	growthClaim   = 1000 // events of one lease
	recoveryStep  = 2000 // events that are released at once, as a sweep does
	recoveryOwner = "dead"
)

// waiting fills the queue with events of one type that have been due for days.
//
//	$1 text (the type) · $2 integer (how many)
const waiting = `
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, delayed_from)
	SELECT now() - interval '400 days' + n * interval '10 ms', gen_random_uuid(), -n, $1, NULL
	FROM generate_series(1, $2::integer) n`

// endedSeries gives a user follow-ups that have ended.
//
//	$1 uuid (of the user) · $2 integer (how many)
const endedSeries = `
	INSERT INTO almanac.series (user_id, event_type, name, current_user_version, used_key, occurrence_key, target_timestamp_utc,
		target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, detached, origin)
	SELECT $1, 'GIFT', '', 1, n, n, now(), now(), 'UTC', 'forward,first,feb28,clamp',
		'event-' || n, '{}', 1, 'follow-up:' || n, 'follow-up'
	FROM generate_series(1, $2::integer) n`

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

// timed returns how long an operation takes, once it has been done for a while.
func timed(do func(n int) error) ([]reading, error) {
	var took []float64
	for n := range 2 * growthTries {
		began := time.Now()
		if err := do(n); err != nil {
			return nil, err
		}
		if n >= growthTries {
			took = append(took, millis(time.Since(began)))
		}
	}
	slices.Sort(took)
	return []reading{{"p50", "ms", quantile(took, 0.5)}, {"p95", "ms", quantile(took, 0.95)}}, nil
}

// backlog measures claims that begin at the beginning beside due events of types that
// are paused or not handled.
func (b *bench) backlog(ctx context.Context) error {
	var entries []entry
	for _, types := range [][]string{{almanac.TypeBirthday}, {almanac.TypeBirthday, "DIGEST", "PAUSED"}} {
		for _, others := range []int{0, b.Waiting} {
			name := fmt.Sprintf("%d types, %d due of a paused type and of one without a handler", len(types), others)
			entries = append(entries, b.on(name, "claims of 100 from the beginning, as after a hint", func(ctx context.Context, db database) ([]reading, error) {
				return claimBeside(ctx, db, types, others)
			}))
		}
	}
	return b.growing(ctx, "backlog", b.Rounds, entries)
}

func claimBeside(ctx context.Context, db database, types []string, others int) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if err := storeUsers(ctx, db, load{count: 2 * growthTries * claimSize}); err != nil {
		return nil, err
	}
	for _, eventType := range []string{"PAUSED", "UNHANDLED"} {
		if _, err := db.pool.Exec(ctx, waiting, eventType, others); err != nil {
			return nil, err
		}
	}
	if err := store.Pause(ctx, "PAUSED"); err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, "VACUUM ANALYZE almanac.queue, almanac.series, almanac.users"); err != nil {
		return nil, err
	}
	return timed(func(int) error {
		claim, err := store.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Owner: "bench", Types: types, Limit: claimSize, Lease: time.Minute})
		if err == nil && len(claim.Events) < claimSize {
			err = fmt.Errorf("%d events were claimed of %d", len(claim.Events), claimSize)
		}
		return err
	})
}

// edits measures edits of users with and without a past, and with and without events of
// others in flight.
func (b *bench) edits(ctx context.Context) error {
	var entries []entry
	for _, ended := range []int{0, b.Ended} {
		for _, inFlight := range []int{0, b.InFlight} {
			name := fmt.Sprintf("%d ended series, %d events in flight", ended, inFlight)
			entries = append(entries, b.on(name, "UpdateUser, of the name", func(ctx context.Context, db database) ([]reading, error) {
				return editBeside(ctx, db, ended, inFlight)
			}))
		}
	}
	return b.growing(ctx, "edits", b.Rounds, entries)
}

func editBeside(ctx context.Context, db database, ended, inFlight int) ([]reading, error) {
	scheduler, err := newScheduler(db.pool, ears{})
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	enrolled, err := scheduler.CreateUser(ctx, profile(0))
	if err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, endedSeries, enrolled.User.ID, ended); err != nil {
		return nil, err
	}
	if err := storeUsers(ctx, db, load{count: inFlight}); err != nil {
		return nil, err
	}
	var mark time.Time
	for left := inFlight; left > 0; left -= growthClaim {
		if _, err := claimBatch(ctx, store, min(left, growthClaim), &mark); err != nil {
			return nil, err
		}
	}
	if _, err := db.pool.Exec(ctx, "VACUUM ANALYZE almanac.queue, almanac.series, almanac.users"); err != nil {
		return nil, err
	}
	return timed(func(n int) error {
		name := fmt.Sprintf("Ada %d", n)
		_, err := scheduler.UpdateUser(ctx, enrolled.User.ID, almanac.ProfileChange{FirstName: &name})
		return err
	})
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
	if _, err := db.pool.Exec(ctx, abandoned, growthClaim, recoveryOwner); err != nil {
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
