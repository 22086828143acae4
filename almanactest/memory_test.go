package almanactest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

func TestMemoryRepository(t *testing.T) {
	t.Parallel()
	almanactest.TestRepository(t, func(*testing.T) almanac.Repository { return almanactest.NewRepository(nil) })
}

func TestYearsOfBirthdaysRunInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repository := almanactest.NewRepository(nil)
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		var delivered []time.Time
		scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithPoll(24*time.Hour), almanac.WithSweep(24*time.Hour), almanac.WithLease(72*time.Hour),
			almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
				delivered = append(delivered, time.Now().UTC())
				return nil
			})))
		if err != nil {
			t.Fatal(err)
		}
		enrolment, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1996-02-29", Timezone: "Europe/London"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 400*24*time.Hour)
		defer stop()
		if err := scheduler.Run(ctx); err != nil {
			t.Error(err)
		}
		// A bubble begins on 2000-01-01.
		want := []string{"2000-02-29T09:00:00Z"}
		if len(delivered) != len(want) || delivered[0].Format(time.RFC3339) != want[0] {
			t.Errorf("delivered at %v, want %v", delivered, want)
		}
		next := almanactest.PendingEvent(t, repository, enrolment.User.ID, almanac.TypeBirthday)
		if got := next.Due.Format(time.RFC3339); got != "2001-02-28T09:00:00Z" {
			t.Errorf("next birthday at %s, want 2001-02-28T09:00:00Z", got)
		}
	})
}
