package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var updateCases = cases{
	"Update/reports a lost update": func(k *kit) {
		created := k.newEvent()
		theirs := must(created.Claim(uuid.New()))(k)
		stored := k.step(created)(created.Claim(uuid.New()))
		k.same("version", stored.Version, 2)
		matches(k, errorOf(k.r.Update(k.Context(), theirs, created.Version)), almanac.OptimisticLockError{EventID: created.ID, Expected: 1})
		k.same("event", k.stored(created.ID), stored)
		k.gone(errorOf(k.r.Update(k.Context(), almanactest.Event(k.now), 1)))
	},
	"Update/allows every transition of a life": func(k *kit) {
		created := k.newEvent()
		claimed := k.step(created)(created.Claim(uuid.New()))
		k.same("leased", len(k.renew(claimed.LeaseToken)), 1)
		k.same("version", k.step(claimed)(claimed.Complete(k.now)).Version, 3)
		k.same("leased in the end", len(k.renew(claimed.LeaseToken)), 0)
	},
	"Update/cancels a pending event": func(k *kit) {
		created := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.became(k.step(created)(created.Cancel("moved house")))(created.Cancel("moved house"))
	},
	"Update/cancels a claimed event": func(k *kit) {
		pending := k.newEvent(almanactest.DueIn(time.Hour))
		claimed := k.step(pending)(pending.Claim(uuid.New()))
		k.became(k.step(claimed)(claimed.Cancel("")))(claimed.Cancel(""))
	},
	"Update/refuses every transition that is not allowed": func(k *kit) {
		for from, states := range k.everyStatus() {
			for _, to := range []almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled} {
				if from.CanBecome(to) || from == almanac.Pending && to == almanac.Pending {
					continue
				}
				changed := states
				changed.Status = to
				changed.Version++
				matches(k, errorOf(k.r.Update(k.Context(), changed, states.Version)), almanac.InvalidStateTransitionError{EventID: states.ID, From: from, To: to})
				k.same("event", k.stored(states.ID), states)
			}
		}
	},
	"Update/keeps the identity of an event": func(k *kit) {
		claimed := k.everyStatus()[almanac.Processing]
		for name, change := range map[string]func(*almanac.Event){
			"user":    func(e *almanac.Event) { e.UserID = uuid.New() },
			"type":    func(e *almanac.Event) { e.Type = "OTHER" },
			"key":     func(e *almanac.Event) { e.IdempotencyKey = "event-0" },
			"instant": func(e *almanac.Event) { e.Due = e.Due.Add(time.Hour) },
			"zone":    func(e *almanac.Event) { e.Zone = "Asia/Tokyo" },
		} {
			next := must(claimed.Complete(k.now))(k)
			change(&next)
			_, err := k.r.Update(k.Context(), next, claimed.Version)
			k.same("a change of the "+name+" is refused", err != nil, true)
		}
		k.same("event", k.stored(claimed.ID), claimed)
	},
	"Event/reports a missing event": func(k *kit) {
		k.noEvent(uuid.New())
	},
}

var pageCases = cases{
	"Find/pages through every event once": func(k *kit) {
		const n = 23
		want := make([]uuid.UUID, n)
		users := make([]uuid.UUID, n)
		for i := range n {
			e := k.newEvent(almanactest.DueIn(time.Hour))
			want[i], users[i] = e.ID, e.UserID
		}
		var got []uuid.UUID
		page := almanac.Page{Limit: 5}
		for {
			found := must(k.r.Find(k.Context(), almanac.InStatus(almanac.Pending), page))(k)
			got = append(got, ids(found.Items)...)
			if found.Next == "" {
				break
			}
			k.same("page size", len(found.Items), 5)
			page.After = found.Next
			k.moveIfPending(users[len(got)-1]) // events that move meanwhile are neither lost nor returned twice
			k.moveIfPending(users[min(len(got), n-1)])
		}
		k.same("events", got, want)
	},
	"Find/refuses invalid pages": func(k *kit) {
		id := almanac.Cursor(uuid.NewString())
		for _, page := range []almanac.Page{
			{Limit: -1}, {Limit: 1001}, {After: "x"}, {Order: -1}, {Order: 3},
			{After: id, Order: almanac.NextFirst}, {After: "2027-03-15T14:00:00Z/x", Order: almanac.NextFirst},
		} {
			k.is(errorOf(k.r.Find(k.Context(), nil, page)), almanac.ErrInvalid)
		}
		_, _, err := k.r.Prune(k.Context(), k.now, almanac.Page{Order: almanac.NewestFirst})
		k.is(err, almanac.ErrInvalid)
	},
}

// everyStatus stores an event in each status.
func (k *kit) everyStatus() map[almanac.Status]almanac.Event {
	k.Helper()
	claimed := k.newClaims(3)
	events := map[almanac.Status]almanac.Event{almanac.Processing: claimed[0]}
	events[almanac.Completed] = k.deliver(claimed[1]).Event
	events[almanac.Failed] = k.giveUp(claimed[2], "HTTP 404").Event
	cancelled := k.newEvent()
	events[almanac.Cancelled] = k.apply(cancelled.UserID, cancelling).Changed[0]
	events[almanac.Pending] = k.newEvent()
	return events
}

var specCases = cases{
	"Spec/matches the same events in the repository and in memory": func(k *kit) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		all := k.scatter(random)
		for i := range 150 {
			spec := randomSpec(random, all, k.now, 3)
			k.picks(spec, all, 1+i%(len(all)+1))
			if k.Failed() {
				k.Fatalf("seed %d", seed)
			}
		}
	},
	"Spec/an event that waits for another attempt is overdue and not ready": func(k *kit) {
		waits := k.retry(k.newClaimed(), "busy", time.Hour).Event
		all := []almanac.Event{waits, k.newEvent(almanactest.ReadyFor(time.Minute))}
		k.picks(almanac.Ready{}, all, 2)
		k.picks(almanac.Overdue{}, all, 2)
		k.picks(almanac.Not{Spec: almanac.Ready{}}, all, 2)
	},
	"Spec/matches the same events with every page size": func(k *kit) {
		all := k.scatter(rand.New(rand.NewPCG(0, 0)))
		for limit := range len(all) + 1 {
			k.picks(nil, all, limit+1)
			k.picks(almanac.Not{Spec: almanac.And{almanac.OfType("OTHER"), nil}}, all, limit+1)
		}
	},
}

// picks fails the case unless Find, in pages of limit and in every order, and Count return
// exactly the events that spec matches.
func (k *kit) picks(spec almanac.Spec, all []almanac.Event, limit int) {
	k.Helper()
	var want []almanac.Event
	for _, e := range all {
		if spec == nil || spec.Matches(e, k.now) {
			want = append(want, e)
		}
	}
	k.same(fmt.Sprintf("count of %#v", spec), k.count(spec), len(want))
	for _, order := range []almanac.Order{almanac.OldestFirst, almanac.NewestFirst, almanac.NextFirst} {
		if got, want := k.pages(spec, order, limit, len(all)), listed(want, order); !slices.Equal(got, want) {
			k.Errorf("%#v finds %d events by %d in order %d, and matches %d", spec, len(got), limit, order, len(want))
		}
	}
}

// pages returns the ids of all events that Find returns in pages of limit. It fails the case
// if there are more than most.
func (k *kit) pages(spec almanac.Spec, order almanac.Order, limit, most int) (got []uuid.UUID) {
	k.Helper()
	page := almanac.Page{Limit: limit, Order: order}
	for {
		found := must(k.r.Find(k.Context(), spec, page))(k)
		got = append(got, ids(found.Items)...)
		if page.After = found.Next; found.Next == "" {
			return got
		}
		k.same("events on a page that is not the last", len(found.Items), limit)
		if len(got) > most {
			k.Fatalf("%#v finds something twice by %d in order %d", spec, limit, order)
		}
	}
}

// listed returns the ids of events, which are in order of creation, in another order.
func listed(events []almanac.Event, order almanac.Order) []uuid.UUID {
	switch events = slices.Clone(events); order {
	case almanac.NewestFirst:
		slices.Reverse(events)
	case almanac.NextFirst:
		events = slices.DeleteFunc(events, func(e almanac.Event) bool { return e.Status != almanac.Pending })
		slices.SortStableFunc(events, func(a, b almanac.Event) int { return a.AvailableAt.Compare(b.AvailableAt) })
	default:
	}
	return ids(events)
}

// scatter stores events in every state, of several users, zones and types, some at the same
// instant, none within half an hour of now. It returns them in order of creation.
func (k *kit) scatter(random *rand.Rand) []almanac.Event {
	k.Helper()
	zones := []string{"America/New_York", "Asia/Tokyo", "Pacific/Niue"}
	states := [][]almanactest.EventOption{
		nil, nil, {almanactest.Tried(1)}, {almanactest.Tried(2), almanactest.DelayedFor(time.Hour)}, {almanactest.Crashed(1)},
		{almanactest.InStatus(almanac.Processing)}, {almanactest.DeliveredLate(time.Second)}, {almanactest.Tried(2), almanactest.FailedBecause("HTTP 404")},
		{almanactest.InStatus(almanac.Cancelled)}, {almanactest.Tried(1), almanactest.InStatus(almanac.Cancelled)}, {almanactest.FailedBecause("cancelled")},
	}
	for range 10 {
		u := almanactest.User(almanactest.LivingIn(zones[random.IntN(len(zones))]))
		events := make([]almanac.Event, 1+random.IntN(6))
		for i := range events {
			options := []almanactest.EventOption{almanactest.For(u), almanactest.DueIn(time.Duration(random.IntN(9)-4)*time.Hour + time.Hour/2)}
			if random.IntN(3) == 0 {
				options = append(options, almanactest.OfType("OTHER"))
			}
			events[i] = almanactest.Event(k.now, append(options, states[random.IntN(len(states))]...)...)
		}
		almanactest.Store(k.T, k.r, u, events...)
	}
	found := k.find(nil)
	k.now = k.clock()
	return found
}

// randomSpec returns a random specification of at most the given depth.
func randomSpec(random *rand.Rand, all []almanac.Event, now time.Time, depth int) almanac.Spec {
	parts := func() []almanac.Spec {
		list := make([]almanac.Spec, random.IntN(4))
		for i := range list {
			list[i] = randomSpec(random, all, now, depth-1)
		}
		return list
	}
	kinds := 10
	if depth > 0 {
		kinds = 13
	}
	someone := all[random.IntN(len(all))]
	// An instant of several events, or one between two.
	hours := func() time.Time { return someone.Due.Add(time.Duration(random.IntN(5)-2) * time.Hour / 2) }
	switch random.IntN(kinds) {
	case 0:
		return almanac.OfType([]string{almanac.TypeBirthday, "OTHER", "NONE"}[random.IntN(3)])
	case 1:
		return almanac.InStatus([]almanac.Status{almanac.Pending, almanac.Processing, almanac.Completed, almanac.Failed, almanac.Cancelled}[random.IntN(5)])
	case 2:
		return almanac.ForUser(someone.UserID)
	case 3:
		return []almanac.Spec{almanac.DueBetween{From: hours(), Until: hours()}, almanac.DueBetween{From: hours()}, almanac.DueBetween{Until: hours()}, almanac.DueBetween{}}[random.IntN(4)]
	case 4:
		return almanac.Ready{}
	case 5:
		return almanac.Overdue{By: time.Duration(random.IntN(5)) * time.Hour}
	case 6:
		return almanac.InZone([]string{"America/New_York", "Asia/Tokyo", "Pacific/Niue", "UTC"}[random.IntN(5):])
	case 7:
		return nil
	case 8:
		return almanac.ForUser(uuid.New())
	case 9:
		return almanac.ForReason([]string{"", "HTTP", "HTTP 404", "http", "cancelled", "%", someone.FailureReason}[random.IntN(7)])
	case 10:
		return almanac.And(parts())
	case 11:
		return almanac.Or(parts())
	}
	return almanac.Not{Spec: randomSpec(random, all, now, depth-1)}
}
