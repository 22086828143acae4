package almanac

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Limit limits how one process delivers the events of one type, separately from other
// types.
type Limit struct {
	// Workers is how many events of the type are delivered at the same time. These
	// workers are in addition to those of [WithWorkers], and the type uses no others. It
	// must not be negative. Zero means the number of WithWorkers.
	Workers int
	// Rate is how many events may start in one second, on average, in this process. It
	// must not be negative. Zero means no limit. With a rate, events are claimed at their
	// instants instead of ahead.
	Rate float64
	// Burst is how many events may start at once after a time without starts: in any
	// second, at most Rate + Burst events start. It must not be negative, and needs a
	// Rate. Zero means a twentieth of Rate, rounded down, and at least 1.
	Burst int
}

func (l Limit) check() error {
	var errs []error
	if l.Workers < 0 {
		errs = append(errs, fmt.Errorf("%d workers", l.Workers))
	}
	if !(l.Rate >= 0) || math.IsInf(l.Rate, 1) { // every comparison with NaN is false
		errs = append(errs, fmt.Errorf("rate of %v", l.Rate))
	}
	if l.Burst < 0 || l.Burst > 0 && l.Rate == 0 {
		errs = append(errs, fmt.Errorf("burst of %d at a rate of %v", l.Burst, l.Rate))
	}
	return errors.Join(errs...)
}

// burst returns Burst or its default. With the default, starts are spread evenly, and the
// rate is still reached if a claim takes up to 50 ms.
func (l Limit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return int(max(1, min(l.Rate/20, math.MaxInt32)))
}

// lane is an engine with the event types that it runs. Each type with a limit has its own
// lane, so that its waiting events do not delay other types. All other types share one
// lane.
type lane struct {
	types   []string
	workers int
	tokens  *rate.Limiter // nil without a rate
	mark    mark
	engine  *machine
	attempts
}

// lanes returns the lanes for the types of the registry. The first lane is the shared
// one. It runs the maintenance tasks, even if it has no types.
func (s *scheduler) lanes() []*lane {
	shared := &lane{workers: s.workers}
	all := []*lane{shared}
	for _, eventType := range s.registry.EventTypes() {
		l, limited := s.limits[eventType]
		if !limited {
			shared.types = append(shared.types, eventType)
			continue
		}
		one := &lane{types: []string{eventType}, workers: l.Workers}
		if one.workers == 0 {
			one.workers = s.workers
		}
		if l.Rate > 0 {
			one.tokens = rate.NewLimiter(rate.Limit(l.Rate), l.burst())
		}
		all = append(all, one)
	}
	return all
}

// allowance returns how many of the free workers may start an event by the rate.
func (l *lane) allowance(free int, now time.Time) int {
	if l.tokens == nil {
		return free
	}
	return min(free, int(l.tokens.TokensAt(now)))
}

// spend takes tokens of the rate for n events.
func (l *lane) spend(n int, now time.Time) {
	if l.tokens != nil && n > 0 {
		l.tokens.AllowN(now, n)
	}
}

// untilAllowed returns how long until the rate allows an event to start.
func (l *lane) untilAllowed(now time.Time) time.Duration {
	if l.tokens == nil {
		return 0
	}
	missing := 1 - l.tokens.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(l.tokens.Limit()) * float64(time.Second))
}
