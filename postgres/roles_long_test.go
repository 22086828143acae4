//go:build long

package postgres_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest/conformance"
	"github.com/almanac-go/almanac/ops"
	"github.com/almanac-go/almanac/postgres"
)

// The suite passes where each call is made by a role that has no more rights than its work needs, under
// settings that administrators give databases, and under a publication of all tables, which is what change
// data capture and upgrades by replication create. From then on PostgreSQL refuses updates and deletions in
// tables whose rows it cannot identify. The audit trail and the outbox are on, so that their triggers run.
//
// Each case has one of the assignments, the same in each run. TestEachStatementIsRunByTheRolesOfItsWork has
// every statement with every role.
func TestRolesPassTheConformanceSuiteUnderSettings(t *testing.T) {
	t.Parallel()
	free := make(chan *cast, runtime.GOMAXPROCS(0)) // as many as cases run at once
	for range cap(free) {
		c := newCast(t)
		set(t, c.pools[""], hostile)
		c.exec(t, "", "CREATE PUBLICATION everything FOR ALL TABLES")
		require.NoError(t, postgres.EnableAudit(t.Context(), c.pools["owner"]))
		require.NoError(t, postgres.EnableOutbox(t.Context(), c.pools["owner"]))
		for _, pool := range c.pools {
			pool.Reset()
		}
		free <- c
	}
	assignments := []func(*testing.T, *cast) withStatistics{asAPI, asWorker, asOperator}
	open := func(t *testing.T) withStatistics {
		c := <-free
		t.Cleanup(func() { free <- c })
		empty(t, c.pools[""], "almanac")
		return assignments[len(t.Name())%len(assignments)](t, c)
	}
	conformance.TestRepository(t, func(t *testing.T) almanac.Repository { return open(t) })
	conformance.TestStatistics(t, func(t *testing.T) (almanac.Repository, ops.Statistics) {
		store := open(t)
		return store, store
	})
}

// company is a repository of which each part is the work of one role.
type company struct {
	almanac.UserRepository
	almanac.EventRepository
	almanac.ClaimRepository
	almanac.MaintenanceRepository
	almanac.Timekeeper
	starter
}

// starter is what a program asks of a repository when it starts.
type starter interface {
	Listen(ctx context.Context, wake func()) error
	Verify(ctx context.Context) error
	PutSetting(ctx context.Context, s almanac.Setting) error
	Settings(ctx context.Context) ([]almanac.Setting, error)
	InTransaction() bool
}

// asOperator leaves everything to the operator.
func asOperator(t *testing.T, c *cast) withStatistics {
	store := c.store(t, "operator")
	return withStatistics{store, store}
}

// asAPI leaves to the API what it may do: users, their events, and what can be read of them.
func asAPI(t *testing.T, c *cast) withStatistics {
	api, worker, operator := c.store(t, "api"), c.store(t, "worker"), c.store(t, "operator")
	return withStatistics{&company{
		UserRepository:        edits{api, operator, requeues},
		EventRepository:       eventReader{api, worker},
		ClaimRepository:       worker,
		MaintenanceRepository: upkeep{worker, api, operator},
		Timekeeper:            worker,
		starter:               settingReader{api, worker},
	}, leaseLister{api, worker}}
}

// asWorker leaves to the worker what it may do: everything but the users themselves, pauses and requeued events.
func asWorker(t *testing.T, c *cast) withStatistics {
	api, worker, operator := c.store(t, "api"), c.store(t, "worker"), c.store(t, "operator")
	return withStatistics{&company{
		UserRepository:        users{worker, api, operator},
		EventRepository:       worker,
		ClaimRepository:       worker,
		MaintenanceRepository: upkeep{worker, worker, operator},
		Timekeeper:            worker,
		starter:               worker,
	}, worker}
}

// users lets the worker edit events, and the API the users themselves.
type users struct {
	almanac.UserRepository
	api, operator almanac.UserRepository
}

func (u users) CreateUsers(ctx context.Context, list []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	return u.api.CreateUsers(ctx, list)
}

func (u users) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	changesUser := func(e almanac.Edit) bool { return e.User != nil }
	return edits{u.UserRepository, edits{u.api, u.operator, requeues}, func(e almanac.Edit) bool { return changesUser(e) || requeues(e) }}.EditUser(ctx, id, edit)
}

func (u users) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	return edits{u.api, u.operator, requeues}.EditUsers(ctx, ids, edit)
}

func (u users) DeleteUser(ctx context.Context, id uuid.UUID, options almanac.DeleteOptions) (almanac.DeleteResult, error) {
	return u.api.DeleteUser(ctx, id, options)
}

// edits lets another role make some of the edits.
type edits struct {
	almanac.UserRepository
	another almanac.UserRepository
	which   func(almanac.Edit) bool
}

var errAnother = errors.New("the work of another role")

func (e edits) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	stored, err := e.UserRepository.EditUser(ctx, id, func(r almanac.Roster) (almanac.Edit, error) {
		wanted, err := edit(r)
		if err == nil && e.which(wanted) {
			err = errAnother
		}
		return wanted, err
	})
	if errors.Is(err, errAnother) {
		return e.another.EditUser(ctx, id, edit)
	}
	return stored, err
}

func (e edits) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	stored, errs := e.UserRepository.EditUsers(ctx, ids, func(i int, r almanac.Roster) (almanac.Edit, error) {
		wanted, err := edit(i, r)
		if err == nil && e.which(wanted) {
			err = errAnother
		}
		return wanted, err
	})
	var left []uuid.UUID
	var places []int
	for i, err := range errs {
		if errors.Is(err, errAnother) {
			left, places = append(left, ids[i]), append(places, i)
		}
	}
	others, othersErrs := e.another.EditUsers(ctx, left, func(k int, r almanac.Roster) (almanac.Edit, error) { return edit(places[k], r) })
	for k, i := range places {
		stored[i], errs[i] = others[k], othersErrs[k]
	}
	return stored, errs
}

// requeues reports whether an edit requeues an event, which only an operator may do.
func requeues(e almanac.Edit) bool {
	return slices.ContainsFunc(e.New, func(e almanac.Event) bool { return e.Origin.Kind == almanac.OriginRequeued })
}

// eventReader lets the worker change single events, and prune.
type eventReader struct {
	almanac.EventRepository
	worker almanac.EventRepository
}

func (r eventReader) Update(ctx context.Context, e almanac.Event, expected int) (almanac.Event, error) {
	return r.worker.Update(ctx, e, expected)
}

func (r eventReader) Prune(ctx context.Context, before time.Time, page almanac.Page) (int, almanac.Cursor, error) {
	return r.worker.Prune(ctx, before, page)
}

// upkeep lets another role read zone rules, and the operator pause types.
type upkeep struct {
	almanac.MaintenanceRepository
	reader, operator almanac.MaintenanceRepository
}

func (r upkeep) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	return r.reader.ZoneRules(ctx)
}

func (r upkeep) Pause(ctx context.Context, p almanac.Pause) error { return r.operator.Pause(ctx, p) }

func (r upkeep) Resume(ctx context.Context, eventType string) error {
	return r.operator.Resume(ctx, eventType)
}

func (r upkeep) Paused(ctx context.Context) ([]almanac.Pause, error) {
	return r.operator.Paused(ctx)
}

func (r upkeep) PutLane(ctx context.Context, l almanac.Lane) error { return r.operator.PutLane(ctx, l) }

func (r upkeep) Lanes(ctx context.Context) ([]almanac.Lane, error) { return r.operator.Lanes(ctx) }

// leaseLister lets the worker list leases and lanes.
type leaseLister struct {
	ops.Statistics
	worker ops.Statistics
}

func (l leaseLister) Leases(ctx context.Context, limit int) ([]ops.Lease, error) {
	return l.worker.Leases(ctx, limit)
}

func (l leaseLister) LaneLoads(ctx context.Context) ([]ops.LaneLoad, error) {
	return l.worker.LaneLoads(ctx)
}

func (l leaseLister) LaneWait(ctx context.Context, e almanac.Event) (ops.LaneWait, error) {
	return l.worker.LaneWait(ctx, e)
}

// settingReader lets the worker store settings.
type settingReader struct {
	starter
	worker starter
}

func (r settingReader) PutSetting(ctx context.Context, s almanac.Setting) error {
	return r.worker.PutSetting(ctx, s)
}
