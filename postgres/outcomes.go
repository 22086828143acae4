package postgres

import (
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
)

// change is what an event becomes.
type change struct {
	place   int
	series  int64
	was, is almanac.Event
	user    pgtype.Int4     // the version that its user must still be at; NULL where it does not matter
	next    *almanac.Event  // the successor, which takes its place
	apart   *almanac.Event  // a successor in another series
	follow  []almanac.Event // what is stored besides
	planErr error
}

// plan makes changes of the settlements at the given places. It returns the places of
// those that it cannot make one of as rest, and as alone the places of those that store
// events in other series too. Other settlements of a batch could write the same series,
// so each of these has a transaction of its own. Its user is locked first, as an edit or
// a deletion locks them: none of them waits for another in a circle then.
func (t *turn) plan(places []int) (changes []*change, rest, alone []int, err error) {
	seen, seenAlone := make(map[uuid.UUID]bool, len(places)), make(map[uuid.UUID]bool)
	changes = make([]*change, 0, len(places))
	for _, i := range places {
		s := &t.settlements[i]
		claim := claimedAs(s.Event)
		series, held := t.series[claim]
		// A lease that goes on for the sake of others still lists what was claimed again.
		held = held && claim.version == t.latest[claim.id]
		user, known := t.userOf(s)
		// An event that stands twice in a batch is settled once, and the first counts.
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
			outcome = almanac.GaveUp(almanac.ReasonUserDeleted) // nothing is tried again for a user who was deleted
		}
		is, err := outcome.Apply(s.Event, t.now)
		if err != nil {
			t.settled[i].Err = err
			continue
		}
		c := &change{place: i, series: series, was: s.Event, is: asStored(is, t.now)}
		if user != nil && !t.locked {
			c.user = int4(user.Version)
		}
		if user != nil && is.Status.Terminal() {
			c.plan(s, *user, t.now)
		}
		if len(c.wanted()) > 0 && (!t.locked || len(places) > 1) {
			alone, seenAlone[s.Event.ID] = append(alone, i), true
			continue
		}
		changes = append(changes, c)
	}
	return changes, rest, alone, nil
}

// wanted is what is to be stored in other series, in the order of these: two
// transactions that store some of the same ones do so in the same order.
func (c *change) wanted() []almanac.Event {
	wanted := slices.Clone(c.follow)
	if c.apart != nil {
		wanted = append(wanted, *c.apart)
	}
	slices.SortStableFunc(wanted, func(a, b almanac.Event) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(seriesName(a.OccurrenceKey), seriesName(b.OccurrenceKey)))
	})
	return wanted
}

// lockWanted locks the other series that a change writes, and reports whether none of
// them is locked by another transaction. Such a change is the only one of its
// transaction.
func (t *turn) lockWanted(ctx context.Context, changes []*change) (free bool, err error) {
	if len(changes) != 1 {
		return true, nil
	}
	locked, err := t.Store.lockWanted(ctx, t.tx, changes[0].wanted())
	return len(locked) == 0, err
}

// userOf returns the user of an event, nil where none is asked for or they were
// deleted, and whether that is known: before users are locked it is as they were
// when the event was claimed.
func (t *turn) userOf(s *almanac.Settlement) (*almanac.User, bool) {
	if t.locked {
		u, exists := t.users[s.Event.UserID]
		if !exists {
			return nil, true
		}
		return &u, true
	}
	if s.Next == nil && s.Follow == nil && s.Outcome.Status != almanac.Pending {
		return nil, true
	}
	return &s.User, s.User.ID == s.Event.UserID
}

// plan asks what follows an event that ends.
func (c *change) plan(s *almanac.Settlement, u almanac.User, now time.Time) {
	if s.Next != nil {
		c.succeed(s.Next(u, now))
	}
	if s.Follow == nil {
		return
	}
	var err error
	if c.follow, err = s.Follow(u, now); err != nil {
		c.follow, c.planErr = nil, errors.Join(c.planErr, err)
	}
}

// succeed takes what was planned as a successor. One whose occurrence is used up is
// none.
func (c *change) succeed(e almanac.Event, err error) {
	switch {
	case errors.Is(err, almanac.ErrNoOccurrence):
	case err != nil:
		c.planErr = err
	case e.UserID != c.was.UserID || e.Type != c.was.Type || seriesOf(e) != seriesOf(c.was):
		c.apart = &e
	case e.OccurrenceKey > c.was.OccurrenceKey:
		c.next = &e
	}
}

// seriesName is the part of a key that names its series, with the slash, or "".
func seriesName(key string) string { return key[:strings.IndexByte(key, '/')+1] }

// seriesOf names the series that an event is in. A requeued event is in one of its own,
// of which there is but one, so that it is requeued once.
func seriesOf(e almanac.Event) string {
	if e.RequeuedFrom != uuid.Nil {
		return "~again-" + e.RequeuedFrom.String() + "/"
	}
	return seriesName(e.OccurrenceKey)
}

// asStored returns an event as the database keeps it that stores it at now.
func asStored(e almanac.Event, now time.Time) almanac.Event {
	for _, t := range []*time.Time{&e.Due, &e.AvailableAt, &e.ExecutedAt} {
		*t = t.UTC().Truncate(time.Microsecond)
	}
	e.UpdatedAt = now
	return e
}

// born returns a new event as the database keeps it.
func born(e almanac.Event, key string, now time.Time) *almanac.Event {
	e = asStored(almanac.Event{
		ID: e.ID, UserID: e.UserID, Type: e.Type, OccurrenceKey: e.OccurrenceKey, Status: almanac.Pending, Due: e.Due, Wall: e.Wall,
		Zone: e.Zone, Policies: e.Policies.WithDefaults(), IdempotencyKey: almanac.IdempotencyKey(key), Payload: e.Payload,
		UserVersion: e.UserVersion, AvailableAt: e.Due, Version: 1, CreatedAt: now,
	}, now)
	return &e
}

// name gives the successors their idempotency keys.
func (t *turn) name(ctx context.Context, changes []*change) error {
	var successors []almanac.Event
	for _, c := range changes {
		if c.next != nil {
			successors = append(successors, *c.next)
		}
	}
	t.marks = marksOf(successors)
	keys, err := t.keys.choose(ctx, t.tx, successors)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.next != nil {
			c.next, keys = born(*c.next, keys[0], t.now), keys[1:]
		}
	}
	return nil
}

// store writes changes where events are still as they were claimed, ends the leases
// that hold nothing any more, and returns which took effect.
func (t *turn) store(ctx context.Context, changes []*change, places []int) (stored map[uuid.UUID]bool, err error) {
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
		statements.Queue(t.statements["settle_ended"], endedArgs(ended, t.now)).Query(note)
	}
	if len(released) > 0 {
		statements.Queue(t.statements["settle_released"], releasedArgs(released, t.now)).Query(note)
	}
	tokens := column(places, func(i int) uuid.UUID { return t.settlements[i].Event.LeaseToken })
	statements.Queue(t.statements["end_leases"], pgx.StrictNamedArgs{"tokens": uuids(distinct(tokens))})
	if len(t.marks) > 0 {
		statements.Queue(t.statements["mark_zones"], markArgs(t.marks))
	}
	if t.worthAHint(pendingAfter(changes)) {
		statements.Queue(t.statements["notify"], t.notification(hintPayload))
	}
	return stored, t.tx.SendBatch(ctx, &statements).Close()
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

func endedArgs(changes []*change, now time.Time) pgx.StrictNamedArgs {
	args := fenceArgs(changes, now)
	args["tokens"] = uuids(column(changes, func(c *change) uuid.UUID { return c.was.LeaseToken }))
	args["statuses"] = column(changes, func(c *change) string { return string(c.is.Status) })
	args["executed"] = column(changes, func(c *change) pgtype.Timestamptz { return timeOrNull(c.is.ExecutedAt) })
	args["failures"] = column(changes, func(c *change) pgtype.Text { return textOrNull(c.is.FailureReason) })
	args["next_ids"] = ofNext(changes, func(e *almanac.Event) pgtype.UUID { return pgtype.UUID{Bytes: e.ID, Valid: true} })
	args["keys"] = ofNext(changes, func(e *almanac.Event) pgtype.Text { return text(e.OccurrenceKey) })
	args["due"] = ofNext(changes, func(e *almanac.Event) pgtype.Timestamptz { return pgtype.Timestamptz{Time: e.Due, Valid: true} })
	args["wall"] = ofNext(changes, func(e *almanac.Event) pgtype.Timestamp {
		return pgtype.Timestamp{Time: e.Wall.Labelled(), Valid: true}
	})
	args["zones"] = ofNext(changes, func(e *almanac.Event) pgtype.Text { return text(e.Zone) })
	args["policies"] = ofNext(changes, func(e *almanac.Event) pgtype.Text { return text(formatPolicies(e.Policies)) })
	args["idempotency_keys"] = ofNext(changes, func(e *almanac.Event) pgtype.Text { return text(e.IdempotencyKey.String()) })
	args["payloads"] = ofNext(changes, func(e *almanac.Event) pgtype.Text { return text(string(e.Payload)) })
	args["user_versions"] = ofNext(changes, func(e *almanac.Event) pgtype.Int4 { return int4(e.UserVersion) })
	return args
}

func releasedArgs(changes []*change, now time.Time) pgx.StrictNamedArgs {
	args := fenceArgs(changes, now)
	args["available"] = column(changes, func(c *change) time.Time { return c.is.AvailableAt })
	args["errors"] = column(changes, func(c *change) pgtype.Text { return textOrNull(c.is.LastError) })
	args["crashes"] = column(changes, func(c *change) int { return c.is.CrashCount - c.was.CrashCount })
	return args
}

// fenceArgs are the arguments that say which events are meant.
func fenceArgs(changes []*change, now time.Time) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"series":   column(changes, func(c *change) int64 { return c.series }),
		"ids":      uuids(column(changes, func(c *change) uuid.UUID { return c.was.ID })),
		"versions": column(changes, func(c *change) int { return claimedAs(c.was).version }),
		"users":    column(changes, func(c *change) pgtype.Int4 { return c.user }),
		"retries":  column(changes, func(c *change) int { return c.is.RetryCount - c.was.RetryCount }),
		"now":      now,
	}
}

// ofNext is a column of the successors, NULL where there is none.
func ofNext[V any](changes []*change, value func(*almanac.Event) V) pgtype.FlatArray[V] {
	return column(changes, func(c *change) (v V) {
		if c.next != nil {
			v = value(c.next)
		}
		return v
	})
}

// storeApart stores what begins or goes on in another series than that of the event
// before it.
func (t *turn) storeApart(ctx context.Context, c *change) error {
	stored, err := t.insert(ctx, t.tx, t.keys, c.wanted())
	if err != nil || len(stored) == 0 {
		return err
	}
	one := &t.settled[c.place]
	for i, e := range stored {
		if c.apart != nil && e.ID == c.apart.ID {
			one.Successor = &stored[i]
		} else {
			one.Followed = append(one.Followed, e)
		}
	}
	return t.hint(ctx, t.tx, stored)
}
