package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// hintPayload is the payload of a hint. It is always empty, because PostgreSQL sends equal
// notifications of one transaction only once.
const hintPayload = ""

// soon is how far in the future an event may be to be worth a hint. An engine that polls at
// least this often finds later events in time by itself.
const soon = time.Minute

// hint notifies listeners, when the transaction commits, if any of the events that it has
// stored can be claimed soon. Otherwise it sends nothing to the database. The database leaves
// the hint out while its queue of notifications is half full.
func (s *Store) hint(ctx context.Context, tx pgx.Tx, stored []almanac.Event) error {
	if !slices.ContainsFunc(stored, func(e almanac.Event) bool { return s.worthAHint(&e) }) {
		return nil
	}
	_, err := tx.Exec(ctx, s.statements.Notify, s.notification(hintPayload))
	return err
}

func (s *Store) notification(payload string) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"channel": s.channel(), "payload": payload}
}

// worthAHint reports whether an event, which was just stored, can be claimed soon by the database
// clock, and the store sends hints.
func (s *Store) worthAHint(e *almanac.Event) bool {
	return !s.pollOnly && e.Status == almanac.Pending && e.AvailableAt.Before(e.UpdatedAt.Add(soon))
}

// longestName is the greatest length of a name, and so of a channel, in PostgreSQL, in bytes.
const longestName = 63

// channel returns the name of the notification channel for the schema. If the name of the
// schema is too long, a hash of it is used.
func (s *Store) channel() string {
	const prefix = "almanac:"
	if name := prefix + s.schema; len(name) <= longestName {
		return name
	}
	sum := sha256.Sum256([]byte(s.schema))
	return prefix + hex.EncodeToString(sum[:16])
}

// hintReleased notifies listeners that events which were claimed ahead are pending again,
// because these events are due soon.
func (s *Store) hintReleased(ctx context.Context, tx pgx.Tx, released []uuid.UUID) error {
	if len(released) == 0 || s.pollOnly {
		return nil
	}
	_, err := tx.Exec(ctx, s.statements.Notify, s.notification(hintPayload))
	return err
}
