package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
)

var _ broadcast.Store = (*Repository)(nil)

// broadcasted is a broadcast. The maps and slices of a stored one are replaced, never changed.
type broadcasted struct {
	broadcast.Status
	zones []broadcastZone
	users map[uuid.UUID]bool // the list
	lease uuid.UUID
	until time.Time // the end of the lease
	look  time.Time // when there is something to do; zero means never
	// again is whether events that a stop has cancelled are to be requeued, and requeued the last one that was looked at.
	again    bool
	requeued uuid.UUID
	// removed are the ended events that were pruned or deleted with their users, by zone: they still count.
	removed map[string]broadcast.ZoneProgress
}

// broadcastZone is a zone of a broadcast.
type broadcastZone struct {
	broadcast.ZoneProgress
	reads  int       // how often the zone was read
	again  int       // cancelled events that were requeued after a resume
	next   time.Time // when it is read again; zero means never
	after  uuid.UUID // the last user who was read
	locked int       // always 0: nothing is locked here
	// now are the counts of the present reading. Those of users without an event are shown when it has come to the end.
	now broadcast.Counts
}

// CreateBroadcast stores a broadcast.
func (r *Repository) CreateBroadcast(ctx context.Context, b broadcast.Broadcast) (s broadcast.Status, existed bool, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		if was, taken := r.broadcasts[b.Name]; taken {
			s, existed = was.Status, true
			return nil
		}
		if used := (broadcasted{Status: broadcast.Status{Broadcast: b}}); len(r.matching(used.owns)) > 0 {
			return fmt.Errorf("almanactest: %w: events of a deleted broadcast %q", almanac.ErrExists, b.Name)
		}
		b.Payload, b.Audience.Attributes = bytes.Clone(b.Payload), bytes.Clone(b.Audience.Attributes)
		one := broadcasted{look: now, users: make(map[uuid.UUID]bool)}
		one.Status = broadcast.Status{Broadcast: b, State: broadcast.Storing, CreatedAt: now, Steps: []broadcast.Step{{Action: broadcast.Create, At: now, By: almanac.Principal(ctx)}}}
		if b.Audience.Listed {
			one.State, one.look = broadcast.Collecting, time.Time{}
		}
		r.addZones(&one, now)
		set(&r.undo, r.broadcasts, b.Name, one)
		s = one.Status
		return nil
	})
	return s, existed, err
}

// addZones adds the zones that users have by now.
func (s *state) addZones(one *broadcasted, now time.Time) (added bool) {
	names := make(map[string]bool)
	for _, u := range s.users {
		names[u.Timezone.String()] = !u.deleted || names[u.Timezone.String()]
	}
	maps.DeleteFunc(names, func(name string, lives bool) bool {
		return !lives || slices.ContainsFunc(one.zones, func(z broadcastZone) bool { return z.Name == name })
	})
	one.zones = slices.Clone(one.zones)
	for _, z := range broadcast.ZonesOf(one.Broadcast, slices.Collect(maps.Keys(names)), one.CreatedAt) {
		one.zones = append(one.zones, broadcastZone{ZoneProgress: broadcast.ZoneProgress{Zone: z}, next: now})
		added = true
	}
	slices.SortFunc(one.zones, func(a, b broadcastZone) int { return a.Zone.Compare(b.Zone) })
	return added
}

// readAgain has zones read again after a resume.
func (b *broadcasted) readAgain(now time.Time) {
	b.zones = slices.Clone(b.zones)
	for i := range b.zones {
		if z := &b.zones[i]; z.reads > 0 && !z.Skipped {
			z.next, z.after, z.reads = now, uuid.Nil, 1
		}
	}
}

// ensureZones adds zones in which events are, unless the broadcast has them: users may have moved to zones in which no user was. Zones of
// the audience are read while events are stored.
func (b *broadcasted) ensureZones(names []string, now time.Time) {
	for _, name := range names {
		if slices.ContainsFunc(b.zones, func(z broadcastZone) bool { return z.Name == name }) {
			continue
		}
		z := broadcastZone{ZoneProgress: broadcast.ZoneProgress{Zone: b.ZoneOf(name)}}
		if b.State != broadcast.Stored && len(broadcast.ZonesOf(b.Broadcast, []string{name}, b.CreatedAt)) > 0 {
			z.next = now
		}
		b.zones = append(slices.Clip(b.zones), z)
	}
	slices.SortFunc(b.zones, func(a, b broadcastZone) int { return a.Zone.Compare(b.Zone) })
}

// named returns a broadcast.
func (s *state) named(name string) (broadcasted, error) {
	one, ok := s.broadcasts[name]
	if !ok {
		return one, fmt.Errorf("almanactest: broadcast %q: %w", name, almanac.ErrNotFound)
	}
	return one, nil
}

// Broadcast returns a broadcast.
func (r *Repository) Broadcast(ctx context.Context, name string) (s broadcast.Status, err error) {
	err = r.read(ctx, func(time.Time) error {
		one, err := r.named(name)
		s = one.Status
		return err
	})
	return s, err
}

// Broadcasts returns broadcasts, newest first.
func (r *Repository) Broadcasts(ctx context.Context, after string, limit int) (list []broadcast.Status, err error) {
	err = r.read(ctx, func(time.Time) error {
		for _, one := range r.broadcasts {
			list = append(list, one.Status)
		}
		slices.SortFunc(list, func(a, b broadcast.Status) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Name, b.Name))
		})
		if after != "" {
			last, err := r.named(after)
			if err != nil {
				return err
			}
			list = list[1+slices.IndexFunc(list, func(s broadcast.Status) bool { return s.Name == last.Name }):]
		}
		list = list[:min(limit, len(list))]
		return nil
	})
	return list, err
}

// AddBroadcastUsers adds users to a list.
func (r *Repository) AddBroadcastUsers(ctx context.Context, name string, ids []uuid.UUID, externalIDs []string) (added broadcast.AddUsersResult, err error) {
	err = r.transact(ctx, func(time.Time) error {
		one, err := r.named(name)
		if err != nil {
			return err
		}
		if one.State != broadcast.Collecting {
			return fmt.Errorf("%w: broadcast %q is %s, and takes no users", almanac.ErrInvalidStateTransition, name, one.State)
		}
		one.users = maps.Clone(one.users)
		for _, id := range externalIDs {
			if holder, known := r.holder(id); known {
				ids = append(slices.Clip(ids), holder)
			} else {
				added.UnknownExternalIDs = append(added.UnknownExternalIDs, id)
			}
		}
		before := len(one.users)
		for _, id := range ids {
			if _, err := r.visible(id); err != nil {
				added.Unknown = append(added.Unknown, id)
				continue
			}
			one.users[id] = true
		}
		added.Added = len(one.users) - before
		set(&r.undo, r.broadcasts, name, one)
		return nil
	})
	return added, err
}

// StepBroadcast does an action.
func (r *Repository) StepBroadcast(ctx context.Context, name string, a broadcast.Action, reason string) (s broadcast.Status, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		one, err := r.named(name)
		if err != nil {
			return err
		}
		to, err := one.After(a)
		if s = one.Status; err != nil || to == one.State && (a != broadcast.Stop || !one.StopsAnew(reason)) {
			return err
		}
		one.State, one.EndedAt, one.lease, one.look = to, time.Time{}, uuid.Nil, now
		if to == broadcast.Collecting {
			one.look = time.Time{}
		}
		one.Steps = append(slices.Clip(one.Steps), broadcast.Step{Action: a, At: now, By: almanac.Principal(ctx), Reason: reason})
		switch a {
		case broadcast.Stop:
			set(&r.undo, r.pauses, one.Lane(), almanac.Pause{Lane: one.Lane(), Since: now, Reason: one.StopReason(), Author: almanac.Principal(ctx)})
		case broadcast.Resume:
			set(&r.undo, r.pauses, one.Lane(), almanac.Pause{Lane: one.Lane(), Until: now})
			if to == broadcast.Storing {
				one.again, one.requeued = true, uuid.Nil
				one.readAgain(now)
			}
		}
		set(&r.undo, r.broadcasts, name, one)
		s = one.Status
		return nil
	})
	return s, err
}

// BroadcastProgress returns how far a broadcast is.
func (r *Repository) BroadcastProgress(ctx context.Context, name string) (p broadcast.Progress, err error) {
	err = r.read(ctx, func(now time.Time) error {
		one, err := r.named(name)
		p = broadcast.Progress{Status: one.Status, At: now}
		counted := r.outcomes(one)
		for _, z := range one.zones {
			is := z.ZoneProgress
			is.Read = z.reads > 0 || z.next.IsZero()
			if one.EndedAt.IsZero() {
				is.Delivered, is.Failed, is.Cancelled = counted[z.Name].Delivered, counted[z.Name].Failed, max(counted[z.Name].Cancelled-z.again, 0)
			}
			p.Zones = append(p.Zones, is)
			delete(counted, z.Name)
		}
		if one.EndedAt.IsZero() { // zones that users have moved to since
			for name, z := range counted {
				z.Zone, z.Read = one.ZoneOf(name), true
				p.Zones = append(p.Zones, z)
			}
		}
		slices.SortFunc(p.Zones, func(a, b broadcast.ZoneProgress) int { return a.Zone.Compare(b.Zone) })
		return err
	})
	return p, err
}

// outcomes counts the ended events of a broadcast by zone.
func (s *state) outcomes(one broadcasted) map[string]broadcast.ZoneProgress {
	counted := make(map[string]broadcast.ZoneProgress)
	maps.Copy(counted, one.removed)
	for _, e := range s.matching(func(e almanac.Event) bool { return one.owns(e) && e.Status.Terminal() }) {
		countEnded(counted, e)
	}
	return counted
}

// countEnded counts an ended event.
func countEnded(counted map[string]broadcast.ZoneProgress, e almanac.Event) {
	z := counted[e.Zone]
	switch e.Status {
	case almanac.Completed:
		z.Delivered++
	case almanac.Failed:
		z.Failed++
	default:
		z.Cancelled++
	}
	counted[e.Zone] = z
}

// countRemoved keeps an ended event of a broadcast in its counts.
func (s *state) countRemoved(e almanac.Event) {
	one, ok := s.broadcasts[e.OccurrenceKey]
	if !ok || !one.owns(e) || !e.Status.Terminal() {
		return
	}
	removed := make(map[string]broadcast.ZoneProgress)
	maps.Copy(removed, one.removed)
	countEnded(removed, e)
	one.removed = removed
	set(&s.undo, s.broadcasts, one.Name, one)
}

// owns reports whether an event is one of a broadcast, or repeats one.
func (b broadcasted) owns(e almanac.Event) bool {
	return e.Type == b.Type && e.Lane == b.Lane() && e.OccurrenceKey == b.Name && (e.Origin.Kind == almanac.OriginScheduled || e.Origin.Kind == almanac.OriginRequeued)
}

// CountBroadcast counts an audience.
func (r *Repository) CountBroadcast(ctx context.Context, b broadcast.Broadcast) (users map[string]int, now time.Time, err error) {
	users = make(map[string]int)
	err = r.read(ctx, func(at time.Time) error {
		now = at
		for id, u := range r.users {
			if !u.deleted && b.Audience.Matches(u.User) && (!b.Audience.Listed || r.broadcasts[b.Name].users[id]) {
				users[u.Timezone.String()]++
			}
		}
		return nil
	})
	return users, now, err
}

// DeleteBroadcast deletes a broadcast.
func (r *Repository) DeleteBroadcast(ctx context.Context, name string) (more bool, err error) {
	return false, r.transact(ctx, func(now time.Time) error {
		one, err := r.named(name)
		if err != nil {
			return err
		}
		if one.EndedAt.IsZero() {
			return fmt.Errorf("%w: broadcast %q is %s, and has not ended", almanac.ErrInvalidStateTransition, name, one.State)
		}
		remove(&r.undo, r.broadcasts, name)
		remove(&r.undo, r.limits, one.Lane())
		remove(&r.undo, r.pauses, one.Lane())
		return nil
	})
}
