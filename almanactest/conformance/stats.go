package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/ops"
)

var statsCases = cases{
	"Stats/of an empty repository": func(k *kit) {
		s := k.stats()
		k.same("backlog", s.Backlog, ops.Count{})
		k.same("delayed", s.Delayed, ops.Count{})
		k.same("users", s.Users, ops.Count{})
		k.same("events, zones", len(s.Events)+len(s.Zones), 0)
		k.same("oldest, analyzed", s.Oldest.IsZero() && s.Analyzed.IsZero(), true)
		k.wave(s, nil)
	},
	"Stats/counts users and pending events by zone": func(k *kit) {
		for zone, n := range map[string]int{"Asia/Tokyo": 3, "Europe/Paris": 1, "America/New_York": 1} {
			for range n {
				u := almanactest.User(almanactest.LivingIn(zone))
				k.create(u, k.event(u))
			}
		}
		u := almanactest.User(almanactest.LivingIn("Europe/Paris"))
		k.create(u)
		stays := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
		k.create(stays, almanactest.Event(k.now, almanactest.For(almanactest.User(almanactest.LivingIn("Africa/Cairo"))), almanactest.OfUser(stays.ID)))
		s := k.stats()
		k.same("users", s.Users, exactly(7))
		k.same("zones", s.Zones, []ops.ZoneCount{
			{Zone: "Asia/Tokyo", Users: exactly(4), Pending: exactly(3)},
			{Zone: "Europe/Paris", Users: exactly(2), Pending: exactly(1)},
			{Zone: "America/New_York", Users: exactly(1), Pending: exactly(1)},
			{Zone: "Africa/Cairo", Users: exactly(0), Pending: exactly(1)},
		})
	},
	"Stats/counts events by type and status": func(k *kit) {
		for _, status := range []almanac.Status{almanac.Completed, almanac.Failed, almanac.Cancelled, almanac.Processing, almanac.Pending} {
			for _, eventType := range []string{"LETTER", "CARD"} {
				u := almanactest.User()
				almanactest.Store(k.T, k.r, u, k.event(u, almanactest.OfType(eventType), almanactest.InStatus(status)))
			}
		}
		u := almanactest.User()
		almanactest.Store(k.T, k.r, u, k.event(u, almanactest.OfType("card"), almanactest.InStatus(almanac.Failed)))
		var want []ops.TypeCount
		for _, eventType := range []string{"CARD", "LETTER"} {
			for _, status := range []almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled} {
				want = append(want, ops.TypeCount{Type: eventType, Status: status, Count: exactly(1)})
			}
		}
		want = append(want, ops.TypeCount{Type: "card", Status: almanac.Failed, Count: exactly(1)})
		k.same("events", k.stats().Events, want)
	},
	"Stats/counts the backlog, paused types included": func(k *kit) {
		if err := k.r.Pause(k.Context(), almanac.Pause{Lane: "CARD"}); !errors.Is(err, errors.ErrUnsupported) {
			k.ok(err)
		}
		k.newEvent(almanactest.ReadyFor(time.Hour))
		k.newEvent(almanactest.ReadyFor(3 * time.Hour))
		oldest := k.newEvent(almanactest.OfType("CARD"), almanactest.ReadyFor(4*time.Hour))
		k.newEvent(almanactest.ReadyFor(time.Minute), almanactest.InStatus(almanac.Pending), almanactest.DueIn(time.Hour))
		u := almanactest.User()
		almanactest.Store(k.T, k.r, u, k.event(u, almanactest.ReadyFor(9*time.Hour), almanactest.Tried(1), almanactest.DelayedFor(time.Hour)))
		claimed := k.claim(1)[0]
		s := k.stats()
		k.same("the claimed event was next", claimed.Due.Equal(oldest.Due.Add(time.Hour)), true)
		k.same("backlog", s.Backlog, exactly(2))
		k.same("delayed", s.Delayed, exactly(1))
		k.same("oldest", s.Oldest, oldest.Due)
		k.same("location", s.Oldest.Location(), time.UTC)
		k.same("location", s.At.Location(), time.UTC)
	},
	"Stats/counts pending events by quarter hour": func(k *kit) {
		// Far from the ends of a quarter hour, unless the case takes minutes.
		from := k.now.Truncate(15 * time.Minute)
		middle := from.Add(7*time.Minute + 30*time.Second).Sub(k.now)
		const quarter = 15 * time.Minute
		for _, at := range []time.Duration{-quarter, 0, 0, 2 * quarter, 190 * quarter, 200 * quarter} {
			k.newEvent(almanactest.DueIn(middle + at))
		}
		k.newEvent(almanactest.OfType("CARD"), almanactest.DueIn(middle+2*quarter))
		u := almanactest.User()
		almanactest.Store(k.T, k.r, u, k.event(u, almanactest.ReadyFor(9*time.Hour), almanactest.Tried(1), almanactest.DelayedFor(middle+5*quarter)))
		s := k.stats()
		if s.At.Truncate(quarter).Equal(from) {
			k.wave(s, map[int]int64{0: 2, 2: 2, 5: 1, 190: 1})
		} else {
			k.wave(s, map[int]int64{1: 2, 4: 1, 189: 1})
		}
	},
	"Stats/leaves deleted users out at once": func(k *kit) {
		u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
		k.create(u, k.event(u))
		k.claim(1) // so that the user is hidden and not yet removed
		k.deleteUser(u.ID)
		s := k.stats()
		k.same("users", s.Users, exactly(0))
		k.same("zones", len(s.Zones), 0)
		k.same("events", s.Events, []ops.TypeCount{{Type: almanac.TypeBirthday, Status: almanac.Processing, Count: exactly(1)}})
	},
	"Stats/lists at most a thousand zones": func(k *kit) {
		u := almanactest.User()
		events := make([]almanac.Event, 1005)
		for i := range events {
			events[i] = k.event(u)
			events[i].Zone = fmt.Sprintf("Zone/%04d", i)
		}
		k.create(u, events...)
		s := k.stats()
		k.same("zones", len(s.Zones), 1000)
		k.same("first", s.Zones[0], ops.ZoneCount{Zone: "America/New_York", Users: exactly(1), Pending: exactly(0)})
		k.same("last", s.Zones[999], ops.ZoneCount{Zone: "Zone/0998", Users: exactly(0), Pending: exactly(1)})
	},
}

var retryCases = cases{
	"Retries/groups what is tried again by type and error": func(k *kit) {
		r := must(k.statistics.Retries(k.Context()))(k)
		k.same("of an empty repository", len(r.Events)+len(r.Series), 0)
		k.newEvent(almanactest.ReadyFor(time.Minute))
		for _, eventType := range []string{"LETTER", "CARD"} {
			k.newEvent(almanactest.OfType(eventType), almanactest.ReadyFor(2*time.Hour))
			k.newEvent(almanactest.OfType(eventType), almanactest.ReadyFor(time.Hour))
			k.newEvent(almanactest.OfType(eventType), almanactest.ReadyFor(3*time.Hour))
			k.newEvent(almanactest.OfType(eventType), almanactest.ReadyFor(3*time.Hour))
			r := request(4)
			r.Types = []string{eventType}
			claimed := k.take(r).Events
			k.retry(claimed[0], "HTTP 502", time.Minute)
			k.settle(almanac.Settlement{Event: claimed[1], Outcome: almanac.Released(almanac.AfterSnooze, "quiet hours", time.Minute)})
			k.retry(claimed[2], "HTTP 503", time.Minute)
			k.retry(claimed[3], "HTTP 503", 0)
		}
		r = must(k.statistics.Retries(k.Context()))(k)
		var events []ops.RetryGroup
		for _, g := range r.Events {
			k.same("the next attempt", g.Next.Sub(k.now) < time.Minute, g.Error == "HTTP 503")
			k.same("location", []*time.Location{g.Since.Location(), g.Next.Location()}, []*time.Location{time.UTC, time.UTC})
			g.Next = time.Time{}
			events = append(events, g)
		}
		due := func(ago time.Duration) time.Time { return k.now.Add(-ago).UTC().Truncate(time.Second) }
		k.same("events", events, []ops.RetryGroup{
			{Type: "CARD", Error: "HTTP 503", Count: exactly(2), Since: due(2 * time.Hour)},
			{Type: "CARD", Error: "HTTP 502", Count: exactly(1), Since: due(3 * time.Hour)},
			{Type: "LETTER", Error: "HTTP 503", Count: exactly(2), Since: due(2 * time.Hour)},
			{Type: "LETTER", Error: "HTTP 502", Count: exactly(1), Since: due(3 * time.Hour)},
		})
	},
	"Retries/groups stalled series by type and error": func(k *kit) {
		var since, next time.Time
		for range 2 {
			s := k.settle(almanac.Settlement{Event: k.newClaimed(almanactest.OfSeries("a", "2027")), Outcome: almanac.Delivered(k.now), Next: unable}).Stalled
			if since.IsZero() {
				since, next = s.Since, s.RetryAt
			}
			if s.RetryAt.Before(next) {
				next = s.RetryAt
			}
		}
		k.unplanned(k.newEvent(almanactest.OfSeries("a", "2027")))
		continued := k.newEvent(almanactest.OfSeries("a", "2027"))
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: unable})
		k.apply(continued.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{New: []almanac.Event{k.event(r.User, almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))}}, nil
		})
		r := must(k.statistics.Retries(k.Context()))(k)
		k.same("series", len(r.Series), 2)
		for i, want := range []ops.RetryGroup{
			{Type: almanac.TypeBirthday, Error: errPlan.Error(), Count: exactly(2), Since: since, Next: next},
			{Type: almanac.TypeBirthday, Error: "", Count: exactly(1), Since: r.Series[1].Since, Next: r.Series[1].Next},
		} {
			got := r.Series[i]
			if d := got.Since.Sub(want.Since).Abs() + got.Next.Sub(want.Next).Abs(); d > 10*time.Microsecond {
				k.Errorf("group %+v, want %+v", got, want)
			}
			k.same("group", []any{got.Type, got.Error, got.Count}, []any{want.Type, want.Error, want.Count})
		}
	},
	"Retries/leaves out a series that has used the same text in another unit since": func(k *kit) {
		u := almanactest.User()
		text := k.event(u, almanactest.OfSeries("", "2026"), almanactest.DueIn(time.Hour))
		text.KeyUnit = calendar.UnitText
		k.create(u, text)
		k.unplanned(k.stored(text.ID))
		k.same("stalled", len(must(k.statistics.Retries(k.Context()))(k).Series), 1)
		k.same("added", len(k.add(u.ID, k.event(u, almanactest.OfSeries("", "2026"), nominally(365*24*time.Hour), almanactest.ReadyFor(time.Minute)))), 1)
		k.deliver(k.claim(1)[0])
		k.same("stalled after another event", len(must(k.statistics.Retries(k.Context()))(k).Series), 0)
	},
}

func exactly(n int64) ops.Count { return ops.Count{N: n, Kind: ops.Exact} }

func (k *kit) stats() ops.Stats {
	k.Helper()
	s := must(k.statistics.Stats(k.Context()))(k)
	k.same("before the case", s.At.Before(k.now), false)
	return s
}

// waitsSince fails the case if statistics count anything but one event that waits, since the given
// instant.
func (k *kit) waitsSince(at time.Time) {
	k.Helper()
	if k.statistics == nil {
		return
	}
	s := k.stats()
	k.same("backlog", s.Backlog, exactly(1))
	k.same("oldest", s.Oldest, at)
	k.same("delayed", s.Delayed, exactly(0))
}

// wave fails the case unless the wave has the given numbers, by place.
func (k *kit) wave(s ops.Stats, want map[int]int64) {
	k.Helper()
	k.same("quarter hours", len(s.Wave), 192)
	from := s.At.Truncate(15 * time.Minute)
	for i, w := range s.Wave {
		k.same(fmt.Sprintf("quarter hour %d", i), w, ops.QuarterCount{From: from.Add(time.Duration(i) * 15 * time.Minute), Count: exactly(want[i])})
	}
}

// after waits until the repository's clock has moved by more than d.
func (k *kit) after(d time.Duration) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), 10*time.Second)
	defer cancel()
	began := must(k.r.Now(ctx))(k)
	for now := began; now.Sub(began) <= d; {
		now = must(k.r.Now(ctx))(k)
	}
}

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

// countsOf compares the counts of a zone, and removes them from what is wanted. In a zone without events and counts it
// asks for no type.
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
