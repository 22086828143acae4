package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

type scheduledAnswer struct {
	Event   event `json:"event"`
	Existed bool  `json:"existed"`
	Moved   bool  `json:"moved"`
}

// scheduleAt stores one event of a user at a wall time, or moves the event that has the key.
func (a *admin) scheduleAt(r *http.Request) (reply, error) {
	var bad complaints
	id := idOf(r, &bad)
	queryOf(r, &bad)
	eventType, o := scheduleOf(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	if err := a.enter(r.Context(), id); err != nil {
		return reply{}, err
	}
	defer a.leave(id)
	did, err := a.scheduler.ScheduleAt(r.Context(), id, eventType, o)
	if errors.Is(err, almanac.ErrUnsupportedEventType) {
		bad.add("type", "has no handler in this program")
		return reply{}, bad.problem()
	}
	if err != nil {
		return reply{}, notScheduled(err)
	}
	re := reply{status: http.StatusCreated, location: "../../events/" + did.Event.ID.String(), body: scheduledAnswer{eventOf(did.Event), did.Existed, did.Moved}}
	if did.Existed {
		re.status, re.location = http.StatusOK, ""
	}
	return re, nil
}

// scheduleOf reads what to schedule.
func scheduleOf(r *http.Request, bad *complaints) (eventType string, o almanac.ScheduleAtOptions) {
	var gap, fold string
	given := takers{
		"type":       takeText(&eventType),
		"at":         takeWallTime(&o.At),
		"timezone":   takeNonEmpty("is empty; leave it out to mean the user's", func(text string) { o.Timezone = zoneOf(text, bad) }),
		"followUser": takeBool(&o.FollowUser),
		"key":        takeNonEmpty("is empty; leave it out to mean the wall time", func(text string) { o.Key = text }),
		"payload":    func(m member, _ *complaints) { o.Payload = m.value },
		"gap":        takeText(&gap),
		"fold":       takeText(&fold),
		"move":       takeBool(&o.Move),
	}.body(r, bad)
	if bad.of["body"] {
		return "", o
	}
	for _, required := range []string{"type", "at"} {
		if !given[required] {
			bad.add(required, "is required")
		}
	}
	checkType(eventType, "type", bad)
	o.Policies.Gap, o.Policies.Fold = calendar.GapPolicy(gap), calendar.FoldPolicy(fold)
	bad.addAll(o.Check())
	return eventType, o
}

// takeWallTime takes a date and a time without an offset.
func takeWallTime(into *calendar.WallTime) taker {
	return func(m member, bad *complaints) {
		text := textOf(m, bad)
		if text == nil {
			return
		}
		at, err := calendar.ParseWallTime(*text)
		if *into = at; err != nil {
			bad.add(m.name, "is not a wall time such as 2026-03-15T09:00")
		}
	}
}

// zoneOf returns the zone of a name.
func zoneOf(name string, bad *complaints) calendar.Timezone {
	z, err := calendar.LoadTimezone(name)
	if wrong, ok := errors.AsType[*calendar.InvalidTimezoneError](err); ok {
		bad.add("timezone", "%s", complaintOf(almanac.FieldError{Problem: wrong.Problem(), Err: wrong}))
	}
	return z
}

// notScheduled returns the problem for an error of ScheduleAt that the stored event or the user causes,
// and any other error unchanged.
func notScheduled(err error) error {
	var state *almanac.InvalidStateTransitionError
	switch {
	case errors.As(err, &state):
		return newProblem(http.StatusConflict, fmt.Sprintf("the event is %s and cannot be moved", movedFrom(state.From)))
	case errors.Is(err, almanac.ErrOptedOut):
		return newProblem(http.StatusConflict, "the user has opted out of events of this type")
	case errors.Is(err, almanac.ErrExists):
		_, named, _ := strings.Cut(err.Error(), almanac.ErrExists.Error()+": ")
		return newProblem(http.StatusConflict, "the key names an event: "+named)
	}
	return err
}

// movedFrom says in which state an event is that a claim has given its instant.
func movedFrom(s almanac.Status) string {
	if s == almanac.Pending {
		return "PENDING after a claim"
	}
	return string(s)
}

// reschedule replans the pending events of a user.
func (a *admin) reschedule(r *http.Request) (reply, error) {
	var bad complaints
	id := idOf(r, &bad)
	queryOf(r, &bad)
	takers{}.body(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	if err := a.enter(r.Context(), id); err != nil {
		return reply{}, err
	}
	defer a.leave(id)
	result, err := a.scheduler.Reschedule(r.Context(), id)
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusOK, etag: etagOf(result.User), body: updatedOf(result)}, nil
}

type backfillAnswer struct {
	Users   int             `json:"users"`  // who were processed
	Events  int             `json:"events"` // that were stored
	Refused []refusedUser   `json:"refused"`
	Next    *almanac.Cursor `json:"nextCursor"` // where to continue
	Stopped *string         `json:"stopped"`    // why the backfill ended early, if it did
}

type refusedUser struct {
	UserID uuid.UUID `json:"userId"`
	Detail string    `json:"detail"`
}

// backfill stores the next events of a type for users who have none, for as long as a request may take.
func (a *admin) backfill(r *http.Request) (reply, error) {
	var bad complaints
	queryOf(r, &bad)
	eventType := r.PathValue("type")
	checkType(eventType, "type", &bad)
	var options almanac.BackfillOptions
	takers{
		"cursor": takeNonEmpty("is empty; leave it out to mean the first user", func(text string) { options.After = almanac.Cursor(text) }),
		"rate":   takeNumber(&options.Rate, maxBackfillRate),
	}.body(r, &bad)
	_, _, err := almanac.Page{After: options.After}.Bounds()
	if err != nil {
		bad.add("cursor", "is not the nextCursor of a backfill")
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	ctx, cancel := context.WithTimeout(r.Context(), operateLimit)
	defer cancel()
	done, err := a.scheduler.Backfill(ctx, eventType, options)
	if done.Users == 0 && err != nil && (ctx.Err() == nil || r.Context().Err() != nil) {
		return reply{}, err
	}
	answer := backfillAnswer{Users: done.Users, Events: done.Events, Refused: make([]refusedUser, 0, len(done.Refused))}
	re := reply{status: http.StatusOK}
	for _, refusal := range done.Refused {
		p, complete := problemOf(r, refusal.Err)
		if !complete {
			re.failure = refusal.Err // the last one, since thousands of users can fail alike
		}
		answer.Refused = append(answer.Refused, refusedUser{refusal.UserID, p.Detail})
	}
	if done.Next != "" {
		answer.Next = &done.Next
	}
	if err != nil {
		if ctx.Err() != nil {
			err = newProblem(http.StatusServiceUnavailable, "the time of a request is over")
		}
		p, complete := problemOf(r, err)
		if answer.Stopped = &p.Detail; !complete {
			re.failure = err
		}
	}
	re.body = answer
	return re, nil
}

// maxBackfillRate is how many users a second one request processes at most, if it names a rate.
const maxBackfillRate = 1_000_000
