package almanactest

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// lane is a lane with limits.
type lane struct {
	almanac.Lane
	full time.Time // when all tokens of the rate are there again
	day  time.Time // of the last claim, by UTC; the day after it if the clock was set back since
	used int       // how many events have started on it
	eve  int       // and on the day before
	slot int64     // the five minutes of the last claim, counted from 1970
	hour [12]int   // how many events have started in them, and in those before
}

// lanes is what a repository has of lanes.
type lanes struct {
	pauses     map[string]almanac.Pause   // the last one of each event type; without its beginning if the type was resumed
	limits     map[string]lane            // by name
	breakers   map[string]almanac.Breaker // by name
	passes     map[string]float64         // how much of their room lanes have had, divided by their weights
	broadcasts map[string]broadcasted     // by name; each has a lane
	claims     int                        // beside lanes with limits
	first      int                        // which of the types of a claim begins
	seen       time.Time                  // what the clock showed at the last claim
}

// tokens returns how long n tokens take.
func (l lane) tokens(n float64) time.Duration {
	if l.Rate == 0 {
		return 0
	}
	return time.Duration(min(math.Ceil(n/l.Rate*1e6), 1e15)) * time.Microsecond
}

// upperOf returns the name of the lane that a lane is in, or its own if it is in none.
func upperOf(name string) string {
	upper, _, _ := strings.Cut(name, "/")
	return upper
}

// lanesOf returns the names of the lanes of an event: its own, and the one that it is in.
func lanesOf(e almanac.Event) []string {
	switch upper := upperOf(e.Lane); {
	case e.Lane == "":
		return []string{e.Type}
	case upper != e.Lane:
		return []string{e.Lane, upper}
	}
	return []string{e.Lane}
}

// ofLanes reports whether an event is of a lane with limits, with a breaker that is not closed, or with a name.
func (s *state) ofLanes(e almanac.Event) bool {
	_, limited := s.limits[e.Type]
	return limited || s.breakers[e.Type].Allowed > 0 || e.Lane != ""
}

// room returns how many events of a lane may start now.
func (s *state) room(name string, now time.Time) int {
	room := math.MaxInt32
	if s.paused(name, now) {
		return 0
	}
	l := s.limits[name]
	if l.Rate > 0 {
		room = int(math.Floor(float64(l.Burst) - l.Rate*max(0, l.full.Sub(now).Seconds())))
	}
	if l.Places > 0 {
		room = min(room, l.Places-s.inFlight(name, time.Time{}))
	}
	if l.Daily > 0 {
		room = min(room, l.Daily-l.today(now))
	}
	if b := s.breakers[name]; b.RetryAt.After(now) && !b.RetryAt.After(now.Add(61*time.Minute)) {
		return 0
	} else if b.Allowed > 0 {
		room = min(room, b.Allowed-s.inFlight(name, b.OpenedAt))
	}
	return max(0, room)
}

// dayOf is the beginning of a day by UTC.
func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

const oneDay = 24 * time.Hour

// today returns how many events have started on the day.
func (l lane) today(now time.Time) int {
	switch l.day.Sub(dayOf(now)) {
	case 0:
		return l.used
	case oneDay:
		return l.eve
	}
	return 0
}

// start counts events that start on a day.
func (l *lane) start(n int, now time.Time) {
	switch today := dayOf(now); l.day.Sub(today) {
	case 0:
		l.used += n
	case oneDay: // the clock was set back
		l.eve += n
	case -oneDay:
		l.day, l.eve, l.used = today, l.used, n
	default:
		l.day, l.eve, l.used = today, 0, n
	}
}

// lastHour returns how many events have started in each five minutes, the present ones first.
func (l lane) lastHour(now time.Time) (slot int64, hour [12]int) {
	slot = now.Unix() / 300
	if passed := slot - l.slot; 0 <= passed && passed < 12 { // or the clock was set
		copy(hour[passed:], l.hour[:])
	}
	return slot, hour
}

// readyAt returns when the lanes of an event have room for a tenth of a second, or half of their bursts, or may have a
// place.
func (s *state) readyAt(e almanac.Event, now time.Time) time.Time {
	ready := now
	later := func(at time.Time) {
		if at.After(ready) {
			ready = at
		}
	}
	for _, name := range lanesOf(e) {
		l := s.limits[name]
		if l.Rate > 0 {
			enough := max(1, min(float64(l.Burst)/2, l.Rate/10))
			later(l.full.Add(-l.tokens(float64(l.Burst) - enough)))
		}
		if l.Daily > 0 && l.today(now) >= l.Daily {
			later(dayOf(now).Add(24 * time.Hour))
		}
		b := s.breakers[name]
		later(b.RetryAt)
		if l.Places > 0 && s.inFlight(name, time.Time{}) >= l.Places || b.Allowed > 0 && s.inFlight(name, b.OpenedAt) >= b.Allowed {
			later(now.Add(500 * time.Millisecond))
		}
		switch end := s.pauses[name].Until; {
		case !s.paused(name, now):
		case end.IsZero():
			later(now.AddDate(1, 0, 0))
		default:
			later(end)
		}
	}
	return ready
}

// inTurn returns those of the free events, which are in the order in which they became available, that a claim takes:
// of each type as many, if there are. It also returns what the next claim need not search, which ends with the type
// that is behind the others.
func (s *state) inTurn(free []almanac.Event, limit int) (taken []almanac.Event, reached time.Time) {
	nth, types := make(map[uuid.UUID]int), make(map[string][]almanac.Event)
	for _, e := range free {
		nth[e.ID] = len(types[e.Type])
		types[e.Type] = append(types[e.Type], e)
	}
	names := slices.Sorted(maps.Keys(types))
	if len(free) > limit && limit > 0 {
		s.first++
		slices.SortStableFunc(free, func(a, b almanac.Event) int {
			turn := func(e almanac.Event) int { return (slices.Index(names, e.Type) + s.first) % len(names) }
			return cmp.Or(cmp.Compare(nth[a.ID], nth[b.ID]), cmp.Compare(turn(a), turn(b)))
		})
	}
	taken = free[:min(limit, len(free))]
	if len(taken) == 0 {
		return nil, time.Time{}
	}
	for _, e := range taken {
		if e.AvailableAt.After(reached) {
			reached = e.AvailableAt
		}
	}
	for _, e := range free[len(taken):] {
		if first := types[e.Type][max(0, nth[e.ID]-1)].AvailableAt; first.Before(reached) {
			reached = first
		}
	}
	return taken, reached
}

// turn is an event that waits, with what decides whose turn it is.
type turn struct {
	almanac.Event
	pass float64
	rank int // among the events of lanes in one lane
}

// clockSetBack makes each bucket full no later than if it were emptied now, with the longest look-ahead. If the clock was
// set back since the last claim, breakers count from now on, and admit what they allow at once.
func (s *state) clockSetBack(now time.Time, longest time.Duration) {
	if back := s.seen.Sub(now); back > time.Second {
		for name, b := range s.breakers {
			if b.Allowed > 0 {
				if b.RetryAt, b.OpenedAt = now, b.OpenedAt.Add(-back); b.OpenedAt.After(now) {
					b.OpenedAt = now
				}
				set(&s.undo, s.breakers, name, b)
			}
		}
	}
	s.seen = now
	for name, l := range s.limits {
		if empty := now.Add(longest + l.tokens(float64(l.Burst))); l.full.After(empty) {
			l.full = empty
			set(&s.undo, s.limits, name, l)
		}
	}
}

// admitted returns those of the events that their lanes have room for, and takes the tokens. The events are of lanes
// with limits or names, in the order in which they became available. The room of a lane is shared among the lanes in
// it: the next event is that of the lane with the least pass, which is how much it has had. A new lane begins with the
// pass whose turn it is.
func (s *state) admitted(events []almanac.Event, limit int, now time.Time) []almanac.Event {
	turns := s.turns(events)
	room, taken := make(map[string]int), make(map[string][]almanac.Event)
	var admitted []almanac.Event
	for _, t := range turns {
		names := lanesOf(t.Event)
		full := slices.ContainsFunc(names, func(name string) bool {
			if _, known := room[name]; !known {
				room[name] = s.room(name, now)
			}
			return room[name] == 0
		})
		if full || len(admitted) == limit {
			continue
		}
		for _, name := range names {
			room[name]--
			taken[name] = append(taken[name], t.Event)
		}
		set(&s.undo, s.passes, turnIn(names[0]), max(t.pass, s.passes[turnIn(names[0])]))
		set(&s.undo, s.passes, names[0], t.pass+1/float64(max(1, s.limits[names[0]].Weight)))
		admitted = append(admitted, t.Event)
	}
	for name, of := range taken {
		s.take(name, of, now)
	}
	return admitted
}

// turnIn is the key of the pass whose turn it is among the lanes that are in the same one.
func turnIn(name string) string { return upperOf(name) + "/" }

// turns returns events in the order of their turns.
func (s *state) turns(events []almanac.Event) (turns []turn) {
	of := make(map[string]int)
	for _, e := range events {
		name := lanesOf(e)[0]
		pass := max(s.passes[name], s.passes[turnIn(name)]) + float64(of[name])/float64(max(1, s.limits[name].Weight))
		of[name]++
		turns = append(turns, turn{Event: e, pass: pass})
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(a.pass, b.pass) })
	ranks := make(map[string]int)
	for i := range turns {
		upper := upperOf(lanesOf(turns[i].Event)[0])
		turns[i].rank = ranks[upper]
		ranks[upper]++
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Or(cmp.Compare(a.rank, b.rank), a.AvailableAt.Compare(b.AvailableAt)) })
	return turns
}

// take takes the tokens of events from a lane, as if each had taken its token at its instant.
func (s *state) take(name string, events []almanac.Event, now time.Time) {
	l, limited := s.limits[name]
	if !limited {
		return
	}
	slices.SortFunc(events, func(a, b almanac.Event) int { return a.AvailableAt.Compare(b.AvailableAt) })
	full := l.full
	if full.Before(now) {
		full = now
	}
	for i, e := range events {
		if paced := e.AvailableAt.Add(-l.tokens(float64(i))); paced.After(full) {
			full = paced
		}
	}
	l.full = full.Add(l.tokens(float64(len(events))))
	l.start(len(events), now)
	l.slot, l.hour = l.lastHour(now)
	l.hour[0] += len(events)
	set(&s.undo, s.limits, name, l)
}

// PutLane stores the limits of a lane.
func (r *Repository) PutLane(ctx context.Context, l almanac.Lane) error {
	return r.transact(ctx, func(now time.Time) error {
		if l == (almanac.Lane{Name: l.Name}) {
			remove(&r.undo, r.limits, l.Name)
			return nil
		}
		if r.limits[l.Name].Lane == l {
			return nil
		}
		one := r.limits[l.Name]
		one.Lane = l
		one.full = now.Add(one.tokens(float64(l.Burst)))
		set(&r.undo, r.limits, l.Name, one)
		return nil
	})
}

// Report changes the breaker of a lane, and pauses the lane if the breaker says so.
func (r *Repository) Report(ctx context.Context, lane string, change func(almanac.Breaker, time.Time) almanac.Breaker) (is almanac.Breaker, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		is = change(r.breakers[lane], now)
		stored := is
		if stored.Pause = ""; is.Allowed == 0 && is.Answers == nil {
			remove(&r.undo, r.breakers, lane)
		} else {
			set(&r.undo, r.breakers, lane, stored)
		}
		if r.paused(lane, now) {
			is = stored
		} else if is.Pause != "" {
			set(&r.undo, r.pauses, lane, almanac.Pause{Lane: lane, Reason: is.Pause, Author: "breaker", Since: now})
		}
		return nil
	})
	return is, err
}

// Lanes returns the lanes with limits or a weight, in the order of their names.
func (r *Repository) Lanes(ctx context.Context) (lanes []almanac.Lane, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, name := range slices.Sorted(maps.Keys(r.limits)) {
			lanes = append(lanes, r.limits[name].Lane)
		}
		return nil
	})
	return lanes, err
}
