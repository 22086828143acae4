package postgres

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// store writes the changes of events that are still as they were claimed, ends the leases that hold
// no event any more. It notes which events it changed.
func (t *settling) store(ctx context.Context, changes []*change) error {
	var ended, released []*change
	for _, c := range changes {
		if c.is.Status.Terminal() {
			ended = append(ended, c)
		} else {
			released = append(released, c)
		}
	}
	var statements pgx.Batch
	note := func(rows pgx.Rows) error {
		var id uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{rawID(&id)}, func() error { t.claims.list[t.claims.first[id]].stored = true; return nil })
		return err
	}
	if len(ended) > 0 {
		statements.Queue(t.statements.SettleEnded, endedArgs(ended, t.now)).Query(note)
	}
	if len(released) > 0 {
		statements.Queue(t.statements.SettleReleased, releasedArgs(released, t.now)).Query(note)
	}
	if rows := stalledRows(ended); len(rows) > 0 {
		statements.Queue(t.statements.Stall, stallArgs(rows))
	}
	statements.Queue(t.statements.EndLeases, pgx.StrictNamedArgs{"tokens": uuids(t.claims.tokens())})
	if len(t.marks) > 0 {
		statements.Queue(t.statements.MarkZones, markArgs(t.marks))
	}
	if lanes := lanesOfAll(changes); len(lanes) > 0 {
		statements.Queue(t.statements.FreePlaces, pgx.StrictNamedArgs{"lanes": lanes})
	}
	if slices.ContainsFunc(changes, func(c *change) bool { return t.worthAHint(c.last()) }) {
		statements.Queue(t.statements.Notify, t.notification(hintPayload))
	}
	return t.tx.SendBatch(ctx, &statements).Close()
}

// lanesOfAll returns the names of the lanes in which the events were, and of those that these are in.
func lanesOfAll(changes []*change) (names []string) {
	for _, c := range changes {
		if c.was.Lane != "" {
			names = append(names, c.was.Lane)
			if upper, _, is := strings.Cut(c.was.Lane, "/"); is {
				names = append(names, upper)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// stalledRows returns the series whose successors could not be planned.
func stalledRows(ended []*change) []stalledRow {
	var rows []stalledRow
	for _, c := range ended {
		if c.stalled != nil {
			rows = append(rows, stalledRow{c.series, string(c.was.KeyUnit), c.was.OccurrenceKey, *c.stalled})
		}
	}
	return rows
}

// last returns the last event of the series after the change.
func (c *change) last() *almanac.Event {
	if c.next != nil {
		return c.next
	}
	return c.is
}

// endedArgs returns the arguments for events that end. A value of a successor that equals that of its
// predecessor is NULL, and keeps the stored value.
func endedArgs(changes []*change, now time.Time) pgx.StrictNamedArgs {
	args := fenceArgs(changes, now)
	args["tokens"] = values(changes, func(c *change) (pgtype.UUID, bool) { return uuidArg(c.was.LeaseToken), true })
	args["statuses"] = values(changes, func(c *change) (pgtype.Text, bool) {
		return text(string(c.is.Status)), c.is.Status != almanac.Completed
	})
	args["executed"] = values(changes, func(c *change) (pgtype.Timestamptz, bool) {
		return timeOrNull(c.is.ExecutedAt), !c.is.ExecutedAt.IsZero()
	})
	args["failures"] = values(changes, func(c *change) (pgtype.Text, bool) {
		return text(c.is.FailureReason), c.is.Status != almanac.Completed // a reason to cancel may be empty
	})
	args["ended"] = values(changes, func(c *change) (pgtype.Timestamp, bool) { return localOrNull(c.ended), true })
	args["next_ids"] = ofNext(changes, func(c *change) (pgtype.UUID, bool) { return uuidArg(c.next.ID), true })
	args["keys"] = ofNext(changes, func(c *change) (pgtype.Text, bool) { return text(c.next.OccurrenceKey), true })
	args["units"] = ofNext(changes, func(c *change) (pgtype.Text, bool) {
		return text(string(c.next.KeyUnit)), c.next.KeyUnit != c.was.KeyUnit
	})
	args["due"] = ofNext(changes, func(c *change) (pgtype.Timestamptz, bool) {
		return pgtype.Timestamptz{Time: c.next.Due, Valid: true}, true
	})
	args["ready"] = ofNext(changes, func(c *change) (pgtype.Timestamptz, bool) {
		ready := readyOrNull(*c.next)
		return ready, ready.Valid
	})
	args["wall"] = ofNext(changes, func(c *change) (pgtype.Timestamp, bool) {
		return pgtype.Timestamp{Time: c.next.Wall.Labelled(), Valid: true}, true
	})
	args["nominal"] = ofNext(changes, func(c *change) (pgtype.Timestamp, bool) {
		nominal := localOrNull(c.next.Nominal)
		return nominal, nominal.Valid
	})
	args["zones"] = ofNext(changes, func(c *change) (pgtype.Text, bool) { return text(c.next.Zone), c.next.Zone != c.was.Zone })
	args["policies"] = ofNext(changes, func(c *change) (v pgtype.Text, ok bool) {
		if ok = c.next.Policies != c.was.Policies; ok {
			v = text(formatPolicies(c.next.Policies))
		}
		return v, ok
	})
	args["idempotency_keys"] = ofNext(changes, func(c *change) (pgtype.Text, bool) { return text(c.next.IdempotencyKey.String()), true })
	args["payloads"] = ofNext(changes, func(c *change) (v pgtype.Text, ok bool) {
		if ok = !bytes.Equal(c.next.Payload, c.was.Payload); ok {
			v = text(string(c.next.Payload))
		}
		return v, ok
	})
	args["user_versions"] = ofNext(changes, func(c *change) (pgtype.Int4, bool) {
		return int4(c.next.UserVersion), c.next.UserVersion != c.was.UserVersion
	})
	args["lanes"] = ofNext(changes, func(c *change) (pgtype.Text, bool) { return text(c.next.Lane), c.next.Lane != c.was.Lane })
	args["consulted"] = ofNext(changes, func(c *change) (pgtype.Text, bool) {
		return textOrNull(c.next.Consulted.String()), c.next.Consulted.Calendars != ""
	})
	return args
}

func releasedArgs(changes []*change, now time.Time) pgx.StrictNamedArgs {
	args := fenceArgs(changes, now)
	args["available"] = column(changes, func(c *change) time.Time { return c.is.AvailableAt })
	args["errors"] = column(changes, func(c *change) pgtype.Text { return textOrNull(c.is.LastError) })
	args["crashes"] = column(changes, func(c *change) int { return c.is.CrashCount - c.was.CrashCount })
	args["lanes"] = values(changes, func(c *change) (pgtype.Text, bool) { return text(c.is.Lane), c.is.Lane != c.was.Lane })
	return args
}

// fenceArgs returns the arguments that identify the events and the versions that they must be at.
func fenceArgs(changes []*change, now time.Time) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"series":   values(changes, func(c *change) (pgtype.Int8, bool) { return pgtype.Int8{Int64: c.series, Valid: true}, true }),
		"ids":      values(changes, func(c *change) (pgtype.UUID, bool) { return uuidArg(c.was.ID), true }),
		"versions": values(changes, func(c *change) (pgtype.Int4, bool) { return int4(c.was.Version - 1), true }),
		"users":    values(changes, func(c *change) (pgtype.Int4, bool) { return c.user, c.user.Valid }),
		"retries": values(changes, func(c *change) (pgtype.Int4, bool) {
			n := c.is.RetryCount - c.was.RetryCount
			return int4(n), n != 0
		}),
		"now": now,
	}
}

// ofNext returns a column of the successors. The value is NULL for a change without a successor.
func ofNext[V any](changes []*change, value func(*change) (V, bool)) any {
	return values(changes, func(c *change) (v V, ok bool) {
		if c.next == nil {
			return v, false
		}
		return value(c)
	})
}

// storeOthers stores the successor and the follow-ups of a change that are in other series.
func (t *settling) storeOthers(ctx context.Context, c *change) error {
	stored, err := t.insert(ctx, t.tx, t.keys, c.wanted())
	if err != nil || len(stored) == 0 {
		return err
	}
	result := &t.settled[c.index]
	for i, e := range stored {
		if c.other != nil && e.ID == c.other.ID {
			result.Successor = &stored[i]
		} else {
			result.Followed = append(result.Followed, e)
		}
	}
	return t.hint(ctx, t.tx, stored)
}
