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
// whose series has an open event or has used up the occurrence.
func (s *Store) insert(ctx context.Context, tx pgx.Tx, keys keys, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events = firstOfEachSeries(events)
	args, err := keys.eventArgs(ctx, tx, events)
	if err != nil {
		return nil, err
	}
	if _, err = tx.Exec(ctx, s.statements["insert_events"], args); err != nil {
		return nil, err
	}
	if err := s.mark(ctx, tx, marksOf(events)); err != nil {
		return nil, err
	}
	return s.waiting(ctx, tx, events, column(events, func(e almanac.Event) uuid.UUID { return e.ID }))
}

// lockWanted locks the series of new events that are stored already. It returns the
// users of those that another transaction has locked, and waits for none.
func (s *Store) lockWanted(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]uuid.UUID, error) {
	if len(events) == 0 {
		return nil, nil
	}
	return all(ctx, tx, s.statements["lock_wanted"], pgx.StrictNamedArgs{
		"users": uuids(column(events, func(e almanac.Event) uuid.UUID { return e.UserID })),
		"types": column(events, func(e almanac.Event) string { return e.Type }),
		"names": column(events, func(e almanac.Event) string { return seriesName(e.OccurrenceKey) }),
	}, scanID)
}

// eventArgs are the parallel arrays of new events.
func (k keys) eventArgs(ctx context.Context, tx pgx.Tx, events []almanac.Event) (pgx.StrictNamedArgs, error) {
	type event = almanac.Event
	chosen, err := k.choose(ctx, tx, events)
	return pgx.StrictNamedArgs{
		"ids":              uuids(column(events, func(e event) uuid.UUID { return e.ID })),
		"user_ids":         uuids(column(events, func(e event) uuid.UUID { return e.UserID })),
		"types":            column(events, func(e event) string { return e.Type }),
		"names":            column(events, func(e event) string { return seriesOf(e) }),
		"keys":             column(events, func(e event) string { return e.OccurrenceKey }),
		"due":              column(events, func(e event) time.Time { return e.Due }),
		"wall":             column(events, func(e event) time.Time { return e.Wall.Labelled() }),
		"zones":            column(events, func(e event) string { return e.Zone }),
		"policies":         column(events, func(e event) string { return formatPolicies(e.Policies) }),
		"idempotency_keys": chosen,
		"payloads":         column(events, func(e event) string { return string(e.Payload) }),
		"user_versions":    column(events, func(e event) int { return e.UserVersion }),
	}, err
}

// firstOfEachSeries leaves out events whose series has one before them.
func firstOfEachSeries(events []almanac.Event) []almanac.Event {
	type series struct {
		user            uuid.UUID
		eventType, name string
	}
	seen := make(map[series]bool, len(events))
	return slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool {
		one := series{e.UserID, e.Type, seriesOf(e)}
		again := seen[one]
		seen[one] = true
		return again
	})
}

// waiting returns those of the events that are pending under the given ids, as
// stored and in the order of the list.
func (s *Store) waiting(ctx context.Context, tx pgx.Tx, list []almanac.Event, ids []uuid.UUID) ([]almanac.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	stored, err := all(ctx, tx, s.statements["waiting"], pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvent)
	return inOrderOf(list, stored), err
}

// move gives pending events another target, all or none.
func (s *Store) move(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	type event = almanac.Event
	moved, err := all(ctx, tx, s.statements["move_events"], pgx.StrictNamedArgs{
		"ids":           uuids(column(events, func(e event) uuid.UUID { return e.ID })),
		"versions":      column(events, func(e event) int { return e.Version }),
		"keys":          column(events, func(e event) string { return e.OccurrenceKey }),
		"due":           column(events, func(e event) time.Time { return e.Due }),
		"wall":          column(events, func(e event) time.Time { return e.Wall.Labelled() }),
		"zones":         column(events, func(e event) string { return e.Zone }),
		"policies":      column(events, func(e event) string { return formatPolicies(e.Policies) }),
		"payloads":      column(events, func(e event) string { return string(e.Payload) }),
		"user_versions": column(events, func(e event) int { return e.UserVersion }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	if err := complete(events, moved, -1); err != nil {
		return nil, err
	}
	if err := s.mark(ctx, tx, marksOf(events)); err != nil {
		return nil, err
	}
	return s.waiting(ctx, tx, events, moved)
}

// remove forgets pending events, all or none, and returns them as they were.
func (s *Store) remove(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	ids := column(events, func(e almanac.Event) uuid.UUID { return e.ID })
	were, err := s.waiting(ctx, tx, events, ids)
	if err != nil {
		return nil, err
	}
	removed, err := all(ctx, tx, s.statements["remove_events"], pgx.StrictNamedArgs{
		"ids":      uuids(ids),
		"versions": column(events, func(e almanac.Event) int { return e.Version }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	return were, complete(events, removed, 0)
}

// complete returns an error that says which of the wanted events had moved on when
// not all of them were stored; before is how the version that the statement
// replaced differs from the wanted one.
func complete(wanted []almanac.Event, stored []uuid.UUID, before int) error {
	for _, e := range wanted {
		if !slices.Contains(stored, e.ID) {
			return asIs(&almanac.OptimisticLockError{EventID: e.ID, Expected: e.Version + before})
		}
	}
	return nil
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
