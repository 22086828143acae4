package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// seriesCases check that names of series, occurrence keys and origins stay distinct,
// whatever characters they contain.
var seriesCases = cases{
	"Requeued/returns the events that were requeued before": func(k *kit) {
		not, open, ended, cancelled := k.failed(), k.failed(), k.failed(), k.newEvent(almanactest.DueIn(time.Hour))
		cancelled = k.apply(cancelled.UserID, cancelling).Changed[0]
		k.apply(open.UserID, requeuing(open))
		k.apply(cancelled.UserID, requeuing(cancelled))
		again := k.apply(ended.UserID, requeuing(ended)).New[0]
		check := func(when string) {
			found := must(k.r.Requeued(k.Context(), []almanac.Event{not, open, again, ended, cancelled}))(k)
			k.same("how many are requeued "+when, len(found), 3)
			for _, e := range []almanac.Event{open, ended, cancelled} {
				k.same("requeued "+when, slices.Contains(found, e.ID), true)
			}
		}
		check("and pending")
		claimed := k.claim(2)
		check("and in flight")
		for _, e := range claimed {
			k.ok(k.giveUp(e, "HTTP 410").Err)
		}
		check("and failed")
		k.prune(k.now.Add(time.Hour))
		check("and pruned")
		k.same("of no events", len(must(k.r.Requeued(k.Context(), nil))(k)), 0)
	},
	"Series/treats slashes and tildes as ordinary characters": func(k *kit) {
		u := almanactest.User()
		var pending []almanac.Event
		for i, at := range [][2]string{
			{"", "b/c"}, {"a", "b/c"}, {"a/b", "c"}, {"a/", "b/c"}, {"a/b/", "c"}, {"/", "/"}, {"//", "/"}, {"~", "~"}, {"~again-x", "1"}, {"~after-x", "1"},
		} {
			pending = append(pending, k.event(u, almanactest.OfSeries(at[0], at[1]), almanactest.ReadyFor(time.Hour+time.Duration(i)*time.Second)))
		}
		origins := []almanac.OriginKind{almanac.OriginScheduled, almanac.OriginFollowUp}
		for _, kind := range origins {
			for _, key := range []string{"b/c", "/", "~at-x/1fp"} {
				pending = append(pending, k.event(u, almanactest.Of(key), almanactest.WithOrigin(almanac.Origin{Kind: kind, FollowsUser: kind == almanac.OriginScheduled})))
			}
		}
		_, stored := k.create(u, pending...)
		k.same("stored", len(stored), len(pending))
		used, longKeys := make(map[almanac.Series]string), make(map[almanac.IdempotencyKey]bool)
		for i, e := range stored {
			k.sameOccurrence(e, pending[i])
			k.sameOccurrence(k.stored(e.ID), pending[i])
			used[almanac.SeriesOf(e)] = e.OccurrenceKey
			e.Due = k.now
			longKeys[e.LongKey()] = true
		}
		k.same("series", len(used), len(pending))
		k.same("long keys at one instant", len(longKeys), len(pending))
		byID := make(map[uuid.UUID]almanac.Event, len(pending))
		for _, e := range pending {
			byID[e.ID] = e
		}
		claimed := k.claim(len(pending))
		k.same("claimed", len(claimed), len(pending))
		for _, e := range claimed {
			k.sameOccurrence(e, byID[e.ID])
		}
		k.same("used", keysOf(k.roster(u.ID).Used), used)
		for _, e := range claimed {
			next := after(e)
			if e.Origin != (almanac.Origin{}) {
				next = nil
			}
			got := k.stores(almanac.Settlement{Event: e, Outcome: almanac.GaveUp("HTTP 404"), Next: next})
			k.sameOccurrence(k.stored(e.ID), byID[e.ID])
			k.same(fmt.Sprintf("successor in series %q", e.Series), got.Successor != nil, next != nil)
			if next != nil {
				k.same("series of the successor", almanac.SeriesOf(*got.Successor), almanac.SeriesOf(e))
				k.same("key of the successor", got.Successor.OccurrenceKey, e.OccurrenceKey+"+1")
			}
			again := k.apply(u.ID, requeuing(k.stored(e.ID)))
			k.same("requeued", len(again.New), 1)
			k.same("series of what is requeued", again.New[0].Series, e.Series)
			k.same("key of what is requeued", again.New[0].OccurrenceKey, e.OccurrenceKey)
			k.same("origin of what is requeued", again.New[0].Origin, almanac.Origin{Kind: almanac.OriginRequeued, From: e.ID})
		}
	},
	"Series/keeps the given keys of follow-ups and one-off events": func(k *kit) {
		pending := k.newEvent()
		const key = "~again-x/1fp"
		followed := almanactest.Event(k.now, almanactest.OfUser(pending.UserID), almanactest.OfType("QUESTION"), almanactest.Of(key), almanactest.DueIn(time.Hour),
			almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginFollowUp, From: pending.ID}))
		got := k.stores(almanac.Settlement{
			Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now),
			Follow: func(almanac.User, time.Time) ([]almanac.Event, error) { return []almanac.Event{followed}, nil },
		})
		k.same("followed", len(got.Followed), 1)
		k.sameOccurrence(got.Followed[0], followed)

		s := k.scheduler(almanac.OneOff{})
		o := almanac.ScheduleAtOptions{At: calendar.WallTimeOf(k.now.UTC().Truncate(time.Second).Add(48 * time.Hour)), Key: key, FollowUser: true}
		once := must(s.ScheduleAt(k.Context(), pending.UserID, almanac.TypeOneOff, o))(k)
		lima := "America/Lima"
		must(s.UpdateUser(k.Context(), pending.UserID, almanac.ProfileChange{Timezone: &lima}))(k)
		is := k.stored(once.Event.ID)
		k.same("key", is.OccurrenceKey, key)
		k.same("series", is.Series, "")
		k.same("origin", is.Origin, almanac.Origin{Kind: almanac.OriginScheduled, FollowsUser: true, PayloadMade: true})
		var payload map[string]string
		k.ok(json.Unmarshal(is.Payload, &payload))
		k.same("what a receiver gets", payload, map[string]string{"key": key})
	},
}

// sameOccurrence checks that an event has the series, the key and the origin of another.
func (k *kit) sameOccurrence(got, want almanac.Event) {
	k.Helper()
	k.same("series", got.Series, want.Series)
	k.same("occurrence key", got.OccurrenceKey, want.OccurrenceKey)
	k.same("origin", got.Origin, want.Origin)
}

// oneOffCases check what [almanac.Planner] needs of a repository.
var oneOffCases = cases{
	"OneOff/an edit skips a second event of a series": func(k *kit) {
		pending := k.newEvent()
		first, second := k.named(pending, "x"), k.named(pending, "x")

		added := k.add(pending.UserID, first, second)

		k.same("the first alone", ids(added), []uuid.UUID{first.ID})
		k.noEvent(second.ID)
	},
	"OneOff/an edit reports that the key of a one-off event is used": func(k *kit) {
		pending := k.newEvent()
		event := k.named(pending, "x")
		k.add(pending.UserID, event)
		k.apply(pending.UserID, func(r almanac.Roster) (edit almanac.Edit, err error) {
			for _, e := range r.Pending {
				if e.ID == event.ID {
					e, err = e.Cancel("")
					edit.Changed = append(edit.Changed, e)
				}
			}
			return edit, err
		})
		again, other := k.named(pending, "x"), k.named(pending, "y")
		again.Origin.FollowsUser = true // whatever the options say
		given := false

		edit := k.apply(pending.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			if given = keysOf(r.Used)[almanac.SeriesOf(event)] == "x"; given {
				return almanac.Edit{New: []almanac.Event{other}}, nil
			}
			return almanac.Edit{New: []almanac.Event{again}}, nil
		})

		k.same("given", given, true)
		k.same("added", ids(edit.New), []uuid.UUID{other.ID})
	},
	"OneOff/an event that is scheduled after its instant counts from its creation": func(k *kit) {
		pending := k.newEvent(almanactest.DueIn(time.Hour))
		late := k.named(pending, "x")
		place(&late, k.now.Add(-2*time.Hour))
		created := k.add(pending.UserID, late)[0]
		k.same("its instant", created.Due, late.Due)
		k.same("available", created.AvailableAt, created.CreatedAt)
		k.waitsSince(created.CreatedAt)
		k.same("found by its instant", ids(k.find(almanac.DueBetween{From: k.now.Add(-3 * time.Hour), Until: k.now.Add(-time.Hour)})), []uuid.UUID{late.ID})

		claimed := k.claim(1)[0]
		delivered := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(created.CreatedAt.Add(time.Second))}).Event
		k.same("lateness", delivered.Lateness(), time.Second)
	},
	"OneOff/a call moves an event under its own key until it is claimed": func(k *kit) {
		s := k.scheduler(almanac.OneOff{})
		u := almanactest.User()
		k.create(u)
		o := almanac.ScheduleAtOptions{At: calendar.WallTimeOf(k.now.UTC().Add(48 * time.Hour)), Timezone: calendar.StoredTimezone("UTC"), Key: "x", Move: true}
		first := must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		k.same("stored", []bool{first.Existed, first.Moved}, []bool{false, false})
		o.At, o.Timezone = calendar.WallTimeOf(k.now.UTC().Add(-time.Minute)), calendar.StoredTimezone("Asia/Tokyo")
		o.At = calendar.WallTime{Date: o.At.Date.AddDays(1), Clock: o.At.Clock}
		moved := must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		k.same("moved", []bool{moved.Existed, moved.Moved}, []bool{true, true})
		k.same("as stored", moved.Event, k.stored(first.Event.ID))
		k.same("what stays", []any{moved.Event.OccurrenceKey, moved.Event.IdempotencyKey, moved.Event.Origin}, []any{"x", first.Event.IdempotencyKey, first.Event.Origin})
		k.same("what moves", []any{moved.Event.Wall, moved.Event.Zone, moved.Event.Version}, []any{o.At, "Asia/Tokyo", first.Event.Version + 1})
		again := must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		k.same("again", again, almanac.ScheduleAtResult{Event: moved.Event, Existed: true})

		o.At, o.Timezone = calendar.WallTimeOf(k.now.UTC().Add(-time.Minute)), calendar.StoredTimezone("UTC")
		due := must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		claimed := k.take(request(1, almanac.TypeOneOff)).Events[0]
		k.same("due at once", claimed.ID, first.Event.ID)
		o.At.Date = o.At.Date.AddDays(1)
		late, err := s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)
		matches(k, err, almanac.InvalidStateTransitionError{EventID: claimed.ID, From: almanac.Processing, To: almanac.Pending})
		k.same("what was claimed", late.Event.ID, due.Event.ID)
		k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(k.now)})
		_, err = s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)
		matches(k, err, almanac.InvalidStateTransitionError{EventID: claimed.ID, From: almanac.Completed, To: almanac.Pending})
	},
	"OneOff/an event is scheduled once, moved, delivered and found": func(k *kit) {
		handlers := []almanac.EventHandler{almanac.OneOff{}}
		s := k.scheduler(handlers...)
		u := almanactest.User()
		k.create(u)
		o := almanac.ScheduleAtOptions{At: u.Timezone.WallTime(k.now.Add(48 * time.Hour)), Key: "x", FollowUser: true}
		first := must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		lima := "America/Lima"
		must(s.UpdateUser(k.Context(), u.ID, almanac.ProfileChange{Timezone: &lima}))(k)
		moved := k.stored(first.Event.ID)
		k.same("the zone", moved.Zone, lima)
		k.same("the wall time", moved.Wall, o.At)
		k.same("what is there", must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k).Event, moved)
		must(s.Cancel(k.Context(), moved.ID, almanac.CancelOptions{}))(k)
		again := must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		k.same("what has ended", again.Event, k.stored(moved.ID))
		o.FollowUser = false
		k.is(errorOf(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)), almanac.ErrExists)
	},
}

// named returns a new one-off event with the user and the type of another event.
func (k *kit) named(pending almanac.Event, key string) almanac.Event {
	k.Helper()
	u := k.storedUser(pending.UserID)
	return k.event(u, almanactest.DueIn(time.Hour), almanactest.Of(key), almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginScheduled}))
}
