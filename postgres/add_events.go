package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// planEvents is the function that AddEvents calls to plan.
type planEvents = func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)

// AddEvents stores events for a page of users, and locks the users meanwhile. It waits for no lock
// of another transaction: users that are locked, or have a locked series, are returned in Locked.
// Users whose events the database refuses, or who take too long, are returned in Refused.
func (s *Store) AddEvents(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (almanac.AddEventsResult, error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	var ids []uuid.UUID
	err = s.do(ctx, "find users", func(ctx context.Context, db DB) (err error) {
		ids, err = all(ctx, db, s.statements.PageUsers, pgx.StrictNamedArgs{"after": after, "limit": limit}, scanID)
		return err
	})
	if err != nil || len(ids) == 0 {
		return almanac.AddEventsResult{}, err
	}
	added, err := addInHalves(ids, func(users []uuid.UUID) (almanac.AddEventsResult, error) {
		return s.addEvents(ctx, eventType, users, plan)
	}, func(user uuid.UUID, cause error) (almanac.AddEventsResult, error) {
		added, err := s.addEvents(ctx, eventType, []uuid.UUID{user}, planNothing)
		if added.Users > 0 {
			added.Refused = []almanac.Refusal{{UserID: user, Err: cause}}
		}
		return added, err
	})
	if err == nil && len(ids) == limit {
		added.Next = almanac.Cursor(ids[limit-1].String())
	}
	return added, err
}

// planNothing is a plan without events. It shows that the rest of the transaction works.
func planNothing([]almanac.UserSeries, time.Time) ([]almanac.Event, error) { return nil, nil }

// addEvents stores events for users in one transaction.
func (s *Store) addEvents(ctx context.Context, eventType string, ids []uuid.UUID, plan planEvents) (added almanac.AddEventsResult, err error) {
	err = s.transactKeys(ctx, "add events", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
		added, err = s.addTo(ctx, tx, keys, addition{eventType, ids, plan, false})
		return err
	})
	return added, err
}

// addition is what addTo adds: events of a type for users.
type addition struct {
	eventType string
	ids       []uuid.UUID
	plan      planEvents
	// absent says that the users had none of the series of the events just now, so the series are not looked up. The plan has one event for
	// each user. A series that another transaction has added since is an error (series_name_key).
	absent bool
}

// addTo locks users, and stores events for those that it has locked.
func (s *Store) addTo(ctx context.Context, tx pgx.Tx, keys keys, a addition) (added almanac.AddEventsResult, err error) {
	users, err := all(ctx, tx, s.statements.LockUsers, pgx.StrictNamedArgs{"ids": uuids(a.ids)}, scanUsers())
	if err != nil {
		return added, err
	}
	added.Locked = others(a.ids, users)
	wanted, locked, err := s.planFor(ctx, tx, users, a)
	if err != nil {
		return added, err
	}
	wanted = slices.DeleteFunc(wanted, func(e almanac.Event) bool { return slices.Contains(locked, e.UserID) })
	added.Users, added.Locked = len(users)-len(locked), append(added.Locked, locked...)
	insert := s.insert
	if a.absent {
		insert = s.insertFirst
	}
	if added.Events, err = insert(ctx, tx, keys, wanted); err != nil {
		return added, err
	}
	return added, s.hint(ctx, tx, added.Events)
}

// planFor plans events of locked users, and locks their series. It returns the users of the series that another transaction has locked.
func (s *Store) planFor(ctx context.Context, tx pgx.Tx, users []almanac.User, a addition) (wanted []almanac.Event, locked []uuid.UUID, err error) {
	if a.absent {
		now, err := one(ctx, tx, s.statements.Now, nil, scanTime)
		if err != nil {
			return nil, nil, err
		}
		wanted, err = a.plan(column(users, func(u almanac.User) almanac.UserSeries { return almanac.UserSeries{User: u} }), now)
		return wanted, nil, asIs(err)
	}
	standings, now, err := s.userSeries(ctx, tx, a.eventType, users)
	if err != nil {
		return nil, nil, err
	}
	if wanted, err = s.planAll(ctx, tx, standings, now, a.plan); err != nil {
		return nil, nil, err
	}
	locked, err = s.lockWanted(ctx, tx, wanted)
	return wanted, locked, err
}

// others returns the ids that belong to none of the users.
func others(ids []uuid.UUID, users []almanac.User) []uuid.UUID {
	left := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		left[id] = true
	}
	for _, u := range users {
		delete(left, u.ID)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return !left[id] })
}

// planAll plans events of locked users. At first list leaves out the used keys of named series without an
// open event. When plan adds events to such series, planAll calls plan again with these keys.
func (s *Store) planAll(ctx context.Context, tx pgx.Tx, list []almanac.UserSeries, now time.Time, plan planEvents) ([]almanac.Event, error) {
	places := make(map[uuid.UUID]int, len(list))
	for i, one := range list {
		places[one.User.ID] = i
	}
	for {
		wanted, err := plan(slices.Clone(list), now)
		if err != nil {
			return nil, asIs(err)
		}
		named := slices.DeleteFunc(slices.Clone(wanted), func(e almanac.Event) bool { return almanac.SeriesOf(e) == almanac.Series{Type: e.Type} })
		spent, err := s.unshownKeys(ctx, tx, named, func(e almanac.Event) map[almanac.Series]almanac.UsedKeys { return list[places[e.UserID]].Used })
		if err != nil {
			return nil, err
		}
		if len(spent) == 0 {
			return wanted, nil
		}
		for _, key := range spent {
			one := &list[places[key.user]]
			one.Used = maps.Clone(one.Used)
			one.Used[key.series] = key.used
		}
	}
}

// userSeries reads the open events, used keys and stalled series of locked users for one type of
// event, and the database clock, in one round trip.
func (s *Store) userSeries(ctx context.Context, tx pgx.Tx, eventType string, users []almanac.User) (list []almanac.UserSeries, now time.Time, err error) {
	list = make([]almanac.UserSeries, len(users))
	places := make(map[uuid.UUID]int, len(users))
	for i, u := range users {
		list[i] = almanac.UserSeries{User: u, Open: make(map[almanac.Series]string), Used: make(map[almanac.Series]almanac.UsedKeys)}
		places[u.ID] = i
	}
	var batch pgx.Batch
	ids := uuids(column(users, func(u almanac.User) uuid.UUID { return u.ID }))
	batch.Queue(s.statements.Standings, pgx.StrictNamedArgs{"ids": ids, "type": eventType})
	batch.Queue(s.statements.Stalled, pgx.StrictNamedArgs{"users": ids, "limit": nil})
	batch.Queue(s.statements.Now)
	results := tx.SendBatch(ctx, &batch)
	defer closeBatch(results, &err)

	rows, err := results.Query()
	if err != nil {
		return nil, now, err
	}
	var id uuid.UUID
	var open bool
	series := almanac.Series{Type: eventType}
	var key string
	var used *string
	_, err = pgx.ForEachRow(rows, []any{&id, &open, &series.Name, &series.Detached, &key, &used}, func() (err error) {
		one := &list[places[id]]
		if open {
			one.Open[series] = key
		} else {
			one.Used[series], err = parseUsed(used)
		}
		return err
	})
	if err != nil {
		return nil, now, err
	}
	stalled, err := next(results, pgx.CollectRows[almanac.StalledSeries], scanStalled)
	if err != nil {
		return nil, now, err
	}
	for _, is := range stalled {
		if one := &list[places[is.UserID]]; is.Series.Type == eventType {
			one.Stalled = append(one.Stalled, is)
		}
	}
	now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	return list, now, err
}
