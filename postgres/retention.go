package postgres

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Prune examines a page of ended events, and deletes those that ended before an instant and were
// due before it. Events that another transaction has locked are kept.
//
// It walks the primary key, because ids ascend in the order of creation. An index on the end of
// events would cost each event. The used key in a series outlives its events, so no occurrence
// comes again.
func (s *Store) Prune(ctx context.Context, before time.Time, page almanac.Page) (deleted int, next almanac.Cursor, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return 0, "", err
	}
	type counts struct {
		pruned, examined int
		last             *uuid.UUID // of the page
	}
	var c counts
	err = s.transact(ctx, "prune", func(ctx context.Context, tx pgx.Tx) (err error) {
		c, err = one(ctx, tx, s.statements.Prune, pgx.StrictNamedArgs{
			"before": before, "after": after, "bound": createdAt(before), "limit": limit,
		}, func(row pgx.CollectableRow) (c counts, err error) {
			return c, row.Scan(&c.pruned, &c.examined, &c.last)
		})
		return err
	})
	if err != nil {
		return 0, "", err
	}
	if c.examined == limit {
		next = almanac.Cursor(c.last.String())
	}
	return c.pruned, next, nil
}

// createdAt returns the least id of an event that is created at an instant. A UUIDv7 begins with
// the milliseconds since 1970 (RFC 9562, section 5.7).
func createdAt(t time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(max(t.UnixMilli(), 0))<<16)
	return id
}
