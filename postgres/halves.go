package postgres

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// failAll is how many users alone may take too long before another call succeeds. If more do, it
// is not their fault.
const failAll = 3

// addInHalves adds events for users in one transaction. If the database refuses a row, or the
// transaction takes too long, it adds them for each half of the users, and for halves of a half.
// Until a call succeeds, it takes the smallest part next, which shows soonest whether the database
// works. From then on it takes the largest.
//
// A user for whom add fails alone is left to setAside, with the error. If every call takes too
// long, addInHalves fails, and refuses no user. With an error it returns what is stored already,
// because observers are told of it.
func addInHalves(users []uuid.UUID, add func([]uuid.UUID) (almanac.AddEventsResult, error), setAside func(uuid.UUID, error) (almanac.AddEventsResult, error)) (all almanac.AddEventsResult, err error) {
	slow, works := 0, false
	for parts := [][]uuid.UUID{users}; len(parts) > 0; {
		var part []uuid.UUID
		if works {
			part, parts = parts[0], parts[1:]
		} else {
			part, parts = parts[len(parts)-1], parts[:len(parts)-1]
		}
		added, err := add(part)
		tooLong := tookTooLong(ofStore(err))
		switch {
		case err == nil:
			works = true
		case !tooLong && !refused(ofStore(err)):
			return all, err // the transaction stored nothing
		case len(part) > 1:
			half := (len(part) + 1) / 2
			parts = append(parts, part[half:], part[:half])
			continue
		default:
			if tooLong {
				slow++
			}
			if slow == failAll && !works {
				all.Refused = nil
				return all, err
			}
			if added, err = setAside(part[0], err); err != nil {
				return all, err
			}
		}
		all.Users += added.Users
		all.Locked, all.Refused = append(all.Locked, added.Locked...), append(all.Refused, added.Refused...)
		all.Stalled, all.Events = append(all.Stalled, added.Stalled...), append(all.Events, added.Events...)
	}
	return all, nil
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
