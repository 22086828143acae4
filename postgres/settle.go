package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// Settle stores outcomes, each in one transaction with its successor. It waits for no lock of
// another transaction. If the series or the user of an event is locked, the event's result has
// [almanac.ErrLocked], and the other outcomes are stored.
//
// When the database refuses a row of the batch, the settlements are stored in halves, so that the refused row
// does not block the others. A successor that the database refuses is left out. An error that may be the
// fault of all rows counts as the fault of one if others could be stored, in this call or in those before.
func (s *Store) Settle(ctx context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	settled, left, err := s.settleTogether(ctx, settlements)
	if err == nil {
		s.earlier.settles.Store(true)
		return settled, nil
	}
	if !refused(err) && !doubtful(err) {
		return nil, err
	}
	works := len(left) < len(settlements)
	err = inHalves(left, func(part []int) error {
		stored, _, err := s.settleTogether(ctx, column(part, func(i int) almanac.Settlement { return settlements[i] }))
		if err != nil {
			return err
		}
		for k, i := range part {
			settled[i] = stored[k]
		}
		works = true
		s.earlier.settles.Store(true)
		return nil
	}, func(i int, cause error) (err error) {
		settled[i], err = s.settleReduced(ctx, settlements[i], cause)
		if refused(err) || doubtful(err) && (works || s.earlier.settles.Swap(false)) {
			settled[i], err = almanac.SettleResult{Err: err}, nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return settled, nil
}

// settleReduced stores a settlement that the database refused, without its successor, without its
// follow-ups, or without both. A successor is planned again later, and follow-ups are not, so the
// successor is given up first. Follow-ups are not given up for an error that may be about all rows.
func (s *Store) settleReduced(ctx context.Context, whole almanac.Settlement, cause error) (almanac.SettleResult, error) {
	err := cause
	for _, without := range []struct{ next, follow bool }{{true, false}, {false, true}, {true, true}} {
		if !refused(err) && !doubtful(err) {
			break
		}
		if without.next && whole.Next == nil || without.follow && (whole.Follow == nil || doubtful(cause)) {
			continue
		}
		reduced := whole
		if without.next {
			reduced.Next = func(almanac.User, time.Time) (almanac.Event, error) { return almanac.Event{}, cause }
		}
		if without.follow {
			reduced.Follow = func(almanac.User, time.Time) ([]almanac.Event, error) { return nil, cause }
		}
		var settled []almanac.SettleResult
		if settled, _, err = s.settleTogether(ctx, []almanac.Settlement{reduced}); err == nil {
			return settled[0], nil
		}
	}
	return almanac.SettleResult{}, err
}

// settleTogether stores a batch in at most two transactions, and one more for each settlement that
// stores events in other series. The first transaction locks no users. It plans from the users as
// they were when their events were claimed, and stores an outcome only if the series has the same
// version of the user. The second transaction locks the users of the remaining settlements. On an
// error, settleTogether also returns the indexes of the settlements that are not stored, and the
// results of the others. See docs/adr/0041-locked.md.
func (s *Store) settleTogether(ctx context.Context, settlements []almanac.Settlement) (settled []almanac.SettleResult, left []int, err error) {
	b := &batch{Store: s, settlements: settlements, settled: make([]almanac.SettleResult, len(settlements))}
	left = indexesOf(settlements)
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

// batch has the arguments and the results of Settle.
type batch struct {
	*Store
	settlements []almanac.Settlement
	settled     []almanac.SettleResult
}

// settle runs one transaction, and returns the indexes of the settlements that are left for another
// transaction. After an error all settlements are left.
func (b *batch) settle(ctx context.Context, indexes []int, locked bool) (left []int, err error) {
	err = b.transactKeys(ctx, "settle", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
		t := &settling{batch: b, tx: tx, keys: keys, locked: locked}
		left, err = t.run(ctx, indexes)
		return err
	})
	if err != nil {
		return indexes, err
	}
	return left, nil
}

// settling is the state of one settling transaction.
type settling struct {
	*batch
	tx     pgx.Tx
	keys   keys
	locked bool                       // whether users are locked
	users  map[uuid.UUID]almanac.User // users that are locked and not deleted
	busy   map[uuid.UUID]bool         // users that another transaction has locked
	claims claims
	marks  []calendar.ZoneRules // rules of successors that differ from the stored rules
	next   []almanac.Event      // successors in the series of their events, in the order of the changes that point to them
	now    time.Time
}

// claimed identifies an event at one claim.
type claimed struct {
	id, token uuid.UUID
	version   int // while it was PENDING
}

func claimedAs(e almanac.Event) claimed { return claimed{e.ID, e.LeaseToken, e.Version - 1} }

// run stores the settlements at the given indexes, and returns the indexes of the settlements that
// are left for another transaction. If users are not locked, these are the settlements that were
// not stored. If users are locked, these are the settlements that need a transaction of their own.
func (t *settling) run(ctx context.Context, indexes []int) (left []int, err error) {
	for _, i := range indexes {
		t.settled[i] = almanac.SettleResult{} // the transaction may be repeated
	}
	if err := t.read(ctx, indexes); err != nil {
		return nil, err
	}
	changes, rest, alone, err := t.changes(indexes)
	if err != nil {
		return nil, asIs(err)
	}
	if free, err := t.lockWanted(ctx, changes); err != nil {
		return nil, err
	} else if !free {
		t.settled[changes[0].index] = almanac.SettleResult{Err: almanac.ErrLocked}
		return nil, nil
	}
	if err := t.name(ctx); err != nil {
		return nil, err
	}
	if err := t.store(ctx, changes); err != nil {
		return nil, err
	}
	for _, c := range changes {
		result := &t.settled[c.index] // its Event is c.is
		if !c.claim.stored {
			rest, *result = append(rest, c.index), almanac.SettleResult{}
			continue
		}
		result.Successor, result.PlanErr, result.Stalled, result.FollowErr = c.next, c.planErr, c.stalled, c.lostErr
		if err := t.storeOthers(ctx, c); err != nil {
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

// read reads the leases of the tokens and the database clock. If t.locked is true, it locks the users first.
func (t *settling) read(ctx context.Context, indexes []int) (err error) {
	t.claims = t.claimsOf(indexes)
	var statements pgx.Batch
	if t.locked {
		users := column(indexes, func(i int) uuid.UUID { return t.settlements[i].Event.UserID })
		statements.Queue(t.statements.SettleUsers, pgx.StrictNamedArgs{"ids": uuids(users)})
		statements.Queue(t.statements.StoredUsers, pgx.StrictNamedArgs{"ids": uuids(users)})
	}
	statements.Queue(t.statements.Leases, pgx.StrictNamedArgs{"tokens": uuids(t.claims.tokens())})
	results := t.tx.SendBatch(ctx, &statements)
	defer closeBatch(results, &err)

	if t.locked {
		if t.users, t.busy, err = lockedUsers(results); err != nil {
			return err
		}
	}
	_, err = next(results, pgx.CollectRows[struct{}], func(row pgx.CollectableRow) (none struct{}, err error) {
		var l lease
		if err := row.Scan(l.targets(&t.now)...); err != nil {
			return none, err
		}
		for i, id := range l.ids {
			t.claims.note(claimed{id, l.token, l.versions[i]}, l.series[i])
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
	var isDeleted bool
	var u userRow
	into := append([]any{&isDeleted}, targets(u.cells())...)
	_, err = next(results, pgx.CollectRows[struct{}], func(row pgx.CollectableRow) (none struct{}, err error) {
		if err := row.Scan(into...); err != nil {
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

// recognise fills in the results of the settlements that were not stored. Some of them were stored
// before, by a commit whose response was lost. The events of the others are locked, belong to
// another process now, or do not exist.
func (t *settling) recognise(ctx context.Context, unsettled []int) error {
	if len(unsettled) == 0 {
		return nil
	}
	ids := column(unsettled, func(i int) uuid.UUID { return t.settlements[i].Event.ID })
	stored, err := all(ctx, t.tx, t.statements.Events, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvents())
	if err != nil {
		return err
	}
	byID := make(map[uuid.UUID]almanac.Event, len(stored))
	for _, e := range stored {
		byID[e.ID] = e
	}
	var recognised []int
	for _, i := range unsettled {
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

// recogniseNew adds to the results the events that were stored with settlements whose response was
// lost: successors in the same series, and follow-ups. They are planned again, from the users as
// they are now, to find their keys.
func (t *settling) recogniseNew(ctx context.Context, indexes []int) error {
	planned := make(map[int]*change, len(indexes))
	var users []uuid.UUID
	since := t.now
	for _, i := range indexes {
		s, ended := &t.settlements[i], t.settled[i].Event
		u, exists := t.users[ended.UserID]
		if !exists || !ended.Status.Terminal() {
			continue
		}
		c := &change{was: &s.Event}
		t.plan(c, s, u, ended.UpdatedAt)
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
	stored, err := all(ctx, t.tx, t.statements.NewEvents, pgx.StrictNamedArgs{"users": uuids(distinct(users)), "since": since.Add(-t.timeout)}, scanEvents())
	if err != nil {
		return err
	}
	find := func(wanted almanac.Event, earliest, latest time.Time) *almanac.Event {
		i := slices.IndexFunc(stored, func(e almanac.Event) bool {
			return e.UserID == wanted.UserID && almanac.SeriesOf(e) == almanac.SeriesOf(wanted) && e.OccurrenceKey == wanted.OccurrenceKey && e.KeyUnit == wanted.KeyUnit &&
				!e.CreatedAt.Before(earliest) && !e.CreatedAt.After(latest)
		})
		if i < 0 {
			return nil
		}
		e := stored[i]
		born(&e, e.CreatedAt) // as it was stored, whatever has changed since
		return &e
	}
	for i, c := range planned {
		one, ended := &t.settled[i], t.settled[i].Event.UpdatedAt
		if c.next != nil {
			one.Successor = find(*c.next, ended, ended)
		}
		for _, f := range c.follow {
			// A follow-up has the start of the transaction as its time of creation.
			if e := find(f, ended.Add(-t.timeout), ended); e != nil {
				one.Followed = append(one.Followed, *e)
			}
		}
	}
	return nil
}
