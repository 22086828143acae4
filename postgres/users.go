package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/fold"
)

// User returns the user with an id. The error matches [almanac.ErrNotFound] when there is no such
// user, or the user is deleted.
func (s *Store) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	var user almanac.User
	err := s.do(ctx, "find user", func(ctx context.Context, db DB) (err error) {
		user, err = one(ctx, db, s.statements.User, pgx.StrictNamedArgs{"id": id}, scanUsers())
		return missing(err, "user", id)
	})
	return user, err
}

// UserByExternalID returns the user with an external id. The error matches [almanac.ErrNotFound] when
// there is no such user, or the user is deleted.
func (s *Store) UserByExternalID(ctx context.Context, externalID string) (almanac.User, error) {
	var user almanac.User
	err := s.do(ctx, "find user by external id", func(ctx context.Context, db DB) (err error) {
		user, err = one(ctx, db, s.statements.UserByExternalID, pgx.StrictNamedArgs{"external_id": externalID}, scanUsers())
		if errors.Is(err, pgx.ErrNoRows) {
			return asIs(&almanac.NotFoundError{Kind: "user", ExternalID: externalID})
		}
		return err
	})
	return user, err
}

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
		u := roster.User
		if wanted.User != nil {
			u = *wanted.User
		}
		if stored, err = s.apply(ctx, tx, keys, wanted, u.Timezone.WallTime(roster.Now)); err != nil {
			return err
		}
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
	for {
		shown := r // the edit may change the lists and the map
		shown.Pending, shown.InFlight = slices.Clone(r.Pending), slices.Clone(r.InFlight)
		shown.Used = maps.Clone(r.Used)
		wanted, err := edit(shown)
		if err != nil {
			return wanted, asIs(err)
		}
		planned := slices.DeleteFunc(slices.Clone(wanted.New), isRequeued)
		unshown, err := s.unshownKeys(ctx, tx, planned, func(almanac.Event) map[almanac.Series]almanac.UsedKeys { return r.Used })
		if err != nil || len(unshown) == 0 {
			return wanted, err
		}
		r.Used = maps.Clone(r.Used)
		for _, one := range unshown {
			r.Used[one.series] = one.used
		}
	}
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
	r.Now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	r.Used = make(map[almanac.Series]almanac.UsedKeys)
	for _, one := range open {
		r.Used[one.series] = one.at(r.User, r.Now)
	}
	return r, released, err
}

// next collects the rows of the next statement of a batch.
func next[T, R any](results pgx.BatchResults, collect func(pgx.Rows, pgx.RowToFunc[T]) (R, error), scan pgx.RowToFunc[T]) (R, error) {
	rows, err := results.Query()
	if err != nil {
		var none R
		return none, err
	}
	return collect(rows, scan)
}

// closeBatch closes the results of a batch. Close repeats the error of the statement that failed, which
// is stored in err before.
func closeBatch(results pgx.BatchResults, err *error) {
	if closed := results.Close(); *err == nil {
		*err = closed
	}
}

// apply stores an edit of a roster that the transaction has locked. Clocks in the user's zone show the
// given wall time.
func (s *Store) apply(ctx context.Context, tx pgx.Tx, keys keys, wanted almanac.Edit, shown calendar.WallTime) (stored almanac.Edit, err error) {
	if wanted.User != nil {
		args := userArgs(*wanted.User)
		args["version"] = wanted.User.Version
		user, err := one(ctx, tx, s.statements.UpdateUser, args, scanUsers())
		if err != nil {
			return stored, err
		}
		stored.User = &user
	}
	if stored.Removed, err = s.remove(ctx, tx, wanted.Removed); err != nil {
		return stored, err
	}
	if stored.Changed, err = s.change(ctx, tx, wanted.Changed, shown); err != nil {
		return stored, err
	}
	if stored.New, err = s.add(ctx, tx, keys, wanted.New); err != nil {
		return stored, err
	}
	return stored, s.hint(ctx, tx, slices.Concat(stored.Changed, stored.New))
}

// DeleteUser deletes a user. If an event of the user is in flight, DeleteUser hides the user
// instead, unless options.AtOnce is set.
//
// DeleteUser changes no lease. To remove ids from a lease, it would have to lock the lease until
// the end of the transaction, which may be the host's. Meanwhile the other events of the lease
// could not be renewed. A lease that holds no event is not renewed. It is ended by the settlement
// that does not find its event, or by ReleaseExpired.
func (s *Store) DeleteUser(ctx context.Context, id uuid.UUID, options almanac.DeleteOptions) (almanac.DeleteResult, error) {
	var d almanac.DeleteResult
	err := s.transact(ctx, "delete user", func(ctx context.Context, tx pgx.Tx) (err error) {
		if err := s.seesLatest(ctx, tx); err != nil {
			return err
		}
		lock := pgx.StrictNamedArgs{"id": id, "hidden": options.AtOnce}
		version, err := one(ctx, tx, s.statements.LockUserForDeletion, lock, pgx.RowTo[int])
		if err != nil {
			return missing(err, "user", id)
		}
		if options.Version != 0 && options.Version != version {
			return asIs(&almanac.OptimisticLockError{UserID: id, Expected: options.Version})
		}
		args := pgx.StrictNamedArgs{"id": id}
		if d, err = s.dropPending(ctx, tx, args); err != nil {
			return err
		}
		if options.AtOnce || len(d.InFlight) == 0 {
			_, err = tx.Exec(ctx, s.statements.DeleteUser, args)
			return err
		}
		_, err = tx.Exec(ctx, s.statements.HideUser, args)
		return err
	})
	if err != nil {
		return almanac.DeleteResult{}, err
	}
	return d, nil
}

// dropPending deletes the pending events of a user, and returns their number and the events in
// flight. It waits for transactions that claim, settle or release events of the user.
func (s *Store) dropPending(ctx context.Context, tx pgx.Tx, args pgx.StrictNamedArgs) (d almanac.DeleteResult, err error) {
	for _, sql := range []string{s.statements.LockSeries, s.statements.LockQueue, s.statements.ReleaseAhead} {
		if _, err = tx.Exec(ctx, sql, args); err != nil {
			return d, err
		}
	}
	if d.Removed, err = one(ctx, tx, s.statements.DeletePending, args, pgx.RowTo[int]); err != nil {
		return d, err
	}
	d.InFlight, err = all(ctx, tx, s.statements.OpenEvents, args, scanID)
	return d, err
}

func userArgs(u almanac.User) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"id": u.ID, "first_name": u.FirstName, "last_name": u.LastName,
		"date_of_birth": birthArg(u.DateOfBirth), "timezone": u.Timezone.String(), "attributes": string(u.Attributes),
		"locale": textOrNull(u.Locale), "email": textOrNull(u.Email), "external_id": textOrNull(u.ExternalID),
		"opt_outs":    textOrNull(formatOptOuts(u.OptOuts)),
		"folded_name": fold.Text(u.Name()), "folded_last_name": fold.Text(u.LastName), "folded_email": textOrNull(fold.Text(u.Email)),
	}
}

// unknownYear is the year of a stored date of birth whose year is not known: a leap year,
// which has each day.
const unknownYear = 4

// birthArg returns a date of birth in the form of the column.
func birthArg(d almanac.DateOfBirth) pgtype.Date {
	if d.IsZero() {
		return pgtype.Date{}
	}
	date := d.Date()
	if _, known := d.Year(); !known {
		date.Year = unknownYear
	}
	return pgtype.Date{Time: calendar.WallTime{Date: date}.Labelled(), Valid: true}
}

// birthOf is the inverse of birthArg.
func birthOf(stored pgtype.Date) (almanac.DateOfBirth, error) {
	switch {
	case !stored.Valid:
		return almanac.DateOfBirth{}, nil
	case stored.Time.Year() == unknownYear:
		return almanac.ParseDateOfBirth(stored.Time.Format("--01-02"))
	}
	return almanac.ParseDateOfBirth(stored.Time.Format(time.DateOnly))
}

// missing replaces pgx.ErrNoRows by an [*almanac.NotFoundError] for an object of a kind.
func missing(err error, kind string, id uuid.UUID) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return asIs(&almanac.NotFoundError{Kind: kind, ID: id})
	}
	return err
}
