package almanac

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// usedKeys returns the greatest used key of each series of one type of a user. A key is used if
// its event has ended, or is due already. It reads the newest 1,000 events and locks nothing.
func (s *scheduler) usedKeys(ctx context.Context, id uuid.UUID, eventType string, now time.Time) (map[Series]string, error) {
	found, err := s.repository.Find(ctx, And{ForUser(id), OfType(eventType)}, Page{Limit: maxPage, Order: NewestFirst})
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
