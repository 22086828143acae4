package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// The functions of this file and of kit_claims.go call the repository. They fail the case at
// once if the call fails.

// stored returns an event as it is stored now.
func (k *kit) stored(id uuid.UUID) almanac.Event {
	k.Helper()
	return must(k.r.Event(k.Context(), id))(k)
}

// asStored fails the case unless the events are as they are stored now.
func (k *kit) asStored(events ...almanac.Event) {
	k.Helper()
	for _, e := range events {
		k.same("event, as stored", e, k.stored(e.ID))
	}
}

// became returns a function that takes the result of a transition. It fails the case unless
// got is this event, but for the repository's times, and is stored.
func (k *kit) became(got almanac.Event) func(almanac.Event, error) {
	return func(want almanac.Event, err error) {
		k.Helper()
		k.ok(err)
		want.CreatedAt, want.UpdatedAt, got.UsedBefore, want.UsedBefore = got.CreatedAt, got.UpdatedAt, nil, nil
		k.same("event", got, want)
		k.asStored(got)
	}
}

// step returns a function that stores the result of a transition of an event.
func (k *kit) step(from almanac.Event) func(almanac.Event, error) almanac.Event {
	return func(to almanac.Event, err error) almanac.Event {
		k.Helper()
		k.ok(err)
		return k.update(to, from.Version)
	}
}

// noEvent fails the case unless an event is missing.
func (k *kit) noEvent(id uuid.UUID) {
	k.Helper()
	_, err := k.r.Event(k.Context(), id)
	k.gone(err)
}

// storedUser returns a user as stored now.
func (k *kit) storedUser(id uuid.UUID) almanac.User {
	k.Helper()
	return must(k.r.User(k.Context(), id))(k)
}

// noUser fails the case unless a user is missing.
func (k *kit) noUser(id uuid.UUID) {
	k.Helper()
	_, err := k.r.User(k.Context(), id)
	k.gone(err)
}

// clock returns the repository's time.
func (k *kit) clock() time.Time {
	k.Helper()
	return must(k.r.Now(k.Context()))(k)
}

// find returns the first thousand events that spec matches.
func (k *kit) find(spec almanac.Spec) []almanac.Event {
	k.Helper()
	return must(k.r.Find(k.Context(), spec, almanac.Page{Limit: 1000}))(k).Items
}

func (k *kit) count(spec almanac.Spec) int {
	k.Helper()
	return must(k.r.Count(k.Context(), spec))(k)
}

// create stores a user with their first events.
func (k *kit) create(u almanac.User, events ...almanac.Event) (almanac.User, []almanac.Event) {
	k.Helper()
	u, events, err := almanactest.CreateUser(k.Context(), k.r, u, events...)
	k.ok(err)
	return u, events
}

// tryCreate returns the error of storing a user with their first events.
func (k *kit) tryCreate(u almanac.User, events ...almanac.Event) error {
	_, _, err := almanactest.CreateUser(k.Context(), k.r, u, events...)
	return err
}

func (k *kit) createUsers(users ...almanac.UserWithEvents) []almanac.CreateUserResult {
	k.Helper()
	return must(k.r.CreateUsers(k.Context(), users))(k)
}

// apply edits a user. What it returns must be what is stored.
func (k *kit) apply(userID uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) almanac.Edit {
	k.Helper()
	stored := must(k.r.EditUser(k.Context(), userID, edit))(k)
	k.asStored(stored.Changed...)
	k.asStored(stored.New...)
	return stored
}

// roster edits a user without changing anything, and returns the roster that the edit gets.
func (k *kit) roster(userID uuid.UUID) (roster almanac.Roster) {
	k.Helper()
	k.apply(userID, func(r almanac.Roster) (almanac.Edit, error) {
		roster = r
		return almanac.Edit{}, nil
	})
	return roster
}

// adding is an edit that stores new events.
func adding(events ...almanac.Event) func(almanac.Roster) (almanac.Edit, error) {
	return func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{New: events}, nil }
}

// changing is an edit that stores changed events.
func changing(events ...almanac.Event) func(almanac.Roster) (almanac.Edit, error) {
	return func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{Changed: events}, nil }
}

// add stores new events of a user by an edit, and returns those that were stored.
func (k *kit) add(userID uuid.UUID, events ...almanac.Event) []almanac.Event {
	k.Helper()
	return k.apply(userID, adding(events...)).New
}

// change stores changed events of a user by an edit, and returns them as stored.
func (k *kit) change(userID uuid.UUID, events ...almanac.Event) []almanac.Event {
	k.Helper()
	return k.apply(userID, changing(events...)).Changed
}

func (k *kit) deleteUser(id uuid.UUID) almanac.DeleteResult {
	k.Helper()
	return must(k.r.DeleteUser(k.Context(), id, almanac.DeleteOptions{}))(k)
}

func (k *kit) deleteAtOnce(id uuid.UUID) almanac.DeleteResult {
	k.Helper()
	return must(k.r.DeleteUser(k.Context(), id, almanac.DeleteOptions{AtOnce: true}))(k)
}

func (k *kit) update(e almanac.Event, expected int) almanac.Event {
	k.Helper()
	stored := must(k.r.Update(k.Context(), e, expected))(k)
	k.asStored(stored)
	return stored
}

// moveEvents gives events new instants, as after a change of zone rules.
func (k *kit) moveEvents(events ...almanac.Event) []almanac.Event {
	k.Helper()
	return must(k.r.MoveEvents(k.Context(), events))(k)
}

func (k *kit) prune(before time.Time) int {
	k.Helper()
	deleted, next, err := k.r.Prune(k.Context(), before, almanac.Page{})
	k.ok(err)
	k.same("next", next, almanac.Cursor(""))
	return deleted
}

// scheduler returns a scheduler of the repository with the given handlers.
func (k *kit) scheduler(handlers ...almanac.EventHandler) almanac.Scheduler {
	k.Helper()
	registry := must(almanac.NewRegistry(handlers...))(k)
	return must(almanac.NewScheduler(k.r, registry))(k)
}
