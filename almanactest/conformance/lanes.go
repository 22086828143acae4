package conformance

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/ops"
)

// laneCases are the limits of lanes, which hold over all claims.
var laneCases = cases{
	"PutLane/stores, changes and removes limits": func(k *kit) {
		err := k.r.PutLane(k.Context(), almanac.Lane{Name: "MAIL", Rate: 0.5, Burst: 3})
		if errors.Is(err, errors.ErrUnsupported) {
			k.same("lanes", len(must(k.r.Lanes(k.Context()))(k)), 0)
			return
		}
		k.ok(err)
		for _, l := range []almanac.Lane{{Name: "CARD", Rate: 1, Burst: 1}, {Name: "CARD", Places: 7}, {Name: "GONE", Places: 1}, {Name: "GONE"}, {Name: "NONE"}} {
			k.ok(k.r.PutLane(k.Context(), l))
		}
		k.same("lanes", must(k.r.Lanes(k.Context()))(k), []almanac.Lane{{Name: "CARD", Places: 7}, {Name: "MAIL", Rate: 0.5, Burst: 3}})
	},
	"Lanes/have at most as many events in flight as places": func(k *kit) {
		if !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Places: 2}) {
			return
		}
		k.newEvents(5)
		first := k.admitted(2)
		k.admitted(0)
		wait, known := k.until(time.Time{})
		k.same("waits for a place", known && 0 < wait && wait <= time.Second, true)
		k.deliver(first[0])
		k.admitted(1)
		must(k.r.Release(k.Context(), first[1].LeaseToken))(k)
		k.admitted(1)
		k.limit(almanac.Lane{Name: almanac.TypeBirthday})
		k.claim(2)
	},
	"Lanes/admit no more events than there are tokens": func(k *kit) {
		k.newEvents(4)
		began := k.clock()
		if !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Rate: 5, Burst: 2}) {
			return
		}
		wait, known := k.until(time.Time{})
		k.same("waits for a token", known && wait <= 200*time.Millisecond, true)
		for wait > 0 {
			wait, _ = k.until(time.Time{})
		}
		k.limit(almanac.Lane{Name: almanac.TypeBirthday, Rate: 5, Burst: 2})
		wait, _ = k.until(time.Time{})
		k.same("waits after the same limits were stored", wait > 0, false)
		for admitted := 0; admitted < 4; {
			admitted += len(k.claimOnce())
			if most := 5 * k.clock().Sub(began).Seconds(); float64(admitted) > most {
				k.Fatalf("%d events are admitted after %v", admitted, k.clock().Sub(began))
			}
		}
	},
	"Lanes/start at most so many events on a day": func(k *kit) {
		if !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Daily: 3}) {
			return
		}
		k.newEvents(5)
		k.admitted(3)
		k.admitted(0)
		wait, known := k.until(time.Time{})
		tomorrow := k.clock().Truncate(24 * time.Hour).Add(24 * time.Hour)
		k.same("waits for the next day", known && (tomorrow.Sub(k.clock())-wait).Abs() < time.Minute, true)
		k.limit(almanac.Lane{Name: almanac.TypeBirthday, Daily: 4})
		k.eventually(1)
		k.admitted(0)
	},
	"Lanes/show what waits for them": func(k *kit) {
		if k.statistics == nil || !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Rate: 0.001, Burst: 1, Places: 2}) {
			return
		}
		k.limit(almanac.Lane{Name: "CARD", Places: 2})
		first := k.newEvent()
		k.newEvents(2)
		k.newEvent(almanactest.DueIn(time.Hour))
		loads := must(k.statistics.LaneLoads(k.Context()))(k)
		k.same("lanes", len(loads), 2)
		is := loads[0]
		k.same("waiting", is.Waiting, ops.Count{N: 3})
		k.same("since", is.Oldest, first.AvailableAt)
		k.same("in flight", is.InFlight, 0)
		k.same("ready after now", is.ReadyAt.After(k.clock()), true)
		ends, waits := ops.LaneEnds(is, ops.LaneLoad{}, k.now)
		k.same("ends after that", ends.At.Sub(is.ReadyAt), 2000*time.Second)
		k.same("and is known", waits, true)
		k.same("of another lane", loads[1], ops.LaneLoad{Lane: almanac.Lane{Name: "CARD", Places: 2}})

		k.limit(almanac.Lane{Name: almanac.TypeBirthday, Places: 2})
		k.admitted(2)
		is = must(k.statistics.LaneLoads(k.Context()))(k)[0]
		k.same("waiting then", is.Waiting, ops.Count{N: 1})
		k.same("in flight then", is.InFlight, 2)
		started := 0
		for _, n := range is.Started {
			started += n
		}
		k.same("started", started, 2)
	},
}

// namedLaneCases are lanes to which handlers give names.
var namedLaneCases = cases{
	"Lanes/of names are claimed, and are paused": func(k *kit) {
		if !k.limit(almanac.Lane{Name: "mail", Places: 100}) {
			return
		}
		first := k.newEvent(almanactest.InLane("crm/tenant-7"))
		wait, known := k.until(time.Time{})
		k.same("waits for nothing", known && wait <= 0, true)
		for _, name := range []string{"crm/tenant-7", "crm"} {
			k.ok(k.r.Pause(k.Context(), almanac.Pause{Lane: name}))
			k.admitted(0)
			k.ok(k.r.Resume(k.Context(), name))
			wait, known = k.until(time.Time{})
			k.same("due again", known && wait <= 0, true)
			k.limit(almanac.Lane{Name: name, Rate: 1e6, Burst: 1e6}) // with a state, too
			for wait, _ = k.until(time.Time{}); wait > 0; wait, _ = k.until(time.Time{}) {
			}
		}
		k.same("claimed", ids(k.admitted(1)), []uuid.UUID{first.ID})
		k.same("lane", first.Lane, "crm/tenant-7")
	},
	"Lanes/of names wait for their next event": func(k *kit) {
		if !k.limit(almanac.Lane{Name: "mail", Places: 100}) {
			return
		}
		k.newEvent(almanactest.InLane("crm/tenant-7"))
		k.newEvent(almanactest.InLane("mail"), almanactest.DueIn(time.Hour))
		k.newEvent(almanactest.InLane("crm/tenant-7"), almanactest.DueIn(2*time.Hour))
		k.admitted(1)
		wait, known := k.until(time.Time{})
		k.same("waits for the next", known && wait > 50*time.Minute, true)
	},
	"Lanes/in one lane share its room by weight": func(k *kit) {
		if !k.limit(almanac.Lane{Name: "crm", Places: 8}) {
			return
		}
		k.limit(almanac.Lane{Name: "crm/large", Weight: 3})
		k.newEvents(20, almanactest.InLane("crm/large"), almanactest.ReadyFor(time.Hour))
		k.newEvents(5, almanactest.InLane("crm/small"))
		k.newEvents(1, almanactest.InLane("crm/tiny"))
		first := k.admitted(8)
		k.same("of each", inLanes(first), map[string]int{"crm/large": 5, "crm/small": 2, "crm/tiny": 1})
		k.admitted(0)
		for range 2 {
			for _, e := range first {
				k.deliver(e)
			}
			first = k.eventually(8)
		}
		k.same("of each then", inLanes(first), map[string]int{"crm/large": 7, "crm/small": 1})
	},
	"Lanes/of a small weight wait for the others, and have the whole rate without them": func(k *kit) {
		if !k.limit(almanac.Lane{Name: "crm", Rate: 1000, Burst: 100}) {
			return
		}
		k.limit(almanac.Lane{Name: "crm/day", Weight: 99})
		k.newEvents(150, almanactest.InLane("crm/mailing"), almanactest.ReadyFor(time.Hour))
		k.same("of the mailing alone", k.started(50)["crm/mailing"] >= 50, true)
		k.newEvents(50, almanactest.InLane("crm/day"))
		first := k.started(40)
		k.same("of the mailing beside 40 others", first["crm/mailing"] <= 2, true)
		k.same("of the others then", k.started(20)["crm/day"]+first["crm/day"], 50)

		k.limit(almanac.Lane{Name: "crm", Rate: 20, Burst: 10})
		began := k.clock()
		k.same("of the mailing then", k.started(10)["crm/day"], 0)
		k.same("with the whole rate", k.clock().Sub(began) < 10*time.Second, true) // a hundredth of it takes 50 s
	},
	"Lanes/in one lane have limits of their own": func(k *kit) {
		if !k.limit(almanac.Lane{Name: "crm", Places: 5}) {
			return
		}
		k.limit(almanac.Lane{Name: "crm/a", Places: 1})
		k.newEvents(3, almanactest.InLane("crm/a"))
		k.newEvents(3, almanactest.InLane("crm/b"))
		k.newEvents(3, almanactest.InLane("crm"))
		first := k.admitted(5)
		k.same("of a", inLanes(first)["crm/a"], 1)
		for _, e := range first {
			if e.Lane == "crm/b" {
				must(k.r.Release(k.Context(), e.LeaseToken))(k)
				break
			}
		}
		k.same("of a then", inLanes(k.eventually(5))["crm/a"], 1)
	},
	"Lanes/can be changed by an outcome": func(k *kit) {
		if !k.limit(almanac.Lane{Name: "mail", Places: 100}) {
			return
		}
		k.newEvent()
		e := k.claim(1)[0]
		for _, lane := range []string{"crm/tenant-7", almanac.TypeBirthday} {
			released := k.settle(almanac.Settlement{Event: e, Outcome: almanac.Outcome{Status: almanac.Pending, Cause: almanac.AfterSnooze, Lane: lane}})
			k.ok(released.Err)
			if lane == almanac.TypeBirthday {
				lane = ""
			}
			k.same("lane", released.Event.Lane, lane)
			k.asStored(released.Event)
			if lane != "" {
				e = k.eventually(1)[0]
			}
		}
		k.claim(1)
	},
	"Lanes/take at most the rest of a claim": func(k *kit) {
		if !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Places: 100}) {
			return
		}
		k.newEvents(6)
		claim := must(k.r.Claim(k.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 4, Lease: time.Minute}))(k)
		k.same("claimed", len(claim.Events), 4)
		k.same("placed", claim.Placed, true)
		k.same("users", len(claim.Users), 4)
		k.admitted(2)
	},
}

// typeCases are backlogs of types without limits.
var typeCases = cases{
	"Claim/gives each type its share, however old the others are": func(k *kit) {
		k.newEvents(30, almanactest.ReadyFor(3*time.Hour))
		k.newEvents(3, almanactest.OfType("DIGEST"), almanactest.ReadyFor(time.Minute))
		k.newEvents(30, almanactest.OfType("RENEWAL"), almanactest.ReadyFor(2*time.Hour))
		var mark time.Time
		n := map[string]int{}
		for range 2 {
			claim := k.takeOf(12, mark)
			k.same("claimed", len(claim.Events), 12)
			for _, e := range claim.Events {
				n[e.Type]++
			}
			mark = claim.Reached
		}
		k.same("of the small one", n["DIGEST"], 3)
		k.same("of the others", n[almanac.TypeBirthday] >= 7 && n["RENEWAL"] >= 7, true) // 10 each, unless several schemas share a claim
		for claimed := 24; claimed < 63; {
			claim := k.takeOf(12, mark)
			k.same("claimed more", len(claim.Events) > 0, true)
			claimed, mark = claimed+len(claim.Events), claim.Reached
		}
		k.same("left", len(k.takeOf(12, mark).Events), 0)
	},
	"Claim/of one event is now of one type, now of another": func(k *kit) {
		k.newEvents(40, almanactest.ReadyFor(3*time.Hour))
		k.newEvents(10, almanactest.OfType("DIGEST"), almanactest.ReadyFor(time.Minute))
		n := map[string]int{}
		var mark time.Time
		for range 40 {
			claim := k.takeOf(1, mark)
			k.same("claimed", len(claim.Events), 1)
			n[claim.Events[0].Type]++
			mark = claim.Reached
		}
		k.same("of the small one", n["DIGEST"] > 3, true) // fewer once in a hundred million times
	},
}

// takeOf claims events of three types from a mark on.
func (k *kit) takeOf(limit int, mark time.Time) almanac.ClaimResult {
	k.Helper()
	return k.take(almanac.ClaimRequest{
		Token: uuid.New(), Types: []string{almanac.TypeBirthday, "DIGEST", "RENEWAL"}, Limit: limit, Lease: time.Minute, Mark: mark,
	})
}

// limit stores the limits of a lane, and reports whether the repository can.
func (k *kit) limit(l almanac.Lane) bool {
	k.Helper()
	err := k.r.PutLane(k.Context(), l)
	if errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	k.ok(err)
	return true
}

// claimOnce claims birthdays, and checks that the lane has admitted all of them.
func (k *kit) claimOnce() []almanac.Event {
	k.Helper()
	claim := must(k.r.Claim(k.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 10, Lease: time.Minute}))(k)
	for _, e := range claim.Events {
		k.same("limited", claim.Limited[e.ID].IsZero(), false)
		k.asStored(e)
	}
	return claim.Events
}

// inLanes counts events by lane.
func inLanes(events []almanac.Event) map[string]int {
	n := make(map[string]int)
	for _, e := range events {
		n[e.Lane]++
	}
	return n
}

// eventually claims birthdays until n are claimed. A place that has become free may be found half a second later.
func (k *kit) eventually(n int) (events []almanac.Event) {
	k.Helper()
	for began := time.Now(); len(events) < n; {
		if events = append(events, k.claimOnce()...); time.Since(began) > time.Minute {
			k.Fatalf("%d events are claimed", len(events))
		}
	}
	k.same("claimed", len(events), n)
	return events
}

// started claims birthdays until at least n are claimed, and returns how many are of each lane.
func (k *kit) started(n int) map[string]int {
	k.Helper()
	var events []almanac.Event
	for began := time.Now(); len(events) < n; {
		if events = append(events, k.claimOnce()...); time.Since(began) > time.Minute {
			k.Fatalf("%d events are claimed", len(events))
		}
	}
	return inLanes(events)
}

// soon claims birthdays of lanes with and without limits until n are claimed.
func (k *kit) soon(n int) {
	k.Helper()
	claimed := 0
	for began := time.Now(); claimed < n; {
		claimed += len(k.take(almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 10, Lease: time.Minute}).Events)
		if time.Since(began) > time.Minute {
			k.Fatalf("%d events are claimed", claimed)
		}
	}
	k.same("claimed", claimed, n)
}

// admitted claims birthdays, and checks how many the lane admits.
func (k *kit) admitted(n int) []almanac.Event {
	k.Helper()
	events := k.claimOnce()
	k.same("admitted", len(events), n)
	return events
}
