package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// CreateUsers stores people with their first events, in one transaction and with
// one statement for all people and one for all events. When the database refuses a
// row for good, or a statement takes longer than it allows or waits for another
// transaction that stores one of the same users, each half of the list is stored by
// itself, and so on.
func (s *Store) CreateUsers(ctx context.Context, people []almanac.Enrolment) ([]almanac.Enrolled, error) {
	if len(people) == 0 {
		return nil, nil
	}
	stored, err := s.createTogether(ctx, people)
	switch {
	case len(people) > 1 && (refused(err) || stateOf(err) == queryCanceled || errors.Is(err, almanac.ErrLocked)):
		return inParts(people, (len(people)+1)/2, func(half []almanac.Enrolment) ([]almanac.Enrolled, error) { return s.CreateUsers(ctx, half) })
	case refused(err) || errors.Is(err, almanac.ErrLocked):
		return []almanac.Enrolled{{Err: err}}, nil
	}
	return stored, err
}

// limitLockWait is how long a user is waited for that another transaction stores.
const limitLockWait = "SET LOCAL lock_timeout = '100ms'"

func (s *Store) createTogether(ctx context.Context, people []almanac.Enrolment) ([]almanac.Enrolled, error) {
	var answers []almanac.Enrolled
	err := s.transactKeys(ctx, "create users", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		if !s.InTransaction() {
			if _, err := tx.Exec(ctx, limitLockWait); err != nil {
				return err
			}
		}
		users, err := s.insertUsers(ctx, tx, slices.DeleteFunc(slices.Clone(people), owedTwice))
		if stateOf(err) == lockNotAvailable {
			return asIs(fmt.Errorf("%w: a user of the same id", almanac.ErrLocked))
		}
		if err != nil {
			return err
		}
		var owed []almanac.Event
		answers, owed = answer(people, users)
		stored, err := s.insertFirst(ctx, tx, keys, owed)
		if err != nil {
			return err
		}
		handOut(answers, stored)
		return s.hint(ctx, tx, stored)
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// owedTwice reports that a person's events are not one of each series.
func owedTwice(p almanac.Enrolment) bool { return len(firstOfEachSeries(p.Events)) < len(p.Events) }

// birth runs a statement that stores new things, and returns what became of them by
// their ids.
func (s *Store) birth(ctx context.Context, tx pgx.Tx, statement string, args pgx.StrictNamedArgs) (map[uuid.UUID]made, error) {
	rows, err := all(ctx, tx, s.statements[statement], args, scanMade)
	return byID(rows), err
}

func byID(rows []made) map[uuid.UUID]made {
	result := make(map[uuid.UUID]made, len(rows))
	for _, m := range rows {
		result[m.id] = m
	}
	return result
}

// insertUsers stores those of the people whose ids are free.
func (s *Store) insertUsers(ctx context.Context, tx pgx.Tx, people []almanac.Enrolment) (map[uuid.UUID]made, error) {
	type person = almanac.Enrolment
	return s.birth(ctx, tx, "insert_users", pgx.StrictNamedArgs{
		"ids":            uuids(column(people, func(p person) uuid.UUID { return p.User.ID })),
		"first_names":    column(people, func(p person) string { return p.User.FirstName }),
		"last_names":     column(people, func(p person) string { return p.User.LastName }),
		"dates_of_birth": column(people, func(p person) time.Time { return dateArg(p.User.DateOfBirth.Date()) }),
		"timezones":      column(people, func(p person) string { return p.User.Timezone.String() }),
		"attributes":     column(people, func(p person) string { return string(p.User.Attributes) }),

		"creation_digests": column(people, func(p person) string { return p.User.CreationDigest }),
	})
}

// insertFirst stores the events of new users, and returns them in the order given.
func (s *Store) insertFirst(ctx context.Context, tx pgx.Tx, keys keys, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	args, err := keys.eventArgs(ctx, tx, events)
	if err != nil {
		return nil, err
	}
	born, err := s.birth(ctx, tx, "insert_first_events", args)
	if err != nil {
		return nil, err
	}
	if err := s.mark(ctx, tx, marksOf(events)); err != nil {
		return nil, err
	}
	return asBorn(events, args, born), nil
}

// asBorn returns the events of new users as they were stored by the arguments. Of
// what was stored only that is read back which is not known: it is much.
func asBorn(events []almanac.Event, args pgx.StrictNamedArgs, born map[uuid.UUID]made) []almanac.Event {
	chosen, _ := args["idempotency_keys"].([]string)
	stored := make([]almanac.Event, len(events))
	for i, e := range events {
		due := e.Due.UTC().Truncate(time.Microsecond)
		stored[i] = almanac.Event{
			ID: e.ID, UserID: e.UserID, Type: e.Type, OccurrenceKey: e.OccurrenceKey, Status: almanac.Pending,
			Due: due, Wall: almanac.WallTimeOf(e.Wall.Labelled().Truncate(time.Microsecond)), Zone: e.Zone, Policies: e.Policies.WithDefaults(),
			IdempotencyKey: almanac.IdempotencyKey(chosen[i]), Payload: json.RawMessage(born[e.ID].json), UserVersion: e.UserVersion,
			AvailableAt: due, Version: 1, CreatedAt: born[e.ID].at, UpdatedAt: born[e.ID].at,
		}
	}
	return stored
}

// answer says of each of the people whether they are among the users that were
// stored, and returns the events of those who are.
func answer(people []almanac.Enrolment, users map[uuid.UUID]made) (answers []almanac.Enrolled, owed []almanac.Event) {
	answers = make([]almanac.Enrolled, len(people))
	for i, p := range people {
		u, stored := users[p.User.ID]
		switch {
		case owedTwice(p):
			answers[i].Err = fmt.Errorf("%w: an occurrence of user %s twice", almanac.ErrExists, p.User.ID)
		case !stored:
			answers[i].Err = fmt.Errorf("%w: user %s", almanac.ErrExists, p.User.ID)
		default:
			delete(users, p.User.ID) // another of the list with this id is not the one
			answers[i].User = p.User
			answers[i].User.Attributes, answers[i].User.Version = json.RawMessage(u.json), 1
			answers[i].User.CreatedAt, answers[i].User.UpdatedAt = u.at, u.at
			owed = append(owed, p.Events...)
		}
	}
	return answers, owed
}

// handOut gives each of those who were stored their events.
func handOut(answers []almanac.Enrolled, stored []almanac.Event) {
	places := make(map[uuid.UUID]int, len(answers))
	for i, one := range answers {
		if one.Err == nil {
			places[one.User.ID] = i
		}
	}
	for _, e := range stored {
		one := &answers[places[e.UserID]]
		one.Events = append(one.Events, e)
	}
}

// AddEvents stores events for a page of users, who are locked meanwhile. It waits for no
// lock of another transaction.
func (s *Store) AddEvents(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.Standing, time.Time) ([]almanac.Event, error)) (almanac.Added, error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.Added{}, err
	}
	var added almanac.Added
	err = s.transactKeys(ctx, "add events", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		added = almanac.Added{}
		ids, err := all(ctx, tx, s.statements["page_users"], pgx.StrictNamedArgs{"after": after, "limit": limit}, scanID)
		if err != nil || len(ids) == 0 {
			return err
		}
		if len(ids) == limit {
			added.Next = almanac.Cursor(ids[limit-1].String())
		}
		users, err := all(ctx, tx, s.statements["lock_users"], pgx.StrictNamedArgs{"ids": uuids(ids)}, scanUser)
		if err != nil {
			return err
		}
		added.Locked = others(ids, users)
		standings, now, err := s.standings(ctx, tx, eventType, users)
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
		return almanac.Added{}, err
	}
	return added, nil
}

// others returns the ids that are of none of the users.
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

// planAll plans events of locked users, and plans again with the keys that are used up
// of the named series to which it adds: the standings leave them out.
func (s *Store) planAll(ctx context.Context, tx pgx.Tx, list []almanac.Standing, now time.Time, plan func([]almanac.Standing, time.Time) ([]almanac.Event, error)) ([]almanac.Event, error) {
	places := make(map[uuid.UUID]int, len(list))
	for i, one := range list {
		places[one.User.ID] = i
	}
	for {
		wanted, err := plan(slices.Clone(list), now)
		if err != nil {
			return nil, asIs(err)
		}
		named := slices.DeleteFunc(slices.Clone(wanted), func(e almanac.Event) bool { return seriesName(e.OccurrenceKey) == "" })
		spent, err := s.spentKeys(ctx, tx, named)
		if err != nil {
			return nil, err
		}
		news := false
		for _, key := range spent {
			one := &list[places[key.user]]
			used, learnt := learn(slices.Clone(one.Used), key.key)
			one.Used, news = used, news || learnt
		}
		if !news {
			return wanted, nil
		}
	}
}

// standings reads what locked users have of one type of event, and the time, in one
// round trip.
func (s *Store) standings(ctx context.Context, tx pgx.Tx, eventType string, users []almanac.User) (list []almanac.Standing, now time.Time, err error) {
	list = make([]almanac.Standing, len(users))
	places := make(map[uuid.UUID]int, len(users))
	for i, u := range users {
		list[i].User, places[u.ID] = u, i
	}
	var batch pgx.Batch
	ids := uuids(column(users, func(u almanac.User) uuid.UUID { return u.ID }))
	batch.Queue(s.statements["standings"], pgx.StrictNamedArgs{"ids": ids, "type": eventType})
	batch.Queue(s.statements["now"])
	results := tx.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()

	rows, err := results.Query()
	if err != nil {
		return nil, now, err
	}
	var id uuid.UUID
	var open bool
	var key string
	_, err = pgx.ForEachRow(rows, []any{&id, &open, &key}, func() error {
		one := &list[places[id]]
		if open {
			one.Open = append(one.Open, key)
		} else {
			one.Used = append(one.Used, key)
		}
		return nil
	})
	if err != nil {
		return nil, now, err
	}
	now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	return list, now, err
}
