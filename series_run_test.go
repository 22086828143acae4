package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

// choir is a handler with a series for each voice that a person sings, all at the
// same seconds. It leaves it to the library to know which voices there still are.
type choir struct{ series }

func (c choir) Series(u almanac.User) ([]string, error) {
	var facts struct{ Voices []string }
	err := json.Unmarshal(u.Attributes, &facts)
	return facts.Voices, err
}

func (c choir) NextIn(u almanac.User, _ string, after time.Time) (almanac.Occurrence, error) {
	return c.Next(u, after)
}

// sing stores a singer of two voices with their first events, which are overdue.
func (w *world) sing(t *testing.T, c choir) map[string]almanac.Event {
	t.Helper()
	now, err := w.store.Now(t.Context())
	require.NoError(t, err)
	p := grace
	p.Attributes = json.RawMessage(`{"voices": ["bass", "alto"]}`)
	u, err := almanac.NewUser(p, now)
	require.NoError(t, err)
	var events []almanac.Event
	for _, voice := range []string{"alto", "bass"} {
		o, err := c.NextIn(u, voice, time.Time{})
		require.NoError(t, err)
		o.Series = voice
		e, err := almanac.NewEvent(u, c, o)
		require.NoError(t, err)
		events = append(events, e)
	}
	_, events, err = w.store.CreateUser(t.Context(), u, events...)
	require.NoError(t, err)
	return byName(events)
}

// pending returns those of the events that wait.
func pending(events []almanac.Event) []almanac.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool { return e.Status != almanac.Pending })
}

func TestEachSeriesGoesOnByItself(t *testing.T) {
	t.Parallel()
	w, r := open(t), &receiver{answers: []error{almanac.Permanent(errors.New("HTTP 404"))}}
	handler := choir{series{eventType: "CHOIR", seconds: ago(time.Minute, nextYear), execute: r.Deliver}}
	owed := w.sing(t, handler)

	w.run(t, handler, almanac.WithWorkers(1))
	failed := w.await(t, almanac.EventFailed)
	require.Equal(t, handler.seconds[1], w.await(t, almanac.EventCreated).Due)
	done := w.await(t, almanac.EventCompleted)
	require.Equal(t, handler.seconds[1], w.await(t, almanac.EventCreated).Due)
	require.NoError(t, w.stop())

	require.ElementsMatch(t, []uuid.UUID{owed["alto"].ID, owed["bass"].ID}, []uuid.UUID{failed.ID, done.ID})
	stored := w.all(t)
	require.Len(t, stored, 4)
	keys := make(map[almanac.IdempotencyKey]bool)
	for _, e := range stored {
		keys[e.IdempotencyKey] = true
	}
	require.Len(t, keys, 4, "two and two are for one instant")
	after := byName(pending(stored))
	require.Len(t, after, 2)
	for voice, e := range after {
		require.Equal(t, almanac.Pending, e.Status)
		require.Greater(t, e.OccurrenceKey, owed[voice].OccurrenceKey)
	}
}

func TestASeriesThatIsDroppedInFlightEnds(t *testing.T) {
	t.Parallel()
	w := open(t)
	begun, finish := make(chan struct{}), make(chan struct{})
	handler := choir{series{eventType: "CHOIR", seconds: ago(time.Minute, nextYear), execute: func(context.Context, almanac.Delivery) error {
		begun <- struct{}{}
		<-finish
		return nil
	}}}
	owed := w.sing(t, handler)
	scheduler := w.run(t, handler)
	<-begun
	<-begun

	result, err := scheduler.UpdateUser(t.Context(), owed["bass"].UserID, almanac.ProfileChange{Merge: json.RawMessage(`{"voices": ["alto"]}`)})
	require.NoError(t, err)
	require.ElementsMatch(t, []uuid.UUID{owed["alto"].ID, owed["bass"].ID}, result.Skipped)
	close(finish)
	w.await(t, almanac.EventCompleted)
	w.await(t, almanac.EventCompleted)
	require.NoError(t, w.stop())

	stored := w.all(t)
	require.Len(t, stored, 3)
	after := pending(stored)
	require.Equal(t, []string{"alto"}, names(after))
	require.Equal(t, handler.seconds[1], after[0].Due)
	result, err = scheduler.UpdateUser(t.Context(), owed["bass"].UserID, almanac.ProfileChange{Merge: json.RawMessage(`{"voices": ["bass"]}`)})
	require.NoError(t, err)
	require.Equal(t, []string{"bass"}, names(result.Added), "sung once more")
	require.Equal(t, []string{"alto"}, names(result.Removed))
}
