package almanac_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// Three birthdays with a month's memory: none stays, and none is given again, also
// when its person moves to where it is yet to come.
func TestRunPrunesWhatHasEnded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options []almanac.Option
		kept    int
	}{
		"after a month": {[]almanac.Option{almanac.WithRetention(30 * 24 * time.Hour)}, 0},
		"never":         {nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				repository := almanactest.NewRepository(nil)
				given := 0
				s := schedulerOn(t, repository, append(tt.options,
					almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { given++; return nil })),
					almanac.WithPoll(24*time.Hour), almanac.WithSweep(24*time.Hour), almanac.WithLease(24*time.Hour), almanac.WithZoneCheck(365*24*time.Hour))...)
				e := enrol(t, s, "Pacific/Auckland", "1990-06-15")
				ctx, stop := context.WithTimeout(t.Context(), 3*365*24*time.Hour)
				defer stop()

				if err := s.Run(ctx); err != nil {
					t.Fatal(err)
				}

				if n, err := repository.Count(t.Context(), almanac.InStatus(almanac.Completed)); err != nil || n != tt.kept || given != 3 {
					t.Errorf("%d completed events are kept of %d given (%v), want %d of 3", n, given, err, tt.kept)
				}
				west := "Pacific/Honolulu"
				moved, err := s.UpdateUser(t.Context(), e.UserID, almanac.ProfileChange{Timezone: &west})
				if err != nil || len(moved.Moved) != 1 || moved.Moved[0].OccurrenceKey != "2003" {
					t.Errorf("after a move: %+v, %v; want the birthday of 2003", moved, err)
				}
			})
		})
	}
}
