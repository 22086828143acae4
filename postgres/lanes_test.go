package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
)

// owe stores overdue birthdays.
func owe(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), owePeople, n)
	require.NoError(t, err)
}

// Claims of many processes at once admit no more than the rate allows, by the database's clock. Each claim that steps a lane counts what it takes, though others step it at the same time.
func TestARateHoldsAmongConcurrentClaims(t *testing.T) {
	t.Parallel()
	const claimers = 6
	limits := almanac.Lane{Name: almanac.TypeBirthday, Rate: 500, Burst: 20}
	pool := pgtest.Pool(t, pgtest.MaxConns(claimers))
	owe(t, pool, 4000)
	require.NoError(t, mustStore(t, pool).PutLane(t.Context(), limits))

	var mu sync.Mutex
	var admitted []time.Time // by the database's clock, one for each event
	var claiming sync.WaitGroup
	for end := time.Now().Add(3 * time.Second); claimers > len(admitted); {
		for range claimers {
			store := mustStore(t, pool)
			claiming.Go(func() {
				for time.Now().Before(end) {
					claim, err := store.Claim(t.Context(), birthdaysUpTo(10))
					if !assertNoError(t, err) {
						return
					}
					mu.Lock()
					for range claim.Events {
						admitted = append(admitted, claim.Events[0].UpdatedAt)
					}
					mu.Unlock()
				}
			})
		}
		claiming.Wait()
	}

	slices.SortFunc(admitted, time.Time.Compare)
	least := 0.0
	for k, at := range admitted {
		x := float64(k) - limits.Rate*at.Sub(admitted[0]).Seconds()
		least = min(least, x)
		require.LessOrEqual(t, x-least+1, float64(limits.Burst)+limits.Rate*admitting.Seconds(), "the %d-th admission", k+1)
	}
	require.Greater(t, len(admitted), 3*limits.Burst, "tokens come back")
}

// admitting is how long after the clock of its admission a claim may store the time of its lease.
const admitting = 100 * time.Millisecond

func birthdaysUpTo(limit int) almanac.ClaimRequest {
	return almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: limit, Lease: time.Minute}
}

func assertNoError(t *testing.T, err error) bool {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// inLanes gives the events of the queue lanes in crm.
const inLanes = `
	ALTER TABLE almanac.series DISABLE TRIGGER USER;
	UPDATE almanac.series SET lane = 'crm/tenant-' || id % 10;
	ALTER TABLE almanac.series ENABLE TRIGGER USER;
	WITH gone AS (DELETE FROM almanac.queue RETURNING *)
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, lane)
	SELECT available_at, event_id, series_id, event_type, 'crm/tenant-' || series_id % 10 FROM gone`

// Beside an old transaction, no version of a state and no visit can be removed. A claim finds the newest ones as
// quickly as the first.
func TestAClaimFromALaneCostsTheSameBesideAnOldTransaction(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ lane, change string }{
		"of a type": {almanac.TypeBirthday, ""}, "with lanes in it": {"crm", inLanes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const claims = 3000
			const warm = 200 // until visits of lanes in it have been added and deleted for a while
			received := new(recorder)
			pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = received })
			owe(t, pool, claims+10*warm+500)
			_, err := pool.Exec(t.Context(), tt.change)
			require.NoError(t, err)
			_, err = pool.Exec(t.Context(), "VACUUM ANALYZE almanac.users, almanac.series, almanac.queue, almanac.visits")
			require.NoError(t, err)
			store := mustStore(t, pool)
			require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: tt.lane, Rate: 1e6, Burst: 1e6}))
			mark := time.Now().Add(-24 * time.Hour)
			claim := func() {
				for n := 0; n == 0; { // a machine that stands still for a second looks like a clock that was set
					r := birthdaysUpTo(10)
					r.Mark = mark
					claim, err := store.Claim(t.Context(), r)
					require.NoError(t, err)
					n = len(claim.Events)
				}
			}
			for range warm {
				claim()
			}
			old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			require.NoError(t, err)
			defer func() { require.NoError(t, old.Rollback(context.WithoutCancel(t.Context()))) }()
			_, err = old.Exec(t.Context(), "SELECT count(*) FROM almanac.queue")
			require.NoError(t, err)

			read := func(asked statement) int {
				for i, arg := range asked.args {
					if _, is := arg.(uuid.UUID); is { // the token, which is used
						asked.args[i] = uuid.New()
					}
				}
				tx, err := pool.Begin(t.Context())
				require.NoError(t, err)
				defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
				scans := func() (all string) { // the plans of a function are not shown; what the session did before may be counted, too
					require.NoError(t, tx.QueryRow(t.Context(), `SELECT coalesce(string_agg(relname || ' ' || seq_scan, ', ' ORDER BY relname), '') FROM pg_stat_xact_user_tables
						WHERE seq_scan > 0 AND relname IN ('queue', 'series', 'visits', 'lane_states')`).Scan(&all))
					return all
				}
				before := scans()
				p, _ := planOf(t, tx, "ANALYZE, BUFFERS, ", asked)
				require.Equal(t, before, scans(), "whole tables that were read")
				return p.Hit + p.Read
			}
			// Each second, one claim searches from the beginning. The repeated one does so too if the one before it is long ago.
			cost := func() int {
				least := math.MaxInt
				for range 10 {
					claim()
					if asked := received.last("claim_lanes"); asked.args[len(asked.args)-1] != (*time.Time)(nil) {
						least = min(least, read(asked))
					}
				}
				return least
			}
			first := cost()
			for range claims / 10 {
				claim()
			}
			// Most rows cannot be seen, so the tables look small: plans must not read all versions for that.
			_, err = pool.Exec(t.Context(), "ANALYZE almanac.queue, almanac.visits, almanac.lane_states")
			require.NoError(t, err)
			then := cost()
			t.Logf("%d blocks at first, %d after %d steps", first, then, claims/10)
			require.Less(t, max(first, then), math.MaxInt, "claims from where the last one stopped")
			require.LessOrEqual(t, then, first+first/4)
		})
	}
}

// inManyLanes gives the events of the queue two types, and lanes in all combinations. The events of four lanes are
// due one after the other.
const inManyLanes = `
	ALTER TABLE almanac.series DISABLE TRIGGER USER;
	UPDATE almanac.series SET event_type = CASE WHEN id % 3 = 0 THEN 'CARD' ELSE event_type END,
		lane = (ARRAY['', 'crm', 'crm/a', 'crm/b', 'crm/c', 'mail', 'BIRTHDAY/x'])[1 + id % 7];
	ALTER TABLE almanac.series ENABLE TRIGGER USER;
	WITH gone AS (DELETE FROM almanac.queue RETURNING *)
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, lane)
	SELECT CASE WHEN s.id % 7 < 4 AND s.id % 5 = 0 THEN now() + s.id * interval '5 milliseconds' ELSE q.available_at END, q.event_id, s.id, s.event_type, s.lane
	FROM gone q JOIN almanac.series s ON s.id = q.series_id`

// apart moves the events of one type to the lane itself, and those of the other to a lane in it.
const apart = `
	ALTER TABLE almanac.series DISABLE TRIGGER USER;
	UPDATE almanac.series SET lane = CASE event_type WHEN 'CARD' THEN 'crm' ELSE 'crm/a' END;
	ALTER TABLE almanac.series ENABLE TRIGGER USER;
	DELETE FROM almanac.visits;
	WITH gone AS (DELETE FROM almanac.queue RETURNING *)
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, lane)
	SELECT q.available_at, q.event_id, s.id, s.event_type, s.lane
	FROM gone q JOIN almanac.series s ON s.id = q.series_id`

// Claims of several processes, which begin where earlier ones have ended, claim each event of each lane once, however
// the limits of a lane, of the one that it is in, and of its type are.
func TestClaimsForgetNoLane(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			const events, claimers = 400, 3
			random := rand.New(rand.NewPCG(seed, 0))
			pool := pgtest.Pool(t, pgtest.MaxConns(claimers))
			owe(t, pool, events)
			_, err := pool.Exec(t.Context(), inManyLanes)
			require.NoError(t, err)
			if seed > 3 {
				_, err = pool.Exec(t.Context(), apart)
				require.NoError(t, err)
			}
			for _, name := range []string{"crm", "crm/a", "crm/b", "mail", almanac.TypeBirthday} {
				limits := []almanac.Lane{{Name: name, Rate: 300, Burst: 10}, {Name: name, Places: 500}, {Name: name, Weight: 3}, {Name: name}}
				require.NoError(t, mustStore(t, pool).PutLane(t.Context(), limits[random.IntN(len(limits))]))
			}

			var mu sync.Mutex
			claimed, last := make(map[uuid.UUID]bool), time.Now()
			var claiming sync.WaitGroup
			for range claimers {
				store, limit := mustStore(t, pool), 1+random.IntN(8)
				claiming.Go(func() {
					for all := false; !all; {
						claim, err := store.Claim(t.Context(), almanac.ClaimRequest{
							Token: uuid.New(), Types: []string{almanac.TypeBirthday, "CARD"}, Limit: limit, Lease: time.Hour, Mark: time.Now().AddDate(-30, 0, 0),
						})
						if !assertNoError(t, err) {
							return
						}
						mu.Lock()
						for _, e := range claim.Events {
							if claimed[e.ID] {
								t.Errorf("event %s of lane %q is claimed twice", e.ID, e.Lane)
							}
							claimed[e.ID], last = true, time.Now()
						}
						all = len(claimed) == events || time.Since(last) > 5*time.Second
						mu.Unlock()
					}
				})
			}
			claiming.Wait()
			require.Len(t, slices.Collect(maps.Keys(claimed)), events)
		})
	}
}

// inTwoLanes gives the events of the queue lanes in crm: those of z are due, those of y later.
const inTwoLanes = `
	ALTER TABLE almanac.series DISABLE TRIGGER USER;
	UPDATE almanac.series SET lane = 'crm/' || CASE WHEN id % 2 = 0 THEN 'z' ELSE 'y' END;
	ALTER TABLE almanac.series ENABLE TRIGGER USER;
	WITH gone AS (DELETE FROM almanac.queue RETURNING *)
	INSERT INTO almanac.queue (available_at, event_id, series_id, event_type, lane)
	SELECT CASE WHEN s.id % 2 = 0 THEN q.available_at ELSE now() + interval '10 minutes' END, q.event_id, s.id, s.event_type, s.lane
	FROM gone q JOIN almanac.series s ON s.id = q.series_id`

// A lane that waits for tokens of its own is looked at again when they are there, whenever the other lanes are due.
func TestALaneThatWaitsForItselfIsNotForgotten(t *testing.T) {
	t.Parallel()
	const events = 60
	pool := pgtest.Pool(t)
	owe(t, pool, events)
	_, err := pool.Exec(t.Context(), inTwoLanes)
	require.NoError(t, err)
	store := mustStore(t, pool)
	require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: "crm/z", Rate: 20, Burst: 10}))
	reach(t, store, nowOf(t, store).Add(500*time.Millisecond)) // when there are tokens for several claims
	claimed := 0
	for began := time.Now(); claimed < events/2; {
		r := birthdaysUpTo(2) // so that tokens are left at first
		r.Mark = time.Now().AddDate(-30, 0, 0)
		claim, err := store.Claim(t.Context(), r)
		require.NoError(t, err)
		claimed += len(claim.Events)
		require.Less(t, time.Since(began), 10*time.Second, "%d are claimed", claimed)
	}
}

// A pause that cannot be stored, such as by a worker whose role lacks the right, keeps no breaker from opening.
func TestABreakerOpensWithoutItsPause(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	_, err := pool.Exec(t.Context(), "DROP FUNCTION almanac.pause_failing")
	require.NoError(t, err)
	store := mustStore(t, pool)
	open := func(b almanac.Breaker, now time.Time) almanac.Breaker {
		b.Allowed, b.OpenedAt, b.RetryAt, b.Pause = 1, now, now.Add(time.Minute), "open for long"
		return b
	}
	is, err := store.Report(t.Context(), "crm", open)
	require.NoError(t, err)
	require.Empty(t, is.Pause, "nothing is paused")
	is, err = store.Report(t.Context(), "crm", func(b almanac.Breaker, _ time.Time) almanac.Breaker { return b })
	require.NoError(t, err)
	require.Equal(t, 1, is.Allowed)
}

// A host's transaction locks no lane, and no claim waits for one.
func TestAHostsTransactionLocksNoLane(t *testing.T) {
	t.Parallel()
	pool := pgtest.ReusedPool(t)
	store := mustStore(t, pool)
	require.NoError(t, store.PutLane(t.Context(), almanac.Lane{Name: almanac.TypeBirthday, Places: 100}))
	storeDue(t, store, 3, []string{almanac.TypeBirthday})
	open := inOpenTransaction(t, pool)
	storeDue(t, open, 3, []string{almanac.TypeBirthday})

	require.Len(t, claimIDs(t, store, 10, []string{almanac.TypeBirthday}), 3)
}
