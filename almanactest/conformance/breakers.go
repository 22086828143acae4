package conformance

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// breakerCases are the breakers of lanes.
var breakerCases = cases{
	"Report/stores a breaker, changes and removes it": func(k *kit) {
		was := almanac.Breaker{Allowed: 1, RetryAt: k.now.Add(time.Hour), OpenedAt: k.now, Failures: 3, Answers: []almanac.Answer{
			{EventID: uuid.New(), ClaimedAt: k.now, Failed: true}, {EventID: uuid.New(), ClaimedAt: k.now.Add(time.Second)},
		}}
		if !k.breaker("crm", was) {
			return
		}
		k.reads("crm", was)
		k.reads("mail", almanac.Breaker{})
		for _, is := range []almanac.Breaker{{Answers: was.Answers[:1]}, {Allowed: 4, RetryAt: k.now, OpenedAt: k.now}, {}} {
			k.breaker("crm", is)
			k.reads("crm", is)
		}
	},
	"Report/ends with the pause of a lane": func(k *kit) {
		if !k.breaker("crm", almanac.Breaker{Allowed: 1, RetryAt: k.now.Add(time.Hour), OpenedAt: k.now}) {
			return
		}
		if err := k.r.Resume(k.Context(), "crm"); errors.Is(err, errors.ErrUnsupported) {
			return
		} else {
			k.ok(err)
		}
		k.reads("crm", almanac.Breaker{})
	},
	"Breakers/of types admit as many events as are allowed": func(k *kit) { k.allowed(almanac.TypeBirthday) },
	"Breakers/of lanes admit as many events as are allowed": func(k *kit) { k.allowed("crm", almanactest.InLane("crm")) },
	"Breakers/hold for lanes in a lane":                     func(k *kit) { k.allowed("crm", almanactest.InLane("crm/tenant-7")) },
	"Breakers/are known to those who claim": func(k *kit) {
		for lane, options := range map[string][]almanactest.EventOption{almanac.TypeBirthday: nil, "crm": {almanactest.InLane("crm/tenant-7")}} {
			k.newEvent(options...)
			k.same("without one", k.claimOne().Failing, false)
			if !k.breaker(lane, almanac.Breaker{Answers: []almanac.Answer{{EventID: uuid.New(), ClaimedAt: k.now, Failed: true}}}) {
				return
			}
			k.newEvent(options...)
			k.same("with one", k.claimOne().Failing, true)
			k.breaker(lane, almanac.Breaker{Allowed: 8, RetryAt: k.now, OpenedAt: k.now})
			k.newEvent(options...)
			k.same("while it closes", k.claimOne().Failing, true)
			k.breaker(lane, almanac.Breaker{})
		}
	},
	"Report/of many at once loses no answer and adds no state": func(k *kit) {
		k.newEvents(3)
		if !k.breaker("mail", almanac.Breaker{}) {
			return
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := k.r.Report(k.Context(), almanac.TypeBirthday, func(b almanac.Breaker, _ time.Time) almanac.Breaker {
					b.Answers = append(slices.Clone(b.Answers), almanac.Answer{EventID: uuid.New(), ClaimedAt: k.now, Failed: true})
					return b
				})
				if err != nil {
					k.Error(err)
				}
			})
		}
		all.Wait()
		must(k.r.Report(k.Context(), almanac.TypeBirthday, func(b almanac.Breaker, now time.Time) almanac.Breaker {
			k.same("answers", len(b.Answers), 8)
			return almanac.Breaker{Allowed: 1, RetryAt: now, OpenedAt: now}
		}))(k)
		k.eventually(1)
		k.admitted(0)
	},
	"Breakers/pause their lanes": func(k *kit) { k.paused(almanac.TypeBirthday) },
	"Breakers/pause lanes of names, and those in them": func(k *kit) {
		k.paused("crm", almanactest.InLane("crm/tenant-7"))
	},
	"Breakers/change no other pause": func(k *kit) {
		failing := almanac.Breaker{Allowed: 1, RetryAt: k.now, OpenedAt: k.now}
		if !k.breaker("crm", failing) {
			return
		}
		if err := k.r.Pause(k.Context(), almanac.Pause{Lane: "crm", Reason: "by hand"}); errors.Is(err, errors.ErrUnsupported) {
			return
		} else {
			k.ok(err)
		}
		before := must(k.r.Paused(k.Context()))(k)
		is := must(k.r.Report(k.Context(), "crm", func(b almanac.Breaker, _ time.Time) almanac.Breaker {
			b.Pause, b.Failures = "it fails", 2
			return b
		}))(k)
		failing.Failures = 2
		k.same("breaker", is, failing)
		k.reads("crm", failing)
		k.same("pauses", must(k.r.Paused(k.Context()))(k), before)
	},
	"Breakers/are shown": func(k *kit) {
		is := almanac.Breaker{Allowed: 2, RetryAt: k.now, OpenedAt: k.now.Add(-time.Hour), Failures: 1}
		if k.statistics == nil || !k.breaker("crm", is) {
			return
		}
		k.breaker("mail", almanac.Breaker{Answers: []almanac.Answer{{EventID: uuid.New(), ClaimedAt: k.now, Failed: true}}})
		loads := must(k.statistics.LaneLoads(k.Context()))(k)
		k.same("lanes", len(loads), 1)
		k.same("name", loads[0].Name, "crm")
		k.same("breaker", loads[0].Breaker, is)
	},
}

// allowed opens the breaker of a lane without limits, and claims events of it.
func (k *kit) allowed(lane string, options ...almanactest.EventOption) {
	k.newEvents(9, options...)
	if !k.breaker(lane, almanac.Breaker{Allowed: 1, RetryAt: k.clock().Add(time.Second), OpenedAt: k.now}) {
		return
	}
	k.admitted(0)
	wait, known := k.until(time.Time{})
	k.same("waits for the breaker", known && 0 < wait && wait <= time.Second, true)
	one := k.eventually(1)
	k.admitted(0)
	k.deliver(one[0])
	k.eventually(1)
	k.breaker(lane, almanac.Breaker{Allowed: 4, RetryAt: k.clock(), OpenedAt: k.now})
	k.eventually(3)
	k.admitted(0)
	k.breaker(lane, almanac.Breaker{})
	k.soon(4)
}

// paused reports to the breaker of a lane that it pauses the lane, with and without a pause that has ended, and resumes
// the lane.
func (k *kit) paused(lane string, options ...almanactest.EventOption) {
	for range 2 {
		k.newEvent(options...)
		failing := almanac.Breaker{Allowed: 1, RetryAt: k.clock(), OpenedAt: k.now, Failures: 3, Pause: "it has failed since nine"}
		if errors.Is(k.r.Resume(k.Context(), "other"), errors.ErrUnsupported) || !k.breaker(lane, failing) {
			return
		}
		failing.Pause = ""
		k.reads(lane, failing)
		pauses := must(k.r.Paused(k.Context()))(k)
		k.same("pauses", len(pauses), 1)
		k.same("begins now", pauses[0].Since.Before(k.now), false)
		pauses[0].Since = time.Time{}
		k.same("pause", pauses[0], almanac.Pause{Lane: lane, Reason: "it has failed since nine", Author: "breaker"})
		k.admitted(0)
		wait, known := k.until(time.Time{})
		k.same("waits for less than half a minute", known && wait < 30*time.Second, false) // lanes of names are looked at each minute
		k.ok(k.r.Resume(k.Context(), lane))
		k.reads(lane, almanac.Breaker{})
		k.soon(1)
		k.ok(k.r.Pause(k.Context(), almanac.Pause{Lane: lane, Until: k.clock().Add(time.Millisecond)}))
		for len(must(k.r.Paused(k.Context()))(k)) > 0 {
		}
	}
}

// breaker stores the breaker of a lane, and reports whether the repository can.
func (k *kit) breaker(lane string, is almanac.Breaker) bool {
	k.Helper()
	got, err := k.r.Report(k.Context(), lane, func(almanac.Breaker, time.Time) almanac.Breaker { return is })
	if errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	k.ok(err)
	k.same("breaker", got, is)
	return true
}

// reads compares the stored breaker of a lane.
func (k *kit) reads(lane string, want almanac.Breaker) {
	k.Helper()
	must(k.r.Report(k.Context(), lane, func(b almanac.Breaker, now time.Time) almanac.Breaker {
		k.same("stored breaker", b, want)
		k.same("clock", now.Before(k.now), false)
		return b
	}))(k)
}

func (k *kit) claimOne() almanac.ClaimResult {
	k.Helper()
	claim := k.take(almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: 1, Lease: time.Minute})
	k.same("claimed", len(claim.Events), 1)
	return claim
}
