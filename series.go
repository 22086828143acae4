package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/excerpt"
	"github.com/almanac-go/almanac/internal/isolate"
)

// MultiSeries is the ability of a handler to run several series for one user, such as one
// for each reminder of the user. Each series has one open event, independently of the
// others. So several events can be due at the same instant.
type MultiSeries interface {
	// Series returns the names of the user's present series. Each name has 1 to 50 bytes and occurs once. The
	// next edit or reschedule of the user removes the pending events of series that are no longer returned.
	Series(u User) ([]string, error)

	// NextIn is [EventHandler].Next for one series. Occurrence keys need to grow only
	// within the series. Payload is called with the name in Occurrence.Series.
	NextIn(u User, series string, after time.Time) (calendar.Occurrence, error)
}

const maxSeriesName = 50

// oneSeries is a handler, limited to one of its series.
type oneSeries struct {
	EventHandler
	name  string
	multi MultiSeries // nil for a handler with a single series
}

// Next returns the next occurrence of the series.
func (s oneSeries) Next(u User, after time.Time) (calendar.Occurrence, error) {
	if s.multi != nil {
		return s.multi.NextIn(u, s.name, after)
	}
	return s.EventHandler.Next(u, after)
}

// anyNextOf returns the first occurrence of a handler, or of one series, after an instant.
// The occurrence is in the user's zone unless the handler set another. An error names the
// type, because the handlers of a user are called one after the other.
func anyNextOf(h EventHandler, u *User, after time.Time) (o Occurrence, err error) {
	o.Occurrence, err = h.Next(*u, after)
	if err != nil && !errors.Is(err, calendar.ErrNoOccurrence) {
		err = fmt.Errorf("almanac: handler of %q: %w", h.EventType(), err)
	}
	if s, ok := h.(oneSeries); ok {
		o.Series = s.name
	}
	o.in(u)
	return o, err
}

func (s oneSeries) id() Series { return Series{Type: s.EventType(), Name: s.name} }

// series returns what seriesFor returns.
func (g guard) series(h EventHandler, u User) ([]oneSeries, error) {
	if _, calls := h.(MultiSeries); !calls || unwanted(h, u, "") {
		return seriesFor(h, u)
	}
	return guarded(g, "naming the series of", h.EventType(), func() ([]oneSeries, error) { return seriesFor(h, u) })
}

// seriesFor returns the series of h that u is owed, in the order of names.
func seriesFor(h EventHandler, u User) (list []oneSeries, err error) {
	if unwanted(h, u, "") {
		return nil, nil
	}
	multi, ok := h.(MultiSeries)
	if !ok {
		return []oneSeries{{EventHandler: h}}, nil
	}
	names, err := multi.Series(u)
	if err != nil {
		return nil, err
	}
	names = slices.Clone(names)
	slices.Sort(names)
	for i, name := range names {
		problem := tokenProblem(name, maxSeriesName)
		if i > 0 && name == names[i-1] {
			problem = "occurs twice"
		}
		if problem != "" {
			return nil, fmt.Errorf("almanac: handler of %q: the name %q of a series %s", h.EventType(), excerpt.Of(name, maxSeriesName), problem)
		}
		list = append(list, oneSeries{h, name, multi})
	}
	return list, nil
}

// seriesOfEvent returns the series of e, and whether u still has it.
func seriesOfEvent(h EventHandler, u *User, e *Event) (oneSeries, bool, error) {
	if _, several := h.(MultiSeries); !several {
		only := oneSeries{EventHandler: h}
		return only, only.id() == e.inSeries() && !unwanted(h, *u, ""), nil
	}
	list, err := seriesFor(h, *u)
	i := slices.IndexFunc(list, func(s oneSeries) bool { return s.id() == e.inSeries() })
	if err != nil || i < 0 {
		return oneSeries{}, false, err
	}
	return list[i], true, nil
}

// in gives o the user's zone, unless o has a zone.
func (o *Occurrence) in(u *User) {
	if o.Zone.IsZero() {
		o.Zone = u.Timezone
	}
}

// guard calls the host's code for one user, while an operation waits. The operation may hold
// a transaction and its locks.
type guard struct {
	ctx  context.Context // of the operation
	host *isolate.Group
	user uuid.UUID // zero if the code is for no user
	// thread calls the code, if the operation is for many users. It is nil otherwise.
	thread *isolate.Thread
}

func (s *scheduler) guard(ctx context.Context, user uuid.UUID) guard {
	return guard{ctx, s.running.host, user, nil}
}

// unbound returns a guard of code that is called before there is a scheduler.
func unbound() guard { return guard{context.Background(), isolate.NewGroup(stuckAfter), uuid.Nil, nil} }

// guarded calls the host's code for an event type in a goroutine of its own. A panic, the end
// of that goroutine, and a call that is blocked are errors, which say what the code was for.
// A call is given up when it has taken too long, or when the operation's context is done.
func guarded[T any](g guard, what, eventType string, f func() (T, error)) (T, error) {
	one := isolate.Run(g.host, isolate.Calls[made[T]]{
		N:       1,
		Context: g.ctx,
		Thread:  g.thread,
		Name:    func(int) isolate.Name { return isolate.Name{Type: eventType, User: g.user} },
		Call: func(int) (m made[T]) {
			m.plan, m.err = f()
			return m
		},
		Lost: func(_ int, err error) made[T] {
			return made[T]{err: fmt.Errorf("almanac: %s %s %w", what, eventType, err)}
		},
	})[0]
	return one.plan, one.err
}

// seriesOf returns the series that u is owed of registered types.
func (s *scheduler) seriesOf(types []string, g guard, u User) ([]oneSeries, error) {
	var all []oneSeries
	for _, eventType := range types {
		h, err := s.registry.Handler(eventType)
		if err != nil {
			return nil, err
		}
		list, err := g.series(h, u)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// firsts plans the next event of each series that has no open event. The map open has the
// open series, with the keys of their events. A series without a next occurrence is left out.
func (g guard) firsts(list []oneSeries, open map[Series]string, r Roster) ([]Event, error) {
	var events []Event
	for _, one := range list {
		if _, ahead := open[one.id()]; ahead {
			continue
		}
		e, err := guarded(g, "planning", one.EventType(), func() (Event, error) { return one.first(r) })
		switch {
		case errors.Is(err, calendar.ErrNoOccurrence):
		case err != nil:
			return nil, err
		default:
			e.ID = stamped(e.ID, ticksOf(r.Now))
			events = append(events, e)
		}
	}
	return events, nil
}

// first plans the next event of a series without an open event. It plans from now on, or for a stalled
// series that is owed every missed occurrence, from the instant of its last event. A due event that an
// edit removes counts as that last event. For every type, an occurrence at exactly that instant, as
// under a key of another unit, is planned first.
func (s oneSeries) first(r Roster) (Event, error) {
	used := r.Used[s.id()]
	if i := slices.IndexFunc(r.Stalled, func(one StalledSeries) bool { return one.Series == s.id() }); i >= 0 {
		due := r.Stalled[i].Due
		e, err := plan(s, r.User, beyond{after: stillToCome(s, &r.User, due).Add(-time.Microsecond), used: used})
		rejected := errors.Is(err, calendar.ErrRejectedWallTime) // for ever, by the policy
		if givenExecution(s).CatchUpPolicy.All && !rejected || err == nil && e.Due.Equal(due) {
			return e, err
		}
	}
	return plan(s, r.User, beyond{after: stillToCome(s, &r.User, r.Now), used: used, began: r.Now})
}

// Series identifies the events of one user that follow one another. At most one of them
// is open at a time. A later event has a greater occurrence key, compared byte by byte,
// unless the rule of the series changed and its keys have another unit (see [UsedKeys]).
// Values are comparable with ==. [SeriesOf] returns the Series of an event.
type Series struct {
	// Type is the event type.
	Type string
	// Name is the name that a [MultiSeries] gave the series. Other handlers have one
	// series, with an empty name.
	Name string
	// Detached is empty for the series that handlers plan. A detached event has a series
	// of its own, and Detached identifies that series within the type. The text has at
	// most 100 bytes and no other meaning. [Origin] says which events are detached.
	Detached string
}

// SeriesOf returns the series of an event.
func SeriesOf(e Event) Series { return e.inSeries() }

func (e *Event) inSeries() Series {
	one := Series{Type: e.Type, Name: e.Series}
	switch e.Origin.Kind {
	case OriginPlanned:
	case OriginRequeued:
		one.Detached = string(OriginRequeued) + ":" + e.Origin.From.String() // so an event is requeued once
	default:
		one.Detached = string(e.Origin.Kind) + ":" + e.OccurrenceKey
	}
	return one
}

// OriginKind says how an event was created.
type OriginKind string

// The kinds of origin, as the database stores them.
const (
	OriginPlanned   OriginKind = ""          // planned by its handler, as part of a series
	OriginScheduled OriginKind = "scheduled" // by [Planner].ScheduleAt
	OriginFollowUp  OriginKind = "follow-up" // returned by a [Follower]
	OriginRequeued  OriginKind = "requeued"  // repeats an event that failed or was cancelled; see [Event.Requeue]
)

// Origin says how an event was created. It never changes. The zero Origin means that a handler planned
// the event as part of a series. Events of all other origins are detached: they have no successor.
type Origin struct {
	Kind OriginKind
	// From is the id of the event that a follow-up follows, or that a requeued event
	// repeats. It is zero for the other kinds.
	From uuid.UUID
	// FollowsUser is true for a scheduled event that keeps its wall time when its user moves to another zone, and for
	// a requeued event that does so. The latter was never claimed, and repeats a scheduled event that followed its user, or a
	// planned event or a follow-up that was in the zone of its user.
	FollowsUser bool
	// PayloadMade is true for a scheduled event, and for a requeued one that was never claimed, whose payload the handler makes.
	PayloadMade bool
	// Forced is true for a requeued event that is delivered whatever its user has opted out
	// of; see [ForceOptions].
	Forced bool
}

// detached reports whether e has no successor because of its origin.
func (e Event) detached() bool { return e.Origin.Kind != OriginPlanned }

// maxDetachedKey leaves room for the kind in [Series].Detached.
const maxDetachedKey = 90

// UsedKey is the last occurrence of a series that was used, among those whose keys have one unit. That
// occurrence and all earlier ones of the unit are used for ever. Values are comparable with ==.
type UsedKey struct {
	Unit    calendar.Unit
	Key     string            // the greatest key that was used
	Nominal calendar.WallTime // of the occurrence, before any wrapper moved it; never zero
	// Ended is what clocks in the user's zone showed when the event ended, in whole
	// seconds. An event in flight counts as ended at the present time.
	Ended calendar.WallTime
}

// Uses returns what e uses of its series if it ends at now, or is in flight then. The zone
// of u says what clocks show at now.
func (e Event) Uses(u User, now time.Time) UsedKey { return e.uses(&u, now) }

func (e *Event) uses(u *User, now time.Time) UsedKey {
	return UsedKey{e.KeyUnit, e.OccurrenceKey, e.nominal(), u.Timezone.WallTime(now)}
}

func (e *Event) nominal() calendar.WallTime {
	if e.Nominal == (calendar.WallTime{}) {
		return e.Wall
	}
	return e.Nominal
}

// UsedKeys says which occurrences of a series are used: the last one of each unit of keys, in the order of
// the units. A series has several units only after its rule changed. The methods are safe for concurrent use.
type UsedKeys []UsedKey

// Of returns the used key of a unit, and reports false if there is none.
func (u UsedKeys) Of(unit calendar.Unit) (UsedKey, bool) {
	i := slices.IndexFunc(u, func(k UsedKey) bool { return k.Unit == unit })
	if i < 0 {
		return UsedKey{}, false
	}
	return u[i], true
}

// With returns u together with another used occurrence. It does not change u. A lower key
// does not replace a greater one of the same unit.
func (u UsedKeys) With(one UsedKey) UsedKeys {
	if is, ok := u.Of(one.Unit); ok && one.Key <= is.Key {
		return u
	}
	all := slices.DeleteFunc(slices.Clone(u), func(k UsedKey) bool { return k.Unit == one.Unit })
	i, _ := slices.BinarySearchFunc(all, one, func(a, b UsedKey) int { return strings.Compare(string(a.Unit), string(b.Unit)) })
	return slices.Insert(all, i, one)
}

// Has reports whether an occurrence is used. Keys of the same unit are compared. A rule that
// has become finer, with keys that are times, continues after the last occurrence, on the
// same day too. Between other units the day counts: no second event on the local day on
// which the last one ended, and none for an earlier day. Between years of two calendars, an occurrence up
// to 176 days after the last one is the same birthday, and used. If the keys of either rule are the
// host's own, that local day alone counts. The reasons are in docs/adr/0065-used-days.md.
func (u UsedKeys) Has(o calendar.Occurrence) bool { return u.has(&o) }

func (u UsedKeys) has(o *calendar.Occurrence) bool {
	return u.precede(o) || slices.ContainsFunc(u, func(k UsedKey) bool { return k.sharesDay(o) })
}

// names reports whether o itself was used, at the time that it has now.
func (u UsedKeys) names(o calendar.Occurrence) bool {
	k, ok := u.Of(o.Unit)
	return ok && k.Key == o.Key && k.Nominal == nominalOf(o)
}

// precede reports whether o is used by a rule that holds for all earlier occurrences of the
// same recurrence, too.
func (u UsedKeys) precede(o *calendar.Occurrence) bool {
	return slices.ContainsFunc(u, func(k UsedKey) bool { return k.precludes(o) })
}

// precludes reports whether o is used because of k, by a rule that holds for all earlier
// occurrences of the same recurrence, too.
func (k UsedKey) precludes(o *calendar.Occurrence) bool {
	if k.Unit == o.Unit {
		return o.Key <= k.Key
	}
	nominal := nominalOf(*o)
	switch {
	case k.Unit == calendar.UnitText || o.Unit == calendar.UnitText:
		return !k.Ended.Date.Before(nominal.Date)
	case isYear(k.Unit) && isYear(o.Unit):
		return k.Nominal.Date.DaysUntil(nominal.Date) <= halfYear
	case o.Unit == calendar.UnitTime:
		return !k.Nominal.Before(nominal) && !k.Ended.Before(nominal)
	}
	return !k.Nominal.Date.Before(nominal.Date) && !k.Ended.Date.Before(nominal.Date)
}

// halfYear is half of the shortest year, in days: nearer than that, no other birthday is nearest.
const halfYear = 353 / 2

func isYear(u calendar.Unit) bool {
	return u == calendar.UnitYear || strings.HasPrefix(string(u), string(calendar.UnitYear)+":")
}

// sharesDay reports whether o, by keys of another unit that are no times, is named for or
// shown on the day on which the event of k ended.
func (k UsedKey) sharesDay(o *calendar.Occurrence) bool {
	if k.Unit == o.Unit || k.Unit == calendar.UnitText || o.Unit == calendar.UnitText || o.Unit == calendar.UnitTime {
		return false
	}
	return nominalOf(*o).Date == k.Ended.Date || o.Wall.Date == k.Ended.Date
}

// nominalOf returns the wall time of an occurrence before any wrapper moved it.
func nominalOf(o calendar.Occurrence) calendar.WallTime {
	if o.Nominal == (calendar.WallTime{}) {
		return o.Wall
	}
	return o.Nominal
}
