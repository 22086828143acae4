package command

import (
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// eventLane is the lane of an event, and what it waits for there.
type eventLane struct {
	Lane string         `json:"lane,omitempty"` // unless it is that of the type
	Wait *eventLaneWait `json:"wait,omitempty"` // missing unless the event waits for its lane
}

// eventLaneWait is what an event waits for, and when it starts by an estimate.
type eventLaneWait struct {
	Lane    string     `json:"lane"`
	Since   time.Time  `json:"since"`                 // UTC
	Before  string     `json:"before"`                // how many events of the lane start before it, such as 100,000+
	Starts  *time.Time `json:"starts,omitempty"`      // UTC; missing while it waits for a resume
	AtLeast bool       `json:"startsLater,omitempty"` // whether it may start much later than that
	Paused  string     `json:"paused,omitempty"`      // the type or the lane that is paused
	Failing *time.Time `json:"failingSince,omitempty"`
	now     time.Time
}

func laneWaitOf(e almanac.Event, w ops.LaneWait) eventLane {
	start, waits := w.Start()
	if !waits {
		return eventLane{Lane: e.Lane}
	}
	is := eventLaneWait{
		Lane: w.Lane.Name, Since: w.Since, Before: w.Before.String(), Starts: unlessZero(start.At), AtLeast: start.Kind == ops.AtLeast, now: w.At,
	}
	for _, p := range []almanac.Pause{w.Lane.Pause, w.In.Pause, w.Type} {
		if p.Lane != "" {
			is.Paused = p.Lane
		}
	}
	for _, b := range []almanac.Breaker{w.Lane.Breaker, w.In.Breaker} {
		if b.Allowed > 0 {
			is.Failing = unlessZero(b.OpenedAt)
		}
	}
	return eventLane{e.Lane, &is}
}

// lines are the rows of a report.
func (l eventLane) lines() (lines [][2]string) {
	if l.Lane != "" {
		lines = append(lines, [2]string{"lane", printable(l.Lane)})
	}
	if l.Wait == nil {
		return lines
	}
	w := *l.Wait
	why := "waits in lane " + printable(w.Lane) + " since " + instantText(w.Since) + ", " + w.Before + " before it"
	if w.Paused != "" {
		why += "; " + printable(w.Paused) + " is paused"
	}
	if w.Failing != nil {
		why += "; its receiver fails since " + instantText(*w.Failing)
	}
	starts := "when " + printable(w.Paused) + " is resumed"
	switch {
	case w.Starts == nil:
	case w.AtLeast:
		starts = "not before " + instantText(w.Starts.Truncate(time.Second))
	case w.Starts.After(w.now):
		starts = "about " + instantText(w.Starts.Truncate(time.Second))
	default:
		starts = "now: the lane has room"
	}
	return append(lines, [2]string{"waits", why}, [2]string{"expected to start", starts})
}
