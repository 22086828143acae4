package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

func TestEventsComeInPages(t *testing.T) {
	t.Parallel()
	s := open(t)
	var want []any
	for range 5 {
		_, event := s.create(grace)
		want = append(want, event)
	}
	// All are created within one millisecond, in which ids have no order.
	slices.SortFunc(want, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["id"].(string), b.(map[string]any)["id"].(string))
	})

	var got []any
	var pages int
	target := "/events?status=PENDING&type=BIRTHDAY&limit=2"
	for cursor := any(""); cursor != nil; pages++ {
		require.Less(t, pages, 5)
		a := s.send("GET", fmt.Sprintf("%s%s", target, cursor), "")
		require.Equal(t, http.StatusOK, a.status, a.body)
		page := s.object(a)
		got = append(got, page["events"].([]any)...)
		cursor = page["nextCursor"]
		if cursor != nil {
			cursor = "&cursor=" + cursor.(string)
		}
	}

	require.Equal(t, want, got)
	require.Equal(t, 3, pages)
}

// An event says which calendars its rule has looked up, if it has.
func TestEventsSayWhatWasConsulted(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, event := s.create(grace)
	require.NotContains(t, event, "consulted")
	u := almanactest.User()
	e := almanactest.Event(today.AddDate(0, 1, 0), almanactest.For(u))
	var err error
	e.Consulted, err = calendar.ParseConsulted("DE-BY@2026-11-02,system:hebrew@2026-11-28 2026-11-28 2026-12-28 provisional")
	require.NoError(t, err)
	created, err := s.repository.CreateUsers(t.Context(), []almanac.UserWithEvents{{User: u, Events: []almanac.Event{e}}})
	require.NoError(t, err)
	require.NoError(t, created[0].Err)
	want := map[string]any{
		"calendars": []any{map[string]any{"name": "DE-BY", "release": "2026-11-02"}, map[string]any{"name": "system:hebrew", "release": "2026-11-28"}},
		"from":      "2026-11-28", "until": "2026-12-28", "provisional": true,
	}
	for _, of := range []*site{s, s.administration()} {
		require.Equal(t, want, of.object(of.send("GET", "/events/"+e.ID.String(), ""))["event"].(map[string]any)["consulted"])
	}
}

func TestAnEmptyListIsAnEmptyArray(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.create(grace)

	for _, query := range []string{"?status=FAILED", "?type=REMINDER", "?status=PENDING&type=X"} {
		a := s.send("GET", "/events"+query, "")

		require.Equal(t, http.StatusOK, a.status, a.body)
		require.JSONEq(t, `{"events":[],"nextCursor":null}`, a.body)
	}
}

func TestUserEventsContainOnlyThatUsers(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.create(grace)
	user, event := s.create(with(`"firstName":"Other"`))

	a := s.send("GET", "/user/"+user["id"].(string)+"/events", "")

	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, map[string]any{"events": []any{event}, "nextCursor": nil}, s.object(a))
}
