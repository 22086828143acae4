package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

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
			delete(r.waits, series{s.UserID, s.Series})
			if err := refused[s.UserID]; err != nil {
				again = append(again, s.Again(err, now))
			}
		}
		for _, s := range again {
			r.waits[series{s.UserID, s.Series}] = s
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
