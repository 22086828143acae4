package almanactest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// LeaseEach gives each event its own lease.
func (r *Repository) LeaseEach(ctx context.Context, events []almanac.Event, owner string, term time.Duration) (leased []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		leased = nil
		for _, e := range events {
			if !r.stillHeld(e) {
				continue
			}
			token, stored, old := uuid.New(), r.events[e.ID], r.leases[e.LeaseToken]
			r.leases[token] = lease{
				owner: owner, program: old.program, zoneData: old.zoneData,
				claimed: now, expires: now.Add(term), ahead: old.ahead, ids: []uuid.UUID{e.ID},
			}
			old.ids = slices.DeleteFunc(slices.Clone(old.ids), func(id uuid.UUID) bool { return id == e.ID })
			r.leases[e.LeaseToken] = old
			stored.LeaseToken = token
			leased = append(leased, copied(r.put(stored, now)))
			r.endLease(e.LeaseToken)
		}
		return nil
	})
	return leased, err
}
