package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// The functions of this file call the repository. They fail the case at once if the call fails.

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
	k.gone(errorOf(k.r.Event(k.Context(), id)))
}

// storedUser returns a user as stored now.
func (k *kit) storedUser(id uuid.UUID) almanac.User {
	k.Helper()
	return must(k.r.User(k.Context(), id))(k)
}

// noUser fails the case unless a user is missing.
func (k *kit) noUser(id uuid.UUID) {
	k.Helper()
	k.gone(errorOf(k.r.User(k.Context(), id)))
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

// request returns a claim of up to limit birthdays, and events of other types, with a lease of a minute.
func request(limit int, others ...string) almanac.ClaimRequest {
	types := append([]string{almanac.TypeBirthday}, others...)
	return almanac.ClaimRequest{Token: uuid.New(), Owner: "suite", Types: types, Limit: limit, Lease: time.Minute}
}

// fromMark returns a claim of events that are available from a mark on.
func fromMark(limit int, mark time.Time) almanac.ClaimRequest {
	r := request(limit)
	r.Mark = mark
	return r
}

// expiring returns a claim whose lease expires at once.
func expiring(limit int) almanac.ClaimRequest {
	r := request(limit)
	r.Lease = time.Microsecond
	return r
}

func (k *kit) take(r almanac.ClaimRequest) almanac.ClaimResult {
	k.Helper()
	return must(k.r.Claim(k.Context(), r))(k)
}

// claim claims exactly n events under one token.
func (k *kit) claim(n int) []almanac.Event {
	k.Helper()
	claim := k.take(request(n))
	if len(claim.Events) != n {
		k.Fatalf("claimed %d events, want %d", len(claim.Events), n)
	}
	return claim.Events
}

// newClaimed stores a user with one event, and claims the event that is due first.
func (k *kit) newClaimed(options ...almanactest.EventOption) almanac.Event {
	k.Helper()
	k.newEvent(options...)
	return k.claim(1)[0]
}

// newClaims stores users with one event each, and claims all these events.
func (k *kit) newClaims(n int) []almanac.Event {
	k.Helper()
	k.newEvents(n)
	return k.claim(n)
}

func (k *kit) confirm(events ...almanac.Event) almanac.ConfirmResult {
	k.Helper()
	return must(k.r.Confirm(k.Context(), events))(k)
}

// renew prolongs leases by a minute, and returns those that are still held.
func (k *kit) renew(tokens ...uuid.UUID) []uuid.UUID {
	k.Helper()
	return must(k.r.Renew(k.Context(), tokens, time.Minute))(k)
}

// settle stores one outcome and returns its result.
func (k *kit) settle(s almanac.Settlement) almanac.SettleResult {
	k.Helper()
	return must(k.settleUnlocked(s))(k)
}

// settleAll stores a batch of outcomes.
func (k *kit) settleAll(batch ...almanac.Settlement) []almanac.SettleResult {
	k.Helper()
	return must(k.r.Settle(k.Context(), batch))(k)
}

// end stores how an attempt ended, with the successor that next plans. The case fails at once
// if one of them is not stored.
func (k *kit) end(e almanac.Event, o almanac.Outcome, next func(almanac.User, time.Time) (almanac.Event, error)) almanac.SettleResult {
	k.Helper()
	return k.stores(almanac.Settlement{Event: e, Outcome: o, Next: next})
}

// stores settles an event, and fails the case at once unless everything was stored and is as returned.
func (k *kit) stores(s almanac.Settlement) almanac.SettleResult {
	k.Helper()
	settled := k.settle(s)
	k.ok(errors.Join(settled.Err, settled.PlanErr))
	k.asStored(settled.Event)
	k.asStored(settled.Followed...)
	if settled.Successor != nil {
		k.asStored(*settled.Successor)
	}
	return settled
}

// deliver stores that an event was delivered.
func (k *kit) deliver(e almanac.Event) almanac.SettleResult {
	k.Helper()
	return k.settle(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now)})
}

// giveUp stores that an event has failed.
func (k *kit) giveUp(e almanac.Event, reason string) almanac.SettleResult {
	k.Helper()
	return k.settle(almanac.Settlement{Event: e, Outcome: almanac.GaveUp(reason)})
}

// retry releases an event after a failed attempt, for another one after a delay.
func (k *kit) retry(e almanac.Event, reason string, delay time.Duration) almanac.SettleResult {
	k.Helper()
	return k.settle(almanac.Settlement{Event: e, Outcome: almanac.Released(almanac.AfterFailure, reason, delay)})
}

// settleUnlocked stores one outcome. It tries again while the event is locked.
func (k *kit) settleUnlocked(s almanac.Settlement) (almanac.SettleResult, error) {
	for {
		settled, err := k.r.Settle(k.Context(), []almanac.Settlement{s})
		if err != nil {
			return almanac.SettleResult{}, err
		}
		if len(settled) != 1 {
			return almanac.SettleResult{}, fmt.Errorf("%d results for one settlement", len(settled))
		}
		if !errors.Is(settled[0].Err, almanac.ErrLocked) {
			return settled[0], nil
		}
	}
}

func (k *kit) release(token uuid.UUID) []almanac.Event {
	k.Helper()
	return must(k.r.Release(k.Context(), token))(k)
}

func (k *kit) releaseExpired(limit int) []almanac.Event {
	k.Helper()
	return must(k.r.ReleaseExpired(k.Context(), limit, 1000))(k)
}

// crash claims n events with a lease of a microsecond and waits until they are released.
func (k *kit) crash(n int) (claimed, released []almanac.Event) {
	k.Helper()
	return k.take(expiring(n)).Events, k.expire(n, 10)
}

// expire waits until n events of expired leases are released, at most limit in one call.
func (k *kit) expire(n, limit int) (released []almanac.Event) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 10*time.Second)
	defer cancel()
	for len(released) < n {
		events := must(k.r.ReleaseExpired(ctx, limit, 1000))(k)
		released = append(released, events...)
	}
	return released
}

// until returns how long the next birthday from mark on is away, and whether there is one.
func (k *kit) until(mark time.Time) (wait time.Duration, known bool) {
	k.Helper()
	wait, known, err := k.r.Until(k.Context(), []string{almanac.TypeBirthday}, mark)
	k.ok(err)
	return wait, known
}
