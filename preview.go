package almanac

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// maxPreview bounds a preview: enough for every day of a year.
const maxPreview = 1000

func (s *scheduler) Preview(ctx context.Context, id uuid.UUID, eventType string, n int) ([]Upcoming, error) {
	h, err := s.registry.Handler(eventType)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > maxPreview {
		return nil, &ValidationError{Fields: []FieldError{{Field: "number of occurrences", Problem: fmt.Sprintf("is not between 1 and %d", maxPreview)}}}
	}
	u, err := s.repository.User(ctx, id)
	if err != nil {
		return nil, err
	}
	now, err := s.repository.Now(ctx)
	if err != nil {
		return nil, err
	}
	list, err := seriesOf(h, u)
	if err != nil {
		return nil, err
	}
	var ahead []Upcoming
	var errs []error
	for _, one := range list {
		found, err := guarded("previewing "+eventType, func() ([]Upcoming, error) { return one.preview(Roster{User: u, Now: now}, n) })
		ahead, errs = append(ahead, found...), append(errs, err)
	}
	slices.SortStableFunc(ahead, func(a, b Upcoming) int { return a.Resolution.Instant.Compare(b.Resolution.Instant) })
	return ahead[:min(n, len(ahead))], errors.Join(errs...)
}

// preview returns up to n occurrences of a series after now, also those before an
// error. What a policy skips is not among them.
func (s oneSeries) preview(r Roster, n int) (ahead []Upcoming, err error) {
	after := r.Now
	for range n + maxSteps {
		o, err := s.Next(r.User, after)
		if errors.Is(err, ErrNoOccurrence) {
			break
		}
		if err != nil {
			return ahead, err
		}
		if o.Zone.IsZero() {
			o.Zone = r.User.Timezone
		}
		if after, err = pass(r.User, o, after); err != nil {
			return ahead, err
		}
		next := Upcoming{Occurrence: o}
		next.Resolution, err = o.Zone.Resolve(o.Wall, o.Policies)
		if errors.Is(err, ErrSkippedWallTime) {
			continue
		}
		if err != nil {
			return ahead, err
		}
		if ahead = append(ahead, next); len(ahead) == n {
			break
		}
	}
	return ahead, nil
}
