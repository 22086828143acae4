package almanactest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// isAhead reports whether an event was claimed ahead of its instant and cannot have
// started. It returns false when the clock was set back to before the claim.
func (s *state) isAhead(e almanac.Event, now time.Time) bool {
	since := s.leases[e.LeaseToken].ahead
	return e.Status == almanac.Processing && e.ClaimCount == 1 && !since.IsZero() && !now.Before(since) && now.Before(e.FirstAvailable())
}

// release puts an event that was claimed ahead back into the queue.
func (s *state) release(e almanac.Event, now time.Time) almanac.Event {
	e.Status, e.AvailableAt, e.LeaseToken, e.ClaimCount = almanac.Pending, e.FirstAvailable(), uuid.Nil, 0
	e.Version++
	return s.put(e, now)
}

// releaseAll releases all events of a user that were claimed ahead.
func (s *state) releaseAll(user uuid.UUID, now time.Time) {
	for _, e := range s.matching(func(e almanac.Event) bool { return e.UserID == user && s.isAhead(e, now) }) {
		s.release(e, now)
	}
}

// Confirm returns which of the events claimed ahead are still held.
func (r *Repository) Confirm(ctx context.Context, events []almanac.Event) (confirmed almanac.ConfirmResult, err error) {
	err = r.read(ctx, func(now time.Time) error {
		confirmed = almanac.ConfirmResult{At: now}
		for _, e := range events {
			if r.stillHeld(e) {
				confirmed.Held = append(confirmed.Held, e.ID)
			}
		}
		return nil
	})
	return confirmed, err
}

// stillHeld reports whether an event is unchanged since its claim.
func (s *state) stillHeld(e almanac.Event) bool {
	stored := s.events[e.ID]
	return stored.Status == almanac.Processing && stored.LeaseToken == e.LeaseToken && stored.Version == e.Version
}

// Return releases events that were claimed ahead.
func (r *Repository) Return(ctx context.Context, events []almanac.Event) (returned []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		returned = nil
		for _, e := range events {
			if !r.stillHeld(e) {
				r.endLease(e.LeaseToken)
				continue
			}
			given, err := r.releaseOne(r.events[e.ID], almanac.Released(almanac.AfterShutdown, "released", 0), now)
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

// LeaseEach gives each event its own lease.
func (r *Repository) LeaseEach(ctx context.Context, events []almanac.Event, owner string, term time.Duration) (leased almanac.ClaimResult, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		leased = almanac.ClaimResult{Users: make(map[uuid.UUID]almanac.User), At: now}
		for _, e := range events {
			if !r.stillHeld(e) {
				continue
			}
			token, stored, old := uuid.New(), r.events[e.ID], r.leases[e.LeaseToken]
			set(&r.undo, r.leases, token, lease{
				owner: owner, program: old.program, zoneData: old.zoneData,
				claimed: now, expires: now.Add(term), ahead: old.ahead, ids: []uuid.UUID{e.ID},
			})
			old.ids = slices.DeleteFunc(slices.Clone(old.ids), func(id uuid.UUID) bool { return id == e.ID })
			set(&r.undo, r.leases, e.LeaseToken, old)
			stored.LeaseToken = token
			leased.Events = append(leased.Events, copied(r.put(stored, now)))
			if u, err := r.visible(e.UserID); err == nil {
				leased.Users[e.UserID] = u
			}
			r.endLease(e.LeaseToken)
		}
		return nil
	})
	return leased, err
}
