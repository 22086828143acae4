package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// The error of a delivery says whether another attempt is worth it, and when.
func ExampleDeliverer() {
	mailer := &almanactest.Recorder{Deliverer: almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		switch {
		case d.Event.OccurrenceKey == "2001":
			return almanac.Permanent(errors.New("no such mailbox"))
		case d.Attempt == 1:
			return almanac.RetryAfter(time.Hour, errors.New("mailbox is full"))
		}
		return nil
	})}
	synctest.Test(new(testing.T), func(t *testing.T) { // from 2000-01-01 on, in virtual time
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			panic(err)
		}
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, mailer))
		if _, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}); err != nil {
			panic(err)
		}
		rehearsal.For(2 * 366 * 24 * time.Hour)
	})

	for _, a := range mailer.Attempts() {
		fmt.Printf("%s, attempt %d at %d o'clock: %v\n", a.Event.OccurrenceKey, a.Attempt, a.Wall().Clock.Hour, a.Err)
	}
	// Output:
	// 2000, attempt 1 at 9 o'clock: mailbox is full
	// 2000, attempt 2 at 10 o'clock: <nil>
	// 2001, attempt 1 at 9 o'clock: no such mailbox
}

// What a downtime owes is for the handler to say: what was pending then comes late,
// and so do the others if all are owed.
func ExampleCatchUp() {
	tips := new(almanactest.Recorder)
	synctest.Test(new(testing.T), func(t *testing.T) { // from 2000-01-01 on, in virtual time
		daily := func(almanac.User) (almanac.Recurrence, error) { return almanac.Daily{At: almanac.Clock{Hour: 8}}, nil }
		registry, err := almanac.NewRegistry(
			almanac.Recurring{Type: "TIP", Rule: daily},
			almanac.Recurring{Type: "BILL", Rule: daily, Execution: almanac.Execution{CatchUpPolicy: almanac.CatchUp{All: true}}},
		)
		if err != nil {
			panic(err)
		}
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, tips))
		if _, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}); err != nil {
			panic(err)
		}
		time.Sleep(72 * time.Hour)
		rehearsal.For(time.Hour)
	})

	for _, eventType := range []string{"TIP", "BILL"} {
		for _, a := range tips.Attempts() {
			if a.Event.Type == eventType {
				fmt.Println(eventType, "of", a.Event.Wall.Date, "on", a.Wall().Date)
			}
		}
	}
	// Output:
	// TIP of 2000-01-01 on 2000-01-04
	// BILL of 2000-01-01 on 2000-01-04
	// BILL of 2000-01-02 on 2000-01-04
	// BILL of 2000-01-03 on 2000-01-04
}

// Hooks hear of what is stored.
func ExampleHooks() {
	hooks := almanac.Hooks{
		Created: func(_ context.Context, e almanac.Event) { fmt.Println("owed:", e.Wall, e.Zone) },
		TimezoneChanged: func(_ context.Context, was, is almanac.User) {
			fmt.Println("moved:", was.Timezone, "to", is.Timezone)
		},
		Rescheduled: func(_ context.Context, e almanac.Event) { fmt.Println("instead:", e.Wall, e.Zone) },
	}
	ctx, now := context.Background(), time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return now }), registry, almanac.WithObserver(hooks))
	if err != nil {
		panic(err)
	}

	ada, err := scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	})
	if err != nil {
		panic(err)
	}
	tokyo := "Asia/Tokyo"
	if _, err := scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Timezone: &tokyo}); err != nil {
		panic(err)
	}
	// Output:
	// owed: 2027-12-10T09:00:00 Europe/London
	// moved: Europe/London to Asia/Tokyo
	// instead: 2027-12-10T09:00:00 Asia/Tokyo
}
