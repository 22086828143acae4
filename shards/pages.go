package shards

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/fold"
)

// FindUsers merges the pages of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error) {
	limit, _, err := filter.Bounds(page)
	if err != nil {
		return almanac.List[almanac.User]{}, err
	}
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) (almanac.List[almanac.User], error) {
		return r.FindUsers(ctx, filter, page)
	})
	return filter.PageOf(merged(answers, limit, inOrderOf(filter)), limit), err
}

// inOrderOf returns the order of the users whom a filter selects.
func inOrderOf(f almanac.UserFilter) func(a, b almanac.User) int {
	name := func(u almanac.User) string {
		if f.Name == "" {
			return ""
		}
		if full := fold.Text(u.Name()); strings.HasPrefix(full, fold.Text(f.Name)) {
			return full
		}
		return fold.Text(u.LastName)
	}
	return func(a, b almanac.User) int {
		return cmp.Or(strings.Compare(name(a), name(b)), bytes.Compare(a.ID[:], b.ID[:]))
	}
}

// Rosters merges the pages of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Rosters(ctx context.Context, types []string, page almanac.Page) (almanac.List[almanac.Roster], error) {
	limit, _, err := page.Bounds()
	if err != nil {
		return almanac.List[almanac.Roster]{}, err
	}
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) (almanac.List[almanac.Roster], error) {
		return r.Rosters(ctx, types, page)
	})
	// A page of rosters may have fewer users than its limit although there is a next page, because users were deleted meanwhile.
	// So the merged page ends where the first of these pages ends.
	end, more := uuid.Max, false
	for _, one := range answers {
		if id, err := uuid.Parse(string(one.is.Next)); err == nil {
			more = true
			if bytes.Compare(id[:], end[:]) < 0 {
				end = id
			}
		}
	}
	list := almanac.List[almanac.Roster]{}
	for _, one := range answers {
		for _, r := range one.is.Items {
			if bytes.Compare(r.User.ID[:], end[:]) <= 0 {
				list.Items = append(list.Items, r)
			} else {
				more = true
			}
		}
	}
	slices.SortFunc(list.Items, func(a, b almanac.Roster) int { return bytes.Compare(a.User.ID[:], b.User.ID[:]) })
	if len(list.Items) > limit {
		list.Items, more = list.Items[:limit], true
		end = list.Items[limit-1].User.ID
	}
	if more {
		list.Next = almanac.Cursor(end.String())
	}
	return list, err
}

// FindConsulted merges the pages of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) FindConsulted(ctx context.Context, eventType string, c calendar.Consulted, page almanac.Page) (almanac.List[almanac.Event], error) {
	limit, _, err := page.Bounds()
	if err != nil {
		return almanac.List[almanac.Event]{}, err
	}
	answers, err := all(ctx, s, func(ctx context.Context, r almanac.Repository) (almanac.List[almanac.Event], error) {
		return r.FindConsulted(ctx, eventType, c, page)
	})
	return almanac.PageOf(merged(answers, limit, inOrder(almanac.OldestFirst)), limit, almanac.OldestFirst), err
}

// AddEvents stores events for a page of the users of all schemas. It reads the ids of the page first, and then calls
// AddEvents of each schema with as many of its users. If a schema does not answer, its users are left out, and the error is a
// [*PartialError]; Next continues after the page.
func (s *Store) AddEvents(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, error)) (almanac.AddEventsResult, error) {
	users, err := s.FindUsers(ctx, almanac.UserFilter{}, page)
	failed := s.failures()
	if !failed.takes(err) {
		return almanac.AddEventsResult{}, err
	}
	var added almanac.AddEventsResult
	if len(users.Items) == 0 {
		return added, failed.partial()
	}
	var planErr error
	planned := func(users []almanac.UserSeries, now time.Time) ([]almanac.Event, error) {
		events, err := plan(users, now)
		planErr = err
		return events, err
	}
	last := users.Items[len(users.Items)-1].ID
	if limit, _, _ := page.Bounds(); len(users.Items) == limit {
		added.Next = almanac.Cursor(last.String())
	}
	for schema, group := range bySchema(s, users.Items, func(u almanac.User) uuid.UUID { return u.ID }) {
		part := almanac.Page{After: page.After, Limit: len(group)}
		for part.Limit > 0 {
			one, err := ask(s, schema, func(r almanac.Repository) (almanac.AddEventsResult, error) {
				return r.AddEvents(ctx, eventType, part, planned)
			})
			added.Users += one.Users
			added.Locked, added.Refused, added.Events = append(added.Locked, one.Locked...), append(added.Refused, one.Refused...), append(added.Events, one.Events...)
			if planErr != nil || ctx.Err() != nil {
				added.Next = ""
				return added, err
			}
			failed.add(schema, err)
			// Users who were created meanwhile push others out of the page of this schema.
			next, parseErr := uuid.Parse(string(one.Next))
			if err != nil || parseErr != nil || bytes.Compare(next[:], last[:]) >= 0 {
				break
			}
			last := slices.IndexFunc(group, func(i int) bool { id := users.Items[i].ID; return bytes.Compare(id[:], next[:]) > 0 })
			if last < 0 {
				break
			}
			part = almanac.Page{After: one.Next, Limit: len(group) - last}
		}
	}
	return added, failed.partial()
}

// takes adds the failures of a [*PartialError], and reports whether err is one that leaves schemas, or nil.
func (f *failures) takes(err error) bool {
	partial, is := asPartial(err)
	if !is {
		return err == nil
	}
	for i, name := range f.store.names {
		if slices.Contains(partial.Missing, name) {
			f.errs[i] = partial.Err
		}
	}
	return len(partial.Missing) < len(f.store.names)
}

// AddSuccessors plans the events of a page of each schema. Next continues where the first of these pages ends, so later pages of
// the other schemas are shorter. If a schema does not answer, the result is that of the others, and the error is a
// [*PartialError].
func (s *Store) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) (almanac.AddEventsResult, error) {
	var added almanac.AddEventsResult
	var planErr error
	failed := s.failures()
	for schema := range s.names {
		if err := s.present(ctx, schema); err != nil {
			failed.add(schema, err)
			continue
		}
		one, err := ask(s, schema, func(r almanac.Repository) (almanac.AddEventsResult, error) {
			return r.AddSuccessors(ctx, eventType, page, func(users []almanac.UserSeries, now time.Time) (events []almanac.Event, again []almanac.StalledSeries, err error) {
				events, again, planErr = plan(users, now)
				return events, again, planErr
			})
		})
		added.Users += one.Users
		added.Locked, added.Events, added.Stalled = append(added.Locked, one.Locked...), append(added.Events, one.Events...), append(added.Stalled, one.Stalled...)
		added.Next = firstCursor(added.Next, one.Next, almanac.NextFirst)
		if isRefusal(err) || planErr != nil || ctx.Err() != nil && err != nil {
			return added, err
		}
		failed.add(schema, err)
	}
	return added, failed.partial()
}

// firstCursor returns the earlier of two cursors that are not empty.
func firstCursor(a, b almanac.Cursor, o almanac.Order) almanac.Cursor {
	if a == "" || b == "" {
		return a + b
	}
	position := func(c almanac.Cursor) almanac.Event {
		_, at, id, _ := almanac.Page{After: c, Order: o}.EventBounds()
		return almanac.Event{AvailableAt: at, ID: id}
	}
	if inOrder(o)(position(b), position(a)) < 0 {
		return b
	}
	return a
}

// Prune prunes a page of each schema. The next page begins where the first of these pages ends, so later pages of the other
// schemas are shorter. If a schema does not answer, the others are pruned, and the error is a [*PartialError].
func (s *Store) Prune(ctx context.Context, before time.Time, page almanac.Page) (deleted int, next almanac.Cursor, err error) {
	failed := s.failures()
	for schema := range s.names {
		r, err := s.at(schema)
		if err = cmp.Or(err, s.present(ctx, schema)); err != nil {
			failed.add(schema, err)
			continue
		}
		n, after, err := r.Prune(ctx, before, page)
		deleted += n
		next = firstCursor(next, after, almanac.OldestFirst)
		if isRefusal(err) || ctx.Err() != nil && err != nil {
			return deleted, "", err
		}
		failed.add(schema, err)
	}
	return deleted, next, failed.partial()
}
