package conformance

import (
	"strings"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// byDE is what an event has consulted.
var byDE = calendar.Consulted{Calendars: "DE@2026-11-01", From: calendar.Date{Year: 2026, Month: 11, Day: 2}, Until: calendar.Date{Year: 2026, Month: 12, Day: 28}}

// consulting makes an event consult calendars.
func consulting(c calendar.Consulted) almanactest.EventOption {
	return func(e *almanac.Event, _ time.Time) { e.Consulted = c }
}

// calendarCases check the stored releases of calendars, and what events have consulted.
var calendarCases = cases{
	"Calendars/are stored beside the zones": func(k *kit) {
		de := calendar.DayRules{Name: "DE", Release: "2026-11-01", Until: calendar.Date{Year: 2027, Month: 12, Day: 31}, Since: 2025, Hashes: []int64{1, -2, 1 << 62}, Changed: []string{"", "2026-10-01", "2026-11-01"}, Releases: []string{"2026-10-01", "2026-11-01"}}
		at := calendar.DayRules{Name: "AT", Release: "2026-11-01.1", Until: calendar.Date{Year: 9999, Month: 12, Day: 31}, Since: 2025, Hashes: []int64{4}, Changed: []string{"2026-11-01.1"}, Releases: []string{"2026-11-01.1"}}
		utc := almanac.ZoneRecord{ZoneRules: other}
		k.ok(k.r.EditZoneRules(k.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
			return almanac.ZoneBook{Rules: []almanac.ZoneRecord{utc}, Calendars: []calendar.DayRules{de, at}}, nil
		}))
		book := must(k.r.ZoneRules(k.Context()))(k)
		k.same("stored", book.Calendars, []calendar.DayRules{at, de})
		k.same("zones", book.Rules, []almanac.ZoneRecord{utc})
		de.Release, de.Hashes[0], de.Releases = "2026-11-02", 7, append(de.Releases[:1:1], "2026-11-02")
		k.ok(k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
			k.same("seen", len(book.Calendars), 2)
			return almanac.ZoneBook{Calendars: []calendar.DayRules{de}}, nil
		}))
		book = must(k.r.ZoneRules(k.Context()))(k)
		k.same("replaced", book.Calendars, []calendar.DayRules{at, de})
		k.same("zones stay", book.Rules, []almanac.ZoneRecord{utc})
		k.is(k.r.EditZoneRules(k.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
			return almanac.ZoneBook{Calendars: []calendar.DayRules{at}}, errRefused
		}), errRefused)
	},
	"Consulted/has each once, of pending events": func(k *kit) {
		later := byDE
		later.Provisional = true
		var events []almanac.Event
		for _, c := range []calendar.Consulted{later, byDE, {}, byDE} {
			events = append(events, k.newEvent(almanactest.DueIn(time.Hour), consulting(c)))
		}
		u := almanactest.User()
		k.create(u, k.event(u, almanactest.OfType("OTHER"), consulting(byDE)))
		k.consulted(byDE, later)
		find := func(c calendar.Consulted, page almanac.Page) almanac.List[almanac.Event] {
			return must(k.r.FindConsulted(k.Context(), almanac.TypeBirthday, c, page))(k)
		}
		found := find(byDE, almanac.Page{Limit: 1})
		k.same("first", found.Items, events[1:2])
		found = find(byDE, almanac.Page{Limit: 1, After: found.Next})
		k.same("second", found.Items, events[3:])
		k.same("next", found.Next, almanac.Cursor(""))
		k.same("of none", len(find(calendar.Consulted{}, almanac.Page{}).Items), 0)
		k.apply(events[1].UserID, cancelling)
		k.consulted(byDE, later)
		k.apply(events[3].UserID, func(r almanac.Roster) (almanac.Edit, error) { return almanac.Edit{Removed: r.Pending}, nil })
		k.consulted(later)
	},
	"Consulted/has what an earlier release has decided": func(k *kit) {
		in := func(calendars string, day int) calendar.Consulted {
			c := byDE
			c.Calendars, c.Until.Day = calendars, day
			k.newEvent(almanactest.DueIn(time.Hour), consulting(c))
			return c
		}
		first, second := in("DE@2026-11-01", 10), in("DE@2026-11-01", 11)
		both := in("AT@2026-11-02,DE@2026-11-01.1", 10)
		in("AT@2026-11-02", 10)
		last := in("DE@2026-11-01.2", 10)
		in("DE-BY@2026-11-01", 10)
		for _, tt := range []struct {
			releases map[string]string
			want     []calendar.Consulted
		}{
			{nil, nil},
			{map[string]string{"DE": "2026-11-01"}, nil},
			{map[string]string{"DE": "2026-11-01.1"}, []calendar.Consulted{first, second}},
			{map[string]string{"DE": "2026-11-01.2", "AT": "2026-11-02"}, []calendar.Consulted{both, first, second}},
			{map[string]string{"DE": "2026-11-02"}, []calendar.Consulted{both, first, second, last}},
		} {
			got := must(k.r.Consulted(k.Context(), almanac.TypeBirthday, tt.releases))(k)
			k.same("consulted", append([]calendar.Consulted{}, got...), append([]calendar.Consulted{}, tt.want...))
		}
	},
	"Consulted/has room for 400 bytes of calendars": func(k *kit) {
		full, u := byDE, almanactest.User()
		full.Calendars, full.Provisional = full.Calendars+",LAND-"+strings.Repeat("X", 370)+"@2026-11-01", true
		e := k.newEvent(almanactest.DueIn(time.Hour), consulting(full))
		k.consulted(full)
		more := full
		more.Calendars += strings.Repeat("1", 20)
		k.same("refused", k.tryCreate(u, k.event(u, consulting(more))) != nil, true)
		k.same("edit refused", errorOf(k.r.EditUser(k.Context(), e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			next := r.Pending[0]
			next.Consulted = more
			next.Version++
			return almanac.Edit{Changed: []almanac.Event{next}}, nil
		})) != nil, true)
	},
	"Consulted/is replaced with the target": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour), consulting(byDE))
		k.same("moved by zone rules", k.moveEvents(anHourLater(e))[0].Consulted, byDE)
		edit := k.apply(e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			next := r.Pending[0]
			next.Consulted.Calendars = "DE@2026-12-01"
			next.Version++
			return almanac.Edit{Changed: []almanac.Event{next}}, nil
		})
		k.same("edited", edit.Changed[0].Consulted.Calendars, "DE@2026-12-01")
		k.found(edit.Changed[0])
		k.consulted(edit.Changed[0].Consulted)
	},
	"Consulted/ends with the first claim": func(k *kit) {
		e := k.newEvent(consulting(byDE))
		claimed := k.claimed(e)
		k.same("claimed", claimed.Consulted, calendar.Consulted{})
		k.consulted()
		released := k.retry(claimed, "busy", 0).Event
		k.same("released", released.Consulted, calendar.Consulted{})
		k.consulted()
		settled := k.settle(almanac.Settlement{Event: k.claimed(released), Outcome: almanac.Delivered(k.now), Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			next, err := after(e)(u, now)
			next.Consulted = byDE
			return next, err
		}})
		k.same("successor", settled.Successor.Consulted, byDE)
		k.found(*settled.Successor)
		k.consulted(byDE)
	},
}

// consulted checks what pending birthdays have consulted, in any release.
func (k *kit) consulted(want ...calendar.Consulted) {
	k.Helper()
	got := must(k.r.Consulted(k.Context(), almanac.TypeBirthday, map[string]string{"DE": "9", "AT": "9"}))(k)
	k.same("consulted", append([]calendar.Consulted{}, got...), append([]calendar.Consulted{}, want...))
}

// quarantineCases check the releases that wait for an operator.
var quarantineCases = cases{
	"Quarantines/are stored beside the rules": func(k *kit) {
		at := k.now.Add(time.Hour).Truncate(time.Microsecond)
		zone := almanac.Quarantine{
			Name: "Asia/Tokyo", Release: "2026c", Events: 5_000_000_000, Largest: -time.Hour,
			First: calendar.WallTimeOf(at.Truncate(time.Second)), FirstAt: at.Add(time.Hour), Since: at,
		}
		land := almanac.Quarantine{Name: "Asia/Tokyo", Calendar: true, Release: "2026-11-02", Events: 1, Since: at}
		other := almanac.Quarantine{Name: "Africa/Cairo", Release: "2026c", Largest: time.Hour, Since: at}
		put := func(list ...almanac.Quarantine) {
			k.Helper()
			k.ok(k.r.EditZoneRules(almanac.WithPrincipal(k.Context(), "grace"), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
				return almanac.ZoneBook{Quarantines: list}, nil
			}))
		}
		stored := func() []almanac.Quarantine { return must(k.r.ZoneRules(k.Context()))(k).Quarantines }
		put(land, zone, other)
		k.same("stored", stored(), []almanac.Quarantine{other, zone, land})
		zone.AnsweredAt, zone.Accepted, zone.Reason = at.Add(time.Minute), true, "it is law"
		put(zone)
		zone.Author = "grace"
		k.same("answered", stored(), []almanac.Quarantine{other, zone, land})
		again := almanac.Quarantine{Name: zone.Name, Release: "2026d", Events: 2, Largest: time.Minute, Since: at.Add(time.Hour)}
		put(again)
		k.same("asked again", stored(), []almanac.Quarantine{other, again, land})
	},
	"Quarantines/are seen by the edit, and stored all or none": func(k *kit) {
		one := almanac.Quarantine{Name: "LAND", Calendar: true, Release: "2026-11-02", Events: 1, Since: k.now.Truncate(time.Microsecond)}
		utc := almanac.ZoneRecord{ZoneRules: other}
		k.ok(k.r.EditZoneRules(k.Context(), func(almanac.ZoneBook) (almanac.ZoneBook, error) {
			return almanac.ZoneBook{Rules: []almanac.ZoneRecord{utc}, Quarantines: []almanac.Quarantine{one}}, nil
		}))
		k.is(k.r.EditZoneRules(k.Context(), func(book almanac.ZoneBook) (almanac.ZoneBook, error) {
			k.same("seen", book.Quarantines, []almanac.Quarantine{one})
			return almanac.ZoneBook{Quarantines: []almanac.Quarantine{{Name: "UTC", Since: k.now}}}, errRefused
		}), errRefused)
		book := must(k.r.ZoneRules(k.Context()))(k)
		k.same("stay", book.Quarantines, []almanac.Quarantine{one})
		k.same("rules", book.Rules, []almanac.ZoneRecord{utc})
	},
}
