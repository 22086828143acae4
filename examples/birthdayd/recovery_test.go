package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestMissedBirthdaysAreLoggedAndThenDelivered(t *testing.T) {
	t.Parallel()
	pool, h := pgtest.Pool(t), listen(t, http.StatusOK)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	now := time.Now().UTC().Truncate(time.Second)
	oldest, newest := now.Add(-3*time.Hour), now.Add(-time.Minute)
	for _, due := range []time.Time{newest, oldest, now.Add(-time.Hour)} {
		missed(t, store, due)
	}

	p := launch(t, append(h.flags(), "-database-url", pool.Config().ConnString(), "-workers", "1")...)

	first := h.next()
	h.next()
	h.next()
	lines := p.lines("Missed events found")
	require.Len(t, lines, 1)
	require.EqualValues(t, 3, lines[0]["count"])
	require.Equal(t, oldest.Format("2006-01-02T15:04:05.000Z"), lines[0]["oldest_event_timestamp"])
	require.Equal(t, newest.Format("2006-01-02T15:04:05.000Z"), lines[0]["newest_event_timestamp"])
	require.Contains(t, first.body, oldest.Format("15:04:05"), "the oldest comes first")
	require.Eventually(t, func() bool {
		n, err := store.Count(t.Context(), almanac.InStatus(almanac.Completed))
		return err == nil && n == 3
	}, patience, pollEvery)
	require.Equal(t, 0, p.stop())
}

// missed stores a user whose birthday was due at the given moment. The last name is the
// time of that moment.
func missed(t *testing.T, store *postgres.Store, due time.Time) {
	t.Helper()
	profile, ok := birthdayUser(0, "UTC", due)
	require.True(t, ok)
	profile.LastName = due.Format("15:04:05")
	u, err := almanac.NewUser(profile, due)
	require.NoError(t, err)
	birthday := almanac.Birthday{At: almanac.AtAttribute(deliverAt, calendar.Clock{})}
	o, err := birthday.Next(u, due.Add(-time.Minute))
	require.NoError(t, err)
	e, err := almanac.NewEvent(u, birthday, almanac.Occurrence{Occurrence: o})
	require.NoError(t, err)
	require.True(t, e.Due.Equal(due))
	_, _, err = almanactest.CreateUser(t.Context(), store, u, e)
	require.NoError(t, err)
}
