package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// CreateUsers stores users in their schemas. A schema that does not answer is the error of its users, and then it is
// unknown whether they were stored. The call fails if that is so of all users.
func (s *Store) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	results := make([]almanac.CreateUserResult, len(users))
	left := make([]int, len(users))
	for i := range left {
		left[i] = i
	}
	var failure error
	known := len(users) == 0
	for len(left) > 0 {
		var now, later []int
		given := make(map[string]bool)
		for _, i := range left { // an external id that is given twice is decided by the earlier user
			id := users[i].User.ExternalID
			if id != "" && given[id] {
				later = append(later, i)
				continue
			}
			given[id] = true
			now = append(now, i)
		}
		stored := s.createOnce(ctx, pick(users, now))
		for k, i := range now {
			results[i] = stored[k]
			if errors.Is(stored[k].Err, errUnknown) {
				failure = stored[k].Err
			} else {
				known = true
			}
		}
		left = later
	}
	if !known {
		return nil, failure
	}
	if err := ended(ctx); err != nil { // the caller asks again about the users from the first unknown one on
		if first := slices.IndexFunc(results, func(r almanac.CreateUserResult) bool { return errors.Is(r.Err, errUnknown) }); first >= 0 {
			return results[:first], err
		}
	}
	return results, nil
}

// createOnce stores users whose external ids differ.
func (s *Store) createOnce(ctx context.Context, users []almanac.UserWithEvents) []almanac.CreateUserResult {
	results := make([]almanac.CreateUserResult, len(users))
	attempts, refused := s.reserve(ctx, users)
	groups := bySchema(s, users, func(u almanac.UserWithEvents) uuid.UUID { return u.User.ID })
	var wg sync.WaitGroup
	for schema, group := range groups {
		var create []int
		for _, i := range group {
			if results[i].Err = refused[i]; refused[i] == nil {
				create = append(create, i)
			}
		}
		if create == nil {
			continue
		}
		wg.Go(func() {
			stored, err := ask(s, schema, func(r almanac.Repository) ([]almanac.CreateUserResult, error) {
				return r.CreateUsers(ctx, pick(users, create))
			})
			for k, i := range create {
				if k < len(stored) {
					results[i] = stored[k]
				} else {
					results[i].Err = unknown(err)
				}
			}
		})
	}
	wg.Wait()
	s.created(ctx, attempts, results)
	return results
}

// unknown marks an error after which it is unknown whether a user was created.
func unknown(err error) error {
	if _, bound := errors.AsType[*BoundError](err); bound || err == nil {
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// User returns a user.
func (s *Store) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	return ask(s, s.of(id), func(r almanac.Repository) (almanac.User, error) { return r.User(ctx, id) })
}

// EditUser changes a user and the user's open events.
func (s *Store) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	for tries := 0; ; tries++ {
		var x exchange
		stored, err := ask(s, s.of(id), func(r almanac.Repository) (almanac.Edit, error) {
			return r.EditUser(ctx, id, s.reserving(ctx, &x, edit))
		})
		held, is := errors.AsType[*heldError](err)
		if !is {
			s.tidy(ctx, id, x, err)
			return stored, err
		}
		if again, err := s.takeOver(ctx, held); err != nil {
			return almanac.Edit{}, err
		} else if !again || tries == takeOvers {
			return almanac.Edit{}, held.taken()
		}
	}
}

// errPostponed ends an edit that changes an external id, or that follows one of the same user.
var errPostponed = errors.New("shards: an external id changes")

// EditUsers edits the users of one schema after those of another. Then it makes those edits that change external ids, one by one in
// the order of ids, so that users can hand them to each other. A schema that does not answer is the error of its users alone.
func (s *Store) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	edits, errs := make([]almanac.Edit, len(ids)), make([]error, len(ids))
	postponed := make(map[uuid.UUID]bool)
	for schema, group := range bySchema(s, ids, func(id uuid.UUID) uuid.UUID { return id }) {
		if group == nil {
			continue
		}
		r, err := s.at(schema)
		if err != nil {
			for _, i := range group {
				errs[i] = err
			}
			continue
		}
		stored, failed := r.EditUsers(ctx, pick(ids, group), func(k int, is almanac.Roster) (almanac.Edit, error) {
			if postponed[ids[group[k]]] {
				return almanac.Edit{}, errPostponed
			}
			e, err := edit(group[k], is)
			if err == nil && e.User != nil && e.User.ExternalID != is.User.ExternalID {
				postponed[ids[group[k]]] = true
				return almanac.Edit{}, errPostponed
			}
			return e, err
		})
		for k, i := range group {
			edits[i], errs[i] = stored[k], failed[k]
		}
	}
	for i, err := range errs {
		if errors.Is(err, errPostponed) {
			edits[i], errs[i] = s.EditUser(ctx, ids[i], func(r almanac.Roster) (almanac.Edit, error) { return edit(i, r) })
		}
	}
	return edits, errs
}

// UsedKeys returns the used keys of series of a user.
func (s *Store) UsedKeys(ctx context.Context, userID uuid.UUID, series []almanac.Series) (map[almanac.Series]almanac.UsedKeys, error) {
	return ask(s, s.of(userID), func(r almanac.Repository) (map[almanac.Series]almanac.UsedKeys, error) {
		return r.UsedKeys(ctx, userID, series)
	})
}

// DeleteUser deletes a user, and then the reservation of the user's external id.
func (s *Store) DeleteUser(ctx context.Context, id uuid.UUID, options almanac.DeleteOptions) (almanac.DeleteResult, error) {
	var externalID string
	var was *Held
	if s.reservations != nil && s.bound < 0 {
		u, err := s.User(ctx, id)
		if err != nil && !errors.Is(err, almanac.ErrNotFound) {
			return almanac.DeleteResult{}, err
		}
		if externalID = u.ExternalID; externalID != "" {
			held, err := s.hold(ctx, []Reservation{{ExternalID: externalID, User: id}})
			if err != nil {
				return almanac.DeleteResult{}, err
			}
			if held[0].User == id {
				was = &held[0]
			}
		}
	}
	d, err := ask(s, s.of(id), func(r almanac.Repository) (almanac.DeleteResult, error) { return r.DeleteUser(ctx, id, options) })
	if err == nil {
		s.free(ctx, id, externalID, was)
	}
	return d, err
}

// UserByExternalID asks all schemas. If no schema that answers has the user, the error is a [*PartialError] while others do
// not answer.
func (s *Store) UserByExternalID(ctx context.Context, externalID string) (almanac.User, error) {
	found, err := s.Users(ctx, nil, []string{externalID})
	if len(found) > 0 && externalID != "" {
		return found[0], nil
	}
	if err != nil {
		return almanac.User{}, err
	}
	return almanac.User{}, &almanac.NotFoundError{Kind: "user", ExternalID: externalID}
}

// Users returns users by their ids and external ids. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Users(ctx context.Context, ids []uuid.UUID, externalIDs []string) ([]almanac.User, error) {
	groups := bySchema(s, ids, func(id uuid.UUID) uuid.UUID { return id })
	answers, err := allIndexed(ctx, s, func(ctx context.Context, schema int) ([]almanac.User, error) {
		if groups[schema] == nil && len(externalIDs) == 0 {
			return nil, nil
		}
		return ask(s, schema, func(r almanac.Repository) ([]almanac.User, error) {
			return r.Users(ctx, pick(ids, groups[schema]), externalIDs)
		})
	})
	return joined(answers), err
}

// joined returns the lists of all answers as one.
func joined[T any](answers []answer[[]T]) (list []T) {
	for _, one := range answers {
		list = append(list, one.is...)
	}
	return list
}
