package conformance

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// zoneCases check the stored zone rules, and how events follow them.
var zoneCases = cases{
	"EditZoneRules/stores what the edit returns": func(k *kit) {
		doubt := k.now.Add(time.Hour).Truncate(time.Microsecond)
		tokyo := almanac.ZoneRecord{ZoneRules: calendar.ZoneRules{Zone: "Asia/Tokyo", Fingerprint: -42, Since: 2026, Version: "2026b"}, Recheck: doubt}
		berlin := almanac.ZoneRecord{ZoneRules: calendar.ZoneRules{Zone: "Europe/Berlin", Fingerprint: 1 << 62, Since: 2026}}
		k.ok(k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
			k.same("stored at first", len(book.Rules)+len(book.Marks), 0)
			k.same("time", book.Now.Before(k.now), false)
			return zones(berlin, tokyo), nil
		}))
		k.same("stored", k.zoneRules(), []almanac.ZoneRecord{tokyo, berlin})
		tokyo.Recheck, tokyo.Version = time.Time{}, ""
		k.ok(k.r.EditZoneRules(k.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
			return zones(tokyo), nil
		}))
		k.same("replaced", k.zoneRules(), []almanac.ZoneRecord{tokyo, berlin})
	},
	"EditZoneRules/returns the error of the edit and stores nothing": func(k *kit) {
		err := k.r.EditZoneRules(k.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
			return zones(almanac.ZoneRecord{ZoneRules: calendar.ZoneRules{Zone: "UTC"}}), errRefused
		})
		k.same("error", err == errRefused, true)
		k.same("stored", len(k.zoneRules()), 0)
	},
	"EditZoneRules/runs one edit at a time": func(k *kit) {
		const callers = 8
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if err := k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
					stored := book.Rules
					next := almanac.ZoneRecord{ZoneRules: calendar.ZoneRules{Zone: "UTC", Since: 1}}
					if len(stored) > 0 {
						next.Since = stored[0].Since + 1
					}
					return zones(next), nil
				}); err != nil {
					k.Errorf("EditZoneRules: %v", err)
				}
			})
		}
		wg.Wait()
		k.same("counted", k.zoneRules()[0].Since, callers)
	},
	"MoveEvents/changes the instant and nothing else": func(k *kit) {
		created := []almanac.Event{k.newEvent(almanactest.DueIn(time.Hour)), k.newEvent(almanactest.DueIn(2 * time.Hour))}
		moved := k.moveEvents(anHourLater(created[1]), anHourLater(created[0]))
		k.same("in the order given", ids(moved), []uuid.UUID{created[1].ID, created[0].ID})
		for i, e := range []almanac.Event{moved[1], moved[0]} {
			want := anHourLater(created[i])
			want.UpdatedAt = e.UpdatedAt
			k.same("moved", e, want)
			k.same("stored", k.stored(e.ID), e)
		}
	},
	"MoveEvents/skips events that have changed": func(k *kit) {
		u := almanactest.User()
		claimed, released := k.event(u, almanactest.ReadyFor(2*time.Minute)), k.event(u, almanactest.ReadyFor(time.Minute))
		edited, pending := k.event(u, almanactest.DueIn(time.Hour)), k.event(u, almanactest.DueIn(time.Hour))
		_, created := k.create(u, claimed, released, edited, pending)
		k.retry(k.claim(2)[1], "busy", 0)
		k.update(later(created[2]), 1)
		wanted := []almanac.Event{anHourLater(almanactest.Event(k.now))} // an event that was never stored
		for _, e := range created {
			wanted = append(wanted, anHourLater(e))
		}
		stale := anHourLater(k.stored(released.ID))
		moved := k.moveEvents(append(wanted, stale)...)
		k.same("moved", ids(moved), []uuid.UUID{pending.ID})
		k.same("edited", k.stored(edited.ID).Version, 2)
		moved = k.moveEvents()
		k.same("moved of none", len(moved), 0)
	},
	"MoveEvents/makes events with a past instant due": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(30 * time.Minute))
		passed := anHourLater(e)
		passed.Due = e.Due.Add(-time.Hour)
		passed.AvailableAt = passed.Due
		before := k.clock()
		moved := k.moveEvents(passed)
		k.same("its instant", moved[0].Due, passed.Due)
		k.same("ready before the move", moved[0].ReadyAt.Before(before), false)
		k.same("available", moved[0].AvailableAt, moved[0].ReadyAt)
		k.found(moved[0])
		k.same("claimed", k.claim(1)[0].ID, e.ID)
	},
}

// zones returns a book of the rules of zones.
func zones(rules ...almanac.ZoneRecord) almanac.ZoneBook { return almanac.ZoneBook{Rules: rules} }

// anHourLater returns an event an hour later at the same wall time, as under other zone rules.
func anHourLater(e almanac.Event) almanac.Event {
	e.Due = e.Due.Add(time.Hour)
	e.AvailableAt = e.Due
	e.Version++
	return e
}

// zoneRules returns the stored zone rules.
func (k *kit) zoneRules() []almanac.ZoneRecord {
	k.Helper()
	return must(k.r.ZoneRules(k.Context()))(k).Rules
}

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
		return k.update(byOthers(anHourLater(k.newEvent(almanactest.DueIn(time.Hour)))), 1)
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
			k.is(errorOf(k.r.EditUser(k.Context(), e.UserID, func(almanac.Roster) (almanac.Edit, error) {
				return almanac.Edit{New: []almanac.Event{byOthers(k.event(u))}}, errRefused
			})), errRefused)
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
				err := k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
					k.same("seen", append([]calendar.ZoneRules{}, book.Marks...), seen)
					return zones(changed...), result
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
