package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac/ops"
)

// The limits of reading and folding the changes of counts. See docs/adr/0064-due-counts.md.
const (
	mostChanges = 1_000_000 // changes that are read
	foldStep    = 10_000    // changes that are folded in one transaction
	foldSteps   = 10        // transactions of one sweep
)

// DueCounts counts the events of a zone by the quarter hour in which they are due. The numbers are exact,
// unless more than a million changes were stored since the last sweep. Then they are estimates.
func (s *Store) DueCounts(ctx context.Context, r ops.DueCountsRequest) (ops.DueCountsResult, error) {
	args := pgx.StrictNamedArgs{"zone": r.Zone, "type": nil, "from": quarterFrom(r.From), "until": quarterFrom(r.Until), "limit": mostChanges}
	if r.Type != "" {
		args["type"] = r.Type
	}
	var counts ops.DueCountsResult
	err := s.do(ctx, "count due events", func(ctx context.Context, db DB) error {
		rows, err := db.Query(ctx, s.statements.DueCounts, args)
		if err != nil {
			return err
		}
		counts.Quarters = nil
		var changes int
		var place, n *int64
		_, err = pgx.ForEachRow(rows, []any{&counts.At, &changes, &place, &n}, func() error {
			if place == nil {
				return nil
			}
			one := ops.QuarterCount{From: time.Unix(*place*900, 0).UTC(), Count: ops.Count{N: *n}}
			if changes >= mostChanges {
				one.Count.Kind = ops.Estimated
			}
			counts.Quarters = append(counts.Quarters, one)
			return nil
		})
		counts.At = counts.At.UTC()
		return err
	})
	return counts, err
}

// quarterFrom returns the first quarter hour that begins at an instant or later, counted from 1970.
func quarterFrom(at time.Time) int64 {
	seconds := at.Add(quarter - time.Nanosecond).Unix()
	return (seconds - (seconds%900+900)%900) / 900
}

// foldDueChanges adds the changes to the counts.
func (s *Store) foldDueChanges(ctx context.Context) error {
	for range foldSteps {
		var folded int
		err := s.transact(ctx, "fold the changes of counts", func(ctx context.Context, tx pgx.Tx) (err error) {
			folded, err = one(ctx, tx, s.statements.FoldDueChanges, pgx.StrictNamedArgs{"limit": foldStep}, pgx.RowTo[int])
			return err
		})
		if err != nil || folded < foldStep {
			return err
		}
	}
	return nil
}
