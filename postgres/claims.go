package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Claim takes events that are due.
func (s *Store) Claim(ctx context.Context, r almanac.ClaimRequest) (almanac.Claim, error) {
	var claim almanac.Claim
	args := pgx.StrictNamedArgs{
		"token": r.Token, "owner": r.Owner, "types": r.Types, "limit": r.Limit, "lease": r.Lease, "mark": r.Mark, "ahead": r.Ahead,
	}
	err := s.transactOne(ctx, "claim", s.statements["claim"], args, func(rows pgx.Rows, asked time.Time) error {
		claim = almanac.Claim{Users: make(map[uuid.UUID]almanac.User)}
		var row claimedRow
		_, err := pgx.ForEachRow(rows, row.targets(), func() error {
			claim.Events = append(claim.Events, row.value(r.Token))
			user, err := row.user.value()
			claim.Users[user.ID] = user
			return err
		})
		claim.At, claim.Reached, claim.Query = row.at.UTC(), row.reached.UTC(), time.Since(asked)
		return err
	})
	return claim, err
}

// Renew lets leases run for another term.
func (s *Store) Renew(ctx context.Context, tokens []uuid.UUID, lease time.Duration) ([]uuid.UUID, error) {
	var held []uuid.UUID
	err := s.transact(ctx, "renew leases", func(ctx context.Context, tx pgx.Tx) (err error) {
		held, err = all(ctx, tx, s.statements["renew"], pgx.StrictNamedArgs{"tokens": uuids(tokens), "lease": lease}, scanID)
		return err
	})
	return held, err
}

// Release gives back what is still held under a token, but for what is locked.
func (s *Store) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	var released []almanac.Event
	err := s.transact(ctx, "release", func(ctx context.Context, tx pgx.Tx) (err error) {
		released, _, err = s.releaseLeases(ctx, tx, "take_lease", pgx.StrictNamedArgs{"token": token}, byChoice)
		return err
	})
	return released, err
}

// ReleaseExpired gives back the events of leases that ran out, ends leases that hold
// nothing, and removes deleted users of whom nothing is in flight any more. What is
// locked stays where it is.
func (s *Store) ReleaseExpired(ctx context.Context, limit int) ([]almanac.Event, error) {
	released, err := s.releaseExpired(ctx, limit)
	if err != nil {
		return nil, err
	}
	// What follows reads all leases, so it waits for the last of many steps.
	if len(released) >= limit {
		return released, nil
	}
	// On its own, because it locks users, who come before events. Of leases it waits for none.
	return released, s.transact(ctx, "remove deleted users", func(ctx context.Context, tx pgx.Tx) error {
		hidden, err := one(ctx, tx, s.statements["hidden_users"], nil, pgx.RowTo[bool])
		if err == nil && hidden {
			_, err = tx.Exec(ctx, s.statements["remove_hidden_users"], pgx.StrictNamedArgs{"limit": limit})
		}
		if err == nil {
			_, err = tx.Exec(ctx, s.statements["end_empty_leases"], pgx.StrictNamedArgs{"limit": limit})
		}
		return err
	})
}

// releaseExpired goes on until something is given back, or every lease that had run out
// when it began was looked at. A lease that keeps what is locked counts as run out later.
func (s *Store) releaseExpired(ctx context.Context, limit int) (released []almanac.Event, err error) {
	var before *time.Time
	for {
		var at time.Time
		err = s.transact(ctx, "release expired leases", func(ctx context.Context, tx pgx.Tx) (err error) {
			args := pgx.StrictNamedArgs{"limit": limit, "before": before}
			released, at, err = s.releaseLeases(ctx, tx, "take_expired_leases", args, byCrash)
			return err
		})
		if err != nil || len(released) > 0 || at.IsZero() {
			return released, err
		}
		if before == nil {
			before = &at
		}
	}
}

// cause is why events are released.
type cause struct {
	crashes int // what it adds to their crash counts
	reason  string
}

var (
	byChoice = cause{reason: "released"}
	byCrash  = cause{crashes: 1, reason: "lease expired"}
)

// lease is what a token was given, in parallel lists.
type lease struct {
	token    uuid.UUID
	series   []int64
	ids      []uuid.UUID
	versions []int      // of the events while they were PENDING
	ahead    *time.Time // since when they may be ahead of their target; nil when all were due
}

// releaseLeases takes leases by a statement, gives back what they hold, and leaves in them
// what is locked. It returns when they were taken; zero if there were none.
func (s *Store) releaseLeases(ctx context.Context, tx pgx.Tx, take string, args pgx.StrictNamedArgs, why cause) (released []almanac.Event, at time.Time, err error) {
	taken, err := all(ctx, tx, s.statements[take], args, func(row pgx.CollectableRow) (l lease, err error) {
		return l, row.Scan(&at, &l.token, &l.series, &l.ids, &l.versions, &l.ahead)
	})
	if err != nil || len(taken) == 0 {
		return nil, at, err
	}
	released, locked, err := s.giveBack(ctx, tx, taken, why)
	if err != nil {
		return nil, at, err
	}
	type one = heldEvent
	_, err = tx.Exec(ctx, s.statements["keep_leases"], pgx.StrictNamedArgs{
		"tokens":   uuids(column(taken, func(l lease) uuid.UUID { return l.token })),
		"looked":   column(taken, func(l lease) int { return len(l.ids) }),
		"held":     uuids(column(locked, func(h one) uuid.UUID { return h.token })),
		"series":   column(locked, func(h one) int64 { return h.series }),
		"ids":      uuids(column(locked, func(h one) uuid.UUID { return h.id })),
		"versions": column(locked, func(h one) int { return h.version }),
	})
	return released, at, err
}

// giveBack releases what leases still hold, and returns it. It also returns what another
// transaction has locked, which stays as it is.
func (s *Store) giveBack(ctx context.Context, tx pgx.Tx, taken []lease, why cause) (released []almanac.Event, locked []heldEvent, err error) {
	var tokens, ids []uuid.UUID
	var series []int64
	var versions []int
	ahead := make(map[uuid.UUID]*time.Time, len(taken))
	for _, l := range taken {
		ahead[l.token] = l.ahead
		tokens = append(tokens, slices.Repeat([]uuid.UUID{l.token}, len(l.ids))...)
		series, ids, versions = append(series, l.series...), append(ids, l.ids...), append(versions, l.versions...)
	}
	if len(ids) == 0 {
		return nil, nil, nil
	}
	held, err := all(ctx, tx, s.statements["lock_held"], pgx.StrictNamedArgs{
		"tokens": uuids(tokens), "series": series, "ids": uuids(ids), "versions": versions,
	}, scanHeld)
	if err != nil {
		return nil, nil, err
	}
	var ours []heldEvent
	for _, h := range held {
		if h.ours {
			ours = append(ours, h)
		} else {
			locked = append(locked, h)
		}
	}
	if len(ours) == 0 {
		return nil, locked, nil
	}
	given, err := all(ctx, tx, s.statements["give_back"], pgx.StrictNamedArgs{
		"series":  column(ours, func(h heldEvent) int64 { return h.series }),
		"tokens":  uuids(column(ours, func(h heldEvent) uuid.UUID { return h.token })),
		"ahead":   column(ours, func(h heldEvent) *time.Time { return ahead[h.token] }),
		"crashes": why.crashes, "reason": why.reason, "deleted": almanac.ReasonUserDeleted,
	}, scanID)
	if err != nil {
		return nil, nil, err
	}
	released, err = all(ctx, tx, s.statements["given_back"], pgx.StrictNamedArgs{"ids": uuids(given)}, scanEvent)
	if err != nil {
		return nil, nil, err
	}
	return released, locked, s.hint(ctx, tx, released)
}

// heldEvent is an event that a lease holds, and whether the transaction has locked it.
type heldEvent struct {
	token   uuid.UUID
	series  int64
	id      uuid.UUID
	version int
	ours    bool
}

func scanHeld(row pgx.CollectableRow) (heldEvent, error) {
	var h heldEvent
	err := row.Scan(&h.token, &h.series, &h.id, &h.version, &h.ours)
	return h, err
}

// endLeases ends those of the given leases that hold nothing any more.
func (s *Store) endLeases(ctx context.Context, tx pgx.Tx, tokens []uuid.UUID) error {
	_, err := tx.Exec(ctx, s.statements["end_leases"], pgx.StrictNamedArgs{"tokens": uuids(tokens)})
	return err
}

// Until returns how long it is until the next event can be claimed.
func (s *Store) Until(ctx context.Context, types []string, mark time.Time) (time.Duration, bool, error) {
	var waits []int64
	err := s.do(ctx, "look for the next event", func(ctx context.Context, db DB) (err error) {
		waits, err = all(ctx, db, s.statements["until"], pgx.StrictNamedArgs{"types": types, "mark": mark}, pgx.RowTo[int64])
		return err
	})
	if err != nil || len(waits) == 0 {
		return 0, false, err
	}
	const longest = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(waits[0], longest)) * time.Microsecond, true, nil
}
