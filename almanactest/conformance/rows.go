package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// userRowCases check what is stored of users with their events, and what a deletion leaves.
var userRowCases = cases{
	"CreateUser/stores no user without their events": func(k *kit) {
		stored := k.newEvent()
		for name, spoil := range map[string]func(*almanac.Event){
			"type too long": func(e *almanac.Event) { e.Type = strings.Repeat("x", 51) },
			"no JSON":       func(e *almanac.Event) { e.Payload = json.RawMessage(`{`) },
			"another user":  func(e *almanac.Event) { e.UserID = uuid.New() },
			"id taken":      func(e *almanac.Event) { e.ID = stored.ID },
		} {
			u := beside(stored.UserID)
			spoilt := k.event(u)
			spoil(&spoilt)
			k.same(name+": is refused", k.tryCreate(u, k.event(u), spoilt) != nil, true)
			k.noUser(u.ID)
		}
		k.same("events", k.count(nil), 1)
	},
	"CreateUser/copies its arguments": func(k *kit) {
		u := almanactest.User(almanactest.WithAttributes(`{"plan": "gold"}`))
		given := k.event(u)
		user, events := k.create(u, given)
		want := k.stored(given.ID)
		want.Payload = slices.Clone(want.Payload)
		for _, bytes := range [][]byte{u.Attributes, given.Payload, user.Attributes, events[0].Payload, k.stored(given.ID).Payload} {
			clear(bytes)
		}
		k.same("event", k.stored(given.ID), want)
		again := k.storedUser(u.ID)
		var attributes map[string]string
		k.ok(json.Unmarshal(again.Attributes, &attributes))
		k.same("attributes", attributes, map[string]string{"plan": "gold"})
	},
	"CreateUser/and every change set the times": func(k *kit) {
		e := k.newEvent()
		user := k.storedUser(e.UserID)
		claimed := k.claim(1)[0]
		end := k.clock()
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
		k.deleteUser(e.UserID)
		u := almanactest.User(almanactest.WithUserID(e.UserID))
		k.is(k.tryCreate(u), almanac.ErrLocked)
		again := k.event(u)
		again.Series, again.OccurrenceKey = e.Series, "2031"
		first := again
		first.ID, first.IdempotencyKey, first.OccurrenceKey = k.event(u).ID, k.event(u).IdempotencyKey, "2030"
		k.is(k.tryCreate(u, first, again), almanac.ErrExists) // two events of a series are refused whatever is stored
	},
	"DeleteUser/hides a user with events in flight": func(k *kit) {
		u := almanactest.User()
		k.create(u, k.event(u), k.event(u), k.event(u, almanactest.DueIn(time.Hour)))
		flying, rested := k.claim(1)[0], k.claim(1)[0]
		k.retry(rested, "busy", time.Hour)
		k.same("deletion", k.deleteUser(u.ID), almanac.DeleteResult{Removed: 2, InFlight: []uuid.UUID{flying.ID}, Hidden: true})
		k.same("pending", k.count(almanac.InStatus(almanac.Pending)), 0)
		k.gone(errorOf(k.r.EditUser(k.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
			k.Error("edit was called for a deleted user")
			return almanac.Edit{}, nil
		})))
		k.same("in flight, still", k.stored(flying.ID), flying)
	},
	"DeleteUser/removes released events": func(k *kit) {
		e := k.newEvent()
		k.retry(k.claim(1)[0], "busy", 0)
		k.same("removed", k.deleteUser(e.UserID).Removed, 1)
		k.noEvent(e.ID)
	},
	"DeleteUser/ends events left by a crash": func(k *kit) {
		e := k.newEvent()
		k.take(expiring(1))
		k.deleteUser(e.UserID)
		ended := k.expire(1, 10)[0]
		k.same("status", ended.Status, almanac.Failed)
		k.same("reason", ended.FailureReason, almanac.ReasonUserDeleted)
		k.releaseExpired(10)
		k.noEvent(e.ID)
	},
}

var eventRowCases = cases{
	"Update/sets the version itself": func(k *kit) {
		planned := k.newEvent(almanactest.DueIn(time.Hour))
		moved := later(planned)
		moved.Version, moved.CreatedAt = 7, time.Time{}
		got := k.update(moved, 1)
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
			planned[i] = k.event(u, almanactest.DueIn(time.Duration(100-i)*time.Minute))
		}
		k.create(u, planned...)
		for limit, want := range map[int]int{0: 50, 51: 51, 50: 50, 1: 1} {
			found := must(k.r.Find(k.Context(), nil, almanac.Page{Limit: limit}))(k)
			k.same("events on the first page", ids(found.Items), ids(planned[:want]))
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
			k.same(fmt.Sprintf("events %+v, of one due at %v", spec, e.Due), k.count(spec), want)
		}
	},
}
