package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// failAll is how many rows alone may be doubtful or take too long before another call succeeds. If
// more do, it is not their fault.
const failAll = 3

// inHalves stores items in one call. If the database refuses a row, or the call takes too long, it
// stores each half of the items, and halves of a half. Until a call succeeds, it takes the smallest
// part next, which shows soonest whether the database works. From then on it takes the largest.
//
// An item for which store fails alone is left to setAside, with the error. If every call is doubtful
// or takes too long, inHalves fails, and sets nothing aside. It returns other errors at once.
func inHalves[T any](items []T, store func([]T) error, setAside func(T, error) error) error {
	type suspect struct {
		item T
		err  error
	}
	var suspects []suspect
	works := false
	for parts := [][]T{items}; len(parts) > 0; {
		var part []T
		if works {
			part, parts = parts[0], parts[1:]
		} else {
			part, parts = parts[len(parts)-1], parts[:len(parts)-1]
		}
		err := store(part)
		switch rejected := ofStore(err); {
		case err == nil:
			works = true
		case !mayBeOneRow(rejected):
			return err
		case len(part) > 1:
			half := (len(part) + 1) / 2
			parts = append(parts, part[half:], part[:half])
		case refused(rejected):
			if err := setAside(part[0], err); err != nil {
				return err
			}
		default:
			suspects = append(suspects, suspect{part[0], err})
		}
		switch {
		case len(parts) > 0 && !works && len(suspects) < failAll:
			continue // it may be the fault of all
		case !works && len(suspects) >= failAll:
			return suspects[0].err
		}
		for _, s := range suspects {
			if err := setAside(s.item, s.err); err != nil {
				return err
			}
		}
		suspects = nil
	}
	return nil
}

// mayBeOneRow reports whether an operation may succeed without one of its rows.
func mayBeOneRow(err error) bool { return refused(err) || doubtful(err) || tookTooLong(err) }

// undoable runs an operation of a transaction under a savepoint, and undoes it after an error. It has
// deferred constraints checked at once, because an error of COMMIT would undo the whole transaction.
func (s *Store) undoable(ctx context.Context, tx pgx.Tx, what string, operation func(pgx.Tx) error) error {
	part, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	defer rollback(ctx, part)
	err = operation(part)
	if err == nil && !s.InTransaction() {
		_, err = part.Exec(ctx, "SET CONSTRAINTS ALL IMMEDIATE")
	}
	if err != nil {
		return wrap(what, err)
	}
	return part.Commit(ctx)
}

// together returns an error for rows that the database refused, or nil if there are none. It has the
// text of the first one only, because there may be thousands.
func together(causes []error) error {
	if len(causes) < 2 {
		return errors.Join(causes...)
	}
	return fmt.Errorf("%w (and %d more rows)", causes[0], len(causes)-1)
}

// addInHalves adds events for users, see inHalves. With an error it returns what is stored already,
// because observers are told of it.
func addInHalves(users []uuid.UUID, add func([]uuid.UUID) (almanac.AddEventsResult, error), setAside func(uuid.UUID, error) (almanac.AddEventsResult, error)) (all almanac.AddEventsResult, err error) {
	note := func(added almanac.AddEventsResult, err error) error {
		if err != nil {
			return err // the transaction stored nothing
		}
		all.Users += added.Users
		all.Locked, all.Refused = append(all.Locked, added.Locked...), append(all.Refused, added.Refused...)
		all.Stalled, all.Events = append(all.Stalled, added.Stalled...), append(all.Events, added.Events...)
		return nil
	}
	err = inHalves(users, func(users []uuid.UUID) error { return note(add(users)) },
		func(user uuid.UUID, cause error) error { return note(setAside(user, cause)) })
	return all, err
}

// ofStore returns an error of an operation of the store, and nil for an error that the caller's
// function returned, even if that error is another database's.
func ofStore(err error) error {
	if f, ok := err.(*failure); ok {
		return f
	}
	return nil
}

// tookTooLong reports whether a statement or a transaction took longer than the database allows, or
// an operation longer than the timeout of the store.
func tookTooLong(err error) bool {
	switch stateOf(err) {
	case queryCanceled, idleTooLong, transactionTooLong:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}
