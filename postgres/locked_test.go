package postgres_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// locks are what a host's transaction may do to a user and then stay open.
var locks = map[string]func(ctx context.Context, tx pgx.Tx, user uuid.UUID) error{
	"locks the user": func(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
		_, err := tx.Exec(ctx, "SELECT FROM almanac.users WHERE id = $1 FOR UPDATE", user)
		return err
	},
	"locks the series": func(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
		_, err := tx.Exec(ctx, "SELECT FROM almanac.series WHERE user_id = $1 FOR UPDATE", user)
		return err
	},
	"locks both for reading": func(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
		_, err := tx.Exec(ctx, "SELECT FROM almanac.users u JOIN almanac.series s ON s.user_id = u.id WHERE u.id = $1 FOR SHARE", user)
		return err
	},
	"edits the user": func(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
		store, err := postgres.New(tx)
		if err != nil {
			return err
		}
		_, err = store.EditUser(ctx, user, func(r almanac.Roster) (almanac.Edit, error) {
			changed := r.User
			changed.Version++
			return almanac.Edit{User: &changed}, nil
		})
		return err
	},
	"deletes the user": func(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
		store, err := postgres.New(tx)
		if err != nil {
			return err
		}
		_, err = store.DeleteUser(ctx, user, almanac.DeleteOptions{AtOnce: true})
		return err
	},
}

// storeThatWaits returns a store of which a statement that waits for a lock fails, because it takes too long.
func storeThatWaits(t *testing.T, pool *pgxpool.Pool) *postgres.Store {
	t.Helper()
	return mustStore(t, pool, postgres.WithTimeout(10*time.Second), postgres.WithLockTimeout(time.Hour))
}

// Every operation on a batch of claimed events goes on beside one user who is locked,
// and leaves that user's event for later.
func TestALockedUserDelaysNoOtherUser(t *testing.T) {
	t.Parallel()
	const n = 5
	for name, lock := range locks {
		for what, operation := range map[string]func(*testing.T, *postgres.Store, almanac.ClaimResult) []uuid.UUID{
			"settle": func(t *testing.T, store *postgres.Store, c almanac.ClaimResult) []uuid.UUID {
				return settleAll(t, store, c, almanac.Delivered(c.At), nil)
			},
			"settle with events in other series": func(t *testing.T, store *postgres.Store, c almanac.ClaimResult) []uuid.UUID {
				return settleAll(t, store, c, almanac.Delivered(c.At), func(u almanac.User, now time.Time) ([]almanac.Event, error) {
					return []almanac.Event{almanactest.Event(now, almanactest.For(u), almanactest.OfSeries("other", "1"))}, nil
				})
			},
			"settle for another attempt": func(t *testing.T, store *postgres.Store, c almanac.ClaimResult) []uuid.UUID {
				return settleAll(t, store, c, almanac.Released(almanac.AfterFailure, "busy", time.Hour), nil)
			},
			"release": func(t *testing.T, store *postgres.Store, c almanac.ClaimResult) []uuid.UUID {
				released, err := store.Release(t.Context(), c.Events[0].LeaseToken)
				require.NoError(t, err)
				return idsOf(released)
			},
			"return": func(t *testing.T, store *postgres.Store, c almanac.ClaimResult) []uuid.UUID {
				returned, err := store.Return(t.Context(), c.Events)
				require.NoError(t, err)
				return idsOf(returned)
			},
			"release expired": func(t *testing.T, store *postgres.Store, c almanac.ClaimResult) []uuid.UUID {
				var released []almanac.Event
				for {
					more, err := store.ReleaseExpired(t.Context(), 2, 1000)
					require.NoError(t, err)
					if released = append(released, more...); len(more) == 0 {
						return idsOf(released)
					}
				}
			},
		} {
			t.Run(what+" while a host "+name, func(t *testing.T) {
				t.Parallel()
				pool := pgtest.ReusedPool(t)
				store := storeThatWaits(t, pool)
				claim := claimed(t, store, n, what == "release expired")
				locked := claim.Events[n/2]
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
				require.NoError(t, lock(t.Context(), tx, locked.UserID))

				var others []uuid.UUID
				for _, e := range claim.Events {
					if e.ID != locked.ID {
						others = append(others, e.ID)
					}
				}
				done := operation(t, store, claim)
				for _, id := range others {
					require.Contains(t, done, id, "another user waits")
				}
				if readsUsers := what == "settle with events in other series"; name != "locks the user" || readsUsers {
					require.NotContains(t, done, locked.ID)
					require.Equal(t, 1, leasesOf(t, pool, locked.ID), "leases that hold the locked event")
				}

				require.NoError(t, tx.Rollback(t.Context()))
				if what == "return" {
					_, err = store.ReleaseExpired(t.Context(), n, 1000) // although the lease was for an hour
				} else {
					_, err = store.Release(t.Context(), locked.LeaseToken)
				}
				require.NoError(t, err)
				require.True(t, isDone(t, store, locked))
			})
		}
	}
}

// claimed stores n users with an event each, and claims the events in one batch.
func claimed(t *testing.T, store *postgres.Store, n int, expired bool) almanac.ClaimResult {
	t.Helper()
	now := nowOf(t, store)
	for i := range n {
		u := almanactest.User()
		e := almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Duration(n-i)*time.Minute))
		almanactest.Store(t, store, u, e)
	}
	lease := time.Hour
	if expired {
		lease = time.Microsecond
	}
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: n, Lease: lease})
	require.NoError(t, err)
	require.Len(t, claim.Events, n)
	return claim
}

// settleAll stores an outcome for every event of a claim, and returns the ids of those
// that were stored.
func settleAll(t *testing.T, store *postgres.Store, c almanac.ClaimResult, o almanac.Outcome, follow func(almanac.User, time.Time) ([]almanac.Event, error)) []uuid.UUID {
	t.Helper()
	var batch []almanac.Settlement
	for _, e := range c.Events {
		batch = append(batch, almanac.Settlement{Event: e, User: c.Users[e.UserID], Outcome: o, Follow: follow, Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			return almanactest.Event(now, almanactest.For(u), almanactest.DueIn(time.Hour), almanactest.Of(e.OccurrenceKey+"+1")), nil
		}})
	}
	settled, err := store.Settle(t.Context(), batch)
	require.NoError(t, err)
	var stored []uuid.UUID
	for i, one := range settled {
		if one.Err == nil {
			stored = append(stored, one.Event.ID)
			continue
		}
		require.ErrorIs(t, one.Err, almanac.ErrLocked)
		require.Zero(t, one.Event, "of %s", batch[i].Event.ID)
	}
	return stored
}

// isDone reports whether an event is no longer as it was claimed.
func isDone(t *testing.T, store *postgres.Store, claimed almanac.Event) bool {
	t.Helper()
	e, err := store.Event(t.Context(), claimed.ID)
	require.NoError(t, err)
	return e.LeaseToken != claimed.LeaseToken || e.Status.Terminal()
}

// leasesOf counts the leases that list an event.
func leasesOf(t *testing.T, pool *pgxpool.Pool, id uuid.UUID) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.leases WHERE $1 = ANY (event_ids)", id).Scan(&n))
	return n
}

func idsOf(events []almanac.Event) (ids []uuid.UUID) {
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

// Two dead workers' leases, of which one is larger than a step, and a locked user in
// each: the steps go on past both, and what was locked follows when it is free.
func TestReleaseExpiredGoesOnPastLockedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	first, second := claimed(t, store, 7, true), claimed(t, store, 3, true)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, e := range []almanac.Event{first.Events[0], second.Events[1]} {
		require.NoError(t, locks["locks the series"](t.Context(), tx, e.UserID))
	}

	sweep := func() (released int) {
		for range 100 {
			more, err := store.ReleaseExpired(t.Context(), 2, 1000)
			require.NoError(t, err)
			released += len(more)
			require.LessOrEqual(t, len(more), 2)
		}
		return released
	}
	require.Equal(t, 8, sweep())
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, 2, sweep())
	var leases int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.leases").Scan(&leases))
	require.Zero(t, leases)
}

// A sweep releases the events of expired leases beside a lease that another transaction has locked,
// expired or written before the clock was set back.
func TestASweepSkipsLockedLeases(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"expired":       "SELECT FROM almanac.leases WHERE token = $1",
		"of the future": "UPDATE almanac.leases SET claimed_at = now() + interval '1 hour', expires_at = now() + interval '2 hours' WHERE token = $1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := storeThatWaits(t, pool)
			locked, other := claimed(t, store, 1, true).Events[0], claimed(t, store, 1, true).Events[0]
			_, err := pool.Exec(t.Context(), change, locked.LeaseToken)
			require.NoError(t, err)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = tx.Exec(t.Context(), "SELECT FROM almanac.leases WHERE token = $1 FOR UPDATE", locked.LeaseToken)
			require.NoError(t, err)

			released, err := store.ReleaseExpired(t.Context(), 10, 1000)
			require.NoError(t, err)
			require.Equal(t, []uuid.UUID{other.ID}, idsOf(released))
		})
	}
}

// A sweep removes a user who was deleted while an event was in flight, even if another user is
// locked.
func TestSweepRemovesDeletedUsersBesideLockedOnes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"locks the user", "locks the series"} {
		t.Run("while a host "+name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := storeThatWaits(t, pool)
			claim := claimed(t, store, 3, false)
			for _, e := range claim.Events {
				_, err := store.DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{})
				require.NoError(t, err)
			}
			settleAll(t, store, claim, almanac.Delivered(claim.At), nil)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			require.NoError(t, locks[name](t.Context(), tx, claim.Events[1].UserID))

			users := func() (n int) {
				_, err := store.ReleaseExpired(t.Context(), 10, 1000)
				require.NoError(t, err)
				require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.users").Scan(&n))
				return n
			}
			require.Equal(t, 1, users())
			require.NoError(t, tx.Rollback(t.Context()))
			require.Equal(t, 0, users())
		})
	}
}

// A page of users is seen to beside one who is locked, who is named.
func TestAddEventsSkipsLockedUsers(t *testing.T) {
	t.Parallel()
	for name, lock := range locks {
		t.Run("while a host "+name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool, postgres.WithTimeout(2*time.Second))
			claim := claimed(t, store, 5, false)
			locked := claim.Events[2].UserID
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			require.NoError(t, lock(t.Context(), tx, locked))

			add := func(eventType string) almanac.AddEventsResult {
				added, err := store.AddEvents(t.Context(), eventType, almanac.Page{Limit: 10}, func(users []almanac.UserSeries, now time.Time) (events []almanac.Event, err error) {
					for _, one := range users {
						e := almanactest.Event(now, almanactest.For(one.User), almanactest.OfSeries("other", "1"))
						e.Type = eventType
						events = append(events, e)
					}
					return events, nil
				})
				require.NoError(t, err)
				return added
			}
			added := add("ANOTHER")
			if name == "locks the series" || name == "locks both for reading" {
				// Another type's: the user has no series of this one.
				require.Empty(t, added.Locked)
				return
			}
			require.Equal(t, []uuid.UUID{locked}, added.Locked)
			require.Equal(t, 4, added.Users)
			require.Len(t, added.Events, 4)
			require.NoError(t, tx.Rollback(t.Context()))
			added = add("ANOTHER")
			require.Empty(t, added.Locked)
			require.Len(t, added.Events, 1)
		})
	}
}

// The others are edited before EditUsers waits for the locked user.
func TestEditUsersWaitsForALockedUserLast(t *testing.T) {
	t.Parallel()
	all := maps.Clone(locks)
	all["claims the event"] = func(ctx context.Context, tx pgx.Tx, user uuid.UUID) error {
		_, err := tx.Exec(ctx, "SELECT FROM almanac.queue q JOIN almanac.series s ON s.id = q.series_id WHERE s.user_id = $1 FOR UPDATE OF q", user)
		return err
	}
	for name, lock := range all {
		t.Run("while a host "+name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			ids := storeUsers(t, store, 5)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			require.NoError(t, lock(t.Context(), tx, ids[2]))

			version := func(id uuid.UUID) (n int) {
				require.NoError(t, pool.QueryRow(t.Context(), "SELECT version FROM almanac.users WHERE id = $1", id).Scan(&n))
				return n
			}
			edited := make(chan []error, 1)
			go func() {
				_, errs := store.EditUsers(t.Context(), ids, func(_ int, r almanac.Roster) (almanac.Edit, error) {
					changed := r.User
					changed.Version++
					return almanac.Edit{User: &changed}, nil
				})
				edited <- errs
			}()
			require.Eventually(t, func() bool {
				return version(ids[0])+version(ids[1])+version(ids[3])+version(ids[4]) == 8
			}, 10*time.Second, 10*time.Millisecond)
			require.Empty(t, edited)
			require.Equal(t, 1, version(ids[2]))
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, errors.Join(<-edited...))
			require.Equal(t, 2, version(ids[2]))
		})
	}
}

// A delivery leads to an event in another series of the user, which a host has locked: the outcome is
// stored later.
func TestSettleWaitsForNoSeriesOfAFollowUp(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := storeThatWaits(t, pool)
	now := nowOf(t, store)
	u := almanactest.User()
	other := func(key string) almanac.Event {
		return almanactest.Event(now, almanactest.For(u), almanactest.OfSeries("other", key), almanactest.DueIn(time.Hour))
	}
	almanactest.Store(t, store, u, almanactest.Event(now, almanactest.For(u), almanactest.ReadyFor(time.Minute)), other("1"))
	claim, err := store.Claim(t.Context(), claimOf([]string{almanac.TypeBirthday}, time.Minute))
	require.NoError(t, err)
	require.Len(t, claim.Events, 1)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.series WHERE name = 'other' FOR UPDATE")
	require.NoError(t, err)
	follow := func(almanac.User, time.Time) ([]almanac.Event, error) { return []almanac.Event{other("2")}, nil }

	require.Empty(t, settleAll(t, store, claim, almanac.Delivered(claim.At), follow))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, idsOf(claim.Events), settleAll(t, store, claim, almanac.Delivered(claim.At), follow))
}

// New zone rules move the events of all users but the locked one.
func TestMoveEventsSkipsLockedEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := storeThatWaits(t, pool)
	now := nowOf(t, store)
	var moves []almanac.Event
	for range 3 {
		u := almanactest.User()
		e := almanactest.Store(t, store, u, almanactest.Event(now, almanactest.For(u), almanactest.DueIn(time.Hour)))[0]
		e.Due, e.AvailableAt, e.Version = e.Due.Add(time.Hour), e.Due.Add(time.Hour), e.Version+1
		moves = append(moves, e)
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	require.NoError(t, locks["locks the series"](t.Context(), tx, moves[1].UserID))

	moved, err := store.MoveEvents(t.Context(), moves)
	require.NoError(t, err)
	require.ElementsMatch(t, []uuid.UUID{moves[0].ID, moves[2].ID}, idsOf(moved))
	require.NoError(t, tx.Rollback(t.Context()))
	moved, err = store.MoveEvents(t.Context(), moves)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{moves[1].ID}, idsOf(moved))
}

// A sweep folds the changes of counts that no other sweep has locked.
func TestASweepSkipsLockedChangesOfCounts(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := storeThatWaits(t, pool)
	overdue(t, store)
	overdue(t, store)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM almanac.due_changes LIMIT 1 FOR UPDATE")
	require.NoError(t, err)

	_, err = store.ReleaseExpired(t.Context(), 10, 1000)
	require.NoError(t, err)
	var left int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.due_changes").Scan(&left))
	require.Equal(t, 1, left)
}

// Users are stored beside one whom another transaction stores under the same id.
func TestCreateUsersSkipsAUserBeingStored(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool, postgres.WithTimeout(2*time.Second))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	inside := mustStore(t, tx)
	var users []almanac.UserWithEvents
	for range 100 {
		users = append(users, almanac.UserWithEvents{User: almanactest.User()})
	}
	_, _, err = almanactest.CreateUser(t.Context(), inside, users[37].User)
	require.NoError(t, err)

	stored, err := store.CreateUsers(t.Context(), users)
	require.NoError(t, err)
	for i, one := range stored {
		if i == 37 {
			require.ErrorIs(t, one.Err, almanac.ErrLocked)
			continue
		}
		require.NoError(t, one.Err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	again, err := store.CreateUsers(t.Context(), users[37:38])
	require.NoError(t, err)
	require.ErrorIs(t, again[0].Err, almanac.ErrExists)
}
