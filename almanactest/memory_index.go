package almanactest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// index finds stored events without a look at all of them. So a claim costs about as much as the events that it may
// take, and not as much as all that wait.
type index struct {
	order  []uuid.UUID                    // the events in order of creation
	queues map[queue][]position           // the PENDING events, in the order in which they became available
	busy   map[uuid.UUID]bool             // the events in flight
	hidden map[uuid.UUID]bool             // the users who are deleted and still stored
	open   map[series]int                 // how many events of a series have not ended
	keys   map[almanac.IdempotencyKey]int // how many events have an idempotency key
}

// queue is the events of a type that are in one lane; "" is that of the type.
type queue struct{ eventType, lane string }

// position is the place of an event in its queue.
type position struct {
	at time.Time
	id uuid.UUID
}

func newIndex() index {
	return index{
		queues: make(map[queue][]position), busy: make(map[uuid.UUID]bool), hidden: make(map[uuid.UUID]bool),
		open: make(map[series]int), keys: make(map[almanac.IdempotencyKey]int),
	}
}

func (p position) compare(other position) int {
	return cmp.Or(p.at.Compare(other.at), compareIDs(p.id, other.id))
}

// sample is an event of a queue, for what depends on its lane alone.
func (q queue) sample() almanac.Event { return almanac.Event{Type: q.eventType, Lane: q.lane} }

// store stores an event.
func (s *state) store(e almanac.Event) {
	was, had := s.events[e.ID]
	set(&s.undo, s.events, e.ID, e)
	if had {
		s.count(was, -1)
	} else {
		s.enter(e.ID)
	}
	s.count(e, 1)
	s.undo = append(s.undo, func() {
		if s.count(e, -1); had {
			s.count(was, 1)
		} else {
			s.leave(e.ID)
		}
	})
}

// forget removes an event.
func (s *state) forget(id uuid.UUID) {
	was, had := s.events[id]
	if !had {
		return
	}
	s.countRemoved(was)
	remove(&s.undo, s.events, id)
	s.count(was, -1)
	s.leave(id)
	s.undo = append(s.undo, func() {
		s.enter(id)
		s.count(was, 1)
	})
}

func (x *index) enter(id uuid.UUID) {
	i, found := slices.BinarySearchFunc(x.order, id, compareIDs)
	mustAgree(!found, id)
	x.order = slices.Insert(x.order, i, id)
}

func (x *index) leave(id uuid.UUID) {
	i, found := slices.BinarySearchFunc(x.order, id, compareIDs)
	mustAgree(found, id)
	x.order = slices.Delete(x.order, i, i+1)
}

// mustAgree panics unless the index agrees with the stored events. Otherwise it would lose another event.
func mustAgree(agrees bool, id uuid.UUID) {
	if !agrees {
		panic(fmt.Sprintf("almanactest: the index of the repository is wrong about event %s", id))
	}
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// count adds an event to the index, or removes it if n is -1.
func (x *index) count(e almanac.Event, n int) {
	tally(x.keys, e.IdempotencyKey, n)
	if e.Status.Terminal() {
		return
	}
	tally(x.open, seriesOf(e), n)
	if e.Status == almanac.Processing {
		mustAgree(x.busy[e.ID] == (n < 0), e.ID)
		if delete(x.busy, e.ID); n > 0 {
			x.busy[e.ID] = true
		}
		return
	}
	in, at := queue{e.Type, e.Lane}, position{e.AvailableAt, e.ID}
	places := x.queues[in]
	i, found := slices.BinarySearchFunc(places, at, position.compare)
	mustAgree(found == (n < 0), e.ID)
	switch {
	case n > 0:
		x.queues[in] = slices.Insert(places, i, at)
	case len(places) == 1:
		delete(x.queues, in)
	case i == 0: // most events leave from the front
		x.queues[in] = places[1:]
	default:
		x.queues[in] = slices.Delete(places, i, i+1)
	}
}

func tally[K comparable](counts map[K]int, key K, n int) {
	switch counts[key] += n; {
	case counts[key] == 0:
		delete(counts, key)
	case counts[key] < 0:
		panic(fmt.Sprintf("almanactest: the index of the repository counts %d of %v", counts[key], key))
	}
}

// after returns up to most events that match, in order of creation: those after an event, or those before it if newest
// come first.
func (s *state) after(id uuid.UUID, newest bool, most int, match func(almanac.Event) bool) (events []almanac.Event) {
	i, found := slices.BinarySearchFunc(s.order, id, compareIDs)
	step := 1
	if newest {
		i, step = i-1, -1
	} else if found {
		i++
	}
	for ; 0 <= i && i < len(s.order) && len(events) < most; i += step {
		if e := s.events[s.order[i]]; match(e) {
			events = append(events, copied(e))
		}
	}
	return events
}

// inFlight counts the events of a lane that were claimed at a time or later and are in flight.
func (s *state) inFlight(name string, since time.Time) (n int) {
	for id := range s.busy {
		if e := s.events[id]; slices.Contains(lanesOf(e), name) && !e.UpdatedAt.Before(since) {
			n++
		}
	}
	return n
}

// removeHidden removes deleted users without events in flight.
func (s *state) removeHidden() {
	inFlight := make(map[uuid.UUID]bool)
	for id := range s.busy {
		inFlight[s.events[id].UserID] = true
	}
	for id := range s.hidden {
		if !inFlight[id] {
			s.remove(id)
		}
	}
}

// claimable returns the events that a claim may take, in the order in which they became available: those of lanes with
// limits or names, and the free ones. Of a lane, it returns no more of them than have room, and at least one.
func (s *state) claimable(request almanac.ClaimRequest, now time.Time) (waiting, free []almanac.Event) {
	ahead := now.Add(max(request.Ahead, 0))
	for in, places := range s.queues {
		if !slices.Contains(request.Types, in.eventType) || s.paused(in.eventType, now) {
			continue
		}
		since, most, into := time.Time{}, len(places), &free
		if s.ofLanes(in.sample()) {
			most, into = request.Limit, &waiting
			for _, name := range lanesOf(in.sample()) {
				most = min(most, max(1, s.room(name, now)))
			}
		} else {
			since = s.since(request.Mark, in.eventType, now)
		}
		first, _ := slices.BinarySearchFunc(places, since, func(p position, t time.Time) int { return p.at.Compare(t) })
		for _, p := range places[first:] {
			if most == 0 || p.at.After(ahead) {
				break
			}
			if e := s.events[p.id]; !p.at.After(now) || e.ClaimCount == 0 && e.Consulted.Calendars == "" {
				*into = append(*into, copied(e))
				most--
			}
		}
	}
	for _, events := range [][]almanac.Event{waiting, free} {
		slices.SortFunc(events, nextFirst)
	}
	return waiting, free
}

// next returns when an event of a queue can be claimed, and whether there is one after the mark.
func (s *state) next(in queue, mark, now time.Time) (at time.Time, known bool) {
	places, limited := s.queues[in], s.ofLanes(in.sample())
	paused, end := s.paused(in.eventType, now), s.pauses[in.eventType].Until
	first := 0
	if !paused && !limited {
		first, _ = slices.BinarySearchFunc(places, s.since(mark, in.eventType, now), func(p position, t time.Time) int { return p.at.Compare(t) })
	}
	if paused && end.IsZero() || first == len(places) {
		return time.Time{}, false
	}
	at = places[first].at
	if paused && end.After(at) {
		at = end
	}
	if limited {
		if ready := s.readyAt(in.sample(), now); ready.After(at) {
			at = ready
		}
	}
	return at, true
}
