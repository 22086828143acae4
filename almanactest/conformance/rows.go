package conformance

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// rowCases check what is stored, and what is refused.
var rowCases = map[string]func(*kit){
	"CreateUser/stores no user without their events": func(k *kit) {
		stored := k.newEvent()
		for name, spoil := range map[string]func(*almanac.Event){
			"type too long":  func(e *almanac.Event) { e.Type = strings.Repeat("x", 51) },
			"no JSON":        func(e *almanac.Event) { e.Payload = json.RawMessage(`{`) },
			"somebody's own": func(e *almanac.Event) { e.UserID = uuid.New() },
			"id taken":       func(e *almanac.Event) { e.ID = stored.ID },
		} {
			u := almanactest.User()
			spoilt := almanactest.Event(k.now, almanactest.For(u))
			spoil(&spoilt)
			if _, _, err := k.create(u, almanactest.Event(k.now, almanactest.For(u)), spoilt); err == nil {
				k.Errorf("%s: stored", name)
			}
			_, err := k.r.User(k.Context(), u.ID)
			k.gone(err)
		}
		n, err := k.r.Count(k.Context(), nil)
		k.ok(err)
		k.same("events", n, 1)
	},
	"CreateUser/copies its arguments": func(k *kit) {
		u := almanactest.User(almanactest.WithAttributes(`{"plan": "gold"}`))
		given := almanactest.Event(k.now, almanactest.For(u))
		user, events, err := k.create(u, given)
		k.ok(err)
		want := k.stored(given.ID)
		want.Payload = slices.Clone(want.Payload)
		for _, bytes := range [][]byte{u.Attributes, given.Payload, user.Attributes, events[0].Payload, k.stored(given.ID).Payload} {
			clear(bytes)
		}
		k.same("event", k.stored(given.ID), want)
		again, err := k.r.User(k.Context(), u.ID)
		k.ok(err)
		var attributes map[string]string
		k.ok(json.Unmarshal(again.Attributes, &attributes))
		k.same("attributes", attributes, map[string]string{"plan": "gold"})
	},
	"CreateUser/and every change set the times": func(k *kit) {
		e := k.newEvent()
		user, err := k.r.User(k.Context(), e.UserID)
		k.ok(err)
		claimed := k.claim(1)[0]
		end, err := k.r.Now(k.Context())
		k.ok(err)
		for what, at := range map[string]time.Time{
			"event created": e.CreatedAt, "event claimed": claimed.UpdatedAt, "user created": user.CreatedAt, "user updated": user.UpdatedAt,
		} {
			if at.Before(k.now) || at.After(end) || at.Location() != time.UTC {
				k.Errorf("%s at %v, want between %v and %v, UTC", what, at, k.now, end)
			}
		}
		k.same("created, still", claimed.CreatedAt, e.CreatedAt)
		k.same("updated later", claimed.UpdatedAt.Before(e.UpdatedAt), false)
	},
	"CreateUser/refuses the id of a user being deleted": func(k *kit) {
		e := k.newEvent()
		k.claim(1)
		_, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{})
		k.ok(err)
		again := almanactest.User()
		again.ID = e.UserID
		_, _, err = k.create(again)
		k.is(err, almanac.ErrLocked)
	},
	"DeleteUser/hides a user with events in flight": func(k *kit) {
		u := almanactest.User()
		_, _, err := k.create(u, almanactest.Event(k.now, almanactest.For(u)), almanactest.Event(k.now, almanactest.For(u)), almanactest.Event(k.now, almanactest.For(u), almanactest.DueIn(time.Hour)))
		k.ok(err)
		flying, rested := k.claim(1)[0], k.claim(1)[0]
		k.settle(almanac.Settlement{Event: rested, Outcome: almanac.Released(almanac.AfterFailure, "busy", time.Hour)})
		d, err := k.r.DeleteUser(k.Context(), u.ID, almanac.DeleteOptions{})
		k.ok(err)
		k.same("deletion", d, almanac.DeleteResult{Removed: 2, InFlight: []uuid.UUID{flying.ID}})
		n, err := k.r.Count(k.Context(), almanac.InStatus(almanac.Pending))
		k.ok(err)
		k.same("pending", n, 0)
		_, err = k.r.EditUser(k.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
			k.Error("edit was called for a deleted user")
			return almanac.Edit{}, nil
		})
		k.gone(err)
		k.same("in flight, still", k.stored(flying.ID), flying)
	},
	"DeleteUser/removes released events": func(k *kit) {
		e := k.newEvent()
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "busy", 0)})
		d, err := k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{})
		k.ok(err)
		k.same("removed", d.Removed, 1)
		_, err = k.r.Event(k.Context(), e.ID)
		k.gone(err)
	},
	"DeleteUser/ends events left by a crash": func(k *kit) {
		e := k.newEvent()
		r := request(1)
		r.Lease = time.Microsecond
		_, err := k.r.Claim(k.Context(), r)
		k.ok(err)
		_, err = k.r.DeleteUser(k.Context(), e.UserID, almanac.DeleteOptions{})
		k.ok(err)
		ended := k.expire(1, 10)[0]
		k.same("status", ended.Status, almanac.Failed)
		k.same("reason", ended.FailureReason, almanac.ReasonUserDeleted)
		_, err = k.r.ReleaseExpired(k.Context(), 10)
		k.ok(err)
		_, err = k.r.Event(k.Context(), e.ID)
		k.gone(err)
	},
	"Update/sets the version itself": func(k *kit) {
		planned := k.newEvent(almanactest.DueIn(time.Hour))
		moved := later(planned)
		moved.Version, moved.CreatedAt = 7, time.Time{}
		got, err := k.r.Update(k.Context(), moved, 1)
		k.ok(err)
		k.same("version", got.Version, 2)
		k.same("created", got.CreatedAt, planned.CreatedAt)
		k.same("due", got.Due, planned.Due.Add(time.Hour))
		k.same("as stored", k.stored(planned.ID), got)
	},
	"Update/reaches every state of the fixtures": func(k *kit) {
		u := almanactest.User()
		var given []almanac.Event
		for _, options := range [][]almanactest.EventOption{
			{}, {almanactest.DueIn(time.Hour)}, {almanactest.Tried(2)}, {almanactest.Tried(1), almanactest.Crashed(3), almanactest.DelayedFor(time.Hour)},
			{almanactest.InStatus(almanac.Processing)}, {almanactest.Tried(1), almanactest.InStatus(almanac.Completed)}, {almanactest.DeliveredLate(time.Second)},
			{almanactest.Crashed(4), almanactest.FailedBecause("HTTP 404")},
		} {
			given = append(given, almanactest.Event(k.now, append([]almanactest.EventOption{almanactest.For(u)}, options...)...))
		}
		for i, stored := range almanactest.Store(k.T, k.r, u, given...) {
			want := given[i]
			want.LeaseToken, want.CreatedAt, want.UpdatedAt = stored.LeaseToken, stored.CreatedAt, stored.UpdatedAt
			want.ExecutedAt = want.ExecutedAt.Truncate(time.Microsecond)
			k.same("stored", stored, want)
			k.same("as stored", k.stored(stored.ID), stored)
		}
	},
	"Find/ends with a full page": func(k *kit) {
		u := almanactest.User()
		planned := make([]almanac.Event, 51)
		for i := range planned {
			planned[i] = almanactest.Event(k.now, almanactest.For(u), almanactest.DueIn(time.Duration(100-i)*time.Minute))
		}
		_, _, err := k.create(u, planned...)
		k.ok(err)
		for limit, want := range map[int]int{0: 50, 51: 51, 50: 50, 1: 1} {
			found, err := k.r.Find(k.Context(), nil, almanac.Page{Limit: limit})
			k.ok(err)
			k.same("events on the first page", ids(found.Events), ids(planned[:want]))
			k.same("there is another page", found.Next != "", want < 51)
		}
	},
	"Spec/DueBetween begins at a bound and ends before one": func(k *kit) {
		e := k.newEvent()
		for spec, want := range map[almanac.DueBetween]int{
			{From: e.Due}:                              1,
			{From: e.Due.Add(time.Second)}:             0,
			{Until: e.Due}:                             0,
			{Until: e.Due.Add(time.Second)}:            1,
			{From: e.Due, Until: e.Due}:                0,
			{From: e.Due, Until: e.Due.Add(time.Hour)}: 1,
		} {
			n, err := k.r.Count(k.Context(), spec)
			k.ok(err)
			if n != want {
				k.Errorf("%+v counts %d, want %d, of an event due at %v", spec, n, want, e.Due)
			}
		}
	},
}
