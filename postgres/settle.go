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

// Settle stores outcomes and successors in one transaction. When the database
// refuses a row of the batch for good, each settlement is stored by itself, so that
// one cannot hold up the others; a successor that is refused is left out. When a
// statement takes longer than the database allows, each half is stored by itself.
func (s *Store) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	settled, err := s.settleTogether(ctx, settlements)
	switch {
	case refused(err):
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

// inParts settles parts of a batch one after the other, up to the first error.
func inParts(batch []almanac.Settlement, size int, settle func([]almanac.Settlement) ([]almanac.Settled, error)) ([]almanac.Settled, error) {
	var settled []almanac.Settled
	for part := range slices.Chunk(batch, size) {
		stored, err := settle(part)
		if err != nil {
			return nil, err
		}
		settled = append(settled, stored...)
	}
	return settled, nil
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

func (s *Store) settleTogether(ctx context.Context, settlements []almanac.Settlement) ([]almanac.Settled, error) {
	if len(settlements) == 0 {
		return nil, nil
	}
	var settled []almanac.Settled
	err := s.transact(ctx, "settle", func(ctx context.Context, tx pgx.Tx) error {
		b := &batch{Store: s, tx: tx, settlements: slices.Clone(settlements), settled: make([]almanac.Settled, len(settlements))}
		settled = b.settled
		for _, step := range []func(context.Context) error{b.lockUsers, b.storeOutcomes, b.storeSuccessors, b.endSpentLeases} {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return settled, nil
}

// batch is one settling transaction on its way through its steps.
type batch struct {
	*Store
	tx          pgx.Tx
	settlements []almanac.Settlement
	settled     []almanac.Settled
	users       map[uuid.UUID]almanac.User // those who are not deleted
	now         time.Time
}

// lockUsers locks the users of all events, so that none can change before their
// successors are stored, and reads the clock.
func (b *batch) lockUsers(ctx context.Context) (err error) {
	var statements pgx.Batch
	statements.Queue(b.statements["settle_users"], pgx.StrictNamedArgs{
		"ids": uuids(column(b.settlements, func(s almanac.Settlement) uuid.UUID { return s.Event.UserID })),
	})
	statements.Queue(b.statements["now"])
	results := b.tx.SendBatch(ctx, &statements)
	defer func() { err = errors.Join(err, results.Close()) }()

	b.users = make(map[uuid.UUID]almanac.User, len(b.settlements))
	_, err = next(results, pgx.CollectRows[struct{}], func(row pgx.CollectableRow) (struct{}, error) {
		var deleted bool
		var u userRow
		if err := row.Scan(append([]any{&deleted}, u.targets()...)...); err != nil || deleted {
			return struct{}{}, err
		}
		user, err := u.value()
		b.users[user.ID] = user
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	b.now, err = next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	return err
}

// outcome returns what is to be stored for a settlement: nothing is tried again
// for a user who was deleted, and a failure has a reason.
func (b *batch) outcome(s almanac.Settlement) almanac.Outcome {
	o := s.Outcome
	if _, exists := b.users[s.Event.UserID]; !exists && o.Status == almanac.Pending {
		o = almanac.GaveUp(almanac.ReasonUserDeleted)
	}
	return o
}

// storeOutcomes writes what each event became, where it is still as it was claimed.
func (b *batch) storeOutcomes(ctx context.Context) error {
	type claim struct { // of an event, with what fences it
		id, token uuid.UUID
		version   int
	}
	var claimed, wanted []almanac.Event
	var places []int
	seen := make(map[claim]bool, len(b.settlements))
	for i, s := range b.settlements {
		next, err := b.outcome(s).Apply(s.Event, b.now)
		if err != nil {
			b.settled[i].Err = err
			continue
		}
		places = append(places, i)
		// An event that stands twice in a batch is settled once, and the first counts.
		if c := (claim{s.Event.ID, s.Event.LeaseToken, s.Event.Version}); !seen[c] {
			seen[c], claimed, wanted = true, append(claimed, s.Event), append(wanted, next)
		}
	}
	stored, err := all(ctx, b.tx, b.statements["settle_events"], outcomeArgs(claimed, wanted), scanEvent)
	if err != nil {
		return err
	}
	byID := eventsByID(stored)
	var unanswered []int
	for _, i := range places {
		e, ok := byID[b.settlements[i].Event.ID]
		if !ok || !b.settlements[i].StoredAs(e) {
			unanswered = append(unanswered, i)
			continue
		}
		b.settled[i].Event = e
		delete(byID, e.ID) // its successor is stored once
	}
	return b.recognise(ctx, unanswered)
}

func outcomeArgs(claimed, wanted []almanac.Event) pgx.StrictNamedArgs {
	retries, crashes := make([]int, len(wanted)), make([]int, len(wanted))
	for i, e := range wanted {
		retries[i], crashes[i] = e.RetryCount-claimed[i].RetryCount, e.CrashCount-claimed[i].CrashCount
	}
	type event = almanac.Event
	return pgx.StrictNamedArgs{
		"ids":       uuids(column(claimed, func(e event) uuid.UUID { return e.ID })),
		"versions":  column(claimed, func(e event) int { return e.Version }),
		"tokens":    uuids(column(claimed, func(e event) uuid.UUID { return e.LeaseToken })),
		"statuses":  column(wanted, func(e event) string { return string(e.Status) }),
		"available": column(wanted, func(e event) *time.Time { return orNull(e.AvailableAt) }),
		"executed":  column(wanted, func(e event) *time.Time { return orNull(e.ExecutedAt) }),
		"failures":  column(wanted, func(e event) *string { return orNull(e.FailureReason) }),
		"errors":    column(wanted, func(e event) *string { return orNull(e.LastError) }),
		"retries":   retries,
		"crashes":   crashes,
	}
}

func eventsByID(events []almanac.Event) map[uuid.UUID]almanac.Event {
	byID := make(map[uuid.UUID]almanac.Event, len(events))
	for _, e := range events {
		byID[e.ID] = e
	}
	return byID
}

// recognise tells the settlements that were stored before, by a commit whose
// answer got lost, from those whose event belongs to another by now or is gone.
func (b *batch) recognise(ctx context.Context, unanswered []int) error {
	if len(unanswered) == 0 {
		return nil
	}
	ids := column(unanswered, func(i int) uuid.UUID { return b.settlements[i].Event.ID })
	stored, err := all(ctx, b.tx, b.statements["events"], pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvent)
	if err != nil {
		return err
	}
	byID := eventsByID(stored)
	for _, i := range unanswered {
		id := b.settlements[i].Event.ID
		e, ok := byID[id]
		if !ok {
			b.settled[i].Err = &almanac.NotFoundError{Kind: "event", ID: id}
			continue
		}
		if !b.settlements[i].StoredAs(e) {
			b.settled[i].Err = almanac.ErrLeaseLost
			continue
		}
		b.settled[i].Event = e
		b.settlements[i].Next = nil // its successor was stored with it
	}
	return nil
}

// storeSuccessors plans what follows the events that ended just now, and stores it.
func (b *batch) storeSuccessors(ctx context.Context) error {
	var successors []almanac.Event
	owner := make(map[uuid.UUID]int)
	for i, s := range b.settlements {
		user, exists := b.users[s.Event.UserID]
		if b.settled[i].Err != nil || s.Next == nil || !exists || !b.settled[i].Event.Status.Terminal() {
			continue
		}
		e, err := s.Next(user, b.now)
		switch {
		case errors.Is(err, almanac.ErrNoOccurrence):
		case err != nil:
			b.settled[i].PlanErr = err
		default:
			successors = append(successors, e)
			owner[e.ID] = i
		}
	}
	stored, err := b.insert(ctx, b.tx, successors)
	for _, e := range stored {
		b.settled[owner[e.ID]].Successor = &e
	}
	return err
}

// endSpentLeases ends the leases of which nothing is left. A hint goes along.
func (b *batch) endSpentLeases(ctx context.Context) error {
	tokens := column(b.settlements, func(s almanac.Settlement) uuid.UUID { return s.Event.LeaseToken })
	if !b.worthAHint(b.stored()) {
		return b.endLeases(ctx, b.tx, tokens)
	}
	var statements pgx.Batch
	statements.Queue(b.statements["end_leases"], pgx.StrictNamedArgs{"tokens": uuids(tokens)})
	statements.Queue(b.statements["notify"], b.notification(hintPayload))
	return b.tx.SendBatch(ctx, &statements).Close()
}

// stored returns the events as they are now, and their successors.
func (b *batch) stored() []almanac.Event {
	var stored []almanac.Event
	for _, s := range b.settled {
		if s.Err == nil {
			stored = append(stored, s.Event)
		}
		if s.Successor != nil {
			stored = append(stored, *s.Successor)
		}
	}
	return stored
}
