package chaos_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/internal/pgserver"
	"github.com/almanac-go/almanac/postgres"
)

const bill = "bill" // a consumer

// side is the database postgres of a server, with the tables of Almanac.
type side struct {
	*testing.T
	url  string
	pool *pgxpool.Pool
}

func newSide(t *testing.T, url string) *side {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &side{t, url, pool}
}

func (s *side) exec(sql string) {
	s.Helper()
	_, err := s.pool.Exec(s.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(s, err, sql)
}

func (s *side) store() *postgres.Store {
	s.Helper()
	store, err := postgres.New(s.pool)
	require.NoError(s, err)
	return store
}

func (s *side) createUser() uuid.UUID {
	s.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(s, err)
	scheduler, err := almanac.NewScheduler(s.store(), registry)
	require.NoError(s, err)
	created, err := scheduler.CreateUser(s.Context(), almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1915-12-10", Timezone: "Europe/London",
	})
	require.NoError(s, err)
	return created.User.ID
}

// read reads all that the consumer has not read, and returns the users who were created.
func (s *side) read() (users []uuid.UUID, err error) {
	for n := 1; n > 0 && err == nil; {
		n, err = s.store().Consume(s.Context(), bill, 3, func(_ context.Context, _ pgx.Tx, events []postgres.DomainEvent) error {
			for _, e := range events {
				if e.Kind == postgres.UserCreated {
					users = append(users, e.UserID)
				}
			}
			return nil
		})
	}
	return users, err
}

// burn uses up transaction ids.
func (s *side) burn(n string) {
	s.Helper()
	s.exec("DO $$ BEGIN PERFORM set_config('synchronous_commit', 'off', false); FOR i IN 1.." + n + " LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
}

// program runs a program of the server's release, and returns what it writes.
func (s *side) program(name string, args ...string) string {
	s.Helper()
	binaries, err := pgserver.Find()
	require.NoError(s, err)
	out, err := exec.CommandContext(s.Context(), filepath.Join(binaries.Dir, name), args...).CombinedOutput()
	require.NoError(s, err, "%s: %s", name, out)
	return string(out)
}

// byDump moves the tables by pg_dump and psql.
func byDump(from, to *side) {
	file := filepath.Join(from.TempDir(), "dump.sql")
	from.program("pg_dump", "--schema=almanac", "--file="+file, from.url)
	to.program("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-f", file, to.url)
}

// byReplication moves the tables by logical replication: first their definitions, then the rows, at
// last the numbers of sequences, which are not replicated.
func byReplication(from, to *side) {
	file := filepath.Join(from.TempDir(), "schema.sql")
	from.program("pg_dump", "--schema=almanac", "--schema-only", "--file="+file, from.url)
	to.program("psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-f", file, to.url)
	from.exec("CREATE PUBLICATION everything FOR ALL TABLES")
	to.exec("CREATE SUBSCRIPTION everything CONNECTION '" + from.url + "' PUBLICATION everything")
	require.Eventually(to, func() bool {
		var there bool
		err := to.pool.QueryRow(to.Context(), "SELECT every(srsubstate = 'r') FROM pg_subscription_rel").Scan(&there)
		return err == nil && there
	}, 60*time.Second, 20*time.Millisecond)
	to.exec("DROP SUBSCRIPTION everything")
	to.exec(`DO $$
		DECLARE
			one record;
		BEGIN
			FOR one IN
				SELECT format('SELECT setval(%L, (SELECT coalesce(max(%I), 0) + 1 FROM %s))', s.oid::regclass, a.attname, d.refobjid::regclass) AS sql
				FROM pg_class s JOIN pg_depend d ON d.objid = s.oid AND d.deptype IN ('a', 'i') AND d.refclassid = 'pg_class'::regclass
				JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
				WHERE s.relkind = 'S' AND s.relnamespace = 'almanac'::regnamespace
			LOOP
				EXECUTE one.sql;
			END LOOP;
		END $$`)
}

// Transaction ids belong to a server. Once the other server has passed the stored position, its ids
// alone no longer show that the position is not its own.
func TestTheOutboxMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(from, to *side){"by a dump": byDump, "by logical replication": byReplication} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			share(t)
			var sides [2]*side
			for i := range sides {
				cluster, err := chaos.NewCluster(t.Context(), map[string]string{"wal_level": "logical"})
				require.NoError(t, err)
				t.Cleanup(func() { _ = cluster.Close(context.Background()) })
				sides[i] = newSide(t, cluster.Direct("postgres"))
			}
			from, to := sides[0], sides[1]
			require.NoError(t, postgres.Migrate(t.Context(), from.pool))
			require.NoError(t, from.store().CreateConsumer(t.Context(), bill))
			require.NoError(t, postgres.EnableOutbox(t.Context(), from.pool))
			from.burn("1500") // so that the other server is behind at first
			first := from.createUser()
			users, err := from.read()
			require.NoError(t, err)
			require.Equal(t, []uuid.UUID{first}, users)
			second := from.createUser()

			move(from, to)
			third := to.createUser()
			_, err = to.read()
			require.ErrorIs(t, err, postgres.ErrOutboxRestored, "behind the position")
			to.burn("2000")
			users, err = to.read()
			require.ErrorIs(t, err, postgres.ErrOutboxRestored, "past the position: users read %v, of %v", users, []uuid.UUID{second, third})
			pruned, err := to.store().PruneOutbox(t.Context(), 1000)
			require.NoError(t, err)
			require.Zero(t, pruned)

			require.NoError(t, postgres.EnableOutbox(t.Context(), to.pool))
			users, err = to.read()
			require.NoError(t, err)
			require.Equal(t, []uuid.UUID{first, second, third}, users)
			differences, err := to.store().Examine(t.Context())
			require.NoError(t, err)
			require.Empty(t, differences)
		})
	}
}

// A standby has the identifier of its server, and goes on with its transaction ids.
func TestTheOutboxStaysWithAStandby(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r, standby := followed(t, seed)
		from := newSide(t, r.Cluster.Direct(r.Database))
		require.NoError(t, from.store().CreateConsumer(t.Context(), bill))
		require.NoError(t, postgres.EnableOutbox(t.Context(), from.pool))
		from.createUser()
		_, err := from.read()
		require.NoError(t, err)
		second := from.createUser()
		from.pool.Close()
		require.NoError(t, r.Cluster.Demote(r.Within(30*time.Second), standby))
		require.NoError(t, r.Cluster.Promote(r.Within(30*time.Second), standby))

		to := newSide(t, r.Cluster.Direct(r.Database))
		third := to.createUser()
		users, err := to.read()
		require.NoError(t, err)
		require.Equal(t, []uuid.UUID{second, third}, users)
	})
}
