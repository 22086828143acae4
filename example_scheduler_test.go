package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// spring is the time of the examples.
var spring = time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)

// birthdaysIn returns a scheduler of birthdays on a repository whose clock stands in
// spring 2027.
func birthdaysIn(options ...almanac.Option) (almanac.Scheduler, almanac.Repository) {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	return must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.Birthday{})), options...)), repository
}

var adaInLondon = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}

// When users are created, move and leave, their pending events follow.
func ExamplePlanner() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon))
	fmt.Println("planned:", ada.Events[0].Wall, ada.Events[0].Due.Format(time.RFC3339))

	tokyo := "Asia/Tokyo"
	moved := must(scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Timezone: &tokyo}))
	fmt.Println("moved:", moved.Moved[0].Wall, moved.Moved[0].Due.Format(time.RFC3339))

	gone := must(scheduler.DeleteUser(ctx, ada.User.ID, almanac.DeleteOptions{}))
	fmt.Println("removed:", gone.Removed, "in flight:", len(gone.InFlight))
	// Output:
	// planned: 2027-12-10T09:00:00 2027-12-10T09:00:00Z
	// moved: 2027-12-10T09:00:00 2027-12-10T00:00:00Z
	// removed: 1 in flight: 0
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

// A host is notified of stored changes.
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
	_, _, err := almanactest.CreateUser(ctx, repository, u, almanactest.Event(spring, almanactest.For(u), almanactest.ReadyFor(time.Hour)))
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

// A readiness probe calls Err.
func ExampleHealth() {
	scheduler, _ := birthdaysIn()
	h := scheduler.Health()
	fmt.Println(h.Running, h.Workers, h.Err())
	// Output:
	// false 100 almanac: scheduler is not running
}

func ExampleRetryPolicy() {
	patient := almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.PatientRetry()}}
	fmt.Println(patient.RetryPolicy.Attempts, patient.RetryPolicy.First)
	_, err := almanac.NewRegistry(almanac.Birthday{Execution: almanac.Execution{RetryPolicy: almanac.RetryPolicy{Factor: 0.5}}})
	fmt.Println(err)
	// Output:
	// 12 30s
	// almanac: handler of "BIRTHDAY": retry policy: factor of 0.5 is not 1 or more
}

// A preview shows when a birthday will be greeted, and why then.
func ExampleScheduler_Preview() {
	ctx, now := context.Background(), time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	repository := almanactest.NewRepository(func() time.Time { return now })
	scheduler, err := almanac.NewScheduler(repository, registry)
	if err != nil {
		panic(err)
	}
	leapling, err := scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1992-02-29", Timezone: "America/New_York",
	})
	if err != nil {
		panic(err)
	}

	ahead, err := scheduler.Preview(ctx, leapling.User.ID, almanac.TypeBirthday, 3)
	if err != nil {
		panic(err)
	}
	for _, next := range ahead.Ahead {
		fmt.Printf("%s UTC: %s\n", next.Resolution.Instant.Format(time.DateTime), next.Reason())
	}
	// Output:
	// 2027-02-28 14:00:00 UTC: 29 February moved to 28 February
	// 2028-02-29 14:00:00 UTC: exact
	// 2029-02-28 14:00:00 UTC: 29 February moved to 28 February
}

// Before a user moves, a preview of the edited user shows what would change. Nothing is
// stored.
func ExampleScheduler_PreviewUser() {
	scheduler, repository := birthdaysIn()
	ada := must(scheduler.CreateUser(context.Background(), adaInLondon)).User
	tokyo := "Asia/Tokyo"
	moved := must(ada.Edit(almanac.ProfileChange{Timezone: &tokyo}, must(repository.Now(context.Background()))))

	for _, u := range []almanac.User{ada, moved} {
		for _, next := range must(scheduler.PreviewUser(context.Background(), u, almanac.TypeBirthday, 1)).Ahead {
			fmt.Printf("%s: %s UTC in %s\n", next.Key, next.Resolution.Instant.Format(time.DateTime), u.Timezone)
		}
	}
	// Output:
	// 2027: 2027-12-10 09:00:00 UTC in Europe/London
	// 2027: 2027-12-10 00:00:00 UTC in Asia/Tokyo
}

// dentist returns a scheduler of one-off events in spring 2027, and a user.
func dentist() (almanac.Scheduler, almanac.User) {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	scheduler := must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.OneOff{Type: "DENTIST"}))))
	return scheduler, must(scheduler.CreateUser(context.Background(), adaInLondon)).User
}

var toothache = almanac.ScheduleAtOptions{
	At:      must(calendar.ParseWallTime("2027-03-15T09:00:00")),
	Key:     "tooth-7",
	Payload: json.RawMessage(`{"message": "Brush your teeth"}`),
}

// A repeated call returns the stored event. Another event needs another key.
func ExamplePlanner_scheduleAt() {
	scheduler, ada := dentist()
	var planner almanac.Planner = scheduler
	first := must(planner.ScheduleAt(context.Background(), ada.ID, "DENTIST", toothache))
	fmt.Println(first.Event.Wall, first.Event.Zone, string(first.Event.Payload))
	again := must(planner.ScheduleAt(context.Background(), ada.ID, "DENTIST", toothache))
	fmt.Println(again.Existed, again.Event.ID == first.Event.ID)
	other := toothache
	other.At.Clock.Hour = 10
	_, err := planner.ScheduleAt(context.Background(), ada.ID, "DENTIST", other)
	fmt.Println(errors.Is(err, almanac.ErrExists))
	// Output:
	// 2027-03-15T09:00:00 Europe/London {"message": "Brush your teeth"}
	// true true
	// true
}

// An event keeps its instant when its user moves, unless it follows the user.
func ExampleScheduleAtOptions() {
	ctx := context.Background()
	scheduler, ada := dentist()
	must(scheduler.ScheduleAt(ctx, ada.ID, "DENTIST", toothache))
	brush := almanac.ScheduleAtOptions{At: toothache.At, Key: "brush", FollowUser: true}
	must(scheduler.ScheduleAt(ctx, ada.ID, "DENTIST", brush))
	tokyo := "Asia/Tokyo"
	edited := must(scheduler.UpdateUser(ctx, ada.ID, almanac.ProfileChange{Timezone: &tokyo}))
	for _, e := range edited.Moved {
		fmt.Println(e.Wall, e.Zone, e.Due.Format(time.RFC3339), string(e.Payload))
	}
	// Output: 2027-03-15T09:00:00 Asia/Tokyo 2027-03-15T00:00:00Z {"key":"brush"}
}

// anniversary thanks users at 09:00 on each anniversary of the hire date in their
// attributes. A user without a hire date has no anniversaries.
type anniversary struct{ almanac.Execution }

func (anniversary) EventType() string { return "ANNIVERSARY" }

func (anniversary) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	var facts struct {
		HireDate string `json:"hireDate"`
	}
	if err := json.Unmarshal(u.Attributes, &facts); err != nil || facts.HireDate == "" {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence
	}
	hired, err := calendar.ParseDate(facts.HireDate)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	yearly := calendar.Yearly{Month: hired.Month, Day: hired.Day, At: calendar.Clock{Hour: 9}}
	return calendar.Next(yearly, u.Timezone, calendar.Policies{}, after)
}

func (anniversary) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"message": fmt.Sprintf("Thank you, %s, for another year. It is %s!", u.FirstName, o.Key)})
}

func (anniversary) Channel(almanac.Event) almanac.Channel { return almanac.ChannelWebhook }

// A handler of the host works together with ready-made handlers.
func ExampleRegistry() {
	registry, err := almanac.NewRegistry(almanac.Birthday{}, anniversary{})
	if err != nil {
		panic(err)
	}
	handler, err := registry.Handler("ANNIVERSARY")
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Grace", LastName: "Hopper", DateOfBirth: "1990-12-09", Timezone: "America/New_York",
		Attributes: json.RawMessage(`{"hireDate": "2020-02-29"}`),
	}, now)
	if err != nil {
		panic(err)
	}
	occurrence, err := handler.Next(user, now)
	if err != nil {
		panic(err)
	}
	payload, err := handler.Payload(user, almanac.Occurrence{Occurrence: occurrence})
	fmt.Println(registry.EventTypes())
	fmt.Println(occurrence.Wall, string(payload), err)
	// Output:
	// [ANNIVERSARY BIRTHDAY]
	// 2026-02-28T09:00:00 {"message":"Thank you, Grace, for another year. It is 2026!"} <nil>
}

// must keeps the examples short: it panics on errors that cannot happen in them.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
