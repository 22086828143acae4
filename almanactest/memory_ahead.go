package almanactest

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// isAhead reports whether an event was claimed ahead of its instant and cannot have
// begun. A clock that stands before the claim was set back, and says nothing.
func (s *state) isAhead(e almanac.Event, now time.Time) bool {
	since := s.leases[e.LeaseToken].ahead
	return e.Status == almanac.Processing && e.ClaimCount == 1 && !since.IsZero() && !now.Before(since) && now.Before(e.Due)
}

// takeBack puts an event back into the queue that was claimed ahead.
func (s *state) takeBack(e almanac.Event, now time.Time) almanac.Event {
	e.Status, e.AvailableAt, e.LeaseToken, e.ClaimCount = almanac.Pending, e.Due, uuid.Nil, 0
	e.Version++
	return s.put(e, now)
}

// takeBackAll does so for all that a user is owed.
func (s *state) takeBackAll(user uuid.UUID, now time.Time) {
	for _, e := range s.matching(func(e almanac.Event) bool { return e.UserID == user && s.isAhead(e, now) }) {
		s.takeBack(e, now)
	}
}

// Confirm says which events that were claimed ahead are still held.
func (r *Repository) Confirm(ctx context.Context, events []almanac.Event) (confirmed almanac.Confirmed, err error) {
	err = r.read(ctx, func(now time.Time) error {
		confirmed = almanac.Confirmed{At: now}
		for _, e := range events {
			if r.stillHeld(e) {
				confirmed.Held = append(confirmed.Held, e.ID)
			}
		}
		return nil
	})
	return confirmed, err
}

// stillHeld reports whether an event is as it was claimed.
func (s *state) stillHeld(e almanac.Event) bool {
	stored := s.events[e.ID]
	return stored.Status == almanac.Processing && stored.LeaseToken == e.LeaseToken && stored.Version == e.Version
}

// Return gives back events that were claimed ahead.
func (r *Repository) Return(ctx context.Context, events []almanac.Event) (returned []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		returned = nil
		for _, e := range events {
			if !r.stillHeld(e) {
				r.endLease(e.LeaseToken)
				continue
			}
			given, err := r.giveBackOne(r.events[e.ID], almanac.GaveBack(almanac.AfterShutdown, "released", 0), now)
			if err != nil {
				return err
			}
			returned = append(returned, given)
			r.endLease(e.LeaseToken)
		}
		return nil
	})
	return returned, err
}
