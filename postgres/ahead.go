package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/almanac-go/almanac"
)

var _ almanac.Confirmer = (*Store)(nil)

// Confirm says which events that were claimed ahead are still held.
func (s *Store) Confirm(ctx context.Context, events []almanac.Event) (almanac.Confirmed, error) {
	var confirmed almanac.Confirmed
	type event = almanac.Event
	args := pgx.StrictNamedArgs{
		"users":    uuids(column(events, func(e event) uuid.UUID { return e.UserID })),
		"types":    column(events, func(e event) string { return e.Type }),
		"names":    column(events, func(e event) string { return seriesOf(e) }),
		"ids":      uuids(column(events, func(e event) uuid.UUID { return e.ID })),
		"versions": column(events, func(e event) int { return claimedAs(e).version }),
	}
	err := s.do(ctx, "confirm", func(ctx context.Context, db DB) error {
		confirmed = almanac.Confirmed{}
		_, err := all(ctx, db, s.statements["confirm"], args, func(row pgx.CollectableRow) (none struct{}, err error) {
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

// Return gives back events that were claimed ahead. Those that another transaction has
// locked stay under their leases, which run out.
func (s *Store) Return(ctx context.Context, events []almanac.Event) ([]almanac.Event, error) {
	wanted := make(map[claimed]bool, len(events))
	for _, e := range events {
		wanted[claimedAs(e)] = true
	}
	tokens := distinct(column(events, func(e almanac.Event) uuid.UUID { return e.LeaseToken }))
	var returned []almanac.Event
	err := s.transact(ctx, "return", func(ctx context.Context, tx pgx.Tx) error {
		leases, err := all(ctx, tx, s.statements["leases"], pgx.StrictNamedArgs{"tokens": uuids(tokens)}, func(row pgx.CollectableRow) (lease, error) {
			var l lease
			var now time.Time
			err := row.Scan(&now, &l.token, &l.series, &l.ids, &l.versions, &l.ahead)
			return l.only(wanted), err
		})
		if err != nil {
			return err
		}
		if returned, _, err = s.giveBack(ctx, tx, leases, byChoice); err != nil {
			return err
		}
		return s.endLeases(ctx, tx, tokens)
	})
	return returned, err
}

// only is the part of what a token was given that is wanted.
func (l lease) only(wanted map[claimed]bool) lease {
	part := lease{token: l.token, ahead: l.ahead}
	for i, id := range l.ids {
		if wanted[claimed{id, l.token, l.versions[i]}] {
			part.series, part.ids, part.versions = append(part.series, l.series[i]), append(part.ids, id), append(part.versions, l.versions[i])
		}
	}
	return part
}

// hintTaken tells those who listen that events are pending again which were claimed
// ahead: they are due in a moment.
func (s *Store) hintTaken(ctx context.Context, tx pgx.Tx, taken []uuid.UUID) error {
	if len(taken) == 0 || s.pollOnly {
		return nil
	}
	_, err := tx.Exec(ctx, s.statements["notify"], s.notification(hintPayload))
	return err
}
