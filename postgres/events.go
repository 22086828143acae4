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
		events, err := all(ctx, db, sql, args, scanEvent)
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
		n, err = one(ctx, db, sql, args, pgx.RowTo[int])
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
		was, err := one(ctx, tx, s.statements["lock_event"], pgx.StrictNamedArgs{"id": e.ID}, scanEvent)
		if err != nil {
			return missing(err, "event", e.ID)
		}
		if was.Version != expected {
			return asIs(&almanac.OptimisticLockError{EventID: e.ID, Expected: expected})
		}
		if err := almanac.CheckChange(was, e); err != nil {
			return asIs(err)
		}
		if stored, err = one(ctx, tx, s.statements["update_event"], updateArgs(e, expected), scanEvent); err != nil {
			return err
		}
		if err := s.hint(ctx, tx, []almanac.Event{stored}); err != nil {
			return err
		}
		return s.adjustLease(ctx, tx, was, stored)
	})
	return stored, err
}

// adjustLease keeps it true that an event is leased exactly while it is PROCESSING.
func (s *Store) adjustLease(ctx context.Context, tx pgx.Tx, was, is almanac.Event) error {
	if is.Status == almanac.Processing {
		_, err := tx.Exec(ctx, s.statements["insert_lease"], pgx.StrictNamedArgs{
			"token": is.LeaseToken, "owner": "update", "id": is.ID, "lease": updateLease,
		})
		return err
	}
	if was.Status == almanac.Processing {
		return s.endLeases(ctx, tx, []uuid.UUID{was.LeaseToken})
	}
	return nil
}

func updateArgs(e almanac.Event, expected int) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"id": e.ID, "version": expected, "occurrence_key": e.OccurrenceKey, "status": string(e.Status),
		"due": e.Due, "wall": e.Wall.Labelled(), "zone": e.Zone, "policies": formatPolicies(e.Policies),
		"payload": string(e.Payload), "user_version": e.UserVersion,
		"available_at": orNull(e.AvailableAt), "lease_token": orNull(e.LeaseToken), "executed_at": orNull(e.ExecutedAt),
		"failure_reason": orNull(e.FailureReason), "last_error": orNull(e.LastError),
		"retry_count": e.RetryCount, "claim_count": e.ClaimCount, "crash_count": e.CrashCount,
	}
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

func scanMissed(row pgx.CollectableRow) (almanac.Missed, error) {
	var m almanac.Missed
	var oldest, newest *time.Time
	err := row.Scan(&m.Count, &oldest, &newest)
	if oldest != nil && newest != nil {
		m.Oldest, m.Newest = oldest.UTC(), newest.UTC()
	}
	return m, err
}
