package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

const (
	alone       = "alone" // the row without a neighbour, and the base of the ratios
	heldUsers   = 10      // users whose rows a transaction of the host holds
	besideTries = 60      // claims and edits that are measured in a round
	besideFirst = 20      // of each that are not: they prepare statements and write pages to the log in full
	besideStep  = 5 * time.Millisecond
)

// beside measures what neighbours do to throughput, lateness, claims and edits. In each
// round every neighbour is compared with nothing beside it.
func (b *bench) beside(ctx context.Context) error {
	const section = "beside"
	var entries []entry
	for _, n := range b.neighbours() {
		if !b.chosen(section, n.name) {
			continue
		}
		template, err := b.neighbourhood(ctx, n)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: n.name, contract: n.contract, run: b.cluster.on(template, func(ctx context.Context, db database) ([]reading, error) {
			return b.figures(ctx, db, n)
		})})
	}
	if err := b.rounds(ctx, section, b.Rounds, entries); err != nil {
		return err
	}
	b.report.timesAlone(section, alone)
	return nil
}

// neighbourhood prepares a database with a backlog, with far-off events, and with a neighbour.
func (b *bench) neighbourhood(ctx context.Context, n neighbour) (template string, err error) {
	template = "beside_nothing"
	if n.fill != nil {
		template = "beside " + n.name
	}
	return template, b.template(ctx, template, func(ctx context.Context, db database) error {
		if err := migrateAlmanac(ctx, db); err != nil {
			return err
		}
		scheduler, err := newScheduler(db.pool, hooks{})
		if err != nil {
			return err
		}
		whom := profile(0)
		whom.ID = edited
		if _, err := scheduler.CreateUser(ctx, whom); err != nil {
			return err
		}
		store, err := postgres.New(db.pool)
		if err != nil {
			return err
		}
		if err := store.Pause(ctx, almanac.Pause{Lane: pausedType}); err != nil {
			return err
		}
		far := load{count: b.Beside, first: time.Now().AddDate(1, 0, 0), step: time.Minute}
		return db.inBulk(ctx, func(conn *pgxpool.Conn) error {
			for _, o := range []load{far, {count: b.Beside}} {
				if err := o.storeOn(ctx, conn); err != nil {
					return err
				}
			}
			if n.fill == nil {
				return nil
			}
			return n.fill(ctx, conn)
		})
	})
}

// figures takes all figures, one after the other, on one database.
func (b *bench) figures(ctx context.Context, db database, n neighbour) (readings []reading, err error) {
	if n.old {
		n.old = false
		err = besideSnapshot(ctx, db, func() error {
			readings, err = b.figures(ctx, db, n)
			return err
		})
		return readings, err
	}
	for _, take := range []func(context.Context, database, neighbour) ([]reading, error){b.workBeside, b.lateBeside, b.claimBeside, b.editBeside} {
		taken, err := take(ctx, db, n)
		if err != nil {
			return nil, err
		}
		readings = append(readings, taken...)
	}
	return readings, nil
}

// during calls do while the neighbour's transaction is open, and rolls it back.
func (n neighbour) during(ctx context.Context, db database, do func() error) error {
	if n.holds == nil {
		return do()
	}
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	err = n.holds(ctx, tx)
	if err == nil {
		err = do()
	}
	return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
}

// workBeside works the backlog off, but for events that wait for the neighbour.
func (b *bench) workBeside(ctx context.Context, db database, n neighbour) ([]reading, error) {
	p, err := b.runBeside(ctx, db, n, load{count: b.Beside})
	return []reading{{"backlog", "events/s", p.tally.rate()}}, err
}

// lateBeside stores events that are due one after the other, and measures how late they start.
func (b *bench) lateBeside(ctx context.Context, db database, n neighbour) ([]reading, error) {
	o := load{count: min(300, b.Beside), first: time.Now().Add(lead / 3), step: besideStep}
	if err := storeUsers(ctx, db, o); err != nil {
		return nil, err
	}
	p, err := b.runBeside(ctx, db, n, o)
	if err != nil {
		return nil, err
	}
	late := p.starts.seen()
	return []reading{{"late p50", "ms", quantile(late, 0.5)}, {"late p95", "ms", quantile(late, 0.95)}}, nil
}

// runBeside runs a process until it has stored all that it can beside the neighbour.
func (b *bench) runBeside(ctx context.Context, db database, n neighbour, o load) (p punctuality, err error) {
	p.starts = newStarts(o.count)
	m := newMeter(o.count - n.kept)
	var r *running
	err = n.during(ctx, db, func() error {
		m.began = time.Now()
		if r, err = startHandlers(ctx, db, hooks{started: p.starts.note, stored: m.one}, paused{}); err != nil {
			return err
		}
		p.tally, err = m.wait(ctx, 2*b.Limit)
		if err == nil && p.tally.done < o.count-n.kept {
			err = fmt.Errorf("%d of %d events were stored", p.tally.done, o.count-n.kept)
		}
		return err
	})
	if r != nil { // only now could all be stored
		err = errors.Join(err, r.stop())
	}
	return p, err
}

// claimBeside claims from where the claim before came to, as Run mostly does, and from the
// beginning, as Run does after a hint and every few seconds. What it claims stays in flight.
func (b *bench) claimBeside(ctx context.Context, db database, n neighbour) (readings []reading, err error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if err := storeUsers(ctx, db, load{count: 2 * (besideFirst + besideTries) * claimSize}); err != nil {
		return nil, err
	}
	types := []string{almanac.TypeBirthday, "APPOINTMENT", pausedType}
	claim := func(mark *time.Time) error {
		claim, err := store.Claim(ctx, almanac.ClaimRequest{
			Token: uuid.New(), Owner: "bench", Types: types, Limit: claimSize, Lease: time.Minute, Mark: *mark,
		})
		if err == nil && len(claim.Events) < claimSize-n.kept {
			err = fmt.Errorf("%d events were claimed of %d", len(claim.Events), claimSize)
		}
		*mark = claim.Reached
		return err
	}
	err = n.during(ctx, db, func() error {
		var mark time.Time
		onwards, err := timed("claim", func(int) error { return claim(&mark) })
		if err != nil {
			return err
		}
		first, err := timed("claim from the start", func(int) error { return claim(new(time.Time)) })
		readings = append(onwards, first...)
		return err
	})
	return readings, err
}

// editBeside edits one user.
func (b *bench) editBeside(ctx context.Context, db database, n neighbour) (readings []reading, err error) {
	scheduler, err := newScheduler(db.pool, hooks{})
	if err != nil {
		return nil, err
	}
	err = n.during(ctx, db, func() error {
		readings, err = timed("edit", func(i int) error {
			name := fmt.Sprintf("Ada %d", i)
			_, err := scheduler.UpdateUser(ctx, edited, almanac.ProfileChange{FirstName: &name})
			return err
		})
		return err
	})
	return readings, err
}

// timed returns how long an operation takes, once it has been done for a while.
func timed(name string, do func(n int) error) ([]reading, error) {
	var took []float64
	for n := range besideFirst + besideTries {
		began := time.Now()
		if err := do(n); err != nil {
			return nil, err
		}
		if n >= besideFirst {
			took = append(took, millis(time.Since(began)))
		}
	}
	return []reading{{name, "ms", median(took)}}, nil
}

// edited is the user who is edited. Some neighbours give them a past.
var edited = uuid.MustParse("0198a1f0-7c3e-7d6a-9b1f-0a1b2c3d4e5f")

// neighbour is something beside which Almanac should be as fast as it is alone.
type neighbour struct {
	name     string
	contract string
	fill     func(ctx context.Context, conn *pgxpool.Conn) error // stores it; nil for nothing
	holds    func(ctx context.Context, tx pgx.Tx) error          // what a transaction does that is open while a figure is taken; nil for none
	kept     int                                                 // how many events wait for that transaction
	old      bool                                                // a transaction is open while all figures are taken
}

func (b *bench) neighbours() []neighbour {
	due := func(eventType string) func(context.Context, *pgxpool.Conn) error {
		return func(ctx context.Context, conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, waiting, eventType, b.Waiting)
			return err
		}
	}
	return []neighbour{
		{name: alone, contract: "nothing beside it"},
		{name: fmt.Sprintf("%d due of a paused type", b.Waiting), contract: "the type has a handler, and is paused", fill: due(pausedType)},
		{name: fmt.Sprintf("%d due of an unhandled type", b.Waiting), contract: "the process has no handler of the type", fill: due("UNHANDLED")},
		{
			name: fmt.Sprintf("a transaction on %d users", heldUsers), contract: "it has updated the users whose events are due first, and stays open",
			holds: holdUsers, kept: heldUsers,
		},
		{name: "an old transaction", contract: "REPEATABLE READ; it keeps what events leave behind from being removed", old: true},
		{name: fmt.Sprintf("%d ended events of the user", b.Ended), contract: "the edited user has as many ended follow-ups, and as many ended birthdays", fill: func(ctx context.Context, conn *pgxpool.Conn) error {
			for _, sql := range []string{endedSeries, endedOfUser} {
				if _, err := conn.Exec(ctx, sql, edited, b.Ended); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: fmt.Sprintf("%d ended events of all", b.History), contract: "of the users whose events are due", fill: func(ctx context.Context, conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, endedOfAll, b.History)
			return err
		}},
	}
}

// holdUsers updates the users whose events are due first, as a host does in a transaction of its own.
func holdUsers(ctx context.Context, tx pgx.Tx) error {
	tag, err := tx.Exec(ctx, `
		UPDATE almanac.users
		SET first_name = 'Grace', version = version + 1
		WHERE id IN (
			SELECT s.user_id
			FROM almanac.queue q
			JOIN almanac.series s ON s.id = q.series_id
			WHERE q.event_type = 'BIRTHDAY' AND s.user_id <> $1
			ORDER BY q.available_at, q.event_id
			LIMIT $2)`, edited, heldUsers)
	if err == nil && tag.RowsAffected() != heldUsers {
		err = fmt.Errorf("%d users are held", tag.RowsAffected())
	}
	return err
}

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
	INSERT INTO almanac.series (user_id, event_type, name, current_user_version, used_key, used_nominal, used_local, occurrence_key, target_timestamp_utc,
		target_timestamp_local, target_timezone, policies, idempotency_key, delivery_payload, user_version, detached, origin)
	SELECT $1, 'GIFT', '', 1, n, now(), now(), n, now(), now(), 'UTC', 'forward,first,feb28,clamp',
		'event-' || n, '{}', 1, 'follow-up:' || n, 'follow-up'
	FROM generate_series(1, $2::integer) n`

// endedOfUser gives a user birthdays that have ended.
//
//	$1 uuid (of the user) · $2 integer (how many)
const endedOfUser = `
	INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
		target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, retry_count, claim_count,
		crash_count, version, created_at, updated_at)
	SELECT gen_random_uuid(), $1::uuid, 'BIRTHDAY', n, 'COMPLETED', due, due AT TIME ZONE 'UTC', 'UTC', 'forward,first,feb28,clamp', 'event-' || n, '{}',
		1, gen_random_uuid(), due, 0, 1, 0, 3, due, due
	FROM generate_series(1, $2::integer) n, LATERAL (SELECT now() - n * interval '1 day') d (due)`

// endedOfAll gives all users birthdays that have ended, as many to each, in the order in which
// they ended.
//
//	$1 bigint (how many)
const endedOfAll = `
	WITH ended AS (
		INSERT INTO almanac.history (id, user_id, event_type, occurrence_key, status, target_timestamp_utc, target_timestamp_local,
			target_timezone, policies, idempotency_key, delivery_payload, user_version, lease_token, executed_at, retry_count, claim_count,
			crash_count, version, created_at, updated_at)
		SELECT (lpad(to_hex(1000000000000 + row_number() OVER ()), 12, '0') || '70008000000000000000')::uuid, u.id, 'BIRTHDAY', year, 'COMPLETED',
			due, due AT TIME ZONE 'UTC', 'UTC', 'forward,first,feb28,clamp', 'event-' || left(md5(u.id::text || year), 16),
			'{"message": "Hey, Ada Lovelace it''s your birthday"}', 1, u.id, due, 0, 1, 0, 3, due, due
		FROM (SELECT count(*) AS count FROM almanac.users) c, LATERAL generate_series(1, greatest(1, $1::bigint / c.count)) year,
			LATERAL (SELECT timestamptz '1900-01-01 09:00Z' + year * interval '1 day') d (due), almanac.users u
		RETURNING idempotency_key
	)
	INSERT INTO almanac.keys (idempotency_key)
	SELECT idempotency_key
	FROM ended`
