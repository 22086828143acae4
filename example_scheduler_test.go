package almanac_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// spring is when the examples play.
var spring = time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)

// birthdaysIn returns a scheduler of birthdays on a repository that stands still in
// spring 2027.
func birthdaysIn(options ...almanac.Option) (almanac.Scheduler, almanac.Repository) {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	return must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.Birthday{})), options...)), repository
}

var adaInLondon = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}

// People are created, move house and leave; what they are owed follows.
func ExamplePlanner() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon))
	fmt.Println("owed:", ada.Events[0].Wall, ada.Events[0].Due.Format(time.RFC3339))

	tokyo := "Asia/Tokyo"
	moved := must(scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Timezone: &tokyo}))
	fmt.Println("moved:", moved.Moved[0].Wall, moved.Moved[0].Due.Format(time.RFC3339))

	gone := must(scheduler.DeleteUser(ctx, ada.User.ID, almanac.Delete{}))
	fmt.Println("removed:", gone.Removed, "in flight:", len(gone.InFlight))
	// Output:
	// owed: 2027-12-10T09:00:00 2027-12-10T09:00:00Z
	// moved: 2027-12-10T09:00:00 2027-12-10T00:00:00Z
	// removed: 1 in flight: 0
}

func ExampleEnrolment() {
	scheduler, _ := birthdaysIn()
	ada := must(scheduler.CreateUser(context.Background(), adaInLondon))
	fmt.Println(ada.User.FirstName, "at version", ada.User.Version, "is owed", len(ada.Events), ada.Events[0].Type)
	// Output:
	// Ada at version 1 is owed 1 BIRTHDAY
}

// A change says what it moved, what it made anew, and what was in flight.
func ExampleRescheduled() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon))
	name := "Augusta"
	r := must(scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{FirstName: &name}))
	fmt.Println(len(r.Moved), "moved,", len(r.Refreshed), "refreshed:", string(r.Refreshed[0].Payload))
	// Output:
	// 0 moved, 1 refreshed: {"message":"Hey, Augusta Lovelace it's your birthday"}
}

func ExampleProfileChange() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon))
	r := must(scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Merge: json.RawMessage(`{"plan": "gold"}`), Version: 1}))
	fmt.Println(string(r.User.Attributes), r.User.Version)
	// Output:
	// {"plan":"gold"} 2
}

// A host hears of what is stored.
func ExampleObserverFunc() {
	scheduler, _ := birthdaysIn(almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
		fmt.Println(n.Kind)
	})))
	must(scheduler.CreateUser(context.Background(), adaInLondon))
	// Output:
	// user.created
	// event.created
}

func ExampleMissed() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn()
	u := almanactest.User()
	_, _, err := repository.CreateUser(ctx, u, almanactest.Event(spring, almanactest.For(u), almanactest.ReadyFor(time.Hour)))
	if err != nil {
		panic(err)
	}
	missed := must(scheduler.Missed(ctx))
	fmt.Println(missed.Count, missed.Oldest.Format(time.RFC3339))
	for _, e := range must(scheduler.FindMissed(ctx, 1000)) {
		fmt.Println(e.Type, e.Status, e.Due.Format(time.RFC3339))
	}
	// Output:
	// 1 2027-02-28T23:00:00Z
	// BIRTHDAY PENDING 2027-02-28T23:00:00Z
}

// After a downtime, what has waited longest comes first.
func ExampleRecoveryRepository() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring.Add(-time.Hour), spring.Add(-3*time.Hour), spring.Add(-2*time.Hour))

	var r almanac.RecoveryRepository = repository
	for _, e := range must(r.FindMissed(ctx, []string{almanac.TypeBirthday}, time.Minute, 2)) {
		fmt.Println(e.Due.Format(time.DateTime))
	}
	// Output:
	// 2027-02-28 21:00:00
	// 2027-02-28 22:00:00
}

// A readiness probe asks for Err.
func ExampleHealth() {
	scheduler, _ := birthdaysIn()
	h := scheduler.Health()
	fmt.Println(h.Running, h.Workers, h.Err())
	// Output:
	// false 100 almanac: scheduler is not running
}

func ExampleRetryPolicy() {
	patient := almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.PatientRetry()}}
	fmt.Println(patient.Retry().Attempts, patient.Retry().First)
	_, err := almanac.NewRegistry(almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{Factor: 0.5}}})
	fmt.Println(err)
	// Output:
	// 12 30s
	// almanac: handler of "BIRTHDAY": retry policy: factor of 0.5 is not 1 or more
}

// What a worker does by hand: claim, deliver, settle with the successor.
func ExampleClaimRepository() {
	ctx := context.Background()
	_, repository := birthdaysIn()
	u := almanactest.User()
	_, _, err := repository.CreateUser(ctx, u, almanactest.Event(spring, almanactest.For(u), almanactest.Of("2027")))
	if err != nil {
		panic(err)
	}
	claim := must(repository.Claim(ctx, almanac.ClaimRequest{
		Token: uuid.New(), Owner: "example", Types: []string{almanac.TypeBirthday}, Limit: 10, Lease: time.Minute,
	}))
	e := claim.Events[0]
	fmt.Println("claimed", e.OccurrenceKey, e.Status)
	settled := must(repository.Settle(ctx, []almanac.Settlement{{
		Event: e, User: claim.Users[e.UserID], Outcome: almanac.Delivered(claim.At),
		Next: func(u almanac.User, now time.Time) (almanac.Event, error) {
			return almanactest.Event(now, almanactest.For(u), almanactest.Of("2028"), almanactest.DueIn(365*24*time.Hour)), nil
		},
	}}))
	fmt.Println(settled[0].Event.Status, "then", settled[0].Successor.OccurrenceKey, settled[0].Successor.Status)
	// Output:
	// claimed 2027 PROCESSING
	// COMPLETED then 2028 PENDING
}

func ExampleOutcome() {
	e := almanactest.Event(spring, almanactest.InStatus(almanac.Processing))
	for _, o := range []almanac.Outcome{
		almanac.Delivered(spring), almanac.GaveUp("receiver answered 410"), almanac.GaveBack(almanac.AfterFailure, "receiver answered 503", time.Minute),
	} {
		is := must(o.Apply(e, spring))
		fmt.Printf("%s, %d failed: %q\n", is.Status, is.RetryCount, is.FailureReason+is.LastError)
	}
	// Output:
	// COMPLETED, 0 failed: ""
	// FAILED, 1 failed: "receiver answered 410"
	// PENDING, 1 failed: "receiver answered 503"
}

// A repository shows an edit the locked roster, and stores what it returns.
func ExampleRoster() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon))
	edit := must(repository.EditUser(ctx, ada.User.ID, func(r almanac.Roster) (almanac.Edit, error) {
		fmt.Println(r.User.FirstName, "has", len(r.Pending), "pending and", len(r.InFlight), "in flight")
		return almanac.Edit{Removed: r.Pending}, nil
	}))
	fmt.Println("removed", len(edit.Removed))
	// Output:
	// Ada has 1 pending and 0 in flight
	// removed 1
}

func ExampleStatus() {
	for _, to := range []almanac.Status{almanac.Processing, almanac.Completed, almanac.Failed, almanac.Pending, almanac.Cancelled} {
		fmt.Println(almanac.Processing.CanBecome(to), to, to.Terminal())
	}
	// Output:
	// false PROCESSING false
	// true COMPLETED true
	// true FAILED true
	// true PENDING false
	// false CANCELLED true
}
