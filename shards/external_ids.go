package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

const (
	// creation is how long the creation of a user may take until its outcome is visible. After that, another user can take
	// over the reservation of an external id that the user does not have.
	creation = 10 * time.Minute
	// takeOvers is how often a call takes over a reservation that others take over too.
	takeOvers = 5
)

// heldError says that an external id is reserved for another user than the one who is edited.
type heldError struct {
	wanted Reservation
	holder Held
}

func (e *heldError) Error() string {
	return fmt.Sprintf("shards: an external id is reserved for user %s", e.holder.User)
}

// taken returns the error for the caller.
func (e *heldError) taken() error {
	return &almanac.ExternalIDTakenError{UserID: e.wanted.User, Holder: e.holder.User, ExternalID: e.wanted.ExternalID}
}

// exchange is the change of an external id by an edit.
type exchange struct {
	was, is string // was is "" if the edit keeps the external id
}

// reserving returns an edit that reserves the external id which the user gets. The user is locked meanwhile, so no other edit
// and no other call that looks what the user has can come between the reservation and the commit.
func (s *Store) reserving(ctx context.Context, x *exchange, edit func(almanac.Roster) (almanac.Edit, error)) func(almanac.Roster) (almanac.Edit, error) {
	return func(r almanac.Roster) (almanac.Edit, error) {
		*x = exchange{}
		e, err := edit(r)
		if err != nil || e.User == nil || e.User.ExternalID == r.User.ExternalID {
			return e, err
		}
		*x = exchange{r.User.ExternalID, e.User.ExternalID}
		if x.is == "" {
			return e, nil
		}
		wanted := Reservation{ExternalID: x.is, User: r.User.ID}
		held, err := s.hold(ctx, []Reservation{wanted})
		if err != nil {
			return almanac.Edit{}, err
		}
		if held[0].User != r.User.ID {
			return almanac.Edit{}, &heldError{wanted, held[0]}
		}
		return e, nil
	}
}

func (s *Store) hold(ctx context.Context, wanted []Reservation) ([]Held, error) {
	if s.reservations == nil {
		return nil, fmt.Errorf("shards: external ids need reservations: %w", errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return s.reservations.Hold(ctx, wanted)
}

// tidy frees what is reserved no longer after an edit.
func (s *Store) tidy(ctx context.Context, user uuid.UUID, x exchange, err error) {
	if err != nil {
		s.free(ctx, user, x.is, nil)
	} else {
		s.free(ctx, user, x.was, nil)
	}
}

// free deletes the reservation of an external id that a user does not have. If the user does not exist, it does so only if
// the reservation is still as it was when it was known that the user is not being created; was is nil if that is unknown. An
// error is not the caller's: the reservation stays, and the next user who wants the external id takes it over.
func (s *Store) free(ctx context.Context, user uuid.UUID, externalID string, was *Held) {
	if externalID == "" || s.reservations == nil || s.bound >= 0 {
		return
	}
	_, err := s.without(ctx, user, externalID, func(ctx context.Context, exists bool) (bool, error) {
		if !exists {
			if was == nil || was.Busy {
				return false, nil
			}
			return true, s.reservations.Free(ctx, externalID, *was)
		}
		is, err := s.hold(ctx, []Reservation{{ExternalID: externalID, User: user}})
		if err != nil || is[0].User != user || is[0].Busy {
			return false, err
		}
		return true, s.reservations.Free(ctx, externalID, is[0])
	})
	if err != nil && !errors.Is(err, almanac.ErrLocked) && s.onError != nil {
		s.onError("reservations", err)
	}
}

// takeOver gives a reservation to another user, if its user does not have the external id. It reports whether it did. A user who does
// not exist may be about to be created while the reservation is busy. It may be busy no longer when the user is looked up, so what counts
// is how it was before.
func (s *Store) takeOver(ctx context.Context, held *heldError) (bool, error) {
	taken, err := s.without(ctx, held.holder.User, held.wanted.ExternalID, func(ctx context.Context, exists bool) (bool, error) {
		if !exists && held.holder.Busy {
			return false, nil
		}
		return s.reservations.Take(ctx, held.holder, held.wanted)
	})
	if errors.Is(err, almanac.ErrLocked) { // such as by a transaction that gives the user the external id
		return false, nil
	}
	return taken, err
}

var (
	errHas  = errors.New("shards: the user has the external id")
	errDone = errors.New("shards: done")
)

// without calls do while a user who does not have an external id is locked, or after it has found that the user does not exist. If the
// user has the external id, it returns false.
func (s *Store) without(ctx context.Context, user uuid.UUID, externalID string, do func(_ context.Context, exists bool) (bool, error)) (done bool, err error) {
	within, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	_, err = s.base[s.of(user)].Repository.EditUser(within, user, func(r almanac.Roster) (almanac.Edit, error) {
		if r.User.ExternalID == externalID {
			return almanac.Edit{}, errHas
		}
		if done, err = do(within, true); err == nil {
			err = errDone
		}
		return almanac.Edit{}, err
	})
	switch {
	case errors.Is(err, errHas):
		return false, nil
	case errors.Is(err, errDone):
		return done, nil
	case errors.Is(err, almanac.ErrNotFound):
		return do(within, false)
	}
	return false, err
}

// reserve reserves the external ids of users to create. errs has the errors of users who cannot get theirs.
func (s *Store) reserve(ctx context.Context, users []almanac.UserWithEvents) (attempts []*attempt, errs []error) {
	attempts, errs = make([]*attempt, len(users)), make([]error, len(users))
	var wanted []Reservation
	var at []int
	for i, u := range users {
		if u.User.ExternalID != "" {
			one := Reservation{ExternalID: u.User.ExternalID, User: u.User.ID, Attempt: uuid.New(), For: creation}
			wanted, at = append(wanted, one), append(at, i)
		}
	}
	if wanted == nil {
		return attempts, errs
	}
	held, err := s.hold(ctx, wanted)
	for k, i := range at {
		switch {
		case err != nil:
			errs[i] = err
		case held[k].User == wanted[k].User:
			attempts[i] = &attempt{wanted[k], !held[k].Busy}
		default:
			attempts[i], errs[i] = s.reserveFrom(ctx, &heldError{wanted[k], held[k]})
		}
	}
	return attempts, errs
}

// attempt is an attempt to create a user with an external id.
type attempt struct {
	Reservation
	only bool // whether no other attempt may still be under way
}

// reserveFrom takes over a reservation for a user to create.
func (s *Store) reserveFrom(ctx context.Context, held *heldError) (*attempt, error) {
	taken, err := s.takeOver(ctx, held)
	if err != nil {
		return nil, err
	}
	if taken {
		return &attempt{held.wanted, true}, nil
	}
	exists := func(r almanac.Repository) (almanac.User, error) { return r.User(ctx, held.wanted.User) }
	if _, err := ask(s, s.of(held.wanted.User), exists); err == nil {
		return nil, fmt.Errorf("%w: user %s", almanac.ErrExists, held.wanted.User)
	}
	return nil, held.taken()
}

// created ends the attempts whose outcomes are known, and frees the external ids of users who were not created.
func (s *Store) created(ctx context.Context, attempts []*attempt, stored []almanac.CreateUserResult) {
	if s.bound >= 0 {
		return // the transaction may still be rolled back
	}
	var ends []Reservation
	var failed []Reservation
	for i, a := range attempts {
		if a == nil || !a.only || errors.Is(stored[i].Err, errUnknown) {
			continue
		}
		ends = append(ends, a.Reservation)
		if stored[i].Err != nil {
			failed = append(failed, a.Reservation)
		}
	}
	if ends == nil {
		return
	}
	within, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if err := s.reservations.End(within, ends); err != nil && s.onError != nil {
		s.onError("reservations", err)
	}
	for _, one := range failed {
		s.free(ctx, one.User, one.ExternalID, &Held{User: one.User, Attempt: one.Attempt})
	}
}

// errUnknown is matched by the error of a user of whom it is unknown whether they were created.
var errUnknown = errors.New("shards: it is unknown whether the user was created")
