package chaos

import (
	"context"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
)

// callers are how many calls a flood makes at once.
const callers = 100

// flood makes calls as an API without limits does, on a pool of its own, until ctx is done.
// The function that it returns waits for their end.
func (w *worker) flood(ctx context.Context, scheduler almanac.Scheduler) (ebb func(), err error) {
	id, err := uuid.Parse(w.Flood)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, w.URL)
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(pool, postgres.WithTimeout(w.Patience))
	if err != nil {
		return nil, err
	}
	planner := scheduler.With(store)
	zone := "Africa/Abidjan"
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			for ctx.Err() == nil {
				_, _ = planner.UpdateUser(ctx, id, almanac.ProfileChange{Timezone: &zone}) // whether it can is not asked
			}
		})
	}
	return func() { calls.Wait(); pool.Close() }, nil
}
