package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// kinds are the steps of an event in the trail.
func kinds(t *testing.T, store *postgres.Store, id uuid.UUID) (kinds []string) {
	t.Helper()
	steps, err := store.Audit(t.Context(), id)
	require.NoError(t, err)
	for _, step := range steps {
		kinds = append(kinds, step.Kind)
		require.NotEmpty(t, step.Actor)
		require.WithinDuration(t, time.Now(), step.At, time.Minute)
	}
	return kinds
}

func TestTheTrailHasEveryStep(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	scheduler := newScheduler(t, store)
	before, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	require.NoError(t, postgres.EnableAudit(t.Context(), pool), "a second time")
	require.Empty(t, kinds(t, store, before.Events[0].ID), "the trail was not kept")

	person, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	first := person.Events[0]
	elsewhere := "Pacific/Kiritimati"
	_, err = scheduler.UpdateUser(t.Context(), person.User.ID, almanac.ProfileChange{Timezone: &elsewhere})
	require.NoError(t, err)
	_, err = scheduler.RunNow(t.Context(), first.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	settle := func(o almanac.Outcome) almanac.SettleResult {
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
		require.NoError(t, err)
		leased, err := store.LeaseEach(t.Context(), claim.Events, "", time.Minute) // is no step
		require.NoError(t, err)
		require.Len(t, leased.Events, 1)
		settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: leased.Events[0], Outcome: o, Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			return almanactest.Event(now, almanactest.For(u), almanactest.Of("3000"), almanactest.DueIn(time.Hour)), nil
		}}})
		require.NoError(t, err)
		require.NoError(t, settled[0].Err)
		return settled[0]
	}
	settle(almanac.Released(almanac.AfterFailure, "HTTP 503", 0))
	next := settle(almanac.Delivered(time.Now())).Successor
	require.Equal(t, []string{"created", "rescheduled", "rescheduled", "claimed", "released", "claimed", "completed"}, kinds(t, store, first.ID))
	steps, err := store.Audit(t.Context(), first.ID)
	require.NoError(t, err)
	require.Equal(t, "HTTP 503", steps[4].Detail)
	versions := make([]int, len(steps))
	for i, step := range steps {
		versions[i] = step.Version
	}
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7}, versions)

	cancelled, err := scheduler.Cancel(t.Context(), next.ID, almanac.CancelOptions{Reason: "moved house", EndSeries: true})
	require.NoError(t, err)
	require.Equal(t, []string{"created", "cancelled"}, kinds(t, store, next.ID))
	again, err := scheduler.Requeue(t.Context(), cancelled.Event.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"created"}, kinds(t, store, again.ID))

	_, err = scheduler.DeleteUser(t.Context(), person.User.ID, almanac.DeleteOptions{AtOnce: true})
	require.NoError(t, err)
	for _, id := range []uuid.UUID{first.ID, next.ID, again.ID} {
		require.Empty(t, kinds(t, store, id), "the trail goes with its person")
	}
}

func TestTheTrailHasWhatAWorkerCallsOff(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	u := almanactest.User()
	e := almanactest.Store(t, store, u, almanactest.Event(time.Now(), almanactest.For(u)))[0]
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{e.Type}, Limit: 1, Lease: time.Minute})
	require.NoError(t, err)
	settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.CalledOff("no address")}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	require.Equal(t, []string{"created", "claimed", "cancelled"}, kinds(t, store, e.ID))
	steps, err := store.Audit(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, "no address", steps[2].Detail)
}

// The series of an event that was delivered has the event's key as its last used key. The next
// event may have the same text as its key, of another unit: it ends, and was not removed.
func TestTheTrailTellsKeysOfOtherUnitsApart(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	u := almanactest.User()
	text := almanactest.Event(time.Now(), almanactest.For(u), almanactest.Of("2026"), almanactest.ReadyFor(time.Hour))
	text.KeyUnit = calendar.UnitText
	year := almanactest.Event(time.Now(), almanactest.For(u), almanactest.Of("2026"), almanactest.ReadyFor(time.Minute))
	almanactest.Store(t, store, u, text)
	for _, e := range []almanac.Event{text, year} {
		claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{e.Type}, Limit: 1, Lease: time.Minute})
		require.NoError(t, err)
		require.Len(t, claim.Events, 1)
		settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.Delivered(time.Now()), Next: func(almanac.User, time.Time) (almanac.Event, error) {
			if e.ID == year.ID {
				return almanac.Event{}, calendar.ErrNoOccurrence
			}
			return year, nil
		}}})
		require.NoError(t, err)
		require.NoError(t, errors.Join(settled[0].Err, settled[0].PlanErr))
		require.Equal(t, []string{"created", "claimed", "completed"}, kinds(t, store, e.ID))
	}
}

func TestTheTrailIsUndoneWithItsTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	bound := mustStore(t, tx)
	person, err := newScheduler(t, bound).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, []string{"created"}, kinds(t, bound, person.Events[0].ID))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, kinds(t, store, person.Events[0].ID))
}

func TestTheTrailEndsAndIsPruned(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	scheduler := newScheduler(t, store)
	require.NoError(t, postgres.EnableAudit(t.Context(), pool))
	kept, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.NoError(t, postgres.DisableAudit(t.Context(), pool))
	require.NoError(t, postgres.DisableAudit(t.Context(), pool), "a second time")
	other, err := scheduler.CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.Empty(t, kinds(t, store, other.Events[0].ID))
	require.Equal(t, []string{"created"}, kinds(t, store, kept.Events[0].ID), "what it holds stays")

	pruned, err := store.PruneAudit(t.Context(), time.Now().Add(-time.Hour), 100)
	require.NoError(t, err)
	require.Zero(t, pruned)
	pruned, err = store.PruneAudit(t.Context(), time.Now().Add(time.Hour), 100)
	require.NoError(t, err)
	require.Equal(t, 1, pruned)
	require.Empty(t, kinds(t, store, kept.Events[0].ID))
}

// Programs write the trail through triggers, which act as the owner; none of them may
// write it by hand, or switch it off.
func TestRolesKeepTheTrailAndCannotForgeIt(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	require.NoError(t, postgres.EnableAudit(t.Context(), c.pools["owner"]))
	store := c.store(t, "api")
	person, err := newScheduler(t, store).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, []string{"created"}, kinds(t, store, person.Events[0].ID))
	for _, role := range []string{"worker", "api", "operator", "reader"} {
		require.Error(t, postgres.DisableAudit(t.Context(), c.pools[role]), role)
		for _, sql := range []string{"DELETE FROM almanac.audit", "UPDATE almanac.audit SET kind = 'created'",
			"INSERT INTO almanac.audit (kind, event_id, user_id, event_type, version) SELECT 'created', user_id, user_id, 'X', 1 FROM almanac.audit"} {
			_, err := c.pools[role].Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
			requireRefused(t, err, role+": "+sql)
		}
	}
}

// A writer has a lock on users and needs one on series. The switch has one on series and waits for
// users, but not until the server ends one of the two.
func TestSwitchingTheTrailEndsInNoDeadlock(t *testing.T) {
	t.Parallel()
	met := new(deadlocks)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = met })
	overdue(t, mustStore(t, pool))
	writer, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = writer.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = writer.Exec(t.Context(), "LOCK TABLE almanac.users IN ROW EXCLUSIVE MODE") // an update of users would lock series, too
	require.NoError(t, err)
	switched := make(chan error, 1)
	go func() { switched <- postgres.EnableAudit(t.Context(), pool, postgres.WithTimeout(time.Minute)) }()
	require.Eventually(t, func() bool {
		var waits bool
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'almanac.users'::regclass AND NOT granted)").Scan(&waits))
		return waits
	}, time.Minute, time.Millisecond)

	_, err = writer.Exec(t.Context(), "UPDATE almanac.series SET updated_at = updated_at")
	require.NoError(t, err)
	require.NoError(t, writer.Commit(t.Context()))
	require.NoError(t, <-switched)
	require.Zero(t, met.n.Load())
}
