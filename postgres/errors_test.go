package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// raise is what a trigger does that fails with a condition.
func raise(code string) string { return "RAISE EXCEPTION 'no' USING ERRCODE = '" + code + "'" }

const endSession = "PERFORM pg_terminate_backend(pg_backend_pid())"

// sabotage makes the first statements fail that claim or store outcomes, so many of them.
func sabotage(t *testing.T, pool *pgxpool.Pool, options string, times int) (attempts func() int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE SEQUENCE public.attempts; -- which no rollback sets back
		CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('public.attempts') <= %d THEN %s; END IF;
			RETURN NULL;
		END $$;
		CREATE TRIGGER fail BEFORE DELETE ON almanac.queue FOR EACH STATEMENT EXECUTE FUNCTION public.fail();
		CREATE TRIGGER fail BEFORE UPDATE ON almanac.series FOR EACH STATEMENT EXECUTE FUNCTION public.fail()`, times, options))
	require.NoError(t, err)
	return func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT last_value FROM public.attempts").Scan(&n))
		return n
	}
}

func birthdays(limit int) almanac.ClaimRequest {
	return almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute}
}

func TestAClaimIsRepeatedAfterTemporaryErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		how      string
		times    int // so many attempts fail
		attempts int // so many are made
		code     string
	}{
		"a conflict of serializable transactions": {raise("40001"), 2, 3, ""},
		"a deadlock":                                  {raise("40P01"), 2, 3, ""},
		"a lock that is not to be had":                {raise("55P03"), 1, 1, "55P03"},
		"a conflict that never passes":                {raise("40001"), 99, 6, "40001"},
		"a session that is ended":                     {endSession, 2, 3, ""},
		"a session that may not write":                {raise("25006"), 2, 3, ""},
		"a server that may not write":                 {raise("25006"), 99, 6, "25006"},
		"a statement that took too long":              {raise("57014"), 1, 1, "57014"},
		"the disk is full":                            {raise("53100"), 1, 1, "53100"},
		"no memory":                                   {raise("53200"), 1, 1, "53200"},
		"no connection":                               {raise("53300"), 1, 1, "53300"},
		"a server that is starting":                   {raise("57P03"), 1, 1, "57P03"},
		"a key that is taken":                         {raise("23505"), 1, 1, "23505"},
		"a check that fails":                          {raise("23514"), 1, 1, "23514"},
		"a value that does not fit":                   {raise("22001"), 1, 1, "22001"},
		"a trigger of the host's that does not agree": {raise("P0001"), 1, 1, "P0001"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool, postgres.WithTimeout(time.Minute))
			overdue(t, store)
			attempts := sabotage(t, pool, tt.how, tt.times)

			claim, err := store.Claim(t.Context(), birthdays(1))

			require.Equal(t, tt.attempts, attempts())
			if tt.code == "" {
				require.NoError(t, err)
				// A session that is ended reports this to its client before it unlocks the row.
				for deadline := time.Now().Add(10 * time.Second); len(claim.Events) == 0 && time.Now().Before(deadline); {
					claim, err = store.Claim(t.Context(), birthdays(1))
					require.NoError(t, err)
				}
				require.Len(t, claim.Events, 1)
				require.Equal(t, 1, claim.Events[0].ClaimCount)
				return
			}
			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			require.Equal(t, tt.code, pg.Code)
			require.ErrorContains(t, err, "postgres: claim: ")
			require.True(t, pgconn.SafeToRetry(err), "nothing was claimed, and the error says so")
			require.Empty(t, claim.Events)
		})
	}
}

// readOnlyPool returns a pool, all of whose sessions lead to a server that may not
// be written to any more, as far as they know. New ones may write.
func readOnlyPool(t *testing.T, address string, sessions int) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.Direct(t, address))
	require.NoError(t, err)
	config.MaxConns = int32(sessions)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	held := make([]*pgxpool.Conn, sessions)
	for i := range held {
		held[i], err = pool.Acquire(t.Context())
		require.NoError(t, err)
		_, err = held[i].Exec(t.Context(), "SET default_transaction_read_only = on")
		require.NoError(t, err)
	}
	for _, conn := range held {
		conn.Release()
	}
	return pool
}

func TestReadOnlySessionsLeaveThePool(t *testing.T) {
	t.Parallel()
	const sessions = 4
	pool := readOnlyPool(t, pgtest.URL(t), sessions)
	store := mustStore(t, pool, postgres.WithTimeout(time.Minute))

	enrolment, err := newScheduler(t, store).CreateUser(t.Context(), ada)

	require.NoError(t, err)
	require.EqualValues(t, sessions+1, pool.Stat().NewConnsCount(), "each was met once, and a new one serves")
	_, err = store.User(t.Context(), enrolment.User.ID)
	require.NoError(t, err)
	require.EqualValues(t, sessions+1, pool.Stat().NewConnsCount(), "which stays")
}

func TestConnectionsOfTheHostAreNotClosed(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*pgxpool.Conn, pgx.Tx) postgres.DB{
		"a transaction":            func(_ *pgxpool.Conn, tx pgx.Tx) postgres.DB { return tx },
		"a connection of its pool": func(c *pgxpool.Conn, _ pgx.Tx) postgres.DB { return c },
		"a connection":             func(c *pgxpool.Conn, _ pgx.Tx) postgres.DB { return c.Conn() },
	}
	for name, choose := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := readOnlyPool(t, pgtest.URL(t), 1).Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(t.Context()) }()
			store := mustStore(t, choose(conn, tx))

			_, err = store.Claim(t.Context(), birthdays(1))

			var pg *pgconn.PgError
			require.ErrorAs(t, err, &pg)
			require.Equal(t, "25006", pg.Code)
			require.False(t, conn.Conn().IsClosed())
		})
	}
}

// claimedAndDelivered returns as many claimed events, delivered and not settled.
func claimedAndDelivered(t *testing.T, pool *pgxpool.Pool, store *postgres.Store, n int) []almanac.Settlement {
	t.Helper()
	for range n {
		overdue(t, store)
	}
	claim, err := store.Claim(t.Context(), birthdays(n))
	require.NoError(t, err)
	require.Len(t, claim.Events, n)
	settlements := make([]almanac.Settlement, n)
	for i, e := range claim.Events {
		settlements[i] = almanac.Settlement{Event: e, Outcome: almanac.Delivered(claim.At), User: claim.Users[e.UserID], Next: nextBirthday}
	}
	return settlements
}

func TestABatchThatTakesTooLongFails(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	settlements := claimedAndDelivered(t, pool, store, 1)
	attempts := sabotage(t, pool, raise("57014"), 1)

	_, err := store.Settle(t.Context(), settlements)
	require.Error(t, err)
	require.Equal(t, 1, attempts())
	settled, err := store.Settle(t.Context(), settlements)
	require.NoError(t, err)
	require.Equal(t, almanac.Completed, settled[0].Event.Status)
}

func TestARowThatATriggerRefusesDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{"by RAISE": "P0001", "by a check": "23514", "by a conversion": "22P02"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			settlements := claimedAndDelivered(t, pool, store, 3)
			refused := settlements[1].Event.ID
			_, err := pool.Exec(t.Context(), fmt.Sprintf(`
				CREATE FUNCTION public.audit() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					%s;
				END $$;
				CREATE TRIGGER audit BEFORE UPDATE ON almanac.series FOR EACH ROW WHEN (OLD.event_id = '%s') EXECUTE FUNCTION public.audit()`, raise(code), refused))
			require.NoError(t, err)

			settled, err := store.Settle(t.Context(), settlements)

			require.NoError(t, err)
			for i, s := range settled {
				require.Equal(t, i == 1, s.Err != nil, "%v", s.Err)
				require.Equal(t, i != 1, s.Successor != nil)
			}
			stored, err := store.Event(t.Context(), refused)
			require.NoError(t, err)
			require.Equal(t, almanac.Processing, stored.Status, "until its lease runs out")
		})
	}
}
