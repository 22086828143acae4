package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// pending matches the pending events of the given types.
func pending(types []string) func(almanac.Event) bool {
	return func(e almanac.Event) bool { return e.Status == almanac.Pending && slices.Contains(types, e.Type) }
}

// Claim claims events that are due.
func (r *Repository) Claim(ctx context.Context, request almanac.ClaimRequest) (claim almanac.ClaimResult, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		if _, used := r.leases[request.Token]; used || request.Limit < 0 {
			return fmt.Errorf("almanactest: claim of %d events under token %s, which must be new", request.Limit, request.Token)
		}
		claim = almanac.ClaimResult{Users: make(map[uuid.UUID]almanac.User), At: now}
		r.clockSetBack(now, request.Lease/3)
		waiting, free := r.claimable(request, now)
		asked := time.Now()
		if len(waiting) > 0 { // they have half of each claim if they need it, and every other claim of one event
			r.claims++
			half := min(len(free), (request.Limit+r.claims%2)/2)
			waiting = r.admitted(waiting, request.Limit-half, now)
			request.Limit = half
		}
		if free, claim.Reached = r.inTurn(free, request.Limit); claim.Reached.After(now) { // others may become available before those that were taken ahead
			claim.Reached = now
		}
		if len(waiting) > 0 {
			claim.Limited = make(map[uuid.UUID]time.Time, len(waiting))
		}
		held := lease{
			owner: request.Owner, program: request.Program, zoneData: request.ZoneData, claimed: now, expires: now.Add(request.Lease),
		}
		if request.Ahead > 0 {
			held.ahead = now
		}
		for i, e := range slices.Concat(free, waiting) {
			claimed, err := e.Claim(request.Token)
			if err != nil {
				return err
			}
			claimed = r.put(claimed, now)
			used := r.used[seriesOf(e)]
			if slices.ContainsFunc(used, func(k almanac.UsedKey) bool { return k.Unit != e.KeyUnit }) {
				claimed.UsedBefore = used
			}
			claim.Events = append(claim.Events, claimed)
			if i >= len(free) {
				claim.Limited[e.ID] = asked
			}
			claim.Placed = claim.Placed || slices.ContainsFunc(lanesOf(e), func(name string) bool { return r.limits[name].Places > 0 || r.breakers[name].Allowed > 0 })
			claim.Failing = claim.Failing || slices.ContainsFunc(lanesOf(e), func(name string) bool { _, is := r.breakers[name]; return is })
			claim.Users[e.UserID] = r.users[e.UserID].User
			held.ids = append(held.ids, e.ID)
		}
		if len(held.ids) > 0 {
			set(&r.undo, r.leases, request.Token, held)
		}
		slices.SortFunc(claim.Events, func(a, b almanac.Event) int {
			return cmp.Or(a.Due.Compare(b.Due), bytes.Compare(a.ID[:], b.ID[:]))
		})
		return nil
	})
	return claim, err
}

// Renew prolongs leases by another term.
func (r *Repository) Renew(ctx context.Context, tokens []uuid.UUID, term time.Duration) (held []uuid.UUID, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		held = nil
		for _, token := range tokens {
			if r.holds(token) {
				l := r.leases[token]
				if l.claimed.After(now) {
					l.claimed = now
				}
				l.expires = now.Add(term)
				set(&r.undo, r.leases, token, l)
				held = append(held, token)
			}
		}
		return nil
	})
	return held, err
}

// Release releases the events that are still held under a token.
func (r *Repository) Release(ctx context.Context, token uuid.UUID) (released []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		released, err = r.releaseUnder(token, math.MaxInt, almanac.Released(almanac.AfterShutdown, "released", 0), now)
		return err
	})
	return released, err
}

// ReleaseExpired releases the events of expired leases, ends leases without events, and
// removes deleted users without events in flight.
func (r *Repository) ReleaseExpired(ctx context.Context, limit, shared int) (released []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		released = nil
		r.moveEarlyLeases(now)
		expired := slices.DeleteFunc(slices.Collect(maps.Keys(r.leases)), func(t uuid.UUID) bool { return !r.leases[t].expires.Before(now) })
		slices.SortFunc(expired, func(a, b uuid.UUID) int { return r.leases[a].expires.Compare(r.leases[b].expires) })
		for _, token := range expired {
			before, alone := maps.Clone(r.events), r.leases[token].alone
			events, err := r.releaseUnder(token, limit-len(released), almanac.Released(almanac.AfterCrash, "lease expired", 0), now)
			if err != nil {
				return err
			}
			for i, e := range events {
				if was := before[e.ID].CrashCount; was >= shared && e.ID != alone {
					events[i].CrashCount = was
					e = r.events[e.ID]
					e.CrashCount = was
					r.store(e)
				}
			}
			released = append(released, events...)
		}
		for token := range r.leases {
			r.endLease(token)
		}
		r.removeHidden()
		return nil
	})
	return released, err
}

// TryAlone stores that an event is tried alone.
func (r *Repository) TryAlone(ctx context.Context, e almanac.Event) error {
	return r.transact(ctx, func(time.Time) error {
		if !r.stillHeld(e) {
			return almanac.ErrLeaseLost
		}
		l := r.leases[e.LeaseToken]
		l.alone = e.ID
		set(&r.undo, r.leases, e.LeaseToken, l)
		return nil
	})
}

// moveEarlyLeases moves leases that begin in the future to now. They were written before the clock
// was set back, and would otherwise hold their events until the clock reaches that time again.
func (s *state) moveEarlyLeases(now time.Time) {
	for token, l := range s.leases {
		if l.claimed.After(now) {
			l.claimed, l.expires = now, now.Add(l.expires.Sub(l.claimed))
			set(&s.undo, s.leases, token, l)
		}
	}
}

// releaseUnder releases up to limit events that are held under a token, and ends the lease
// when none is left. The events of a deleted user end instead.
func (s *state) releaseUnder(token uuid.UUID, limit int, outcome almanac.Outcome, now time.Time) ([]almanac.Event, error) {
	var released []almanac.Event
	for _, id := range s.leases[token].ids {
		if len(released) == limit {
			break
		}
		e, ok := s.events[id]
		if !ok || e.Status != almanac.Processing || e.LeaseToken != token {
			continue
		}
		one, err := s.releaseOne(e, outcome, now)
		if err != nil {
			return nil, err
		}
		released = append(released, one)
	}
	s.endLease(token)
	return released, nil
}

// releaseOne releases an event. If it was claimed ahead and is not due yet, it has not
// started, and no attempt or crash is counted.
func (s *state) releaseOne(e almanac.Event, outcome almanac.Outcome, now time.Time) (almanac.Event, error) {
	if s.isAhead(e, now) {
		return s.release(e, now), nil
	}
	next, err := s.endOf(e, outcome).Apply(e, now)
	if err != nil {
		return e, err
	}
	return s.put(next, now), nil
}

// endOf returns the outcome to store: events of a deleted user are not tried again.
func (s *state) endOf(e almanac.Event, o almanac.Outcome) almanac.Outcome {
	if _, err := s.visible(e.UserID); err != nil && o.Status == almanac.Pending {
		return almanac.GaveUp(almanac.ReasonUserDeleted)
	}
	return o
}

// holds reports whether a lease still holds an event.
func (s *state) holds(token uuid.UUID) bool {
	return slices.ContainsFunc(s.leases[token].ids, func(id uuid.UUID) bool {
		e := s.events[id]
		return e.Status == almanac.Processing && e.LeaseToken == token
	})
}

// endLease ends a lease that holds no event.
func (s *state) endLease(token uuid.UUID) {
	if !s.holds(token) {
		remove(&s.undo, s.leases, token)
	}
}

// Settle stores outcomes and successors.
func (r *Repository) Settle(ctx context.Context, settlements []almanac.Settlement) (settled []almanac.SettleResult, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		settled = make([]almanac.SettleResult, len(settlements))
		for i, s := range settlements {
			settled[i] = r.settle(s, now)
			r.endLease(s.Event.LeaseToken)
		}
		return nil
	})
	return settled, err
}

func (s *state) settle(one almanac.Settlement, now time.Time) almanac.SettleResult {
	stored, ok := s.events[one.Event.ID]
	if !ok {
		return almanac.SettleResult{Err: &almanac.NotFoundError{Kind: "event", ID: one.Event.ID}}
	}
	if one.StoredAs(stored) {
		return s.recognise(one, stored)
	}
	if stored.Status != almanac.Processing || stored.Version != one.Event.Version || stored.LeaseToken != one.Event.LeaseToken {
		return almanac.SettleResult{Err: almanac.ErrLeaseLost}
	}
	next, err := s.endOf(stored, one.Outcome).Apply(stored, now)
	if err != nil {
		return almanac.SettleResult{Err: err}
	}
	result := almanac.SettleResult{Event: s.put(next, now)}
	if u, err := s.visible(stored.UserID); err == nil && next.Status.Terminal() {
		s.succeed(&result, one, u, now)
		s.follow(&result, one, u, now)
	}
	return result
}

// recognise returns the result of a settlement that an earlier call stored, after the answer of
// that call was lost. It plans the successor and the follow-ups again to find the keys of the stored events.
func (s *state) recognise(one almanac.Settlement, stored almanac.Event) almanac.SettleResult {
	result := almanac.SettleResult{Event: copied(stored)}
	u, err := s.visible(stored.UserID)
	if err != nil || !stored.Status.Terminal() {
		return result
	}
	find := func(wanted almanac.Event) *almanac.Event {
		for _, e := range s.events {
			if seriesOf(e) == seriesOf(wanted) && e.OccurrenceKey == wanted.OccurrenceKey && e.KeyUnit == wanted.KeyUnit &&
				e.CreatedAt.Equal(stored.UpdatedAt) {
				e = newborn(copied(e), e.CreatedAt) // whatever has happened to it since
				return &e
			}
		}
		return nil
	}
	if one.Next != nil {
		if next, err := one.Next(u, stored.UpdatedAt); err == nil && seriesOf(next) == seriesOf(stored) {
			result.Successor = find(next)
		}
	}
	if one.Follow != nil {
		follow, _ := one.Follow(u, stored.UpdatedAt)
		for _, f := range follow {
			if e := find(f); e != nil {
				result.Followed = append(result.Followed, *e)
			}
		}
	}
	return result
}

// succeed stores the successor of an event that has ended.
func (s *state) succeed(result *almanac.SettleResult, one almanac.Settlement, u almanac.User, now time.Time) {
	if one.Next == nil {
		return
	}
	successor, err := one.Next(u, now)
	switch {
	case errors.Is(err, calendar.ErrNoOccurrence):
	case err != nil:
		s.stall(result, err, now)
	default:
		e, inserted, err := s.insert(successor, now)
		if err != nil {
			s.stall(result, err, now)
		}
		if inserted {
			result.Successor = &e
		}
	}
}

// stall stores the series of an event that has ended, and whose successor cannot be planned or stored.
func (s *state) stall(result *almanac.SettleResult, err error, now time.Time) {
	is := result.Event.Stalled(err, now)
	result.PlanErr, result.Stalled = err, &is
	set(&s.undo, s.waits, seriesOf(result.Event), is)
}

// follow stores the follow-ups of an event that has ended.
func (s *state) follow(result *almanac.SettleResult, one almanac.Settlement, u almanac.User, now time.Time) {
	if one.Follow == nil {
		return
	}
	list, err := one.Follow(u, now)
	for _, e := range list {
		e, inserted, refused := s.insert(e, now)
		err = errors.Join(err, refused)
		if inserted {
			result.Followed = append(result.Followed, e)
		}
	}
	result.FollowErr = err
}

// Until returns how long it is until the next event can be claimed.
func (r *Repository) Until(ctx context.Context, types []string, mark time.Time) (wait time.Duration, known bool, err error) {
	err = r.read(ctx, func(now time.Time) error {
		for in := range r.queues {
			if !slices.Contains(types, in.eventType) {
				continue
			}
			at, any := r.next(in, mark, now)
			if !any {
				continue
			}
			if left := at.Sub(now); !known || left < wait {
				wait, known = left, true
			}
		}
		return nil
	})
	return wait, known, err
}
