package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

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
		told := false

		edit := k.apply(pending.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			if told = keysOf(r.Used)[almanac.SeriesOf(event)] == "x"; told {
				return almanac.Edit{New: []almanac.Event{other}}, nil
			}
			return almanac.Edit{New: []almanac.Event{again}}, nil
		})

		k.same("told", told, true)
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
		again := must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		k.same("what is there", again.Event, moved)
		must(s.Cancel(k.Context(), moved.ID, almanac.CancelOptions{}))(k)
		again = must(s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o))(k)
		k.same("what has ended", again.Event, k.stored(moved.ID))
		o.FollowUser = false
		_, err := s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)
		k.is(err, almanac.ErrExists)
	},
}

// named returns a new one-off event with the user and the type of another event.
func (k *kit) named(pending almanac.Event, key string) almanac.Event {
	k.Helper()
	u := k.storedUser(pending.UserID)
	return k.event(u, almanactest.DueIn(time.Hour), almanactest.Of(key), almanactest.WithOrigin(almanac.Origin{Kind: almanac.OriginScheduled}))
}
