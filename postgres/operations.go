package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// change stores the new states of pending events, all or none, and returns the events in the
// order given. The status and the claim count of an event decide which statement stores it.
// [almanac.Roster.Check] has checked the events. Clocks in the user's zone show the given wall time.
func (s *Store) change(ctx context.Context, tx pgx.Tx, events []almanac.Event, shown calendar.WallTime) ([]almanac.Event, error) {
	var stored []almanac.Event
	for _, kind := range []struct {
		has   func(almanac.Event) bool
		store func(context.Context, pgx.Tx, []almanac.Event) ([]almanac.Event, error)
	}{
		{func(e almanac.Event) bool { return e.Status == almanac.Cancelled }, func(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
			return s.cancel(ctx, tx, events, shown)
		}},
		{func(e almanac.Event) bool { return e.Status == almanac.Pending && e.ClaimCount == 0 }, s.move},
		{func(e almanac.Event) bool { return e.Status == almanac.Pending && e.ClaimCount > 0 }, s.runNow},
	} {
		part, err := kind.store(ctx, tx, slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool { return !kind.has(e) }))
		if err != nil {
			return nil, err
		}
		stored = append(stored, part...)
	}
	return inOrderOf(events, stored), nil
}

// add stores new events, planned or requeued, and returns them in the order given. It leaves out
// events whose series has an open event or has used up the occurrence.
func (s *Store) add(ctx context.Context, tx pgx.Tx, keys keys, events []almanac.Event) ([]almanac.Event, error) {
	planned, err := s.insert(ctx, tx, keys, slices.DeleteFunc(slices.Clone(events), isRequeued))
	if err != nil {
		return nil, err
	}
	again, err := s.requeue(ctx, tx, slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool { return !isRequeued(e) }))
	return inOrderOf(events, append(planned, again...)), err
}

// isRequeued reports whether a new event repeats another.
func isRequeued(e almanac.Event) bool { return e.Origin.Kind == almanac.OriginRequeued }

// cancel cancels pending events, all or none, and returns them as stored. The series of an event
// with Unplanned set waits for a program that has the handler.
func (s *Store) cancel(ctx context.Context, tx pgx.Tx, events []almanac.Event, shown calendar.WallTime) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	ids := column(events, func(e almanac.Event) uuid.UUID { return e.ID })
	cancelled, err := all(ctx, tx, s.statements.CancelEvents, pgx.StrictNamedArgs{
		"ids":      uuids(ids),
		"versions": column(events, func(e almanac.Event) int { return e.Version }),
		"reasons":  column(events, func(e almanac.Event) string { return e.FailureReason }),
		"waiting":  column(events, func(e almanac.Event) bool { return e.Unplanned }),
		"ended":    column(events, func(almanac.Event) pgtype.Timestamp { return localOrNull(shown) }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	if err := complete(events, cancelled, -1); err != nil {
		return nil, err
	}
	stored, err := all(ctx, tx, s.statements.Events, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvents())
	return inOrderOf(events, stored), err
}

// runNow changes when pending events that were claimed before can be claimed again, all or none.
// It returns the events as stored.
func (s *Store) runNow(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	changed, err := all(ctx, tx, s.statements.RunNow, pgx.StrictNamedArgs{
		"ids":       uuids(column(events, func(e almanac.Event) uuid.UUID { return e.ID })),
		"versions":  column(events, func(e almanac.Event) int { return e.Version }),
		"available": column(events, func(e almanac.Event) time.Time { return e.AvailableAt }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	if err := complete(events, changed, -1); err != nil {
		return nil, err
	}
	return s.waiting(ctx, tx, events, changed)
}

// requeue stores requeued events, and returns them in the order given. It leaves out events whose
// series has an open event or has used up the occurrence.
func (s *Store) requeue(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events = firstOfEachSeries(events)
	args := newEventArgs(events) // each keeps the idempotency key of the event that it repeats
	args["available"] = column(events, func(e almanac.Event) time.Time { return e.AvailableAt })
	args["claims"] = column(events, func(e almanac.Event) int { return e.ClaimCount })
	args["errors"] = column(events, func(e almanac.Event) pgtype.Text { return textOrNull(e.LastError) })
	if _, err := tx.Exec(ctx, s.statements.RequeueEvents, args); err != nil {
		return nil, err
	}
	stored, err := s.waiting(ctx, tx, events, column(events, func(e almanac.Event) uuid.UUID { return e.ID }))
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	held := column(stored, func(e almanac.Event) string { return e.IdempotencyKey.String() })
	_, err = tx.Exec(ctx, s.statements.HoldKeys, pgx.StrictNamedArgs{"keys": held})
	return stored, err
}

// Requeued returns the ids of those of the events that were requeued before.
func (s *Store) Requeued(ctx context.Context, events []almanac.Event) (requeued []uuid.UUID, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	args := seriesArgs(column(events, func(e almanac.Event) almanac.Event {
		e.Origin = almanac.Origin{Kind: almanac.OriginRequeued, From: e.ID} // as that of its repeat
		return e
	}))
	args["ids"] = uuids(column(events, func(e almanac.Event) uuid.UUID { return e.ID }))
	args["users"] = uuids(column(events, func(e almanac.Event) uuid.UUID { return e.UserID }))
	args["types"] = column(events, func(e almanac.Event) string { return e.Type })
	err = s.do(ctx, "find requeued events", func(ctx context.Context, db DB) (err error) {
		requeued, err = all(ctx, db, s.statements.Requeued, args, scanID)
		return err
	})
	return requeued, err
}

// Pause stores that a type of event is paused. If it is paused already, nothing changes.
func (s *Store) Pause(ctx context.Context, eventType string) error {
	return s.transact(ctx, "pause", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements.Pause, pgx.StrictNamedArgs{"type": eventType})
		return err
	})
}

// Resume deletes the pause of a type of event, and notifies other processes unless the store has
// [PollOnly].
func (s *Store) Resume(ctx context.Context, eventType string) error {
	return s.transact(ctx, "resume", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.statements.Resume, pgx.StrictNamedArgs{"type": eventType}); err != nil || s.pollOnly {
			return err
		}
		_, err := tx.Exec(ctx, s.statements.Notify, s.notification(hintPayload))
		return err
	})
}

// Paused returns the pauses, in the order of their event types.
func (s *Store) Paused(ctx context.Context) ([]almanac.Pause, error) {
	var paused []almanac.Pause
	err := s.do(ctx, "find pauses", func(ctx context.Context, db DB) (err error) {
		paused, err = all(ctx, db, s.statements.Paused, nil, func(row pgx.CollectableRow) (p almanac.Pause, err error) {
			err = row.Scan(&p.EventType, &p.Since)
			p.Since = p.Since.UTC()
			return p, err
		})
		return err
	})
	return paused, err
}

// PutSetting stores a setting, unless the database has it with this value already.
func (s *Store) PutSetting(ctx context.Context, setting almanac.Setting) error {
	return s.do(ctx, "store a setting", func(ctx context.Context, db DB) error {
		_, err := db.Exec(ctx, s.statements.PutSetting, pgx.StrictNamedArgs{"name": setting.Name, "value": setting.Value, "program": setting.Program})
		return err
	})
}

// Settings returns the stored settings, in the order of their names.
func (s *Store) Settings(ctx context.Context) ([]almanac.Setting, error) {
	var settings []almanac.Setting
	err := s.do(ctx, "find settings", func(ctx context.Context, db DB) (err error) {
		settings, err = all(ctx, db, s.statements.Settings, nil, func(row pgx.CollectableRow) (stored almanac.Setting, err error) {
			err = row.Scan(&stored.Name, &stored.Value, &stored.Program, &stored.Since)
			stored.Since = stored.Since.UTC()
			return stored, err
		})
		return err
	})
	return settings, err
}
