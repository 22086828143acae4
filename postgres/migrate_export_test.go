package postgres_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/postgres"
)

// scripts are what a tool runs, in order: each text is one call of Exec, and each
// migration one transaction.
type scripts struct{ up, down [][]string }

// readers read what was exported as the tools do. The tools themselves are tried in
// checks/migrators.
var readers = map[postgres.Layout]func(t *testing.T, files []postgres.File) scripts{
	postgres.Plain:         readPlain,
	postgres.Goose:         readGoose,
	postgres.Tern:          readTern,
	postgres.GolangMigrate: readGolangMigrate,
}

func readPlain(t *testing.T, files []postgres.File) scripts {
	t.Helper()
	require.Len(t, files, 1)
	require.Regexp(t, `^almanac_\d{4}\.sql$`, files[0].Name)
	return scripts{up: [][]string{{files[0].SQL}}}
}

// readGoose takes nothing but blocks and comments: what is outside of a block goose
// cuts at semicolons.
func readGoose(t *testing.T, files []postgres.File) (s scripts) {
	t.Helper()
	for i, f := range files {
		require.Regexp(t, fmt.Sprintf(`^%05d_[a-z_]+\.sql$`, i+1), f.Name)
		var up, down []string
		var into *[]string
		within := false
		for line := range strings.Lines(f.SQL) {
			switch annotation, ok := strings.CutPrefix(strings.TrimSpace(line), "-- +goose "); {
			case ok && annotation == "Up":
				into = &up
			case ok && annotation == "Down":
				into = &down
			case ok && annotation == "StatementBegin":
				within = true
				*into = append(*into, "")
			case ok && annotation == "StatementEnd":
				within = false
			case within:
				(*into)[len(*into)-1] += line
			default:
				require.Empty(t, strings.TrimSpace(line), "outside of a block")
			}
		}
		require.False(t, within)
		s.up, s.down = append(s.up, up), append([][]string{down}, s.down...)
	}
	return s
}

// readTern reads what is a template, in which no function is called.
func readTern(t *testing.T, files []postgres.File) (s scripts) {
	t.Helper()
	for i, f := range files {
		require.Regexp(t, fmt.Sprintf(`^%03d_[a-z_]+\.sql$`, i+1), f.Name)
		var b strings.Builder
		parsed, err := template.New(f.Name).Parse(f.SQL)
		require.NoError(t, err)
		require.NoError(t, parsed.Execute(&b, nil))
		up, down, ok := strings.Cut(b.String(), "\n---- create above / drop below ----\n")
		require.True(t, ok)
		s.up, s.down = append(s.up, []string{up}), append([][]string{{down}}, s.down...)
	}
	return s
}

func readGolangMigrate(t *testing.T, files []postgres.File) (s scripts) {
	t.Helper()
	named := regexp.MustCompile(`^(\d{6}_[a-z_]+)\.(down|up)\.sql$`)
	for i, f := range files {
		parts := named.FindStringSubmatch(f.Name)
		require.NotNil(t, parts, f.Name)
		require.True(t, strings.HasPrefix(f.Name, fmt.Sprintf("%06d_", i/2+1)), f.Name)
		if parts[2] == "up" {
			s.up = append(s.up, []string{f.SQL})
		} else {
			s.down = append([][]string{{f.SQL}}, s.down...)
		}
	}
	return s
}

// apply runs scripts, each migration in a transaction, as tools do. A script that
// begins one itself, as the plain one does, is run by itself.
func apply(t *testing.T, pool *pgxpool.Pool, migrations [][]string) error {
	t.Helper()
	for _, texts := range migrations {
		if strings.Contains(texts[0], "\nBEGIN;\n") {
			_, err := pool.Exec(t.Context(), texts[0])
			if err != nil {
				_, errBack := pool.Exec(t.Context(), "ROLLBACK")
				require.NoError(t, errBack)
				return err
			}
			continue
		}
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		for _, text := range texts {
			if _, err := tx.Exec(t.Context(), text); err != nil {
				require.NoError(t, tx.Rollback(t.Context()))
				return err
			}
		}
		require.NoError(t, tx.Commit(t.Context()))
	}
	return nil
}

func exported(t *testing.T, e postgres.Export) scripts {
	t.Helper()
	files, err := e.Files()
	require.NoError(t, err)
	return read(t, e.Layout, files)
}

// exportedNext exports the migrations of the next release.
func exportedNext(t *testing.T, e postgres.Export) scripts {
	t.Helper()
	files, err := e.FollowingFiles()
	require.NoError(t, err)
	return read(t, e.Layout, files)
}

func read(t *testing.T, layout postgres.Layout, files []postgres.File) scripts {
	t.Helper()
	require.True(t, slices.IsSortedFunc(files, func(a, b postgres.File) int { return strings.Compare(a.Name, b.Name) }))
	return readers[layout](t, files)
}

func TestAnExportDoesWhatMigrateDoes(t *testing.T) {
	t.Parallel()
	for _, layout := range postgres.Layouts() {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			pool, within, next := emptyPool(t), postgres.WithSchema("user"), postgres.Following()
			s := exportedNext(t, postgres.Export{Layout: layout, Schema: "user"})

			require.NoError(t, apply(t, pool, s.up))

			require.NoError(t, postgres.Migrate(t.Context(), pool, within, next))
			found, known := versionOf(t, pool, within, next)
			require.Equal(t, known, found)
			migrated := emptyPool(t)
			require.NoError(t, postgres.Migrate(t.Context(), migrated, within, next))
			top := whole(t, migrated, "user")
			require.Equal(t, top, whole(t, pool, "user"))
			require.Equal(t, listed(t, migrated, "user"), listed(t, pool, "user"))
			if layout == postgres.Plain {
				return
			}
			require.NoError(t, postgres.MigrateDown(t.Context(), pool, postgres.MigrateDownOptions{}, within, next))
			require.NoError(t, apply(t, pool, s.up[known-1:]), "what MigrateDown undid")
			require.NoError(t, apply(t, pool, s.down))
			require.Empty(t, whole(t, pool, "user"))
			require.NoError(t, apply(t, pool, s.up), "and up again, into the schema that was left")
			require.Equal(t, top, whole(t, pool, "user"))
		})
	}
}

// listed are the migrations that the database says it has.
func listed(t *testing.T, pool *pgxpool.Pool, schema string) (rows string) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT string_agg(version || ' ' || name, ', ' ORDER BY version) FROM "`+schema+`".migrations`).Scan(&rows))
	return rows
}

// Neither half of a script, nor one that does not come next, changes anything.
func TestAnExportFailsOnAnotherVersion(t *testing.T) {
	t.Parallel()
	for _, layout := range postgres.Layouts() {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			pool := emptyPool(t)
			s := exportedNext(t, postgres.Export{Layout: layout})
			_, err := pool.Exec(t.Context(), "CREATE SCHEMA almanac; CREATE TABLE almanac.history (mine text)")
			require.NoError(t, err)
			before := whole(t, pool, "almanac")
			require.ErrorContains(t, apply(t, pool, s.up), `"history" already exists`)
			require.Equal(t, before, whole(t, pool, "almanac"))

			_, err = pool.Exec(t.Context(), "DROP SCHEMA almanac CASCADE")
			require.NoError(t, err)
			require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Following()))
			top := whole(t, pool, "almanac")
			require.ErrorContains(t, apply(t, pool, s.up), "schema almanac of Almanac is not at version 0")
			if layout != postgres.Plain {
				require.ErrorContains(t, apply(t, pool, s.down[1:]), "schema almanac of Almanac is not at version ")
			}
			require.Equal(t, top, whole(t, pool, "almanac"))
		})
	}
}

func TestAnExportedWayDownLosesDataOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	for _, layout := range []postgres.Layout{postgres.Goose, postgres.Tern, postgres.GolangMigrate} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			pool := emptyPool(t)
			s := exportedNext(t, postgres.Export{Layout: layout})
			require.NoError(t, apply(t, pool, s.up))
			_, err := pool.Exec(t.Context(), insertUser)
			require.NoError(t, err)

			require.ErrorContains(t, apply(t, pool, s.down), "would lose for good what is in users, series, history, keys, ")
			found, _ := versionOf(t, pool)
			require.Equal(t, 1, found, "what loses nothing was undone")

			last := append([]string{"SET LOCAL almanac.lose_data = 'yes'"}, s.down[len(s.down)-1]...)
			require.NoError(t, apply(t, pool, [][]string{last}))
			require.Empty(t, whole(t, pool, "almanac"))
		})
	}
}

func TestAPlainScriptCanBeginAfterAVersion(t *testing.T) {
	t.Parallel()
	pool := emptyPool(t)
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	files, err := postgres.Export{After: 1}.FollowingFiles()
	require.NoError(t, err)
	require.Equal(t, "almanac_0001_0002.sql", files[0].Name)

	require.NoError(t, apply(t, pool, [][]string{{files[0].SQL}}))

	found, _ := versionOf(t, pool)
	require.Equal(t, 2, found)
	require.ErrorContains(t, apply(t, pool, [][]string{{files[0].SQL}}), "is not at version 1")
}

func TestABadExportNamesEveryProblem(t *testing.T) {
	t.Parallel()
	files, err := postgres.Export{Layout: "flyway", Schema: "pg_x", After: 999}.Files()
	require.Empty(t, files)
	require.ErrorContains(t, err, `"pg_x" is no name for a schema`)
	require.ErrorContains(t, err, `"flyway" is no layout of migrations: use one of ["plain" "goose" "tern" "golang-migrate"]`)
	require.ErrorContains(t, err, "there is no migration after 999: the last is ")

	_, err = postgres.Export{Layout: postgres.Goose, After: 1}.FollowingFiles()
	require.EqualError(t, err, "postgres: only a plain script can begin after a version")
	_, err = postgres.Export{After: -1}.Files()
	require.Error(t, err)
}
