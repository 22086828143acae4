package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// IsolationError reports that a transaction of the host has an isolation level above READ COMMITTED, and that the
// operation has to see every event of a user. Such a transaction does not see events that another program has stored since its
// first statement, so they would be missed: a user who moves would keep an event in the old zone. Nothing was stored, and the
// transaction can continue. Begin the transaction with READ COMMITTED, or edit users outside of it.
type IsolationError struct {
	Level string // such as "repeatable read"
}

func (e *IsolationError) Error() string {
	return fmt.Sprintf("postgres: the transaction is %s, in which events that other programs have stored meanwhile cannot be seen: edit and delete users in a transaction that is READ COMMITTED",
		strings.ToUpper(e.Level))
}

// seesLatest returns an [*IsolationError] unless each statement of the transaction sees what was committed before the statement.
// The store's own transactions do.
func (s *Store) seesLatest(ctx context.Context, tx pgx.Tx) error {
	if !s.InTransaction() {
		return nil
	}
	level, err := one(ctx, tx, "SELECT pg_catalog.current_setting('transaction_isolation')", nil, pgx.RowTo[string])
	if err == nil && strings.HasPrefix(level, "read ") {
		return nil
	}
	if err != nil {
		return err
	}
	return asIs(&IsolationError{level})
}
