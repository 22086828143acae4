package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

// An answer says that the clock was between two times. So only a clock that is outside of what both answers allow was set.
func TestALateAnswerIsNoStepOfTheClock(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	shows := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	for name, tt := range map[string]struct {
		was, is [3]float64 // what the clock shows, when it was asked for, when the answer was there
		set     bool
	}{
		"on time":                           {[3]float64{0, 0, 0}, [3]float64{10, 10, 10}, false},
		"late":                              {[3]float64{0, 0, 0}, [3]float64{13, 10, 13}, false},
		"read at once, and the answer late": {[3]float64{0, 0, 0}, [3]float64{10, 10, 13}, false},
		"the first answer late":             {[3]float64{3, 0, 3}, [3]float64{10, 10, 10}, false},
		"read at once, and the first late":  {[3]float64{0, 0, 3}, [3]float64{10, 10, 10}, false},
		"adjusted":                          {[3]float64{0, 0, 0}, [3]float64{10.9, 10, 10}, false},
		"set forward":                       {[3]float64{0, 0, 0}, [3]float64{11.1, 10, 10}, true},
		"set back":                          {[3]float64{0, 0, 0}, [3]float64{8.9, 10, 10}, true},
		"set forward, and late":             {[3]float64{0, 0, 0}, [3]float64{16, 10, 13}, true},
		"set back, and late":                {[3]float64{0, 0, 0}, [3]float64{8, 10, 13}, true},
		"two machines that drift apart":     {[3]float64{0, 0, 0}, [3]float64{86_430, 86_400, 86_400}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := postgres.Clock(shows(tt.was[0]), at(tt.was[1]), at(tt.was[2]))
			is := postgres.Clock(shows(tt.is[0]), at(tt.is[1]), at(tt.is[2]))
			require.Equal(t, tt.set, was.WasSetBy(is))
		})
	}
}

// delayed is a connection whose next claims from lanes seem to have been on their way for a time before the server got them.
type delayed struct {
	*pgxpool.Conn
	by time.Duration
}

func (d *delayed) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	for _, q := range b.QueuedQueries {
		if len(q.Arguments) == 0 {
			continue
		}
		args, _ := q.Arguments[0].(pgx.StrictNamedArgs)
		for _, name := range []string{"earliest", "latest"} {
			if at, known := args[name].(time.Time); known {
				args[name] = at.Add(-d.by)
			}
		}
	}
	d.by = 0
	return d.Conn.SendBatch(ctx, b)
}

// A claim that reaches the server late, as from the queue of a pooler, takes tokens as any other. After a step of the clock,
// forward or back, there are none.
func TestALateClaimKeepsTheTokensOfALane(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	owe(t, pool, 200)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	late := &delayed{Conn: conn}
	store := mustStore(t, late)
	require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: almanac.TypeBirthday, Rate: 1, Burst: 40}))
	fill := func() {
		_, err := pool.Exec(t.Context(), "UPDATE almanac.lane_states SET at = clock_timestamp(), full_at = clock_timestamp()")
		require.NoError(t, err)
	}
	claimed := func() int {
		claim, err := store.Claim(t.Context(), birthdaysUpTo(10))
		require.NoError(t, err)
		return len(claim.Events)
	}
	fill()
	require.Equal(t, 10, claimed())
	for _, by := range []time.Duration{3 * time.Second, 4500 * time.Millisecond} {
		late.by = by
		require.Equal(t, 10, claimed(), "after %v", by)
	}
	for _, step := range []time.Duration{time.Hour, -time.Hour, 3 * time.Second, -3 * time.Second} {
		fill()
		require.Equal(t, 10, claimed())
		store.SetClock(step)
		require.Zero(t, claimed(), "the clock was set by %v", step)
	}
}

// setBack moves what is stored of lanes as if the clock had been set back by an hour since.
const setBack = `
	UPDATE almanac.visits SET at = at + interval '1 hour';
	UPDATE almanac.lane_states SET at = at + interval '1 hour', full_at = full_at + interval '1 hour';
	UPDATE almanac.lane_clock SET seen_at = seen_at + interval '1 hour'`

// A process that starts after the clock was set back finds that out by what earlier processes have read.
func TestANewProcessSeesThatTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	const events = 60
	pool := pgtest.Pool(t)
	owe(t, pool, events)
	_, err := pool.Exec(t.Context(), inTwoLanes)
	require.NoError(t, err)
	old := mustStore(t, pool)
	require.NoError(t, old.PutLane(t.Context(), almanac.Lane{Name: "crm", Rate: 50, Burst: 10}))
	claimed := func(store *postgres.Store) int {
		r := birthdaysUpTo(2)
		r.Mark = time.Now().AddDate(-30, 0, 0)
		claim, err := store.Claim(t.Context(), r)
		require.NoError(t, err)
		return len(claim.Events)
	}
	require.Eventually(t, func() bool { return claimed(old) > 0 }, 10*time.Second, 10*time.Millisecond)
	_, err = pool.Exec(t.Context(), setBack)
	require.NoError(t, err)
	fresh, n := mustStore(t, pool), 0
	require.Eventually(t, func() bool { n += claimed(fresh); return n > 10 }, 10*time.Second, 10*time.Millisecond, "%d were claimed", n)
}

// A clock that is adjusted by milliseconds leaves the tokens of a lane. A state that is further ahead is that of a clock that was set back.
func TestAnAdjustedClockKeepsTheTokensOfALane(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		by   string
		kept bool
	}{"by 20 ms": {"20 milliseconds", true}, "by 700 ms": {"700 milliseconds", true}, "by a minute": {"1 minute", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			owe(t, pool, 100)
			store := mustStore(t, pool)
			require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: almanac.TypeBirthday, Rate: 1, Burst: 60}))
			_, err := pool.Exec(t.Context(), "UPDATE almanac.lane_states SET at = clock_timestamp() + $1::interval, full_at = clock_timestamp() + $1::interval", tt.by)
			require.NoError(t, err)
			claim, err := store.Claim(t.Context(), birthdaysUpTo(20))
			require.NoError(t, err)
			require.Equal(t, tt.kept, len(claim.Events) == 20, "%d were claimed", len(claim.Events))
			var tokens float64
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT 60 - extract(epoch FROM full_at - clock_timestamp()) FROM almanac.lane_states").Scan(&tokens))
			require.Equal(t, tt.kept, tokens > 30, "%v are left", tokens)
		})
	}
}

// After a step of the clock, a breaker is open for as long as before. It tries again at once, with as many events as it allows.
func TestABreakerNeitherStallsNorFloodsWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
		for _, allowed := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, and %d are allowed", name, allowed), func(t *testing.T) {
				t.Parallel()
				pool := pgtest.Pool(t)
				owe(t, pool, 100)
				store := mustStore(t, pool)
				claimed := func() int {
					claim, err := store.Claim(t.Context(), birthdaysUpTo(20))
					require.NoError(t, err)
					return len(claim.Events)
				}
				report := func(change func(b almanac.Breaker, now time.Time) almanac.Breaker) {
					_, err := store.Report(t.Context(), almanac.TypeBirthday, change)
					require.NoError(t, err)
				}
				report(func(_ almanac.Breaker, now time.Time) almanac.Breaker {
					return almanac.Breaker{Allowed: allowed, RetryAt: now.Add(10 * time.Second), OpenedAt: now.Add(-20 * time.Minute)}
				})
				require.Zero(t, claimed())
				report(func(b almanac.Breaker, _ time.Time) almanac.Breaker { // as it was by the clock before
					b.RetryAt, b.OpenedAt = b.RetryAt.Add(-step), b.OpenedAt.Add(-step)
					return b
				})
				store.SetClock(step)
				require.Equal(t, allowed, claimed())
				report(func(b almanac.Breaker, now time.Time) almanac.Breaker {
					require.Equal(t, allowed, b.Allowed)
					require.WithinDuration(t, now, b.RetryAt, 5*time.Second)
					require.WithinDuration(t, now.Add(-20*time.Minute), b.OpenedAt, 5*time.Second)
					return b
				})
				require.Zero(t, claimed())
			})
		}
	}
}

// Each of two days has a count of its own. So a clock that is set back over midnight, and forward again, adds no quota to
// either day.
func TestADayHasOneQuotaWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	owe(t, pool, 100)
	store := mustStore(t, pool)
	require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: almanac.TypeBirthday, Daily: 10}))
	claims := func(want int, says string) {
		t.Helper()
		claim, err := store.Claim(t.Context(), birthdaysUpTo(20))
		require.NoError(t, err)
		require.Len(t, claim.Events, want, says)
		loads, err := store.LaneLoads(t.Context())
		require.NoError(t, err)
		require.Equal(t, 10, loads[0].Today, says)
		wait, known, err := store.Until(t.Context(), []string{almanac.TypeBirthday}, time.Time{})
		require.NoError(t, err)
		require.True(t, known && wait > 0, says)
	}
	moved := func(days int) { // what is stored, as if the clock had been set the other way
		t.Helper()
		_, err := pool.Exec(t.Context(), "UPDATE almanac.lane_states SET day = day - $1::integer", days)
		require.NoError(t, err)
	}
	_, err := pool.Exec(t.Context(), "UPDATE almanac.lane_states SET day = timezone('UTC', now())::date, of_day = 7")
	require.NoError(t, err)
	claims(3, "on the day")
	moved(1)
	claims(10, "on the next day")
	moved(-1)
	claims(0, "on the day again")
	moved(1)
	claims(0, "on the next day again")
	moved(1)
	claims(10, "two days later")
}
