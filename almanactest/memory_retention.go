package almanactest

import (
	"bytes"
	"context"
	"time"

	"github.com/almanac-go/almanac"
)

// Prune deletes the events of a page that ended before an instant and were due before it.
func (r *Repository) Prune(ctx context.Context, before time.Time, page almanac.Page) (deleted int, next almanac.Cursor, err error) {
	limit, after, err := page.Bounds()
	if err != nil {
		return 0, "", err
	}
	err = r.transact(ctx, func(time.Time) error {
		deleted = 0
		if before.After(r.pruned) {
			r.pruned = before
		}
		events := r.matching(func(e almanac.Event) bool {
			return e.Status.Terminal() && bytes.Compare(e.ID[:], after[:]) > 0 && e.CreatedAt.Before(before)
		})
		found := almanac.PageOf(events, limit, almanac.OldestFirst)
		next = found.Next
		for _, e := range found.Items {
			if e.UpdatedAt.Before(before) && e.Due.Before(before) && r.due[e.ID].Before(before) {
				delete(r.due, e.ID)
				delete(r.events, e.ID)
				deleted++
			}
		}
		return nil
	})
	return deleted, next, err
}
