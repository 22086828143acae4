package almanactest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// ZoneRules returns what is remembered of zones.
func (r *Repository) ZoneRules(ctx context.Context) (book almanac.ZoneBook, err error) {
	err = r.read(ctx, func(now time.Time) error {
		book = r.zoneBook(now)
		return nil
	})
	return book, err
}

func (s *state) zoneBook(now time.Time) almanac.ZoneBook {
	return almanac.ZoneBook{Rules: slices.SortedFunc(maps.Values(s.zones), byZone), Marks: slices.Clone(s.marks), Now: now}
}

func byZone(a, b almanac.ZoneRules) int {
	return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Version, b.Version), cmp.Compare(a.Fingerprint, b.Fingerprint), cmp.Compare(a.Since, b.Since))
}

// EditZoneRules changes what is remembered of zones.
func (r *Repository) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) ([]almanac.ZoneRules, error)) error {
	return r.transact(ctx, func(now time.Time) error {
		changed, err := edit(r.zoneBook(now))
		if err != nil {
			return err
		}
		r.zones = maps.Clone(r.zones)
		for _, rules := range changed {
			rules.Recheck = rules.Recheck.UTC().Truncate(time.Microsecond)
			r.zones[rules.Zone] = rules
		}
		r.marks = slices.DeleteFunc(slices.Clone(r.marks), func(m almanac.ZoneRules) bool {
			return slices.ContainsFunc(changed, func(c almanac.ZoneRules) bool { return c.Zone == m.Zone })
		})
		return nil
	})
}

// mark notes by which other rules an event was planned, and returns the event as it is
// stored.
func (s *state) mark(e almanac.Event) almanac.Event {
	if e.PlannedBy != nil && !slices.Contains(s.marks, *e.PlannedBy) {
		s.marks = append(slices.Clone(s.marks), *e.PlannedBy)
		slices.SortFunc(s.marks, byZone)
	}
	e.PlannedBy = nil
	return e
}

// MoveEvents gives pending events another instant.
func (r *Repository) MoveEvents(ctx context.Context, events []almanac.Event) (moved []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		for _, e := range events {
			if r.unclaimed(e.ID, e.Version-1) != nil {
				continue
			}
			is := r.events[e.ID]
			is.Due, is.AvailableAt, is.Version = e.Due, e.Due, e.Version
			moved = append(moved, r.put(is, now))
		}
		return nil
	})
	return moved, err
}
