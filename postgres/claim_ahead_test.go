package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// dueIn stores a user with an event that is due in d, or up to a second earlier.
func dueIn(t *testing.T, store *postgres.Store, d time.Duration) almanac.Event {
	t.Helper()
	now := nowOf(t, store)
	u := almanactest.User()
	return almanactest.Store(t, store, u, almanactest.Event(now, almanactest.For(u), almanactest.DueIn(d)))[0]
}

func claimAhead(t *testing.T, store *postgres.Store) []almanac.Event {
	t.Helper()
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{
		Token: uuid.New(), Owner: t.Name(), Types: []string{almanac.TypeBirthday}, Limit: 10, Lease: time.Minute, Ahead: time.Minute,
	})
	require.NoError(t, err)
	return claim.Events
}

// reach waits until the database's clock has reached an instant.
func reach(t *testing.T, store *postgres.Store, instant time.Time) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, err := store.Now(t.Context())
		return err == nil && !now.Before(instant)
	}, 10*time.Second, 5*time.Millisecond)
}

// underWay begins an edit, lets the rest of the test see it as it is before it stores
// anything, and returns how to let it store that and end.
func underWay(t *testing.T, store *postgres.Store, id uuid.UUID, edit func(almanac.Roster) almanac.Edit) (end func()) {
	t.Helper()
	begun, goOn, ended := make(chan struct{}, 10), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := store.EditUser(context.WithoutCancel(t.Context()), id, func(r almanac.Roster) (almanac.Edit, error) {
			begun <- struct{}{}
			<-goOn
			return edit(r), nil
		})
		ended <- err
	}()
	<-begun
	return func() {
		close(goOn)
		require.NoError(t, <-ended)
	}
}

// later moves all that is pending by an hour.
func later(r almanac.Roster) almanac.Edit {
	var edit almanac.Edit
	for _, e := range r.Pending {
		e.Due, e.Version = e.Due.Add(time.Hour), e.Version+1
		e.Wall = calendar.StoredTimezone(e.Zone).WallTime(e.Due)
		edit.Changed = append(edit.Changed, e)
	}
	return edit
}

// An edit that began before the instant, and is still under way when it comes.
func TestConfirmSkipsEventsThatAnEditReleases(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	stored := dueIn(t, store, 2*time.Second)
	held := claimAhead(t, store)
	require.Len(t, held, 1)
	end := underWay(t, store, stored.UserID, later)
	reach(t, store, stored.Due)

	during, err := store.Confirm(t.Context(), held)
	require.NoError(t, err)
	end()
	after, err := store.Confirm(t.Context(), held)
	require.NoError(t, err)

	require.False(t, during.At.Before(stored.Due))
	require.Empty(t, during.Held)
	require.Equal(t, []uuid.UUID{stored.ID}, during.Busy)
	require.Empty(t, after.Held)
	require.Empty(t, after.Busy)
	moved, err := store.Event(t.Context(), stored.ID)
	require.NoError(t, err)
	require.Equal(t, almanac.Pending, moved.Status)
	require.Equal(t, stored.Due.Add(time.Hour), moved.AvailableAt)
}

func TestAnEditAfterTheInstantFindsItsEventInFlight(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	stored := dueIn(t, store, 2*time.Second)
	held := claimAhead(t, store)
	reach(t, store, stored.Due)
	var roster almanac.Roster
	end := underWay(t, store, stored.UserID, func(r almanac.Roster) almanac.Edit { roster = r; return later(r) })
	during, err := store.Confirm(t.Context(), held)
	require.NoError(t, err)
	end()
	after, err := store.Confirm(t.Context(), held)
	require.NoError(t, err)

	require.Empty(t, roster.Pending)
	require.Len(t, roster.InFlight, 1)
	require.Equal(t, []uuid.UUID{stored.ID}, during.Busy, "who edits may have looked before the instant")
	require.Equal(t, []uuid.UUID{stored.ID}, after.Held)
	settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: held[0], Outcome: almanac.Delivered(after.At)}})
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	require.Equal(t, 1, settled[0].Event.ClaimCount)
}

// A claim ahead that is not committed yet when an edit or a deletion comes by: they
// wait for it, and release what it took.
func TestEditsAndDeletionsReleaseEventsOfAnOpenClaim(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]func(context.Context, *postgres.Store, almanac.Event) (pending int, err error){
		"edit": func(ctx context.Context, s *postgres.Store, e almanac.Event) (pending int, err error) {
			_, err = s.EditUser(ctx, e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
				pending = len(r.Pending)
				return later(r), nil
			})
			return pending, err
		},
		"deletion": func(ctx context.Context, s *postgres.Store, e almanac.Event) (pending int, err error) {
			d, err := s.DeleteUser(ctx, e.UserID, almanac.DeleteOptions{})
			return d.Removed, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.ReusedPool(t)
			store := mustStore(t, pool)
			stored := dueIn(t, store, time.Hour)
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			claiming := mustStore(t, tx)
			r := almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 10, Lease: time.Minute, Ahead: 2 * time.Hour}
			claim, err := claiming.Claim(t.Context(), r)
			require.NoError(t, err)
			require.Len(t, claim.Events, 1)

			type answer struct {
				pending int
				err     error
			}
			came := make(chan answer, 1)
			ctx := context.WithoutCancel(t.Context())
			go func() {
				pending, err := come(ctx, store, stored)
				came <- answer{pending, err}
			}()
			require.Eventually(t, func() bool {
				var waiting bool
				err := pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) "+
					"WHERE NOT l.granted AND a.datname = current_database())").Scan(&waiting)
				return err == nil && waiting
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, tx.Commit(t.Context()))

			require.Equal(t, answer{pending: 1}, <-came)
			confirmed, err := store.Confirm(t.Context(), claim.Events)
			require.NoError(t, err)
			require.Empty(t, confirmed.Held)
		})
	}
}
