package conformance

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
			k.same("events", k.eventsOf(id), 1)
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
				k.same("events", k.eventsOf(p.User.ID), 1)
				continue
			}
			k.noUser(p.User.ID)
			k.same("events of a refused user", k.eventsOf(p.User.ID), 0)
		}
	},
	"CreateUsers/gives a used key its long form": func(k *kit) {
		first := k.newEvent()
		people := []almanac.UserWithEvents{k.withEvents(beside(first.UserID)), k.withEvents(beside(first.UserID))}
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
			k.same("events", k.eventsOf(p.User.ID), 1)
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

// eventsOf counts a user's events.
func (k *kit) eventsOf(id uuid.UUID) int {
	k.Helper()
	return k.count(almanac.ForUser(id))
}

var addEventsCases = cases{
	"AddEvents/plans each user once, page by page": func(k *kit) {
		const n = 5
		var want []uuid.UUID
		for range n {
			want = append(want, k.newEvent().UserID)
		}
		hidden := k.newEvent(almanactest.ReadyFor(time.Hour))
		k.claim(1)
		k.deleteUser(hidden.UserID)
		slices.SortFunc(want, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		var seen []uuid.UUID
		page := almanac.Page{Limit: 2}
		for {
			begun := len(seen)
			added := must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, page, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
				for _, one := range users {
					seen = append(seen, one.User.ID)
				}
				return nil, nil
			}))(k)
			slices.SortFunc(seen[begun:], func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) // the order within a page is open
			k.same("users of the page", added.Users, min(2, n-len(seen)+added.Users))
			if page.After = added.Next; page.After == "" {
				break
			}
		}
		k.same("users", seen, want)
	},
	"AddEvents/passes the user's series of the type to the plan": func(k *kit) {
		u := almanactest.User()
		names := []string{"a", "b", "c", "d"}
		var events []almanac.Event
		for i, name := range names[:3] {
			events = append(events, k.event(u, almanactest.OfSeries(name, "2026"), almanactest.ReadyFor(time.Hour-time.Duration(i)*time.Minute)))
		}
		other := k.event(u, almanactest.OfType(almanac.TypeAnniversary), almanactest.OfSeries(names[3], "2026"))
		k.create(u, append(events, other)...)
		k.deliver(k.claim(1)[0])
		k.claim(1) // a has ended, b is in flight, c is pending
		added := must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, error) {
			k.same("users", len(users), 1)
			k.same("user", users[0].User.Name(), u.Name())
			k.same("open", users[0].Open, map[almanac.Series]string{birthdays("b"): "2026", birthdays("c"): "2026"})
			k.same("now is early", now.Before(k.now), false)
			key := "2026"
			if used := users[0].Used; len(used) > 0 {
				k.same("used", keysOf(used), map[almanac.Series]string{birthdays("a"): "2026"})
				key = "2027"
			}
			return []almanac.Event{k.event(u, almanactest.OfSeries("a", key))}, nil
		}))(k)
		k.same("added", len(added.Events), 1)
		k.same("of the series that has ended", added.Events[0].OccurrenceKey, "2027")
	},
	"AddEvents/stores only events whose series has no open event": func(k *kit) {
		open, ended := k.newEvent(almanactest.Of("2026")), k.newEvent(almanactest.Of("2026"), almanactest.ReadyFor(time.Hour))
		fresh := beside(open.UserID)
		k.deliver(k.claim(1)[0])
		k.create(fresh)
		want := k.event(fresh, almanactest.Of("2026"))
		want.IdempotencyKey = open.IdempotencyKey
		add := func() almanac.AddEventsResult {
			added := must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
				var events []almanac.Event
				for _, one := range users {
					switch one.User.ID {
					case open.UserID:
						events = append(events, k.event(one.User, almanactest.Of("2027")))
					case ended.UserID:
						events = append(events, k.event(one.User, almanactest.Of("2026")))
					default:
						events = append(events, want)
					}
				}
				return events, nil
			}))(k)
			return added
		}
		added := add()
		k.same("events", len(added.Events), 1)
		k.same("as stored", k.stored(want.ID), added.Events[0])
		k.same("key", added.Events[0].IdempotencyKey, want.LongKey())
		want = k.event(fresh, almanactest.Of("2026"))
		k.same("events of the next time", len(add().Events), 0)
	},
	"AddEvents/stores nothing when the plan fails": func(k *kit) {
		k.newEvent()
		failed := errors.New("no plan")
		_, err := k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error) { return nil, failed })
		k.same("error", err, failed)
	},
}

var addEventsRefusedCases = cases{
	"AddEvents/stores the others when events of a user cannot be stored": func(k *kit) {
		var users []almanac.User
		for range 5 {
			u, _ := k.create(almanactest.User())
			users = append(users, u)
		}
		slices.SortFunc(users, func(a, b almanac.User) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		refused := users[2].ID
		added := must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{Limit: len(users)}, func(users []almanac.UserSeries, now time.Time) (events []almanac.Event, _ error) {
			for _, one := range users {
				for _, series := range []string{"a", "b"} {
					e := almanactest.Event(now, almanactest.For(one.User), almanactest.OfSeries(series, "2028"), almanactest.DueIn(time.Hour))
					if one.User.ID == refused && series == "b" {
						e.Zone = unstorableZone
					}
					events = append(events, e)
				}
			}
			return events, nil
		}))(k)
		k.same("users", added.Users, len(users))
		k.same("events", len(added.Events), 2*(len(users)-1))
		k.same("next", added.Next, almanac.Cursor(users[4].ID.String()))
		k.same("refused", len(added.Refused), 1)
		k.same("user", added.Refused[0].UserID, refused)
		k.same("with an error", added.Refused[0].Err != nil, true)
		for _, u := range users {
			want := 2
			if u.ID == refused {
				want = 0
			}
			k.same("open", k.eventsOf(u.ID), want)
		}
	},
}

var addEventsRaceCases = cases{
	// An edit commits before the page, which then plans from the edited user, or after it,
	// and then finds the page's event pending.
	"AddEvents/stores nothing outdated or twice during edits": func(k *kit) {
		const n = 20
		var people []almanac.User
		for range n {
			u, _ := k.create(almanactest.User())
			people = append(people, u)
		}
		add := func(page almanac.Page) {
			for more := true; more; more = page.After != "" {
				added, err := k.r.AddEvents(k.Context(), almanac.TypeBirthday, page, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, error) {
					var events []almanac.Event
					for _, one := range users {
						events = append(events, almanactest.Event(now, almanactest.For(one.User), almanactest.Of("2026"), almanactest.DueIn(time.Hour)))
					}
					return events, nil
				})
				if err != nil {
					k.Errorf("add: %v", err)
					return
				}
				page.After = added.Next
			}
		}
		var racing sync.WaitGroup
		for range 2 {
			racing.Go(func() { add(almanac.Page{Limit: 3}) })
		}
		for _, u := range people {
			racing.Go(func() { k.raise(u.ID) })
		}
		racing.Wait()
		add(almanac.Page{}) // for the users that were locked just then
		found := k.find(almanac.InStatus(almanac.Pending))
		k.same("events", len(found), n)
		for _, e := range found {
			k.same("version of the user that the event was planned from", e.UserVersion, 2)
		}
	},
}
