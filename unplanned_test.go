package almanac_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// A program without the handler cancels, and one that has it plans what follows: its
// own time of day, and not one of a ready-made handler.
func TestRunPlansWhatAProgramWithoutTheHandlerLeft(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			evening := almanac.Birthday{At: func(almanac.User) almanac.Clock { return almanac.Clock{Hour: 18, Minute: 30} }}
			host := w.scheduler(t, evening)
			ada, err := host.CreateUser(t.Context(), born(t, "Asia/Tokyo", 10))
			require.NoError(t, err)
			grace, err := host.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			registry, err := almanac.NewRegistry()
			require.NoError(t, err)
			command, err := almanac.NewScheduler(w.store, registry)
			require.NoError(t, err)

			cancelled, err := command.Cancel(t.Context(), ada.Events[0].ID, almanac.Cancel{})
			require.NoError(t, err)
			require.True(t, cancelled.Unplanned)
			require.Nil(t, cancelled.Successor)
			finished, err := command.Cancel(t.Context(), grace.Events[0].ID, almanac.Cancel{EndSeries: true})
			require.NoError(t, err)
			require.False(t, finished.Unplanned)
			for range len(w.notices) {
				<-w.notices
			}

			w.run(t, evening, almanac.WithSweep(20*time.Millisecond))

			next := w.await(t, almanac.EventCreated)
			require.NoError(t, w.stop())
			require.Equal(t, ada.User.ID, next.UserID)
			require.Equal(t, ada.Events[0].Wall.Date.Year+1, next.Wall.Date.Year)
			require.Equal(t, almanac.Clock{Hour: 18, Minute: 30}, next.Wall.Clock)
			require.Len(t, w.all(t), 3, "what was finished stays so")
		})
	}
}

// A series that came to its end goes on from what it has used up itself, whatever
// stood apart since.
func TestASeriesGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			w := openOn(repository(t))
			scheduler := w.scheduler(t, almanac.Birthday{})
			enrolment, err := scheduler.CreateUser(t.Context(), born(t, "UTC", 10))
			require.NoError(t, err)
			cancelled, err := scheduler.Cancel(t.Context(), enrolment.Events[0].ID, almanac.Cancel{EndSeries: true})
			require.NoError(t, err)
			require.Nil(t, cancelled.Successor)
			again, err := scheduler.Requeue(t.Context(), cancelled.Event.ID)
			require.NoError(t, err)

			result, err := scheduler.Reschedule(t.Context(), enrolment.User.ID)

			require.NoError(t, err)
			require.Len(t, result.Added, 1)
			require.Equal(t, cancelled.Event.Wall.Date.Year+1, result.Added[0].Wall.Date.Year)
			require.Equal(t, []uuid.UUID{again.ID}, result.Skipped)
		})
	}
}
