package shards

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Event returns an event. It asks the schema that the id names, and the others only if that one does not have the event.
func (s *Store) Event(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
	e, err := ask(s, s.named(id), func(r almanac.Repository) (almanac.Event, error) { return r.Event(ctx, id) })
	if err == nil {
		return e, nil
	}
	others, partial := s.eventsElsewhere(ctx, []uuid.UUID{id})
	switch {
	case len(others) > 0:
		return others[0], nil
	case !errors.Is(err, almanac.ErrNotFound):
		return almanac.Event{}, err
	case partial != nil:
		return almanac.Event{}, partial
	}
	return almanac.Event{}, err
}

// Events returns the events that exist. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Events(ctx context.Context, ids []uuid.UUID) ([]almanac.Event, error) {
	groups := make([][]uuid.UUID, len(s.names))
	for _, id := range ids {
		groups[s.named(id)] = append(groups[s.named(id)], id)
	}
	answers, err := allIndexed(ctx, s, func(ctx context.Context, schema int) ([]almanac.Event, error) {
		if groups[schema] == nil {
			return nil, nil
		}
		return ask(s, schema, func(r almanac.Repository) ([]almanac.Event, error) { return r.Events(ctx, groups[schema]) })
	})
	events := joined(answers)
	found := make(map[uuid.UUID]bool, len(events))
	for _, e := range events {
		found[e.ID] = true
	}
	left := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return found[id] })
	if len(left) == 0 || len(answers) == 0 {
		return events, err
	}
	others, partial := s.eventsElsewhere(ctx, left)
	return append(events, others...), cmp.Or(partial, err)
}

// eventsElsewhere returns the events that are not in the schemas which their ids name.
func (s *Store) eventsElsewhere(ctx context.Context, ids []uuid.UUID) ([]almanac.Event, error) {
	answers, err := allIndexed(ctx, s, func(ctx context.Context, schema int) ([]almanac.Event, error) {
		others := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return s.named(id) == schema })
		if len(others) == 0 {
			return nil, nil
		}
		return ask(s, schema, func(r almanac.Repository) ([]almanac.Event, error) { return r.Events(ctx, others) })
	})
	return joined(answers), err
}

// Update replaces a stored event.
func (s *Store) Update(ctx context.Context, e almanac.Event, expected int) (almanac.Event, error) {
	return ask(s, s.of(e.UserID), func(r almanac.Repository) (almanac.Event, error) { return r.Update(ctx, e, expected) })
}

// Find returns a page of events. If a schema does not answer, it also returns a [*PartialError], and Next continues after
// the events of the others. A spec that names a user asks one schema.
func (s *Store) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	find := func(ctx context.Context, r almanac.Repository) (almanac.List[almanac.Event], error) {
		return r.Find(ctx, spec, page)
	}
	if user, one := userOf(spec); one {
		return ask(s, s.of(user), func(r almanac.Repository) (almanac.List[almanac.Event], error) { return find(ctx, r) })
	}
	limit, _, _, err := page.EventBounds()
	if err != nil {
		return almanac.List[almanac.Event]{}, err
	}
	answers, err := all(ctx, s, find)
	items := merged(answers, limit, inOrder(page.Order))
	return almanac.PageOf(items, limit, page.Order), err
}

// userOf returns the user to whom all events of a spec belong, if it names one.
func userOf(spec almanac.Spec) (user uuid.UUID, one bool) {
	switch spec := spec.(type) {
	case almanac.ForUser:
		return uuid.UUID(spec), true
	case almanac.And:
		for _, part := range spec {
			if user, one = userOf(part); one {
				return user, true
			}
		}
	}
	return uuid.Nil, false
}

// inOrder returns the order of a page.
func inOrder(o almanac.Order) func(a, b almanac.Event) int {
	byID := func(a, b almanac.Event) int { return bytes.Compare(a.ID[:], b.ID[:]) }
	switch o {
	case almanac.NewestFirst:
		return func(a, b almanac.Event) int { return byID(b, a) }
	case almanac.NextFirst:
		return func(a, b almanac.Event) int { return cmp.Or(a.AvailableAt.Compare(b.AvailableAt), byID(a, b)) }
	default:
		return byID
	}
}

// merged returns the first elements of pages that begin at the same cursor, in their order. It returns more than limit
// elements if there is a next page. That may be because a schema has one: its page is full then, and so is the merged page.
func merged[T any](pages []answer[almanac.List[T]], limit int, order func(a, b T) int) (items []T) {
	more := false
	for _, page := range pages {
		items = append(items, page.is.Items...)
		more = more || page.is.Next != ""
	}
	slices.SortStableFunc(items, order)
	if more && len(items) == limit {
		items = append(items, items[limit-1])
	}
	return items
}

// Count adds the counts of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Count(ctx context.Context, spec almanac.Spec) (n int, err error) {
	count := func(ctx context.Context, r almanac.Repository) (int, error) { return r.Count(ctx, spec) }
	if user, one := userOf(spec); one {
		return ask(s, s.of(user), func(r almanac.Repository) (int, error) { return count(ctx, r) })
	}
	answers, err := all(ctx, s, count)
	for _, one := range answers {
		n += one.is
	}
	return n, err
}

// Missed adds the counts of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Missed(ctx context.Context, types []string, grace time.Duration) (m almanac.Missed, err error) {
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) (almanac.Missed, error) {
		return r.Missed(ctx, types, grace)
	})
	for _, one := range answers {
		m.Count += one.is.Count
		m.Oldest = earliest(m.Oldest, one.is.Oldest)
		if one.is.Newest.After(m.Newest) {
			m.Newest = one.is.Newest
		}
	}
	return m, err
}

// earliest returns the earlier of two times that are not zero.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// FindMissed merges the events of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) FindMissed(ctx context.Context, types []string, grace time.Duration, limit int) ([]almanac.Event, error) {
	limit, err := almanac.MissedLimit(limit)
	if err != nil {
		return nil, err
	}
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) ([]almanac.Event, error) {
		return r.FindMissed(ctx, types, grace, limit)
	})
	events := joined(answers)
	slices.SortStableFunc(events, inOrder(almanac.NextFirst))
	return events[:min(limit, len(events))], err
}

// Requeued asks the schemas of the events. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Requeued(ctx context.Context, events []almanac.Event) ([]uuid.UUID, error) {
	return ofEvents(ctx, s, events, func(ctx context.Context, r almanac.Repository, events []almanac.Event) ([]uuid.UUID, error) {
		return r.Requeued(ctx, events)
	})
}

// MoveEvents moves the events of each schema. If a schema does not answer, it moves the others and returns a [*PartialError].
func (s *Store) MoveEvents(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	moved, err := ofEvents(ctx, s, events, func(ctx context.Context, r almanac.Repository, events []almanac.Event) ([]almanac.Event, error) {
		return r.MoveEvents(ctx, events)
	})
	return asListed(moved, events), err
}

// ofEvents calls a method of each schema with its events of a list, and returns all results, also those that come with an
// error.
func ofEvents[T any](ctx context.Context, s *Store, events []almanac.Event, call func(context.Context, almanac.Repository, []almanac.Event) ([]T, error)) ([]T, error) {
	failed := s.failures()
	groups := bySchema(s, events, userOfEvent)
	var results []T
	for schema, group := range groups {
		if group == nil {
			continue
		}
		one, err := quicklyIn(ctx, s, schema, tending, func(ctx context.Context) ([]T, error) {
			return ask(s, schema, func(r almanac.Repository) ([]T, error) { return call(ctx, r, pick(events, group)) })
		})
		if isRefusal(err) {
			return results, err
		}
		results = append(results, one...)
		failed.add(schema, err)
	}
	return results, failed.partial()
}

func userOfEvent(e almanac.Event) uuid.UUID { return e.UserID }

// asListed sorts events as they are in a list.
func asListed(events, list []almanac.Event) []almanac.Event {
	place := make(map[uuid.UUID]int, len(list))
	for i, e := range list {
		place[e.ID] = i
	}
	slices.SortStableFunc(events, func(a, b almanac.Event) int { return place[a.ID] - place[b.ID] })
	return events
}
