package httpapi

import (
	"math"
	"net/http"

	"github.com/almanac-go/almanac"
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
}

func (a *admin) lanes(r *http.Request) (reply, error) {
	var bad complaints
	if queryOf(r, &bad); bad.any() {
		return reply{}, bad.problem()
	}
	stored, err := a.scheduler.Lanes(r.Context())
	answer := lanesAnswer{Lanes: make([]lane, 0, len(stored))}
	for _, l := range stored {
		answer.Lanes = append(answer.Lanes, lane(l))
	}
	return reply{status: http.StatusOK, body: answer}, err
}

func (a *admin) putLane(r *http.Request) (reply, error) {
	var bad complaints
	l := almanac.Lane{Name: laneOf(r, &bad)}
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
	l := almanac.Lane{Name: laneOf(r, &bad)}
	if bad.any() {
		return reply{}, bad.problem()
	}
	return reply{status: http.StatusNoContent}, a.scheduler.SetLane(r.Context(), l)
}
