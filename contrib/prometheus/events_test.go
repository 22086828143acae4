package almanacprom_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
)

func registryOf(t *testing.T, handlers ...almanac.EventHandler) almanac.Registry {
	t.Helper()
	r, err := almanac.NewRegistry(handlers...)
	require.NoError(t, err)
	return r
}

// shows checks the given metrics, in the text format without comments.
func shows(t *testing.T, c prometheus.Collector, want string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	have := lines(t, registry)
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line != "" {
			require.Contains(t, have, line)
		}
	}
}

func TestEveryStoredChangeIsCounted(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	birthday := almanac.Event{Type: almanac.TypeBirthday}
	for kind, times := range map[almanac.NoticeKind]int{
		almanac.EventCreated: 1, almanac.EventClaimed: 2, almanac.EventReleased: 3, almanac.EventRescheduled: 4,
		almanac.EventRemoved: 5, almanac.EventCompleted: 6, almanac.EventFailed: 7, almanac.EventCancelled: 11, almanac.EventRequeued: 12,
		almanac.EventSkipped: 13,
		almanac.UserCreated:  8, almanac.UserTimezoneChanged: 9, almanac.UserBirthdayChanged: 10, almanac.UserOptOutsChanged: 14,
	} {
		for range times {
			events.Observe(t.Context(), almanac.Notice{Kind: kind, Event: birthday, Cause: almanac.AfterCrash, Failure: almanac.FailedMissed})
		}
	}

	shows(t, events, `
		almanac_event_changes_total{change="created",type="BIRTHDAY"} 1
		almanac_event_changes_total{change="claimed",type="BIRTHDAY"} 2
		almanac_event_changes_total{change="released",type="BIRTHDAY"} 3
		almanac_event_changes_total{change="rescheduled",type="BIRTHDAY"} 4
		almanac_event_changes_total{change="removed",type="BIRTHDAY"} 5
		almanac_event_changes_total{change="completed",type="BIRTHDAY"} 6
		almanac_event_changes_total{change="failed",type="BIRTHDAY"} 7
		almanac_event_changes_total{change="cancelled",type="BIRTHDAY"} 11
		almanac_event_changes_total{change="requeued",type="BIRTHDAY"} 12
		almanac_event_changes_total{change="skipped",type="BIRTHDAY"} 13
		almanac_event_releases_total{cause="crash",type="BIRTHDAY"} 3
		almanac_event_releases_total{cause="failure",type="BIRTHDAY"} 0
		almanac_event_failures_total{cause="missed",type="BIRTHDAY"} 7
		almanac_event_failures_total{cause="permanent",type="BIRTHDAY"} 0
		almanac_user_changes_total{change="created"} 8
		almanac_user_changes_total{change="timezone_changed"} 9
		almanac_user_changes_total{change="birthday_changed"} 10
		almanac_user_changes_total{change="opt_outs_changed"} 14
		almanac_user_changes_total{change="deleted"} 0
		almanac_event_lateness_seconds_count{type="BIRTHDAY"} 6
	`)
}

func TestTypesThatTheRegistryLacksShareALabel(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	deliverer := events.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil }))
	for i := range 100 {
		e := almanac.Event{Type: strings.Repeat("X", i+1)}
		events.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted, Event: e})
		require.NoError(t, deliverer.Deliver(t.Context(), almanac.Delivery{Event: e}))
	}

	shows(t, events, `
		almanac_event_changes_total{change="completed",type="unregistered"} 100
		almanac_event_lateness_seconds_count{type="unregistered"} 100
		almanac_delivery_duration_seconds_count{outcome="accepted",type="unregistered"} 100
	`)
	require.Equal(t, 12+1, testutil.CollectAndCount(events, "almanac_event_changes_total"))
}

func TestLatenessIsFromDueToDelivered(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	due := time.Date(2026, 12, 10, 9, 0, 0, 0, time.UTC)
	for _, late := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, time.Hour, 48 * time.Hour} {
		e := almanac.Event{Type: almanac.TypeBirthday, Due: due, ExecutedAt: due.Add(late)}
		events.Observe(t.Context(), almanac.Notice{Kind: almanac.EventCompleted, Event: e})
	}

	shows(t, events, `
		almanac_event_lateness_seconds_bucket{type="BIRTHDAY",le="0.001"} 2
		almanac_event_lateness_seconds_bucket{type="BIRTHDAY",le="0.0025"} 2
		almanac_event_lateness_seconds_bucket{type="BIRTHDAY",le="0.005"} 3
		almanac_event_lateness_seconds_bucket{type="BIRTHDAY",le="3600"} 4
		almanac_event_lateness_seconds_bucket{type="BIRTHDAY",le="+Inf"} 5
		almanac_event_lateness_seconds_sum{type="BIRTHDAY"} 176400.004
	`)
}

func TestHistogramsAreNativeToo(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(events)
	families, err := registry.Gather()
	require.NoError(t, err)
	histograms := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if h := metric.GetHistogram(); h != nil {
				histograms++
				require.NotNil(t, h.Schema, family.GetName())
				require.NotEmpty(t, h.GetBucket(), family.GetName())
			}
		}
	}
	require.NotZero(t, histograms)
}

// errRefused is a temporary refusal by a receiver.
var errRefused = errors.New("refused")

func TestAScheduledEventIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := registryOf(t, almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Second, Jitter: 1e-9}}})
		events := almanacprom.NewEvents(registry)
		tries := 0
		deliverer := events.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
			time.Sleep(20 * time.Millisecond)
			if tries++; tries == 1 {
				return errRefused
			}
			return nil
		}))
		scheduler, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry,
			almanac.WithObserver(events), almanac.WithDeliverer(almanac.ChannelWebhook, deliverer))
		require.NoError(t, err)
		tomorrow := time.Now().AddDate(0, 0, 1)
		_, err = scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: tomorrow.Format("1990-01-02"), Timezone: "UTC",
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		require.NoError(t, scheduler.Run(ctx))

		shows(t, events, `
			almanac_event_changes_total{change="created",type="BIRTHDAY"} 2
			almanac_event_changes_total{change="claimed",type="BIRTHDAY"} 2
			almanac_event_changes_total{change="released",type="BIRTHDAY"} 1
			almanac_event_changes_total{change="completed",type="BIRTHDAY"} 1
			almanac_event_changes_total{change="failed",type="BIRTHDAY"} 0
			almanac_user_changes_total{change="created"} 1
			almanac_event_lateness_seconds_bucket{type="BIRTHDAY",le="1"} 0
			almanac_event_lateness_seconds_bucket{type="BIRTHDAY",le="2.5"} 1
			almanac_delivery_duration_seconds_count{outcome="accepted",type="BIRTHDAY"} 1
			almanac_delivery_duration_seconds_sum{outcome="accepted",type="BIRTHDAY"} 0.02
			almanac_delivery_duration_seconds_count{outcome="failed",type="BIRTHDAY"} 1
			almanac_deliveries_in_flight{type="BIRTHDAY"} 0
			almanac_claim_events_sum 2
			almanac_versioned_updates_total{kind="outcome",result="stored"} 2
			almanac_versioned_updates_total{kind="outcome",result="conflict"} 0
		`)
	})
}
