package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// ZoneRules returns the stored rules of zones, and the marks of events that follow other rules.
func (s *Store) ZoneRules(ctx context.Context) (book almanac.ZoneBook, err error) {
	err = s.do(ctx, "find zone rules", func(ctx context.Context, db DB) error {
		book, err = s.zoneBook(ctx, db, s.statements.ZoneMarks)
		return err
	})
	return book, err
}

// zoneBook reads the stored rules of zones, the marks that a statement returns, and the database
// clock, in one round trip.
func (s *Store) zoneBook(ctx context.Context, db DB, marks string) (book almanac.ZoneBook, err error) {
	var batch pgx.Batch
	for _, sql := range []string{s.statements.ZoneRules, marks, s.statements.Calendars, s.statements.Quarantines, s.statements.Settings, s.statements.Now} {
		batch.Queue(sql)
	}
	results := db.SendBatch(ctx, &batch)
	defer closeBatch(results, &err)
	if book.Rules, err = next(results, pgx.CollectRows[almanac.ZoneRecord], scanZoneRecord); err != nil {
		return book, err
	}
	if book.Marks, err = next(results, pgx.CollectRows[calendar.ZoneRules], scanZoneMark); err != nil {
		return book, err
	}
	if book.Calendars, err = next(results, pgx.CollectRows[calendar.DayRules], scanDayRules); err != nil {
		return book, err
	}
	if book.Quarantines, err = next(results, pgx.CollectRows[almanac.Quarantine], scanQuarantine); err != nil {
		return book, err
	}
	if book.Settings, err = next(results, pgx.CollectRows[almanac.Setting], scanSetting); err != nil {
		return book, err
	}
	book.Now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	return book, err
}

// EditZoneRules changes the stored rules of zones and calendars. It waits for other edits of zone rules; readers
// are not blocked. It deletes the marks of the zones that edit returns, and keeps the others.
func (s *Store) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) (almanac.ZoneBook, error)) error {
	return s.transact(ctx, "edit zone rules", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.statements.LockZoneRules); err != nil {
			return err
		}
		book, err := s.zoneBook(ctx, tx, s.statements.TakeZoneMarks)
		if err != nil {
			return err
		}
		edited, err := edit(book)
		if err != nil {
			return asIs(err)
		}
		for _, rules := range edited.Calendars {
			if _, err := tx.Exec(ctx, s.statements.PutCalendar, dayRulesArgs(rules)); err != nil {
				return err
			}
		}
		for _, q := range edited.Quarantines {
			if _, err := tx.Exec(ctx, s.statements.PutQuarantine, quarantineArgs(q)); err != nil {
				return err
			}
		}
		changed := edited.Rules
		if err := s.putZoneRules(ctx, tx, changed); err != nil {
			return err
		}
		return s.mark(ctx, tx, slices.DeleteFunc(book.Marks, func(m calendar.ZoneRules) bool {
			return slices.ContainsFunc(changed, func(r almanac.ZoneRecord) bool { return r.Zone == m.Zone })
		}))
	})
}

// marksOf returns the rules by which events were planned, each once, if they are not known to be
// the stored rules.
func marksOf(events []almanac.Event) []calendar.ZoneRules {
	var marks []calendar.ZoneRules
	for i := range events {
		if by := events[i].PlannedBy; by != nil && !slices.Contains(marks, *by) {
			marks = append(marks, *by)
		}
	}
	return marks
}

// mark stores that the transaction has planned events by rules that differ from the stored ones.
func (s *Store) mark(ctx context.Context, tx pgx.Tx, marks []calendar.ZoneRules) error {
	if len(marks) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, s.statements.MarkZones, markArgs(marks))
	return err
}

func markArgs(marks []calendar.ZoneRules) pgx.StrictNamedArgs {
	type rules = calendar.ZoneRules
	return pgx.StrictNamedArgs{
		"zones":        column(marks, func(r rules) string { return r.Zone }),
		"fingerprints": column(marks, func(r rules) int64 { return r.Fingerprint }),
		"since":        column(marks, func(r rules) int { return r.Since }),
		"versions":     column(marks, func(r rules) string { return r.Version }),
	}
}

func (s *Store) putZoneRules(ctx context.Context, tx pgx.Tx, changed []almanac.ZoneRecord) error {
	if len(changed) == 0 {
		return nil
	}
	args := markArgs(column(changed, func(r almanac.ZoneRecord) calendar.ZoneRules { return r.ZoneRules }))
	args["recheck"] = column(changed, func(r almanac.ZoneRecord) pgtype.Timestamptz { return timeOrNull(r.Recheck) })
	_, err := tx.Exec(ctx, s.statements.PutZoneRules, args)
	return err
}

func scanZoneRecord(row pgx.CollectableRow) (almanac.ZoneRecord, error) {
	var r almanac.ZoneRecord
	var recheck *time.Time
	err := row.Scan(&r.Zone, &r.Fingerprint, &r.Since, &r.Version, &recheck)
	if recheck != nil {
		r.Recheck = recheck.UTC()
	}
	return r, err
}

func scanZoneMark(row pgx.CollectableRow) (calendar.ZoneRules, error) {
	var r calendar.ZoneRules
	err := row.Scan(&r.Zone, &r.Fingerprint, &r.Since, &r.Version)
	return r, err
}

func dayRulesArgs(r calendar.DayRules) pgx.StrictNamedArgs {
	until := time.Date(r.Until.Year, r.Until.Month, r.Until.Day, 0, 0, 0, 0, time.UTC)
	return pgx.StrictNamedArgs{"name": r.Name, "release": r.Release, "until": until, "since": r.Since, "hashes": r.Hashes, "changed": r.Changed, "releases": r.Releases}
}

func scanDayRules(row pgx.CollectableRow) (r calendar.DayRules, err error) {
	var until time.Time
	err = row.Scan(&r.Name, &r.Release, &until, &r.Since, &r.Hashes, &r.Changed, &r.Releases)
	r.Until = calendar.Date{Year: until.Year(), Month: until.Month(), Day: until.Day()}
	return r, err
}

func quarantineArgs(q almanac.Quarantine) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"name": q.Name, "calendar": q.Calendar, "release": q.Release, "changes": int64(q.Events), "largest": q.Largest.Microseconds(),
		"first_local": localOrNull(q.First), "first_utc": timeOrNull(q.FirstAt), "since": q.Since, "answered_at": timeOrNull(q.AnsweredAt),
		"accepted": q.Accepted, "reason": q.Reason,
	}
}

func scanQuarantine(row pgx.CollectableRow) (q almanac.Quarantine, err error) {
	var largest int64
	var local, first, answered *time.Time
	err = row.Scan(&q.Name, &q.Calendar, &q.Release, &q.Events, &largest, &local, &first, &q.Since, &answered, &q.Accepted, &q.Author, &q.Reason)
	q.Largest, q.Since = time.Duration(largest)*time.Microsecond, q.Since.UTC()
	if local != nil {
		q.First = calendar.WallTimeOf(*local)
	}
	if first != nil {
		q.FirstAt = first.UTC()
	}
	if answered != nil {
		q.AnsweredAt = answered.UTC()
	}
	return q, err
}

// Consulted returns what pending events of a type have consulted, if it has a calendar in an earlier release
// than the one that releases has for the name of that calendar.
func (s *Store) Consulted(ctx context.Context, eventType string, releases map[string]string) (list []calendar.Consulted, err error) {
	names := slices.Sorted(maps.Keys(releases))
	of := make([]string, len(names))
	for i, name := range names {
		of[i] = releases[name]
	}
	err = s.do(ctx, "find consulted calendars", func(ctx context.Context, db DB) error {
		texts, err := all(ctx, db, s.statements.Consulted, pgx.StrictNamedArgs{"type": eventType, "names": names, "releases": of}, pgx.RowTo[string])
		list = nil
		for _, text := range texts {
			if c, err := calendar.ParseConsulted(text); err == nil { // see eventRow.value
				list = append(list, c)
			}
		}
		return err
	})
	return list, err
}

// FindConsulted returns a page of the pending events of a type that have consulted the same.
func (s *Store) FindConsulted(ctx context.Context, eventType string, c calendar.Consulted, page almanac.Page) (found almanac.List[almanac.Event], err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return found, err
	}
	err = s.do(ctx, "find events by consulted calendars", func(ctx context.Context, db DB) error {
		events, err := all(ctx, db, s.statements.FindConsulted, pgx.StrictNamedArgs{
			"type": eventType, "consulted": c.String(), "after": uuidArg(after), "limit": limit + 1,
		}, scanEvents())
		found = almanac.PageOf(events, limit, almanac.OldestFirst)
		return err
	})
	return found, err
}

// Offsets returns the offset from UTC of clocks in a zone at each of the instants, in their order, by the
// zone data of the database. Offsets east of UTC are positive. It is for comparing zone data: Almanac never
// plans with the zone data of a database. A zone name that the database does not know is an error.
func (s *Store) Offsets(ctx context.Context, zone string, instants []time.Time) (offsets []time.Duration, err error) {
	err = s.do(ctx, "find offsets", func(ctx context.Context, db DB) error {
		return s.discard(ctx, db, func(ctx context.Context, tx pgx.Tx) (err error) {
			if _, err = one(ctx, tx, s.statements.OffsetsSession, pgx.StrictNamedArgs{"zone": zone}, pgx.RowTo[string]); err != nil {
				return err
			}
			offsets, err = all(ctx, tx, s.statements.Offsets, pgx.StrictNamedArgs{"instants": instants}, scanOffset)
			return err
		})
	})
	return offsets, err
}

func scanOffset(row pgx.CollectableRow) (time.Duration, error) {
	var seconds int64
	err := row.Scan(&seconds)
	return time.Duration(seconds) * time.Second, err
}

// MoveEvents changes the instants of pending events, and returns the events that it moved. Events
// that were claimed or changed meanwhile, or that another transaction has locked, are left out.
// Events that the database refuses to move are left out too, with an error.
func (s *Store) MoveEvents(ctx context.Context, events []almanac.Event) (moved []almanac.Event, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	var causes []error
	err = inHalves(events, func(part []almanac.Event) error {
		more, err := s.moveTogether(ctx, part)
		moved = append(moved, more...)
		return err
	}, func(_ almanac.Event, cause error) error {
		causes = append(causes, cause)
		return nil
	})
	return moved, errors.Join(err, together(causes))
}

func (s *Store) moveTogether(ctx context.Context, events []almanac.Event) (moved []almanac.Event, err error) {
	type event = almanac.Event
	err = s.transact(ctx, "move events", func(ctx context.Context, tx pgx.Tx) (err error) {
		free, err := all(ctx, tx, s.statements.LockFree, pgx.StrictNamedArgs{
			"ids":      uuids(column(events, func(e event) uuid.UUID { return e.ID })),
			"versions": column(events, func(e event) int { return e.Version - 1 }),
		}, scanID)
		if err != nil || len(free) == 0 {
			return err
		}
		stored, err := s.moveRows(ctx, tx, slices.DeleteFunc(slices.Clone(events), func(e event) bool { return !slices.Contains(free, e.ID) }), nil)
		if err != nil {
			return err
		}
		moved = inOrderOf(events, stored)
		return s.hint(ctx, tx, moved)
	})
	if err != nil {
		return nil, err
	}
	return moved, nil
}
