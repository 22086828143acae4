package conformance

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var atOnce = almanac.DeleteOptions{AtOnce: true}

// deletionCases check that a deletion at once leaves nothing.
var deletionCases = cases{
	"DeleteUser at once/deletes ended events and events in flight": func(k *kit) {
		bystander := k.newEvent(almanactest.DueIn(time.Hour))
		u := almanactest.User()
		_, pending := k.create(u, k.event(u), k.event(u), k.event(u), k.event(u, almanactest.DueIn(time.Hour)))
		for _, o := range []almanac.Outcome{almanac.Delivered(k.now), almanac.Released(almanac.AfterFailure, "busy", time.Hour)} {
			k.ok(k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: o}).Err)
		}
		flying := k.claim(1)[0]
		k.same("deletion", k.deleteAtOnce(u.ID), almanac.DeleteResult{Removed: 2, InFlight: []uuid.UUID{flying.ID}})
		k.noUser(u.ID)
		for _, e := range pending {
			k.noEvent(e.ID)
		}
		k.same("another's event", k.stored(bystander.ID), bystander)
		k.storedUser(bystander.UserID)
	},
	"DeleteUser at once/allows no writes afterwards": func(k *kit) {
		e := k.newEvent()
		claimed := k.claim(1)[0]
		k.deleteAtOnce(e.UserID)
		for _, o := range []almanac.Outcome{almanac.Delivered(k.now), almanac.GaveUp("HTTP 404"), almanac.Released(almanac.AfterFailure, "HTTP 503", 0)} {
			got := k.settle(almanac.Settlement{Event: claimed, Outcome: o, Next: after(e)})
			matches(k, got.Err, almanac.NotFoundError{Kind: "event", ID: e.ID})
			k.same("result", got, almanac.SettleResult{Err: got.Err})
		}
		failed := must(claimed.Fail("by hand"))(k)
		_, err := k.r.Update(k.Context(), failed, claimed.Version)
		k.gone(err)
		_, err = k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) {
			k.Error("edit was called for a deleted user")
			return almanac.Edit{}, nil
		})
		k.gone(err)
		k.same("moved", len(k.moveEvents(later(e))), 0)
		k.same("events", k.count(nil), 0)
	},
	"DeleteUser at once/leaves a lease without events": func(k *kit) {
		e := k.newEvent()
		r := request(1)
		k.take(r)
		k.deleteAtOnce(e.UserID)
		k.same("leases held", len(k.renew(r.Token)), 0)
		k.same("released", len(k.release(r.Token)), 0)
	},
	"DeleteUser at once/keeps the leases of other users' events": func(k *kit) {
		k.newEvents(2)
		r := request(2)
		claim := k.take(r)
		deleted, other := claim.Events[0], claim.Events[1]
		k.deleteAtOnce(deleted.UserID)
		k.same("leases held", k.renew(r.Token), []uuid.UUID{r.Token})
		settled := must(k.r.Settle(k.Context(), []almanac.Settlement{
			{Event: deleted, Outcome: almanac.Delivered(k.now), Next: after(deleted)},
			{Event: other, Outcome: almanac.Delivered(k.now), Next: after(other)},
		}))(k)
		k.gone(settled[0].Err)
		k.ok(errors.Join(settled[1].Err, settled[1].PlanErr))
		k.same("status", k.stored(other.ID).Status, almanac.Completed)
		k.same("successor", settled[1].Successor != nil, true)
	},
	"DeleteUser at once/leaves nothing to release after a crash": func(k *kit) {
		r := expiring(2)
		k.newEvents(2)
		claim := k.take(r)
		k.deleteAtOnce(claim.Events[0].UserID)
		k.same("released", ids(k.expire(1, 10)), ids(claim.Events[1:]))
	},
	"DeleteUser at once/deletes a hidden user": func(k *kit) {
		e := k.newEvent()
		k.claim(1)
		k.deleteUser(e.UserID)
		k.same("deletion", k.deleteAtOnce(e.UserID), almanac.DeleteResult{InFlight: []uuid.UUID{e.ID}})
		k.noEvent(e.ID)
		_, err := k.r.DeleteUser(k.Context(), e.UserID, atOnce)
		k.gone(err)
	},
	"DeleteUser at once/frees ids and keys": func(k *kit) {
		u := almanactest.User()
		k.create(u, k.event(u, almanactest.Of("2026")))
		k.ok(k.deliver(k.claim(1)[0]).Err)
		k.deleteAtOnce(u.ID)
		_, pending := k.create(u, k.event(u, almanactest.Of("2026")))
		k.same("claimed", k.claim(1)[0].ID, pending[0].ID)
	},
	"DeleteUser/compares the expected version": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		for _, atOnce := range []bool{false, true} {
			_, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{AtOnce: atOnce, Version: 2})
			matches(k, err, almanac.OptimisticLockError{UserID: e.UserID, Expected: 2})
		}
		k.same("event", k.stored(e.ID), e)
		d := must(k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{Version: 1}))(k)
		k.same("removed", d.Removed, 1)
	},
	"Update/does not retry events of a deleted user": func(k *kit) {
		e := k.newClaimed()
		k.deleteUser(e.UserID)
		again := must(e.Release(almanac.AfterShutdown, "stopped", k.now))(k)
		_, err := k.r.Update(k.Context(), again, e.Version)
		k.is(err, almanac.ErrNotFound)
		k.same("the event", k.stored(e.ID), e)
		k.same("settled", k.deliver(e).Err, nil)
	},
}
