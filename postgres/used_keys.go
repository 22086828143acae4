package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// seriesKeys has the used keys of a series.
type seriesKeys struct {
	user   uuid.UUID
	series almanac.Series
	open   bool             // whether the series has an open event
	begun  bool             // whether that event counts as used
	last   almanac.Event    // of the open event, what its used key is made from
	used   almanac.UsedKeys // of the events that have ended
}

// at returns the used keys at a time. The open event counts as ended then, if it counts as used.
func (k seriesKeys) at(u almanac.User, now time.Time) almanac.UsedKeys {
	if !k.begun {
		return k.used
	}
	return k.used.With(k.last.Uses(u, now))
}

// scanOpenKeys scans a row of used_keys.sql.
func scanOpenKeys(row pgx.CollectableRow) (k seriesKeys, err error) {
	k.open = true
	err = k.scan(row, &k.series.Type, &k.series.Name, &k.series.Detached, &k.begun)
	return k, err
}

// scanSeriesKeys scans a row of series_keys.sql.
func scanSeriesKeys(row pgx.CollectableRow) (k seriesKeys, err error) {
	err = k.scan(row, &k.user, &k.series.Type, &k.series.Name, &k.series.Detached, &k.open, &k.begun)
	return k, err
}

// scan scans a row that begins with some columns, and ends with those of the last event and of the used keys.
func (k *seriesKeys) scan(row pgx.CollectableRow, begin ...any) error {
	var nominal time.Time
	var used *string
	if err := row.Scan(append(begin, &k.last.KeyUnit, &k.last.OccurrenceKey, &nominal, &used)...); err != nil {
		return err
	}
	k.last.Nominal = calendar.WallTimeOf(nominal)
	var err error
	k.used, err = parseUsed(used)
	return err
}

// unshownKeys returns the used keys of the series of planned events, as far as they forbid an event,
// the series has no open event, and the keys were not known when the event was planned.
func (s *Store) unshownKeys(ctx context.Context, tx pgx.Tx, events []almanac.Event, known func(almanac.Event) map[almanac.Series]almanac.UsedKeys) ([]seriesKeys, error) {
	if len(events) == 0 {
		return nil, nil
	}
	type of struct {
		user   uuid.UUID
		series almanac.Series
	}
	planned := make(map[of]almanac.Event, len(events))
	for _, e := range events {
		planned[of{e.UserID, almanac.SeriesOf(e)}] = e
	}
	stored, err := all(ctx, tx, s.statements.SeriesKeys, namesOf(events), scanSeriesKeys)
	return slices.DeleteFunc(stored, func(k seriesKeys) bool {
		e := planned[of{k.user, k.series}]
		return k.open || !k.used.Has(e.Occurrence().Occurrence) || slices.Equal(known(e)[k.series], k.used)
	}), err
}

// UsedKeys returns the used keys of series of a user. An open event that was claimed before or is due
// counts as ended now.
func (s *Store) UsedKeys(ctx context.Context, userID uuid.UUID, list []almanac.Series) (used map[almanac.Series]almanac.UsedKeys, err error) {
	err = s.do(ctx, "find used keys", func(ctx context.Context, db DB) (err error) {
		used = make(map[almanac.Series]almanac.UsedKeys)
		var batch pgx.Batch
		batch.Queue(s.statements.User, pgx.StrictNamedArgs{"id": userID})
		batch.Queue(s.statements.SeriesKeys, pgx.StrictNamedArgs{
			"users":    uuids(slices.Repeat([]uuid.UUID{userID}, len(list))),
			"types":    column(list, func(one almanac.Series) string { return one.Type }),
			"names":    column(list, func(one almanac.Series) string { return one.Name }),
			"detached": column(list, func(one almanac.Series) string { return one.Detached }),
		})
		batch.Queue(s.statements.Now)
		results := db.SendBatch(ctx, &batch)
		defer closeBatch(results, &err)
		users, err := next(results, pgx.CollectRows[almanac.User], scanUsers())
		if err != nil || len(users) == 0 {
			return err
		}
		stored, err := next(results, pgx.CollectRows[seriesKeys], scanSeriesKeys)
		if err != nil {
			return err
		}
		now, err := next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
		for _, one := range stored {
			if keys := one.at(users[0], now); len(keys) > 0 {
				used[one.series] = keys
			}
		}
		return err
	})
	return used, err
}

// parseUsed returns the used keys of a series from usedText, or nil for NULL.
func parseUsed(text *string) (used almanac.UsedKeys, err error) {
	if text == nil {
		return nil, nil
	}
	var stored map[calendar.Unit][3]string
	if err := json.Unmarshal([]byte(*text), &stored); err != nil {
		return nil, err
	}
	for unit, one := range stored {
		nominal, err := parseLocal(one[1])
		if err != nil {
			return nil, err
		}
		ended, err := parseLocal(one[2])
		if err != nil {
			return nil, err
		}
		used = used.With(almanac.UsedKey{Unit: unit, Key: one[0], Nominal: nominal, Ended: ended})
	}
	return used, nil
}

// parseLocal parses a timestamp as PostgreSQL writes it in JSON.
func parseLocal(text string) (calendar.WallTime, error) {
	t, err := time.Parse("2006-01-02T15:04:05", text)
	return calendar.WallTimeOf(t), err
}
