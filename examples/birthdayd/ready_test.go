package main

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac/internal/pgtest"
)

// says waits until a path answers with the status.
func (p *process) says(path string, want int) {
	p.t.Helper()
	last := 0
	require.Eventually(p.t, func() bool {
		last, _ = p.send("GET", path, "")
		return last == want
	}, patience, pollEvery, "%s never answers %d", path, want)
}

func TestReadyzFollowsTheDatabase(t *testing.T) {
	t.Parallel()
	h, w := listen(t, http.StatusOK), lay(t, pgtest.URL(t))
	p := launch(t, append(h.flags(), "-database-url", w.url, "-lease", "3s")...)
	p.says("/readyz", http.StatusOK)

	w.cut()
	p.says("/readyz", http.StatusServiceUnavailable)
	p.says("/healthz", http.StatusOK)
	w.mend()
	p.says("/readyz", http.StatusOK)

	event, _ := p.enrol("Asia/Kathmandu")
	require.Equal(t, event["idempotencyKey"], h.next().key())
	require.Equal(t, 0, p.stop())
}

// The database answers queries for the time, but not the workers.
func TestReadyzFollowsTheWorkers(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	pool, err := pgxpool.New(t.Context(), pgtest.Direct(t, url))
	require.NoError(t, err)
	defer pool.Close()
	p := launch(t, append(listen(t, http.StatusOK).flags(), "-database-url", url, "-lease", "3s")...)
	p.says("/readyz", http.StatusOK)

	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }() // otherwise the pool does not close
	_, err = tx.Exec(t.Context(), "LOCK TABLE almanac.queue IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	p.says("/readyz", http.StatusServiceUnavailable)
	require.NoError(t, tx.Rollback(t.Context()))

	p.says("/readyz", http.StatusOK)
	require.Equal(t, 0, p.stop())
}

func TestReadyzFailsBeforeTheListenerCloses(t *testing.T) {
	t.Parallel()
	h := listen(t, http.StatusOK)
	p := launch(t, append(h.flags(), "-database-url", pgtest.URL(t), "-shutdown-delay", "1h")...)
	p.says("/readyz", http.StatusOK)

	p.signal(syscall.SIGTERM)

	p.says("/readyz", http.StatusServiceUnavailable)
	p.says("/healthz", http.StatusOK)
	p.signal(syscall.SIGTERM)
	require.Equal(t, -1, p.wait(), "it outlived a second signal")
}
