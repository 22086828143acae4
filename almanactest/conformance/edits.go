package conformance

import (
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// later returns an event moved by an hour, as a replanning would return it.
func later(e almanac.Event) almanac.Event {
	e.Due = e.Due.Add(time.Hour)
	e.AvailableAt = e.Due
	e.Wall = calendar.WallTimeOf(e.Due)
	e.Version++
	return e
}

var errRefused = errors.New("refused by the edit")

var editCases = cases{
	"EditUser/shows the roster": func(k *kit) {
		u := almanactest.User()
		used := k.event(u, almanactest.OfSeries("a", "2026"), almanactest.ReadyFor(2*time.Hour))
		tried := k.event(u, almanactest.OfSeries("b", "2027"), almanactest.ReadyFor(time.Hour))
		open := k.event(u, almanactest.OfSeries("c", "2028"), almanactest.DueIn(time.Hour))
		k.create(u, used, tried, open)
		claimed := k.claim(2)
		k.deliver(claimed[0])
		k.retry(claimed[1], "busy", time.Hour)
		r := k.roster(u.ID)
		k.same("user", r.User.ID, u.ID)
		k.same("pending", ids(r.Pending), []uuid.UUID{open.ID})
		k.same("in flight", ids(r.InFlight), []uuid.UUID{tried.ID})
		delete(r.Used, birthdays("a"))
		k.same("used", keysOf(r.Used), map[almanac.Series]string{birthdays("b"): "2027"})
		k.same("time", r.Now.Before(k.now), false)
	},
	"EditUser/reports the used keys of a series that it adds to": func(k *kit) {
		u := almanactest.User()
		k.create(u, k.event(u, almanactest.OfSeries("a", "2026"), almanactest.ReadyFor(time.Hour)))
		k.deliver(k.claim(1)[0])
		edit := k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			key := "2025"
			if len(r.Used) > 0 {
				k.same("used", keysOf(r.Used), map[almanac.Series]string{birthdays("a"): "2026"})
				key = "2027"
			}
			return almanac.Edit{New: []almanac.Event{k.event(u, almanactest.OfSeries("a", key)), k.event(u, almanactest.OfSeries("b", "2025"))}}, nil
		})
		var keys []string
		for _, e := range edit.New {
			keys = append(keys, e.Series, e.OccurrenceKey)
		}
		k.same("added", keys, []string{"a", "2027", "b", "2025"})
	},
	"EditUser/stores every part of an edit": func(k *kit) {
		u := almanactest.User()
		moved, removed, added := k.event(u), k.event(u), k.event(u)
		k.create(u, moved, removed)
		before := k.clock()
		edit := k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			changed := r.User
			changed.FirstName, changed.Timezone = "Augusta", calendar.StoredTimezone("Asia/Tokyo")
			changed.Version++
			return almanac.Edit{User: &changed, Changed: []almanac.Event{later(r.Pending[0])}, Removed: r.Pending[1:], New: []almanac.Event{added}}, nil
		})
		user := k.storedUser(u.ID)
		k.same("name", user.FirstName, "Augusta")
		k.same("zone", user.Timezone.String(), "Asia/Tokyo")
		k.same("user updated before the edit", user.UpdatedAt.Before(before), false)
		k.same("version", user.Version, 2)
		k.same("user in the result", *edit.User, user)
		k.same("event updated before the edit", edit.Changed[0].UpdatedAt.Before(before), false)
		k.same("moved to", edit.Changed[0].Due, moved.Due.Add(time.Hour))
		k.same("version of the moved", edit.Changed[0].Version, 2)
		k.same("key of the moved", edit.Changed[0].IdempotencyKey, moved.IdempotencyKey)
		k.same("added", ids(edit.New), []uuid.UUID{added.ID})
		k.same("removed", ids(edit.Removed), []uuid.UUID{removed.ID})
		k.noEvent(removed.ID)
	},
	"EditUser/is all or nothing": func(k *kit) {
		e := k.newEvent()
		for _, fail := range []func(almanac.Roster) (almanac.Edit, error){
			func(r almanac.Roster) (almanac.Edit, error) {
				return almanac.Edit{New: []almanac.Event{k.event(r.User)}}, errRefused
			},
			func(r almanac.Roster) (almanac.Edit, error) { // the edit claims that someone else has moved the second event
				stale := later(later(r.Pending[0]))
				changed := r.User
				changed.Version++
				return almanac.Edit{User: &changed, Changed: []almanac.Event{stale}}, nil
			},
		} {
			_, err := k.r.EditUser(k.Context(), e.UserID, fail)
			if !errors.Is(err, errRefused) && !errors.Is(err, almanac.ErrOptimisticLock) {
				k.Errorf("error = %v, want the edit's own or an *OptimisticLockError", err)
			}
		}
		k.same("event", k.stored(e.ID), e)
		k.same("version of the user", k.storedUser(e.UserID).Version, 1)
		k.same("events", k.count(nil), 1)
	},
	"EditUser/skips events that are stored already": func(k *kit) {
		e := k.newEvent()
		edit := k.apply(e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{New: []almanac.Event{k.event(r.User, almanactest.OfSeries(e.Series, e.OccurrenceKey))}}, nil
		})
		k.same("added", len(edit.New), 0)
	},
}

// pastCases check since when an event counts as due that an edit moves to a past instant.
var pastCases = cases{
	"EditUser/an event that is moved into the past counts from the edit": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		passed := later(e)
		place(&passed, k.now.Add(-2*time.Hour))
		before := k.clock()
		changed := k.change(e.UserID, passed)[0]
		k.same("its instant", changed.Due, passed.Due)
		k.same("available before the edit", changed.AvailableAt.Before(before), false)
		k.same("ready", changed.ReadyAt, changed.AvailableAt)
		k.found(changed)
		k.waitsSince(changed.AvailableAt)

		// It could run since then, whatever is edited while it waits.
		again := changed
		again.Version++
		place(&again, k.now.Add(-3*time.Hour))
		again = k.change(e.UserID, again)[0]
		k.same("ready, still", again.ReadyAt, changed.ReadyAt)

		claimed := k.claimed(again)
		k.same("ready, claimed", claimed.ReadyAt, changed.ReadyAt)
		released := k.retry(claimed, "busy", 0).Event
		k.found(released)
		settled := k.settle(almanac.Settlement{
			Event: k.claimed(released), Outcome: almanac.Delivered(changed.ReadyAt.Add(time.Second)), Next: after(e),
		})
		k.found(settled.Event)
		k.same("lateness", settled.Event.Lateness(), time.Second)
		k.same("ready, of the successor", settled.Successor.ReadyAt.IsZero(), true)
		k.found(*settled.Successor)
	},
	"EditUser/an event that was overdue and is moved to another past instant counts from when it was due": func(k *kit) {
		e := k.newEvent(almanactest.ReadyFor(time.Hour))
		for _, step := range []struct {
			due, ready time.Duration // before now; zero means none
		}{{2 * time.Hour, time.Hour}, {30 * time.Minute, 0}} {
			moved := k.stored(e.ID)
			moved.Version++
			place(&moved, k.now.Add(-step.due))
			changed := k.change(e.UserID, moved)[0]
			want := changed.Due
			if step.ready > 0 {
				want = e.Due
			}
			k.same("available", changed.AvailableAt, want)
			k.same("first available", changed.FirstAvailable(), want)
			k.same("ready is set", !changed.ReadyAt.IsZero(), step.ready > 0)
		}
	},
}

func ids(events []almanac.Event) []uuid.UUID {
	list := make([]uuid.UUID, len(events))
	for i, e := range events {
		list[i] = e.ID
	}
	return list
}

// rosterCases check the roster that an edit gets.
var rosterCases = cases{
	"EditUser/shows the greatest key of each type that was ever claimed": func(k *kit) {
		u := almanactest.User()
		created := []almanac.Event{
			k.event(u, almanactest.Of("2027"), almanactest.ReadyFor(4*time.Hour)),
			k.event(u, almanactest.Of("2026"), almanactest.OfType("CLAIMED"), almanactest.ReadyFor(3*time.Hour)),
			k.event(u, almanactest.Of("9999"), almanactest.OfType("RELEASED"), almanactest.ReadyFor(2*time.Hour)),
			k.event(u, almanactest.Of("3000"), almanactest.OfType("UNCLAIMED")),
		}
		k.create(u, created...)
		claim := k.take(request(3, "CLAIMED", "RELEASED"))
		next := k.event(u, almanactest.Of("2029"), almanactest.DueIn(time.Hour))
		for _, e := range claim.Events { // in every status a claimed event can have
			switch e.OccurrenceKey {
			case "2027":
				k.settle(almanac.Settlement{Event: e, Outcome: almanac.GaveUp("HTTP 404"), Next: planned(next)})
			case "9999":
				k.settle(almanac.Settlement{Event: e, Outcome: almanac.Released(almanac.AfterShutdown, "stop", 0)})
			}
		}
		r := k.roster(u.ID)
		k.same("used", keysOf(r.Used), map[almanac.Series]string{birthdays(""): "2027", {Type: "CLAIMED"}: "2026", {Type: "RELEASED"}: "9999"})
		k.same("pending", ids(r.Pending), []uuid.UUID{created[3].ID, next.ID})
		k.same("in flight", ids(r.InFlight), []uuid.UUID{created[1].ID, created[2].ID})
	},
	"EditUser/shows the greatest key of each series that was ever claimed": func(k *kit) {
		u := almanactest.User()
		created := []almanac.Event{
			k.event(u, almanactest.OfSeries("dentist", "2026-05-01"), almanactest.ReadyFor(4*time.Hour)),
			k.event(u, almanactest.OfSeries("barber", "2026-06-01"), almanactest.ReadyFor(2*time.Hour)),
			k.event(u, almanactest.OfSeries("plumber", "2027-01-01"), almanactest.DueIn(time.Hour)),
		}
		k.create(u, created...)
		first := k.claim(2)[0]
		next := k.event(u, almanactest.OfSeries("dentist", "2026-11-01"), almanactest.ReadyFor(3*time.Hour))
		k.settle(almanac.Settlement{Event: first, Outcome: almanac.Delivered(k.now), Next: planned(next)})
		k.claim(1)
		k.same("used", keysOf(k.roster(u.ID).Used), map[almanac.Series]string{birthdays("barber"): "2026-06-01", birthdays("dentist"): "2026-11-01"})
	},
	"EditUser/returns the error of the edit unchanged": func(k *kit) {
		e := k.newEvent()
		_, err := k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) { return almanac.Edit{}, errRefused })
		k.same("error", err == errRefused, true)
	},
}

var refusedEditCases = cases{
	"EditUser/refuses events that have changed": func(k *kit) {
		u := almanactest.User()
		_, created := k.create(u, k.event(u), k.event(u, almanactest.DueIn(time.Hour)))
		claimed := k.claim(1)[0]
		released := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Released(almanac.AfterShutdown, "stop", time.Hour)}).Event
		stale, gone := created[1], k.event(u)
		stale.Version++
		for name, wanted := range map[string]almanac.Edit{
			"moved at another version":   {Changed: []almanac.Event{later(stale)}},
			"moved as before its claim":  {Changed: []almanac.Event{later(created[0])}},
			"moved and not there":        {Changed: []almanac.Event{later(gone)}},
			"removed at another version": {Removed: []almanac.Event{stale}},
			"removed after its release":  {Removed: []almanac.Event{released}},
		} {
			_, err := k.r.EditUser(k.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
				changed := r.User
				changed.Version++
				wanted.User, wanted.New = &changed, []almanac.Event{k.event(u)}
				return wanted, nil
			})
			var conflict *almanac.OptimisticLockError
			k.same(name+": is an *OptimisticLockError", errors.As(err, &conflict), true)
		}
		begun, other := created[1], later(created[1])
		begun.Status, begun.ClaimCount, begun.AvailableAt, begun.LeaseToken = almanac.Processing, 1, time.Time{}, uuid.New()
		begun.Version++
		other.IdempotencyKey = "event-another"
		for name, wanted := range map[string]almanac.Event{"moved after its release": later(released), "begun": begun, "another": other} {
			_, err := k.r.EditUser(k.Context(), u.ID, changing(wanted))
			k.same(name+" is refused, as CheckChange says", err != nil, true)
		}
		k.same("released", k.stored(released.ID), released)
		k.same("pending", k.stored(created[1].ID), created[1])
		k.same("version of the user", k.storedUser(u.ID).Version, 1)
		k.same("events", k.count(nil), 2)
	},
	"EditUser/compares an edit with the stored events, not with the roster": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		k.is(errorOf(k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			r.Pending[0].Version++
			r.Pending[0].IdempotencyKey = "event-another"
			return almanac.Edit{Changed: []almanac.Event{later(r.Pending[0])}}, nil
		})), almanac.ErrOptimisticLock)
		k.same("event", k.stored(e.ID), e)
	},
	"EditUser/moves no event to another key or to another series": func(k *kit) {
		e := k.newEvent(almanactest.Of("2026"))
		next := almanactest.Event(k.now, almanactest.DueIn(time.Hour), almanactest.Of("2027"))
		next.UserID = e.UserID
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: planned(next)})
		next = k.stored(next.ID)
		for _, to := range []almanactest.EventOption{
			almanactest.Of("2026"), almanactest.Of("2028"), almanactest.OfSeries("dentist", "2028"), asFollowUp,
			almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginRequeued, From: e.ID}),
		} {
			_, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
				moved := later(r.Pending[0])
				to(&moved, k.now)
				return almanac.Edit{Changed: []almanac.Event{moved}}, nil
			})
			k.same("another occurrence or series is refused", err != nil, true)
		}
		k.same("event", k.stored(next.ID), next)
	},
}

// keysOf returns the greatest used key of each series. The key of a second unit follows a comma.
func keysOf(used map[almanac.Series]almanac.UsedKeys) map[almanac.Series]string {
	keys := make(map[almanac.Series]string, len(used))
	for one, list := range used {
		var texts []string
		for _, k := range list {
			texts = append(texts, k.Key)
		}
		keys[one] = strings.Join(texts, ",")
	}
	return keys
}
