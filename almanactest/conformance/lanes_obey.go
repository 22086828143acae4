package conformance

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// laneOf is a lane with the options of its events.
type laneOf struct {
	name    string
	options []almanactest.EventOption
}

// lanesOfAllKinds are the lane of a type, one with a name, and one that has lanes in it.
var lanesOfAllKinds = []laneOf{
	{almanac.TypeBirthday, nil},
	{"mail", []almanactest.EventOption{almanactest.InLane("mail")}},
	{"crm", []almanactest.EventOption{almanactest.InLane("crm/tenant-7")}},
}

// obeyCases are the ways by which events come to a lane, and places to it.
var obeyCases = cases{
	"Lanes/hold for events that run now, and for those that are requeued": func(k *kit) {
		s := k.scheduler(almanac.Birthday{})
		for _, l := range lanesOfAllKinds {
			if !k.limit(almanac.Lane{Name: l.name, Places: 1}) {
				return
			}
			for range 2 {
				later := k.newEvent(append(slices.Clone(l.options), almanactest.DueIn(time.Hour))...)
				must(s.RunNow(k.Context(), later.ID, almanac.ForceOptions{}))(k)
			}
			first := k.eventually(1)[0]
			k.admitted(0)
			k.giveUp(first, "broken")
			again := must(s.Requeue(k.Context(), first.ID, almanac.ForceOptions{}))(k)
			k.same("lane of the requeued", again.Lane, first.Lane)
			for range 2 {
				one := k.eventually(1)[0]
				k.admitted(0)
				k.deliver(one)
			}
			k.admitted(0)
		}
	},
	"Lanes/get the places of a dead worker back with its lease": func(k *kit) {
		for _, l := range lanesOfAllKinds {
			if !k.limit(almanac.Lane{Name: l.name, Places: 2}) {
				return
			}
			k.newEvents(3, l.options...)
			k.same("claimed by the worker that dies", len(k.take(expiring(10)).Events), 2)
			k.admitted(0)
			k.expire(2, 10)
			again := k.eventually(2)
			k.admitted(0)
			for _, e := range again {
				k.deliver(e)
			}
			k.deliver(k.eventually(1)[0])
		}
	},
	"Breakers/let another event be tried when the worker of the first one has died": func(k *kit) {
		for _, l := range lanesOfAllKinds {
			k.newEvents(2, l.options...)
			if !k.breaker(l.name, almanac.Breaker{Allowed: 1, RetryAt: k.clock(), OpenedAt: k.now}) {
				return
			}
			k.same("claimed by the worker that dies", len(k.take(expiring(10)).Events), 1)
			k.admitted(0)
			k.expire(1, 10)
			one := k.eventually(1)[0]
			k.admitted(0)
			k.deliver(one)
			k.deliver(k.eventually(1)[0])
			k.breaker(l.name, almanac.Breaker{})
		}
	},
	"Lanes/start their oldest events first": func(k *kit) {
		if !k.limit(almanac.Lane{Name: "crm", Places: 1}) {
			return
		}
		var want []uuid.UUID
		for _, hours := range []time.Duration{2, 4, 1, 3} {
			want = append(want, k.newEvent(almanactest.InLane("crm/tenant-7"), almanactest.ReadyFor(hours*time.Hour)).ID)
		}
		var got []uuid.UUID
		for range want {
			one := k.eventually(1)[0]
			got = append(got, one.ID)
			k.deliver(one)
		}
		k.same("order", got, []uuid.UUID{want[1], want[3], want[0], want[2]})
	},
	"Lanes/share the room of a lane by any weights, and use all of it": func(k *kit) {
		random := rand.New(rand.NewPCG(uint64(k.now.UnixNano()), 0))
		names, weights, waits, got := []string{"crm/a", "crm/b", "crm/c", "crm"}, map[string]int{"crm": 1}, map[string]int{}, map[string]int{}
		room := 3 + random.IntN(10)
		if !k.limit(almanac.Lane{Name: "crm", Places: room}) {
			return
		}
		left := 0
		for _, name := range names {
			if name != "crm" {
				weights[name] = 1 + random.IntN(6)
				k.limit(almanac.Lane{Name: name, Weight: weights[name]})
			}
			waits[name] = 5 + random.IntN(30)
			left += waits[name]
			k.newEvents(waits[name], almanactest.InLane(name))
		}
		for left > 0 {
			events := k.eventually(min(room, left))
			left -= len(events)
			for _, e := range events {
				got[e.Lane]++
				k.deliver(e)
			}
			for _, a := range names {
				for _, b := range names {
					if got[a] == waits[a] || got[b] == waits[b] { // those that have nothing left get no more
						continue
					}
					ahead := float64(got[a])/float64(weights[a]) - float64(got[b])/float64(weights[b])
					if most := 2/float64(weights[a]) + 2/float64(weights[b]); ahead > most {
						k.Fatalf("of weights %v in a room of %d, %v have started: %s is %v ahead of %s", weights, room, got, a, ahead, b)
					}
				}
			}
		}
		k.same("of each", got, waits)
	},
}
