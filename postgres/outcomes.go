package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// change is the new state of an event, and the events that are stored with it.
type change struct {
	index   int // of the settlement in the batch
	series  int64
	was, is almanac.Event
	ended   calendar.WallTime // what clocks in the user's zone show now; of a deleted user any time
	user    pgtype.Int4       // the version that the user must still be at; NULL if any version is accepted
	next    *almanac.Event    // the successor in the same series
	other   *almanac.Event    // a successor in another series
	follow  []almanac.Event   // follow-ups
	planErr error
	stalled *almanac.StalledSeries // if the successor could not be planned
	lostErr error                  // why the follow-ups could not be planned
}

// plan returns the changes for the settlements at the given indexes. It returns as rest the
// indexes of the settlements for which there is no change, and as alone the indexes of the
// settlements that also store events in other series.
//
// Each settlement in alone has a transaction of its own, because other settlements of the batch
// could write the same series. That transaction locks the user first, as an edit or a deletion
// does, so that they cannot deadlock.
func (t *settling) plan(indexes []int) (changes []*change, rest, alone []int, err error) {
	seen, seenAlone := make(map[uuid.UUID]bool, len(indexes)), make(map[uuid.UUID]bool)
	changes = make([]*change, 0, len(indexes))
	for _, i := range indexes {
		s := &t.settlements[i]
		claim := claimedAs(s.Event)
		series, held := t.series[claim]
		// A lease that still holds other events also lists events that were claimed again since.
		held = held && claim.version == t.latest[claim.id]
		user, known := t.userOf(s)
		// If an event occurs twice in a batch, only its first settlement is stored.
		if seenAlone[s.Event.ID] {
			alone = append(alone, i)
			continue
		}
		if !held || seen[s.Event.ID] || !known {
			rest = append(rest, i)
			seen[s.Event.ID] = seen[s.Event.ID] || held
			continue
		}
		seen[s.Event.ID] = true
		if t.busy[s.Event.UserID] {
			t.settled[i].Err = almanac.ErrLocked
			continue
		}
		outcome := s.Outcome
		if user == nil && t.locked && outcome.Status == almanac.Pending {
			outcome = almanac.GaveUp(almanac.ReasonUserDeleted) // events of a deleted user are not retried
		}
		is, err := outcome.Apply(s.Event, t.now)
		if err != nil {
			t.settled[i].Err = err
			continue
		}
		c := &change{index: i, series: series, was: s.Event, is: asStored(is, t.now), ended: s.Event.Wall}
		if user != nil {
			c.ended = user.Timezone.WallTime(t.now)
		}
		if user != nil && !t.locked {
			c.user = int4(user.Version)
		}
		if user != nil && is.Status.Terminal() {
			c.plan(s, *user, t.now)
		}
		if len(c.wanted()) > 0 && (!t.locked || len(indexes) > 1) {
			alone, seenAlone[s.Event.ID] = append(alone, i), true
			continue
		}
		changes = append(changes, c)
	}
	return changes, rest, alone, nil
}

// wanted returns the events to store in other series, ordered by series. So two transactions that
// write some of the same series write them in the same order.
func (c *change) wanted() []almanac.Event {
	wanted := slices.Clone(c.follow)
	if c.other != nil {
		wanted = append(wanted, *c.other)
	}
	slices.SortStableFunc(wanted, func(a, b almanac.Event) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Series, b.Series),
			strings.Compare(almanac.SeriesOf(a).Detached, almanac.SeriesOf(b).Detached))
	})
	return wanted
}

// lockWanted locks the other series that a change writes. It reports false if another transaction
// has locked any of them. A change that writes other series is the only change of its transaction.
func (t *settling) lockWanted(ctx context.Context, changes []*change) (free bool, err error) {
	if len(changes) != 1 {
		return true, nil
	}
	locked, err := t.Store.lockWanted(ctx, t.tx, changes[0].wanted())
	return len(locked) == 0, err
}

// userOf returns the user of an event, or nil if the user was deleted. It reports false if the user is
// not known. If users are not locked, the user is as at the claim of the event.
func (t *settling) userOf(s *almanac.Settlement) (*almanac.User, bool) {
	if t.locked {
		u, exists := t.users[s.Event.UserID]
		if !exists {
			return nil, true
		}
		return &u, true
	}
	return &s.User, s.User.ID == s.Event.UserID
}

// plan calls the settlement's functions for the successor and the follow-ups of an event that ends.
func (c *change) plan(s *almanac.Settlement, u almanac.User, now time.Time) {
	if s.Next != nil {
		next, err := s.Next(u, now)
		c.succeed(next, err, now)
	}
	if s.Follow == nil {
		return
	}
	if c.follow, c.lostErr = s.Follow(u, now); c.lostErr != nil {
		c.follow = nil
	}
}

// succeed stores a planned successor in c. A successor whose occurrence is used up is dropped.
func (c *change) succeed(e almanac.Event, err error, now time.Time) {
	switch {
	case errors.Is(err, calendar.ErrNoOccurrence):
	case err != nil:
		c.planErr = err
		stalled := c.was.Stalled(err, now)
		c.stalled = &stalled
	case e.UserID != c.was.UserID || almanac.SeriesOf(e) != almanac.SeriesOf(c.was):
		c.other = &e
	default:
		used := c.was.UsedBefore.With(almanac.UsedKey{Unit: c.was.KeyUnit, Key: c.was.OccurrenceKey})
		if k, ok := used.Of(e.KeyUnit); !ok || e.OccurrenceKey > k.Key {
			c.next = &e
		}
	}
}

// asStored returns an event as it is after the database has stored it at now.
func asStored(e almanac.Event, now time.Time) almanac.Event {
	for _, t := range []*time.Time{&e.Due, &e.AvailableAt, &e.ExecutedAt} {
		*t = t.UTC().Truncate(time.Microsecond)
	}
	e.UpdatedAt, e.UsedBefore = now, nil
	return e
}

// name sets the idempotency keys of the successors.
func (t *settling) name(ctx context.Context, changes []*change) error {
	var successors []almanac.Event
	for _, c := range changes {
		if c.next != nil {
			successors = append(successors, *c.next)
		}
	}
	t.marks = marksOf(successors)
	named, err := t.keys.choose(ctx, t.tx, successors)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.next != nil {
			*c.next, named = born(named[0], t.now), named[1:]
		}
	}
	return nil
}

// store writes the changes of events that are still as they were claimed, ends the leases that hold
// no event any more, and returns the ids of the changed events.
func (t *settling) store(ctx context.Context, changes []*change, indexes []int) (stored map[uuid.UUID]bool, err error) {
	var ended, released []*change
	for _, c := range changes {
		if c.is.Status.Terminal() {
			ended = append(ended, c)
		} else {
			released = append(released, c)
		}
	}
	var statements pgx.Batch
	stored = make(map[uuid.UUID]bool, len(changes))
	note := func(rows pgx.Rows) error {
		ids, err := pgx.CollectRows(rows, scanID)
		for _, id := range ids {
			stored[id] = true
		}
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
	tokens := column(indexes, func(i int) uuid.UUID { return t.settlements[i].Event.LeaseToken })
	statements.Queue(t.statements.EndLeases, pgx.StrictNamedArgs{"tokens": uuids(distinct(tokens))})
	if len(t.marks) > 0 {
		statements.Queue(t.statements.MarkZones, markArgs(t.marks))
	}
	if t.worthAHint(pendingAfter(changes)) {
		statements.Queue(t.statements.Notify, t.notification(hintPayload))
	}
	return stored, t.tx.SendBatch(ctx, &statements).Close()
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

// pendingAfter returns the events that are PENDING after the changes.
func pendingAfter(changes []*change) []almanac.Event {
	var events []almanac.Event
	for _, c := range changes {
		switch {
		case c.next != nil:
			events = append(events, *c.next)
		case c.is.Status == almanac.Pending:
			events = append(events, c.is)
		}
	}
	return events
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
	args["wall"] = ofNext(changes, func(c *change) (pgtype.Timestamp, bool) {
		return pgtype.Timestamp{Time: c.next.Wall.Labelled(), Valid: true}, true
	})
	args["nominal"] = ofNext(changes, func(c *change) (pgtype.Timestamp, bool) {
		nominal := localOrNull(c.next.Nominal)
		return nominal, nominal.Valid
	})
	args["zones"] = ofNext(changes, func(c *change) (pgtype.Text, bool) { return text(c.next.Zone), c.next.Zone != c.was.Zone })
	args["policies"] = ofNext(changes, func(c *change) (pgtype.Text, bool) {
		return text(formatPolicies(c.next.Policies)), c.next.Policies != c.was.Policies
	})
	args["idempotency_keys"] = ofNext(changes, func(c *change) (pgtype.Text, bool) { return text(c.next.IdempotencyKey.String()), true })
	args["payloads"] = ofNext(changes, func(c *change) (pgtype.Text, bool) {
		return text(string(c.next.Payload)), !bytes.Equal(c.next.Payload, c.was.Payload)
	})
	args["user_versions"] = ofNext(changes, func(c *change) (pgtype.Int4, bool) {
		return int4(c.next.UserVersion), c.next.UserVersion != c.was.UserVersion
	})
	return args
}

func releasedArgs(changes []*change, now time.Time) pgx.StrictNamedArgs {
	args := fenceArgs(changes, now)
	args["available"] = column(changes, func(c *change) time.Time { return c.is.AvailableAt })
	args["errors"] = column(changes, func(c *change) pgtype.Text { return textOrNull(c.is.LastError) })
	args["crashes"] = column(changes, func(c *change) int { return c.is.CrashCount - c.was.CrashCount })
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
