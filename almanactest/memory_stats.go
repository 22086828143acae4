package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// Stats counts everything.
func (r *Repository) Stats(ctx context.Context) (stats ops.Stats, err error) {
	err = r.read(ctx, func(now time.Time) error {
		stats = ops.Stats{At: now}
		zones := make(map[string]ops.ZoneCount)
		for _, u := range r.users {
			if !u.deleted {
				zone := u.Timezone.String()
				z := zones[zone]
				z.Users.N++
				zones[zone] = z
				stats.Users.N++
			}
		}
		events := make(map[ops.TypeCount]int64)
		stats.Wave = make([]ops.QuarterCount, 48*4)
		for i := range stats.Wave {
			stats.Wave[i].From = now.Truncate(quarter).Add(time.Duration(i) * quarter)
		}
		for _, e := range r.events {
			events[ops.TypeCount{Type: e.Type, Status: e.Status}]++
			if e.Status == almanac.Pending {
				z := zones[e.Zone]
				z.Pending.N++
				zones[e.Zone] = z
				waiting(&stats, e.AvailableAt)
				if e.Due.Before(now) && e.AvailableAt.After(now) {
					stats.Delayed.N++
				}
			}
		}
		stats.Events, stats.Zones = typeCounts(events), zoneCounts(zones)
		return nil
	})
	return stats, err
}

// Retries counts everything.
func (r *Repository) Retries(ctx context.Context) (retries ops.Retries, err error) {
	err = r.read(ctx, func(time.Time) error {
		events, series := make(retryGroups), make(retryGroups)
		for _, e := range r.events {
			if e.Status == almanac.Pending && e.RetryCount > 0 {
				events.add(e.Type, e.LastError, e.Due, e.AvailableAt)
			}
		}
		for _, s := range r.stalled(func(almanac.StalledSeries) bool { return true }) {
			series.add(s.Series.Type, s.Error, s.Since, s.RetryAt)
		}
		retries = ops.Retries{Events: events.sorted(), Series: series.sorted()}
		return nil
	})
	return retries, err
}

// retryGroups are groups by type and error.
type retryGroups map[[2]string]ops.RetryGroup

func (groups retryGroups) add(eventType, problem string, since, next time.Time) {
	g, ok := groups[[2]string{eventType, problem}]
	if !ok {
		g = ops.RetryGroup{Type: eventType, Error: problem, Since: since, Next: next}
	}
	g.Count.N++
	if since.Before(g.Since) {
		g.Since = since
	}
	if next.Before(g.Next) {
		g.Next = next
	}
	groups[[2]string{eventType, problem}] = g
}

func (groups retryGroups) sorted() []ops.RetryGroup {
	return slices.SortedFunc(maps.Values(groups), func(a, b ops.RetryGroup) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(b.Count.N, a.Count.N), cmp.Compare(a.Error, b.Error))
	})
}

// DueCounts counts everything.
func (r *Repository) DueCounts(ctx context.Context, request ops.DueCountsRequest) (counts ops.DueCountsResult, err error) {
	err = r.read(ctx, func(now time.Time) error {
		counts.At = now
		found := make(map[time.Time]int64)
		for _, e := range r.events {
			from := e.Due.UTC().Truncate(quarter)
			if e.Zone == request.Zone && (request.Type == "" || e.Type == request.Type) && !from.Before(request.From) && from.Before(request.Until) {
				found[from]++
			}
		}
		for _, from := range slices.SortedFunc(maps.Keys(found), time.Time.Compare) {
			counts.Quarters = append(counts.Quarters, ops.QuarterCount{From: from, Count: ops.Count{N: found[from]}})
		}
		return nil
	})
	return counts, err
}

const quarter = 15 * time.Minute

// waiting counts a pending event that is available at an instant.
func waiting(s *ops.Stats, at time.Time) {
	if !at.After(s.At) {
		s.Backlog.N++
		if s.Oldest.IsZero() || at.Before(s.Oldest) {
			s.Oldest = at
		}
	}
	from := s.Wave[0].From
	if place := at.Sub(from) / quarter; !at.Before(from) && int(place) < len(s.Wave) {
		s.Wave[place].Count.N++
	}
}

// life has the statuses in the order of an event's life.
var life = []almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled}

func typeCounts(events map[ops.TypeCount]int64) []ops.TypeCount {
	var counts []ops.TypeCount
	for one, n := range events {
		one.Count.N = n
		counts = append(counts, one)
	}
	slices.SortFunc(counts, func(a, b ops.TypeCount) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), slices.Index(life, a.Status)-slices.Index(life, b.Status))
	})
	return counts
}

func zoneCounts(zones map[string]ops.ZoneCount) []ops.ZoneCount {
	var counts []ops.ZoneCount
	for zone, one := range zones {
		one.Zone = zone
		counts = append(counts, one)
	}
	slices.SortFunc(counts, func(a, b ops.ZoneCount) int {
		return cmp.Or(cmp.Compare(b.Users.N, a.Users.N), cmp.Compare(a.Zone, b.Zone))
	})
	return counts[:min(1000, len(counts))]
}

// Leases returns the leases, oldest claim first.
func (r *Repository) Leases(ctx context.Context, limit int) (leases []ops.Lease, err error) {
	if limit, err = almanac.MissedLimit(limit); err != nil {
		return nil, err
	}
	err = r.read(ctx, func(now time.Time) error {
		leases = nil
		for token, l := range r.leases {
			leases = append(leases, ops.Lease{
				Token: token, Owner: l.owner, Program: l.program, ZoneData: l.zoneData, Events: len(l.ids),
				ClaimedAt: l.claimed, ExpiresAt: l.expires, Expired: l.expires.Before(now),
			})
		}
		slices.SortFunc(leases, func(a, b ops.Lease) int {
			return cmp.Or(a.ClaimedAt.Compare(b.ClaimedAt), bytes.Compare(a.Token[:], b.Token[:]))
		})
		leases = leases[:min(limit, len(leases))]
		return nil
	})
	return leases, err
}
