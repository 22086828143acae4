package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

var _ broadcast.Store = (*Store)(nil)

// CreateBroadcast stores a broadcast with the zones that users have, in one transaction.
func (s *Store) CreateBroadcast(ctx context.Context, b broadcast.Broadcast) (is broadcast.Status, existed bool, err error) {
	err = s.transact(ctx, "create a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		args := audienceArgs(b)
		args["type"], args["payload"], args["wall"], args["instant"] = b.Type, jsonOrNull(b.Payload), localOrNull(b.At), orNull(b.Instant.UTC())
		args["passed"], args["newcomers"], args["state"] = string(b.Passed), b.Newcomers, string(broadcast.Storing)
		if args["zones"] = b.Audience.Zones; b.Audience.Zones == nil {
			args["zones"] = []string{}
		}
		if b.Audience.Listed {
			args["state"] = string(broadcast.Collecting)
		}
		created, err := all(ctx, tx, s.statements.CreateBroadcast, args, scanTime)
		if err != nil {
			return err
		}
		if existed = len(created) == 0; !existed {
			if err := s.addStep(ctx, tx, b.Name, broadcast.Create, ""); err != nil {
				return err
			}
			if _, err := s.addZones(ctx, tx, b, created[0]); err != nil {
				return err
			}
		}
		found, err := all(ctx, tx, s.statements.Broadcasts, pgx.StrictNamedArgs{"name": b.Name, "after": "", "limit": 1}, scanBroadcast)
		if err == nil && len(found) == 0 {
			err = asIs(fmt.Errorf("postgres: %w: events of a deleted broadcast %q", almanac.ErrExists, b.Name))
		}
		if err != nil {
			return err
		}
		is = found[0]
		return nil
	})
	return is, existed, err
}

// audienceArgs returns the arguments that select users, without their zones.
func audienceArgs(b broadcast.Broadcast) pgx.StrictNamedArgs {
	a := b.Audience
	return pgx.StrictNamedArgs{"name": b.Name, "attributes": jsonOrNull(a.Attributes), "locale": a.Locale, "listed": a.Listed}
}

func jsonOrNull(text json.RawMessage) *string {
	if text == nil {
		return nil
	}
	return new(string(text))
}

func (s *Store) addStep(ctx context.Context, tx pgx.Tx, name string, a broadcast.Action, reason string) error {
	_, err := tx.Exec(ctx, s.statements.AddBroadcastStep, pgx.StrictNamedArgs{"name": name, "action": string(a), "reason": reason})
	return err
}

// addZones stores the zones that users have by now and the broadcast has not. It returns whether there are any.
func (s *Store) addZones(ctx context.Context, tx pgx.Tx, b broadcast.Broadcast, created time.Time) (bool, error) {
	names, err := all(ctx, tx, s.statements.UserZones, pgx.StrictNamedArgs{"name": b.Name}, pgx.RowTo[string])
	if err != nil {
		return false, err
	}
	zones := broadcast.ZonesOf(b, names, created)
	return len(zones) > 0, s.storeZones(ctx, tx, b.Name, zones, true)
}

// storeZones stores zones of a broadcast, unless it has them. Read says whether their users are to be read.
func (s *Store) storeZones(ctx context.Context, tx pgx.Tx, name string, zones []broadcast.Zone, read bool) error {
	if len(zones) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, s.statements.AddBroadcastZones, pgx.StrictNamedArgs{
		"name": name, "read": read,
		"zones": column(zones, func(z broadcast.Zone) string { return z.Name }),
		"walls": column(zones, func(z broadcast.Zone) pgtype.Timestamp { return localOrNull(z.At) }),
		"dues":  column(zones, func(z broadcast.Zone) *time.Time { return orNull(z.Due.UTC()) }),
		"late":  column(zones, func(z broadcast.Zone) bool { return z.Late }),
	})
	return err
}

// noBroadcast returns the error for a name of no broadcast.
func noBroadcast(name string) error {
	return asIs(fmt.Errorf("postgres: broadcast %q: %w", name, almanac.ErrNotFound))
}

// broadcast reads a broadcast.
func (s *Store) broadcast(ctx context.Context, db DB, name string) (broadcast.Status, error) {
	is, err := one(ctx, db, s.statements.Broadcasts, pgx.StrictNamedArgs{"name": name, "after": "", "limit": 1}, scanBroadcast)
	if errors.Is(err, pgx.ErrNoRows) {
		err = noBroadcast(name)
	}
	return is, err
}

func scanBroadcast(row pgx.CollectableRow) (b broadcast.Status, err error) {
	var payload, attributes *string
	var wall pgtype.Timestamp
	var instant, ended *time.Time
	var actions, principals, reasons []string
	var ats []time.Time
	if err := row.Scan(&b.Name, &b.Type, &payload, &wall, &instant, &b.Passed, &attributes, &b.Audience.Locale, &b.Audience.Zones, &b.Audience.Listed,
		&b.Newcomers, &b.State, &b.CreatedAt, &ended, &actions, &ats, &principals, &reasons); err != nil {
		return b, err
	}
	b.CreatedAt, b.EndedAt, b.Instant, b.At = b.CreatedAt.UTC(), utcOrZero(ended), utcOrZero(instant), wallOrZero(wall)
	if payload != nil {
		b.Payload = json.RawMessage(*payload)
	}
	if attributes != nil {
		b.Audience.Attributes = json.RawMessage(*attributes)
	}
	if len(b.Audience.Zones) == 0 {
		b.Audience.Zones = nil
	}
	for i, a := range actions {
		if broadcast.Action(a) == broadcast.Create {
			ats[i] = b.CreatedAt // the step is stored a moment later
		}
		b.Steps = append(b.Steps, broadcast.Step{Action: broadcast.Action(a), At: ats[i].UTC(), By: principals[i], Reason: reasons[i]})
	}
	return b, nil
}

func wallOrZero(t pgtype.Timestamp) calendar.WallTime {
	if !t.Valid {
		return calendar.WallTime{}
	}
	return calendar.WallTimeOf(t.Time)
}

// Broadcast returns a broadcast.
func (s *Store) Broadcast(ctx context.Context, name string) (is broadcast.Status, err error) {
	err = s.do(ctx, "read a broadcast", func(ctx context.Context, db DB) error {
		is, err = s.broadcast(ctx, db, name)
		return err
	})
	return is, err
}

// Broadcasts returns broadcasts, newest first.
func (s *Store) Broadcasts(ctx context.Context, after string, limit int) (list []broadcast.Status, err error) {
	err = s.do(ctx, "read broadcasts", func(ctx context.Context, db DB) error {
		list, err = all(ctx, db, s.statements.Broadcasts, pgx.StrictNamedArgs{"name": nil, "after": after, "limit": limit}, scanBroadcast)
		return err
	})
	return list, err
}

// lockBroadcast locks a broadcast against changes of its state, and reads it.
func (s *Store) lockBroadcast(ctx context.Context, tx pgx.Tx, name string) (broadcast.Status, error) {
	if _, err := all(ctx, tx, s.statements.LockBroadcast, pgx.StrictNamedArgs{"name": name}, pgx.RowTo[string]); err != nil {
		return broadcast.Status{}, err
	}
	return s.broadcast(ctx, tx, name)
}

// AddBroadcastUsers adds users to a list. It waits for transactions that delete them.
func (s *Store) AddBroadcastUsers(ctx context.Context, name string, ids []uuid.UUID, externalIDs []string) (added broadcast.AddUsersResult, err error) {
	if externalIDs == nil {
		externalIDs = []string{}
	}
	err = s.transact(ctx, "add users to a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		is, err := s.lockBroadcast(ctx, tx, name)
		if err != nil {
			return err
		}
		if is.State != broadcast.Collecting {
			return asIs(fmt.Errorf("%w: broadcast %q is %s, and takes no users", almanac.ErrInvalidStateTransition, name, is.State))
		}
		args := pgx.StrictNamedArgs{"name": name, "ids": uuids(ids), "external_ids": externalIDs}
		added, err = one(ctx, tx, s.statements.AddBroadcastUsers, args, func(row pgx.CollectableRow) (r broadcast.AddUsersResult, err error) {
			err = row.Scan(&r.Added, &r.Unknown, &r.UnknownExternalIDs)
			return r, err
		})
		return err
	})
	return added, err
}

// StepBroadcast does an action. A stop is committed first, with the pause of the lane. Then it waits for the claims that have read the
// pauses before that. See docs/adr/0078-broadcasts.md.
func (s *Store) StepBroadcast(ctx context.Context, name string, a broadcast.Action, reason string) (is broadcast.Status, err error) {
	err = s.transact(ctx, "change a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		if is, err = s.lockBroadcast(ctx, tx, name); err != nil {
			return err
		}
		to, err := is.After(a)
		if err != nil || to == is.State && (a != broadcast.Stop || !is.StopsAnew(reason)) {
			return asIs(err)
		}
		if err := s.addStep(ctx, tx, name, a, reason); err != nil {
			return err
		}
		if a == broadcast.Complete {
			_, err = tx.Exec(ctx, s.statements.CompleteBroadcast, pgx.StrictNamedArgs{"name": name})
		} else {
			_, err = tx.Exec(ctx, s.statements.SetBroadcastState, pgx.StrictNamedArgs{
				"name": name, "state": string(to), "requeue": a == broadcast.Resume && to == broadcast.Storing,
			})
		}
		if err != nil {
			return err
		}
		if is, err = s.broadcast(ctx, tx, name); err != nil {
			return err
		}
		lane := pgx.StrictNamedArgs{"name": is.Lane()}
		switch a {
		case broadcast.Stop:
			var p almanac.Pause
			if p, err = (almanac.Pause{Lane: is.Lane(), Reason: is.StopReason()}).Checked(); err == nil {
				_, err = tx.Exec(ctx, s.statements.Pause, pgx.StrictNamedArgs{"name": p.Lane, "until": nil, "reason": p.Reason})
			}
		case broadcast.Resume:
			if _, err = tx.Exec(ctx, s.statements.Resume, lane); err == nil {
				_, err = tx.Exec(ctx, s.statements.VisitAgain, lane)
			}
			if err == nil && !s.pollOnly {
				_, err = tx.Exec(ctx, s.statements.Notify, s.notification(hintPayload))
			}
		}
		return err
	})
	if err != nil || a != broadcast.Stop || s.InTransaction() {
		return is, err
	}
	err = s.transact(ctx, "wait for claims of a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, s.statements.EndClaims, pgx.StrictNamedArgs{"type": is.Type})
		return err
	})
	if errors.Is(err, almanac.ErrLocked) {
		err = fmt.Errorf("%w: %w", broadcast.ErrStillClaimed, err)
	}
	return is, err
}

// BroadcastProgress returns how far a broadcast is.
func (s *Store) BroadcastProgress(ctx context.Context, name string) (p broadcast.Progress, err error) {
	err = s.do(ctx, "read the progress of a broadcast", func(ctx context.Context, db DB) error {
		p = broadcast.Progress{}
		if p.Status, err = s.broadcast(ctx, db, name); err != nil {
			return err
		}
		if p.At, err = one(ctx, db, s.statements.Now, nil, scanTime); err != nil {
			return err
		}
		args := pgx.StrictNamedArgs{"name": name, "lane": p.Lane(), "ended": !p.EndedAt.IsZero()}
		p.Zones, err = all(ctx, db, s.statements.BroadcastProgress, args, func(row pgx.CollectableRow) (z broadcast.ZoneProgress, err error) {
			var wall pgtype.Timestamp
			var due *time.Time
			var unknown bool
			err = row.Scan(&z.Name, &wall, &due, &z.Late, &z.Read, &z.Users, &z.Stored, &z.OptedOut, &z.Refused, &z.Counts.LeftOut, &z.Delivered, &z.Failed, &z.Cancelled, &unknown)
			if z.At, z.Due, z.Skipped = wallOrZero(wall), utcOrZero(due), due == nil; unknown {
				z.Zone = p.ZoneOf(z.Name)
			}
			return z, err
		})
		slices.SortFunc(p.Zones, func(a, b broadcast.ZoneProgress) int { return a.Zone.Compare(b.Zone) })
		return err
	})
	return p, err
}

// CountBroadcast counts an audience. It reads all users.
func (s *Store) CountBroadcast(ctx context.Context, b broadcast.Broadcast) (users map[string]int, now time.Time, err error) {
	users = make(map[string]int)
	err = s.list(ctx, "count users of a broadcast", func(ctx context.Context, db DB) error {
		clear(users)
		rows, err := query(ctx, db, s.statements.CountBroadcast, audienceArgs(b))
		if err != nil {
			return err
		}
		var zone string
		var n int
		if _, err = pgx.ForEachRow(rows, []any{&zone, &n}, func() error { users[zone] = n; return nil }); err != nil {
			return err
		}
		now, err = one(ctx, db, s.statements.Now, nil, scanTime)
		return err
	})
	return users, now.UTC(), err
}

// DeleteBroadcast deletes a broadcast, or a part of its list of users.
func (s *Store) DeleteBroadcast(ctx context.Context, name string) (more bool, err error) {
	const page = 10_000
	err = s.transact(ctx, "delete a broadcast", func(ctx context.Context, tx pgx.Tx) error {
		is, err := s.lockBroadcast(ctx, tx, name)
		if err != nil {
			return err
		}
		if is.EndedAt.IsZero() {
			return asIs(fmt.Errorf("%w: broadcast %q is %s, and has not ended", almanac.ErrInvalidStateTransition, name, is.State))
		}
		more, err = one(ctx, tx, s.statements.DeleteBroadcastUsers, pgx.StrictNamedArgs{"name": name, "limit": page}, pgx.RowTo[bool])
		if err != nil || more {
			return err
		}
		for _, statement := range []string{s.statements.RemoveLane, s.statements.Resume, s.statements.CloseBreaker} {
			if _, err := tx.Exec(ctx, statement, pgx.StrictNamedArgs{"name": is.Lane()}); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, s.statements.DeleteBroadcast, pgx.StrictNamedArgs{"name": name})
		return err
	})
	return more, err
}
