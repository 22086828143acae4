package almanacprom_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
)

// condition is a scheduler in a given condition.
type condition struct{ health almanac.Health }

func (c *condition) Health() almanac.Health { return c.health }

func TestHealthIsReadAtEachScrape(t *testing.T) {
	t.Parallel()
	runner := &condition{almanac.Health{Workers: 10, Patience: 30 * time.Second}}
	health := almanacprom.NewHealth(runner)
	shows(t, health, `
		almanac_running 0
		almanac_ready 0
		almanac_workers 10
		almanac_events_held 0
		almanac_failure_seconds{part="claim"} 0
	`)

	runner.health = almanac.Health{
		Running: true, Workers: 10, Held: 7, Stuck: 2, Blocked: 1, Patience: 30 * time.Second,
		Claim: almanac.Failure{For: 10 * time.Second},
	}
	shows(t, health, `
		almanac_running 1
		almanac_ready 1
		almanac_workers 10
		almanac_events_held 7
		almanac_deliveries_stuck 2
		almanac_calls_blocked 1
		almanac_events_lost 0
		almanac_failure_seconds{part="claim"} 10
		almanac_failure_seconds{part="settle"} 0
		almanac_failure_seconds{part="renew"} 0
	`)
	require.Equal(t, 3, testutil.CollectAndCount(health, "almanac_failure_seconds"))

	runner.health.Lost, runner.health.Settle, runner.health.Renew = 3, almanac.Failure{For: time.Minute}, almanac.Failure{For: time.Second}
	runner.health.Maintenance = map[string]almanac.Failure{"prune ended events": {For: time.Hour}}
	shows(t, health, `
		almanac_running 1
		almanac_ready 0
		almanac_events_lost 3
		almanac_failure_seconds{part="settle"} 60
		almanac_failure_seconds{part="renew"} 1
		almanac_failure_seconds{part="prune ended events"} 3600
	`)
}

// The gauge equals a readiness probe with the same conditions.
func TestReadyChecksTheConditionsToo(t *testing.T) {
	t.Parallel()
	runner := &condition{almanac.Health{Running: true, Workers: 10, Patience: 30 * time.Second}}
	var away error
	health := almanacprom.NewHealth(runner, func(context.Context) error { return nil }, func(ctx context.Context) error {
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		return away
	})
	shows(t, health, "\n\t\talmanac_ready 1\n")
	away = errors.New("the database is away")
	shows(t, health, "\n\t\talmanac_running 1\n\t\talmanac_ready 0\n")
	away, runner.health.Running = nil, false
	shows(t, health, "\n\t\talmanac_ready 0\n")
}
