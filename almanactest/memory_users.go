package almanactest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// CreateUser stores a user and their first events.
func (r *Repository) CreateUser(ctx context.Context, u almanac.User, events ...almanac.Event) (stored almanac.User, owed []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		if _, taken := r.users[u.ID]; taken {
			return fmt.Errorf("%w: user %s", almanac.ErrExists, u.ID)
		}
		u.CreatedAt, u.UpdatedAt, u.Version = now, now, 1
		stored = r.putUser(u)
		for _, e := range events {
			e, inserted, err := r.insert(e, now)
			if err != nil {
				return err
			}
			if !inserted {
				return fmt.Errorf("%w: an occurrence of user %s twice", almanac.ErrExists, u.ID)
			}
			owed = append(owed, e)
		}
		return nil
	})
	if err != nil {
		return almanac.User{}, nil, err
	}
	return stored, owed, nil
}

func (s *state) putUser(u almanac.User) almanac.User {
	kept := u
	kept.Attributes = bytes.Clone(u.Attributes)
	s.users[u.ID] = user{User: kept}
	return u
}

// User returns a user.
func (r *Repository) User(ctx context.Context, id uuid.UUID) (u almanac.User, err error) {
	err = r.read(ctx, func(time.Time) error {
		u, err = r.visible(id)
		return err
	})
	return u, err
}

// EditUser changes a user and their open events.
func (r *Repository) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (stored almanac.Edit, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		r.takeBackAll(id, now)
		roster, err := r.roster(id, now)
		if err != nil {
			return err
		}
		for {
			wanted, err := edit(roster)
			if err != nil {
				return err
			}
			if spent := r.spent(roster, wanted.Added); len(spent) > 0 {
				roster.Used = spent
				continue
			}
			stored, err = r.apply(wanted, now)
			return err
		}
	})
	if err != nil {
		return almanac.Edit{}, err
	}
	return stored, nil
}

func (s *state) roster(id uuid.UUID, now time.Time) (almanac.Roster, error) {
	u, err := s.visible(id)
	if err != nil {
		return almanac.Roster{}, err
	}
	roster := almanac.Roster{User: u, Used: make(map[string][]string), Now: now}
	for _, e := range s.matching(func(e almanac.Event) bool { return e.UserID == id }) {
		switch {
		case e.ClaimCount > 0 && !e.Status.Terminal():
			roster.InFlight = append(roster.InFlight, e)
		case e.Status == almanac.Pending:
			roster.Pending = append(roster.Pending, e)
		}
		if e.Status.Terminal() || e.RequeuedFrom != uuid.Nil {
			continue
		}
		if e.ClaimCount > 0 {
			roster.Used[e.Type] = use(roster.Used[e.Type], e.OccurrenceKey)
		} else if key := s.used[seriesOf(e)]; key != "" {
			roster.Used[e.Type] = use(roster.Used[e.Type], key)
		}
	}
	return roster, nil
}

// spent returns what a roster says of used keys with those besides that new events
// would meet in series without an open event; nil if it says all of them.
func (s *state) spent(r almanac.Roster, added []almanac.Event) map[string][]string {
	used, news := make(map[string][]string), false
	for eventType, keys := range r.Used {
		used[eventType] = slices.Clone(keys)
	}
	for _, e := range added {
		key := s.used[seriesOf(e)]
		if key == "" || e.OccurrenceKey > key || s.hasOpen(seriesOf(e)) || slices.Contains(used[e.Type], key) {
			continue
		}
		used[e.Type], news = use(used[e.Type], key), true
	}
	if !news {
		return nil
	}
	return used
}

// use adds a key to the greatest ones of each series.
func use(greatest []string, key string) []string {
	i := slices.IndexFunc(greatest, func(other string) bool { return seriesName(other) == seriesName(key) })
	if i < 0 {
		greatest = append(greatest, key)
	} else {
		greatest[i] = max(greatest[i], key)
	}
	slices.Sort(greatest)
	return greatest
}

func (s *state) apply(wanted almanac.Edit, now time.Time) (stored almanac.Edit, err error) {
	if wanted.User != nil {
		u := *wanted.User
		was, ok := s.users[u.ID]
		if !ok || was.Version != u.Version-1 {
			return stored, fmt.Errorf("almanactest: user %s is not at version %d", u.ID, u.Version-1)
		}
		u.CreatedAt, u.UpdatedAt = was.CreatedAt, now
		u = s.putUser(u)
		stored.User = &u
	}
	for _, e := range wanted.Removed {
		if err := s.unclaimed(e.ID, e.Version); err != nil {
			return stored, err
		}
		stored.Removed = append(stored.Removed, s.events[e.ID])
		delete(s.events, e.ID)
	}
	for _, e := range wanted.Cancelled {
		e, err := s.cancel(e, now)
		if err != nil {
			return stored, err
		}
		if slices.Contains(wanted.Unplanned, e.ID) {
			s.waits[seriesOf(e)] = e.OccurrenceKey
		}
		stored.Cancelled = append(stored.Cancelled, e)
	}
	stored.Unplanned = wanted.Unplanned
	for _, e := range wanted.Moved {
		if err := s.unclaimed(e.ID, e.Version-1); err != nil {
			return stored, err
		}
		e, err := s.move(e, now)
		if err != nil {
			return stored, err
		}
		stored.Moved = append(stored.Moved, e)
	}
	for _, e := range wanted.Hurried {
		e, err := s.hurry(e, now)
		if err != nil {
			return stored, err
		}
		stored.Hurried = append(stored.Hurried, e)
	}
	for _, e := range wanted.Added {
		e, inserted, err := s.insert(e, now)
		if err != nil {
			return stored, err
		}
		if inserted {
			stored.Added = append(stored.Added, e)
		}
	}
	for _, e := range wanted.Requeued {
		if e, inserted := s.requeue(e, now); inserted {
			stored.Requeued = append(stored.Requeued, e)
		}
	}
	return stored, nil
}

// move gives a pending event another target. What it is by birth stays.
func (s *state) move(to almanac.Event, now time.Time) (almanac.Event, error) {
	e := s.events[to.ID]
	e.OccurrenceKey, e.Due, e.AvailableAt, e.Wall, e.Zone = to.OccurrenceKey, to.Due, to.Due, to.Wall, to.Zone
	e.Policies, e.Payload, e.UserVersion, e.Version = to.Policies.WithDefaults(), to.Payload, to.UserVersion, to.Version
	e.PlannedBy = to.PlannedBy
	if err := storable(e); err != nil {
		return e, err
	}
	if seriesOf(e) != seriesOf(s.events[e.ID]) || s.usedUp(e) {
		return e, &almanac.OptimisticLockError{EventID: e.ID, Expected: e.Version - 1}
	}
	return s.put(e, now), nil
}

// unclaimed checks that an event is pending, was never claimed, and is at a version.
func (s *state) unclaimed(id uuid.UUID, version int) error {
	e, ok := s.events[id]
	if !ok || e.Version != version || e.Status != almanac.Pending || e.ClaimCount > 0 {
		return &almanac.OptimisticLockError{EventID: id, Expected: version}
	}
	return nil
}

// DeleteUser deletes a user, or hides them while something is in flight.
func (r *Repository) DeleteUser(ctx context.Context, id uuid.UUID, how almanac.Delete) (d almanac.Deletion, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		u, ok := r.users[id]
		if !ok || u.deleted && !how.AtOnce {
			return &almanac.NotFoundError{Kind: "user", ID: id}
		}
		if how.Version != 0 && how.Version != u.Version {
			return &almanac.OptimisticLockError{UserID: id, Expected: how.Version}
		}
		r.takeBackAll(id, now)
		d = almanac.Deletion{}
		for _, e := range r.matching(func(e almanac.Event) bool { return e.UserID == id }) {
			switch e.Status {
			case almanac.Pending:
				d.Removed++
				delete(r.events, e.ID)
			case almanac.Processing:
				d.InFlight = append(d.InFlight, e.ID)
			default:
			}
		}
		if how.AtOnce {
			r.remove(id)
			return nil
		}
		r.users[id] = user{u.User, true}
		r.removeHidden()
		return nil
	})
	return d, err
}

// removeHidden removes deleted users of whom nothing is in flight.
func (s *state) removeHidden() {
	busy := make(map[uuid.UUID]bool)
	for _, e := range s.events {
		busy[e.UserID] = busy[e.UserID] || e.Status == almanac.Processing
	}
	for id, u := range s.users {
		if u.deleted && !busy[id] {
			s.remove(id)
		}
	}
}

// remove deletes a user with all their events.
func (s *state) remove(id uuid.UUID) {
	maps.DeleteFunc(s.events, func(_ uuid.UUID, e almanac.Event) bool { return e.UserID == id })
	maps.DeleteFunc(s.used, func(one series, _ string) bool { return one.user == id })
	maps.DeleteFunc(s.waits, func(one series, _ string) bool { return one.user == id })
	delete(s.users, id)
}
