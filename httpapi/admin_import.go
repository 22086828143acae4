package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/jsonb"
)

type importAnswer struct {
	Lines        int           `json:"lines"` // that were processed, empty ones included
	Created      int           `json:"created"`
	Edited       int           `json:"edited"`
	Unchanged    int           `json:"unchanged"`
	Refused      []refusedLine `json:"refused"` // the first ones
	RefusedLines int           `json:"refusedLines"`
	Stopped      *string       `json:"stopped"` // why the import ended early, if it did
	NextLine     int           `json:"nextLine"`
}

// refusedLine is what a single request for the user would have been answered.
type refusedLine struct {
	Line   int            `json:"line"`
	Status int            `json:"status"`
	Detail string         `json:"detail"`
	Errors []fieldProblem `json:"errors,omitempty"`
}

const (
	maxLine         = 2_000_000_000 // the greatest number of the first line
	maxRefusedLines = 1000          // how many an answer lists
	importEditors   = 4             // how many users are looked up or edited at a time
)

// importing is one request that imports users.
type importing struct {
	*admin
	r      *http.Request
	edits  bool // lines change users who exist
	answer importAnswer

	mu      sync.Mutex
	failure error // the last one that is not for the client
}

// importUsers creates the users of the lines of a body, and can edit those who exist, for as long as a
// request may take.
func (a *admin) importUsers(r *http.Request) (reply, error) {
	var bad complaints
	query := queryOf(r, &bad, "line", "existing")
	first := 1
	if text, ok := query["line"]; ok {
		var err error
		if first, err = strconv.Atoi(text); err != nil || first < 1 || first > maxLine {
			bad.add("line", "is not a whole number between 1 and %d", maxLine)
		}
	}
	if how, ok := query["existing"]; ok && how != "edit" && how != "refuse" {
		bad.add("existing", "is not one of refuse, edit")
	}
	if bad.any() {
		return reply{}, bad.problem()
	}
	i := &importing{admin: a, r: r, edits: query["existing"] == "edit"}
	i.answer.NextLine, i.answer.Refused = first, []refusedLine{}
	err := i.run(first)
	answer := &i.answer
	answer.Lines = answer.NextLine - first
	if err != nil && answer.Lines+answer.Created+answer.Edited == 0 {
		return reply{}, err
	}
	if err != nil {
		p, complete := problemOf(r, err)
		if answer.Stopped = &p.Detail; !complete {
			i.failure = err
		}
	}
	return reply{status: http.StatusOK, body: answer, failure: i.failure}, nil
}

// run processes the lines in rounds.
func (i *importing) run(first int) error {
	deadline, _ := i.r.Context().Deadline()
	until, cancel := context.WithDeadline(i.r.Context(), deadline.Add(operateLimit-requestLimit))
	defer cancel()
	body := i.read(first)
	defer body.stop()
	for until.Err() == nil {
		round, more := body.round(until)
		if len(round) > 0 {
			if err := i.process(until, round); err != nil {
				return err
			}
		}
		if !more && until.Err() == nil {
			return body.err
		}
	}
	return timeIsOver()
}

func timeIsOver() error {
	return newProblem(http.StatusServiceUnavailable, "the time of a request is over")
}

// process stores the users of a round. Lines that alone make a user are created together first, because most
// users are new or all are known. The lines of users who exist follow one by one.
func (i *importing) process(until context.Context, round []*importLine) error {
	fresh, rest, err := i.judge(round)
	if err == nil {
		var existing []*importLine
		existing, err = i.create(fresh)
		rest = append(rest, existing...)
	}
	if err == nil {
		err = i.each(until, rest)
	}
	i.count(round)
	return err
}

// count adds the outcomes of a round up to its first line that was not processed.
func (i *importing) count(round []*importLine) {
	a, counts := &i.answer, true
	for _, l := range round {
		if counts = counts && l.outcome != notProcessed; counts {
			a.NextLine = l.number + 1
		}
		switch {
		case l.outcome == wasEdited: // counted once: when the line is sent again, the user is unchanged
			a.Edited++
		case !counts:
		case l.outcome == wasUnchanged:
			a.Unchanged++
		case l.outcome == wasRefused:
			if a.RefusedLines++; len(a.Refused) < maxRefusedLines {
				a.Refused = append(a.Refused, l.refusal)
			}
		}
	}
}

// judge refuses the lines that cannot be valid, and divides the others: fresh lines make a user each, if the
// user does not exist. The rest are lines that are only complete for a user who exists, and further lines of
// a user.
func (i *importing) judge(round []*importLine) (fresh, rest []*importLine, err error) {
	now, err := i.reader.Now(i.r.Context())
	if err != nil {
		return nil, nil, err
	}
	seen := make(map[string]bool)
	for _, l := range round {
		if l.outcome == wasBlank {
			continue
		}
		i.validateAttributes(l.change, &l.bad)
		missing := &l.bad
		if i.edits {
			missing = new(complaints)
		}
		if !l.bad.of[wholeLine] {
			l.profile = i.profileOf(l.change, missing)
			l.profile.ID = l.id
			if l.change.Merge != nil {
				l.profile.Attributes = jsonb.Merge([]byte("{}"), l.change.Merge)
			}
		}
		l.incomplete, l.now = missing.any() || i.leavesOut(l.change), now
		if l.bad.any() || l.incomplete && !i.edits {
			l.refuse(l.complain(&l.bad, i.rules(), i.edits))
			continue
		}
		names := l.names()
		again := slices.ContainsFunc(names, func(name string) bool { return seen[name] })
		for _, name := range names {
			seen[name] = true
		}
		if l.incomplete || again {
			rest = append(rest, l)
		} else {
			fresh = append(fresh, l)
		}
	}
	return fresh, rest, nil
}

// create creates users, and returns the lines of those who exist.
func (i *importing) create(fresh []*importLine) (existing []*importLine, err error) {
	profiles := func(yield func(almanac.Profile, error) bool) {
		for _, l := range fresh {
			if !yield(l.profile, nil) {
				return
			}
		}
	}
	exists := make([]bool, len(fresh))
	done, err := i.planner.CreateUsers(i.r.Context(), profiles, almanac.CreateUsersOptions{Existing: func(position int) { exists[position] = true }})
	i.answer.Created += done.Created
	for _, refusal := range done.Refused {
		l := fresh[refusal.Position]
		taken, ok := errors.AsType[*almanac.ExternalIDTakenError](refusal.Err)
		if ok && l.id == uuid.Nil {
			l.holder, exists[refusal.Position] = taken.Holder, true
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

// each processes lines one by one, some at a time, and the lines of one user in their order.
func (i *importing) each(until context.Context, rest []*importLine) error {
	slices.SortFunc(rest, func(a, b *importLine) int { return cmp.Compare(a.number, b.number) })
	var groups [][]*importLine
	of := make(map[string]int)
	for _, l := range rest {
		name := l.names()[0]
		if l.id == uuid.Nil && l.holder != uuid.Nil {
			name = l.holder.String()
		}
		k, ok := of[name]
		if !ok {
			k, groups = len(groups), append(groups, nil)
			of[name] = k
		}
		groups[k] = append(groups[k], l)
	}
	queue := make(chan []*importLine)
	var failed error // guarded by mu
	var editors sync.WaitGroup
	for range importEditors {
		editors.Go(func() {
			for group := range queue {
				if err := i.inOrder(until, group); err != nil {
					i.mu.Lock()
					failed = cmp.Or(failed, err)
					i.mu.Unlock()
				}
			}
		})
	}
	for _, group := range groups {
		i.mu.Lock()
		over := failed != nil
		i.mu.Unlock()
		if over {
			break
		}
		queue <- group
	}
	close(queue)
	editors.Wait()
	return failed
}

func (i *importing) inOrder(until context.Context, group []*importLine) error {
	for _, l := range group {
		if until.Err() != nil {
			return timeIsOver()
		}
		if err := i.one(l); err != nil {
			return err
		}
	}
	return nil
}

// one processes a line whose user may exist. It returns an error that ends the import.
func (i *importing) one(l *importLine) error {
	ctx := i.r.Context()
	u, err := i.find(ctx, l)
	switch {
	case errors.Is(err, almanac.ErrNotFound) && l.incomplete:
		l.refuse(l.complain(new(complaints), i.rules(), false))
		return nil
	case errors.Is(err, almanac.ErrNotFound):
		if _, err := i.planner.CreateUser(ctx, l.profile); err != nil {
			return i.refuse(l, err)
		}
		l.outcome = wasCreated
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answer.Created++
		return nil
	case err != nil:
		return i.refuse(l, err)
	}
	change := l.change
	if !i.edits {
		change = l.whole(u)
	}
	after, err := u.Edit(change, l.now, i.rules()...)
	if err != nil {
		return i.refuse(l, err)
	}
	different := differences(u, after)
	switch {
	case len(different) == 0:
		l.outcome = wasUnchanged
	case !i.edits:
		conflict := newProblem(http.StatusConflict, "the user exists with other data")
		conflict.Errors = different
		l.refuse(conflict)
	default:
		if l.id == uuid.Nil { // the user may have another external id meanwhile
			change.Version = u.Version
		}
		if _, err := i.apply(ctx, u.ID, change); err != nil {
			return i.refuse(l, err)
		}
		l.outcome = wasEdited
	}
	return nil
}

// find returns the stored user of a line.
func (i *importing) find(ctx context.Context, l *importLine) (almanac.User, error) {
	if id := cmp.Or(l.id, l.holder); id != uuid.Nil {
		u, err := i.reader.User(ctx, id)
		if err != nil || l.id != uuid.Nil || u.ExternalID == *l.change.ExternalID {
			return u, err
		}
	}
	found, err := i.users.FindUsers(ctx, almanac.UserFilter{ExternalID: *l.change.ExternalID}, almanac.Page{Limit: 1})
	if err != nil {
		return almanac.User{}, err
	}
	if len(found.Items) == 0 {
		return almanac.User{}, fmt.Errorf("external id of line %d: %w", l.number, almanac.ErrNotFound)
	}
	return found.Items[0], nil
}

// refuse refuses a line for an error, or returns the error if it is not about the line alone.
func (i *importing) refuse(l *importLine, err error) error {
	p, complete := problemOf(i.r, err)
	if p.Status == http.StatusServiceUnavailable {
		return err
	}
	if !complete {
		i.mu.Lock()
		i.failure = err
		i.mu.Unlock()
	}
	l.refuse(p)
	return nil
}
