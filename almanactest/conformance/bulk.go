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

var bulkCases = map[string]func(*kit){
	"CreateUsers/stores users with their events": func(k *kit) {
		var people []almanac.UserWithEvents
		for n := range 3 {
			u := almanactest.User(almanactest.WithAttributes(`{"hired": "2020-02-29"}`))
			events := []almanac.Event{almanactest.Event(k.now, almanactest.For(u), almanactest.Of("2026")), almanactest.Event(k.now, almanactest.For(u), almanactest.OfSeries("dentist", "2026"))}
			people = append(people, almanac.UserWithEvents{User: u, Events: events[:n]})
		}
		stored, err := k.r.CreateUsers(k.Context(), people)
		k.ok(err)
		for i, want := range people {
			k.ok(stored[i].Err)
			u, err := k.r.User(k.Context(), want.User.ID)
			k.ok(err)
			k.same("user found", u, stored[i].User)
			want.User.CreatedAt, want.User.UpdatedAt, want.User.Attributes = u.CreatedAt, u.UpdatedAt, u.Attributes
			k.same("user", u, want.User)
			k.same("events", len(stored[i].Events), len(want.Events))
			for j, want := range want.Events {
				e := k.stored(want.ID)
				k.same("event found", e, stored[i].Events[j])
				want.CreatedAt, want.UpdatedAt = e.CreatedAt, e.UpdatedAt
				k.same("event", e, want)
			}
		}
	},
	"CreateUsers/skips existing users": func(k *kit) {
		there := k.newEvent()
		again, twin := almanactest.User(almanactest.Named("Grace", "Hopper")), almanactest.User(almanactest.Named("Grace", "Hopper"))
		again.ID = there.UserID
		other := almanactest.User()
		twin.ID = other.ID
		people := []almanac.UserWithEvents{k.withEvents(again), k.withEvents(other), k.withEvents(twin)}
		people[2].Events[0].Type = almanac.TypeAnniversary // so that it belongs to another series
		stored, err := k.r.CreateUsers(k.Context(), people)
		k.ok(err)
		k.is(stored[0].Err, almanac.ErrExists)
		k.ok(stored[1].Err)
		k.is(stored[2].Err, almanac.ErrExists)
		for _, id := range []uuid.UUID{again.ID, other.ID} {
			u, err := k.r.User(k.Context(), id)
			k.ok(err)
			k.same("name", u.FirstName, "Ada")
			k.same("events", k.openOf(id), 1)
		}
	},
	"CreateUsers/stores the others when one is refused": func(k *kit) {
		people := make([]almanac.UserWithEvents, 7)
		for i := range people {
			people[i] = k.withEvents(almanactest.User())
		}
		people[2].Events[0].Type = strings.Repeat("T", 51)
		people[5].Events = append(people[5].Events, almanactest.Event(k.now, almanactest.For(people[5].User), almanactest.OfSeries(people[5].Events[0].Series, people[5].Events[0].OccurrenceKey)))
		stored, err := k.r.CreateUsers(k.Context(), people)
		k.ok(err)
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
	"CreateUsers/refuses external ids that are taken": func(k *kit) {
		holder, _, err := k.create(almanactest.User(almanactest.WithExternalID("taken")))
		k.ok(err)
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
		stored, err := k.r.CreateUsers(k.Context(), people)
		k.ok(err)
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
			_, err := k.r.User(k.Context(), p.User.ID)
			k.gone(err)
			k.same("events of a refused user", k.openOf(p.User.ID), 0)
		}
	},
	"CreateUsers/gives an external id to one of several calls": func(k *kit) {
		const n = 20
		var racing sync.WaitGroup
		var stored [4][]almanac.CreateUserResult
		for i := range stored {
			racing.Go(func() {
				var mine []almanac.UserWithEvents
				for id := range n {
					mine = append(mine, k.withEvents(almanactest.User(almanactest.WithExternalID(strconv.Itoa(id)))))
				}
				if i%2 == 1 {
					slices.Reverse(mine)
				}
				var err error
				if stored[i], err = k.r.CreateUsers(k.Context(), mine); err != nil {
					k.Errorf("create: %v", err)
				}
			})
		}
		racing.Wait()
		created := make(map[string]int)
		for _, one := range slices.Concat(stored[:]...) {
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
	"CreateUsers/gives a used key its long form": func(k *kit) {
		first := k.newEvent()
		people := []almanac.UserWithEvents{k.withEvents(almanactest.User()), k.withEvents(almanactest.User())}
		for i := range people {
			people[i].Events[0].IdempotencyKey = first.IdempotencyKey
		}
		stored, err := k.r.CreateUsers(k.Context(), people)
		k.ok(err)
		for i, p := range people {
			k.ok(stored[i].Err)
			k.same("key", stored[i].Events[0].IdempotencyKey, p.Events[0].LongKey())
		}
	},
	"CreateUsers/works when two calls store the same users": func(k *kit) {
		const n = 50
		people := make([]almanac.UserWithEvents, n)
		for i := range people {
			people[i] = k.withEvents(almanactest.User())
		}
		var racing sync.WaitGroup
		var stored [4][]almanac.CreateUserResult
		for i := range stored {
			racing.Go(func() {
				mine := slices.Clone(people)
				if i%2 == 1 {
					slices.Reverse(mine)
				}
				var err error
				if stored[i], err = k.r.CreateUsers(k.Context(), mine); err != nil {
					k.Errorf("create: %v", err)
				}
			})
		}
		racing.Wait()
		created := make(map[uuid.UUID]int)
		for _, one := range slices.Concat(stored[:]...) {
			if one.Err == nil {
				created[one.User.ID]++
			}
		}
		for _, p := range people {
			k.same("times created", created[p.User.ID], 1)
			k.same("events", k.openOf(p.User.ID), 1)
		}
	},
	"AddEvents/plans each user once, page by page": func(k *kit) {
		const n = 5
		var want []uuid.UUID
		for range n {
			want = append(want, k.newEvent().UserID)
		}
		hidden := k.newEvent(almanactest.ReadyFor(time.Hour))
		k.claim(1)
		_, err := k.r.DeleteUser(k.Context(), hidden.UserID, almanac.DeleteOptions{})
		k.ok(err)
		slices.SortFunc(want, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		var seen []uuid.UUID
		page := almanac.Page{Limit: 2}
		for {
			added, err := k.r.AddEvents(k.Context(), almanac.TypeBirthday, page, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
				for _, one := range users {
					seen = append(seen, one.User.ID)
				}
				return nil, nil
			})
			k.ok(err)
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
			events = append(events, almanactest.Event(k.now, almanactest.For(u), almanactest.OfSeries(name, "2026"), almanactest.ReadyFor(time.Hour-time.Duration(i)*time.Minute)))
		}
		other := almanactest.Event(k.now, almanactest.For(u), almanactest.OfType(almanac.TypeAnniversary), almanactest.OfSeries(names[3], "2026"))
		_, _, err := k.create(u, append(events, other)...)
		k.ok(err)
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now)})
		k.claim(1) // a has ended, b is in flight, c is pending
		added, err := k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, error) {
			k.same("users", len(users), 1)
			k.same("user", users[0].User.Name(), u.Name())
			k.same("open", users[0].Open, map[almanac.Series]string{birthdays("b"): "2026", birthdays("c"): "2026"})
			k.same("now is early", now.Before(k.now), false)
			key := "2026"
			if used := users[0].Used; len(used) > 0 {
				k.same("used", keysOf(used), map[almanac.Series]string{birthdays("a"): "2026"})
				key = "2027"
			}
			return []almanac.Event{almanactest.Event(k.now, almanactest.For(u), almanactest.OfSeries("a", key))}, nil
		})
		k.ok(err)
		k.same("added", len(added.Events), 1)
		k.same("of the series that has ended", added.Events[0].OccurrenceKey, "2027")
	},
	"AddEvents/stores only events whose series has no open event": func(k *kit) {
		open, ended, fresh := k.newEvent(almanactest.Of("2026")), k.newEvent(almanactest.Of("2026"), almanactest.ReadyFor(time.Hour)), almanactest.User()
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now)})
		_, _, err := k.create(fresh)
		k.ok(err)
		want := almanactest.Event(k.now, almanactest.For(fresh), almanactest.Of("2026"))
		want.IdempotencyKey = open.IdempotencyKey
		add := func() almanac.AddEventsResult {
			added, err := k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
				var events []almanac.Event
				for _, one := range users {
					switch one.User.ID {
					case open.UserID:
						events = append(events, almanactest.Event(k.now, almanactest.For(one.User), almanactest.Of("2027")))
					case ended.UserID:
						events = append(events, almanactest.Event(k.now, almanactest.For(one.User), almanactest.Of("2026")))
					default:
						events = append(events, want)
					}
				}
				return events, nil
			})
			k.ok(err)
			return added
		}
		added := add()
		k.same("events", len(added.Events), 1)
		k.same("as stored", k.stored(want.ID), added.Events[0])
		k.same("key", added.Events[0].IdempotencyKey, want.LongKey())
		want = almanactest.Event(k.now, almanactest.For(fresh), almanactest.Of("2026"))
		k.same("events of the next time", len(add().Events), 0)
	},
	"AddEvents/stores nothing when the plan fails": func(k *kit) {
		k.newEvent()
		failed := errors.New("no plan")
		_, err := k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error) { return nil, failed })
		k.same("error", err, failed)
	},
	// An edit commits before the page, which then plans from the edited user, or after it,
	// and then finds the page's event pending.
	"AddEvents/stores nothing outdated or twice during edits": func(k *kit) {
		const n = 20
		var people []almanac.User
		for range n {
			u, _, err := k.create(almanactest.User())
			k.ok(err)
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
		found, err := k.r.Find(k.Context(), almanac.InStatus(almanac.Pending), almanac.Page{Limit: 1000})
		k.ok(err)
		k.same("events", len(found.Events), n)
		for _, e := range found.Events {
			k.same("version of the user that the event was planned from", e.UserVersion, 2)
		}
	},
}

// withEvents returns a user with one event, not stored yet.
func (k *kit) withEvents(u almanac.User) almanac.UserWithEvents {
	return almanac.UserWithEvents{User: u, Events: []almanac.Event{almanactest.Event(k.now, almanactest.For(u))}}
}

// openOf counts a user's events.
func (k *kit) openOf(id uuid.UUID) int {
	k.Helper()
	n, err := k.r.Count(k.Context(), almanac.ForUser(id))
	k.ok(err)
	return n
}
