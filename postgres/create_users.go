package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/fold"
)

// CreateUsers stores users with their first events, in one transaction, with one statement for all users and
// one for all events. It stores each half of the list separately, and again the halves of a half, in these
// cases: the database refuses a row, the transaction takes too long, or a statement waits for another
// transaction that stores one of the users, see inHalves. If an earlier user of the list has the external id
// of a user, the latter is stored in a later transaction, so that the earlier user gets the external id.
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
	results, known := make([]almanac.CreateUserResult, len(users)), make([]bool, len(users))
	works := false
	err := inHalves(indexesOf(users), func(part []int) error {
		stored, err := s.createTogether(ctx, column(part, func(i int) almanac.UserWithEvents { return users[i] }))
		if len(part) == 1 && stateOf(err) == lockNotAvailable {
			stored, err = []almanac.CreateUserResult{{Err: fmt.Errorf("%w: a user of the same id or external id", almanac.ErrLocked)}}, nil
		}
		if err != nil {
			return err
		}
		for k, i := range part {
			results[i], known[i] = stored[k], true
		}
		works = true
		return nil
	}, func(i int, cause error) error {
		if !refused(cause) && !works {
			return cause
		}
		results[i], known[i] = almanac.CreateUserResult{Err: cause}, true
		return nil
	})
	if err != nil {
		results = results[:slices.Index(known, false)]
	}
	return results, err
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
	events := slices.Clone(p.Events)
	if err := keys.choose(ctx, tx, events); err != nil {
		return nil, err
	}
	args, err := newUserArgs(list)
	if err != nil {
		return nil, err
	}
	var batch pgx.Batch
	batch.Queue(s.statements.InsertUsers, args)
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
		args, err := newUserArgs(slices.DeleteFunc(slices.Clone(list), repeatsSeries))
		if err != nil {
			return err
		}
		created, err := s.insertRows(ctx, tx, s.statements.InsertUsers, args)
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

// newUserArgs returns the parallel arrays for new users.
func newUserArgs(users []almanac.UserWithEvents) (pgx.StrictNamedArgs, error) {
	type entry = almanac.UserWithEvents
	var errs []error
	optOuts := column(users, func(p entry) string {
		text, err := formatOptOuts(p.User.OptOuts)
		errs = append(errs, err)
		return text
	})
	return pgx.StrictNamedArgs{
		"ids":               uuids(column(users, func(p entry) uuid.UUID { return p.User.ID })),
		"first_names":       column(users, func(p entry) string { return p.User.FirstName }),
		"last_names":        column(users, func(p entry) string { return p.User.LastName }),
		"dates_of_birth":    column(users, func(p entry) pgtype.Date { return birthArg(p.User.DateOfBirth) }),
		"birth_calendars":   column(users, func(p entry) string { return p.User.DateOfBirth.Calendar() }),
		"birth_days":        column(users, func(p entry) string { return birthDay(p.User.DateOfBirth) }),
		"timezones":         column(users, func(p entry) string { return p.User.Timezone.String() }),
		"zone_sources":      column(users, func(p entry) string { return string(p.User.ZoneSource) }),
		"attributes":        column(users, func(p entry) string { return string(p.User.Attributes) }),
		"locales":           column(users, func(p entry) string { return p.User.Locale }),
		"emails":            column(users, func(p entry) string { return p.User.Email }),
		"external_ids":      column(users, func(p entry) string { return p.User.ExternalID }),
		"opt_outs":          optOuts,
		"folded_names":      column(users, func(p entry) string { return fold.Text(p.User.Name()) }),
		"folded_last_names": column(users, func(p entry) string { return fold.Text(p.User.LastName) }),
		"folded_emails":     column(users, func(p entry) string { return fold.Text(p.User.Email) }),
		"creation_digests":  column(users, func(p entry) string { return p.User.CreationDigest }),
	}, errors.Join(errs...)
}

// insertFirst stores the events of new users, and returns them in the order given.
func (s *Store) insertFirst(ctx context.Context, tx pgx.Tx, keys keys, events []almanac.Event) ([]almanac.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	events = slices.Clone(events)
	if err := keys.choose(ctx, tx, events); err != nil {
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
		born(&e, stored[e.ID].at)
		return e
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

// takenUsers returns which ids of users are stored, with whether the stored user is deleted, and who
// has their external ids.
func (s *Store) takenUsers(ctx context.Context, db DB, users []almanac.User) (deleted map[uuid.UUID]bool, holders map[string]uuid.UUID, err error) {
	deleted, holders = make(map[uuid.UUID]bool), make(map[string]uuid.UUID)
	args := pgx.StrictNamedArgs{
		"ids":          uuids(column(users, func(u almanac.User) uuid.UUID { return u.ID })),
		"external_ids": column(users, func(u almanac.User) string { return u.ExternalID }),
	}
	_, err = all(ctx, db, s.statements.TakenUsers, args, func(row pgx.CollectableRow) (none struct{}, err error) {
		var id uuid.UUID
		var external *string
		var gone bool
		if err = row.Scan(&id, &external, &gone); external == nil {
			deleted[id] = gone
		} else {
			holders[*external] = id
		}
		return none, err
	})
	return deleted, holders, err
}

// distinctExternalIDs returns how many users at the beginning of a list have different external ids.
func distinctExternalIDs(users []almanac.UserWithEvents) int {
	seen := make(map[string]bool)
	for i, p := range users {
		if id := p.User.ExternalID; id != "" {
			if seen[id] {
				return i
			}
			seen[id] = true
		}
	}
	return len(users)
}

// explain replaces the errors of users of a list who were not stored for another reason than an
// existing user with their id: that user is being deleted, or another user has the external id.
func (s *Store) explain(ctx context.Context, db DB, list []almanac.UserWithEvents, results []almanac.CreateUserResult) error {
	unclear := func(i int) bool {
		return errors.Is(results[i].Err, almanac.ErrExists) && !repeatsSeries(list[i])
	}
	var users []almanac.User
	for i, p := range list {
		if unclear(i) {
			users = append(users, p.User)
		}
	}
	if len(users) == 0 {
		return nil
	}
	deleted, holders, err := s.takenUsers(ctx, db, users)
	if err != nil {
		return err
	}
	for i, p := range list {
		u := p.User
		gone, stored := deleted[u.ID]
		switch {
		case !unclear(i):
		case gone:
			results[i].Err = fmt.Errorf("%w: user %s is being deleted", almanac.ErrLocked, u.ID)
		case !stored && u.ExternalID != "":
			results[i].Err = &almanac.ExternalIDTakenError{UserID: u.ID, Holder: holders[u.ExternalID], ExternalID: u.ExternalID}
		}
	}
	return nil
}
