package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// mostRefused is how many events in a row may be refused before Prune passes over others.
const mostRefused = 20

// Prune examines a page of ended events, and deletes those that ended before an instant and were
// due before it. Events that another transaction has locked are kept.
//
// It walks the primary key, because ids ascend in the order of creation. An index on the end of events would
// cost each event. The used key in a series outlives its events, so no occurrence comes again.
//
// If the database refuses to delete an event, for example because of a foreign key of the host,
// Prune examines fewer events in a call, and goes on past that event. It returns the error with
// the cursor of the next page. After mostRefused refused events in a row it examines some of the
// rest, chosen at random. So a page costs few calls even if every event is refused, and each event
// is examined in some round. An error that may be about all events ends the round.
func (s *Store) Prune(ctx context.Context, before time.Time, page almanac.Page) (deleted int, next almanac.Cursor, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return 0, "", err
	}
	var causes []error
	examined, works, inARow := 0, false, 0
	for size := limit; examined < limit; {
		size = min(size, limit-examined)
		part := pgx.StrictNamedArgs{"before": before, "bound": createdAt(before), "after": after, "limit": size}
		c, err := s.prunePart(ctx, part)
		switch {
		case err == nil:
			works, inARow = true, 0
		case !mayBeOneRow(err):
			return deleted, "", errors.Join(err, together(causes))
		case size > 1:
			size /= 2
			continue
		default:
			works = works || refused(err)
			if causes = append(causes, err); !works && tookTooLong(err) && len(causes) >= failAll {
				return deleted, "", together(causes)
			}
			skipped := 1
			if inARow++; inARow > mostRefused {
				skipped += rand.IntN(limit - examined)
			}
			part["before"], part["limit"] = time.Time{}, skipped // nothing ended before it, so the call only finds the last id
			if c, err = s.prunePart(ctx, part); err != nil {
				return deleted, "", err
			}
		}
		deleted, examined = deleted+c.deleted, examined+c.examined
		if c.examined < part["limit"].(int) {
			return deleted, "", together(causes)
		}
		after, size = *c.last, size*2
	}
	if !works && len(causes) >= failAll { // the error may be about all events
		return deleted, "", together(causes)
	}
	return deleted, almanac.Cursor(after.String()), together(causes)
}

// pruned is the result for a part of a page.
type pruned struct {
	deleted, examined int
	last              *uuid.UUID // of the part
}

func (s *Store) prunePart(ctx context.Context, args pgx.StrictNamedArgs) (c pruned, err error) {
	err = s.transact(ctx, "prune", func(ctx context.Context, tx pgx.Tx) (err error) {
		c, err = one(ctx, tx, s.statements.Prune, args, func(row pgx.CollectableRow) (c pruned, err error) {
			return c, row.Scan(&c.deleted, &c.examined, &c.last)
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
