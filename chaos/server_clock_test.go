package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgserver"
)

// Clock is what a server takes for the time. The zero Clock is the machine's.
type Clock struct {
	Ahead time.Duration // of the machine's clock; negative when behind
	Rate  float64       // how fast it runs, from the server's start on; zero means 1
}

// timepiece is the clock of a server that has one of its own.
type timepiece struct {
	file string // which libfaketime reads whenever the server asks for the time

	mu     sync.Mutex
	clocks []Clock // that it has shown, the present one last
}

func (p *timepiece) set(c Clock) error {
	p.mu.Lock()
	p.clocks = append(p.clocks, c) // first, so that no time is shown by a clock that is not among them
	p.mu.Unlock()
	line := fmt.Sprintf("%+.6f", c.Ahead.Seconds())
	if c.Rate != 0 {
		line += fmt.Sprintf(" x%g", c.Rate)
	}
	fresh := p.file + ".new" // renamed, since a file that is half written is a time too
	if err := os.WriteFile(fresh, []byte(line+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, p.file)
}

// shown returns a moment by the present clock and by each that was there before it,
// the latest first.
func (p *timepiece) shown(now time.Time) (nows []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	present := p.clocks[len(p.clocks)-1]
	for _, c := range slices.Backward(p.clocks) {
		nows = append(nows, now.Add(c.Ahead-present.Ahead))
	}
	return nows
}

// NewClusterBy is NewCluster with a clock of the server's own. Only the server goes
// by it: its clients, and what it starts on, have the machine's.
func NewClusterBy(ctx context.Context, clock Clock) (*Cluster, error) {
	library, err := fakeTime()
	if err != nil {
		return nil, err
	}
	genuine, err := pgserver.Find()
	if err != nil {
		return nil, err
	}
	c, err := newCluster("", nil)
	if err != nil {
		return nil, err
	}
	home := filepath.Dir(c.dir)
	c.clock = &timepiece{file: filepath.Join(home, "clock")}
	if err := c.clock.set(clock); err != nil {
		return nil, err
	}
	c.config.Binaries = genuine
	c.config.Binaries.Dir = filepath.Join(home, "bin")
	if err := disguise(c.config.Binaries.Dir, genuine.Dir, library, c.clock.file); err != nil {
		return nil, err
	}
	return c, c.start(ctx)
}

// fakeTime finds libfaketime, which stands between a program of C and its clock.
func fakeTime() (string, error) {
	const pattern = "/usr/lib/*/faketime/libfaketime.so.1"
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("chaos: there is no %s: install Debian's package faketime", pattern)
	}
	return found[0], nil
}

// disguise makes a directory of server programs in which postgres is the genuine one
// with another clock. Files keep their dates, and what only counts time elapsed is
// left alone.
func disguise(dir, genuine, library, clock string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Join(genuine, "initdb"), filepath.Join(dir, "initdb")); err != nil {
		return err
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	script := "#!/bin/sh\nexec env LD_PRELOAD=" + quote(library) + " FAKETIME_TIMESTAMP_FILE=" + quote(clock) +
		" FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 " + quote(filepath.Join(genuine, "postgres")) + ` "$@"` + "\n"
	return os.WriteFile(filepath.Join(dir, "postgres"), []byte(script), 0o755)
}

// Now is the time by the database.
func (r *Run) Now() time.Time {
	r.Helper()
	var now time.Time
	require.NoError(r, r.pool.QueryRow(r.Context(), "SELECT clock_timestamp()").Scan(&now))
	return now
}

// From is a wall time that far from now by the database, for [Plan].
func (r *Run) From(d time.Duration) string { return r.Now().UTC().Add(d).Format("2006-01-02T15:04:05") }

// SetClock sets the clock of a server that has one of its own, and counts the hours
// by which the database has found it to move.
func (r *Run) SetClock(ahead time.Duration) {
	r.Helper()
	before := time.Until(r.Now())
	require.NoError(r, r.Cluster.clock.set(Clock{Ahead: ahead}))
	moved := int((time.Until(r.Now()) - before).Round(time.Hour).Hours())
	r.Count("hours forward", max(moved, 0))
	r.Count("hours back", max(-moved, 0))
}

// GoByDatabase gives the receiver the database's clock. What was signed before that
// clock was set is received by the clock as it was.
func (r *Run) GoByDatabase() {
	r.Receiver.Clocks(func() []time.Time {
		var now time.Time
		if err := r.pool.QueryRow(r.Context(), "SELECT clock_timestamp()").Scan(&now); err != nil {
			return nil // nothing is accepted by no clock
		}
		return r.Cluster.clock.shown(now)
	})
}

// GoByOffset is GoByDatabase for a server that is stopped on the way, and whose clock runs as fast as the machine's.
func (r *Run) GoByOffset() {
	r.Receiver.Clocks(func() []time.Time {
		clock := r.Cluster.clock
		clock.mu.Lock()
		ahead := clock.clocks[len(clock.clocks)-1].Ahead
		clock.mu.Unlock()
		return clock.shown(time.Now().Add(ahead))
	})
}
