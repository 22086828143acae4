package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// greeter returns a scheduler of birthdays on a repository in memory, with a birthday
// ahead.
func greeter(users ...string) (almanac.Scheduler, []almanac.Event) {
	now := time.Date(2026, time.June, 1, 0, 0, 30, 0, time.UTC)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return now }), registry)
	if err != nil {
		panic(err)
	}
	var pending []almanac.Event
	for _, name := range users {
		enrolment, err := scheduler.CreateUser(context.Background(), almanac.Profile{
			FirstName: name, LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		})
		if err != nil {
			panic(err)
		}
		pending = append(pending, enrolment.Events...)
	}
	return scheduler, pending
}

// A user whose event is cancelled this year is greeted next year.
func ExampleOperator_Cancel() {
	scheduler, pending := greeter("Ada")

	cancelled, err := scheduler.Cancel(context.Background(), pending[0].ID, almanac.CancelOptions{Reason: "asked not to be greeted"})
	if err != nil {
		panic(err)
	}
	fmt.Println(cancelled.Event.Wall, cancelled.Event.Status, cancelled.Event.FailureReason)
	fmt.Println(cancelled.Successor.Wall, cancelled.Successor.Status)
	// Output:
	// 2026-12-10T09:00:00 CANCELLED asked not to be greeted
	// 2027-12-10T09:00:00 PENDING
}

// RunNow makes an event due at once. The event and its key stay the same.
func ExampleOperator_RunNow() {
	scheduler, pending := greeter("Ada")

	now, err := scheduler.RunNow(context.Background(), pending[0].ID, almanac.ForceOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(now.OccurrenceKey, "is due at", now.Due.Format(time.DateTime), "UTC,", now.Wall.Clock, "in London")
	fmt.Println(now.IdempotencyKey == pending[0].IdempotencyKey)
	// Output:
	// 2026 is due at 2026-06-01 00:00:30 UTC, 01:00:30 in London
	// true
}

// A failed event is repeated by a new event with the same key, once.
func ExampleOperator_Requeue() {
	ctx := context.Background()
	scheduler, pending := greeter("Ada")
	cancelled, err := scheduler.Cancel(ctx, pending[0].ID, almanac.CancelOptions{Reason: "by mistake"})
	if err != nil {
		panic(err)
	}

	again, err := scheduler.Requeue(ctx, cancelled.Event.ID, almanac.ForceOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(again.OccurrenceKey, again.Wall, again.Status)
	fmt.Println(again.IdempotencyKey == cancelled.Event.IdempotencyKey, again.Origin.From == cancelled.Event.ID)
	_, err = scheduler.Requeue(ctx, cancelled.Event.ID, almanac.ForceOptions{})
	fmt.Println(errors.Is(err, almanac.ErrExists))
	// Output:
	// 2026 2026-12-10T09:00:00 PENDING
	// true true
	// true
}

// A pause is stored, so it holds for all processes until the type is resumed.
func ExampleOperator_pause() {
	ctx := context.Background()
	scheduler, _ := greeter()

	if err := scheduler.Pause(ctx, almanac.Pause{Lane: almanac.TypeBirthday}); err != nil {
		panic(err)
	}
	paused, err := scheduler.Paused(ctx)
	fmt.Println(paused[0].Lane, "since", paused[0].Since.Format(time.DateTime), err)
	fmt.Println(scheduler.Resume(ctx, almanac.TypeBirthday))
	// Output:
	// BIRTHDAY since 2026-06-01 00:00:30 <nil>
	// <nil>
}

// A dry run shows which events this program's zone data would move. It moves none here,
// because the program has just planned the events by the same data.
func ExampleReconcileOptions() {
	ctx := context.Background()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := scheduler.CreateUser(ctx, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}); err != nil {
		fmt.Println(err)
		return
	}

	result, err := scheduler.Reconcile(ctx, almanac.ReconcileOptions{DryRun: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, z := range result.Zones {
		fmt.Printf("%s: %d of %d events would move\n", z.Zone, z.Moved, z.Checked)
	}
	// Output: Europe/London: 0 of 1 events would move
}
