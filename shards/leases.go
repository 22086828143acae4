package shards

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Release releases the events of a token in all schemas. If a schema does not answer, it returns the events of the others, and a
// [*PartialError].
func (s *Store) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	return s.released(ctx, func(ctx context.Context, r almanac.Repository) ([]almanac.Event, error) { return r.Release(ctx, token) })
}

// released asks all schemas for events that they release, and returns those that come with an error, too.
func (s *Store) released(ctx context.Context, release func(context.Context, almanac.Repository) ([]almanac.Event, error)) ([]almanac.Event, error) {
	type result struct {
		events []almanac.Event
		err    error
	}
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) (result, error) {
		events, err := release(ctx, r)
		return result{events, err}, nil
	})
	failed := s.failures()
	if !failed.takes(err) {
		return nil, err
	}
	var events []almanac.Event
	for _, one := range answers {
		events = append(events, one.is.events...)
		if isRefusal(one.is.err) {
			return events, one.is.err
		}
		failed.add(one.schema, one.is.err)
	}
	return events, failed.partial()
}

// ReleaseExpired releases events of one schema after another, up to the limit. If a schema does not answer, it returns the
// events of the others, and a [*PartialError].
func (s *Store) ReleaseExpired(ctx context.Context, limit, shared int) ([]almanac.Event, error) {
	failed := s.failures()
	var events []almanac.Event
	for i := range s.names {
		if len(events) >= limit && i > 0 {
			break
		}
		released, err := quicklyIn(ctx, s, i, tending, func(ctx context.Context) ([]almanac.Event, error) {
			return ask(s, i, func(r almanac.Repository) ([]almanac.Event, error) {
				return r.ReleaseExpired(ctx, limit-len(events), shared)
			})
		})
		events = append(events, released...)
		if isRefusal(err) || ctx.Err() != nil && err != nil {
			return events, err
		}
		failed.add(i, err)
	}
	return events, failed.partial()
}

// TryAlone stores that an event is tried alone.
func (s *Store) TryAlone(ctx context.Context, e almanac.Event) error {
	r, err := s.at(s.of(e.UserID))
	if err != nil {
		return err
	}
	return r.TryAlone(ctx, e)
}

// Confirm asks the schemas of the events. If a schema does not answer, its events are in Busy, so that they are confirmed
// later. The call fails if no schema answers.
func (s *Store) Confirm(ctx context.Context, events []almanac.Event) (almanac.ConfirmResult, error) {
	var result almanac.ConfirmResult
	failed := s.failures()
	answered := false
	for schema, group := range bySchema(s, events, userOfEvent) {
		if group == nil && (len(events) > 0 || schema != max(s.bound, 0)) {
			continue
		}
		own := pick(events, group)
		one, err := quicklyIn(ctx, s, schema, confirming, func(ctx context.Context) (almanac.ConfirmResult, error) {
			return ask(s, schema, func(r almanac.Repository) (almanac.ConfirmResult, error) { return r.Confirm(ctx, own) })
		})
		if isRefusal(err) || ctx.Err() != nil && err != nil {
			return almanac.ConfirmResult{}, err
		}
		if failed.add(schema, err); err != nil {
			for _, e := range own {
				result.Busy = append(result.Busy, e.ID)
			}
			continue
		}
		answered = true
		result.Held, result.Busy = append(result.Held, one.Held...), append(result.Busy, one.Busy...)
		result.At = earliest(result.At, one.At)
	}
	if !answered {
		return almanac.ConfirmResult{}, failed.partial()
	}
	return result, nil
}

// Return releases events that were claimed ahead. If a schema does not answer, it returns the events of the others, and a
// [*PartialError].
func (s *Store) Return(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	return ofEvents(ctx, s, events, func(ctx context.Context, r almanac.Repository, events []almanac.Event) ([]almanac.Event, error) {
		return r.Return(ctx, events)
	})
}

// LeaseEach gives each event a lease of its own. If a schema does not answer, it returns the events of the others. The call
// fails if no schema answers.
func (s *Store) LeaseEach(ctx context.Context, events []almanac.Event, owner string, lease time.Duration) (almanac.ClaimResult, error) {
	m := merger{request: almanac.ClaimRequest{Ahead: 1}}
	m.result.Users = make(map[uuid.UUID]almanac.User)
	claims, err := ofEvents(ctx, s, events, func(ctx context.Context, r almanac.Repository, events []almanac.Event) ([]almanac.ClaimResult, error) {
		one, err := r.LeaseEach(ctx, events, owner, lease)
		if err != nil {
			return nil, err
		}
		return []almanac.ClaimResult{one}, nil
	})
	if err != nil && len(claims) == 0 {
		return almanac.ClaimResult{}, err
	}
	for _, one := range claims {
		m.add(part{}, one, 0)
	}
	m.result.Events = asListed(m.result.Events, events)
	return m.result, nil
}
