package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

// broadcastsOf returns the broadcasts of a schema. The error matches [errors.ErrUnsupported] if it has none.
func (s *Store) broadcastsOf(schema int) (broadcast.Store, error) {
	if _, err := s.at(schema); err != nil {
		return nil, err
	}
	if s.schemas[schema].Broadcasts == nil {
		return nil, errUnsupported("schema " + s.names[schema] + " has no broadcasts")
	}
	return s.schemas[schema].Broadcasts, nil
}

// broadcasts is all for broadcasts.
func broadcasts[T any](ctx context.Context, s *Store, call func(context.Context, broadcast.Store) (T, error)) ([]answer[T], error) {
	return allIndexed(ctx, s, func(ctx context.Context, schema int) (none T, err error) {
		store, err := s.broadcastsOf(schema)
		if err != nil {
			return none, err
		}
		return call(ctx, store)
	})
}

// refused is the result of a schema, or why the schema has refused the call.
type refused[T any] struct {
	is  T
	err error
}

// aboutOne is broadcasts for one broadcast, and for a function that gets the index of the schema. It returns the results of the schemas that have done the call, and of those that have refused
// it because of the state of the broadcast. Schemas that do not have the broadcast are left out. If none has done the call, the error is that
// of a schema that has refused it, or matches [almanac.ErrNotFound].
func aboutOne[T any](ctx context.Context, s *Store, call func(context.Context, int, broadcast.Store) (T, error)) (done, others []answer[refused[T]], err error) {
	answers, err := allIndexed(ctx, s, func(ctx context.Context, schema int) (one refused[T], err error) {
		store, err := s.broadcastsOf(schema)
		if err != nil {
			return one, err
		}
		if one.is, err = call(ctx, schema, store); errors.Is(err, almanac.ErrNotFound) || errors.Is(err, almanac.ErrInvalidStateTransition) {
			one.err, err = err, nil
		}
		return one, err
	})
	var unknown error
	for _, one := range answers {
		switch {
		case one.is.err == nil:
			done = append(done, one)
		case errors.Is(one.is.err, almanac.ErrNotFound):
			unknown = one.is.err
		default:
			others = append(others, one)
		}
	}
	switch {
	case len(done) > 0:
	case len(others) > 0:
		err = others[0].is.err
	case err == nil:
		err = unknown
	}
	return done, others, err
}

// CreateBroadcast stores a broadcast in one schema after another. If a schema has one with the name and another content, it returns that one.
// If a schema does not answer, the broadcast is stored in the others, and the error is a [*PartialError]; the call can be repeated. The time that has
// passed in a zone is judged by each schema when it stores the broadcast. If the broadcast was stopped meanwhile, a repeated call stores it as stopped. If a schema has events of a deleted broadcast with the name,
// the broadcast is stopped in those that have just stored it.
func (s *Store) CreateBroadcast(ctx context.Context, b broadcast.Broadcast) (is broadcast.Status, existed bool, err error) {
	if s.bound >= 0 && len(s.names) > 1 {
		return is, false, &BoundError{s.names[(s.bound+1)%len(s.names)], s.names[s.bound]}
	}
	known, _, err := aboutOne(ctx, s, func(ctx context.Context, _ int, store broadcast.Store) (broadcast.Status, error) {
		return store.Broadcast(ctx, b.Name)
	})
	if _, partial := asPartial(err); err != nil && !partial && !errors.Is(err, almanac.ErrNotFound) {
		return is, false, err
	}
	for _, one := range known {
		if len(b.Differences(one.is.is.Broadcast)) > 0 {
			return one.is.is, true, nil
		}
	}
	failed := s.failures()
	var stored []broadcast.Status
	var created []int
	for i := range s.names {
		one, was, err := s.createIn(ctx, i, b, statuses(known))
		other := was && len(b.Differences(one.Broadcast)) > 0
		if other || isRefusal(err) || errors.Is(err, almanac.ErrExists) {
			s.withdraw(ctx, b.Name, created, s.names[i])
			return one, other, err
		}
		if failed.add(i, err); err != nil {
			continue
		}
		if existed = existed || was; !was {
			created = append(created, i)
		}
		stored = append(stored, one)
	}
	if len(stored) > 0 {
		is = mergedStatus(stored)
	}
	return is, existed, cmp.Or(ended(ctx), failed.partial())
}

// createIn stores a broadcast in a schema. If others have it and it is stopped there, it is stopped here, too: its lane is paused first, so that no
// event is claimed meanwhile.
func (s *Store) createIn(ctx context.Context, schema int, b broadcast.Broadcast, others []broadcast.Status) (is broadcast.Status, existed bool, err error) {
	store, err := s.broadcastsOf(schema)
	if err != nil {
		return is, false, err
	}
	if err := s.present(ctx, schema); err != nil {
		return is, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	if len(others) == 0 || mergedStatus(others).State != broadcast.Stopped {
		return store.CreateBroadcast(ctx, b)
	}
	if is, err = store.Broadcast(ctx, b.Name); !errors.Is(err, almanac.ErrNotFound) {
		return is, err == nil, err
	}
	if err := s.schemas[schema].Repository.Pause(ctx, almanac.Pause{Lane: b.Lane()}); err != nil {
		return is, false, err
	}
	if is, existed, err = store.CreateBroadcast(ctx, b); err != nil || existed {
		return is, existed, err
	}
	reason := mergedStatus(others).StopReason()
	is, err = store.StepBroadcast(ctx, b.Name, broadcast.Stop, strings.TrimPrefix(strings.TrimPrefix(reason, broadcast.WasStopped), ": "))
	return is, false, err
}

// withdraw stops a broadcast in schemas, because another one has refused it.
func (s *Store) withdraw(ctx context.Context, name string, schemas []int, refusedBy string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	for _, i := range schemas {
		_, err := s.schemas[i].Broadcasts.StepBroadcast(ctx, name, broadcast.Stop, "schema "+refusedBy+" has refused it")
		s.failures().add(i, err)
	}
}

// states are the states of a broadcast in the order in which that of a schema counts for all.
var states = []broadcast.State{broadcast.Stopped, broadcast.Collecting, broadcast.Storing, broadcast.Stored, broadcast.Ended}

// mergedStatus returns what several schemas have of a broadcast, as one. It has ended when it has ended in all.
func mergedStatus(list []broadcast.Status) broadcast.Status {
	is := list[0]
	for _, one := range list[1:] {
		is.CreatedAt = earliest(is.CreatedAt, one.CreatedAt)
		if slices.Index(states, one.State) < slices.Index(states, is.State) {
			is.State = one.State
		}
		if len(one.Steps) > len(is.Steps) {
			is.Steps = one.Steps
		}
		if is.EndedAt.IsZero() || one.EndedAt.IsZero() {
			is.EndedAt = time.Time{}
		} else if one.EndedAt.After(is.EndedAt) {
			is.EndedAt = one.EndedAt
		}
	}
	return is
}

// statuses returns the results.
func statuses(answers []answer[refused[broadcast.Status]]) (list []broadcast.Status) {
	for _, one := range answers {
		list = append(list, one.is.is)
	}
	return list
}

// Broadcast returns a broadcast as the schemas have it together. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Broadcast(ctx context.Context, name string) (is broadcast.Status, err error) {
	found, _, err := aboutOne(ctx, s, func(ctx context.Context, _ int, store broadcast.Store) (broadcast.Status, error) {
		return store.Broadcast(ctx, name)
	})
	if len(found) > 0 {
		is = mergedStatus(statuses(found))
	}
	return is, err
}

// Broadcasts merges the broadcasts of the schemas. It reads all broadcasts. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) Broadcasts(ctx context.Context, after string, limit int) ([]broadcast.Status, error) {
	const page = 1000
	answers, err := broadcasts(ctx, s, func(ctx context.Context, store broadcast.Store) (list []broadcast.Status, err error) {
		for last := ""; ; last = list[len(list)-1].Name {
			more, err := store.Broadcasts(ctx, last, page)
			if list = append(list, more...); err != nil || len(more) < page {
				return list, err
			}
		}
	})
	byName := make(table[string, broadcast.Status])
	for _, one := range joined(answers) {
		byName.add(one.Name, one, func(a, b broadcast.Status) broadcast.Status { return mergedStatus([]broadcast.Status{a, b}) })
	}
	list := byName.sorted(func(a, b broadcast.Status) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Name, b.Name))
	})
	if after != "" {
		last := slices.IndexFunc(list, func(one broadcast.Status) bool { return one.Name == after })
		if last < 0 {
			return nil, cmp.Or(err, fmt.Errorf("shards: broadcast %q: %w", after, almanac.ErrNotFound))
		}
		list = list[last+1:]
	}
	return list[:min(limit, len(list))], err
}

// AddBroadcastUsers adds each user in the schema of the user. If a schema does not answer, its users are not added, and the error is a
// [*PartialError]. Then an external id of one of them is reported as unknown. The call can be repeated. It is the same if a schema of the users does
// not have the broadcast, because a call of CreateBroadcast did not reach it: repeat that first.
func (s *Store) AddBroadcastUsers(ctx context.Context, name string, ids []uuid.UUID, externalIDs []string) (added broadcast.AddUsersResult, err error) {
	groups := bySchema(s, ids, func(id uuid.UUID) uuid.UUID { return id })
	lacks := make([]bool, len(s.names))
	done, others, err := aboutOne(ctx, s, func(ctx context.Context, schema int, store broadcast.Store) (broadcast.AddUsersResult, error) {
		one, err := store.AddBroadcastUsers(ctx, name, pick(ids, groups[schema]), externalIDs)
		lacks[schema] = errors.Is(err, almanac.ErrNotFound)
		return one, err
	})
	if len(others) > 0 {
		return added, others[0].is.err
	}
	unknown := make(map[string]int)
	for _, one := range done {
		added.Added += one.is.is.Added
		added.Unknown = append(added.Unknown, one.is.is.Unknown...)
		for _, id := range one.is.is.UnknownExternalIDs {
			if unknown[id]++; unknown[id] == len(done) {
				added.UnknownExternalIDs = append(added.UnknownExternalIDs, id)
			}
		}
	}
	failed := s.failures()
	if !failed.takes(err) || len(done) == 0 {
		return added, err
	}
	for schema, is := range lacks {
		if is && len(groups[schema])+len(added.UnknownExternalIDs) > 0 {
			failed.add(schema, fmt.Errorf("shards: schema %s does not have broadcast %q: start it again, and then add its users", s.names[schema], name))
		}
	}
	return added, failed.partial()
}

// StepBroadcast does an action in all schemas at once. If a schema does not answer, the error is a [*PartialError], and the call can be
// repeated. A schema in which the broadcast has ended is left out, unless it has ended in all.
func (s *Store) StepBroadcast(ctx context.Context, name string, a broadcast.Action, reason string) (is broadcast.Status, err error) {
	if s.bound >= 0 && len(s.names) > 1 {
		return is, &BoundError{s.names[(s.bound+1)%len(s.names)], s.names[s.bound]}
	}
	done, others, err := aboutOne(ctx, s, func(ctx context.Context, _ int, store broadcast.Store) (broadcast.Status, error) {
		is, err := store.StepBroadcast(ctx, name, a, reason)
		if !errors.Is(err, almanac.ErrInvalidStateTransition) {
			return is, err
		}
		now, readErr := store.Broadcast(ctx, name)
		return now, cmp.Or(readErr, err)
	})
	if len(done) == 0 {
		return is, err
	}
	failed := s.failures()
	failed.takes(err)
	for _, one := range others {
		if one.is.is.State != broadcast.Ended {
			failed.add(one.schema, one.is.err)
		}
	}
	return mergedStatus(statuses(append(done, others...))), failed.partial()
}

// BroadcastProgress adds the counts of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) BroadcastProgress(ctx context.Context, name string) (p broadcast.Progress, err error) {
	found, _, err := aboutOne(ctx, s, func(ctx context.Context, _ int, store broadcast.Store) (broadcast.Progress, error) {
		return store.BroadcastProgress(ctx, name)
	})
	if len(found) == 0 {
		return p, err
	}
	zones := make(table[string, broadcast.ZoneProgress])
	var list []broadcast.Status
	for _, one := range found {
		list, p.At = append(list, one.is.is.Status), earliest(p.At, one.is.is.At)
		for _, z := range one.is.is.Zones {
			zones.add(z.Name, z, mergedZone)
		}
	}
	p.Status, p.Zones = mergedStatus(list), zones.sorted(func(a, b broadcast.ZoneProgress) int { return a.Zone.Compare(b.Zone) })
	return p, err
}

// mergedZone adds what two schemas have of a zone. If one of them leaves the zone out, because its time had passed there, the other one counts.
func mergedZone(a, b broadcast.ZoneProgress) broadcast.ZoneProgress {
	if a.Skipped {
		a.Zone = b.Zone
	}
	a.Counts.Add(b.Counts)
	a.Delivered, a.Failed, a.Cancelled = a.Delivered+b.Delivered, a.Failed+b.Failed, a.Cancelled+b.Cancelled
	a.Read = a.Read && b.Read
	return a
}

// BroadcastsAbout asks the schema of the user.
func (s *Store) BroadcastsAbout(ctx context.Context, u almanac.User, eventType string, day calendar.Date) ([]broadcast.About, error) {
	store, err := s.broadcastsOf(s.of(u.ID))
	if err != nil {
		return nil, err
	}
	return store.BroadcastsAbout(ctx, u, eventType, day)
}

// CountBroadcast adds the counts of the schemas. If a schema does not answer, it also returns a [*PartialError].
func (s *Store) CountBroadcast(ctx context.Context, b broadcast.Broadcast) (users map[string]int, now time.Time, err error) {
	type counted struct {
		users map[string]int
		now   time.Time
	}
	answers, err := broadcasts(ctx, s, func(ctx context.Context, store broadcast.Store) (c counted, err error) {
		c.users, c.now, err = store.CountBroadcast(ctx, b)
		return c, err
	})
	users = make(map[string]int)
	for _, one := range answers {
		for zone, n := range one.is.users {
			users[zone] += n
		}
		now = earliest(now, one.is.now)
	}
	return users, now, err
}

// DeleteBroadcast deletes a broadcast that has ended in all schemas. It deletes nothing if a schema does not answer.
func (s *Store) DeleteBroadcast(ctx context.Context, name string) (more bool, err error) {
	found, _, err := aboutOne(ctx, s, func(ctx context.Context, _ int, store broadcast.Store) (broadcast.Status, error) {
		return store.Broadcast(ctx, name)
	})
	if err != nil {
		return false, err
	}
	slices.SortStableFunc(found, func(a, b answer[refused[broadcast.Status]]) int { // the zero time first, which refuses
		return a.is.is.EndedAt.Compare(b.is.is.EndedAt)
	})
	for _, one := range found {
		part, err := s.schemas[one.schema].Broadcasts.DeleteBroadcast(ctx, name)
		if err != nil && !errors.Is(err, almanac.ErrNotFound) {
			return more, err
		}
		more = more || part
	}
	return more, nil
}
