package almanactest

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// apply edits a user's roster and expects no error.
func (k *kit) apply(userID uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) almanac.Edit {
	k.Helper()
	stored, err := k.r.EditUser(k.Context(), userID, edit)
	k.ok(err)
	return stored
}

// cancelling is an edit that cancels everything that is PENDING.
func cancelling(r almanac.Roster) (edit almanac.Edit, err error) {
	for _, e := range append(r.Pending, r.InFlight...) {
		if e.Status != almanac.Pending {
			continue
		}
		done, refused := e.Cancel(uuid.New(), "moved house")
		edit.Cancelled, err = append(edit.Cancelled, done), errors.Join(err, refused)
	}
	return edit, err
}

// requeuing is an edit that lets an event begin again.
func requeuing(failed almanac.Event) func(almanac.Roster) (almanac.Edit, error) {
	return func(r almanac.Roster) (almanac.Edit, error) {
		again, err := failed.Requeue(uuid.Must(uuid.NewV7()), r.Now)
		return almanac.Edit{Requeued: []almanac.Event{again}}, err
	}
}

// failed owes an event and gives it up.
func (k *kit) failed() almanac.Event {
	k.Helper()
	k.owe()
	got := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.GaveUp("HTTP 404")})
	k.ok(got.Err)
	return got.Event
}

// newest returns what was created after an event, as somebody finds it who reads on.
func (k *kit) newest(after almanac.Event) []almanac.Event {
	k.Helper()
	found, err := k.r.Find(k.Context(), nil, almanac.Page{After: almanac.Cursor(after.ID.String())})
	k.ok(err)
	return found.Events
}

var operationCases = map[string]func(*kit){
	"Find/in order of creation after an early end": func(k *kit) {
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		k.ok(err)
		s, err := almanac.NewScheduler(k.r, registry)
		k.ok(err)
		// The birthday was yesterday, so the next one is nearly a year ahead.
		p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: k.now.AddDate(-30, 0, -2).Format(time.DateOnly), Timezone: "UTC"}
		enrolled, err := s.CreateUser(k.Context(), p)
		k.ok(err)
		cancelled, err := s.Cancel(k.Context(), enrolled.Events[0].ID, almanac.Cancel{})
		k.ok(err)
		k.same("after the first", k.newest(enrolled.Events[0]), []almanac.Event{*cancelled.Successor})
		again, err := s.Requeue(k.Context(), enrolled.Events[0].ID)
		k.ok(err)
		k.same("after the successor", k.newest(*cancelled.Successor), []almanac.Event{again})
		other, err := s.CreateUser(k.Context(), p)
		k.ok(err)
		k.same("after what was requeued", k.newest(again), other.Events)
	},
	"EditUser/cancels": func(k *kit) {
		owed := k.owe(DueIn(time.Hour), Of("a/2027"))
		edit := k.apply(owed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			edit, err := cancelling(r)
			edit.Added = []almanac.Event{Event(k.now, For(r.User), Of("a/2027"))}
			return edit, err
		})
		k.same("cancelled", len(edit.Cancelled), 1)
		done := edit.Cancelled[0]
		k.same("as stored", k.stored(owed.ID), done)
		k.same("status", done.Status, almanac.Failed)
		k.same("reason", done.FailureReason, almanac.ReasonCancelled+": moved house")
		k.same("version", done.Version, owed.Version+2)
		k.same("attempts", done.RetryCount, 0)
		k.same("key", done.IdempotencyKey, owed.IdempotencyKey)
		k.same("the cancelled occurrence comes again", len(edit.Added), 0)
	},
	"EditUser/cancels and adds the successor": func(k *kit) {
		owed := k.owe(DueIn(time.Hour), Of("a/2027"))
		edit := k.apply(owed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			edit, err := cancelling(r)
			edit.Added = []almanac.Event{Event(k.now, For(r.User), Of("a/2028"), DueIn(2*time.Hour))}
			return edit, err
		})
		k.same("added", len(edit.Added), 1)
		k.same("as stored", k.stored(edit.Added[0].ID), edit.Added[0])
	},
	"EditUser/cancels what rests before another attempt": func(k *kit) {
		owed := k.owe()
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.GaveBack(almanac.AfterFailure, "HTTP 503", time.Hour)})
		edit := k.apply(owed.UserID, cancelling)
		k.same("cancelled", ids(edit.Cancelled), []uuid.UUID{owed.ID})
		k.same("as stored", k.stored(owed.ID), edit.Cancelled[0])
		k.same("attempts", edit.Cancelled[0].RetryCount, 1)
		k.same("claims", edit.Cancelled[0].ClaimCount, 2)
		k.same("last error", edit.Cancelled[0].LastError, "HTTP 503")
	},
	"EditUser/cancels nothing that has moved on": func(k *kit) {
		owed := k.owe(DueIn(time.Hour))
		stale, err := later(owed).Cancel(uuid.New(), "")
		k.ok(err)
		_, err = k.r.EditUser(k.Context(), owed.UserID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Cancelled: []almanac.Event{stale}}, nil
		})
		k.is(err, almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(owed.ID), owed)
	},
	"EditUser/lets what rests be claimed at once": func(k *kit) {
		owed := k.owe()
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.GaveBack(almanac.AfterFailure, "HTTP 503", time.Hour)})
		edit := k.apply(owed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			next, err := r.InFlight[0].RunNow(r.Now)
			return almanac.Edit{Hurried: []almanac.Event{next}}, err
		})
		k.same("as stored", k.stored(owed.ID), edit.Hurried[0])
		k.same("target", edit.Hurried[0].Due, owed.Due)
		k.same("version", edit.Hurried[0].Version, 4)
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{owed.ID})
	},
	"EditUser/hurries nothing that has moved on": func(k *kit) {
		owed := k.owe()
		rests := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.GaveBack(almanac.AfterFailure, "HTTP 503", time.Hour)}).Event
		stale := rests
		stale.AvailableAt, stale.Version = k.now, rests.Version+2
		_, err := k.r.EditUser(k.Context(), owed.UserID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Hurried: []almanac.Event{stale}}, nil
		})
		k.is(err, almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(owed.ID), rests)
	},
	"EditUser/lets what failed begin again": func(k *kit) {
		failed := k.failed()
		edit := k.apply(failed.UserID, requeuing(failed))
		k.same("requeued", len(edit.Requeued), 1)
		again := edit.Requeued[0]
		k.same("as stored", k.stored(again.ID), again)
		k.same("the failed one", k.stored(failed.ID), failed)
		k.same("status", again.Status, almanac.Pending)
		k.same("key", again.IdempotencyKey, failed.IdempotencyKey)
		k.same("payload", string(again.Payload), string(failed.Payload))
		k.same("target", again.Due, failed.Due)
		k.same("attempts", again.RetryCount, 0)
		k.apply(failed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			k.same("pending", len(r.Pending), 0)
			k.same("in flight", ids(r.InFlight), []uuid.UUID{again.ID})
			return almanac.Edit{}, nil
		})
		k.same("while it is open", len(k.apply(failed.UserID, requeuing(failed)).Requeued), 0)
		claimed := k.claim(1)[0]
		k.same("claimed", claimed.ID, again.ID)
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.GaveUp("HTTP 410")})
		k.ok(got.Err)
		k.same("when it has ended", len(k.apply(failed.UserID, requeuing(failed)).Requeued), 0)
		twice := k.apply(failed.UserID, requeuing(got.Event))
		k.same("the second time", len(twice.Requeued), 1)
		k.same("key of the second time", twice.Requeued[0].IdempotencyKey, failed.IdempotencyKey)
	},
	"Settle/stores what follows besides the successor": func(k *kit) {
		owed := k.owe()
		claimed := k.claim(1)[0]
		follow := func(u almanac.User, now time.Time) ([]almanac.Event, error) {
			return []almanac.Event{
				Event(now, For(u), OfType("QUESTION"), Of("~after-gift/1"), DueIn(time.Hour)),
				Event(now, For(u), OfType("QUESTION"), Of("~after-party/1"), DueIn(time.Hour)),
			}, nil
		}
		s := almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: after(owed), Follow: follow}
		got := k.settle(s)
		k.ok(errors.Join(got.Err, got.PlanErr))
		k.same("successor", got.Successor != nil, true)
		k.same("followed", len(got.Followed), 2)
		for _, e := range got.Followed {
			k.same("as stored", k.stored(e.ID), e)
			k.same("status", e.Status, almanac.Pending)
		}
		k.settle(s)
		n, err := k.r.Count(k.Context(), nil)
		k.ok(err)
		k.same("events after the settlement was repeated", n, 4)
	},
	"Settle/stores the outcome when nothing can be planned to follow": func(k *kit) {
		owed := k.owe()
		claimed := k.claim(1)[0]
		refuse := func(almanac.User, time.Time) ([]almanac.Event, error) { return nil, errPlan }
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: after(owed), Follow: refuse})
		k.ok(got.Err)
		k.is(got.PlanErr, errPlan)
		k.same("status", k.stored(owed.ID).Status, almanac.Completed)
		k.same("successor", got.Successor != nil, true)
	},
	"Settle/follows nothing when a user was deleted": func(k *kit) {
		owed := k.owe()
		claimed := k.claim(1)[0]
		_, err := k.r.DeleteUser(k.Context(), owed.UserID, almanac.Delete{})
		k.ok(err)
		asked := false
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Follow: func(almanac.User, time.Time) ([]almanac.Event, error) {
			asked = true
			return nil, nil
		}})
		k.ok(got.Err)
		k.same("asked what follows", asked, false)
	},
	"Pause/leaves out a type until it is resumed": func(k *kit) {
		p, able := k.r.(almanac.PauseRepository)
		if !able {
			return // an ability, which not every repository has
		}
		owed := k.owe()
		k.ok(p.Pause(k.Context(), almanac.TypeBirthday))
		k.ok(p.Pause(k.Context(), almanac.TypeBirthday))
		k.ok(p.Pause(k.Context(), "ANOTHER"))
		paused, err := p.Paused(k.Context())
		k.ok(err)
		k.same("paused", len(paused), 2)
		k.same("in order", paused[0].EventType, "ANOTHER")
		k.same("since", paused[0].Since.Before(k.now), false)
		k.claim(0)
		_, known, err := k.r.Until(k.Context(), []string{almanac.TypeBirthday}, time.Time{})
		k.ok(err)
		k.same("something to wait for", known, false)
		k.ok(p.Resume(k.Context(), almanac.TypeBirthday))
		k.ok(p.Resume(k.Context(), almanac.TypeBirthday))
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{owed.ID})
	},
}
