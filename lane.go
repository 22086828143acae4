package almanac

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Limit bounds how the events of one type are delivered by one process, beside all
// others. A zero field bounds nothing.
type Limit struct {
	// Workers is how many are delivered at once, besides those of [WithWorkers], which
	// the type takes none of. Zero means as many as WithWorkers says.
	Workers int
	// Rate is how many begin in a second, on average. They are claimed at their instants
	// then, and not ahead.
	Rate float64
	// Burst is how many may begin at once after a while in which none did. Zero means
	// as many as Rate in a second, and at least one.
	Burst int
}

func (l Limit) check() error {
	var errs []error
	if l.Workers < 0 {
		errs = append(errs, fmt.Errorf("%d workers", l.Workers))
	}
	if !(l.Rate >= 0) || math.IsInf(l.Rate, 1) { // NaN compares with nothing
		errs = append(errs, fmt.Errorf("rate of %v", l.Rate))
	}
	if l.Burst < 0 || l.Burst > 0 && l.Rate == 0 {
		errs = append(errs, fmt.Errorf("burst of %d at a rate of %v", l.Burst, l.Rate))
	}
	return errors.Join(errs...)
}

// lane is an engine with the types of events that it runs. Types with a limit have
// a lane each, so that those that wait for theirs hold up nobody else; all others
// share one.
type lane struct {
	types   []string
	workers int
	tokens  *rate.Limiter // nil where there is no rate
	mark    mark
	engine  *machine
}

// lanes returns the lanes for the types of a registry. The first is the shared one,
// which does the chores, also where it has no types.
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
			burst := l.Burst
			if burst == 0 {
				burst = int(max(1, min(l.Rate, math.MaxInt32)))
			}
			one.tokens = rate.NewLimiter(rate.Limit(l.Rate), burst)
		}
		all = append(all, one)
	}
	return all
}

// allowance returns how many of free workers may begin by the rate.
func (l *lane) allowance(free int, now time.Time) int {
	if l.tokens == nil {
		return free
	}
	return min(free, int(l.tokens.TokensAt(now)))
}

// spend notes that events begin.
func (l *lane) spend(n int, now time.Time) {
	if l.tokens != nil && n > 0 {
		l.tokens.AllowN(now, n)
	}
}

// untilAllowed returns how long it is until one may begin by the rate.
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
