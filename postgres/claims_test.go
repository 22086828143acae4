package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// typesOfClaims are the types that the tests below ask for: a claim of one type walks one range of the
// index, and a claim of several takes an equal share of each.
var typesOfClaims = map[string][]string{
	"of one type":                     {almanac.TypeBirthday},
	"of several, of which one is due": {almanac.TypeBirthday, "NONE"},
	"of several":                      {almanac.TypeBirthday, "DIGEST", "RENEWAL"},
}

// storeDue stores n due events of the types in turn. The first is due longest, and the order of the ids is
// another. It returns the ids, the oldest event first.
func storeDue(t *testing.T, store *postgres.Store, n int, types []string) []uuid.UUID {
	t.Helper()
	types = slices.DeleteFunc(slices.Clone(types), func(eventType string) bool { return eventType == "NONE" })
	now := nowOf(t, store)
	ids := make([]uuid.UUID, n)
	for i := n - 1; i >= 0; i-- {
		u := almanactest.User()
		e := almanactest.Event(now, almanactest.For(u), almanactest.OfType(types[i%len(types)]), almanactest.ReadyFor(time.Duration(n-i)*time.Minute))
		almanactest.Store(t, store, u, e)
		ids[i] = e.ID
	}
	return ids
}

// inOpenTransaction returns a store in a transaction that stays open until the test ends.
func inOpenTransaction(t *testing.T, pool *pgxpool.Pool) *postgres.Store {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) })
	_, err = tx.Exec(t.Context(), "SET LOCAL lock_timeout = '2s'") // a claim that waits for another one fails
	require.NoError(t, err)
	store := mustStore(t, tx)
	return store
}

// claimIDs claims at most limit events and returns their ids, in the order of the answer.
func claimIDs(t *testing.T, store *postgres.Store, limit int, types []string) []uuid.UUID {
	t.Helper()
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: types, Limit: limit, Lease: time.Minute})
	require.NoError(t, err)
	return idsOf(claim.Events)
}

// While the transactions of earlier claims are open, each further claim takes the oldest events of the
// rest, in their order, and waits for none of the transactions.
func TestOpenClaimsShareNothingAndNeverWait(t *testing.T) {
	t.Parallel()
	const claims, each = 3, 6
	for name, types := range typesOfClaims {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			want := storeDue(t, store, claims*each, types)
			for i := range claims {
				claimer := store // commits
				if i%2 == 0 {
					claimer = inOpenTransaction(t, pool)
				}
				require.Equal(t, want[i*each:(i+1)*each], claimIDs(t, claimer, each, types), "claim %d", i+1)
			}
			require.Empty(t, claimIDs(t, store, each, types), "all are claimed")
		})
	}
}

// A claim does not touch rows of the queue that are not available yet. It would put back a row that it took
// too early, so the test compares the places of the rows in the table.
func TestAClaimLeavesEventsThatAreNotDueWhereTheyAre(t *testing.T) {
	t.Parallel()
	for name, types := range typesOfClaims {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			now := nowOf(t, store)
			for _, eventType := range types {
				u := almanactest.User()
				almanactest.Store(t, store, u, almanactest.Event(now, almanactest.For(u), almanactest.OfType(eventType), almanactest.DueIn(time.Minute)))
			}
			places := func() (list []string) {
				rows, err := pool.Query(t.Context(), "SELECT ctid::text || ' ' || xmin::text || ' ' || event_id FROM almanac.queue ORDER BY event_id")
				require.NoError(t, err)
				list, err = pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				return list
			}
			before := places()
			require.Empty(t, claimIDs(t, store, 10, types))
			require.Equal(t, before, places())
		})
	}
}

// A claim has its locks for as long as the server takes for its one statement: when it returns, no
// transaction is open, and it takes milliseconds. The fastest of several claims counts, because other
// tests keep the machine busy.
func TestAClaimHoldsItsLocksForAMoment(t *testing.T) {
	t.Parallel()
	const claims, moment = 10, 250 * time.Millisecond
	for name, types := range typesOfClaims {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t) // no other test has a transaction in it
			store := mustStore(t, pool)
			storeDue(t, store, claims, types)
			fastest := time.Hour
			for range claims {
				began := time.Now()
				require.Len(t, claimIDs(t, store, 1, types), 1)
				fastest = min(fastest, time.Since(began))
				var open int
				require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()`).Scan(&open))
				require.Zero(t, open, "transactions that are open after the claim")
			}
			require.Less(t, fastest, moment)
		})
	}
}

// The rows that a claim locks and the status that it gives them are one transaction: it is seen from
// outside all at once, or never.
func TestAClaimIsUndoneWithItsTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	e := overdue(t, store)
	leases := func(db interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}) (n int) {
		require.NoError(t, db.QueryRow(t.Context(), "SELECT count(*) FROM almanac.leases").Scan(&n))
		return n
	}
	status := func(s *postgres.Store) string {
		stored, err := s.Event(t.Context(), e.ID)
		require.NoError(t, err)
		return fmt.Sprintf("%s, version %d", stored.Status, stored.Version)
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	inside := mustStore(t, tx)
	before := status(store)

	require.Equal(t, e.ID, claimOne(t, inside).ID)

	claimed := fmt.Sprintf("%s, version %d", almanac.Processing, e.Version+1)
	require.Equal(t, claimed, status(inside))
	require.Equal(t, 1, leases(tx))
	require.Equal(t, before, status(store), "before the commit")
	require.Zero(t, leases(pool))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, before, status(store), "after the rollback")
	require.Equal(t, e.ID, claimOne(t, store).ID)
	require.Equal(t, claimed, status(store))
}

// A claim that is made of two, for lanes with and without names, has the events of both in the memory of another claim.
func TestAClaimUsesTheMemoryOfAnother(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	owe(t, pool, 8)
	_, err := pool.Exec(t.Context(), `
		ALTER TABLE almanac.series DISABLE TRIGGER USER;
		UPDATE almanac.series SET lane = 'crm' WHERE id % 2 = 0;
		ALTER TABLE almanac.series ENABLE TRIGGER USER;
		WITH gone AS (DELETE FROM almanac.queue WHERE series_id % 2 = 0 RETURNING *)
		INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, lane)
		SELECT available_at, event_id, series_id, event_type, 'crm' FROM gone`)
	require.NoError(t, err)
	store := mustStore(t, pool)
	first, err := store.Claim(t.Context(), birthdaysUpTo(2))
	require.NoError(t, err)
	require.Len(t, first.Events, 2)
	seen := map[uuid.UUID]bool{first.Events[0].ID: true, first.Events[1].ID: true}

	again := birthdaysUpTo(100)
	again.Memory = &first
	second, err := store.Claim(t.Context(), again)

	require.NoError(t, err)
	require.Len(t, second.Events, 6)
	require.Len(t, second.Users, 6)
	for _, e := range second.Events {
		require.False(t, seen[e.ID], "an event twice, or of the claim before")
		require.Equal(t, e.UserID, second.Users[e.UserID].ID)
		seen[e.ID] = true
	}
}
