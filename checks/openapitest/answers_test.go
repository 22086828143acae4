package openapitest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/httpapi"
)

const (
	profile = `{"firstName":"Grace","lastName":"Hopper","dateOfBirth":"1906-12-09","timezone":"America/New_York"`
	patch   = "Content-Type: application/merge-patch+json"
	lines   = "Content-Type: application/x-ndjson"
)

func TestTheAPIIsAsDescribed(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	h := o.api(t)
	d := describe(t, h)
	const key = `Idempotency-Key: "k"`

	created := d.send(t, h, 201, request{"POST", "/user", profile + `,"attributes":{"team":{"a":[1]}},"locale":"en_us","email":"g@example.com","externalId":"42"}`, []string{key}})
	path := created.header.Get("Location")
	d.send(t, h, 422, request{"POST", "/user", profile + `}`, []string{key}})
	d.send(t, h, 409, request{"POST", "/user", profile + `,"externalId":"42"}`, nil})
	d.send(t, h, 201, request{"POST", "/user", `{"timezone":"UTC","firstName":"","email":null}`, nil})
	d.send(t, h, 201, request{"POST", "/user", `{"timezone":"UTC","dateOfBirth":"--02-29"}`, nil})
	d.send(t, h, 200, request{"GET", path, "", nil})
	d.send(t, h, 304, request{"GET", path, "", []string{`If-None-Match: "1"`}})
	d.send(t, h, 200, request{"PUT", path, `{"timezone":"Asia/Tokyo","zoneSource":"guessed","attributes":{},"locale":""}`, []string{`If-Match: "1"`}})
	d.send(t, h, 200, request{"PATCH", path, `{"attributes":{"team":null},"externalId":null}`, []string{patch}})
	d.send(t, h, 200, request{"PATCH", path, `{"attributes":null,"timezone":"UTC","zoneSource":"declared"}`, []string{patch}})
	d.send(t, h, 415, request{"PATCH", path, `{}`, nil})
	d.send(t, h, 200, request{"POST", path + "/opt-out", `{"type":"BIRTHDAY","channel":"mail"}`, nil})
	d.send(t, h, 200, request{"POST", path + "/opt-out", `{}`, nil})
	d.send(t, h, 200, request{"POST", path + "/opt-in", `{}`, nil})
	d.testConsulted(t, o, h)
	events := d.send(t, h, 200, request{"GET", path + "/events?limit=1&type=BIRTHDAY&status=PENDING", "", nil}).body["events"].([]any)
	d.send(t, h, 200, request{"GET", "/events/" + id(events[0]), "", nil})
	o.failed(t)
	cursor := d.send(t, h, 200, request{"GET", "/events?limit=1", "", nil}).body["nextCursor"].(string)
	d.send(t, h, 200, request{"GET", "/events?status=FAILED", "", nil})
	d.send(t, h, 200, request{"GET", "/events?cursor=" + cursor, "", nil})
	d.send(t, h, 204, request{"DELETE", path + "?erase=now", "", nil})
	u := o.hire(t, `{}`)
	user := "/user/" + u.User.ID.String()
	d.send(t, h, 422, request{"PUT", user, `{"attributes":{"sunday":1}}`, nil})
	d.send(t, h, 422, request{"PATCH", user, `{"attributes":{"sunday":1}}`, []string{patch}})
	d.refused(t, o, h, "/user/")
	d.all(t, o, (*office).api, u.User.ID.String(), u.Events[0].ID.String())
}

func TestTheAdminAPIIsAsDescribed(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	h := o.admin(t)
	d := describe(t, h)
	u := o.hire(t, `{"team":{"a":[1]}}`)
	user, event := "/users/"+u.User.ID.String(), "/events/"+u.Events[0].ID.String()
	failed := "/events/" + o.failed(t).ID.String()

	page := d.send(t, h, 200, request{"GET", "/users?name=love&limit=1", "", nil})
	d.send(t, h, 200, request{"GET", "/users?name=love&cursor=" + url.QueryEscape(page.body["nextCursor"].(string)), "", nil})
	d.send(t, h, 200, request{"GET", "/users?email=a%40example.com&externalId=x", "", nil})
	d.testConsulted(t, o, h)
	d.send(t, h, 200, request{"GET", user, "", nil})
	d.send(t, h, 304, request{"GET", user, "", []string{`If-None-Match: "1"`}})
	d.send(t, h, 200, request{"GET", user + "/events?order=next&status=PENDING&type=BIRTHDAY", "", nil})
	d.send(t, h, 200, request{"GET", user + "/preview?type=BIRTHDAY&n=3", "", nil})
	d.send(t, h, 200, request{"GET", user + "/why?type=BIRTHDAY&day=2026-12-09", "", nil})
	d.send(t, h, 200, request{"GET", "/events?reason=receiver&order=newest&zone=America%2FNew_York&until=2027-01-01T00:00:00Z&from=2026-01-01T00:00:00Z", "", nil})
	page = d.send(t, h, 200, request{"GET", "/events?order=next&limit=1", "", nil})
	d.send(t, h, 200, request{"GET", "/events?order=next&user=" + u.User.ID.String() + "&cursor=" + url.QueryEscape(page.body["nextCursor"].(string)), "", nil})
	once := `{"type":"ONE_OFF","at":"2099-12-09T09:00:00","key":"x","payload":{"a":[1]},"gap":"skip","fold":"second","move":true,"timezone":"`
	d.send(t, h, 201, request{"POST", user + "/events", once + `Asia/Tokyo"}`, nil})
	d.send(t, h, 200, request{"POST", user + "/events", once + `UTC"}`, nil})
	d.send(t, h, 409, request{"POST", user + "/events", `{"type":"ONE_OFF","at":"2099-12-10T09:00:00","key":"x"}`, nil})
	d.send(t, h, 422, request{"POST", user + "/events", `{"type":"ONE_OFF","at":"2026-03-08T02:30:00","gap":"reject"}`, nil})
	d.send(t, h, 201, request{"POST", user + "/events", `{"type":"ONE_OFF","at":"2099-12-11T09:00","key":"minutes"}`, nil})
	d.send(t, h, 200, request{"POST", user + "/reschedule", "", nil})
	d.send(t, h, 422, request{"POST", "/users/" + o.unplanned(t).ID.String() + "/reschedule", "", nil})
	d.send(t, h, 200, request{"POST", "/types/BIRTHDAY/backfill", `{"rate":1000}`, nil})
	d.send(t, h, 200, request{"POST", user + "/opt-out", `{"type":"RENEWAL"}`, nil})
	d.send(t, h, 200, request{"POST", user + "/opt-in", `{"type":"RENEWAL"}`, nil})
	d.send(t, h, 200, request{"GET", failed, "", nil})
	d.send(t, h, 200, request{"POST", "/operations", `{"operation":"requeue","filter":{"reason":"receiver"},"dryRun":true,"limit":10}`, nil})
	d.send(t, h, 200, request{"POST", "/roll-outs", `{"type":"BIRTHDAY","dryRun":true,"passed":"now","rate":1000}`, nil})
	rolled := d.send(t, h, 200, request{"POST", "/roll-outs", `{"type":"BIRTHDAY","dryRun":false}`, nil})
	require.Nil(t, rolled.body["nextCursor"])
	imported := d.send(t, h, 200, request{"POST", "/imports", profile + `,"externalId":"42"}` + "\n\n{]\n" + profile + "}\n", []string{lines}})
	require.Len(t, imported.body["refused"], 2)
	imported = d.send(t, h, 200, request{"POST", "/imports?existing=edit&line=7", `{"externalId":"42","timezone":"Asia/Tokyo","attributes":null}`, []string{lines}})
	require.EqualValues(t, 1, imported.body["edited"])
	d.testBroadcasts(t, o, h)
	d.send(t, h, 201, request{"POST", failed + "/requeue", `{"force":true}`, nil})
	d.send(t, h, 409, request{"POST", failed + "/requeue", "", nil})
	leftOut := d.send(t, h, 200, request{"POST", "/operations", `{"operation":"requeue","filter":{"reason":"receiver"},"dryRun":false,"force":true}`, nil})
	require.EqualValues(t, 1, leftOut.body["requeuedBefore"])
	run := d.send(t, h, 200, request{"POST", event + "/run-now", "", nil}).body["event"].(map[string]any)
	d.send(t, h, 200, request{"POST", event + "/cancel", fmt.Sprintf(`{"reason":"moved","version":%v,"endSeries":false}`, run["version"]), nil})
	d.send(t, h, 409, request{"POST", event + "/run-now", "{}", nil})
	d.send(t, h, 409, request{"POST", event + "/cancel", "", nil})
	d.send(t, h, 204, request{"PUT", "/lanes/BIRTHDAY/pause", "", nil})
	d.send(t, h, 204, request{"PUT", "/lanes/BIRTHDAY/pause", `{"reason":"the receiver is down","until":"2999-01-02T03:04:05Z"}`, nil})
	d.send(t, h, 200, request{"GET", "/pauses", "", nil})
	d.send(t, h, 204, request{"DELETE", "/lanes/BIRTHDAY/pause", "", nil})
	d.send(t, h, 204, request{"PUT", "/lanes/BIRTHDAY", `{"rate":50,"burst":5,"places":20}`, nil})
	d.send(t, h, 200, request{"GET", "/lanes", "", nil})
	d.send(t, h, 204, request{"DELETE", "/lanes/BIRTHDAY", "", nil})
	d.refused(t, o, h, "/users/")
	weekends := o.hire(t, `{"weekend":1}`)
	for _, e := range weekends.Events {
		if e.Type == typeWeekend {
			d.send(t, h, 422, request{"POST", "/events/" + e.ID.String() + "/cancel", "", nil})
		}
	}
	preview := d.send(t, h, 200, request{"GET", "/users/" + weekends.User.ID.String() + "/preview?type=" + typeWeekend, "", nil})
	require.NotNil(t, preview.body["incomplete"])
	only := `{"operation":"cancel","filter":{"type":"` + typeWeekend + `"},"dryRun":false,"reason":"x","endSeries":`
	stays := d.send(t, h, 200, request{"POST", "/operations", only + `false}`, nil})
	require.Len(t, stays.body["refused"], 1)
	d.send(t, h, 200, request{"POST", "/operations", only + `true}`, nil})
	next := o.hire(t, `{}`)
	d.all(t, o, (*office).admin, next.User.ID.String(), next.Events[0].ID.String())
}

// testBroadcasts starts and stops broadcasts.
func (d *described) testBroadcasts(t *testing.T, o *office, h http.Handler) {
	t.Helper()
	const sale = `"type":"ONE_OFF","at":"2099-12-09T09:00","passed":"next-day","payload":{"a":[1]},"newcomers":true,"audience":{"locale":"en","zones":["America/New_York"],"attributes":{"team":1}},"dryRun":`
	d.send(t, h, 200, request{"POST", "/broadcasts", `{"name":"sale",` + sale + `true}`, nil})
	d.send(t, h, 201, request{"POST", "/broadcasts", `{"name":"sale",` + sale + `false}`, nil})
	d.send(t, h, 200, request{"POST", "/broadcasts", `{"name":"sale",` + sale + `false}`, nil})
	d.send(t, h, 409, request{"POST", "/broadcasts", `{"name":"sale","type":"ONE_OFF","instant":"2099-12-09T09:00:00Z","passed":"now","dryRun":false}`, nil})
	d.send(t, h, 201, request{"POST", "/broadcasts", `{"name":"list","type":"ONE_OFF","instant":"2020-12-09T09:00:00Z","passed":"skip","audience":{"listed":true},"dryRun":false}`, nil})
	d.send(t, h, 200, request{"POST", "/broadcasts/list/users", `{"ids":["` + stranger + `"],"externalIds":["nobody"]}`, nil})
	d.send(t, h, 200, request{"POST", "/broadcasts/list/complete", "", nil})
	d.send(t, h, 409, request{"POST", "/broadcasts/list/users", `{}`, nil})
	d.send(t, h, 200, request{"POST", "/broadcasts/sale/stop", `{"reason":"too early"}`, nil})
	d.send(t, h, 200, request{"POST", "/broadcasts/sale/resume", "", nil})
	d.send(t, h, 200, request{"GET", "/broadcasts/sale", "", nil})
	d.send(t, h, 409, request{"DELETE", "/broadcasts/sale", "", nil})
	require.NoError(t, o.sender.RunOnce(t.Context(), broadcast.RunOptions{}))
	page := d.send(t, h, 200, request{"GET", "/broadcasts?limit=1", "", nil})
	d.send(t, h, 200, request{"GET", "/broadcasts?cursor=" + page.body["nextCursor"].(string), "", nil})
	detail := d.send(t, h, 200, request{"GET", "/broadcasts/list", "", nil})
	require.Equal(t, "ended", detail.body["broadcast"].(map[string]any)["state"])
	d.send(t, h, 204, request{"DELETE", "/broadcasts/list", "", nil})
	without, err := httpapi.NewAdmin(o.scheduler, o.repository, o.auth)
	require.NoError(t, err)
	d.send(t, without, 404, request{"GET", "/broadcasts", "", nil})
	d.send(t, without, 404, request{"POST", "/broadcasts", `{"name":"sale",` + sale + `true}`, nil})
}

// refused sends an opt-in with which a policy refuses a wall time. An opt-out is never refused.
func (d *described) refused(t *testing.T, o *office, h http.Handler, users string) {
	t.Helper()
	id, weekends := o.unplanned(t).ID.String(), `{"type":"`+typeWeekend+`"}`
	d.send(t, h, 200, request{"POST", users + id + "/opt-out", weekends, nil})
	d.send(t, h, 422, request{"POST", users + id + "/opt-in", weekends, nil})
}

// testConsulted reads an event whose rule has looked up a work calendar.
func (d *described) testConsulted(t *testing.T, o *office, h http.Handler) {
	t.Helper()
	for _, e := range o.hire(t, `{"rent":1}`).Events {
		if e.Type == "RENT" {
			require.Contains(t, d.send(t, h, 200, request{"GET", "/events/" + e.ID.String(), "", nil}).body["event"], "consulted")
			return
		}
	}
	require.Fail(t, "no event of RENT")
}

// all sends what every API answers alike, and requires that each documented status was seen.
func (d *described) all(t *testing.T, o *office, open opener, user, event string) {
	t.Helper()
	h := open(o, t)
	for _, target := range []string{"/openapi.json", "/healthz", "/readyz"} {
		d.send(t, h, 200, request{"GET", target, "", nil})
	}
	f := faults{d, o, open, user, event}
	f.testProbes(t)
	f.test(t)
	d.complete(t)
}

func id(row any) string { return row.(map[string]any)["id"].(string) }
