package almanac

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/isolate"
	"github.com/almanac-go/almanac/internal/jsonb"
	"github.com/almanac-go/almanac/internal/slots"
)

// Cancel returns e as CANCELLED, for the given reason, which may be empty and is cut to 1,000 bytes. It
// counts neither as a claim nor as an attempt. The error is an [*InvalidStateTransitionError] unless e
// is PENDING, or PROCESSING and cancelled by the worker that holds it (see [NotOwed]).
func (e Event) Cancel(reason string) (Event, error) {
	next := e
	if err := next.become(Cancelled); err != nil {
		return e, err
	}
	next.AvailableAt, next.FailureReason = time.Time{}, storable(reason)
	return next, nil
}

// RunNow returns e as due at now. If e is delayed before another attempt and its instant has passed,
// RunNow returns e as available at now. The instant becomes the start of the present second, because a
// wall time has whole seconds. Identity, Nominal, payload and idempotency key stay. RunNow returns an
// event that is available already unchanged. The error is an [*InvalidStateTransitionError] unless e is
// PENDING, or if e was claimed before and its [Event.FirstAvailable] has not passed.
func (e Event) RunNow(now time.Time) (Event, error) {
	if e.Status != Pending {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	now = now.UTC()
	if !e.AvailableAt.After(now) {
		return e, nil
	}
	next := e
	next.AvailableAt = now
	if e.ClaimCount == 0 {
		next.Due = now.Truncate(time.Second)
		next.AvailableAt, next.ReadyAt, next.Consulted = next.Due, time.Time{}, calendar.Consulted{}
		next.Wall, next.Nominal = calendar.StoredTimezone(e.Zone).WallTime(next.Due), e.nominal()
	} else if now.Before(e.FirstAvailable()) {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending} // an event that was ever claimed keeps its instant
	}
	next.Version++
	return next, nil
}

// Requeue returns a new event that repeats e. It has the series name, the occurrence key, the
// idempotency key, the payload and the instant of e. So a receiver that accepted e after all recognizes
// the repeat. Its Origin has the id of e. The new event is PENDING at version 1, and available from now
// on, but not before its instant. It is detached: it has no successor. The error is an
// [*InvalidStateTransitionError] unless e is FAILED or CANCELLED.
//
// If e was never claimed and its [Event.FirstAvailable] has not passed, the repeat was never claimed
// either. It is like an event of [Planner].ScheduleAt: [Operator].RunNow can make it due, and it follows its
// user if its Origin says so. Any other repeat counts as claimed and keeps its instant.
func (e Event) Requeue(id uuid.UUID, now time.Time) (Event, error) {
	if e.Status != Failed && e.Status != Cancelled {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	again := Event{
		ID: id, UserID: e.UserID, Type: e.Type, Series: e.Series, Lane: e.Lane, OccurrenceKey: e.OccurrenceKey, KeyUnit: e.KeyUnit, Status: Pending, Due: e.Due,
		Origin: Origin{Kind: OriginRequeued, From: e.ID},
		Wall:   e.Wall, Nominal: e.Nominal, Zone: e.Zone, Policies: e.Policies, IdempotencyKey: e.IdempotencyKey, Payload: e.Payload, UserVersion: e.UserVersion,
		AvailableAt: later(now, e.Due).UTC(), ClaimCount: max(e.ClaimCount, 1), Version: 1,
	}
	if first := later(e.Due, e.ReadyAt); e.ClaimCount == 0 && !first.Before(now) {
		again.ClaimCount, again.ReadyAt, again.AvailableAt = 0, e.ReadyAt, first
		again.Origin.FollowsUser = e.Origin.FollowsUser
		again.Origin.PayloadMade = e.Origin.PayloadMade || e.Origin.Kind == OriginPlanned || e.Origin.Kind == OriginFollowUp
	}
	if e.Status == Failed {
		again.LastError = e.FailureReason
	}
	return again, nil
}

// requeuedFor returns a requeued event that was never claimed as its user is now. was is the origin of the event that it repeats.
func (s *scheduler) requeuedFor(ctx context.Context, r Roster, e Event, was OriginKind, zones *zoneView) (Event, error) {
	here := e.Zone == r.User.Timezone.String()
	if was == OriginPlanned || was == OriginFollowUp {
		e.Origin.FollowsUser = here
	}
	if here || !e.Origin.FollowsUser {
		return e, nil
	}
	p := replanning{Roster: r, is: r.User, zones: zones}
	h, err := s.registry.Handler(e.Type)
	if err != nil { // another program has it
		return p.movedWithout(e)
	}
	next, err := guarded(s.guard(ctx, r.User.ID), "replanning", e.Type, func() (Event, error) { return p.oneOff(h, e) })
	next.Version, next.AvailableAt = e.Version, later(next.AvailableAt, r.Now)
	return next, err
}

// movedWithout returns a requeued event at its wall time in the user's zone, without its handler: its payload, and how far it is spread, stay.
func (p replanning) movedWithout(e Event) (Event, error) {
	next, err := p.oneOff(withPayload{OneOff{Type: e.Type}, e.Payload}, e)
	if by := e.ReadyAt.Sub(e.Due); by > 0 {
		next.ReadyAt = next.Due.Add(by)
	}
	next.Version, next.AvailableAt = e.Version, later(next.FirstAvailable(), p.Now)
	return next, err
}

// requeuing requeues events of many users.
type requeuing struct {
	*scheduler
	ctx     context.Context
	zones   *zoneView
	failed  map[uuid.UUID]error // of handlers, by the event that was made without
	blocked bool                // whether a handler did not return, and is not called again
}

// repeat returns a new event that repeats another one for its user as that is now. The error matches [calendar.ErrSkippedWallTime] if the user is
// where the wall time does not exist, and policies reject that.
func (p *requeuing) repeat(e Event, r Roster) (Event, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return e, fmt.Errorf("almanac: new event id: %w", err)
	}
	slots.Name((*[16]byte)(&id), e.UserID)
	next, err := e.Requeue(stamped(id, ticksOf(r.Now)), r.Now)
	if err != nil || next.ClaimCount > 0 {
		return next, err
	}
	if !p.blocked {
		moved, err := p.requeuedFor(p.ctx, r, next, e.Origin.Kind, p.zones)
		if err == nil || errors.Is(err, calendar.ErrSkippedWallTime) {
			return moved, err
		}
		p.failed[next.ID], p.blocked = err, errors.Is(err, isolate.ErrBlocked)
	}
	if !next.Origin.FollowsUser || next.Zone == r.User.Timezone.String() {
		return next, nil
	}
	moved, err := replanning{Roster: r, is: r.User, zones: p.zones}.movedWithout(next)
	if err != nil && !errors.Is(err, calendar.ErrSkippedWallTime) {
		return next, nil
	}
	return moved, err
}

// drop removes a pending detached event. A requeued event is cancelled instead: an event is requeued only once, so the
// repeat must not vanish.
func (wanted *Edit) drop(e Event, reason string) error {
	if e.Origin.Kind != OriginRequeued {
		wanted.Removed = append(wanted.Removed, e)
		return nil
	}
	done, err := e.Cancel(reason)
	wanted.Changed = append(wanted.Changed, done)
	return err
}

// requeuedBefore returns the error for an event that was requeued before. It names the event that
// repeats it, if that event is open or among the newest of the user and the type.
func (s *scheduler) requeuedBefore(ctx context.Context, e Event, r Roster) error {
	repeats := func(one Event) bool { return one.Origin.Kind == OriginRequeued && one.Origin.From == e.ID }
	again := slices.Concat(r.Pending, r.InFlight)
	if !slices.ContainsFunc(again, repeats) {
		found, err := s.repository.Find(ctx, And{ForUser(e.UserID), OfType(e.Type)}, Page{Limit: maxPage, Order: NewestFirst})
		if err != nil {
			return err
		}
		again = found.Items
	}
	if i := slices.IndexFunc(again, repeats); i >= 0 {
		return fmt.Errorf("%w: event %s was requeued before, as event %s", ErrExists, e.ID, again[i].ID)
	}
	return fmt.Errorf("%w: event %s was requeued before", ErrExists, e.ID)
}

// Check checks an edit of the roster. Every [Repository] must call it before it stores the
// edit. The error is an [*OptimisticLockError] if a changed or removed event is not a
// PENDING event of the roster, or has another version. It is also an OptimisticLockError if
// an event to remove was claimed before. It is an [*InvalidStateTransitionError] if an event
// would become anything but PENDING or CANCELLED. Other errors are those of [CheckChange].
func (r Roster) Check(wanted Edit) error {
	open := r.byID()
	for _, to := range wanted.Changed {
		from := open[to.ID]
		if from == nil || from.Status != Pending || from.Version != to.Version-1 {
			return &OptimisticLockError{EventID: to.ID, Expected: to.Version - 1}
		}
		if to.Status != Pending && to.Status != Cancelled {
			return &InvalidStateTransitionError{to.ID, from.Status, to.Status}
		}
		if err := CheckChange(*from, to); err != nil {
			return err
		}
	}
	for _, e := range wanted.Removed {
		if from := open[e.ID]; from == nil || from.Status != Pending || from.Version != e.Version || from.ClaimCount > 0 {
			return &OptimisticLockError{EventID: e.ID, Expected: e.Version}
		}
	}
	return nil
}

// byID returns the open events of a roster by id. A user may have thousands, so no list is
// searched for each event.
func (r Roster) byID() map[uuid.UUID]*Event {
	all := make(map[uuid.UUID]*Event, len(r.Pending)+len(r.InFlight))
	for _, events := range [][]Event{r.Pending, r.InFlight} {
		for i := range events {
			all[events[i].ID] = &events[i]
		}
	}
	return all
}

// edited returns a roster after an edit that replans all types.
func (r Roster) edited(edit Edit) Roster {
	after := r.byID()
	for _, e := range edit.Removed {
		delete(after, e.ID)
	}
	for _, e := range slices.Concat(edit.Changed, edit.New) {
		after[e.ID] = &e
	}
	r.Pending, r.InFlight, r.Stalled = nil, nil, nil // a series without an open event was planned
	for _, e := range after {
		if !e.Status.Terminal() {
			r.Pending = append(r.Pending, *e)
		}
	}
	return r
}

// maxPrincipal is how many bytes of a principal are kept.
const maxPrincipal = 200

// principal is the key of a principal in a context.
type principal struct{}

// WithPrincipal returns a context for changes that a person asks for, such as an operator. Package
// postgres writes the name into the audit trail, with every step that a call with the context makes
// (see ops.AuditStep). The name is what the program says. The database does not check it.
//
// At most 200 bytes of the name are kept. NUL, and bytes that are no valid UTF-8, are replaced by
// U+FFFD. The default is no principal. An empty name means none, also if ctx has a principal.
func WithPrincipal(ctx context.Context, name string) context.Context {
	name = storableText(name)
	if cut := maxPrincipal; len(name) > cut {
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut]
	}
	return context.WithValue(ctx, principal{}, name)
}

// Principal returns the name that [WithPrincipal] stored in ctx, or "" if there is none.
func Principal(ctx context.Context) string {
	name, _ := ctx.Value(principal{}).(string)
	return name
}

// CheckChange checks a change of a stored event. Every [Repository] must call it. The status must
// take an allowed step, or stay PENDING. The identity of the event never changes, and its instant
// and payload stay from the first claim on. In a change from PENDING to PENDING, the counters
// cannot change, and of an event that was ever claimed only AvailableAt can.
func CheckChange(from, to Event) error {
	stays := from.Status == Pending && to.Status == Pending && from.ClaimCount == to.ClaimCount
	rescheduled := stays && from.ClaimCount == 0
	if !rescheduled && !(stays && from.sameTarget(to)) && !from.Status.CanBecome(to.Status) {
		return &InvalidStateTransitionError{from.ID, from.Status, to.Status}
	}
	if from.ID != to.ID || from.UserID != to.UserID || from.Type != to.Type || from.IdempotencyKey != to.IdempotencyKey ||
		from.Series != to.Series || from.OccurrenceKey != to.OccurrenceKey || from.KeyUnit != to.KeyUnit || from.Origin != to.Origin {
		return errIdentityChanged
	}
	if !rescheduled && !from.sameTarget(to) {
		return errTargetChanged
	}
	if to.ClaimCount < from.ClaimCount || to.RetryCount < from.RetryCount || to.CrashCount < from.CrashCount {
		return errCounterFell
	}
	return nil
}

// sameTarget reports whether two states of an event have the same instant and payload.
func (e Event) sameTarget(other Event) bool {
	return e.Due.Equal(other.Due) && e.Wall == other.Wall && e.Nominal == other.Nominal && e.Zone == other.Zone && e.Lane == other.Lane &&
		e.Policies.WithDefaults() == other.Policies.WithDefaults() && sameJSON(e.Payload, other.Payload)
}

// sameJSON compares values instead of texts, because a database that stores JSON as jsonb
// changes blanks, order and the notation of numbers.
func sameJSON(a, b json.RawMessage) bool { return bytes.Equal(a, b) || jsonb.Equal(a, b) }

var (
	errIdentityChanged = errors.New("almanac: an event keeps its id, user, type, series, occurrence key, origin and idempotency key")
	errCounterFell     = errors.New("almanac: an event's counters never fall")
	errTargetChanged   = errors.New("almanac: an event keeps its instant and its payload once it was claimed")
)
