package almanactest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// LaneLoads returns the lanes that have limits or a weight, are paused, or whose receiver fails, with what waits for
// them.
func (r *Repository) LaneLoads(ctx context.Context) (loads []ops.LaneLoad, err error) {
	err = r.read(ctx, func(now time.Time) error {
		names := slices.Collect(maps.Keys(r.limits))
		for name, b := range r.breakers {
			if b.Allowed > 0 {
				names = append(names, name)
			}
		}
		for name := range r.pauses {
			if r.paused(name, now) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			loads = append(loads, r.load(name, now))
		}
		return nil
	})
	return loads, err
}

// load returns a lane with what waits for it.
func (s *state) load(name string, now time.Time) ops.LaneLoad {
	l := s.limits[name]
	load := ops.LaneLoad{Lane: l.Lane, Breaker: s.breakers[name], Today: l.today(now), Pause: s.pauseOf(name, now)}
	load.Name, load.Breaker.Answers = name, nil
	if load.Breaker.Allowed == 0 {
		load.Breaker = almanac.Breaker{}
	}
	_, load.Started = l.lastHour(now)
	weights := make(map[string]int) // of the lanes in this one that have waiting events
	for _, e := range s.events {
		names := lanesOf(e)
		if !slices.Contains(names, name) || e.Status != almanac.Pending || e.AvailableAt.After(now) {
			continue
		}
		weights[names[0]] = 1
		if names[0] != name {
			weights[names[0]] = max(1, s.limits[names[0]].Weight)
		}
		load.Waiting.N++
		if load.Oldest.IsZero() || e.AvailableAt.Before(load.Oldest) {
			load.Oldest = e.AvailableAt
		}
	}
	for _, weight := range weights {
		load.Weights += weight
	}
	if l.Places > 0 {
		load.InFlight = s.inFlight(name, time.Time{})
	} else if load.Breaker.Allowed > 0 {
		load.InFlight = s.inFlight(name, load.Breaker.OpenedAt)
	}
	if l.Rate > 0 {
		if ready := l.full.Add(-l.tokens(float64(l.Burst - 1))); ready.After(now) {
			load.ReadyAt = ready
		}
	}
	return load
}

// pauseOf returns the pause of a lane, or zero if it is not paused.
func (s *state) pauseOf(name string, now time.Time) almanac.Pause {
	if p, is := s.pauses[name]; is && (p.Until.IsZero() || p.Until.After(now)) {
		return p
	}
	return almanac.Pause{}
}

// LaneWait returns what a PENDING event that is available waits for.
func (r *Repository) LaneWait(ctx context.Context, e almanac.Event) (wait ops.LaneWait, err error) {
	err = r.read(ctx, func(now time.Time) error {
		stored, known := r.events[e.ID]
		if !known || stored.Status != almanac.Pending || e.Status != almanac.Pending || !stored.AvailableAt.Equal(e.AvailableAt) || e.AvailableAt.After(now) {
			return nil
		}
		names := lanesOf(stored)
		is := ops.LaneWait{At: now, Since: stored.AvailableAt, Lane: r.load(names[0], now), Type: r.pauseOf(stored.Type, now)}
		if len(names) > 1 {
			is.In = r.load(names[1], now)
		}
		for _, other := range r.events {
			sooner := other.AvailableAt.Before(stored.AvailableAt) ||
				other.AvailableAt.Equal(stored.AvailableAt) && strings.Compare(other.ID.String(), stored.ID.String()) < 0
			if other.Status == almanac.Pending && sooner && lanesOf(other)[0] == names[0] {
				is.Before.N++
			}
		}
		if is.Held() {
			wait = is
		}
		return nil
	})
	return wait, err
}
