package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// unstorable is a successor that only the database refuses: its zone is too long.
func unstorable(u almanac.User, now time.Time) (almanac.Event, error) {
	e, err := nextBirthday(u, now)
	e.Zone = strings.Repeat("x", 101)
	return e, err
}

func nextBirthday(u almanac.User, now time.Time) (almanac.Event, error) {
	o, err := almanac.Birthday{}.Next(u, now.AddDate(1, 0, 0)) // this year's is the one that ends
	if err != nil {
		return almanac.Event{}, err
	}
	return almanac.NewEvent(u, almanac.Birthday{}, almanac.Occurrence{Occurrence: o})
}

func TestSettleStoresTheOthersWhenTheDatabaseRefusesOne(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	var settlements []almanac.Settlement
	for range 3 {
		overdue(t, store)
		e := claimOne(t, store)
		settlements = append(settlements, almanac.Settlement{Event: e, Outcome: almanac.Delivered(e.UpdatedAt), Next: nextBirthday})
	}
	settlements[1].Next = unstorable

	settled, err := store.Settle(t.Context(), settlements)

	require.NoError(t, err)
	for i, s := range settled {
		require.NoError(t, s.Err)
		require.Equal(t, almanac.Completed, s.Event.Status, "its own outcome is stored, whatever became of the successor")
		require.Equal(t, i == 1, s.PlanErr != nil)
		require.Equal(t, i != 1, s.Successor != nil)
	}
}

// What the database refuses is left out, and the rest is stored with the outcome.
func TestSettleStoresWhatTheDatabaseDoesNotRefuse(t *testing.T) {
	t.Parallel()
	store := mustStore(t, pgtest.ReusedPool(t))
	question := func(zone string) func(u almanac.User, now time.Time) ([]almanac.Event, error) {
		return func(u almanac.User, now time.Time) ([]almanac.Event, error) {
			e := almanactest.Event(now, almanactest.For(u), almanactest.OfType("QUESTION"), almanactest.Of("gift"), almanactest.DueIn(time.Hour))
			e.Zone, e.Origin = zone, almanac.Origin{Kind: almanac.OriginFollowUp, From: e.ID}
			return []almanac.Event{e}, nil
		}
	}
	tooLong := strings.Repeat("x", 101)
	for name, tt := range map[string]struct {
		next             func(almanac.User, time.Time) (almanac.Event, error)
		zone             string
		successor, asked bool
	}{
		"no successor":               {unstorable, "UTC", false, true},
		"no follow-up":               {nextBirthday, tooLong, true, false},
		"neither":                    {unstorable, tooLong, false, false},
		"no follow-up, and none due": {nil, tooLong, false, false},
	} {
		overdue(t, store)
		e := claimOne(t, store)
		settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(e.UpdatedAt), Next: tt.next, Follow: question(tt.zone)}})
		require.NoError(t, err, name)
		one := settled[0]
		require.NoError(t, one.Err, name)
		require.Equal(t, almanac.Completed, one.Event.Status, name)
		require.Equal(t, []bool{tt.successor, tt.asked}, []bool{one.Successor != nil, len(one.Followed) == 1}, name)
		require.Equal(t, []bool{!tt.successor && tt.next != nil, !tt.asked}, []bool{one.PlanErr != nil, one.FollowErr != nil}, name)
		require.Equal(t, one.PlanErr != nil, one.Stalled != nil, name)
	}
}

// A missing right may be about all rows, and lost follow-ups are not planned again. So the outcome waits for the right.
func TestSettleStoresNoOutcomeWithoutItsFollowUpsWhenARightIsMissing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := mustStore(t, pool)
	settlements := claimedAndDelivered(t, pool, store, 2)
	settlements[1].Follow = func(u almanac.User, now time.Time) ([]almanac.Event, error) {
		e := almanactest.Event(now, almanactest.For(u), almanactest.OfType("QUESTION"), almanactest.Of("gift"), almanactest.DueIn(time.Hour))
		e.Origin = almanac.Origin{Kind: almanac.OriginFollowUp, From: e.ID}
		return []almanac.Event{e}, nil
	}
	refuseRow(t, pool, "BEFORE INSERT ON almanac.series", "true", "42501")

	settled, err := store.Settle(t.Context(), settlements)
	require.NoError(t, err)
	require.NoError(t, settled[0].Err)
	require.ErrorContains(t, settled[1].Err, "42501")

	_, err = pool.Exec(t.Context(), "DROP FUNCTION public.refuse_row CASCADE")
	require.NoError(t, err)
	settled, err = store.Settle(t.Context(), settlements[1:])
	require.NoError(t, err)
	require.Len(t, settled[0].Followed, 1)
}

func TestSettleIsFencedByTokenAndByVersion(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	overdue(t, store)
	e := claimOne(t, store)
	for name, forge := range map[string]func(*almanac.Event){
		"another token":      func(e *almanac.Event) { e.LeaseToken = uuid.New() },
		"an earlier version": func(e *almanac.Event) { e.Version-- },
		"a version to come":  func(e *almanac.Event) { e.Version++ },
	} {
		forged := e
		forge(&forged)

		settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: forged, Outcome: almanac.Delivered(e.UpdatedAt), Next: nextBirthday}})

		require.NoError(t, err, name)
		require.ErrorIs(t, settled[0].Err, almanac.ErrLeaseLost, name)
		stored, err := store.Event(t.Context(), e.ID)
		require.NoError(t, err)
		require.Equal(t, e, stored, name)
	}
	n, err := store.Count(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, 1, n, "no successor either")
}

func TestCreateUserStoresTheUserAndTheirEventsTogether(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	now := nowOf(t, store)
	u, err := almanac.NewUser(ada, now)
	require.NoError(t, err)
	e, err := unstorable(u, now)
	require.NoError(t, err)

	_, _, err = almanactest.CreateUser(t.Context(), store, u, e)

	require.Error(t, err)
	_, err = store.User(t.Context(), u.ID)
	require.ErrorIs(t, err, almanac.ErrNotFound)
}

// A lease row exists exactly as long as one of its events is PROCESSING.
func requireLeasesMatchEvents(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var unleased, spent int
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT count(*) FROM almanac.events e WHERE status = 'PROCESSING'
			AND NOT EXISTS (SELECT FROM almanac.leases l WHERE l.token = e.lease_token AND e.id = ANY (l.event_ids))`).Scan(&unleased))
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT count(*) FROM almanac.leases l
		WHERE NOT EXISTS (SELECT FROM almanac.events e WHERE e.id = ANY (l.event_ids) AND e.lease_token = l.token AND e.status = 'PROCESSING')`).Scan(&spent))
	require.Zero(t, unleased, "PROCESSING without a lease: nothing would ever release it")
	require.Zero(t, spent, "leases that hold nothing")
}

func TestLeasesEndWithTheLastOfTheirEvents(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	for range 4 {
		overdue(t, store)
	}
	token := uuid.New()
	claim, err := store.Claim(t.Context(), almanac.ClaimRequest{Token: token, Types: []string{almanac.TypeBirthday}, Limit: 4, Lease: time.Minute})
	require.NoError(t, err)
	require.Len(t, claim.Events, 4)
	requireLeasesMatchEvents(t, pool)

	outcomes := []almanac.Outcome{
		almanac.Delivered(claim.At), almanac.GaveUp("HTTP 404"), almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour),
	}
	for i, o := range outcomes {
		settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[i], Outcome: o}})
		require.NoError(t, err)
		require.NoError(t, settled[0].Err)
		requireLeasesMatchEvents(t, pool)
	}
	held, err := store.Renew(t.Context(), []uuid.UUID{token}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{token}, held, "one event is still held")
	_, err = store.Release(t.Context(), token)
	require.NoError(t, err)
	requireLeasesMatchEvents(t, pool)
	held, err = store.Renew(t.Context(), []uuid.UUID{token}, time.Minute)
	require.NoError(t, err)
	require.Empty(t, held)
}

func TestTheLastDeliveryOfADeletedUserErasesTheUser(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	overdue(t, store)
	e := claimOne(t, store)
	deletion, err := store.DeleteUser(t.Context(), e.UserID, almanac.DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{e.ID}, deletion.InFlight)

	settled, err := store.Settle(t.Context(), []almanac.Settlement{{Event: e, Outcome: almanac.Delivered(e.UpdatedAt), Next: nextBirthday}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(settled[0].Err, settled[0].PlanErr))
	require.Equal(t, almanac.Completed, settled[0].Event.Status, "what was in flight ends")
	require.Nil(t, settled[0].Successor, "and nothing follows")
	_, err = store.ReleaseExpired(t.Context(), 100, 1000)
	require.NoError(t, err)

	var users, events int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM almanac.users), (SELECT count(*) FROM almanac.events)").Scan(&users, &events))
	require.Zero(t, users)
	require.Zero(t, events)
}
