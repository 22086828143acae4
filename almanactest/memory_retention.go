package almanactest

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/almanac-go/almanac"
)

// Prune deletes events of a page that ended before an instant.
func (r *Repository) Prune(ctx context.Context, before time.Time, page almanac.Page) (pruned almanac.Pruned, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return almanac.Pruned{}, err
	}
	err = r.transact(ctx, func(time.Time) error {
		pruned = almanac.Pruned{}
		events := r.matching(func(e almanac.Event) bool {
			return bytes.Compare(e.ID[:], after[:]) > 0 && e.CreatedAt.Before(before)
		})
		found := almanac.PageOf(events, limit)
		pruned.Next = found.Next
		for _, e := range found.Events {
			if e.Status.Terminal() && e.UpdatedAt.Before(before) && r.followed(e) {
				delete(r.events, e.ID)
				pruned.Count++
			}
		}
		return nil
	})
	return pruned, err
}

// followed reports whether a later event of e's series was ever claimed.
func (s *state) followed(e almanac.Event) bool {
	for _, later := range s.events {
		if later.UserID == e.UserID && later.Type == e.Type && later.ClaimCount > 0 &&
			later.OccurrenceKey > e.OccurrenceKey && series(later.OccurrenceKey) == series(e.OccurrenceKey) {
			return true
		}
	}
	return false
}

// series is the part of a key that names its series, with the slash, or "".
func series(key string) string { return key[:strings.IndexByte(key, '/')+1] }
