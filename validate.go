package almanac

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/jsonb"
)

// Check returns an error if e must not be delivered at now, and nil otherwise. now is the present time
// by the database clock, in UTC: calendar.StoredTimezone(e.Zone).WallTime(now) is what clocks show in
// the zone of the event. An error fails the event for good, with the error as its FailureReason, unless
// it asks for something else: [Snooze] postpones the event, and [NotOwed] cancels it. A host can add its
// own checks (see [WithChecks]). A Check must be safe for concurrent use.
type Check func(e Event, now time.Time) error

// Checks is a validation chain: a list of checks in the order in which they are called.
type Checks []Check

// First returns the error of the first check that refuses e, or nil.
func (cs Checks) First(e Event, now time.Time) error {
	for _, check := range cs {
		if err := check(e, now); err != nil {
			return err
		}
	}
	return nil
}

// All returns the errors of all checks that refuse e, joined, or nil.
func (cs Checks) All(e Event, now time.Time) error {
	var errs []error
	for _, check := range cs {
		errs = append(errs, check(e, now))
	}
	return errors.Join(errs...)
}

// HasStatus refuses events with another status.
func HasStatus(s Status) Check {
	return func(e Event, _ time.Time) error {
		if e.Status != s {
			return fmt.Errorf("event is %s, not %s", e.Status, s)
		}
		return nil
	}
}

// IsDue refuses events before [Event.FirstAvailable].
func IsDue() Check {
	return func(e Event, now time.Time) error {
		if early := e.FirstAvailable().Sub(now); early > 0 {
			return fmt.Errorf("event is due in %v", early)
		}
		return nil
	}
}

// AttemptsLeft refuses events with n failed attempts or more. The error is a [*MaxRetriesExceededError].
func AttemptsLeft(n int) Check {
	return func(e Event, _ time.Time) error {
		if e.RetryCount >= n {
			return &MaxRetriesExceededError{EventID: e.ID, Failed: e.RetryCount, Limit: n}
		}
		return nil
	}
}

// CrashesBelow refuses events whose worker died n times or more, because the events may be the cause.
func CrashesBelow(n int) Check {
	return func(e Event, _ time.Time) error {
		if e.CrashCount >= n {
			return &refusal{FailedCrashes, fmt.Sprintf("worker died %d times", e.CrashCount)}
		}
		return nil
	}
}

// NotOlderThan refuses events that could first be delivered more than age ago (see
// [Event.FirstAvailable]).
func NotOlderThan(age time.Duration) Check {
	return func(e Event, now time.Time) error {
		from, what := e.FirstAvailable(), "its instant"
		switch {
		case from.Equal(e.Due):
		case from.Equal(e.ReadyAt):
			what = "it was ready"
		case e.Origin.Kind == OriginRequeued:
			what = "it was requeued"
		default:
			what = "it was scheduled"
		}
		if late := now.Sub(from); late > age {
			return &refusal{FailedMissed, fmt.Sprintf("missed: %v after %s, more than %v", late.Round(time.Second), what, age)}
		}
		return nil
	}
}

// refusal is the error of a check with a cause of its own.
type refusal struct {
	cause FailureCause
	text  string
}

func (r *refusal) Error() string { return r.text }

// failureOf returns the cause of the failure of an event that a check refused with err.
func failureOf(err error) FailureCause {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return refused.cause
	case errors.Is(err, ErrMaxRetriesExceeded):
		return FailedAttempts
	default:
		return FailedCheck
	}
}

// FirstAvailable returns the instant from which e could be delivered. That is Due, or ReadyAt if it
// is set, or CreatedAt if e is detached (see [Origin]) and was created after Due: a caller asked
// for the event when its instant had passed. It is Due for an event that a handler planned, also if
// the plan came late, as after a downtime.
func (e Event) FirstAvailable() time.Time { return firstAvailable(&e) }

func firstAvailable(e *Event) time.Time {
	from := later(e.Due, e.ReadyAt)
	if e.Origin.Kind != OriginPlanned {
		return later(from, e.CreatedAt)
	}
	return from
}

// Lateness returns how long after [Event.FirstAvailable] e was delivered. It returns zero
// if e was not delivered.
func (e Event) Lateness() time.Duration {
	if e.ExecutedAt.IsZero() {
		return 0
	}
	return e.ExecutedAt.Sub(e.FirstAvailable())
}

// profileRules are the options by which profiles are judged.
type profileRules struct {
	optional bool                         // users need neither names nor a date of birth
	guesses  bool                         // users need no zone
	fallback string                       // the default zone; "" means none
	guess    func(u User) (string, error) // nil means that no zone is guessed
}

// withZone applies the change of the zone, if it gives one.
func (u *User) withZone(c ProfileChange, rules profileRules, refuse func(field, problem string, err error)) {
	if c.Timezone == nil {
		return
	}
	u.Timezone, u.ZoneSource = calendar.Timezone{}, ""
	if *c.Timezone != "" || !rules.guesses {
		u.setZone(*c.Timezone, ZoneDeclared, refuse)
	}
}

// withGuess guesses the zone after a change of the profile, if it is not declared. It comes after all other
// changes, because the guess depends on them. A zone that was guessed before stays if there is no new guess.
func (u *User) withGuess(c ProfileChange, rules profileRules, refuse func(field, problem string, err error)) error {
	declared := u.ZoneSource == ZoneDeclared || u.ZoneSource == "" && !u.Timezone.IsZero() // a repository of the host's may not store it
	if !rules.guesses || declared || c.withoutOptOuts().isEmpty() {
		return nil
	}
	if rules.guess != nil {
		asked := *u
		asked.Timezone, asked.ZoneSource = calendar.Timezone{}, ""
		name, err := rules.guess(asked)
		if err != nil {
			return err
		}
		if name != "" {
			u.setZone(name, ZoneGuessed, refuse)
			return nil
		}
	}
	switch {
	case !u.Timezone.IsZero():
	case rules.fallback == "":
		refuse("timezone", "is empty, and cannot be guessed", &calendar.InvalidTimezoneError{})
	default:
		u.setZone(rules.fallback, ZoneDefault, refuse)
	}
	return nil
}

// setZone sets the zone to that of a name.
func (u *User) setZone(name string, source ZoneSource, refuse func(field, problem string, err error)) {
	z, err := calendar.LoadTimezone(name)
	switch {
	case err == nil:
		u.Timezone, u.ZoneSource = z, source
	case source == ZoneDeclared:
		refuse("timezone", problemOf(err), err)
	default:
		refuse("timezone", fmt.Sprintf("is not given, and the %s zone %q %s", source, excerpt.Of(name, 64), problemOf(err)), err)
	}
}

const (
	maxJSON     = 64 << 10  // bytes of attributes or of a payload, as PostgreSQL writes them
	maxJSONText = 256 << 10 // as given: escapes and white space make a text longer than its value
)

// withAttributes applies the changes of attributes. What was stored before is not checked: it
// stays as it is, or a merge makes it no longer than it was.
func (u *User) withAttributes(c ProfileChange, refuse func(field, problem string, err error)) {
	if c.Attributes != nil {
		u.Attributes = bytes.Clone(c.Attributes)
		if problem := attributesProblem(u.Attributes); problem != "" {
			refuse("attributes", problem, nil)
		}
	}
	if c.Merge == nil {
		return
	}
	// Check the patch before the merge. A patch that is too long or too deep is not
	// merged at all, and names that cannot be stored are not corrected silently.
	if problem := attributesProblem(c.Merge); problem != "" {
		refuse("merge", problem, nil)
		return
	}
	was := storedLength(u.Attributes)
	u.Attributes = jsonb.Merge(u.Attributes, c.Merge)
	if storedLength(u.Attributes) > max(maxJSON, was) {
		refuse("attributes", fmt.Sprintf("are longer than %d bytes as PostgreSQL writes them", maxJSON), nil)
	}
}

// attributesProblem returns what is wrong with attributes that are given, or "".
func attributesProblem(raw json.RawMessage) string {
	if len(raw) > maxJSONText {
		return fmt.Sprintf("are longer than %d bytes", maxJSONText)
	}
	if object := bytes.TrimSpace(raw); !json.Valid(raw) || len(object) == 0 || object[0] != '{' {
		return "are not a JSON object"
	}
	length, problem := jsonb.Check(raw)
	switch {
	case problem != "":
		return "contain " + problem
	case length > maxJSON:
		return fmt.Sprintf("are longer than %d bytes as PostgreSQL writes them", maxJSON)
	}
	return ""
}

// storedLength returns the length of attributes as PostgreSQL writes them. Stored attributes that
// could not be given today, such as a number of a thousand digits, are as long as their text.
func storedLength(attributes json.RawMessage) int {
	length, problem := jsonb.Check(attributes)
	if problem != "" {
		return len(attributes)
	}
	return length
}

// payloadProblem returns what is wrong with a payload, or "".
func payloadProblem(payload json.RawMessage) string {
	if n := len(payload); n > maxJSONText {
		return fmt.Sprintf("has %d bytes, more than %d", n, maxJSONText)
	}
	if !json.Valid(payload) {
		return "is not JSON"
	}
	length, problem := jsonb.Check(payload)
	switch {
	case problem != "":
		return "contains " + problem
	case length > maxJSON:
		return fmt.Sprintf("has %d bytes as PostgreSQL writes it, more than %d", length, maxJSON)
	}
	return ""
}

// tokenProblem returns what is wrong with a short text that is compared byte by byte, or "".
func tokenProblem(s string, most int) string {
	switch {
	case len(s) < 1 || len(s) > most:
		return fmt.Sprintf("has %d bytes, not 1 to %d", len(s), most)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return "contains characters that cannot be stored"
	}
	return ""
}
