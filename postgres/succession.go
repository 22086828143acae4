package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// AddSuccessors plans the next events of series that wait for a program with their
// handler.
func (s *Store) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.Standing, time.Time) ([]almanac.Event, []uuid.UUID, error)) (almanac.Added, error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.Added{}, err
	}
	var waiting []uuid.UUID
	err = s.do(ctx, "find series that wait", func(ctx context.Context, db DB) (err error) {
		waiting, err = all(ctx, db, s.statements["waiting_users"], pgx.StrictNamedArgs{"type": eventType, "after": after, "limit": limit}, scanID)
		return err
	})
	if err != nil || len(waiting) == 0 {
		return almanac.Added{}, err
	}
	var added almanac.Added
	err = s.transactKeys(ctx, "add successors", func(ctx context.Context, tx pgx.Tx, keys keys) error {
		added = almanac.Added{}
		if len(waiting) == limit {
			added.Next = almanac.Cursor(waiting[limit-1].String())
		}
		w, err := s.lockWaiting(ctx, tx, eventType, waiting)
		if err != nil {
			return err
		}
		standings := w.standings()
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
			if _, err := tx.Exec(ctx, s.statements["end_waiting"], pgx.StrictNamedArgs{"series": ids}); err != nil {
				return err
			}
		}
		return s.hint(ctx, tx, added.Events)
	})
	if err != nil {
		return almanac.Added{}, err
	}
	return added, nil
}

// waitingUsers are locked users with their locked series that wait.
type waitingUsers struct {
	users  []almanac.User
	series []waitingSeries
	now    time.Time
}

type waitingSeries struct {
	id    int64
	user  uuid.UUID
	key   string // that it used last
	waits bool   // false when something was stored in it since
}

func (s *Store) lockWaiting(ctx context.Context, tx pgx.Tx, eventType string, ids []uuid.UUID) (w waitingUsers, err error) {
	w.users, err = all(ctx, tx, s.statements["lock_users"], pgx.StrictNamedArgs{"ids": uuids(ids)}, scanUser)
	if err != nil || len(w.users) == 0 {
		return w, err
	}
	locked := uuids(column(w.users, func(u almanac.User) uuid.UUID { return u.ID }))
	w.series, err = all(ctx, tx, s.statements["waiting_series"], pgx.StrictNamedArgs{"type": eventType, "users": locked},
		func(row pgx.CollectableRow) (one waitingSeries, err error) {
			return one, row.Scan(&one.id, &one.user, &one.key, &one.waits)
		})
	if err != nil {
		return w, err
	}
	w.now, err = one(ctx, tx, s.statements["now"], nil, scanTime)
	return w, err
}

// standings returns the users who have a series that waits, with the keys of those.
func (w waitingUsers) standings() []almanac.Standing {
	used := make(map[uuid.UUID][]string)
	for _, one := range w.series {
		if one.waits {
			used[one.user] = append(used[one.user], one.key)
		}
	}
	var list []almanac.Standing
	for _, u := range w.users {
		if keys := used[u.ID]; len(keys) > 0 {
			slices.Sort(keys)
			list = append(list, almanac.Standing{User: u, Used: keys})
		}
	}
	return list
}
