package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// onDatabase runs an example on a database of its own, which is empty but for what
// Migrate made of it. A program opens its pool by pgxpool.New instead.
func onDatabase(example func(ctx context.Context, pool *pgxpool.Pool)) {
	t := new(nobodys)
	defer t.end()
	example(context.Background(), pgtest.Pool(t))
}

// nobodys is the test that an example is not.
type nobodys struct {
	testing.TB
	ends []func()
}

func (*nobodys) Helper()                  {}
func (*nobodys) Context() context.Context { return context.Background() }
func (*nobodys) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (t *nobodys) Cleanup(end func())     { t.ends = append(t.ends, end) }
func (t *nobodys) end() {
	for i := len(t.ends) - 1; i >= 0; i-- {
		t.ends[i]()
	}
}

// must makes examples short: what cannot fail in them panics.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustDo(err error) {
	if err != nil {
		panic(err)
	}
}

// birthdaysOn returns a scheduler of birthdays on a store.
func birthdaysOn(s *postgres.Store) almanac.Scheduler {
	return must(almanac.NewScheduler(s, must(almanac.NewRegistry(almanac.Birthday{}))))
}

var adaInLondon = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}

// Migrate at the start of a program; it may be called as often as you like.
func ExampleStore() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		mustDo(postgres.Migrate(ctx, pool))
		store := must(postgres.New(pool))

		enrolment := must(birthdaysOn(store).CreateUser(ctx, adaInLondon))
		found := must(store.Find(ctx, almanac.ForUser(enrolment.User.ID), almanac.Page{}))
		fmt.Println(found.Items[0].Type, found.Items[0].Wall.Clock, found.Items[0].Zone, found.Items[0].Status)
	})
	// Output: BIRTHDAY 09:00:00 Europe/London PENDING
}

// A store on a transaction is part of it: what is rolled back was never there.
func ExampleDB() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		onPool := must(postgres.New(pool))
		tx := must(pool.Begin(ctx))
		inside := must(postgres.New(tx))
		fmt.Println(onPool.InTransaction(), inside.InTransaction())

		must(birthdaysOn(inside).CreateUser(ctx, adaInLondon))
		fmt.Println(must(inside.Count(ctx, nil)), must(onPool.Count(ctx, nil)))
		mustDo(tx.Rollback(ctx))
		fmt.Println(must(onPool.Count(ctx, nil)))
	})
	// Output:
	// false true
	// 1 0
	// 0
}

// A schema of another name is one more Almanac in the same database.
func ExampleOption() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		mustDo(postgres.Migrate(ctx, pool, postgres.WithSchema("staging")))
		staging := must(postgres.New(pool, postgres.WithSchema("staging")))
		must(birthdaysOn(staging).CreateUser(ctx, adaInLondon))
		fmt.Println(must(staging.Count(ctx, nil)), must(must(postgres.New(pool)).Count(ctx, nil)))

		_, err := postgres.New(pool, postgres.WithSchema("Staging!"))
		fmt.Println(err)
	})
	// Output:
	// 1 0
	// postgres: "Staging!" is no name for a schema: use a-z, 0-9 and _, at most 63, not beginning with a digit or pg_
}

// A program finds out whether it can work on a database.
func ExampleSchemaVersion() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		v := must(must(postgres.New(pool)).SchemaVersion(ctx))
		fmt.Println(v.Schema, v.Found == v.Known)
		v = must(must(postgres.New(pool, postgres.WithSchema("nowhere"))).SchemaVersion(ctx))
		fmt.Println(v.Schema, v.Found)
	})
	// Output:
	// almanac true
	// nowhere 0
}

// A program that is newer than its database says so, and claims nothing.
func ExampleSchemaVersionError() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		mustDo(postgres.MigrateDown(ctx, pool, postgres.MigrateDownOptions{}))
		err := must(postgres.New(pool)).Verify(ctx)
		var behind *postgres.SchemaVersionError
		fmt.Println(errors.As(err, &behind), errors.Is(err, almanac.ErrOutdated), behind.Known-behind.Found)
	})
	// Output: true true 1
}

// Rows that cannot be restored are kept, unless LoseData is set.
func ExampleMigrateDownOptions() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		mustDo(birthdaysOn(must(postgres.New(pool))).Pause(ctx, almanac.Pause{Lane: almanac.TypeBirthday}))
		var err error
		for err == nil { // the later ones lose nothing
			err = postgres.MigrateDown(ctx, pool, postgres.MigrateDownOptions{})
		}
		fmt.Println(err)
		fmt.Println(postgres.MigrateDown(ctx, pool, postgres.MigrateDownOptions{LoseData: true}))
	})
	// Output:
	// postgres: undoing migration 1 of schema "almanac" would lose for good what is in lanes
	// <nil>
}

func ExampleDataLossError() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		mustDo(birthdaysOn(must(postgres.New(pool))).Pause(ctx, almanac.Pause{Lane: almanac.TypeBirthday}))
		var loss *postgres.DataLossError
		var err error
		for err == nil { // the later ones lose nothing
			err = postgres.MigrateDown(ctx, pool, postgres.MigrateDownOptions{})
		}
		fmt.Println(errors.As(err, &loss), loss.Tables)
	})
	// Output: true [lanes]
}

// Examine finds what was changed by hand.
func ExampleDifference() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		must(pool.Exec(ctx, `ALTER TABLE almanac.users ADD COLUMN nickname text; DROP INDEX almanac.history_user`))
		for _, d := range must(must(postgres.New(pool)).Examine(ctx)) {
			fmt.Println(d.Kind, d.Name, "expected:", d.Expected != "", "found:", d.Found != "")
		}
	})
	// Output:
	// column users.nickname expected: false found: true
	// index history.history_user expected: true found: false
}

// Differences of one kind are listed together.
func ExampleKind() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		must(pool.Exec(ctx, `CREATE TABLE almanac.notes (text text)`))
		for _, d := range must(must(postgres.New(pool)).Examine(ctx)) {
			if d.Kind == postgres.KindTable {
				fmt.Println(d)
			}
		}
	})
	// Output: table notes is not Almanac's: ordinary
}

// Each step of an event is noted in the transaction that takes it, with who asked for it.
func ExampleEnableAudit() {
	onDatabase(func(ctx context.Context, pool *pgxpool.Pool) {
		mustDo(postgres.EnableAudit(ctx, pool))
		store := must(postgres.New(pool))
		scheduler := birthdaysOn(store)
		stored := must(scheduler.CreateUser(ctx, adaInLondon)).Events[0]
		asked := almanac.WithPrincipal(ctx, "grace@example.com")
		must(scheduler.Cancel(asked, stored.ID, almanac.CancelOptions{Reason: "asked not to be greeted"}))

		for _, step := range must(store.Audit(ctx, stored.ID)) {
			fmt.Printf("%s: version %d %q for %q\n", step.Kind, step.Version, step.Detail, step.Principal)
		}
	})
	// Output:
	// created: version 1 "" for ""
	// cancelled: version 2 "asked not to be greeted" for "grace@example.com"
}

// The connection of another driver is of no use, and the error says so.
func ExampleDriverError() {
	other := sql.OpenDB(connector{strictDriver{}})
	defer other.Close()
	tx := must(other.Begin())
	_, err := must(postgres.NewSQL(tx)).Now(context.Background())
	mustDo(tx.Rollback())
	var driver *postgres.DriverError
	fmt.Println(errors.As(err, &driver))
	// Output: true
}

// The migrations as SQL, for a team that applies them by a tool of its own.
func ExampleExport() {
	for _, f := range must(postgres.Export{Layout: postgres.GolangMigrate, Schema: "greetings"}.Files())[:2] {
		fmt.Println(f.Name)
	}
	_, err := postgres.Export{Layout: "flyway", Schema: "Greetings!"}.Files()
	fmt.Println(err)
	// Output:
	// 000001_schema.down.sql
	// 000001_schema.up.sql
	// postgres: "Greetings!" is no name for a schema: use a-z, 0-9 and _, at most 63, not beginning with a digit or pg_
	// postgres: "flyway" is no layout of migrations: use one of ["plain" "goose" "tern" "golang-migrate"]
}

// A file has a name by which the tool puts it in order, and what it is to run.
func ExampleFile() {
	for _, f := range must(postgres.Export{Layout: postgres.Tern}.Files())[:1] {
		up, down, _ := strings.Cut(f.SQL, "---- create above / drop below ----")
		fmt.Println(f.Name, strings.Contains(up, "CREATE TABLE"), strings.Contains(down, "DROP TABLE"))
	}
	// Output: 001_schema.sql true true
}

// The tool that wants the ways up and down apart has twice as many files.
func ExampleLayout() {
	count := func(l postgres.Layout) int { return len(must(postgres.Export{Layout: l}.Files())) }
	fmt.Println(postgres.Layouts(), count(postgres.GolangMigrate) == 2*count(postgres.Goose))
	// Output: [plain goose tern golang-migrate] true
}
