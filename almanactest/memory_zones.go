package almanactest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// ZoneRules returns the stored zone rules.
func (r *Repository) ZoneRules(ctx context.Context) (book almanac.ZoneBook, err error) {
	err = r.read(ctx, func(now time.Time) error {
		book = r.zoneBook(now)
		return nil
	})
	return book, err
}

func (s *state) zoneBook(now time.Time) almanac.ZoneBook {
	return almanac.ZoneBook{Rules: slices.Clone(s.zones), Marks: slices.Clone(s.marks), Now: now}
}

func byZone(a, b calendar.ZoneRules) int {
	return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Version, b.Version), cmp.Compare(a.Fingerprint, b.Fingerprint), cmp.Compare(a.Since, b.Since))
}

// EditZoneRules edits the stored zone rules.
func (r *Repository) EditZoneRules(ctx context.Context, edit func(almanac.ZoneBook) ([]almanac.ZoneRecord, error)) error {
	return r.transact(ctx, func(now time.Time) error {
		changed, err := edit(r.zoneBook(now))
		if err != nil {
			return err
		}
		r.zones = slices.Clone(r.zones)
		for _, rules := range changed {
			rules.Recheck = rules.Recheck.UTC().Truncate(time.Microsecond)
			i, known := slices.BinarySearchFunc(r.zones, rules.Zone, func(r almanac.ZoneRecord, zone string) int { return strings.Compare(r.Zone, zone) })
			if !known {
				r.zones = slices.Insert(r.zones, i, rules)
			}
			r.zones[i] = rules
		}
		r.marks = slices.DeleteFunc(slices.Clone(r.marks), func(m calendar.ZoneRules) bool {
			return slices.ContainsFunc(changed, func(c almanac.ZoneRecord) bool { return c.Zone == m.Zone })
		})
		return nil
	})
}

// mark stores by which other rules an event was planned, and returns the event as stored.
func (s *state) mark(e almanac.Event) almanac.Event {
	if e.PlannedBy != nil && !slices.Contains(s.marks, *e.PlannedBy) {
		s.marks = append(slices.Clone(s.marks), *e.PlannedBy)
		slices.SortFunc(s.marks, byZone)
	}
	e.PlannedBy = nil
	return e
}

// MoveEvents moves pending events to another instant.
func (r *Repository) MoveEvents(ctx context.Context, events []almanac.Event) (moved []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		for _, e := range events {
			is, known := r.events[e.ID]
			if !known || is.Version != e.Version-1 || is.Status != almanac.Pending || is.ClaimCount > 0 {
				continue
			}
			was := is
			is.Due, is.Version = e.Due, e.Version
			is.AvailableAt, is.ReadyAt = availableAfter(was, is, now)
			moved = append(moved, r.put(is, now))
		}
		return nil
	})
	return moved, err
}
