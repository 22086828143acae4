package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
