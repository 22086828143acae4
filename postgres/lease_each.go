package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// LeaseEach moves held events to new leases, one lease for each event. It returns the events with
// their new tokens, without those that are not held any more.
func (s *Store) LeaseEach(ctx context.Context, events []almanac.Event, owner string, lease time.Duration) ([]almanac.Event, error) {
	wanted := make([]almanac.Event, 0, len(events))
	seen := make(map[claimed]bool, len(events))
	for _, e := range events {
		if c := claimedAs(e); !seen[c] {
			wanted, seen[c] = append(wanted, e), true
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	var leased []almanac.Event
	err := s.transact(ctx, "lease each", func(ctx context.Context, tx pgx.Tx) (err error) {
		leased, err = s.leaseEach(ctx, tx, wanted, pgx.NamedArgs{"owner": owner, "lease": lease})
		return err
	})
	return leased, err
}

// leaseEach sends its statements in a single round trip. It inserts the new leases empty and then
// fills them, because the audit trail writes the events in an inserted lease as claimed.
func (s *Store) leaseEach(ctx context.Context, tx pgx.Tx, wanted []almanac.Event, args pgx.NamedArgs) (leased []almanac.Event, err error) {
	old := column(wanted, func(e almanac.Event) uuid.UUID { return e.LeaseToken })
	fresh := column(wanted, func(almanac.Event) uuid.UUID { return uuid.New() })
	begun := make(map[uuid.UUID]time.Time, len(wanted)) // when each new lease began, by its token
	var batch pgx.Batch
	batch.Queue(s.statements.InsertEmptyLeases, pgx.StrictNamedArgs{
		"tokens": uuids(fresh), "owner": args["owner"], "lease": args["lease"],
	})
	batch.Queue(s.statements.MoveToLeases, pgx.StrictNamedArgs{
		"tokens": uuids(old), "fresh": uuids(fresh),
		"ids":      uuids(column(wanted, func(e almanac.Event) uuid.UUID { return e.ID })),
		"versions": column(wanted, func(e almanac.Event) int { return claimedAs(e).version }),
	}).Query(func(rows pgx.Rows) error {
		var token uuid.UUID
		var at time.Time
		_, err := pgx.ForEachRow(rows, []any{&token, &at}, func() error {
			begun[token] = at.UTC()
			return nil
		})
		return err
	})
	batch.Queue(s.statements.EndLeases, pgx.StrictNamedArgs{"tokens": uuids(distinct(append(old, fresh...)))})
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, err
	}
	for i, e := range wanted {
		if at, ok := begun[fresh[i]]; ok {
			e.LeaseToken, e.UpdatedAt = fresh[i], at
			leased = append(leased, e)
		}
	}
	return leased, nil
}
