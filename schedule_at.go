package almanac

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// OneOffPlanner plans single events that belong to no series.
type OneOffPlanner interface {
	// ScheduleAt stores one event of a type for a user, due when clocks show a wall time.
	// Nothing follows it, unless its handler is a [Follower]. An instant that has passed
	// is due at once. On a scheduler that is bound to the host's transaction, the event
	// is part of that transaction.
	//
	// The key names the event among those of the user and the type for ever. A call with
	// the options of an earlier call returns the stored event, whatever its status, and
	// changes nothing. Concurrent calls store one event. To move an event or to change
	// its payload, cancel it and schedule another event with another key.
	//
	// Later edits of the user leave wall time and policies as they are. An event follows
	// the user to another zone only with FollowUser. A payload that was given stays; a
	// payload that the handler made is made anew. New zone rules move the event like any
	// other. Deleting the user deletes the event.
	//
	// Options out of their bounds are a [*ValidationError] that names each option. A type
	// without a handler is an [*UnsupportedEventTypeError], and a user that does not
	// exist is a [*NotFoundError]. A wall time that the policies refuse or skip is a
	// [*WallTimeError]. The error matches [ErrExists] when the key names an event with
	// other options; the result then has that event. It also matches ErrExists when the
	// event was pruned. An event that was run now has another wall time.
	ScheduleAt(ctx context.Context, userID uuid.UUID, eventType string, o ScheduleAtOptions) (ScheduleAtResult, error)
}

// ScheduleAtOptions says when a single event is due, and what it delivers.
type ScheduleAtOptions struct {
	// At is the wall time. It is required.
	At WallTime
	// Timezone is the zone whose clocks show At. The zero Timezone means the user's zone
	// at the time of the call.
	Timezone Timezone
	// FollowUser keeps the event at its wall time in the user's zone when the user moves
	// before the event is claimed. If the new instant has passed, the event is due at once. If
	// the policies skip the wall time in the new zone, the event is removed, as
	// [Rescheduled] reports; if they refuse the wall time, the edit is refused too. By
	// default a move leaves the instant as it is. FollowUser cannot be combined with
	// Timezone.
	FollowUser bool
	// Key names the event, 1 to 90 bytes without a slash, not beginning with a tilde.
	// Empty means the wall time in the form 2006-01-02T15:04:05, so there is one event of
	// the type at that time.
	Key string
	// Payload is the JSON value to deliver, at most 64 KiB. Nil means what the handler
	// makes of the user and an [Occurrence] with this key.
	Payload json.RawMessage
	// Policies say what becomes of a wall time that clocks skip or show twice. The zero
	// Policies are the defaults: forward, first.
	Policies Policies
}

// ScheduleAtResult is the event that ScheduleAt stored or found.
type ScheduleAtResult struct {
	Event   Event // as stored
	Existed bool  // whether the event existed before the call
}

const maxOneOffKey = 90

func (o ScheduleAtOptions) withDefaults() (ScheduleAtOptions, error) {
	var bad ValidationError
	refuse := func(field, problem string) {
		if problem != "" {
			bad.Fields = append(bad.Fields, FieldError{Field: field, Problem: problem})
		}
	}
	if !o.At.Valid() {
		refuse("at", fmt.Sprintf("is %s, which no calendar holds", o.At))
	}
	if o.FollowUser && !o.Timezone.IsZero() {
		refuse("timezone", "does not go with following the user")
	}
	if o.Key == "" {
		o.Key = o.At.String()
	} else {
		refuse("key", seriesProblem(o.Key, maxOneOffKey))
	}
	if o.Payload != nil {
		refuse("payload", payloadProblem(o.Payload))
	}
	bad.Fields = append(bad.Fields, o.Policies.problems()...)
	if len(bad.Fields) > 0 {
		return o, &bad
	}
	return o, nil
}

func (s *scheduler) ScheduleAt(ctx context.Context, userID uuid.UUID, eventType string, o ScheduleAtOptions) (ScheduleAtResult, error) {
	o, err := o.withDefaults()
	if err != nil {
		return ScheduleAtResult{}, err
	}
	h, err := s.registry.Handler(eventType)
	if err != nil {
		return ScheduleAtResult{}, err
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return ScheduleAtResult{}, err
	}
	named := func(e Event) bool { return e.Type == eventType && seriesName(e.OccurrenceKey) == o.series() }
	var open *Event
	stored, err := s.repository.EditUser(ctx, userID, func(r Roster) (Edit, error) {
		open = nil
		all := slices.Concat(r.Pending, r.InFlight)
		if i := slices.IndexFunc(all, named); i >= 0 {
			open = &all[i]
			return Edit{}, nil
		}
		if slices.ContainsFunc(r.Used[eventType], func(key string) bool { return seriesName(key) == o.series() }) {
			return Edit{}, nil
		}
		e, err := guarded("planning "+eventType, func() (Event, error) { return o.plan(h, r.User) })
		if err != nil {
			return Edit{}, err
		}
		e.ID = stamped(e.ID, ticksOf(r.Now))
		e = zones.stamp(e)
		// The second event is never stored, because the first one opens the series. It
		// has the least possible key. With that key the roster says whether the name is
		// used up, whatever the options were.
		least := e
		least.OccurrenceKey = o.series() + "/"
		return Edit{Added: []Event{e, least}}, nil
	})
	switch {
	case err != nil:
		return ScheduleAtResult{}, err
	case len(stored.Added) > 0:
		s.tellEvents(ctx, EventCreated, stored.Added)
		s.running.wakeFor(stored.Added...)
		return ScheduleAtResult{Event: stored.Added[0]}, nil
	}
	if open == nil {
		if open, err = s.lastEnded(ctx, And{ForUser(userID), OfType(eventType)}, named); err != nil {
			return ScheduleAtResult{}, err
		}
	}
	if open == nil {
		return ScheduleAtResult{}, fmt.Errorf("%w: %s %q of user %s, and it was pruned", ErrExists, eventType, o.Key, userID)
	}
	result := ScheduleAtResult{Event: *open, Existed: true}
	if differs := o.differences(*open); len(differs) > 0 {
		return result, fmt.Errorf("%w: %s %q of user %s, with another %s", ErrExists, eventType, o.Key, userID, strings.Join(differs, ", "))
	}
	return result, nil
}

// lastEnded returns the newest event that matches spec and for which named is true, or
// nil.
func (s *scheduler) lastEnded(ctx context.Context, spec Spec, named func(Event) bool) (*Event, error) {
	var last *Event
	for page := (Page{Limit: maxPage}); ; {
		found, err := s.repository.Find(ctx, spec, page)
		if err != nil {
			return nil, err
		}
		for i := range found.Events {
			if named(found.Events[i]) {
				last = &found.Events[i]
			}
		}
		if page.After = found.Next; page.After == "" {
			return last, nil
		}
	}
}

// plan plans the event for a user.
func (o ScheduleAtOptions) plan(h EventHandler, u User) (Event, error) {
	if o.Payload != nil {
		h = withPayload{h, o.Payload}
	}
	e, err := NewEvent(u, h, Occurrence{Key: o.Key, Wall: o.At, Zone: o.Timezone, Policies: o.Policies})
	e.OccurrenceKey = oneOff{name: o.Key, follows: o.FollowUser, made: o.Payload == nil}.key()
	return e, err
}

// series returns the name under which the event is stored.
func (o ScheduleAtOptions) series() string { return oneOffName + o.Key }

// differences names the options in which an event differs from o.
func (o ScheduleAtOptions) differences(e Event) (names []string) {
	is := oneOffOf(e.OccurrenceKey)
	for name, differs := range map[string]bool{
		"wall time":  e.Wall != o.At,
		"time zone":  !o.Timezone.IsZero() && !o.Timezone.Equal(StoredTimezone(e.Zone)),
		"FollowUser": is.follows != o.FollowUser,
		"payload":    is.made != (o.Payload == nil) || !is.made && !sameJSON(e.Payload, o.Payload),
		"policy":     e.Policies.WithDefaults() != o.Policies.WithDefaults(),
	} {
		if differs {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// withPayload is a handler whose payload was given.
type withPayload struct {
	EventHandler
	payload json.RawMessage
}

func (h withPayload) Payload(User, Occurrence) (json.RawMessage, error) { return h.payload, nil }

// oneOff returns a pending one-off event replanned for the current state of its user, and
// whether anything about the event changed.
func (p replanning) oneOff(h EventHandler, e Event) (again Event, changed bool, err error) {
	is := oneOffOf(e.OccurrenceKey)
	o := Occurrence{Key: is.name, Wall: e.Wall, Policies: e.Policies}
	if !is.follows {
		o.Zone = StoredTimezone(e.Zone)
	}
	if !is.made {
		h = withPayload{h, e.Payload}
	}
	again, err = p.again(h, e, o)
	again.OccurrenceKey = e.OccurrenceKey
	return again, is.made || again.Zone != e.Zone, err
}

// TypeOneOff is the event type of [OneOff] unless it says otherwise.
const TypeOneOff = "ONE_OFF"

// OneOff is the ready-made handler of a type whose events are all scheduled by the host:
// with [OneOffPlanner], or as a [FollowUp]. OneOff plans no event by itself.
type OneOff struct {
	Execution
	// Type is the event type. Empty means TypeOneOff.
	Type string
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// EventType returns o.Type, or [TypeOneOff].
func (o OneOff) EventType() string { return orElse(o.Type, TypeOneOff) }

// Next returns an error that matches [ErrNoOccurrence].
func (o OneOff) Next(u User, _ time.Time) (Occurrence, error) {
	return Occurrence{}, fmt.Errorf("%w: user %s is owed no %s by itself", ErrNoOccurrence, u.ID, o.EventType())
}

// Payload returns {"key": …}, for events that are scheduled without a payload.
func (OneOff) Payload(_ User, o Occurrence) (json.RawMessage, error) {
	return json.Marshal(struct {
		Key string `json:"key"`
	}{o.Key})
}

// Channel returns o.Via, or [ChannelWebhook].
func (o OneOff) Channel(Event) Channel { return orElse(o.Via, ChannelWebhook) }
