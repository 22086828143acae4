package chaos_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgserver"
)

// planned begins with an operation of the library in the neighbour's transaction.
func planned(do func(context.Context, *neighbourhood, almanac.Scheduler) error) func(context.Context, *neighbourhood, pgx.Tx) error {
	return func(ctx context.Context, n *neighbourhood, tx pgx.Tx) error { return do(ctx, n, n.PlannerOn(tx)) }
}

// forEach begins with an operation of the library on each of the users to be locked.
func forEach(do func(context.Context, *neighbourhood, almanac.Scheduler, uuid.UUID) error) func(context.Context, *neighbourhood, pgx.Tx) error {
	return planned(func(ctx context.Context, n *neighbourhood, s almanac.Scheduler) error {
		for _, id := range n.locked {
			if err := do(ctx, n, s, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func sql(statement string) func(context.Context, *neighbourhood, pgx.Tx) error {
	return func(ctx context.Context, n *neighbourhood, tx pgx.Tx) error {
		var args []any
		if strings.Contains(statement, "$1") {
			args = []any{n.locked}
		}
		_, err := tx.Exec(ctx, statement, args...)
		return err
	}
}

func longReport(ctx context.Context, _ *neighbourhood, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
		return err
	}
	var events int
	return tx.QueryRow(ctx, "SELECT count(*) FROM almanac.events").Scan(&events)
}

// dump runs pg_dump and does not read what it writes before the hold is over, so that
// its transaction stays open. The definitions alone would fill the pipe.
func dump(ctx context.Context, n *neighbourhood, tx pgx.Tx) error {
	if _, err := n.Pool().Exec(ctx, "CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 5000)"); err != nil {
		return err
	}
	binaries, err := pgserver.Find()
	if err != nil {
		return err
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(binaries.Dir, "pg_dump"), "--data-only", n.Cluster.Direct(n.Database))
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	n.Cleanup(func() {
		_ = output.Close()
		_ = command.Wait()
	})
	until(n.Run, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pg_dump' AND query LIKE 'COPY%')")
	return nil
}

// index creates an index, which waits for a transaction that is older.
func index(ctx context.Context, n *neighbourhood, tx pgx.Tx) error {
	if err := longReport(ctx, n, tx); err != nil {
		return err
	}
	created := make(chan error, 1)
	go func() {
		_, err := n.Pool().Exec(context.WithoutCancel(ctx), "CREATE INDEX CONCURRENTLY hosts ON almanac.series (updated_at)")
		created <- err
	}()
	n.Cleanup(func() { require.NoError(n, <-created) })
	until(n.Run, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE INDEX%' AND wait_event_type = 'Lock')")
	return nil
}

// onOpen does something to the next pending event of a user, again if a worker was
// quicker to take it.
func (n *neighbourhood) onOpen(ctx context.Context, id uuid.UUID, do func(almanac.Event) error) error {
	for {
		found, err := n.Store().Find(ctx, almanac.And{almanac.ForUser(id), almanac.InStatus(almanac.Pending)}, almanac.Page{Limit: 1})
		if err != nil {
			return err
		}
		if len(found.Items) == 0 {
			continue
		}
		if err := do(found.Items[0]); err == nil || ctx.Err() != nil {
			return err
		}
	}
}
