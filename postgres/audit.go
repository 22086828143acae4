package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// EnableAudit keeps a trail from now on of what becomes of every event: a row per
// step in the table audit, written in the transaction of the step by triggers,
// whichever program takes it. It is allowed to who owns the tables, waits for
// transactions that write to them, and holds up others meanwhile. A second call
// changes nothing.
//
// The trail costs an insert per step, and grows until somebody prunes it: see
// [Store.PruneAudit]. It holds ids, types and reasons, no names and no payloads, and
// what it says of a user is deleted with the user.
func EnableAudit(ctx context.Context, db DB, options ...Option) error {
	return switchTriggers(ctx, db, "switch the audit trail", "enable_audit", options)
}

// DisableAudit keeps the trail no longer. What it holds stays.
func DisableAudit(ctx context.Context, db DB, options ...Option) error {
	return switchTriggers(ctx, db, "switch the audit trail", "disable_audit", options)
}

// switchTriggers runs a statement that makes or drops triggers.
func switchTriggers(ctx context.Context, db DB, what, statement string, options []Option) error {
	s, err := New(db, options...)
	if err != nil {
		return err
	}
	return s.transact(ctx, what, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements[statement])
		return err
	})
}

// AuditStep is a row of the trail.
type AuditStep struct {
	At      time.Time // UTC, by the database's clock
	Kind    string    // created, rescheduled, removed, claimed, returned (before it began), released, completed, failed or cancelled
	Version int       // of the event after the step
	Detail  string    // why it failed, was released or was cancelled, "" otherwise
	Actor   string    // the role and the application_name of the session
}

// Audit returns the trail of an event in order; empty when none was kept, or there
// is no such event.
func (s *Store) Audit(ctx context.Context, id uuid.UUID) ([]AuditStep, error) {
	var steps []AuditStep
	err := s.do(ctx, "read audit trail", func(ctx context.Context, db DB) (err error) {
		steps, err = all(ctx, db, s.statements["audit"], pgx.StrictNamedArgs{"id": id}, func(row pgx.CollectableRow) (step AuditStep, err error) {
			err = row.Scan(&step.At, &step.Kind, &step.Version, &step.Detail, &step.Actor)
			step.At = step.At.UTC()
			return step, err
		})
		return err
	})
	return steps, err
}

// PruneAudit deletes up to limit rows of the trail from before an instant, the oldest
// first, and returns how many. Call it until it returns fewer than limit. It is
// allowed to who owns the tables.
func (s *Store) PruneAudit(ctx context.Context, before time.Time, limit int) (pruned int, err error) {
	err = s.transact(ctx, "prune audit trail", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.statements["prune_audit"], pgx.StrictNamedArgs{"before": before, "limit": limit})
		pruned = int(tag.RowsAffected())
		return err
	})
	return pruned, err
}
