package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/ops"
)

// laneLoadCases are what waits for lanes, and until when about.
var laneLoadCases = cases{
	"LaneLoads/have the weights of the lanes that share one": func(k *kit) {
		if k.statistics == nil || !k.limit(almanac.Lane{Name: "crm", Rate: 0.001, Burst: 1}) {
			return
		}
		k.limit(almanac.Lane{Name: "crm/a", Weight: 3})
		k.limit(almanac.Lane{Name: "crm/idle", Weight: 7})
		k.newEvents(5, almanactest.InLane("crm/a"))
		k.newEvents(2, almanactest.InLane("crm/b"))
		k.newEvents(15, almanactest.InLane("crm"))
		k.newEvents(1)
		loads := must(k.statistics.LaneLoads(k.Context()))(k)
		k.same("lanes", len(loads), 3)
		crm, a, idle := loads[0], loads[1], loads[2]
		k.same("waiting", crm.Waiting, ops.Count{N: 22})
		k.same("weights", crm.Weights, 5)
		k.same("waiting of a", a.Waiting, ops.Count{N: 5})
		k.same("weights of a", a.Weights, 1)
		k.same("idle", idle, ops.LaneLoad{Lane: almanac.Lane{Name: "crm/idle", Weight: 7}})

		k.same("lane of a", ops.LaneIn(loads, "crm/a"), crm)
		third := ops.LaneStart(a, crm, 3, k.now) // with two others
		k.same("start of the third", third.At.Sub(crm.ReadyAt), 4000*time.Second)
		ends, known := ops.LaneEnds(crm, ops.LaneLoad{}, k.now)
		k.same("end of all", ends.At.Sub(crm.ReadyAt), 21_000*time.Second)
		k.same("end is known", known, true)
		k.same("kind", ends.Kind, ops.Estimated)
	},
	"LaneLoads/have pauses, and what has started on the day": func(k *kit) {
		if k.statistics == nil || !k.limit(almanac.Lane{Name: almanac.TypeBirthday, Daily: 3}) {
			return
		}
		k.newEvents(5)
		k.admitted(3)
		load := must(k.statistics.LaneLoads(k.Context()))(k)[0]
		k.same("today", load.Today, 3)
		k.same("pause", load.Pause, almanac.Pause{})
		ends, _ := ops.LaneEnds(load, ops.LaneLoad{}, k.clock())
		k.same("ends tomorrow", ends.At, k.clock().Truncate(24*time.Hour).Add(24*time.Hour))

		until := k.clock().Add(time.Hour).Truncate(time.Second)
		k.ok(k.r.Pause(k.Context(), almanac.Pause{Lane: "mail", Reason: "moves", Until: until}))
		loads := must(k.statistics.LaneLoads(k.Context()))(k)
		k.same("lanes", len(loads), 2)
		k.same("paused", loads[1].Name, "mail")
		k.same("until", loads[1].Pause.Until, until)
		k.same("reason", loads[1].Pause.Reason, "moves")
		k.same("paused since", loads[1].Pause.Since.IsZero(), false)
		k.ok(k.r.Resume(k.Context(), "mail"))
		k.same("lanes then", len(must(k.statistics.LaneLoads(k.Context()))(k)), 1)
	},
	"LaneWait/has the place of an event in its lane": func(k *kit) {
		if k.statistics == nil || !k.limit(almanac.Lane{Name: "crm", Rate: 0.001, Burst: 1}) {
			return
		}
		k.newEvents(2, almanactest.InLane("crm/a"), almanactest.ReadyFor(time.Hour))
		e := k.newEvent(almanactest.InLane("crm/a"))
		k.newEvents(4, almanactest.InLane("crm/b"), almanactest.ReadyFor(2*time.Hour))
		is := must(k.statistics.LaneWait(k.Context(), e))(k)
		k.same("before", is.Before, ops.Count{N: 2})
		k.same("since", is.Since, e.AvailableAt)
		k.same("lane", is.Lane.Name, "crm/a")
		k.same("waiting in it", is.Lane.Waiting, ops.Count{N: 3})
		k.same("in", is.In.Name, "crm")
		k.same("waiting in that", is.In.Waiting, ops.Count{N: 7})
		start, waits := is.Start()
		k.same("waits", waits, true)
		k.same("start", start.At.Sub(is.In.ReadyAt), 5000*time.Second) // after two of its lane and three of the other
		k.same("kind", start.Kind, ops.Estimated)

		k.ok(k.r.Pause(k.Context(), almanac.Pause{Lane: e.Type}))
		is = must(k.statistics.LaneWait(k.Context(), e))(k)
		k.same("the type is paused", is.Type.Since.IsZero(), false)
		start, _ = is.Start()
		k.same("start then", start, ops.LaneEstimate{Kind: ops.Estimated})
	},
	"LaneWait/is of waiting events alone": func(k *kit) {
		if k.statistics == nil || !k.limit(almanac.Lane{Name: "crm", Places: 1}) {
			return
		}
		e := k.newEvent(almanactest.InLane("crm"))
		_, waits := must(k.statistics.LaneWait(k.Context(), e))(k).Start()
		k.same("an event of the lane waits", waits, true)
		for name, other := range map[string]almanac.Event{
			"of a lane without limits": k.newEvent(almanactest.InLane("mail")),
			"without a lane":           k.newEvent(),
			"of the future":            k.newEvent(almanactest.InLane("crm"), almanactest.DueIn(time.Hour)),
			"unknown":                  almanactest.Event(k.now, almanactest.InLane("crm")),
		} {
			k.same(name, must(k.statistics.LaneWait(k.Context(), other))(k), ops.LaneWait{})
		}
		must(k.r.Claim(k.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{e.Type}, Limit: 10, Lease: time.Minute}))(k)
		k.same("claimed meanwhile", must(k.statistics.LaneWait(k.Context(), e))(k), ops.LaneWait{})
	},
}
