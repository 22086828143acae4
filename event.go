package almanac

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/jsonb"
)

// Status is where an event stands in its life.
//
//	PENDING ──claim──▶ PROCESSING ──complete──▶ COMPLETED
//	   │  ▲                │  └─────fail──────▶ FAILED
//	   │  └────release─────┘
//	   └──cancel──▶ CANCELLED
type Status string

// The statuses, as the database stores them. Completed, Failed and Cancelled are
// terminal: an event that has reached one never changes again.
const (
	Pending    Status = "PENDING"    // waits for its instant, or for another attempt
	Processing Status = "PROCESSING" // claimed: a worker holds a lease on it
	Completed  Status = "COMPLETED"  // delivered
	Failed     Status = "FAILED"     // given up
	Cancelled  Status = "CANCELLED"  // ended by an operator before it was delivered; no failure
)

// Terminal reports whether an event with status s never changes again.
func (s Status) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// CanBecome reports whether an event may go from s to the status to.
func (s Status) CanBecome(to Status) bool {
	switch s {
	case Pending:
		return to == Processing || to == Cancelled
	case Processing:
		return to == Completed || to == Failed || to == Pending
	}
	return false
}

// Event is an occurrence that somebody is owed, stored. Events are values: each
// transition returns a new one with its version raised by one and leaves the
// receiver alone, so that a caller who fails to store the result still holds what
// the database holds.
type Event struct {
	ID            uuid.UUID // UUIDv7: ids ascend in order of creation; see EventRepository.Find
	UserID        uuid.UUID
	Type          string // such as "BIRTHDAY"; the key of the handler
	OccurrenceKey string // names the occurrence for ever; see Occurrence.Key
	// RequeuedFrom is the id of the event whose occurrence this one repeats, under the
	// same OccurrenceKey and IdempotencyKey; see [Event.Requeue]. Zero for all others.
	RequeuedFrom   uuid.UUID
	Status         Status
	Due            time.Time // the target instant, UTC
	Wall           WallTime  // the target as the person's clock shows it
	Zone           string    // the IANA name of the zone that Due was resolved in
	Policies       Policies  // how Due was resolved
	IdempotencyKey IdempotencyKey
	Payload        json.RawMessage // what to deliver; frozen by the first claim
	UserVersion    int             // the version of the user that it was planned from

	// PlannedBy are the zone rules by which Due was found, if they are not known to be
	// those that the repository follows. The repository marks the zone in the transaction
	// that stores the event, see [ZoneBook], and keeps no more of it: it is nil in every
	// event that a repository returns.
	PlannedBy *ZoneRules `json:"-"`

	AvailableAt   time.Time // while PENDING: not claimed before this; Due, or later after a release. UTC
	LeaseToken    uuid.UUID // of the claim that holds it, or that ended it; zero when CANCELLED
	ExecutedAt    time.Time // when it was delivered, UTC; zero until COMPLETED
	FailureReason string    // why it is FAILED, or what the operator gave as the reason when it is CANCELLED; "" otherwise
	LastError     string    // why the last attempt came to nothing, "" if none did
	RetryCount    int       // attempts that failed
	ClaimCount    int       // how often it was claimed; an event once claimed keeps its target
	CrashCount    int       // how often its worker died

	Version   int // 1 when created; raised by every change
	CreatedAt time.Time
	UpdatedAt time.Time
}

const (
	maxEventType     = 50
	maxOccurrenceKey = 100
	maxPayloadBytes  = 64 << 10
	maxReasonBytes   = 1000
)

// NewEvent plans the event of one occurrence for a user: it resolves the wall
// time, asks the handler for the payload, and derives the idempotency key. The
// event is PENDING, at version 1, and not stored.
//
// Errors are those of [Timezone.Resolve] and of the handler; a key, a type or a
// payload out of its bounds is a [*ValidationError].
func NewEvent(u User, h EventHandler, o Occurrence) (Event, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Event{}, fmt.Errorf("almanac: new event id: %w", err)
	}
	e := Event{ID: id, UserID: u.ID, Type: h.EventType(), Status: Pending, Version: 1}
	if e, err = e.planned(u, h, o); err != nil {
		return Event{}, err
	}
	e.IdempotencyKey = NewIdempotencyKey(u.ID.String(), e.Due, e.Type)
	return e, nil
}

// LongKey returns the key that the event takes if its short one belongs to
// another occurrence when it is stored.
func (e Event) LongKey() IdempotencyKey {
	return NewLongIdempotencyKey(e.UserID.String(), e.Due, e.Type, e.OccurrenceKey)
}

// planned fills in what follows from the user and the occurrence.
func (e Event) planned(u User, h EventHandler, o Occurrence) (Event, error) {
	o.Zone = o.zoneFor(u)
	if isApart(o.name()) {
		return Event{}, &ValidationError{[]FieldError{{Field: "occurrence key", Problem: "begins with a tilde"}}}
	}
	r, err := o.Zone.Resolve(o.Wall, o.Policies)
	if err != nil {
		return Event{}, err
	}
	e.Due, e.PlannedBy = r.Instant, nil
	return e.plannedAt(u, h, o)
}

// plannedAt fills in what follows from the user and the occurrence for the instant
// that e has.
func (e Event) plannedAt(u User, h EventHandler, o Occurrence) (Event, error) {
	payload, err := h.Payload(u, o)
	if err != nil {
		return Event{}, fmt.Errorf("almanac: payload of %s for user %s: %w", e.Type, u.ID, err)
	}
	e.OccurrenceKey, e.Wall, e.Zone, e.Policies = o.name(), o.Wall, o.Zone.String(), o.Policies.WithDefaults()
	e.AvailableAt = e.Due
	e.Payload, e.UserVersion = payload, u.Version
	return e, e.check()
}

// check refuses what could not be stored, before a transaction finds out.
func (e Event) check() error {
	var bad ValidationError
	refuse := func(field, problem string) {
		bad.Fields = append(bad.Fields, FieldError{Field: field, Problem: problem})
	}
	if problem := tokenProblem(e.Type, maxEventType); problem != "" {
		refuse("event type", problem)
	}
	if problem := tokenProblem(e.OccurrenceKey, maxOccurrenceKey); problem != "" {
		refuse("occurrence key", problem)
	}
	if problem := payloadProblem(e.Payload); problem != "" {
		refuse("payload", problem)
	}
	if len(bad.Fields) > 0 {
		return &bad
	}
	return nil
}

// payloadProblem says what is wrong with a payload, or "".
func payloadProblem(payload json.RawMessage) string {
	if n := len(payload); n > maxPayloadBytes {
		return fmt.Sprintf("has %d bytes, more than %d", n, maxPayloadBytes)
	}
	if !json.Valid(payload) {
		return "is not JSON"
	}
	if problem := jsonb.Problem(payload); problem != "" {
		return "contains " + problem
	}
	return ""
}

// tokenProblem says what is wrong with a short text that is compared byte by byte,
// or "".
func tokenProblem(s string, most int) string {
	switch {
	case len(s) < 1 || len(s) > most:
		return fmt.Sprintf("has %d bytes, not 1 to %d", len(s), most)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return "contains characters that cannot be stored"
	}
	return ""
}

// Claim returns e as taken by the holder of the lease token.
// It returns an [*InvalidStateTransitionError] unless e is PENDING.
func (e Event) Claim(token uuid.UUID) (Event, error) {
	next, err := e.become(Processing)
	if err != nil {
		return e, err
	}
	next.LeaseToken, next.AvailableAt = token, time.Time{}
	next.ClaimCount++
	return next, nil
}

// Complete returns e as delivered at the given instant.
// It returns an [*InvalidStateTransitionError] unless e is PROCESSING.
func (e Event) Complete(at time.Time) (Event, error) {
	next, err := e.become(Completed)
	if err != nil {
		return e, err
	}
	next.ExecutedAt = at.UTC()
	return next, nil
}

// Fail returns e as given up for the given reason, which is cut to 1,000 bytes;
// the attempt counts as a failed one.
// It returns an [*InvalidStateTransitionError] unless e is PROCESSING.
func (e Event) Fail(reason string) (Event, error) {
	next, err := e.become(Failed)
	if err != nil {
		return e, err
	}
	if reason == "" {
		reason = "unknown" // FAILED without a reason would look like an oversight of ours
	}
	next.FailureReason = storable(reason)
	next.RetryCount++
	return next, nil
}

// ReleaseCause says why an event goes back to PENDING.
type ReleaseCause string

// The causes of a release.
const (
	AfterFailure  ReleaseCause = "failure"  // an attempt failed and another is worth it: counted in RetryCount
	AfterCrash    ReleaseCause = "crash"    // the lease ran out, so the worker is taken for dead: counted in CrashCount
	AfterShutdown ReleaseCause = "shutdown" // the worker stopped before it was done: counted nowhere
	AfterSnooze   ReleaseCause = "snooze"   // the handler asked for a later moment: counted nowhere
)

// Release returns e as given back, to be claimed again from the given instant on, or
// from its target on should that be later: the clock may have been set back since it
// was claimed. It returns an [*InvalidStateTransitionError] unless e is PROCESSING.
func (e Event) Release(cause ReleaseCause, reason string, available time.Time) (Event, error) {
	next, err := e.become(Pending)
	if err != nil {
		return e, err
	}
	next.AvailableAt, next.LeaseToken = available.UTC(), uuid.Nil
	if next.AvailableAt.Before(e.Due) {
		next.AvailableAt = e.Due
	}
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

// storable makes a reason fit its column. It comes from wherever the host's
// delivery took it, so it may hold anything.
func storable(reason string) string {
	valid := strings.ToValidUTF8(strings.ReplaceAll(reason, "\x00", "\ufffd"), "\ufffd")
	return clip(valid, maxReasonBytes)
}

// Reschedule returns e as planned anew for the user as they are now and the given
// occurrence. Its identity and its idempotency key stay.
// It returns an [*InvalidStateTransitionError] unless e is PENDING and was never
// claimed: an event once claimed keeps its target.
func (e Event) Reschedule(u User, h EventHandler, o Occurrence) (Event, error) {
	if e.Status != Pending || e.ClaimCount > 0 {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	next, err := e.planned(u, h, o)
	if err != nil {
		return e, err
	}
	next.Version++
	return next, nil
}

// keep returns e as planned anew for the user as they are now, at the instant that it
// has: by other rules than those of this process, maybe.
func (e Event) keep(u User, h EventHandler, o Occurrence) (Event, error) {
	if e.Status != Pending || e.ClaimCount > 0 {
		return e, &InvalidStateTransitionError{e.ID, e.Status, Pending}
	}
	o.Zone = o.zoneFor(u)
	next, err := e.plannedAt(u, h, o)
	if err != nil {
		return e, err
	}
	next.Version++
	return next, nil
}

func (e Event) become(to Status) (Event, error) {
	if !e.Status.CanBecome(to) {
		return e, &InvalidStateTransitionError{e.ID, e.Status, to}
	}
	e.Status = to
	e.Version++
	return e, nil
}

// CheckChange judges a change of a stored event, as every [Repository] must: the
// status takes an allowed step, or stays PENDING while the event was never
// claimed; and what an event is by birth, or froze when it was claimed, stays.
func CheckChange(from, to Event) error {
	rescheduled := from.Status == Pending && to.Status == Pending && from.ClaimCount == 0 && to.ClaimCount == 0
	if !rescheduled && !from.Status.CanBecome(to.Status) {
		return &InvalidStateTransitionError{from.ID, from.Status, to.Status}
	}
	if from.ID != to.ID || from.UserID != to.UserID || from.Type != to.Type || from.IdempotencyKey != to.IdempotencyKey ||
		from.RequeuedFrom != to.RequeuedFrom {
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

// sameTarget reports whether two events say the same at the same time and place.
func (e Event) sameTarget(other Event) bool {
	return e.Due.Equal(other.Due) && e.Wall == other.Wall && e.Zone == other.Zone && e.OccurrenceKey == other.OccurrenceKey &&
		e.Policies.WithDefaults() == other.Policies.WithDefaults() && sameJSON(e.Payload, other.Payload)
}

// sameJSON compares values rather than texts: a database that keeps JSON as jsonb
// returns it with blanks and an order of its own.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var one, other any
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && reflect.DeepEqual(one, other)
}

var (
	errIdentityChanged = errors.New("almanac: an event keeps its id, user, type, idempotency key and what it was requeued from")
	errCounterFell     = errors.New("almanac: an event's counters never fall")
	errTargetChanged   = errors.New("almanac: an event keeps its target and its payload once it was claimed")
)

// Lateness is how long after its due instant e was delivered, or zero until then.
func (e Event) Lateness() time.Duration {
	if e.ExecutedAt.IsZero() {
		return 0
	}
	return e.ExecutedAt.Sub(e.Due)
}
