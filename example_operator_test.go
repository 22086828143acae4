package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// greeter returns a scheduler of birthdays on a repository in memory, at a moment
// when somebody's is ahead.
func greeter(people ...string) (almanac.Scheduler, []almanac.Event) {
	now := time.Date(2026, time.June, 1, 0, 0, 30, 0, time.UTC)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return now }), registry)
	if err != nil {
		panic(err)
	}
	var owed []almanac.Event
	for _, name := range people {
		enrolment, err := scheduler.CreateUser(context.Background(), almanac.Profile{
			FirstName: name, LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		})
		if err != nil {
			panic(err)
		}
		owed = append(owed, enrolment.Events...)
	}
	return scheduler, owed
}

// Who does not want to be greeted this year is greeted the next.
func ExampleOperator_Cancel() {
	scheduler, owed := greeter("Ada")

	cancelled, err := scheduler.Cancel(context.Background(), owed[0].ID, almanac.Cancel{Reason: "asked not to be greeted"})
	if err != nil {
		panic(err)
	}
	fmt.Println(cancelled.Event.Wall, cancelled.Event.Status, cancelled.Event.FailureReason)
	fmt.Println(cancelled.Successor.Wall, cancelled.Successor.Status)
	// Output:
	// 2026-12-10T09:00:00 CANCELLED asked not to be greeted
	// 2027-12-10T09:00:00 PENDING
}

// An event is due at once; it is the same event, under the same key.
func ExampleOperator_RunNow() {
	scheduler, owed := greeter("Ada")

	now, err := scheduler.RunNow(context.Background(), owed[0].ID)
	if err != nil {
		panic(err)
	}
	fmt.Println(now.OccurrenceKey, "is due at", now.Due.Format(time.DateTime), "UTC,", now.Wall.Clock, "in London")
	fmt.Println(now.IdempotencyKey == owed[0].IdempotencyKey)
	// Output:
	// 2026 is due at 2026-06-01 00:00:30 UTC, 01:00:30 in London
	// true
}

// What failed begins again as a new event under the same key, and does so once.
func ExampleOperator_Requeue() {
	ctx := context.Background()
	scheduler, owed := greeter("Ada")
	cancelled, err := scheduler.Cancel(ctx, owed[0].ID, almanac.Cancel{Reason: "by mistake"})
	if err != nil {
		panic(err)
	}

	again, err := scheduler.Requeue(ctx, cancelled.Event.ID)
	if err != nil {
		panic(err)
	}
	fmt.Println(again.OccurrenceKey, again.Wall, again.Status)
	fmt.Println(again.IdempotencyKey == cancelled.Event.IdempotencyKey, again.RequeuedFrom == cancelled.Event.ID)
	_, err = scheduler.Requeue(ctx, cancelled.Event.ID)
	fmt.Println(errors.Is(err, almanac.ErrExists))
	// Output:
	// 2026 2026-12-10T09:00:00 PENDING
	// true true
	// true
}

// Look first, then change what was seen.
func ExampleOperator_Operate() {
	ctx := context.Background()
	scheduler, _ := greeter("Ada", "Grace", "Katherine")
	december := almanac.DueBetween{From: time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)}

	for _, dry := range []bool{true, false} {
		done, err := scheduler.Operate(ctx, almanac.OperationCancel, december, almanac.Operate{
			Limit: 2, DryRun: dry, Cancel: almanac.Cancel{Reason: "the party is off"},
		})
		if err != nil {
			panic(err)
		}
		for _, e := range done.Events {
			fmt.Printf("%s %s %q\n", e.OccurrenceKey, e.Status, e.FailureReason)
		}
		fmt.Println(len(done.Refused), "refused; more:", done.More)
	}
	// Output:
	// 2026 PENDING ""
	// 2026 PENDING ""
	// 0 refused; more: true
	// 2026 CANCELLED "the party is off"
	// 2026 CANCELLED "the party is off"
	// 0 refused; more: true
}

// A pause is stored, so that it holds for all processes until it is taken back.
func ExamplePauser() {
	ctx := context.Background()
	scheduler, _ := greeter()

	if err := scheduler.Pause(ctx, almanac.TypeBirthday); err != nil {
		panic(err)
	}
	paused, err := scheduler.Paused(ctx)
	fmt.Println(paused[0].EventType, "since", paused[0].Since.Format(time.DateTime), err)
	fmt.Println(scheduler.Resume(ctx, almanac.TypeBirthday))
	// Output:
	// BIRTHDAY since 2026-06-01 00:00:30 <nil>
	// <nil>
}

// Only the event that somebody has seen is cancelled, and nothing comes after it.
func ExampleCancel() {
	ctx := context.Background()
	scheduler, owed := greeter("Ada")
	_, err := scheduler.Cancel(ctx, owed[0].ID, almanac.Cancel{Version: owed[0].Version + 1})
	fmt.Println(errors.Is(err, almanac.ErrOptimisticLock))
	cancelled := must(scheduler.Cancel(ctx, owed[0].ID, almanac.Cancel{Version: owed[0].Version, EndSeries: true}))
	fmt.Println(cancelled.Event.Status, cancelled.Successor)
	// Output:
	// true
	// CANCELLED <nil>
}

func ExampleCancelResult() {
	scheduler, owed := greeter("Ada")
	cancelled := must(scheduler.Cancel(context.Background(), owed[0].ID, almanac.Cancel{Reason: "asked not to be greeted"}))
	fmt.Println(cancelled.Event.OccurrenceKey, cancelled.Event.Status, cancelled.Event.FailureReason)
	fmt.Println("then", cancelled.Successor.OccurrenceKey)
	// Output:
	// 2026 CANCELLED asked not to be greeted
	// then 2027
}

// A dry run shows what would be changed, and a limit bounds it.
func ExampleOperate() {
	scheduler, _ := greeter("Ada", "Grace")
	for _, how := range []almanac.Operate{{DryRun: true}, {Limit: 1}, {}} {
		done := must(scheduler.Operate(context.Background(), almanac.OperationCancel, almanac.DueBetween{
			Until: time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC),
		}, how))
		fmt.Println(len(done.Events), done.Events[0].Status, done.More)
	}
	// Output:
	// 2 PENDING false
	// 1 CANCELLED true
	// 1 CANCELLED false
}

// What could not be changed does not hold up the others.
func ExampleOperated() {
	scheduler, _ := greeter("Ada")
	done := must(scheduler.Operate(context.Background(), almanac.OperationRunNow, nil, almanac.Operate{}))
	fmt.Println(len(done.Events), "due at", done.Events[0].Due.Format(time.DateTime), "and", len(done.Refused), "refused")
	// Output: 1 due at 2026-06-01 00:00:30 and 0 refused
}

// Each operation is for events in one status, and takes those alone.
func ExampleOperation() {
	scheduler, _ := greeter("Ada")
	for _, what := range []almanac.Operation{almanac.OperationRequeue, almanac.OperationCancel, almanac.OperationRequeue} {
		done := must(scheduler.Operate(context.Background(), what, almanac.OfType(almanac.TypeBirthday), almanac.Operate{Limit: 1}))
		fmt.Println(what, len(done.Events))
	}
	// Output:
	// requeue 0
	// cancel 1
	// requeue 0
}

// An event that began again once does not do so a second time.
func ExampleEventRefusal() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	_, owed := stored(repository, spring)
	scheduler := must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.Birthday{}))))
	claimed := must(repository.Claim(ctx, claimAll())).Events
	must(repository.Settle(ctx, []almanac.Settlement{{Event: claimed[0], Outcome: almanac.GaveUp("HTTP 404")}}))
	must(scheduler.Requeue(ctx, owed[0].ID))
	for _, r := range must(scheduler.Operate(ctx, almanac.OperationRequeue, nil, almanac.Operate{})).Refused {
		fmt.Println(r.EventID == owed[0].ID, errors.Is(r.Err, almanac.ErrExists))
	}
	// Output: true true
}

func ExamplePause() {
	ctx := context.Background()
	scheduler, _ := greeter()
	fmt.Println(scheduler.Pause(ctx, "BIRTDAY"))
	if err := scheduler.Pause(ctx, almanac.TypeBirthday); err != nil {
		panic(err)
	}
	for _, p := range must(scheduler.Paused(ctx)) {
		fmt.Println(p.EventType, p.Since.Format(time.DateTime))
	}
	// Output:
	// almanac: no handler for event type "BIRTDAY"
	// BIRTHDAY 2026-06-01 00:00:30
}
