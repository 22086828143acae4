package almanactest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/fold"
)

// createUser stores a user and their first events.
func (r *Repository) createUser(ctx context.Context, u almanac.User, events []almanac.Event) (stored almanac.User, created []almanac.Event, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		seen := make(map[almanac.Series]bool, len(events))
		for _, e := range events {
			one := almanac.SeriesOf(e)
			if seen[one] {
				return fmt.Errorf("%w: an occurrence of user %s twice", almanac.ErrExists, u.ID)
			}
			seen[one] = true
		}
		if was, taken := r.users[u.ID]; taken && was.deleted {
			return fmt.Errorf("%w: user %s is being deleted", almanac.ErrLocked, u.ID)
		} else if taken {
			return fmt.Errorf("%w: user %s", almanac.ErrExists, u.ID)
		}
		taken := r.externalIDTaken(u)
		u.CreatedAt, u.UpdatedAt, u.Version = now, now, 1
		stored = r.putUser(u)
		for _, e := range events {
			e, _, err := r.insert(e, now)
			if err != nil {
				return err
			}
			created = append(created, e)
		}
		return taken
	})
	if err != nil {
		return almanac.User{}, nil, err
	}
	return stored, created, nil
}

func (s *state) putUser(u almanac.User) almanac.User {
	kept := u
	kept.Attributes, kept.OptOuts = bytes.Clone(u.Attributes), slices.Clone(u.OptOuts)
	set(&s.undo, s.users, u.ID, user{User: kept})
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

// UserByExternalID returns the user with an external id.
func (r *Repository) UserByExternalID(ctx context.Context, externalID string) (u almanac.User, err error) {
	err = r.read(ctx, func(time.Time) error {
		id, ok := r.holder(externalID)
		if !ok {
			return &almanac.NotFoundError{Kind: "user", ExternalID: externalID}
		}
		u, err = r.visible(id)
		return err
	})
	return u, err
}

// FindUsers returns a page of the users whom filter selects.
func (r *Repository) FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (found almanac.List[almanac.User], err error) {
	limit, after, err := filter.Bounds(page)
	if err != nil {
		return almanac.List[almanac.User]{}, err
	}
	err = r.read(ctx, func(time.Time) error {
		var users []almanac.User
		for _, u := range r.users {
			if !u.deleted && selects(filter, u.User) && (page.After == "" || inOrderOf(filter, after, u.User) < 0) {
				users = append(users, u.User)
			}
		}
		slices.SortFunc(users, func(a, b almanac.User) int { return inOrderOf(filter, a, b) })
		found = filter.PageOf(users, limit)
		return nil
	})
	return found, err
}

// selects reports whether a filter selects a user.
func selects(f almanac.UserFilter, u almanac.User) bool {
	return strings.HasPrefix(listedBy(f, u), fold.Text(f.Name)) &&
		(f.Email == "" || fold.Text(f.Email) == fold.Text(u.Email)) &&
		(f.ExternalID == "" || f.ExternalID == u.ExternalID) &&
		(f.ZoneSource == "" || f.ZoneSource == u.ZoneSource)
}

// listedBy returns the name by which a user is listed, without case: the full name if the
// filter selects it, and otherwise the last name.
func listedBy(f almanac.UserFilter, u almanac.User) string {
	if full := fold.Text(u.Name()); strings.HasPrefix(full, fold.Text(f.Name)) {
		return full
	}
	return fold.Text(u.LastName)
}

// inOrderOf compares two users by their places in the list of a filter.
func inOrderOf(f almanac.UserFilter, a, b almanac.User) int {
	byID := bytes.Compare(a.ID[:], b.ID[:])
	if f.Name == "" {
		return byID
	}
	return cmp.Or(strings.Compare(listedBy(f, a), listedBy(f, b)), byID)
}

// holder returns who has an external id. A deleted user has none any more.
func (s *state) holder(externalID string) (id uuid.UUID, ok bool) {
	if externalID == "" {
		return uuid.Nil, false
	}
	for id, u := range s.users {
		if u.ExternalID == externalID && !u.deleted {
			return id, true
		}
	}
	return uuid.Nil, false
}

// externalIDTaken returns an error if another user has the user's external id.
func (s *state) externalIDTaken(u almanac.User) error {
	if id, ok := s.holder(u.ExternalID); ok && id != u.ID {
		return &almanac.ExternalIDTakenError{UserID: u.ID, Holder: id, ExternalID: u.ExternalID}
	}
	return nil
}

// EditUser edits a user and their open events.
func (r *Repository) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (stored almanac.Edit, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		r.releaseAll(id, now)
		roster, err := r.roster(id, now)
		if err != nil {
			return err
		}
		for {
			shown := roster // the edit may modify the lists and the map
			shown.Pending, shown.InFlight = slices.Clone(roster.Pending), slices.Clone(roster.InFlight)
			shown.Used = maps.Clone(roster.Used)
			wanted, err := edit(shown)
			if err != nil {
				return err
			}
			if spent := r.unshownKeys(roster, wanted.New); len(spent) > 0 {
				roster.Used = spent
				continue
			}
			if err := roster.Check(wanted); err != nil {
				return err
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
	roster := almanac.Roster{User: u, Used: make(map[almanac.Series]almanac.UsedKeys), Now: now}
	roster.Stalled = s.stalled(func(one almanac.StalledSeries) bool { return one.UserID == id })
	for _, e := range s.matching(func(e almanac.Event) bool { return e.UserID == id }) {
		switch {
		case e.ClaimCount > 0 && !e.Status.Terminal():
			roster.InFlight = append(roster.InFlight, e)
		case e.Status == almanac.Pending:
			roster.Pending = append(roster.Pending, e)
		}
		if e.Status.Terminal() || e.Origin.Kind == almanac.OriginRequeued {
			continue
		}
		used := s.used[seriesOf(e)]
		if e.ClaimCount > 0 {
			used = used.With(e.Uses(u, now))
		}
		if len(used) > 0 {
			roster.Used[almanac.SeriesOf(e)] = used
		}
	}
	return roster, nil
}

// Rosters returns a page of the users with their open events of some types.
func (r *Repository) Rosters(ctx context.Context, types []string, page almanac.Page) (almanac.List[almanac.Roster], error) {
	users, err := r.FindUsers(ctx, almanac.UserFilter{}, page)
	if err != nil {
		return almanac.List[almanac.Roster]{}, err
	}
	found := almanac.List[almanac.Roster]{Next: users.Next}
	err = r.read(ctx, func(now time.Time) error {
		for _, u := range users.Items {
			if one, err := r.roster(u.ID, now); err == nil { // otherwise the user was deleted meanwhile
				found.Items = append(found.Items, r.of(one, types))
			}
		}
		return nil
	})
	return found, err
}

// of returns a roster with what belongs to some types, and the used keys of the single series of each type.
func (s *state) of(r almanac.Roster, types []string) almanac.Roster {
	other := func(e almanac.Event) bool { return !slices.Contains(types, e.Type) }
	r.Pending, r.InFlight = slices.DeleteFunc(r.Pending, other), slices.DeleteFunc(r.InFlight, other)
	r.Stalled = slices.DeleteFunc(r.Stalled, func(one almanac.StalledSeries) bool { return !slices.Contains(types, one.Series.Type) })
	maps.DeleteFunc(r.Used, func(one almanac.Series, _ almanac.UsedKeys) bool { return !slices.Contains(types, one.Type) })
	for _, eventType := range types {
		only := series{r.User.ID, almanac.Series{Type: eventType}}
		if keys := s.used[only]; len(keys) > 0 && !s.hasOpen(only) {
			r.Used[only.Series] = keys
		}
	}
	return r
}

// unshownKeys returns the used keys of a roster together with those that it lacks for the
// added events of series without an open event. It returns nil when the roster lacks none.
func (s *state) unshownKeys(r almanac.Roster, added []almanac.Event) map[almanac.Series]almanac.UsedKeys {
	used, any := maps.Clone(r.Used), false
	for _, e := range added {
		if keys, news := s.unshown(e, used); news {
			used[almanac.SeriesOf(e)], any = keys, true
		}
	}
	if !any {
		return nil
	}
	return used
}

// UsedKeys returns the used keys of series of a user.
func (r *Repository) UsedKeys(ctx context.Context, id uuid.UUID, list []almanac.Series) (used map[almanac.Series]almanac.UsedKeys, err error) {
	err = r.read(ctx, func(now time.Time) error {
		used = make(map[almanac.Series]almanac.UsedKeys)
		u, err := r.visible(id)
		if err != nil {
			return nil
		}
		for _, one := range list {
			if keys := r.used[series{id, one}]; len(keys) > 0 {
				used[one] = keys
			}
		}
		for _, e := range r.matching(func(e almanac.Event) bool { return e.UserID == id && !e.Status.Terminal() }) {
			if one := almanac.SeriesOf(e); slices.Contains(list, one) && (e.ClaimCount > 0 || !e.FirstAvailable().After(now)) {
				used[one] = used[one].With(e.Uses(u, now))
			}
		}
		return nil
	})
	return used, err
}

func (s *state) apply(wanted almanac.Edit, now time.Time) (stored almanac.Edit, err error) {
	if wanted.User != nil {
		u := *wanted.User
		was, ok := s.users[u.ID]
		if !ok || was.Version != u.Version-1 {
			return stored, fmt.Errorf("almanactest: user %s is not at version %d", u.ID, u.Version-1)
		}
		if err := s.externalIDTaken(u); err != nil {
			return stored, err
		}
		u.CreatedAt, u.UpdatedAt = was.CreatedAt, now
		u = s.putUser(u)
		stored.User = &u
	}
	for _, e := range wanted.Removed {
		stored.Removed = append(stored.Removed, s.events[e.ID])
		s.forget(e.ID)
	}
	for _, e := range wanted.Changed {
		e, err := s.change(e, now)
		if err != nil {
			return stored, err
		}
		stored.Changed = append(stored.Changed, e)
	}
	for _, e := range wanted.New {
		e, inserted, err := s.insert(e, now)
		if err != nil {
			return stored, err
		}
		if inserted {
			stored.New = append(stored.New, e)
		}
	}
	return stored, nil
}

// change stores the changes of a pending event: another instant, another available time, or
// its cancellation. Everything else stays.
func (s *state) change(to almanac.Event, now time.Time) (almanac.Event, error) {
	was := s.events[to.ID]
	e := was
	e.Due, e.AvailableAt, e.Wall, e.Nominal, e.Zone, e.Consulted = to.Due, to.AvailableAt, to.Wall, to.Nominal, to.Zone, to.Consulted
	e.Policies, e.Payload, e.Lane, e.UserVersion, e.Version = to.Policies.WithDefaults(), to.Payload, to.Lane, to.UserVersion, to.Version
	e.Status, e.FailureReason, e.PlannedBy = to.Status, to.FailureReason, to.PlannedBy
	switch {
	case e.Status != almanac.Pending:
	case e.ClaimCount == 0:
		e.ReadyAt = to.ReadyAt
		e.AvailableAt, e.ReadyAt = availableAfter(was, e, now)
	case e.AvailableAt.Before(e.Due):
		e.AvailableAt = e.Due
	}
	if err := storable(e); err != nil {
		return e, err
	}
	e = s.put(e, now)
	if to.Unplanned {
		set(&s.undo, s.waits, seriesOf(e), almanac.StalledSeries{UserID: e.UserID, Series: almanac.SeriesOf(e), Due: e.Due, Since: now, RetryAt: now})
	}
	return e, nil
}

// DeleteUser deletes a user, or hides the user while events are in flight.
func (r *Repository) DeleteUser(ctx context.Context, id uuid.UUID, options almanac.DeleteOptions) (d almanac.DeleteResult, err error) {
	err = r.transact(ctx, func(now time.Time) error {
		u, ok := r.users[id]
		if !ok || u.deleted && !options.AtOnce {
			return &almanac.NotFoundError{Kind: "user", ID: id}
		}
		if options.Version != 0 && options.Version != u.Version {
			return &almanac.OptimisticLockError{UserID: id, Expected: options.Version}
		}
		r.releaseAll(id, now)
		d = almanac.DeleteResult{}
		for _, e := range r.matching(func(e almanac.Event) bool { return e.UserID == id }) {
			switch e.Status {
			case almanac.Pending:
				d.Removed++
				r.forget(e.ID)
			case almanac.Processing:
				d.InFlight = append(d.InFlight, e.ID)
			default:
			}
		}
		if options.AtOnce {
			r.remove(id)
			return nil
		}
		d.Hidden = len(d.InFlight) > 0
		set(&r.undo, r.users, id, user{u.User, true})
		set(&r.undo, r.hidden, id, true)
		r.removeHidden()
		return nil
	})
	return d, err
}

// remove deletes a user with all their events.
func (s *state) remove(id uuid.UUID) {
	for _, e := range s.events {
		if e.UserID == id {
			s.forget(e.ID)
		}
	}
	removeFunc(&s.undo, s.due, func(id uuid.UUID, _ time.Time) bool { _, exists := s.events[id]; return !exists })
	removeFunc(&s.undo, s.used, func(one series, _ almanac.UsedKeys) bool { return one.user == id })
	removeFunc(&s.undo, s.waits, func(one series, _ almanac.StalledSeries) bool { return one.user == id })
	remove(&s.undo, s.users, id)
	remove(&s.undo, s.hidden, id)
}
