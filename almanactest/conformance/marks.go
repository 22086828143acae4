package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// other is the zone rules of a program with other zone data.
var other = calendar.ZoneRules{Zone: "UTC", Fingerprint: 42, Since: 2026, Version: "2026b"}

// byOthers returns an event planned by those rules.
func byOthers(e almanac.Event) almanac.Event {
	e.PlannedBy = &other
	return e
}

// markedCases store an event planned by other rules, each through another operation. They
// return the event as the repository returned it, and the zone must then be marked.
var markedCases = map[string]func(*kit) almanac.Event{
	"CreateUser": func(k *kit) almanac.Event {
		u := almanactest.User()
		_, events := k.create(u, byOthers(k.event(u)))
		return events[0]
	},
	"EditUser that adds": func(k *kit) almanac.Event {
		u := almanactest.User()
		k.create(u)
		return k.add(u.ID, byOthers(k.event(u)))[0]
	},
	"EditUser that moves": func(k *kit) almanac.Event {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		edit := k.apply(e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Changed: []almanac.Event{byOthers(anHourLater(r.Pending[0]))}}, nil
		})
		return edit.Changed[0]
	},
	"Update": func(k *kit) almanac.Event {
		e := k.update(byOthers(anHourLater(k.newEvent(almanactest.DueIn(time.Hour)))), 1)
		return e
	},
	"Settle with a successor": func(k *kit) almanac.Event {
		e := k.newEvent()
		next := func(u almanac.User, now time.Time) (almanac.Event, error) {
			planned, err := after(e)(u, now)
			return byOthers(planned), err
		}
		settled := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: next})
		return *settled.Successor
	},
	"Settle with follow-ups": func(k *kit) almanac.Event {
		k.newEvent()
		follow := func(u almanac.User, now time.Time) ([]almanac.Event, error) {
			return []almanac.Event{byOthers(almanactest.Event(now, almanactest.For(u), almanactest.Of("gift"), asFollowUp))}, nil
		}
		return k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Follow: follow}).Followed[0]
	},
}

// zoneMarkCases returns the marked cases, and the cases about the marks themselves.
func zoneMarkCases() cases {
	all := cases{
		"Marks/are not stored when the event is not": func(k *kit) {
			u := almanactest.User()
			k.is(k.tryCreate(u, byOthers(k.event(u, almanactest.Of("2027"))), byOthers(k.event(u, almanactest.Of("2028")))), almanac.ErrExists)
			e := k.newEvent(almanactest.DueIn(time.Hour))
			_, err := k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) {
				return almanac.Edit{New: []almanac.Event{byOthers(k.event(u))}}, errRefused
			})
			k.is(err, errRefused)
			k.same("marks", len(k.zoneMarks()), 0)
		},
		"Marks/stay until an edit of their zone": func(k *kit) {
			tokyo := calendar.ZoneRules{Zone: "Asia/Tokyo", Fingerprint: -1, Since: 2026}
			utc := calendar.ZoneRules{Zone: "UTC", Fingerprint: 1, Since: 2026, Version: "2026a"}
			late := other
			late.Version = "2026c"
			for _, mark := range []calendar.ZoneRules{other, tokyo, late, other} {
				u := almanactest.User()
				e := k.event(u)
				e.PlannedBy = &mark
				k.create(u, e)
			}
			edit := func(seen []calendar.ZoneRules, changed []almanac.ZoneRecord, result error) {
				k.Helper()
				err := k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) ([]almanac.ZoneRecord, error) {
					k.same("seen", append([]calendar.ZoneRules{}, book.Marks...), seen)
					return changed, result
				})
				if result == nil {
					k.ok(err)
				}
			}
			all := []calendar.ZoneRules{tokyo, other, late} // each once
			edit(all, nil, nil)
			edit(all, []almanac.ZoneRecord{{ZoneRules: utc}}, errRefused)
			edit(all, []almanac.ZoneRecord{{ZoneRules: utc}}, nil)
			edit([]calendar.ZoneRules{tokyo}, []almanac.ZoneRecord{{ZoneRules: tokyo}}, nil)
			edit([]calendar.ZoneRules{}, nil, nil)
			k.same("rules", k.zoneRules(), []almanac.ZoneRecord{{ZoneRules: tokyo}, {ZoneRules: utc}})
		},
	}
	for name, store := range markedCases {
		all["Marks/"+name] = func(k *kit) {
			e := store(k)
			k.same("returned", e.PlannedBy == nil, true)
			k.same("stored", k.stored(e.ID).PlannedBy == nil, true)
			k.same("marks", k.zoneMarks(), []calendar.ZoneRules{other})
		}
	}
	return all
}

// bulkMarkCases are the marked cases for events that are stored for many users at once.
var bulkMarkCases = cases{
	"Marks/CreateUsers": func(k *kit) {
		u := almanactest.User()
		created := must(k.r.CreateUsers(k.Context(), []almanac.UserWithEvents{{User: almanactest.User()}, {User: u, Events: []almanac.Event{byOthers(k.event(u))}}}))(k)
		k.same("returned", created[1].Events[0].PlannedBy == nil, true)
		k.same("marks", k.zoneMarks(), []calendar.ZoneRules{other})
	},
	"Marks/AddEvents": func(k *kit) {
		u := almanactest.User()
		k.create(u)
		added := must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, error) {
			return []almanac.Event{byOthers(k.event(u))}, nil
		}))(k)
		k.same("added", []uuid.UUID{added.Events[0].UserID}, []uuid.UUID{u.ID})
		k.same("marks", k.zoneMarks(), []calendar.ZoneRules{other})
	},
}

// zoneMarks returns the other rules by which pending events were planned.
func (k *kit) zoneMarks() []calendar.ZoneRules {
	k.Helper()
	return must(k.r.ZoneRules(k.Context()))(k).Marks
}
