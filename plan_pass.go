package almanac

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
)

// leftDays is how many events could not be planned again, by what they have consulted.
type leftDays map[lookedUp]int

// lookedUp is what events of a type have consulted.
type lookedUp struct {
	eventType string
	consulted calendar.Consulted
}

// dayPass plans events again that an older release of a calendar has planned.
type dayPass struct {
	*scheduler
	dayWork
	dryRun  bool
	reports map[string]*CalendarReport
	seen    map[Series]map[uuid.UUID]bool // in a dry run, the users whose events were looked at, by type
	left    leftDays
	enough  int // how many changes of a calendar are counted; 0 means all
}

// replanDays plans events again after a new release of a calendar: each user in a transaction, by the
// handlers of this program. What is left when it is interrupted is found again by the next call, of any
// process, because an event says in which release its calendars were consulted.
func (s *scheduler) replanDays(ctx context.Context, options ReconcileOptions, work dayWork) ([]CalendarReport, leftDays, error) {
	return s.replanSomeDays(ctx, options, work, 0)
}

// replanSomeDays is replanDays. In a dry run, it counts no more events of a calendar than about enough, if that is not 0.
func (s *scheduler) replanSomeDays(ctx context.Context, options ReconcileOptions, work dayWork, enough int) ([]CalendarReport, leftDays, error) {
	p := dayPass{s, work, options.DryRun, make(map[string]*CalendarReport), make(map[Series]map[uuid.UUID]bool), make(leftDays), enough}
	var err error
	for _, eventType := range s.registry.EventTypes() {
		if err = p.replanType(ctx, eventType); err != nil {
			break
		}
	}
	var list []CalendarReport
	for _, name := range slices.Sorted(maps.Keys(p.reports)) {
		list = append(list, *p.reports[name])
	}
	return list, p.left, err
}

func (p dayPass) replanType(ctx context.Context, eventType string) error {
	list, _, err := p.outdatedDays(ctx, eventType, p.dayWork)
	for _, c := range list {
		for page := (Page{Limit: maxMoves}); err == nil; {
			var found List[Event]
			if p.hasEnough(c) {
				break
			}
			if found, err = p.repository.FindConsulted(ctx, eventType, c, page); err != nil {
				return err
			}
			for _, e := range found.Items {
				if err = p.replanUser(ctx, e); err != nil {
					return err
				}
			}
			if page.After = found.Next; page.After == "" {
				break
			}
		}
	}
	return err
}

// hasEnough reports whether the calendar whose release outdates c has as many changes as are counted.
func (p dayPass) hasEnough(c calendar.Consulted) bool {
	rules, is := p.outdating(Event{Consulted: c})
	report := p.reports[rules.Name]
	return p.enough > 0 && is && report != nil && report.changes() > p.enough
}

// changes returns how many events a release moves, removes or adds.
func (c CalendarReport) changes() int { return c.Moved + c.Removed + c.Added }

// replanLimit bounds how long one user is waited for, whom another transaction may have locked.
const replanLimit = 10 * time.Second

// errDryRun undoes an edit that only shows what would change.
var errDryRun = errors.New("almanac: a dry run")

// replanUser plans the pending events of a user again that have the type of e. It returns an error if the
// next user would fail too.
func (p dayPass) replanUser(ctx context.Context, e Event) error {
	zones, err := p.zoneView(ctx)
	if err != nil || p.hasEnough(e.Consulted) || p.was(e) {
		return err
	}
	zones = zones.accepting(p.follow)
	bound, cancel := context.WithTimeout(ctx, replanLimit)
	defer cancel()
	var before Roster
	var wanted Edit
	var failed error
	stored, err := p.repository.EditUser(bound, e.UserID, func(r Roster) (Edit, error) {
		before, failed = r, nil
		concerned := func(one Event) bool {
			_, is := p.outdating(one)
			return is && one.Type == e.Type
		}
		if !slices.ContainsFunc(r.Pending, concerned) {
			failed = errNothingToDo // another process was here
			return Edit{}, failed
		}
		wanted, failed = p.replanAll(replanning{r, r.User, []string{e.Type}, zones, p.guard(bound, e.UserID), p.window, 0, nil})
		if failed == nil && p.dryRun {
			failed = errDryRun
		}
		return wanted, failed
	})
	var gone *NotFoundError
	switch {
	case errors.As(err, &gone), errors.Is(failed, errNothingToDo):
		return nil
	case errors.Is(failed, errDryRun):
		p.count(e.Type, before, wanted)
		return nil
	case err == nil:
		news := retargeted(before, stored)
		p.notifyEdit(ctx, before, news)
		p.running.wakeFor(slices.Concat(news.Changed, news.New)...)
		p.count(e.Type, before, stored)
		p.leave(e, before, stored)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case failed == nil && !errors.Is(err, ErrLocked) && bound.Err() == nil && !isRefused(err):
		return err // of the database
	}
	p.log.WarnContext(ctx, "event not planned by a new calendar", slog.String("event_type", e.Type), slog.String("user_id", e.UserID.String()),
		slog.String("error", err.Error()))
	p.report(e).Checked++
	p.report(e).Left++
	p.left[lookedUp{e.Type, e.Consulted}]++
	return nil
}

// leave counts an event that is outdated after an edit too: a newer release of another calendar has planned it.
func (p dayPass) leave(e Event, before Roster, edit Edit) {
	same := func(one Event) bool { return one.ID == e.ID }
	if !slices.ContainsFunc(before.Pending, same) || slices.ContainsFunc(edit.Removed, same) {
		return
	}
	if i := slices.IndexFunc(edit.Changed, same); i >= 0 {
		e = edit.Changed[i]
	}
	if _, is := p.outdating(e); is {
		p.left[lookedUp{e.Type, e.Consulted}]++
	}
}

// retargeted returns an edit without the pending events that are due at the same instant as before. A
// new release of a calendar says the same about them, so observers are not notified.
func retargeted(before Roster, edit Edit) Edit {
	was := before.byID()
	edit.Changed = slices.DeleteFunc(slices.Clone(edit.Changed), func(e Event) bool {
		from := was[e.ID]
		return from != nil && from.Status == e.Status && e.sameTarget(*from)
	})
	return edit
}

// was reports whether a dry run has looked at the user of e.
func (p dayPass) was(e Event) bool {
	if !p.dryRun {
		return false
	}
	of := Series{Type: e.Type}
	if p.seen[of] == nil {
		p.seen[of] = make(map[uuid.UUID]bool)
	}
	was := p.seen[of][e.UserID]
	p.seen[of][e.UserID] = true
	return was
}

// report returns the report about the calendar whose release outdates an event, or nil.
func (p dayPass) report(e Event) *CalendarReport {
	rules, is := p.outdating(e)
	if !is {
		return nil
	}
	if p.reports[rules.Name] == nil {
		p.reports[rules.Name] = &CalendarReport{Name: rules.Name, Release: rules.Release}
	}
	return p.reports[rules.Name]
}

// count adds an edit to the reports.
func (p dayPass) count(eventType string, before Roster, edit Edit) {
	was := before.byID()
	var last *CalendarReport
	for _, e := range before.Pending {
		if report := p.report(e); report != nil && e.Type == eventType {
			report.Checked++
			last = report
		}
	}
	for _, e := range edit.Removed {
		if report := p.report(e); report != nil {
			report.Removed++
			addFirst(e.Wall, e.Due, &report.First, &report.FirstAt)
		}
	}
	for _, e := range edit.Changed {
		if report := p.report(*was[e.ID]); report != nil && !was[e.ID].Due.Equal(e.Due) {
			addMove(e.Due.Sub(was[e.ID].Due), &report.Moved, &report.Smallest, &report.Largest)
			addFirst(was[e.ID].Wall, was[e.ID].Due, &report.First, &report.FirstAt)
			addFirst(e.Wall, e.Due, &report.First, &report.FirstAt)
		}
	}
	for _, e := range edit.New {
		addFirst(e.Wall, e.Due, &last.First, &last.FirstAt)
	}
	last.Added += len(edit.New)
}

const (
	reschedulers = 4               // edits in progress at a time
	editLimit    = 5 * time.Second // how long an edit waits for locks
)

// typePass replans the events of one type. See docs/adr/0081-roll-out.md.
type typePass struct {
	*scheduler
	eventType string
	passed    time.Duration // see [Planner].RescheduleType
	dryRun    bool
	wary      *atomic.Bool // an edit has waited in vain
}

// replanUser replans a user who was read without locks. If anything changes, it decides again with locks.
func (p typePass) replanUser(ctx context.Context, r Roster, zones *zoneView) (UpdateUserResult, error) {
	if !p.inTransaction() {
		ctx = context.WithoutCancel(ctx) // a user who was begun is processed to the end
	}
	r, edit, err := p.plan(ctx, r, zones)
	if err != nil {
		return UpdateUserResult{}, err
	}
	// An event that is claimed ahead of its instant is released by an edit.
	ahead := slices.ContainsFunc(r.InFlight, func(e Event) bool { return e.Status == Processing })
	changes := len(edit.Changed)+len(edit.New)+len(edit.Removed) > 0
	if p.dryRun || !changes && !ahead {
		return p.shown(p.of(ctx, r, zones), edit).with(r, retargeted(r, edit)), nil
	}
	bound, cancel := ctx, func() {}
	if p.wary.Load() && p.isLocked(ctx, r.User.ID) {
		return UpdateUserResult{}, fmt.Errorf("%w: user %s", ErrLocked, r.User.ID)
	}
	if !p.inTransaction() { // the end of a context would end the transaction of the host
		bound, cancel = context.WithTimeout(ctx, editLimit)
	}
	defer cancel()
	var failed error
	_, result, err := p.replan(bound, r.User.ID, func(r Roster, zones *zoneView) (replanning, error) {
		other := func(e Event) bool { return e.Type != p.eventType }
		r.Pending, r.InFlight = slices.DeleteFunc(r.Pending, other), slices.DeleteFunc(r.InFlight, other)
		now := p.of(bound, r, zones)
		now.failed, failed = &failed, nil
		return now, nil
	})
	switch {
	case err == nil:
	case bound.Err() != nil && ctx.Err() == nil:
		p.wary.Store(true)
		err = fmt.Errorf("%w: user %s, for %s", ErrLocked, r.User.ID, editLimit)
	case failed == nil:
		err = ofDatabase(r.User.ID, err)
	}
	return result, err
}

// interruption is an error of the database about a user whose plan is not the cause.
type interruption struct {
	user uuid.UUID
	err  error
}

func (e *interruption) Error() string {
	return "almanac: replanning user " + e.user.String() + ": " + e.err.Error()
}
func (e *interruption) Unwrap() error   { return e.err }
func (e *interruption) User() uuid.UUID { return e.user }

// ofDatabase returns an error of a repository as an interruption, unless it is about the user or the user's rows.
func ofDatabase(user uuid.UUID, err error) error {
	if err == nil || isRefused(err) {
		return err
	}
	for _, of := range []error{ErrNotFound, ErrLocked, ErrInvalid, ErrOptimisticLock, ErrInvalidStateTransition} {
		if errors.Is(err, of) {
			return err
		}
	}
	return &interruption{user, err}
}

// isLocked reports whether another transaction has locked a user. It waits for no lock. The other locked users of
// a page are looked at this way, because waiting for each of them would delay the rest.
func (p typePass) isLocked(ctx context.Context, id uuid.UUID) bool {
	nothing := func([]UserSeries, time.Time) ([]Event, error) { return nil, nil }
	looked, err := p.repository.AddEvents(ctx, p.eventType, Page{Limit: 1, After: cursorBefore(id)}, nothing)
	return err == nil && slices.Contains(looked.Locked, id)
}

func (p typePass) of(ctx context.Context, r Roster, zones *zoneView) replanning {
	return replanning{r, r.User, []string{p.eventType}, zones, p.guard(ctx, r.User.ID), p.window, p.passed, nil}
}

// plan plans a user's edit. If it adds events to series whose used keys the roster lacks, it looks the keys up
// and plans again, as EditUser does.
func (p typePass) plan(ctx context.Context, r Roster, zones *zoneView) (Roster, Edit, error) {
	for {
		edit, err := p.replanAll(p.of(ctx, r, zones))
		var unknown []Series
		for _, e := range edit.New {
			if of := SeriesOf(e); of != (Series{Type: of.Type}) {
				if _, known := r.Used[of]; !known {
					unknown = append(unknown, of)
				}
			}
		}
		if err != nil || len(unknown) == 0 {
			return r, edit, err
		}
		used, err := p.repository.UsedKeys(ctx, r.User.ID, unknown)
		if err != nil {
			return r, Edit{}, ofDatabase(r.User.ID, err)
		}
		r.Used = maps.Clone(r.Used)
		for _, of := range unknown {
			r.Used[of] = used[of]
		}
	}
}

// Values of the argument passed of [Planner].RescheduleType.
const (
	PassedNow  time.Duration = math.MaxInt64 // due at once
	PassedSkip time.Duration = -1            // removed
)

func (s *scheduler) RescheduleType(ctx context.Context, eventType string, page Page, passed time.Duration) (List[UpdateUserResult], []Refusal, error) {
	return s.rescheduleType(ctx, page, typePass{s, eventType, passed, false, new(atomic.Bool)})
}

func (s *scheduler) PreviewReschedule(ctx context.Context, eventType string, page Page, passed time.Duration) (List[UpdateUserResult], []Refusal, error) {
	return s.rescheduleType(ctx, page, typePass{s, eventType, passed, true, new(atomic.Bool)})
}
