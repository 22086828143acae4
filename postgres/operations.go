package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// cancel ends pending events, all or none, and returns them as they are then.
// The series of those named as unplanned wait for a program that has the handler.
func (s *Store) cancel(ctx context.Context, tx pgx.Tx, events []almanac.Event, unplanned []uuid.UUID) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	ids := column(events, func(e almanac.Event) uuid.UUID { return e.ID })
	cancelled, err := all(ctx, tx, s.statements["cancel_events"], pgx.StrictNamedArgs{
		"ids":      uuids(ids),
		"versions": column(events, func(e almanac.Event) int { return e.Version }),
		"reasons":  column(events, func(e almanac.Event) string { return e.FailureReason }),
		"waiting":  column(events, func(e almanac.Event) bool { return slices.Contains(unplanned, e.ID) }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	if err := complete(events, cancelled, -1); err != nil {
		return nil, err
	}
	stored, err := all(ctx, tx, s.statements["events"], pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvent)
	return inOrderOf(events, stored), err
}

// hurry lets pending events that were claimed before be claimed again at another
// moment, all or none.
func (s *Store) hurry(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	hurried, err := all(ctx, tx, s.statements["hurry_events"], pgx.StrictNamedArgs{
		"ids":       uuids(column(events, func(e almanac.Event) uuid.UUID { return e.ID })),
		"versions":  column(events, func(e almanac.Event) int { return e.Version }),
		"available": column(events, func(e almanac.Event) time.Time { return e.AvailableAt }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	if err := complete(events, hurried, -1); err != nil {
		return nil, err
	}
	return s.waiting(ctx, tx, events, hurried)
}

// requeue stores events that begin again, and returns them in the order given,
// without those whose series has an open event or has used up the occurrence.
func (s *Store) requeue(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events = firstOfEachSeries(events)
	args, err := keys{Store: s}.eventArgs(ctx, tx, events) // none is new: each has the key that it had
	if err != nil {
		return nil, err
	}
	args["idempotency_keys"] = column(events, func(e almanac.Event) string { return e.IdempotencyKey.String() })
	args["available"] = column(events, func(e almanac.Event) time.Time { return e.AvailableAt })
	args["claims"] = column(events, func(e almanac.Event) int { return e.ClaimCount })
	args["requeued_from"] = uuids(column(events, func(e almanac.Event) uuid.UUID { return e.RequeuedFrom }))
	args["errors"] = column(events, func(e almanac.Event) pgtype.Text { return textOrNull(e.LastError) })
	if _, err := tx.Exec(ctx, s.statements["requeue_events"], args); err != nil {
		return nil, err
	}
	stored, err := s.waiting(ctx, tx, events, column(events, func(e almanac.Event) uuid.UUID { return e.ID }))
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	held := column(stored, func(e almanac.Event) string { return e.IdempotencyKey.String() })
	_, err = tx.Exec(ctx, s.statements["hold_keys"], pgx.StrictNamedArgs{"keys": held})
	return stored, err
}

// Pause notes that a type of event is paused, unless it is already.
func (s *Store) Pause(ctx context.Context, eventType string) error {
	return s.transact(ctx, "pause", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements["pause"], pgx.StrictNamedArgs{"type": eventType})
		return err
	})
}

// Resume forgets that a type of event is paused, and gives a hint of it.
func (s *Store) Resume(ctx context.Context, eventType string) error {
	return s.transact(ctx, "resume", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.statements["resume"], pgx.StrictNamedArgs{"type": eventType}); err != nil || s.pollOnly {
			return err
		}
		_, err := tx.Exec(ctx, s.statements["notify"], s.notification(hintPayload))
		return err
	})
}

// Paused returns what is paused, in the order of types.
func (s *Store) Paused(ctx context.Context) ([]almanac.Pause, error) {
	var paused []almanac.Pause
	err := s.do(ctx, "find pauses", func(ctx context.Context, db DB) (err error) {
		paused, err = all(ctx, db, s.statements["paused"], nil, func(row pgx.CollectableRow) (p almanac.Pause, err error) {
			err = row.Scan(&p.EventType, &p.Since)
			p.Since = p.Since.UTC()
			return p, err
		})
		return err
	})
	return paused, err
}
