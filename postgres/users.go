package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// CreateUser stores a user and their first events.
func (s *Store) CreateUser(ctx context.Context, u almanac.User, events ...almanac.Event) (almanac.User, []almanac.Event, error) {
	if owedTwice(almanac.Enrolment{Events: events}) {
		return almanac.User{}, nil, fmt.Errorf("%w: an occurrence of user %s twice", almanac.ErrExists, u.ID)
	}
	var user almanac.User
	var stored []almanac.Event
	err := s.transactKeys(ctx, "create user", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
		if user, stored, err = s.create(ctx, tx, keys, u, events); err != nil {
			return err
		}
		return s.hint(ctx, tx, stored)
	})
	if err != nil {
		return almanac.User{}, nil, err
	}
	return user, stored, nil
}

// create stores a user and their first events in one round trip, and returns them as
// stored. Where there is such a user already, nothing is known of the events.
func (s *Store) create(ctx context.Context, tx pgx.Tx, keys keys, u almanac.User, events []almanac.Event) (user almanac.User, stored []almanac.Event, err error) {
	args, err := keys.eventArgs(ctx, tx, events)
	if err != nil {
		return user, nil, err
	}
	var batch pgx.Batch
	row := userArgs(u)
	row["creation_digest"] = u.CreationDigest
	batch.Queue(s.statements["insert_user"], row)
	if len(events) > 0 {
		batch.Queue(s.statements["insert_first_events"], args)
	}
	if marks := marksOf(events); len(marks) > 0 {
		batch.Queue(s.statements["mark_zones"], markArgs(marks))
	}
	results := tx.SendBatch(ctx, &batch)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	user, err = next(results, pgx.CollectExactlyOneRow[almanac.User], scanUser)
	if errors.Is(err, pgx.ErrNoRows) {
		return user, nil, asIs(fmt.Errorf("%w: user %s", almanac.ErrExists, u.ID))
	}
	if err != nil || len(events) == 0 {
		return user, nil, err
	}
	born, err := next(results, pgx.CollectRows[made], scanMade)
	return user, asBorn(events, args, byID(born)), err
}

// User returns a user.
func (s *Store) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	var user almanac.User
	err := s.do(ctx, "find user", func(ctx context.Context, db DB) (err error) {
		user, err = one(ctx, db, s.statements["user"], pgx.StrictNamedArgs{"id": id}, scanUser)
		return missing(err, "user", id)
	})
	return user, err
}

// EditUser changes a user and their open events.
func (s *Store) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	var stored almanac.Edit
	err := s.transactKeys(ctx, "edit user", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		roster, taken, err := s.roster(ctx, tx, id)
		if err != nil {
			return err
		}
		wanted, err := s.decide(ctx, tx, roster, edit)
		if err != nil {
			return err
		}
		if stored, err = s.apply(ctx, tx, keys, wanted); err != nil {
			return err
		}
		return s.hintTaken(ctx, tx, taken)
	})
	if err != nil {
		return almanac.Edit{}, err
	}
	return stored, nil
}

// decide asks for an edit of a roster. The roster has the used keys of open series only. When
// the edit adds to other series, decide asks again with the keys that those have used.
func (s *Store) decide(ctx context.Context, tx pgx.Tx, r almanac.Roster, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	for {
		wanted, err := edit(r)
		if err != nil {
			return wanted, asIs(err)
		}
		spent, err := s.spentKeys(ctx, tx, wanted.Added)
		if err != nil {
			return wanted, err
		}
		known := r.Used
		r.Used = make(map[string][]string, len(known))
		for eventType, keys := range known {
			r.Used[eventType] = slices.Clone(keys)
		}
		news := false
		for _, one := range spent {
			var learnt bool
			r.Used[one.eventType], learnt = learn(r.Used[one.eventType], one.key)
			news = news || learnt
		}
		if !news {
			return wanted, nil
		}
	}
}

// spentKey is the greatest key that a series without an open event has used up.
type spentKey struct {
	user           uuid.UUID
	eventType, key string
}

// spentKeys returns which of the occurrences of new events are used up.
func (s *Store) spentKeys(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]spentKey, error) {
	if len(events) == 0 {
		return nil, nil
	}
	type event = almanac.Event
	return all(ctx, tx, s.statements["spent_keys"], pgx.StrictNamedArgs{
		"user_ids": uuids(column(events, func(e event) uuid.UUID { return e.UserID })),
		"types":    column(events, func(e event) string { return e.Type }),
		"names":    column(events, func(e event) string { return seriesName(e.OccurrenceKey) }),
		"keys":     column(events, func(e event) string { return e.OccurrenceKey }),
	}, func(row pgx.CollectableRow) (one spentKey, err error) {
		return one, row.Scan(&one.user, &one.eventType, &one.key)
	})
}

// learn adds a key to others in order, and reports whether it was not among them.
func learn(keys []string, key string) ([]string, bool) {
	place, known := slices.BinarySearch(keys, key)
	if known {
		return keys, false
	}
	return slices.Insert(keys, place, key), true
}

// roster locks a user and their pending events and reads the rest of the picture,
// in one round trip, and returns the events that it took back from claims ahead of
// their instant. Each statement sees what was committed before it began.
func (s *Store) roster(ctx context.Context, tx pgx.Tx, id uuid.UUID) (r almanac.Roster, taken []uuid.UUID, err error) {
	var batch pgx.Batch
	for _, name := range []string{"lock_user", "lock_series", "lock_queue", "take_back", "lock_pending", "in_flight", "used_keys"} {
		batch.Queue(s.statements[name], pgx.StrictNamedArgs{"id": id})
	}
	batch.Queue(s.statements["now"])
	results := tx.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()

	if r.User, err = next(results, pgx.CollectExactlyOneRow[almanac.User], scanUser); err != nil {
		return r, nil, missing(err, "user", id)
	}
	for range 2 { // locks
		if _, err = next(results, pgx.CollectRows[*uuid.UUID], pgx.RowTo[*uuid.UUID]); err != nil {
			return r, nil, err
		}
	}
	if taken, err = next(results, pgx.CollectRows[uuid.UUID], scanID); err != nil {
		return r, nil, err
	}
	if r.Pending, err = next(results, pgx.CollectRows[almanac.Event], scanEvent); err != nil {
		return r, nil, err
	}
	if r.InFlight, err = next(results, pgx.CollectRows[almanac.Event], scanEvent); err != nil {
		return r, nil, err
	}
	used, err := next(results, pgx.CollectRows[[2]string], func(row pgx.CollectableRow) (pair [2]string, err error) {
		return pair, row.Scan(&pair[0], &pair[1])
	})
	if err != nil {
		return r, nil, err
	}
	r.Used = make(map[string][]string, len(used))
	for _, pair := range used {
		r.Used[pair[0]] = append(r.Used[pair[0]], pair[1])
	}
	r.Now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	return r, taken, err
}

// next collects the rows of a batch's next statement.
func next[T, R any](results pgx.BatchResults, collect func(pgx.Rows, pgx.RowToFunc[T]) (R, error), scan pgx.RowToFunc[T]) (R, error) {
	rows, err := results.Query()
	if err != nil {
		var none R
		return none, err
	}
	return collect(rows, scan)
}

// apply stores an edit of a roster that the transaction has locked.
func (s *Store) apply(ctx context.Context, tx pgx.Tx, keys keys, wanted almanac.Edit) (stored almanac.Edit, err error) {
	if wanted.User != nil {
		args := userArgs(*wanted.User)
		args["version"] = wanted.User.Version
		user, err := one(ctx, tx, s.statements["update_user"], args, scanUser)
		if err != nil {
			return stored, err
		}
		stored.User = &user
	}
	if stored.Removed, err = s.remove(ctx, tx, wanted.Removed); err != nil {
		return stored, err
	}
	if stored.Cancelled, err = s.cancel(ctx, tx, wanted.Cancelled, wanted.Unplanned); err != nil {
		return stored, err
	}
	stored.Unplanned = wanted.Unplanned
	if stored.Moved, err = s.move(ctx, tx, wanted.Moved); err != nil {
		return stored, err
	}
	if stored.Hurried, err = s.hurry(ctx, tx, wanted.Hurried); err != nil {
		return stored, err
	}
	if stored.Added, err = s.insert(ctx, tx, keys, wanted.Added); err != nil {
		return stored, err
	}
	if stored.Requeued, err = s.requeue(ctx, tx, wanted.Requeued); err != nil {
		return stored, err
	}
	return stored, s.hint(ctx, tx, slices.Concat(stored.Moved, stored.Hurried, stored.Added, stored.Requeued))
}

// DeleteUser deletes a user, or hides them while an event of theirs is in flight. It
// changes no lease: to take ids out it would have to lock the lease until the transaction
// ends, perhaps the host's, and the other events of the lease could not be renewed
// meanwhile. A lease that holds nothing is not renewed. The settlement that finds its event
// gone ends the lease, or the sweep does.
func (s *Store) DeleteUser(ctx context.Context, id uuid.UUID, how almanac.Delete) (almanac.Deletion, error) {
	var d almanac.Deletion
	err := s.transact(ctx, "delete user", func(ctx context.Context, tx pgx.Tx) (err error) {
		lock := pgx.StrictNamedArgs{"id": id, "hidden": how.AtOnce}
		version, err := one(ctx, tx, s.statements["lock_user_for_deletion"], lock, pgx.RowTo[int])
		if err != nil {
			return missing(err, "user", id)
		}
		if how.Version != 0 && how.Version != version {
			return asIs(&almanac.OptimisticLockError{UserID: id, Expected: how.Version})
		}
		args := pgx.StrictNamedArgs{"id": id}
		if d, err = s.dropPending(ctx, tx, args); err != nil {
			return err
		}
		if how.AtOnce || len(d.InFlight) == 0 {
			_, err = tx.Exec(ctx, s.statements["delete_user"], args)
			return err
		}
		_, err = tx.Exec(ctx, s.statements["hide_user"], args)
		return err
	})
	if err != nil {
		return almanac.Deletion{}, err
	}
	return d, nil
}

// dropPending forgets what a user is still owed and says what is in flight. Whoever
// claims, settles or gives back something of theirs is waited for.
func (s *Store) dropPending(ctx context.Context, tx pgx.Tx, args pgx.StrictNamedArgs) (d almanac.Deletion, err error) {
	for _, name := range []string{"lock_series", "lock_queue", "take_back"} {
		if _, err = tx.Exec(ctx, s.statements[name], args); err != nil {
			return d, err
		}
	}
	if d.Removed, err = one(ctx, tx, s.statements["delete_pending"], args, pgx.RowTo[int]); err != nil {
		return d, err
	}
	d.InFlight, err = all(ctx, tx, s.statements["open_events"], args, scanID)
	return d, err
}

func userArgs(u almanac.User) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"id": u.ID, "first_name": u.FirstName, "last_name": u.LastName,
		"date_of_birth": dateArg(u.DateOfBirth.Date()), "timezone": u.Timezone.String(), "attributes": string(u.Attributes),
	}
}

// missing turns the absence of a row into the error that says what is missing.
func missing(err error, kind string, id uuid.UUID) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return asIs(&almanac.NotFoundError{Kind: kind, ID: id})
	}
	return err
}
