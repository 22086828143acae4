package almanacprom_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
)

func TestClaimsAreMeasured(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	events.Measure(t.Context(), almanac.Measurement{Kind: almanac.MeasuredClaim, Query: 80 * time.Millisecond, Total: 90 * time.Millisecond, BatchSize: 100, Found: 7})
	events.Measure(t.Context(), almanac.Measurement{Kind: almanac.MeasuredClaim, Query: 150 * time.Millisecond, Total: 300 * time.Millisecond, BatchSize: 93})
	events.Measure(t.Context(), almanac.Measurement{Kind: almanac.MeasuredClaim, Total: 20 * time.Second, BatchSize: 50, Err: errRefused})

	shows(t, events, `
		almanac_claim_query_duration_seconds_bucket{le="0.05"} 0
		almanac_claim_query_duration_seconds_bucket{le="0.1"} 1
		almanac_claim_query_duration_seconds_bucket{le="0.2"} 2
		almanac_claim_query_duration_seconds_count 2
		almanac_claim_duration_seconds_bucket{outcome="answered",le="0.1"} 1
		almanac_claim_duration_seconds_bucket{outcome="answered",le="1"} 2
		almanac_claim_duration_seconds_sum{outcome="failed"} 20
		almanac_claim_events_bucket{le="0"} 1
		almanac_claim_events_sum 7
		almanac_claim_events_count 2
		almanac_claim_batch_size_sum 243
		almanac_claim_batch_size_count 3
	`)
}

func TestQueryDurationIsAbsentWithoutMeasurement(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	events.Measure(t.Context(), almanac.Measurement{Kind: almanac.MeasuredClaim, Total: time.Millisecond, BatchSize: 1, Found: 1})
	shows(t, events, `
		almanac_claim_query_duration_seconds_count 0
		almanac_claim_duration_seconds_count{outcome="answered"} 1
	`)
}

func TestVersionedUpdatesAreCounted(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	require.Equal(t, 6, testutil.CollectAndCount(events, "almanac_versioned_updates_total"), "each kind and result, from the beginning")
	events.Measure(t.Context(), almanac.Measurement{Kind: almanac.MeasuredOutcome, Stored: 98, Conflicts: 2})
	events.Measure(t.Context(), almanac.Measurement{Kind: almanac.MeasuredUser, Conflicts: 1})

	shows(t, events, `
		almanac_versioned_updates_total{kind="outcome",result="stored"} 98
		almanac_versioned_updates_total{kind="outcome",result="conflict"} 2
		almanac_versioned_updates_total{kind="user",result="stored"} 0
		almanac_versioned_updates_total{kind="user",result="conflict"} 1
		almanac_versioned_updates_total{kind="event",result="conflict"} 0
	`)
}
