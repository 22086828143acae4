package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

type cancelledAnswer struct {
	Event     event  `json:"event"`
	Successor *event `json:"successor"`
	Unplanned bool   `json:"unplanned"` // another program plans the successor
}

func (a *admin) cancel(r *http.Request) (reply, error) {
	var bad complaints
	var options almanac.CancelOptions
	takers{
		"reason":    takeText(&options.Reason),
		"version":   takeNumber(&options.Version, math.MaxInt32),
		"endSeries": takeBool(&options.EndSeries),
	}.body(r, &bad)
	return a.changeEvent(r, &bad, func(ctx context.Context, id uuid.UUID) (reply, error) {
		done, err := a.scheduler.Cancel(ctx, id, options)
		answer := cancelledAnswer{Event: eventOf(done.Event), Unplanned: done.Unplanned}
		if done.Successor != nil {
			next := eventOf(*done.Successor)
			answer.Successor = &next
		}
		return reply{status: http.StatusOK, body: answer}, refusalOf(ops.Cancel, err)
	})
}

func (a *admin) runNow(r *http.Request) (reply, error) {
	var bad complaints
	var options almanac.ForceOptions
	takers{"force": takeBool(&options.Force)}.body(r, &bad)
	return a.changeEvent(r, &bad, func(ctx context.Context, id uuid.UUID) (reply, error) {
		e, err := a.scheduler.RunNow(ctx, id, options)
		return reply{status: http.StatusOK, body: eventAnswer{eventOf(e)}}, refusalOf(ops.RunNow, err)
	})
}

// requeue answers with the new event. Its Location is relative, because the prefix under
// which the API is mounted is unknown here.
func (a *admin) requeue(r *http.Request) (reply, error) {
	var bad complaints
	var options almanac.ForceOptions
	takers{"force": takeBool(&options.Force)}.body(r, &bad)
	return a.changeEvent(r, &bad, func(ctx context.Context, id uuid.UUID) (reply, error) {
		e, err := a.scheduler.Requeue(ctx, id, options)
		return reply{status: http.StatusCreated, location: "../" + e.ID.String(), body: eventAnswer{eventOf(e)}},
			refusalOf(ops.Requeue, err)
	})
}

// changeEvent changes the event in the request's path, if the request may access its user. Bad are
// the complaints about the body. This process makes the changes of one user one after the other.
func (a *admin) changeEvent(r *http.Request, bad *complaints, change func(ctx context.Context, id uuid.UUID) (reply, error)) (reply, error) {
	queryOf(r, bad)
	id := idOf(r, bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	e, err := a.reader.Event(r.Context(), id)
	if err != nil {
		return reply{}, err
	}
	if err := a.authorize(r, e.UserID, &almanac.NotFoundError{Kind: "event", ID: id}); err != nil {
		return reply{}, err
	}
	if err := a.enter(r.Context(), e.UserID); err != nil {
		return reply{}, err
	}
	defer a.leave(e.UserID)
	return change(r.Context(), id)
}

// refusalOf returns the problem for an error of an operation that the state of the event
// refuses, and any other error unchanged.
func refusalOf(what ops.Operation, err error) error {
	var state *almanac.InvalidStateTransitionError
	var lock *almanac.OptimisticLockError
	switch {
	case errors.As(err, &state):
		return newProblem(http.StatusConflict, stateRefused(what, state.From))
	case errors.As(err, &lock) && lock.UserID == uuid.Nil:
		return newProblem(http.StatusConflict, "the event has changed since, or is not at the version that the request names")
	case errors.Is(err, almanac.ErrExists):
		return newProblem(http.StatusConflict, requeuedBefore(err))
	case errors.Is(err, almanac.ErrOptedOut):
		return newProblem(http.StatusConflict, "the user has opted out of events of this type; force requeues the event nevertheless")
	}
	return err
}

// requeuedBefore says which event repeats the one that was requeued before, if the error does.
func requeuedBefore(err error) string {
	text := "the event was requeued before"
	if _, named, ok := strings.Cut(err.Error(), almanac.ErrExists.Error()+": "); ok {
		text = named
	}
	return text + "; requeue the event that repeats it"
}

// stateRefused says why an operation is not for an event in the given status.
func stateRefused(what ops.Operation, is almanac.Status) string {
	switch {
	case what == ops.Cancel:
		return fmt.Sprintf("the event is %s; only PENDING events can be cancelled", is)
	case what == ops.Requeue:
		return fmt.Sprintf("the event is %s; only FAILED and CANCELLED events can be requeued", is)
	case is == almanac.Pending:
		return "the event was claimed before it was due, so it keeps its instant"
	}
	return fmt.Sprintf("the event is %s; only PENDING events can run now", is)
}

const (
	// maxOperate is how many events one request changes at most.
	maxOperate = 10_000
	// operateLimit is how long one request changes events. It leaves time for the answer.
	operateLimit = requestLimit - 2*time.Second
)

type operationAnswer struct {
	Operation ops.Operation  `json:"operation"`
	DryRun    bool           `json:"dryRun"`
	Events    []event        `json:"events"` // without their payloads
	Refused   []refusedEvent `json:"refused"`
	More      bool           `json:"more"`
	Stopped   *string        `json:"stopped"`   // why the operation ended early, if it did
	Unplanned int            `json:"unplanned"` // how many successors another program plans
	// RequeuedBefore is how many failed events a requeue left out.
	RequeuedBefore int `json:"requeuedBefore"`
}

type refusedEvent struct {
	EventID uuid.UUID `json:"eventId"`
	Detail  string    `json:"detail"`
}

// operate applies an operation to many events. If it ends early, the answer says why, and
// what was done until then.
func (a *admin) operate(r *http.Request) (reply, error) {
	var bad complaints
	queryOf(r, &bad)
	what, spec, options := operationOf(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	ctx, cancel := context.WithTimeout(r.Context(), operateLimit)
	defer cancel()
	done, err := ops.Operate(ctx, a.scheduler, what, spec, options)
	if len(done.Events)+len(done.Refused) == 0 && err != nil {
		return reply{}, err
	}
	answer := operationAnswer{
		Operation: what, DryRun: options.DryRun, More: done.More || err != nil,
		Unplanned: done.Unplanned, RequeuedBefore: done.RequeuedBefore,
		Events: make([]event, 0, len(done.Events)), Refused: make([]refusedEvent, 0, len(done.Refused)),
	}
	for _, e := range done.Events {
		e.Payload = nil
		answer.Events = append(answer.Events, eventOf(e))
	}
	var unsaid error // the last one, since thousands of events can fail alike
	for _, refusal := range done.Refused {
		p, complete := problemOf(r, refusalOf(what, refusal.Err))
		if !complete {
			unsaid = refusal.Err
		}
		answer.Refused = append(answer.Refused, refusedEvent{refusal.EventID, p.Detail})
	}
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		err = newProblem(http.StatusServiceUnavailable, "the time of a request is over")
	}
	re := reply{status: http.StatusOK, failure: unsaid}
	if err != nil {
		p, complete := problemOf(r, err)
		if answer.Stopped = &p.Detail; !complete && r.Context().Err() == nil {
			re.failure = err
		}
	}
	re.body = answer
	return re, nil
}

// operationOf reads an operation on many events. A request must have a filter, and must say
// whether it is a dry run: an empty body must not change every event.
func operationOf(r *http.Request, bad *complaints) (ops.Operation, almanac.Spec, ops.OperateOptions) {
	var name string
	var spec almanac.And
	var options ops.OperateOptions
	given := takers{
		"operation": takeText(&name),
		"filter":    takeFilter(&spec),
		"dryRun":    takeBool(&options.DryRun),
		"limit":     takeNumber(&options.Limit, maxOperate),
		"reason":    takeText(&options.Cancel.Reason),
		"endSeries": takeBool(&options.Cancel.EndSeries),
		"force":     takeBool(&options.Requeue.Force),
	}.body(r, bad)
	if bad.of["body"] {
		return "", nil, options
	}
	for _, required := range []string{"operation", "filter", "dryRun"} {
		if !given[required] {
			bad.add(required, "is required")
		}
	}
	what := ops.Operation(name)
	options.RunNow.Force = options.Requeue.Force
	cancels := what == ops.Cancel
	switch what {
	case ops.Cancel, ops.RunNow, ops.Requeue:
		for _, field := range []string{"reason", "endSeries"} {
			if given[field] && !cancels {
				bad.add(field, "is only for the operation cancel")
			}
		}
		if given["force"] && cancels {
			bad.add("force", "is only for the operations run-now and requeue")
		}
	default:
		bad.add("operation", "is not one of cancel, run-now, requeue")
	}
	return what, spec, options
}

// takeFilter takes an object with the texts of a filter, at least one of them.
func takeFilter(into *almanac.And) taker {
	return func(m member, bad *complaints) {
		if !isObject(m.value) {
			bad.add(m.name, "must be an object")
			return
		}
		texts, given := make(takers), make(map[string]string)
		for _, name := range []string{"type", "user", "zone", "from", "until", "reason"} {
			texts[name] = takeNonEmpty("is empty", func(text string) { given[name] = text })
		}
		if len(texts.object(m.value, m.name+".", bad)) == 0 {
			bad.add(m.name, "is empty; give at least one of type, user, zone, from, until, reason")
		}
		*into = filterOf(given, m.name+".", bad)
	}
}
