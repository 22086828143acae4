package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/ops"
)

// The limits of what Retries reads.
const (
	retriesCounted = 10_000 // events of a type
	retriesLooked  = 1000   // events or series of a type whose errors are read; each is looked up in the table series
	retriesAll     = 4000   // the same for all types together
)

// Retries returns what is tried again after a failure. A role that may not read the errors of events, such
// as almanac_reader, is refused.
func (s *Store) Retries(ctx context.Context) (r ops.Retries, err error) {
	err = s.list(ctx, "read retries", func(ctx context.Context, db DB) (err error) {
		if r.Events, err = s.retriedEvents(ctx, db); err != nil {
			return err
		}
		r.Series, err = s.stalledSeries(ctx, db)
		return err
	})
	if err != nil {
		return ops.Retries{}, err
	}
	return r, nil
}

// retried is a group, and how many of its type were counted and read.
type retried struct {
	ops.RetryGroup
	counted, read int64
	since, next   *time.Time
}

func (s *Store) retriedEvents(ctx context.Context, db DB) ([]ops.RetryGroup, error) {
	args := pgx.StrictNamedArgs{"limit": retriesCounted, "looked": retriesLooked, "all": retriesAll}
	rows, err := all(ctx, db, s.statements.RetriesEvents, args, func(row pgx.CollectableRow) (r retried, err error) {
		return r, row.Scan(&r.Type, &r.counted, &r.Error, &r.read, &r.since, &r.next)
	})
	if err != nil {
		return nil, err
	}
	read := make(map[string]int64)
	for _, r := range rows {
		read[r.Type] += r.read
	}
	groups := make([]ops.RetryGroup, len(rows))
	for i, r := range rows {
		r.Count = ops.Count{N: r.read, Kind: ops.Exact}
		if of := read[r.Type]; of == 0 {
			r.Count.N = r.counted
		} else if of < r.counted {
			r.Count = ops.Count{N: int64(math.Round(float64(r.read) * float64(r.counted) / float64(of))), Kind: ops.Estimated}
		}
		if r.counted == retriesCounted {
			r.Count.Kind = ops.AtLeast
		}
		groups[i] = r.group()
	}
	return sortedRetries(groups), nil
}

func (s *Store) stalledSeries(ctx context.Context, db DB) ([]ops.RetryGroup, error) {
	args := pgx.StrictNamedArgs{"looked": retriesLooked, "all": retriesAll}
	rows, err := all(ctx, db, s.statements.RetriesSeries, args, func(row pgx.CollectableRow) (r retried, err error) {
		return r, row.Scan(&r.Type, &r.Error, &r.read, &r.Count.N, &r.since, &r.next)
	})
	if err != nil {
		return nil, err
	}
	read, whole := make(map[string]int64), int64(0)
	for _, r := range rows {
		read[r.Type], whole = read[r.Type]+r.read, whole+r.read
	}
	var groups []ops.RetryGroup
	for _, r := range rows {
		if read[r.Type] == retriesLooked || whole == retriesAll {
			r.Count.Kind = ops.AtLeast
		}
		if r.Count.N > 0 {
			groups = append(groups, r.group())
		}
	}
	return sortedRetries(groups), nil
}

func (r retried) group() ops.RetryGroup {
	if r.since != nil && r.next != nil {
		r.Since, r.Next = r.since.UTC(), r.next.UTC()
	}
	return r.RetryGroup
}

// sortedRetries sorts groups by type, the greatest first, then by error.
func sortedRetries(groups []ops.RetryGroup) []ops.RetryGroup {
	slices.SortFunc(groups, func(a, b ops.RetryGroup) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(b.Count.N, a.Count.N), cmp.Compare(a.Error, b.Error))
	})
	return groups
}
