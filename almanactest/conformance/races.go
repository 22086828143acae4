package conformance

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// raceCases check concurrent operations.
var raceCases = cases{
	// An edit commits before the settlement, which then plans from the edited user, or
	// after it, and then finds the successor pending.
	"Settle/stores no outdated successor during an edit": func(k *kit) {
		const n = 30
		var racing sync.WaitGroup
		for _, e := range k.newClaims(n) {
			racing.Go(func() {
				settled, err := k.settleUnlocked(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now), Next: after(e)})
				if err != nil || settled.Successor == nil {
					k.Errorf("settled %+v, error %v", settled, err)
				}
			})
			racing.Go(func() { k.raise(e.UserID) })
		}
		racing.Wait()
		found := k.find(almanac.InStatus(almanac.Pending))
		k.same("successors", len(found), n)
		for _, e := range found {
			k.same("version of the user that the successor was planned from", e.UserVersion, 2)
		}
	},
	"EditUser/moves an event before its claim or not at all": func(k *kit) {
		const n = 30
		created := make(map[uuid.UUID]almanac.Event, n)
		for range n {
			e := k.newEvent(almanactest.ReadyFor(5 * time.Hour))
			created[e.ID] = e
		}
		var racing sync.WaitGroup
		var lock sync.Mutex
		wasMoved, claimed := make(map[uuid.UUID]bool), make(map[uuid.UUID]almanac.Event)
		for _, e := range created {
			racing.Go(func() { // still past after an hour is added
				edit, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
					if len(r.Pending)+len(r.InFlight) != 1 {
						return almanac.Edit{}, fmt.Errorf("roster shows %d pending and %d in flight", len(r.Pending), len(r.InFlight))
					}
					return almanac.Edit{Changed: moved(r, time.Hour)}, nil
				})
				k.noError("edit", err)
				lock.Lock()
				defer lock.Unlock()
				wasMoved[e.ID] = len(edit.Changed) == 1
			})
			racing.Go(func() {
				claim, err := k.r.Claim(k.Context(), request(1))
				k.noError("claim", err)
				lock.Lock()
				defer lock.Unlock()
				for _, e := range claim.Events {
					claimed[e.ID] = e
				}
			})
		}
		racing.Wait()
		for _, e := range k.take(request(n)).Events {
			claimed[e.ID] = e
		}
		k.same("claimed", len(claimed), n)
		for id, e := range claimed {
			due, version := created[id].Due, 2
			if wasMoved[id] {
				due, version = due.Add(time.Hour), 3
			}
			k.same("instant and version as claimed", []any{e.Due, e.Version}, []any{due, version})
		}
	},
	"EditUser/never moves a claimed event": func(k *kit) {
		const n = 40
		k.newEvents(n)
		targets := make(map[uuid.UUID]almanac.Event)
		found := k.find(nil)
		for _, e := range found {
			targets[e.ID] = e
		}
		var racing sync.WaitGroup
		claims := make(chan []almanac.Event, n)
		for _, e := range found {
			racing.Go(func() { k.moveIfPending(e.UserID) })
			racing.Go(func() {
				claim, err := k.r.Claim(k.Context(), request(1))
				k.noError("claim", err)
				claims <- claim.Events
			})
		}
		racing.Wait()
		close(claims)
		for events := range claims {
			for _, e := range events {
				k.same("instant of a claimed event", e.Due, targets[e.ID].Due)
				k.same("instant as stored", k.stored(e.ID).Due, targets[e.ID].Due)
			}
		}
	},
}

var deletionRaceCases = cases{
	"DeleteUser/leaves nothing when it races with a settlement": func(k *kit) {
		const n = 30
		var racing sync.WaitGroup
		for i, e := range k.newClaims(n) {
			racing.Go(func() {
				_, err := k.settleUnlocked(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now), Next: after(e)})
				k.noError("settle", err)
			})
			racing.Go(func() {
				_, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{AtOnce: i%2 == 0})
				k.noError("delete", err)
			})
		}
		racing.Wait()
		k.releaseExpired(2 * n)
		k.same("events left", k.count(nil), 0)
	},
	// The second of two operations finds nothing, and none waits for ever.
	"DeleteUser at once/works beside concurrent operations": func(k *kit) {
		const n = 20
		var racing sync.WaitGroup
		for range n {
			e := k.newEvent(almanactest.ReadyFor(time.Hour))
			racing.Go(func() {
				claim, err := k.r.Claim(k.Context(), request(3))
				k.noError("claim", err)
				for _, e := range claim.Events {
					settled, err := k.settleUnlocked(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now), Next: after(e)})
					if err != nil || settled.Err != nil && !errors.Is(settled.Err, almanac.ErrNotFound) {
						k.Errorf("settled %+v, error %v", settled, err)
					}
				}
			})
			racing.Go(func() {
				_, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
					changed := r.User
					changed.Version++
					return almanac.Edit{User: &changed}, nil
				})
				if err != nil && !errors.Is(err, almanac.ErrNotFound) {
					k.Errorf("edit: %v", err)
				}
			})
			racing.Go(func() {
				_, err := k.r.DeleteUser(k.Context(), e.UserID, atOnce)
				k.noError("delete", err)
			})
		}
		racing.Wait()
		k.same("events left", k.count(nil), 0)
	},
}

// moveIfPending moves a user's pending events an hour later, so that claims do not take them.
func (k *kit) moveIfPending(userID uuid.UUID) {
	_, err := k.r.EditUser(k.Context(), userID, func(r almanac.Roster) (almanac.Edit, error) {
		var edit almanac.Edit
		for _, e := range r.Pending {
			if e.Status != almanac.Pending || e.ClaimCount > 0 {
				k.Errorf("roster shows event %s as pending, which is %s and was claimed %d times", e.ID, e.Status, e.ClaimCount)
			}
			edit.Changed = append(edit.Changed, later(later(e)))
			edit.Changed[0].Version--
		}
		return edit, nil
	})
	k.noError("edit", err)
}

// raise changes a user and replans the pending events.
func (k *kit) raise(userID uuid.UUID) {
	_, err := k.r.EditUser(k.Context(), userID, func(r almanac.Roster) (almanac.Edit, error) {
		changed := r.User
		changed.Version++
		edit := almanac.Edit{User: &changed}
		for _, e := range r.Pending {
			e.UserVersion = changed.Version
			edit.Changed = append(edit.Changed, later(e))
		}
		return edit, nil
	})
	k.noError("edit", err)
}
