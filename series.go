package almanac

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// MultiSeries is the ability of a handler to run several series side by side for
// one user, such as one for each reminder that somebody has set. Each series has
// one event ahead, whatever becomes of the others, so several can be due at one
// instant.
type MultiSeries interface {
	// Series returns the names of the series that u has now: each 1 to 50 bytes,
	// without a slash, not beginning with a tilde, none twice. A pending event of a series that is not among them
	// any more is removed when the user is next edited or rescheduled.
	Series(u User) ([]string, error)

	// NextIn is [EventHandler].Next for one of the series. Keys need to grow within
	// the series only: its name becomes part of what is stored.
	NextIn(u User, series string, after time.Time) (Occurrence, error)
}

const maxSeriesName = 50

// seriesID tells the series of a user from one another.
type seriesID struct{ eventType, name string }

// oneSeries is a handler as one of its series sees it.
type oneSeries struct {
	EventHandler
	name  string
	multi MultiSeries // nil for a handler with a single series
}

// Next returns the next occurrence of the series.
func (s oneSeries) Next(u User, after time.Time) (Occurrence, error) {
	if s.multi == nil {
		return s.EventHandler.Next(u, after)
	}
	o, err := s.multi.NextIn(u, s.name, after)
	o.Series = s.name
	return o, err
}

func (s oneSeries) id() seriesID { return seriesID{s.EventType(), s.name} }

// seriesOf returns what h runs for u, in the order of names. It is guarded: what it
// calls is the host's.
func seriesOf(h EventHandler, u User) (list []oneSeries, err error) {
	multi, ok := h.(MultiSeries)
	if !ok {
		return []oneSeries{{EventHandler: h}}, nil
	}
	names, err := guarded("naming the series of "+h.EventType(), func() ([]string, error) { return multi.Series(u) })
	if err != nil {
		return nil, err
	}
	names = slices.Clone(names)
	slices.Sort(names)
	for i, name := range names {
		problem := seriesProblem(name, maxSeriesName)
		if i > 0 && name == names[i-1] {
			problem = "is there twice"
		}
		if problem != "" {
			return nil, fmt.Errorf("almanac: handler of %q: the name %q of a series %s", h.EventType(), clip(name, maxSeriesName), problem)
		}
		list = append(list, oneSeries{h, name, multi})
	}
	return list, nil
}

// seriesProblem says what is wrong with the name of a series, or "".
func seriesProblem(name string, most int) string {
	if strings.Contains(name, "/") {
		return "contains a slash"
	}
	if isApart(name) {
		return "begins with a tilde"
	}
	return tokenProblem(name, most)
}

// seriesOfEvent returns the series that e belongs to, and whether u still has it.
func seriesOfEvent(h EventHandler, u User, e Event) (oneSeries, bool, error) {
	list, err := seriesOf(h, u)
	id := idOf(h, e)
	i := slices.IndexFunc(list, func(s oneSeries) bool { return s.id() == id })
	if err != nil || i < 0 {
		return oneSeries{}, false, err
	}
	return list[i], true, nil
}

// idOf tells the series of an event by its key. A requeued event is in none, although
// it has the key of one.
func idOf(h EventHandler, e Event) seriesID {
	if e.RequeuedFrom != uuid.Nil {
		return seriesID{e.Type, apart + e.RequeuedFrom.String()}
	}
	if _, ok := h.(MultiSeries); !ok && !isApart(e.OccurrenceKey) {
		return seriesID{e.Type, ""}
	}
	return seriesID{e.Type, seriesName(e.OccurrenceKey)}
}

// seriesName returns the part of a stored key that names its series, "" if none
// does.
func seriesName(key string) string {
	name, _, found := strings.Cut(key, "/")
	if !found {
		return ""
	}
	return name
}

// zoneFor returns where the occurrence happens for u.
func (o Occurrence) zoneFor(u User) Timezone {
	if o.Zone.IsZero() {
		return u.Timezone
	}
	return o.Zone
}

// name returns the key under which the occurrence is stored.
func (o Occurrence) name() string {
	if o.Series == "" {
		return o.Key
	}
	return o.Series + "/" + o.Key
}

// used returns the greatest key of a series that was ever claimed, "" if none was.
func (r Roster) used(s oneSeries) string {
	greatest := ""
	for _, key := range r.Used[s.EventType()] {
		if !isApart(key) && (s.multi == nil || seriesName(key) == s.name) {
			greatest = max(greatest, key)
		}
	}
	return greatest
}

// guarded runs a handler's planning code, which is the host's: a panic in it must
// not take down a transaction that has others' outcomes in it.
func guarded[T any](what string, f func() (T, error)) (result T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			var none T
			result, err = none, fmt.Errorf("almanac: %s panicked: %v", what, cause)
		}
	}()
	return f()
}

// allSeries returns what every registered handler runs for u.
func (s *scheduler) allSeries(u User) ([]oneSeries, error) {
	var all []oneSeries
	for _, eventType := range s.registry.EventTypes() {
		h, err := s.registry.Handler(eventType)
		if err != nil {
			return nil, err
		}
		list, err := seriesOf(h, u)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// firsts plans the next event of each series that has none open, for a roster's
// user. A series of which nothing is owed is left out.
func firsts(list []oneSeries, open map[seriesID]bool, r Roster) ([]Event, error) {
	var events []Event
	for _, one := range list {
		if open[one.id()] {
			continue
		}
		e, err := guarded("planning "+one.EventType(), func() (Event, error) {
			return plan(one, r.User, r.Now, r.used(one))
		})
		switch {
		case errors.Is(err, ErrNoOccurrence):
		case err != nil:
			return nil, err
		default:
			e.ID = stamped(e.ID, ticksOf(r.Now))
			events = append(events, e)
		}
	}
	return events, nil
}
