package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// laned is a birthday in the lane that it was given in bulk.
type laned struct {
	almanac.Birthday
	lanes map[uuid.UUID]string // by user
}

func (l laned) Lane(u almanac.User, _ almanac.Occurrence) string { return l.lanes[u.ID] }

// besideLanes measures single calls: an edit of a user whose event is ahead, and how long
// it is until the next event.
func besideLanes(ctx context.Context, db database) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	handler := laned{lanes: make(map[uuid.UUID]string)}
	rows, err := db.pool.Query(ctx, `
		SELECT user_id, lane
		FROM almanac.series
		WHERE event_id IS NOT NULL AND target_timestamp_utc > now()
		ORDER BY id
		LIMIT $1`, besideFirst+besideTries)
	if err != nil {
		return nil, err
	}
	var users []uuid.UUID
	var user uuid.UUID
	var lane string
	_, err = pgx.ForEachRow(rows, []any{&user, &lane}, func() error {
		users, handler.lanes[user] = append(users, user), lane
		return nil
	})
	if err != nil {
		return nil, err
	}
	scheduler, err := newSchedulerOf(db.pool, hooks{}, []almanac.EventHandler{handler})
	if err != nil {
		return nil, err
	}
	var readings []reading
	for _, call := range []struct {
		name string
		do   func(n int) error
	}{
		{"edit", func(n int) error {
			name := fmt.Sprintf("Ada %d", time.Now().UnixNano())
			_, err := scheduler.UpdateUser(ctx, users[n%len(users)], almanac.ProfileChange{FirstName: &name})
			return err
		}},
		{"Until", func(int) error {
			_, _, err := store.Until(ctx, []string{almanac.TypeBirthday}, time.Time{})
			return err
		}},
	} {
		took, err := timed(call.name, call.do)
		if err != nil {
			return nil, err
		}
		readings = append(readings, took...)
	}
	return readings, nil
}

// laneSteps is how many claims a lane with a rate of 50 sees in an hour, about twenty a second.
const laneSteps = 72_000

// step replaces the state of a lane as often as an hour of claims does, each time in a transaction of its own.
const step = `
	DO $$
	BEGIN
		PERFORM set_config('synchronous_commit', 'off', false), set_config('enable_seqscan', 'off', false); -- it would read all versions
		FOR n IN 1..%d LOOP
			UPDATE almanac.lane_states
			SET step = step + 1
			WHERE ctid = (SELECT s.ctid FROM almanac.lane_states s WHERE s.lane = '%s' ORDER BY s.step DESC LIMIT 1);
			COMMIT;
		END LOOP;
		PERFORM set_config('synchronous_commit', 'on', false), set_config('enable_seqscan', 'on', false);
	END $$`

// oldSteps returns the rows about claims of a lane whose state has had many versions, which a transaction keeps or does
// not keep.
func (b *bench) oldSteps(ctx context.Context) (entries []entry, err error) {
	ours := almanacSystem()
	for _, kind := range []struct {
		name, contract string
		old            bool
	}{
		{"an hour", "the store's claim of 100 events of a lane with a rate above the load, after an hour of its claims", false},
		{"an hour, an old transaction", "the same beside a REPEATABLE READ transaction that was open before", true},
	} {
		if !b.chosen("lanes", kind.name) {
			continue
		}
		if err := b.template(ctx, ours.template+"_backlog", ours.backlog(b.Events)); err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: kind.name, contract: kind.contract, run: b.cluster.on(ours.template+"_backlog", func(ctx context.Context, db database) (readings []reading, err error) {
			if !kind.old {
				return b.claimAfterSteps(ctx, db)
			}
			err = besideSnapshot(ctx, db, func() error {
				readings, err = b.claimAfterSteps(ctx, db)
				return err
			})
			return readings, err
		})})
	}
	return entries, nil
}

func (b *bench) claimAfterSteps(ctx context.Context, db database) ([]reading, error) {
	store, err := postgres.New(db.pool)
	if err != nil {
		return nil, err
	}
	if err := store.PutLane(ctx, almanac.Lane{Name: almanac.TypeBirthday, Rate: 100_000, Burst: 1_000_000}); err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, fmt.Sprintf(step, min(laneSteps, 10*b.Events), almanac.TypeBirthday)); err != nil {
		return nil, err
	}
	var mark time.Time
	return b.claimInFront(ctx, db, b.Events, &mark)
}

// lateInLanes measures how late handlers start when little is due at once, of a lane that has room and without one.
func (b *bench) lateInLanes(ctx context.Context) error {
	const section = "lanes"
	free, room := almanacSystem(), almanacLane()
	free.name, free.contract = "late, none", "how late handlers start, when little is due at once; no settings"
	room.name, room.contract = "late, room", "the same at the same time, of a lane with a rate above the load"
	systems, err := b.pick(ctx, section, free, room)
	if err != nil {
		return err
	}
	return b.together(ctx, section, systems, func(ctx context.Context, s system, db database) ([]reading, error) {
		o := load{count: b.Spread, first: time.Now().Add(lead), step: b.Over / time.Duration(b.Spread)}
		p, err := s.keepTime(ctx, db, o, patience)
		if err != nil {
			return nil, err
		}
		return p.spread(), nil
	})
}
