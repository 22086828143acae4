package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// unplanned stores users whose birthdays a program without the handler cancelled.
func unplanned(t *testing.T, store *postgres.Store, n int) []uuid.UUID {
	t.Helper()
	registry, err := almanac.NewRegistry()
	require.NoError(t, err)
	command, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	var ids []uuid.UUID
	for range n {
		enrolment, err := newScheduler(t, store).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		ids = append(ids, enrolment.User.ID)
	}
	cancelled, err := ops.Operate(t.Context(), command, ops.Cancel, nil, ops.OperateOptions{})
	require.NoError(t, err)
	require.Equal(t, n, cancelled.Unplanned)
	return ids
}

// sweepBirthdays plans what waits, as the sweep of a program with the handler does.
// Each user is given to meanwhile, while the user is locked.
func sweepBirthdays(ctx context.Context, store *postgres.Store, meanwhile func(uuid.UUID)) ([]almanac.Event, error) {
	added, err := store.AddSuccessors(ctx, almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
		var events []almanac.Event
		for _, one := range users {
			meanwhile(one.User.ID)
			next, err := nextBirthday(one.User, now)
			if err != nil {
				return nil, nil, err
			}
			events = append(events, next)
		}
		return events, nil, nil
	})
	return added.Events, err
}

// requireOneOpen checks that each of n users has one open event, planned from the user
// as stored, and that nothing waits any more.
func requireOneOpen(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	var open, users, stale, waiting int
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT count(*), count(DISTINCT e.user_id), count(*) FILTER (WHERE e.target_timezone <> u.timezone)
		FROM almanac.pending_events e JOIN almanac.users u ON u.id = e.user_id`).Scan(&open, &users, &stale))
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM almanac.unplanned").Scan(&waiting))
	require.Equal(t, []int{n, n, 0, 0}, []int{open, users, stale, waiting}, "open, of users, in another zone, waiting")
}

func alone(uuid.UUID) {}

// While one sweep plans a user's next event, another passes the user by, and an edit
// waits for the event and moves it.
func TestSweepsAndAnEditPlanOneSuccessor(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	unplanned(t, store, 1)
	edited := make(chan error, 1)

	added, err := sweepBirthdays(t.Context(), store, func(user uuid.UUID) {
		go func() {
			zone := "Asia/Tokyo"
			_, err := newScheduler(t, store).UpdateUser(t.Context(), user, almanac.ProfileChange{Timezone: &zone})
			edited <- err
		}()
		awaitLockWaiter(t, pool, edited)
		other, err := sweepBirthdays(t.Context(), store, alone)
		noError(t, err)
		if len(other) > 0 {
			t.Error("two sweeps plan for one user")
		}
	})

	require.NoError(t, err)
	require.Len(t, added, 1)
	require.NoError(t, <-edited)
	requireOneOpen(t, pool, 1)
}

// Whatever the order in which sweeps and edits come, each user has one next event.
func TestSweepsAndEditsAtOncePlanOneSuccessorEach(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, pgtest.MaxConns(8))
	store := mustStore(t, pool)
	scheduler := newScheduler(t, store)
	ids := unplanned(t, store, 12)
	var working sync.WaitGroup
	began := make(chan struct{})
	for range 2 {
		working.Go(func() {
			<-began
			_, err := sweepBirthdays(t.Context(), store, alone)
			noError(t, err)
		})
	}
	for _, edit := range []func(uuid.UUID) error{
		func(id uuid.UUID) error { _, err := scheduler.Reschedule(t.Context(), id); return err },
		func(id uuid.UUID) error {
			zone := "Asia/Tokyo"
			_, err := scheduler.UpdateUser(t.Context(), id, almanac.ProfileChange{Timezone: &zone})
			return err
		},
	} {
		working.Go(func() {
			<-began
			for _, id := range ids {
				noError(t, edit(id))
			}
		})
	}
	close(began)
	working.Wait()

	_, err := sweepBirthdays(t.Context(), store, alone) // of users who were locked
	require.NoError(t, err)
	requireOneOpen(t, pool, len(ids))
}

// A user whom another transaction has locked delays no other user. A later sweep plans for
// that user.
func TestSweepPlansSuccessorsPastALockedUser(t *testing.T) {
	t.Parallel()
	for what, lock := range map[string]string{
		"user":   "SELECT FROM almanac.users WHERE id = $1 FOR UPDATE",
		"series": "SELECT FROM almanac.series WHERE user_id = $1 FOR UPDATE",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			ids := unplanned(t, store, 3)
			holder, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
			_, err = holder.Exec(t.Context(), lock, ids[1])
			require.NoError(t, err)

			added, err := sweepBirthdays(t.Context(), store, alone)
			require.NoError(t, err)
			require.Len(t, added, 2)
			require.NoError(t, holder.Rollback(t.Context()))

			added, err = sweepBirthdays(t.Context(), store, alone)
			require.NoError(t, err)
			require.Len(t, added, 1)
			require.Equal(t, ids[1], added[0].UserID)
			requireOneOpen(t, pool, 3)
		})
	}
}

// refuse has the database refuse to open a series of a user, with an error of a code.
func refuse(t *testing.T, pool *pgxpool.Pool, user uuid.UUID, code string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; END $$;
		CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON almanac.series FOR EACH ROW
		WHEN (NEW.user_id = '%s' AND NEW.event_id IS NOT NULL) EXECUTE FUNCTION public.refuse()`, raise(code), user))
	require.NoError(t, err)
}

// One user whose next event the database refuses delays no other user, and is tried again later.
func TestSweepPlansSuccessorsPastARefusedUser(t *testing.T) {
	t.Parallel()
	for what, code := range map[string]string{
		"by a trigger of the host": "P0001", "by a timeout of statements": "57014", "by a timeout of idle transactions": "25P03", "by a timeout of transactions": "25P04",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			ids := unplanned(t, store, 5)
			refuse(t, pool, ids[2], code)
			s := newScheduler(t, store)

			_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})

			require.NoError(t, err)
			stalled, err := store.Stalled(t.Context(), uuid.Nil, 0)
			require.NoError(t, err)
			require.Len(t, stalled, 1)
			require.Equal(t, ids[2], stalled[0].UserID)
			require.Equal(t, 1, stalled[0].Failures)
			require.Contains(t, stalled[0].Error, code)
			require.Greater(t, stalled[0].RetryAt, stalled[0].Since)
			_, err = pool.Exec(t.Context(), "DROP TRIGGER refuse ON almanac.series; UPDATE almanac.unplanned SET retry_at = now()")
			require.NoError(t, err)
			_, err = s.RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.NoError(t, err)
			requireOneOpen(t, pool, len(ids))
		})
	}
}

// The plan of many users may take longer than the timeout of the store.
func TestSweepPlansFewerUsersAfterAPlanThatTookTooLong(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	ids := unplanned(t, mustStore(t, pool), 2)
	const timeout = 3 * time.Second
	store := mustStore(t, pool, postgres.WithTimeout(timeout))
	added, err := store.AddSuccessors(t.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, now time.Time) (events []almanac.Event, _ []almanac.StalledSeries, _ error) {
		if len(users) > 1 {
			<-time.After(timeout)
		}
		for _, one := range users {
			next, err := nextBirthday(one.User, now)
			noError(t, err)
			events = append(events, next)
		}
		return events, nil, nil
	})
	require.NoError(t, err)
	require.Len(t, added.Events, len(ids))
	requireOneOpen(t, pool, len(ids))
}

// To find the one user who takes too long takes longer than a pass has. The others are planned meanwhile, and a later
// pass goes on with fewer users.
func TestPassesPlanSuccessorsPastAUserWhoTakesTooLong(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	ids := unplanned(t, mustStore(t, pool), 32)
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION public.sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
		CREATE TRIGGER sleep BEFORE INSERT OR UPDATE ON almanac.series FOR EACH ROW
		WHEN (NEW.user_id = '%s' AND NEW.event_id IS NOT NULL) EXECUTE FUNCTION public.sleep()`, ids[0]))
	require.NoError(t, err)
	store := mustStore(t, pool, postgres.WithTimeout(500*time.Millisecond))
	calls := &successorCalls{Repository: store}
	s := newScheduler(t, calls)
	var stalled []almanac.StalledSeries
	var firsts []int // the size of the first call of each pass that made one
	for pass := 0; len(stalled) != 1 || stalled[0].Failures == 0; pass++ {
		require.Less(t, pass, 400, "passes") // many end early on a busy machine
		calls.sizes = nil
		// Maintenance has a third, and this task half of that.
		_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{Within: 4800 * time.Millisecond})
		if !errors.Is(err, context.DeadlineExceeded) { // on a busy machine another statement takes longer than the timeout
			require.NoError(t, err)
		}
		if len(calls.sizes) > 0 {
			firsts = append(firsts, calls.sizes[0])
		}
		stalled, err = mustStore(t, pool).Stalled(t.Context(), uuid.Nil, 0)
		require.NoError(t, err)
	}
	require.Greater(t, len(firsts), 1)
	// On a busy machine, the time of the first pass may be over before its call has failed.
	require.Less(t, slices.Min(firsts[1:]), firsts[0], "a later pass begins with fewer")
	require.Equal(t, ids[0], stalled[0].UserID)
	open, err := mustStore(t, pool).Count(t.Context(), almanac.InStatus(almanac.Pending))
	require.NoError(t, err)
	require.Equal(t, len(ids)-1, open)
}

// successorCalls notes how many users each call of AddSuccessors is for at most.
type successorCalls struct {
	almanac.Repository
	sizes []int
}

func (c *successorCalls) AddSuccessors(ctx context.Context, eventType string, page almanac.Page,
	plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) (almanac.AddEventsResult, error) {
	c.sizes = append(c.sizes, page.Limit)
	return c.Repository.AddSuccessors(ctx, eventType, page, plan)
}

// What takes too long for one user is that user's matter, also if no other user is left to be stored. What takes too
// long for all is not.
func TestBackfillRefusesOneUserWhoTakesTooLongAndFailsIfAllDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ users, slow, refused int }{
		"one of many": {9, 1, 1}, "two of many": {9, 2, 2}, "the only one": {1, 1, 1}, "all": {9, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			store := mustStore(t, pool)
			var ids []uuid.UUID
			for range c.users {
				created, err := newScheduler(t, store).CreateUser(t.Context(), ada)
				require.NoError(t, err)
				ids = append(ids, created.User.ID)
			}
			_, err := pool.Exec(t.Context(), fmt.Sprintf(`
				CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; END $$;
				CREATE TRIGGER refuse BEFORE INSERT ON almanac.series FOR EACH ROW WHEN (NEW.user_id >= '%s') EXECUTE FUNCTION public.refuse()`,
				raise("57014"), ids[c.users-c.slow]))
			require.NoError(t, err)
			registry, err := almanac.NewRegistry(almanac.Recurring{Type: "DIGEST", Rule: func(almanac.User) (calendar.Recurrence, error) { return calendar.Daily{}, nil }})
			require.NoError(t, err)
			s, err := almanac.NewScheduler(store, registry)
			require.NoError(t, err)

			done, err := s.Backfill(t.Context(), "DIGEST", almanac.BackfillOptions{})

			require.Len(t, done.Refused, c.refused)
			if c.refused == 0 {
				require.ErrorContains(t, err, "57014")
				return
			}
			require.NoError(t, err)
			require.Equal(t, []int{c.users, c.users - c.slow}, []int{done.Users, done.Events})
			for _, one := range done.Refused {
				require.Contains(t, ids[c.users-c.slow:], one.UserID)
				require.ErrorContains(t, one.Err, "57014")
			}
		})
	}
}

// While a handler plans a stalled series, the series counts as failed once more, because the handler may
// kill the process. If planning returns an error, the series is restored.
func TestASeriesIsPostponedWhileItIsPlanned(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	unplanned(t, store, 1)
	failed := errors.New("no plan")
	state := func() (failures int, waits bool) {
		noError(t, pool.QueryRow(t.Context(), "SELECT failures, retry_at > now() + interval '5 s' FROM almanac.unplanned").Scan(&failures, &waits))
		return failures, waits
	}
	for range 2 {
		asked := false
		_, err := store.AddSuccessors(t.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			asked = true
			failures, waits := state()
			if failures != 1 || !waits || users[0].Stalled[0].Failures != 0 {
				t.Errorf("%d failures, waits %v, %d failures before", failures, waits, users[0].Stalled[0].Failures)
			}
			return nil, nil, failed
		})
		require.Equal(t, failed, err)
		require.True(t, asked)
		failures, waits := state()
		require.Zero(t, failures)
		require.False(t, waits)
	}
}

// An error of the host's planning code is none of the database's, whatever it looks like.
func TestAddReturnsErrorsOfThePlanUnchanged(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	unplanned(t, store, 2)
	for _, failed := range []error{context.DeadlineExceeded, &pgconn.PgError{Code: "57014"}, &pgconn.PgError{Code: "23505"}} {
		calls := 0
		_, err := store.AddSuccessors(t.Context(), almanac.TypeBirthday, almanac.Page{}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			calls++
			return nil, nil, failed
		})
		require.Equal(t, failed, err)
		_, err = store.AddEvents(t.Context(), almanac.TypeBirthday, almanac.Page{}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error) {
			calls++
			return nil, failed
		})
		require.Equal(t, failed, err)
		require.Equal(t, 2, calls)
	}
}

// Backfill reports the users whom the handler refuses and those whom the database refuses.
func TestBackfillReportsRefusedUsersOneByOne(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	var ids []uuid.UUID
	for range 6 {
		created, err := newScheduler(t, store).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		ids = append(ids, created.User.ID)
	}
	digest := almanac.Recurring{Type: "DIGEST", Rule: func(u almanac.User) (calendar.Recurrence, error) {
		if u.ID == ids[1] {
			return nil, errors.New("no rule")
		}
		return calendar.Daily{}, nil
	}}
	registry, err := almanac.NewRegistry(digest)
	require.NoError(t, err)
	s, err := almanac.NewScheduler(store, registry)
	require.NoError(t, err)
	refuse(t, pool, ids[4], "P0001")

	done, err := s.Backfill(t.Context(), "DIGEST", almanac.BackfillOptions{})

	require.NoError(t, err)
	require.Equal(t, []int{6, 4}, []int{done.Users, done.Events})
	refused := map[uuid.UUID]string{}
	for _, one := range done.Refused {
		refused[one.UserID] += one.Err.Error()
	}
	require.Len(t, done.Refused, 2)
	require.Contains(t, refused[ids[1]], "no rule")
	require.Contains(t, refused[ids[4]], "P0001")
}

// A page of which one user is refused is stored in parts. Observers are notified of the parts that were stored before
// another error.
func TestBackfillTellsOfWhatWasStoredBeforeAnError(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	var ids []uuid.UUID
	for range 8 {
		created, err := newScheduler(t, store).CreateUser(t.Context(), ada)
		require.NoError(t, err)
		ids = append(ids, created.User.ID)
	}
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
		CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.user_id = '%s' THEN %s; END IF;
			IF (SELECT count(*) FROM almanac.series s WHERE s.event_type = 'DIGEST') > 1 THEN %s; END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON almanac.series FOR EACH ROW EXECUTE FUNCTION public.refuse()`,
		ids[0], raise("23514"), raise("53100"))) // the whole page is refused at its first user
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Recurring{Type: "DIGEST", Rule: func(almanac.User) (calendar.Recurrence, error) { return calendar.Daily{}, nil }})
	require.NoError(t, err)
	created := 0
	s, err := almanac.NewScheduler(store, registry, almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
		if n.Kind == almanac.EventCreated {
			created++
		}
	})))
	require.NoError(t, err)

	_, err = s.Backfill(t.Context(), "DIGEST", almanac.BackfillOptions{})

	require.ErrorContains(t, err, "53100")
	stored, err := store.Count(t.Context(), almanac.OfType("DIGEST"))
	require.NoError(t, err)
	require.Positive(t, stored)
	require.Equal(t, int(stored), created)
}
