package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/httpapi"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// typeWeekend is delivered on Saturdays and Sundays at 02:30 to the users who have the
// attribute weekend. In New York, clocks skip that on 8 March 2026, and the handler refuses
// the gap.
const typeWeekend = "WEEKEND"

func weekend() almanac.Recurring {
	return almanac.Recurring{
		Type: typeWeekend, Policies: calendar.Policies{Gap: calendar.GapReject},
		Rule: func(u almanac.User) (calendar.Recurrence, error) {
			if !strings.Contains(string(u.Attributes), "weekend") {
				return nil, nil
			}
			rule := calendar.Weekly{On: []time.Weekday{time.Saturday, time.Sunday}, At: calendar.Clock{Hour: 2, Minute: 30}}
			if strings.Contains(string(u.Attributes), "broken") {
				return failingRule{rule}, nil
			}
			return rule, nil
		},
	}
}

// failingRule is a rule with one slot, after which it fails.
type failingRule struct{ calendar.Recurrence }

func (b failingRule) After(w calendar.WallTime, p calendar.Policies) (calendar.Slot, error) {
	if first, err := b.Recurrence.After(calendar.WallTimeOf(today), p); err != nil || w.Before(first.Wall) {
		return first, err
	}
	return calendar.Slot{}, errors.New("secret")
}

// office is the admin API of a program that delivers, with a repository of its own.
type office struct {
	*site
	present http.Handler // the API of New
	fail    error        // what deliveries return
}

func openOffice(t *testing.T, r almanac.Repository, options ...httpapi.Option) *office {
	t.Helper()
	o := &office{}
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.OneOff{}, weekend())
	require.NoError(t, err)
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return o.fail })
	quiet := almanac.WithWindow(func(u almanac.User) calendar.Window {
		if u.FirstName != "sleeper" {
			return calendar.Window{}
		}
		return calendartest.Quiet("22:00-08:00")
	})
	scheduler, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, deliver), quiet)
	require.NoError(t, err)
	if store, ok := r.(broadcast.Store); ok {
		sender, err := broadcast.New(scheduler, store)
		require.NoError(t, err)
		options = append(options, httpapi.WithBroadcasts(sender))
	}
	s := openWith(t, scheduler, r, httpapi.NoAuthentication{}, options...)
	o.present, o.site = s.handler, s.administration()
	return o
}

// ticking returns a repository whose clock moves with each look at it, so that ids have the
// order in which they are made.
func ticking() almanac.Repository {
	var looks atomic.Int64
	return almanactest.NewRepository(func() time.Time { return today.Add(time.Duration(looks.Add(1)) * time.Millisecond) })
}

// hire stores a user with the given first name, and returns the user and the birthday.
func (o *office) hire(name string) (user almanac.User, birthday almanac.Event) {
	o.t.Helper()
	created, err := o.scheduler.CreateUser(o.t.Context(), almanac.Profile{
		FirstName: name, LastName: "Hopper", DateOfBirth: "1906-12-09", Timezone: "America/New_York",
		Email: name + "@example.com", ExternalID: name,
	})
	require.NoError(o.t, err)
	return created.User, created.Events[0]
}

// failed stores a user whose birthday ends as FAILED for the given reason.
func (o *office) failed(name, reason string) almanac.Event {
	o.t.Helper()
	_, birthday := o.hire(name)
	_, err := o.scheduler.RunNow(o.t.Context(), birthday.ID, almanac.ForceOptions{})
	require.NoError(o.t, err)
	o.fail = almanac.Permanent(errors.New(reason))
	_, err = o.scheduler.RunOnce(o.t.Context(), almanac.RunOnceOptions{})
	require.NoError(o.t, err)
	o.fail = nil
	return o.is(birthday, almanac.Failed)
}

// is returns an event as stored, which must be in the given status.
func (o *office) is(e almanac.Event, status almanac.Status) almanac.Event {
	o.t.Helper()
	stored, err := o.repository.Event(o.t.Context(), e.ID)
	require.NoError(o.t, err)
	require.Equal(o.t, status, stored.Status)
	return stored
}

// ok sends a request and returns the answer, which must have the status 200.
func (o *office) ok(method, target, body string) map[string]any {
	o.t.Helper()
	a := o.send(method, target, body)
	require.Equal(o.t, http.StatusOK, a.status, a.body)
	return o.object(a)
}

// ids returns the ids of the members of a list.
func ids(list any) []string {
	all := []string{}
	for _, one := range list.([]any) {
		all = append(all, one.(map[string]any)["id"].(string))
	}
	return all
}

func TestUsersAreFound(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	grace, _ := o.hire("grace")
	gordon, _ := o.hire("gordon")
	ada, _ := o.hire("ada")
	find := func(query string) []string { return ids(o.ok("GET", "/users"+query, "")["users"]) }

	require.ElementsMatch(t, []string{grace.ID.String(), gordon.ID.String()}, find("?name=G"))
	require.Equal(t, []string{ada.ID.String()}, find("?name=ada+hop"))
	require.Len(t, find("?name=hopper"), 3)
	require.Equal(t, []string{gordon.ID.String()}, find("?email=GORDON@example.com"))
	require.Equal(t, []string{gordon.ID.String()}, find("?externalId=gordon"))
	require.Empty(t, find("?externalId=Gordon"))
	require.Empty(t, find("?externalId=gordon&name=ada"))
	require.Contains(t, find("?zoneSource=declared"), gordon.ID.String())
	require.Empty(t, find("?zoneSource=guessed"))
	require.Equal(t, map[string]string{"zoneSource": "is not one of declared, guessed, default"}, o.complaints(o.send("GET", "/users?zoneSource=known", "")))
	require.Len(t, find(""), 3)
	first := o.ok("GET", "/users?name=G&limit=1", "")
	second := o.ok("GET", "/users?name=G&limit=1&cursor="+url.QueryEscape(first["nextCursor"].(string)), "")
	require.Nil(t, second["nextCursor"])
	require.ElementsMatch(t, []string{grace.ID.String(), gordon.ID.String()}, append(ids(first["users"]), ids(second["users"])...))
	one := o.send("GET", "/users/"+grace.ID.String(), "")
	require.Equal(t, `"1"`, one.header.Get("ETag"))
	require.Equal(t, o.ok("GET", "/users?externalId=grace", "")["users"].([]any)[0], o.object(one)["user"])
}

func TestEventsAreFoundByEachFilter(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ticking())
	first := o.failed("first", "receiver answered 500")
	second := o.failed("second", "receiver answered 404")
	user, third := o.hire("third")
	find := func(target string) []string { return ids(o.ok("GET", target, "")["events"]) }
	is := func(events ...almanac.Event) []string {
		all := []string{}
		for _, e := range events {
			all = append(all, e.ID.String())
		}
		return all
	}

	require.Equal(t, is(first, second), find("/events?status=FAILED"))
	require.Equal(t, is(second, first), find("/events?status=FAILED&order=newest"))
	require.Equal(t, is(first, second), find("/events?reason=receiver+answered&order=oldest"))
	require.Equal(t, is(second), find("/events?reason=receiver+answered+4"))
	require.Equal(t, is(third), find("/events?user="+user.ID.String()))
	require.Equal(t, is(third), find("/users/"+user.ID.String()+"/events?zone=America/New_York&order=newest"))
	require.Empty(t, find("/events?zone=Europe/Berlin"))
	require.Empty(t, find("/events?type="+typeWeekend))
	require.Equal(t, is(first, second), find("/events?until=2026-03-02T00:00:00Z"))
	require.Equal(t, is(third), find("/events?from=2026-12-09T15:00:00%2B01:00&until=2026-12-09T14:00:01Z&order=next&user="+user.ID.String()))
	require.Empty(t, find("/events?from=2026-12-09T14:00:01Z&user="+user.ID.String()))
	next := find("/events?order=next")
	require.Len(t, next, 3, "two successors and the third")
	page := o.ok("GET", "/events?order=next&limit=2", "")
	rest := o.ok("GET", "/events?order=next&limit=2&cursor="+url.QueryEscape(page["nextCursor"].(string)), "")
	require.Equal(t, next, append(ids(page["events"]), ids(rest["events"])...))
}

func TestAPreviewListsOccurrences(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	user, _ := o.hire("grace")
	path := "/users/" + user.ID.String() + "/preview?type="

	birthdays := o.ok("GET", path+"BIRTHDAY&n=2", "")
	require.Equal(t, map[string]any{"incomplete": nil, "leftOut": []any{}, "occurrences": []any{
		map[string]any{"occurrenceKey": "2026", "targetTimestampUTC": "2026-12-09T14:00:00.000Z", "targetTimestampLocal": "2026-12-09T09:00:00", "targetTimezone": "America/New_York", "available": "2026-12-09T14:00:00.000Z", "reason": "exact"},
		map[string]any{"occurrenceKey": "2027", "targetTimestampUTC": "2027-12-09T14:00:00.000Z", "targetTimestampLocal": "2027-12-09T09:00:00", "targetTimezone": "America/New_York", "available": "2027-12-09T14:00:00.000Z", "reason": "exact"},
	}}, birthdays)
	require.Len(t, o.ok("GET", path+"BIRTHDAY", "")["occurrences"], 10)
	require.Empty(t, o.ok("GET", path+typeWeekend, "")["occurrences"], "the user has no rule")
	o.ok("POST", "/users/"+user.ID.String()+"/opt-out", `{"type":"BIRTHDAY"}`)
	require.Empty(t, o.ok("GET", path+"BIRTHDAY", "")["occurrences"])
	o.ok("POST", "/users/"+user.ID.String()+"/opt-in", `{"type":"BIRTHDAY"}`)
	require.Len(t, o.ok("GET", path+"BIRTHDAY", "")["occurrences"], 10)
	require.Equal(t, map[string]string{"type": "has no handler in this program"}, o.complaints(o.send("GET", path+"RENEWAL", "")))
	o.problem(o.send("GET", "/users/"+stranger+"/preview?type=BIRTHDAY", ""), http.StatusNotFound)
}

func TestAPreviewSaysWhyItEndsEarly(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	id := o.ofWeekends(`{"weekend":true}`)

	a := o.ok("GET", "/users/"+id+"/preview?type="+typeWeekend, "")

	require.Len(t, a["occurrences"], 1, "7 March")
	require.Equal(t, "clocks in America/New_York show 2026-03-08T02:30:00 never, and that is refused", a["incomplete"])
}

func TestAPreviewSaysWhichHolidayMovedAnOccurrence(t *testing.T) {
	t.Parallel()
	days, err := calendar.ParseWorkCalendar("name LAND\nrelease 2026-02-01\nuntil 2027-12-31\n2026-04-03 holiday Good Friday")
	require.NoError(t, err)
	registry, err := almanac.NewRegistry(almanac.Recurring{
		Execution: almanac.Execution{WorkCalendars: []*calendar.WorkCalendar{days}}, Type: "RENT",
		Rule: func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Within{Of: calendar.Monthly{Day: 3, At: calendar.Clock{Hour: 9}}, WorkDays: days}, nil
		},
	})
	require.NoError(t, err)
	r := newRepository()
	scheduler, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(nil)))
	require.NoError(t, err)
	grace, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1906-12-09", Timezone: "Europe/London"})
	require.NoError(t, err)

	o := office{site: openWith(t, scheduler, r, httpapi.NoAuthentication{}).administration()}
	found := o.ok("GET", "/users/"+grace.User.ID.String()+"/preview?type=RENT&n=2", "")
	require.Equal(t, []any{
		map[string]any{"occurrenceKey": "2026-03", "targetTimestampUTC": "2026-03-03T09:00:00.000Z", "targetTimestampLocal": "2026-03-03T09:00:00", "targetTimezone": "Europe/London", "available": "2026-03-03T09:00:00.000Z", "reason": "exact"},
		map[string]any{"occurrenceKey": "2026-04", "targetTimestampUTC": "2026-04-06T08:00:00.000Z", "targetTimestampLocal": "2026-04-06T09:00:00", "targetTimezone": "Europe/London", "available": "2026-04-06T08:00:00.000Z",
			"reason": "moved from Friday 3 April to Monday 6 April because of Good Friday"},
	}, found["occurrences"])
}

// ofWeekends stores a user with the attributes and an event on a Saturday, before a Sunday that is
// refused. It returns the id of the user.
func (o *office) ofWeekends(attributes string) string {
	o.t.Helper()
	created, err := o.scheduler.CreateUser(o.t.Context(), almanac.Profile{
		FirstName: "W", LastName: "W", DateOfBirth: "1990-01-01", Timezone: "America/New_York", Attributes: []byte(attributes),
	})
	require.NoError(o.t, err)
	return created.User.ID.String()
}

func TestAnEventIsCancelled(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("grace")
	path := "/events/" + e.ID.String() + "/cancel"
	o.problem(o.send("POST", path, `{"version":7}`), http.StatusConflict)
	o.is(e, almanac.Pending)

	a := o.ok("POST", path, `{"reason":"moved away","version":1}`)

	event, successor := a["event"].(map[string]any), a["successor"].(map[string]any)
	require.Equal(t, []any{"CANCELLED", "moved away", 2.0}, []any{event["status"], event["failureReason"], event["version"]})
	require.Equal(t, []any{"PENDING", "2027"}, []any{successor["status"], successor["occurrenceKey"]})
	require.Equal(t, false, a["unplanned"])
	require.Equal(t, map[string]any{"event": event}, o.ok("GET", "/events/"+e.ID.String(), ""))
	again := o.problem(o.send("POST", path, ""), http.StatusConflict)
	require.Equal(t, "the event is CANCELLED; only PENDING events can be cancelled", again["detail"])
	last := o.ok("POST", "/events/"+successor["id"].(string)+"/cancel", `{"endSeries":true}`)
	require.Nil(t, last["successor"])
}

func TestASuccessorThatAPolicyRefusesKeepsTheEvent(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	id := o.ofWeekends(`{"weekend":true}`)
	events := ids(o.ok("GET", "/users/"+id+"/events?type="+typeWeekend, "")["events"])

	o.problem(o.send("POST", "/events/"+events[0]+"/cancel", ""), http.StatusUnprocessableEntity)

	require.Equal(t, "PENDING", o.ok("GET", "/events/"+events[0], "")["event"].(map[string]any)["status"])
}

func TestASuccessorThatAHandlerCannotPlanKeepsTheEvent(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	id := o.ofWeekends(`{"weekend":true,"broken":true}`)
	events := ids(o.ok("GET", "/users/"+id+"/events?type="+typeWeekend, "")["events"])
	const detail = "the next event of the series cannot be planned; endSeries cancels this event alone"

	p := o.problem(o.send("POST", "/events/"+events[0]+"/cancel", ""), http.StatusUnprocessableEntity)

	require.Equal(t, detail, p["detail"])
	require.Equal(t, 1, strings.Count(o.log.String(), ": secret"))
	all := o.ok("POST", "/operations", `{"operation":"cancel","filter":{"type":"`+typeWeekend+`"},"dryRun":false}`)
	require.Equal(t, []any{map[string]any{"eventId": events[0], "detail": detail}}, all["refused"])
	require.Equal(t, 2, strings.Count(o.log.String(), ": secret"))
	require.Equal(t, "PENDING", o.ok("GET", "/events/"+events[0], "")["event"].(map[string]any)["status"])
	o.ok("POST", "/events/"+events[0]+"/cancel", `{"endSeries":true}`)
}

func TestAnEventIsRunNow(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("grace")
	path := "/events/" + e.ID.String() + "/run-now"

	first := o.ok("POST", path, "")
	require.Equal(t, first, o.ok("POST", path, "{}"), "the request can be repeated")

	require.Equal(t, "2026-03-01T12:00:00.000Z", first["event"].(map[string]any)["targetTimestampUTC"])
	failed := o.failed("ada", "no")
	refused := o.problem(o.send("POST", "/events/"+failed.ID.String()+"/run-now", ""), http.StatusConflict)
	require.Equal(t, "the event is FAILED; only PENDING events can run now", refused["detail"])
}

// It is seven in the morning where the user lives.
func TestRunNowKeepsQuietHoursUnlessForced(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("sleeper")
	target := func(event any) any { return event.(map[string]any)["targetTimestampUTC"] }

	require.Equal(t, "2026-03-01T13:00:00.000Z", target(o.ok("POST", "/events/"+e.ID.String()+"/run-now", "")["event"]))
	require.Equal(t, "2026-03-01T12:00:00.000Z", target(o.ok("POST", "/events/"+e.ID.String()+"/run-now", `{"force":true}`)["event"]))
}

// The bulk has the same rule.
func TestOperationsKeepQuietHoursUnlessForced(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	user, _ := o.hire("sleeper")
	for _, run := range []struct{ force, target string }{{"", "2026-03-01T13:00:00.000Z"}, {`,"force":true`, "2026-03-01T12:00:00.000Z"}} {
		done := o.ok("POST", "/operations", fmt.Sprintf(`{"operation":"run-now","filter":{"user":%q,"type":"BIRTHDAY"},"dryRun":false%s}`, user.ID, run.force))
		require.Equal(t, run.target, done["events"].([]any)[0].(map[string]any)["targetTimestampUTC"])
	}
}

func TestAnEventIsRequeuedOnce(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	e := o.failed("grace", "no")
	path := "/events/" + e.ID.String() + "/requeue"

	a := o.send("POST", path, "")

	require.Equal(t, http.StatusCreated, a.status, a.body)
	again := o.object(a)["event"].(map[string]any)
	require.Equal(t, []any{"PENDING", "requeued", e.ID.String(), e.IdempotencyKey.String(), nil},
		[]any{again["status"], again["origin"], again["originEvent"], again["idempotencyKey"], again["forced"]})
	base, err := url.Parse("https://example.com/admin" + path)
	require.NoError(t, err)
	location, err := base.Parse(a.header.Get("Location"))
	require.NoError(t, err)
	require.Equal(t, "https://example.com/admin/events/"+again["id"].(string), location.String())
	second := o.problem(o.send("POST", path, ""), http.StatusConflict)
	require.Equal(t, fmt.Sprintf("event %s was requeued before, as event %s; requeue the event that repeats it", e.ID, again["id"]), second["detail"])
	pending := o.problem(o.send("POST", "/events/"+again["id"].(string)+"/requeue", ""), http.StatusConflict)
	require.Equal(t, "the event is PENDING; only FAILED and CANCELLED events can be requeued", pending["detail"])
}

func TestARequeueAgainstAnOptOutIsForced(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	e := o.failed("grace", "no")
	o.ok("POST", "/users/"+e.UserID.String()+"/opt-out", `{}`)
	path := "/events/" + e.ID.String() + "/requeue"

	o.problem(o.send("POST", path, `{"force":false}`), http.StatusConflict)
	a := o.send("POST", path, `{"force":true}`)

	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, true, o.object(a)["event"].(map[string]any)["forced"])
}

func TestTypesArePaused(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	paused := []any{map[string]any{"lane": "BIRTHDAY", "since": "2026-03-01T12:00:00.000Z"}}

	for range 2 { // both requests can be repeated
		require.Equal(t, http.StatusNoContent, o.send("PUT", "/lanes/BIRTHDAY/pause", "").status)
		require.Equal(t, paused, o.ok("GET", "/pauses", "")["pauses"])
	}
	for range 2 {
		require.Equal(t, http.StatusNoContent, o.send("DELETE", "/lanes/BIRTHDAY/pause", "").status)
		require.Equal(t, []any{}, o.ok("GET", "/pauses", "")["pauses"])
	}
	require.Equal(t, http.StatusNoContent, o.send("PUT", "/lanes/BIRTHDAY/pause", `{"reason":"the receiver is down","until":"2026-03-01T13:00:00Z"}`).status)
	until := paused[0].(map[string]any)
	until["until"], until["reason"] = "2026-03-01T13:00:00.000Z", "the receiver is down"
	require.Equal(t, paused, o.ok("GET", "/pauses", "")["pauses"])
	require.Equal(t, map[string]string{"until": "is 2026-03-01T11:00:00Z, which has passed"}, o.complaints(o.send("PUT", "/lanes/BIRTHDAY/pause", `{"until":"2026-03-01T11:00:00Z"}`)))
	o.problem(o.send("PUT", "/lanes/RENEWAL/pause", ""), http.StatusNotFound)
	require.Equal(t, http.StatusNoContent, o.send("DELETE", "/lanes/RENEWAL/pause", "").status)
	require.Equal(t, http.StatusNoContent, o.send("DELETE", "/lanes/a%2Fb/pause", "").status)
	require.Equal(t, map[string]string{"lane": "has 101 bytes, not 1 to 100", "x": "is not a known parameter"},
		o.complaints(o.send("PUT", "/lanes/"+strings.Repeat("a", 101)+"/pause?x=1", "")))
}

func TestTheAdminAPIWorksBelowAPrefix(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("grace")
	o.handler = http.StripPrefix("/admin", o.handler)

	require.Equal(t, e.ID.String(), o.ok("GET", "/admin/events/"+e.ID.String(), "")["event"].(map[string]any)["id"])
	require.Equal(t, http.StatusNoContent, o.send("PUT", "/admin/lanes/BIRTHDAY/pause", "").status)
	o.problem(o.send("GET", "/admin/users/../events", ""), http.StatusNotFound)
	require.Equal(t, http.StatusNotFound, o.send("GET", "/events", "").status)
}

func TestThePresentAPIDoesNotGainTheRoutes(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("grace")
	present := *o.site
	present.handler = o.present
	for _, request := range [][2]string{
		{"GET", "/users"}, {"POST", "/events/" + e.ID.String() + "/cancel"}, {"POST", "/operations"}, {"GET", "/pauses"}, {"PUT", "/lanes/BIRTHDAY/pause"},
	} {
		present.problem(present.send(request[0], request[1], ""), http.StatusNotFound)
	}
}

func TestBadRequestsOfOperatorsNameEveryField(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	user, e := o.hire("grace")
	id, event := user.ID.String(), e.ID.String()
	const number, at = "is not a whole number between 1 and 1000", "is not an instant of RFC 3339 since 1900, such as 2026-03-15T14:00:00Z"
	tests := []struct {
		method, target, body string
		want                 map[string]string
	}{
		{"GET", "/users?name=%ff&email=%00&limit=0&phone=1&cursor=x", "", map[string]string{
			"name": "is not text that can be stored", "email": "is not text that can be stored", "limit": number,
			"phone": "is not a known parameter", "cursor": "is not a cursor of an earlier page"}},
		{"GET", "/events?status=failed&type=%00&user=42&zone=%0a&from=2026-03-01&until=yesterday&reason=%00&order=first&limit=x", "", map[string]string{
			"status": "is not one of PENDING, PROCESSING, COMPLETED, FAILED, CANCELLED",
			"type":   "is not an event type: 1 to 50 bytes without control characters", "user": "is not a UUID",
			"zone": "is not the name of a time zone: 1 to 100 bytes without control characters", "from": at, "until": at,
			"reason": "is not the beginning of a reason: 1 to 1,000 bytes of text", "order": "is not one of oldest, newest, next", "limit": number}},
		{"GET", "/events?from=2026-03-02T00:00:00Z&until=2026-03-01T23:59:59Z", "", map[string]string{"until": "is not after from"}},
		{"GET", "/events?from=0000-01-01T00:00:00Z", "", map[string]string{"from": at}},
		{"GET", "/events?order=next&cursor=" + event, "", map[string]string{"cursor": "is not a cursor of an earlier page"}},
		{"GET", "/users/x/events?user=" + id, "", map[string]string{"id": "is not a UUID", "user": "is not a known parameter"}},
		{"GET", "/users/x/preview?n=1001", "", map[string]string{"id": "is not a UUID", "type": "is required", "n": number}},
		{"GET", "/pauses?type=A", "", map[string]string{"type": "is not a known parameter"}},
		{"GET", "/openapi.json?v=1", "", map[string]string{"v": "is not a known parameter"}},
		{"POST", "/events/" + event + "/cancel?now=1", `{"reason":1,"version":0,"endSeries":"no","why":"","reason":"a"}`, map[string]string{
			"now": "is not a known parameter", "reason": "must be a string", "version": "is not a whole number between 1 and 2147483647",
			"endSeries": "must be true or false", "why": "is not a known field"}},
		{"POST", "/events/" + event + "/cancel", `{"version":1.5}`, map[string]string{"version": "is not a whole number between 1 and 2147483647"}},
		{"POST", "/events/" + event + "/cancel", `[`, map[string]string{"body": "is not one JSON value: unexpected end of JSON input"}},
		{"POST", "/events/x/run-now", `{"dryRun":true}`, map[string]string{"id": "is not a UUID", "dryRun": "is not a known field"}},
		{"POST", "/events/" + event + "/requeue", `{"force":null}`, map[string]string{"force": "must be true or false"}},
		{"PUT", "/lanes/BIRTHDAY/pause", `{"until":"tomorrow","reason":1,"x":1}`, map[string]string{"until": at, "reason": "must be a string", "x": "is not a known field"}},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, o.complaints(o.send(tt.method, tt.target, tt.body)), "%s %s %s", tt.method, tt.target, tt.body)
	}
	o.is(e, almanac.Pending)
	require.Empty(t, o.ok("GET", "/pauses", "")["pauses"])
}

// requestsOfOperators returns a valid request for each route that needs an authenticator.
func requestsOfOperators(user, event string) [][3]string {
	return [][3]string{
		{"GET", "/users/" + user}, {"GET", "/users/" + user + "/events"}, {"GET", "/users/" + user + "/preview?type=BIRTHDAY"},
		{"POST", "/users/" + user + "/events", `{"type":"ONE_OFF","at":"2026-12-10T09:00:00"}`}, {"POST", "/users/" + user + "/reschedule"},
		{"POST", "/types/BIRTHDAY/backfill"},
		{"GET", "/users/" + user + "/why?type=BIRTHDAY&day=2026-12-09"},
		{"POST", "/users/" + user + "/opt-out", `{}`}, {"POST", "/users/" + user + "/opt-in", `{}`},
		{"GET", "/events/" + event}, {"POST", "/events/" + event + "/cancel"}, {"POST", "/events/" + event + "/run-now"}, {"POST", "/events/" + event + "/requeue"},
		{"GET", "/users"}, {"GET", "/events"}, {"GET", "/pauses"}, {"GET", "/openapi.json"},
		{"POST", "/operations", `{"operation":"cancel","filter":{"type":"BIRTHDAY"},"dryRun":false}`},
		{"POST", "/roll-outs", `{"type":"BIRTHDAY","dryRun":true}`},
		{"POST", "/broadcasts", `{"name":"sale","type":"ONE_OFF","at":"2026-12-10T09:00:00","passed":"skip","dryRun":true}`},
		{"GET", "/broadcasts"}, {"GET", "/broadcasts/sale"}, {"DELETE", "/broadcasts/sale"}, {"POST", "/broadcasts/sale/users", `{}`},
		{"POST", "/broadcasts/sale/complete"}, {"POST", "/broadcasts/sale/stop"}, {"POST", "/broadcasts/sale/resume"},
		{"POST", "/imports", `{"id":"` + stranger + `","timezone":"Mars"}`},
		{"PUT", "/lanes/BIRTHDAY/pause"}, {"DELETE", "/lanes/BIRTHDAY/pause"},
		{"GET", "/lanes"}, {"PUT", "/lanes/BIRTHDAY", `{"places":1}`}, {"DELETE", "/lanes/BIRTHDAY"},
	}
}

func TestRequestsOfOperatorsAreAuthorized(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository(), httpapi.WithPrincipal(name), httpapi.WithAuthorization(mayByHeader))
	user, e := o.hire("grace")
	paths := 0
	for _, methods := range httpapi.Routes(o.handler) {
		paths += len(methods)
	}
	requests := requestsOfOperators(user.ID.String(), e.ID.String())
	require.Len(t, requests, paths-2, "all but the probes")
	missing := requestsOfOperators(stranger, stranger)
	for i, request := range requests {
		header := []string{"X-May: 00000000-0000-4000-8000-000000000001", "X-Request-Id: x"}
		here := o.send(request[0], request[1], request[2], header...)
		there := o.send(missing[i][0], missing[i][1], missing[i][2], header...)
		switch {
		case strings.Contains(request[1], user.ID.String()) || strings.Contains(request[1], e.ID.String()):
			o.problem(here, http.StatusNotFound)
			shown := strings.NewReplacer(user.ID.String(), stranger, e.ID.String(), stranger)
			require.Equal(t, there.body, shown.Replace(here.body), "refused users look like missing users: %s", request[1])
			bad := o.send(request[0], request[1]+"?x=1", "{", header...)
			require.Equal(t, o.send(missing[i][0], missing[i][1]+"?x=1", "{", header...).body, shown.Replace(bad.body), "%s", request[1])
		case request[1] == "/openapi.json":
			require.Equal(t, http.StatusOK, here.status)
		default:
			o.problem(here, http.StatusForbidden)
		}
	}
	o.is(e, almanac.Pending)
	own := o.send("POST", "/events/"+e.ID.String()+"/run-now", "", "X-May: "+user.ID.String())
	require.Equal(t, http.StatusOK, own.status, own.body)
}

func TestPagesOfAnotherOriginOperateNothing(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	user, e := o.hire("grace")
	require.Equal(t, http.StatusCreated, o.send("POST", "/broadcasts", `{"name":"sale","type":"ONE_OFF","at":"2099-12-10T09:00:00","passed":"skip","dryRun":false}`).status)
	for _, request := range requestsOfOperators(user.ID.String(), e.ID.String()) {
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"} {
			a := o.send(request[0], request[1], request[2], header, "Content-Type: text/plain")
			if request[0] == "GET" {
				require.Equal(t, http.StatusOK, a.status, a.body)
				continue
			}
			o.problem(a, http.StatusForbidden)
		}
	}
	require.Equal(t, 1, o.is(e, almanac.Pending).Version)
	require.Empty(t, o.ok("GET", "/pauses", "")["pauses"])
}

func TestOperatorsNeedCredentials(t *testing.T) {
	t.Parallel()
	s := openOn(t, newRepository(), httpapi.BearerToken("secret")).administration()
	for _, request := range requestsOfOperators(stranger, stranger) {
		s.problem(s.send(request[0], request[1], request[2]), http.StatusUnauthorized)
		require.NotEqual(t, http.StatusUnauthorized, s.send(request[0], request[1], request[2], "Authorization: Bearer secret").status)
	}
	require.Equal(t, http.StatusOK, s.send("GET", "/healthz", "").status)
	require.Equal(t, http.StatusOK, s.send("GET", "/readyz", "").status)
}

func TestLogsOfOperationsContainNoPersonalData(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("grace")
	o.ok("GET", "/users?name=grace&email=grace@example.com", "")
	o.send("GET", "/users?name=%ff&externalId=grace", "")
	o.ok("POST", "/events/"+e.ID.String()+"/cancel", `{"reason":"grace is away"}`)
	o.ok("POST", "/operations", `{"operation":"cancel","filter":{"reason":"grace"},"dryRun":true}`)

	require.Contains(t, o.log.String(), "POST /events/{id}/cancel")
	require.NotContains(t, o.log.String(), "grace")
	require.NotContains(t, o.log.String(), "Hopper")
}

func TestOperationsOnOneUserRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &stuck{Repository: newRepository(), free: make(chan struct{})}
		o := openOffice(t, r)
		_, e := o.hire("grace")
		r.user = e.UserID
		var all sync.WaitGroup
		for _, what := range []string{"cancel", "run-now", "cancel", "run-now"} {
			all.Go(func() { o.send("POST", "/events/"+e.ID.String()+"/"+what, "") })
		}
		synctest.Wait()
		close(r.free)
		all.Wait()

		require.EqualValues(t, 1, r.most.Load(), "edits of the user at once")
	})
}

func TestALockedUserIsAnswered409(t *testing.T) {
	t.Parallel()
	for _, err := range []error{driverError{"55P03"}, fmt.Errorf("x: %w", almanac.ErrLocked)} {
		repository := newRepository()
		_, e := openOffice(t, repository).hire("grace")
		o := openOffice(t, failing{repository, err})
		for _, what := range []string{"cancel", "run-now"} {
			a := o.send("POST", "/events/"+e.ID.String()+"/"+what, "")

			require.Equal(t, "Locked", o.problem(a, http.StatusConflict)["title"])
			require.Equal(t, "1", a.header.Get("Retry-After"))
		}
	}
}
