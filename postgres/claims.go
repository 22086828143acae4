package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Claim leases events that are due, and events that will be due within r.Ahead and were never claimed. It
// returns them with their users. Events that another transaction has locked are skipped. Events of lanes
// with limits have a lease of their own.
func (s *Store) Claim(ctx context.Context, r almanac.ClaimRequest) (claim almanac.ClaimResult, err error) {
	if err := s.earlier.limited.Swap(nil); err != nil { // a claim whose other events were delivered has met it
		return claim, *err
	}
	memory := r.Memory
	r.Memory = nil // a claim of lanes with limits must not write to the events of the claim that it adds to
	began, first := time.Now(), s.earlier.only.Load().hold(r)
	if first {
		alone := r
		alone.Memory = memory // there are no events to add to
		if claim, err = s.withLimited(ctx, claim, alone); err != nil || len(claim.Events) > 0 {
			return claim, err
		}
	}
	free, limits := r, s.earlier.limits.Load()
	free.Memory = memory
	if limits && !r.Mark.IsZero() { // lanes with limits have half of each claim while they use it, and every other claim of one event
		free.Limit = (r.Limit + int(s.earlier.claims.Add(1)%2)) / 2
	}
	// After rows of the queue that claim nothing, there may be more due events.
	for more, calls := free.Limit > 0, 0; more && calls < mostClaims; calls++ {
		if claim, limits, more, err = s.claim(ctx, free); err != nil {
			return almanac.ClaimResult{}, err
		}
	}
	look := limits || s.earlier.clock.Load() == nil // the first claim from lanes of a process sees whether the clock was set before
	if r.Limit -= len(claim.Events); r.Limit == 0 || !look || first {
		s.earlier.limits.Store(limits && !first)
		return claim, nil
	}
	only := len(claim.Events) == 0 && free.Limit > 0
	if only {
		s.earlier.only.Store(&onlyLanes{r.Types, began})
	}
	claim, err = s.withLimited(ctx, claim, r)
	s.earlier.limits.Store(len(claim.Limited) > 0)
	if only && len(claim.Limited) > 0 && r.Mark.IsZero() {
		claim.Reached = claim.At.Add(-time.Since(began)) // no later than when the search for other events began
	}
	return claim, err
}

// mostClaims is how many statements one claim sends at most. Each but the last has only removed rows
// of the queue.
const mostClaims = 100

// claim claims events of lanes without limits. It returns whether there is something for a claim from lanes: limits of
// the types, visits, or a clock that was set. It returns more if it has only removed rows of the queue.
func (s *Store) claim(ctx context.Context, r almanac.ClaimRequest) (claim almanac.ClaimResult, limits, more bool, err error) {
	var began time.Time
	var from *time.Time
	var of searched
	before := s.earlier.backlog.Load()
	args := func(asked time.Time) pgx.StrictNamedArgs {
		began, from, of = asked, s.visitsFrom(r.Mark), searched{began: asked, known: before.known(r)}
		args := claimArgs(r)
		args["mark"], args["from"], args["reached"] = r.Mark, from, of.known
		return args
	}
	err = s.transactOne(ctx, "claim", s.statements.Claim, args, func(rows pgx.Rows) error {
		var row claimedRow
		if claim, row, err = s.claimed(rows, r); err != nil {
			return err
		}
		claim.Failing = row.failing
		if claim.Query, limits = time.Since(began), s.wasSet(clock{read: row.at, asked: began, answered: time.Now()}) || row.limits; !limits {
			s.followed(from, began, row.at.Add(-visitsMargin))
		}
		if row.reached != nil {
			claim.Reached = row.reached.UTC()
		} else {
			claim.At = time.Time{} // a later search may begin at the beginning again
		}
		more = row.reached != nil && len(claim.Events) == 0
		s.earlier.claimed.Store(int64(len(claim.Events)))
		of.live = row.live
		s.earlier.backlog.Store(before.after(r, claim, of))
		return nil
	})
	return claim, limits, more, err
}

// claimed collects the events of a claim with their users, and returns the last row, too.
func (s *Store) claimed(rows pgx.Rows, r almanac.ClaimRequest) (claim almanac.ClaimResult, row claimedRow, err error) {
	defer rows.Close()
	likely := min(r.Limit, int(s.earlier.claimed.Load()))
	claim.Events, claim.Users = memoryOf(r, likely)
	for targets := row.targets(); rows.Next(); {
		if rows.RawValues()[claimedID] == nil {
			if err := rows.Scan(append(targets[:claimedID:claimedID], make([]any, len(targets)-claimedID)...)...); err != nil {
				return claim, row, err
			}
			continue
		}
		if err := rows.Scan(targets...); err != nil {
			return claim, row, err
		}
		e := row.value(r.Token)
		user, err := row.user.value()
		if err == nil {
			e.UsedBefore, err = parseUsed(row.used)
		}
		if err != nil {
			return claim, row, err
		}
		claim.Events, claim.Users[user.ID] = append(claim.Events, e), user
	}
	claim.At = row.at.UTC()
	return claim, row, rows.Err()
}

// memoryOf returns empty memory for the events of a claim and their users: that of an earlier claim if it is not
// much too large.
func memoryOf(r almanac.ClaimRequest, likely int) ([]almanac.Event, map[uuid.UUID]almanac.User) {
	if m := r.Memory; m != nil && m.Users != nil && cap(m.Events) <= 16*max(likely, 16) {
		clear(m.Events)
		clear(m.Users)
		return slices.Grow(m.Events[:0], likely), m.Users
	}
	return slices.Grow([]almanac.Event(nil), likely), make(map[uuid.UUID]almanac.User, likely)
}

// Renew extends leases by another term from now. It returns the tokens of the leases that
// still hold an event. It waits for the locks of the leases.
func (s *Store) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	var held []uuid.UUID
	err := s.transact(ctx, "renew leases", func(ctx context.Context, tx pgx.Tx) (err error) {
		held, err = all(ctx, tx, s.statements.Renew, pgx.StrictNamedArgs{"tokens": uuids(tokens), "lease": lease}, scanID)
		return err
	})
	return held, err
}

// TryAlone stores in the lease which event is tried alone. It waits for the lock of the lease.
func (s *Store) TryAlone(ctx context.Context, e almanac.Event) error {
	return s.transact(ctx, "try alone", func(ctx context.Context, tx pgx.Tx) error {
		args := pgx.StrictNamedArgs{"token": e.LeaseToken, "id": e.ID}
		if held, err := all(ctx, tx, s.statements.TryAlone, args, scanID); err != nil || len(held) > 0 {
			return err
		}
		return asIs(almanac.ErrLeaseLost)
	})
}

// Until returns the time until the next event can be claimed. It reports false when no
// event of the types is pending.
func (s *Store) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	var waits []int64
	err := s.do(ctx, "find the next event", func(ctx context.Context, db DB) (err error) {
		waits, err = all(ctx, db, s.statements.Until, pgx.StrictNamedArgs{"types": types, "mark": mark, "from": s.visitsFrom(mark)}, pgx.RowTo[int64])
		return err
	})
	if err != nil || len(waits) == 0 {
		return 0, false, err
	}
	const longest = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(waits[0], longest)) * time.Microsecond, true, nil
}
