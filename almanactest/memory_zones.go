package almanactest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// EditZoneRules changes what is remembered of zones.
func (r *Repository) EditZoneRules(ctx context.Context, edit func([]almanac.ZoneRules, time.Time) ([]almanac.ZoneRules, error)) error {
	return r.transact(ctx, func(now time.Time) error {
		var stored []almanac.ZoneRules
		for _, rules := range r.zones {
			stored = append(stored, rules)
		}
		slices.SortFunc(stored, func(a, b almanac.ZoneRules) int { return strings.Compare(a.Zone, b.Zone) })
		changed, err := edit(stored, now)
		if err != nil {
			return err
		}
		r.zones = maps.Clone(r.zones)
		for _, rules := range changed {
			rules.Recheck = rules.Recheck.UTC().Truncate(time.Microsecond)
			r.zones[rules.Zone] = rules
		}
		return nil
	})
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
