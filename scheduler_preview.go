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

// previewReads is how many events of a user and a type a preview reads. The greatest used
// key of a series is that of one of its newest events.
const previewReads = 100

func (s *scheduler) Preview(ctx context.Context, id uuid.UUID, eventType string, n int) ([]Occurrence, error) {
	h, err := s.previewed(eventType, n)
	if err != nil {
		return nil, err
	}
	u, err := s.repository.User(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.preview(ctx, h, u, n)
}

func (s *scheduler) PreviewUser(ctx context.Context, u User, eventType string, n int) ([]Occurrence, error) {
	h, err := s.previewed(eventType, n)
	if err != nil {
		return nil, err
	}
	// Any wall time shows whether the program has the rules of the zone.
	if _, err := u.Timezone.Resolve(calendar.WallTime{Date: earliestBirth}, calendar.Policies{}); errors.Is(err, calendar.ErrInvalidTimezone) {
		return nil, &ValidationError{Fields: []FieldError{{Field: "timezone", Problem: problemOf(err), Err: err}}}
	}
	return s.preview(ctx, h, u, n)
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

func (s *scheduler) preview(ctx context.Context, h EventHandler, u User, n int) ([]Occurrence, error) {
	now, err := s.repository.Now(ctx)
	if err != nil {
		return nil, err
	}
	list, err := seriesFor(h, u)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	used, err := s.usedKeys(ctx, u.ID, h.EventType(), now)
	if err != nil {
		return nil, err
	}
	var ahead []Occurrence
	var errs []error
	for _, one := range list {
		found, err := guarded("previewing", h.EventType(), func() ([]Occurrence, error) { return one.preview(Roster{User: u, Now: now, Used: used}, n) })
		ahead, errs = append(ahead, found...), append(errs, err)
	}
	slices.SortStableFunc(ahead, func(a, b Occurrence) int { return a.Resolution.Instant.Compare(b.Resolution.Instant) })
	return ahead[:min(n, len(ahead))], errors.Join(errs...)
}

// usedKeys returns the greatest used key of each series of one type of a user. A key is used if
// its event has ended, or is due already. It locks nothing.
func (s *scheduler) usedKeys(ctx context.Context, id uuid.UUID, eventType string, now time.Time) (map[Series]string, error) {
	found, err := s.repository.Find(ctx, And{ForUser(id), OfType(eventType)}, Page{Limit: previewReads, Order: NewestFirst})
	if err != nil {
		return nil, err
	}
	used := make(map[Series]string)
	for _, e := range found.Events {
		if e.Status.Terminal() || !e.Due.After(now) {
			used[SeriesOf(e)] = max(used[SeriesOf(e)], e.OccurrenceKey)
		}
	}
	return used, nil
}

// preview returns up to n occurrences of a series after now. With an error, it returns
// the occurrences before the error. It leaves out occurrences that a policy skips, and
// those whose keys are used.
func (s oneSeries) preview(r Roster, n int) (ahead []Occurrence, err error) {
	after := r.Now
	for range n + maxSteps {
		o, err := nextOf(s, r.User, after)
		if errors.Is(err, calendar.ErrNoOccurrence) {
			break
		}
		if err != nil {
			return ahead, err
		}
		if after, err = pass(o, after); err != nil {
			return ahead, err
		}
		o.Resolution, err = o.Resolve()
		if errors.Is(err, calendar.ErrSkippedWallTime) {
			continue
		}
		if err != nil {
			return ahead, err
		}
		if o.Key <= r.Used[s.id()] {
			continue
		}
		if ahead = append(ahead, o); len(ahead) == n {
			break
		}
	}
	return ahead, nil
}
