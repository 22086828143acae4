package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// PutLane stores the limits of a lane, and notifies other processes unless the store has [PollOnly]. It waits
// for claims from the lane.
func (s *Store) PutLane(ctx context.Context, l almanac.Lane) error {
	return s.transact(ctx, "store a lane", func(ctx context.Context, tx pgx.Tx) error {
		name := pgx.StrictNamedArgs{"name": l.Name}
		var err error
		if l == (almanac.Lane{Name: l.Name}) {
			_, err = tx.Exec(ctx, s.statements.RemoveLane, name)
		} else {
			args := pgx.StrictNamedArgs{"name": l.Name, "rate": orNull(l.Rate), "burst": orNull(l.Burst), "places": orNull(l.Places), "daily": orNull(l.Daily), "weight": orNull(l.Weight)}
			changed, failed := all(ctx, tx, s.statements.PutLane, args, pgx.RowTo[string])
			if failed != nil || len(changed) == 0 {
				return failed
			}
			if _, err = tx.Exec(ctx, s.statements.LockLane, name); err == nil {
				_, err = tx.Exec(ctx, s.statements.ResetLane, name)
			}
		}
		if err == nil {
			_, err = tx.Exec(ctx, s.statements.VisitAgain, name)
		}
		if err == nil && !s.pollOnly {
			_, err = tx.Exec(ctx, s.statements.Notify, s.notification(hintPayload))
		}
		return err
	})
}

// orNull returns nil for the zero value.
func orNull[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// Lanes returns the lanes with limits or a weight, in the order of their names.
func (s *Store) Lanes(ctx context.Context) ([]almanac.Lane, error) {
	var lanes []almanac.Lane
	err := s.do(ctx, "find lanes", func(ctx context.Context, db DB) (err error) {
		lanes, err = all(ctx, db, s.statements.Lanes, nil, pgx.RowToStructByPos[almanac.Lane])
		return err
	})
	return lanes, err
}

// errOtherPause ends a transaction whose breaker wants a pause, or none, unlike the transaction has begun.
var errOtherPause = errors.New("the breaker wants another pause")

// Report changes the breaker of a lane, and returns it as it is then. It waits for claims from the lane. Operators lock the lane
// before its state. So a report that pauses the lane begins anew, with the pause. If the pause cannot be stored, the breaker is
// stored without it, and the next failed try asks for it again.
func (s *Store) Report(ctx context.Context, lane string, change func(almanac.Breaker, time.Time) almanac.Breaker) (is almanac.Breaker, err error) {
	for reason, refused := "", false; ; {
		paused := false
		err = s.transact(ctx, "report to a breaker", func(ctx context.Context, tx pgx.Tx) (err error) {
			if reason != "" {
				args := pgx.StrictNamedArgs{"name": lane, "reason": reason}
				if paused, err = one(ctx, tx, s.statements.PauseFailing, args, pgx.RowTo[bool]); err != nil {
					return err
				}
			}
			if is, err = s.changeBreaker(ctx, tx, lane, change); err == nil && !refused && (is.Pause == "") != (reason == "") {
				err = errOtherPause
			}
			return err
		})
		switch {
		case errors.Is(err, errOtherPause):
			reason = is.Pause
			continue
		case err != nil && reason != "" && ctx.Err() == nil:
			reason, refused = "", true
			continue
		case !paused:
			is.Pause = ""
		}
		return is, err
	}
}

func (s *Store) changeBreaker(ctx context.Context, tx pgx.Tx, lane string, change func(almanac.Breaker, time.Time) almanac.Breaker) (is almanac.Breaker, err error) {
	for locked := false; ; {
		var now time.Time
		var step *int64
		was, err := one(ctx, tx, s.statements.Breaker, pgx.StrictNamedArgs{"lane": lane}, func(row pgx.CollectableRow) (almanac.Breaker, error) {
			return scanBreaker(row, &now, &step)
		})
		if err != nil {
			return is, err
		}
		if step == nil && !locked { // another transaction may begin the state
			if _, err := tx.Exec(ctx, s.statements.LockLane, pgx.StrictNamedArgs{"name": lane}); err != nil {
				return is, err
			}
			locked = true
			continue
		}
		if is = change(was, now.UTC()); step == nil && is.Allowed == 0 && is.Answers == nil {
			return is, nil
		}
		stored, err := one(ctx, tx, s.statements.PutBreaker, breakerArgs(lane, step, is), pgx.RowTo[int64])
		if err != nil || stored > 0 {
			return is, err
		}
	}
}

func scanBreaker(row pgx.CollectableRow, now *time.Time, step **int64) (b almanac.Breaker, err error) {
	var allowed, failures *int
	var retry, opened *time.Time
	var ids pgtype.FlatArray[uuid.UUID]
	var at []time.Time
	var failed []bool
	if err := row.Scan(now, step, &allowed, &retry, &opened, &failures, rawIDs{&ids}, &at, &failed); err != nil {
		return b, err
	}
	if allowed != nil {
		b = almanac.Breaker{Allowed: *allowed, RetryAt: retry.UTC(), OpenedAt: opened.UTC(), Failures: *failures}
	}
	for i, id := range ids {
		b.Answers = append(b.Answers, almanac.Answer{EventID: id, ClaimedAt: at[i].UTC(), Failed: failed[i]})
	}
	return b, nil
}

func breakerArgs(lane string, step *int64, b almanac.Breaker) pgx.StrictNamedArgs {
	args := pgx.StrictNamedArgs{
		"lane": lane, "step": step, "allowed": orNull(b.Allowed), "retry_at": timeOrNull(b.RetryAt), "opened_at": timeOrNull(b.OpenedAt), "failures": b.Failures,
		"answer_ids": nil, "answers_at": nil, "answers_fail": nil,
	}
	if len(b.Answers) > 0 {
		args["answer_ids"] = uuids(column(b.Answers, func(a almanac.Answer) uuid.UUID { return a.EventID }))
		args["answers_at"] = column(b.Answers, func(a almanac.Answer) time.Time { return a.ClaimedAt })
		args["answers_fail"] = column(b.Answers, func(a almanac.Answer) bool { return a.Failed })
	}
	return args
}
