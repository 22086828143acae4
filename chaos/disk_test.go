package chaos_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

// The disk fills up while workers work. Nothing is sent that was not claimed, and
// all goes on when there is room again.
func TestDiskFull(t *testing.T) {
	row(t, func(t *testing.T, seed uint64) {
		require.Zero(t, os.Geteuid(), "this row mounts a small file system, which takes root")
		dir, err := os.MkdirTemp("", "almanac-disk-")
		require.NoError(t, err)
		require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=192m,mode=0711"))
		t.Cleanup(func() {
			require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH))
			require.NoError(t, os.Remove(dir))
		})
		cluster, err := chaos.NewClusterIn(t.Context(), dir, map[string]string{"min_wal_size": "32MB", "max_wal_size": "48MB"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = cluster.Close(context.Background()) })
		r := chaos.NewRun(t, cluster, seed)
		r.CreateUsers(people, chaos.Plan{Start: chaos.From(lead), Interval: 1, Count: 10})
		workers := two(r)

		filler := filepath.Join(dir, "filler")
		fill(t, filler)
		before, _ := r.Receiver.Ledger()
		// Each write wants its place in the log, which soon has none.
		for filling := time.Now(); time.Since(filling) < 4*time.Second; {
			if _, err := r.Pool().Exec(t.Context(), "CREATE TABLE IF NOT EXISTS ballast (b text); INSERT INTO ballast SELECT repeat('x', 1000) FROM generate_series(1, 5000)"); err != nil {
				r.Count("writes refused", 1)
				time.Sleep(100 * time.Millisecond)
			}
		}
		during, _ := r.Receiver.Ledger()
		r.Count("sent while full", len(during)-len(before))
		r.Allow(2 * len(workers) * chaos.Slots)
		require.NoError(t, os.Remove(filler))
		if !cluster.Alive() { // it gives up when it cannot even recover
			r.Count("given up", 1)
			require.NoError(t, cluster.Restart(r.Within(30*time.Second)))
			r.Reconnect()
		}

		r.Drained(60 * time.Second)
		r.Check("writes refused")
	})
}

// fill takes all the room that there is.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}
