package postgres

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
)

// planSuccessors is the function that AddSuccessors calls to plan.
type planSuccessors = func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)

// AddSuccessors plans the next events of the stalled series of a page of users. Users and series
// that another transaction has locked are skipped. Users whose events the database refuses, or who
// take too long, do not block the others: their series have stalled further.
func (s *Store) AddSuccessors(ctx context.Context, eventType string, page almanac.Page, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.StalledSeries, error)) (almanac.AddEventsResult, error) {
	page.Order = almanac.NextFirst
	limit, at, after, err := page.EventBounds()
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	var waiting []attempt
	err = s.do(ctx, "find stalled series", func(ctx context.Context, db DB) (err error) {
		args := pgx.StrictNamedArgs{"type": eventType, "at": at, "after": after, "limit": limit}
		waiting, err = all(ctx, db, s.statements.WaitingUsers, args, scanAttempt)
		return err
	})
	if err != nil || len(waiting) == 0 {
		return almanac.AddEventsResult{}, err
	}
	users := distinct(column(waiting, func(a attempt) uuid.UUID { return a.user }))
	left, err := s.postpone(ctx, eventType, users)
	if err != nil {
		return almanac.AddEventsResult{}, err
	}
	added, err := addInHalves(users, func(users []uuid.UUID) (almanac.AddEventsResult, error) {
		return s.addSuccessors(ctx, stalledOf{eventType, users, left}, plan)
	}, func(user uuid.UUID, cause error) (almanac.AddEventsResult, error) {
		return s.addSuccessors(ctx, stalledOf{eventType, []uuid.UUID{user}, left}, planNone(cause))
	})
	if restored := s.restore(context.WithoutCancel(ctx), stalledOf{eventType, users, left}); err == nil {
		err = restored
	}
	if err == nil && len(waiting) == limit {
		added.Next = waiting[limit-1].cursor()
	}
	return added, err
}

// stalledOf selects stalled series of some users: the postponed ones, or those due for another try.
type stalledOf struct {
	eventType string
	users     []uuid.UUID
	postponed map[int64]stalledRow // by id, as they were before; nil selects the series due for another try
}

// errUnplanned is the error of series whose next events were being planned when the process died.
var errUnplanned = errors.New("the process ended while it planned the next event")

// postpone stores one more failure of each series due for another try, before a handler is called, and
// returns the series as before. So a handler that kills the process does not kill it again at once.
func (s *Store) postpone(ctx context.Context, eventType string, users []uuid.UUID) (before map[int64]stalledRow, err error) {
	err = s.transact(ctx, "postpone stalled series", func(ctx context.Context, tx pgx.Tx) error {
		before = make(map[int64]stalledRow)
		w, err := s.lockWaiting(ctx, tx, stalledOf{eventType: eventType, users: users})
		if err != nil || len(w.series) == 0 {
			return err
		}
		var rows []stalledRow
		for _, one := range w.series {
			before[one.id] = one.stalledRow
			rows = append(rows, stalledRow{one.id, one.unit, one.key, one.Again(errUnplanned, w.now)})
		}
		_, err = tx.Exec(ctx, s.statements.Stall, stallArgs(rows))
		return err
	})
	return before, err
}

// restore undoes postpone for the series in of.postponed, whose planning was not committed.
func (s *Store) restore(ctx context.Context, of stalledOf) error {
	if len(of.postponed) == 0 {
		return nil
	}
	return s.transact(ctx, "restore stalled series", func(ctx context.Context, tx pgx.Tx) error {
		args := stallArgs(slices.Collect(maps.Values(of.postponed)))
		for _, unchanged := range []string{"units", "keys", "since"} {
			delete(args, unchanged)
		}
		_, err := tx.Exec(ctx, s.statements.RestoreSeries, args)
		return err
	})
}

// planNone returns a plan that fails for each stalled series.
func planNone(cause error) planSuccessors {
	return func(users []almanac.UserSeries, now time.Time) (none []almanac.Event, again []almanac.StalledSeries, _ error) {
		for _, one := range users {
			for _, series := range one.Stalled {
				again = append(again, series.Again(cause, now))
			}
		}
		return none, again, nil
	}
}

// addSuccessors plans postponed series in one transaction. Once committed, they leave of.postponed.
func (s *Store) addSuccessors(ctx context.Context, of stalledOf, plan planSuccessors) (added almanac.AddEventsResult, err error) {
	var w waitingUsers
	err = s.transactKeys(ctx, "add successors", func(ctx context.Context, tx pgx.Tx, keys keys) (err error) {
		added = almanac.AddEventsResult{}
		if w, err = s.lockWaiting(ctx, tx, of); err != nil {
			return err
		}
		for i := range w.series {
			w.series[i].Failures = of.postponed[w.series[i].id].Failures
		}
		standings := w.userSeries()
		added.Users = len(standings)
		var events []almanac.Event
		if len(standings) > 0 {
			if events, added.Stalled, err = plan(standings, w.now); err != nil {
				return asIs(err)
			}
		}
		if added.Events, err = s.insert(ctx, tx, keys, events); err != nil {
			return err
		}
		if len(w.series) > 0 {
			ids := column(w.series, func(one waitingSeries) int64 { return one.id })
			if _, err := tx.Exec(ctx, s.statements.EndWaiting, pgx.StrictNamedArgs{"series": ids}); err != nil {
				return err
			}
		}
		if rows := w.again(added.Stalled); len(rows) > 0 {
			if _, err := tx.Exec(ctx, s.statements.Stall, stallArgs(rows)); err != nil {
				return err
			}
		}
		return s.hint(ctx, tx, added.Events)
	})
	for _, one := range w.series {
		if err == nil {
			delete(of.postponed, one.id)
		}
	}
	return added, err
}

// attempt is the time at which the stalled series of a user are to be tried again.
type attempt struct {
	at   time.Time
	user uuid.UUID
}

func scanAttempt(row pgx.CollectableRow) (a attempt, err error) {
	return a, row.Scan(&a.at, rawID(&a.user))
}

func (a attempt) cursor() almanac.Cursor {
	return almanac.Cursor(a.at.UTC().Format(time.RFC3339Nano) + "/" + a.user.String())
}

// stalledRow is a stalled series, to be stored.
type stalledRow struct {
	id        int64
	unit, key string // the last occurrence key that the series used
	almanac.StalledSeries
}

func stallArgs(rows []stalledRow) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"series":   column(rows, func(r stalledRow) int64 { return r.id }),
		"units":    column(rows, func(r stalledRow) string { return r.unit }),
		"keys":     column(rows, func(r stalledRow) string { return r.key }),
		"errors":   column(rows, func(r stalledRow) string { return r.Error }),
		"failures": column(rows, func(r stalledRow) int { return min(r.Failures, math.MaxInt32) }), // another program may have stored any number
		"since":    column(rows, func(r stalledRow) time.Time { return r.Since }),
		"retry_at": column(rows, func(r stalledRow) time.Time { return r.RetryAt }),
	}
}

// Stalled returns up to limit stalled series of a user, or of all users if the id is zero.
func (s *Store) Stalled(ctx context.Context, userID uuid.UUID, limit int) (list []almanac.StalledSeries, err error) {
	if limit, err = almanac.MissedLimit(limit); err != nil {
		return nil, err
	}
	var users pgtype.FlatArray[pgtype.UUID] // NULL
	if userID != uuid.Nil {
		users = uuids([]uuid.UUID{userID})
	}
	err = s.do(ctx, "list stalled series", func(ctx context.Context, db DB) (err error) {
		list, err = all(ctx, db, s.statements.Stalled, pgx.StrictNamedArgs{"users": users, "limit": limit}, scanStalled)
		return err
	})
	return list, err
}

func scanStalled(row pgx.CollectableRow) (s almanac.StalledSeries, err error) {
	err = row.Scan(rawID(&s.UserID), &s.Series.Type, &s.Series.Name, &s.Series.Detached, &s.Due, &s.Error, &s.Failures, &s.Since, &s.RetryAt)
	s.Due, s.Since, s.RetryAt = s.Due.UTC(), s.Since.UTC(), s.RetryAt.UTC()
	return s, err
}

// waitingUsers has locked users, and their locked stalled series.
type waitingUsers struct {
	users  []almanac.User
	series []waitingSeries
	now    time.Time
}

type waitingSeries struct {
	stalledRow
	waits bool // false when an event was stored in the series since
	used  almanac.UsedKeys
}

func (s *Store) lockWaiting(ctx context.Context, tx pgx.Tx, of stalledOf) (w waitingUsers, err error) {
	w.users, err = all(ctx, tx, s.statements.LockUsers, pgx.StrictNamedArgs{"ids": uuids(of.users)}, scanUsers())
	if err != nil || len(w.users) == 0 {
		return w, err
	}
	locked := uuids(column(w.users, func(u almanac.User) uuid.UUID { return u.ID }))
	var ids []int64
	if of.postponed != nil {
		ids = slices.AppendSeq([]int64{}, maps.Keys(of.postponed))
	}
	w.series, err = all(ctx, tx, s.statements.WaitingSeries, pgx.StrictNamedArgs{"type": of.eventType, "users": locked, "series": ids},
		func(row pgx.CollectableRow) (one waitingSeries, err error) {
			var used *string
			one.Series.Type = of.eventType
			err = row.Scan(&one.id, rawID(&one.UserID), &one.Series.Name, &one.Series.Detached, &one.unit, &one.key, &one.Due, &one.Error,
				&one.Failures, &one.Since, &one.RetryAt, &one.waits, &used)
			if err != nil {
				return one, err
			}
			one.Due, one.Since, one.RetryAt = one.Due.UTC(), one.Since.UTC(), one.RetryAt.UTC()
			one.used, err = parseUsed(used)
			return one, err
		})
	if err != nil {
		return w, err
	}
	w.now, err = one(ctx, tx, s.statements.Now, nil, scanTime)
	return w, err
}

// userSeries returns the users who have a stalled series, with these series and their used keys.
func (w waitingUsers) userSeries() []almanac.UserSeries {
	stalled := make(map[uuid.UUID]almanac.UserSeries)
	for _, one := range w.series {
		if !one.waits {
			continue
		}
		of := stalled[one.UserID]
		if of.Used == nil {
			of.Used = make(map[almanac.Series]almanac.UsedKeys)
		}
		of.Used[one.Series], of.Stalled = one.used, append(of.Stalled, one.StalledSeries)
		stalled[one.UserID] = of
	}
	var list []almanac.UserSeries
	for _, u := range w.users {
		if of := stalled[u.ID]; len(of.Stalled) > 0 {
			of.User = u
			list = append(list, of)
		}
	}
	return list
}

// again returns the rows of series that have stalled further.
func (w waitingUsers) again(list []almanac.StalledSeries) []stalledRow {
	var rows []stalledRow
	for _, s := range list {
		for _, one := range w.series {
			if one.waits && one.UserID == s.UserID && one.Series == s.Series {
				rows = append(rows, stalledRow{one.id, one.unit, one.key, s})
			}
		}
	}
	return rows
}
