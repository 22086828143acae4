package conformance

import (
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// retentionCases check what pruning deletes, and what it keeps.
var retentionCases = map[string]func(*kit){
	"Prune/deletes ended events and keeps used keys": func(k *kit) {
		u := almanactest.User()
		pending := []almanac.Event{
			almanactest.Event(k.now, almanactest.For(u), almanactest.Of("2026"), almanactest.ReadyFor(4*time.Hour)),
			almanactest.Event(k.now, almanactest.For(u), almanactest.OfSeries("a", "2025"), almanactest.OfType("REMINDER"), almanactest.ReadyFor(3*time.Hour)),
			almanactest.Event(k.now, almanactest.For(u), almanactest.OfSeries("b", "2027"), almanactest.OfType("REMINDER"), almanactest.ReadyFor(time.Hour)),
			almanactest.Event(k.now, almanactest.For(u), almanactest.Of("2024"), almanactest.OfType("REMINDER"), almanactest.ReadyFor(time.Hour)),
		}
		next := almanactest.Event(k.now, almanactest.For(u), almanactest.Of("2027"), almanactest.DueIn(time.Hour))
		_, _, err := k.create(u, pending...)
		k.ok(err)
		r := request(10)
		r.Types = append(r.Types, "REMINDER")
		claim, err := k.r.Claim(k.Context(), r)
		k.ok(err)
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

		pruned, err := k.r.Prune(k.Context(), k.now.Add(-time.Hour), almanac.Page{})
		k.ok(err)
		k.same("of what ended since", pruned, almanac.PruneResult{})
		pruned, err = k.r.Prune(k.Context(), now, almanac.Page{})
		k.ok(err)
		k.same("pruned", pruned, almanac.PruneResult{Count: 4})
		kept, err := k.r.Find(k.Context(), nil, almanac.Page{})
		k.ok(err)
		k.same("kept", ids(kept.Events), []uuid.UUID{next.ID})
		var used map[almanac.Series]almanac.UsedKeys
		edit, err := k.r.EditUser(k.Context(), u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			used = r.Used
			again := []almanac.Event{
				almanactest.Event(k.now, almanactest.For(u), almanactest.OfType("REMINDER"), almanactest.Of("2024")), almanactest.Event(k.now, almanactest.For(u), almanactest.OfType("REMINDER"), almanactest.OfSeries("a", "2025")),
				almanactest.Event(k.now, almanactest.For(u), almanactest.OfType("REMINDER"), almanactest.OfSeries("b", "2026")),
			}
			return almanac.Edit{New: again}, nil
		})
		k.ok(err)
		k.same("used", keysOf(used), map[almanac.Series]string{
			birthdays(""): "2026", {Type: "REMINDER"}: "2024", {Type: "REMINDER", Name: "a"}: "2025", {Type: "REMINDER", Name: "b"}: "2027",
		})
		k.same("come again", len(edit.New), 0)
	},
	"Prune/keeps what ended after the instant": func(k *kit) {
		before := k.later(k.newEvent().CreatedAt) // and it was due before
		ended := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now)}).Event
		pruned, err := k.r.Prune(k.Context(), before, almanac.Page{})
		k.ok(err)
		k.same("pruned", pruned, almanac.PruneResult{})
		k.same("event", k.stored(ended.ID), ended)
		pruned, err = k.r.Prune(k.Context(), k.later(ended.UpdatedAt), almanac.Page{})
		k.ok(err)
		k.same("pruned later", pruned, almanac.PruneResult{Count: 1})
	},
	"Prune/continues from page to page": func(k *kit) {
		u := almanactest.User()
		for i := range 7 {
			e := almanactest.Event(k.now, almanactest.For(u), almanactest.Of(string(rune('a'+i))), almanactest.ReadyFor(time.Hour))
			if i == 0 {
				_, _, err := k.create(u, e)
				k.ok(err)
			} else {
				_, err := k.r.EditUser(k.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
					return almanac.Edit{New: []almanac.Event{e}}, nil
				})
				k.ok(err)
			}
			k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now)})
		}
		now := k.later(k.now)
		total, pages := 0, 0
		for page := (almanac.Page{Limit: 3}); ; pages++ {
			pruned, err := k.r.Prune(k.Context(), now, page)
			k.ok(err)
			total += pruned.Count
			if page.After = pruned.Next; page.After == "" {
				break
			}
		}
		k.same("pruned", total, 7)
		k.same("pages after the first", pages, 2)
	},
	"Prune/keeps events that ended before a later due instant": func(k *kit) {
		e := k.newEvent(almanactest.DueIn(time.Hour))
		k.apply(e.UserID, cancelling)
		now := k.later(k.now)
		pruned, err := k.r.Prune(k.Context(), now, almanac.Page{})
		k.ok(err)
		k.same("pruned", pruned.Count, 0)
		k.same("kept", k.stored(e.ID).ID, e.ID)
	},
	"Prune/never lets two occurrences have one key": func(k *kit) {
		u := almanactest.User()
		first := almanactest.Event(k.now, almanactest.For(u), almanactest.OfSeries("a", "1"), almanactest.ReadyFor(time.Hour))
		_, _, err := k.create(u, first)
		k.ok(err)
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now)})
		pruned, err := k.r.Prune(k.Context(), k.later(k.now), almanac.Page{})
		k.ok(err)
		k.same("pruned", pruned.Count, 1)

		second := first
		second.ID, second.Series = uuid.Must(uuid.NewV7()), "b"
		edit, err := k.r.EditUser(k.Context(), u.ID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{New: []almanac.Event{second}}, nil
		})
		k.ok(err)
		k.same("key of another occurrence of that instant", edit.New[0].IdempotencyKey, second.LongKey())
	},
	"Prune/frees no key of an instant that is still to come": func(k *kit) {
		u := almanactest.User()
		first := almanactest.Event(k.now, almanactest.For(u), almanactest.OfSeries("a", "1"), almanactest.DueIn(time.Hour))
		_, _, err := k.create(u, first)
		k.ok(err)
		k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			ready, err := r.Pending[0].RunNow(r.Now)
			return almanac.Edit{Changed: []almanac.Event{ready}}, err
		})
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.GaveUp("refused")})
		requeued := k.apply(u.ID, requeuing(k.stored(first.ID))).New[0]
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now)})
		pruned, err := k.r.Prune(k.Context(), k.later(k.now.Add(time.Second)), almanac.Page{})
		k.ok(err)
		k.same("pruned", pruned.Count, 0)

		second := first
		second.ID, second.Series = uuid.Must(uuid.NewV7()), "b"
		edit := k.apply(u.ID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{New: []almanac.Event{second}}, nil
		})
		k.same("key of another occurrence of that instant", edit.New[0].IdempotencyKey, second.LongKey())
		k.same("key of the first", k.stored(requeued.ID).IdempotencyKey, first.IdempotencyKey)
	},
	"Prune/refuses an invalid page": func(k *kit) {
		_, err := k.r.Prune(k.Context(), k.now, almanac.Page{Limit: -1, After: "x"})
		k.is(err, almanac.ErrInvalid)
	},
}

// later waits until the repository's clock is a millisecond past an instant, and returns
// its time.
func (k *kit) later(than time.Time) time.Time {
	k.Helper()
	for {
		now, err := k.r.Now(k.Context())
		k.ok(err)
		if now.Sub(than) > 2*time.Millisecond {
			return now
		}
	}
}
