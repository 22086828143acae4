package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// BroadcastsAbout returns the broadcasts of a type that are due for a user on a day, newest first.
func (s *Store) BroadcastsAbout(ctx context.Context, u almanac.User, eventType string, day calendar.Date) (list []broadcast.About, err error) {
	walls, instants := broadcast.DayOf(day, u.Timezone)
	args := pgx.StrictNamedArgs{
		"user": uuidArg(u.ID), "zone": u.Timezone.String(), "type": eventType, "limit": broadcast.MostAbout,
		"wall_from": localOrNull(walls[0]), "wall_until": localOrNull(walls[1]), "from": instants[0].UTC(), "until": instants[1].UTC(),
	}
	err = s.do(ctx, "read the broadcasts of a user", func(ctx context.Context, db DB) error {
		list, err = all(ctx, db, s.statements.BroadcastsAbout, args, scanAbout)
		return err
	})
	return list, err
}

// scanAbout reads a row of broadcasts_about.sql: the columns of a broadcast, and those about the user.
func scanAbout(row pgx.CollectableRow) (a broadcast.About, err error) {
	var zone pgtype.Text
	var wall pgtype.Timestamp
	var due *time.Time
	if a.Status, err = scanBroadcast(alsoInto{row, []any{&zone, &wall, &due, &a.Zone.Late, &a.Read, &a.Listed}}); err != nil {
		return a, err
	}
	if zone.Valid {
		a.Zone.Name, a.Zone.At, a.Zone.Due, a.Zone.Skipped = zone.String, wallOrZero(wall), utcOrZero(due), due == nil
	}
	return a, nil
}

// alsoInto is a row whose last columns are scanned into further places.
type alsoInto struct {
	pgx.CollectableRow
	rest []any
}

func (r alsoInto) Scan(dest ...any) error { return r.CollectableRow.Scan(append(dest, r.rest...)...) }
