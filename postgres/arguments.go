package postgres

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

func text(s string) pgtype.Text { return pgtype.Text{String: s, Valid: true} }
func int4(n int) pgtype.Int4    { return pgtype.Int4{Int32: int32(n), Valid: true} }

// column returns one value of each row as an array, for unnest. pgx sends a FlatArray of any element
// type without reflection.
func column[T, V any](rows []T, value func(T) V) pgtype.FlatArray[V] {
	values := make(pgtype.FlatArray[V], len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

// values returns one value of each row as an array, for unnest, where the value can be NULL: then ok is
// false. If all values are NULL, the array is NULL too. V must be a type of pgtype: pgx encodes
// pointers to these without allocating.
func values[T, V any](rows []T, value func(T) (v V, ok bool)) any {
	var stored []V
	var array pgtype.FlatArray[*V]
	for i, row := range rows {
		v, ok := value(row)
		if !ok {
			continue
		}
		if array == nil {
			stored, array = make([]V, len(rows)-i), make(pgtype.FlatArray[*V], len(rows))
		}
		at := &stored[len(stored)-len(rows)+i]
		*at, array[i] = v, at
	}
	if array == nil {
		return nil
	}
	return array
}

// uuids returns ids in a form that every query mode of pgx can send. pgx can send a []uuid.UUID only
// if the server has described the parameter.
func uuids(ids []uuid.UUID) pgtype.FlatArray[pgtype.UUID] {
	return column(ids, uuidArg)
}

func uuidArg(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// distinct returns each of the values once, in order of their first appearance.
func distinct(ids []uuid.UUID) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, 1)
	return slices.DeleteFunc(ids, func(id uuid.UUID) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}

// indexesOf returns the indexes of a list, in order.
func indexesOf[T any](list []T) []int {
	indexes := make([]int, len(list))
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

// textOrNull returns a text, or NULL for "".
func textOrNull(s string) pgtype.Text { return pgtype.Text{String: s, Valid: s != ""} }

// uuidOrNull returns an id, or NULL for the zero id.
func uuidOrNull(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: id != uuid.Nil} }

// timeOrNull returns an instant, or NULL for the zero time.
func timeOrNull(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// readyOrNull returns when an event becomes ready, or NULL if it is ready at its instant.
func readyOrNull(e almanac.Event) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: e.ReadyAt, Valid: e.ReadyAt.After(e.Due)}
}

// localOrNull returns a wall time, or NULL for the zero WallTime.
func localOrNull(w calendar.WallTime) pgtype.Timestamp {
	if w == (calendar.WallTime{}) {
		return pgtype.Timestamp{}
	}
	return pgtype.Timestamp{Time: w.Labelled(), Valid: true}
}
