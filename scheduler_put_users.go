package almanac

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/internal/jsonb"
)

func (s *scheduler) PutUsers(ctx context.Context, profiles []Profile, dryRun bool) (results []UpdateUserResult, before []User, errs []error) {
	for len(profiles) > 0 {
		n := min(maxBatch, len(profiles))
		if !dryRun {
			n = differentUsers(profiles[:n])
		}
		p := putting{s, profiles[:n], make([]UpdateUserResult, n), make([]User, n), make([]error, n)}
		p.put(ctx, dryRun)
		results, before, errs = append(results, p.results...), append(before, p.before...), append(errs, p.errs...)
		profiles = profiles[n:]
	}
	return results, before, errs
}

// differentUsers returns how many profiles at the beginning of a list are for different users, by their ids.
func differentUsers(profiles []Profile) int {
	ids, external := make(map[uuid.UUID]bool, len(profiles)), make(map[string]bool, len(profiles))
	for i, p := range profiles {
		if p.ID != uuid.Nil && ids[p.ID] || p.ExternalID != "" && external[p.ExternalID] {
			return i
		}
		ids[p.ID], external[p.ExternalID] = true, true
	}
	return len(profiles)
}

// putting is a batch of PutUsers. Its lists are parallel.
type putting struct {
	*scheduler
	profiles []Profile
	results  []UpdateUserResult
	before   []User
	errs     []error
}

// put finds the users of the profiles, and creates or changes them.
func (p putting) put(ctx context.Context, dryRun bool) {
	var ids []uuid.UUID
	var external []string
	for i, one := range p.profiles {
		switch {
		case one.ID != uuid.Nil:
			ids = append(ids, one.ID)
		case one.ExternalID == "":
			p.errs[i] = &ValidationError{[]FieldError{{Field: "externalId", Problem: "is required for a profile without an id"}}}
		default:
			external = append(external, one.ExternalID)
		}
	}
	stored, err := p.repository.Users(ctx, ids, external)
	if err != nil {
		p.fail(err)
		return
	}
	byID, byExternal := make(map[uuid.UUID]*User, len(stored)), make(map[string]*User, len(stored))
	for i := range stored {
		u := &stored[i]
		byID[u.ID] = u
		if u.ExternalID != "" {
			byExternal[u.ExternalID] = u
		}
	}
	var created, existing []int
	for i, one := range p.profiles {
		u := byID[one.ID]
		if one.ID == uuid.Nil {
			u = byExternal[one.ExternalID]
		}
		switch {
		case p.errs[i] != nil:
		case u == nil:
			created = append(created, i)
		default:
			p.before[i] = *u
			existing = append(existing, i)
		}
	}
	p.change(ctx, existing, dryRun)
	p.create(ctx, created, dryRun) // perhaps with an external id that a change has given up
}

// fail gives each profile without an error of its own an error.
func (p putting) fail(err error) {
	for i := range p.errs {
		if p.errs[i] == nil {
			p.errs[i] = err
		}
	}
}

// create creates the users of some of the profiles.
func (p putting) create(ctx context.Context, indexes []int, dryRun bool) {
	if len(indexes) == 0 {
		return
	}
	now, err := p.repository.Now(ctx)
	zones, err2 := p.zoneView(ctx)
	if err = errors.Join(err, err2); err != nil {
		for _, i := range indexes {
			p.errs[i] = err
		}
		return
	}
	var users []UserWithEvents
	var places []int
	for _, i := range indexes {
		one, err := p.planFirst(ctx, p.profiles[i], now, zones)
		if p.errs[i] = err; err != nil {
			continue
		}
		p.results[i].User = one.User
		users, places = append(users, one), append(places, i)
	}
	if dryRun || len(users) == 0 {
		return
	}
	stored, err := (&creation{scheduler: p.scheduler}).storeOrLookUp(ctx, users, now)
	for k, i := range places {
		p.results[i] = UpdateUserResult{}
		if k >= len(stored) || errors.Is(stored[k].Err, errNotStored) {
			p.errs[i] = err
			continue
		}
		one := stored[k]
		if p.errs[i] = one.Err; one.Err == nil {
			p.results[i] = UpdateUserResult{User: one.User, Added: one.Events}
			p.notify(ctx, Notice{Kind: UserCreated, User: one.User})
			p.notifyEvents(ctx, EventCreated, one.Events)
			p.running.wakeFor(one.Events...)
		}
	}
}

// change changes the users of some of the profiles, as far as the profiles differ from them.
func (p putting) change(ctx context.Context, indexes []int, dryRun bool) {
	if len(indexes) == 0 {
		return
	}
	now, err := p.repository.Now(ctx)
	if err != nil {
		for _, i := range indexes {
			p.errs[i] = err
		}
		return
	}
	rules := p.profileRules(ctx)
	var ids []uuid.UUID
	var places []int
	abreast := true // unless one user may take the external id of another
	for _, i := range indexes {
		was := p.before[i]
		is, _, err := was.put(p.profiles[i].changes().by(ctx), Roster{User: was, Now: now}, rules)
		switch p.errs[i] = err; {
		case errors.Is(err, errNothingToDo):
			p.results[i].User, p.errs[i] = was, nil
		case err != nil:
		case dryRun:
			p.results[i].User = is
		default:
			ids, places = append(ids, was.ID), append(places, i)
			abreast = abreast && is.ExternalID == was.ExternalID
		}
	}
	results, errs := p.editEach(ctx, ids, abreast, func(k int, r Roster) (User, ProfileChange, error) {
		p.before[places[k]] = r.User
		one := p.profiles[places[k]]
		if one.ID == uuid.Nil && r.User.ExternalID != one.ExternalID { // the user has another one since it was looked up
			return User{}, ProfileChange{}, &OptimisticLockError{UserID: r.User.ID, Expected: r.User.Version - 1}
		}
		return r.User.put(one.changes().by(ctx), r, rules)
	})
	for k, i := range places {
		p.results[i], p.errs[i] = results[k], errs[k]
	}
}

// changes returns the change of what a profile states.
func (p Profile) changes() ProfileChange {
	stated := func(text *string) *string {
		if *text == "" {
			return nil
		}
		return text
	}
	c := ProfileChange{
		FirstName: stated(&p.FirstName), LastName: stated(&p.LastName), DateOfBirth: stated(&p.DateOfBirth), Timezone: stated(&p.Timezone),
		Attributes: p.Attributes, Locale: stated(&p.Locale), Email: stated(&p.Email), ExternalID: stated(&p.ExternalID), OptOut: slices.Clone(p.OptOuts),
	}
	if c.DateOfBirth != nil || p.Calendar != "" {
		c.Calendar = &p.Calendar
	}
	return c
}

// put returns a user with a change, and the part of the change that is needed. The error is errNothingToDo if none is.
func (u User) put(c ProfileChange, r Roster, rules profileRules) (User, ProfileChange, error) {
	is, err := u.edit(c, r.Now, rules)
	if err != nil {
		return u, c, err
	}
	c = c.needed(u).differing(u, is)
	if c.isEmpty() {
		return u, c, errNothingToDo
	}
	is, err = u.edit(c, r.Now, rules)
	return is, c, err
}

// differing returns the change without the fields that are the same in a user before and after it.
func (c ProfileChange) differing(was, is User) ProfileChange {
	if was.FirstName == is.FirstName {
		c.FirstName = nil
	}
	if was.LastName == is.LastName {
		c.LastName = nil
	}
	if was.DateOfBirth == is.DateOfBirth {
		c.DateOfBirth, c.Calendar = nil, nil
	}
	if was.Timezone.Equal(is.Timezone) && was.ZoneSource == is.ZoneSource {
		c.Timezone = nil
	}
	if c.Attributes != nil && jsonb.Equal(was.Attributes, is.Attributes) {
		c.Attributes = nil
	}
	if was.Locale == is.Locale {
		c.Locale = nil
	}
	if was.Email == is.Email {
		c.Email = nil
	}
	if was.ExternalID == is.ExternalID {
		c.ExternalID = nil
	}
	return c
}

func (s *scheduler) UpdateUsers(ctx context.Context, ids []uuid.UUID, changes []ProfileChange) ([]UpdateUserResult, []error) {
	if len(ids) != len(changes) {
		err := &ValidationError{[]FieldError{{Field: "changes", Problem: "has not one change for each id"}}}
		return make([]UpdateUserResult, len(ids)), slices.Repeat([]error{err}, len(ids))
	}
	abreast := !slices.ContainsFunc(changes, func(c ProfileChange) bool { return c.ExternalID != nil }) // one user may take that of another
	return s.editEach(ctx, ids, abreast, func(i int, r Roster) (User, ProfileChange, error) {
		c := changes[i].by(ctx)
		if needed := c.needed(r.User); !needed.isEmpty() {
			u, err := r.User.edit(needed, r.Now, s.profileRules(ctx))
			return u, c, err
		} else if err := r.User.expect(c.Version); err != nil || c.isEmpty() {
			return r.User, c, err
		}
		return r.User, c, errNothingToDo
	})
}
