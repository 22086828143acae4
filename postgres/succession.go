package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// AddSuccessors plans the next events of a page of users whose series wait for a program with
// their handler. Users and series that another transaction has locked are skipped.
func (s *Store) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []uuid.UUID, error)) (almanac.AddEventsResult, error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	var waiting []uuid.UUID
	err = s.do(ctx, "find waiting series", func(ctx context.Context, db DB) (err error) {
		waiting, err = all(ctx, db, s.statements.WaitingUsers, pgx.StrictNamedArgs{"type": eventType, "after": after, "limit": limit}, scanID)
		return err
	})
	if err != nil || len(waiting) == 0 {
		return almanac.AddEventsResult{}, err
	}
	var added almanac.AddEventsResult
	err = s.transactKeys(ctx, "add successors", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		added = almanac.AddEventsResult{}
		if len(waiting) == limit {
			added.Next = almanac.Cursor(waiting[limit-1].String())
		}
		w, err := s.lockWaiting(ctx, tx, eventType, waiting)
		if err != nil {
			return err
		}
		standings := w.userSeries()
		added.Users = len(standings)
		var events []almanac.Event
		var again []uuid.UUID
		if len(standings) > 0 {
			if events, again, err = plan(standings, w.now); err != nil {
				return asIs(err)
			}
		}
		if added.Events, err = s.insert(ctx, tx, keys, events); err != nil {
			return err
		}
		over := slices.DeleteFunc(w.series, func(one waitingSeries) bool { return one.waits && slices.Contains(again, one.user) })
		if len(over) > 0 {
			ids := column(over, func(one waitingSeries) int64 { return one.id })
			if _, err := tx.Exec(ctx, s.statements.EndWaiting, pgx.StrictNamedArgs{"series": ids}); err != nil {
				return err
			}
		}
		return s.hint(ctx, tx, added.Events)
	})
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	return added, nil
}

// waitingUsers has locked users, and their locked series that wait for a program with the handler.
type waitingUsers struct {
	users  []almanac.User
	series []waitingSeries
	now    time.Time
}

type waitingSeries struct {
	id     int64
	user   uuid.UUID
	series almanac.Series
	key    string // the last occurrence key that the series used
	waits  bool   // false when an event was stored in the series since
}

func (s *Store) lockWaiting(ctx context.Context, tx pgx.Tx, eventType string, ids []uuid.UUID) (w waitingUsers, err error) {
	w.users, err = all(ctx, tx, s.statements.LockUsers, pgx.StrictNamedArgs{"ids": uuids(ids)}, scanUsers())
	if err != nil || len(w.users) == 0 {
		return w, err
	}
	locked := uuids(column(w.users, func(u almanac.User) uuid.UUID { return u.ID }))
	w.series, err = all(ctx, tx, s.statements.WaitingSeries, pgx.StrictNamedArgs{"type": eventType, "users": locked},
		func(row pgx.CollectableRow) (one waitingSeries, err error) {
			one.series.Type = eventType
			return one, row.Scan(&one.id, &one.user, &one.series.Name, &one.series.Detached, &one.key, &one.waits)
		})
	if err != nil {
		return w, err
	}
	w.now, err = one(ctx, tx, s.statements.Now, nil, scanTime)
	return w, err
}

// userSeries returns the users who have a waiting series, with the used keys of these series.
func (w waitingUsers) userSeries() []almanac.UserSeries {
	used := make(map[uuid.UUID]map[almanac.Series]string)
	for _, one := range w.series {
		if !one.waits {
			continue
		}
		if used[one.user] == nil {
			used[one.user] = make(map[almanac.Series]string)
		}
		used[one.user][one.series] = one.key
	}
	var list []almanac.UserSeries
	for _, u := range w.users {
		if keys := used[u.ID]; len(keys) > 0 {
			list = append(list, almanac.UserSeries{User: u, Used: keys})
		}
	}
	return list
}
