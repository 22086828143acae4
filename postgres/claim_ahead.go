package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

// Confirm returns which of the events that were claimed ahead of their instant are still held.
// An event that another transaction has locked is returned as busy.
func (s *Store) Confirm(ctx context.Context, events []almanac.Event) (almanac.ConfirmResult, error) {
	var confirmed almanac.ConfirmResult
	type event = almanac.Event
	args := namesOf(events)
	args["ids"] = uuids(column(events, func(e event) uuid.UUID { return e.ID }))
	args["versions"] = column(events, func(e event) int { return claimedAs(e).version })
	err := s.do(ctx, "confirm", func(ctx context.Context, db DB) error {
		confirmed = almanac.ConfirmResult{}
		_, err := all(ctx, db, s.statements.Confirm, args, func(row pgx.CollectableRow) (none struct{}, err error) {
			var id *uuid.UUID
			var certain *bool
			if err := row.Scan(&confirmed.At, &id, &certain); err != nil || id == nil {
				return none, err
			}
			if *certain {
				confirmed.Held = append(confirmed.Held, *id)
			} else {
				confirmed.Busy = append(confirmed.Busy, *id)
			}
			return none, nil
		})
		confirmed.At = confirmed.At.UTC()
		return err
	})
	return confirmed, err
}

// Return releases events that were claimed ahead of their instant, and returns the released
// events. An event that another transaction has locked, or that the database refuses to release,
// moves to a lease of its own that has expired: [Store.ReleaseExpired] releases it later.
func (s *Store) Return(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	wanted := make(map[claimed]bool, len(events))
	for _, e := range events {
		wanted[claimedAs(e)] = true
	}
	tokens := distinct(column(events, func(e almanac.Event) uuid.UUID { return e.LeaseToken }))
	var r releaseResult
	err := s.transact(ctx, "return", func(ctx context.Context, tx pgx.Tx) error {
		leases, err := all(ctx, tx, s.statements.Leases, pgx.StrictNamedArgs{"tokens": uuids(tokens)}, func(row pgx.CollectableRow) (lease, error) {
			var l lease
			var now time.Time
			err := row.Scan(l.targets(&now)...)
			return l.only(wanted), err
		})
		if err != nil {
			return err
		}
		if r, err = s.release(ctx, tx, leases, byChoice); err != nil {
			return err
		}
		if len(r.kept) > 0 {
			left := column(r.kept, func(h heldEvent) claimed { return claimed{h.id, h.token, h.version} })
			if _, _, _, err := s.leaseEach(ctx, tx, left, "returned", 0); err != nil {
				return err
			}
		}
		return s.endLeases(ctx, tx, tokens)
	})
	if err != nil {
		return nil, err
	}
	return r.released, together(r.refused)
}

// only returns the lease with only the wanted events.
func (l lease) only(wanted map[claimed]bool) lease {
	part := lease{token: l.token, ahead: l.ahead}
	for i, id := range l.ids {
		if wanted[claimed{id, l.token, l.versions[i]}] {
			part.series, part.ids, part.versions = append(part.series, l.series[i]), append(part.ids, id), append(part.versions, l.versions[i])
		}
	}
	return part
}
