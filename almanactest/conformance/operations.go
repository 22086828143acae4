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
	found, err := k.r.Find(k.Context(), nil, almanac.Page{After: almanac.Cursor(after.ID.String())})
	k.ok(err)
	return found.Events
}

// cancelCases end events early, and make events available at once.
var cancelCases = cases{
	"Find/keeps the order of creation after an early end": func(k *kit) {
		s := k.scheduler(almanac.Birthday{})
		// The birthday was yesterday, so the next one is nearly a year away.
		p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: k.now.AddDate(-30, 0, -2).Format(time.DateOnly), Timezone: "UTC"}
		enrolled, err := s.CreateUser(k.Context(), p)
		k.ok(err)
		cancelled, err := s.Cancel(k.Context(), enrolled.Events[0].ID, almanac.CancelOptions{})
		k.ok(err)
		k.same("after the first", k.newest(enrolled.Events[0]), []almanac.Event{*cancelled.Successor})
		again, err := s.Requeue(k.Context(), enrolled.Events[0].ID, almanac.RequeueOptions{})
		k.ok(err)
		k.same("after the successor", k.newest(*cancelled.Successor), []almanac.Event{again})
		other, err := s.CreateUser(k.Context(), p)
		k.ok(err)
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
		done := edit.Changed[0]
		k.same("status", done.Status, almanac.Cancelled)
		k.same("reason", done.FailureReason, "moved house")
		k.same("token", done.LeaseToken, uuid.Nil)
		k.same("version", done.Version, initial.Version+1)
		k.same("attempts", done.RetryCount, 0)
		k.same("key", done.IdempotencyKey, initial.IdempotencyKey)
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
		initial := k.newEvent()
		k.retry(k.claim(1)[0], "HTTP 503", time.Hour)
		edit := k.apply(initial.UserID, cancelling)
		k.same("cancelled", ids(edit.Changed), []uuid.UUID{initial.ID})
		k.same("attempts", edit.Changed[0].RetryCount, 1)
		k.same("claims", edit.Changed[0].ClaimCount, 1)
		k.same("last error", edit.Changed[0].LastError, "HTTP 503")
	},
	"EditUser/cancels nothing that has changed": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour))
		stale, err := later(initial).Cancel("")
		k.ok(err)
		_, err = k.r.EditUser(k.Context(), initial.UserID, changing(stale))
		k.is(err, almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(initial.ID), initial)
	},
	"EditUser/makes a delayed event available at once": func(k *kit) {
		initial := k.newEvent()
		k.retry(k.claim(1)[0], "HTTP 503", time.Hour)
		edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			next, err := r.InFlight[0].RunNow(r.Now)
			return almanac.Edit{Changed: []almanac.Event{next}}, err
		})
		k.same("instant", edit.Changed[0].Due, initial.Due)
		k.same("version", edit.Changed[0].Version, 4)
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{initial.ID})
	},
	"EditUser/makes nothing available that has changed": func(k *kit) {
		initial := k.newEvent()
		rests := k.retry(k.claim(1)[0], "HTTP 503", time.Hour).Event
		stale := rests
		stale.AvailableAt, stale.Version = k.now, rests.Version+2
		_, err := k.r.EditUser(k.Context(), initial.UserID, changing(stale))
		k.is(err, almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(initial.ID), rests)
	},
}

var requeueCases = cases{
	"EditUser/requeues a failed event": func(k *kit) {
		failed := k.failed()
		edit := k.apply(failed.UserID, requeuing(failed))
		k.same("requeued", len(edit.New), 1)
		again := edit.New[0]
		k.same("the failed one", k.stored(failed.ID), failed)
		k.same("status", again.Status, almanac.Pending)
		k.same("key", again.IdempotencyKey, failed.IdempotencyKey)
		k.same("occurrence", again.OccurrenceKey, failed.OccurrenceKey)
		k.same("origin", again.Origin, almanac.Origin{Kind: almanac.OriginRequeued, From: failed.ID})
		k.same("series", again.Series, failed.Series)
		k.same("payload", string(again.Payload), string(failed.Payload))
		k.same("instant", again.Due, failed.Due)
		k.same("attempts", again.RetryCount, 0)
		r := k.roster(failed.UserID)
		k.same("pending", len(r.Pending), 0)
		k.same("in flight", ids(r.InFlight), []uuid.UUID{again.ID})
		k.same("while it is open", len(k.apply(failed.UserID, requeuing(failed)).New), 0)
		claimed := k.claim(1)[0]
		k.same("claimed", claimed.ID, again.ID)
		k.same("occurrence as claimed", claimed.OccurrenceKey, failed.OccurrenceKey)
		k.same("origin as claimed", claimed.Origin, again.Origin)
		k.same("series as claimed", claimed.Series, failed.Series)
		got := k.giveUp(claimed, "HTTP 410")
		k.ok(got.Err)
		k.same("as it ended", k.stored(again.ID), got.Event)
		k.same("occurrence as it ended", got.Event.OccurrenceKey, failed.OccurrenceKey)
		k.same("when it has ended", len(k.apply(failed.UserID, requeuing(failed)).New), 0)
		twice := k.apply(failed.UserID, requeuing(got.Event))
		k.same("the second time", len(twice.New), 1)
		k.same("key of the second time", twice.New[0].IdempotencyKey, failed.IdempotencyKey)
		k.same("occurrence of the second time", twice.New[0].OccurrenceKey, failed.OccurrenceKey)
		k.same("origin the second time", twice.New[0].Origin.From, got.Event.ID)
	},
	"EditUser/requeues a cancelled event": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour))
		cancelled := k.apply(initial.UserID, cancelling).Changed[0]
		again := k.apply(initial.UserID, requeuing(cancelled)).New[0]
		k.same("series", again.Series, initial.Series)
		k.same("occurrence", again.OccurrenceKey, initial.OccurrenceKey)
		k.same("last error", again.LastError, "")
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
