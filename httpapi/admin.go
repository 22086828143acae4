package httpapi

import (
	"context"
	"net/http"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/ops"
)

var _ laneReader = ops.Statistics(nil) // as its documentation says

// AdminReader is the part of an [almanac.Repository] that the admin API reads from. If it also has the methods LaneLoads and
// LaneWait of [ops.Statistics], answers say what waits for lanes, and when it starts by an estimate.
type AdminReader interface {
	Reader
	// FindUsers returns a page of the users whom the filter selects.
	FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error)
}

// NewAdmin returns the admin API as a handler, safe for concurrent use. It lists users and events,
// and cancels, runs, requeues and pauses. [New] has none of these routes, so that no public API
// gets them by an update. Mount the admin API apart from it: on an address of its own, or under a
// prefix with [http.StripPrefix].
//
// The scheduler should have the handlers of the program that delivers. Without the handler
// of a type, it can neither pause the type nor preview it, and it leaves the successors of
// cancelled events to another program. The reader usually is the scheduler's repository.
//
// The authenticator and the options are those of [New]. [WithOptionalProfile], [WithOptionalTimezone] and
// [WithAttribute] hold for imports. Answers contain names, addresses and payloads of users, for every
// request that the authenticator lets in and [WithAuthorization] allows.
func NewAdmin(scheduler almanac.Scheduler, reader AdminReader, auth Authenticator, options ...Option) (http.Handler, error) {
	a := &admin{newAPI(scheduler, reader, auth, options), scheduler, reader}
	if err := a.check("scheduler"); err != nil {
		return nil, err
	}
	a.route(a.routes())
	return a, nil
}

type admin struct {
	*api
	scheduler almanac.Scheduler
	users     AdminReader
}

func (a *admin) routes() []route {
	return []route{
		{http.MethodGet, "/users", a.ofAllUsers(a.findUsers)},
		{http.MethodGet, "/users/{id}", a.ofUser(a.user)},
		{http.MethodGet, "/users/{id}/events", a.ofUser(a.eventsOfUser)},
		{http.MethodGet, "/users/{id}/preview", a.ofUser(a.preview)},
		{http.MethodPost, "/users/{id}/events", a.ofUser(a.scheduleAt)},
		{http.MethodPost, "/users/{id}/reschedule", a.ofUser(a.reschedule)},
		{http.MethodGet, "/users/{id}/why", a.ofUser(a.why)},
		{http.MethodPost, "/users/{id}/opt-out", a.ofUser(a.optOut)},
		{http.MethodPost, "/users/{id}/opt-in", a.ofUser(a.optIn)},
		{http.MethodGet, "/events", a.ofAllUsers(a.allEvents)},
		{http.MethodGet, "/events/{id}", a.protected(a.event)},
		{http.MethodPost, "/events/{id}/cancel", a.protected(a.cancel)},
		{http.MethodPost, "/events/{id}/run-now", a.protected(a.runNow)},
		{http.MethodPost, "/events/{id}/requeue", a.protected(a.requeue)},
		{http.MethodPost, "/types/{type}/backfill", a.ofAllUsers(a.backfill)},
		{http.MethodGet, "/broadcasts", a.broadcasting(a.broadcasts)},
		{http.MethodPost, "/broadcasts", a.broadcasting(a.startBroadcast)},
		{http.MethodGet, "/broadcasts/{name}", a.broadcasting(a.broadcast)},
		{http.MethodDelete, "/broadcasts/{name}", a.broadcasting(a.deleteBroadcast)},
		{http.MethodPost, "/broadcasts/{name}/users", a.broadcasting(a.addBroadcastUsers)},
		{http.MethodPost, "/broadcasts/{name}/complete", a.stepBroadcast(broadcast.Complete)},
		{http.MethodPost, "/broadcasts/{name}/stop", a.stepBroadcast(broadcast.Stop)},
		{http.MethodPost, "/broadcasts/{name}/resume", a.stepBroadcast(broadcast.Resume)},
		{http.MethodPost, "/imports", a.ofAllUsers(a.importUsers)},
		{http.MethodPost, "/operations", a.ofAllUsers(a.operate)},
		{http.MethodPost, "/roll-outs", a.ofAllUsers(a.rollOut)},
		{http.MethodGet, "/pauses", a.ofAllUsers(a.pauses)},
		{http.MethodPut, "/lanes/{lane}/pause", a.ofAllUsers(a.pause)},
		{http.MethodDelete, "/lanes/{lane}/pause", a.ofAllUsers(a.resume)},
		{http.MethodGet, "/lanes", a.ofAllUsers(a.lanes)},
		{http.MethodPut, "/lanes/{lane}", a.ofAllUsers(a.putLane)},
		{http.MethodDelete, "/lanes/{lane}", a.ofAllUsers(a.removeLane)},
		{http.MethodGet, "/openapi.json", a.protected(document(adminDocument))},
		{http.MethodGet, "/healthz", a.healthz},
		{http.MethodGet, "/readyz", a.readyz},
	}
}
