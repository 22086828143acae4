package almanac

import (
	"errors"
	"time"
)

// searchBack is how far before its present instant an occurrence is looked for
// when its user moved: further than any two zones are apart.
const searchBack = 72 * time.Hour

// replanning is an edit of a user on its way.
type replanning struct {
	Roster           // as it was
	is     User      // the user as they will be
	zones  *zoneView // how this program's zone rules stand to those of the repository
}

// event returns a pending event as it should be for its user as they are now.
//
// While the occurrence keeps its wall time, it keeps its identity, and its instant
// follows the user's zone; if that instant has passed, it is due now. Otherwise the
// user corrected what the occurrence was made from, and the next one after now takes
// its place.
func (p replanning) event(h oneSeries, e Event) (Event, error) {
	same, found, err := occurrenceNamed(h, p.is, e.OccurrenceKey, e.Due.Add(-searchBack))
	unknown := err == nil && !found || errors.Is(err, ErrRejectedWallTime)
	if unknown && p.zones.differs(e.Zone) && p.leavesTimes(h, e) {
		same, found, err = e.occurrence(), true, nil
	}
	if err != nil {
		return Event{}, err
	}
	if found && same.Wall == e.Wall {
		return p.again(h, e, same)
	}
	next, err := search(h, p.is, beyond{p.Now, p.used(h)}, func(o Occurrence) (Event, error) { return e.Reschedule(p.is, h, o) })
	return p.zones.stamp(next), err
}

// detached adds to an edit what becomes of a pending follow-up or one-off event.
func (p replanning) detached(h EventHandler, e Event, edit *Edit) error {
	changed := true
	next, err := guarded("replanning "+e.Type, func() (next Event, err error) {
		if isOneOff(e.OccurrenceKey) {
			next, changed, err = p.oneOff(h, e)
			return next, err
		}
		return p.followUp(h, e)
	})
	switch {
	case errors.Is(err, ErrSkippedWallTime):
		edit.Removed = append(edit.Removed, e)
	case err != nil:
		return err
	case changed:
		edit.Moved = append(edit.Moved, next)
	}
	return nil
}

// followUp returns a pending follow-up as it should be for its user as they are now:
// at the same wall time, in their zone if it was in theirs before.
func (p replanning) followUp(h EventHandler, e Event) (Event, error) {
	o := Occurrence{Key: followUpNamed(e.OccurrenceKey), Wall: e.Wall, Policies: e.Policies}
	if e.Zone != p.User.Timezone.String() {
		o.Zone = StoredTimezone(e.Zone)
	}
	again, err := p.again(h, e, o)
	again.OccurrenceKey = e.OccurrenceKey
	return again, err
}

// again plans an event anew for the wall time that it has. Where its zone and its
// policies stay, so does its instant: it may follow newer rules than this program has,
// and where this program's are newer, [Scheduler].Reconcile moves it.
func (p replanning) again(h EventHandler, e Event, o Occurrence) (Event, error) {
	zone := o.zoneFor(p.is)
	if !zone.Equal(StoredTimezone(e.Zone)) || o.Policies.WithDefaults() != e.Policies.WithDefaults() {
		next, err := e.Reschedule(p.is, h, o)
		return p.zones.stamp(next), err
	}
	if _, err := zone.Resolve(o.Wall, o.Policies); err != nil && !p.zones.differs(e.Zone) {
		return e, err
	}
	return e.keep(p.is, h, o)
}

// leavesTimes reports whether a series lacks the occurrence of a pending event because of
// this program's rules, and not because of the edit. That is so when the rules skip its
// wall time or show it twice, and the edit leaves the times of the series as they were.
func (p replanning) leavesTimes(h oneSeries, e Event) bool {
	lenient := Policies{Gap: GapForward, Fold: FoldFirst}
	if r, err := StoredTimezone(e.Zone).Resolve(e.Wall, lenient); err != nil || r.Reading == ShownOnce {
		return false
	}
	from := e.Due.Add(-searchBack)
	was, errWas := h.Next(p.User, from)
	is, errIs := h.Next(p.is, from)
	return p.User.Timezone == p.is.Timezone && (errWas == nil) == (errIs == nil) && was == is
}

// occurrence returns what e was planned from.
func (e Event) occurrence() Occurrence {
	series := seriesName(e.OccurrenceKey)
	key := e.OccurrenceKey
	if series != "" {
		key = key[len(series)+1:]
	}
	return Occurrence{Key: key, Wall: e.Wall, Zone: StoredTimezone(e.Zone), Policies: e.Policies, Series: series}
}
