package conformance

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// apply edits a user's roster and expects no error.
func (k *kit) apply(userID uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) almanac.Edit {
	k.Helper()
	stored, err := k.r.EditUser(k.Context(), userID, edit)
	k.ok(err)
	return stored
}

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
	k.newEvent()
	got := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.GaveUp("HTTP 404")})
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

// unplanned cancels an event and leaves its successor to another program.
func (k *kit) unplanned(initial almanac.Event) {
	k.Helper()
	edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
		edit, err := cancelling(r)
		edit.Changed[0].Unplanned = true
		return edit, err
	})
	k.same("as stored", k.stored(initial.ID), edit.Changed[0])
	k.same("unplanned, as stored", edit.Changed[0].Unplanned, false)
}

// succeed adds successors of a type. It expects that AddSuccessors asks about one user,
// whose series waits and has the used keys, or about none when used is nil.
func (k *kit) succeed(eventType string, used map[almanac.Series]string, plan func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) almanac.AddEventsResult {
	k.Helper()
	asked := 0
	added, err := k.r.AddSuccessors(k.Context(), eventType, almanac.Page{}, func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
		if asked++; used == nil || len(users) != 1 {
			k.Fatalf("%d users have series that wait", len(users))
		}
		k.same("used", keysOf(users[0].Used), used)
		return plan(users[0].User, now)
	})
	k.ok(err)
	k.same("asked", asked > 0, used != nil)
	return added
}

var operationCases = map[string]func(*kit){
	"Find/keeps the order of creation after an early end": func(k *kit) {
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		k.ok(err)
		s, err := almanac.NewScheduler(k.r, registry)
		k.ok(err)
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
			edit.New = []almanac.Event{almanactest.Event(k.now, almanactest.For(r.User), almanactest.OfSeries("a", "2027"))}
			return edit, err
		})
		k.same("cancelled", len(edit.Changed), 1)
		done := edit.Changed[0]
		k.same("as stored", k.stored(initial.ID), done)
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
			edit.New = []almanac.Event{almanactest.Event(k.now, almanactest.For(r.User), almanactest.OfSeries("a", "2028"), almanactest.DueIn(2*time.Hour))}
			return edit, err
		})
		k.same("added", len(edit.New), 1)
		k.same("as stored", k.stored(edit.New[0].ID), edit.New[0])
	},
	"EditUser/cancels a delayed event before its next attempt": func(k *kit) {
		initial := k.newEvent()
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour)})
		edit := k.apply(initial.UserID, cancelling)
		k.same("cancelled", ids(edit.Changed), []uuid.UUID{initial.ID})
		k.same("as stored", k.stored(initial.ID), edit.Changed[0])
		k.same("attempts", edit.Changed[0].RetryCount, 1)
		k.same("claims", edit.Changed[0].ClaimCount, 1)
		k.same("last error", edit.Changed[0].LastError, "HTTP 503")
	},
	"EditUser/cancels nothing that has changed": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour))
		stale, err := later(initial).Cancel("")
		k.ok(err)
		_, err = k.r.EditUser(k.Context(), initial.UserID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Changed: []almanac.Event{stale}}, nil
		})
		k.is(err, almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(initial.ID), initial)
	},
	"EditUser/makes a delayed event available at once": func(k *kit) {
		initial := k.newEvent()
		k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour)})
		edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			next, err := r.InFlight[0].RunNow(r.Now)
			return almanac.Edit{Changed: []almanac.Event{next}}, err
		})
		k.same("as stored", k.stored(initial.ID), edit.Changed[0])
		k.same("instant", edit.Changed[0].Due, initial.Due)
		k.same("version", edit.Changed[0].Version, 4)
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{initial.ID})
	},
	"EditUser/makes nothing available that has changed": func(k *kit) {
		initial := k.newEvent()
		rests := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Released(almanac.AfterFailure, "HTTP 503", time.Hour)}).Event
		stale := rests
		stale.AvailableAt, stale.Version = k.now, rests.Version+2
		_, err := k.r.EditUser(k.Context(), initial.UserID, func(almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{Changed: []almanac.Event{stale}}, nil
		})
		k.is(err, almanac.ErrOptimisticLock)
		k.same("as stored", k.stored(initial.ID), rests)
	},
	"EditUser/requeues a failed event": func(k *kit) {
		failed := k.failed()
		edit := k.apply(failed.UserID, requeuing(failed))
		k.same("requeued", len(edit.New), 1)
		again := edit.New[0]
		k.same("as stored", k.stored(again.ID), again)
		k.same("the failed one", k.stored(failed.ID), failed)
		k.same("status", again.Status, almanac.Pending)
		k.same("key", again.IdempotencyKey, failed.IdempotencyKey)
		k.same("occurrence", again.OccurrenceKey, failed.OccurrenceKey)
		k.same("origin", again.Origin, almanac.Origin{Kind: almanac.OriginRequeued, From: failed.ID})
		k.same("series", again.Series, failed.Series)
		k.same("payload", string(again.Payload), string(failed.Payload))
		k.same("instant", again.Due, failed.Due)
		k.same("attempts", again.RetryCount, 0)
		k.apply(failed.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			k.same("pending", len(r.Pending), 0)
			k.same("in flight", ids(r.InFlight), []uuid.UUID{again.ID})
			return almanac.Edit{}, nil
		})
		k.same("while it is open", len(k.apply(failed.UserID, requeuing(failed)).New), 0)
		claimed := k.claim(1)[0]
		k.same("claimed", claimed.ID, again.ID)
		k.same("occurrence as claimed", claimed.OccurrenceKey, failed.OccurrenceKey)
		k.same("origin as claimed", claimed.Origin, again.Origin)
		k.same("series as claimed", claimed.Series, failed.Series)
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.GaveUp("HTTP 410")})
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
	"EditUser/requeues a cancelled event": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour))
		cancelled := k.apply(initial.UserID, cancelling).Changed[0]
		again := k.apply(initial.UserID, requeuing(cancelled)).New[0]
		k.same("as stored", k.stored(again.ID), again)
		k.same("series", again.Series, initial.Series)
		k.same("occurrence", again.OccurrenceKey, initial.OccurrenceKey)
		k.same("last error", again.LastError, "")
		k.same("again", len(k.apply(initial.UserID, requeuing(cancelled)).New), 0)
	},
	"AddSuccessors/plans a missing successor once": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		finished := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.apply(finished.UserID, cancelling)
		k.unplanned(initial)
		k.same("nothing of another type", k.succeed("OTHER", nil, nil), almanac.AddEventsResult{})
		added := k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(u almanac.User, now time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			k.same("user", u.ID, initial.UserID)
			return []almanac.Event{almanactest.Event(now, almanactest.For(u), almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))}, nil, nil
		})
		k.same("users", added.Users, 1)
		k.same("added", len(added.Events), 1)
		k.same("as stored", k.stored(added.Events[0].ID), added.Events[0])
		k.same("again", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
	},
	"AddSuccessors/ends the wait of a series without a next occurrence": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.unplanned(initial)
		k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) { return nil, nil, nil })
		k.same("again", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
	},
	"AddSuccessors/plans again series that could not be planned": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.unplanned(initial)
		for range 2 {
			k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(u almanac.User, _ time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
				return nil, []almanac.StalledSeries{{UserID: u.ID, Series: birthdays("a"), Error: "no plan", Failures: 1}}, nil
			})
		}
		_, err := k.r.AddSuccessors(k.Context(), initial.Type, almanac.Page{}, func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			return nil, nil, errPlan
		})
		k.is(err, errPlan)
		k.succeed(initial.Type, map[almanac.Series]string{birthdays("a"): "2027"}, func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) { return nil, nil, nil })
	},
	"AddSuccessors/skips a series that an edit has continued": func(k *kit) {
		initial := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
		k.unplanned(initial)
		edit := k.apply(initial.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			return almanac.Edit{New: []almanac.Event{almanactest.Event(k.now, almanactest.For(r.User), almanactest.OfSeries("a", "2028"), almanactest.DueIn(time.Hour))}}, nil
		})
		k.same("added", len(edit.New), 1)
		k.same("while it is open", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
		k.apply(initial.UserID, cancelling)
		k.same("finished since", k.succeed(initial.Type, nil, nil), almanac.AddEventsResult{})
	},
	"AddSuccessors/pages through the users and skips deleted ones": func(k *kit) {
		var initial []almanac.Event
		for range 5 {
			e := k.newEvent(almanactest.DueIn(time.Hour), almanactest.OfSeries("a", "2027"))
			k.unplanned(e)
			initial = append(initial, e)
		}
		_, err := k.r.DeleteUser(k.Context(), initial[2].UserID, almanac.DeleteOptions{})
		k.ok(err)
		seen := make(map[uuid.UUID]bool)
		for page := (almanac.Page{Limit: 2}); ; {
			added, err := k.r.AddSuccessors(k.Context(), almanac.TypeBirthday, page, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
				for _, one := range users {
					seen[one.User.ID] = true
				}
				return nil, nil, nil
			})
			k.ok(err)
			if page.After = added.Next; page.After == "" {
				break
			}
		}
		k.same("users", len(seen), 4)
		k.same("the deleted one", seen[initial[2].UserID], false)
	},
	"Settle/stores follow-ups besides the successor": func(k *kit) {
		initial := k.newEvent()
		claimed := k.claim(1)[0]
		follow := func(u almanac.User, now time.Time) ([]almanac.Event, error) {
			return []almanac.Event{
				almanactest.Event(now, almanactest.For(u), almanactest.OfType("QUESTION"), almanactest.Of("gift"), asFollowUp, almanactest.DueIn(time.Hour)),
				almanactest.Event(now, almanactest.For(u), almanactest.OfType("QUESTION"), almanactest.Of("party"), asFollowUp, almanactest.DueIn(time.Hour)),
			}, nil
		}
		s := almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: after(initial), Follow: follow}
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
	"Settle/stores the outcome when planning the follow-ups fails": func(k *kit) {
		initial := k.newEvent()
		claimed := k.claim(1)[0]
		refuse := func(almanac.User, time.Time) ([]almanac.Event, error) { return nil, errPlan }
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Next: after(initial), Follow: refuse})
		k.ok(errors.Join(got.Err, got.PlanErr))
		k.is(got.FollowErr, errPlan)
		k.same("the series has stalled", got.Stalled != nil, false)
		k.same("status", k.stored(initial.ID).Status, almanac.Completed)
		k.same("successor", got.Successor != nil, true)
	},
	"Settle/stores no follow-ups for a deleted user": func(k *kit) {
		initial := k.newEvent()
		claimed := k.claim(1)[0]
		_, err := k.r.DeleteUser(k.Context(), initial.UserID, almanac.DeleteOptions{})
		k.ok(err)
		asked := false
		got := k.settle(almanac.Settlement{Event: claimed, Outcome: almanac.Delivered(claimed.UpdatedAt), Follow: func(almanac.User, time.Time) ([]almanac.Event, error) {
			asked = true
			return nil, nil
		}})
		k.ok(got.Err)
		k.same("asked what follows", asked, false)
	},
	"Pause/stops claims of a type until it is resumed": func(k *kit) {
		initial := k.newEvent()
		err := k.r.Pause(k.Context(), almanac.TypeBirthday)
		if errors.Is(err, errors.ErrUnsupported) {
			paused, err := k.r.Paused(k.Context())
			k.ok(err)
			k.same("paused", len(paused), 0)
			k.is(k.r.Resume(k.Context(), almanac.TypeBirthday), errors.ErrUnsupported)
			k.claim(1)
			return
		}
		k.ok(err)
		k.ok(k.r.Pause(k.Context(), almanac.TypeBirthday))
		k.ok(k.r.Pause(k.Context(), "ANOTHER"))
		paused, err := k.r.Paused(k.Context())
		k.ok(err)
		k.same("paused", len(paused), 2)
		k.same("in order", paused[0].EventType, "ANOTHER")
		k.same("since", paused[0].Since.Before(k.now), false)
		k.claim(0)
		_, known, err := k.r.Until(k.Context(), []string{almanac.TypeBirthday}, time.Time{})
		k.ok(err)
		k.same("something to wait for", known, false)
		k.ok(k.r.Resume(k.Context(), almanac.TypeBirthday))
		k.ok(k.r.Resume(k.Context(), almanac.TypeBirthday))
		k.same("claimed", ids(k.claim(1)), []uuid.UUID{initial.ID})
	},
}
