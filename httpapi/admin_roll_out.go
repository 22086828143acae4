package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

type rollOutAnswer struct {
	Type         string           `json:"type"`
	DryRun       bool             `json:"dryRun"`
	Counts       rollOutCounts    `json:"counts"`
	Moves        []rollOutMoves   `json:"moves"`
	Examples     []rollOutExample `json:"examples"`
	Refused      []refusedUser    `json:"refused"`
	RefusedUsers int              `json:"refusedUsers"`
	Stopped      *string          `json:"stopped"` // why the roll-out ended early, if it did
	NextCursor   *almanac.Cursor  `json:"nextCursor"`
}

type rollOutCounts struct {
	Users     int `json:"users"`
	Unchanged int `json:"unchanged"`
	Refreshed int `json:"refreshed"`
	Moved     int `json:"moved"`
	DueNow    int `json:"dueNow"`
	Added     int `json:"added"`
	Removed   int `json:"removed"`
	Passed    int `json:"passed"`
	Cancelled int `json:"cancelled"`
	SameDay   int `json:"sameDay"`
	LeftOut   int `json:"leftOut"`
	InFlight  int `json:"inFlight"`
}

type rollOutMoves struct {
	UpTo    *int64 `json:"upToSeconds"` // null without a bound
	Earlier int    `json:"earlier"`
	Later   int    `json:"later"`
}

type rollOutExample struct {
	UserID        uuid.UUID `json:"userId"`
	OccurrenceKey string    `json:"occurrenceKey"`
	Was           *instant  `json:"was"`
	Is            *instant  `json:"is"`
}

// rollOut replans the events of a type, for as long as a request may take.
func (a *admin) rollOut(r *http.Request) (reply, error) {
	var bad complaints
	queryOf(r, &bad)
	eventType, options := rollOutOf(r, &bad)
	if bad.any() {
		return reply{}, bad.problem()
	}
	ctx, cancel := context.WithTimeout(r.Context(), operateLimit)
	defer cancel()
	done, err := ops.RollOut(ctx, a.scheduler, eventType, options)
	if errors.Is(err, almanac.ErrUnsupportedEventType) {
		bad.add("type", "has no handler in this program")
		return reply{}, bad.problem()
	}
	if done.Users+done.RefusedUsers == 0 && err != nil {
		return reply{}, err
	}
	answer := rollOutAnswer{Type: eventType, DryRun: options.DryRun, RefusedUsers: done.RefusedUsers, Refused: []refusedUser{}}
	answer.count(done)
	if done.Next != "" {
		answer.NextCursor = &done.Next
	}
	re := reply{status: http.StatusOK}
	for _, refusal := range done.Refused {
		p, complete := problemOf(r, refusal.Err)
		if !complete {
			re.failure = refusal.Err
		}
		answer.Refused = append(answer.Refused, refusedUser{refusal.UserID, p.Detail})
	}
	if err != nil && ctx.Err() != nil && r.Context().Err() == nil {
		err = newProblem(http.StatusServiceUnavailable, "the time of a request is over")
	}
	if err != nil {
		p, complete := problemOf(r, err)
		if answer.Stopped = &p.Detail; !complete && r.Context().Err() == nil {
			re.failure = err
		}
	}
	re.body = answer
	return re, nil
}

// count takes over the counts and the examples of a result.
func (a *rollOutAnswer) count(done ops.RollOutResult) {
	c := done.RollOutCounts
	a.Counts = rollOutCounts{c.Users, c.Unchanged, c.Refreshed, c.Moved(), c.DueNow, c.Added, c.Removed, c.Passed, c.Cancelled, c.SameDay, c.LeftOut, c.InFlight}
	bounds := ops.MoveBounds()
	for i, bound := range bounds {
		moves := rollOutMoves{Earlier: c.Earlier[i], Later: c.Later[i]}
		if seconds := int64(bound / time.Second); i < len(bounds)-1 {
			moves.UpTo = &seconds
		}
		a.Moves = append(a.Moves, moves)
	}
	a.Examples = make([]rollOutExample, 0, len(done.Examples))
	for _, one := range done.Examples {
		e := one.Is
		if e.ID == uuid.Nil {
			e = one.Was
		}
		a.Examples = append(a.Examples, rollOutExample{e.UserID, e.OccurrenceKey, dueOf(one.Was), dueOf(one.Is)})
	}
}

// dueOf returns when an event is due, or nil if there is none.
func dueOf(e almanac.Event) *instant {
	if e.ID == uuid.Nil {
		return nil
	}
	due := instant(e.Due)
	return &due
}

// rollOutOf reads a roll-out. A request must say whether it is a dry run: an empty body must not change events.
func rollOutOf(r *http.Request, bad *complaints) (eventType string, options ops.RollOutOptions) {
	var cursor, passed string
	given := takers{
		"type":   takeNonEmpty("is empty", func(text string) { eventType = text }),
		"dryRun": takeBool(&options.DryRun),
		"passed": takeText(&passed),
		"rate":   takeNumber(&options.Rate, 1_000_000),
		"cursor": takeText(&cursor),
	}.body(r, bad)
	if bad.of["body"] {
		return "", options
	}
	for _, required := range []string{"type", "dryRun"} {
		if !given[required] {
			bad.add(required, "is required")
		}
	}
	switch passed {
	case "", "edit":
	case "now":
		options.Passed = almanac.PassedNow
	case "skip":
		options.Passed = almanac.PassedSkip
	default:
		bad.add("passed", "is not one of edit, now, skip")
	}
	options.After = almanac.Cursor(cursor)
	if _, _, err := (almanac.Page{After: options.After}).Bounds(); err != nil {
		bad.add("cursor", "is not a cursor of an earlier answer")
	}
	return eventType, options
}
