package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// insert stores new events and returns them in the order given. It leaves out events whose series has
// an open event or has used up the occurrence.
func (s *Store) insert(ctx context.Context, tx pgx.Tx, keys keys, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events = firstOfEachSeries(events)
	if err := keys.choose(ctx, tx, events); err != nil {
		return nil, err
	}
	stored, err := s.insertRows(ctx, tx, s.statements.InsertEvents, newEventArgs(events))
	if err != nil {
		return nil, err
	}
	if err := s.mark(ctx, tx, marksOf(events)); err != nil {
		return nil, err
	}
	return asBorn(slices.DeleteFunc(events, func(e almanac.Event) bool { return stored[e.ID].at.IsZero() }), stored), nil
}

// lockWanted locks the series of new events, if the series are stored already. It waits for no lock,
// and returns the users of the series that another transaction has locked.
func (s *Store) lockWanted(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]uuid.UUID, error) {
	if len(events) == 0 {
		return nil, nil
	}
	return all(ctx, tx, s.statements.LockWanted, namesOf(events), scanID)
}

// namesOf returns the arguments that name the series of events.
func namesOf(events []almanac.Event) pgx.StrictNamedArgs {
	args := seriesArgs(events)
	args["users"] = uuids(column(events, func(e almanac.Event) uuid.UUID { return e.UserID }))
	args["types"] = column(events, func(e almanac.Event) string { return e.Type })
	return args
}

// seriesArgs returns the arguments that, with user and type, name the series of events.
func seriesArgs(events []almanac.Event) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"names":    column(events, func(e almanac.Event) string { return e.Series }),
		"detached": column(events, func(e almanac.Event) string { return almanac.SeriesOf(e).Detached }),
	}
}

// newColumn is a column of the table series that a new event fills. The argument for many events has
// the name of the column, and is an array of the given type.
type newColumn struct {
	name, array string
	values      func([]almanac.Event) any
}

func (c newColumn) column() string   { return c.name }
func (c newColumn) argument() string { return "@" + c.name + "::" + c.array }
func (c newColumn) excluded() string { return "excluded." + c.name }

// renewed returns the columns of a new event that change in a series that exists.
func renewed() []newColumn {
	return slices.DeleteFunc(slices.Clone(newEvent), func(c newColumn) bool {
		return slices.Contains([]string{"user_id", "event_type", "name", "detached", "origin", "forced"}, c.name)
	})
}

// newEvent lists the columns that a new event fills. Two statements that write to an existing series list
// the columns themselves: move_events.sql and settle_ended.sql. The cases "Fields" of
// conformance.TestRepository find a column that one of them lacks.
var newEvent = []newColumn{
	{"event_id", "uuid[]", of(func(e almanac.Event) pgtype.UUID { return uuidArg(e.ID) })},
	{"user_id", "uuid[]", of(func(e almanac.Event) pgtype.UUID { return uuidArg(e.UserID) })},
	{"event_type", "text[]", of(func(e almanac.Event) string { return e.Type })},
	{"name", "text[]", of(func(e almanac.Event) string { return e.Series })},
	{"lane", "text[]", of(func(e almanac.Event) string { return e.Lane })},
	{"detached", "text[]", of(func(e almanac.Event) string { return almanac.SeriesOf(e).Detached })},
	{"occurrence_key", "text[]", of(func(e almanac.Event) string { return e.OccurrenceKey })},
	{"key_unit", "text[]", of(func(e almanac.Event) string { return string(e.KeyUnit) })},
	{"origin", "text[]", of(func(e almanac.Event) pgtype.Text { return textOrNull(string(e.Origin.Kind)) })},
	{"origin_event", "uuid[]", of(func(e almanac.Event) pgtype.UUID { return uuidOrNull(e.Origin.From) })},
	{"follows_user", "boolean[]", of(func(e almanac.Event) pgtype.Bool { return mark(e, e.Origin.FollowsUser) })},
	{"payload_made", "boolean[]", of(func(e almanac.Event) pgtype.Bool { return mark(e, e.Origin.PayloadMade) })},
	{"forced", "boolean[]", of(func(e almanac.Event) pgtype.Bool { return pgtype.Bool{Bool: true, Valid: e.Origin.Forced} })},
	{"target_timestamp_utc", "timestamptz[]", of(func(e almanac.Event) time.Time { return e.Due })},
	{"target_timestamp_local", "timestamp[]", of(func(e almanac.Event) time.Time { return e.Wall.Labelled() })},
	{"nominal_local", "timestamp[]", of(func(e almanac.Event) pgtype.Timestamp { return localOrNull(e.Nominal) })},
	{"target_timezone", "text[]", of(func(e almanac.Event) string { return e.Zone })},
	{"policies", "text[]", of(func(e almanac.Event) string { return formatPolicies(e.Policies) })},
	{"idempotency_key", "text[]", of(func(e almanac.Event) string { return e.IdempotencyKey.String() })},
	{"delivery_payload", "text[]::jsonb[]", of(func(e almanac.Event) string { return string(e.Payload) })},
	{"user_version", "integer[]", of(func(e almanac.Event) int { return e.UserVersion })},
	{"ready_at", "timestamptz[]", of(func(e almanac.Event) pgtype.Timestamptz { return readyOrNull(e) })},
}

// of returns a function that returns one value of each event as an array.
func of[V any](value func(almanac.Event) V) func([]almanac.Event) any {
	return func(events []almanac.Event) any { return column(events, value) }
}

// newEventArgs returns the arguments for new events.
func newEventArgs(events []almanac.Event) pgx.StrictNamedArgs {
	args := make(pgx.StrictNamedArgs, len(newEvent))
	for _, c := range newEvent {
		args[c.name] = c.values(events)
	}
	consulting, consulted := []uuid.UUID{}, []string{}
	for i := range events {
		if e := &events[i]; e.Consulted.Calendars != "" {
			consulting, consulted = append(consulting, e.ID), append(consulted, e.Consulted.String())
		}
	}
	args["consulting"], args["consulted"] = uuids(consulting), consulted
	return args
}

// kept lists the columns of the table series that are copied to the history when an event ends.
const kept = "user_id, event_type, occurrence_key, key_unit, target_timestamp_utc, target_timestamp_local, nominal_local, target_timezone, policies, " +
	"idempotency_key, key_instant, ready_at, delivery_payload, user_version, last_error, crash_count, created_at, origin, origin_event, follows_user, payload_made, " +
	"forced, lane"

// mark returns a flag of a scheduled or requeued event, or NULL for any other event.
func mark(e almanac.Event, is bool) pgtype.Bool {
	return pgtype.Bool{Bool: is, Valid: e.Origin.Kind == almanac.OriginScheduled || e.Origin.Kind == almanac.OriginRequeued}
}

// born makes a new event as it is after the database has stored it.
func born(e *almanac.Event, now time.Time) {
	e.Status, e.Version, e.CreatedAt = almanac.Pending, 1, now
	e.Wall, e.Policies = calendar.WallTimeOf(e.Wall.Labelled().Truncate(time.Microsecond)), e.Policies.WithDefaults()
	e.AvailableAt = e.FirstAvailable()
	e.PlannedBy, e.Unplanned, e.LeaseToken, e.ExecutedAt = nil, false, uuid.Nil, time.Time{}
	e.FailureReason, e.LastError, e.RetryCount, e.ClaimCount, e.CrashCount = "", "", 0, 0, 0
	asStored(e, now)
}

// firstOfEachSeries returns the events without those whose series has an earlier event in the list.
func firstOfEachSeries(events []almanac.Event) []almanac.Event {
	type series struct {
		user uuid.UUID
		almanac.Series
	}
	seen := make(map[series]bool, len(events))
	return slices.DeleteFunc(slices.Clone(events), func(e almanac.Event) bool {
		one := series{e.UserID, almanac.SeriesOf(e)}
		again := seen[one]
		seen[one] = true
		return again
	})
}

// waiting returns the pending events with the given ids, as stored, in the order of the list.
func (s *Store) waiting(ctx context.Context, tx pgx.Tx, list []almanac.Event, ids []uuid.UUID) ([]almanac.Event, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	stored, err := all(ctx, tx, s.statements.Waiting, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvents())
	return inOrderOf(list, stored), err
}

// move changes the targets of pending events, all or none, and returns the events as stored.
func (s *Store) move(ctx context.Context, tx pgx.Tx, events []almanac.Event, users map[uuid.UUID]editedUser) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	moved, err := s.moveRows(ctx, tx, events, users)
	if err != nil {
		return nil, err
	}
	if err := complete(events, idsOf(moved), -1); err != nil {
		return nil, err
	}
	if err := s.mark(ctx, tx, marksOf(events)); err != nil {
		return nil, err
	}
	return inOrderOf(events, moved), nil
}

// moveRows changes the targets of pending events, and returns those that it changed, as stored, in no particular
// order. The map has the users whom the transaction edits.
func (s *Store) moveRows(ctx context.Context, tx pgx.Tx, events []almanac.Event, users map[uuid.UUID]editedUser) ([]almanac.Event, error) {
	type event = almanac.Event
	args := seriesArgs(events)
	maps.Copy(args, pgx.StrictNamedArgs{
		"ids":           uuids(column(events, func(e event) uuid.UUID { return e.ID })),
		"versions":      column(events, func(e event) int { return e.Version }),
		"due":           column(events, func(e event) time.Time { return e.Due }),
		"ready":         column(events, func(e event) pgtype.Timestamptz { return readyOrNull(e) }),
		"wall":          column(events, func(e event) time.Time { return e.Wall.Labelled() }),
		"nominal":       column(events, func(e event) pgtype.Timestamp { return localOrNull(e.Nominal) }),
		"zones":         column(events, func(e event) string { return e.Zone }),
		"policies":      column(events, func(e event) string { return formatPolicies(e.Policies) }),
		"payloads":      column(events, func(e event) string { return string(e.Payload) }),
		"user_versions": column(events, func(e event) int { return e.UserVersion }),
		"current":       column(events, func(e event) pgtype.Int4 { return users[e.UserID].version }),
		"lanes":         column(events, func(e event) string { return e.Lane }),
		"consulted":     column(events, func(e event) pgtype.Text { return textOrNull(e.Consulted.String()) }),
	})
	return all(ctx, tx, s.statements.MoveEvents, args, scanEvents())
}

// remove deletes pending events, all or none, and returns them as they were.
func (s *Store) remove(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	ids := column(events, func(e almanac.Event) uuid.UUID { return e.ID })
	were, err := s.waiting(ctx, tx, events, ids)
	if err != nil {
		return nil, err
	}
	removed, err := all(ctx, tx, s.statements.RemoveEvents, pgx.StrictNamedArgs{
		"ids":      uuids(ids),
		"versions": column(events, func(e almanac.Event) int { return e.Version }),
	}, scanID)
	if err != nil {
		return nil, err
	}
	return were, complete(events, removed, 0)
}

// idsOf returns the ids of events.
func idsOf(events []almanac.Event) []uuid.UUID {
	return column(events, func(e almanac.Event) uuid.UUID { return e.ID })
}

// complete returns an [*almanac.OptimisticLockError] for the first wanted event that was not stored,
// or nil if all were stored. The expected version in the error is the wanted version plus before.
func complete(wanted []almanac.Event, stored []uuid.UUID, before int) error {
	is := make(map[uuid.UUID]bool, len(stored))
	for _, id := range stored {
		is[id] = true
	}
	for _, e := range wanted {
		if !is[e.ID] {
			return asIs(&almanac.OptimisticLockError{EventID: e.ID, Expected: e.Version + before})
		}
	}
	return nil
}

// inOrderOf sorts events in the order of a list that contains all of them.
func inOrderOf(list, events []almanac.Event) []almanac.Event {
	index := make(map[uuid.UUID]int, len(list))
	for i, e := range list {
		index[e.ID] = i
	}
	slices.SortFunc(events, func(a, b almanac.Event) int { return index[a.ID] - index[b.ID] })
	return events
}
