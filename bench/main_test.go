package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(ordersVariable) != "" { // a worker of a test
		if err := work(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if c, err := shared(); err == nil {
		if err := c.close(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// shared is the cluster of the tests that need none of their own.
var shared = sync.OnceValues(func() (*cluster, error) { return startCluster(context.Background(), smallSettings()) })

// smallSettings are for machines that have less to give than a benchmark asks for.
func smallSettings() map[string]string { return map[string]string{"shared_buffers": "64MB"} }

// migrated returns a database with Almanac's tables.
func migrated(t *testing.T) database {
	t.Helper()
	c, err := shared()
	require.NoError(t, err)
	require.NoError(t, c.template(t.Context(), "almanac", migrateAlmanac))
	db, err := c.copy(t.Context(), "almanac")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.discard(context.Background(), db)) })
	return db
}
