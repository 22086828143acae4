package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/almanac-go/almanac"
)

// keys chooses the idempotency keys of new events.
type keys struct {
	*Store
	lookUp bool // whether to look which keys are taken; otherwise those of the first choice are taken to be free
}

// transactKeys runs a transaction that stores new events. That their keys are free
// is taken for granted, since all but one in billions are; where one is not, the
// transaction is repeated with keys that were looked up.
func (s *Store) transactKeys(ctx context.Context, what string, operation func(context.Context, pgx.Tx, keys) error) error {
	k := keys{Store: s}
	for failures := 0; ; failures++ {
		err := s.transact(ctx, what, func(ctx context.Context, tx pgx.Tx) error { return operation(ctx, tx, k) })
		if !keyTaken(err) || failures == retries {
			return err
		}
		k.lookUp = true
	}
}

// keyTaken reports whether an error says that an idempotency key belongs to another
// event.
func keyTaken(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.ConstraintName == "keys_pkey"
}

// choose returns an idempotency key for each event. It is the short form, unless another
// occurrence has that key: one that is stored, in this list, or perhaps pruned. Then it is
// the long form, unless an event has it that was created for the same occurrence and has
// moved away since. Then it is the digits of the event's id.
func (k keys) choose(ctx context.Context, tx pgx.Tx, events []almanac.Event) ([]string, error) {
	taken := make(map[string]bool, len(events))
	if k.lookUp {
		var candidates []string
		for _, e := range events {
			candidates = append(candidates, e.IdempotencyKey.String(), e.LongKey().String())
		}
		stored, err := all(ctx, tx, k.statements["taken_keys"], pgx.StrictNamedArgs{"keys": candidates}, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		for _, key := range stored {
			taken[key] = true
		}
	}
	pruned, err := k.pruned(ctx, tx, events)
	if err != nil {
		return nil, err
	}
	chosen := make([]string, len(events))
	for i, e := range events {
		chosen[i] = e.IdempotencyKey.String()
		if taken[chosen[i]] || pruned[e.Due] {
			chosen[i] = e.LongKey().String()
		}
		if taken[chosen[i]] {
			chosen[i] = "event-" + hex.EncodeToString(e.ID[:])
		}
		taken[chosen[i]] = true
	}
	return chosen, nil
}

// pruned returns those instants of events of which others may have been pruned: whether
// their short keys were used is not known. Few events are planned for an instant that is
// over, and only for these it asks.
func (k keys) pruned(ctx context.Context, tx pgx.Tx, events []almanac.Event) (map[time.Time]bool, error) {
	var instants []time.Time
	now := time.Now()
	for _, e := range events {
		if e.Due.Before(now) {
			instants = append(instants, e.Due)
		}
	}
	if len(instants) == 0 {
		return nil, nil
	}
	answers, err := all(ctx, tx, k.statements["pruned_instants"], pgx.StrictNamedArgs{"instants": instants}, pgx.RowTo[bool])
	if err != nil {
		return nil, err
	}
	pruned := make(map[time.Time]bool, len(instants))
	for i, instant := range instants {
		pruned[instant] = answers[i]
	}
	return pruned, nil
}
