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

// Settle stores outcomes, each in one transaction with its successor. When the
// database refuses a row of the batch for good, each settlement is stored by
// itself, so that one cannot hold up the others; a successor that is refused is
// left out. When a statement takes longer than the database allows, each half is
// stored by itself.
func (s *Store) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	settled, err := s.settleTogether(ctx, settlements)
	switch {
	case refused(err), errors.Is(err, errApart):
		return inParts(settlements, 1, func(one []almanac.Settlement) ([]almanac.Settled, error) {
			settled, err := s.settleAlone(ctx, one[0])
			return []almanac.Settled{settled}, err
		})
	case stateOf(err) == queryCanceled && len(settlements) > 1:
		return inParts(settlements, (len(settlements)+1)/2, func(half []almanac.Settlement) ([]almanac.Settled, error) {
			return s.Settle(ctx, half)
		})
	}
	return settled, err
}

// inParts stores parts of a batch one after the other, up to the first error.
func inParts[T, A any](batch []T, size int, store func([]T) ([]A, error)) ([]A, error) {
	var answers []A
	for part := range slices.Chunk(batch, size) {
		stored, err := store(part)
		if err != nil {
			return nil, err
		}
		answers = append(answers, stored...)
	}
	return answers, nil
}

func (s *Store) settleAlone(ctx context.Context, one almanac.Settlement) (almanac.Settled, error) {
	settled, err := s.settleTogether(ctx, []almanac.Settlement{one})
	if err == nil {
		return settled[0], nil
	}
	if !refused(err) {
		return almanac.Settled{}, err
	}
	cause := err
	one.Next = nil
	settled, err = s.settleTogether(ctx, []almanac.Settlement{one})
	switch {
	case err == nil:
		settled[0].PlanErr = cause
		return settled[0], nil
	case refused(err):
		return almanac.Settled{Err: err}, nil
	}
	return almanac.Settled{}, err
}

// settleTogether stores a batch in at most two transactions. The first plans from
// the users as they were when their events were claimed, and locks none: what it
// stores takes effect where the series say that they are still the same. The
// second sees to the rest, with their users locked.
func (s *Store) settleTogether(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	b := &batch{Store: s, settlements: settlements, settled: make([]almanac.Settled, len(settlements))}
	places := make([]int, len(settlements))
	for i := range places {
		places[i] = i
	}
	for _, locked := range []bool{false, true} {
		if len(places) == 0 {
			break
		}
		var rest []int
		err := s.transactKeys(ctx, "settle", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
			t := &turn{batch: b, tx: tx, keys: keys, locked: locked}
			rest, err = t.take(ctx, places)
			return err
		})
		if err != nil {
			return nil, err
		}
		places = rest
	}
	return b.settled, nil
}

// batch is what Settle was given, and what it answers.
type batch struct {
	*Store
	settlements []almanac.Settlement
	settled     []almanac.Settled
}

// turn is one settling transaction on its way through its steps.
type turn struct {
	*batch
	tx     pgx.Tx
	keys   keys
	locked bool                       // whether users are locked
	users  map[uuid.UUID]almanac.User // those who are locked and not deleted
	series map[claimed]int64          // of the events that are still leased as they were claimed
	now    time.Time
}

// claimed is an event with what fences it.
type claimed struct {
	id, token uuid.UUID
	version   int // while it was PENDING
}

func claimedAs(e almanac.Event) claimed { return claimed{e.ID, e.LeaseToken, e.Version - 1} }

// take settles the settlements at the given places, and returns the places of those
// that it could not.
func (t *turn) take(ctx context.Context, places []int) (rest []int, err error) {
	for _, i := range places {
		t.settled[i] = almanac.Settled{} // the transaction may be repeated
	}
	if err := t.look(ctx, places); err != nil {
		return nil, err
	}
	changes, rest, err := t.plan(places)
	if err != nil {
		return nil, asIs(err)
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
	slices.Sort(rest)
	if t.locked {
		return nil, t.recognise(ctx, rest)
	}
	return rest, nil
}

// look locks users, where it is time for that, and reads what the tokens hold and
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
	}
	statements.Queue(t.statements["leases"], pgx.StrictNamedArgs{"tokens": uuids(distinct(tokens))})
	results := t.tx.SendBatch(ctx, &statements)
	defer func() { err = errors.Join(err, results.Close()) }()

	if t.locked {
		if t.users, err = lockedUsers(results); err != nil {
			return err
		}
	}
	t.series = make(map[claimed]int64, len(places))
	_, err = next(results, pgx.CollectRows[struct{}], func(row pgx.CollectableRow) (none struct{}, err error) {
		var l lease
		if err := row.Scan(&t.now, &l.token, &l.series, &l.ids, &l.versions, &l.ahead); err != nil {
			return none, err
		}
		for i, id := range l.ids {
			if c := (claimed{id, l.token, l.versions[i]}); wanted[c] {
				t.series[c] = l.series[i]
			}
		}
		return none, nil
	})
	t.now = t.now.UTC()
	return err
}

func lockedUsers(results pgx.BatchResults) (map[uuid.UUID]almanac.User, error) {
	users := make(map[uuid.UUID]almanac.User)
	_, err := next(results, pgx.CollectRows[struct{}], func(row pgx.CollectableRow) (none struct{}, err error) {
		var deleted bool
		var u userRow
		if err := row.Scan(append([]any{&deleted}, u.targets()...)...); err != nil || deleted {
			return none, err
		}
		user, err := u.value()
		users[user.ID] = user
		return none, err
	})
	return users, err
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

// recognise answers what could not be stored: it tells the settlements that were
// stored before, by a commit whose answer got lost, from those whose event belongs
// to another by now or is gone.
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
	for _, i := range unanswered {
		id := t.settlements[i].Event.ID
		e, ok := byID[id]
		switch {
		case !ok:
			t.settled[i].Err = &almanac.NotFoundError{Kind: "event", ID: id}
		case !t.settlements[i].StoredAs(e):
			t.settled[i].Err = almanac.ErrLeaseLost
		default:
			t.settled[i].Event = e // its successor was stored with it
		}
	}
	return nil
}
