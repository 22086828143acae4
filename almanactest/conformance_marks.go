package almanactest

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// other are the rules of a program with other zone data.
var other = almanac.ZoneRules{Zone: "UTC", Fingerprint: 42, Since: 2026, Version: "2026b"}

// byOthers is an event that was planned by them.
func byOthers(e almanac.Event) almanac.Event {
	e.PlannedBy = &other
	return e
}

// markedCases say how a zone is marked of which events were planned by other rules:
// each stores such an event and answers with it, as the repository returned it.
var markedCases = map[string]func(*kit) almanac.Event{
	"CreateUser": func(k *kit) almanac.Event {
		u := User()
		_, events, err := k.r.CreateUser(k.Context(), u, byOthers(Event(k.now, For(u))))
		k.ok(err)
		return events[0]
	},
	"EditUser that adds": func(k *kit) almanac.Event {
		u := User()
		_, _, err := k.r.CreateUser(k.Context(), u)
		k.ok(err)
		edit, err := k.r.EditUser(k.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Added: []almanac.Event{byOthers(Event(k.now, For(u)))}}, nil
		})
		k.ok(err)
		return edit.Added[0]
	},
	"EditUser that moves": func(k *kit) almanac.Event {
		e := k.owe(DueIn(time.Hour))
		edit, err := k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Moved: []almanac.Event{byOthers(anHourOn(r.Pending[0]))}}, nil
		})
		k.ok(err)
		return edit.Moved[0]
	},
	"Update": func(k *kit) almanac.Event {
		e, err := k.r.Update(k.Context(), byOthers(anHourOn(k.owe(DueIn(time.Hour)))), 1)
		k.ok(err)
		return e
	},
	"Settle with a successor": func(k *kit) almanac.Event {
		e := k.owe()
		next := func(u almanac.User, now time.Time) (almanac.Event, error) {
			planned, err := after(e)(u, now)
			return byOthers(planned), err
		}
		settled := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: next})
		return *settled.Successor
	},
	"Settle with what follows": func(k *kit) almanac.Event {
		k.owe()
		follow := func(u almanac.User, now time.Time) ([]almanac.Event, error) {
			return []almanac.Event{byOthers(Event(now, For(u), Of("~after-gift/1")))}, nil
		}
		return k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Follow: follow}).Followed[0]
	},
}

// zoneMarkCases are the marked cases, with those about the marks themselves.
func zoneMarkCases() map[string]func(*kit) {
	cases := map[string]func(*kit){
		"Marks/are not there if what was planned is not": func(k *kit) {
			u := User()
			_, _, err := k.r.CreateUser(k.Context(), u, byOthers(Event(k.now, For(u), Of("2027"))), byOthers(Event(k.now, For(u), Of("2028"))))
			k.is(err, almanac.ErrExists)
			e := k.owe(DueIn(time.Hour))
			_, err = k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) {
				return almanac.Edit{Added: []almanac.Event{byOthers(Event(k.now, For(u)))}}, errRefused
			})
			k.is(err, errRefused)
			k.same("marks", len(k.zoneMarks()), 0)
		},
		"Marks/stay until an edit of their zone": func(k *kit) {
			tokyo := almanac.ZoneRules{Zone: "Asia/Tokyo", Fingerprint: -1, Since: 2026}
			utc := almanac.ZoneRules{Zone: "UTC", Fingerprint: 1, Since: 2026, Version: "2026a"}
			late := other
			late.Version = "2026c"
			for _, mark := range []almanac.ZoneRules{other, tokyo, late, other} {
				u := User()
				e := Event(k.now, For(u))
				e.PlannedBy = &mark
				_, _, err := k.r.CreateUser(k.Context(), u, e)
				k.ok(err)
			}
			edit := func(seen []almanac.ZoneRules, changed []almanac.ZoneRules, result error) {
				k.Helper()
				err := k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) ([]almanac.ZoneRules, error) {
					k.same("seen", append([]almanac.ZoneRules{}, book.Marks...), seen)
					return changed, result
				})
				if result == nil {
					k.ok(err)
				}
			}
			all := []almanac.ZoneRules{tokyo, other, late} // each once
			edit(all, nil, nil)
			edit(all, []almanac.ZoneRules{utc}, errRefused)
			edit(all, []almanac.ZoneRules{utc}, nil)
			edit([]almanac.ZoneRules{tokyo}, []almanac.ZoneRules{tokyo}, nil)
			edit([]almanac.ZoneRules{}, nil, nil)
			k.same("rules", k.zoneRules(), []almanac.ZoneRules{tokyo, utc})
		},
	}
	for name, store := range markedCases {
		cases["Marks/"+name] = func(k *kit) {
			e := store(k)
			k.same("returned", e.PlannedBy == nil, true)
			k.same("stored", k.stored(e.ID).PlannedBy == nil, true)
			k.same("marks", k.zoneMarks(), []almanac.ZoneRules{other})
		}
	}
	return cases
}

// bulkMarkCases are those of a [almanac.BulkRepository].
var bulkMarkCases = map[string]func(*kit){
	"Marks/CreateUsers": func(k *kit) {
		bulk, ok := k.r.(almanac.BulkRepository)
		if !ok {
			return
		}
		u := User()
		created, err := bulk.CreateUsers(k.Context(), []almanac.Enrolment{{User: u, Events: []almanac.Event{byOthers(Event(k.now, For(u)))}}})
		k.ok(err)
		k.same("returned", created[0].Events[0].PlannedBy == nil, true)
		k.same("marks", k.zoneMarks(), []almanac.ZoneRules{other})
	},
	"Marks/AddEvents": func(k *kit) {
		bulk, ok := k.r.(almanac.BulkRepository)
		if !ok {
			return
		}
		u := User()
		_, _, err := k.r.CreateUser(k.Context(), u)
		k.ok(err)
		added, err := bulk.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func([]almanac.Standing, time.Time) ([]almanac.Event, error) {
			return []almanac.Event{byOthers(Event(k.now, For(u)))}, nil
		})
		k.ok(err)
		k.same("added", []uuid.UUID{added.Events[0].UserID}, []uuid.UUID{u.ID})
		k.same("marks", k.zoneMarks(), []almanac.ZoneRules{other})
	},
}

// zoneMarks returns by which other rules pending events were planned.
func (k *kit) zoneMarks() []almanac.ZoneRules {
	k.Helper()
	book, err := k.r.ZoneRules(k.Context())
	k.ok(err)
	return book.Marks
}
