package almanactest_test

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

// A test rehearses four years in virtual time. They include a leap day and a move to
// another zone.
func ExampleRehearse() {
	t := new(testing.T) // a test uses its own
	synctest.Test(t, func(t *testing.T) {
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		greetings := new(almanactest.Recorder)
		time.Sleep(time.Until(time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)))
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, greetings))

		ada, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1996-02-29", Timezone: "Europe/London",
		})
		if err != nil {
			t.Fatal(err)
		}
		rehearsal.Until(time.Date(2029, time.January, 1, 0, 0, 0, 0, time.UTC))
		tokyo := "Asia/Tokyo"
		if _, err := rehearsal.Scheduler.UpdateUser(t.Context(), ada.User.ID, almanac.ProfileChange{Timezone: &tokyo}); err != nil {
			t.Fatal(err)
		}
		rehearsal.For(2 * 365 * 24 * time.Hour)

		for _, greeting := range greetings.Attempts() {
			fmt.Println(greeting)
		}
		almanactest.PendingAt(t, rehearsal.Repository, ada.User.ID, almanac.TypeBirthday, "2031-02-28T09:00 Asia/Tokyo")
	})
	// Output:
	// 2027-02-28T09:00:00 Europe/London (09:00:00Z) BIRTHDAY 2027
	// 2028-02-29T09:00:00 Europe/London (09:00:00Z) BIRTHDAY 2028
	// 2029-02-28T09:00:00 Asia/Tokyo (00:00:00Z) BIRTHDAY 2029
	// 2030-02-28T09:00:00 Asia/Tokyo (00:00:00Z) BIRTHDAY 2030
}

// A receiver that is down for its first two attempts.
func ExampleRecorder() {
	t := new(testing.T) // a test uses its own
	synctest.Test(t, func(t *testing.T) {
		reminders := &almanactest.Recorder{Deliverer: almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			if d.Attempt <= 2 {
				return errors.New("receiver answered 503")
			}
			return nil
		})}
		retry := almanac.Execution{RetryPolicy: almanac.RetryPolicy{First: time.Minute, Factor: 10}}
		registry, err := almanac.NewRegistry(almanac.Birthday{Execution: retry})
		if err != nil {
			t.Fatal(err)
		}
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, reminders))
		if _, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}); err != nil {
			t.Fatal(err)
		}

		rehearsal.For(365 * 24 * time.Hour)

		for _, a := range reminders.Attempts() {
			fmt.Printf("attempt %d on %s: %v\n", a.Attempt, a.Wall().Date, a.Err)
		}
	})
	// Output:
	// attempt 1 on 2000-12-10: receiver answered 503
	// attempt 2 on 2000-12-10: receiver answered 503
	// attempt 3 on 2000-12-10: <nil>
}

// While a test sleeps, the program does not run, as in a downtime. Missed events are
// delivered when the program runs again. The clock of a bubble starts in the year 2000.
func ExampleRehearsal_Until() {
	t := new(testing.T) // a test uses its own
	synctest.Test(t, func(t *testing.T) {
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		greetings := new(almanactest.Recorder)
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, greetings))
		if _, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}); err != nil {
			t.Fatal(err)
		}

		rehearsal.Until(time.Date(2000, time.December, 1, 0, 0, 0, 0, time.UTC))
		time.Sleep(14 * 24 * time.Hour)
		rehearsal.For(time.Hour)

		for _, greeting := range greetings.Attempts() {
			fmt.Println(greeting)
		}
	})
	// Output: 2000-12-15T00:00:00 Europe/London (00:00:00Z) BIRTHDAY 2000
}

// A program is killed in the middle of a delivery. Another process finds the event when the
// lease has expired.
func ExampleRehearsal_Crash() {
	t := new(testing.T) // a test uses its own
	synctest.Test(t, func(t *testing.T) {
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		greetings := new(almanactest.Recorder)
		rehearsal := almanactest.Rehearse(t, registry, almanac.WithDeliverer(almanac.ChannelWebhook, greetings),
			almanac.WithLease(time.Minute), almanac.WithSweep(5*time.Second))
		greetings.Deliverer = almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			if d.Event.CrashCount == 0 {
				rehearsal.Crash()
			}
			return nil
		})
		time.Sleep(time.Until(time.Date(2027, time.December, 10, 8, 59, 0, 0, time.UTC)))
		if _, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}); err != nil {
			t.Fatal(err)
		}

		rehearsal.For(time.Hour)

		for _, a := range greetings.Attempts() {
			fmt.Println(a.Wall().Clock.Hour, "o'clock,", a.Event.CrashCount, "crashes before:", a.Err)
		}
	})
	// Output:
	// 9 o'clock, 0 crashes before: did not return
	// 9 o'clock, 1 crashes before: <nil>
}

// Events in the states that a test needs.
func ExampleStore() {
	t := new(testing.T) // a test uses its own
	now := time.Date(2027, time.March, 15, 14, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	ada := almanactest.User(almanactest.LivingIn("Europe/London"))
	synctest.Test(t, func(t *testing.T) {
		almanactest.Store(t, repository, ada,
			almanactest.Event(now, almanactest.For(ada), almanactest.ReadyFor(time.Hour)),
			almanactest.Event(now, almanactest.For(ada), almanactest.Tried(2), almanactest.DelayedFor(time.Minute)),
			almanactest.Event(now, almanactest.For(ada), almanactest.InStatus(almanac.Processing)),
			almanactest.Event(now, almanactest.For(ada), almanactest.FailedBecause("receiver answered 410")))

		for _, e := range almanactest.FindEvents(t, repository, almanac.ForUser(ada.ID), 4) {
			fmt.Println(e.Status, "after", e.RetryCount, "failures")
		}
	})
	// Output:
	// PENDING after 0 failures
	// PENDING after 2 failures
	// PROCESSING after 0 failures
	// FAILED after 1 failures
}
