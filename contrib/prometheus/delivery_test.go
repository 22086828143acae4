package almanacprom_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/almanac-go/almanac"
	almanacprom "github.com/almanac-go/almanac/contrib/prometheus"
)

func TestAttemptsAreMeasuredByTheirOutcome(t *testing.T) {
	t.Parallel()
	stopped := errors.New("the process stops")
	tests := map[string]struct {
		cause   error // ends the context before the attempt returns
		err     error
		outcome string
	}{
		"accepted":                   {nil, nil, "accepted"},
		"accepted though stopped":    {stopped, nil, "accepted"},
		"refused":                    {nil, errRefused, "failed"},
		"refused for good":           {nil, almanac.Permanent(errRefused), "permanent"},
		"put off":                    {nil, almanac.Snooze(time.Minute, ""), "snoozed"},
		"called off":                 {nil, fmt.Errorf("mail: %w", almanac.NotOwed("no address")), "not_owed"},
		"too slow":                   {context.DeadlineExceeded, errRefused, "timeout"},
		"too slow, refused for good": {context.DeadlineExceeded, almanac.Permanent(errRefused), "permanent"},
		"cut short":                  {stopped, errRefused, "canceled"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				deliverer := events.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
					shows(t, events, `almanac_deliveries_in_flight{type="BIRTHDAY"} 1`)
					time.Sleep(1500 * time.Millisecond)
					if tt.cause != nil {
						cancel(tt.cause)
					}
					return tt.err
				}))

				err := deliverer.Deliver(ctx, almanac.Delivery{Event: almanac.Event{Type: almanac.TypeBirthday}})

				require.Equal(t, tt.err, err)
				shows(t, events, `
					almanac_delivery_duration_seconds_count{outcome="`+tt.outcome+`",type="BIRTHDAY"} 1
					almanac_delivery_duration_seconds_sum{outcome="`+tt.outcome+`",type="BIRTHDAY"} 1.5
					almanac_deliveries_in_flight{type="BIRTHDAY"} 0
				`)
			})
		})
	}
}

func TestAPanicIsMeasuredAndGoesOn(t *testing.T) {
	t.Parallel()
	events := almanacprom.NewEvents(registryOf(t, almanac.Birthday{}))
	deliverer := events.Middleware(almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { panic("oops") }))

	require.PanicsWithValue(t, "oops", func() {
		_ = deliverer.Deliver(t.Context(), almanac.Delivery{Event: almanac.Event{Type: almanac.TypeBirthday}})
	})

	shows(t, events, `
		almanac_delivery_duration_seconds_count{outcome="panicked",type="BIRTHDAY"} 1
		almanac_deliveries_in_flight{type="BIRTHDAY"} 0
	`)
}
