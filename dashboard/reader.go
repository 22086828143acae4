package dashboard

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/ops"
)

// bounded waits for a slot, and makes one call within readLimit.
func bounded[T any](ctx context.Context, t throttled, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	return call(ctx)
}

func (t throttled) Event(ctx context.Context, id uuid.UUID) (almanac.Event, error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.Event, error) { return t.Reader.Event(ctx, id) })
}

func (t throttled) Find(ctx context.Context, spec almanac.Spec, page almanac.Page) (almanac.List[almanac.Event], error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.List[almanac.Event], error) { return t.Reader.Find(ctx, spec, page) })
}

func (t throttled) User(ctx context.Context, id uuid.UUID) (almanac.User, error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.User, error) { return t.Reader.User(ctx, id) })
}

func (t throttled) FindUsers(ctx context.Context, filter almanac.UserFilter, page almanac.Page) (almanac.List[almanac.User], error) {
	return bounded(ctx, t, func(ctx context.Context) (almanac.List[almanac.User], error) {
		return t.Reader.FindUsers(ctx, filter, page)
	})
}

func (t throttled) ZoneRules(ctx context.Context) (almanac.ZoneBook, error) {
	return bounded(ctx, t, t.Reader.ZoneRules)
}

func (t throttled) Now(ctx context.Context) (time.Time, error) { return bounded(ctx, t, t.Reader.Now) }

func (t throttled) Stats(ctx context.Context) (ops.Stats, error) {
	return bounded(ctx, t, t.Reader.Stats)
}

func (t throttled) DueCounts(ctx context.Context, r ops.DueCountsRequest) (ops.DueCountsResult, error) {
	return bounded(ctx, t, func(ctx context.Context) (ops.DueCountsResult, error) { return t.Reader.DueCounts(ctx, r) })
}

func (t throttled) Leases(ctx context.Context, limit int) ([]ops.Lease, error) {
	return bounded(ctx, t, func(ctx context.Context) ([]ops.Lease, error) { return t.Reader.Leases(ctx, limit) })
}

func (t throttled) Retries(ctx context.Context) (ops.Retries, error) {
	return bounded(ctx, t, t.Reader.Retries)
}

func (t throttled) Stalled(ctx context.Context, userID uuid.UUID, limit int) ([]almanac.StalledSeries, error) {
	return bounded(ctx, t, func(ctx context.Context) ([]almanac.StalledSeries, error) {
		return t.Reader.Stalled(ctx, userID, limit)
	})
}
