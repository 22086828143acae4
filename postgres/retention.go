package postgres

import (
	"context"
	"encoding/binary"
	"errors"
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
//
// If the database refuses to delete an event, for example because of a foreign key of the host,
// Prune examines fewer events in a call, and goes on past that event. It returns the error with
// the cursor of the next page.
func (s *Store) Prune(ctx context.Context, before time.Time, page almanac.Page) (deleted int, next almanac.Cursor, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return 0, "", err
	}
	var causes []error
	examined, works := 0, false
	for size := limit; examined < limit; {
		size = min(size, limit-examined)
		p := pruning{before: before, bound: createdAt(before), after: after, limit: size}
		c, err := s.prunePart(ctx, p)
		switch {
		case err == nil:
			works = true
		case !mayBeOneRow(err):
			return deleted, "", errors.Join(err, together(causes))
		case size > 1:
			size /= 2
			continue
		default:
			if causes = append(causes, err); !works && !refused(err) && len(causes) == failAll {
				return deleted, "", err
			}
			p.before = time.Time{} // nothing ended before it, so the call finds only the id of the event
			if c, err = s.prunePart(ctx, p); err != nil {
				return deleted, "", err
			}
		}
		deleted, examined = deleted+c.pruned, examined+c.examined
		if c.examined < size {
			return deleted, "", together(causes)
		}
		after, size = *c.last, size*2
	}
	return deleted, almanac.Cursor(after.String()), together(causes)
}

// pruning is a part of a page of ended events.
type pruning struct {
	before time.Time
	bound  uuid.UUID // the ids are less
	after  uuid.UUID
	limit  int
}

// pruned is the result for a part of a page.
type pruned struct {
	pruned, examined int
	last             *uuid.UUID // of the part
}

func (s *Store) prunePart(ctx context.Context, p pruning) (c pruned, err error) {
	err = s.transact(ctx, "prune", func(ctx context.Context, tx pgx.Tx) (err error) {
		c, err = one(ctx, tx, s.statements.Prune, pgx.StrictNamedArgs{
			"before": p.before, "after": p.after, "bound": p.bound, "limit": p.limit,
		}, func(row pgx.CollectableRow) (c pruned, err error) {
			return c, row.Scan(&c.pruned, &c.examined, &c.last)
		})
		return err
	})
	return c, err
}

// createdAt returns the least id of an event that is created at an instant. A UUIDv7 begins with
// the milliseconds since 1970 (RFC 9562, section 5.7).
func createdAt(t time.Time) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(max(t.UnixMilli(), 0))<<16)
	return id
}
