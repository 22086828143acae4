package main

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// No process is measured before it has looked for events, and then each has its share.
func TestProcessesBeginTogether(t *testing.T) {
	c, err := shared()
	require.NoError(t, err)
	b := &bench{sizes: tinySizes(), cluster: c, report: &report{}, log: t.Output(), only: regexp.MustCompile("")}
	b.Events = 600
	require.NoError(t, b.withholdBacklog(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.drop(context.Background(), withheld)) })
	require.NoError(t, c.with(t.Context(), withheld, func(db database) error {
		crew, err := muster(orders{URL: db.url, Workers: 20, Takes: 20 * time.Millisecond}, 3)
		require.NoError(t, err)
		defer func() { require.NoError(t, crew.stop()) }()
		require.NoError(t, crew.begin())
		require.NoError(t, crew.settled(t.Context()))
		for _, p := range crew.processes {
			require.True(t, p.latest.Load().Ready)
		}
		_, total, _ := crew.stored()
		require.Zero(t, total, "the backlog is withheld")

		f, err := b.saturate(t.Context(), db, crew)

		require.NoError(t, err)
		require.Greater(t, f.least, 10.0)
		require.GreaterOrEqual(t, f.greatest, f.least)
		require.Positive(t, f.rate)
		require.LessOrEqual(t, f.rate, 3*20/0.02)
		return nil
	}))
}
