package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Settle stores outcomes, each in one transaction with its successor. It waits for no
// lock of another transaction: an event whose series or user is locked is answered with
// [almanac.ErrLocked], and the others are stored. When the database refuses a row of the
// batch for good, each settlement is stored by itself, so that one cannot hold up the
// others. A successor that is refused is left out. When a statement takes longer than
// the database allows, each half is stored by itself.
func (s *Store) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	settled, left, err := s.settleTogether(ctx, settlements)
	settle, size := s.Settle, 0
	switch {
	case refused(err):
		settle, size = s.settleAlone, 1
	case stateOf(err) == queryCanceled && len(left) > 1:
		size = (len(left) + 1) / 2
	case err != nil:
		return nil, err
	default:
		return settled, nil
	}
	stored, err := inParts(left, size, func(part []int) ([]almanac.Settled, error) {
		return settle(ctx, column(part, func(place int) almanac.Settlement { return settlements[place] }))
	})
	if err != nil {
		return nil, err
	}
	for i, place := range left {
		settled[place] = stored[i]
	}
	return settled, nil
}

// inParts stores parts of a batch one after the other, up to the first error, which comes
// with the answers until then.
func inParts[T, A any](batch []T, size int, store func([]T) ([]A, error)) ([]A, error) {
	var answers []A
	for part := range slices.Chunk(batch, size) {
		stored, err := store(part)
		answers = append(answers, stored...)
		if err != nil {
			return answers, err
		}
	}
	return answers, nil
}

// settleAlone stores a settlement that was refused in a batch of one, without its
// successor if need be.
func (s *Store) settleAlone(ctx context.Context, one []almanac.Settlement) ([]almanac.Settled, error) {
	settled, _, err := s.settleTogether(ctx, one)
	if !refused(err) {
		return settled, err
	}
	cause := err
	one[0].Next, one[0].Follow = nil, nil
	settled, _, err = s.settleTogether(ctx, one)
	switch {
	case err == nil:
		settled[0].PlanErr = cause
	case refused(err):
		return []almanac.Settled{{Err: err}}, nil
	}
	return settled, err
}

// settleTogether stores a batch in at most two transactions, and one more for each
// settlement that stores events in other series. The first locks no users: it plans from
// the users as they were when their events were claimed, and stores only where the series
// say that the user is still the same. The second locks the users of the rest. An error comes with the places of the settlements that are not stored, and with
// the answers to the others.
func (s *Store) settleTogether(ctx context.Context, settlements []almanac.Settlement) (settled []almanac.Settled, left []int, err error) {
	b := &batch{Store: s, settlements: settlements, settled: make([]almanac.Settled, len(settlements))}
	left = make([]int, len(settlements))
	for i := range left {
		left[i] = i
	}
	for _, locked := range []bool{false, true} {
		if len(left) == 0 {
			return b.settled, nil, nil
		}
		if left, err = b.settle(ctx, left, locked); err != nil {
			return b.settled, left, err
		}
	}
	for ; len(left) > 0; left = left[1:] {
		if _, err := b.settle(ctx, left[:1], true); err != nil {
			return b.settled, left, err
		}
	}
	return b.settled, nil, nil
}

// batch is what Settle was given, and what it answers.
type batch struct {
	*Store
	settlements []almanac.Settlement
	settled     []almanac.Settled
}

// settle runs one transaction, and returns the places of the settlements that are left
// for another. With an error these are all.
func (b *batch) settle(ctx context.Context, places []int, locked bool) (left []int, err error) {
	err = b.transactKeys(ctx, "settle", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
		t := &turn{batch: b, tx: tx, keys: keys, locked: locked}
		left, err = t.take(ctx, places)
		return err
	})
	if err != nil {
		return places, err
	}
	return left, nil
}

// turn is one settling transaction on its way through its steps.
type turn struct {
	*batch
	tx     pgx.Tx
	keys   keys
	locked bool                       // whether users are locked
	users  map[uuid.UUID]almanac.User // those that are locked and not deleted
	busy   map[uuid.UUID]bool         // users that another transaction has locked
	series map[claimed]int64          // of the events that the leases list as they were claimed
	latest map[uuid.UUID]int          // the version of each as it was claimed last
	marks  []almanac.ZoneRules        // by which other rules successors were planned
	now    time.Time
}

// claimed is an event with what fences it.
type claimed struct {
	id, token uuid.UUID
	version   int // while it was PENDING
}

func claimedAs(e almanac.Event) claimed { return claimed{e.ID, e.LeaseToken, e.Version - 1} }

// take settles the settlements at the given places, and returns the places of those
// that are left for another transaction. Without locked users, these are the ones that
// it could not settle; with them, the ones that need a transaction of their own.
func (t *turn) take(ctx context.Context, places []int) (left []int, err error) {
	for _, i := range places {
		t.settled[i] = almanac.Settled{} // the transaction may be repeated
	}
	if err := t.look(ctx, places); err != nil {
		return nil, err
	}
	changes, rest, alone, err := t.plan(places)
	if err != nil {
		return nil, asIs(err)
	}
	if free, err := t.lockWanted(ctx, changes); err != nil {
		return nil, err
	} else if !free {
		t.settled[changes[0].place].Err = almanac.ErrLocked
		return nil, nil
	}
	if err := t.name(ctx, changes); err != nil {
		return nil, err
	}
	stored, err := t.store(ctx, changes, places)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		if !stored[c.was.ID] {
			rest = append(rest, c.place)
			continue
		}
		t.settled[c.place] = almanac.Settled{Event: c.is, Successor: c.next, PlanErr: c.planErr}
		if err := t.storeApart(ctx, c); err != nil {
			return nil, err
		}
	}
	if t.locked {
		return alone, t.recognise(ctx, rest)
	}
	left = append(rest, alone...)
	slices.Sort(left)
	return left, nil
}

// look locks users, where the transaction does, and reads what the tokens hold and
// the clock.
func (t *turn) look(ctx context.Context, places []int) (err error) {
	wanted := make(map[claimed]bool, len(places))
	var users, tokens []uuid.UUID
	for _, i := range places {
		e := t.settlements[i].Event
		wanted[claimedAs(e)] = true
		users, tokens = append(users, e.UserID), append(tokens, e.LeaseToken)
	}
	var statements pgx.Batch
	if t.locked {
		statements.Queue(t.statements["settle_users"], pgx.StrictNamedArgs{"ids": uuids(users)})
		statements.Queue(t.statements["stored_users"], pgx.StrictNamedArgs{"ids": uuids(users)})
	}
	statements.Queue(t.statements["leases"], pgx.StrictNamedArgs{"tokens": uuids(distinct(tokens))})
	results := t.tx.SendBatch(ctx, &statements)
	defer func() { err = errors.Join(err, results.Close()) }()

	if t.locked {
		if t.users, t.busy, err = lockedUsers(results); err != nil {
			return err
		}
	}
	t.series, t.latest = make(map[claimed]int64, len(places)), make(map[uuid.UUID]int, len(places))
	_, err = next(results, pgx.CollectRows[struct{}], func(row pgx.CollectableRow) (none struct{}, err error) {
		var l lease
		if err := row.Scan(&t.now, &l.token, &l.series, &l.ids, &l.versions, &l.ahead); err != nil {
			return none, err
		}
		for i, id := range l.ids {
			if c := (claimed{id, l.token, l.versions[i]}); wanted[c] {
				t.series[c], t.latest[id] = l.series[i], max(t.latest[id], c.version)
			}
		}
		return none, nil
	})
	t.now = t.now.UTC()
	return err
}

// lockedUsers returns the users that are locked and not deleted, and those that another
// transaction has locked.
func lockedUsers(results pgx.BatchResults) (users map[uuid.UUID]almanac.User, busy map[uuid.UUID]bool, err error) {
	users, busy = make(map[uuid.UUID]almanac.User), make(map[uuid.UUID]bool)
	deleted := make(map[uuid.UUID]bool)
	_, err = next(results, pgx.CollectRows[struct{}], func(row pgx.CollectableRow) (none struct{}, err error) {
		var isDeleted bool
		var u userRow
		if err := row.Scan(append([]any{&isDeleted}, u.targets()...)...); err != nil {
			return none, err
		}
		user, err := u.value()
		if isDeleted {
			deleted[user.ID] = true
		} else {
			users[user.ID] = user
		}
		return none, err
	})
	if err != nil {
		return nil, nil, err
	}
	stored, err := next(results, pgx.CollectRows[uuid.UUID], scanID)
	for _, id := range stored {
		if _, ours := users[id]; !ours && !deleted[id] {
			busy[id] = true
		}
	}
	return users, busy, err
}

// distinct returns each of the values once, in order of their first appearance.
func distinct(ids []uuid.UUID) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, 1)
	return slices.DeleteFunc(ids, func(id uuid.UUID) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}

// recognise answers the settlements that could not be stored. Some were stored before, by
// a commit whose answer got lost. Of the others the event is locked, belongs to another
// process by now, or is gone.
func (t *turn) recognise(ctx context.Context, unanswered []int) error {
	if len(unanswered) == 0 {
		return nil
	}
	ids := column(unanswered, func(i int) uuid.UUID { return t.settlements[i].Event.ID })
	stored, err := all(ctx, t.tx, t.statements["events"], pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvent)
	if err != nil {
		return err
	}
	byID := make(map[uuid.UUID]almanac.Event, len(stored))
	for _, e := range stored {
		byID[e.ID] = e
	}
	var recognised []int
	for _, i := range unanswered {
		was := t.settlements[i].Event
		e, ok := byID[was.ID]
		switch {
		case !ok:
			t.settled[i].Err = &almanac.NotFoundError{Kind: "event", ID: was.ID}
		case t.settlements[i].StoredAs(e):
			t.settled[i].Event = e
			recognised = append(recognised, i)
		case e.LeaseToken == was.LeaseToken && e.Version == was.Version && e.Status == almanac.Processing:
			t.settled[i].Err = almanac.ErrLocked
		default:
			t.settled[i].Err = almanac.ErrLeaseLost
		}
	}
	return t.recogniseNew(ctx, recognised)
}

// recogniseNew adds to the answers what was stored with settlements whose answer got
// lost: successors in the same series, and what follows. They are planned once more, from
// the users as they are, to know their keys.
func (t *turn) recogniseNew(ctx context.Context, places []int) error {
	planned := make(map[int]*change, len(places))
	var users []uuid.UUID
	since := t.now
	for _, i := range places {
		s, ended := &t.settlements[i], t.settled[i].Event
		u, exists := t.users[ended.UserID]
		if !exists || !ended.Status.Terminal() {
			continue
		}
		c := &change{was: s.Event}
		c.plan(s, u, ended.UpdatedAt)
		if c.next == nil && len(c.follow) == 0 {
			continue
		}
		planned[i], users = c, append(users, u.ID)
		if ended.UpdatedAt.Before(since) {
			since = ended.UpdatedAt
		}
	}
	if len(planned) == 0 {
		return nil
	}
	stored, err := all(ctx, t.tx, t.statements["new_events"], pgx.StrictNamedArgs{"users": uuids(distinct(users)), "since": since.Add(-t.timeout)}, scanEvent)
	if err != nil {
		return err
	}
	find := func(wanted almanac.Event, earliest, latest time.Time) *almanac.Event {
		i := slices.IndexFunc(stored, func(e almanac.Event) bool {
			return e.UserID == wanted.UserID && e.Type == wanted.Type && e.OccurrenceKey == wanted.OccurrenceKey && e.RequeuedFrom == uuid.Nil &&
				!e.CreatedAt.Before(earliest) && !e.CreatedAt.After(latest)
		})
		if i < 0 {
			return nil
		}
		e := stored[i]
		return born(e, e.IdempotencyKey.String(), e.CreatedAt) // whatever has become of it since
	}
	for i, c := range planned {
		one, ended := &t.settled[i], t.settled[i].Event.UpdatedAt
		if c.next != nil {
			one.Successor = find(*c.next, ended, ended)
		}
		for _, f := range c.follow {
			// What follows counts as created when the transaction began.
			if e := find(f, ended.Add(-t.timeout), ended); e != nil {
				one.Followed = append(one.Followed, *e)
			}
		}
	}
	return nil
}
