package httpapi

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

type lanesAnswer struct {
	Lanes []lane `json:"lanes"`
}

type lane struct {
	Name   string  `json:"name"`
	Rate   float64 `json:"rate,omitempty"` // 0 and the member is missing without that limit
	Burst  int     `json:"burst,omitempty"`
	Places int     `json:"places,omitempty"`
	Daily  int     `json:"daily,omitempty"`
	Weight int     `json:"weight,omitempty"`

	Load *laneLoad `json:"load,omitempty"`
}

// laneLoad is what waits for a lane, and what has started.
type laneLoad struct {
	waitingCount
	Oldest          *instant  `json:"oldest,omitempty"`   // since when the first event has waited
	InFlight        *int      `json:"inFlight,omitempty"` // with places alone
	StartedToday    *int      `json:"startedToday,omitempty"`
	StartedLastHour int       `json:"startedLastHour"`
	Ends            *estimate `json:"ends,omitempty"` // when the last waiting event starts
	holds
}

// waitingCount is how many events wait.
type waitingCount struct {
	Waiting int64 `json:"waiting"`
	More    bool  `json:"more,omitempty"` // whether there may be more
}

// estimate is when an event starts, by an estimate.
type estimate struct {
	At      *instant `json:"at,omitempty"`      // missing until a resume
	AtLeast bool     `json:"atLeast,omitempty"` // whether it may start much later
}

func estimateOf(e ops.LaneEstimate, waits bool) *estimate {
	if !waits {
		return nil
	}
	return &estimate{instantOrNil(e.At), e.Kind == ops.AtLeast}
}

// holds is what holds the events of lanes, besides their limits.
type holds struct {
	Paused  string   `json:"paused,omitempty"`       // a lane, or the type
	Failing *instant `json:"failingSince,omitempty"` // of the receiver
	RetryAt *instant `json:"retryAt,omitempty"`      // when an event is tried next, while the receiver fails
}

func (h holds) with(p almanac.Pause, b almanac.Breaker) holds {
	if p.Lane != "" {
		h.Paused = p.Lane
	}
	if b.Allowed > 0 {
		h.Failing, h.RetryAt = instantOrNil(b.OpenedAt), instantOrNil(b.RetryAt)
	}
	return h
}

func instantOrNil(t time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	at := instant(t)
	return &at
}

func loadOf(l ops.LaneLoad, loads []ops.LaneLoad, now time.Time) *laneLoad {
	is := laneLoad{
		waitingCount: waitingCount{l.Waiting.N, l.Waiting.Kind == ops.AtLeast}, Oldest: instantOrNil(l.Oldest),
		Ends: estimateOf(ops.LaneEnds(l, ops.LaneIn(loads, l.Name), now)), holds: holds{}.with(l.Pause, l.Breaker),
	}
	if l.Places > 0 {
		is.InFlight = &l.InFlight
	}
	if l.Daily > 0 {
		is.StartedToday = &l.Today
	}
	for _, n := range l.Started {
		is.StartedLastHour += n
	}
	return &is
}

// laneReader is what a reader may have in addition, as a store does: what waits for lanes.
type laneReader interface {
	LaneLoads(ctx context.Context) ([]ops.LaneLoad, error)
	LaneWait(ctx context.Context, e almanac.Event) (ops.LaneWait, error)
}

// eventDetail is an event with its lane, and what it waits for.
type eventDetail struct {
	Event event      `json:"event"`
	Lane  string     `json:"lane,omitempty"` // unless it is that of the type
	Wait  *eventWait `json:"wait,omitempty"` // missing unless the event waits for its lane
}

// eventWait is what an event waits for.
type eventWait struct {
	Lane  string  `json:"lane"`
	Since instant `json:"since"`
	waitingCount
	Starts *estimate `json:"starts"`
	holds
}

// event answers with an event, and what it waits for if the reader knows.
func (a *admin) event(r *http.Request) (reply, error) {
	e, err := a.eventOf(r)
	if err != nil {
		return reply{}, err
	}
	answer := eventDetail{Event: eventOf(e), Lane: e.Lane}
	if lanes, knows := a.reader.(laneReader); knows {
		w, err := lanes.LaneWait(r.Context(), e)
		if err != nil {
			return reply{}, err
		}
		if start, waits := w.Start(); waits {
			answer.Wait = &eventWait{
				w.Lane.Name, instant(w.Since), waitingCount{w.Before.N, w.Before.Kind == ops.AtLeast}, estimateOf(start, true),
				holds{}.with(w.Lane.Pause, w.Lane.Breaker).with(w.In.Pause, w.In.Breaker).with(w.Type, almanac.Breaker{}),
			}
		}
	}
	return reply{status: http.StatusOK, body: answer}, nil
}

func (a *admin) lanes(r *http.Request) (reply, error) {
	var bad complaints
	if queryOf(r, &bad); bad.any() {
		return reply{}, bad.problem()
	}
	answer := lanesAnswer{Lanes: []lane{}}
	if lanes, knows := a.reader.(laneReader); knows {
		loads, err := lanes.LaneLoads(r.Context())
		if err != nil {
			return reply{}, err
		}
		now, err := a.reader.Now(r.Context())
		for _, l := range loads {
			answer.Lanes = append(answer.Lanes, laneOf(l.Lane, loadOf(l, loads, now)))
		}
		return reply{status: http.StatusOK, body: answer}, err
	}
	stored, err := a.scheduler.Lanes(r.Context())
	for _, l := range stored {
		answer.Lanes = append(answer.Lanes, laneOf(l, nil))
	}
	return reply{status: http.StatusOK, body: answer}, err
}

func laneOf(l almanac.Lane, load *laneLoad) lane {
	return lane{l.Name, l.Rate, l.Burst, l.Places, l.Daily, l.Weight, load}
}

func (a *admin) putLane(r *http.Request) (reply, error) {
	var bad complaints
	l := almanac.Lane{Name: laneIn(r, &bad)}
	takers{
		"rate":   takeFloat(&l.Rate),
		"burst":  takeNumber(&l.Burst, math.MaxInt32),
		"places": takeNumber(&l.Places, math.MaxInt32),
		"daily":  takeNumber(&l.Daily, math.MaxInt32),
		"weight": takeNumber(&l.Weight, math.MaxInt32),
	}.body(r, &bad)
	if !bad.any() && !l.Limited() && l.Weight == 0 {
		bad.add("rate", "or places, daily or weight is required")
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	return reply{status: http.StatusNoContent}, a.scheduler.SetLane(r.Context(), l)
}

func (a *admin) removeLane(r *http.Request) (reply, error) {
	var bad complaints
	l := almanac.Lane{Name: laneIn(r, &bad)}
	if bad.any() {
		return reply{}, bad.problem()
	}
	return reply{status: http.StatusNoContent}, a.scheduler.SetLane(r.Context(), l)
}
