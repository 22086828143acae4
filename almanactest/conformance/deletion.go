package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var atOnce = almanac.DeleteOptions{AtOnce: true}

// deletionCases check that a deletion at once leaves nothing.
var deletionCases = map[string]func(*kit){
	"DeleteUser at once/deletes ended events and events in flight": func(k *kit) {
		bystander := k.newEvent(almanactest.DueIn(time.Hour))
		u := almanactest.User()
		_, pending, err := k.create(u, almanactest.Event(k.now, almanactest.For(u)), almanactest.Event(k.now, almanactest.For(u)), almanactest.Event(k.now, almanactest.For(u)), almanactest.Event(k.now, almanactest.For(u), almanactest.DueIn(time.Hour)))
		k.ok(err)
		for _, o := range []almanac.Outcome{almanac.Delivered(k.now), almanac.Released(almanac.AfterFailure, "busy", time.Hour)} {
			k.ok(k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: o}).Err)
		}
		flying := k.claim(1)[0]
		d, err := k.r.DeleteUser(k.Context(), u.ID, atOnce)
		k.ok(err)
		k.same("deletion", d, almanac.DeleteResult{Removed: 2, InFlight: []uuid.UUID{flying.ID}})
		_, err = k.r.User(k.Context(), u.ID)
		k.gone(err)
		for _, e := range pending {
			_, err = k.r.Event(k.Context(), e.ID)
			k.gone(err)
		}
		k.same("another's event", k.stored(bystander.ID), bystander)
		_, err = k.r.User(k.Context(), bystander.UserID)
		k.ok(err)
	},
	"DeleteUser at once/allows no writes afterwards": func(k *kit) {
		e := k.newEvent()
		claimed := k.claim(1)[0]
		_, err := k.r.DeleteUser(k.Context(), e.UserID, atOnce)
		k.ok(err)
		for _, o := range []almanac.Outcome{almanac.Delivered(k.now), almanac.GaveUp("HTTP 404"), almanac.Released(almanac.AfterFailure, "HTTP 503", 0)} {
			got := k.settle(almanac.Settlement{Event: claimed, Outcome: o, Next: after(e)})
			var missing *almanac.NotFoundError
			if !errors.As(got.Err, &missing) || *missing != (almanac.NotFoundError{Kind: "event", ID: e.ID}) {
				k.Errorf("error = %v, want a *NotFoundError of event %s", got.Err, e.ID)
			}
			k.same("result", got, almanac.SettleResult{Err: got.Err})
		}
		failed, err := claimed.Fail("by hand")
		k.ok(err)
		_, err = k.r.Update(k.Context(), failed, claimed.Version)
		k.gone(err)
		_, err = k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) {
			k.Error("edit was called for a deleted user")
			return almanac.Edit{}, nil
		})
		k.gone(err)
		moved, err := k.r.MoveEvents(k.Context(), []almanac.Event{later(e)})
		k.ok(err)
		k.same("moved", len(moved), 0)
		n, err := k.r.Count(k.Context(), nil)
		k.ok(err)
		k.same("events", n, 0)
	},
	"DeleteUser at once/leaves a lease without events": func(k *kit) {
		e := k.newEvent()
		r := request(1)
		_, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		_, err = k.r.DeleteUser(k.Context(), e.UserID, atOnce)
		k.ok(err)
		held, err := k.r.Renew(k.Context(), []uuid.UUID{r.Token}, time.Minute)
		k.ok(err)
		k.same("leases held", len(held), 0)
		released, err := k.r.Release(k.Context(), r.Token)
		k.ok(err)
		k.same("released", len(released), 0)
	},
	"DeleteUser at once/keeps the leases of other users' events": func(k *kit) {
		k.newEvent()
		k.newEvent()
		r := request(2)
		claim, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		deleted, other := claim.Events[0], claim.Events[1]
		_, err = k.r.DeleteUser(k.Context(), deleted.UserID, atOnce)
		k.ok(err)
		held, err := k.r.Renew(k.Context(), []uuid.UUID{r.Token}, time.Minute)
		k.ok(err)
		k.same("leases held", held, []uuid.UUID{r.Token})
		settled, err := k.r.Settle(k.Context(), []almanac.Settlement{
			{Event: deleted, Outcome: almanac.Delivered(k.now), Next: after(deleted)},
			{Event: other, Outcome: almanac.Delivered(k.now), Next: after(other)},
		})
		k.ok(err)
		k.gone(settled[0].Err)
		k.ok(errors.Join(settled[1].Err, settled[1].PlanErr))
		k.same("status", k.stored(other.ID).Status, almanac.Completed)
		k.same("successor", settled[1].Successor != nil, true)
	},
	"DeleteUser at once/leaves nothing to release after a crash": func(k *kit) {
		r := request(2)
		r.Lease = time.Microsecond
		k.newEvent()
		k.newEvent()
		claim, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		_, err = k.r.DeleteUser(k.Context(), claim.Events[0].UserID, atOnce)
		k.ok(err)
		k.same("released", ids(k.expire(1, 10)), ids(claim.Events[1:]))
	},
	"DeleteUser at once/deletes a hidden user": func(k *kit) {
		e := k.newEvent()
		k.claim(1)
		_, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{})
		k.ok(err)
		d, err := k.r.DeleteUser(k.Context(), e.UserID, atOnce)
		k.ok(err)
		k.same("deletion", d, almanac.DeleteResult{InFlight: []uuid.UUID{e.ID}})
		_, err = k.r.Event(k.Context(), e.ID)
		k.gone(err)
		_, err = k.r.DeleteUser(k.Context(), e.UserID, atOnce)
		k.gone(err)
	},
	"DeleteUser at once/frees ids and keys": func(k *kit) {
		u := almanactest.User()
		_, _, err := k.create(u, almanactest.Event(k.now, almanactest.For(u), almanactest.Of("2026")))
		k.ok(err)
		k.ok(k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now)}).Err)
		_, err = k.r.DeleteUser(k.Context(), u.ID, atOnce)
		k.ok(err)
		_, pending, err := k.create(u, almanactest.Event(k.now, almanactest.For(u), almanactest.Of("2026")))
		k.ok(err)
		k.same("claimed", k.claim(1)[0].ID, pending[0].ID)
	},
	"DeleteUser/compares the expected version": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		for _, atOnce := range []bool{false, true} {
			_, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{AtOnce: atOnce, Version: 2})
			var conflict *almanac.OptimisticLockError
			if !errors.As(err, &conflict) || *conflict != (almanac.OptimisticLockError{UserID: e.UserID, Expected: 2}) {
				k.Errorf("error = %v, want an *OptimisticLockError of user %s, expected version 2", err, e.UserID)
			}
		}
		k.same("event", k.stored(e.ID), e)
		d, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{Version: 1})
		k.ok(err)
		k.same("removed", d.Removed, 1)
	},
	"Update/does not retry events of a deleted user": func(k *kit) {
		k.newEvent()
		e := k.claim(1)[0]
		_, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{})
		k.ok(err)
		again, err := e.Release(almanac.AfterShutdown, "stopped", k.now)
		k.ok(err)
		_, err = k.r.Update(k.Context(), again, e.Version)
		k.is(err, almanac.ErrNotFound)
		k.same("the event", k.stored(e.ID), e)
		k.same("settled", k.settle(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now)}).Err, nil)
	},
	// The second of two operations finds nothing, and none waits for ever.
	"DeleteUser at once/works beside concurrent operations": func(k *kit) {
		const n = 20
		var racing sync.WaitGroup
		for range n {
			e := k.newEvent(almanactest.ReadyFor(time.Hour))
			racing.Go(func() {
				claim, err := k.r.Claim(k.Context(), request(3))
				if err != nil {
					k.Errorf("claim: %v", err)
				}
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
				if _, err := k.r.DeleteUser(k.Context(), e.UserID, atOnce); err != nil {
					k.Errorf("delete: %v", err)
				}
			})
		}
		racing.Wait()
		left, err := k.r.Count(k.Context(), nil)
		k.ok(err)
		k.same("events left", left, 0)
	},
}
