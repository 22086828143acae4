package almanac

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/almanac-go/almanac/calendar"
)

const (
	// zoneLook is how often a planning program reads which rules the repository follows,
	// and how often a running program reads the marks.
	zoneLook = time.Minute
	// zoneStale is the age from which on a zoneView is not used any more. Then all planned events
	// are marked. Together with the time from planning to commit it must stay below recheckGrace.
	zoneStale = 5 * time.Minute
)

// zoneView has the zone rules that a repository stored at some moment, for comparison
// with the program's rules.
type zoneView struct {
	read  time.Time                    // by this machine's clock, before the query
	rules []ZoneRecord                 // in alphabetical order
	own   sync.Map                     // the results of comparisons, by zone: *otherRules
	days  dayWork                      // the result of comparing calendars
	mine  map[string]calendar.DayRules // the calendars of this program, by name
}

// otherRules are this program's rules in a zone for which the repository follows other rules, or may.
type otherRules struct {
	calendar.ZoneRules
	from time.Time // instants before it cannot differ
}

// zoneView returns the repository's zone rules, at most one minute old.
func (s *scheduler) zoneView(ctx context.Context) (*zoneView, error) {
	if v := s.zones.Load(); v.isYoungerThan(zoneLook) {
		return v, nil
	}
	v, _, err := s.readZones(ctx)
	return v, err
}

// readZones reads the repository's zone rules. A view from a transaction of the host is
// not shared, because it may be as old as the transaction.
func (s *scheduler) readZones(ctx context.Context) (*zoneView, ZoneBook, error) {
	asked := time.Now()
	book, err := s.repository.ZoneRules(ctx)
	if err != nil {
		return nil, book, err
	}
	v := &zoneView{read: asked, rules: book.Rules, days: s.compareDays(book), mine: s.calendars(book.Now.UTC().Year() - 1)}
	if !s.inTransaction() {
		s.zones.Store(v)
	}
	return v, book, nil
}

func (s *scheduler) inTransaction() bool { return s.repository.InTransaction() }

// stampHere marks an event that is planned in the transaction that settles another event,
// where no query is possible.
func (s *scheduler) stampHere(e Event, now time.Time) Event {
	if v := s.zones.Load(); v.isYoungerThan(zoneStale) {
		return v.stamp(e)
	}
	if mine, err := calendar.StoredTimezone(e.Zone).Rules(now.UTC().Year()); err == nil {
		e.PlannedBy = &mine
	}
	return e
}

// isYoungerThan measures by both clocks of the machine, because the monotonic clock may
// stop while the machine sleeps, and the other clock can be set.
func (v *zoneView) isYoungerThan(age time.Duration) bool {
	if v == nil {
		return false
	}
	now := time.Now()
	return now.Sub(v.read) < age && now.Round(0).Sub(v.read.Round(0)) < age
}

// stamp sets PlannedBy of an event that was just planned, if the rules may differ from
// those of the repository.
func (v *zoneView) stamp(e Event) Event {
	if other := v.other(e.Zone); other != nil && !e.Due.Before(other.from) {
		e.PlannedBy = &other.ZoneRules
	}
	return e
}

func (v *zoneView) stampAll(events []Event) []Event {
	for i := range events {
		events[i] = v.stamp(events[i])
	}
	return events
}

// differs reports whether the repository follows other rules in a zone than this program.
func (v *zoneView) differs(zone string) bool {
	other := v.other(zone)
	return other != nil && other.from.IsZero()
}

// other returns this program's rules in a zone if they may differ from the repository's, or nil.
func (v *zoneView) other(zone string) *otherRules {
	found, compared := v.own.Load(zone)
	if !compared {
		found, _ = v.own.LoadOrStore(zone, v.compare(zone))
	}
	other, _ := found.(*otherRules)
	return other
}

// compare compares this program's rules in a zone with the repository's. It returns nil if
// the repository has no rules, because the first program that stores rules checks all pending
// events. Rules that agree but have another release may differ after the compared years.
func (v *zoneView) compare(zone string) *otherRules {
	i, known := slices.BinarySearchFunc(v.rules, zone, func(r ZoneRecord, name string) int { return strings.Compare(r.Zone, name) })
	if !known {
		return nil
	}
	stored := v.rules[i]
	mine, err := calendar.StoredTimezone(zone).Rules(stored.Since)
	switch {
	case err != nil:
		return nil // no event can be planned in this zone
	case mine.Fingerprint != stored.Fingerprint:
		return &otherRules{ZoneRules: mine}
	case mine.Version != stored.Version:
		return &otherRules{mine, stored.Until()}
	}
	return nil
}
