package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// LeaseEach moves held events to new leases, one lease for each event. It returns the events with
// their new tokens, without those that are not held any more, and their present users.
func (s *Store) LeaseEach(ctx context.Context, events []almanac.Event, owner string, lease time.Duration) (leased almanac.ClaimResult, err error) {
	wanted := make([]almanac.Event, 0, len(events))
	seen := make(map[claimed]bool, len(events))
	for _, e := range events {
		if c := claimedAs(e); !seen[c] {
			wanted, seen[c] = append(wanted, e), true
		}
	}
	if len(wanted) == 0 {
		return leased, nil
	}
	err = s.transact(ctx, "lease each", func(ctx context.Context, tx pgx.Tx) error {
		tokens, begun, users, err := s.leaseEach(ctx, tx, column(wanted, claimedAs), owner, lease)
		leased = almanac.ClaimResult{Users: users}
		for i, token := range tokens {
			if at, ok := begun[token]; ok {
				e := wanted[i]
				e.LeaseToken, e.UpdatedAt, leased.At = token, at, at
				leased.Events = append(leased.Events, e)
			}
		}
		return err
	})
	return leased, err
}

// leaseEach moves events to new leases in a single round trip. It returns the new token of each event. For
// events that are still held, it returns when the leases began, and the users who are not deleted. It
// inserts the leases empty and then fills them, because the audit trail writes the events in an inserted lease as claimed.
func (s *Store) leaseEach(ctx context.Context, tx pgx.Tx, wanted []claimed, owner string, lease time.Duration) (fresh []uuid.UUID, begun map[uuid.UUID]time.Time, users map[uuid.UUID]almanac.User, err error) {
	old := column(wanted, func(c claimed) uuid.UUID { return c.token })
	fresh = column(wanted, func(claimed) uuid.UUID { return uuid.New() })
	begun, users = make(map[uuid.UUID]time.Time, len(wanted)), make(map[uuid.UUID]almanac.User)
	var batch pgx.Batch
	batch.Queue(s.statements.InsertEmptyLeases, pgx.StrictNamedArgs{"tokens": uuids(fresh), "old": uuids(old), "owner": owner, "lease": lease})
	batch.Queue(s.statements.MoveToLeases, pgx.StrictNamedArgs{
		"tokens": uuids(old), "fresh": uuids(fresh),
		"ids":      uuids(column(wanted, func(c claimed) uuid.UUID { return c.id })),
		"versions": column(wanted, func(c claimed) int { return c.version }),
	}).Query(func(rows pgx.Rows) error {
		var token uuid.UUID
		var at time.Time
		var deleted bool
		var row userRow
		_, err := pgx.ForEachRow(rows, append([]any{&token, &at, &deleted}, targets(row.cells())...), func() error {
			begun[token] = at.UTC()
			user, err := row.value()
			if !deleted {
				users[user.ID] = user
			}
			return err
		})
		return err
	})
	batch.Queue(s.statements.EndLeases, pgx.StrictNamedArgs{"tokens": uuids(distinct(append(old, fresh...)))})
	return fresh, begun, users, tx.SendBatch(ctx, &batch).Close()
}
