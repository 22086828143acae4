package conformance

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// usedCases check which occurrences are used.
var usedCases = cases{
	"Used/is kept for each unit, with the wall time of the occurrence and of its end": func(k *kit) {
		u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
		daily := k.event(u, almanactest.OfSeries("", "2026-11-26"), nominally(-time.Hour), almanactest.ReadyFor(time.Hour))
		yearly := k.event(u, almanactest.OfSeries("", "2026"), almanactest.ReadyFor(time.Minute))
		again := k.event(u, almanactest.OfSeries("", "2026-11-27"), almanactest.DueIn(time.Hour))
		k.create(u, daily)
		var want almanac.UsedKeys
		end := func(next func(almanac.User, time.Time) (almanac.Event, error)) {
			e := k.claim(1)[0]
			k.same("used before, in the claim", e.UsedBefore, want)
			done := k.stores(almanac.Settlement{Event: e, Outcome: almanac.Delivered(k.now), Next: next})
			k.same("used before, in the result", done.Event.UsedBefore, almanac.UsedKeys(nil))
			want = want.With(done.Event.Uses(u, done.Event.UpdatedAt))
			k.shown(u, want)
		}
		end(planned(yearly))
		k.same("the nominal wall time", want[0].Nominal, daily.Nominal)
		end(planned(again))
		k.same("units", []calendar.Unit{want[0].Unit, want[1].Unit}, []calendar.Unit{calendar.UnitDay, calendar.UnitYear})
		before := want
		k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) { // perhaps twice
			want = before.With(again.Uses(u, r.Now))
			return cancelling(r)
		})
		k.shown(u, want)
	},
	"Used/an event in flight counts as ended now, and hides no older key": func(k *kit) {
		u := almanactest.User(almanactest.LivingIn("Asia/Tokyo"))
		k.create(u, k.event(u, almanactest.OfSeries("", "2026"), almanactest.ReadyFor(time.Hour)))
		done := k.settle(almanac.Settlement{
			Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now),
			Next: planned(k.event(u, almanactest.OfSeries("", "2026-11-26"), almanactest.ReadyFor(time.Minute))),
		})
		before := almanac.UsedKeys{done.Event.Uses(u, done.Event.UpdatedAt)}
		k.same("while it waits", keysOf(k.used(u)), map[almanac.Series]string{birthdays(""): "2026-11-26,2026"})
		r := k.roster(u.ID)
		k.same("in the roster, while it waits", near(r.Used[birthdays("")], before), before)
		inFlight := k.claim(1)[0]
		r = k.roster(u.ID)
		k.same("in the roster, in flight", r.Used[birthdays("")], before.With(inFlight.Uses(u, r.Now)))
		k.retry(inFlight, "HTTP 503", time.Hour)
		r = k.roster(u.ID)
		k.same("in the roster, before another attempt", r.Used[birthdays("")], before.With(inFlight.Uses(u, r.Now)))
	},
	"Used/an edit may change the roster that it is shown": func(k *kit) {
		e := k.newEvent(almanactest.OfSeries("other", "2026"))
		k.ok(k.deliver(k.claim(1)[0]).Err)
		again := almanactest.Event(k.now, almanactest.OfUser(e.UserID), almanactest.OfSeries("other", "2025"))
		calls := 0
		edit := k.apply(e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			if calls++; calls > 3 {
				return almanac.Edit{}, errors.New("edit is called again and again")
			}
			clear(r.Used)
			return almanac.Edit{New: []almanac.Event{again}}, nil
		})
		k.same("stored", len(edit.New), 0)
		k.same("calls", calls, 2)
	},
	"Used/an edit that moves the user and cancels counts in the new zone": func(k *kit) {
		e := k.newEvent(almanactest.OfSeries("", "2026-11-26"), almanactest.DueIn(time.Hour))
		moved := almanactest.User(almanactest.LivingIn("Pacific/Kiritimati"))
		var want almanac.UsedKeys
		k.apply(e.UserID, func(r almanac.Roster) (almanac.Edit, error) {
			edit, err := cancelling(r)
			moved.ID, moved.Version = r.User.ID, r.User.Version+1
			edit.User, want = &moved, almanac.UsedKeys{e.Uses(moved, r.Now)}
			return edit, err
		})
		k.shown(moved, want)
	},
	"Used/a pending event is used only when it is due": func(k *kit) {
		e := k.newEvent(almanactest.OfSeries("", "2030"), almanactest.DueIn(time.Hour))
		used := must(k.r.UsedKeys(k.Context(), e.UserID, []almanac.Series{birthdays(""), birthdays("other")}))(k)
		k.same("used", len(used), 0)
		used = must(k.r.UsedKeys(k.Context(), uuid.New(), []almanac.Series{birthdays("")}))(k)
		k.same("of a stranger", len(used), 0)
	},
	"Used/a plan is asked again with the keys that it did not know": func(k *kit) {
		u := almanactest.User()
		k.create(u, k.event(u, almanactest.OfSeries("a", "2026-11-26"), almanactest.ReadyFor(time.Hour)))
		done := k.deliver(k.claim(1)[0]).Event
		used := almanac.UsedKeys{done.Uses(u, done.UpdatedAt)}
		// The same day by another unit, and a day that is free.
		taken := k.event(u, almanactest.OfSeries("a", "2026"))
		free := k.event(u, almanactest.OfSeries("a", "2026"), nominally(365*24*time.Hour), almanactest.DueIn(365*24*time.Hour))
		k.same("the same day is used", used.Has(taken.Occurrence().Occurrence), true)
		asked := 0
		must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
			if asked++; len(users[0].Used) == 0 {
				return []almanac.Event{taken}, nil
			}
			k.same("known to the plan", users[0].Used[birthdays("a")], used)
			return nil, nil
		}))(k)
		k.same("plan is asked", asked, 2)
		asked = 0
		edit := k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
			if asked++; len(r.Used) == 0 {
				return almanac.Edit{New: []almanac.Event{taken}}, nil
			}
			k.same("known to the edit", r.Used[birthdays("a")], used)
			return almanac.Edit{New: []almanac.Event{free}}, nil
		})
		k.same("edit is asked", asked, 2)
		k.same("added", ids(edit.New), []uuid.UUID{free.ID})
	},
}

// keyUnitCases change the rule of a series, so that its keys have another unit.
var keyUnitCases = cases{
	"Used/keys are compared within one unit alone": func(k *kit) {
		u, never := usedOf(k, "2026-11-26", "2026")
		add := func(keys ...string) []almanac.Event {
			var stored []almanac.Event
			for _, key := range keys {
				stored = append(stored, k.add(u.ID, k.event(u, almanactest.OfSeries("", key), nominally(never), almanactest.DueIn(never)))...)
			}
			return stored
		}
		k.same("used keys", len(add("2026", "2025", "2026-11-26", "2026-11-25")), 0)
		k.same("another unit", len(add("1999-01")), 1)
		k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) { return almanac.Edit{Removed: r.Pending}, nil })
		k.same("a later key of the unit before", len(add("2026-11-27")), 1)
	},
	"Used/the same text in another unit is another key": func(k *kit) {
		u := almanactest.User()
		text := k.event(u, almanactest.OfSeries("", "2026"), almanactest.ReadyFor(time.Hour))
		text.KeyUnit = calendar.UnitText
		year := k.event(u, almanactest.OfSeries("", "2026"), almanactest.ReadyFor(time.Minute))
		k.create(u, text)
		k.end(k.claim(1)[0], almanac.Delivered(k.now), planned(year))
		k.sameOccurrence(k.stored(year.ID), year)
		k.deliver(k.claim(1)[0])
		k.same("used", keysOf(k.used(u)), map[almanac.Series]string{birthdays(""): "2026,2026"})
	},
	"Used/a series that stalled has stalled no longer when it used a key of another unit": func(k *kit) {
		u := almanactest.User()
		text := k.event(u, almanactest.OfSeries("", "2026"), almanactest.DueIn(time.Hour))
		text.KeyUnit = calendar.UnitText
		k.create(u, text)
		k.unplanned(k.stored(text.ID))
		stalled := must(k.r.Stalled(k.Context(), u.ID, 0))(k)
		k.same("stalled", len(stalled), 1)
		k.same("added", len(k.add(u.ID, k.event(u, almanactest.OfSeries("", "2026"), nominally(365*24*time.Hour), almanactest.ReadyFor(time.Minute)))), 1)
		k.deliver(k.claim(1)[0])
		stalled = must(k.r.Stalled(k.Context(), u.ID, 0))(k)
		k.same("stalled after another event", len(stalled), 0)
	},
	"Used/a successor has a used key of the unit before": func(k *kit) {
		u, never := usedOf(k, "2026-11-26", "2026")
		pending := k.event(u, almanactest.OfSeries("", "2027"), nominally(never), almanactest.ReadyFor(time.Minute))
		k.same("added", len(k.add(u.ID, pending)), 1)
		lower := k.event(u, almanactest.OfSeries("", "2026-11-26"), almanactest.DueIn(time.Hour))
		done := k.settle(almanac.Settlement{Event: k.claim(1)[0], Outcome: almanac.Delivered(k.now), Next: planned(lower)})
		k.ok(done.Err)
		k.same("stored", done.Successor, (*almanac.Event)(nil))
		k.same("status", k.stored(pending.ID).Status, almanac.Completed)
	},
	"Used/AddSuccessors has the keys of all units": func(k *kit) {
		u, never := usedOf(k, "2026-11-26", "2026")
		pending := k.event(u, almanactest.OfSeries("", "2027"), nominally(never), almanactest.DueIn(time.Hour))
		k.same("added", len(k.add(u.ID, pending)), 1)
		k.unplanned(k.stored(pending.ID))
		k.succeed(almanac.TypeBirthday, map[almanac.Series]string{birthdays(""): "2026-11-26,2027"}, func(almanac.User, time.Time) ([]almanac.Event, []almanac.StalledSeries, error) {
			return nil, nil, nil
		})
	},
	"Used/daily, then yearly on a later day of the year": changesRule(func(in func(days, hours int) calendar.WallTime) (calendar.Recurrence, calendar.WallTime) {
		w := in(2, 0)
		return calendar.Yearly{Month: w.Date.Month, Day: w.Date.Day, At: w.Clock}, w
	}),
	"Used/daily, then monthly on a later day of the month": changesRule(func(in func(days, hours int) calendar.WallTime) (calendar.Recurrence, calendar.WallTime) {
		w := in(2, 0)
		return calendar.Monthly{Day: w.Date.Day, At: w.Clock}, w
	}),
	"Used/daily, then at a later time of the same day": changesRule(func(in func(days, hours int) calendar.WallTime) (calendar.Recurrence, calendar.WallTime) {
		return calendar.Once{At: in(0, 1)}, in(0, 1)
	}),
}

// changesRule is the case of a daily rule that has delivered today's event and then becomes
// another one, which has its next occurrence at the given time.
func changesRule(to func(in func(days, hours int) calendar.WallTime) (calendar.Recurrence, calendar.WallTime)) func(*kit) {
	return func(k *kit) {
		u, _ := k.create(almanactest.User(almanactest.LivingIn("UTC")))
		now := k.now.UTC().Truncate(time.Second)
		rule, next := to(func(days, hours int) calendar.WallTime {
			return calendar.WallTimeOf(now.AddDate(0, 0, days).Add(time.Duration(hours) * time.Hour))
		})
		k.same("added", len(k.add(u.ID, k.event(u, almanactest.OfSeries("", calendar.DateOf(now).String()), almanactest.ReadyFor(0)))), 1)
		k.ok(k.deliver(k.claim(1)[0]).Err)

		h := almanac.Recurring{Type: almanac.TypeBirthday, Rule: func(almanac.User) (calendar.Recurrence, error) { return rule, nil }}
		s := k.scheduler(h)
		result := must(s.Reschedule(k.Context(), u.ID))(k)
		k.same("added", len(result.Added), 1)
		k.same("next", result.Added[0].Wall, next)
		k.same("left out", len(result.LeftOut), 0)
	}
}

// nominally sets the nominal wall time of an event to the given time from now.
func nominally(d time.Duration) almanactest.EventOption {
	return func(e *almanac.Event, now time.Time) {
		e.Nominal = calendar.StoredTimezone(e.Zone).WallTime(now.Add(d).Truncate(time.Second))
	}
}

// usedOf returns a user whose series has used keys, one after the other, and a time from
// now that no rule counts as used.
func usedOf(k *kit, keys ...string) (u almanac.User, never time.Duration) {
	k.Helper()
	u, _ = k.create(almanactest.User())
	never = 10 * 365 * 24 * time.Hour
	for i, key := range keys {
		later := time.Duration(i-len(keys)) * 24 * time.Hour
		e := k.event(u, almanactest.OfSeries("", key), nominally(time.Duration(i)*48*time.Hour), almanactest.ReadyFor(-later))
		k.same("added", len(k.add(u.ID, e)), 1)
		k.deliver(k.claim(1)[0])
	}
	return u, never
}

// used returns the used keys of the birthday series of a user.
func (k *kit) used(u almanac.User) map[almanac.Series]almanac.UsedKeys {
	k.Helper()
	return must(k.r.UsedKeys(k.Context(), u.ID, []almanac.Series{birthdays("")}))(k)
}

// near returns used keys with the ends that are expected, where these are at most ten seconds off: on a
// busy machine a test and a repository may see different seconds.
func near(used, want almanac.UsedKeys) almanac.UsedKeys {
	used = slices.Clone(used)
	for i, k := range used {
		if w, ok := want.Of(k.Unit); ok && k.Ended.Labelled().Sub(w.Ended.Labelled()).Abs() <= 10*time.Second {
			used[i].Ended = w.Ended
		}
	}
	return used
}

// shown checks every way of reading the used keys of the birthday series of a user.
func (k *kit) shown(u almanac.User, want almanac.UsedKeys) {
	k.Helper()
	taken, inRoster := k.event(u, almanactest.OfSeries("", want[0].Key)), false
	k.apply(u.ID, func(r almanac.Roster) (almanac.Edit, error) {
		if len(r.Used) == 0 { // no event is open, so only an event that is added shows the keys
			return almanac.Edit{New: []almanac.Event{taken}}, nil
		}
		inRoster = true
		k.same("used, in the roster", near(r.Used[birthdays("")], want), want)
		return almanac.Edit{}, nil
	})
	k.same("in the roster", inRoster, true)
	open := false
	must(k.r.AddEvents(k.Context(), almanac.TypeBirthday, almanac.Page{}, func(users []almanac.UserSeries, _ time.Time) ([]almanac.Event, error) {
		i := slices.IndexFunc(users, func(one almanac.UserSeries) bool { return one.User.ID == u.ID })
		if _, open = users[i].Open[birthdays("")]; !open {
			k.same("used, in a page", near(users[i].Used[birthdays("")], want), want)
		}
		return nil, nil
	}))(k)
	if !open {
		k.same("used", near(k.used(u)[birthdays("")], want), want)
	}
}
