package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/chaos"
)

var (
	seed  = flag.Uint64("seed", 1, "the seed of the first run of each row")
	seeds = flag.Int("seeds", 1, "how many seeds each row is run with")
	mixed = flag.Duration("mixed", 10*time.Second, "for how long the mixed row lets faults loose")
)

func TestMain(m *testing.M) {
	if code, ordered := chaos.Work(); ordered {
		os.Exit(code)
	}
	flag.Parse()
	code := m.Run()
	if err := errors.Join(shared.close(), following.close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shared is the server of the rows that leave it alone.
var shared sharing

type sharing struct {
	once    sync.Once
	cluster *chaos.Cluster
	err     error
}

func (s *sharing) get() (*chaos.Cluster, error) {
	s.once.Do(func() {
		// Its rows do not crash it, so they need not wait for the disk.
		s.cluster, s.err = chaos.NewCluster(context.Background(), map[string]string{"fsync": "off"})
	})
	return s.cluster, s.err
}

func (s *sharing) close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close(context.Background())
}

// calm is a run on the shared server.
func calm(t *testing.T, seed uint64) *chaos.Run {
	t.Helper()
	cluster, err := shared.get()
	require.NoError(t, err)
	return chaos.NewRun(t, cluster, seed)
}

// alone is a run on a server of its own, which it may break.
func alone(t *testing.T, seed uint64, settings map[string]string) *chaos.Run {
	t.Helper()
	cluster, err := chaos.NewCluster(t.Context(), settings)
	require.NoError(t, err)
	t.Cleanup(func() { _ = cluster.Close(context.Background()) })
	return chaos.NewRun(t, cluster, seed)
}

// row runs a row of the matrix with each seed that was asked for, side by side.
func row(t *testing.T, run func(t *testing.T, seed uint64)) {
	t.Helper()
	t.Parallel()
	for n := range *seeds {
		t.Run(fmt.Sprintf("seed %d", *seed+uint64(n)), func(t *testing.T) {
			t.Parallel()
			share(t)
			run(t, *seed+uint64(n))
		})
	}
}

// rowByItself is row for one that counts on punctual workers: it runs its seeds one after
// the other, and nothing beside them.
func rowByItself(t *testing.T, run func(t *testing.T, seed uint64)) {
	t.Helper()
	t.Parallel()
	machine.Lock()
	t.Cleanup(machine.Unlock)
	for n := range *seeds {
		t.Run(fmt.Sprintf("seed %d", *seed+uint64(n)), func(t *testing.T) { run(t, *seed+uint64(n)) })
	}
}

// machine is what runs share, or what a row has for itself.
var machine sync.RWMutex

// share takes a part of the machine until the test is over.
func share(t *testing.T) {
	machine.RLock()
	t.Cleanup(machine.RUnlock)
}

// until waits until the database says that something is so.
func until(r *chaos.Run, query string, args ...any) {
	r.Helper()
	for ctx := r.Within(time.Minute); ; {
		var so bool
		err := r.Pool().QueryRow(ctx, query, args...).Scan(&so)
		if so {
			return
		}
		if ctx.Err() != nil {
			require.Fail(r, "not yet", "%s (%v)\n%s\n%s", query, err, r.Activity(), r.Complaints())
		}
		time.Sleep(10 * time.Millisecond)
	}
}
