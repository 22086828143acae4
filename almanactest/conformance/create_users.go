package conformance

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

var createUsersCases = cases{
	"CreateUsers/stores users with their events": func(k *kit) {
		var people []almanac.UserWithEvents
		for n := range 3 {
			u := almanactest.User(almanactest.WithAttributes(`{"hired": "2020-02-29"}`))
			events := []almanac.Event{k.event(u, almanactest.Of("2026")), k.event(u, almanactest.OfSeries("dentist", "2026"))}
			people = append(people, almanac.UserWithEvents{User: u, Events: events[:n]})
		}
		stored := k.createUsers(people...)
		for i, want := range people {
			k.ok(stored[i].Err)
			k.keptUser(stored[i].User, want.User)
			k.same("events", len(stored[i].Events), len(want.Events))
			for j, want := range want.Events {
				k.kept(stored[i].Events[j], want)
			}
		}
	},
	"CreateUsers/stores the others when one is refused": func(k *kit) {
		people := make([]almanac.UserWithEvents, 7)
		for i := range people {
			people[i] = k.withEvents(almanactest.User())
		}
		people[2].Events[0].Type = strings.Repeat("T", 51)
		people[5].Events = append(people[5].Events, k.event(people[5].User, almanactest.OfSeries(people[5].Events[0].Series, people[5].Events[0].OccurrenceKey)))
		stored := k.createUsers(people...)
		for i, p := range people {
			_, err := k.r.User(k.Context(), p.User.ID)
			switch i {
			case 2, 5:
				k.gone(err)
				k.same("refused", stored[i].Err != nil, true)
				k.same("as one who exists", errors.Is(stored[i].Err, almanac.ErrExists), i == 5)
			default:
				k.ok(err)
				k.ok(stored[i].Err)
				k.same("user", stored[i].User.ID, p.User.ID)
				k.same("event", stored[i].Events[0].ID, p.Events[0].ID)
			}
		}
	},
	"CreateUsers/skips existing users": func(k *kit) {
		other := almanactest.User()
		again := almanactest.User(almanactest.Named("Grace", "Hopper"), almanactest.WithUserID(k.newEvent().UserID))
		twin := almanactest.User(almanactest.Named("Grace", "Hopper"), almanactest.WithUserID(other.ID))
		people := []almanac.UserWithEvents{k.withEvents(again), k.withEvents(other), k.withEvents(twin)}
		people[2].Events[0].Type = almanac.TypeAnniversary // so that it belongs to another series
		stored := k.createUsers(people...)
		k.is(stored[0].Err, almanac.ErrExists)
		k.ok(stored[1].Err)
		k.is(stored[2].Err, almanac.ErrExists)
		for _, id := range []uuid.UUID{again.ID, other.ID} {
			k.same("name", k.storedUser(id).FirstName, "Ada")
			k.same("events", k.openOf(id), 1)
		}
	},
	"CreateUsers/refuses external ids that are taken": func(k *kit) {
		holder, _ := k.create(almanactest.User(almanactest.WithExternalID("taken")))
		with := func(options ...almanactest.UserOption) almanac.UserWithEvents {
			return k.withEvents(almanactest.User(options...))
		}
		people := []almanac.UserWithEvents{
			with(almanactest.WithExternalID("a")),
			with(almanactest.WithExternalID("taken")),                                    // by a stored user
			with(almanactest.WithExternalID("a")),                                        // by the first of the list
			with(almanactest.WithUserID(holder.ID), almanactest.WithExternalID("b")),     // is not stored for its id
			with(almanactest.WithExternalID("b")),                                        // so that this one is
			with(almanactest.WithUserID(holder.ID), almanactest.WithExternalID("taken")), // the same user again
			with(),
			with(almanactest.WithExternalID("a")),
		}
		stored := k.createUsers(people...)
		for i, p := range people {
			switch i {
			case 1:
				k.taken(stored[i].Err, holder.ID, p.User.ID)
			case 2, 7:
				k.taken(stored[i].Err, people[0].User.ID, p.User.ID)
			case 3, 5:
				k.is(stored[i].Err, almanac.ErrExists)
				continue
			default:
				k.ok(stored[i].Err)
				k.same("user", stored[i].User.ID, p.User.ID)
				k.same("events", k.openOf(p.User.ID), 1)
				continue
			}
			k.noUser(p.User.ID)
			k.same("events of a refused user", k.openOf(p.User.ID), 0)
		}
	},
	"CreateUsers/gives a used key its long form": func(k *kit) {
		first := k.newEvent()
		people := []almanac.UserWithEvents{k.withEvents(almanactest.User()), k.withEvents(almanactest.User())}
		for i := range people {
			people[i].Events[0].IdempotencyKey = first.IdempotencyKey
		}
		stored := k.createUsers(people...)
		for i, p := range people {
			k.ok(stored[i].Err)
			k.same("key", stored[i].Events[0].IdempotencyKey, p.Events[0].LongKey())
		}
	},
}

var createUsersRaceCases = cases{
	"CreateUsers/gives an external id to one of several calls": func(k *kit) {
		const n = 20
		created := make(map[string]int)
		for _, one := range k.createConcurrently(func() (mine []almanac.UserWithEvents) {
			for id := range n {
				mine = append(mine, k.withEvents(almanactest.User(almanactest.WithExternalID(strconv.Itoa(id)))))
			}
			return mine
		}) {
			if one.Err == nil {
				created[one.User.ExternalID]++
			} else if !errors.Is(one.Err, almanac.ErrExternalIDTaken) && !errors.Is(one.Err, almanac.ErrLocked) {
				k.Errorf("refused: %v", one.Err)
			}
		}
		for id := range n {
			k.same("times created", created[strconv.Itoa(id)], 1)
		}
	},
	"CreateUsers/works when two calls store the same users": func(k *kit) {
		const n = 50
		people := make([]almanac.UserWithEvents, n)
		for i := range people {
			people[i] = k.withEvents(almanactest.User())
		}
		created := make(map[uuid.UUID]int)
		for _, one := range k.createConcurrently(func() []almanac.UserWithEvents { return slices.Clone(people) }) {
			if one.Err == nil {
				created[one.User.ID]++
			}
		}
		for _, p := range people {
			k.same("times created", created[p.User.ID], 1)
			k.same("events", k.openOf(p.User.ID), 1)
		}
	},
}

// createConcurrently stores a list in four calls at once, two of which have it in reverse. It
// returns the results of all calls.
func (k *kit) createConcurrently(list func() []almanac.UserWithEvents) []almanac.CreateUserResult {
	k.Helper()
	var racing sync.WaitGroup
	var stored [4][]almanac.CreateUserResult
	for i := range stored {
		racing.Go(func() {
			mine := list()
			if i%2 == 1 {
				slices.Reverse(mine)
			}
			var err error
			stored[i], err = k.r.CreateUsers(k.Context(), mine)
			k.noError("create", err)
		})
	}
	racing.Wait()
	return slices.Concat(stored[:]...)
}

// withEvents returns a user with one event, not stored yet.
func (k *kit) withEvents(u almanac.User) almanac.UserWithEvents {
	return almanac.UserWithEvents{User: u, Events: []almanac.Event{k.event(u)}}
}

// openOf counts a user's events.
func (k *kit) openOf(id uuid.UUID) int {
	k.Helper()
	n := k.count(almanac.ForUser(id))
	return n
}
