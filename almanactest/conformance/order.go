package conformance

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// orderCases check the order of claims after releases and crashes.
var orderCases = map[string]func(*kit){
	"Claim/takes the event first that is available longest": func(k *kit) {
		old := k.newEvent(almanactest.ReadyFor(3 * time.Hour))
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "busy", 0)})
		young := k.newEvent(almanactest.ReadyFor(time.Hour))
		k.same("first", k.claim(1)[0].ID, young.ID)
		k.same("second", k.claim(1)[0].ID, old.ID)
	},
	"Claim/takes an event as soon as it is available, and not before": func(k *kit) {
		k.newEvent()
		resting := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "busy", 20*time.Millisecond)}).Event
		ctx, cancel := context.WithTimeout(k.Context(), 10*time.Second)
		defer cancel()
		for {
			claim, err := k.r.Claim(ctx, request(1))
			k.ok(err)
			if len(claim.Events) == 0 {
				continue
			}
			if claim.At.Before(resting.AvailableAt) {
				k.Errorf("claimed at %v, %v early", claim.At, resting.AvailableAt.Sub(claim.At))
			}
			k.same("claims", claim.Events[0].ClaimCount, 2)
			return
		}
	},
	"Until and Missed/count from the time an event is available": func(k *kit) {
		k.newEvent(almanactest.ReadyFor(48 * time.Hour))
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "busy", time.Hour)})
		types := []string{almanac.TypeBirthday}
		wait, known, err := k.r.Until(k.Context(), types, time.Time{})
		k.ok(err)
		k.same("about an hour", known && wait > 59*time.Minute && wait <= time.Hour, true)
		m, err := k.r.Missed(k.Context(), types, time.Minute)
		k.ok(err)
		k.same("missed", m, almanac.Missed{})
	},
	"ReleaseExpired/releases at most the given number of events": func(k *kit) {
		for range 6 {
			k.newEvent()
		}
		for _, n := range []int{1, 5} {
			r := request(n)
			r.Lease = time.Microsecond
			claim, err := k.r.Claim(k.Context(), r)
			k.ok(err)
			k.same("claimed", len(claim.Events), n)
		}
		k.same("of both leases", len(k.expire(1, 2)), 2)
		k.same("of the middle of the second", len(k.expire(1, 3)), 3)
		k.same("the last", len(k.expire(1, 3)), 1)
		none, err := k.r.ReleaseExpired(k.Context(), 3)
		k.ok(err)
		k.same("more", len(none), 0)
		k.claim(6)
	},
	"Release/ignores events that another token has claimed since": func(k *kit) {
		k.newEvent()
		k.newEvent()
		r := request(2)
		claim, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		k.settle(almanac.Settlement{Event: claim.Events[0], Outcome: almanac.Released(almanac.AfterFailure, "busy", 0)})
		others := k.claim(1)[0]
		released, err := k.r.Release(k.Context(), r.Token)
		k.ok(err)
		k.same("released", ids(released), ids(claim.Events[1:]))
		k.same("another's", k.stored(others.ID), others)
	},
}

// markCases check which events a mark excludes.
var markCases = map[string]func(*kit){
	"Claim/takes nothing before the mark and everything from it on": func(k *kit) {
		left, at, right := k.newEvent(almanactest.ReadyFor(3*time.Hour)), k.newEvent(almanactest.ReadyFor(2*time.Hour)), k.newEvent(almanactest.ReadyFor(time.Hour))
		r := request(10)
		r.Mark = at.AvailableAt
		claim, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		k.same("claimed", ids(claim.Events), []uuid.UUID{at.ID, right.ID})
		k.same("left alone", k.stored(left.ID), left)
		again := request(10)
		again.Mark = r.Mark
		claim, err = k.r.Claim(k.Context(), again)
		k.ok(err)
		k.same("left", len(claim.Events), 0)
		k.same("claimed without a mark", ids(k.claim(1)), []uuid.UUID{left.ID})
	},
	"Claim/ignores a mark in the future": func(k *kit) {
		created := k.newEvent(almanactest.ReadyFor(time.Minute))
		r := request(10)
		r.Mark = k.now.Add(time.Hour)
		claim, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		k.same("claimed", ids(claim.Events), []uuid.UUID{created.ID})
	},
	"Claim/returns the next mark": func(k *kit) {
		k.newEvent(almanactest.ReadyFor(3 * time.Hour))
		retried := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "busy", 0)}).Event
		k.newEvent(almanactest.ReadyFor(2 * time.Hour))
		young := k.newEvent(almanactest.ReadyFor(time.Hour))
		claim, err := k.r.Claim(k.Context(), request(2))
		k.ok(err)
		k.same("reached", claim.Reached, young.AvailableAt)
		r := request(2)
		r.Mark = claim.Reached
		claim, err = k.r.Claim(k.Context(), r)
		k.ok(err)
		k.same("reached by what was due long before", claim.Reached, retried.AvailableAt)
		k.same("before the claim", claim.Reached.After(claim.At), false)
		claim, err = k.r.Claim(k.Context(), request(2))
		k.ok(err)
		k.same("reached by nothing", claim.Reached, time.Time{})
	},
	"Until/ignores events before the mark": func(k *kit) {
		types := []string{almanac.TypeBirthday}
		left := k.newEvent(almanactest.ReadyFor(2 * time.Hour))
		wait, known, err := k.r.Until(k.Context(), types, left.AvailableAt)
		k.ok(err)
		k.same("at the mark", known && wait <= -time.Hour, true)
		_, known, err = k.r.Until(k.Context(), types, left.AvailableAt.Add(time.Microsecond))
		k.ok(err)
		k.same("known right of it", known, false)
		wait, known, err = k.r.Until(k.Context(), types, k.now.Add(time.Hour))
		k.ok(err)
		k.same("with a mark in the future", known && wait <= -time.Hour, true)
	},
}

// raceCases check concurrent operations.
var raceCases = map[string]func(*kit){
	// An edit commits before the settlement, which then plans from the edited user, or
	// after it, and then finds the successor pending.
	"Settle/stores no outdated successor during an edit": func(k *kit) {
		const n = 30
		for range n {
			k.newEvent()
		}
		claimed := k.claim(n)
		var racing sync.WaitGroup
		for _, e := range claimed {
			racing.Go(func() {
				settled, err := k.settleUnlocked(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now), Next: after(e)})
				if err != nil || settled.Successor == nil {
					k.Errorf("settled %+v, error %v", settled, err)
				}
			})
			racing.Go(func() { k.raise(e.UserID) })
		}
		racing.Wait()
		found, err := k.r.Find(k.Context(), almanac.InStatus(almanac.Pending), almanac.Page{Limit: 1000})
		k.ok(err)
		k.same("successors", len(found.Events), n)
		for _, e := range found.Events {
			k.same("version of the user that the successor was planned from", e.UserVersion, 2)
		}
	},
	"DeleteUser/leaves nothing when it races with a settlement": func(k *kit) {
		const n = 30
		for range n {
			k.newEvent()
		}
		var racing sync.WaitGroup
		for i, e := range k.claim(n) {
			racing.Go(func() {
				if _, err := k.settleUnlocked(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now), Next: after(e)}); err != nil {
					k.Error(err)
				}
			})
			racing.Go(func() {
				if _, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{AtOnce: i%2 == 0}); err != nil {
					k.Error(err)
				}
			})
		}
		racing.Wait()
		_, err := k.r.ReleaseExpired(k.Context(), 2*n)
		k.ok(err)
		left, err := k.r.Count(k.Context(), nil)
		k.ok(err)
		k.same("events left", left, 0)
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
		moved, claimed := make(map[uuid.UUID]bool), make(map[uuid.UUID]almanac.Event)
		for _, e := range created {
			racing.Go(func() { // still past after an hour is added
				edit, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
					if len(r.Pending)+len(r.InFlight) != 1 {
						return almanac.Edit{}, fmt.Errorf("roster shows %d pending and %d in flight", len(r.Pending), len(r.InFlight))
					}
					var edit almanac.Edit
					for _, e := range r.Pending {
						edit.Changed = append(edit.Changed, later(e))
					}
					return edit, nil
				})
				if err != nil {
					k.Errorf("edit: %v", err)
				}
				lock.Lock()
				defer lock.Unlock()
				moved[e.ID] = len(edit.Changed) == 1
			})
			racing.Go(func() {
				claim, err := k.r.Claim(k.Context(), request(1))
				if err != nil {
					k.Errorf("claim: %v", err)
				}
				lock.Lock()
				defer lock.Unlock()
				for _, e := range claim.Events {
					claimed[e.ID] = e
				}
			})
		}
		racing.Wait()
		rest, err := k.r.Claim(k.Context(), request(n))
		k.ok(err)
		for _, e := range rest.Events {
			claimed[e.ID] = e
		}
		k.same("claimed", len(claimed), n)
		for id, e := range claimed {
			due, version := created[id].Due, 2
			if moved[id] {
				due, version = due.Add(time.Hour), 3
			}
			if !e.Due.Equal(due) || e.Version != version {
				k.Errorf("claimed due %v at version %d; moved: %t, want due %v at version %d", e.Due, e.Version, moved[id], due, version)
			}
		}
	},
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
	if err != nil {
		k.Errorf("edit: %v", err)
	}
}
