package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/fold"
)

// CreateUsers stores users with their first events, in one transaction, with one statement for
// all users and one for all events. It stores each half of the list separately, and again the
// halves of a half, in these cases: the database refuses a row, a statement takes longer than the
// database allows, or a statement waits for another transaction that stores one of the users. It
// stores a user whose external id an earlier user of the list has in a later transaction, so that
// the earlier user gets it.
func (s *Store) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	switch len(users) {
	case 0:
		return nil, nil
	case 1:
		return s.createOne(ctx, users[0])
	}
	return s.createMany(ctx, users)
}

// createMany stores users by INSERT … ON CONFLICT DO NOTHING, so that the same users can be given
// again. COPY has no ON CONFLICT, and would not save the indexes of six tables.
func (s *Store) createMany(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	if n := distinctExternalIDs(users); n < len(users) {
		first, err := s.createMany(ctx, users[:n])
		if err != nil {
			return first, err
		}
		rest, err := s.createMany(ctx, users[n:])
		return append(first, rest...), err
	}
	stored, err := s.createTogether(ctx, users)
	switch {
	case len(users) > 1 && (refused(err) || stateOf(err) == queryCanceled || errors.Is(err, almanac.ErrLocked)):
		return inParts(users, (len(users)+1)/2, func(half []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
			return s.createMany(ctx, half)
		})
	case refused(err) || errors.Is(err, almanac.ErrLocked):
		return []almanac.CreateUserResult{{Err: err}}, nil
	}
	return stored, err
}

// createOne stores a user with the first events in one round trip of a transaction. It waits as
// long as an edit does for another transaction that stores the same user. When the id or the
// external id is taken, the transaction is rolled back, because it may have stored the events.
func (s *Store) createOne(ctx context.Context, p almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	if repeatsSeries(p) {
		results, _ := resultsOf([]almanac.UserWithEvents{p}, nil)
		return results, nil
	}
	var results []almanac.CreateUserResult
	err := s.transactKeys(ctx, "create user", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
		if results, err = s.insertOne(ctx, tx, keys, p); err != nil {
			return err
		}
		return s.hint(ctx, tx, results[0].Events)
	})
	if errors.Is(err, almanac.ErrExists) {
		results := []almanac.CreateUserResult{{Err: err}}
		err = s.do(ctx, "create user", func(ctx context.Context, db DB) error {
			return s.explain(ctx, db, []almanac.UserWithEvents{p}, results)
		})
		return results, err
	}
	if refused(err) || errors.Is(err, almanac.ErrLocked) {
		return []almanac.CreateUserResult{{Err: err}}, nil
	}
	return results, err
}

// insertOne stores a user and the user's first events. The error matches [almanac.ErrExists] when
// the id or the external id is taken.
func (s *Store) insertOne(ctx context.Context, tx pgx.Tx, keys keys, p almanac.UserWithEvents) (results []almanac.CreateUserResult, err error) {
	list := []almanac.UserWithEvents{p}
	events, err := keys.choose(ctx, tx, p.Events)
	if err != nil {
		return nil, err
	}
	var batch pgx.Batch
	batch.Queue(s.statements.InsertUsers, newUserArgs(list))
	if len(events) > 0 {
		batch.Queue(s.statements.InsertFirstEvents, newEventArgs(events))
	}
	if marks := marksOf(events); len(marks) > 0 {
		batch.Queue(s.statements.MarkZones, markArgs(marks))
	}
	sent := tx.SendBatch(ctx, &batch)
	defer func() {
		if closed := sent.Close(); err == nil {
			err = closed
		}
	}()
	stored, err := next(sent, pgx.CollectRows[made], scanMade)
	if err != nil {
		return nil, err
	}
	results, _ = resultsOf(list, byID(stored))
	if err := results[0].Err; err != nil {
		return nil, asIs(err)
	}
	if len(events) == 0 {
		return results, nil
	}
	stored, err = next(sent, pgx.CollectRows[made], scanMade)
	results[0].Events = asBorn(events, byID(stored))
	return results, err
}

// limitLockWait limits the wait for another transaction that stores one of the users.
const limitLockWait = "SET LOCAL lock_timeout = '100ms'"

func (s *Store) createTogether(ctx context.Context, list []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	var results []almanac.CreateUserResult
	err := s.transactKeys(ctx, "create users", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		if !s.InTransaction() {
			if _, err := tx.Exec(ctx, limitLockWait); err != nil {
				return err
			}
		}
		created, err := s.insertUsers(ctx, tx, slices.DeleteFunc(slices.Clone(list), repeatsSeries))
		if stateOf(err) == lockNotAvailable {
			return asIs(fmt.Errorf("%w: a user of the same id or external id", almanac.ErrLocked))
		}
		if err != nil {
			return err
		}
		var pending []almanac.Event
		results, pending = resultsOf(list, created)
		if err := s.explain(ctx, tx, list, results); err != nil {
			return err
		}
		stored, err := s.insertFirst(ctx, tx, keys, pending)
		if err != nil {
			return err
		}
		assign(results, stored)
		return s.hint(ctx, tx, stored)
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// repeatsSeries reports whether two of a user's events are in the same series.
func repeatsSeries(p almanac.UserWithEvents) bool {
	return len(firstOfEachSeries(p.Events)) < len(p.Events)
}

// insertRows runs a statement that stores new rows, and returns the stored rows by their ids.
func (s *Store) insertRows(ctx context.Context, tx pgx.Tx, statement string, args pgx.StrictNamedArgs) (map[uuid.UUID]made, error) {
	rows, err := all(ctx, tx, statement, args, scanMade)
	return byID(rows), err
}

func byID(rows []made) map[uuid.UUID]made {
	result := make(map[uuid.UUID]made, len(rows))
	for _, m := range rows {
		result[m.id] = m
	}
	return result
}

// insertUsers stores the users whose ids and external ids are free, and returns them by their ids.
func (s *Store) insertUsers(ctx context.Context, tx pgx.Tx, users []almanac.UserWithEvents) (map[uuid.UUID]made, error) {
	return s.insertRows(ctx, tx, s.statements.InsertUsers, newUserArgs(users))
}

// newUserArgs returns the parallel arrays for new users.
func newUserArgs(users []almanac.UserWithEvents) pgx.StrictNamedArgs {
	type entry = almanac.UserWithEvents
	return pgx.StrictNamedArgs{
		"ids":               uuids(column(users, func(p entry) uuid.UUID { return p.User.ID })),
		"first_names":       column(users, func(p entry) string { return p.User.FirstName }),
		"last_names":        column(users, func(p entry) string { return p.User.LastName }),
		"dates_of_birth":    column(users, func(p entry) pgtype.Date { return birthArg(p.User.DateOfBirth) }),
		"timezones":         column(users, func(p entry) string { return p.User.Timezone.String() }),
		"attributes":        column(users, func(p entry) string { return string(p.User.Attributes) }),
		"locales":           column(users, func(p entry) string { return p.User.Locale }),
		"emails":            column(users, func(p entry) string { return p.User.Email }),
		"external_ids":      column(users, func(p entry) string { return p.User.ExternalID }),
		"opt_outs":          column(users, func(p entry) string { return formatOptOuts(p.User.OptOuts) }),
		"folded_names":      column(users, func(p entry) string { return fold.Text(p.User.Name()) }),
		"folded_last_names": column(users, func(p entry) string { return fold.Text(p.User.LastName) }),
		"folded_emails":     column(users, func(p entry) string { return fold.Text(p.User.Email) }),
		"creation_digests":  column(users, func(p entry) string { return p.User.CreationDigest }),
	}
}

// insertFirst stores the events of new users, and returns them in the order given.
func (s *Store) insertFirst(ctx context.Context, tx pgx.Tx, keys keys, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events, err := keys.choose(ctx, tx, events)
	if err != nil {
		return nil, err
	}
	stored, err := s.insertRows(ctx, tx, s.statements.InsertFirstEvents, newEventArgs(events))
	if err != nil {
		return nil, err
	}
	if err := s.mark(ctx, tx, marksOf(events)); err != nil {
		return nil, err
	}
	return asBorn(events, stored), nil
}

// asBorn returns new events as they were stored. Only the values that the database
// has changed were read back, because there may be many events.
func asBorn(events []almanac.Event, stored map[uuid.UUID]made) []almanac.Event {
	return column(events, func(e almanac.Event) almanac.Event {
		e.Payload = json.RawMessage(stored[e.ID].json)
		return born(e, stored[e.ID].at)
	})
}

// resultsOf returns a result for each of the users, by whether the user is among the stored
// users, and the first events of the stored users. It changes stored.
func resultsOf(list []almanac.UserWithEvents, stored map[uuid.UUID]made) (results []almanac.CreateUserResult, pending []almanac.Event) {
	results = make([]almanac.CreateUserResult, len(list))
	for i, p := range list {
		u, ok := stored[p.User.ID]
		switch {
		case repeatsSeries(p):
			results[i].Err = fmt.Errorf("%w: an occurrence of user %s twice", almanac.ErrExists, p.User.ID)
		case !ok:
			results[i].Err = fmt.Errorf("%w: user %s", almanac.ErrExists, p.User.ID)
		default:
			delete(stored, p.User.ID) // a later user of the list with this id was not stored
			results[i].User = p.User
			results[i].User.Attributes, results[i].User.Version = json.RawMessage(u.json), 1
			results[i].User.CreatedAt, results[i].User.UpdatedAt = u.at, u.at
			pending = append(pending, p.Events...)
		}
	}
	return results, pending
}

// assign adds stored events to the results of their users.
func assign(results []almanac.CreateUserResult, stored []almanac.Event) {
	indexes := make(map[uuid.UUID]int, len(results))
	for i, one := range results {
		if one.Err == nil {
			indexes[one.User.ID] = i
		}
	}
	for _, e := range stored {
		one := &results[indexes[e.UserID]]
		one.Events = append(one.Events, e)
	}
}

// AddEvents stores events for a page of users, and locks the users meanwhile. It waits for no lock
// of another transaction: users that are locked, or have a locked series, are returned in Locked.
func (s *Store) AddEvents(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (almanac.AddEventsResult, error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	var added almanac.AddEventsResult
	err = s.transactKeys(ctx, "add events", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		added = almanac.AddEventsResult{}
		ids, err := all(ctx, tx, s.statements.PageUsers, pgx.StrictNamedArgs{"after": after, "limit": limit}, scanID)
		if err != nil || len(ids) == 0 {
			return err
		}
		if len(ids) == limit {
			added.Next = almanac.Cursor(ids[limit-1].String())
		}
		users, err := all(ctx, tx, s.statements.LockUsers, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanUsers())
		if err != nil {
			return err
		}
		added.Locked = others(ids, users)
		standings, now, err := s.userSeries(ctx, tx, eventType, users)
		if err != nil {
			return err
		}
		wanted, err := s.planAll(ctx, tx, standings, now, plan)
		if err != nil {
			return err
		}
		locked, err := s.lockWanted(ctx, tx, wanted)
		if err != nil {
			return err
		}
		wanted = slices.DeleteFunc(wanted, func(e almanac.Event) bool { return slices.Contains(locked, e.UserID) })
		added.Users, added.Locked = len(users)-len(locked), append(added.Locked, locked...)
		if added.Events, err = s.insert(ctx, tx, keys, wanted); err != nil {
			return err
		}
		return s.hint(ctx, tx, added.Events)
	})
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	return added, nil
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
	return slices.DeleteFunc(ids, func(id uuid.UUID) bool { return !left[id] })
}

// planAll plans events of locked users. At first list leaves out the used keys of named series
// without an open event. When plan adds events to such series, planAll calls plan again with
// these keys.
func (s *Store) planAll(ctx context.Context, tx pgx.Tx, list []almanac.UserSeries, now time.Time, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) ([]almanac.Event, error) {
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

// userSeries reads the open events and used keys of locked users for one type of event, and the
// database clock, in one round trip.
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
	now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	return list, now, err
}
