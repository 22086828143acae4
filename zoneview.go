package almanac

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// zoneLook is how often a program that plans reads which rules the repository
	// follows, and a running one whether there are marks.
	zoneLook = time.Minute
	// zoneStale is from when on what was read counts for nothing: then all that is
	// planned is marked. Together with the time from planning to commit it must stay
	// below recheckGrace.
	zoneStale = 5 * time.Minute
)

// zoneView is what a repository remembered of zones at some moment, as a program with
// rules of its own sees it.
type zoneView struct {
	read  time.Time   // by this machine's clock, before the repository was asked
	rules []ZoneRules // in alphabetical order
	own   sync.Map    // by zone, what was found by comparing: *otherRules
}

// otherRules are those of this program in a zone for which the repository follows
// others, or may.
type otherRules struct {
	ZoneRules
	from time.Time // no instant before it can differ
}

// zoneView returns what the repository remembers of zones, as of a minute ago at most.
func (s *scheduler) zoneView(ctx context.Context) (*zoneView, error) {
	if v := s.zones.Load(); v.isYoungerThan(zoneLook) {
		return v, nil
	}
	v, _, err := s.readZones(ctx)
	return v, err
}

// readZones asks the repository what it remembers of zones. What a host's transaction
// sees is not kept for others: it may be as old as the transaction.
func (s *scheduler) readZones(ctx context.Context) (*zoneView, ZoneBook, error) {
	asked := time.Now()
	book, err := s.repository.ZoneRules(ctx)
	if err != nil {
		return nil, book, err
	}
	v := &zoneView{read: asked, rules: book.Rules}
	if !s.inTransaction() {
		s.zones.Store(v)
	}
	return v, book, nil
}

func (s *scheduler) inTransaction() bool {
	t, ok := s.repository.(Transactional)
	return ok && t.InTransaction()
}

// stampHere marks what is planned where nothing can be asked: in the transaction that
// settles an event.
func (s *scheduler) stampHere(e Event, now time.Time) Event {
	if v := s.zones.Load(); v.isYoungerThan(zoneStale) {
		return v.stamp(e)
	}
	if mine, err := StoredTimezone(e.Zone).Rules(now.UTC().Year()); err == nil {
		e.PlannedBy = &mine
	}
	return e
}

// isYoungerThan measures by both clocks of the machine: one stands still while the
// machine sleeps, and the other can be set.
func (v *zoneView) isYoungerThan(age time.Duration) bool {
	if v == nil {
		return false
	}
	now := time.Now()
	return now.Sub(v.read) < age && now.Round(0).Sub(v.read.Round(0)) < age
}

// stamp says of an event that was just planned by which rules, where they may not be
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

// differs reports whether the repository follows other rules in a zone than this
// program.
func (v *zoneView) differs(zone string) bool {
	other := v.other(zone)
	return other != nil && other.from.IsZero()
}

// other returns this program's rules in a zone where they may not be the repository's,
// or nil.
func (v *zoneView) other(zone string) *otherRules {
	found, compared := v.own.Load(zone)
	if !compared {
		found, _ = v.own.LoadOrStore(zone, v.compare(zone))
	}
	other, _ := found.(*otherRules)
	return other
}

// compare compares this program's rules in a zone with the repository's. Where it has
// none, whoever brings some looks at everything that is pending. Rules that agree but
// are of another release may differ after the years that are compared.
func (v *zoneView) compare(zone string) *otherRules {
	i, known := slices.BinarySearchFunc(v.rules, zone, func(r ZoneRules, name string) int { return strings.Compare(r.Zone, name) })
	if !known {
		return nil
	}
	stored := v.rules[i]
	mine, err := StoredTimezone(zone).Rules(stored.Since)
	switch {
	case err != nil:
		return nil // nothing can be planned there
	case mine.Fingerprint != stored.Fingerprint:
		return &otherRules{ZoneRules: mine}
	case mine.Version != stored.Version:
		return &otherRules{mine, time.Date(stored.Since+fingerprintYears, time.January, 1, 0, 0, 0, 0, time.UTC)}
	}
	return nil
}
