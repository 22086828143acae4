package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// EditUser changes a user and the user's open events, in one transaction. It locks the user, the
// open series and the pending events before it calls edit.
func (s *Store) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	var wanted, stored almanac.Edit
	err := s.transactKeys(ctx, "change the events of a user", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		if err := s.seesLatest(ctx, tx); err != nil {
			return err
		}
		roster, released, err := s.roster(ctx, tx, id)
		if err != nil {
			return err
		}
		if wanted, err = s.decide(ctx, tx, roster, edit); err != nil {
			return err
		}
		if err := roster.Check(wanted); err != nil {
			return asIs(err)
		}
		one := []*editing{{roster: roster, wanted: wanted}}
		if err = s.apply(ctx, tx, keys, one); err != nil {
			return err
		}
		stored = one[0].stored
		return s.hintReleased(ctx, tx, released)
	})
	if violates(err, "users_external_id") {
		err = s.externalIDTaken(ctx, *wanted.User)
	}
	if err != nil {
		return almanac.Edit{}, err
	}
	return stored, nil
}

// externalIDTaken returns the error for an edit that was undone because another user has the external
// id. When the other user cannot be looked up, the error leaves that user out.
func (s *Store) externalIDTaken(ctx context.Context, u almanac.User) error {
	taken := &almanac.ExternalIDTakenError{UserID: u.ID, ExternalID: u.ExternalID}
	_ = s.do(ctx, "find user by external id", func(ctx context.Context, db DB) error {
		_, holders, err := s.takenUsers(ctx, db, []almanac.User{u})
		taken.Holder = holders[u.ExternalID]
		return err
	})
	return taken
}

// decide calls edit with a roster. At first the roster has the used keys of open series only. When
// the edit adds events to other series, decide calls edit again with the used keys of these.
func (s *Store) decide(ctx context.Context, tx pgx.Tx, r almanac.Roster, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	one := []*editing{{roster: r}}
	err := s.decideAll(ctx, tx, one, func(_ int, r almanac.Roster) (almanac.Edit, error) { return edit(r) })
	if err == nil {
		err = asIs(one[0].err)
	}
	return one[0].wanted, err
}

// roster locks a user and the user's pending events, and reads the rest of the roster, in one round
// trip. It also returns the events that it released from claims ahead of their instant. Each
// statement sees the rows that were committed before the statement began.
func (s *Store) roster(ctx context.Context, tx pgx.Tx, id uuid.UUID) (r almanac.Roster, released []uuid.UUID, err error) {
	var batch pgx.Batch
	for _, sql := range []string{
		s.statements.LockUser, s.statements.LockSeries, s.statements.LockQueue, s.statements.ReleaseAhead,
		s.statements.LockPending, s.statements.InFlight, s.statements.UsedKeys,
	} {
		batch.Queue(sql, pgx.StrictNamedArgs{"id": id})
	}
	batch.Queue(s.statements.Stalled, pgx.StrictNamedArgs{"users": uuids([]uuid.UUID{id}), "limit": nil})
	batch.Queue(s.statements.Now)
	results := tx.SendBatch(ctx, &batch)
	defer closeBatch(results, &err)

	if r.User, err = next(results, pgx.CollectExactlyOneRow[almanac.User], scanUsers()); err != nil {
		return r, nil, missing(err, "user", id)
	}
	for range 2 { // locks
		if _, err = next(results, pgx.CollectRows[*uuid.UUID], pgx.RowTo[*uuid.UUID]); err != nil {
			return r, nil, err
		}
	}
	if released, err = next(results, pgx.CollectRows[uuid.UUID], scanID); err != nil {
		return r, nil, err
	}
	if r.Pending, err = next(results, pgx.CollectRows[almanac.Event], scanEvents()); err != nil {
		return r, nil, err
	}
	if r.InFlight, err = next(results, pgx.CollectRows[almanac.Event], scanEvents()); err != nil {
		return r, nil, err
	}
	open, err := next(results, pgx.CollectRows[seriesKeys], scanOpenKeys)
	if err != nil {
		return r, nil, err
	}
	if r.Stalled, err = next(results, pgx.CollectRows[almanac.StalledSeries], scanStalled); err != nil {
		return r, nil, err
	}
	r.Now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	r.Used = make(map[almanac.Series]almanac.UsedKeys)
	for _, one := range open {
		r.Used[one.series] = one.at(r.User, r.Now)
	}
	return r, released, err
}

// apply stores the edits of rosters that the transaction has locked, all or none.
func (s *Store) apply(ctx context.Context, tx pgx.Tx, keys keys, list []*editing) error {
	var wanted, stored almanac.Edit
	var users []almanac.User
	edited := make(map[uuid.UUID]editedUser, len(list))
	of := make(map[uuid.UUID]*almanac.Edit, len(list)) // by the ids of users and of events
	for _, one := range list {
		u, version := one.roster.User, pgtype.Int4{}
		if is := one.wanted.User; is != nil {
			u, users, version = *is, append(users, *is), pgtype.Int4{Int32: int32(is.Version), Valid: true}
		}
		edited[u.ID], of[u.ID] = editedUser{u.Timezone.WallTime(one.roster.Now), version}, &one.stored
		wanted.Removed = append(wanted.Removed, one.wanted.Removed...)
		wanted.Changed = append(wanted.Changed, one.wanted.Changed...)
		wanted.New = append(wanted.New, one.wanted.New...)
		for _, events := range [...][]almanac.Event{one.wanted.Removed, one.wanted.Changed, one.wanted.New} {
			for i := range events {
				of[events[i].ID] = &one.stored
			}
		}
	}
	var err error
	if stored.Removed, err = s.remove(ctx, tx, wanted.Removed); err != nil {
		return err
	}
	if stored.Changed, err = s.change(ctx, tx, wanted.Changed, edited); err != nil {
		return err
	}
	updated, err := s.updateUsers(ctx, tx, users) // now the trigger has no series left that an event moved in
	if err != nil {
		return err
	}
	for i := range updated {
		of[updated[i].ID].User = &updated[i]
	}
	if stored.New, err = s.add(ctx, tx, keys, wanted.New); err != nil {
		return err
	}
	for _, e := range stored.Removed {
		of[e.ID].Removed = append(of[e.ID].Removed, e)
	}
	for _, e := range stored.Changed {
		of[e.ID].Changed = append(of[e.ID].Changed, e)
	}
	for _, e := range stored.New {
		of[e.ID].New = append(of[e.ID].New, e)
	}
	return s.hint(ctx, tx, slices.Concat(stored.Changed, stored.New))
}

// editedUser is a user as an edit leaves it.
type editedUser struct {
	shown   calendar.WallTime // by clocks in the user's zone
	version pgtype.Int4       // NULL if only events change
}

// updateUsers replaces users, all or none, and returns them as stored.
func (s *Store) updateUsers(ctx context.Context, tx pgx.Tx, users []almanac.User) ([]almanac.User, error) {
	if len(users) == 0 {
		return nil, nil
	}
	args, err := newUserArgs(column(users, func(u almanac.User) almanac.UserWithEvents { return almanac.UserWithEvents{User: u} }))
	if err != nil {
		return nil, err
	}
	delete(args, "creation_digests") // they never change
	args["versions"] = column(users, func(u almanac.User) int { return u.Version })
	updated, err := all(ctx, tx, s.statements.UpdateUsers, args, scanUsers())
	if err == nil && len(updated) < len(users) {
		err = pgx.ErrNoRows
	}
	return updated, err
}

// change stores the new states of pending events, all or none, and returns the events in the
// order given. The status and the claim count of an event decide which statement stores it.
// [almanac.Roster.Check] has checked the events. The map has their users.
func (s *Store) change(ctx context.Context, tx pgx.Tx, events []almanac.Event, users map[uuid.UUID]editedUser) ([]almanac.Event, error) {
	var stored []almanac.Event
	for _, kind := range []struct {
		has   func(almanac.Event) bool
		store func(context.Context, pgx.Tx, []almanac.Event) ([]almanac.Event, error)
	}{
		{func(e almanac.Event) bool { return e.Status == almanac.Cancelled }, func(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
			return s.cancel(ctx, tx, events, users)
		}},
		{func(e almanac.Event) bool { return e.Status == almanac.Pending && e.ClaimCount == 0 }, func(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
			return s.move(ctx, tx, events, users)
		}},
		{func(e almanac.Event) bool { return e.Status == almanac.Pending && e.ClaimCount > 0 }, s.runNow},
	} {
		var part []almanac.Event
		for i := range events {
			if kind.has(events[i]) {
				part = append(part, events[i])
			}
		}
		changed, err := kind.store(ctx, tx, part)
		if err != nil {
			return nil, err
		}
		stored = append(stored, changed...)
	}
	return inOrderOf(events, stored), nil
}

// add stores new events, planned or requeued, and returns them in the order given. It leaves out
// events whose series has an open event or has used up the occurrence.
func (s *Store) add(ctx context.Context, tx pgx.Tx, keys keys, events []almanac.Event) ([]almanac.Event, error) {
	planned, err := s.insert(ctx, tx, keys, slices.DeleteFunc(slices.Clone(events), isRequeued))
	if err != nil {
		return nil, err
	}
	again, err := s.requeue(ctx, tx, slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool { return !isRequeued(e) }))
	return inOrderOf(events, append(planned, again...)), err
}

// isRequeued reports whether a new event repeats another.
func isRequeued(e almanac.Event) bool { return e.Origin.Kind == almanac.OriginRequeued }

// cancel cancels pending events, all or none, and returns them as stored. The series of an event
// with Unplanned set waits for a program that has the handler.
func (s *Store) cancel(ctx context.Context, tx pgx.Tx, events []almanac.Event, users map[uuid.UUID]editedUser) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	cancelled, err := all(ctx, tx, s.statements.CancelEvents, pgx.StrictNamedArgs{
		"ids":      uuids(idsOf(events)),
		"versions": column(events, func(e almanac.Event) int { return e.Version }),
		"reasons":  column(events, func(e almanac.Event) string { return e.FailureReason }),
		"waiting":  column(events, func(e almanac.Event) bool { return e.Unplanned }),
		"ended":    column(events, func(e almanac.Event) pgtype.Timestamp { return localOrNull(users[e.UserID].shown) }),
	}, scanEvents())
	if err != nil {
		return nil, err
	}
	return inOrderOf(events, cancelled), complete(events, idsOf(cancelled), -1)
}

// runNow changes when pending events that were claimed before can be claimed again, all or none.
// It returns the events as stored.
func (s *Store) runNow(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	changed, err := all(ctx, tx, s.statements.RunNow, pgx.StrictNamedArgs{
		"ids":       uuids(column(events, func(e almanac.Event) uuid.UUID { return e.ID })),
		"versions":  column(events, func(e almanac.Event) int { return e.Version }),
		"available": column(events, func(e almanac.Event) time.Time { return e.AvailableAt }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	if err := complete(events, changed, -1); err != nil {
		return nil, err
	}
	return s.waiting(ctx, tx, events, changed)
}

// requeue stores requeued events, and returns them in the order given. It leaves out events whose
// series has an open event or has used up the occurrence.
func (s *Store) requeue(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events = firstOfEachSeries(events)
	args := newEventArgs(events) // each keeps the idempotency key of the event that it repeats
	delete(args, "consulting")   // nothing is known of its calendars
	delete(args, "consulted")
	args["available"] = column(events, func(e almanac.Event) time.Time { return e.AvailableAt })
	args["claims"] = column(events, func(e almanac.Event) int { return e.ClaimCount })
	args["errors"] = column(events, func(e almanac.Event) pgtype.Text { return textOrNull(e.LastError) })
	if _, err := tx.Exec(ctx, s.statements.RequeueEvents, args); err != nil {
		return nil, err
	}
	stored, err := s.waiting(ctx, tx, events, column(events, func(e almanac.Event) uuid.UUID { return e.ID }))
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	held := column(stored, func(e almanac.Event) string { return e.IdempotencyKey.String() })
	_, err = tx.Exec(ctx, s.statements.HoldKeys, pgx.StrictNamedArgs{"keys": held})
	return stored, err
}
