package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// EditZoneRules changes what is remembered of zones.
func (s *Store) EditZoneRules(ctx context.Context, edit func([]almanac.ZoneRules, time.Time) ([]almanac.ZoneRules, error)) error {
	return s.transact(ctx, "edit zone rules", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.statements["lock_zone_rules"]); err != nil {
			return err
		}
		stored, err := all(ctx, tx, s.statements["zone_rules"], nil, scanZoneRules)
		if err != nil {
			return err
		}
		now, err := one(ctx, tx, s.statements["now"], nil, scanTime)
		if err != nil {
			return err
		}
		changed, err := edit(stored, now)
		if err != nil {
			return asIs(err)
		}
		return s.putZoneRules(ctx, tx, changed)
	})
}

func (s *Store) putZoneRules(ctx context.Context, tx pgx.Tx, changed []almanac.ZoneRules) error {
	if len(changed) == 0 {
		return nil
	}
	type rules = almanac.ZoneRules
	_, err := tx.Exec(ctx, s.statements["put_zone_rules"], pgx.StrictNamedArgs{
		"zones":        column(changed, func(r rules) string { return r.Zone }),
		"fingerprints": column(changed, func(r rules) int64 { return r.Fingerprint }),
		"since":        column(changed, func(r rules) int { return r.Since }),
		"versions":     column(changed, func(r rules) string { return r.Version }),
		"recheck":      column(changed, func(r rules) pgtype.Timestamptz { return timeOrNull(r.Recheck) }),
	})
	return err
}

func scanZoneRules(row pgx.CollectableRow) (almanac.ZoneRules, error) {
	var r almanac.ZoneRules
	var recheck *time.Time
	err := row.Scan(&r.Zone, &r.Fingerprint, &r.Since, &r.Version, &recheck)
	if recheck != nil {
		r.Recheck = recheck.UTC()
	}
	return r, err
}

// Offsets returns how far the database holds clocks in a zone to stand east of UTC
// at each of the instants, in their order. It is for comparing zone data: nothing
// is planned by what a database knows of zones. A name that is unknown to the
// database is an error.
func (s *Store) Offsets(ctx context.Context, zone string, instants []time.Time) (offsets []time.Duration, err error) {
	err = s.do(ctx, "ask for offsets", func(ctx context.Context, db DB) (err error) {
		offsets, err = all(ctx, db, s.statements["offsets"], pgx.StrictNamedArgs{"zone": zone, "instants": instants},
			func(row pgx.CollectableRow) (time.Duration, error) {
				var seconds int64
				err := row.Scan(&seconds)
				return time.Duration(seconds) * time.Second, err
			})
		return err
	})
	return offsets, err
}

// MoveEvents gives pending events another instant.
func (s *Store) MoveEvents(ctx context.Context, events []almanac.Event) (moved []almanac.Event, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	type event = almanac.Event
	err = s.transact(ctx, "move events", func(ctx context.Context, tx pgx.Tx) (err error) {
		ids, err := all(ctx, tx, s.statements["move_instants"], pgx.StrictNamedArgs{
			"ids":      uuids(column(events, func(e event) uuid.UUID { return e.ID })),
			"versions": column(events, func(e event) int { return e.Version }),
			"due":      column(events, func(e event) time.Time { return e.Due }),
		}, scanID)
		if err != nil {
			return err
		}
		if moved, err = s.waiting(ctx, tx, events, ids); err != nil {
			return err
		}
		return s.hint(ctx, tx, moved)
	})
	return moved, err
}
