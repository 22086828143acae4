package ops

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// WhyCode says what became of an occurrence. The set is closed.
type WhyCode string

// The codes of occurrences that have an event.
const (
	WhyDelivered     WhyCode = "delivered"      // the event is COMPLETED
	WhyFailed        WhyCode = "failed"         // the event is FAILED, with the error in Detail
	WhyCalledOff     WhyCode = "called_off"     // a check or the delivery called it off, with the reason in Detail
	WhyCancelled     WhyCode = "cancelled"      // an operator or the stop of a broadcast cancelled it, with the reason in Detail
	WhyInFlight      WhyCode = "in_flight"      // a program has claimed it
	WhyScheduled     WhyCode = "scheduled"      // it waits for its instant, or has been ready for less than a minute
	WhySpread        WhyCode = "spread"         // its instant has passed, and it waits for its point in the window of its type
	WhyQuiet         WhyCode = "quiet"          // it waits for the end of quiet hours, which is Until
	WhyRetrying      WhyCode = "retrying"       // it waits for its next attempt, with the last error in Detail
	WhyPostponed     WhyCode = "postponed"      // it was postponed or released without a failed attempt
	WhyPaused        WhyCode = "paused"         // its lane is paused
	WhyLaneFull      WhyCode = "lane_full"      // it waits for room in a lane that has limits
	WhyQuotaUsed     WhyCode = "quota_used"     // its lane has started as many events on this day, by UTC, as it may; Until is the next day
	WhyReceiverFails WhyCode = "receiver_fails" // the breaker of its lane is open
	WhyNoProgram     WhyCode = "no_program"     // it has been ready for a minute or longer, and no program with its handler runs
	WhyUnclaimed     WhyCode = "unclaimed"      // it has been ready for a minute or longer, and no program has claimed it
)

// The codes of occurrences without an event, and of days without an occurrence.
const (
	WhyUserUnknown  WhyCode = "user_unknown"  // there is no such user, or the user was deleted
	WhyCreatedLater WhyCode = "created_later" // the user was created after the time of the occurrence
	WhyOptedOut     WhyCode = "opted_out"     // the user refuses it; an event can be CANCELLED for that, too
	WhyClockSkipped WhyCode = "clock_skipped" // clocks skip the time, and the rule leaves it out
	WhyRejected     WhyCode = "rejected"      // the policy reject refuses the time
	WhyExpected     WhyCode = "expected"      // its event is planned when earlier events of the series have ended
	WhyBehind       WhyCode = "behind"        // an earlier event of the series has not ended yet
	WhyPassedOver   WhyCode = "passed_over"   // its time had passed when the event before it ended
	WhyChanged      WhyCode = "changed"       // the rule or the user was different when the series passed this day
	WhyBeforeFirst  WhyCode = "before_first"  // it is older than what is known of the series
	WhyUsed         WhyCode = "used"          // it counts as used, after a change of the rule
	WhyPruned       WhyCode = "pruned"        // it was used, as the used key of the series says, and no record of it is left
	WhyStalled      WhyCode = "stalled"       // the series stands still, with the error in Detail
	WhyRuleFails    WhyCode = "rule_fails"    // the handler returns the error in Detail
	WhyNotPlanned   WhyCode = "not_planned"   // no event of the series is open, or was open then
	WhyEnded        WhyCode = "ended"         // the rule has no occurrence on this day or later, and no later event is pending
	WhyNone         WhyCode = "no_occurrence" // the rule has no occurrence on this day, or the type has no rule and no event on this day
	WhyNoHandler    WhyCode = "no_handler"    // no event is known, and this program has no handler of the type
	WhyUnknown      WhyCode = "unknown"       // the user has more events of the type than are read
)

// The codes of broadcasts that have stored no event for the user, besides some of those above.
const (
	WhyNotInAudience WhyCode = "not_in_audience" // the user, as stored now, is not in the audience
	WhyHourPassed    WhyCode = "hour_passed"     // the time had passed in the user's zone when the broadcast was created, and it skips such zones
	WhyNotStored     WhyCode = "not_stored"      // the events of the user's zone are not all stored yet
	WhyStopped       WhyCode = "stopped"         // the broadcast was stopped before; Broadcast has by whom and why
	WhyRefused       WhyCode = "refused"         // no event could be stored for the user, or the user was not in the audience then
)

// WhyRequest names what [Why] explains. Each field is required.
type WhyRequest struct {
	User uuid.UUID
	Type string        // an event type, which need not have a handler
	Day  calendar.Date // a day of the user's calendar, of the years 1900 to 9998
}

// WhyOptions are sources that [Why] can read besides the repository. Each may be nil.
type WhyOptions struct {
	// Statistics say what an event waits for that is ready: the limits of its lane, and a receiver that fails. They are
	// asked for at most ten lanes. Without them an event of a lane with limits is [WhyLaneFull] whatever the lane has used.
	Statistics Statistics
	// Trail returns the audit trail of an event or of a user, as Audit of a postgres.Store does. With
	// a trail, an answer says who cancelled an event, and finds opt-outs that the user has withdrawn since.
	Trail func(ctx context.Context, id uuid.UUID) ([]AuditStep, error)
	// Broadcasts knows the broadcasts. Without it, an answer names no broadcast, and a user without an event of a broadcast has no
	// answer about it.
	Broadcasts *broadcast.Sender
}

// WhyResult is what [Why] found.
type WhyResult struct {
	UserID uuid.UUID     `json:"userId"`
	Type   string        `json:"eventType"`
	Day    calendar.Date `json:"day"`
	Zone   string        `json:"timezone,omitempty"` // the user's zone now; "" for an unknown user
	At     time.Time     `json:"at"`                 // the repository's clock, UTC
	// Answers has an answer for each occurrence of the day, in the order of their instants, at most 100. A broadcast counts as one. If
	// the day has no occurrence, one answer says why.
	Answers []WhyAnswer `json:"answers"`
	More    bool        `json:"more,omitempty"` // whether the day has more occurrences
	// Next is what happens next of the type: a pending event that no opt-out refuses, or the next occurrence of a series whose
	// event is in flight, or which is planned again after a failure. It is nil if nothing is known to come.
	Next *WhyNext `json:"next,omitempty"`

	oneOff bool // whether the type has no rule
}

// WhyAnswer is what became of one occurrence.
type WhyAnswer struct {
	Code WhyCode `json:"code"`
	Text string  `json:"text"` // one or more sentences of English, for a reader who does not know the codes
	WhyOccurrence
	Event *WhyEvent `json:"event,omitempty"` // nil if no event is stored
	// Broadcast is the broadcast that the answer is about, or nil.
	Broadcast *WhyBroadcast `json:"broadcast,omitempty"`
	// OptOut is that of WhyOptedOut, if it is known. Of an event or an occurrence that is to come, it is one of a channel:
	// it will be called off before its attempt, if the attempt is by that channel.
	OptOut *almanac.OptOut `json:"optOut,omitempty"`
	Pause  *WhyPause       `json:"pause,omitempty"`  // of WhyPaused, and of an event or an occurrence to come whose lane is paused when it is due
	Until  time.Time       `json:"until,omitzero"`   // when what holds the event up ends, UTC; zero if that is unknown
	Detail string          `json:"detail,omitempty"` // an error, or a reason that a person gave
}

// WhyOccurrence names the occurrence of an answer.
type WhyOccurrence struct {
	// Series and OccurrenceKey name the occurrence. Both are "" in an answer about the day as a whole. The key of an event of a
	// broadcast is the name of the broadcast.
	Series        string `json:"series,omitempty"`
	OccurrenceKey string `json:"occurrenceKey,omitempty"`
	// Day is the day to which an occurrence of a rule or an event belongs, before a holiday or an operator moved it. It differs from
	// the day of the request if the event ran on that day. It is zero in other answers.
	Day   calendar.Date `json:"day,omitzero"`
	Due   time.Time     `json:"targetTimestampUTC,omitzero"`    // UTC; zero if there is no instant
	Local string        `json:"targetTimestampLocal,omitempty"` // what clocks in Zone of the event or the user show then
	How   string        `json:"reason,omitempty"`               // how the instant was found, as [calendar.Occurrence.Reason] says it
}

// WhyEvent is the stored event of an occurrence.
type WhyEvent struct {
	ID             uuid.UUID              `json:"id"`
	Status         almanac.Status         `json:"status"`
	IdempotencyKey almanac.IdempotencyKey `json:"idempotencyKey"`
	// Channel is the channel that the handler chooses now for an open event. The channel of an attempt is not stored. "" means
	// that the event has ended, or that the channel is unknown: this program has no handler of the type, or the handler
	// delivers its events itself.
	Channel     almanac.Channel `json:"channel,omitempty"`
	Lane        string          `json:"lane"`                 // the lane of the event, which can be its type
	AvailableAt time.Time       `json:"availableAt,omitzero"` // of a PENDING event, UTC: when it can be claimed
	EndedAt     time.Time       `json:"endedAt,omitzero"`     // UTC; zero for an open event
	// RanOn is the day of EndedAt on the clocks of the user. It is zero unless the event is COMPLETED or FAILED.
	RanOn calendar.Date `json:"ranOn,omitzero"`
	WhyAttempts
	WhyRequeue
	Trail []AuditStep `json:"trail,omitempty"` // its audit trail, if there is one
	// HandlerSeen is when a running program with a handler of the type was last seen, UTC, up to five minutes
	// earlier than it was. It is zero if that is unknown, or if the event is not ready.
	HandlerSeen time.Time `json:"handlerSeen,omitzero"`
}

// WhyAttempts are the attempts of an event.
type WhyAttempts struct {
	Attempts  int    `json:"attempts"`            // attempts that were made, the successful one included
	Crashes   int    `json:"crashes,omitempty"`   // how many times its worker died
	LastError string `json:"lastError,omitempty"` // why the last attempt failed or was released
}

// WhyRequeue says whether an event was requeued, or repeats another one.
type WhyRequeue struct {
	RequeuedAt time.Time `json:"requeuedAt,omitzero"` // UTC; zero for an event that repeats no other one
	// Repeats is the FAILED or CANCELLED event that the event repeats, and RepeatedBy the event that repeats it. Either is nil if
	// there is none, or if that event is not near the day.
	Repeats    *WhyRepeat `json:"repeats,omitempty"`
	RepeatedBy *WhyRepeat `json:"repeatedBy,omitempty"`
}

// WhyRepeat is another event of the same occurrence.
type WhyRepeat struct {
	ID     uuid.UUID `json:"id"`
	At     time.Time `json:"at"`               // when it ended or, for the event that repeats the other one, when it was requeued; UTC
	Reason string    `json:"reason,omitempty"` // why it ended
}

// WhyPause is an [almanac.Pause].
type WhyPause struct {
	Lane   string    `json:"lane"`
	Reason string    `json:"reason,omitempty"`
	Author string    `json:"author,omitempty"`
	Since  time.Time `json:"since"`          // UTC
	Until  time.Time `json:"until,omitzero"` // UTC; zero if it lasts until it is resumed
}

// WhyNext is the next event of a type, or the next occurrence if no event is stored.
type WhyNext struct {
	EventID       *uuid.UUID `json:"eventId,omitempty"` // nil if it is not stored yet
	Series        string     `json:"series,omitempty"`
	OccurrenceKey string     `json:"occurrenceKey"`
	Due           time.Time  `json:"targetTimestampUTC"` // UTC
	Local         string     `json:"targetTimestampLocal"`
	Zone          string     `json:"targetTimezone"`
	// Start is when it is expected to start, UTC: Due, or later for an event that waits for its next
	// attempt, for its point in a window, or for the end of a pause. It is zero if that is unknown.
	Start time.Time `json:"start,omitzero"`
}

// Why explains what became of the occurrences of a type that a user was owed on a local day, or what
// will become of them. It answers from what is stored and from the handlers of the scheduler. It needs no
// audit trail. It stores nothing and locks nothing.
//
// A day has an occurrence if the user's clocks show it at the instant, or if the rule names the day and
// something moved the occurrence to another day, such as a holiday. An event that was delivered or failed on the day is
// explained, too, also if it belongs to another one, as far as it is among the 200 events of the type before or after the day. The rule is that of this program, for the
// user as stored now. The answer says so where it matters.
//
// The error is a [*almanac.ValidationError] that names each invalid field. An unknown user is no error:
// the code is [WhyUserUnknown]. Other errors are those of the repository, of the Statistics, of the Trail and
// of the Broadcasts: Why answers nothing if it cannot read a part of the facts. See docs/adr/0080-why.md.
func Why(ctx context.Context, s almanac.Scheduler, r WhyRequest, options WhyOptions) (WhyResult, error) {
	if err := r.check(); err != nil {
		return WhyResult{}, err
	}
	result := WhyResult{UserID: r.User, Type: r.Type, Day: r.Day}
	g := whyGatherer{scheduler: s, repository: s.Repository(), request: r, options: options}
	f, err := g.gather(ctx)
	if result.At = f.now; errors.Is(err, almanac.ErrNotFound) {
		result.Answers = []WhyAnswer{{Code: WhyUserUnknown}}
		result.write()
		return result, nil
	}
	if err != nil {
		return WhyResult{}, err
	}
	result.Zone = f.user.Timezone.String()
	result.Answers, result.More = f.answers()
	if err := g.addTrails(ctx, result.Answers); err != nil {
		return WhyResult{}, err
	}
	if result.Next, err = g.next(ctx, f); err != nil {
		return WhyResult{}, err
	}
	if next := result.Next; next != nil && result.Answers[0].Code == WhyEnded && r.Day.Before(f.user.Timezone.WallTime(next.Due).Date) {
		result.Answers[0].Code = WhyNone
	}
	result.oneOff = f.rule.oneOff
	result.write()
	return result, nil
}

const (
	mostAnswers = 100
	fewestYear  = 1900
	latestYear  = 9998
)

// check names every invalid field.
func (r WhyRequest) check() error {
	var bad almanac.ValidationError
	refuse := func(wrong bool, field, problem string) {
		if wrong {
			bad.Fields = append(bad.Fields, almanac.FieldError{Field: field, Problem: problem})
		}
	}
	refuse(r.User == uuid.Nil, "user", "is required")
	problem := TypeProblem(r.Type)
	refuse(problem != "", "type", problem)
	refuse(!r.Day.Valid() || r.Day.Year < fewestYear || r.Day.Year > latestYear, "day", "is not a date of the years 1900 to 9998")
	if bad.Fields != nil {
		return &bad
	}
	return nil
}

// Hiding returns the result for a viewer who may not see everything. If persons is true, the reasons of opt-outs
// and pauses are left out. If failures is true, errors and the reasons of events are left out, which can have parts
// of payloads. The texts are written anew without them.
func (r WhyResult) Hiding(persons, failures bool) WhyResult {
	answers := make([]WhyAnswer, len(r.Answers))
	for i, a := range r.Answers {
		answers[i] = a.hiding(persons, failures)
	}
	r.Answers = answers
	r.write()
	return r
}

func (a WhyAnswer) hiding(persons, failures bool) WhyAnswer {
	if persons && a.OptOut != nil {
		o := *a.OptOut
		o.Reason = ""
		a.OptOut = &o
	}
	if persons && a.Pause != nil {
		p := *a.Pause
		p.Reason = ""
		a.Pause = &p
	}
	if failures {
		a.Detail = ""
	}
	if failures && a.Broadcast != nil {
		b := *a.Broadcast
		b.StopReason = ""
		a.Broadcast = &b
	}
	if failures && a.Event != nil {
		e := *a.Event
		e.LastError = ""
		if e.Repeats != nil {
			e.Repeats = &WhyRepeat{ID: e.Repeats.ID, At: e.Repeats.At}
		}
		trail := make([]AuditStep, len(e.Trail))
		for i, step := range e.Trail {
			step.Detail = ""
			trail[i] = step
		}
		e.Trail = trail
		a.Event = &e
	}
	return a
}
