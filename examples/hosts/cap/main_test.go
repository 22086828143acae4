package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func open(t *testing.T, most int) (*pgxpool.Pool, daily) {
	t.Helper()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), schema)
	require.NoError(t, err)
	return pool, daily{pool, most, calendar.Clock{Hour: 9}}
}

// delivery returns a delivery of another event to a user, at an instant.
func delivery(u almanac.User, at time.Time) almanac.Delivery {
	return almanac.Delivery{Event: almanactest.Event(at, almanactest.For(u), almanactest.Of(uuid.NewString())), User: u, Attempt: 1, At: at}
}

var accept = almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })

var noon = time.Date(2027, time.March, 27, 12, 0, 0, 0, time.UTC) // a Saturday

func TestRacingDeliveriesDoNotExceedTheCap(t *testing.T) {
	t.Parallel()
	_, c := open(t, 2)
	for range 20 {
		u := almanactest.User(almanactest.WithUserID(uuid.New()))
		results := make([]error, 8)
		var racing sync.WaitGroup
		begin := make(chan struct{})
		for i := range results {
			racing.Go(func() {
				<-begin
				results[i] = c.around(accept).Deliver(t.Context(), delivery(u, noon))
			})
		}
		close(begin)
		racing.Wait()

		passed := 0
		for _, err := range results {
			if err == nil {
				passed++
				continue
			}
			require.ErrorIs(t, err, almanac.ErrSnoozed)
		}
		require.Equal(t, 2, passed)
	}
}

func TestOnlySuccessfulAttemptsCount(t *testing.T) {
	t.Parallel()
	pool, c := open(t, 1)
	u := almanactest.User(almanactest.WithUserID(uuid.New()))
	first, second := delivery(u, noon), delivery(u, noon)
	down := errors.New("receiver answered 503")
	ctx, cancel := context.WithCancel(t.Context())
	refuse := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
		cancel() // the attempt has taken too long
		return almanac.Permanent(down)
	})

	err := c.around(refuse).Deliver(ctx, first)

	require.ErrorIs(t, err, down)
	require.ErrorIs(t, err, almanac.ErrPermanent, "what the deliverer decided holds")
	require.NoError(t, c.around(accept).Deliver(t.Context(), second))
	require.NoError(t, c.around(accept).Deliver(t.Context(), second), "a repeated delivery passes again")
	require.ErrorIs(t, c.around(accept).Deliver(t.Context(), first), almanac.ErrSnoozed)
	var keys []string
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT keys FROM capped").Scan(&keys))
	require.Equal(t, []string{string(second.Event.IdempotencyKey)}, keys)
}

func TestEachUserAndLocalDayHasItsOwnCount(t *testing.T) {
	t.Parallel()
	_, c := open(t, 1)
	ada := almanactest.User(almanactest.WithUserID(uuid.New()), almanactest.LivingIn("America/New_York"))
	kenji := almanactest.User(almanactest.WithUserID(uuid.New()), almanactest.LivingIn("Asia/Tokyo"))
	deliver := func(u almanac.User, at time.Time) error {
		return c.around(accept).Deliver(t.Context(), delivery(u, at))
	}
	lateThere := time.Date(2027, time.March, 28, 3, 59, 0, 0, time.UTC) // 23:59 of the 27th in New York

	require.NoError(t, deliver(ada, noon))
	require.NoError(t, deliver(kenji, noon))
	require.ErrorIs(t, deliver(ada, lateThere), almanac.ErrSnoozed)
	require.NoError(t, deliver(kenji, lateThere), "it is the 28th in Tokyo")
	require.NoError(t, deliver(ada, lateThere.Add(time.Minute)), "and then in New York")
}

// Clocks in London go forward in the night of the 28th, so the morning comes an hour earlier.
func TestPostponedEventsWaitForTheNextMorning(t *testing.T) {
	t.Parallel()
	_, c := open(t, 1)
	u := almanactest.User(almanactest.WithUserID(uuid.New()), almanactest.LivingIn("Europe/London"))
	early := time.Date(2027, time.March, 27, 6, 0, 0, 0, time.UTC)
	require.NoError(t, c.around(accept).Deliver(t.Context(), delivery(u, early)))

	for at, want := range map[time.Time]string{
		early: "snoozed for 26h0m0s: cap of 1 reached on 2027-03-27",
		noon:  "snoozed for 20h0m0s: cap of 1 reached on 2027-03-27",
	} {
		require.EqualError(t, c.around(accept).Deliver(t.Context(), delivery(u, at)), want)
	}
}

func TestTheSchedulerDeliversUpToTheCapAndPostponesTheRest(t *testing.T) {
	t.Parallel()
	pool, c := open(t, 2)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	var letters almanactest.Recorder
	scheduler := newScheduler(pool, c, &letters)
	created, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Asia/Tokyo"})
	require.NoError(t, err)
	require.Len(t, created.Events, 3)
	for _, e := range created.Events {
		_, err := scheduler.RunNow(t.Context(), e.ID, almanac.ForceOptions{})
		require.NoError(t, err)
	}

	did, err := scheduler.RunOnce(t.Context(), almanac.RunOnceOptions{})

	require.NoError(t, err)
	require.Equal(t, []int{2, 1, 0}, []int{did.Completed, did.Retried, did.Failed})
	require.Len(t, letters.Attempts(), 2)
	var waiting []almanac.Event
	for _, e := range almanactest.FindEvents(t, store, almanac.InStatus(almanac.Pending), 3) {
		if e.ClaimCount > 0 {
			waiting = append(waiting, e)
		}
	}
	require.Len(t, waiting, 1)
	again, today := created.User.Timezone.WallTime(waiting[0].AvailableAt.Truncate(time.Hour)), created.User.Timezone.WallTime(letters.Attempts()[0].At)
	require.Equal(t, calendar.Clock{Hour: 9}, again.Clock)
	require.Equal(t, 24*time.Hour, calendar.WallTime{Date: again.Date}.Labelled().Sub(calendar.WallTime{Date: today.Date}.Labelled()))
	require.Zero(t, waiting[0].RetryCount, "no attempt is counted")
}
