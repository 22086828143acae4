package almanactest

import (
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// oneOffCases are what [almanac.OneOffPlanner] needs of a repository.
var oneOffCases = map[string]func(*kit){
	"an edit leaves out a second event of a series": func(k *kit) {
		owed := k.owe()
		first, second := k.named(owed, "~at-x/1"), k.named(owed, "~at-x/")

		edit := k.apply(owed.UserID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Added: []almanac.Event{first, second}}, nil
		})

		if len(edit.Added) != 1 || edit.Added[0].OccurrenceKey != first.OccurrenceKey {
			k.Fatalf("added %+v, want the first alone", edit.Added)
		}
		k.same("the first", k.stored(first.ID), edit.Added[0])
		_, err := k.r.Event(k.Context(), second.ID)
		k.gone(err)
	},
	"an event with the least key of a series meets whatever key is used up": func(k *kit) {
		for _, turn := range []string{"1", "1f", "1fp", "1p"} {
			owed := k.owe()
			event := k.named(owed, "~at-"+turn+"/"+turn)
			k.apply(owed.UserID, func(almanac.Roster) (almanac.Edit, error) {
				return almanac.Edit{Added: []almanac.Event{event}}, nil
			})
			k.apply(owed.UserID, func(r almanac.Roster) (edit almanac.Edit, err error) {
				for _, e := range r.Pending {
					if e.ID == event.ID {
						e, err = e.Cancel("")
						edit.Cancelled = append(edit.Cancelled, e)
					}
				}
				return edit, err
			})
			again := []almanac.Event{k.named(owed, "~at-"+turn+"/1zzz"), k.named(owed, "~at-"+turn+"/")}
			told := false

			edit := k.apply(owed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
				for _, key := range r.Used[event.Type] {
					told = told || strings.HasPrefix(key, "~at-"+turn+"/")
				}
				if told {
					return almanac.Edit{}, nil
				}
				return almanac.Edit{Added: again}, nil
			})

			if !told || len(edit.Added) != 0 {
				k.Errorf("%q is used up: told %v, and added %+v", turn, told, edit.Added)
			}
		}
	},
	"a one-off event is scheduled once, moved, delivered and found": func(k *kit) {
		handlers := []almanac.EventHandler{almanac.OneOff{}}
		registry, err := almanac.NewRegistry(handlers...)
		k.ok(err)
		s, err := almanac.NewScheduler(k.r, registry)
		k.ok(err)
		u := User()
		_, _, err = k.r.CreateUser(k.Context(), u)
		k.ok(err)
		o := almanac.ScheduleAtOptions{At: u.Timezone.WallTime(k.now.Add(48 * time.Hour)), Key: "x", FollowUser: true}
		first, err := s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)
		k.ok(err)
		lima := "America/Lima"
		_, err = s.UpdateUser(k.Context(), u.ID, almanac.ProfileChange{Timezone: &lima})
		k.ok(err)
		moved := k.stored(first.Event.ID)
		k.same("the zone", moved.Zone, lima)
		k.same("the wall time", moved.Wall, o.At)
		again, err := s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)
		k.ok(err)
		k.same("what is there", again.Event, moved)
		_, err = s.Cancel(k.Context(), moved.ID, almanac.Cancel{})
		k.ok(err)
		again, err = s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)
		k.ok(err)
		k.same("what has ended", again.Event, k.stored(moved.ID))
		o.FollowUser = false
		_, err = s.ScheduleAt(k.Context(), u.ID, almanac.TypeOneOff, o)
		k.is(err, almanac.ErrExists)
	},
}

// named returns a new event of the user and the type of another, under a stored key.
func (k *kit) named(owed almanac.Event, key string) almanac.Event {
	k.Helper()
	u, err := k.r.User(k.Context(), owed.UserID)
	k.ok(err)
	return Event(k.now, For(u), DueIn(time.Hour), Of(key))
}
