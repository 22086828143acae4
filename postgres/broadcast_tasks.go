package postgres

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

// TakeBroadcast leases a broadcast that has something to do.
func (s *Store) TakeBroadcast(ctx context.Context, token uuid.UUID, term time.Duration, without []string) (t broadcast.Task, found bool, err error) {
	if without == nil {
		without = []string{}
	}
	var name string
	for more := true; more && !found && err == nil; {
		err = s.transact(ctx, "take a broadcast", func(ctx context.Context, tx pgx.Tx) error {
			t, found, name = broadcast.Task{Token: token}, false, ""
			args := pgx.StrictNamedArgs{"token": uuidArg(token), "term": term, "without": without}
			if len(without) > 0 {
				if _, err := tx.Exec(ctx, s.statements.LeaveBroadcasts, pgx.StrictNamedArgs{"token": uuidArg(token), "without": without}); err != nil {
					return err
				}
			}
			err := tx.QueryRow(ctx, s.statements.TakeBroadcast, args).Scan(&name, &t.Requeue)
			if more = err == nil; !more {
				if errors.Is(err, pgx.ErrNoRows) {
					err = nil
				}
				return err
			}
			if t.Status, err = s.broadcast(ctx, tx, name); err != nil {
				return err
			}
			switch t.Requeue = t.Requeue && t.State == broadcast.Storing; {
			case t.Requeue:
				found = true
			case t.State == broadcast.Storing:
				found, err = s.nextZone(ctx, tx, &t)
			default:
				found, err = s.restOf(ctx, tx, t.Status)
			}
			return err
		})
	}
	if err != nil && name != "" && ctx.Err() == nil { // it must keep no other broadcast waiting; if this fails too, the next call tries again
		_ = s.transact(ctx, "delay a broadcast", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, s.statements.DelayBroadcast, pgx.StrictNamedArgs{"name": name, "token": uuidArg(token)})
			return err
		})
	}
	return t, found, err
}

// nextZone finds the zone to read next. If there is none, it notes when to look again.
func (s *Store) nextZone(ctx context.Context, tx pgx.Tx, t *broadcast.Task) (found bool, err error) {
	for range 2 {
		zones, err := all(ctx, tx, s.statements.NextBroadcastZone, pgx.StrictNamedArgs{"name": t.Name}, scanBroadcastZone)
		if err != nil {
			return false, err
		}
		if len(zones) > 0 {
			t.Zone = zones[0]
			return true, nil
		}
		if added, err := s.addZones(ctx, tx, t.Broadcast, t.CreatedAt); err != nil {
			return false, err
		} else if !added {
			break
		}
	}
	_, err = tx.Exec(ctx, s.statements.RestBroadcast, pgx.StrictNamedArgs{"name": t.Name})
	return false, err
}

func scanBroadcastZone(row pgx.CollectableRow) (z broadcast.Zone, err error) {
	var wall pgtype.Timestamp
	var due *time.Time
	err = row.Scan(&z.Name, &wall, &due, &z.Late)
	z.At, z.Due, z.Skipped = wallOrZero(wall), utcOrZero(due), due == nil
	return z, err
}

// StoreBroadcast stores the events of a page of users.
func (s *Store) StoreBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (added almanac.AddEventsResult, err error) {
	p := broadcastPage{store: s, task: t, term: term, plan: plan, stored: make(map[uuid.UUID]bool), left: make(map[uuid.UUID]error)}
	if err := p.read(ctx, limit); err != nil {
		return added, err
	}
	if t.Zone.Skipped || len(p.at.ids) == 0 {
		return added, p.pass(ctx, broadcast.Counts{Users: len(p.at.ids), LeftOut: len(p.at.ids)})
	}
	added, err = p.addAll(ctx)
	if cause := err; p.at.reads > 0 && len(added.Events) == 0 && doubtful(ofStore(cause)) { // the first reading has stored the others
		err = nil
		for _, id := range p.at.ids {
			p.setAside(id, cause)
			added.Refused = append(added.Refused, almanac.Refusal{UserID: id, Err: cause})
		}
	}
	if err == nil && !p.moved {
		err = p.pass(ctx, countsOf(p.left))
	}
	return added, err
}

// broadcastPage is a page of users of a zone.
type broadcastPage struct {
	store *Store
	task  broadcast.Task
	term  time.Duration
	plan  func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)
	at    broadcastPlace

	turn     sync.Mutex // held by the half that locks users and plans: the other one is stored meanwhile, or has not begun
	planning sync.Mutex // held while plan is called
	mu       sync.Mutex // guards what follows
	stored   map[uuid.UUID]bool
	left     map[uuid.UUID]error // users without an event, and why; nil for those who had one already
	moved    bool                // whether the zone has the place after the page
}

// abreast is the number of users from which a page is stored in two halves at once.
const abreast = 100

// addAll stores the events of the users of the page, in two halves at once if the page is large. Each half counts the events that it stores. The
// users without an event are counted with the place after the page, so they count once if the page is repeated.
func (p *broadcastPage) addAll(ctx context.Context) (added almanac.AddEventsResult, err error) {
	if len(p.at.ids) >= abreast && p.store.pooled() {
		parts := halves(p.at.ids)
		results, errs := make([]almanac.AddEventsResult, len(parts)), make([]error, len(parts))
		var group sync.WaitGroup
		for i, part := range parts {
			group.Go(func() { results[i], errs[i] = p.add(ctx, part) })
		}
		group.Wait()
		for i := range parts {
			added, err = sum(added, results[i]), cmp.Or(err, errs[i])
		}
		if !mayBeOneRow(ofStore(err)) {
			return added, err // nil, too
		}
	}
	// Users who have an event by now show that the database works.
	rest, err := addInHalves(p.at.ids, func(ids []uuid.UUID) (almanac.AddEventsResult, error) {
		return p.add(ctx, ids)
	}, func(user uuid.UUID, cause error) (almanac.AddEventsResult, error) {
		p.setAside(user, cause)
		return almanac.AddEventsResult{Users: 1, Refused: []almanac.Refusal{{UserID: user, Err: cause}}}, nil
	})
	return sum(added, rest), err
}

// setAside notes a user without an event, and why.
func (p *broadcastPage) setAside(user uuid.UUID, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stored[user] {
		p.left[user] = cause
	}
}

// countsOf returns the counts of users without an event.
func countsOf(left map[uuid.UUID]error) broadcast.Counts {
	c := broadcast.Counts{Users: len(left)}
	for _, err := range left {
		switch {
		case errors.Is(err, almanac.ErrOptedOut):
			c.OptedOut++
		case err != nil:
			c.Refused++
		}
	}
	return c
}

// broadcastPlace is where a page is in its zone.
type broadcastPlace struct {
	ids    []uuid.UUID // of the users of the page
	last   *uuid.UUID  // the last user of the page; nil at the end of the zone
	first  bool        // whether it is the first page of a reading
	reads  int         // how often the zone was read before
	locked int         // on earlier pages
	due    *time.Time  // when this reading was due
}

// scans is how many users a page looks at: the limit, and more if few of them match.
const scans = 10

// read reads the page.
func (p *broadcastPage) read(ctx context.Context, limit int) error {
	t := p.task
	args := audienceArgs(t.Broadcast)
	args["zone"], args["type"], args["until"], args["limit"] = t.Zone.Name, t.Type, t.Until(), limit
	args["token"] = uuidArg(t.Token)
	args["detached"] = almanac.SeriesOf(almanac.Event{Type: t.Type, OccurrenceKey: t.Name, Origin: almanac.Origin{Kind: almanac.OriginScheduled}}).Detached
	find := func(ctx context.Context, db DB, scan int) (looked int, err error) {
		args["scan"] = scan
		p.at, err = one(ctx, db, p.store.statements.BroadcastPage, args, func(row pgx.CollectableRow) (at broadcastPlace, err error) {
			err = row.Scan(&at.ids, &at.last, &looked, &at.first, &at.reads, &at.locked, &at.due)
			if len(at.ids) == limit {
				at.last = &at.ids[limit-1]
			} else if looked < scan {
				at.last = nil
			}
			return at, err
		})
		return looked, err
	}
	return p.store.do(ctx, "find users of a broadcast", func(ctx context.Context, db DB) (err error) {
		looked, err := find(ctx, db, limit)
		if err == nil && looked == limit && len(p.at.ids) < limit/2 { // few match
			_, err = find(ctx, db, scans*limit)
		}
		if errors.Is(err, pgx.ErrNoRows) { // stopped, deleted, or leased by another program
			err = asIs(broadcast.ErrTaken)
		}
		return err
	})
}

// add stores the events of some users of the page, and with those of all users the place after the page.
func (p *broadcastPage) add(ctx context.Context, ids []uuid.UUID) (added almanac.AddEventsResult, err error) {
	added, err = p.addThose(ctx, ids, true)
	if violates(err, "series_name_key") { // some have an event by now
		added, err = p.addThose(ctx, ids, false)
	}
	return added, err
}

func (p *broadcastPage) addThose(ctx context.Context, ids []uuid.UUID, absent bool) (added almanac.AddEventsResult, err error) {
	p.turn.Lock()
	planned := sync.OnceFunc(p.turn.Unlock)
	defer planned()
	s, whole := p.store, len(ids) == len(p.at.ids)
	left := make(map[uuid.UUID]error, len(ids))
	err = s.transactKeys(ctx, "store a page of a broadcast", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
		for _, id := range ids {
			left[id] = nil
		}
		added, err = s.addTo(ctx, tx, keys, addition{p.task.Type, ids, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, error) {
			p.planning.Lock()
			defer p.planning.Unlock()
			defer planned()
			events, refused, err := p.plan(users, now)
			for _, one := range users {
				left[one.User.ID] = nil
			}
			for _, one := range refused {
				left[one.UserID] = one.Err
			}
			return events, err
		}, absent})
		if err != nil {
			return err
		}
		for _, id := range added.Locked {
			left[id] = almanac.ErrLocked
		}
		for _, e := range added.Events {
			delete(left, e.UserID)
		}
		if err := p.keep(ctx, tx, broadcast.Storing); err != nil {
			return err
		}
		counts := broadcast.Counts{Users: len(added.Events), Stored: len(added.Events)}
		if whole {
			maps.DeleteFunc(left, func(id uuid.UUID, _ error) bool { return p.stored[id] })
			counts.Add(countsOf(left))
		}
		return p.count(ctx, tx, counts, left, whole)
	})
	if err != nil {
		return added, err
	}
	for id, cause := range left {
		p.setAside(id, cause)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moved = p.moved || whole
	for _, e := range added.Events {
		p.stored[e.UserID] = true
		delete(p.left, e.UserID)
	}
	return added, nil
}

// pass stores the place after the page, and counts.
func (p *broadcastPage) pass(ctx context.Context, counts broadcast.Counts) error {
	return p.store.transact(ctx, "pass users of a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		if err := p.keep(ctx, tx, broadcast.Storing); err != nil {
			return err
		}
		return p.count(ctx, tx, counts, p.left, true)
	})
}

// keep locks the broadcast, unless it was stopped or another program has it.
func (p *broadcastPage) keep(ctx context.Context, tx pgx.Tx, state broadcast.State) error {
	args := pgx.StrictNamedArgs{"name": p.task.Name, "token": uuidArg(p.task.Token), "state": string(state), "term": p.term}
	kept, err := all(ctx, tx, p.store.statements.KeepBroadcast, args, pgx.RowTo[string])
	if err == nil && len(kept) == 0 {
		err = asIs(broadcast.ErrTaken)
	}
	return err
}

// count stores counts of users, and if the page is over the place after it.
func (p *broadcastPage) count(ctx context.Context, tx pgx.Tx, c broadcast.Counts, left map[uuid.UUID]error, over bool) error {
	s, locked := p.store, 0
	for _, err := range left {
		if over && errors.Is(err, almanac.ErrLocked) {
			locked++
		}
	}
	_, err := tx.Exec(ctx, s.statements.CountBroadcastUsers, pgx.StrictNamedArgs{
		"name": p.task.Name, "zone": p.task.Zone.Name, "first": over && p.at.first, "users": c.Users, "stored": c.Stored, "opted_out": c.OptedOut,
		"refused": c.Refused, "locked": locked, "left_out": c.LeftOut,
	})
	if err != nil || !over {
		return err
	}
	zone := pgx.StrictNamedArgs{"name": p.task.Name, "zone": p.task.Zone.Name, "position": nil, "next": nil}
	if p.at.last != nil {
		zone["position"] = uuidArg(*p.at.last)
	} else {
		now, err := one(ctx, tx, s.statements.Now, nil, scanTime)
		if err != nil {
			return err
		}
		zone["next"] = orNull(p.task.Next(p.at.reads+1, p.at.locked+locked, utcOrZero(p.at.due), now.UTC()))
	}
	_, err = tx.Exec(ctx, s.statements.MoveBroadcastZone, zone)
	return err
}
