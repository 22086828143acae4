package migrators_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	_ "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	_ "github.com/golang-migrate/migrate/v4/source/file"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	tern "github.com/jackc/tern/v2/migrate"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// tool takes a database up by the files of a directory, or all the way down.
type tool func(ctx context.Context, address, dir string, up bool) error

var tools = map[postgres.Layout]tool{
	postgres.Goose:         byGoose,
	postgres.Tern:          byTern,
	postgres.GolangMigrate: byGolangMigrate,
}

func byGoose(ctx context.Context, address, dir string, up bool) error {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	store, err := database.NewStore(database.DialectPostgres, "public.almanac_goose")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider("", db, os.DirFS(dir), goose.WithStore(store))
	if err != nil {
		return err
	}
	if up {
		_, err = provider.Up(ctx)
		return err
	}
	_, err = provider.DownTo(ctx, 0)
	return err
}

func byTern(ctx context.Context, address, dir string, up bool) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	migrator, err := tern.NewMigrator(ctx, conn, "public.almanac_tern")
	if err != nil {
		return err
	}
	if err := migrator.LoadMigrations(os.DirFS(dir)); err != nil {
		return err
	}
	if up {
		return migrator.Migrate(ctx)
	}
	return migrator.MigrateTo(ctx, 0)
}

func byGolangMigrate(_ context.Context, address, dir string, up bool) error {
	at, err := url.Parse(address)
	if err != nil {
		return err
	}
	at.Scheme = "pgx5"
	query := at.Query()
	query.Set("x-migrations-table", "almanac_migrate")
	at.RawQuery = query.Encode()
	m, err := migrate.New("file://"+filepath.ToSlash(dir), at.String())
	if err != nil {
		return err
	}
	if up {
		err = m.Up()
	} else {
		err = m.Down()
	}
	errSource, errDatabase := m.Close()
	return errors.Join(err, errSource, errDatabase)
}

// export writes the files of a layout to a directory.
func export(t *testing.T, layout postgres.Layout) string {
	t.Helper()
	files, err := postgres.Export{Layout: layout, Schema: "greetings"}.Files()
	require.NoError(t, err)
	dir := t.TempDir()
	for _, f := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), []byte(f.SQL), 0o600))
	}
	return dir
}

func TestEachToolAppliesItsLayout(t *testing.T) {
	t.Parallel()
	for layout, run := range tools {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			address, dir := pgtest.EmptyURL(t), export(t, layout)
			pool, err := pgxpool.New(t.Context(), address)
			require.NoError(t, err)
			defer pool.Close()
			store, err := postgres.New(pool, postgres.WithSchema("greetings"))
			require.NoError(t, err)

			require.NoError(t, run(t.Context(), address, dir, true))
			requireMigrated(t, store)
			require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.WithSchema("greetings")))

			require.NoError(t, run(t.Context(), address, dir, false))
			v, err := store.SchemaVersion(t.Context())
			require.NoError(t, err)
			require.Zero(t, v.Found)
			require.NoError(t, run(t.Context(), address, dir, true))
			requireMigrated(t, store)

			_, err = pool.Exec(t.Context(), `INSERT INTO greetings.users (id, first_name, last_name, date_of_birth, timezone)
				VALUES ('5f3b1c9e-0000-4000-8000-000000000001', 'Ada', 'Lovelace', '1990-12-10', 'UTC')`)
			require.NoError(t, err)
			require.ErrorContains(t, run(t.Context(), address, dir, false), "would lose for good what is in users")
			var users int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM greetings.users").Scan(&users))
			require.Equal(t, 1, users)
		})
	}
}

func requireMigrated(t *testing.T, store *postgres.Store) {
	t.Helper()
	require.NoError(t, store.Verify(t.Context()))
	differences, err := store.Examine(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
}

// Each layout for a tool is tried with the tool.
func TestEachLayoutOfAToolIsTried(t *testing.T) {
	t.Parallel()
	for _, layout := range postgres.Layouts() {
		if layout != postgres.Plain {
			require.Contains(t, tools, layout)
		}
	}
}
