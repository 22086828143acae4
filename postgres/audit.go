package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/ops"
)

// EnableAudit creates triggers that write an audit trail from now on: one row in the table
// audit per step of an event, such as its creation, claim or completion. The triggers
// write in the transaction of the step, whichever program makes the step.
//
// Only the owner of the tables may call it. EnableAudit waits for transactions that write
// to the tables, and holds up other writes meanwhile. A second call changes nothing.
//
// The trail costs one insert per step, and grows until [Store.PruneAudit] prunes it. The
// trail holds ids, types, reasons and principals (see [almanac.WithPrincipal]). It has no
// names of users and no payloads. When a user is deleted, the rows about the user are
// deleted too.
func EnableAudit(ctx context.Context, db DB, options ...Option) error {
	return switchTriggers(ctx, db, "switch the audit trail", func(s *Store) string { return s.statements.EnableAudit }, options)
}

// DisableAudit removes the triggers, so that no more rows are written. Existing rows of
// the trail stay.
func DisableAudit(ctx context.Context, db DB, options ...Option) error {
	return switchTriggers(ctx, db, "switch the audit trail", func(s *Store) string { return s.statements.DisableAudit }, options)
}

// switchTriggers runs a statement that creates or drops triggers.
func switchTriggers(ctx context.Context, db DB, what string, statement func(*Store) string, options []Option) error {
	s, err := New(db, options...)
	if err != nil {
		return err
	}
	return s.transact(ctx, what, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, statement(s))
		return err
	})
}

// Audit returns the trail of an event, or of a user, in order. The trail of a user has the
// changes of opt-outs, and no steps of events. The trail is empty when none was written, or
// when there is neither an event nor a user with the id.
func (s *Store) Audit(ctx context.Context, id uuid.UUID) ([]ops.AuditStep, error) {
	var steps []ops.AuditStep
	err := s.do(ctx, "read audit trail", func(ctx context.Context, db DB) (err error) {
		steps, err = all(ctx, db, s.statements.Audit, pgx.StrictNamedArgs{"id": id}, func(row pgx.CollectableRow) (step ops.AuditStep, err error) {
			err = row.Scan(&step.At, &step.Kind, &step.Version, &step.Detail, &step.Actor, &step.Principal)
			step.At = step.At.UTC()
			return step, err
		})
		return err
	})
	return steps, err
}

// PruneAudit deletes up to limit rows of the trail that were written before an instant,
// oldest first. It returns the number of deleted rows. Call it until it returns fewer than
// limit. Only the owner of the tables may call it.
func (s *Store) PruneAudit(ctx context.Context, before time.Time, limit int) (pruned int, err error) {
	err = s.transact(ctx, "prune audit trail", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, s.statements.PruneAudit, pgx.StrictNamedArgs{"before": before, "limit": limit})
		pruned = int(tag.RowsAffected())
		return err
	})
	return pruned, err
}
