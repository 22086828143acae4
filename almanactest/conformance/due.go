package conformance

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/ops"
)

var dueCases = cases{
	"DueCounts/counts events of any status by quarter hour": func(k *kit) {
		due := k.now.Truncate(15 * time.Minute).Add(-2 * time.Hour)
		for _, status := range []almanac.Status{almanac.Completed, almanac.Failed, almanac.Cancelled, almanac.Processing, almanac.Pending} {
			u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
			almanactest.Store(k.T, k.r, u, k.event(u, almanactest.InStatus(status), almanactest.DueIn(due.Add(7*time.Minute).Sub(k.now))))
		}
		u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
		almanactest.Store(k.T, k.r, u, k.event(u, almanactest.OfType("CARD"), almanactest.DueIn(due.Add(15*time.Minute).Sub(k.now))))
		early := ops.QuarterCount{From: due, Count: exactly(5)}
		late := ops.QuarterCount{From: due.Add(15 * time.Minute), Count: exactly(1)}
		k.dueCounts(ops.DueCountsRequest{Zone: "Asia/Tokyo", From: due, Until: due.Add(time.Hour)}, early, late)
		k.dueCounts(ops.DueCountsRequest{Zone: "Asia/Tokyo", From: due, Until: due.Add(15 * time.Minute)}, early)
		k.dueCounts(ops.DueCountsRequest{Zone: "Asia/Tokyo", From: due.Add(time.Second), Until: due.Add(time.Hour)}, late)
		k.dueCounts(ops.DueCountsRequest{Zone: "Asia/Tokyo", Type: "CARD", From: due, Until: due.Add(time.Hour)}, late)
		k.dueCounts(ops.DueCountsRequest{Zone: "asia/tokyo", From: due, Until: due.Add(time.Hour)})
		k.dueCounts(ops.DueCountsRequest{Zone: "Asia/Tokyo", From: due.Add(time.Hour), Until: due})
	},
	"DueCounts/stay when changes are swept": func(k *kit) {
		u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
		stored := almanactest.Store(k.T, k.r, u, k.event(u, almanactest.DueIn(48*time.Hour)))
		from := stored[0].Due.UTC().Truncate(15 * time.Minute)
		for range 3 {
			k.releaseExpired(100)
			k.dueCounts(ops.DueCountsRequest{Zone: "Asia/Tokyo", From: from, Until: from.Add(time.Hour)}, ops.QuarterCount{From: from, Count: exactly(1)})
		}
	},
}

func (k *kit) dueCounts(r ops.DueCountsRequest, want ...ops.QuarterCount) {
	k.Helper()
	got := must(k.statistics.DueCounts(k.Context(), r))(k)
	k.same(fmt.Sprintf("counts of %+v", r), got.Quarters, want)
	k.same("before the case", got.At.Before(k.now), false)
}

// quarterOf is what events are counted by.
type quarterOf struct {
	zone, eventType string
	from            time.Time
}

// countsAgree fails a case after which DueCounts or Retries differs from the events that are stored. It is called at the
// end of each case, so an operation that forgets to count is found.
func (k *kit) countsAgree() {
	k.Helper()
	want := make(map[quarterOf]int64)
	// Whether a zone has events.
	zones := map[string]bool{"UTC": false, "Asia/Tokyo": false, "Europe/Paris": false, "Europe/London": false, "America/New_York": false}
	types, retried := make(map[string]bool), make(map[[2]string]int64)
	for page := (almanac.Page{Limit: 1000}); ; {
		found := must(k.r.Find(k.Context(), nil, page))(k)
		for _, e := range found.Items {
			want[quarterOf{e.Zone, e.Type, e.Due.UTC().Truncate(15 * time.Minute)}]++
			zones[e.Zone], types[e.Type] = true, true
			if e.Status == almanac.Pending && e.RetryCount > 0 {
				retried[[2]string{e.Type, e.LastError}]++
			}
		}
		if page.After = found.Next; page.After == "" {
			break
		}
	}
	for zone, used := range zones {
		k.countsOf(zone, used, types, want)
	}
	for one, n := range want {
		k.Errorf("%d events %+v are not counted", n, one)
	}
	retries := must(k.statistics.Retries(k.Context()))(k)
	counted := make(map[[2]string]int64)
	for _, g := range retries.Events {
		counted[[2]string{g.Type, g.Error}] += g.Count.N
	}
	k.same("retries", counted, retried)
}

// countsOf compares the counts of a zone, and removes them from what is wanted. In a zone without events and counts it asks for no type.
func (k *kit) countsOf(zone string, used bool, types map[string]bool, want map[quarterOf]int64) {
	k.Helper()
	all := ops.DueCountsRequest{Zone: zone, From: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), Until: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	total := must(k.statistics.DueCounts(k.Context(), all))(k)
	if !used && len(total.Quarters) == 0 {
		return
	}
	var of, sum int64
	for _, q := range total.Quarters {
		sum += q.Count.N
	}
	for all.Type = range types {
		got := must(k.statistics.DueCounts(k.Context(), all))(k)
		for _, q := range got.Quarters {
			one := quarterOf{zone, all.Type, q.From}
			k.same(fmt.Sprintf("events %+v that are counted", one), q.Count.N, want[one])
			delete(want, one)
			of += q.Count.N
		}
	}
	k.same("events of all types that are counted in "+zone, sum, of)
}
