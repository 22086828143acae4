package postgres

import (
	"context"
	"slices"
	"strings"
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
	list = make([]almanac.Roster, len(users))
	places := make(map[uuid.UUID]int, len(users))
	for i, u := range users {
		list[i] = almanac.Roster{User: u, Used: make(map[almanac.Series]almanac.UsedKeys)}
		places[u.ID] = i
	}
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
		one := &list[places[e.UserID]]
		if e.ClaimCount > 0 {
			one.InFlight = append(one.InFlight, e)
		} else {
			one.Pending = append(one.Pending, e)
		}
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
		one := &list[places[is.UserID]]
		one.Stalled = append(one.Stalled, is)
	}
	now, err := next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	for _, k := range keys {
		one := &list[places[k.user]]
		if used := k.at(one.User, now); len(used) > 0 {
			one.Used[k.series] = used
		}
	}
	for i := range list {
		list[i].Now = now
	}
	return list, err
}

// pending returns a column of the views of events for an event that is PENDING, from a row s of the table series
// that also has columns of its row of the queue. See open_events.sql.
func (c cell) pending() string {
	switch c.name {
	case "e.id":
		return "s.event_id"
	case "e.series_name":
		return "s.name"
	case "e.status":
		return "'PENDING'::text"
	case "e.lease_token":
		return "NULL::uuid"
	case "e.executed_at":
		return "NULL::timestamptz"
	case "e.failure_reason":
		return "NULL::text"
	}
	return "s." + strings.TrimPrefix(c.name, "e.")
}
