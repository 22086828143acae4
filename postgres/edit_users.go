package postgres

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// mostEdited is how many users one transaction edits.
const mostEdited = 1000

// editUser is the function that EditUsers calls with the index of an id and the roster of that user.
type editUser = func(int, almanac.Roster) (almanac.Edit, error)

// editing is an edit of one of the users whom a transaction has locked.
type editing struct {
	index          int
	roster         almanac.Roster
	wanted, stored almanac.Edit
	err            error // of the edit; then nothing of it is stored
}

// EditUsers edits users, up to 1,000 in one transaction, with one statement for all of them where
// EditUser has one for each. A user whom such a transaction cannot lock at once, or who has an event that was
// claimed ahead of its instant, is edited by EditUser afterwards. So are all users of a transaction
// if one of them takes the external id of another. If an edit cannot be stored, the others are
// stored, see inHalves. See docs/adr/0079-bulk.md.
func (s *Store) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	b := bulk{Store: s, ids: ids, edit: edit, edits: make([]almanac.Edit, len(ids)), errs: make([]error, len(ids)), done: make([]bool, len(ids))}
	for rest := indexesOf(ids); len(rest) > 0; {
		var part []int
		part, rest = b.apart(rest)
		if err := b.run(ctx, part); err != nil {
			for i := range ids {
				if !b.done[i] {
					b.errs[i] = err
				}
			}
			break
		}
	}
	return b.edits, b.errs
}

// bulk is a call of EditUsers. Its lists have an element for each of the ids.
type bulk struct {
	*Store
	ids   []uuid.UUID
	edit  editUser
	edits []almanac.Edit
	errs  []error
	done  []bool // whether the result is known
}

// apart returns the first indexes whose users can be edited together: no user twice. The rest is for later.
func (b *bulk) apart(indexes []int) (part, rest []int) {
	seen := make(map[uuid.UUID]bool, mostEdited)
	for _, i := range indexes {
		if seen[b.ids[i]] || len(part) == mostEdited {
			rest = append(rest, i)
			continue
		}
		seen[b.ids[i]] = true
		part = append(part, i)
	}
	return part, rest
}

// run edits different users. An error says that the other users would fail alike.
func (b *bulk) run(ctx context.Context, part []int) error {
	var alone []int
	err := inHalves(part, func(part []int) error {
		if len(part) == 1 {
			return b.one(ctx, part[0])
		}
		left, err := b.together(ctx, part)
		alone = append(alone, left...)
		return err
	}, func(i int, cause error) error {
		b.errs[i], b.done[i] = cause, true
		return nil
	})
	slices.Sort(alone)
	for _, i := range alone {
		if err != nil {
			break
		}
		if err = b.one(ctx, i); mayBeOneRow(err) {
			b.done[i], err = true, nil
		}
	}
	return err
}

// one edits a user by EditUser. It returns an error of the store, which other users may have too.
func (b *bulk) one(ctx context.Context, i int) error {
	b.edits[i], b.errs[i] = b.EditUser(ctx, b.ids[i], func(r almanac.Roster) (almanac.Edit, error) { return b.edit(i, r) })
	err := ofStore(b.errs[i])
	b.done[i] = err == nil
	return err
}

// together edits users in one transaction. It returns those to be edited alone.
func (b *bulk) together(ctx context.Context, part []int) (alone []int, err error) {
	var list []*editing
	err = b.transactKeys(ctx, "change the events of users", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		alone = nil
		if err := b.seesLatest(ctx, tx); err != nil {
			return err
		}
		var err error
		if list, alone, err = b.lock(ctx, tx, part); err != nil || len(list) == 0 {
			return err
		}
		if err := b.decideAll(ctx, tx, list, b.edit); err != nil {
			return err
		}
		for _, one := range list {
			if one.err == nil {
				one.err = one.roster.Check(one.wanted)
			}
		}
		if entangled(list) {
			list, alone = nil, part
			return nil
		}
		return b.apply(ctx, tx, keys, slices.DeleteFunc(slices.Clone(list), func(one *editing) bool { return one.err != nil }))
	})
	if errors.Is(err, almanac.ErrOptimisticLock) { // of one of the users
		return part, nil
	}
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		b.edits[one.index], b.errs[one.index], b.done[one.index] = one.stored, one.err, true
	}
	return alone, nil
}

// entangled reports whether the order of edits counts: an edit takes an external id that another user of
// the list has or takes. It is also true if an edit has another version of its user than the next.
func entangled(list []*editing) bool {
	holders := make(map[string]uuid.UUID)
	note := func(u almanac.User) bool {
		other, is := holders[u.ExternalID]
		holders[u.ExternalID] = u.ID
		return is && other != u.ID && u.ExternalID != ""
	}
	for _, one := range list {
		if u := one.roster.User; note(u) {
			return true
		}
	}
	for _, one := range list {
		if u := one.wanted.User; one.err == nil && u != nil && (note(*u) || u.ID != one.roster.User.ID || u.Version != one.roster.User.Version+1) {
			return true
		}
	}
	return false
}

// lock locks users with their open events, without waiting, and reads their rosters. It returns the
// indexes of the users that are missing, locked in part by another transaction, or claimed ahead. Each
// statement sees the rows that were committed before the statement began.
func (b *bulk) lock(ctx context.Context, tx pgx.Tx, part []int) (list []*editing, alone []int, err error) {
	ids := column(part, func(i int) uuid.UUID { return b.ids[i] })
	users, err := all(ctx, tx, b.statements.LockRosters, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanUsers())
	if err != nil {
		return nil, nil, err
	}
	free := make(map[uuid.UUID]*almanac.Roster)
	if len(users) > 0 {
		if free, err = b.lockEvents(ctx, tx, users); err != nil {
			return nil, nil, err
		}
	}
	for _, i := range part {
		if r := free[b.ids[i]]; r != nil {
			list = append(list, &editing{index: i, roster: *r})
		} else {
			alone = append(alone, i)
		}
	}
	return list, alone, nil
}

// lockEvents locks the open series and the pending events of locked users, as far as they are free. It returns the
// rosters of the users of whom all that is open is locked and nothing is claimed ahead of its instant.
func (s *Store) lockEvents(ctx context.Context, tx pgx.Tx, users []almanac.User) (free map[uuid.UUID]*almanac.Roster, err error) {
	free = rostersOf(users)
	found, series, err := s.lockOpen(ctx, tx, users, free)
	if err != nil {
		return nil, err
	}
	locked := make(map[uuid.UUID]bool, len(found)) // the pending events
	var others []almanac.User
	for i := range found {
		one := &found[i]
		if one.locked {
			locked[one.event.ID] = true
		}
		r := free[one.event.UserID]
		switch {
		case one.locked && r != nil:
			addEvent(r, one.event)
			used, err := one.usedAt(r)
			if err != nil {
				return nil, err
			}
			if len(used) > 0 {
				r.Used[almanac.SeriesOf(one.event)] = used
			}
		case r != nil: // being claimed or in flight
			others = append(others, r.User)
			delete(free, r.User.ID)
		}
	}
	if len(others) > 0 {
		rosters, err := s.rosters(ctx, tx, nil, others)
		if err != nil {
			return nil, err
		}
		for i := range rosters {
			free[rosters[i].User.ID] = &rosters[i]
		}
	}
	for id, r := range free {
		if !wholly(r, series, locked) {
			delete(free, id)
		}
		slices.SortFunc(r.Pending, inOrderOfID)
		slices.SortFunc(r.InFlight, inOrderOfID)
	}
	return free, nil
}

func inOrderOfID(a, b almanac.Event) int { return bytes.Compare(a.ID[:], b.ID[:]) }

// lockOpen locks the open series of users, and then their pending events, as far as they are free. It
// returns the open events and the ids of those whose series is locked, and completes the rosters with all else.
func (s *Store) lockOpen(ctx context.Context, tx pgx.Tx, users []almanac.User, rosters map[uuid.UUID]*almanac.Roster) (found []openEvent, series map[uuid.UUID]bool, err error) {
	var batch pgx.Batch
	ids := uuids(column(users, func(u almanac.User) uuid.UUID { return u.ID }))
	batch.Queue(s.statements.LockRosterSeries, pgx.StrictNamedArgs{"ids": ids})
	batch.Queue(s.statements.LockRosterEvents, pgx.StrictNamedArgs{"ids": ids})
	batch.Queue(s.statements.Stalled, pgx.StrictNamedArgs{"users": ids, "limit": nil})
	batch.Queue(s.statements.Now)
	results := tx.SendBatch(ctx, &batch)
	defer closeBatch(results, &err)
	open, err := next(results, pgx.CollectRows[uuid.UUID], scanID)
	if err != nil {
		return nil, nil, err
	}
	series = make(map[uuid.UUID]bool, len(open))
	for _, id := range open {
		series[id] = true
	}
	if found, err = next(results, pgx.CollectRows[openEvent], scanOpenEvents()); err != nil {
		return nil, nil, err
	}
	stalled, err := next(results, pgx.CollectRows[almanac.StalledSeries], scanStalled)
	if err != nil {
		return nil, nil, err
	}
	for _, is := range stalled {
		rosters[is.UserID].Stalled = append(rosters[is.UserID].Stalled, is)
	}
	now, err := next(results, pgx.CollectExactlyOneRow[time.Time], scanTime)
	for _, r := range rosters {
		r.Now = now
	}
	return found, series, err
}

// wholly reports whether all open events of a roster are locked, by their ids, and none is claimed ahead of its instant.
func wholly(r *almanac.Roster, series, queue map[uuid.UUID]bool) bool {
	for _, events := range [...][]almanac.Event{r.Pending, r.InFlight} {
		for i := range events {
			e := &events[i]
			if !series[e.ID] || e.Status == almanac.Pending && !queue[e.ID] {
				return false
			}
			if e.Status != almanac.Pending && (e.Due.After(r.Now) || e.ReadyAt.After(r.Now)) {
				return false
			}
		}
	}
	return true
}

// decideAll calls edit with each roster. At first a roster has the used keys of open series only. When an
// edit adds events to other series, decideAll calls edit again with the used keys of these.
func (s *Store) decideAll(ctx context.Context, tx pgx.Tx, list []*editing, edit editUser) error {
	of := make(map[uuid.UUID]*editing, len(list))
	for _, one := range list {
		of[one.roster.User.ID] = one
	}
	for again := list; len(again) > 0; {
		var planned []almanac.Event
		for _, one := range again {
			if one.wanted, one.err = edit(one.index, shown(one.roster)); one.err == nil {
				planned = append(planned, slices.DeleteFunc(slices.Clone(one.wanted.New), isRequeued)...)
			}
		}
		unshown, err := s.unshownKeys(ctx, tx, planned, func(e almanac.Event) map[almanac.Series]almanac.UsedKeys {
			if one := of[e.UserID]; one != nil {
				return one.roster.Used
			}
			return nil
		})
		if err != nil {
			return err
		}
		again = nil
		for _, key := range unshown {
			one := of[key.user]
			if one == nil { // an edit adds an event of another user
				continue
			}
			if !slices.Contains(again, one) {
				again = append(again, one)
				one.roster.Used = maps.Clone(one.roster.Used)
			}
			one.roster.Used[key.series] = key.used
		}
	}
	return nil
}

// shown returns a copy of a roster, because an edit may change the lists and the map.
func shown(r almanac.Roster) almanac.Roster {
	r.Pending, r.InFlight = slices.Clone(r.Pending), slices.Clone(r.InFlight)
	r.Used, r.Stalled = maps.Clone(r.Used), slices.Clone(r.Stalled)
	return r
}
