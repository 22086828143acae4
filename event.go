package almanac

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/jsonb"
	"github.com/almanac-go/almanac/internal/slots"
)

// Status is the state of an event.
//
//	PENDING ──claim──▶ PROCESSING ──complete──▶ COMPLETED
//	   │  ▲                │  └─────fail──────▶ FAILED
//	   │  └────release─────┤
//	   └──cancel──▶ CANCELLED ◀─cancel
type Status string

// The statuses, as the database stores them. Completed, Failed and Cancelled are
// terminal: an event with such a status never changes again. The series goes on after each
// of them, so a receiver's 404 does not end a user's birthdays. An event that is to be tried
// again returns to Pending: its row is the only place where it can wait.
//
// Cancelled is a status of its own, not a Failed with a reserved reason: receivers write
// reasons too, and a requeue of failures must leave out what operators have cancelled.
const (
	Pending    Status = "PENDING"    // waits for its instant, or for another attempt
	Processing Status = "PROCESSING" // claimed: a worker holds a lease on it
	Completed  Status = "COMPLETED"  // delivered
	Failed     Status = "FAILED"     // given up
	Cancelled  Status = "CANCELLED"  // ended before it was delivered, because it is not wanted; not a failure
)

// Terminal reports whether an event with status s never changes again.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// CanBecome reports whether an event may change from status s to the status to.
func (s Status) CanBecome(to Status) bool {
	switch s {
	case Pending:
		return to == Processing || to == Cancelled
	case Processing:
		return to == Completed || to == Failed || to == Cancelled || to == Pending
	}
	return false
}

// Event is a stored occurrence of a user. Events are values: each transition returns a
// new Event with its version raised by one, and leaves the receiver unchanged. So if the
// new Event cannot be stored, the caller still has the stored one.
//
// As JSON, an event leaves out the fields that few events have, while they are zero.
type Event struct {
	ID            uuid.UUID // UUIDv7: ids ascend in order of creation; see EventRepository.Find
	UserID        uuid.UUID
	Type          string        // such as "BIRTHDAY"; the key of the handler
	Series        string        `json:",omitzero"` // the name that the handler gave the series; "" for the only series of a handler
	Lane          string        `json:",omitzero"` // the name of its lane, as the handler gave it; "" for the lane of its type; see LaneNamer
	OccurrenceKey string        // set by the handler or by the host; see Occurrence.Key
	KeyUnit       calendar.Unit // what OccurrenceKey names; see calendar.Occurrence.Unit
	Origin        Origin        `json:",omitzero"` // how the event was created; zero if its handler planned it
	Status        Status
	Due           time.Time         // the instant, UTC; target_timestamp_utc in SQL
	Wall          calendar.WallTime // the instant as clocks in Zone show it
	// Nominal is the wall time of the occurrence before a wrapper of its rule or
	// [Operator].RunNow moved it. The zero WallTime means that it is Wall.
	Nominal  calendar.WallTime `json:",omitzero"`
	Zone     string            // the IANA name of the zone in which Due was resolved
	Policies calendar.Policies // the policies by which Due was resolved
	// Consulted says which calendars the rule looked up, and for which days. It is kept until the first claim
	// of the event or [Operator].RunNow, and is zero from then on. It is always zero for a follow-up.
	Consulted      calendar.Consulted `json:",omitzero"`
	IdempotencyKey IdempotencyKey
	Payload        json.RawMessage // the JSON value to deliver; frozen by the first claim
	UserVersion    int             // the version of the user from which the event was planned

	// PlannedBy has the zone rules by which Due was resolved, if they may differ from the rules that the
	// repository follows. The repository marks the zone in the transaction that stores the event (see
	// [ZoneBook]), and does not store PlannedBy. It is nil in every event that a repository returns.
	PlannedBy *calendar.ZoneRules `json:"-"`

	// UsedBefore has the used keys of the series in an event that a claim returned, if some
	// have another unit than KeyUnit. They stay the same until the event ends. Otherwise it
	// is nil, as in every event that another call returned. Repositories do not store it.
	UsedBefore UsedKeys `json:",omitempty"`

	// Unplanned is true for a CANCELLED event of an [Edit] whose series stalls until
	// a program with a handler for the type plans the successor; see [StalledSeries]. It is false in
	// every event that a repository returns.
	Unplanned bool `json:"-"`

	ReadyAt       time.Time `json:",omitzero"` // when it can first be claimed, UTC, if later than Due: its type has a Spread, or it was moved to an instant in the past; otherwise zero
	AvailableAt   time.Time // while PENDING, the earliest time of a claim, UTC: FirstAvailable, or later after a release
	LeaseToken    uuid.UUID `json:",omitzero"` // the token of the claim that holds or ended the event; zero when cancelled while PENDING
	ExecutedAt    time.Time `json:",omitzero"` // when it was delivered, UTC; zero until COMPLETED
	FailureReason string    `json:",omitzero"` // why the event is FAILED, or was CANCELLED, which may be ""; otherwise ""
	LastError     string    `json:",omitzero"` // why the last attempt failed or was released; "" if none was
	RetryCount    int       `json:",omitzero"` // attempts that failed
	ClaimCount    int       `json:",omitzero"` // how many times the event was claimed; an event that was ever claimed keeps its instant
	CrashCount    int       `json:",omitzero"` // how many times its worker died

	Version   int // 1 when created; raised by every change
	CreatedAt time.Time
	UpdatedAt time.Time
}

const (
	maxEventType     = 50
	maxOccurrenceKey = 100
	maxKeyUnit       = 50
	maxReasonBytes   = 1000
	maxCalendars     = 400 // bytes, of the names and releases that an event has consulted
)

// Occurrence returns the occurrence from which e was planned, without the reasons of its
// wall time. Its Wall is that of e, also after [Operator].RunNow.
func (e Event) Occurrence() Occurrence {
	return Occurrence{Series: e.Series, Occurrence: calendar.Occurrence{
		Key: e.OccurrenceKey, Unit: e.KeyUnit, Nominal: e.Nominal, Wall: e.Wall, Zone: calendar.StoredTimezone(e.Zone), Policies: e.Policies,
		Consulted: e.Consulted,
	}}
}

// NewEvent plans the event of one occurrence for a user. It resolves the wall time,
// unless [calendar.Next] has resolved it, asks the handler for the payload, and derives
// the idempotency key. The event is PENDING, at version 1, and not stored.
//
// The error is a [*ValidationError] if a key, a type or a payload is out of its bounds.
// Other errors are those of [calendar.Timezone.Resolve] and of the handler.
func NewEvent(u User, h EventHandler, o Occurrence) (Event, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Event{}, fmt.Errorf("almanac: new event id: %w", err)
	}
	e := Event{ID: id}
	if err := e.makeFor(&u, h, &o); err != nil {
		return Event{}, err
	}
	return e, nil
}

// makeFor makes e the event of an occurrence. e has an id, and may have the payload of the event before it.
// The id then names the slot of the user: see docs/adr/0084-shards.md.
func (e *Event) makeFor(u *User, h EventHandler, o *Occurrence) error {
	slots.Name((*[16]byte)(&e.ID), u.ID)
	e.UserID, e.Type, e.Status, e.Version = u.ID, h.EventType(), Pending, 1
	if err := e.plan(u, h, o); err != nil {
		return err
	}
	e.IdempotencyKey = hashKey(16, appendID(make([]byte, 0, keyText), u.ID), e.Due, e.Type)
	return nil
}

// plan sets the fields that follow from the user and the occurrence, Due included. It may change o.
func (e *Event) plan(u *User, h EventHandler, o *Occurrence) error {
	o.in(u)
	r, err := o.Resolve()
	if fields := fieldsOf(err); len(fields) > 0 {
		return &ValidationError{fields}
	}
	if err != nil {
		return err
	}
	e.Due, e.PlannedBy = r.Instant, nil
	return e.planAt(u, h, o)
}

// planAt sets the fields that follow from the user and the occurrence, except Due.
func (e *Event) planAt(u *User, h EventHandler, o *Occurrence) error {
	payload, err := h.Payload(*u, *o)
	if err != nil {
		return fmt.Errorf("almanac: payload of %s for user %s: %w", e.Type, u.ID, err)
	}
	e.Series, e.OccurrenceKey, e.KeyUnit, e.Consulted = o.Series, o.Key, o.Unit, o.Consulted
	e.Wall, e.Zone, e.Policies = o.Wall, o.Zone.String(), o.Policies.WithDefaults()
	e.Nominal = calendar.WallTime{}
	if nominal := nominalOf(o.Occurrence); nominal != e.Wall {
		e.Nominal = nominal
	}
	if namer := laneNamerOf(h); namer != nil {
		e.Lane = laneOf(h, *u, *o)
	} else if e.Origin.Kind != OriginScheduled && e.Origin.Kind != OriginRequeued || !laneIsIn(e.Lane, e.Type) { // ScheduleAtOptions has named those
		e.Lane = ""
	}
	e.ReadyAt = e.spreadStart(spreadOver(o.Occurrence, givenExecution(h).Spread))
	e.AvailableAt = firstAvailable(e)
	stays := len(payload) > 0 && (bytes.Equal(payload, e.Payload) || jsonb.Respelled(payload, e.Payload))
	if !stays {
		e.Payload = payload
	}
	e.UserVersion = u.Version
	return e.check(stays)
}

// spreadOver returns the part of a window in which an occurrence is spread: its start does not leave the
// interval of the calendar.Window in which the occurrence is.
func spreadOver(o calendar.Occurrence, window time.Duration) time.Duration {
	if window == 0 {
		return 0
	}
	if left, ok := o.OpenFor(); ok {
		return min(window, left)
	}
	return window
}

// spreadStart returns the ReadyAt of an event whose type is spread over a window.
func (e *Event) spreadStart(window time.Duration) time.Time {
	if window == 0 {
		return time.Time{}
	}
	if by := SeriesOf(*e).Spread(e.UserID, window); by > 0 {
		return e.Due.Add(by)
	}
	return time.Time{}
}

// check returns an error for a value that cannot be stored, so that a transaction does
// not fail later. A payload that stays as it was stored is not checked.
func (e *Event) check(payloadStays bool) error {
	var bad []FieldError
	refuse := func(field, problem string) {
		if problem != "" {
			bad = append(bad, FieldError{Field: field, Problem: problem})
		}
	}
	refuse("event type", tokenProblem(e.Type, maxEventType))
	if e.Series != "" {
		refuse("series", tokenProblem(e.Series, maxSeriesName))
	}
	refuse("occurrence key", tokenProblem(e.OccurrenceKey, maxOccurrenceKey))
	if e.Lane != "" {
		refuse("lane", laneProblem(e.Lane))
	}
	if e.KeyUnit != calendar.UnitText {
		refuse("key unit", tokenProblem(string(e.KeyUnit), maxKeyUnit))
	}
	if len(e.Consulted.Calendars) > maxCalendars {
		refuse("calendars", fmt.Sprintf("are more than have room in %d bytes", maxCalendars))
	}
	if !payloadStays {
		refuse("payload", payloadProblem(e.Payload))
	}
	if len(bad) > 0 {
		return &ValidationError{bad}
	}
	return nil
}

// Claim returns e as claimed under the lease token. The error is an
// [*InvalidStateTransitionError] unless e is PENDING.
func (e Event) Claim(token uuid.UUID) (Event, error) {
	next := e
	if err := next.become(Processing); err != nil {
		return e, err
	}
	next.LeaseToken, next.AvailableAt = token, time.Time{}
	next.ClaimCount++
	return next, nil
}

// Complete returns e as delivered at the given instant. The error is an
// [*InvalidStateTransitionError] unless e is PROCESSING.
func (e Event) Complete(at time.Time) (Event, error) {
	if err := e.become(Completed); err != nil {
		return e, err
	}
	e.ExecutedAt = at.UTC()
	return e, nil
}

// Fail returns e as FAILED for the given reason, which is cut to 1,000 bytes. The attempt
// counts as failed. The error is an [*InvalidStateTransitionError] unless e is PROCESSING.
func (e Event) Fail(reason string) (Event, error) {
	next := e
	if err := next.become(Failed); err != nil {
		return e, err
	}
	if reason == "" {
		reason = "unknown" // FAILED without a reason would look like a defect of the library
	}
	next.FailureReason = storable(reason)
	next.RetryCount++
	return next, nil
}

// ReleaseCause says why an event returns to PENDING.
type ReleaseCause string

// The causes of a release.
const (
	AfterFailure  ReleaseCause = "failure"  // an attempt failed and will be repeated: counted in RetryCount
	AfterCrash    ReleaseCause = "crash"    // the lease expired, so the worker counts as dead: counted in CrashCount
	AfterShutdown ReleaseCause = "shutdown" // the worker stopped before the attempt ended: not counted
	AfterSnooze   ReleaseCause = "snooze"   // the handler postponed the event: not counted
)

// Release returns e as PENDING again, available from the given instant on, but not before
// [Event.FirstAvailable]: the given instant is earlier if the clock was set back after the claim.
// The error is an [*InvalidStateTransitionError] unless e is PROCESSING.
func (e Event) Release(cause ReleaseCause, reason string, available time.Time) (Event, error) {
	next := e
	if err := next.become(Pending); err != nil {
		return e, err
	}
	next.AvailableAt, next.LeaseToken = available.UTC(), uuid.Nil
	next.AvailableAt = later(next.AvailableAt, e.FirstAvailable())
	if reason != "" {
		next.LastError = storable(reason)
	}
	switch cause {
	case AfterFailure:
		next.RetryCount++
	case AfterCrash:
		next.CrashCount++
	case AfterShutdown, AfterSnooze:
	}
	return next, nil
}

// storable makes a reason fit its column. The reason comes from the host's delivery, so
// it can contain any bytes.
func storable(reason string) string { return excerpt.Of(storableText(reason), maxReasonBytes) }

// storableText replaces what PostgreSQL cannot store in a text.
func storableText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
}

// Reschedule returns e as replanned for u and the given occurrence. Its identity and its
// idempotency key stay. The error is an [*InvalidStateTransitionError] unless e is
// PENDING and was never claimed, because an event that was ever claimed keeps its instant.
//
// A detached event whose type is spread becomes available no longer after its instant than before. The
// interval of a [calendar.Window] that bounds its spread is not stored.
func (e Event) Reschedule(u User, h EventHandler, o Occurrence) (Event, error) {
	if !e.movable() {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	next := e
	if err := next.plan(&u, h, &o); err != nil {
		return e, err
	}
	if _, bounded := o.OpenFor(); e.detached() && !bounded {
		next.spreadNoFurther(e)
	}
	next.Version++
	return next, nil
}

// spreadNoFurther keeps a spread event as near to its instant as it was. The distance of an event that was
// moved to an instant in the past can be longer than the spread. Then the spread counts.
func (e *Event) spreadNoFurther(was Event) {
	if by := max(0, was.ReadyAt.Sub(was.Due)); by < e.ReadyAt.Sub(e.Due) {
		e.ReadyAt = e.Due.Add(by)
	}
	if e.ReadyAt.Equal(e.Due) {
		e.ReadyAt = time.Time{}
	}
	e.AvailableAt = firstAvailable(e)
}

// keep returns e as replanned for the present state of the user, at the same instant. The
// instant may come from other rules than those of this process.
func (e Event) keep(u User, h EventHandler, o Occurrence) (Event, error) {
	if !e.movable() {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	next := e
	o.in(&u)
	if err := next.planAt(&u, h, &o); err != nil {
		return e, err
	}
	next.ReadyAt = e.ReadyAt
	next.AvailableAt = next.FirstAvailable()
	next.Version++
	return next, nil
}

// movable reports whether an event is PENDING and was never claimed.
func (e Event) movable() bool { return e.Status == Pending && e.ClaimCount == 0 }

func (e *Event) become(to Status) error {
	if !e.Status.CanBecome(to) {
		return &InvalidStateTransitionError{e.ID, e.Status, to}
	}
	e.Status, e.Consulted = to, calendar.Consulted{}
	e.Version++
	return nil
}
