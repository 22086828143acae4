package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
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

// Users returns the users with the given ids and external ids, without deleted users.
func (s *Store) Users(ctx context.Context, ids []uuid.UUID, externalIDs []string) (users []almanac.User, err error) {
	err = s.do(ctx, "find users by id", func(ctx context.Context, db DB) (err error) {
		users, err = all(ctx, db, s.statements.UsersByIds, pgx.StrictNamedArgs{"ids": uuids(ids), "external_ids": externalIDs}, scanUsers())
		return err
	})
	return users, err
}

// DeleteUser deletes a user. If an event of the user is in flight, DeleteUser hides the user
// instead, unless options.AtOnce is set. A user with more than 5,000 ended events, or as many other
// rows, is hidden in either case: see [almanac.DeleteOptions].
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
			done, err := tx.Exec(ctx, s.statements.DeleteUser, args)
			d.Hidden = done.RowsAffected() == 0
			return err
		}
		d.Hidden = true
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
	if _, err = tx.Exec(ctx, s.statements.LockSeries, args); err != nil {
		return d, err
	}
	var pending []uuid.UUID
	for _, sql := range []string{s.statements.LockQueue, s.statements.ReleaseAhead} {
		ids, err := all(ctx, tx, sql, args, scanID)
		if err != nil {
			return d, err
		}
		pending = append(pending, ids...)
	}
	removed, err := all(ctx, tx, s.statements.RemoveEvents, pgx.StrictNamedArgs{"ids": uuids(pending), "versions": []int(nil)}, scanID)
	if err != nil {
		return d, err
	}
	d.Removed = len(removed)
	d.InFlight, err = all(ctx, tx, s.statements.LockSeries, args, scanID)
	slices.SortFunc(d.InFlight, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return d, err
}

// unknownYear is the year of a stored date of birth whose year is not known: a leap year, which has each day.
const unknownYear = 4

// birthArg returns a Gregorian date of birth in the form of the column. For others it is NULL.
func birthArg(d almanac.DateOfBirth) pgtype.Date {
	if d.IsZero() || d.Calendar() != "" {
		return pgtype.Date{}
	}
	date := d.Date()
	if _, known := d.Year(); !known {
		date.Year = unknownYear
	}
	return pgtype.Date{Time: calendar.WallTime{Date: date}.Labelled(), Valid: true}
}

// birthDay returns a date of birth by another calendar in the form of the column. For others it is "".
func birthDay(d almanac.DateOfBirth) string {
	if d.Calendar() == "" {
		return ""
	}
	return d.Day().String()
}

// birthOf is the inverse of birthArg.
func birthOf(stored pgtype.Date) (almanac.DateOfBirth, error) {
	switch {
	case !stored.Valid:
		return almanac.DateOfBirth{}, nil
	case stored.Time.Year() == unknownYear:
		return almanac.StoredDateOfBirth(stored.Time.Format("--01-02"), "")
	}
	date := make([]byte, 0, len(time.DateOnly)) // of the stack
	return almanac.StoredDateOfBirth(string(stored.Time.AppendFormat(date, time.DateOnly)), "")
}

// birthBy is the inverse of birthDay. The program may not know the calendar.
func birthBy(system, day string) (almanac.DateOfBirth, error) {
	if len(day) < len("0000-00-00") {
		day = "--" + day
	}
	return almanac.StoredDateOfBirth(day, system)
}

const (
	// mostHidden is how many users one call of removeHidden removes at most. It is not the limit of
	// ReleaseExpired, because a caller halves that limit after an error.
	mostHidden = 100
	// mostRounds is how many pages of one user's rows it deletes.
	mostRounds = 20
)

// removeHidden removes some deleted users who have no event in flight. Each transaction deletes one user,
// or a page of the rows of a user with many, and the users take turns. No page begins after half the
// timeout of the store. The database may refuse to delete a user, for example because of a foreign key of
// the host, or need too long. Then removeHidden goes on with the others, and returns an error.
func (s *Store) removeHidden(ctx context.Context) error {
	var hidden []uuid.UUID
	err := s.do(ctx, "find deleted users", func(ctx context.Context, db DB) (err error) {
		hidden, err = all(ctx, db, s.statements.HiddenUsers, pgx.StrictNamedArgs{"limit": mostHidden}, scanID)
		return err
	})
	if err != nil {
		return err
	}
	begins, cancel := context.WithTimeout(ctx, s.timeout/2)
	defer cancel()
	var causes []error
	for range mostRounds {
		var left []uuid.UUID
		for _, id := range hidden {
			if begins.Err() != nil {
				return together(causes)
			}
			more, err := s.removePage(ctx, id)
			switch {
			case err == nil && more:
				left = append(left, id)
			case err != nil && !mayBeOneRow(err):
				return errors.Join(err, together(causes))
			case err != nil:
				causes = append(causes, err)
			}
		}
		hidden = left
	}
	return together(causes)
}

// removePage removes a deleted user, or a page of the user's rows, and reports whether rows are left. Its
// transaction locks the user before series. It waits for no lock of a lease.
func (s *Store) removePage(ctx context.Context, id uuid.UUID) (more bool, err error) {
	err = s.transact(ctx, "remove deleted user", func(ctx context.Context, tx pgx.Tx) (err error) {
		more, err = one(ctx, tx, s.statements.RemoveHiddenUser, pgx.StrictNamedArgs{"id": id}, pgx.RowTo[bool])
		return err
	})
	return more, err
}

// FindUsers returns the users whom filter selects, a page at a time.
func (s *Store) FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error) {
	limit, after, err := filter.Bounds(page)
	if err != nil {
		return almanac.List[almanac.User]{}, err
	}
	sql, args := s.statements.FindUsers, pgx.StrictNamedArgs{
		"email": fold.Text(filter.Email), "external_id": filter.ExternalID, "zone_source": string(filter.ZoneSource), "after": after.ID, "limit": limit + 1,
	}
	if filter.Name != "" {
		sql = s.statements.FindUsersByName
		args["least"], args["after_name"] = nameBounds(filter.Name, after)
	}
	var found almanac.List[almanac.User]
	err = s.list(ctx, "find users", func(ctx context.Context, db DB) error {
		users, err := all(ctx, db, sql, args, scanUsers())
		found = filter.PageOf(users, limit)
		return err
	})
	return found, err
}

// nameBounds returns the beginning of the names that a page lists, and the name after which the page begins. The user after whom it
// begins was listed by the full name if that matches, and otherwise by the last name. The first page begins after no name.
func nameBounds(name string, after almanac.User) (least, afterName string) {
	least, afterName = fold.Text(name), fold.Text(after.Name())
	if !strings.HasPrefix(afterName, least) {
		afterName = fold.Text(after.LastName)
	}
	return least, max(least, afterName)
}
