package ops

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// LaneLoad is a lane that has limits or a weight, is paused, or whose receiver fails, with what waits for it. Events that wait for a
// lane are not overdue.
type LaneLoad struct {
	almanac.Lane
	// Waiting is the number of PENDING events of the lane that are available, also of the lanes in it. At most 100,000 are
	// counted in a lane, and fewer if many lanes have as many: about 200,000 in all.
	Waiting Count
	// Weights is the sum of the weights of the lanes in this one that have waiting events, plus 1 if the lane has
	// waiting events of its own. They share its room.
	Weights int
	// Oldest is since when the first of the waiting events has been available, UTC. Zero means that none waits.
	Oldest time.Time
	// InFlight is the number of events that have places of the lane. It is zero without a limit of places.
	InFlight int
	// ReadyAt is when the lane has a token, UTC, if that is after the repository's time. Zero means that it
	// has one, or no rate.
	ReadyAt time.Time
	// Today is how many events have started on the present day, by UTC. It is counted for lanes with limits.
	Today int
	// Breaker is that of the lane, without its answers. It is zero unless the receiver fails.
	Breaker almanac.Breaker
	// Pause is that of the lane. It is zero unless the lane is paused.
	Pause almanac.Pause
	// Started is how many events have started in each five minutes of the last hour, newest first. They begin at
	// multiples of five minutes, so the newest ones are not over yet. It is counted for lanes with limits.
	Started [12]int
}

// LaneEstimate is an estimate of when an event starts. It assumes that limits stay, that workers are free, and that no
// event of another lane becomes available meanwhile.
type LaneEstimate struct {
	// At is the estimate, UTC. Zero means that the event does not start until its lane is resumed.
	At time.Time
	// Kind is [AtLeast] if the event may start much later than At: its receiver fails, its lane has a limit of places and
	// nothing has started lately, or not all waiting events were counted. Otherwise it is [Estimated].
	Kind CountKind
}

// LaneWait is what an event waits for: a lane, and the events of the lane that start before it.
type LaneWait struct {
	At     time.Time // the repository's clock, UTC
	Since  time.Time // since when the event has been available, UTC; zero if it waits for no lane
	Lane   LaneLoad  // the event's lane, also without limits
	In     LaneLoad  // the lane that contains it; zero if there is none
	Before Count     // the waiting events of the same lane that start before this one, counted up to 100,000
	// Type is the pause of the event's type. It is zero unless the type is paused.
	Type almanac.Pause
}

// Held reports whether anything holds the event: its lane, the lane that contains it, or its type has limits, is paused, or has
// a receiver that fails.
func (w LaneWait) Held() bool {
	holds := func(l LaneLoad) bool { return l.Limited() || l.Breaker.Allowed > 0 || !l.Pause.Since.IsZero() }
	return holds(w.Lane) || holds(w.In) || !w.Type.Since.IsZero()
}

// Start estimates when the event starts. The second result is false if the event does not wait for a lane.
func (w LaneWait) Start() (LaneEstimate, bool) {
	if w.Since.IsZero() {
		return LaneEstimate{}, false
	}
	is := LaneStart(w.Lane, w.In, w.Before.N+1, w.At)
	if w.Before.Kind == AtLeast && !is.At.IsZero() {
		is.Kind = AtLeast
	}
	return later(is, afterPause(w.Type, w.At)), true
}

// LaneEnds estimates when the last waiting event of a lane starts. in is the lane that contains it, or zero. now is the
// repository's time. The second result is false if no event waits.
func LaneEnds(l, in LaneLoad, now time.Time) (LaneEstimate, bool) {
	if l.Waiting.N == 0 {
		return LaneEstimate{}, false
	}
	is := LaneStart(l, in, l.Waiting.N, now)
	if l.Waiting.Kind == AtLeast && !is.At.IsZero() {
		is.Kind = AtLeast
	}
	return is, true
}

// LaneStart estimates when the n-th of the waiting events of a lane starts, from 1, by all limits of the lane and of the
// lane that contains it: rate, share, number a day, places, pause, and breaker. in is the latter, or zero. now is the
// repository's time.
func LaneStart(l, in LaneLoad, n int64, now time.Time) LaneEstimate {
	n = max(n, 1)
	is := l.start(n, now)
	if in.Name == "" {
		return is
	}
	// The lanes take turns by weight, until the events of a lane have started.
	before := float64(n) * float64(max(in.Weights, 1)) / float64(max(l.Weight, 1))
	place := int64(min(math.Ceil(before), 1e12))
	if in.Waiting.Kind != AtLeast {
		place = min(place, in.Waiting.N)
	}
	return later(is, in.start(max(place, n), now))
}

// LaneIn returns the load of the lane that contains a lane, or zero if there is none among the loads, which are in
// alphabetical order.
func LaneIn(loads []LaneLoad, name string) LaneLoad {
	upper, _, inner := strings.Cut(name, "/")
	i, found := slices.BinarySearchFunc(loads, upper, func(l LaneLoad, name string) int { return strings.Compare(l.Name, name) })
	if !inner || !found {
		return LaneLoad{}
	}
	return loads[i]
}

// later returns the later of two estimates of one event.
func later(a, b LaneEstimate) LaneEstimate {
	switch {
	case a.At.IsZero() || b.At.IsZero():
		return LaneEstimate{Kind: Estimated}
	case b.At.After(a.At):
		a.At = b.At
	}
	if b.Kind == AtLeast {
		a.Kind = AtLeast
	}
	return a
}

// afterPause returns the end of a pause, or now.
func afterPause(p almanac.Pause, now time.Time) LaneEstimate {
	is := LaneEstimate{now, Estimated}
	if !p.Since.IsZero() {
		is.At = p.Until
	}
	return is
}

// start estimates when the n-th event starts that takes room of the lane.
func (l LaneLoad) start(n int64, now time.Time) LaneEstimate {
	is := afterPause(l.Pause, now)
	if is.At.IsZero() {
		return is
	}
	if l.Breaker.Allowed > 0 {
		is = later(is, LaneEstimate{latest(is.At, l.Breaker.RetryAt), AtLeast})
	}
	opens := is.At
	if l.Rate > 0 {
		is.At = l.paced(opens, n, now)
	}
	if l.Daily > 0 {
		is.At = latest(is.At, l.onItsDay(opens, n, now))
	}
	if l.Places > 0 && n > int64(l.Places-l.InFlight) {
		if lately := l.lately(now); lately > 0 {
			is.At = latest(is.At, opens.Add(seconds(float64(n)/lately)))
		} else if l.Rate == 0 {
			is.Kind = AtLeast
		}
	}
	return is
}

// paced returns when the lane has its n-th token, if events start as soon as the lane opens.
func (l LaneLoad) paced(opens time.Time, n int64, now time.Time) time.Time {
	first := latest(l.ReadyAt, now)
	if full := opens.Add(-seconds(float64(l.Burst-1) / l.Rate)); full.After(first) { // tokens that come later are lost
		first = full
	}
	return latest(opens, first.Add(seconds(float64(n-1)/l.Rate)))
}

// onItsDay returns when the n-th event may start, by the number of a day.
func (l LaneLoad) onItsDay(opens time.Time, n int64, now time.Time) time.Time {
	day := opens.UTC().Truncate(24 * time.Hour)
	left := int64(l.Daily)
	if day.Equal(now.UTC().Truncate(24 * time.Hour)) {
		left = max(0, left-int64(l.Today))
	}
	if n <= left {
		return opens
	}
	n -= left + 1
	at := day.Add(seconds(float64(n/int64(l.Daily)+1) * 86400))
	if l.Rate > 0 {
		at = at.Add(seconds(float64(n%int64(l.Daily)) / l.Rate))
	}
	return at
}

// lately returns how many events have started in a second, in the last ten to fifteen minutes.
func (l LaneLoad) lately(now time.Time) float64 {
	n := l.Started[0] + l.Started[1] + l.Started[2]
	return float64(n) / (600 + float64(now.Unix()%300))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// seconds returns a duration, at most a hundred years.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 100*365*86400) * float64(time.Second))
}
