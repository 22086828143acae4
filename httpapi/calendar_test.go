package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// The member calendar names the calendar of dateOfBirth, and events say their day by it.
func TestDatesOfBirthByAnotherCalendar(t *testing.T) {
	t.Parallel()
	require.NoError(t, calendar.RegisterSystems(calendartest.Lunar{}))
	s := open(t)
	user, event := s.create(`{"firstName": "Ada", "lastName": "Levi", "dateOfBirth": "1986-03L-08", "calendar": "lunar", "timezone": "UTC"}`)
	require.Equal(t, []any{"1986-03L-08", "lunar", "lunar"}, []any{user["dateOfBirth"], user["calendar"], event["calendar"]})
	require.Regexp(t, `^20[0-9]{2}-0[34]L?-08$`, event["calendarDate"])
	require.Equal(t, event["calendarDate"], event["deliveryPayload"].(map[string]any)["calendarDate"])

	target := "/user/" + user["id"].(string)
	for body, want := range map[string]map[string]string{
		`{"calendar": "unheard-of", "dateOfBirth": "1990-03-15"}`: {"calendar": "is no calendar that this program knows; it knows lunar"},
		`{"calendar": null}`:                                 {"dateOfBirth": "is required with another calendar"},
		`{"dateOfBirth": "1990-03-15"}`:                      {"calendar": "is required: the stored date is by the calendar lunar"},
		`{"calendar": "lunar", "dateOfBirth": "1990-03-31"}`: {"dateOfBirth": "is no day of the calendar lunar"},
	} {
		require.Equal(t, want, s.complaints(s.send("PUT", target, body)), body)
	}
	a := s.send("PUT", target, `{"calendar": null, "dateOfBirth": "1990-03-15"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	changed := s.object(a)["user"].(map[string]any)
	require.Equal(t, []any{"1990-03-15", nil}, []any{changed["dateOfBirth"], changed["calendar"]})
}

// A program reads a user whose calendar it does not know, and refuses to plan for the user.
func TestAUserOfAnUnknownCalendar(t *testing.T) {
	t.Parallel()
	r := newRepository()
	s := openOn(t, r, httpapi.NoAuthentication{})
	u := almanactest.User()
	var err error
	u.DateOfBirth, err = almanac.StoredDateOfBirth("5774-05L-08", "unheard-of")
	require.NoError(t, err)
	e := almanactest.Event(today.AddDate(0, 1, 0), almanactest.For(u), almanactest.Of("5787")) // by another program
	created, err := r.CreateUsers(t.Context(), []almanac.UserWithEvents{{User: u, Events: []almanac.Event{e}}})
	require.NoError(t, err)
	require.NoError(t, created[0].Err)
	target := "/user/" + u.ID.String()
	require.Equal(t, http.StatusOK, s.send("GET", target, "").status)
	a := s.send("PUT", target, `{"firstName": "Augusta"}`)
	require.Equal(t, http.StatusUnprocessableEntity, a.status, a.body)
	require.Contains(t, a.body, "this program does not know the calendar of the user's date of birth")
	require.Equal(t, map[string]string{"calendar": "is required: the stored date is by the calendar unheard-of"}, s.complaints(s.send("PUT", target, `{"dateOfBirth": "1990-03-15"}`)))
	for _, body := range []string{`{"type": "NEWSLETTER"}`, `{"type": "BIRTHDAY"}`} {
		a = s.send("POST", target+"/opt-out", body)
		require.Equal(t, http.StatusOK, a.status, "a user opts out whatever the calendar")
	}
	a = s.send("POST", target+"/opt-in", `{"type": "BIRTHDAY"}`)
	require.Equal(t, http.StatusUnprocessableEntity, a.status, a.body)
}
