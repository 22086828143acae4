package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

const (
	laneWaiting = 100_000 // the most events of a lane that LaneLoads and LaneWait count
	allWaiting  = 200_000 // the most in all lanes, besides five of each
)

// LaneLoads returns the lanes that have limits or a weight, are paused, or whose receiver fails, with what waits for them.
func (s *Store) LaneLoads(ctx context.Context) ([]ops.LaneLoad, error) {
	var loads []ops.LaneLoad
	err := s.do(ctx, "find what waits for lanes", func(ctx context.Context, db DB) (err error) {
		loads, err = s.laneLoads(ctx, db, nil)
		return err
	})
	return loads, err
}

// laneLoads returns the loads of some lanes, or of all that have any.
func (s *Store) laneLoads(ctx context.Context, db DB, lanes []string) ([]ops.LaneLoad, error) {
	return all(ctx, db, s.statements.LaneLoads, pgx.StrictNamedArgs{"lanes": lanes, "limit": laneWaiting, "all": allWaiting}, scanLaneLoad)
}

func scanLaneLoad(row pgx.CollectableRow) (l ops.LaneLoad, err error) {
	var oldest, ready, retry, opened *time.Time
	var allowed, failures *int
	var cut bool
	var pause pauseRow
	var started []int
	err = row.Scan(&l.Name, &l.Rate, &l.Burst, &l.Places, &l.Daily, &l.Weight, &l.Waiting.N, &cut, &oldest, &l.Weights, &l.InFlight, &ready, &l.Today,
		&allowed, &retry, &opened, &failures, &pause.since, &pause.until, &pause.reason, &pause.author, &started)
	copy(l.Started[:], started)
	if allowed != nil {
		l.Breaker = almanac.Breaker{Allowed: *allowed, RetryAt: retry.UTC(), OpenedAt: opened.UTC(), Failures: *failures}
	}
	if cut {
		l.Waiting.Kind = ops.AtLeast
	}
	l.Oldest, l.ReadyAt, l.Pause = utcOrZero(oldest), utcOrZero(ready), pause.of(l.Name)
	return l, err
}

// pauseRow has the columns of a pause, which are NULL if there is none.
type pauseRow struct {
	since, until   *time.Time
	reason, author *string
}

func (r pauseRow) of(lane string) almanac.Pause {
	if r.since == nil {
		return almanac.Pause{}
	}
	return almanac.Pause{Lane: lane, Reason: *r.reason, Author: *r.author, Since: r.since.UTC(), Until: utcOrZero(r.until)}
}

// utcOrZero returns a time in UTC, or zero for NULL.
func utcOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// LaneWait returns what a PENDING event that is available waits for.
func (s *Store) LaneWait(ctx context.Context, e almanac.Event) (wait ops.LaneWait, err error) {
	if e.Status != almanac.Pending {
		return wait, nil
	}
	own := e.Lane
	if own == "" {
		own = e.Type
	}
	lanes := []string{own}
	if upper, _, inner := strings.Cut(e.Lane, "/"); inner {
		lanes = append(lanes, upper)
	}
	err = s.do(ctx, "find what an event waits for", func(ctx context.Context, db DB) error {
		args := pgx.StrictNamedArgs{"event_type": e.Type, "lane": e.Lane, "at": e.AvailableAt.UTC(), "id": e.ID, "limit": laneWaiting}
		found, err := all(ctx, db, s.statements.LaneBefore, args, func(row pgx.CollectableRow) (w ops.LaneWait, err error) {
			var cut bool
			var pause pauseRow
			err = row.Scan(&w.At, &w.Before.N, &cut, &pause.since, &pause.until, &pause.reason, &pause.author)
			if cut {
				w.Before.Kind = ops.AtLeast
			}
			w.At, w.Since, w.Type = w.At.UTC(), e.AvailableAt.UTC(), pause.of(e.Type)
			return w, err
		})
		if err != nil || len(found) == 0 {
			return err
		}
		loads, err := s.laneLoads(ctx, db, lanes)
		if err != nil {
			return err
		}
		is := found[0]
		for _, l := range loads {
			if l.Name == own {
				is.Lane = l
			} else {
				is.In = l
			}
		}
		if is.Held() {
			wait = is
		}
		return nil
	})
	return wait, err
}
