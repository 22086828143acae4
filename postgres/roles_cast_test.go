package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// cast is a database with the roles of docs/roles.sql. Their names begin with a
// prefix that is unique in the cluster.
type cast struct {
	url    *url.URL
	prefix string
	pools  map[string]*pgxpool.Pool // by the part of the role's name after the prefix; "" is the role that runs the tests
}

// newCast grants the roles on a migrated database.
func newCast(t *testing.T) *cast {
	t.Helper()
	c := castOn(t, pgtest.URL(t))
	c.run(t, "")
	c.hireAll(t, "")
	return c
}

// documented takes an empty database the way that roles.sql describes: the roles, the migrations as the owner, the
// grants. It does so as a role that is no superuser.
func documented(t *testing.T) *cast {
	t.Helper()
	c := auditioned(t)
	c.run(t, "admin")
	c.hireAll(t, "admin")
	require.NoError(t, postgres.Migrate(t.Context(), c.pools["owner"]))
	c.run(t, "admin")
	return c
}

// auditioned returns an empty database with an administrator, and no roles yet.
func auditioned(t *testing.T) *cast {
	t.Helper()
	c := castOn(t, pgtest.EmptyURL(t))
	c.hire(t, "", "admin", "CREATEROLE")
	c.exec(t, "", "GRANT CREATE ON DATABASE "+strings.TrimPrefix(c.url.Path, "/")+" TO "+c.prefix+"admin_login WITH GRANT OPTION")
	return c
}

func castOn(t *testing.T, address string) *cast {
	t.Helper()
	u, err := url.Parse(pgtest.Direct(t, address)) // a pooler keeps sessions with other settings
	require.NoError(t, err)
	c := &cast{url: u, prefix: "t" + strings.ToLower(rand.Text()) + "_", pools: map[string]*pgxpool.Pool{}}
	c.connect(t, "", u.User)
	t.Cleanup(func() { c.dismiss(t) })
	return c
}

// hireAll creates a login for each role.
func (c *cast) hireAll(t *testing.T, by string) {
	t.Helper()
	for _, role := range []string{"owner", "worker", "api", "operator", "relay", "reader"} {
		c.hire(t, by, role, "IN ROLE "+c.prefix+role)
	}
	c.exec(t, by, "ALTER ROLE "+c.prefix+"owner_login SET role = '"+c.prefix+"owner'")
}

// hire creates a role that can log in, and connects as it.
func (c *cast) hire(t *testing.T, by, role, attributes string) {
	t.Helper()
	login := c.prefix + role + "_login"
	c.exec(t, by, "CREATE ROLE "+login+" LOGIN PASSWORD 'secret' "+attributes)
	c.connect(t, role, url.UserPassword(login, "secret"))
}

func (c *cast) connect(t *testing.T, role string, user *url.Userinfo) {
	t.Helper()
	at := *c.url
	at.User = user
	config, err := pgxpool.ParseConfig(at.String())
	require.NoError(t, err)
	config.MaxConns = 4
	c.pools[role], err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(c.pools[role].Close)
}

// dismiss drops every role of the cast, and what they own and may do.
func (c *cast) dismiss(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url.String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	rows, err := conn.Query(ctx, "SELECT rolname::text FROM pg_roles WHERE starts_with(rolname, $1)", c.prefix)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for _, role := range all { // one by one: together, PostgreSQL 15 stumbles over default privileges that two of them share
		_, err = conn.Exec(ctx, "DROP OWNED BY "+role+" CASCADE")
		require.NoError(t, err)
	}
	_, err = conn.Exec(ctx, "DROP ROLE "+strings.Join(all, ", "))
	require.NoError(t, err)
}

// run runs roles.sql as psql would, under the cast's own names.
func (c *cast) run(t *testing.T, role string) {
	t.Helper()
	text, err := os.ReadFile("../docs/roles.sql")
	require.NoError(t, err)
	c.exec(t, role, strings.ReplaceAll(asPsql(string(text), `"almanac"`), "almanac_", c.prefix))
}

func (c *cast) exec(t *testing.T, role, sql string, args ...any) {
	t.Helper()
	_, err := c.pools[role].Exec(t.Context(), sql, args...)
	require.NoError(t, err, "%s", sql)
}

func (c *cast) store(t *testing.T, role string) *postgres.Store {
	t.Helper()
	store, err := postgres.New(c.pools[role])
	require.NoError(t, err)
	return store
}

// lines returns a column of text, as the role that runs the tests sees it.
func (c *cast) lines(t *testing.T, sql string, args ...any) []string {
	t.Helper()
	rows, err := c.pools[""].Query(t.Context(), sql, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return lines
}

// privileges describes who owns what in the schema, and who may do what with it.
func (c *cast) privileges(t *testing.T) []string {
	t.Helper()
	return c.lines(t, `
		SELECT format('schema %s %s', nspowner::regrole, nspacl) FROM pg_namespace WHERE nspname = 'almanac'
		UNION ALL
		SELECT format('%s %s %s', relname, relowner::regrole, relacl) FROM pg_class WHERE relnamespace = 'almanac'::regnamespace AND relkind <> 'i'
		UNION ALL
		SELECT format('%s.%s %s', attrelid::regclass, attname, attacl) FROM pg_attribute
		WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'almanac'::regnamespace AND relkind <> 'i') AND attnum > 0
		UNION ALL
		SELECT format('%s %s %s', proname, proowner::regrole, proacl) FROM pg_proc WHERE pronamespace = 'almanac'::regnamespace
		UNION ALL
		SELECT format('default %s %s %s', defaclrole::regrole, defaclobjtype, defaclacl) FROM pg_default_acl
		ORDER BY 1`)
}

// requireRefused requires that the database refused for want of a privilege.
func requireRefused(t *testing.T, err error, what string) {
	t.Helper()
	var pg *pgconn.PgError
	require.True(t, errors.As(err, &pg), "%s: %v", what, err)
	require.Equal(t, "42501", pg.Code, "%s: %v", what, err)
}

// log is what a scheduler has said.
type log struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
