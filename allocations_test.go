package almanac_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// backlog has many due events of one user, and stores nothing. Its results are as large as those of a store.
type backlog struct {
	*almanactest.Repository
	due             almanac.Event // as claimed, except for its id and token
	user            almanac.User
	claimed, events int
	settled         atomic.Int64
	done            chan struct{}
}

func (b *backlog) Claim(_ context.Context, r almanac.ClaimRequest) (almanac.ClaimResult, error) {
	claim := almanac.ClaimResult{Users: map[uuid.UUID]almanac.User{b.user.ID: b.user}, At: b.due.UpdatedAt}
	for n := min(r.Limit, b.events-b.claimed); len(claim.Events) < n; b.claimed++ {
		if claim.Events == nil {
			claim.Events = make([]almanac.Event, 0, n)
		}
		e := b.due
		binary.BigEndian.PutUint32(e.ID[12:], uint32(b.claimed))
		e.LeaseToken = r.Token
		claim.Events = append(claim.Events, e)
	}
	return claim, nil
}

func (b *backlog) Until(context.Context, []string, time.Time) (time.Duration, bool, error) {
	return 0, true, nil
}

func (b *backlog) Settle(_ context.Context, settlements []almanac.Settlement) ([]almanac.SettleResult, error) {
	now := b.due.UpdatedAt
	results, next := make([]almanac.SettleResult, len(settlements)), make([]almanac.Event, len(settlements))
	for i := range settlements {
		s, r := &settlements[i], &results[i]
		if r.Event, r.Err = s.Outcome.Apply(s.Event, now); r.Err != nil {
			continue
		}
		next[i], r.PlanErr = s.Next(s.User, now)
		r.Successor = &next[i]
	}
	if b.settled.Add(int64(len(settlements))) == int64(b.events) {
		close(b.done)
	}
	return results, nil
}

// An event may not cost more memory than it did when this was measured: 8.2 allocations and 3,390 bytes
// of the engine, the worker, the planning of the successor and the results above. The race detector adds
// 1 allocation and 250 bytes, and a busy machine as much again. The test runs beside no other test, because it counts
// what the whole process allocates.
func TestAnEventAllocatesLittle(t *testing.T) {
	h := almanac.Birthday{}
	now := time.Now().UTC().Truncate(time.Microsecond)
	born, err := almanac.ParseDateOfBirth("1990-03-15", "")
	require.NoError(t, err)
	user := almanac.User{ID: uuid.New(), FirstName: "Ada", LastName: "Lovelace", DateOfBirth: born, Timezone: zone(t, "Europe/London"), Version: 1, CreatedAt: now}
	o, err := h.Next(user, now.AddDate(-1, 0, 0))
	require.NoError(t, err)
	due, err := almanac.NewEvent(user, h, almanac.Occurrence{Occurrence: o})
	require.NoError(t, err)
	if due, err = due.Claim(uuid.New()); err != nil {
		t.Fatal(err)
	}
	due.Payload = []byte(`{"message": "Hey, Ada Lovelace it's your birthday"}`) // as PostgreSQL writes it
	due.UpdatedAt = now
	b := &backlog{Repository: almanactest.NewRepository(nil), due: due, user: user, events: 40_000, done: make(chan struct{})}
	registry, err := almanac.NewRegistry(h)
	require.NoError(t, err)
	scheduler, err := almanac.NewScheduler(b, registry, almanac.WithWorkers(500), almanac.WithObserver(almanac.ObserverFunc(func(context.Context, almanac.Notice) {})),
		almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	go func() { ended <- scheduler.Run(ctx) }()
	<-b.done

	runtime.ReadMemStats(&after)
	stop()
	require.NoError(t, <-ended)
	allocations := float64(after.Mallocs-before.Mallocs) / float64(b.events)
	bytes := float64(after.TotalAlloc-before.TotalAlloc) / float64(b.events)
	t.Logf("%.2f allocations of %.0f bytes in all for an event", allocations, bytes)
	require.Less(t, allocations, 14.0)
	require.Less(t, bytes, 4900.0)
}
