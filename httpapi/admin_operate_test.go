package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
)

func TestAnOperationNeedsAFilterAndAnExplicitDryRun(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("grace")
	const types, instants = "is not an event type: 1 to 50 bytes without control characters", "is not an instant of RFC 3339 since 1900, such as 2026-03-15T14:00:00Z"
	for body, want := range map[string]map[string]string{
		``:   {"operation": "is required", "filter": "is required", "dryRun": "is required"},
		`{}`: {"operation": "is required", "filter": "is required", "dryRun": "is required"},
		`[]`: {"body": "is not a JSON object"},
		`{"operation":"cancel","filter":{},"dryRun":false}`:                                      {"filter": "is empty; give at least one of type, user, zone, from, until, reason"},
		`{"operation":"cancel","filter":null,"dryRun":null}`:                                     {"filter": "must be an object", "dryRun": "must be true or false"},
		`{"operation":"cancel","filter":{"type":""},"dryRun":"yes"}`:                             {"filter.type": "is empty", "dryRun": "must be true or false"},
		`{"operation":"delete","filter":{"status":"FAILED","type":1},"dryRun":true}`:             {"operation": "is not one of cancel, run-now, requeue", "filter.status": "is not a known field", "filter.type": "must be a string"},
		`{"operation":"run-now","filter":{"type":"A"},"dryRun":true,"reason":""}`:                {"reason": "is only for the operation cancel"},
		`{"operation":"cancel","filter":{"type":"A"},"dryRun":true,"force":true}`:                {"force": "is only for the operations run-now and requeue"},
		`{"operation":"requeue","filter":{"type":"A"},"dryRun":true,"limit":0,"endSeries":true}`: {"limit": "is not a whole number between 1 and 10000", "endSeries": "is only for the operation cancel"},
		`{"operation":"requeue","filter":{"type":"A","type":"B"},"dryRun":true,"limit":10001}`:   {"filter.type": "is given more than once", "limit": "is not a whole number between 1 and 10000"},
		`{"operation":"requeue","filter":{"type":"\n","user":"x","zone":"\u0000","from":"x","until":"x","reason":"\u0000"},"dryRun":true}`: {
			"filter.type": types, "filter.user": "is not a UUID", "filter.zone": "is not the name of a time zone: 1 to 100 bytes without control characters",
			"filter.from": instants, "filter.until": instants, "filter.reason": "is not the beginning of a reason: 1 to 1,000 bytes of text"},
	} {
		require.Equal(t, want, o.complaints(o.send("POST", "/operations", body)), body)
	}
	require.Equal(t, 1, o.is(e, almanac.Pending).Version)
}

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	_, e := o.hire("grace")

	a := o.ok("POST", "/operations", `{"operation":"cancel","filter":{"type":"BIRTHDAY"},"dryRun":true}`)

	listed := a["events"].([]any)[0].(map[string]any)
	require.Equal(t, e.ID.String(), listed["id"])
	require.Nil(t, listed["deliveryPayload"])
	delete(a, "events")
	require.Equal(t, map[string]any{"operation": "cancel", "dryRun": true, "refused": []any{}, "more": false, "stopped": nil, "unplanned": 0.0, "requeuedBefore": 0.0}, a)
	require.Equal(t, 1, o.is(e, almanac.Pending).Version)
}

func TestOperationsChangeTheEventsThatMatch(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	user, first := o.hire("first")
	_, second := o.hire("second")
	only := fmt.Sprintf(`"filter":{"user":"%s","zone":"America/New_York","from":"2026-12-09T14:00:00Z","until":"2026-12-09T14:00:01Z"}`, user.ID)

	cancelled := o.ok("POST", "/operations", `{"operation":"cancel",`+only+`,"dryRun":false,"reason":"a strike"}`)

	require.Equal(t, []string{first.ID.String()}, ids(cancelled["events"]))
	require.Nil(t, cancelled["events"].([]any)[0].(map[string]any)["deliveryPayload"])
	require.Equal(t, "a strike", o.is(first, almanac.Cancelled).FailureReason)
	o.is(second, almanac.Pending)
	ended := o.ok("POST", "/operations", `{"operation":"cancel","filter":{"user":"`+user.ID.String()+`"},"dryRun":false,"endSeries":true}`)
	require.Len(t, ended["events"], 1, "the successor")
	require.Empty(t, o.ok("GET", "/users/"+user.ID.String()+"/events?status=PENDING", "")["events"])
	run := o.ok("POST", "/operations", `{"operation":"run-now","filter":{"type":"BIRTHDAY"},"dryRun":false}`)
	require.Equal(t, []string{second.ID.String()}, ids(run["events"]))
	require.Equal(t, today, o.is(second, almanac.Pending).Due)
}

func TestRefusedEventsAreListedWithReasons(t *testing.T) {
	t.Parallel()
	o := openOffice(t, ticking())
	first, second, third := o.failed("first", "away"), o.failed("second", "away"), o.failed("third", "away")
	o.failed("fourth", "gone")
	o.ok("POST", "/users/"+second.UserID.String()+"/opt-out", `{}`)
	require.Equal(t, http.StatusCreated, o.send("POST", "/events/"+first.ID.String()+"/requeue", "").status)
	body := `{"operation":"requeue","filter":{"reason":"away"},"dryRun":false`
	optedOut := map[string]any{"eventId": second.ID.String(), "detail": "the user has opted out of events of this type; force requeues the event nevertheless"}
	origins := func(a map[string]any) (from []any) {
		for _, e := range a["events"].([]any) {
			from = append(from, e.(map[string]any)["originEvent"])
		}
		return from
	}

	limited := o.ok("POST", "/operations", body+`,"limit":1}`)
	dry := o.ok("POST", "/operations", `{"operation":"requeue","filter":{"reason":"away"},"dryRun":true}`)
	all := o.ok("POST", "/operations", body+`}`)
	forced := o.ok("POST", "/operations", body+`,"force":true}`)

	require.Equal(t, []any{[]any{optedOut}, true, 1.0}, []any{limited["refused"], limited["more"], limited["requeuedBefore"]})
	require.Equal(t, []string{second.ID.String(), third.ID.String()}, ids(dry["events"]))
	require.Equal(t, 1.0, dry["requeuedBefore"])
	require.Equal(t, []any{[]any{optedOut}, 1.0}, []any{all["refused"], all["requeuedBefore"]})
	require.Equal(t, []any{third.ID.String()}, origins(all))
	require.Equal(t, []any{[]any{}, 2.0}, []any{forced["refused"], forced["requeuedBefore"]})
	require.Equal(t, []any{second.ID.String()}, origins(forced))
}

// obstructed is a repository whose edits fail, or take time.
type obstructed struct {
	almanac.Repository
	edit func() error
}

func (r obstructed) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	if err := r.edit(); err != nil {
		return almanac.Edit{}, err
	}
	return r.Repository.EditUser(ctx, id, edit)
}

func (r obstructed) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) (edits []almanac.Edit, errs []error) {
	edits, errs = make([]almanac.Edit, len(ids)), make([]error, len(ids))
	var failed error
	for i, id := range ids {
		if errs[i] = failed; failed == nil {
			edits[i], failed = r.EditUser(ctx, id, func(is almanac.Roster) (almanac.Edit, error) { return edit(i, is) })
			errs[i] = failed
		}
	}
	return edits, errs
}

func TestAnOperationThatFailsSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	edits := 0
	o := openOffice(t, obstructed{newRepository(), func() error {
		if edits++; edits == 2 {
			return errors.New("secret")
		}
		return nil
	}})
	for _, name := range []string{"first", "second", "third"} {
		o.hire(name)
	}
	const body = `{"operation":"run-now","filter":{"type":"BIRTHDAY"},"dryRun":false}`

	a := o.ok("POST", "/operations", body)

	require.Len(t, a["events"], 1)
	require.Equal(t, []any{true, "the request failed; its id leads to the reason in the log"}, []any{a["more"], a["stopped"]})
	require.Contains(t, o.log.String(), "secret")
	edits = 1
	o.problem(o.send("POST", "/operations", body), http.StatusInternalServerError)
}

func TestAnOperationEndsBeforeTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := openOffice(t, obstructed{newRepository(), func() error { time.Sleep(3 * time.Second); return nil }})
		for i := range 5 {
			o.hire(fmt.Sprint("user", i))
		}
		began := time.Now()

		a := o.ok("POST", "/operations", `{"operation":"run-now","filter":{"type":"BIRTHDAY"},"dryRun":false}`)

		require.Less(t, time.Since(began), 10*time.Second)
		require.Equal(t, []any{true, "the time of a request is over"}, []any{a["more"], a["stopped"]})
		require.NotEmpty(t, a["events"])
		require.Less(t, len(a["events"].([]any)), 5)
		require.NotContains(t, o.log.String(), "level=ERROR")
	})
}

func TestAnOperationGoesOnAfterASuccessorThatAPolicyRefuses(t *testing.T) {
	t.Parallel()
	o := openOffice(t, newRepository())
	o.ofWeekends(`{"weekend":true}`)
	const body = `{"operation":"cancel","filter":{"until":"2026-04-01T00:00:00Z"},"dryRun":false}`
	a := o.ok("POST", "/operations", body)
	require.Nil(t, a["stopped"])
	require.Len(t, a["refused"], 1)
	require.Contains(t, a["refused"].([]any)[0].(map[string]any)["detail"], "never, and that is refused")
}
