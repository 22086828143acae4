package almanactest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// CreateUsers stores people with their first events.
func (r *Repository) CreateUsers(ctx context.Context, people []almanac.Enrolment) ([]almanac.Enrolled, error) {
	answers := make([]almanac.Enrolled, len(people))
	for i, p := range people {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		answers[i].User, answers[i].Events, answers[i].Err = r.CreateUser(ctx, p.User, p.Events...)
	}
	return answers, nil
}

// AddEvents stores events for a page of users.
func (r *Repository) AddEvents(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.Standing, time.Time) ([]almanac.Event, error)) (added almanac.Added, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.Added{}, err
	}
	err = r.transact(ctx, func(now time.Time) error {
		ids := slices.DeleteFunc(slices.Collect(maps.Keys(r.users)), func(id uuid.UUID) bool {
			return r.users[id].deleted || bytes.Compare(id[:], after[:]) <= 0
		})
		slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		added = almanac.Added{}
		if len(ids) >= limit {
			ids = ids[:limit]
			added.Next = almanac.Cursor(ids[limit-1].String())
		}
		added.Users = len(ids)
		list := make([]almanac.Standing, len(ids))
		for i, id := range ids {
			list[i] = r.standing(id, eventType)
		}
		wanted, err := r.planAll(list, now, plan)
		if err != nil {
			return err
		}
		for _, e := range wanted {
			e, inserted, err := r.insert(e, now)
			if err != nil {
				return err
			}
			if inserted {
				added.Events = append(added.Events, e)
			}
		}
		return nil
	})
	if err != nil {
		return almanac.Added{}, err
	}
	return added, nil
}

// planAll plans events, and plans again with the used keys that the standings leave out.
func (s *state) planAll(list []almanac.Standing, now time.Time, plan func([]almanac.Standing, time.Time) ([]almanac.Event, error)) ([]almanac.Event, error) {
	for {
		wanted, err := plan(slices.Clone(list), now)
		if err != nil {
			return nil, err
		}
		news := false
		for _, e := range wanted {
			i := slices.IndexFunc(list, func(one almanac.Standing) bool { return one.User.ID == e.UserID })
			key := s.used[seriesOf(e)]
			if i < 0 || e.OccurrenceKey > key || s.hasOpen(seriesOf(e)) || slices.Contains(list[i].Used, key) {
				continue
			}
			list[i].Used, news = use(slices.Clone(list[i].Used), key), true
		}
		if !news {
			return wanted, nil
		}
	}
}

// standing is what a user has of a type of event.
func (s *state) standing(id uuid.UUID, eventType string) almanac.Standing {
	var one almanac.Standing
	one.User, _ = s.visible(id)
	for _, e := range s.matching(func(e almanac.Event) bool {
		return e.UserID == id && e.Type == eventType && !e.Status.Terminal() && e.RequeuedFrom == uuid.Nil
	}) {
		one.Open = append(one.Open, e.OccurrenceKey)
	}
	for of, key := range s.used {
		if of.user == id && of.eventType == eventType && of.name == "" && !s.hasOpen(of) {
			one.Used = append(one.Used, key)
		}
	}
	slices.Sort(one.Open)
	slices.Sort(one.Used)
	return one
}

// AddSuccessors plans the next events of series that wait for a program with their
// handler.
func (r *Repository) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.Standing, time.Time) ([]almanac.Event, []uuid.UUID, error)) (added almanac.Added, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.Added{}, err
	}
	err = r.transact(ctx, func(now time.Time) error {
		added = almanac.Added{}
		maps.DeleteFunc(r.waits, func(one series, key string) bool { return r.hasOpen(one) || r.used[one] != key })
		waiting := make(map[uuid.UUID][]string)
		for one, key := range r.waits {
			if _, err := r.visible(one.user); err == nil && one.eventType == eventType && bytes.Compare(one.user[:], after[:]) > 0 {
				waiting[one.user] = append(waiting[one.user], key)
			}
		}
		ids := slices.SortedFunc(maps.Keys(waiting), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		if len(ids) == 0 {
			return nil
		}
		if len(ids) >= limit {
			ids = ids[:limit]
			added.Next = almanac.Cursor(ids[limit-1].String())
		}
		added.Users = len(ids)
		list := make([]almanac.Standing, len(ids))
		for i, id := range ids {
			list[i].User, _ = r.visible(id)
			list[i].Used = slices.Sorted(slices.Values(waiting[id]))
		}
		events, again, err := plan(list, now)
		if err != nil {
			return err
		}
		maps.DeleteFunc(r.waits, func(one series, _ string) bool {
			return one.eventType == eventType && slices.Contains(ids, one.user) && !slices.Contains(again, one.user)
		})
		for _, e := range events {
			e, inserted, err := r.insert(e, now)
			if err != nil {
				return err
			}
			if inserted {
				added.Events = append(added.Events, e)
			}
		}
		return nil
	})
	if err != nil {
		return almanac.Added{}, err
	}
	return added, nil
}
