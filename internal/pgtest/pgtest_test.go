package pgtest_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// sabotage is the environment variable that makes the test binary misbehave, for the tests
// that run it again.
const sabotage = "PGTEST_SABOTAGE"

func TestMain(m *testing.M) {
	switch os.Getenv(sabotage) {
	case "leak a goroutine":
		go func() { select {} }()
	case "fail as the helper":
		if os.Getenv("ALMANAC_TEST_HELPER") != "" {
			fmt.Println("no disk")
			os.Exit(1)
		}
	case "forget Main":
		os.Exit(m.Run())
	}
	if filepath.Base(os.Args[0]) == "go" {
		beGo()
		return
	}
	pgtest.Main(m)
}

// processes is how many processes a go command of these tests starts.
const processes = 3

// beGo makes this process a go command: it starts test processes with its own arguments and, like
// go test, waits until nothing has their output pipes open.
func beGo() {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	var group sync.WaitGroup
	for range processes {
		group.Go(func() {
			out, err := exec.Command(program, os.Args[1:]...).CombinedOutput()
			fmt.Printf("%s%v\n", out, err)
		})
	}
	group.Wait()
}

// connect opens a connection that is closed when t ends.
func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, conn.Close(ctx))
	})
	return conn
}

// holds reports whether the database has a table or a view of that name.
func holds(t *testing.T, address, relation string) bool {
	t.Helper()
	var found bool
	require.NoError(t, connect(t, address).
		QueryRow(t.Context(), "SELECT to_regclass($1) IS NOT NULL", relation).Scan(&found))
	return found
}

// databases returns the names of all databases on the server of the address.
func databases(t *testing.T, address string) []string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	u.Path = "/postgres"
	rows, err := connect(t, u.String()).Query(t.Context(), "SELECT datname FROM pg_database")
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

func name(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return strings.TrimPrefix(u.Path, "/")
}

func TestURL_isANewMigratedDatabase(t *testing.T) {
	t.Parallel()
	first, second := pgtest.URL(t), pgtest.URL(t)

	_, err := connect(t, first).Exec(t.Context(), "CREATE TABLE mine ()")
	require.NoError(t, err)

	require.True(t, holds(t, first, "mine"))
	require.False(t, holds(t, second, "mine"))
	require.True(t, holds(t, second, "almanac.events"))
}

func TestEmptyURL_isADatabaseWithoutTheSchema(t *testing.T) {
	t.Parallel()
	address := pgtest.EmptyURL(t)

	require.False(t, holds(t, address, "almanac.events"))
	var encoding, collation string
	require.NoError(t, connect(t, address).QueryRow(t.Context(), `
		SELECT pg_encoding_to_char(encoding), datcollate FROM pg_database WHERE datname = current_database()`).
		Scan(&encoding, &collation))
	require.Equal(t, "UTF8 C", encoding+" "+collation)
}

func TestURL_makesDatabasesForManyTestsAtOnce(t *testing.T) {
	t.Parallel()
	const tests = 12
	var mu sync.Mutex
	seen := make(map[string]bool)

	t.Run("each", func(t *testing.T) {
		for range tests {
			t.Run("test", func(t *testing.T) {
				t.Parallel()
				address := pgtest.URL(t)
				require.True(t, holds(t, address, "almanac.users"))
				mu.Lock()
				defer mu.Unlock()
				seen[address] = true
			})
		}
	})

	require.Len(t, seen, tests)
}

// A named server has the templates of other processes. Tests that run at once start such processes.
func TestURL_usesOneTemplate(t *testing.T) {
	address := pgtest.URL(t)
	if os.Getenv(pgtest.DatabaseVariable) != "" {
		return
	}
	var templates int
	require.NoError(t, connect(t, address).QueryRow(t.Context(), `
		SELECT count(*) FROM pg_database WHERE datname LIKE 'almanac_test_%' AND NOT datallowconn`).Scan(&templates))
	require.Equal(t, 1, templates)
}

func TestURL_dropsTheDatabaseEvenWhileSomeoneIsConnected(t *testing.T) {
	t.Parallel()
	var address string
	require.True(t, t.Run("its owner", func(owner *testing.T) {
		address = pgtest.URL(owner)
		connect(t, address) // open until the outer test ends
		require.Contains(owner, databases(owner, address), name(owner, address))
	}))

	require.NotContains(t, databases(t, address), name(t, address))
}

// sessions returns the number of sessions that the statements of one client use, when at
// least two are possible.
func sessions(t *testing.T, address string) int {
	t.Helper()
	client, other := connect(t, address), connect(t, address)
	seen := make(map[int]bool)
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = client.Exec(t.Context(), "SELECT 1") // needs a second session
	require.NoError(t, err)
	require.NoError(t, tx.Rollback(t.Context()))
	for range 4 {
		var pid int
		require.NoError(t, client.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
		seen[pid] = true
	}
	return len(seen)
}

func TestURL_goesThroughThePoolerThatIsNamed(t *testing.T) {
	t.Parallel()
	pooled := os.Getenv(pgtest.PoolerVariable) != ""
	address := pgtest.EmptyURL(t)

	require.Equal(t, pooled, sessions(t, address) > 1, "only a pooler moves a client between sessions")
	require.Equal(t, 1, sessions(t, pgtest.Direct(t, address)))
	require.Equal(t, name(t, address), name(t, pgtest.Direct(t, address)))
	require.Equal(t, pooled, address != pgtest.Direct(t, address))
}

func TestURL_takesAnyRoleOfTheServer(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	guest := role(t, u.String(), "")
	u.User = url.UserPassword(guest, secret)

	var as string
	require.NoError(t, connect(t, u.String()).QueryRow(t.Context(), "SELECT current_user").Scan(&as))

	require.Equal(t, guest, as)
}

func TestPool_hasEightConnectionsByDefault(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 8, pgtest.Pool(t).Config().MaxConns)
	require.EqualValues(t, 3, pgtest.Pool(t, pgtest.MaxConns(3)).Config().MaxConns)
}

func TestPool_isClosedWithItsTest(t *testing.T) {
	t.Parallel()
	var ping func(context.Context) error
	require.True(t, t.Run("its owner", func(t *testing.T) {
		ping = pgtest.Pool(t).Ping
		require.NoError(t, ping(t.Context()))
	}))

	require.ErrorContains(t, ping(t.Context()), "closed pool")
}

// again runs one test of this package in another process, in the given environment. It
// returns the output and whether the test passed.
func again(t *testing.T, test string, env ...string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// secret is a password that must be quoted everywhere.
const secret = `it's "secret"`

// role creates a role with that password until t ends. Its name is that of the database,
// which no other role on the server has.
func role(t *testing.T, address, attributes string) string {
	t.Helper()
	role := name(t, address)
	_, err := connect(t, address).Exec(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'it''s \"secret\"' "+attributes)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, address)
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "DROP ROLE "+role)
		require.NoError(t, err)
		require.NoError(t, conn.Close(ctx))
	})
	return role
}

func TestMain_usesTheServerThatIsNamedAndLeavesItClean(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.Direct(t, pgtest.EmptyURL(t)))
	require.NoError(t, err)
	conn := connect(t, u.String())
	// A separate role, so that the databases of other tests do not count.
	tester := role(t, u.String(), "CREATEDB")
	u.User = url.UserPassword(tester, secret)

	out, passed := again(t, "TestURL_isANewMigratedDatabase", pgtest.DatabaseVariable+"="+u.String(), pgtest.PoolerVariable+"=")

	require.True(t, passed, out)
	require.Equal(t, 1, strings.Count(out, "pgtest: "), out)
	require.Contains(t, out, "pgtest: server that ALMANAC_TEST_DATABASE_URL names at "+u.Host+", PostgreSQL ")
	require.NotContains(t, out, "secret")
	var left int
	require.NoError(t, conn.QueryRow(t.Context(), `
		SELECT count(*) FROM pg_database WHERE datdba = $1::regrole`, tester).Scan(&left))
	require.Zero(t, left)
}

func TestMain_refusesUnsuitableServers(t *testing.T) {
	t.Parallel()
	address := pgtest.Direct(t, pgtest.EmptyURL(t))
	meek, err := url.Parse(address)
	require.NoError(t, err)
	meekRole := role(t, address, "NOCREATEDB")
	meek.User = url.UserPassword(meekRole, secret)

	tests := map[string]struct {
		env  []string
		want string
	}{
		"another server than the one that is named": {
			env:  []string{pgtest.DatabaseVariable + "=postgres://127.0.0.1:1/postgres"},
			want: "pgtest: server that ALMANAC_TEST_DATABASE_URL names at 127.0.0.1:1: ",
		},
		"a server as a role that may make no databases": {
			env:  []string{pgtest.DatabaseVariable + "=" + meek.String()},
			want: `role "` + meekRole + `" may not create databases`,
		},
		"a server that is named in another way than by URL": {
			env:  []string{pgtest.DatabaseVariable + "=host=127.0.0.1"},
			want: "not a URL of the form postgres://",
		},
		"another server than the image that is named": {
			env: []string{
				pgtest.DatabaseVariable + "=", pgtest.ImageVariable + "=postgres:17-alpine",
				"DOCKER_HOST=unix:///nowhere/docker.sock",
			},
			want: "ALMANAC_TEST_POSTGRES_IMAGE is set, so nothing else will do: no Docker engine answers",
		},
		"a pooler that is named in another way than by URL": {
			env:  []string{pgtest.DatabaseVariable + "=" + address, pgtest.PoolerVariable + "=host=127.0.0.1"},
			want: "pgtest: ALMANAC_TEST_POOLER_URL: not a URL of the form postgres://",
		},
		"a pooler that does not run": {
			env:  []string{pgtest.DatabaseVariable + "=" + address, pgtest.PoolerVariable + "=postgres://127.0.0.1:1/"},
			want: "127.0.0.1:1",
		},
		"a server that would never be stopped": {
			env:  []string{sabotage + "=forget Main"},
			want: "TestMain must call pgtest.Main",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			out, passed := again(t, "TestEmptyURL_isADatabaseWithoutTheSchema", append([]string{pgtest.PoolerVariable + "="}, tt.env...)...)

			require.False(t, passed, out)
			require.Contains(t, out, tt.want)
			require.NotContains(t, out, "secret")
		})
	}
}

func TestMain_failsWhenTestsLeaveGoroutines(t *testing.T) {
	t.Parallel()

	out, passed := again(t, "no such test", sabotage+"=leak a goroutine")

	require.False(t, passed, out)
	require.Contains(t, out, "pgtest: tests left goroutines")
}
