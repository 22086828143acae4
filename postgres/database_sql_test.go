package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// sqlHost is a program that speaks to its database through database/sql.
type sqlHost struct {
	*testing.T
	db        *sql.DB
	scheduler almanac.Scheduler // unbound
	outside   almanac.Repository
}

func newSQLHost(t *testing.T) *sqlHost {
	t.Helper()
	return newSQLHostOn(t, pgtest.Pool(t))
}

func newSQLHostOn(t *testing.T, pool *pgxpool.Pool) *sqlHost {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err := db.ExecContext(t.Context(), "CREATE TABLE members (name text PRIMARY KEY)")
	require.NoError(t, err)
	outside := mustStore(t, pool)
	return &sqlHost{t, db, newScheduler(t, outside), outside}
}

// begin returns a transaction and a scheduler that is bound to it.
func (h *sqlHost) begin() (*sql.Tx, almanac.Scheduler) {
	h.Helper()
	tx, err := h.db.BeginTx(h.Context(), nil)
	require.NoError(h, err)
	return tx, h.scheduler.With(bindSQL(h.T, tx))
}

func bindSQL(t *testing.T, tx *sql.Tx) *postgres.Store {
	t.Helper()
	t.Cleanup(func() { _ = tx.Rollback() }) // of a test that failed
	store, err := postgres.NewSQL(tx)
	require.NoError(t, err)
	require.True(t, store.InTransaction())
	return store
}

func (h *sqlHost) join(tx *sql.Tx, name string) {
	h.Helper()
	_, err := tx.ExecContext(h.Context(), "INSERT INTO members VALUES ($1)", name)
	require.NoError(h, err)
}

func (h *sqlHost) members() (n int) {
	h.Helper()
	require.NoError(h, h.db.QueryRowContext(h.Context(), "SELECT count(*) FROM members").Scan(&n))
	return n
}

func (h *sqlHost) events() int {
	h.Helper()
	n, err := h.outside.Count(h.Context(), nil)
	require.NoError(h, err)
	return n
}

func TestChangesBelongToATransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	h := newSQLHost(t)
	zone := "America/New_York"
	work := func() (*sql.Tx, uuid.UUID) {
		tx, scheduler := h.begin()
		h.join(tx, "ada")
		enrolled, err := scheduler.CreateUser(t.Context(), ada)
		require.NoError(t, err)
		moved, err := scheduler.UpdateUser(t.Context(), enrolled.User.ID, almanac.ProfileChange{Timezone: &zone})
		require.NoError(t, err)
		require.Len(t, moved.Moved, 1)
		guest, err := scheduler.CreateUser(t.Context(), ada)
		require.NoError(t, err)
		_, err = scheduler.DeleteUser(t.Context(), guest.User.ID, almanac.DeleteOptions{})
		require.NoError(t, err)
		enrolments, err := scheduler.CreateUsers(t.Context(), func(yield func(almanac.Profile, error) bool) {
			for range 2 {
				if !yield(ada, nil) {
					return
				}
			}
		}, almanac.CreateUsersOptions{})
		require.NoError(t, err)
		require.Equal(t, 2, enrolments.Created)
		h.join(tx, "grace")
		_, err = h.outside.User(t.Context(), enrolled.User.ID)
		require.ErrorIs(t, err, almanac.ErrNotFound, "what is not committed is not seen")
		return tx, enrolled.User.ID
	}

	tx, _ := work()
	require.NoError(t, tx.Rollback())
	require.Zero(t, h.events(), "a rollback leaves nothing")
	require.Zero(t, h.members())

	tx, id := work()
	require.NoError(t, tx.Commit())
	require.Equal(t, 3, h.events())
	require.Equal(t, 2, h.members())
	user, err := h.outside.User(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, zone, user.Timezone.String())
}

func TestAnErrorInATransactionOfDatabaseSQLCanBeSurvived(t *testing.T) {
	t.Parallel()
	h := newSQLHost(t)
	conn, err := h.db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // once the transaction has ended
	tx, err := conn.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	require.NoError(t, err)
	store := bindSQL(t, tx)
	scheduler := h.scheduler.With(store)

	h.join(tx, "ada")
	enrolled, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	again := ada
	again.ID = enrolled.User.ID
	_, err = scheduler.CreateUser(t.Context(), again)
	require.ErrorIs(t, err, almanac.ErrExists)
	_, err = store.EditUser(t.Context(), again.ID, func(r almanac.Roster) (almanac.Edit, error) {
		r.User.Version, r.User.FirstName = 2, string(make([]byte, 101)) // which the database refuses
		return almanac.Edit{User: &r.User, Removed: r.Pending}, nil
	})
	require.Error(t, err)
	require.PanicsWithValue(t, "a host's mistake", func() {
		_, _ = store.EditUser(t.Context(), again.ID, func(almanac.Roster) (almanac.Edit, error) { panic("a host's mistake") })
	})
	h.join(tx, "grace")
	other, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)

	require.NoError(t, tx.Commit(), "only the savepoints were undone")
	require.Equal(t, 2, h.members())
	require.Equal(t, 2, h.events(), "what was removed before the database refused is back")
	for _, id := range []uuid.UUID{enrolled.User.ID, other.User.ID} {
		u, err := h.outside.User(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 1, u.Version)
	}
}

// A savepoint that is undone takes along whatever came after it. Nothing of the
// host's may have come after it.
func TestATransactionOfDatabaseSQLIsUsedByOneAtATime(t *testing.T) {
	t.Parallel()
	h := newSQLHost(t)
	tx, scheduler := h.begin()
	taken, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	again := ada
	again.ID = taken.User.ID

	var users sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		users.Go(func() {
			_, err := scheduler.CreateUser(t.Context(), again)
			if !errors.Is(err, almanac.ErrExists) {
				t.Errorf("error = %v, want one that matches %v", err, almanac.ErrExists)
			}
		})
		users.Go(func() {
			if _, err := scheduler.CreateUser(t.Context(), ada); err != nil {
				t.Error(err)
			}
		})
		users.Go(func() {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO members VALUES ($1)", name); err != nil {
				t.Error(err)
			}
		})
	}
	users.Wait()

	require.NoError(t, tx.Commit())
	require.Equal(t, 8, h.members())
	require.Equal(t, 9, h.events())
}

func TestTheEndOfATransactionOfDatabaseSQLWaitsForAnOperation(t *testing.T) {
	t.Parallel()
	h := newSQLHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := h.db.BeginTx(ctx, nil)
	require.NoError(t, err)
	store := bindSQL(t, tx)
	enrolled, err := h.scheduler.With(store).CreateUser(t.Context(), ada)
	require.NoError(t, err)

	_, err = store.EditUser(t.Context(), enrolled.User.ID, func(r almanac.Roster) (almanac.Edit, error) {
		cancel() // database/sql wants to roll back now
		return almanac.Edit{Removed: r.Pending}, nil
	})

	require.NoError(t, err)
	require.Error(t, tx.Commit())
	_, err = store.User(t.Context(), enrolled.User.ID)
	require.ErrorIs(t, err, sql.ErrTxDone)
	require.Zero(t, h.events())
}

func TestAContextThatEndsBetweenStatementsUndoesTheOperationOnly(t *testing.T) {
	t.Parallel()
	h := newSQLHost(t)
	tx, scheduler := h.begin()
	enrolled, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	_, err = bindSQL(t, tx).EditUser(ctx, enrolled.User.ID, func(r almanac.Roster) (almanac.Edit, error) {
		cancel()
		return almanac.Edit{Removed: r.Pending}, nil
	})

	require.ErrorIs(t, err, context.Canceled)
	_, err = scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, 2, h.events())
}

func TestAContextThatEndsInAStatementCostsTheTransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	h := newSQLHostOn(t, pool)
	tx, scheduler := h.begin()
	h.join(tx, "ada")
	enrolled, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	locker, err := h.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = locker.ExecContext(t.Context(), "LOCK TABLE almanac.leases")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	store, ended := bindSQL(t, tx), make(chan error, 1)
	go func() {
		_, err := store.DeleteUser(ctx, enrolled.User.ID, almanac.DeleteOptions{})
		ended <- err
	}()
	awaitLockWaiter(t, pool, ended) // so the context ends in a statement, however slow the ones before are
	cancel()

	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, locker.Rollback())
	_, err = scheduler.CreateUser(t.Context(), ada)
	require.Error(t, err)
	require.Error(t, tx.Commit())
	require.Zero(t, h.events())
	require.Zero(t, h.members())
}

// Past a pooler: in the modes of pgx that an old one asks for, the transaction is lost.
func TestOpenRowsKeepOperationsOutOfATransactionOfDatabaseSQL(t *testing.T) {
	t.Parallel()
	h := newSQLHostOn(t, pgtest.DirectPool(t))
	tx, scheduler := h.begin()
	rows, err := tx.QueryContext(t.Context(), "SELECT generate_series(1, 100000)")
	require.NoError(t, err)
	require.True(t, rows.Next())

	_, err = scheduler.CreateUser(t.Context(), ada)
	require.ErrorContains(t, err, "conn busy")
	var other *postgres.DriverError
	require.NotErrorAs(t, err, &other)

	require.NoError(t, rows.Close())
	_, err = scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.Equal(t, 1, h.events())
}

func TestTransactionsOfOtherDriversAreRefused(t *testing.T) {
	t.Parallel()
	_, err := postgres.NewSQL(nil)
	require.EqualError(t, err, "postgres: no transaction")
	for name, d := range map[string]driver.Conn{
		"that leaves arguments to database/sql": strictDriver{},
		"that accepts any argument":             carelessDriver{},
		"that has an opinion":                   franklyDriver{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := sql.OpenDB(connector{d})
			defer db.Close()
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)

			_, err = bindSQL(t, tx).Now(t.Context())

			var other *postgres.DriverError
			require.ErrorAs(t, err, &other)
			require.ErrorContains(t, err, "postgres: now: the transaction is not one of the database/sql driver of pgx (github.com/jackc/pgx/v5/stdlib)")
			if _, frank := d.(franklyDriver); frank {
				require.ErrorIs(t, err, errOpinion)
			}
			require.NoError(t, tx.Commit())
			_, err = bindSQL(t, tx).Now(t.Context())
			require.ErrorIs(t, err, sql.ErrTxDone)
			require.False(t, errors.As(err, &other))
		})
	}
}

func TestTransactionsOfAWrappedDriverAreAccepted(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	db := sql.OpenDB(wrapping{stdlib.GetPoolConnector(pool)})
	db.SetMaxIdleConns(0)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	store := bindSQL(t, tx)

	_, err = newScheduler(t, store).CreateUser(t.Context(), ada)

	require.NoError(t, err)
	require.NoError(t, tx.Commit())
}

// wrapping is a driver around another, as there are for tracing.
type wrapping struct{ driver.Connector }

func (w wrapping) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := w.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return struct{ *stdlib.Conn }{conn.(*stdlib.Conn)}, nil
}

// connector is a driver of which all connections are one.
type connector struct{ driver.Conn }

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.Conn, nil }
func (c connector) Driver() driver.Driver                        { return nil }

type strictDriver struct{ driver.Conn }

func (strictDriver) Begin() (driver.Tx, error) { return nothing{}, nil }
func (strictDriver) Close() error              { return nil }
func (strictDriver) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(0), nil
}

type carelessDriver struct{ strictDriver }

func (carelessDriver) CheckNamedValue(*driver.NamedValue) error { return nil }

type franklyDriver struct{ carelessDriver }

var errOpinion = errors.New("what is that?")

func (franklyDriver) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return nil, errOpinion
}

type nothing struct{}

func (nothing) Commit() error   { return nil }
func (nothing) Rollback() error { return nil }
