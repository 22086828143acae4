package shards

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// counted is all for statistics. The error matches [errors.ErrUnsupported] if a schema has none.
func counted[T any](ctx context.Context, s *Store, call func(context.Context, ops.Statistics) (T, error)) ([]answer[T], error) {
	return allIndexed(ctx, s, func(ctx context.Context, schema int) (none T, err error) {
		if _, err := s.at(schema); err != nil {
			return none, err
		}
		statistics := s.schemas[schema].Statistics
		if statistics == nil {
			return none, errUnsupported("schema " + s.names[schema] + " has no statistics")
		}
		return call(ctx, statistics)
	})
}

// sum adds two counts. The sum is as inexact as the less exact of them.
func sum(a, b ops.Count) ops.Count { return ops.Count{N: a.N + b.N, Kind: max(a.Kind, b.Kind)} }

// table has values by key.
type table[K comparable, V any] map[K]V

// add adds a value to that of a key, or sets it.
func (t table[K, V]) add(key K, value V, add func(a, b V) V) {
	if was, is := t[key]; is {
		value = add(was, value)
	}
	t[key] = value
}

// sorted returns the values in an order.
func (t table[K, V]) sorted(order func(a, b V) int) []V {
	return slices.SortedFunc(maps.Values(t), order)
}

// Stats adds the numbers of the schemas. Each schema counts up to its own limit, at a moment of its own. If a schema does not answer,
// Stats also returns a [*PartialError].
func (s *Store) Stats(ctx context.Context) (ops.Stats, error) {
	answers, err := counted(ctx, s, func(ctx context.Context, one ops.Statistics) (ops.Stats, error) { return one.Stats(ctx) })
	if len(answers) == 0 {
		return ops.Stats{}, err
	}
	var stats ops.Stats
	type typed struct {
		of     string
		status almanac.Status
	}
	events, zones, wave := make(table[typed, ops.Count]), make(table[string, ops.ZoneCount]), make(table[time.Time, ops.Count])
	for _, a := range answers {
		one := a.is
		stats.At, stats.Analyzed, stats.Oldest = earliest(stats.At, one.At), earliest(stats.Analyzed, one.Analyzed), earliest(stats.Oldest, one.Oldest)
		stats.Backlog, stats.Delayed, stats.Users = sum(stats.Backlog, one.Backlog), sum(stats.Delayed, one.Delayed), sum(stats.Users, one.Users)
		for _, n := range one.Events {
			events.add(typed{n.Type, n.Status}, n.Count, sum)
		}
		for _, z := range one.Zones {
			zones.add(z.Zone, z, func(a, b ops.ZoneCount) ops.ZoneCount {
				return ops.ZoneCount{Zone: a.Zone, Users: sum(a.Users, b.Users), Pending: sum(a.Pending, b.Pending)}
			})
		}
		for _, q := range one.Wave {
			wave.add(q.From, q.Count, sum)
		}
	}
	for key, n := range events {
		stats.Events = append(stats.Events, ops.TypeCount{Type: key.of, Status: key.status, Count: n})
	}
	slices.SortFunc(stats.Events, func(a, b ops.TypeCount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), slices.Index(life, a.Status)-slices.Index(life, b.Status))
	})
	stats.Zones = slices.SortedFunc(maps.Values(zones), func(a, b ops.ZoneCount) int {
		return cmp.Or(cmp.Compare(b.Users.N, a.Users.N), cmp.Compare(a.Zone, b.Zone))
	})
	stats.Zones = stats.Zones[:min(len(stats.Zones), maxZones)]
	quarters := slices.SortedFunc(maps.Keys(wave), time.Time.Compare)
	for _, from := range quarters[:min(len(quarters), quartersOfWave)] {
		stats.Wave = append(stats.Wave, ops.QuarterCount{From: from, Count: wave[from]})
	}
	return stats, err
}

const (
	maxZones       = 1000
	quartersOfWave = 192
)

// life has the statuses in the order of an event's life.
var life = []almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled}

// Retries adds the groups of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Retries(ctx context.Context) (ops.Retries, error) {
	answers, err := counted(ctx, s, func(ctx context.Context, one ops.Statistics) (ops.Retries, error) { return one.Retries(ctx) })
	var events, series [][]ops.RetryGroup
	for _, one := range answers {
		events, series = append(events, one.is.Events), append(series, one.is.Series)
	}
	return ops.Retries{Events: mergedGroups(events), Series: mergedGroups(series)}, err
}

// mergedGroups merges groups with the same type and error.
func mergedGroups(lists [][]ops.RetryGroup) []ops.RetryGroup {
	groups := make(table[[2]string, ops.RetryGroup])
	for _, g := range slices.Concat(lists...) {
		groups.add([2]string{g.Type, g.Error}, g, func(a, b ops.RetryGroup) ops.RetryGroup {
			a.Count, a.Since, a.Next = sum(a.Count, b.Count), earliest(a.Since, b.Since), earliest(a.Next, b.Next)
			return a
		})
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b ops.RetryGroup) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(b.Count.N, a.Count.N), cmp.Compare(a.Error, b.Error))
	})
}

// DueCounts adds the counts of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) DueCounts(ctx context.Context, request ops.DueCountsRequest) (counts ops.DueCountsResult, err error) {
	answers, err := counted(ctx, s, func(ctx context.Context, one ops.Statistics) (ops.DueCountsResult, error) {
		return one.DueCounts(ctx, request)
	})
	quarters := make(table[time.Time, ops.Count])
	for _, one := range answers {
		counts.At = earliest(counts.At, one.is.At)
		for _, q := range one.is.Quarters {
			quarters.add(q.From, q.Count, sum)
		}
	}
	for _, from := range slices.SortedFunc(maps.Keys(quarters), time.Time.Compare) {
		counts.Quarters = append(counts.Quarters, ops.QuarterCount{From: from, Count: quarters[from]})
	}
	return counts, err
}

// LaneLoads adds the limits of the lanes, and what waits in them. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) LaneLoads(ctx context.Context) ([]ops.LaneLoad, error) {
	answers, err := counted(ctx, s, func(ctx context.Context, one ops.Statistics) ([]ops.LaneLoad, error) { return one.LaneLoads(ctx) })
	loads := make(table[string, ops.LaneLoad])
	for _, one := range joined(answers) {
		loads.add(one.Name, one, loaded)
	}
	return loads.sorted(func(a, b ops.LaneLoad) int { return cmp.Compare(a.Name, b.Name) }), err
}

// loaded adds the loads of two parts of a lane. The first breaker that is not closed counts, and the first pause.
func loaded(a, b ops.LaneLoad) ops.LaneLoad {
	a.Lane = added(a.Lane, b.Lane)
	a.Waiting, a.Oldest, a.Weights = sum(a.Waiting, b.Waiting), earliest(a.Oldest, b.Oldest), max(a.Weights, b.Weights)
	a.InFlight, a.Today = a.InFlight+b.InFlight, a.Today+b.Today
	if a.ReadyAt.IsZero() || b.ReadyAt.IsZero() { // a part has a token
		a.ReadyAt = time.Time{}
	} else {
		a.ReadyAt = earliest(a.ReadyAt, b.ReadyAt)
	}
	if a.Breaker.Allowed == 0 {
		a.Breaker = b.Breaker
	}
	if a.Pause.Since.IsZero() {
		a.Pause = b.Pause
	}
	for i := range a.Started {
		a.Started[i] += b.Started[i]
	}
	return a
}

// LaneWait asks the schema of the event's user. Before counts the events of that schema.
func (s *Store) LaneWait(ctx context.Context, e almanac.Event) (ops.LaneWait, error) {
	schema := s.of(e.UserID)
	if _, err := s.at(schema); err != nil {
		return ops.LaneWait{}, err
	}
	if s.schemas[schema].Statistics == nil {
		return ops.LaneWait{}, errUnsupported("schema " + s.names[schema] + " has no statistics")
	}
	return s.schemas[schema].Statistics.LaneWait(ctx, e)
}

// Leases merges the leases of the schemas. The leases of one claim in several schemas are one lease, which expires with the
// first of them. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Leases(ctx context.Context, limit int) ([]ops.Lease, error) {
	limit, err := almanac.MissedLimit(limit)
	if err != nil {
		return nil, err
	}
	answers, err := counted(ctx, s, func(ctx context.Context, one ops.Statistics) ([]ops.Lease, error) { return one.Leases(ctx, limit) })
	leases := make(table[uuid.UUID, ops.Lease])
	for _, l := range joined(answers) {
		leases.add(l.Token, l, func(a, b ops.Lease) ops.Lease {
			a.Events += b.Events
			a.ClaimedAt, a.ExpiresAt, a.Expired = earliest(a.ClaimedAt, b.ClaimedAt), earliest(a.ExpiresAt, b.ExpiresAt), a.Expired || b.Expired
			return a
		})
	}
	list := slices.SortedFunc(maps.Values(leases), func(a, b ops.Lease) int {
		return cmp.Or(a.ClaimedAt.Compare(b.ClaimedAt), bytes.Compare(a.Token[:], b.Token[:]))
	})
	return list[:min(limit, len(list))], err
}
