package chaos_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/postgres"
)

// Workers claim from a mark on that advances each second. Another program puts events before
// the mark: stores them in a transaction that is committed long after they
// were due, holds them locked until then, or claims them and rolls back.
func TestEventsBeforeTheMark(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		const sweep = 8 * time.Second
		r := calm(t, seed)
		r.Pulse()
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 30})
		workers := two(r, unhurried, func(o *chaos.Orders) { o.Sweep, o.Slots, o.PollOnly = sweep, chaos.Slots/4, true }) // so that both have to claim, and get no hints
		between(r, 0, sweep)
		left := append([]chaos.Left{claimedInVain(r, workers)}, storedLate(r, workers)...)

		r.Drained(90 * time.Second)
		r.Check("stored late", "unlocked", "claimed in vain")
		r.Found(sweep, left...)
	})
}

// storedLate commits a few events, and unlocks a few others, whose available times are
// before the marks of both workers.
func storedLate(r *chaos.Run, workers []*chaos.Process) []chaos.Left {
	r.Helper()
	plan := chaos.Plan{Start: chaos.From(lead), Interval: 3600, Count: 1}
	due, err := time.Parse("2006-01-02T15:04:05", plan.Start)
	require.NoError(r, err)
	storing, err := r.Pool().Begin(r.Context())
	require.NoError(r, err)
	late := r.CreateUsersBy(r.PlannerOn(storing), 5, plan)
	held := r.CreateUsers(5, plan)
	holding, err := r.Pool().Begin(r.Context())
	require.NoError(r, err)
	_, err = holding.Exec(r.Context(), "SELECT FROM almanac.queue q JOIN almanac.series s ON s.id = q.series_id WHERE s.user_id = ANY ($1) FOR UPDATE OF q", held)
	require.NoError(r, err)
	past(r, workers, due)

	var waiting int
	require.NoError(r, r.Pool().QueryRow(r.Context(), "SELECT count(*) FROM almanac.events WHERE user_id = ANY ($1) AND status = 'PENDING'", held).Scan(&waiting))
	r.Count("stored late", len(late))
	r.Count("unlocked", waiting)
	left := []chaos.Left{{At: time.Now(), People: late}, {At: time.Now(), People: held}}
	require.NoError(r, storing.Commit(r.Context()))
	require.NoError(r, holding.Rollback(r.Context()))
	return left
}

// claimedInVain has a few events claimed while the workers stand still, and rolls the
// claim back when both have gone past them. Their users have later events by then.
func claimedInVain(r *chaos.Run, workers []*chaos.Process) chaos.Left {
	r.Helper()
	for _, w := range workers {
		require.NoError(r, w.Signal(syscall.SIGSTOP))
	}
	tx, claim := claimIn(r)
	for _, w := range workers {
		require.NoError(r, w.Signal(syscall.SIGCONT))
	}
	past(r, workers, claim.Reached)
	r.Count("claimed in vain", len(claim.Events))
	left := chaos.Left{At: time.Now()}
	for _, e := range claim.Events {
		left.People = append(left.People, e.UserID)
	}
	require.NoError(r, tx.Rollback(r.Context()))
	return left
}

// claimIn claims a few events in a transaction, as soon as there are any: fewer than
// a worker takes at once, so that its mark stays where it is when it finds them.
func claimIn(r *chaos.Run) (pgx.Tx, almanac.ClaimResult) {
	r.Helper()
	for ctx := r.Within(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		tx, err := r.Pool().Begin(ctx)
		require.NoError(r, err)
		store, err := postgres.New(tx)
		require.NoError(r, err)
		claim, err := store.Claim(ctx, almanac.ClaimRequest{Token: uuid.New(), Types: []string{chaos.TickType}, Limit: 3, Lease: time.Minute})
		require.NoError(r, err)
		if len(claim.Events) > 0 {
			return tx, claim
		}
		require.NoError(r, tx.Rollback(ctx))
	}
}

// past waits until the marks of all workers are past an instant.
func past(r *chaos.Run, workers []*chaos.Process, due time.Time) {
	r.Helper()
	behind := func(w *chaos.Process) bool { return !w.Mark().After(due) }
	for ctx := r.Within(40 * time.Second); slices.ContainsFunc(workers, behind); time.Sleep(5 * time.Millisecond) {
		require.NoError(r, ctx.Err(), "a mark is not past %v\n%s", due, r.Complaints())
	}
}
