package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac/calendar"
)

// maxPreview limits a preview. It is enough for every day of a year.
const maxPreview = 1000

// PreviewResult has the next occurrences of a user, with their Resolution and Available.
type PreviewResult struct {
	// Ahead are the next occurrences, in the order of their instants.
	Ahead []Occurrence
	// LeftOut are occurrences that are not delivered, because they count as used after the
	// rule has changed: of each series at most the next occurrence after now. An occurrence
	// that was itself delivered or cancelled is not left out.
	LeftOut []Occurrence
}

func (s *scheduler) Preview(ctx context.Context, id uuid.UUID, eventType string, n int) (PreviewResult, error) {
	h, err := s.previewed(eventType, n)
	if err != nil {
		return PreviewResult{}, err
	}
	u, err := s.repository.User(ctx, id)
	if err != nil {
		return PreviewResult{}, err
	}
	return s.preview(ctx, h, u, n)
}

func (s *scheduler) PreviewUser(ctx context.Context, u User, eventType string, n int) (PreviewResult, error) {
	h, err := s.previewed(eventType, n)
	if err != nil {
		return PreviewResult{}, err
	}
	// Any wall time shows whether the program has the rules of the zone.
	if _, err := u.Timezone.Resolve(calendar.WallTime{Date: earliestBirth}, calendar.Policies{}); errors.Is(err, calendar.ErrInvalidTimezone) {
		return PreviewResult{}, &ValidationError{Fields: []FieldError{{Field: "timezone", Problem: problemOf(err), Err: err}}}
	}
	return s.preview(ctx, h, u, n)
}

func (s *scheduler) ChannelOf(ctx context.Context, e Event) (Channel, error) {
	h, err := s.registry.Handler(e.Type)
	if err != nil {
		return "", err
	}
	if _, itself := h.(Executor); itself {
		return "", nil
	}
	return guarded(s.guard(ctx, e.UserID), "choosing the channel of", e.Type, func() (Channel, error) { return h.Channel(e), nil })
}

// previewed returns the handler of a type for a preview of n occurrences.
func (s *scheduler) previewed(eventType string, n int) (EventHandler, error) {
	h, err := s.registry.Handler(eventType)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > maxPreview {
		return nil, &ValidationError{Fields: []FieldError{{Field: "number of occurrences", Problem: fmt.Sprintf("is not between 1 and %d", maxPreview)}}}
	}
	return h, nil
}

func (s *scheduler) preview(ctx context.Context, h EventHandler, u User, n int) (p PreviewResult, err error) {
	now, err := s.repository.Now(ctx)
	if err != nil {
		return p, err
	}
	g := s.guard(ctx, u.ID)
	list, err := g.series(h, u)
	if err != nil || len(list) == 0 {
		return p, err
	}
	names := make([]Series, len(list))
	for i, one := range list {
		names[i] = one.id()
	}
	used, err := s.repository.UsedKeys(ctx, u.ID, names)
	if err != nil {
		return p, err
	}
	var errs []error
	for _, one := range list {
		found, err := guarded(g, "previewing", h.EventType(), func() (PreviewResult, error) { return one.preview(u, now, used[one.id()], n) })
		p.Ahead, p.LeftOut, errs = append(p.Ahead, found.Ahead...), append(p.LeftOut, found.LeftOut...), append(errs, err)
	}
	slices.SortStableFunc(p.Ahead, inOrder)
	slices.SortStableFunc(p.LeftOut, inOrder)
	p.Ahead = p.Ahead[:min(n, len(p.Ahead))]
	return p, errors.Join(errs...)
}

func inOrder(a, b Occurrence) int { return a.Resolution.Instant.Compare(b.Resolution.Instant) }

// preview returns up to n occurrences of a series after now, and whether the next one is
// left out. With an error, it returns the occurrences before the error. It skips occurrences
// that a policy skips, and those that are used.
func (s oneSeries) preview(u User, now time.Time, used UsedKeys, n int) (p PreviewResult, err error) {
	after, passed, b := stillToCome(s, &u, now), 0, beyond{began: now}
	for range n + maxSteps {
		o, from, err := seek(s, u, after, func(o Occurrence) bool { return passed > 0 && used.precede(&o.Occurrence) || b.passed(s, &u, &o) })
		if errors.Is(err, calendar.ErrNoOccurrence) {
			break
		}
		if err != nil {
			return p, err
		}
		if after, err = pass(o, from); err != nil {
			return p, err
		}
		o.Resolution, err = o.Resolve()
		if errors.Is(err, calendar.ErrSkippedWallTime) {
			continue
		}
		if err != nil {
			return p, err
		}
		o.Available = o.Resolution.Instant.Add(s.id().Spread(u.ID, spreadOver(o.Occurrence, givenExecution(s.EventHandler).Spread)))
		if !o.Available.After(now) {
			continue
		}
		passed++
		switch {
		case !used.Has(o.Occurrence):
			p.Ahead = append(p.Ahead, o)
		case passed == 1 && !used.names(o.Occurrence):
			p.LeftOut = append(p.LeftOut, o)
		}
		if len(p.Ahead) >= n {
			break
		}
	}
	return p, nil
}

// maxForeseen limits the events of a user, so that a handler with an event every second does not fill the memory.
const maxForeseen = 10_000

func (s *scheduler) Foresee(ctx context.Context, r Roster, until time.Time, replan bool, passed time.Duration) ([]Event, error) {
	g := s.guard(ctx, r.User.ID)
	if replan {
		edit, err := s.replanAll(replanning{r, r.User, s.registry.EventTypes(), new(zoneView), g, s.window, passed, nil})
		if err != nil {
			return nil, err
		}
		r = r.edited(edit)
	}
	open, errs := slices.Concat(r.Pending, r.InFlight), []error(nil)
	for _, stalled := range r.Stalled {
		h, err := s.registry.Handler(stalled.Series.Type)
		if err != nil {
			continue
		}
		one, at := UserSeries{User: r.User, Used: r.Used, Stalled: []StalledSeries{stalled}}, later(r.Now, stalled.RetryAt)
		planned, err := guarded(g, "planning", h.EventType(), func() (replanned, error) { return planStalled(h, one, at, new(zoneView)), nil })
		for _, again := range planned.again {
			err = errors.New(again.Error)
		}
		for _, e := range planned.events {
			e.AvailableAt = later(e.AvailableAt, at)
			open = append(open, e)
		}
		errs = append(errs, err)
	}
	known := make(map[Series]bool, len(open))
	for _, e := range open {
		known[SeriesOf(e)] = true
	}
	var ended []Event
	for i := 0; i < len(open) && len(ended) < maxForeseen; i++ { // follow-ups are appended
		h, err := s.registry.Handler(open[i].Type)
		if err != nil {
			continue // another program has it
		}
		first := open[i]
		chain, err := guarded(g, "foreseeing", first.Type, func() (foreseen, error) {
			c := foreseen{scheduler: s, roster: &r, until: until, left: maxForeseen - len(ended)}
			err := c.follow(h, first)
			return c, err
		})
		ended, errs = append(ended, chain.ended...), append(errs, err)
		for _, e := range chain.after {
			if !known[SeriesOf(e)] && len(r.Used[SeriesOf(e)]) == 0 {
				known[SeriesOf(e)] = true
				open = append(open, e)
			}
		}
	}
	slices.SortStableFunc(ended, func(a, b Event) int { return a.UpdatedAt.Compare(b.UpdatedAt) })
	return ended, errors.Join(errs...)
}

// foreseen has the events of one series, one after the other. See docs/adr/0083-rehearsal.md.
type foreseen struct {
	*scheduler
	roster *Roster
	until  time.Time
	left   int // how many more may end
	ended  []Event
	after  []Event // follow-ups
}

// follow ends an event and its successors, as a program would that runs all the time.
func (f *foreseen) follow(h EventHandler, e Event) error {
	u, used := &f.roster.User, f.roster.Used[SeriesOf(e)]
	r := &route{handler: h, execution: executionOf(h)}
	r.checks = f.ownChecks(r.execution)
	for at := later(f.roster.Now, e.FirstAvailable()); ; {
		if at = later(at, e.AvailableAt); !at.Before(f.until) {
			return nil
		}
		j := &job{event: e, user: *u, route: r, clock: clock{database: at}}
		if f.left--; f.left < 0 {
			return fmt.Errorf("almanac: more than %d events before %s", maxForeseen, f.until.Format(time.DateOnly))
		}
		if e.Status == Pending {
			if err := j.event.become(Processing); err != nil {
				return err
			}
			j.event.ClaimCount++
		}
		if slices.ContainsFunc(used, func(k UsedKey) bool { return k.Unit != e.KeyUnit }) {
			j.event.UsedBefore = used
		}
		var ready bool
		if j.outcome, ready = f.ready(j); ready {
			j.outcome = j.outcomeOf(refusedThen(h, j, at))
		}
		done, err := j.outcome.Apply(j.event, at)
		if err != nil {
			return err
		}
		if done.UpdatedAt = at; done.Status == Pending { // quiet hours, or another lane
			e = done
			continue
		}
		f.ended = append(f.ended, done)
		if follows(h, &j.outcome) {
			more, _ := f.followUps(h, done, *u, at) // after an error they are lost
			for i := range more {
				more[i].CreatedAt, more[i].AvailableAt = at, later(more[i].AvailableAt, at)
			}
			f.after = append(f.after, more...)
		}
		used = used.With(e.uses(u, at))
		next, err := successor(h, &j.event, u, at)
		if errors.Is(err, calendar.ErrNoOccurrence) {
			return nil
		}
		if e = next; err != nil {
			return err
		}
	}
}

// shown returns what an edit does not store: how many events stay, and why others change.
func (s *scheduler) shown(p replanning, edit Edit) UpdateUserResult {
	result := UpdateUserResult{Unchanged: p.unchanged(retargeted(p.Roster, edit)), SameDay: p.sameDay(edit)}
	replans := p.replans(edit)
	if len(replans) == 0 {
		return result
	}
	if all, err := s.seriesOf(p.types, p.guard, p.is); err == nil { // otherwise the events are planned without it
		result.LeftOut, result.Passed = p.leftOut(all, replans), p.passedOnes(all, edit)
	}
	return result
}

// unchanged returns how many pending events of the replanned types an edit leaves as they are.
func (p replanning) unchanged(edit Edit) (n int) {
	for _, e := range p.Pending {
		if slices.Contains(p.types, e.Type) {
			n++
		}
	}
	was := Roster{Pending: p.Pending}.byID()
	for _, e := range edit.Changed {
		if was[e.ID] != nil {
			n--
		}
	}
	return n - len(edit.Removed)
}

// passedOnes returns the events for [UpdateUserResult].Passed.
func (p replanning) passedOnes(all []oneSeries, edit Edit) (ids []uuid.UUID) {
	was := p.byID()
	for _, e := range edit.Changed {
		if from := was[e.ID]; e.Status == Pending && !e.Due.After(p.Now) && (!from.Due.Equal(e.Due) || from.Wall != e.Wall) {
			ids = append(ids, e.ID)
		}
	}
	for _, e := range edit.Removed {
		i := slices.IndexFunc(all, func(one oneSeries) bool { return one.id() == SeriesOf(e) })
		if i < 0 {
			continue
		}
		passed, err := guarded(p.guard, "previewing", e.Type, func() (bool, error) {
			same, found, err := occurrenceNamed(all[i], p.is, e)
			return found && same.Wall != e.Wall && p.hasPassed(same), err
		})
		if passed && err == nil {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// sameDay returns the events for [UpdateUserResult].SameDay.
func (p replanning) sameDay(edit Edit) (twice []Event) {
	type day struct {
		eventType string
		date      calendar.Date
	}
	was := p.byID()
	moves := func(e Event) bool {
		before := was[e.ID]
		return e.Status == Pending && (before == nil || before.Wall.Date != e.Wall.Date)
	}
	if !slices.ContainsFunc(edit.Changed, moves) && !slices.ContainsFunc(edit.New, moves) {
		return nil
	}
	after := p.byID()
	for _, e := range edit.Removed {
		delete(after, e.ID)
	}
	for _, e := range slices.Concat(edit.Changed, edit.New) {
		after[e.ID] = &e
	}
	on := make(map[day]int)
	for _, e := range after {
		if e.Status != Cancelled {
			on[day{e.Type, e.Wall.Date}]++
		}
	}
	for _, e := range slices.Concat(edit.Changed, edit.New) {
		if !moves(e) {
			continue
		}
		ended := slices.ContainsFunc(p.Used[SeriesOf(e)], func(k UsedKey) bool { return k.Ended.Date == e.Wall.Date })
		if ended || on[day{e.Type, e.Wall.Date}] > 1 {
			twice = append(twice, e)
		}
	}
	return twice
}

// leftOut returns the occurrences for [UpdateUserResult].LeftOut.
func (p replanning) leftOut(all []oneSeries, replans map[Series]bool) map[Series]Occurrence {
	var left map[Series]Occurrence
	for _, one := range all {
		if !replans[one.id()] {
			continue
		}
		found, err := guarded(p.guard, "previewing", one.EventType(), func() (PreviewResult, error) { return one.preview(p.is, p.Now, p.Used[one.id()], 0) })
		if err != nil || len(found.LeftOut) == 0 {
			continue
		}
		if left == nil {
			left = make(map[Series]Occurrence)
		}
		left[one.id()] = found.LeftOut[0]
	}
	return left
}

// replans returns the series that an edit replans, or will replan when their events in flight end.
func (p replanning) replans(edit Edit) map[Series]bool {
	lists := [...][]Event{edit.Changed, edit.New, edit.Removed, p.InFlight}
	if p.is.Version == p.User.Version {
		lists[3] = nil
	}
	replans := make(map[Series]bool)
	for _, events := range lists {
		for i := range events {
			replans[SeriesOf(events[i])] = true
		}
	}
	return replans
}
