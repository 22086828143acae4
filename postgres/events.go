package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Event returns the event with an id. The error matches [almanac.ErrNotFound] when there is no such event.
func (s *Store) Event(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
	var e almanac.Event
	err := s.do(ctx, "find event", func(ctx context.Context, db DB) (err error) {
		e, err = one(ctx, db, s.statements.Events, pgx.StrictNamedArgs{"ids": uuids([]uuid.UUID{id})}, scanEvents())
		return missing(err, "event", id)
	})
	return e, err
}

// Events returns the events with the given ids that exist.
func (s *Store) Events(ctx context.Context, ids []uuid.UUID) (events []almanac.Event, err error) {
	err = s.do(ctx, "find events by id", func(ctx context.Context, db DB) (err error) {
		events, err = all(ctx, db, s.statements.Events, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanEvents())
		return err
	})
	return events, err
}

// Find returns the events that match spec, a page at a time.
func (s *Store) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	limit, at, after, err := page.EventBounds()
	if err != nil {
		return almanac.List[almanac.Event]{}, err
	}
	most := few
	if page.Order == almanac.NextFirst {
		most = fewNext
	}
	sql, args := s.where(s.inOrder(page.Order, spec), spec, most)
	if page.Order == almanac.NextFirst {
		if from := earliest(spec); from.After(at) {
			at, after = from.Add(-time.Microsecond), uuid.Max
		}
		args["at"] = at
	}
	args["after"], args["limit"] = after, limit+1
	var found almanac.List[almanac.Event]
	err = s.list(ctx, "find events", func(ctx context.Context, db DB) error {
		events, err := all(ctx, db, sql, args, scanEvents())
		found = almanac.PageOf(events, limit, page.Order)
		return err
	})
	return found, err
}

// inOrder returns the statement that finds the events of a specification in an order.
func (s *Store) inOrder(order almanac.Order, spec almanac.Spec) string {
	switch {
	case order == almanac.NextFirst && ofUsers(spec):
		return s.statements.FindNextOfUsers
	case order == almanac.NextFirst:
		return s.statements.FindNext
	case order == almanac.NewestFirst:
		return strings.NewReplacer(":beyond", "<", ":direction", "DESC").Replace(s.statements.Find)
	default:
		return strings.NewReplacer(":beyond", ">", ":direction", "ASC").Replace(s.statements.Find)
	}
}

// Count returns how many events match spec.
func (s *Store) Count(ctx context.Context, spec almanac.Spec) (int, error) {
	sql, args := s.where(s.statements.Count, spec, few)
	var n int
	err := s.list(ctx, "count events", func(ctx context.Context, db DB) (err error) {
		n, err = one(ctx, db, sql, args, pgx.RowTo[int])
		return err
	})
	return n, err
}

// updateLease is the term of a lease that Update creates.
const updateLease = time.Minute

// Update replaces a stored event that is still at the expected version. If e is PROCESSING, the
// event is leased for a minute, as if it had been claimed.
func (s *Store) Update(ctx context.Context, e almanac.Event, expected int) (almanac.Event, error) {
	var stored almanac.Event
	err := s.transact(ctx, "update event", func(ctx context.Context, tx pgx.Tx) error {
		id := pgx.StrictNamedArgs{"ids": uuids([]uuid.UUID{e.ID})}
		series, err := all(ctx, tx, s.statements.LockEvent, pgx.StrictNamedArgs{"id": e.ID}, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		was, err := one(ctx, tx, s.statements.Events, id, scanEvents())
		if err != nil {
			return missing(err, "event", e.ID)
		}
		if was.Version == expected {
			if err := almanac.CheckChange(was, e); err != nil {
				return asIs(err)
			}
		}
		if was.Version != expected || len(series) == 0 {
			return asIs(&almanac.OptimisticLockError{EventID: e.ID, Expected: expected})
		}
		u, err := one(ctx, tx, s.statements.User, pgx.StrictNamedArgs{"id": was.UserID}, scanUsers())
		// A later deletion waits for the lock of the series, and finds a pending event in the queue.
		if deleted := errors.Is(err, pgx.ErrNoRows) && e.Status != almanac.Pending; err != nil && !deleted {
			return missing(err, "user", was.UserID)
		}
		now, err := one(ctx, tx, s.statements.Now, nil, scanTime)
		if err != nil {
			return err
		}
		is := e // which replace changes, and the transaction may be repeated
		c := change{series: series[0], was: &was, is: &is, ended: u.Timezone.WallTime(now)}
		if err := s.replace(ctx, tx, c, now); err != nil {
			return err
		}
		if stored, err = one(ctx, tx, s.statements.Events, id, scanEvents()); err != nil {
			return err
		}
		return s.hint(ctx, tx, []almanac.Event{stored})
	})
	return stored, err
}

// replace stores the new state of an open event. The transaction has locked its series.
func (s *Store) replace(ctx context.Context, tx pgx.Tx, c change, now time.Time) error {
	switch {
	case c.was.Status == almanac.Processing:
		return s.end(ctx, tx, c, now)
	case c.is.Status == almanac.Processing:
		return s.lease(ctx, tx, c)
	}
	c.is.Version, c.is.Unplanned = c.was.Version+1, false
	_, err := s.change(ctx, tx, []almanac.Event{*c.is}, map[uuid.UUID]editedUser{c.is.UserID: {shown: c.ended}})
	return err
}

// end stores the outcome of an event that is PROCESSING.
func (s *Store) end(ctx context.Context, tx pgx.Tx, c change, now time.Time) error {
	statement, args := s.statements.SettleReleased, releasedArgs
	if c.is.Status.Terminal() {
		statement, args = s.statements.SettleEnded, endedArgs
	}
	if _, err := tx.Exec(ctx, statement, args([]*change{&c}, now)); err != nil {
		return err
	}
	return s.endLeases(ctx, tx, []uuid.UUID{c.was.LeaseToken})
}

// lease leases a pending event, as a claim does.
func (s *Store) lease(ctx context.Context, tx pgx.Tx, c change) error {
	taken, err := all(ctx, tx, s.statements.TakePending, pgx.StrictNamedArgs{"id": c.was.ID}, scanID)
	if err != nil {
		return err
	}
	if len(taken) == 0 { // the event was claimed meanwhile
		return asIs(&almanac.OptimisticLockError{EventID: c.was.ID, Expected: c.was.Version})
	}
	_, err = tx.Exec(ctx, s.statements.InsertLease, pgx.StrictNamedArgs{
		"token": c.is.LeaseToken, "owner": "update", "series": c.series, "id": c.was.ID, "version": c.was.Version, "lease": updateLease,
	})
	return err
}

// Missed counts the events that have been ready to be claimed for longer than grace.
func (s *Store) Missed(ctx context.Context, types []string, grace time.Duration) (almanac.Missed, error) {
	var m almanac.Missed
	// In a transaction, because of JIT compilation: it would take longer than the count.
	err := s.transact(ctx, "count missed events", func(ctx context.Context, tx pgx.Tx) (err error) {
		m, err = one(ctx, tx, s.statements.Missed, pgx.StrictNamedArgs{"types": types, "grace": grace}, scanMissed)
		return err
	})
	return m, err
}

// FindMissed returns up to limit events that have been ready to be claimed for longer than
// grace. The event that has been ready longest comes first.
func (s *Store) FindMissed(ctx context.Context, types []string, grace time.Duration, limit int) ([]almanac.Event, error) {
	limit, err := almanac.MissedLimit(limit)
	if err != nil {
		return nil, err
	}
	var events []almanac.Event
	err = s.do(ctx, "find missed events", func(ctx context.Context, db DB) (err error) {
		events, err = all(ctx, db, s.statements.FindMissed, pgx.StrictNamedArgs{"types": types, "grace": grace, "limit": limit}, scanEvents())
		return err
	})
	return events, err
}

func scanMissed(row pgx.CollectableRow) (almanac.Missed, error) {
	var m almanac.Missed
	var oldest, newest *time.Time
	err := row.Scan(&m.Count, &oldest, &newest)
	m.Oldest, m.Newest = orZero(oldest).UTC(), orZero(newest).UTC()
	return m, err
}

// Requeued returns the ids of the given events that were requeued before. An event that repeats
// another has a series of its own, which stays.
func (s *Store) Requeued(ctx context.Context, events []almanac.Event) (requeued []uuid.UUID, err error) {
	if len(events) == 0 {
		return nil, nil
	}
	repeats := column(events, func(e almanac.Event) almanac.Event {
		e.Origin = almanac.Origin{Kind: almanac.OriginRequeued, From: e.ID}
		return e
	})
	err = s.do(ctx, "find requeued events", func(ctx context.Context, db DB) error {
		stored, err := all(ctx, db, s.statements.SeriesKeys, namesOf(repeats), scanSeriesKeys)
		for _, e := range repeats {
			if slices.ContainsFunc(stored, func(k seriesKeys) bool { return k.user == e.UserID && k.series == almanac.SeriesOf(e) }) {
				requeued = append(requeued, e.ID)
			}
		}
		return err
	})
	return requeued, err
}
