package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// ZoneRules returns what is remembered of zones.
func (s *Store) ZoneRules(ctx context.Context) (book almanac.ZoneBook, err error) {
	err = s.do(ctx, "find zone rules", func(ctx context.Context, db DB) error {
		book, err = s.zoneBook(ctx, db, "zone_marks")
		return err
	})
	return book, err
}

// zoneBook reads what is remembered of zones in one round trip, with the marks that a
// statement returns.
func (s *Store) zoneBook(ctx context.Context, db DB, marks string) (book almanac.ZoneBook, err error) {
	var batch pgx.Batch
	for _, name := range []string{"zone_rules", marks, "now"} {
		batch.Queue(s.statements[name])
	}
	results := db.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	if book.Rules, err = next(results, pgx.CollectRows[almanac.ZoneRules], scanZoneRules); err != nil {
		return book, err
	}
	if book.Marks, err = next(results, pgx.CollectRows[almanac.ZoneRules], scanZoneMark); err != nil {
		return book, err
	}
	book.Now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	return book, err
}

// EditZoneRules changes what is remembered of zones.
func (s *Store) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) ([]almanac.ZoneRules, error)) error {
	return s.transact(ctx, "edit zone rules", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.statements["lock_zone_rules"]); err != nil {
			return err
		}
		book, err := s.zoneBook(ctx, tx, "take_zone_marks")
		if err != nil {
			return err
		}
		changed, err := edit(book)
		if err != nil {
			return asIs(err)
		}
		if err := s.putZoneRules(ctx, tx, changed); err != nil {
			return err
		}
		return s.mark(ctx, tx, slices.DeleteFunc(book.Marks, func(m almanac.ZoneRules) bool {
			return slices.ContainsFunc(changed, func(r almanac.ZoneRules) bool { return r.Zone == m.Zone })
		}))
	})
}

// marksOf returns the rules by which events were planned that are not known to be
// those of the database, each once.
func marksOf(events []almanac.Event) []almanac.ZoneRules {
	var marks []almanac.ZoneRules
	for _, e := range events {
		if e.PlannedBy != nil && !slices.Contains(marks, *e.PlannedBy) {
			marks = append(marks, *e.PlannedBy)
		}
	}
	return marks
}

// mark notes by which other rules the transaction has planned events.
func (s *Store) mark(ctx context.Context, tx pgx.Tx, marks []almanac.ZoneRules) error {
	if len(marks) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, s.statements["mark_zones"], markArgs(marks))
	return err
}

func markArgs(marks []almanac.ZoneRules) pgx.StrictNamedArgs {
	type rules = almanac.ZoneRules
	return pgx.StrictNamedArgs{
		"zones":        column(marks, func(r rules) string { return r.Zone }),
		"fingerprints": column(marks, func(r rules) int64 { return r.Fingerprint }),
		"since":        column(marks, func(r rules) int { return r.Since }),
		"versions":     column(marks, func(r rules) string { return r.Version }),
	}
}

func (s *Store) putZoneRules(ctx context.Context, tx pgx.Tx, changed []almanac.ZoneRules) error {
	if len(changed) == 0 {
		return nil
	}
	args := markArgs(changed)
	args["recheck"] = column(changed, func(r almanac.ZoneRules) pgtype.Timestamptz { return timeOrNull(r.Recheck) })
	_, err := tx.Exec(ctx, s.statements["put_zone_rules"], args)
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

func scanZoneMark(row pgx.CollectableRow) (almanac.ZoneRules, error) {
	var r almanac.ZoneRules
	err := row.Scan(&r.Zone, &r.Fingerprint, &r.Since, &r.Version)
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
