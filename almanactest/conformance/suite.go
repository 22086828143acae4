package conformance

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// TestRepository checks that a repository does what [almanac.Repository] promises. It runs
// parallel subtests, each on a new repository from open; open registers its own cleanup. No
// subtest waits longer than moments.
//
// A repository may lack an ability and implement it trivially, as [almanac.MaintenanceRepository]
// describes for pausing. The suite then checks that it does so consistently. If a repository from
// open is also [ops.Statistics], each subtest checks at its end that they count what is stored.
func TestRepository(t *testing.T, open func(t *testing.T) almanac.Repository) {
	counted := func(t *testing.T) (almanac.Repository, ops.Statistics) {
		r := open(t)
		s, _ := r.(ops.Statistics)
		return r, s
	}
	run(t, chapters(), counted)
	run(t, chaptersOfUsers(), counted)
	t.Run("with users as they were claimed", func(t *testing.T) {
		run(t, chaptersOfUsers(), func(t *testing.T) (almanac.Repository, ops.Statistics) {
			r, s := counted(t)
			return &remembering{Repository: r}, s
		})
	})
	t.Run("with users edited beside others", func(t *testing.T) {
		run(t, chaptersOfEdits(), func(t *testing.T) (almanac.Repository, ops.Statistics) {
			r, s := counted(t)
			return besideOthers{r}, s
		})
	})
}

// TestStatistics checks that statistics about a repository do what [ops.Statistics] promises. It
// runs subtests as [TestRepository] does.
func TestStatistics(t *testing.T, open func(t *testing.T) (almanac.Repository, ops.Statistics)) {
	run(t, []cases{statsCases, retryCases, leaseListCases, dueCases}, open)
}

// cases are the cases of a chapter, by name.
type cases map[string]func(*kit)

// chapters returns the chapters that run once.
func chapters() []cases {
	return []cases{
		createUsersCases, createUsersRaceCases, addEventsCases, addEventsRefusedCases, addEventsRaceCases, userRowCases, findUsersCases,
		updateCases, pageCases, specCases, eventRowCases, fieldCases, editFieldCases,
		claimCases, leaseCases, leaseEachCases, waitCases, markCases, aheadCases, aheadEditCases,
		cancelCases, requeueCases, requeuedCases, oneOffCases, optOutCases, optOutScopeCases, optOutUntilCases, optOutUntilEventCases,
		seriesCases, usedCases, keyUnitCases, rostersCases, successorCases, stalledCases, followUpCases,
		zoneCases, calendarCases, quarantineCases, zoneMarkCases(), bulkMarkCases, retentionCases, abilityCases, typeCases,
		laneCases, laneLoadCases, obeyCases, namedLaneCases, breakerCases, whyEventCases, whyRuleCases,
	}
}

// chaptersOfUsers returns the chapters that run a second time, with the users of the claims.
func chaptersOfUsers() []cases {
	return []cases{
		createUserCases, externalIDCases, deleteUserCases, deletionCases, deletionRaceCases,
		rosterCases, editCases, editUsersCases, refusedEditCases, pastCases, readyCases, readyAheadCases,
		orderCases, settleCases, staleCases, plannedCases, raceCases,
	}
}

// run runs the cases of chapters.
func run(t *testing.T, chapters []cases, open func(t *testing.T) (almanac.Repository, ops.Statistics)) {
	for _, chapter := range chapters {
		for name, check := range chapter {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				k := &kit{T: t}
				k.r, k.statistics = open(t)
				k.now = k.clock()
				check(k)
				if k.statistics != nil {
					k.countsAgree()
				}
			})
		}
	}
}

// chaptersOfEdits returns the chapters that run again with EditUsers in place of EditUser.
func chaptersOfEdits() []cases {
	return []cases{
		rosterCases, editCases, refusedEditCases, pastCases, readyCases, aheadEditCases, externalIDCases, editFieldCases,
		cancelCases, requeueCases, seriesCases, usedCases, deletionCases, raceCases,
	}
}

// besideOthers edits a user together with users who do not exist.
type besideOthers struct{ almanac.Repository }

func (r besideOthers) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	edits, errs := r.EditUsers(ctx, []uuid.UUID{uuid.New(), id, uuid.New()}, func(i int, is almanac.Roster) (almanac.Edit, error) { return edit(is) })
	return edits[1], errs[1]
}

// remembering settles with the users that its claims returned, as the scheduler does.
type remembering struct {
	almanac.Repository
	mu    sync.Mutex
	users map[uuid.UUID]almanac.User // by event, as returned by the last claim
}

func (r *remembering) Claim(ctx context.Context, request almanac.ClaimRequest) (almanac.ClaimResult, error) {
	claim, err := r.Repository.Claim(ctx, request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users = make(map[uuid.UUID]almanac.User)
	}
	for _, e := range claim.Events {
		r.users[e.ID] = claim.Users[e.UserID]
	}
	return claim, err
}

func (r *remembering) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	r.mu.Lock()
	settlements = slices.Clone(settlements)
	for i := range settlements {
		settlements[i].User = r.users[settlements[i].Event.ID]
	}
	r.mu.Unlock()
	return r.Repository.Settle(ctx, settlements)
}
