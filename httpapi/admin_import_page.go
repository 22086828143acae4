package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// A page is what is looked up and stored together: consecutive lines with a user each. So lines of one user
// are applied in their order, and only the last page of a request can be processed in part.
const (
	pageLines = 500
	pageWait  = 4 * time.Second // for the edits of a page, before its lines are edited alone
	lineWait  = time.Second     // for a line that is edited alone
)

// page returns the first lines of a round, and looks up their users.
func (i *importing) page(round []*importLine) ([]*importLine, error) {
	page := round[:differentUsers(round[:min(pageLines, len(round))])]
	if err := i.lookUp(i.r.Context(), page); err != nil {
		return nil, err
	}
	return page[:differentUsers(page)], nil // by now, users with two names are known
}

// differentUsers returns how many lines at the beginning of a list name different users, as far as is known.
func differentUsers(lines []*importLine) int {
	seen := make(map[string]bool, len(lines))
	for n, l := range lines {
		if l.outcome != notProcessed {
			continue
		}
		names := l.names()
		if l.holder != nil {
			names = append(names, l.holder.ID.String())
		}
		if slices.ContainsFunc(names, func(name string) bool { return seen[name] }) {
			return n
		}
		for _, name := range names {
			seen[name] = true
		}
	}
	return len(lines)
}

// lookUp finds the stored users of lines.
func (i *importing) lookUp(ctx context.Context, lines []*importLine) error {
	var ids []uuid.UUID
	var external []string
	for _, l := range lines {
		if l.outcome != notProcessed {
			continue
		}
		if l.id != uuid.Nil {
			ids = append(ids, l.id)
		}
		if x := l.externalID(); x != "" {
			external = append(external, x)
		}
	}
	if len(ids)+len(external) == 0 {
		return nil
	}
	stored, err := i.scheduler.Repository().Users(ctx, ids, external)
	if err != nil {
		return err
	}
	byID, byExternal := make(map[uuid.UUID]*almanac.User, len(stored)), make(map[string]*almanac.User, len(stored))
	for k := range stored {
		u := &stored[k]
		byID[u.ID], byExternal[u.ExternalID] = u, u
	}
	for _, l := range lines {
		l.user, l.holder = byID[l.id], nil
		if x := l.externalID(); x != "" {
			l.holder = byExternal[x]
		}
		if l.id == uuid.Nil {
			l.user = l.holder
		}
	}
	return nil
}

// store creates and edits the users of a page. It returns an error that ends the import.
func (i *importing) store(page []*importLine) error {
	var fresh, changed []*importLine
	for _, l := range page {
		switch {
		case l.outcome != notProcessed:
		case l.user == nil && l.incomplete:
			l.refuse(l.complain(new(complaints), i.now, i.rules(), false))
		case l.user == nil:
			fresh = append(fresh, l)
		case i.differs(l):
			changed = append(changed, l)
		}
	}
	if i.answer.DryRun {
		return i.foresee(fresh, changed)
	}
	rest, err := i.create(fresh)
	if err == nil {
		var more []*importLine
		more, err = i.change(changed)
		rest = append(rest, more...)
	}
	slices.SortFunc(rest, func(a, b *importLine) int { return cmp.Compare(a.number, b.number) })
	for _, l := range rest {
		if err != nil {
			break
		}
		err = i.alone(l)
	}
	return err
}

// differs reports whether a line changes its user. If not, the line is unchanged or refused.
func (i *importing) differs(l *importLine) bool {
	u := *l.user
	l.needed = l.change
	if !i.edits {
		l.needed = l.whole(u)
	} else if zone := l.change.Timezone; zone != nil && *zone == "" && u.ZoneSource != almanac.ZoneDeclared && i.zoneless {
		l.needed.Timezone = nil // the zone is not declared already
	}
	after, err := u.Edit(l.needed, i.now, i.rules()...)
	if err != nil {
		l.refuse(i.problem(err))
		return false
	}
	different := differences(u, after)
	switch {
	case len(different) == 0:
		l.outcome = wasUnchanged
		return false
	case !i.edits:
		conflict := newProblem(http.StatusConflict, "the user exists with other data")
		conflict.Errors = different
		l.refuse(conflict)
		return false
	}
	if l.id == uuid.Nil { // the user may have another external id meanwhile
		l.needed.Version = u.Version
	}
	return true
}

// foresee decides what would become of lines that create and change users.
func (i *importing) foresee(fresh, changed []*importLine) error {
	for _, l := range slices.Concat(fresh, changed) {
		if l.holder != nil && l.holder != l.user && l.holder.ID != l.id {
			l.refuse(i.problem(&almanac.ExternalIDTakenError{UserID: l.id, ExternalID: l.externalID(), Holder: l.holder.ID}))
		}
	}
	for _, l := range changed {
		if l.outcome == notProcessed {
			l.outcome = wasEdited
		}
	}
	fresh = slices.DeleteFunc(fresh, func(l *importLine) bool { return l.outcome != notProcessed })
	profiles := make([]almanac.Profile, len(fresh))
	for k, l := range fresh {
		profiles[k] = l.profile
	}
	_, _, errs := i.planner.PutUsers(i.r.Context(), profiles, true)
	for k, err := range errs {
		if err == nil {
			fresh[k].outcome = wasCreated
		} else if err := i.refuse(fresh[k], err); err != nil {
			return err
		}
	}
	return nil
}

// create creates users. It returns the lines whose users exist, because they were created meanwhile.
func (i *importing) create(fresh []*importLine) (existing []*importLine, err error) {
	if len(fresh) == 0 {
		return nil, nil
	}
	profiles := func(yield func(almanac.Profile, error) bool) {
		for _, l := range fresh {
			if !yield(l.profile, nil) {
				return
			}
		}
	}
	exists := make([]bool, len(fresh))
	done, err := i.planner.CreateUsers(i.r.Context(), profiles, almanac.CreateUsersOptions{Existing: func(position int) { exists[position] = true }})
	for _, refusal := range done.Refused {
		l := fresh[refusal.Position]
		if errors.Is(refusal.Err, almanac.ErrExternalIDTaken) && l.id == uuid.Nil {
			exists[refusal.Position] = true
		} else if fatal := i.refuse(l, refusal.Err); fatal != nil {
			err = cmp.Or(err, fatal)
		}
	}
	for k, l := range fresh {
		switch {
		case exists[k]:
			existing = append(existing, l)
		case err == nil && l.outcome == notProcessed:
			l.outcome = wasCreated
		}
	}
	return existing, err
}

// change edits users together. It returns the lines to be processed alone: their users were changed meanwhile,
// or not all edits ended in time.
func (i *importing) change(changed []*importLine) (rest []*importLine, err error) {
	if len(changed) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(i.r.Context(), pageWait)
	defer cancel()
	for k, failed := range i.edit(ctx, changed) {
		l := changed[k]
		switch {
		case failed == nil:
			l.outcome = wasEdited
		case errors.Is(failed, almanac.ErrOptimisticLock), errors.Is(failed, almanac.ErrNotFound), i.late(ctx, failed):
			rest = append(rest, l)
		default:
			err = cmp.Or(err, i.refuse(l, failed))
		}
	}
	return rest, err
}

func (i *importing) edit(ctx context.Context, lines []*importLine) []error {
	ids, changes := make([]uuid.UUID, len(lines)), make([]almanac.ProfileChange, len(lines))
	for k, l := range lines {
		ids[k], changes[k] = l.user.ID, l.needed
	}
	_, errs := i.planner.UpdateUsers(ctx, ids, changes)
	return errs
}

// late reports whether an error is due to the deadline of a page or a line, and not to that of the request.
func (i *importing) late(ctx context.Context, err error) bool {
	return ctx.Err() != nil && i.r.Context().Err() == nil && unavailable(err)
}

// alone processes a line with what is stored now. If that takes too long while the database answers, the line
// is refused, so that one user does not stop the import. It returns an error that ends the import.
func (i *importing) alone(l *importLine) error {
	if i.until.Err() != nil {
		return timeIsOver()
	}
	ctx, cancel := context.WithTimeout(i.r.Context(), lineWait)
	defer cancel()
	err := i.again(ctx, l)
	switch {
	case err == nil:
		return nil
	case !i.late(ctx, err):
		return i.refuse(l, err)
	}
	if _, err := i.reader.Now(i.r.Context()); err != nil {
		return err
	}
	p := locked()
	p.Detail = "the user is locked by another transaction, or takes a handler too long, at this moment; try again"
	l.refuse(p)
	return nil
}

// again processes a line alone.
func (i *importing) again(ctx context.Context, l *importLine) error {
	if err := i.lookUp(ctx, []*importLine{l}); err != nil {
		return err
	}
	switch {
	case l.user == nil && l.incomplete:
		l.refuse(l.complain(new(complaints), i.now, i.rules(), false))
	case l.user == nil:
		if _, err := i.planner.CreateUser(ctx, l.profile); err != nil {
			return err
		}
		l.outcome = wasCreated
	case i.differs(l):
		if err := i.edit(ctx, []*importLine{l})[0]; err != nil {
			return err
		}
		l.outcome = wasEdited
	}
	return nil
}

// refuse refuses a line for an error, or returns the error if it is not about the line alone.
func (i *importing) refuse(l *importLine, err error) error {
	p := i.problem(err)
	if p.Status == http.StatusServiceUnavailable {
		return err
	}
	l.refuse(p)
	return nil
}

// problem returns the problem for an error, and keeps the error for the log if the client is not told all of it.
func (i *importing) problem(err error) *problem {
	p, complete := problemOf(i.r, err)
	if !complete {
		i.failure = err
	}
	return p
}
