package almanac

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
)

// ScheduleAtOptions says when a single event is due, and what it delivers.
type ScheduleAtOptions struct {
	// At is the wall time. It is required.
	At calendar.WallTime
	// Timezone is the zone whose clocks show At. The zero Timezone means the user's zone
	// at the time of the call. If the call moves an event, it means the zone of that event.
	Timezone calendar.Timezone
	// FollowUser keeps the event at its wall time in the user's zone when the user moves
	// before the event is claimed. The default is false: the instant stays when the user
	// moves. FollowUser cannot be combined with Timezone.
	//
	// If the new instant has passed, the event is due at once. If the policies skip the
	// wall time in the new zone, the edit removes the event and reports that in
	// [UpdateUserResult]. If the policies reject the wall time, the edit is refused.
	FollowUser bool
	// Key names the event, in 1 to 90 bytes. Empty means the wall time in the form
	// 2006-01-02T15:04:05, which allows one event of the type at that time.
	Key string
	// Payload is the JSON value to deliver, at most 64 KiB as [EventHandler].Payload. Nil means the
	// payload that the handler makes from the user and an [Occurrence] with this key.
	Payload json.RawMessage
	// Policies say what happens if clocks skip the wall time or show it twice. The zero
	// Policies mean the defaults: forward and first.
	Policies calendar.Policies
	// Move changes the PENDING event that has the key and was never claimed. The event gets the wall time, the
	// zone, the policies and the payload of the call. It keeps its id, its key and its idempotency key. Move
	// requires a Key. It can change neither FollowUser nor whether the handler makes the payload. If no event has
	// the key, Move has no effect, and the event is stored. The default is false: such an event is not changed.
	Move bool
	// Lane is the lane of the event (see [Lane]), which is in that of its type: "TYPE/name". It stays when the event
	// moves. It cannot be combined with a handler that is a [LaneNamer]. Empty means the lane that the handler names,
	// or else that of the type.
	Lane string
}

// ScheduleAtResult is the event that ScheduleAt stored, moved or found.
type ScheduleAtResult struct {
	Event   Event // as stored
	Existed bool  // whether the event existed before the call
	Moved   bool  // whether the call has changed the event
}

// Check returns a [*ValidationError] that names each invalid option, or nil.
func (o ScheduleAtOptions) Check() error {
	_, err := o.withDefaults()
	return err
}

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
	switch {
	case o.Key == "" && o.Move:
		refuse("key", "is required to move an event")
	case o.Key == "":
		o.Key = o.At.String()
	default:
		refuse("key", tokenProblem(o.Key, maxDetachedKey))
	}
	if o.Payload != nil {
		refuse("payload", payloadProblem(o.Payload))
	}
	bad.Fields = append(bad.Fields, fieldsOf(o.Policies.Check())...)
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
	h, err := s.oneOffHandler(eventType, o)
	if err != nil {
		return ScheduleAtResult{}, err
	}
	zones, err := s.zoneView(ctx)
	if err != nil {
		return ScheduleAtResult{}, err
	}
	series := SeriesOf(Event{Type: eventType, OccurrenceKey: o.Key, Origin: o.origin()})
	named := func(e Event) bool { return SeriesOf(e) == series }
	var open *Event
	stored, err := s.repository.EditUser(ctx, userID, func(r Roster) (Edit, error) {
		open = nil
		all := slices.Concat(r.Pending, r.InFlight)
		if i := slices.IndexFunc(all, named); i >= 0 {
			open = &all[i]
			if !o.moves(*open) {
				return Edit{}, nil
			}
			e, err := s.oneOffAs(s.guard(ctx, r.User.ID), h, r, func() (Event, error) { return o.moved(h, r.User, *open) })
			return Edit{Changed: []Event{zones.stamp(e)}}, err
		}
		if len(r.Used[series]) > 0 {
			return Edit{}, nil
		}
		if unwanted(h, r.User, "") {
			return Edit{}, optedOut(r.User, eventType)
		}
		if len(all) >= maxOpen {
			return Edit{}, &ValidationError{[]FieldError{{Field: "user", Problem: fmt.Sprintf("has %d open events, and no more are scheduled", len(all))}}}
		}
		e, err := s.oneOffAs(s.guard(ctx, r.User.ID), h, r, func() (Event, error) { return o.event(h, r.User) })
		e.ID = stamped(e.ID, ticksOf(r.Now))
		return Edit{New: []Event{zones.stamp(e)}}, err
	})
	switch {
	case err != nil:
		return ScheduleAtResult{}, err
	case len(stored.New) > 0:
		s.notifyEvents(ctx, EventCreated, stored.New)
		s.running.wakeFor(stored.New...)
		return ScheduleAtResult{Event: stored.New[0]}, nil
	case len(stored.Changed) > 0:
		s.notifyEvents(ctx, EventRescheduled, stored.Changed)
		s.running.wakeFor(stored.Changed...)
		return ScheduleAtResult{Event: stored.Changed[0], Existed: true, Moved: true}, nil
	}
	if open == nil {
		if open, err = s.lastEnded(ctx, And{ForUser(userID), OfType(eventType)}, named); err != nil {
			return ScheduleAtResult{}, err
		}
	}
	if open == nil {
		return ScheduleAtResult{}, fmt.Errorf("%w: %s %q of user %s, and it was pruned", ErrExists, eventType, o.Key, userID)
	}
	return ScheduleAtResult{Event: *open, Existed: true}, o.expects(*open)
}

// oneOffHandler returns the handler of a type, unless the options do not go with it.
func (s *scheduler) oneOffHandler(eventType string, o ScheduleAtOptions) (EventHandler, error) {
	h, err := s.registry.Handler(eventType)
	if err != nil || o.Lane == "" {
		return h, err
	}
	problem := laneProblem(o.Lane)
	switch {
	case problem != "":
	case laneNamerOf(h) != nil:
		problem = fmt.Sprintf("does not go with the handler of %s, which names the lanes of its events", eventType)
	case !laneIsIn(o.Lane, eventType):
		problem = fmt.Sprintf("is not in the lane of the type, as %q is", eventType+"/name")
	}
	if problem != "" {
		return nil, &ValidationError{[]FieldError{{Field: "lane", Problem: problem}}}
	}
	return h, nil
}

// oneOffAs returns the event that a function makes, unless the user refuses it.
func (s *scheduler) oneOffAs(g guard, h EventHandler, r Roster, plan func() (Event, error)) (Event, error) {
	e, err := guarded(g, "planning", h.EventType(), plan)
	if err == nil && unwantedThen(h, r.User, e, r.Now) {
		err = optedOut(r.User, h.EventType())
	}
	return e, err
}

// expects returns an error if an event that has the key differs from what the call wants.
func (o ScheduleAtOptions) expects(e Event) error {
	differs := o.differences(e)
	switch {
	case len(differs) == 0:
		return nil
	case o.Move && !e.movable():
		return &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	return fmt.Errorf("%w: %s %q of user %s, with another %s", ErrExists, e.Type, o.Key, e.UserID, strings.Join(differs, ", "))
}

// maxOpen is the number of open events of a user from which on no more are scheduled. An edit of a user
// with twice as many takes less than the default timeout.
const maxOpen = 10000

// lastEnded returns the newest event that matches spec and for which named is true, or nil.
func (s *scheduler) lastEnded(ctx context.Context, spec Spec, named func(Event) bool) (*Event, error) {
	var last *Event
	for page := (Page{Limit: maxPage}); ; {
		found, err := s.repository.Find(ctx, spec, page)
		if err != nil {
			return nil, err
		}
		for i := range found.Items {
			if named(found.Items[i]) {
				last = &found.Items[i]
			}
		}
		if page.After = found.Next; page.After == "" {
			return last, nil
		}
	}
}

// event returns the event for a user.
func (o ScheduleAtOptions) event(h EventHandler, u User) (Event, error) {
	if o.Payload != nil {
		h = withPayload{h, o.Payload}
	}
	e, err := NewEvent(u, h, o.occurrence())
	e.Origin, e.Lane = o.origin(), cmp.Or(o.Lane, e.Lane)
	return e, err
}

func (o ScheduleAtOptions) origin() Origin {
	return Origin{Kind: OriginScheduled, FollowsUser: o.FollowUser, PayloadMade: o.Payload == nil}
}

// moves reports whether the call changes an event that has its key.
func (o ScheduleAtOptions) moves(e Event) bool {
	is := e.Origin
	return o.Move && e.movable() && is.FollowsUser == o.FollowUser && is.PayloadMade == (o.Payload == nil) && len(o.differences(e)) > 0
}

// moved returns an event as the call changes it.
func (o ScheduleAtOptions) moved(h EventHandler, u User, e Event) (Event, error) {
	if o.Payload != nil {
		h = withPayload{h, o.Payload}
	}
	to := o.occurrence()
	if o.Timezone.IsZero() && !o.FollowUser {
		to.Zone = calendar.StoredTimezone(e.Zone)
	}
	next, err := e.Reschedule(u, h, to)
	next.Lane = cmp.Or(o.Lane, next.Lane)
	return next, err
}

func (o ScheduleAtOptions) occurrence() Occurrence {
	return Occurrence{Occurrence: calendar.Occurrence{Key: o.Key, Wall: o.At, Zone: o.Timezone, Policies: o.Policies}}
}

// differences returns the names of the options in which an event differs from o.
func (o ScheduleAtOptions) differences(e Event) (names []string) {
	is := e.Origin
	for name, differs := range map[string]bool{
		"wall time":  e.nominal() != o.At,
		"time zone":  !o.Timezone.IsZero() && !o.Timezone.Equal(calendar.StoredTimezone(e.Zone)) && !o.mayHaveLostZone(e),
		"FollowUser": is.FollowsUser != o.FollowUser,
		"payload":    is.PayloadMade != (o.Payload == nil) || !is.PayloadMade && !sameJSON(e.Payload, o.Payload),
		"lane":       o.Lane != "" && e.Lane != o.Lane,
		"policy":     e.Policies.WithDefaults() != o.Policies.WithDefaults(),
	} {
		if differs {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// mayHaveLostZone reports whether e may have been in the zone of o until RunNow replaced that zone by
// UTC. Then e is not due in UTC at the instant that its idempotency key hashes, or is due at the same
// instant in both.
func (o ScheduleAtOptions) mayHaveLostZone(e Event) bool {
	if (e.Nominal == calendar.WallTime{}) || e.Zone != "UTC" {
		return false
	}
	return !o.keyed(e, calendar.StoredTimezone("UTC")) || o.keyed(e, o.Timezone)
}

// keyed reports whether the idempotency key of e hashes the instant of the wall time in a zone.
func (o ScheduleAtOptions) keyed(e Event, z calendar.Timezone) bool {
	resolved, err := z.Resolve(o.At, o.Policies)
	e.Due = resolved.Instant
	return err == nil && (e.IdempotencyKey == NewIdempotencyKey(e.UserID.String(), e.Due, e.Type) || e.IdempotencyKey == e.LongKey())
}

// withPayload is a handler with a given payload.
type withPayload struct {
	EventHandler
	payload json.RawMessage
}

func (h withPayload) Payload(User, Occurrence) (json.RawMessage, error) {
	return h.payload, nil
}

// oneOff returns a pending one-off or requeued event replanned for the current state of its user.
func (p replanning) oneOff(h EventHandler, e Event) (Event, error) {
	o := e.Occurrence()
	if e.Origin.FollowsUser {
		o.Zone = calendar.Timezone{}
	}
	if !e.Origin.PayloadMade {
		h = withPayload{h, e.Payload}
	}
	return p.again(h, e, o)
}

// TypeOneOff is the default event type of [OneOff].
const TypeOneOff = "ONE_OFF"

// OneOff is the ready-made handler of a type whose events the host schedules, with
// [Planner].ScheduleAt or as a [FollowUp]. OneOff plans no event by itself.
type OneOff struct {
	Execution
	// Type is the event type. Empty means TypeOneOff.
	Type string
	// Via is the channel. Empty means ChannelWebhook.
	Via Channel
}

// EventType returns o.Type, or [TypeOneOff].
func (o OneOff) EventType() string { return cmp.Or(o.Type, TypeOneOff) }

// Next returns an error that matches [calendar.ErrNoOccurrence].
func (o OneOff) Next(User, time.Time) (calendar.Occurrence, error) {
	return calendar.Occurrence{}, fmt.Errorf("%w: the handler of %s plans no event by itself", calendar.ErrNoOccurrence, o.EventType())
}

// Payload returns {"key": …}, for events that are scheduled without a payload.
func (OneOff) Payload(_ User, o Occurrence) (json.RawMessage, error) {
	return json.Marshal(struct {
		Key string `json:"key"`
	}{o.Key})
}

// Channel returns o.Via, or [ChannelWebhook].
func (o OneOff) Channel(Event) Channel { return cmp.Or(o.Via, ChannelWebhook) }

// detached adds a pending detached event, updated for its user, to an edit.
func (p replanning) detached(h EventHandler, e Event, edit *Edit) error {
	if !e.Origin.Forced && unwantedThen(h, p.is, e, p.Now) {
		return edit.drop(e, ReasonOptedOut)
	}
	next, err := guarded(p.guard, "replanning", e.Type, func() (Event, error) {
		if e.Origin.Kind == OriginFollowUp {
			return p.followUp(h, e)
		}
		return p.oneOff(h, e)
	})
	switch {
	case errors.Is(err, calendar.ErrSkippedWallTime):
		return edit.drop(e, err.Error())
	case err != nil:
		return err
	case !next.sameTarget(e):
		edit.Changed = append(edit.Changed, next)
	}
	return nil
}

// followUp returns a pending follow-up, updated for its user: at the same wall time, and
// in the user's new zone if it was in the old one.
func (p replanning) followUp(h EventHandler, e Event) (Event, error) {
	o := e.kept()
	if e.Zone == p.User.Timezone.String() {
		o.Zone = calendar.Timezone{}
	}
	return p.again(h, e, o)
}

// again replans an event for its present wall time. If its zone and policies stay, its
// instant stays too, because it may follow newer rules than those of this program. If
// this program's rules are newer, [Scheduler].Reconcile moves the event.
func (p replanning) again(h EventHandler, e Event, o Occurrence) (Event, error) {
	o.in(&p.is)
	if !o.Zone.Equal(calendar.StoredTimezone(e.Zone)) || o.Policies.WithDefaults() != e.Policies.WithDefaults() {
		next, err := e.Reschedule(p.is, h, o)
		return p.zones.stamp(next), err
	}
	if _, err := o.Resolve(); err != nil && !p.zones.differs(e.Zone) {
		return e, err
	}
	return e.keep(p.is, h, o)
}
