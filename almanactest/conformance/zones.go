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
		k.ok(k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) ([]almanac.ZoneRecord, error) {
			k.same("stored at first", len(book.Rules)+len(book.Marks), 0)
			k.same("time", book.Now.Before(k.now), false)
			return []almanac.ZoneRecord{berlin, tokyo}, nil
		}))
		k.same("stored", k.zoneRules(), []almanac.ZoneRecord{tokyo, berlin})
		tokyo.Recheck, tokyo.Version = time.Time{}, ""
		k.ok(k.r.EditZoneRules(k.Context(), func(almanac.ZoneBook) ([]almanac.ZoneRecord, error) {
			return []almanac.ZoneRecord{tokyo}, nil
		}))
		k.same("replaced", k.zoneRules(), []almanac.ZoneRecord{tokyo, berlin})
	},
	"EditZoneRules/returns the error of the edit and stores nothing": func(k *kit) {
		err := k.r.EditZoneRules(k.Context(), func(almanac.ZoneBook) ([]almanac.ZoneRecord, error) {
			return []almanac.ZoneRecord{{ZoneRules: calendar.ZoneRules{Zone: "UTC"}}}, errRefused
		})
		k.same("error", err == errRefused, true)
		k.same("stored", len(k.zoneRules()), 0)
	},
	"EditZoneRules/runs one edit at a time": func(k *kit) {
		const callers = 8
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				if err := k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) ([]almanac.ZoneRecord, error) {
					stored := book.Rules
					next := almanac.ZoneRecord{ZoneRules: calendar.ZoneRules{Zone: "UTC", Since: 1}}
					if len(stored) > 0 {
						next.Since = stored[0].Since + 1
					}
					return []almanac.ZoneRecord{next}, nil
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

// anHourLater returns an event an hour later at the same wall time, as under other zone
// rules.
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
