package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// stranger is a role of its own on a database with users, events in every state and
// an audit trail.
type stranger struct {
	owner, pool *pgxpool.Pool
	role        string
	store       *postgres.Store // the owner's
	user        uuid.UUID
}

// newStranger makes a role that may log in, use the schema and what granted says
// besides, in which {role} stands for its name.
func newStranger(t *testing.T, granted string) *stranger {
	t.Helper()
	at, err := url.Parse(pgtest.Direct(t, pgtest.URL(t)))
	require.NoError(t, err)
	s := &stranger{role: "stranger_" + strings.ToLower(rand.Text())}
	config, err := pgxpool.ParseConfig(at.String())
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["search_path"] = "pg_catalog" // or it begins with the schema of the role's name
	s.owner, err = pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(s.owner.Close)
	s.store, err = postgres.New(s.owner)
	require.NoError(t, err)
	require.NoError(t, postgres.EnableAudit(t.Context(), s.owner))
	require.NoError(t, postgres.EnableOutbox(t.Context(), s.owner))
	e := overdue(t, s.store)
	ended := claimOne(t, s.store)
	settled, err := s.store.Settle(t.Context(), []almanac.Settlement{{Event: ended, Outcome: almanac.Delivered(ended.UpdatedAt)}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	overdue(t, s.store)
	claimOne(t, s.store)
	overdue(t, s.store)
	s.user = e.UserID

	s.byOwner(t, "CREATE ROLE {role} LOGIN PASSWORD 'secret'; CREATE SCHEMA mine AUTHORIZATION {role}; GRANT USAGE ON SCHEMA almanac TO {role}; "+granted)
	t.Cleanup(func() {
		_, err := s.owner.Exec(context.Background(), strings.ReplaceAll("DROP OWNED BY {role} CASCADE; DROP ROLE {role}", "{role}", s.role))
		require.NoError(t, err)
	})
	at.User = url.UserPassword(s.role, "secret")
	s.pool, err = pgxpool.New(t.Context(), at.String())
	require.NoError(t, err)
	t.Cleanup(s.pool.Close)
	return s
}

func (s *stranger) byOwner(t *testing.T, sql string) {
	t.Helper()
	_, err := s.owner.Exec(t.Context(), strings.ReplaceAll(sql, "{role}", s.role))
	require.NoError(t, err, "%s", sql)
}

// try runs statements as the role, in a transaction of their own. What is set for the
// session and temporary goes with it.
func (s *stranger) try(t *testing.T, sql string) error {
	t.Helper()
	conn, err := s.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, tried := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	for _, clean := range []string{"ROLLBACK", "DISCARD ALL"} {
		_, err = conn.Exec(t.Context(), clean, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	return tried
}

// contents are all rows of the schema with their transactions, locks of rows
// included, its definitions, and its rights.
func (s *stranger) contents(t *testing.T) []string {
	t.Helper()
	contents := []string{whole(t, s.owner, "almanac")}
	for _, table := range s.relations(t, 'r') {
		contents = append(contents, s.lines(t, fmt.Sprintf("SELECT format('%[1]s %%s %%s %%s %%s', ctid, xmin, xmax, to_jsonb(x)) FROM %[1]s x ORDER BY ctid", table))...)
	}
	return append(contents, s.lines(t, `
		SELECT format('%s %s %s %s %s %s', c.relname, c.relowner, c.relacl, c.relrowsecurity, c.reloptions, (SELECT string_agg(a.attacl::text, ' ' ORDER BY attnum) FROM pg_attribute a WHERE a.attrelid = c.oid))
		FROM pg_class c WHERE relnamespace = 'almanac'::regnamespace
		UNION ALL SELECT format('%s %s %s', proname, proowner, proacl) FROM pg_proc WHERE pronamespace = 'almanac'::regnamespace
		UNION ALL SELECT format('%s %s', nspowner, nspacl) FROM pg_namespace WHERE nspname = 'almanac'
		UNION ALL SELECT format('%s %s %s', sequencename, last_value, increment_by) FROM pg_sequences WHERE schemaname = 'almanac'
		UNION ALL SELECT format('%s %s', objoid::regclass, description) FROM pg_description WHERE classoid = 'pg_class'::regclass AND objoid IN (SELECT oid FROM pg_class WHERE relnamespace = 'almanac'::regnamespace)
		UNION ALL SELECT format('rule %s on %s', rulename, tablename) FROM pg_rules WHERE schemaname = 'almanac'
		UNION ALL SELECT format('statistics %s', stxname) FROM pg_statistic_ext
		UNION ALL SELECT format('publication %s', pubname) FROM pg_publication
		UNION ALL SELECT format('default %s', defaclacl) FROM pg_default_acl
		UNION ALL SELECT format('reference to %s', conname) FROM pg_constraint WHERE contype = 'f'
		UNION ALL SELECT format('child of %s', inhparent) FROM pg_inherits i WHERE inhparent IN (SELECT oid FROM pg_class WHERE relnamespace = 'almanac'::regnamespace)
		ORDER BY 1`)...)
}

// relations are the tables and views of the schema, or those of one kind.
func (s *stranger) relations(t *testing.T, kinds ...rune) []string {
	t.Helper()
	if len(kinds) == 0 {
		kinds = []rune("rv")
	}
	return s.lines(t, "SELECT 'almanac.' || relname FROM pg_class WHERE relnamespace = 'almanac'::regnamespace AND strpos($1, relkind::text) > 0 ORDER BY 1", string(kinds))
}

// lines returns a column of text, as the owner sees it.
func (s *stranger) lines(t *testing.T, sql string, args ...any) []string {
	t.Helper()
	rows, err := s.owner.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return lines
}

// A role that may use the schema, read everything in it and execute every function changes nothing, whatever it tries.
func TestARoleThatReadsChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStranger(t, "GRANT SELECT ON ALL TABLES IN SCHEMA almanac TO {role}; GRANT SELECT ON ALL SEQUENCES IN SCHEMA almanac TO {role}; "+
		"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA almanac TO {role}")
	before := s.contents(t)
	var owner string
	require.NoError(t, s.owner.QueryRow(t.Context(), "SELECT quote_ident(current_user)").Scan(&owner))
	fill := strings.NewReplacer("{user}", s.user.String(), "{owner}", owner)
	for what, sql := range borrowings {
		s.refused(t, what, fill.Replace(sql))
		require.Equal(t, before, s.contents(t), what)
	}
	for what, sql := range intrusions {
		for _, each := range s.relations(t) {
			s.refused(t, what, strings.ReplaceAll(fill.Replace(sql), "{each}", each))
			if !strings.Contains(sql, "{each}") {
				break
			}
		}
		require.Equal(t, before, s.contents(t), what)
	}
	for what, sql := range harmless {
		if s.try(t, fill.Replace(sql)) != nil {
			s.refused(t, what, fill.Replace(sql))
		}
		require.Equal(t, before, s.contents(t), what)
	}
}

// refusals are the codes by which PostgreSQL refuses what the role tries: no right to
// it; no such statement in this release, for this kind of relation, or for a function
// of triggers outside of one; and the guard.
var refusals = []string{"42501", "42601", "42809", "55000", "0A000", "23514"}

func (s *stranger) refused(t *testing.T, what, sql string) {
	t.Helper()
	err := s.try(t, sql)
	var pg *pgconn.PgError
	require.True(t, errors.As(err, &pg), "%s: %v: %s", what, err, sql)
	require.Contains(t, refusals, pg.Code, "%s: %v: %s", what, err, sql)
}
