package almanactest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// put stores an event with the time now and returns it. The stored event shares nothing
// with the caller's copy. Times are truncated to the precision of a database.
func (s *state) put(e almanac.Event, now time.Time) almanac.Event {
	for _, t := range []*time.Time{&e.Due, &e.ReadyAt, &e.AvailableAt, &e.ExecutedAt} {
		*t = t.UTC().Truncate(time.Microsecond)
	}
	e.UpdatedAt, e.UsedBefore = now, nil
	e = s.mark(e)
	s.store(copied(e))
	if e.Status.Terminal() {
		remove(&s.undo, s.waits, seriesOf(e)) // the series has used another key
		set(&s.undo, s.used, seriesOf(e), s.used[seriesOf(e)].With(e.Uses(s.users[e.UserID].User, now)))
	}
	return e
}

// newborn returns a new event as it is stored at now.
func newborn(e almanac.Event, now time.Time) almanac.Event {
	e.CreatedAt = now
	return almanac.Event{
		ID: e.ID, UserID: e.UserID, Type: e.Type, Series: e.Series, Lane: e.Lane, OccurrenceKey: e.OccurrenceKey, KeyUnit: e.KeyUnit, Origin: e.Origin,
		Status: almanac.Pending, Due: e.Due, Wall: e.Wall, Nominal: e.Nominal, Consulted: e.Consulted, Zone: e.Zone, Policies: e.Policies.WithDefaults(), IdempotencyKey: e.IdempotencyKey,
		Payload: e.Payload, UserVersion: e.UserVersion, ReadyAt: e.ReadyAt, AvailableAt: e.FirstAvailable(), Version: 1, CreatedAt: now, UpdatedAt: now,
		PlannedBy: e.PlannedBy,
	}
}

// availableAfter returns when an edited event that was never claimed can be claimed, and its
// ReadyAt. If the new instant has passed, that is now, or the earlier time at which the event was
// available before the edit. It is never before the ReadyAt of the edit.
func availableAfter(was, is almanac.Event, now time.Time) (available, ready time.Time) {
	since := was.AvailableAt
	if since.After(now) {
		since = now
	}
	switch {
	case is.Due.Before(since) && is.ReadyAt.Before(since):
		is.ReadyAt = since
	case !is.ReadyAt.After(is.Due):
		is.ReadyAt = time.Time{}
	}
	return is.FirstAvailable(), is.ReadyAt
}

func copied(e almanac.Event) almanac.Event {
	e.Payload = bytes.Clone(e.Payload)
	return e
}

// insert stores a new event, always PENDING and at version 1. It stores nothing if the
// series has an open event or the occurrence is used. If the idempotency key belongs to
// another occurrence, or may belong to a pruned one, the event gets its long key.
func (s *state) insert(e almanac.Event, now time.Time) (stored almanac.Event, inserted bool, err error) {
	if e.Origin.Kind == almanac.OriginRequeued {
		return s.requeue(e, now)
	}
	e = newborn(e, now)
	if err := storable(e); err != nil {
		return almanac.Event{}, false, err
	}
	if s.hasOpen(seriesOf(e)) || s.usedUp(e) {
		return almanac.Event{}, false, nil
	}
	if s.keyTaken(e) || e.Due.Before(s.pruned) {
		e.IdempotencyKey = e.LongKey()
	}
	_, owned := s.users[e.UserID]
	if _, taken := s.events[e.ID]; taken || !owned || s.keyTaken(e) {
		return almanac.Event{}, false, fmt.Errorf("almanactest: event %s of user %s: its id or its key is taken, or the user does not exist", e.ID, e.UserID)
	}
	set(&s.undo, s.due, e.ID, e.Due)
	return s.put(e, now), true, nil
}

// requeue stores an event that repeats another under the same key, unless that was requeued before.
func (s *state) requeue(e almanac.Event, now time.Time) (stored almanac.Event, inserted bool, err error) {
	if s.hasOpen(seriesOf(e)) || s.usedUp(e) {
		return almanac.Event{}, false, nil
	}
	e.CreatedAt = now
	set(&s.undo, s.due, e.ID, s.due[e.Origin.From])
	return s.put(e, now), true, nil
}

// hasOpen reports whether a series has an event that is pending or in flight.
func (s *state) hasOpen(one series) bool { return s.open[one] > 0 }

// usedUp reports whether the occurrence of an event, or a later one whose key has the same
// unit, has ended already.
func (s *state) usedUp(e almanac.Event) bool {
	k, ok := s.used[seriesOf(e)].Of(e.KeyUnit)
	return ok && e.OccurrenceKey <= k.Key
}

// unshown returns the used keys of the series of a planned event, if the series has no open
// event, the keys forbid the event, and they were not known when it was planned.
func (s *state) unshown(e almanac.Event, known map[almanac.Series]almanac.UsedKeys) (almanac.UsedKeys, bool) {
	used := s.used[seriesOf(e)]
	news := e.Origin.Kind != almanac.OriginRequeued && used.Has(e.Occurrence().Occurrence) && !s.hasOpen(seriesOf(e)) &&
		!slices.Equal(known[almanac.SeriesOf(e)], used)
	return used, news
}

// keyTaken reports whether another event has the idempotency key of an event.
func (s *state) keyTaken(e almanac.Event) bool {
	others := s.keys[e.IdempotencyKey]
	if own, stored := s.events[e.ID]; stored && own.IdempotencyKey == e.IdempotencyKey {
		others--
	}
	return others > 0
}

// storable refuses what a database would refuse: columns that are too long, payloads that
// jsonb cannot store, and rows whose status and columns contradict each other.
func storable(e almanac.Event) error {
	pending := e.Status == almanac.Pending
	for problem, bad := range map[string]bool{
		"event type too long":       utf8.RuneCountInString(e.Type) > 50,
		"series too long":           utf8.RuneCountInString(e.Series) > 100,
		"occurrence key too long":   utf8.RuneCountInString(e.OccurrenceKey) > 100,
		"key unit too long":         utf8.RuneCountInString(string(e.KeyUnit)) > 50,
		"calendars too long":        utf8.RuneCountInString(e.Consulted.String()) > 450,
		"zone too long":             utf8.RuneCountInString(e.Zone) > 100,
		"payload not storable":      !json.Valid(e.Payload) || bytes.Contains(e.Payload, []byte(`\u0000`)),
		"pending and not available": pending == e.AvailableAt.IsZero(),
		"leased and not claimed":    pending && e.LeaseToken != uuid.Nil,
		"claimed and not leased":    !pending && e.Status != almanac.Cancelled && e.LeaseToken == uuid.Nil,
		"executed and not done":     (e.Status == almanac.Completed) == e.ExecutedAt.IsZero(),
		"failed without a reason":   e.Status == almanac.Failed && e.FailureReason == "",
		"a reason and not failed":   e.Status != almanac.Failed && e.Status != almanac.Cancelled && e.FailureReason != "",
	} {
		if bad {
			return fmt.Errorf("almanactest: event %s cannot be stored: %s", e.ID, problem)
		}
	}
	return nil
}
