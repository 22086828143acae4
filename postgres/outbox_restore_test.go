package postgres_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// moved is an outbox whose tables came from another server. The chaos tests move one by a real dump.
type moved struct {
	pool                *pgxpool.Pool
	store               *postgres.Store
	read, unread, fresh uuid.UUID // users: read and unread on the other server, and created on this one
}

// moveOutbox makes the positions and rows of the outbox those of a dump, by an update.
func moveOutbox(t *testing.T, update string) moved {
	t.Helper()
	pool, store := withOutbox(t, "billing")
	user := func() uuid.UUID {
		created, err := newScheduler(t, store).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		return created.User.ID
	}
	m := moved{pool: pool, store: store, read: user()}
	consume(t, store, "billing", 100)
	m.unread = user()
	_, err := pool.Exec(t.Context(), update)
	require.NoError(t, err)
	m.fresh = user()
	return m
}

// created reads everything, in small pages, and returns the users whose creation was read.
func (m moved) created(t *testing.T) (users []uuid.UUID) {
	t.Helper()
	for _, e := range consume(t, m.store, "billing", 3) {
		if e.Kind == postgres.UserCreated {
			users = append(users, e.UserID)
		}
	}
	return users
}

// burn uses up transaction ids until those of the stored position are in the past.
func burn(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for past := false; !past; {
		_, err := pool.Exec(t.Context(), "SELECT pg_current_xact_id()")
		require.NoError(t, err)
		require.NoError(t, pool.QueryRow(t.Context(), `
			SELECT every(pg_snapshot_xmax(c.reading) < pg_snapshot_xmin(pg_current_snapshot())) FROM almanac.outbox_consumers c`).Scan(&past))
	}
}

// The server was a little ahead of this one, which has caught up. By the numbers alone, the
// consumer seems to have read what it has not.
const littleAhead = `
	UPDATE almanac.outbox_consumers SET server = server + 1, seen = (pos || ':' || pos || ':')::pg_snapshot, reading = (pos || ':' || pos || ':')::pg_snapshot
	FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 50 AS pos) AS other`

func TestConsumersRefuseAPositionOfAnotherServer(t *testing.T) {
	t.Parallel()
	m := moveOutbox(t, littleAhead)
	burn(t, m.pool)
	_, err := m.store.Consume(t.Context(), "billing", 100, func(context.Context, pgx.Tx, []postgres.DomainEvent) error {
		t.Error("read from a position of another server")
		return nil
	})
	require.ErrorIs(t, err, postgres.ErrOutboxRestored)
	require.EqualError(t, err, "postgres: read the outbox: position is of another server: EnableOutbox resets it, and all stored rows are read once more")

	require.NoError(t, m.store.CreateConsumer(t.Context(), "billing"), "an existing consumer is left unchanged")
	require.NoError(t, m.store.CreateConsumer(t.Context(), "search"))
	consume(t, m.store, "search", 100)
	_, err = m.store.Consume(t.Context(), "billing", 100, nil)
	require.ErrorIs(t, err, postgres.ErrOutboxRestored, "the other consumer is of this server")

	require.NoError(t, postgres.EnableOutbox(t.Context(), m.pool))
	require.Equal(t, []uuid.UUID{m.read, m.unread, m.fresh}, m.created(t), "everything that is stored is read again")
	require.Empty(t, m.created(t))
	require.Len(t, consume(t, m.store, "search", 100), 6)
	require.NoError(t, postgres.EnableOutbox(t.Context(), m.pool), "a second time")
	require.Empty(t, m.created(t), "changes nothing")
}

// Until then nothing is deleted that the consumer may not have read.
func TestAPositionOfAnotherServerHasReadNothing(t *testing.T) {
	t.Parallel()
	m := moveOutbox(t, littleAhead)
	burn(t, m.pool)
	consumers, err := m.store.Consumers(t.Context())
	require.NoError(t, err)
	require.False(t, consumers[0].Oldest.IsZero(), "there is something to read")
	pruned, err := m.store.PruneOutbox(t.Context(), 100)
	require.NoError(t, err)
	require.Zero(t, pruned)
	_, err = newScheduler(t, m.store).DeleteUser(t.Context(), m.fresh, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)

	require.NoError(t, postgres.EnableOutbox(t.Context(), m.pool))
	require.Equal(t, []uuid.UUID{m.read, m.unread, m.fresh}, m.created(t))
	pruned, err = m.store.PruneOutbox(t.Context(), 100)
	require.NoError(t, err)
	require.Equal(t, 7, pruned)
}

// A copy of a server's files has its identifier, and goes on with fewer transactions once it
// is a server of its own.
func TestConsumersRefuseAPositionOfTheFuture(t *testing.T) {
	t.Parallel()
	m := moveOutbox(t, `
		UPDATE almanac.outbox SET transaction_id = (transaction_id::text::bigint + 1000000000)::text::xid8;
		UPDATE almanac.outbox_consumers SET seen = regexp_replace(seen::text, '^\d+:(\d+):.*$', '1\1:1\1:')::pg_snapshot,
			reading = regexp_replace(seen::text, '^\d+:(\d+):.*$', '1000000000000:1000000000000:')::pg_snapshot`)
	_, err := m.store.Consume(t.Context(), "billing", 100, nil)
	require.ErrorIs(t, err, postgres.ErrOutboxRestored)
	require.NoError(t, postgres.EnableOutbox(t.Context(), m.pool))
	require.Equal(t, []uuid.UUID{m.read, m.unread, m.fresh}, m.created(t))
	require.Empty(t, m.created(t))
}
