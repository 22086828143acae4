package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// keys chooses the idempotency keys of new events.
type keys struct {
	*Store
	lookUp bool // whether to look up which keys exist; otherwise first choices are assumed to be free
}

// transactKeys runs a transaction that stores new events. At first it assumes that their keys are
// free, which is true for all but one in billions. If a key is not free, the transaction is repeated
// and looks the keys up.
func (s *Store) transactKeys(ctx context.Context, what string, operation func(context.Context, pgx.Tx, keys) error) error {
	k := keys{Store: s}
	for failures := 0; ; failures++ {
		err := s.transact(ctx, what, func(ctx context.Context, tx pgx.Tx) error { return operation(ctx, tx, k) })
		if !violates(err, "keys_pkey") || failures == retries {
			return err
		}
		k.lookUp = true
	}
}

// choose gives each of the events an idempotency key of its own. The key is the short form, unless
// another occurrence has that key. The other occurrence may be stored, in this list, or perhaps
// pruned. Then the key is the long form. The only series of a type has one event in the list. So its key is
// not compared with the others at first.
func (k keys) choose(ctx context.Context, tx pgx.Tx, events []almanac.Event) error {
	taken := make(map[string]bool)
	if k.lookUp {
		var candidates []string
		for _, e := range events {
			candidates = append(candidates, e.IdempotencyKey.String(), e.LongKey().String())
		}
		stored, err := all(ctx, tx, k.statements.TakenKeys, pgx.StrictNamedArgs{"keys": candidates}, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, key := range stored {
			taken[key] = true
		}
	}
	pruned, err := k.pruned(ctx, tx, events)
	if err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		if taken[e.IdempotencyKey.String()] || pruned[e.Due] {
			e.IdempotencyKey = e.LongKey()
		}
		if k.lookUp || e.Series != "" || e.Origin.Kind != almanac.OriginPlanned {
			taken[e.IdempotencyKey.String()] = true
		}
	}
	return nil
}

// pruned returns the instants of the events for which other events may have been pruned: it is not
// known whether their short keys were used. It asks the database only for instants in the past,
// which few events have.
func (k keys) pruned(ctx context.Context, tx pgx.Tx, events []almanac.Event) (map[time.Time]bool, error) {
	var instants []time.Time
	now := time.Now()
	for i := range events {
		if due := events[i].Due; due.Before(now) {
			instants = append(instants, due)
		}
	}
	if len(instants) == 0 {
		return nil, nil
	}
	mayBePruned, err := all(ctx, tx, k.statements.PrunedInstants, pgx.StrictNamedArgs{"instants": instants}, pgx.RowTo[bool])
	if err != nil {
		return nil, err
	}
	pruned := make(map[time.Time]bool, len(instants))
	for i, instant := range instants {
		pruned[instant] = mayBePruned[i]
	}
	return pruned, nil
}
