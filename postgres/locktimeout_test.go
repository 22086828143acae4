package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

func TestAWaitForALockEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool, postgres.WithTimeout(time.Minute), postgres.WithLockTimeout(100*time.Millisecond))
	u := almanactest.User()
	_, _, err := almanactest.CreateUser(t.Context(), store, u)
	require.NoError(t, err)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(t.Context()) }()
	_, err = holder.Exec(t.Context(), "SELECT FROM almanac.users WHERE id = $1 FOR UPDATE", u.ID)
	require.NoError(t, err)
	name := "Grace"
	edit := func() error {
		_, err := store.EditUser(t.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			edited, err := r.User.Edit(almanac.ProfileChange{FirstName: &name}, r.Now)
			return almanac.Edit{User: &edited}, err
		})
		return err
	}
	for what, change := range map[string]func() error{
		"edit":   edit,
		"delete": func() error { _, err := store.DeleteUser(t.Context(), u.ID, almanac.DeleteOptions{}); return err },
	} {
		began := time.Now()
		err := change()
		var pg *pgconn.PgError
		require.True(t, errors.As(err, &pg), "%s: %v", what, err)
		require.Equal(t, "55P03", pg.Code, what)
		require.ErrorIs(t, err, almanac.ErrLocked, what)
		require.Less(t, time.Since(began), 20*time.Second, "%s is repeated", what)
	}
	require.NoError(t, holder.Rollback(t.Context()))
	require.NoError(t, edit())

	_, err = postgres.New(pool, postgres.WithLockTimeout(-1))
	require.ErrorContains(t, err, "negative")
}

// An operation on many events names the one whose user is locked, and goes on.
// An operation ends after the store's timeout, though its context goes on.
func TestAnOperationEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		connections int32
		held        string
	}{
		"while it waits for a statement":  {2, "LOCK TABLE almanac.queue, almanac.users"},
		"while it waits for a connection": {1, "SELECT"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			pool := pgtest.Pool(t, pgtest.MaxConns(tt.connections))
			store := mustStore(t, pool, postgres.WithTimeout(time.Second))
			holder, err := pool.Begin(ctx)
			require.NoError(t, err)
			defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = holder.Exec(ctx, tt.held)
			require.NoError(t, err)

			_, err = store.User(ctx, uuid.New())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			_, err = store.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, ctx.Err(), "it lasts as long as its context")
		})
	}
}

func TestOperateGoesOnPastALockedUser(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool, postgres.WithTimeout(2*time.Second))
	var stored []almanac.Event
	for range 3 {
		stored = append(stored, overdue(t, store))
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	require.NoError(t, locks["locks the user"](t.Context(), tx, stored[1].UserID))

	done, err := ops.Operate(t.Context(), newScheduler(t, store), ops.Cancel, nil, ops.OperateOptions{Cancel: almanac.CancelOptions{EndSeries: true}})
	require.NoError(t, err)
	require.ElementsMatch(t, []uuid.UUID{stored[0].ID, stored[2].ID}, idsOf(done.Events))
	require.Len(t, done.Refused, 1)
	require.Equal(t, stored[1].ID, done.Refused[0].EventID)
	require.ErrorIs(t, done.Refused[0].Err, almanac.ErrLocked)
}

func TestUsersStoredInBulkKeepTheirDigest(t *testing.T) {
	t.Parallel()
	store := mustStore(t, pgtest.ReusedPool(t))
	some, none := almanactest.User(), almanactest.User()
	some.CreationDigest = "digest"
	_, err := store.CreateUsers(t.Context(), []almanac.UserWithEvents{{User: some}, {User: none}})
	require.NoError(t, err)
	for id, want := range map[uuid.UUID]string{some.ID: "digest", none.ID: ""} {
		u, err := store.User(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, u.CreationDigest)
	}
}

// limits is a tracer that keeps how long the context of a statement still lasts, and what begins
// transactions.
type limits struct {
	left   time.Duration // of the last statement or batch
	begins []string
}

func (l *limits) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	deadline, _ := ctx.Deadline()
	l.left = time.Until(deadline)
	if strings.HasPrefix(data.SQL, "begin") {
		l.begins = append(l.begins, data.SQL)
	}
	return ctx
}

func (l *limits) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	deadline, _ := ctx.Deadline()
	l.left = time.Until(deadline)
	return ctx
}

func (l *limits) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (l *limits) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func (l *limits) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func TestByDefaultAnOperationMayTakeFiveSeconds(t *testing.T) {
	t.Parallel()
	seen := new(limits)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = seen })
	store := mustStore(t, pool)
	_, err := store.Now(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 5*time.Second, seen.left, float64(2*time.Second))

	require.NoError(t, store.Pause(t.Context(), almanac.Pause{Lane: "ANY"}))
	require.Len(t, seen.begins, 1)
	require.Contains(t, seen.begins[0], "set local lock_timeout = 2500")
	require.Contains(t, seen.begins[0], "set local idle_in_transaction_session_timeout = 5000")
}
