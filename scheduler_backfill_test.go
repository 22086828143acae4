package almanac_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// choosy is another type of event, which not every user has.
type choosy struct{ almanac.Birthday }

func (choosy) EventType() string { return "CHOOSY" }

func (c choosy) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	switch u.FirstName {
	case "Nobody":
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	case "Bad":
		return calendar.Occurrence{}, errors.New("bad")
	case "Worse":
		panic("worse")
	}
	return c.Birthday.Next(u, after)
}

// countNotices counts what observers have heard of by now.
func (w *world) countNotices(kind almanac.NoticeKind) int {
	heard := 0
	for range len(w.notices) {
		if n := <-w.notices; n.Kind == kind {
			heard++
		}
	}
	return heard
}

func TestBackfillStoresEventsForUsersWithoutOne(t *testing.T) {
	t.Parallel()
	for name, open := range onBoth {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openOn(open(t))
			users := folk(12)
			users[2].FirstName, users[5].FirstName, users[9].FirstName = "Nobody", "Bad", "Worse"
			_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
			require.NoError(t, err)
			scheduler := w.schedulerOf(t, []almanac.EventHandler{almanac.Birthday{}, choosy{}})
			early, err := scheduler.Schedule(t.Context(), users[7].ID, "CHOOSY")
			require.NoError(t, err)
			w.countNotices(almanac.EventCreated)

			done, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})

			require.NoError(t, err)
			require.Equal(t, 12, done.Users)
			require.Equal(t, 8, done.Events)
			require.Empty(t, done.Next)
			refused := make(map[uuid.UUID]string)
			for _, r := range done.Refused {
				refused[r.UserID] = r.Err.Error()
			}
			require.Len(t, refused, 2)
			require.Equal(t, "bad", refused[users[5].ID])
			require.Contains(t, refused[users[9].ID], "panicked: worse")
			require.Equal(t, 8, w.countNotices(almanac.EventCreated))
			require.Equal(t, 12+9, w.stored(t))
			require.Equal(t, early[0], w.event(t, early[0]), "who had one keeps it")

			again, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})
			require.NoError(t, err)
			require.Zero(t, again.Events)
			require.Equal(t, 12+9, w.stored(t))
		})
	}
}

func TestBackfillKeepsItsRateAndContinuesFromItsCursor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil))
		_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(folk(45)), almanac.CreateUsersOptions{})
		require.NoError(t, err)
		scheduler := w.scheduler(t, choosy{})
		ctx, kill := context.WithCancel(t.Context())
		defer kill()
		began := time.Now()
		options := almanac.BackfillOptions{Rate: 10, Progress: func(d almanac.BackfillResult) {
			if d.Users == 20 {
				kill()
			}
		}}

		cut, err := scheduler.Backfill(ctx, "CHOOSY", options)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 20, cut.Events)
		require.Equal(t, time.Second, time.Since(began), "ten at once, and ten a second later")
		require.Equal(t, 45+20, w.stored(t))

		options.After = cut.Next
		rest, err := scheduler.Backfill(t.Context(), "CHOOSY", options)
		require.NoError(t, err)
		require.Equal(t, 25, rest.Users, "nobody is looked at twice")
		require.Equal(t, 25, rest.Events)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

func TestBackfillNeverRepeatsAUsedOccurrence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // on the first of January 2000
		repository := almanactest.NewRepository(nil)
		w := openOn(repository)
		u := almanactest.User(almanactest.BornOn("1990-12-10"))
		_, _, err := almanactest.CreateUser(t.Context(), repository, u, almanactest.Event(time.Now(), almanactest.For(u), almanactest.Of("2000")))
		require.NoError(t, err)
		claim, err := repository.Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
		require.NoError(t, err)
		_, err = repository.Settle(t.Context(), []almanac.Settlement{{Event: claim.Events[0], Outcome: almanac.Delivered(time.Now())}})
		require.NoError(t, err)

		done, err := w.scheduler(t, almanac.Birthday{}).Backfill(t.Context(), almanac.TypeBirthday, almanac.BackfillOptions{})

		require.NoError(t, err)
		require.Equal(t, 1, done.Events)
		require.Equal(t, "2001", almanactest.PendingEvent(t, repository, u.ID, almanac.TypeBirthday).OccurrenceKey)
	})
}

func TestBackfillWhileAllUsersMove(t *testing.T) {
	t.Parallel()
	w := open(t)
	users := folk(100)
	_, err := w.scheduler(t, almanac.Birthday{}).CreateUsers(t.Context(), each(users), almanac.CreateUsersOptions{})
	require.NoError(t, err)
	scheduler := w.schedulerOf(t, []almanac.EventHandler{almanac.Birthday{}, choosy{}})
	var racing sync.WaitGroup
	for range 2 {
		racing.Go(func() {
			if _, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{}); err != nil {
				t.Errorf("backfill: %v", err)
			}
		})
	}
	for i := range 4 {
		racing.Go(func() {
			for _, p := range users[25*i : 25*(i+1)] {
				if _, err := scheduler.UpdateUser(t.Context(), p.ID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")}); err != nil {
					t.Errorf("update: %v", err)
				}
			}
		})
	}
	racing.Wait()
	for _, p := range users {
		require.Equal(t, "Asia/Tokyo", almanactest.PendingEvent(t, w.store, p.ID, "CHOOSY").Zone)
	}
	require.Equal(t, 200, w.stored(t))
}

func TestBackfillListsRefusedUsers(t *testing.T) {
	t.Parallel()
	w := openOn(almanactest.NewRepository(nil))
	scheduler := w.scheduler(t, almanac.Birthday{})
	_, err := scheduler.Backfill(t.Context(), "CHOOSY", almanac.BackfillOptions{})
	require.ErrorIs(t, err, almanac.ErrUnsupportedEventType)
	_, err = scheduler.Backfill(t.Context(), almanac.TypeBirthday, almanac.BackfillOptions{Rate: -1})
	require.ErrorIs(t, err, almanac.ErrInvalid)
	_, err = scheduler.Backfill(t.Context(), almanac.TypeBirthday, almanac.BackfillOptions{After: "here"})
	require.ErrorIs(t, err, almanac.ErrInvalid)
}
