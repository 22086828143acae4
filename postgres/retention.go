package postgres

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Prune deletes events of a page that ended before an instant.
func (s *Store) Prune(ctx context.Context, before time.Time, page almanac.Page) (almanac.Pruned, error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.Pruned{}, err
	}
	type answer struct {
		pruned, looked int
		last           *uuid.UUID
	}
	var a answer
	err = s.transact(ctx, "prune", func(ctx context.Context, tx pgx.Tx) (err error) {
		a, err = one(ctx, tx, s.statements["prune"], pgx.StrictNamedArgs{
			"before": before, "after": after, "bound": createdAt(before), "limit": limit,
		}, func(row pgx.CollectableRow) (a answer, err error) {
			return a, row.Scan(&a.pruned, &a.looked, &a.last)
		})
		return err
	})
	if err != nil {
		return almanac.Pruned{}, err
	}
	pruned := almanac.Pruned{Count: a.pruned}
	if a.looked == limit {
		pruned.Next = almanac.Cursor(a.last.String())
	}
	return pruned, nil
}

// createdAt returns the least id of an event that is created at an instant: a
// UUIDv7 begins with the milliseconds since 1970 (RFC 9562, section 5.7).
func createdAt(t time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(max(t.UnixMilli(), 0))<<16)
	return id
}
