package conformance

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// rostersCases check how users are read with their open events of some types.
var rostersCases = cases{
	"Rosters/lists each user once, page by page, in the order of ids": func(k *kit) {
		var want []uuid.UUID
		for range 5 {
			want = append(want, k.newEvent().UserID)
		}
		lonely, _ := k.create(almanactest.User())
		want = append(want, lonely.ID)
		slices.SortFunc(want, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		gone := k.newEvent().UserID
		k.deleteUser(gone)
		var got []uuid.UUID
		for page := (almanac.Page{Limit: 4}); ; {
			found := must(k.r.Rosters(k.Context(), []string{almanac.TypeBirthday}, page))(k)
			for _, one := range found.Items {
				k.same("events", len(one.Pending) == 0, one.User.ID == lonely.ID)
				got = append(got, one.User.ID)
			}
			if page.After = found.Next; page.After == "" {
				break
			}
		}
		k.same("users", got, want)
		_, err := k.r.Rosters(k.Context(), []string{almanac.TypeBirthday}, almanac.Page{Limit: 1001})
		k.same("an invalid page", errors.As(err, new(*almanac.ValidationError)), true)
	},
	"Rosters/has what EditUser shows of the type, and nothing of other types": func(k *kit) {
		u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
		other := k.event(u, almanactest.OfSeries("", "2026"))
		other.Type = almanac.TypeAnniversary
		_, events := k.create(u, k.event(u, almanactest.OfSeries("", "2026"), almanactest.ReadyFor(time.Hour)),
			k.event(u, almanactest.OfSeries("a", "2026"), almanactest.DueIn(time.Hour)), k.event(u, almanactest.OfSeries("b", "2027"), almanactest.DueIn(time.Hour)), other)
		k.retry(k.claim(1)[0], "HTTP 503", time.Hour)
		seen := k.roster(u.ID)
		read := k.oneRoster(u.ID)
		k.same("pending", ids(read.Pending), []uuid.UUID{events[1].ID, events[2].ID})
		k.same("in flight", ids(read.InFlight), []uuid.UUID{events[0].ID})
		k.kept(read.Pending[0], events[1])
		k.same("its status", read.InFlight[0].Status, almanac.Pending)
		k.same("series with used keys", slices.Collect(maps.Keys(read.Used)), slices.Collect(maps.Keys(seen.Used)))
		k.same("used keys", keysOf(read.Used), keysOf(seen.Used))
		k.same("the user", read.User.ID, seen.User.ID)
		k.same("a time", read.Now.IsZero(), false)
	},
	"Rosters/shows an event that is being delivered, and the keys that its series has used": func(k *kit) {
		u := almanactest.User()
		k.create(u, k.event(u, almanactest.OfSeries("", "2026"), almanactest.ReadyFor(time.Hour)))
		e := k.claim(1)[0]
		read := k.oneRoster(u.ID)
		k.same("in flight", ids(read.InFlight), []uuid.UUID{e.ID})
		k.same("its status", read.InFlight[0].Status, almanac.Processing)
		k.same("used in flight", keysOf(read.Used), map[almanac.Series]string{birthdays(""): "2026"})
		k.deliver(e)
		read = k.oneRoster(u.ID)
		k.same("open", len(read.InFlight)+len(read.Pending), 0)
		k.same("used by the single series", keysOf(read.Used), map[almanac.Series]string{birthdays(""): "2026"})
	},
	"Rosters/has the events, the used keys and the stalled series of several types": func(k *kit) {
		u := almanactest.User()
		of := func(eventType string, options ...almanactest.EventOption) almanac.Event {
			e := k.event(u, append(options, almanactest.OfSeries("", "2026"))...)
			e.Type = eventType
			return e
		}
		_, events := k.create(u, of(almanac.TypeBirthday, almanactest.ReadyFor(time.Hour)), of(almanac.TypeAnniversary, almanactest.ReadyFor(time.Hour)),
			of("RENEWAL", almanactest.ReadyFor(time.Hour)), of("DIGEST", almanactest.DueIn(time.Hour)))
		claimed := func(eventType string) almanac.Event {
			return k.take(almanac.ClaimRequest{Token: uuid.New(), Types: []string{eventType}, Limit: 1, Lease: time.Minute}).Events[0]
		}
		k.deliver(claimed(almanac.TypeBirthday))
		k.settle(almanac.Settlement{Event: claimed(almanac.TypeAnniversary), Outcome: almanac.Delivered(k.now), Next: unable})
		claimed("RENEWAL")
		types := []string{almanac.TypeBirthday, almanac.TypeAnniversary, "RENEWAL", "DIGEST"}
		read := must(k.r.Rosters(k.Context(), types, almanac.Page{}))(k).Items[0]
		k.same("pending", ids(read.Pending), []uuid.UUID{events[3].ID})
		k.same("in flight", ids(read.InFlight), []uuid.UUID{events[2].ID})
		k.same("stalled", len(read.Stalled), 1)
		used := map[almanac.Series]string{birthdays(""): "2026", {Type: almanac.TypeAnniversary}: "2026", {Type: "RENEWAL"}: "2026"}
		k.same("used keys", keysOf(read.Used), used)
		read = must(k.r.Rosters(k.Context(), types[1:3], almanac.Page{}))(k).Items[0]
		k.same("events of two types", []int{len(read.Pending), len(read.InFlight), len(read.Stalled)}, []int{0, 1, 1})
		delete(used, birthdays(""))
		k.same("used keys of two types", keysOf(read.Used), used)
		read = must(k.r.Rosters(k.Context(), nil, almanac.Page{}))(k).Items[0]
		k.same("of no type", len(read.Pending)+len(read.InFlight)+len(read.Stalled)+len(read.Used), 0)
	},
	"Rosters/shows the series of the type that have stalled": func(k *kit) {
		u := almanactest.User()
		k.create(u, k.event(u, almanactest.OfSeries("", "2026"), almanactest.ReadyFor(time.Hour)))
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: unable})
		k.same("stalled", len(k.oneRoster(u.ID).Stalled), 1)
		found := must(k.r.Rosters(k.Context(), []string{almanac.TypeAnniversary}, almanac.Page{}))(k)
		k.same("of another type", len(found.Items[0].Stalled)+len(found.Items[0].Used), 0)
	},
}

// oneRoster reads the roster of the only user.
func (k *kit) oneRoster(id uuid.UUID) almanac.Roster {
	k.Helper()
	found := must(k.r.Rosters(k.Context(), []string{almanac.TypeBirthday}, almanac.Page{}))(k)
	k.same("users", len(found.Items), 1)
	k.same("the user", found.Items[0].User.ID, id)
	return found.Items[0]
}
