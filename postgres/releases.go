package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// Release releases the events that a token still holds, and returns the released events. Events that another
// transaction has locked, or that the database refuses to release, stay in the lease.
func (s *Store) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	r, err := s.releaseLeases(ctx, s.statements.TakeLease, pgx.StrictNamedArgs{"token": token}, byChoice)
	return r.released, errors.Join(err, together(r.refused))
}

// ReleaseExpired releases the events of expired leases, up to limit, and returns the
// released events. When fewer than limit are released, it also ends leases that hold no
// event, removes deleted users who have no event in flight, and puts lost events into the
// queue, which it reports as an error: see docs/reliability.md. Rows that another transaction
// has locked are left unchanged. If the database refuses to release an event or to
// delete a user, the others are released and removed, and the error names what refused it.
func (s *Store) ReleaseExpired(ctx context.Context, limit, shared int) ([]almanac.Event, error) {
	released, failed := s.releaseExpired(ctx, limit, cause{crashes: 1, shared: shared, reason: "lease expired"})
	// The rest reads all leases, so it runs only after the last of many calls.
	if len(released) >= limit {
		return released, failed
	}
	if err := s.Verify(ctx); err != nil { // rows that a restore has not loaded yet look deleted
		return released, errors.Join(failed, err)
	}
	err := errors.Join(failed, s.endEmptyLeases(ctx, limit), s.foldDueChanges(ctx), s.addMissingVisits(ctx))
	lost, lostErr := s.requeueLost(ctx)
	return append(released, lost...), errors.Join(err, lostErr, s.removeHidden(ctx)) // last, because it may use up the time
}

func (s *Store) endEmptyLeases(ctx context.Context, limit int) error {
	return s.transact(ctx, "end empty leases", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements.EndEmptyLeases, pgx.StrictNamedArgs{"limit": limit})
		return err
	})
}

// lostPage is how many series one call of requeueLost reads.
const lostPage = 1000

// requeueLost reads a page of series, and puts open events that are in neither the queue nor a lease into the queue. It
// returns an error if there are any, because no program of this release leaves such events. The next call reads the next page. After
// an error it begins at a random series.
func (s *Store) requeueLost(ctx context.Context) ([]almanac.Event, error) {
	var r releaseResult
	var last *int64
	err := s.transact(ctx, "requeue lost events", func(ctx context.Context, tx pgx.Tx) error {
		args := pgx.StrictNamedArgs{"after": s.earlier.lastSeries.Load(), "limit": lostPage}
		lost, err := one(ctx, tx, s.statements.LostEvents, args, func(row pgx.CollectableRow) (l lease, err error) {
			err = row.Scan(&last, &l.series, &l.ids, &l.versions)
			l.ahead = new(time.Time) // an attempt may have begun only if the event is due
			return l, err
		})
		if err == nil {
			r, err = s.release(ctx, tx, []lease{lost}, cause{reason: "lost"})
		}
		return err
	})
	if err != nil {
		s.earlier.lastSeries.Store(nil)
		return nil, err
	}
	s.earlier.lastSeries.Store(last)
	if len(r.released) > 0 {
		err = fmt.Errorf("postgres: %d events were in neither the queue nor a lease, and are in the queue again: the first is %s", len(r.released), r.released[0].ID)
	}
	return r.released, errors.Join(err, together(r.refused))
}

// releaseExpired runs transactions until an event is released, or until it has examined every lease that had
// expired when it began. A lease that keeps events counts as expired later, so it is not examined again.
func (s *Store) releaseExpired(ctx context.Context, limit int, why cause) ([]almanac.Event, error) {
	var before *time.Time
	var causes []error
	for {
		args := pgx.StrictNamedArgs{"limit": limit, "before": before}
		r, err := s.releaseLeases(ctx, s.statements.TakeExpiredLeases, args, why)
		causes = append(causes, r.refused...)
		if err != nil || len(r.released) > 0 || r.at.IsZero() {
			return r.released, errors.Join(err, together(causes))
		}
		if before == nil {
			before = &r.at
		}
	}
}

// cause is the reason why events are released.
type cause struct {
	crashes int // added to the crash counts of the events
	shared  int // an event with this many crashes gets another only if it was tried alone
	reason  string
}

var byChoice = cause{reason: "released"}

// lease has the events that a lease lists, in parallel slices.
type lease struct {
	token    uuid.UUID
	series   []int64
	ids      []uuid.UUID
	versions []int       // of the events while they were PENDING
	ahead    *time.Time  // since when the events may be ahead of their instant; nil when all were due
	alone    pgtype.UUID // the event that is tried alone
}

// targets returns the destinations for the clock and a lease, for Scan.
func (l *lease) targets(now *time.Time) []any {
	return []any{now, rawID(&l.token), &l.series, rawIDs{(*pgtype.FlatArray[uuid.UUID])(&l.ids)}, &l.versions, &l.ahead}
}

// releaseResult is the result of releasing the events of leases.
type releaseResult struct {
	released []almanac.Event
	kept     []heldEvent // events that another transaction has locked or the database refuses to release
	refused  []error     // for each event that the database refuses to release
	at       time.Time   // when the leases were locked; zero if there were none
}

// releaseLeases locks leases by a statement and releases the events that they hold. Events that
// another transaction has locked, or that the database refuses to release, stay in their leases.
func (s *Store) releaseLeases(ctx context.Context, statement string, args pgx.StrictNamedArgs, why cause) (r releaseResult, err error) {
	err = s.transact(ctx, "release", func(ctx context.Context, tx pgx.Tx) error {
		var at time.Time
		taken, err := all(ctx, tx, statement, args, func(row pgx.CollectableRow) (l lease, err error) {
			return l, row.Scan(append(l.targets(&at), &l.alone)...)
		})
		if err != nil || len(taken) == 0 {
			r = releaseResult{}
			return err
		}
		if r, err = s.release(ctx, tx, taken, why); err != nil {
			return err
		}
		r.at = at
		return s.keepLeases(ctx, tx, taken, r.kept)
	})
	if err != nil {
		return releaseResult{}, err
	}
	return r, nil
}

// release releases the events that leases still hold.
func (s *Store) release(ctx context.Context, tx pgx.Tx, taken []lease, why cause) (r releaseResult, err error) {
	ours, locked, err := s.lockHeld(ctx, tx, taken)
	if r.kept = locked; err != nil || len(ours) == 0 {
		return r, err
	}
	var done []uuid.UUID
	err = inHalves(ours, func(part []heldEvent) error {
		var ids []uuid.UUID
		err := s.undoable(ctx, tx, "release", func(tx pgx.Tx) (err error) {
			ids, err = s.releaseHeld(ctx, tx, part, why)
			return err
		})
		if err == nil {
			done = append(done, ids...)
		}
		return err
	}, func(h heldEvent, refused error) error {
		r.kept, r.refused = append(r.kept, h), append(r.refused, refused)
		return nil
	})
	if err != nil || len(done) == 0 {
		return r, err
	}
	if r.released, err = all(ctx, tx, s.statements.Released, pgx.StrictNamedArgs{"ids": uuids(done)}, scanEvents()); err != nil {
		return r, err
	}
	return r, s.hint(ctx, tx, r.released)
}

// keepLeases shortens leases that were examined to the events that they keep.
func (s *Store) keepLeases(ctx context.Context, tx pgx.Tx, taken []lease, kept []heldEvent) error {
	type one = heldEvent
	_, err := tx.Exec(ctx, s.statements.KeepLeases, pgx.StrictNamedArgs{
		"tokens":   uuids(column(taken, func(l lease) uuid.UUID { return l.token })),
		"examined": column(taken, func(l lease) int { return len(l.ids) }),
		"held":     uuids(column(kept, func(h one) uuid.UUID { return h.token })),
		"series":   column(kept, func(h one) int64 { return h.series }),
		"ids":      uuids(column(kept, func(h one) uuid.UUID { return h.id })),
		"versions": column(kept, func(h one) int { return h.version }),
	})
	return err
}

// lockHeld locks the events that leases still hold, and returns them. It also returns the events
// that another transaction has locked.
func (s *Store) lockHeld(ctx context.Context, tx pgx.Tx, taken []lease) (ours, locked []heldEvent, err error) {
	var tokens, ids []uuid.UUID
	var series []int64
	var versions []int
	leases := make(map[uuid.UUID]lease, len(taken))
	for _, l := range taken {
		leases[l.token] = l
		tokens = append(tokens, slices.Repeat([]uuid.UUID{l.token}, len(l.ids))...)
		series, ids, versions = append(series, l.series...), append(ids, l.ids...), append(versions, l.versions...)
	}
	if len(ids) == 0 {
		return nil, nil, nil
	}
	held, err := all(ctx, tx, s.statements.LockHeld, pgx.StrictNamedArgs{
		"tokens": uuids(tokens), "series": series, "ids": uuids(ids), "versions": versions,
	}, scanHeld)
	if err != nil {
		return nil, nil, err
	}
	for _, h := range held {
		h.ahead, h.alone = leases[h.token].ahead, leases[h.token].alone
		if h.ours {
			ours = append(ours, h)
		} else {
			locked = append(locked, h)
		}
	}
	return ours, locked, nil
}

// releaseHeld releases events that the transaction has locked, and returns their ids.
func (s *Store) releaseHeld(ctx context.Context, tx pgx.Tx, held []heldEvent, why cause) ([]uuid.UUID, error) {
	return all(ctx, tx, s.statements.Release, pgx.StrictNamedArgs{
		"series":  column(held, func(h heldEvent) int64 { return h.series }),
		"tokens":  uuids(column(held, func(h heldEvent) uuid.UUID { return h.token })),
		"ahead":   column(held, func(h heldEvent) *time.Time { return h.ahead }),
		"alone":   column(held, func(h heldEvent) pgtype.UUID { return h.alone }),
		"crashes": why.crashes, "shared": why.shared, "reason": why.reason, "deleted": almanac.ReasonUserDeleted,
	}, scanID)
}

// heldEvent is an event that a lease holds, and whether the transaction has locked it.
type heldEvent struct {
	token   uuid.UUID
	series  int64
	id      uuid.UUID
	version int
	ours    bool
	ahead   *time.Time  // of the lease
	alone   pgtype.UUID // of the lease
}

func scanHeld(row pgx.CollectableRow) (heldEvent, error) {
	var h heldEvent
	err := row.Scan(&h.token, &h.series, &h.id, &h.version, &h.ours)
	return h, err
}

// endLeases ends those of the leases that hold no event any more.
func (s *Store) endLeases(ctx context.Context, tx pgx.Tx, tokens []uuid.UUID) error {
	_, err := tx.Exec(ctx, s.statements.EndLeases, pgx.StrictNamedArgs{"tokens": uuids(tokens)})
	return err
}
