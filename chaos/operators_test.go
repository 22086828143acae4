package chaos_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/chaos"
)

// operate lets an operator do at random what one does to single events, until ctx is
// done. What a worker was quicker to take is left to it.
func operate(ctx context.Context, r *chaos.Run) {
	r.Helper()
	operator := r.Planner()
	tolerable := func(err error) bool {
		return err == nil || errors.Is(err, almanac.ErrInvalidStateTransition) || errors.Is(err, almanac.ErrOptimisticLock) ||
			errors.Is(err, almanac.ErrExists)
	}
	for ctx.Err() == nil {
		var err error
		switch r.Random.IntN(5) {
		case 0:
			require.NoError(r, operator.Pause(r.Context(), almanac.Pause{Lane: chaos.TickType}))
			time.Sleep(time.Duration(r.Random.IntN(300)) * time.Millisecond)
			err = operator.Resume(r.Context(), chaos.TickType)
			r.Count("pauses", 1)
		case 1, 2:
			err = something(r, almanac.Or{almanac.InStatus(almanac.Failed), almanac.InStatus(almanac.Cancelled)}, "requeued", func(e almanac.Event) error {
				_, err := operator.Requeue(r.Context(), e.ID, almanac.ForceOptions{})
				return err
			})
		default:
			err = something(r, almanac.InStatus(almanac.Pending), "cancelled", func(e almanac.Event) error {
				_, err := operator.Cancel(r.Context(), e.ID, almanac.CancelOptions{Reason: "not today"})
				return err
			})
		}
		require.True(r, tolerable(err), "%v", err)
		time.Sleep(time.Duration(r.Random.IntN(60)) * time.Millisecond)
	}
}

// something does something to one of the events that a specification picks, and counts
// what was done.
func something(r *chaos.Run, spec almanac.Spec, what string, do func(almanac.Event) error) error {
	r.Helper()
	found, err := r.Store().Find(r.Context(), spec, almanac.Page{Limit: 1000})
	require.NoError(r, err)
	if len(found.Items) == 0 {
		return nil
	}
	err = do(found.Items[r.Random.IntN(len(found.Items))])
	if err == nil {
		r.Count(what, 1)
	}
	return err
}

// An operator cancels and requeues events and pauses their type, while workers deliver
// them and one of these dies. What was cancelled before it began is not delivered
// unless it is requeued, and then under its own key; no series ends.
func TestOperators(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		r := calm(t, seed)
		r.Receiver.Answer(func(int, chaos.Entry) int { time.Sleep(50 * time.Millisecond); return http.StatusOK })
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 8})
		lasting := func(o *chaos.Orders) { o.Lease, o.Patience = 2*chaos.Lease, 20*time.Second } // for longer than a busy machine stands still
		victim := r.Work("victim", lasting)
		r.Work("other", lasting)
		for _, d := range []time.Duration{lead + 2*time.Second, 4 * time.Second} {
			ctx, stop := context.WithTimeout(t.Context(), d)
			operate(ctx, r)
			stop()
			if victim != nil {
				r.Kill(victim)
				r.Work("new", lasting)
				victim = nil
			}
		}
		r.Drained(60 * time.Second)
		checkOperations(r)
		r.CheckEdited("cancelled", "requeued", "pauses", "killed")
	})
}

// checkOperations compares what operators did with what the receiver saw.
func checkOperations(r *chaos.Run) {
	r.Helper()
	delivered := make(map[string]int)
	ledger, _ := r.Receiver.Ledger()
	for _, d := range ledger {
		delivered[d.Key]++
	}
	found := make(map[string][]almanac.Event) // by idempotency key
	page := almanac.Page{Limit: 1000}
	for {
		events, err := r.Store().Find(r.Context(), nil, page)
		require.NoError(r, err)
		for _, e := range events.Items {
			key := e.IdempotencyKey.String()
			found[key] = append(found[key], e)
		}
		if page.After = events.Next; page.After == "" {
			break
		}
	}
	for key, events := range found {
		first, last := events[0], events[len(events)-1]
		cancelled := last.Status == almanac.Cancelled
		switch {
		case !cancelled && last.Status != almanac.Completed:
			r.Errorf("%s ended as %s: %s", key, last.Status, last.FailureReason)
		case cancelled && len(events) == 1 && first.ClaimCount == 0 && delivered[key] > 0:
			r.Errorf("%s was cancelled before an attempt began, and delivered %d times", key, delivered[key])
		case len(events) > 1 && !cancelled && delivered[key] == 0:
			r.Errorf("%s was requeued and never delivered", key)
		}
	}
}
