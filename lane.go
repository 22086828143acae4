package almanac

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Lane has the limits of events that share a capacity, such as that of a receiver. They hold over all processes
// together, by the database's clock. Each type has a lane of the same name. An event is in that lane unless its handler
// names another one (see [LaneNamer]). A lane can be in another one: "crm/tenant-7" is in "crm". Its events take room
// of both. Lanes in one lane share its room fairly. A lane without limits and without a weight is not stored.
type Lane struct {
	// Name is the name of the lane: 1 to 100 bytes. There is at most one slash, which is neither the first byte
	// nor the last.
	Name string
	// Rate is how many tokens come in one second: 0.000001 to 1,000,000. A claim takes one for each event. Zero
	// means no limit. In any t seconds, at most Burst + Rate·t events are admitted. An event that cannot start
	// within 250 ms of its admission is released. No attempt is counted, and its token is lost.
	Rate float64
	// Burst is the most tokens that a lane keeps: 1 to 1,000,000. After a time without starts, so many events may start
	// at once. Zero means a fifth of Rate, rounded down, and at least 1. Tokens that come while the lane has Burst of
	// them are lost. So with a Burst below a tenth of Rate, fewer events start than Rate allows. A Burst without a Rate
	// is an error.
	Burst int
	// Places is how many events may be in flight, from their claim until their outcome is stored: 1 to 10,000.
	// Zero means no limit. A process that dies keeps its places until its leases expire. Each claim looks at
	// all places: some hundreds cost little.
	Places int
	// Daily is how many events may be claimed on one day, by UTC: 1 to 1,000,000,000. Zero means no limit. The
	// others wait for the next day. A clock that was set back by up to a day adds no quota.
	Daily int
	// Weight is the share of this lane in the lane that contains it: 1 to 1,000. While both have
	// due events, a lane with weight 2 starts twice as many events as one with weight 1. Zero means
	// 1. Events that are directly in the containing lane count as one lane with weight 1. A Weight
	// of a lane that is in no other lane is an error.
	Weight int
}

const (
	minRate, maxRate = 1e-6, 1e6
	maxBurst         = 1_000_000
	maxPlaces        = 10_000
	maxDaily         = 1_000_000_000
	maxWeight        = 1000
)

// Checked returns the lane, with the default Burst if it has a Rate and no Burst. The error is a [*ValidationError]
// that names all fields that are wrong.
func (l Lane) Checked() (Lane, error) {
	var bad []FieldError
	refuse := func(wrong bool, field, problem string, args ...any) {
		if wrong {
			bad = append(bad, FieldError{Field: field, Problem: fmt.Sprintf(problem, args...)})
		}
	}
	name := nameProblem(l.Name)
	refuse(name != "", "name", "%s", name)
	refuse(l.Rate != 0 && !(minRate <= l.Rate && l.Rate <= maxRate), // every comparison with NaN is false
		"rate", "is %s, and not between %s and %s", decimal(l.Rate), decimal(minRate), decimal(maxRate))
	refuse(l.Burst < 0 || l.Burst > maxBurst, "burst", "is %d, and not between 0 and %d", l.Burst, maxBurst)
	refuse(l.Burst > 0 && l.Rate == 0, "burst", "is %d without a rate", l.Burst)
	refuse(l.Places < 0 || l.Places > maxPlaces, "places", "is %d, and not between 0 and %d", l.Places, maxPlaces)
	refuse(l.Daily < 0 || l.Daily > maxDaily, "daily", "is %d, and not between 0 and %d", l.Daily, maxDaily)
	refuse(l.Weight < 0 || l.Weight > maxWeight, "weight", "is %d, and not between 0 and %d", l.Weight, maxWeight)
	refuse(l.Weight > 0 && !strings.Contains(l.Name, "/"), "weight", "is %d of a lane that is in none", l.Weight)
	if bad != nil {
		return l, &ValidationError{bad}
	}
	if l.Rate > 0 {
		l.Burst = cmp.Or(l.Burst, int(max(1, min(l.Rate/5, maxBurst))))
	}
	return l, nil
}

// LaneNamer is the ability of a handler to name the lanes of its events: the receivers, accounts or tenants
// that they load. The method is called where [EventHandler].Payload is.
type LaneNamer interface {
	// Lane returns the name of the lane of an event (see [Lane]). "" and the event's type mean the lane of the type.
	Lane(u User, o Occurrence) string
}

// laneOf returns the name of the lane of an event that is being planned; "" for the lane of its type.
func laneOf(h EventHandler, u User, o Occurrence) string {
	if namer := laneNamerOf(h); namer != nil {
		if name := namer.Lane(u, o); name != h.EventType() {
			return name
		}
	}
	return ""
}

// laneNamerOf returns a handler as a LaneNamer, or nil if it is none.
func laneNamerOf(h EventHandler) LaneNamer {
	switch h := h.(type) {
	case oneSeries:
		return laneNamerOf(h.EventHandler)
	case withPayload:
		return laneNamerOf(h.EventHandler)
	case LaneNamer:
		return h
	}
	return nil
}

// maxLane is how many bytes the name of a lane has at most.
const maxLane = 100

// nameProblem says what is wrong with the name of a lane, which may be an event type.
func nameProblem(name string) string {
	if tokenProblem(name, maxEventType) == "" {
		return ""
	}
	return laneProblem(name)
}

// laneProblem says what is wrong with a name that a handler gave a lane.
func laneProblem(name string) string {
	if problem := tokenProblem(name, maxLane); problem != "" {
		return problem
	}
	if in, of, two := strings.Cut(name, "/"); two && (in == "" || of == "" || strings.Contains(of, "/")) {
		return `has a slash that is not between the name of a lane and that of a lane in it, such as "crm/tenant-7"`
	}
	return ""
}

// decimal is a number without an exponent.
func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Limited reports whether the lane has a limit.
func (l Lane) Limited() bool { return l.Rate > 0 || l.Places > 0 || l.Daily > 0 }

func (s *scheduler) SetLane(ctx context.Context, l Lane) error {
	l, err := l.Checked()
	if err != nil {
		return err
	}
	if err := s.knowsLane(l.Name); err != nil && l != (Lane{Name: l.Name}) {
		return err
	}
	if err := s.repository.PutLane(ctx, l); err != nil {
		return err
	}
	s.running.wake()
	return nil
}

// knowsLane returns an error if no event of this program can be in a lane. [ScheduleAtOptions] can name one in that of
// a type.
func (s *scheduler) knowsLane(name string) error {
	in, _, _ := strings.Cut(name, "/")
	if _, err := s.registry.Handler(in); err == nil || s.namesLanes() {
		return nil
	}
	_, err := s.registry.Handler(name)
	return err
}

// laneIsIn reports whether a lane is in another one.
func laneIsIn(lane, in string) bool {
	upper, _, inner := strings.Cut(lane, "/")
	return inner && upper == in
}

// namesLanes reports whether a handler names lanes.
func (s *scheduler) namesLanes() bool {
	return slices.ContainsFunc(s.registry.EventTypes(), func(t string) bool {
		h, _ := s.registry.Handler(t)
		_, names := h.(LaneNamer)
		return names
	})
}

func (s *scheduler) Lanes(ctx context.Context) ([]Lane, error) { return s.repository.Lanes(ctx) }
