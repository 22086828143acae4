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
	if len(edit.Changed)+len(edit.New) == 0 {
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
	was := p.byID()
	for _, e := range slices.Concat(edit.Changed, edit.New) {
		if before := was[e.ID]; e.Status != Pending || before != nil && before.Wall.Date == e.Wall.Date {
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
	events := slices.Concat(edit.Changed, edit.New, edit.Removed)
	if p.is.Version != p.User.Version {
		events = append(events, p.InFlight...)
	}
	replans := make(map[Series]bool)
	for _, e := range events {
		replans[SeriesOf(e)] = true
	}
	return replans
}
