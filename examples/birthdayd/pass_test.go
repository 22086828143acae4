package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/internal/pgtest"
	"github.com/almanac-go/almanac/postgres"
)

func TestOnceGreetsDueUsersAndEnds(t *testing.T) {
	t.Parallel()
	pool, h := pgtest.Pool(t), listen(t, http.StatusOK)
	store, err := postgres.New(pool)
	require.NoError(t, err)
	now := time.Now().UTC().Truncate(time.Second)
	missed(t, store, now.Add(-time.Hour))
	missed(t, store, now.Add(-time.Minute))
	flags := append(h.flags(), "-once", "-database-url", pool.Config().ConnString())

	first := begin(t, flags...)

	h.next()
	h.next()
	require.Equal(t, 0, first.wait())
	require.Equal(t, "claimed 2: 2 completed, 0 failed, 0 called off, 0 to be tried again, 0 released, 0 not stored; 0 recovered; more: false\n", first.out.String())
	n, err := store.Count(t.Context(), almanac.InStatus(almanac.Completed))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	again := begin(t, flags...)
	require.Equal(t, 0, again.wait())
	require.Contains(t, again.out.String(), "claimed 0")
}

func TestOnceAndDemoExcludeEachOther(t *testing.T) {
	t.Parallel()
	p := begin(t, "-once", "-demo")
	require.Equal(t, exitUsage, p.wait())
	require.Contains(t, p.log.String(), "-once and -backfill end, and -demo goes on")
}
