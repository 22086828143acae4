package chaos_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/chaos"
	"github.com/almanac-go/almanac/postgres"
)

// verifications counts the calls of Verify.
type verifications struct {
	almanac.Repository
	n atomic.Int64
}

func (v *verifications) Verify(ctx context.Context) error {
	defer v.n.Add(1)
	return v.Repository.Verify(ctx)
}

// pg_restore commits one table after the other: the queue before the series, and the series before the users. A worker whose
// supervisor starts it again and again touches no row before the end, and then delivers each event once.
func TestAWorkerThatStartsDuringARestoreWaits(t *testing.T) {
	t.Parallel()
	share(t)
	const users = 20
	cluster, err := chaos.NewCluster(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cluster.Close(context.Background()) })
	from := newSide(t, cluster.Direct("postgres"))
	require.NoError(t, postgres.Migrate(t.Context(), from.pool))
	for range users {
		from.createUser()
	}
	list, err := from.store().Find(t.Context(), nil, almanac.Page{})
	require.NoError(t, err)
	zone, err := calendar.LoadTimezone("Europe/London")
	require.NoError(t, err)
	for _, e := range list.Items {
		e.Due = time.Now().Add(-time.Hour).Truncate(time.Second)
		e.Wall = zone.WallTime(e.Due)
		_, err = from.store().Update(t.Context(), e, e.Version)
		require.NoError(t, err)
	}
	claim, err := from.store().Claim(t.Context(), almanac.ClaimRequest{Token: uuid.New(), Types: []string{almanac.TypeBirthday}, Limit: users / 2, Lease: time.Millisecond})
	require.NoError(t, err)
	require.Len(t, claim.Events, users/2)
	dump := filepath.Join(t.TempDir(), "dump")
	from.program("pg_dump", "-Fc", "--schema=almanac", "--file="+dump, from.url)

	from.exec("CREATE DATABASE restored")
	to := newSide(t, cluster.Direct("restored"))
	watched := &verifications{Repository: to.store()}
	var mu sync.Mutex
	delivered := make(map[uuid.UUID]int)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	worker, err := almanac.NewScheduler(watched, registry, almanac.WithSweep(50*time.Millisecond),
		almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			delivered[d.Event.ID]++
			return nil
		})))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var restored atomic.Bool
	var supervisor sync.WaitGroup
	supervisor.Go(func() {
		for ctx.Err() == nil {
			run, end := context.WithCancel(ctx)
			if !restored.Load() {
				run, end = context.WithTimeout(ctx, 200*time.Millisecond)
			}
			_ = worker.Run(run)
			end()
		}
	})
	defer supervisor.Wait()
	defer stop()

	restore := func(args ...string) {
		to.program("pg_restore", append(args, "--dbname="+to.url, dump)...)
		seen := watched.n.Load()
		require.Eventually(t, func() bool { return watched.n.Load() > seen+1 }, 30*time.Second, 5*time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		require.Empty(t, delivered)
	}
	restore("--section=pre-data")
	for entry := range strings.Lines(to.program("pg_restore", "--list", dump)) {
		if strings.Contains(entry, " TABLE DATA ") || strings.Contains(entry, " SEQUENCE SET ") {
			only := filepath.Join(t.TempDir(), "list")
			require.NoError(t, os.WriteFile(only, []byte(entry), 0o600))
			restore("--use-list=" + only)
		}
	}
	restored.Store(true)
	to.program("pg_restore", "--section=post-data", "--dbname="+to.url, dump)

	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(delivered) == users
	}, 60*time.Second, 10*time.Millisecond)
	stop()
	supervisor.Wait()
	for id, n := range delivered {
		require.Equal(t, 1, n, id)
	}
	differences, err := to.store().Examine(t.Context())
	require.NoError(t, err)
	require.Empty(t, differences)
}
