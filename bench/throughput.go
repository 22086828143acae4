package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// contestant is a row of the throughput section.
type contestant struct {
	name     string
	contract string
	lacks    string
	template string
	fill     func(ctx context.Context, db database) error
	run      func(ctx context.Context, db database, want int, limit time.Duration) (tally, error)
	check    func(ctx context.Context, db database, done int) error
	slow     bool // a rate over a third of the limit will do
	apart    bool // it runs in a program of its own, which is new for each run
}

// throughput measures how fast a backlog is worked off, and what an event of it costs.
func (b *bench) throughput(ctx context.Context) error {
	const section = "throughput"
	var entries []entry
	for _, c := range b.contestants() {
		if !b.chosen(section, c.name) {
			continue
		}
		if err := b.template(ctx, c.template, c.fill); err != nil {
			return err
		}
		if !c.slow && !c.apart {
			if _, err := b.race(ctx, c, b.Limit/8); err != nil && !errors.Is(err, errNothing) {
				return fmt.Errorf("%s/%s, warming up: %w", section, c.name, err)
			}
		}
		limit := b.Limit
		if c.slow {
			limit /= 3
		}
		entries = append(entries, entry{c.name, c.contract, c.lacks, func(ctx context.Context) ([]reading, error) {
			t, err := b.race(ctx, c, limit)
			if errors.Is(err, errNothing) { // on a busy machine a slow row may need longer for its first event
				t, err = b.race(ctx, c, 4*limit)
			}
			if err != nil {
				return nil, err
			}
			b.report.declare(costs, c.name, "processor time, log and allocations of an event of the throughput section").add(t.spent.readings(t.done))
			return []reading{{"rate", "events/s", t.rate()}}, nil
		}})
	}
	if err := b.rounds(ctx, section, b.Rounds, entries); err != nil {
		return err
	}
	for _, base := range []string{baseline, riverSuccessor, pgBossSuccessor} {
		b.report.compare(section, base)
	}
	return nil
}

// race runs a contestant once, on a copy of its database.
func (b *bench) race(ctx context.Context, c contestant, limit time.Duration) (t tally, err error) {
	err = b.cluster.with(ctx, c.template, func(db database) error {
		if t, err = c.run(ctx, db, b.Events, limit); err != nil {
			return err
		}
		return c.check(ctx, db, t.done)
	})
	return t, err
}

// contestants are the rows: first those that store a successor, then those that do not.
func (b *bench) contestants() []contestant {
	ours, tuned, theirs, succeeding := almanacSystem(), almanacGOGC(), riverSystem(), riverSuccessorSystem()
	list := []contestant{
		ours.contestant("nothing", b.Events, checkAlmanac),
		tuned.contestant("nothing", b.Events, checkAlmanac),
		almanacLane().contestant("nothing", b.Events, checkAlmanac),
		almanacBatch().contestant("nothing", b.Events, checkAlmanac),
		{
			name: "almanac-loop", contract: "the store's claim and settle without the engine, 1,000 at a time: the library's own ceiling",
			lacks: "retries, renewed leases, limits, a stop in good order", template: ours.template + "_backlog", fill: ours.backlog(b.Events), run: runLoop, check: checkAlmanac,
		},
		succeeding.contestant("users, zones, keys for ever, a fence", b.Events, checkRiverSuccessor),
		{
			name: "seeds", contract: "the loop of the seeds on their tables; one transaction ends an event and inserts its unique successor",
			lacks: "recovery, a fence", template: "seeds_backlog", fill: fillSeeds(b.Events), run: runSeeds, check: checkSeeds, slow: true,
		},
	}
	list = append(list, b.nodeContestants(true)...)
	list = append(list, theirs.contestant("a successor; users, zones, keys for ever, a fence", b.Events, checkRiver))
	return append(list, b.nodeContestants(false)...)
}

// contestant makes a row of a system.
func (s system) contestant(lacks string, events int, check func(context.Context, database, int) error) contestant {
	return contestant{
		name: s.name, contract: s.contract, lacks: lacks, template: s.template + "_backlog", fill: s.backlog(events), run: s.workOff, check: check,
		slow: s.name == riverSuccessor,
	}
}

// backlog fills a database with events that are overdue.
func (s system) backlog(events int) func(context.Context, database) error {
	return func(ctx context.Context, db database) error {
		if err := s.migrate(ctx, db); err != nil {
			return err
		}
		return s.store(ctx, db, load{count: events})
	}
}

// workOff starts the system on a backlog and waits until it is worked off.
func (s system) workOff(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
	m, err := db.meter(ctx, want)
	if err != nil {
		return tally{}, err
	}
	r, err := s.start(ctx, db, hooks{stored: m.one})
	if err != nil {
		return tally{}, err
	}
	t, err := m.wait(ctx, limit)
	return t, errors.Join(err, r.stop())
}

// loopBatch is how many events the bare loop claims and settles at a time.
const loopBatch = 1000

// runLoop claims on one connection and settles on another, side by side, with the
// library's statements and without its engine.
func runLoop(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return tally{}, err
	}
	m, err := db.meter(ctx, want)
	if err != nil {
		return tally{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	claims := make(chan almanac.ClaimResult, 1)
	claiming := make(chan struct{})
	go func() {
		defer close(claiming)
		defer close(claims)
		var mark time.Time
		for time.Since(m.began) < limit {
			claim, err := claimBatch(ctx, store, loopBatch, &mark)
			if err != nil {
				cancel(err)
				return
			}
			if len(claim.Events) == 0 {
				return
			}
			claims <- claim
		}
	}()
	for claim := range claims {
		if err := settleBatch(ctx, store, claim); err != nil {
			cancel(err)
			continue // until the claims end
		}
		m.add(len(claim.Events))
	}
	<-claiming
	if cause := context.Cause(ctx); cause != nil {
		return tally{}, cause
	}
	return m.tally(ctx)
}

// claimBatch claims events after a mark, and moves the mark to where the claim ended, as Run does.
func claimBatch(ctx context.Context, store *postgres.Store, limit int, mark *time.Time) (almanac.ClaimResult, error) {
	claim, err := store.Claim(ctx, almanac.ClaimRequest{
		Token: uuid.New(), Owner: "bench", Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute, Mark: *mark,
	})
	if !claim.Reached.IsZero() {
		*mark = claim.Reached
	}
	return claim, err
}

// settleBatch completes what was claimed and stores the successors.
func settleBatch(ctx context.Context, store *postgres.Store, claim almanac.ClaimResult) error {
	settlements := make([]almanac.Settlement, len(claim.Events))
	for i, e := range claim.Events {
		settlements[i] = almanac.Settlement{Event: e, User: claim.Users[e.UserID], Outcome: almanac.Delivered(claim.At), Next: nextBirthday}
	}
	settled, err := store.Settle(ctx, settlements)
	if err != nil {
		return err
	}
	for _, s := range settled {
		if err := errors.Join(s.Err, s.PlanErr); err != nil || s.Successor == nil {
			return fmt.Errorf("event %s was not settled with a successor: %w", s.Event.ID, err)
		}
	}
	return nil
}

func nextBirthday(u almanac.User, now time.Time) (almanac.Event, error) {
	o, err := almanac.Birthday{}.Next(u, now)
	if err != nil {
		return almanac.Event{}, err
	}
	return almanac.NewEvent(u, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
}

//go:embed seeds.sql
var seedsSQL string

// oweSeeds stores users with an overdue event each, in the same order as owe.sql.
const oweSeeds = `
	WITH owed AS MATERIALIZED (
		SELECT gen_random_uuid() AS user_id, n, date_trunc('day', now(), 'UTC') + interval '9 hours' - (2 + abs(hashint4(n) % 299)) * interval '1 day' AS due
		FROM generate_series(1, $1::integer) n
	), people AS (
		INSERT INTO users (id, first_name, last_name, date_of_birth, timezone)
		SELECT user_id, 'Ada', 'Lovelace ' || n, (due - interval '28 years')::date, 'UTC' FROM owed
	)
	INSERT INTO events (user_id, status, target_timestamp_utc, target_timestamp_local, target_timezone, idempotency_key, delivery_payload)
	SELECT user_id, 'PENDING', due, due, 'UTC', 'event-' || left(md5(user_id::text), 16),
		jsonb_build_object('message', 'Hey, Ada Lovelace ' || n || ' it''s your birthday')
	FROM owed`

// The statements of the seeds' loop.
const (
	seedsSelect = `
		SELECT id, user_id, target_timestamp_utc, version, delivery_payload FROM events
		WHERE status = 'PENDING' AND target_timestamp_utc <= now()
		ORDER BY target_timestamp_utc
		LIMIT 100
		FOR UPDATE SKIP LOCKED`
	seedsClaim    = `UPDATE events SET status = 'PROCESSING', version = version + 1 WHERE id = ANY ($1)`
	seedsComplete = `UPDATE events SET status = 'COMPLETED', version = version + 1, executed_at = now() WHERE id = $1 AND version = $2`
	seedsSucceed  = `
		INSERT INTO events (user_id, status, target_timestamp_utc, target_timestamp_local, target_timezone, idempotency_key, delivery_payload)
		VALUES ($1, 'PENDING', $2, $2, 'UTC', $3, $4)`
)

type seedEvent struct {
	ID      string
	UserID  string
	Due     time.Time
	Version int
	Payload json.RawMessage
}

func fillSeeds(events int) func(context.Context, database) error {
	return func(ctx context.Context, db database) error {
		if _, err := db.pool.Exec(ctx, seedsSQL); err != nil {
			return err
		}
		_, err := db.pool.Exec(ctx, oweSeeds, events)
		return err
	}
}

// runSeeds claims a hundred and then ends each by itself, in a transaction.
func runSeeds(ctx context.Context, db database, want int, limit time.Duration) (tally, error) {
	m, err := db.meter(ctx, want)
	if err != nil {
		return tally{}, err
	}
	for n := m.n.Load(); n < m.want && time.Since(m.began) < limit; n = m.n.Load() {
		var claimed []seedEvent
		err := pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, seedsSelect)
			if err != nil {
				return err
			}
			if claimed, err = pgx.CollectRows(rows, pgx.RowToStructByPos[seedEvent]); err != nil {
				return err
			}
			ids := make([]string, len(claimed))
			for i, e := range claimed {
				ids[i] = e.ID
			}
			_, err = tx.Exec(ctx, seedsClaim, ids)
			return err
		})
		if err != nil {
			return tally{}, err
		}
		for _, e := range claimed {
			if err := endSeed(ctx, db, e); err != nil {
				return tally{}, err
			}
			m.one()
		}
	}
	return m.tally(ctx)
}

// checkSeeds makes sure that each event that has ended has its successor.
func checkSeeds(ctx context.Context, db database, done int) error {
	var completed, followed int
	err := db.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'PENDING' AND target_timestamp_utc > now())
		FROM events`).Scan(&completed, &followed)
	if err == nil && (completed < done || completed != followed) {
		err = fmt.Errorf("counted %d events, but %d are COMPLETED and %d have a successor", done, completed, followed)
	}
	return err
}

func endSeed(ctx context.Context, db database, e seedEvent) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, seedsComplete, e.ID, e.Version+1); err != nil {
			return err
		}
		due := e.Due.AddDate(1, 0, 0)
		key := almanac.NewIdempotencyKey(e.UserID, due, almanac.TypeBirthday)
		_, err := tx.Exec(ctx, seedsSucceed, e.UserID, due, key.String(), e.Payload)
		return err
	})
}
