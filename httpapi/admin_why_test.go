package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnExplanationSaysWhatBecameOfADay(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	user, _ := o.hire("grace")
	path := "/users/" + user.ID.String() + "/why?type=BIRTHDAY&day="
	first := func(day string) map[string]any {
		return o.ok("GET", path+day, "")["answers"].([]any)[0].(map[string]any)
	}

	require.Equal(t, "scheduled", first("2026-12-09")["code"])
	require.Equal(t, "expected", first("2027-12-09")["code"])
	require.Equal(t, "no_occurrence", first("2026-12-10")["code"])
	o.ok("POST", "/users/"+user.ID.String()+"/opt-out", `{"type":"BIRTHDAY","reason":"on leave"}`)
	refused := first("2026-12-09")
	require.Equal(t, "opted_out", refused["code"])
	require.Equal(t, "on leave", refused["optOut"].(map[string]any)["reason"])

	o.problem(o.send("GET", "/users/"+stranger+"/why?type=BIRTHDAY&day=2026-12-09", ""), http.StatusNotFound)
	require.Equal(t, map[string]string{"id": "is not a UUID", "type": "is required", "day": "is required"}, o.complaints(o.send("GET", "/users/x/why", "")))
	require.Equal(t, map[string]string{
		"type": "is not an event type: 1 to 50 bytes without control characters",
		"day":  "is not a date of the years 1900 to 9998, such as 2026-03-15",
	}, o.complaints(o.send("GET", "/users/"+user.ID.String()+"/why?type=%00&day=2026-02-30", "")))
}

func TestAnExplanationNamesTheBroadcast(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	user, _ := o.hire("grace")
	o.ok("POST", "/users/"+user.ID.String()+"/opt-out", `{"type":"ONE_OFF"}`)
	o.send("POST", "/broadcasts", `{"name":"sale",`+sale+`,"dryRun":false}`)
	o.sendAll()
	found := o.ok("GET", "/users/"+user.ID.String()+"/why?type=ONE_OFF&day=2026-03-10", "")["answers"].([]any)[0].(map[string]any)
	require.Equal(t, "opted_out", found["code"])
	require.Equal(t, "sale", found["broadcast"].(map[string]any)["name"])
	missing := o.problem(o.send("GET", "/users/"+stranger+"/why?type=BIRTHDAY&day=2026-12-09", ""), http.StatusNotFound)
	require.Contains(t, missing["detail"], "or the user was deleted: nothing is kept of a deleted user")
}
