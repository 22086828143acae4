package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// addInHalves adds events for users in one transaction. If the database refuses a row, or the
// transaction takes too long, it adds them for each half of the users, and for halves of a half. So
// only the events of the users who cause the error are missing: add is called for each of these
// users alone. With an error it returns what is stored already, because observers are told of it.
func addInHalves(users []uuid.UUID, add func([]uuid.UUID) (almanac.AddEventsResult, error)) (almanac.AddEventsResult, error) {
	added, err := add(users)
	if err == nil {
		return added, nil
	}
	if len(users) < 2 || !refused(err) && !tookTooLong(err) {
		return almanac.AddEventsResult{}, err // the transaction stored nothing
	}
	added = almanac.AddEventsResult{}
	for half := range slices.Chunk(users, (len(users)+1)/2) {
		more, err := addInHalves(half, add)
		added.Users += more.Users
		added.Locked, added.Refused = append(added.Locked, more.Locked...), append(added.Refused, more.Refused...)
		added.Stalled, added.Events = append(added.Stalled, more.Stalled...), append(added.Events, more.Events...)
		if err != nil {
			return added, err
		}
	}
	return added, nil
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
