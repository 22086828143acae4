package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// hintPayload is what a hint says: nothing, so that those of one transaction are
// one. PostgreSQL sends what is the same but once.
const hintPayload = ""

// soon is how far ahead an event may be and still be worth a hint. What is further
// off every engine finds by itself in time, if it polls at least as often.
const soon = time.Minute

// hint tells those who listen, once the transaction is committed, that some of the
// events that it has stored can be claimed soon. Of others it says nothing, and
// asks the database nothing.
func (s *Store) hint(ctx context.Context, tx pgx.Tx, stored []almanac.Event) error {
	if !s.worthAHint(stored) {
		return nil
	}
	_, err := tx.Exec(ctx, s.statements["notify"], s.notification(hintPayload))
	return err
}

func (s *Store) notification(payload string) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"channel": s.channel(), "payload": payload}
}

// worthAHint judges events as they were stored just now, by the database's clock.
func (s *Store) worthAHint(stored []almanac.Event) bool {
	return !s.pollOnly && slices.ContainsFunc(stored, func(e almanac.Event) bool {
		return e.Status == almanac.Pending && e.AvailableAt.Before(e.UpdatedAt.Add(soon))
	})
}

// longestName is how many bytes PostgreSQL gives a name, and with it a channel.
const longestName = 63

// channel is that of the schema, whose name is said in other words where it is too
// long.
func (s *Store) channel() string {
	const prefix = "almanac:"
	if name := prefix + s.schema; len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(s.schema))
	return prefix + hex.EncodeToString(sum[:16])
}
