package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Rosters returns a page of the users with their open events of some types, in two round trips. It locks nothing.
func (s *Store) Rosters(ctx context.Context, types []string, page almanac.Page) (almanac.List[almanac.Roster], error) {
	users, err := s.FindUsers(ctx, almanac.UserFilter{}, page)
	if err != nil || len(users.Items) == 0 {
		return almanac.List[almanac.Roster]{}, err
	}
	found := almanac.List[almanac.Roster]{Next: users.Next}
	err = s.do(ctx, "find the open events of users", func(ctx context.Context, db DB) (err error) {
		found.Items, err = s.rosters(ctx, db, append([]string{}, types...), users.Items)
		return err
	})
	return found, err
}

// rosters reads the rosters of users for some types, or for all if they are nil, in the order given.
func (s *Store) rosters(ctx context.Context, db DB, types []string, users []almanac.User) (list []almanac.Roster, err error) {
	places := rostersOf(users)
	var batch pgx.Batch
	ids := uuids(column(users, func(u almanac.User) uuid.UUID { return u.ID }))
	for _, sql := range []string{s.statements.OpenEvents, s.statements.RosterKeys} {
		batch.Queue(sql, pgx.StrictNamedArgs{"ids": ids, "types": types})
	}
	batch.Queue(s.statements.Stalled, pgx.StrictNamedArgs{"users": ids, "limit": nil})
	batch.Queue(s.statements.Now)
	results := db.SendBatch(ctx, &batch)
	defer closeBatch(results, &err)

	events, err := next(results, pgx.CollectRows[almanac.Event], scanEvents())
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		addEvent(places[e.UserID], e)
	}
	keys, err := next(results, pgx.CollectRows[seriesKeys], scanSeriesKeys)
	if err != nil {
		return nil, err
	}
	stalled, err := next(results, pgx.CollectRows[almanac.StalledSeries], scanStalled)
	if err != nil {
		return nil, err
	}
	for _, is := range slices.DeleteFunc(stalled, func(is almanac.StalledSeries) bool { return types != nil && !slices.Contains(types, is.Series.Type) }) {
		one := places[is.UserID]
		one.Stalled = append(one.Stalled, is)
	}
	now, err := next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	for _, k := range keys {
		one := places[k.user]
		if used := k.at(one.User, now); len(used) > 0 {
			one.Used[k.series] = used
		}
	}
	list = make([]almanac.Roster, len(users))
	for i, u := range users {
		list[i] = *places[u.ID]
		list[i].Now = now
	}
	return list, err
}

// rostersOf returns rosters with nothing but their users, by the ids of these.
func rostersOf(users []almanac.User) map[uuid.UUID]*almanac.Roster {
	list, of := make([]almanac.Roster, len(users)), make(map[uuid.UUID]*almanac.Roster, len(users))
	for i, u := range users {
		list[i] = almanac.Roster{User: u, Used: make(map[almanac.Series]almanac.UsedKeys)}
		of[u.ID] = &list[i]
	}
	return of
}

// addEvent adds an open event to the roster of its user.
func addEvent(r *almanac.Roster, e almanac.Event) {
	if e.ClaimCount > 0 {
		r.InFlight = append(r.InFlight, e)
	} else {
		r.Pending = append(r.Pending, e)
	}
}

// openEvent is a row of lock_roster_events.sql.
type openEvent struct {
	locked bool
	used   *string
	event  almanac.Event
}

// usedAt returns the used keys of the series at the time of the roster of its user. An event that was ever
// claimed counts as ended then.
func (o openEvent) usedAt(r *almanac.Roster) (almanac.UsedKeys, error) {
	used, err := parseUsed(o.used)
	if o.event.ClaimCount > 0 && o.event.Origin.Kind != almanac.OriginRequeued {
		used = used.With(o.event.Uses(r.User, r.Now))
	}
	return used, err
}

// scanOpenEvents returns a function that scans the rows of one result.
func scanOpenEvents() pgx.RowToFunc[openEvent] {
	var one openEvent
	var r eventRow
	into := append([]any{&one.locked, &one.used}, targets(r.cells(ofPending))...)
	return func(row pgx.CollectableRow) (openEvent, error) {
		err := row.Scan(into...)
		one.event = r.value()
		return one, err
	}
}
