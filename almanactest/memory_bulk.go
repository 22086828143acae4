package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// CreateUsers stores users with their first events.
func (r *Repository) CreateUsers(ctx context.Context, users []almanac.UserWithEvents) ([]almanac.CreateUserResult, error) {
	answers := make([]almanac.CreateUserResult, len(users))
	for i, p := range users {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		answers[i].User, answers[i].Events, answers[i].Err = r.createUser(ctx, p.User, p.Events)
	}
	return answers, nil
}

// AddEvents stores events for a page of users.
func (r *Repository) AddEvents(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (added almanac.AddEventsResult, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	err = r.transact(ctx, func(now time.Time) error {
		ids := slices.DeleteFunc(slices.Collect(maps.Keys(r.users)), func(id uuid.UUID) bool {
			return r.users[id].deleted || bytes.Compare(id[:], after[:]) <= 0
		})
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		added = almanac.AddEventsResult{}
		if len(ids) >= limit {
			ids = ids[:limit]
			added.Next = almanac.Cursor(ids[limit-1].String())
		}
		added.Users = len(ids)
		list := make([]almanac.UserSeries, len(ids))
		for i, id := range ids {
			list[i] = r.userSeries(id, eventType)
		}
		wanted, err := r.planAll(list, now, plan)
		if err != nil {
			return err
		}
		stored, refused := r.insertPlanned(wanted, now)
		added.Events = stored
		for _, id := range ids {
			if err := refused[id]; err != nil {
				added.Refused = append(added.Refused, almanac.Refusal{UserID: id, Err: err})
			}
		}
		return nil
	})
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	return added, nil
}

// insertPlanned stores the events that were planned for many users. It stores no event of a user who
// has one that cannot be stored, and returns why.
func (r *Repository) insertPlanned(events []almanac.Event, now time.Time) (stored []almanac.Event, refused map[uuid.UUID]error) {
	before := r.state
	refused = make(map[uuid.UUID]error)
	for i := 0; i < len(events); i++ {
		if refused[events[i].UserID] != nil {
			continue
		}
		e, inserted, err := r.insert(events[i], now)
		switch {
		case err != nil:
			refused[events[i].UserID] = err
			r.rollBack(before)
			stored, i = nil, -1 // again, without the user
		case inserted:
			stored = append(stored, e)
		}
	}
	return stored, refused
}

// planAll plans events. It plans again when the plan meets used keys that list did not contain.
func (s *state) planAll(list []almanac.UserSeries, now time.Time, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) ([]almanac.Event, error) {
	for {
		wanted, err := plan(slices.Clone(list), now)
		if err != nil {
			return nil, err
		}
		news := false
		for _, e := range wanted {
			i := slices.IndexFunc(list, func(one almanac.UserSeries) bool { return one.User.ID == e.UserID })
			if i < 0 {
				continue
			}
			if keys, unshown := s.unshown(e, list[i].Used); unshown {
				list[i].Used, news = maps.Clone(list[i].Used), true
				list[i].Used[almanac.SeriesOf(e)] = keys
			}
		}
		if !news {
			return wanted, nil
		}
	}
}

// userSeries returns a user's open occurrences and used keys of a type of event.
func (s *state) userSeries(id uuid.UUID, eventType string) almanac.UserSeries {
	one := almanac.UserSeries{Open: make(map[almanac.Series]string), Used: make(map[almanac.Series]almanac.UsedKeys)}
	one.User, _ = s.visible(id)
	one.Stalled = s.stalled(func(is almanac.StalledSeries) bool { return is.UserID == id && is.Series.Type == eventType })
	for _, e := range s.matching(func(e almanac.Event) bool {
		return e.UserID == id && e.Type == eventType && !e.Status.Terminal() && e.Origin.Kind != almanac.OriginRequeued
	}) {
		one.Open[almanac.SeriesOf(e)] = e.OccurrenceKey
	}
	for of, keys := range s.used {
		if of.user == id && of.Series == (almanac.Series{Type: eventType}) && !s.hasOpen(of) {
			one.Used[of.Series] = keys
		}
	}
	return one
}

// stalled returns the series that still stall, in the order of Stalled.
func (s *state) stalled(match func(almanac.StalledSeries) bool) []almanac.StalledSeries {
	var list []almanac.StalledSeries
	for one, is := range s.waits {
		if !s.hasOpen(one) && match(is) {
			list = append(list, is)
		}
	}
	slices.SortFunc(list, func(a, b almanac.StalledSeries) int {
		return cmp.Or(cmp.Compare(a.Series.Type, b.Series.Type), a.RetryAt.Compare(b.RetryAt), bytes.Compare(a.UserID[:], b.UserID[:]),
			cmp.Compare(a.Series.Name, b.Series.Name))
	})
	return list
}

// Stalled returns up to limit stalled series.
func (r *Repository) Stalled(ctx context.Context, userID uuid.UUID, limit int) (list []almanac.StalledSeries, err error) {
	if limit, err = almanac.MissedLimit(limit); err != nil {
		return nil, err
	}
	err = r.read(ctx, func(time.Time) error {
		list = r.stalled(func(s almanac.StalledSeries) bool { return userID == uuid.Nil || s.UserID == userID })
		list = list[:min(limit, len(list))]
		return nil
	})
	return list, err
}

// AddSuccessors plans the next events of stalled series.
func (r *Repository) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) (added almanac.AddEventsResult, err error) {
	page.Order = almanac.NextFirst
	limit, at, after, err := page.EventBounds()
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	err = r.transact(ctx, func(now time.Time) error {
		added = almanac.AddEventsResult{}
		due := r.stalled(func(s almanac.StalledSeries) bool {
			_, err := r.visible(s.UserID)
			return err == nil && s.Series.Type == eventType && !s.RetryAt.After(now) &&
				cmp.Or(s.RetryAt.Compare(at), bytes.Compare(s.UserID[:], after[:])) > 0
		})
		if len(due) > limit {
			due = due[:limit]
			last := due[limit-1]
			added.Next = almanac.Cursor(last.RetryAt.UTC().Format(time.RFC3339Nano) + "/" + last.UserID.String())
		}
		list := r.byUser(due)
		if added.Users = len(list); added.Users == 0 {
			return nil
		}
		events, again, err := plan(list, now)
		if err != nil {
			return err
		}
		stored, refused := r.insertPlanned(events, now)
		again = slices.DeleteFunc(again, func(s almanac.StalledSeries) bool { return refused[s.UserID] != nil })
		for _, s := range due {
			remove(&r.undo, r.waits, series{s.UserID, s.Series})
			if err := refused[s.UserID]; err != nil {
				again = append(again, s.Again(err, now))
			}
		}
		for _, s := range again {
			set(&r.undo, r.waits, series{s.UserID, s.Series}, s)
		}
		added.Events, added.Stalled = stored, again
		return nil
	})
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	return added, nil
}

// byUser returns the users of stalled series, with these series and their used keys.
func (s *state) byUser(stalled []almanac.StalledSeries) []almanac.UserSeries {
	var list []almanac.UserSeries
	for _, one := range stalled {
		i := slices.IndexFunc(list, func(of almanac.UserSeries) bool { return of.User.ID == one.UserID })
		if i < 0 {
			i = len(list)
			u, _ := s.visible(one.UserID)
			list = append(list, almanac.UserSeries{User: u, Used: make(map[almanac.Series]almanac.UsedKeys)})
		}
		list[i].Used[one.Series] = s.used[series{one.UserID, one.Series}]
		list[i].Stalled = append(list[i].Stalled, one)
	}
	return list
}

// EditUsers edits users one by one.
func (r *Repository) EditUsers(ctx context.Context, ids []uuid.UUID, edit func(int, almanac.Roster) (almanac.Edit, error)) ([]almanac.Edit, []error) {
	edits, errs := make([]almanac.Edit, len(ids)), make([]error, len(ids))
	for i, id := range ids {
		edits[i], errs[i] = r.EditUser(ctx, id, func(is almanac.Roster) (almanac.Edit, error) { return edit(i, is) })
	}
	return edits, errs
}

// Users returns the users with the given ids and external ids.
func (r *Repository) Users(ctx context.Context, ids []uuid.UUID, externalIDs []string) (users []almanac.User, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, externalID := range externalIDs {
			if id, is := r.holder(externalID); is {
				ids = append(slices.Clip(ids), id)
			}
		}
		for _, id := range ids {
			if u, err := r.visible(id); err == nil {
				users = append(users, u)
			}
		}
		return nil
	})
	return users, err
}
