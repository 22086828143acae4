package conformance

import (
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var createUserCases = cases{
	"CreateUser/stores the user with their events": func(k *kit) {
		u := almanactest.User(almanactest.WithAttributes(`{"hired": "2020-02-29"}`))
		first, second := k.event(u, almanactest.Of("2026")), k.event(u, almanactest.OfSeries("dentist", "2026"))
		user, events := k.create(u, first, second)
		k.keptUser(user, u)
		k.same("version", user.Version, 1)
		k.kept(events[0], first)
		k.kept(events[1], second)
	},
	"CreateUser/keeps the digest of the request through edits": func(k *kit) {
		u := almanactest.User()
		u.CreationDigest = strings.Repeat("d", 64)
		stored, _ := k.create(u)
		k.same("digest", stored.CreationDigest, u.CreationDigest)
		name := "Grace"
		k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			edited, err := r.User.Edit(almanac.ProfileChange{FirstName: &name}, r.Now)
			return almanac.Edit{User: &edited}, err
		})
		again := k.storedUser(u.ID)
		k.same("name", again.FirstName, name)
		k.same("digest after the edit", again.CreationDigest, u.CreationDigest)
	},
	"CreateUser/is all or nothing": func(k *kit) {
		u := almanactest.User()
		k.is(k.tryCreate(u, k.event(u, almanactest.Of("2026")), k.event(u, almanactest.Of("2027"))), almanac.ErrExists)
		k.noUser(u.ID)
		k.same("events", k.count(nil), 0)
	},
	"CreateUser/refuses an existing id": func(k *kit) {
		u := almanactest.User()
		k.create(u)
		k.is(k.tryCreate(almanactest.User(almanactest.Named("Grace", "Hopper"), almanactest.WithUserID(u.ID))), almanac.ErrExists)
		k.same("name", k.storedUser(u.ID).FirstName, "Ada")
	},
	"CreateUser/gives a used key its long form": func(k *kit) {
		first := k.newEvent()
		u := beside(first.UserID)
		clash, twin := k.event(u), k.event(u)
		clash.IdempotencyKey, twin.IdempotencyKey = first.IdempotencyKey, first.IdempotencyKey
		_, events := k.create(u, clash, twin)
		k.same("key", events[0].IdempotencyKey, clash.LongKey())
		k.same("key of another in the same call", events[1].IdempotencyKey, twin.LongKey())
		k.same("key of the first", k.stored(first.ID).IdempotencyKey, first.IdempotencyKey)
	},
	"CreateUser/stores a user without optional fields": func(k *kit) {
		u, _ := k.create(almanactest.User())
		again := k.storedUser(u.ID)
		k.same("optional fields", []string{again.Locale, again.Email, again.ExternalID}, []string{"", "", ""})
		k.create(almanactest.User()) // nor is "" an external id that is taken
		k.gone(errorOf(k.r.UserByExternalID(k.Context(), "")))
	},
	"CreateUser/stores users without names, a date of birth or its year": func(k *kit) {
		for _, u := range []almanac.User{
			almanactest.User(almanactest.Named("Sukarno", ""), almanactest.BornOn("1901-06-06")), almanactest.User(almanactest.Named("", "Teller")), almanactest.User(almanactest.BornOn("")),
			almanactest.User(almanactest.BornOn("--02-29")), almanactest.User(almanactest.BornOn("--12-31")), almanactest.User(almanactest.Named("", ""), almanactest.BornOn("")),
		} {
			user, events := k.create(u, k.event(u))
			k.keptUser(user, u)
			claim := k.take(request(1))
			k.same("claimed", len(claim.Events), 1)
			k.same("event", claim.Events[0].ID, events[0].ID)
			k.same("user of the claim", claim.Users[u.ID], user)
		}
	},
	"CreateUser/stores dates of birth by a calendar that the program does not know": func(k *kit) {
		for _, text := range []string{"5774-05L-08", "--05L-30", "2025-06-10", "--01-01"} {
			u := almanactest.User()
			u.DateOfBirth = must(almanac.StoredDateOfBirth(text, "unheard-of"))(k)
			user, _ := k.create(u, k.event(u))
			k.keptUser(user, u)
			claim := k.take(request(1))
			k.same("claimed", len(claim.Events), 1)
			k.same("date of birth", claim.Users[u.ID].DateOfBirth, u.DateOfBirth)
		}
	},
	"EditUser/changes the calendar of the date of birth": func(k *kit) {
		was, _ := k.create(almanactest.User())
		for _, born := range [][2]string{{"5774-05L-08", "unheard-of"}, {"--05L-08", "unheard-of"}, {"2025-06-10", "islamic-of-old"}, {"1990-01-01", ""}, {"2025-06-10", "unheard-of"}} {
			var want almanac.User
			edit := k.apply(was.ID, func(r almanac.Roster) (edit almanac.Edit, err error) {
				if want, err = r.User.Edit(almanac.ProfileChange{}, r.Now); err == nil {
					want.DateOfBirth, err = almanac.StoredDateOfBirth(born[0], born[1])
				}
				return almanac.Edit{User: &want}, err
			})
			k.keptUser(*edit.User, want)
			k.same("date of birth", [2]string{edit.User.DateOfBirth.String(), edit.User.DateOfBirth.Calendar()}, born)
		}
	},
	"CreateUser/refuses an external id that is taken": func(k *kit) {
		first, _ := k.create(almanactest.User(almanactest.WithExternalID("42"), almanactest.WithEmail("ada@example.com")))
		second := almanactest.User(almanactest.WithExternalID("42"), almanactest.WithEmail("ada@example.com"))
		k.taken(k.tryCreate(second, k.event(second)), first.ID, second.ID)
		k.noUser(second.ID)
		k.same("events", k.eventsOf(second.ID), 0)
		k.is(k.tryCreate(almanactest.User(almanactest.WithUserID(first.ID), almanactest.WithExternalID("42"))), almanac.ErrExists)
		k.create(almanactest.User(almanactest.WithExternalID("042"), almanactest.WithEmail("ada@example.com"))) // compared as text, and addresses not at all
	},
	"EditUser/gives and takes names and the date of birth": func(k *kit) {
		was, _ := k.create(almanactest.User())
		for _, p := range []almanac.Profile{
			{}, {FirstName: "Ada"}, {LastName: "Lovelace", DateOfBirth: "--02-29"}, {FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-01"}, {DateOfBirth: "--12-31"}, {},
		} {
			var want almanac.User
			edit := k.apply(was.ID, func(r almanac.Roster) (edit almanac.Edit, err error) {
				change := almanac.ProfileChange{FirstName: &p.FirstName, LastName: &p.LastName, DateOfBirth: &p.DateOfBirth}
				want, err = r.User.Edit(change, r.Now, almanac.WithOptionalProfile())
				return almanac.Edit{User: &want}, err
			})
			k.keptUser(*edit.User, want)
			k.same("date of birth", edit.User.DateOfBirth.String(), p.DateOfBirth)
		}
	},
}

var externalIDCases = cases{
	"EditUser/refuses an external id that is taken": func(k *kit) {
		first, _ := k.create(almanactest.User(almanactest.WithExternalID("1")))
		u := almanactest.User(almanactest.WithExternalID("2"))
		second, _ := k.create(u, k.event(u))
		edit := func(id uuid.UUID, external string) error {
			_, err := k.r.EditUser(k.Context(), id, func(r almanac.Roster) (almanac.Edit, error) {
				edited, err := r.User.Edit(almanac.ProfileChange{ExternalID: &external}, r.Now)
				return almanac.Edit{User: &edited, Removed: r.Pending}, err
			})
			return err
		}
		k.taken(edit(second.ID, "1"), first.ID, second.ID)
		k.same("user", must(k.r.UserByExternalID(k.Context(), "2"))(k), second)
		k.same("events", k.eventsOf(second.ID), 1)
		k.ok(edit(second.ID, "2"))
		k.ok(edit(first.ID, ""))
		k.ok(edit(second.ID, "1"))
		k.same("user who has it now", must(k.r.UserByExternalID(k.Context(), "1"))(k).ID, second.ID)
	},
	"UserByExternalID/reports a missing user": func(k *kit) {
		matches(k, errorOf(k.r.UserByExternalID(k.Context(), "42")), almanac.NotFoundError{Kind: "user", ExternalID: "42"})
	},
	"User/reports a missing user": func(k *kit) {
		id := uuid.New()
		matches(k, errorOf(k.r.User(k.Context(), id)), almanac.NotFoundError{Kind: "user", ID: id})
		k.gone(errorOf(k.r.EditUser(k.Context(), id, func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{}, nil })))
		k.gone(errorOf(k.r.DeleteUser(k.Context(), id, almanac.DeleteOptions{})))
	},
	"DeleteUser/frees the external id at once": func(k *kit) {
		u := almanactest.User(almanactest.WithExternalID("42"))
		k.create(u, k.event(u))
		k.claim(1) // so that the user is hidden and not yet removed
		for range 2 {
			holder := must(k.r.UserByExternalID(k.Context(), "42"))(k)
			k.deleteUser(holder.ID)
			k.gone(errorOf(k.r.UserByExternalID(k.Context(), "42")))
			k.create(almanactest.User(almanactest.WithExternalID("42")))
		}
	},
}

var deleteUserCases = cases{
	"DeleteUser/deletes the user's events": func(k *kit) {
		e := k.newEvent()
		k.end(k.claim(1)[0], almanac.Delivered(k.now), after(e))
		d := k.deleteUser(e.UserID)
		k.same("deletion", d, almanac.DeleteResult{Removed: 1, InFlight: d.InFlight})
		k.same("in flight", len(d.InFlight), 0)
		k.noUser(e.UserID)
		k.same("events left", k.count(nil), 0)
	},
	"DeleteUser/lets events in flight end": func(k *kit) {
		claimed := k.newClaimed()
		k.same("deletion", k.deleteUser(claimed.UserID), almanac.DeleteResult{InFlight: []uuid.UUID{claimed.ID}, Hidden: true})
		k.noUser(claimed.UserID)
		k.gone(errorOf(k.r.DeleteUser(k.Context(), claimed.UserID, almanac.DeleteOptions{})))
		settled := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(k.now), Next: after(claimed)})
		k.became(settled.Event)(claimed.Complete(k.now))
		k.same("successor", settled.Successor == nil, true)
		k.releaseExpired(10)
		k.noEvent(claimed.ID)
	},
	"DeleteUser/keeps the id until the events in flight have ended": func(k *kit) {
		claimed := k.newClaimed()
		k.deleteUser(claimed.UserID)
		again, there := almanactest.User(almanactest.WithUserID(claimed.UserID)), almanactest.User()
		external := almanactest.User(almanactest.WithUserID(claimed.UserID), almanactest.WithExternalID("7"))
		k.create(there)
		for _, u := range []almanac.User{again, external} {
			for _, list := range [][]almanac.UserWithEvents{{k.withEvents(u)}, {k.withEvents(there), k.withEvents(u)}} {
				stored := k.createUsers(list...)
				last := stored[len(stored)-1].Err
				k.is(last, almanac.ErrLocked)
				k.same("as one who exists", errors.Is(last, almanac.ErrExists), false)
				k.same("who is there", errors.Is(stored[0].Err, almanac.ErrExists), len(list) == 2)
			}
		}
		k.ok(k.deliver(claimed).Err)
		k.releaseExpired(10)
		k.create(again)
	},
	"DeleteUser/leaves nothing to retry": func(k *kit) {
		claimed := k.newClaimed()
		k.deleteUser(claimed.UserID)
		settled := k.retry(claimed, "busy", 0)
		k.ok(settled.Err)
		k.same("outcome", []any{settled.Event.Status, settled.Event.FailureReason}, []any{almanac.Failed, almanac.ReasonUserDeleted})
	},
	"DeleteUser/ends the events of a dead worker": func(k *kit) {
		e := k.newEvent()
		r := request(1)
		k.take(r)
		k.deleteUser(e.UserID)
		released := k.release(r.Token)
		k.same("events", len(released), 1)
		k.same("status", released[0].Status, almanac.Failed)
		k.same("reason", released[0].FailureReason, almanac.ReasonUserDeleted)
	},
}

// taken fails the case unless err says that holder has the external id of another user.
func (k *kit) taken(err error, holder, refused uuid.UUID) {
	k.Helper()
	k.is(err, almanac.ErrExternalIDTaken)
	k.same("as one who exists", errors.Is(err, almanac.ErrExists), false)
	var taken *almanac.ExternalIDTakenError
	if !errors.As(err, &taken) || taken.Holder != holder || taken.UserID != refused || taken.ExternalID == "" {
		k.Errorf("error = %#v, want one that user %s has the external id of user %s", err, holder, refused)
	}
}

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
		k.gone(errorOf(k.r.Update(k.Context(), failed, claimed.Version)))
		k.gone(errorOf(k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) {
			k.Error("edit was called for a deleted user")
			return almanac.Edit{}, nil
		})))
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
		k.same("leases held", k.renew(other.LeaseToken), []uuid.UUID{other.LeaseToken})
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
		k.gone(errorOf(k.r.DeleteUser(k.Context(), e.UserID, atOnce)))
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
			matches(k, errorOf(k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{AtOnce: atOnce, Version: 2})), almanac.OptimisticLockError{UserID: e.UserID, Expected: 2})
		}
		k.same("event", k.stored(e.ID), e)
		k.same("removed", must(k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{Version: 1}))(k).Removed, 1)
	},
	"Update/does not retry events of a deleted user": func(k *kit) {
		e := k.newClaimed()
		k.deleteUser(e.UserID)
		again := must(e.Release(almanac.AfterShutdown, "stopped", k.now))(k)
		k.is(errorOf(k.r.Update(k.Context(), again, e.Version)), almanac.ErrNotFound)
		k.same("the event", k.stored(e.ID), e)
		k.same("settled", k.deliver(e).Err, nil)
	},
}
