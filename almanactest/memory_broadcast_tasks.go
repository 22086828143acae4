package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

// TakeBroadcast leases a broadcast.
func (r *Repository) TakeBroadcast(ctx context.Context, token uuid.UUID, term time.Duration, without []string) (t broadcast.Task, found bool, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		names := slices.Sorted(maps.Keys(r.broadcasts))
		slices.SortStableFunc(names, func(a, b string) int {
			return cmp.Or(cmp.Compare(r.broadcasts[a].turn(), r.broadcasts[b].turn()), r.broadcasts[a].look.Compare(r.broadcasts[b].look))
		})
		for _, name := range names {
			one := r.broadcasts[name]
			unplanned := one.State == broadcast.Storing && (slices.Contains(without, one.Type) || slices.Contains(without, one.Lane()))
			if unplanned && one.lease == token {
				one.lease = uuid.Nil
				set(&r.undo, r.broadcasts, name, one)
			}
			if one.look.IsZero() || one.look.After(now) || one.until.After(now) && one.lease != token && one.lease != uuid.Nil || unplanned && !one.again {
				continue
			}
			t, found = r.nextTask(&one, now)
			if found {
				one.lease, one.until, one.look = token, now.Add(term), now // so that broadcasts take turns
				if one.State == broadcast.Stopped {
					one.look = now.Add(10 * time.Second) // CancelBroadcast sets it back: one that fails keeps no other waiting
				}
				t.Token = token
			}
			set(&r.undo, r.broadcasts, name, one)
			if found {
				return nil
			}
		}
		return nil
	})
	return t, found, err
}

// turn orders broadcasts: stopped ones come first.
func (b broadcasted) turn() int {
	if b.State == broadcast.Stopped {
		return 0
	}
	return 1
}

// nextTask returns what is to be done for a broadcast, or notes when to look again.
func (s *state) nextTask(one *broadcasted, now time.Time) (t broadcast.Task, found bool) {
	t.Status = one.Status
	switch one.State {
	case broadcast.Storing:
		if t.Requeue = one.again; t.Requeue {
			return t, true
		}
		if i := one.dueZone(now); i >= 0 {
			t.Zone = one.zones[i].Zone
			return t, true
		}
		if s.addZones(one, now) {
			t.Zone = one.zones[one.dueZone(now)].Zone
			return t, true
		}
		one.look = time.Time{}
		for _, z := range one.zones {
			if !z.next.IsZero() && (one.look.IsZero() || z.next.Before(one.look)) {
				one.look = z.next
			}
		}
		if soon := now.Add(time.Minute); one.look.After(soon) {
			one.look = soon
		}
		if !one.look.IsZero() {
			return t, false
		}
		one.State, one.look = broadcast.Stored, now
	case broadcast.Stopped:
		if s.has(*one, almanac.Pending) {
			return t, true
		}
	}
	one.look = now.Add(10 * time.Second)
	if !s.has(*one, almanac.Pending) && !s.has(*one, almanac.Processing) {
		one.end(s.outcomes(*one), now)
	}
	return t, false
}

// dueZone returns the index of the zone to read next, or -1.
func (b broadcasted) dueZone(now time.Time) int {
	next := -1
	for i, z := range b.zones {
		if !z.next.IsZero() && !z.next.After(now) && (next < 0 || z.reads < b.zones[next].reads) {
			next = i
		}
	}
	return next
}

// has reports whether a broadcast has events with a status.
func (s *state) has(one broadcasted, status almanac.Status) bool {
	return len(s.matching(func(e almanac.Event) bool { return e.Status == status && one.owns(e) })) > 0
}

// end notes that all events have ended.
func (b *broadcasted) end(counted map[string]broadcast.ZoneProgress, now time.Time) {
	b.EndedAt, b.look, b.zones = now, time.Time{}, slices.Clone(b.zones)
	b.ensureZones(slices.Sorted(maps.Keys(counted)), now)
	if b.State != broadcast.Stopped {
		b.State = broadcast.Ended
	}
	for i := range b.zones {
		z := &b.zones[i]
		z.Delivered, z.Failed, z.Cancelled = counted[z.Name].Delivered, counted[z.Name].Failed, max(counted[z.Name].Cancelled-z.again, 0)
	}
}

// StoreBroadcast stores the events of a page of users.
func (r *Repository) StoreBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (added almanac.AddEventsResult, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		one, err := r.leased(t, broadcast.Storing)
		if err != nil {
			return err
		}
		one.until = now.Add(term)
		i := slices.IndexFunc(one.zones, func(z broadcastZone) bool { return z.Name == t.Zone.Name })
		one.zones = slices.Clone(one.zones)
		z := &one.zones[i]
		ids := r.audience(one, t, z.after, limit)
		counts := broadcast.Counts{Users: len(ids), LeftOut: len(ids)}
		if !t.Zone.Skipped {
			if counts, added, err = r.storePage(t, ids, now, plan); err != nil {
				return err
			}
		}
		z.count(counts)
		if z.after = uuid.Nil; len(ids) == limit {
			z.after = ids[limit-1]
		} else {
			z.reads++
			z.OptedOut, z.Refused = z.now.OptedOut, z.now.Refused
			z.Users = max(z.Users, z.Stored+z.OptedOut+z.Refused+z.Counts.LeftOut)
			z.next = t.Next(z.reads, z.locked, z.next, now)
		}
		set(&r.undo, r.broadcasts, t.Name, one)
		return nil
	})
	return added, err
}

// leased returns the broadcast of a task that may still be done.
func (s *state) leased(t broadcast.Task, state broadcast.State) (broadcasted, error) {
	one, ok := s.broadcasts[t.Name]
	if !ok || one.State != state || one.lease != t.Token {
		return one, broadcast.ErrTaken
	}
	return one, nil
}

// audience returns the next users of a zone who have no event of the broadcast.
func (s *state) audience(one broadcasted, t broadcast.Task, after uuid.UUID, limit int) (ids []uuid.UUID) {
	for id, u := range s.users {
		of := series{id, almanac.SeriesOf(almanac.Event{Type: t.Type, OccurrenceKey: t.Name, Origin: almanac.Origin{Kind: almanac.OriginScheduled}})}
		if u.deleted || u.Timezone.String() != t.Zone.Name || u.CreatedAt.After(t.Until()) || bytes.Compare(id[:], after[:]) <= 0 ||
			!t.Audience.Matches(u.User) || t.Audience.Listed && !one.users[id] || s.hasOpen(of) || len(s.used[of]) > 0 {
			continue
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return ids[:min(limit, len(ids))]
}

// storePage stores the events of users.
func (r *Repository) storePage(t broadcast.Task, ids []uuid.UUID, now time.Time, plan func([]almanac.UserSeries, time.Time) ([]almanac.Event, []almanac.Refusal, error)) (counts broadcast.Counts, added almanac.AddEventsResult, err error) {
	list := make([]almanac.UserSeries, len(ids))
	for i, id := range ids {
		list[i] = r.userSeries(id, t.Type)
	}
	var refusals []almanac.Refusal
	wanted, err := r.planAll(list, now, func(users []almanac.UserSeries, now time.Time) (events []almanac.Event, err error) {
		events, refusals, err = plan(users, now)
		return events, err
	})
	if err != nil {
		return counts, added, err
	}
	stored, refused := r.insertPlanned(wanted, now)
	added.Users, added.Events = len(ids), stored
	for id, err := range refused {
		added.Refused = append(added.Refused, almanac.Refusal{UserID: id, Err: err})
	}
	counts = broadcast.Counts{Users: len(ids), Stored: len(stored), Refused: len(refused)}
	for _, one := range refusals {
		if errors.Is(one.Err, almanac.ErrOptedOut) {
			counts.OptedOut++
		} else {
			counts.Refused++
		}
	}
	return counts, added, nil
}

// count adds the counts of a page. Later readings meet the users again who have no event. Until the end of such a reading, the users who have
// opted out or were refused are those of the reading before.
func (z *broadcastZone) count(c broadcast.Counts) {
	if z.after == uuid.Nil {
		z.now = broadcast.Counts{}
	}
	z.now.Add(c)
	if z.reads == 0 {
		z.Counts.Add(c)
		return
	}
	z.Stored += c.Stored
	z.Users = max(z.Users, z.Stored)
}

// RequeueBroadcast requeues events of a broadcast that a stop has cancelled.
func (r *Repository) RequeueBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int, again func([]almanac.Event, []almanac.User, time.Time) ([]almanac.Event, error)) (stored []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		one, err := r.leased(t, broadcast.Storing)
		if err != nil {
			return err
		}
		cancelled := r.matching(func(e almanac.Event) bool {
			return one.owns(e) && e.Status == almanac.Cancelled && strings.HasPrefix(e.FailureReason, broadcast.WasStopped) && bytes.Compare(e.ID[:], one.requeued[:]) > 0
		})
		slices.SortFunc(cancelled, func(a, b almanac.Event) int { return bytes.Compare(a.ID[:], b.ID[:]) })
		cancelled = cancelled[:min(limit, len(cancelled))]
		one.until, one.again, one.zones = now.Add(term), len(cancelled) > 0, slices.Clone(one.zones)
		if one.again {
			one.requeued = cancelled[len(cancelled)-1].ID
		}
		cancelled = slices.DeleteFunc(cancelled, func(e almanac.Event) bool { return r.users[e.UserID].deleted })
		users, was := make([]almanac.User, len(cancelled)), make(map[uuid.UUID]string, len(cancelled))
		for i, e := range cancelled {
			users[i], was[e.ID] = r.users[e.UserID].User, e.Zone
		}
		events, err := again(cancelled, users, now)
		if err != nil {
			return err
		}
		for _, e := range events {
			is, inserted, err := r.insert(e, now)
			if err != nil {
				return err
			}
			if !inserted {
				continue
			}
			stored = append(stored, is)
			zone := was[e.Origin.From] // where it counts as cancelled
			one.ensureZones([]string{zone}, now)
			if i := slices.IndexFunc(one.zones, func(z broadcastZone) bool { return z.Name == zone }); i >= 0 {
				one.zones[i].again++
			}
		}
		set(&r.undo, r.broadcasts, t.Name, one)
		return nil
	})
	if err != nil {
		return nil, err // it is undone
	}
	return stored, nil
}

// CancelBroadcast cancels pending events of a stopped broadcast.
func (r *Repository) CancelBroadcast(ctx context.Context, t broadcast.Task, term time.Duration, limit int) (cancelled []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		one, err := r.leased(t, broadcast.Stopped)
		if err != nil {
			return err
		}
		one.until, one.look = now.Add(term), now
		set(&r.undo, r.broadcasts, t.Name, one)
		pending := r.matching(func(e almanac.Event) bool {
			return e.Status == almanac.Pending && one.owns(e)
		})
		for _, e := range pending[:min(limit, len(pending))] {
			if e, err = e.Cancel(t.StopReason()); err != nil {
				return err
			}
			cancelled = append(cancelled, r.put(e, now))
		}
		return nil
	})
	if err != nil {
		return nil, err // it is undone
	}
	return cancelled, nil
}
