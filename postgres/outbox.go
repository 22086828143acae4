package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// DomainEventKind is the kind of a domain event.
type DomainEventKind string

// The kinds of domain events. An edit that moves or removes pending events is reported
// only as the change of the user.
const (
	UserCreated         DomainEventKind = "user_created"
	UserTimezoneChanged DomainEventKind = "user_timezone_changed"
	UserBirthdayChanged DomainEventKind = "user_birthday_changed"
	UserDeleted         DomainEventKind = "user_deleted" // also stands for the deletion of the user's pending events
	EventCreated        DomainEventKind = "event_created"
	EventCompleted      DomainEventKind = "event_completed"
	EventFailed         DomainEventKind = "event_failed"
	EventCancelled      DomainEventKind = "event_cancelled"
)

// DomainEvent is a row of the outbox. It holds ids and the zones of a move, no names and
// no payloads: a consumer that needs more reads the user or the event.
type DomainEvent struct {
	ID        uuid.UUID       `json:"id"`       // unique; the same in every read of the row
	Sequence  int64           `json:"sequence"` // greater for a later change of the same user or series
	At        time.Time       `json:"at"`       // UTC, by the database clock, within the transaction
	Kind      DomainEventKind `json:"kind"`
	UserID    uuid.UUID       `json:"userId"`
	EventID   uuid.UUID       `json:"eventId,omitzero"` // uuid.Nil for a change of a user
	EventType string          `json:"eventType,omitempty"`
	Version   int             `json:"version"` // of the user or the event after the change

	OldTimezone string `json:"oldTimezone,omitempty"` // for UserTimezoneChanged, "" otherwise
	NewTimezone string `json:"newTimezone,omitempty"` // for UserTimezoneChanged, "" otherwise
}

// NoConsumerError reports that the consumer with this name was never created, or was
// deleted. It matches [almanac.ErrNotFound].
type NoConsumerError struct{ Name string }

func (e *NoConsumerError) Error() string { return fmt.Sprintf("postgres: no consumer %q", e.Name) }

// Is makes errors.Is(err, almanac.ErrNotFound) true.
func (e *NoConsumerError) Is(target error) bool { return target == almanac.ErrNotFound }

// ErrOutboxRestored reports that the position of a consumer is of another server. It consists of transaction
// ids, and they mean nothing on this server. The tables come from a dump, from logical replication, or from
// pg_upgrade. Call [EnableOutbox] on this server. All consumers then read every stored row once more. Until
// then, the consumer reads nothing, and no row is pruned that it may not have read. Physical copies of a
// server, such as standbys, keep its positions.
var ErrOutboxRestored = errors.New("position is of another server: EnableOutbox resets it, and all stored rows are read once more")

// EnableOutbox creates triggers that write domain events to the outbox from now on. They
// write a row per domain event, in the transaction of the change, whichever program makes
// the change. Before this call the outbox costs nothing. Create the consumers first, so
// that they miss nothing. Then read the outbox with [Store.Consume].
//
// Only the owner of the tables may call it. EnableOutbox waits for transactions that write to
// the tables, and holds up other writes meanwhile; see [WithLockTimeout]. A second call
// changes nothing, except on a server to which the tables were moved: see [ErrOutboxRestored].
//
// The outbox grows until [Store.PruneOutbox] prunes it. When a user is deleted, the rows
// about the user that every consumer has read are deleted at once, except rows that another
// transaction is pruning. The other rows about the user are deleted when they are pruned.
func EnableOutbox(ctx context.Context, db DB, options ...Option) error {
	return inTransaction(ctx, db, "switch the outbox", options, func(ctx context.Context, s *Store, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.statements.ResetOutbox); err != nil {
			return err
		}
		return s.switchTriggers(ctx, tx, outbox, true)
	})
}

// DisableOutbox removes the triggers, so that no more domain events are written. Rows of
// the outbox stay, and consumers may read them.
func DisableOutbox(ctx context.Context, db DB, options ...Option) error {
	return inTransaction(ctx, db, "switch the outbox", options, func(ctx context.Context, s *Store, tx pgx.Tx) error {
		return s.switchTriggers(ctx, tx, outbox, false)
	})
}

// CreateConsumer creates a consumer of the outbox under a name of 1 to 100 bytes. The
// consumer reads all domain events that are committed after CreateConsumer has returned,
// and perhaps some that are committed meanwhile. An existing consumer is left unchanged,
// with a position of another server too. A bad name is an [*almanac.ValidationError].
//
// Rows are kept until every consumer has read them, so delete a consumer that is no longer needed.
func (s *Store) CreateConsumer(ctx context.Context, name string) error {
	if err := checkConsume(name, 1); err != nil {
		return err
	}
	return s.transact(ctx, "create consumer", func(ctx context.Context, tx pgx.Tx) error {
		at, err := s.position(ctx, tx, name)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, s.statements.CreateConsumer, pgx.StrictNamedArgs{"name": name, "snapshot": at.reading, "low": at.nextLow})
		return err
	})
}

// DeleteConsumer deletes a consumer and its position. The error is a [*NoConsumerError]
// when there is no such consumer.
func (s *Store) DeleteConsumer(ctx context.Context, name string) error {
	return s.transact(ctx, "delete consumer", func(ctx context.Context, tx pgx.Tx) error {
		existed, err := one(ctx, tx, s.statements.DeleteConsumer, pgx.StrictNamedArgs{"name": name}, pgx.RowTo[bool])
		if err == nil && !existed {
			err = asIs(&NoConsumerError{name})
		}
		return err
	})
}

// Consumer is a reader of the outbox.
type Consumer struct {
	Name    string
	MovedAt time.Time // UTC; when the consumer last read any row, or was created
	Oldest  time.Time // UTC; time of the oldest row that the consumer has not read, zero when it has read all rows
}

// Consumers returns all consumers, in the order of their names. If Oldest stays the same,
// the consumer does not read, and the outbox grows.
func (s *Store) Consumers(ctx context.Context) (consumers []Consumer, err error) {
	err = s.do(ctx, "read consumers", func(ctx context.Context, db DB) error {
		consumers, err = all(ctx, db, s.statements.Consumers, nil, func(row pgx.CollectableRow) (c Consumer, err error) {
			var oldest *time.Time
			err = row.Scan(&c.Name, &c.MovedAt, &oldest)
			c.MovedAt = c.MovedAt.UTC()
			c.Oldest = orZero(oldest).UTC()
			return c, err
		})
		return err
	})
	return consumers, err
}

// maxRows bounds how many rows of the outbox are read or pruned at once.
const maxRows = 10_000

var badLimit = almanac.FieldError{Field: "limit", Problem: fmt.Sprintf("is not between 1 and %d", maxRows)}

// Consume reads up to limit domain events, 1 to 10,000, that a consumer has not read,
// hands them to take, and moves the consumer past them, all in one transaction. It
// returns how many domain events it handed over. If there are none, take is not called.
//
// When take fails, or the process dies, or the commit fails, the consumer has not moved, and the same domain
// events are read again. So each is read at least once. Everything that take writes through tx is stored
// together with the position, and so is stored exactly once. In the host's transaction (see
// [Store.InTransaction]) the host's commit moves the consumer. If a consumer reads only in transactions of
// the host, each read scans all stored rows: prune often, or call Consume outside a transaction now and then.
//
// The changes of one user or series come in the order in which they were committed, and
// all domain events of one transaction that fit into limit come together. An open
// transaction delays only its own domain events: they are read after it commits, even if
// later domain events of other transactions were read before. Nothing is skipped.
//
// Only one call at a time reads for a consumer. Other calls wait, and fail after the lock
// timeout with an error that matches [almanac.ErrLocked]. The call lasts no longer than
// [WithTimeout], take included, because an open transaction holds back vacuum. A consumer that
// was not created is a [*NoConsumerError]. A bad name or limit is an [*almanac.ValidationError].
// If the position is of another server, the error matches [ErrOutboxRestored].
func (s *Store) Consume(ctx context.Context, consumer string, limit int, take func(ctx context.Context, tx pgx.Tx, events []DomainEvent) error) (int, error) {
	if err := checkConsume(consumer, limit); err != nil {
		return 0, err
	}
	var taken int
	err := s.transact(ctx, "read the outbox", func(ctx context.Context, tx pgx.Tx) error {
		taken = 0
		at, err := s.position(ctx, tx, consumer)
		if err != nil {
			return err
		}
		if at.seen == "" {
			return asIs(&NoConsumerError{consumer})
		}
		if at.elsewhere {
			return asIs(fmt.Errorf("postgres: read the outbox: %w", ErrOutboxRestored))
		}
		events, err := all(ctx, tx, s.statements.ReadOutbox, pgx.StrictNamedArgs{
			"seen": at.seen, "reading": at.reading, "after": max(at.last, at.low-1), "last": at.last, "limit": limit + 1,
		}, scanDomainEvent)
		if err != nil {
			return err
		}
		more := len(events) > limit
		if more {
			events = events[:limit]
		}
		if len(events) == 0 && at.last == 0 {
			return nil
		}
		if len(events) > 0 {
			if err := take(ctx, tx, events); err != nil {
				return err
			}
		}
		taken = len(events)
		return s.moveConsumer(ctx, tx, consumer, at.after(events, more))
	})
	return taken, err
}

func checkConsume(name string, limit int) error {
	var bad []almanac.FieldError
	if name == "" || len(name) > 100 {
		bad = append(bad, almanac.FieldError{Field: "consumer", Problem: "is not 1 to 100 bytes long"})
	}
	if limit < 1 || limit > maxRows {
		bad = append(bad, badLimit)
	}
	if bad != nil {
		return &almanac.ValidationError{Fields: bad}
	}
	return nil
}

// position is how far a consumer has read. The consumer has read all rows in the snapshot seen. While last is
// not zero, it has also read the rows numbered up to last that are in the snapshot reading and not in seen.
type position struct {
	seen      string // a pg_snapshot; "" if the consumer does not exist
	low       int64  // the least number of transactions whose ids are past the end of seen
	reading   string
	nextLow   int64 // the same for reading
	last      int64
	elsewhere bool // the transaction ids are of another server
}

// position locks a consumer and reads its position. If the consumer has read all of the
// snapshot that it was reading, or does not exist, reading is the snapshot of everything
// committed now. Why a position is a snapshot, not a number: docs/adr/0045-outbox.md.
func (s *Store) position(ctx context.Context, tx pgx.Tx, consumer string) (at position, err error) {
	var low int64
	var now string
	var younger bool
	name := pgx.StrictNamedArgs{"name": consumer}
	// The number is read before this transaction gets its id, so that no transaction with a
	// greater id can draw a smaller number.
	for _, step := range []struct {
		statement string
		args      []any
		into      []any
	}{
		{s.statements.OutboxLow, nil, []any{&low}},
		{s.statements.TakeConsumer, []any{name}, []any{&at.seen, &at.low, &at.reading, &at.nextLow, &at.last}},
		{s.statements.OutboxSnapshot, []any{name}, []any{&now, &younger, &at.elsewhere}},
	} {
		rows, err := tx.Query(ctx, step.statement, step.args...)
		if err != nil {
			return at, err
		}
		if _, err := pgx.ForEachRow(rows, step.into, func() error { return nil }); err != nil {
			return at, err
		}
	}
	if at.last == 0 {
		at.reading = now
		// The host's transaction may have got its id before the number was read, or have an older snapshot. A
		// smaller number, such as that of the last snapshot, is also correct, but reads more rows.
		if younger && !s.InTransaction() {
			at.nextLow = low
		}
	}
	return at, nil
}

// after returns the position after events were read. The argument more reports whether the
// snapshot has further rows.
func (p position) after(events []DomainEvent, more bool) position {
	if more {
		p.last = events[len(events)-1].Sequence
		return p
	}
	return position{seen: p.reading, low: p.nextLow, reading: p.reading, nextLow: p.nextLow}
}

func (s *Store) moveConsumer(ctx context.Context, tx pgx.Tx, consumer string, to position) error {
	_, err := tx.Exec(ctx, s.statements.MoveConsumer, pgx.StrictNamedArgs{
		"name": consumer, "seen": to.seen, "low": to.low, "reading": to.reading, "next_low": to.nextLow, "last": to.last,
	})
	return err
}

func scanDomainEvent(row pgx.CollectableRow) (e DomainEvent, err error) {
	var event uuid.NullUUID
	var eventType, was, is pgtype.Text
	err = row.Scan(&e.ID, &e.Sequence, &e.At, &e.Kind, &e.UserID, &event, &eventType, &e.Version, &was, &is)
	e.At, e.EventID, e.EventType, e.OldTimezone, e.NewTimezone = e.At.UTC(), event.UUID, eventType.String, was.String, is.String
	return e, err
}

// PruneOutbox examines the oldest rows of the outbox, up to limit, and deletes the rows that every consumer
// has read. It returns the number of deleted rows. If there is no consumer, PruneOutbox deletes all examined
// rows. Call it until it returns fewer than limit. Rows that a consumer has not read stay for as long as the
// consumer exists: see [Store.Consumers]. A limit that is not 1 to 10,000 is an [*almanac.ValidationError].
func (s *Store) PruneOutbox(ctx context.Context, limit int) (pruned int, err error) {
	if limit < 1 || limit > maxRows {
		return 0, &almanac.ValidationError{Fields: []almanac.FieldError{badLimit}}
	}
	err = s.transact(ctx, "prune the outbox", func(ctx context.Context, tx pgx.Tx) (err error) {
		pruned, err = one(ctx, tx, s.statements.PruneOutbox, pgx.StrictNamedArgs{"limit": limit}, pgx.RowTo[int])
		return err
	})
	return pruned, err
}
