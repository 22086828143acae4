package dashboard

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestWhyExplainsADayOfAUser(t *testing.T) {
	t.Parallel()
	h := newHost(t, everything())
	u := h.createUser(t, ada())
	e := u.Events[0]
	page := "/users/" + u.User.ID.String()
	_, body := h.get(t, page)
	require.Contains(t, body, `href="../users/`+u.User.ID.String()+`/why"`)

	status, body := h.get(t, page+"/why")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<h1>Why: Ada Lovelace</h1>")
	question := page + "/why?type=BIRTHDAY&day=" + e.Wall.Date.String()
	status, body = h.get(t, question)
	require.Equal(t, http.StatusOK, status)
	requireRelative(t, body)
	require.Contains(t, body, "It is due at "+e.Wall.Date.String()+" 09:00:00.")
	require.Contains(t, body, `href="../../events/`+e.ID.String())

	_, err := h.scheduler.Cancel(t.Context(), e.ID, almanac.CancelOptions{Reason: "Ada is ill"})
	require.NoError(t, err)
	_, body = h.get(t, question)
	require.Contains(t, body, "Ada is ill")
	status, body = h.get(t, page+"/why?type=&day=2026-02-30")
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "The day is not a date of the years 1900 to 9998")
	require.Contains(t, body, "The type is not an event type")
}

func TestWhyHidesNamesAndReasons(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	u := h.createUser(t, ada())
	e := u.Events[0]
	_, err := h.scheduler.Cancel(t.Context(), e.ID, almanac.CancelOptions{Reason: "Ada is ill"})
	require.NoError(t, err)
	question := "/users/" + u.User.ID.String() + "/why?type=BIRTHDAY&day="
	_, body := h.get(t, question+e.Wall.Date.String())
	require.Contains(t, body, "It was cancelled at ")
	require.NotContains(t, body, "Ada")
	require.Contains(t, body, "You may not see errors and reasons of events.")

	_, err = h.scheduler.OptOut(t.Context(), u.User.ID, almanac.OptOut{Reason: "Ada is ill"})
	require.NoError(t, err)
	next := e.Wall.Date
	next.Year++
	_, body = h.get(t, question+next.String())
	require.Contains(t, body, "the user has opted out of everything")
	require.NotContains(t, body, "Ada")
}

func TestWhyNamesTheBroadcast(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	u := h.createUser(t, ada())
	h.startSale(t)
	status, body := h.get(t, "/users/"+u.User.ID.String()+"/why?type=BIRTHDAY&day=2999-01-02")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "The broadcast sale is due at")
	_, err := h.scheduler.DeleteUser(t.Context(), u.User.ID, almanac.DeleteOptions{})
	require.NoError(t, err)
	status, body = h.get(t, "/users/"+u.User.ID.String()+"/why")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "There is no such user, or the user was deleted. Nothing is kept of a deleted user.")
}
