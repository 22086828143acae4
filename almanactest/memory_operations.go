package almanactest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
)

// cancel ends a pending event that nobody delivers.
func (s *state) cancel(to almanac.Event, now time.Time) (almanac.Event, error) {
	e, ok := s.events[to.ID]
	if !ok || e.Version != to.Version-1 || e.Status != almanac.Pending {
		return e, &almanac.OptimisticLockError{EventID: to.ID, Expected: to.Version - 1}
	}
	return s.put(to, now), storable(to)
}

// hurry lets a pending event that was claimed before be claimed again at another
// moment.
func (s *state) hurry(to almanac.Event, now time.Time) (almanac.Event, error) {
	e, ok := s.events[to.ID]
	if !ok || e.Version != to.Version-1 || e.Status != almanac.Pending || e.ClaimCount == 0 {
		return e, &almanac.OptimisticLockError{EventID: to.ID, Expected: to.Version - 1}
	}
	e.Version, e.AvailableAt = to.Version, to.AvailableAt
	if e.AvailableAt.Before(e.Due) {
		e.AvailableAt = e.Due
	}
	return s.put(e, now), nil
}

// requeue stores an event that begins again, unless its series has an open event or
// has used up the occurrence.
func (s *state) requeue(e almanac.Event, now time.Time) (almanac.Event, bool) {
	if s.hasOpen(seriesOf(e)) || s.usedUp(e) {
		return e, false
	}
	e.CreatedAt = now
	return s.put(e, now), true
}

// Pause notes that a type of event is paused, unless it is already.
func (r *Repository) Pause(ctx context.Context, eventType string) error {
	return r.transact(ctx, func(now time.Time) error {
		if _, already := r.pauses[eventType]; !already {
			r.pauses[eventType] = now
		}
		return nil
	})
}

// Resume forgets that a type of event is paused.
func (r *Repository) Resume(ctx context.Context, eventType string) error {
	return r.transact(ctx, func(time.Time) error {
		delete(r.pauses, eventType)
		return nil
	})
}

// Paused returns what is paused, in the order of types.
func (r *Repository) Paused(ctx context.Context) (paused []almanac.Pause, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, eventType := range slices.Sorted(maps.Keys(r.pauses)) {
			paused = append(paused, almanac.Pause{EventType: eventType, Since: r.pauses[eventType]})
		}
		return nil
	})
	return paused, err
}

// unpaused returns those of the types that are not paused.
func (s *state) unpaused(types []string) []string {
	return slices.DeleteFunc(slices.Clone(types), func(eventType string) bool {
		_, paused := s.pauses[eventType]
		return paused
	})
}
