package conformance

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// cancelling is an edit that cancels every PENDING event.
func cancelling(r almanac.Roster) (edit almanac.Edit, err error) {
	for _, e := range append(r.Pending, r.InFlight...) {
		if e.Status != almanac.Pending {
			continue
		}
		done, refused := e.Cancel("moved house")
		edit.Changed, err = append(edit.Changed, done), errors.Join(err, refused)
	}
	return edit, err
}

// requeuing returns an edit that requeues an event.
func requeuing(failed almanac.Event) func(almanac.Roster) (almanac.Edit, error) {
	return func(r almanac.Roster) (almanac.Edit, error) {
		again, err := failed.Requeue(uuid.Must(uuid.NewV7()), r.Now)
		return almanac.Edit{New: []almanac.Event{again}}, err
	}
}

// failed stores an event and fails it.
func (k *kit) failed() almanac.Event {
	k.Helper()
	got := k.giveUp(k.newClaimed(), "HTTP 404")
	k.ok(got.Err)
	return got.Event
}

// newest returns the events created after an event, as a program finds them that pages on.
func (k *kit) newest(after almanac.Event) []almanac.Event {
	k.Helper()
	return must(k.r.Find(k.Context(), nil, almanac.Page{After: almanac.Cursor(after.ID.String())}))(k).Items
}

// cancelCases end events early, and make events available at once.
var cancelCases = cases{
	"Find/keeps the order of creation after an early end": func(k *kit) {
		s := k.scheduler(almanac.Birthday{})
		// The birthday was yesterday, so the next one is nearly a year away.
		p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: k.now.AddDate(-30, 0, -2).Format(time.DateOnly), Timezone: "UTC"}
		enrolled := must(s.CreateUser(k.Context(), p))(k)
		cancelled := must(s.Cancel(k.Context(), enrolled.Events[0].ID, almanac.CancelOptions{}))(k)
		k.same("after the first", k.newest(enrolled.Events[0]), []almanac.Event{*cancelled.Successor})
		again := must(s.Requeue(k.Context(), enrolled.Events[0].ID, almanac.ForceOptions{}))(k)
		k.same("after the successor", k.newest(*cancelled.Successor), []almanac.Event{again})
		other := must(s.CreateUser(k.Context(), p))(k)
		k.same("after what was requeued", k.newest(again), other.Events)
	},
	"EditUser/cancels a pending event": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			edit, err := cancelling(r)
			edit.New = []almanac.Event{k.event(r.User, almanactest.OfSeries("a", "2027"))}
			return edit, err
		})
		k.same("cancelled", len(edit.Changed), 1)
		k.became(edit.Changed[0])(initial.Cancel("moved house"))
		k.same("the cancelled occurrence comes again", len(edit.New), 0)
	},
	"EditUser/cancels and adds the successor": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			edit, err := cancelling(r)
			edit.New = []almanac.Event{k.event(r.User, almanactest.OfSeries("a", "2028"), almanactest.DueIn(2*time.Hour))}
			return edit, err
		})
		k.same("added", len(edit.New), 1)
	},
	"EditUser/cancels a delayed event before its next attempt": func(k *kit) {
		delayed := k.retry(k.newClaimed(), "HTTP 503", time.Hour).Event
		edit := k.apply(delayed.UserID, cancelling)
		k.same("cancelled", len(edit.Changed), 1)
		k.became(edit.Changed[0])(delayed.Cancel("moved house"))
	},
	"EditUser/cancels nothing that has changed": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour))
		stale := must(later(initial).Cancel(""))(k)
		k.is(errorOf(k.r.EditUser(k.Context(), initial.UserID, changing(stale))), almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(initial.ID), initial)
	},
	"EditUser/makes a delayed event available at once": func(k *kit) {
		delayed := k.retry(k.newClaimed(), "HTTP 503", time.Hour).Event
		edit := k.apply(delayed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			next, err := r.InFlight[0].RunNow(r.Now)
			return almanac.Edit{Changed: []almanac.Event{next}}, err
		})
		k.became(edit.Changed[0])(delayed.RunNow(edit.Changed[0].AvailableAt))
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{delayed.ID})
	},
	"EditUser/makes nothing available that has changed": func(k *kit) {
		initial := k.newEvent()
		delayed := k.retry(k.claim(1)[0], "HTTP 503", time.Hour).Event
		stale := delayed
		stale.AvailableAt, stale.Version = k.now, delayed.Version+2
		k.is(errorOf(k.r.EditUser(k.Context(), initial.UserID, changing(stale))), almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(initial.ID), delayed)
	},
}

var requeueCases = cases{
	"EditUser/requeues a failed event": func(k *kit) {
		failed := k.failed()
		edit := k.apply(failed.UserID, requeuing(failed))
		k.same("requeued", len(edit.New), 1)
		again := edit.New[0]
		k.same("the failed one", k.stored(failed.ID), failed)
		k.became(again)(failed.Requeue(again.ID, again.AvailableAt))
		r := k.roster(failed.UserID)
		k.same("pending", len(r.Pending), 0)
		k.same("in flight", ids(r.InFlight), []uuid.UUID{again.ID})
		k.same("while it is open", len(k.apply(failed.UserID, requeuing(failed)).New), 0)
		claimed := k.claim(1)[0]
		k.became(claimed)(again.Claim(claimed.LeaseToken))
		got := k.giveUp(claimed, "HTTP 410")
		k.became(got.Event)(claimed.Fail("HTTP 410"))
		k.same("when it has ended", len(k.apply(failed.UserID, requeuing(failed)).New), 0)
		twice := k.apply(failed.UserID, requeuing(got.Event))
		k.same("the second time", len(twice.New), 1)
		k.became(twice.New[0])(got.Event.Requeue(twice.New[0].ID, twice.New[0].AvailableAt))
	},
	"EditUser/requeues a cancelled event": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour))
		cancelled := k.apply(initial.UserID, cancelling).Changed[0]
		again := k.apply(initial.UserID, requeuing(cancelled)).New[0]
		k.became(again)(cancelled.Requeue(again.ID, again.AvailableAt))
		k.same("again", len(k.apply(initial.UserID, requeuing(cancelled)).New), 0)
	},
	"EditUser/adds to a series that has a requeued event": func(k *kit) {
		failed := k.failed()
		again := k.apply(failed.UserID, requeuing(failed)).New[0]
		edit := k.apply(failed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			e, err := after(failed)(r.User, r.Now)
			return almanac.Edit{New: []almanac.Event{e}}, err
		})
		k.same("added", len(edit.New), 1)
		k.same("not requeued", edit.New[0].Origin, almanac.Origin{})
		k.same("still open", k.stored(again.ID), again)
	},
}
