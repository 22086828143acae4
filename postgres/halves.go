package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Until a row is stored alone, at most mostTried doubtful rows are tried, or failAll if one takes too long. If failAll
// or more of them failed and none was stored, the cause may be in every row.
const failAll, mostTried = 3, 8

// inHalves stores items in one call. If the database refuses a row, or the call takes too long, it stores rows alone until
// one succeeds, which shows that the database works. It chooses them at random, because refused rows may be neighbours. Then
// it stores each half of the rest, and halves of a half.
//
// An item for which store fails alone is left to setAside, with the error. If every call is doubtful or takes too long,
// inHalves fails, and sets nothing aside. It returns other errors at once.
func inHalves[T any](items []T, store func([]T) error, setAside func(T, error) error) error {
	err := store(items)
	switch {
	case !mayBeOneRow(ofStore(err)):
		return err // nil, too
	case len(items) == 1:
		return setAside(items[0], err)
	}
	type row struct {
		item T
		err  error
	}
	var failed []row
	var doubts []error
	rest, works, most := slices.Clone(items), false, mostTried
	for !works && len(rest) > 0 && len(doubts) < most {
		i := rand.IntN(len(rest))
		item := rest[i]
		rest = slices.Delete(rest, i, i+1)
		err := store([]T{item})
		switch rejected := ofStore(err); {
		case err == nil:
			works = true
			continue
		case !mayBeOneRow(rejected):
			return err
		case doubtful(rejected):
			doubts = append(doubts, err)
		case tookTooLong(rejected): // each further row would take as long
			doubts, most = append(doubts, err), failAll
		}
		failed = append(failed, row{item, err})
	}
	if !works && len(doubts) >= failAll {
		return doubts[0]
	}
	for _, one := range failed {
		if err := setAside(one.item, one.err); err != nil {
			return err
		}
	}
	for parts := halves(rest); len(parts) > 0; parts = parts[1:] {
		part := parts[0]
		err := store(part)
		if mayBeOneRow(ofStore(err)) {
			if len(part) > 1 {
				parts = append(parts, halves(part)...)
				continue
			}
			err = setAside(part[0], err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// halves returns the two halves of items, or fewer if there are fewer items.
func halves[T any](items []T) [][]T {
	return slices.Collect(slices.Chunk(items, max(1, (len(items)+1)/2)))
}

// mayBeOneRow reports whether an operation may succeed without one of its rows. If it is not known whether a transaction was
// stored, its rows are not tried again.
func mayBeOneRow(err error) bool {
	return !unknown(err) && (refused(err) || doubtful(err) || tookTooLong(err))
}

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
// because observers are notified of it.
func addInHalves(users []uuid.UUID, add func([]uuid.UUID) (almanac.AddEventsResult, error), setAside func(uuid.UUID, error) (almanac.AddEventsResult, error)) (all almanac.AddEventsResult, err error) {
	note := func(added almanac.AddEventsResult, err error) error {
		if err != nil {
			return err // the transaction stored nothing
		}
		all = sum(all, added)
		return nil
	}
	err = inHalves(users, func(users []uuid.UUID) error { return note(add(users)) },
		func(user uuid.UUID, cause error) error { return note(setAside(user, cause)) })
	return all, err
}

// sum returns the sum of two results.
func sum(a, b almanac.AddEventsResult) almanac.AddEventsResult {
	a.Users += b.Users
	a.Events, a.Stalled = join(a.Events, b.Events), join(a.Stalled, b.Stalled)
	a.Locked, a.Refused = join(a.Locked, b.Locked), join(a.Refused, b.Refused)
	return a
}

// join appends a list to another. It copies neither if one is empty, because there may be many events.
func join[T any](a, b []T) []T {
	if len(a) == 0 {
		return b
	}
	return append(a, b...)
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
