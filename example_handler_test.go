package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// fireworks is a handler of the host: every year on 14 July, at 22:00.
type fireworks struct{}

func (fireworks) EventType() string { return "FIREWORKS" }

func (fireworks) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	bastille := calendar.Yearly{Month: time.July, Day: 14, At: calendar.Clock{Hour: 22}}
	return calendar.Next(bastille, u.Timezone, calendar.Policies{}, after)
}

func (fireworks) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"text": "Look up, " + u.FirstName + "! It is " + o.Wall.Clock.String()})
}

func (fireworks) Channel(almanac.Event) almanac.Channel { return "sky" }

// A handler returns when an event happens, what is delivered, and by which channel.
func ExampleEventHandler() {
	var h almanac.EventHandler = fireworks{}
	ada := must(almanac.NewUser(adaInLondon, spring))
	next := must(h.Next(ada, spring))
	fmt.Println(next.Key, "at", next.Wall, string(must(h.Payload(ada, almanac.Occurrence{Occurrence: next}))), "by", h.Channel(almanac.Event{}))
	// Output:
	// 2027 at 2027-07-14T22:00:00 {"text":"Look up, Ada! It is 22:00:00"} by sky
}

// selfLit makes the attempts itself, so its channel needs no deliverer.
type selfLit struct{ fireworks }

func (selfLit) Execute(_ context.Context, d almanac.Delivery) error {
	fmt.Println("lit by itself in", d.Event.Zone, "at", d.Event.Wall.Clock)
	return nil
}

func ExampleExecutor() {
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{selfLit{}})
	// Output: lit by itself in Europe/London at 22:00:00
}

// The function gets the event, the number of the attempt, and the time by the database
// clock.
func ExampleDelivery() {
	post := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		fmt.Printf("attempt %d, %v late: %s\n", d.Attempt, d.At.Sub(d.Event.Due), d.Event.Payload)
		return nil
	})
	e := almanac.Event{Due: spring, Payload: json.RawMessage(`{"message": "Hey"}`)}
	fmt.Println(post.Deliver(context.Background(), almanac.Delivery{Event: e, Attempt: 2, At: spring.Add(10 * time.Second)}))
	// Output:
	// attempt 2, 10s late: {"message": "Hey"}
	// <nil>
}

// A delivery that returns an error is tried again, unless the error is permanent.
func ExampleDelivererFunc() {
	full := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error {
		return almanac.Permanent(errors.New("no such mailbox"))
	})
	err := full.Deliver(context.Background(), almanac.Delivery{Attempt: 1})
	fmt.Println(err, errors.Is(err, almanac.ErrPermanent))
	// Output: no such mailbox true
}

// hasty makes one attempt of up to three seconds, because a second one would come in the night. An
// event that is more than one hour late after a downtime is not delivered.
type hasty struct{ fireworks }

func (hasty) Settings() almanac.Execution {
	return almanac.Execution{
		AttemptTimeout: 3 * time.Second,
		RetryPolicy:    almanac.RetryPolicy{Attempts: 1},
		CatchUpPolicy:  almanac.CatchUp{SkipOlder: time.Hour},
	}
}

// The context of an attempt ends after the handler's timeout.
func ExampleConfigurer() {
	damp := &almanactest.Recorder{Deliverer: almanac.DelivererFunc(func(ctx context.Context, _ almanac.Delivery) error {
		deadline, _ := ctx.Deadline()
		fmt.Println("has", time.Until(deadline))
		return errors.New("damp")
	})}
	overAYear(damp, []almanac.EventHandler{hasty{}}, almanac.WithDeliverer("sky", damp))
	// Output:
	// has 3s
	// 2000-07-14T22:00:00 FIREWORKS {"text":"Look up, Ada! It is 22:00:00"} damp
}

// An event that is more than one hour late after a downtime is not delivered.
func ExampleConfigurer_catchUp() {
	synctest.Test(new(testing.T), func(t *testing.T) { // from 2000-01-01 on, in virtual time
		missed := almanac.Hooks{Failed: func(_ context.Context, e almanac.Event) { fmt.Println(e.OccurrenceKey, e.FailureReason) }}
		rehearsal := almanactest.Rehearse(t, must(almanac.NewRegistry(hasty{})),
			almanac.WithDeliverer("sky", new(almanactest.Recorder)), almanac.WithObserver(missed))
		must(rehearsal.Scheduler.CreateUser(t.Context(), adaInLondon))

		time.Sleep(time.Until(time.Date(2000, time.July, 15, 9, 0, 0, 0, time.UTC)))
		rehearsal.For(time.Hour)
	})
	// Output:
	// 2000 missed: 12h0m0s after its instant, more than 1h0m0s
}

// Each appointment is a series of its own, so two of them can be at the same instant.
func ExampleMultiSeries() {
	var h almanac.MultiSeries = almanac.Reminder{}
	p := adaInLondon
	p.Attributes = json.RawMessage(`{"reminders": {
		"dentist": {"at": "2027-03-15T09:00:00", "message": "Brush your teeth"},
		"bank":    {"at": "2027-03-15T09:00:00", "message": "Ask for the manager"}}}`)
	ada := must(almanac.NewUser(p, spring))
	for _, name := range must(h.Series(ada)) {
		fmt.Println(name, "at", must(h.NextIn(ada, name, spring)).Wall)
	}
	// Unordered output:
	// bank at 2027-03-15T09:00:00
	// dentist at 2027-03-15T09:00:00
}

// A follow-up has a type with a handler, and a wall time.
func ExampleFollowUp() {
	ended := almanac.Event{Status: almanac.Completed, OccurrenceKey: "2027", Wall: must(calendar.ParseWallTime("2027-12-10T09:00:00"))}
	for _, f := range must(asking{}.Follow(almanac.User{}, ended)) {
		fmt.Println(f.Type, f.Occurrence.Key, "at", f.Occurrence.Wall)
	}
	// Output: QUESTION 2027 at 2027-12-12T09:00:00
}
