package postgres

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

// countPart is how many ended events of a broadcast a transaction counts, so that it takes a fraction of a second.
const countPart = 50_000

// restOf reports whether a broadcast has events to cancel. If not, it counts a part of its ended events, notes that all have ended,
// or notes when to look again.
func (s *Store) restOf(ctx context.Context, tx pgx.Tx, is broadcast.Status) (found bool, err error) {
	name := pgx.StrictNamedArgs{"name": is.Name}
	for restarted := false; ; restarted = true {
		var pending, processing, passed bool
		args := pgx.StrictNamedArgs{"name": is.Name, "type": is.Type, "lane": is.Lane()}
		if err := tx.QueryRow(ctx, s.statements.OpenBroadcast, args).Scan(&pending, &processing, &passed); err != nil {
			return false, err
		}
		switch {
		case pending && is.State == broadcast.Stopped && !restarted:
			return true, nil
		case !pending && passed: // some may have been locked
			if _, err := tx.Exec(ctx, s.statements.RestartBroadcast, name); err != nil {
				return false, err
			}
		case pending || processing:
			_, err = tx.Exec(ctx, s.statements.LookAgain, name)
			return false, err
		default:
			return false, s.countEnded(ctx, tx, is)
		}
	}
}

// countEnded counts a part of the ended events of a broadcast. After the last one, it notes that all have ended.
func (s *Store) countEnded(ctx context.Context, tx pgx.Tx, is broadcast.Status) error {
	var last *uuid.UUID
	var all int
	zones := make(map[string][3]int)
	rows, err := query(ctx, tx, s.statements.EndedOfBroadcast, pgx.StrictNamedArgs{"name": is.Name, "lane": is.Lane(), "limit": countPart})
	if err != nil {
		return err
	}
	var zone string
	var n [3]int
	if _, err := pgx.ForEachRow(rows, []any{&zone, &n[0], &n[1], &n[2], &last, &all}, func() error { zones[zone] = n; return nil }); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(zones))
	if err := s.ensureZones(ctx, tx, is, names); err != nil {
		return err
	}
	args := pgx.StrictNamedArgs{"name": is.Name, "zones": names, "last": nil}
	for i, status := range []string{"delivered", "failed", "cancelled"} {
		args[status] = column(names, func(zone string) int { return zones[zone][i] })
	}
	if last != nil {
		args["last"] = uuidArg(*last)
	}
	if _, err = tx.Exec(ctx, s.statements.CountEnded, args); err != nil || all == countPart {
		return err
	}
	_, err = tx.Exec(ctx, s.statements.EndBroadcast, pgx.StrictNamedArgs{"name": is.Name})
	return err
}

// ensureZones stores zones in which events of a broadcast are, unless it has them: users may have moved to zones in which no user was.
func (s *Store) ensureZones(ctx context.Context, tx pgx.Tx, is broadcast.Status, names []string) error {
	everywhere := is.Broadcast
	everywhere.Audience.Zones = nil
	known := broadcast.ZonesOf(is.Broadcast, names, is.CreatedAt)
	others := slices.DeleteFunc(broadcast.ZonesOf(everywhere, names, is.CreatedAt), func(z broadcast.Zone) bool { return slices.Contains(known, z) })
	if err := s.storeZones(ctx, tx, is.Name, known, is.State != broadcast.Stored); err != nil {
		return err
	}
	return s.storeZones(ctx, tx, is.Name, others, false)
}

// CancelBroadcast cancels pending events of a stopped broadcast.
func (s *Store) CancelBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int) (cancelled []almanac.Event, err error) {
	p := broadcastPage{store: s, task: t, term: term}
	var ids []uuid.UUID
	var at time.Time
	var last uuid.UUID
	err = s.do(ctx, "find pending events of a broadcast", func(ctx context.Context, db DB) error {
		args := pgx.StrictNamedArgs{"name": t.Name, "type": t.Type, "lane": t.Lane(), "limit": limit}
		rows, err := query(ctx, db, s.statements.PendingOfBroadcast, args)
		if err != nil {
			return err
		}
		ids = nil
		_, err = pgx.ForEachRow(rows, []any{&ids, &at, &last}, func() error { return nil })
		return err
	})
	if err != nil {
		return nil, err
	}
	moved := false
	cancel := func(part []uuid.UUID) error {
		var done []almanac.Event
		whole := len(part) == len(ids)
		err := s.transact(ctx, "cancel events of a broadcast", func(ctx context.Context, tx pgx.Tx) (err error) {
			if err := p.keep(ctx, tx, broadcast.Stopped); err != nil {
				return err
			}
			if done, err = s.cancelPending(ctx, tx, t, part); err != nil || !whole {
				return err
			}
			return p.passPending(ctx, tx, at, last)
		})
		if err == nil {
			cancelled, moved = append(cancelled, done...), whole
		}
		return err
	}
	if len(ids) > 0 {
		// An event that the database refuses to cancel stays pending, and is tried again when the others are cancelled.
		if err := inHalves(ids, cancel, func(uuid.UUID, error) error { return nil }); err != nil || moved {
			return cancelled, err
		}
	}
	err = s.transact(ctx, "pass events of a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		if err := p.keep(ctx, tx, broadcast.Stopped); err != nil {
			return err
		}
		if len(ids) == 0 {
			_, err := tx.Exec(ctx, s.statements.LookAgain, pgx.StrictNamedArgs{"name": t.Name})
			return err
		}
		return p.passPending(ctx, tx, at, last)
	})
	return cancelled, err
}

// passPending stores the last pending event that was looked at.
func (p *broadcastPage) passPending(ctx context.Context, tx pgx.Tx, at time.Time, last uuid.UUID) error {
	_, err := tx.Exec(ctx, p.store.statements.MoveBroadcastCancel, pgx.StrictNamedArgs{"name": p.task.Name, "at": at, "id": uuidArg(last)})
	return err
}

// cancelPending cancels those of some events that no other transaction has locked.
func (s *Store) cancelPending(ctx context.Context, tx pgx.Tx, t broadcast.Task, ids []uuid.UUID) ([]almanac.Event, error) {
	free, err := all(ctx, tx, s.statements.LockPendingOfBroadcast, pgx.StrictNamedArgs{"name": t.Name, "ids": uuids(ids)}, scanID)
	if err != nil || len(free) == 0 {
		return nil, err
	}
	pending, err := all(ctx, tx, s.statements.Waiting, pgx.StrictNamedArgs{"ids": uuids(free)}, scanEvents())
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	now, err := one(ctx, tx, s.statements.Now, nil, scanTime)
	if err != nil {
		return nil, err
	}
	for i, e := range pending {
		if pending[i], err = e.Cancel(t.StopReason()); err != nil {
			return nil, asIs(err)
		}
	}
	return s.cancelAt(ctx, tx, pending, now)
}

// requeuePage is a page of events that a stop has cancelled.
type requeuePage struct {
	broadcastPage
	again  func([]almanac.Event, []almanac.User, time.Time) ([]almanac.Event, error)
	ids    []uuid.UUID
	last   *uuid.UUID // the last event that was looked at; nil after the last one of all
	missed *uuid.UUID // the first event whose user was locked
}

// RequeueBroadcast requeues events of a broadcast that a stop has cancelled.
func (s *Store) RequeueBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, again func([]almanac.Event, []almanac.User, time.Time) ([]almanac.Event, error)) (stored []almanac.Event, err error) {
	p := requeuePage{broadcastPage: broadcastPage{store: s, task: t, term: term}, again: again}
	err = s.do(ctx, "find cancelled events of a broadcast", func(ctx context.Context, db DB) error {
		args := pgx.StrictNamedArgs{"name": t.Name, "lane": t.Lane(), "reason": broadcast.WasStopped, "scan": scans * limit, "limit": limit}
		scanned, err := one(ctx, db, s.statements.CancelledOfBroadcast, args, func(row pgx.CollectableRow) (scanned int, err error) {
			err = row.Scan(&p.ids, &p.last, &scanned)
			return scanned, err
		})
		if err != nil {
			return err
		}
		if len(p.ids) == limit {
			p.last = &p.ids[limit-1]
		} else if scanned < scans*limit {
			p.last = nil
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.ids) > 0 {
		err := inHalves(p.ids, func(part []uuid.UUID) error {
			done, err := p.requeue(ctx, part)
			if err == nil {
				stored = append(stored, done...)
			}
			return err
		}, func(uuid.UUID, error) error { return nil }) // an event that the database refuses stays cancelled
		if err != nil || p.moved {
			return stored, err
		}
	}
	return stored, s.transact(ctx, "pass events of a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		if err := p.keep(ctx, tx, broadcast.Storing); err != nil {
			return err
		}
		return p.move(ctx, tx, p.missed)
	})
}

// requeue requeues some events of the page, and with all of them stores the place after it.
func (p *requeuePage) requeue(ctx context.Context, ids []uuid.UUID) (stored []almanac.Event, err error) {
	s, whole := p.store, len(ids) == len(p.ids)
	var missed *uuid.UUID
	err = s.transact(ctx, "requeue events of a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		stored, missed = nil, p.missed
		if err := p.keep(ctx, tx, broadcast.Storing); err != nil {
			return err
		}
		var free []uuid.UUID
		rows, err := query(ctx, tx, s.statements.LockCancelled, pgx.StrictNamedArgs{"ids": uuids(ids)})
		if err != nil {
			return err
		}
		var id uuid.UUID
		var locked bool
		if _, err := pgx.ForEachRow(rows, []any{&id, &locked}, func() error {
			if locked {
				free = append(free, id)
			} else if missed == nil || bytes.Compare(id[:], missed[:]) < 0 {
				missed = new(id)
			}
			return nil
		}); err != nil {
			return err
		}
		if len(free) > 0 {
			if stored, err = p.requeueCancelled(ctx, tx, free); err != nil {
				return err
			}
		}
		if whole {
			if err := p.move(ctx, tx, missed); err != nil {
				return err
			}
		}
		return s.hint(ctx, tx, stored)
	})
	if err != nil {
		return nil, err
	}
	p.missed, p.moved = missed, whole
	return stored, nil
}

// move stores the place after the page.
func (p *requeuePage) move(ctx context.Context, tx pgx.Tx, missed *uuid.UUID) error {
	args := pgx.StrictNamedArgs{"name": p.task.Name, "requeued": nil, "missed": nil}
	if p.last != nil {
		args["requeued"] = uuidArg(*p.last)
	}
	if missed != nil {
		args["missed"] = uuidArg(before(*missed))
	}
	_, err := tx.Exec(ctx, p.store.statements.MoveBroadcast, args)
	return err
}

// before returns the greatest id that is less than another one.
func before(id uuid.UUID) uuid.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 255 {
			break
		}
	}
	return id
}

// countRequeued counts requeued events by the zone in which they were cancelled.
func (p *requeuePage) countRequeued(ctx context.Context, tx pgx.Tx, ended, stored []almanac.Event) error {
	if len(stored) == 0 {
		return nil
	}
	was := make(map[uuid.UUID]string, len(ended))
	for _, e := range ended {
		was[e.ID] = e.Zone
	}
	counts := make(map[string]int)
	for _, e := range stored {
		counts[was[e.Origin.From]]++
	}
	zones := slices.Sorted(maps.Keys(counts))
	if err := p.store.ensureZones(ctx, tx, p.task.Status, zones); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, p.store.statements.CountRequeued, pgx.StrictNamedArgs{
		"name": p.task.Name, "zones": zones, "counts": column(zones, func(zone string) int { return counts[zone] }),
	})
	return err
}

// requeueCancelled requeues and counts cancelled events, whose users are locked.
func (p *requeuePage) requeueCancelled(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) ([]almanac.Event, error) {
	s := p.store
	ended, err := all(ctx, tx, s.statements.Events, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvents())
	if err != nil {
		return nil, err
	}
	now, err := one(ctx, tx, s.statements.Now, nil, scanTime)
	if err != nil {
		return nil, err
	}
	found, err := all(ctx, tx, s.statements.UsersByIds, pgx.StrictNamedArgs{
		"ids": uuids(column(ended, func(e almanac.Event) uuid.UUID { return e.UserID })), "external_ids": []string{},
	}, scanUsers())
	if err != nil {
		return nil, err
	}
	is := make(map[uuid.UUID]almanac.User, len(found))
	for _, u := range found {
		is[u.ID] = u
	}
	events, err := p.again(ended, column(ended, func(e almanac.Event) almanac.User { return is[e.UserID] }), now.UTC())
	if err != nil {
		return nil, asIs(err)
	}
	stored, err := s.requeue(ctx, tx, events)
	if err != nil {
		return nil, err
	}
	return stored, p.countRequeued(ctx, tx, ended, stored)
}

// cancelAt cancels pending events of several users at a time, and returns them as stored. It leaves out events that were claimed meanwhile.
func (s *Store) cancelAt(ctx context.Context, tx pgx.Tx, events []almanac.Event, now time.Time) ([]almanac.Event, error) {
	cancelled, err := all(ctx, tx, s.statements.CancelEvents, pgx.StrictNamedArgs{
		"ids":      uuids(column(events, func(e almanac.Event) uuid.UUID { return e.ID })),
		"versions": column(events, func(e almanac.Event) int { return e.Version }),
		"reasons":  column(events, func(e almanac.Event) string { return e.FailureReason }),
		"waiting":  column(events, func(almanac.Event) bool { return false }),
		"ended": column(events, func(e almanac.Event) pgtype.Timestamp {
			return localOrNull(e.Occurrence().Zone.WallTime(now)) // the zone of the user, unless the user has moved
		}),
	}, scanEvents())
	return inOrderOf(events, cancelled), err
}
