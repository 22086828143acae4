package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

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
	series, queue, rosters, err := b.lockEvents(ctx, tx, users)
	if err != nil {
		return nil, nil, err
	}
	free := make(map[uuid.UUID]almanac.Roster, len(rosters))
	for _, r := range rosters {
		if wholly(r, series, queue) {
			free[r.User.ID] = r
		}
	}
	for _, i := range part {
		if r, is := free[b.ids[i]]; is {
			list = append(list, &editing{index: i, roster: r})
		} else {
			alone = append(alone, i)
		}
	}
	return list, alone, nil
}

// wholly reports whether all open events of a roster are locked, by their ids, and none is claimed ahead of its instant.
func wholly(r almanac.Roster, series, queue map[uuid.UUID]bool) bool {
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

// lockEvents locks the open series and the pending events of locked users, as far as they are free, and
// reads the rosters of the users. It returns the ids of the events whose series and rows of the queue are locked.
func (s *Store) lockEvents(ctx context.Context, tx pgx.Tx, users []almanac.User) (series, queue map[uuid.UUID]bool, rosters []almanac.Roster, err error) {
	if len(users) == 0 {
		return nil, nil, nil, nil
	}
	ids := pgx.StrictNamedArgs{"ids": uuids(column(users, func(u almanac.User) uuid.UUID { return u.ID }))}
	for _, part := range []struct {
		sql  string
		into *map[uuid.UUID]bool
	}{{s.statements.LockRosterSeries, &series}, {s.statements.LockRosterQueue, &queue}} {
		locked, err := all(ctx, tx, part.sql, ids, scanID)
		if err != nil {
			return nil, nil, nil, err
		}
		*part.into = make(map[uuid.UUID]bool, len(locked))
		for _, id := range locked {
			(*part.into)[id] = true
		}
	}
	rosters, err = s.rosters(ctx, tx, nil, users)
	return series, queue, rosters, err
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
