package postgres

import (
	"context"
	"slices"
	"strings"
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
// The trail costs one insert per step, and grows until [Store.PruneAudit] prunes it. The trail
// holds ids, types, reasons and principals (see [almanac.WithPrincipal]). It has no names of
// users and no payloads. When a user is deleted, the rows about the user are deleted too.
func EnableAudit(ctx context.Context, db DB, options ...Option) error {
	return inTransaction(ctx, db, "switch the audit trail", options, func(ctx context.Context, s *Store, tx pgx.Tx) error {
		return s.switchTriggers(ctx, tx, trail, true)
	})
}

// DisableAudit removes the triggers, so that no more rows are written. Existing rows of the trail stay.
func DisableAudit(ctx context.Context, db DB, options ...Option) error {
	return inTransaction(ctx, db, "switch the audit trail", options, func(ctx context.Context, s *Store, tx pgx.Tx) error {
		return s.switchTriggers(ctx, tx, trail, false)
	})
}

// inTransaction opens a store, and runs an operation in a transaction.
func inTransaction(ctx context.Context, db DB, what string, options []Option, operation func(context.Context, *Store, pgx.Tx) error) error {
	s, err := New(db, options...)
	if err != nil {
		return err
	}
	return s.transact(ctx, what, func(ctx context.Context, tx pgx.Tx) error { return operation(ctx, s, tx) })
}

// switchTriggers drops the triggers of the trail or of the outbox, and creates them again if on is true and one of
// them is missing: then the trail or the outbox has gaps.
func (s *Store) switchTriggers(ctx context.Context, tx pgx.Tx, triggers catalog, on bool) error {
	found, err := s.catalog(ctx, tx)
	if err != nil || on && !slices.ContainsFunc(triggers.sorted(), func(t thing) bool { return found[t] == "" }) {
		return err
	}
	var script strings.Builder
	within := strings.NewReplacer(" ON ", " ON "+quoted(s.schema)+".", " FUNCTION ", " FUNCTION "+quoted(s.schema)+".")
	for _, t := range triggers.sorted() {
		table, trigger, _ := strings.Cut(t.name, ".")
		script.WriteString("DROP TRIGGER IF EXISTS " + trigger + within.Replace(" ON ") + table + ";")
		if on {
			script.WriteString(within.Replace(triggers[t]) + ";")
		}
	}
	// Writers lock the tables in other orders, so the locks may end in a deadlock.
	return yielding(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, script.String())
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
