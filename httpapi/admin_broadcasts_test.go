package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/httpapi"
)

// sale is a broadcast without its name and dryRun.
const sale = `"type":"ONE_OFF","at":"2026-03-10T10:00:00","passed":"skip","payload":{"sale":1}`

// send stores the events of broadcasts, as a program that runs a sender does.
func (o *office) sendAll() {
	o.t.Helper()
	sender, err := broadcast.New(o.scheduler, o.repository.(*almanactest.Repository))
	require.NoError(o.t, err)
	require.NoError(o.t, sender.RunOnce(o.t.Context(), broadcast.RunOptions{}))
}

func TestABroadcastReachesTheUsersOfItsDryRun(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	o.hire("grace")
	o.hire("ada")

	dry := o.ok("POST", "/broadcasts", `{"name":"sale",`+sale+`,"dryRun":true}`)

	require.Nil(t, dry["broadcast"])
	preview := dry["preview"].(map[string]any)
	require.Equal(t, []any{2.0, 0.0, 0.0, "2026-03-10T14:00:00.000Z"}, []any{preview["users"], preview["late"], preview["leftOut"], preview["first"]})
	require.Equal(t, map[string]any{"timezone": "America/New_York", "local": "2026-03-10T10:00:00", "due": "2026-03-10T14:00:00.000Z",
		"late": false, "skipped": false, "users": 2.0}, preview["zones"].([]any)[0])
	require.Empty(t, o.ok("GET", "/broadcasts", "")["broadcasts"], "a dry run stores nothing")

	made := o.send("POST", "/broadcasts", `{"name":"sale",`+sale+`,"dryRun":false}`)
	require.Equal(t, http.StatusCreated, made.status, made.body)
	require.Equal(t, "broadcasts/sale", made.header.Get("Location"))
	require.Equal(t, true, o.ok("POST", "/broadcasts", `{"name":"sale",`+sale+`,"dryRun":false}`)["existed"])
	other := o.problem(o.send("POST", "/broadcasts", `{"name":"sale",`+strings.Replace(sale, "10:00", "11:00", 1)+`,"dryRun":false}`), http.StatusConflict)
	require.Equal(t, []any{map[string]any{"field": "at", "detail": "differs from that of the broadcast"}}, other["errors"])
	o.sendAll()

	is := o.ok("GET", "/broadcasts/sale", "")
	require.Equal(t, "stored", is["broadcast"].(map[string]any)["state"])
	progress := is["progress"].(map[string]any)
	total := progress["total"].(map[string]any)
	require.Equal(t, []any{2.0, 2.0, 0.0, 0.0, true}, []any{total["users"], total["stored"], total["delivered"], progress["due"], total["read"]})
	require.Len(t, o.ok("GET", "/events?type=ONE_OFF", "")["events"], 2)
	o.problem(o.send("DELETE", "/broadcasts/sale", ""), http.StatusConflict)
}

func TestABroadcastIsStoppedAndResumed(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	o.hire("grace")
	o.send("POST", "/broadcasts", `{"name":"sale",`+sale+`,"dryRun":false}`)
	o.sendAll()

	stopped := o.ok("POST", "/broadcasts/sale/stop", `{"reason":"the price was wrong"}`)["broadcast"].(map[string]any)
	require.Equal(t, "stopped", stopped["state"])
	require.Equal(t, "the price was wrong", stopped["steps"].([]any)[1].(map[string]any)["reason"])
	o.sendAll()
	event := o.ok("GET", "/events?type=ONE_OFF", "")["events"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"CANCELLED", "broadcast stopped: the price was wrong"}, []any{event["status"], event["failureReason"]})
	require.NotEqual(t, "stopped", o.ok("POST", "/broadcasts/sale/resume", "")["broadcast"].(map[string]any)["state"])
	for _, what := range []string{"stop", "resume", "complete"} {
		o.problem(o.send("POST", "/broadcasts/other/"+what, ""), http.StatusNotFound)
	}
	o.problem(o.send("GET", "/broadcasts/other", ""), http.StatusNotFound)
	require.Equal(t, map[string]string{"reason": "is not a known field", "x": "is not a known parameter"}, o.complaints(o.send("POST", "/broadcasts/sale/resume?x=1", `{"reason":"x"}`)))
}

func TestABroadcastToAListWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	grace, _ := o.hire("grace")
	o.hire("ada")
	o.hire("mary")
	o.send("POST", "/broadcasts", `{"name":"sale",`+sale+`,"audience":{"listed":true},"dryRun":false}`)
	added := o.ok("POST", "/broadcasts/sale/users", `{"ids":["`+grace.ID.String()+`","`+stranger+`"],"externalIds":["ada","nobody"]}`)
	require.Equal(t, map[string]any{"added": 2.0, "unknown": []any{stranger}, "unknownExternalIds": []any{"nobody"}}, added)
	require.Equal(t, map[string]string{"ids[1]": "is not a UUID", "externalIds": "must be a list of strings"},
		o.complaints(o.send("POST", "/broadcasts/sale/users", `{"ids":["`+stranger+`","x"],"externalIds":7}`)))
	o.sendAll()
	require.Empty(t, o.ok("GET", "/events?type=ONE_OFF", "")["events"])
	o.ok("POST", "/broadcasts/sale/complete", "")
	o.sendAll()
	require.Len(t, o.ok("GET", "/events?type=ONE_OFF", "")["events"], 2)
	o.problem(o.send("POST", "/broadcasts/sale/users", `{}`), http.StatusConflict)
}

func TestABroadcastThatIsWrongNamesEachField(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	for body, fields := range map[string][]string{
		`{}`: {"name", "type", "passed", "dryRun", "at"},
		`{"name":"a/b","type":"ONE_OFF","at":"x","passed":"later","audience":{"attributes":{"a":[1]},"zones":"UTC","sex":1},"dryRun":1}`:          {"at", "audience.zones", "audience.sex", "dryRun"},
		`{"name":"a/b","type":"ONE_OFF","instant":"2026-03-10T10:00:00Z","passed":"next-day","audience":{"attributes":{"a":[1]}},"dryRun":false}`: {"name", "passed", "audience.attributes"},
		`{"name":"a","type":"RENEWAL","at":"2026-03-10T10:00:00","passed":"skip","dryRun":true}`:                                                  {"type"},
		`{"name":"a","type":"ONE_OFF","at":"2026-03-10T10:00:00","passed":"skip","audience":[],"dryRun":true}`:                                    {"audience"},
	} {
		named := o.complaints(o.send("POST", "/broadcasts", body))
		for _, field := range fields {
			require.Contains(t, named, field, body)
		}
	}
	require.Empty(t, o.ok("GET", "/broadcasts", "")["broadcasts"])
}

func TestWithoutASenderThereAreNoBroadcasts(t *testing.T) {
	t.Parallel()
	registry, err := almanac.NewRegistry(almanac.OneOff{})
	require.NoError(t, err)
	r := newRepository()
	scheduler, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(nil)))
	require.NoError(t, err)
	s := openWith(t, scheduler, r, httpapi.NoAuthentication{}).administration()
	s.problem(s.send("GET", "/broadcasts", ""), http.StatusNotFound)
	s.problem(s.send("POST", "/broadcasts/sale/stop", ""), http.StatusNotFound)
}
