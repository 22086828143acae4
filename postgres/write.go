package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// insert stores new events and returns them in the order given, without those
// whose occurrence was stored before.
func (s *Store) insert(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	type event = almanac.Event
	stored, err := all(ctx, tx, s.statements["insert_events"], pgx.StrictNamedArgs{
		"ids":           uuids(column(events, func(e event) uuid.UUID { return e.ID })),
		"user_ids":      uuids(column(events, func(e event) uuid.UUID { return e.UserID })),
		"types":         column(events, func(e event) string { return e.Type }),
		"keys":          column(events, func(e event) string { return e.OccurrenceKey }),
		"due":           column(events, func(e event) time.Time { return e.Due }),
		"wall":          column(events, func(e event) time.Time { return e.Wall.Labelled() }),
		"zones":         column(events, func(e event) string { return e.Zone }),
		"policies":      column(events, func(e event) string { return formatPolicies(e.Policies) }),
		"short_keys":    column(events, func(e event) string { return e.IdempotencyKey.String() }),
		"long_keys":     column(events, func(e event) string { return e.LongKey().String() }),
		"payloads":      column(events, func(e event) string { return string(e.Payload) }),
		"user_versions": column(events, func(e event) int { return e.UserVersion }),
	}, scanEvent)
	return inOrderOf(events, stored), err
}

// move gives pending events another target, all or none.
func (s *Store) move(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	type event = almanac.Event
	stored, err := all(ctx, tx, s.statements["move_events"], pgx.StrictNamedArgs{
		"ids":           uuids(column(events, func(e event) uuid.UUID { return e.ID })),
		"versions":      column(events, func(e event) int { return e.Version }),
		"keys":          column(events, func(e event) string { return e.OccurrenceKey }),
		"due":           column(events, func(e event) time.Time { return e.Due }),
		"wall":          column(events, func(e event) time.Time { return e.Wall.Labelled() }),
		"zones":         column(events, func(e event) string { return e.Zone }),
		"policies":      column(events, func(e event) string { return formatPolicies(e.Policies) }),
		"payloads":      column(events, func(e event) string { return string(e.Payload) }),
		"user_versions": column(events, func(e event) int { return e.UserVersion }),
	}, scanEvent)
	if err != nil {
		return nil, err
	}
	return complete(events, stored, -1)
}

// remove deletes pending events, all or none.
func (s *Store) remove(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	stored, err := all(ctx, tx, s.statements["remove_events"], pgx.StrictNamedArgs{
		"ids":      uuids(column(events, func(e almanac.Event) uuid.UUID { return e.ID })),
		"versions": column(events, func(e almanac.Event) int { return e.Version }),
	}, scanEvent)
	if err != nil {
		return nil, err
	}
	return complete(events, stored, 0)
}

// complete returns the stored events in the order of the wanted ones, or says
// which of them had moved on; before is how the version that the statement
// replaced differs from the wanted one.
func complete(wanted, stored []almanac.Event, before int) ([]almanac.Event, error) {
	ordered := inOrderOf(wanted, stored)
	for i, e := range wanted {
		if i >= len(ordered) || ordered[i].ID != e.ID {
			return nil, asIs(&almanac.OptimisticLockError{EventID: e.ID, Expected: e.Version + before})
		}
	}
	return ordered, nil
}

// inOrderOf sorts events as they stand in a list that has them all.
func inOrderOf(list, events []almanac.Event) []almanac.Event {
	place := make(map[uuid.UUID]int, len(list))
	for i, e := range list {
		place[e.ID] = i
	}
	slices.SortFunc(events, func(a, b almanac.Event) int { return place[a.ID] - place[b.ID] })
	return events
}
