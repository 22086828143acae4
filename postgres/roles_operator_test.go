package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestTheOperatorRoleChangesSingleEvents(t *testing.T) {
	t.Parallel()
	c := newCast(t)
	operator := newScheduler(t, c.store(t, "operator"))

	person, err := newScheduler(t, c.store(t, "api")).CreateUser(t.Context(), ada)
	require.NoError(t, err)
	cancelled, err := operator.Cancel(t.Context(), person.Events[0].ID, almanac.CancelOptions{Reason: "moved house"})
	require.NoError(t, err)
	require.NotNil(t, cancelled.Successor)
	again, err := operator.Requeue(t.Context(), cancelled.Event.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	require.Equal(t, cancelled.Event.IdempotencyKey, again.IdempotencyKey)
	now, err := operator.RunNow(t.Context(), cancelled.Successor.ID, almanac.ForceOptions{})
	require.NoError(t, err)
	require.False(t, now.Due.After(time.Now()))
	require.NoError(t, operator.Pause(t.Context(), almanac.Pause{Lane: almanac.TypeBirthday}))
	require.NoError(t, operator.Resume(t.Context(), almanac.TypeBirthday))

	for _, role := range []string{"worker", "api", "reader"} {
		requireRefused(t, newScheduler(t, c.store(t, role)).Pause(t.Context(), almanac.Pause{Lane: almanac.TypeBirthday}), role+" pauses")
	}
	_, err = newScheduler(t, c.store(t, "api")).Requeue(t.Context(), cancelled.Event.ID, almanac.ForceOptions{})
	requireRefused(t, err, "the API requeues")
}
