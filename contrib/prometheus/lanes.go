package almanacprom

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/almanac-go/almanac/ops"
)

// mostLanes is how many lanes have metrics.
const mostLanes = 1000

// lanes returns the reading of what waits for lanes.
func (b *Backlog) lanes(describe func(name, help string, labels ...string) *prometheus.Desc) reading {
	waiting := describe("almanac_lane_waiting_events", "Available events that wait for a lane with limits.", "lane")
	age := describe("almanac_lane_oldest_age_seconds", "How long the event that waits longest for the lane has been available; 0 when none waits.", "lane")
	ends := describe("almanac_lane_backlog_seconds", "In how long the last waiting event of the lane starts, estimated from its limits; 0 when none waits. Absent while it waits for a resume.", "lane")
	places := describe("almanac_lane_in_flight_events", "Events that have places of a lane with places.", "lane")
	failing := describe("almanac_lane_failing_seconds", "How long ago the breaker of a lane opened; 0 while it accepts events.", "lane")
	paused := describe("almanac_lane_paused_seconds", "How long ago the lane was paused; 0 while it is not paused.", "lane")
	return reading{"lanes", []*prometheus.Desc{waiting, age, ends, places, failing, paused}, func(ctx context.Context) (metrics []prometheus.Metric, err error) {
		loads, err := b.store.LaneLoads(ctx)
		if err != nil || len(loads) == 0 {
			return nil, err
		}
		now, err := b.store.Now(ctx)
		since := func(t time.Time) float64 {
			if t.IsZero() {
				return 0
			}
			return max(0, now.Sub(t).Seconds())
		}
		for _, l := range busiest(loads) {
			failed := l.Breaker.OpenedAt
			if l.Breaker.Allowed > 1 { // it accepts events
				failed = time.Time{}
			}
			metrics = append(metrics, gaugeOf(waiting, float64(l.Waiting.N), l.Name), gaugeOf(age, since(l.Oldest), l.Name),
				gaugeOf(places, float64(l.InFlight), l.Name), gaugeOf(failing, since(failed), l.Name), gaugeOf(paused, since(l.Pause.Since), l.Name))
			end, waits := ops.LaneEnds(l, ops.LaneIn(loads, l.Name), now)
			switch {
			case !waits:
				metrics = append(metrics, gaugeOf(ends, 0, l.Name))
			case !end.At.IsZero():
				metrics = append(metrics, gaugeOf(ends, max(0, end.At.Sub(now).Seconds()), l.Name))
			}
		}
		return metrics, err
	}}
}

// busiest returns the lanes that have metrics. Those are left out for which least waits, except lanes that are in no
// other one, that are paused, or whose receiver fails.
func busiest(loads []ops.LaneLoad) []ops.LaneLoad {
	if len(loads) <= mostLanes {
		return loads
	}
	rank := func(l ops.LaneLoad) int64 {
		if l.Breaker.Allowed > 0 || l.Pause.Lane != "" || !strings.Contains(l.Name, "/") {
			return math.MaxInt64
		}
		return l.Waiting.N
	}
	loads = slices.Clone(loads)
	slices.SortStableFunc(loads, func(a, b ops.LaneLoad) int { return cmp.Compare(rank(b), rank(a)) })
	return loads[:mostLanes]
}
