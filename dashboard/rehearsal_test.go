package dashboard

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestARehearsalShowsTheEventsOfEachDay(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	status, body := h.get(t, "/rehearsal")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/rehearsal", body)
	require.NotContains(t, body, "Events of each local day")
	status, body = h.get(t, "/rehearsal?days=30")
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, body, "nothing to rehearse")

	soon := ada()
	soon.DateOfBirth = time.Now().AddDate(-30, 0, 20).Format(time.DateOnly)
	for range 3 {
		h.createUser(t, soon)
	}
	status, body = h.get(t, "/rehearsal?days=90")
	require.Equal(t, http.StatusOK, status)
	requireSound(t, "/rehearsal", body)
	require.Contains(t, body, "3 events of 3 users until ")
	require.Regexp(t, `<title>\d{4}-\d\d-\d\d: 3 events</title>`, body)
	require.Regexp(t, `(?s)Peaks beside limits.*>all events<.*>BIRTHDAY<`, body)
	require.NotContains(t, body, "There are more users.")
	before, err := h.repository.Count(t.Context(), almanac.OfType("BIRTHDAY"))
	require.NoError(t, err)
	require.Equal(t, 3, before, "nothing is stored")

	status, body = h.get(t, "/rehearsal.csv?days=90")
	require.Equal(t, http.StatusOK, status)
	require.Regexp(t, `^date,type,zone,channel,lane,events\n\d{4}-\d\d-\d\d,BIRTHDAY,Europe/London,webhook,BIRTHDAY,3\n$`, body)
	for _, days := range []string{"31", "x", ""} {
		status, _ = h.get(t, "/rehearsal.csv?days="+days)
		require.Equal(t, http.StatusBadRequest, status, days)
	}
}

// A rehearsal keeps the processors busy, so there is one at a time.
func TestOneRehearsalRunsAtATime(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.createUser(t, ada())
	h.Handler.(*dashboard).rehearsals.running.Lock()
	status, body := h.get(t, "/rehearsal?days=30")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, "Another rehearsal is running.")
	h.Handler.(*dashboard).rehearsals.running.Unlock()
	status, _ = h.get(t, "/rehearsal?days=30")
	require.Equal(t, http.StatusOK, status)
}
