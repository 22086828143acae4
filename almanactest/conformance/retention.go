package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// retentionCases check what pruning deletes, and what it keeps.
var retentionCases = cases{
	"Prune/deletes ended events and keeps used keys": func(k *kit) {
		u := almanactest.User()
		pending := []almanac.Event{
			k.event(u, almanactest.Of("2026"), almanactest.ReadyFor(4*time.Hour)),
			k.event(u, almanactest.OfSeries("a", "2025"), almanactest.OfType("REMINDER"), almanactest.ReadyFor(3*time.Hour)),
			k.event(u, almanactest.OfSeries("b", "2027"), almanactest.OfType("REMINDER"), almanactest.ReadyFor(time.Hour)),
			k.event(u, almanactest.Of("2024"), almanactest.OfType("REMINDER"), almanactest.ReadyFor(time.Hour)),
		}
		next := k.event(u, almanactest.Of("2027"), almanactest.DueIn(time.Hour))
		k.create(u, pending...)
		claim := k.take(request(10, "REMINDER"))
		for i, e := range claim.Events {
			outcome := almanac.Delivered(k.now)
			if i%2 == 1 {
				outcome = almanac.GaveUp("HTTP 404")
			}
			s := almanac.Settlement{Event: e, Outcome: outcome}
			if e.Type == next.Type {
				s.Next = planned(next)
			}
			k.settle(s)
		}
		now := k.later(claim.At)

		k.same("of what ended since", k.prune(k.now.Add(-time.Hour)), 0)
		pruned := k.prune(now)
		k.same("pruned", pruned, 4)
		k.same("kept", ids(k.find(nil)), []uuid.UUID{next.ID})
		var used map[almanac.Series]almanac.UsedKeys
		edit := k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			used = r.Used
			again := []almanac.Event{
				k.event(u, almanactest.OfType("REMINDER"), almanactest.Of("2024")), k.event(u, almanactest.OfType("REMINDER"), almanactest.OfSeries("a", "2025")),
				k.event(u, almanactest.OfType("REMINDER"), almanactest.OfSeries("b", "2026")),
			}
			return almanac.Edit{New: again}, nil
		})
		k.same("used", keysOf(used), map[almanac.Series]string{
			birthdays(""): "2026", {Type: "REMINDER"}: "2024", {Type: "REMINDER", Name: "a"}: "2025", {Type: "REMINDER", Name: "b"}: "2027",
		})
		k.same("come again", len(edit.New), 0)
	},
	"Prune/keeps what ended after the instant": func(k *kit) {
		before := k.later(k.newEvent().CreatedAt) // and it was due before
		ended := k.deliver(k.claim(1)[0]).Event
		pruned := k.prune(before)
		k.same("pruned", pruned, 0)
		k.same("event", k.stored(ended.ID), ended)
		pruned = k.prune(k.later(ended.UpdatedAt))
		k.same("pruned later", pruned, 1)
	},
	"Prune/continues from page to page": func(k *kit) {
		u := almanactest.User()
		for i := range 7 {
			e := k.event(u, almanactest.Of(string(rune('a'+i))), almanactest.ReadyFor(time.Hour))
			if i == 0 {
				k.create(u, e)
			} else {
				k.add(u.ID, e)
			}
			k.deliver(k.claim(1)[0])
		}
		now := k.later(k.now)
		total, pages := 0, 0
		for page := (almanac.Page{Limit: 3}); ; pages++ {
			deleted, next, err := k.r.Prune(k.Context(), now, page)
			k.ok(err)
			total += deleted
			if page.After = next; page.After == "" {
				break
			}
		}
		k.same("pruned", total, 7)
		k.same("pages after the first", pages, 2)
	},
	"Prune/keeps events that ended before a later due instant": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		k.apply(e.UserID, cancelling)
		k.same("pruned", k.prune(k.later(k.now)), 0)
		k.same("kept", k.stored(e.ID).ID, e.ID)
	},
	"Prune/never lets two occurrences have one key": func(k *kit) {
		u := almanactest.User()
		first := k.event(u, almanactest.OfSeries("a", "1"), almanactest.ReadyFor(time.Hour))
		k.create(u, first)
		k.deliver(k.claim(1)[0])
		k.same("pruned", k.prune(k.later(k.now)), 1)

		second := first
		second.ID, second.Series = uuid.Must(uuid.NewV7()), "b"
		k.same("key of another occurrence of that instant", k.add(u.ID, second)[0].IdempotencyKey, second.LongKey())
	},
	"Prune/frees no key of an instant that is still to come": func(k *kit) {
		u := almanactest.User()
		first := k.event(u, almanactest.OfSeries("a", "1"), almanactest.DueIn(time.Hour))
		k.create(u, first)
		k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			ready, err := r.Pending[0].RunNow(r.Now)
			return almanac.Edit{Changed: []almanac.Event{ready}}, err
		})
		k.giveUp(k.claim(1)[0], "refused")
		requeued := k.apply(u.ID, requeuing(k.stored(first.ID))).New[0]
		k.deliver(k.claim(1)[0])
		k.same("pruned", k.prune(k.later(k.now.Add(time.Second))), 0)

		second := first
		second.ID, second.Series = uuid.Must(uuid.NewV7()), "b"
		k.same("key of another occurrence of that instant", k.add(u.ID, second)[0].IdempotencyKey, second.LongKey())
		k.same("key of the first", k.stored(requeued.ID).IdempotencyKey, first.IdempotencyKey)
	},
	"Prune/refuses an invalid page": func(k *kit) {
		_, _, err := k.r.Prune(k.Context(), k.now, almanac.Page{Limit: -1, After: "x"})
		k.is(err, almanac.ErrInvalid)
	},
}

// later waits until the repository's clock is a millisecond past an instant, and returns its time.
func (k *kit) later(than time.Time) time.Time {
	k.Helper()
	for {
		now := k.clock()
		if now.Sub(than) > 2*time.Millisecond {
			return now
		}
	}
}
