package postgres

import (
	"cmp"
	"context"
	"errors"
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
	p := broadcastPage{store: s, task: t, term: term, plan: plan, tells: true}
	if err := p.read(ctx, limit); err != nil {
		return added, err
	}
	if t.Zone.Skipped || len(p.at.ids) == 0 {
		return p.pass(ctx, nil)
	}
	added, err = p.addAll(ctx)
	if cause := err; p.at.reads > 0 && len(added.Events) == 0 && doubtful(ofStore(cause)) { // the first reading has stored the others
		for _, id := range p.at.ids {
			added.Refused = append(added.Refused, almanac.Refusal{UserID: id, Err: cause})
		}
		err = nil
	}
	if err == nil && !p.moved {
		_, err = p.pass(ctx, &broadcast.Counts{Users: len(added.Refused), Refused: len(added.Refused)})
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

	planning sync.Mutex // one half is planned while the other one is stored
	mu       sync.Mutex // guards what follows
	locked   int        // users of the page
	tells    bool       // whether the next counts are the first ones of a reading
	moved    bool       // whether the zone has the place after the page
}

// abreast is the number of users from which a page is stored in two halves at once.
const abreast = 100

// addAll stores the events of the users of the page, in two halves at once if the page is large. The first page of a reading is stored as
// one, because its counts replace those of the reading before.
func (p *broadcastPage) addAll(ctx context.Context) (added almanac.AddEventsResult, err error) {
	parts := [][]uuid.UUID{p.at.ids}
	if len(p.at.ids) >= abreast && !p.tells && !p.store.InTransaction() {
		parts = halves(p.at.ids)
	}
	results, errs := make([]almanac.AddEventsResult, len(parts)), make([]error, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		group.Go(func() {
			results[i], errs[i] = addInHalves(part, func(ids []uuid.UUID) (almanac.AddEventsResult, error) {
				return p.add(ctx, ids, len(ids) == len(p.at.ids))
			}, func(user uuid.UUID, cause error) (almanac.AddEventsResult, error) {
				return almanac.AddEventsResult{Users: 1, Refused: []almanac.Refusal{{UserID: user, Err: cause}}}, nil
			})
		})
	}
	group.Wait()
	added, err = results[0], errs[0]
	for i, one := range results[1:] {
		added = sum(added, one)
		err = cmp.Or(err, errs[i+1])
	}
	return added, err
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
		if errors.Is(err, pgx.ErrNoRows) { // deleted
			err = asIs(broadcast.ErrTaken)
		}
		p.tells = p.at.first
		return err
	})
}

// add stores the events of some users of the page, and with those of all users the place after the page.
func (p *broadcastPage) add(ctx context.Context, ids []uuid.UUID, whole bool) (added almanac.AddEventsResult, err error) {
	if added, err = p.addThose(ctx, ids, whole, true); violates(err, "series_name_key") { // another transaction has just added one of the series
		added, err = p.addThose(ctx, ids, whole, false)
	}
	return added, err
}

func (p *broadcastPage) addThose(ctx context.Context, ids []uuid.UUID, whole, absent bool) (added almanac.AddEventsResult, err error) {
	s, refused := p.store, make(map[uuid.UUID]error)
	err = s.transactKeys(ctx, "store a page of a broadcast", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		clear(refused)
		var err error
		added, err = s.addTo(ctx, tx, keys, addition{p.task.Type, ids, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, error) {
			p.planning.Lock()
			events, no, err := p.plan(users, now)
			p.planning.Unlock()
			for _, one := range users {
				delete(refused, one.User.ID)
			}
			for _, one := range no {
				refused[one.UserID] = one.Err
			}
			return events, err
		}, absent})
		if err != nil {
			return err
		}
		counts := broadcast.Counts{Users: len(ids), Stored: len(added.Events), Refused: len(added.Locked)}
		for _, err := range refused {
			if errors.Is(err, almanac.ErrOptedOut) {
				counts.OptedOut++
			} else {
				counts.Refused++
			}
		}
		if err := p.keep(ctx, tx, broadcast.Storing); err != nil {
			return err
		}
		return p.count(ctx, tx, counts, len(added.Locked), whole)
	})
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tells, p.moved, p.locked = false, whole, p.locked+len(added.Locked)
	}
	return added, err
}

// pass stores the place after the page, and counts.
func (p *broadcastPage) pass(ctx context.Context, counts *broadcast.Counts) (added almanac.AddEventsResult, err error) {
	if counts == nil {
		counts = &broadcast.Counts{Users: len(p.at.ids), LeftOut: len(p.at.ids)}
	}
	err = p.store.transact(ctx, "pass users of a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		if err := p.keep(ctx, tx, broadcast.Storing); err != nil {
			return err
		}
		return p.count(ctx, tx, *counts, 0, true)
	})
	return added, err
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
func (p *broadcastPage) count(ctx context.Context, tx pgx.Tx, c broadcast.Counts, locked int, over bool) error {
	s := p.store
	zone := pgx.StrictNamedArgs{"name": p.task.Name, "zone": p.task.Zone.Name}
	_, err := tx.Exec(ctx, s.statements.CountBroadcastUsers, pgx.StrictNamedArgs{
		"name": p.task.Name, "zone": p.task.Zone.Name, "first": p.tells, "users": c.Users, "stored": c.Stored, "opted_out": c.OptedOut,
		"refused": c.Refused, "locked": locked, "left_out": c.LeftOut,
	})
	if err != nil || !over {
		return err
	}
	zone["position"], zone["next"] = nil, nil
	if p.at.last != nil {
		zone["position"] = uuidArg(*p.at.last)
	} else {
		now, err := one(ctx, tx, s.statements.Now, nil, scanTime)
		if err != nil {
			return err
		}
		zone["next"] = orNull(p.task.Next(p.at.reads+1, p.at.locked+p.locked+locked, utcOrZero(p.at.due), now.UTC()))
	}
	_, err = tx.Exec(ctx, s.statements.MoveBroadcastZone, zone)
	return err
}
