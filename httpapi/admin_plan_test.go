package httpapi_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestAnEventIsScheduledAndMoved(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ticking())
	u, _ := o.hire("grace")
	path := "/users/" + u.ID.String() + "/events"
	const dentist = `{"type":"ONE_OFF","key":"dentist","payload":{"tooth":7},"move":true,"at":`

	a := o.send("POST", path, dentist+`"2026-12-10T09:00:00"}`)

	require.Equal(t, http.StatusCreated, a.status, a.body)
	is := o.object(a)["event"].(map[string]any)
	require.Equal(t, "../../events/"+is["id"].(string), a.header.Get("Location"))
	require.Equal(t, []any{"dentist", "2026-12-10T09:00:00", "America/New_York", map[string]any{"tooth": 7.0}},
		[]any{is["occurrenceKey"], is["targetTimestampLocal"], is["targetTimezone"], is["deliveryPayload"]})
	again := o.ok("POST", path, dentist+`"2026-12-10T09:00:00"}`)
	require.Equal(t, []any{true, false}, []any{again["existed"], again["moved"]})
	moved := o.ok("POST", path, dentist+`"2026-12-11T10:00:00"}`)
	require.Equal(t, []any{true, true}, []any{moved["existed"], moved["moved"]})
	now := moved["event"].(map[string]any)
	require.Equal(t, []any{is["id"], is["idempotencyKey"], "2026-12-11T10:00:00"}, []any{now["id"], now["idempotencyKey"], now["targetTimestampLocal"]})

	other := o.send("POST", path, `{"type":"ONE_OFF","key":"dentist","payload":{"tooth":8},"at":"2026-12-11T10:00:00"}`)
	require.Equal(t, http.StatusConflict, other.status)
	require.Contains(t, other.body, "with another payload")
	require.Equal(t, http.StatusOK, o.send("POST", "/events/"+is["id"].(string)+"/cancel", "").status)
	ended := o.send("POST", path, dentist+`"2026-12-12T10:00:00"}`)
	require.Equal(t, http.StatusConflict, ended.status)
	require.Contains(t, ended.body, "the event is CANCELLED and cannot be moved")
	o.ok("POST", "/users/"+u.ID.String()+"/opt-out", `{"type":"ONE_OFF"}`)
	refused := o.send("POST", path, `{"type":"ONE_OFF","at":"2026-12-12T10:00:00"}`)
	require.Equal(t, http.StatusConflict, refused.status)
	require.Contains(t, refused.body, "opted out")
}

func TestWhatCannotBeScheduledNamesEachField(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ticking())
	u, _ := o.hire("grace")
	for body, fields := range map[string][]string{
		`{}`: {"type", "at"},
		`{"type":"ONE_OFF","at":"2026-12-10","timezone":"Mars","gap":"jump","fold":"third","key":"","payload":1,"x":1}`: {"at", "timezone", "gap", "fold", "key", "x"},
		`{"type":"ONE_OFF","at":"2026-12-10T09:00:00","timezone":"UTC","followUser":true,"move":true}`:                  {"timezone", "key"},
		`{"type":"DENTIST","at":"2026-12-10T09:00:00"}`:                                                                 {"type"},
		`{"type":"ONE_OFF","at":"9999-12-31T23:00:00"}`:                                                                 {"at"},
	} {
		a := o.send("POST", "/users/"+u.ID.String()+"/events", body)
		require.Equal(t, http.StatusBadRequest, a.status, a.body)
		var named []string
		for _, one := range o.object(a)["errors"].([]any) {
			named = append(named, one.(map[string]any)["field"].(string))
		}
		require.ElementsMatch(t, fields, named, body)
	}
}

func TestAUserIsRescheduledAndATypeIsBackfilled(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ticking())
	u, _ := o.hire("grace")
	o.ok("POST", "/users/"+u.ID.String()+"/opt-out", `{"type":"BIRTHDAY","until":"2026-03-02"}`)
	done := o.ok("POST", "/users/"+u.ID.String()+"/reschedule", "")
	require.Equal(t, 0.0, done["reschedule"].(map[string]any)["rescheduled"])

	registry, err := almanac.NewRegistry(almanac.OneOff{})
	require.NoError(t, err)
	without, err := almanac.NewScheduler(o.repository, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(nil)))
	require.NoError(t, err)
	_, err = without.CreateUser(t.Context(), almanac.Profile{FirstName: "A", LastName: "B", DateOfBirth: "1990-01-01", Timezone: "UTC"})
	require.NoError(t, err)
	filled := o.ok("POST", "/types/BIRTHDAY/backfill", `{"rate":1000}`)
	require.Equal(t, map[string]any{"users": 2.0, "events": 1.0, "refused": []any{}, "nextCursor": nil, "stopped": nil}, filled)
	require.Equal(t, http.StatusNotFound, o.send("POST", "/types/RENEWAL/backfill", "").status)
	bad := o.send("POST", "/types/no%01type/backfill", `{"cursor":"x","rate":0}`)
	require.Equal(t, http.StatusBadRequest, bad.status)
	require.Len(t, o.object(bad)["errors"], 3)
}
