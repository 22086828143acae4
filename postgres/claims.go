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
	err := s.transactOne(ctx, "claim", s.statements["claim"], args, func(rows pgx.Rows) error {
		claim = almanac.Claim{Users: make(map[uuid.UUID]almanac.User)}
		var row claimedRow
		_, err := pgx.ForEachRow(rows, row.targets(), func() error {
			claim.Events = append(claim.Events, row.value(r.Token))
			user, err := row.user.value()
			claim.Users[user.ID] = user
			return err
		})
		claim.At, claim.Reached = row.at.UTC(), row.reached.UTC()
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

// Release gives back what is still held under a token.
func (s *Store) Release(ctx context.Context, token uuid.UUID) ([]almanac.Event, error) {
	var released []almanac.Event
	err := s.transact(ctx, "release", func(ctx context.Context, tx pgx.Tx) error {
		taken, err := all(ctx, tx, s.statements["take_lease"], pgx.StrictNamedArgs{"token": token}, scanLease)
		if err != nil {
			return err
		}
		released, err = s.giveBack(ctx, tx, taken, 0, "released")
		return err
	})
	return released, err
}

// ReleaseExpired gives back the events of leases that ran out, ends leases that hold
// nothing, and removes deleted users of whom nothing is in flight any more.
func (s *Store) ReleaseExpired(ctx context.Context, limit int) ([]almanac.Event, error) {
	var released []almanac.Event
	err := s.transact(ctx, "release expired leases", func(ctx context.Context, tx pgx.Tx) error {
		args := pgx.StrictNamedArgs{"limit": limit}
		taken, err := all(ctx, tx, s.statements["take_expired_leases"], args, scanLease)
		if err != nil {
			return err
		}
		released, err = s.giveBack(ctx, tx, taken, 1, "lease expired")
		return err
	})
	if err != nil {
		return nil, err
	}
	// On its own, because it locks users, who come before events. Of leases it waits for none.
	return released, s.transact(ctx, "remove deleted users", func(ctx context.Context, tx pgx.Tx) error {
		for _, name := range []string{"remove_hidden_users", "end_empty_leases"} {
			if _, err := tx.Exec(ctx, s.statements[name], pgx.StrictNamedArgs{"limit": limit}); err != nil {
				return err
			}
		}
		return nil
	})
}

// lease is what a token was given, in parallel lists.
type lease struct {
	token    uuid.UUID
	series   []int64
	ids      []uuid.UUID
	versions []int      // of the events while they were PENDING
	ahead    *time.Time // since when they may be ahead of their target; nil when all were due
}

func scanLease(row pgx.CollectableRow) (lease, error) {
	var l lease
	err := row.Scan(&l.token, &l.series, &l.ids, &l.versions, &l.ahead)
	return l, err
}

// giveBack releases what is still held under leases that the transaction took.
func (s *Store) giveBack(ctx context.Context, tx pgx.Tx, taken []lease, crashes int, reason string) ([]almanac.Event, error) {
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
		return nil, nil
	}
	held, err := all(ctx, tx, s.statements["lock_held"], pgx.StrictNamedArgs{
		"tokens": uuids(tokens), "series": series, "ids": uuids(ids), "versions": versions,
	}, scanHeld)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	released, err := all(ctx, tx, s.statements["give_back"], pgx.StrictNamedArgs{
		"series":  column(held, func(h heldSeries) int64 { return h.series }),
		"tokens":  uuids(column(held, func(h heldSeries) uuid.UUID { return h.token })),
		"ahead":   column(held, func(h heldSeries) *time.Time { return ahead[h.token] }),
		"crashes": crashes, "reason": reason, "deleted": almanac.ReasonUserDeleted,
	}, scanID)
	if err != nil {
		return nil, err
	}
	given, err := all(ctx, tx, s.statements["events"], pgx.StrictNamedArgs{"ids": uuids(released)}, scanEvent)
	if err != nil {
		return nil, err
	}
	return given, s.hint(ctx, tx, given)
}

// heldSeries is one that the transaction has locked, with the token that was taken
// away.
type heldSeries struct {
	series int64
	token  uuid.UUID
}

func scanHeld(row pgx.CollectableRow) (heldSeries, error) {
	var h heldSeries
	err := row.Scan(&h.series, &h.token)
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
