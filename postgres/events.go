package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Event returns an event.
func (s *Store) Event(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
	var e almanac.Event
	err := s.do(ctx, "find event", func(ctx context.Context, db DB) (err error) {
		e, err = one(ctx, db, s.statements["event"], pgx.StrictNamedArgs{"id": id}, scanEvent)
		return missing(err, "event", id)
	})
	return e, err
}

// Find returns the events that match spec, a page at a time.
func (s *Store) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.Found, error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.Found{}, err
	}
	sql, args := s.where("find", spec)
	args["after"], args["limit"] = after, limit+1
	var found almanac.Found
	err = s.do(ctx, "find events", func(ctx context.Context, db DB) error {
		events, err := all(ctx, replanning{db}, sql, args, scanEvent)
		found = almanac.PageOf(events, limit)
		return err
	})
	return found, err
}

// Count returns how many events match spec.
func (s *Store) Count(ctx context.Context, spec almanac.Spec) (int, error) {
	sql, args := s.where("count", spec)
	var n int
	err := s.do(ctx, "count events", func(ctx context.Context, db DB) (err error) {
		n, err = one(ctx, replanning{db}, sql, args, pgx.RowTo[int])
		return err
	})
	return n, err
}

// updateLease is how long an event is held that became PROCESSING through Update.
const updateLease = time.Minute

// Update replaces a stored event that is still at the expected version. One that
// becomes PROCESSING is leased for a minute, as if it had been claimed.
func (s *Store) Update(ctx context.Context, e almanac.Event, expected int) (almanac.Event, error) {
	var stored almanac.Event
	err := s.transact(ctx, "update event", func(ctx context.Context, tx pgx.Tx) error {
		id := pgx.StrictNamedArgs{"id": e.ID}
		series, err := all(ctx, tx, s.statements["lock_event"], id, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		was, err := one(ctx, tx, s.statements["event"], id, scanEvent)
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
		if e.Status == almanac.Pending {
			// A deletion that comes later waits for the series, and finds the event in the queue.
			if _, err := one(ctx, tx, s.statements["user"], pgx.StrictNamedArgs{"id": was.UserID}, scanUser); err != nil {
				return missing(err, "user", was.UserID)
			}
		}
		if err := s.replace(ctx, tx, change{series: series[0], was: was, is: e}); err != nil {
			return err
		}
		if stored, err = one(ctx, tx, s.statements["event"], id, scanEvent); err != nil {
			return err
		}
		return s.hint(ctx, tx, []almanac.Event{stored})
	})
	return stored, err
}

// replace stores what an open event becomes, whose series the transaction has
// locked.
func (s *Store) replace(ctx context.Context, tx pgx.Tx, c change) error {
	switch {
	case c.was.Status == almanac.Processing:
		return s.end(ctx, tx, c)
	case c.is.Status == almanac.Processing:
		return s.lease(ctx, tx, c)
	case c.is.Status == almanac.Cancelled:
		c.is.Version = c.was.Version + 1
		_, err := s.cancel(ctx, tx, []almanac.Event{c.is}, nil)
		return err
	}
	c.is.Version = c.was.Version + 1
	_, err := s.move(ctx, tx, []almanac.Event{c.is})
	return err
}

// end stores the outcome of an event that is PROCESSING.
func (s *Store) end(ctx context.Context, tx pgx.Tx, c change) error {
	now, err := one(ctx, tx, s.statements["now"], nil, scanTime)
	if err != nil {
		return err
	}
	statement, args := "settle_released", releasedArgs
	if c.is.Status.Terminal() {
		statement, args = "settle_ended", endedArgs
	}
	if _, err := tx.Exec(ctx, s.statements[statement], args([]*change{&c}, now)); err != nil {
		return err
	}
	return s.endLeases(ctx, tx, []uuid.UUID{c.was.LeaseToken})
}

// lease takes a pending event as a claim does.
func (s *Store) lease(ctx context.Context, tx pgx.Tx, c change) error {
	taken, err := all(ctx, tx, s.statements["take_pending"], pgx.StrictNamedArgs{"id": c.was.ID}, scanID)
	if err != nil {
		return err
	}
	if len(taken) == 0 { // it was claimed meanwhile
		return asIs(&almanac.OptimisticLockError{EventID: c.was.ID, Expected: c.was.Version})
	}
	_, err = tx.Exec(ctx, s.statements["insert_lease"], pgx.StrictNamedArgs{
		"token": c.is.LeaseToken, "owner": "update", "series": c.series, "id": c.was.ID, "version": c.was.Version, "lease": updateLease,
	})
	return err
}

// Missed counts what has been ready for longer than grace.
func (s *Store) Missed(ctx context.Context, types []string, grace time.Duration) (almanac.Missed, error) {
	var m almanac.Missed
	err := s.do(ctx, "count missed events", func(ctx context.Context, db DB) (err error) {
		m, err = one(ctx, db, s.statements["missed"], pgx.StrictNamedArgs{"types": types, "grace": grace}, scanMissed)
		return err
	})
	return m, err
}

// FindMissed returns up to limit of what has been ready for longer than grace, oldest
// first.
func (s *Store) FindMissed(ctx context.Context, types []string, grace time.Duration, limit int) ([]almanac.Event, error) {
	limit, err := almanac.MissedLimit(limit)
	if err != nil {
		return nil, err
	}
	var events []almanac.Event
	err = s.do(ctx, "find missed events", func(ctx context.Context, db DB) (err error) {
		events, err = all(ctx, db, s.statements["find_missed"], pgx.StrictNamedArgs{"types": types, "grace": grace, "limit": limit}, scanEvent)
		return err
	})
	return events, err
}

func scanMissed(row pgx.CollectableRow) (almanac.Missed, error) {
	var m almanac.Missed
	var oldest, newest *time.Time
	err := row.Scan(&m.Count, &oldest, &newest)
	if oldest != nil && newest != nil {
		m.Oldest, m.Newest = oldest.UTC(), newest.UTC()
	}
	return m, err
}
