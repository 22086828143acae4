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
	"github.com/almanac-go/almanac/calendar"
)

// overAYear runs Ada's events for a year in virtual time, and prints the deliveries.
func overAYear(greetings *almanactest.Recorder, handlers []almanac.EventHandler, options ...almanac.Option) {
	synctest.Test(new(testing.T), func(t *testing.T) { // a test is given its own
		registry, err := almanac.NewRegistry(handlers...)
		if err != nil {
			panic(err)
		}
		rehearsal := almanactest.Rehearse(t, registry, append(options, almanac.WithDeliverer(almanac.ChannelWebhook, greetings))...)
		if _, err := rehearsal.Scheduler.CreateUser(t.Context(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}); err != nil {
			panic(err)
		}
		rehearsal.For(364 * 24 * time.Hour)
	})
	for _, a := range greetings.Attempts() {
		fmt.Println(a.Wall(), a.Event.Type, string(a.Event.Payload), a.Err)
	}
}

// asking is a birthday, after which a question follows.
type asking struct{ almanac.Birthday }

func (asking) Follow(_ almanac.User, ended almanac.Event) ([]almanac.FollowUp, error) {
	if ended.Status != almanac.Completed {
		return nil, nil
	}
	later := calendar.WallTimeOf(ended.Wall.Labelled().AddDate(0, 0, 2))
	return []almanac.FollowUp{{Type: "QUESTION", Occurrence: calendar.Occurrence{Key: ended.OccurrenceKey, Wall: later}}}, nil
}

// Two days after the birthday, a question is delivered. Its own handler makes the
// payload, and plans no event by itself.
func ExampleFollower() {
	question := almanac.Recurring{
		Type:    "QUESTION",
		Rule:    func(almanac.User) (calendar.Recurrence, error) { return nil, nil },
		Message: func(u almanac.User, _ almanac.Occurrence) string { return "How was the day, " + u.FirstName + "?" },
	}
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{asking{}, question})
	// Output:
	// 2000-12-10T09:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} <nil>
	// 2000-12-12T09:00:00 QUESTION {"message":"How was the day, Ada?","occurrence":"2000"} <nil>
}

// A delivery that finds its receiver asleep puts the event off, which is no failed
// attempt.
func ExampleSnooze() {
	greetings := &almanactest.Recorder{Deliverer: almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		if d.At.Hour() < 12 {
			return almanac.Snooze(2*time.Hour, "not before noon")
		}
		return nil
	})}
	overAYear(greetings, []almanac.EventHandler{almanac.Birthday{}})
	for _, a := range greetings.Attempts() {
		fmt.Println(a.Attempt)
	}
	// Output:
	// 2000-12-10T09:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} snoozed for 2h0m0s: not before noon
	// 2000-12-10T11:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} snoozed for 2h0m0s: not before noon
	// 2000-12-10T13:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} <nil>
	// 1
	// 1
	// 1
}

// A provider takes one text message a minute from all processes together, whatever else is due.
func ExampleLane() {
	registry, err := almanac.NewRegistry(almanac.Birthday{}, almanac.Reminder{Type: "TEXT"})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry)
	if err != nil {
		panic(err)
	}
	fmt.Println(scheduler.SetLane(context.Background(), almanac.Lane{Name: "TEXT", Rate: 1.0 / 60, Places: 1}))
	fmt.Println(scheduler.SetLane(context.Background(), almanac.Lane{Name: "TEXT", Rate: -1}))
	// Output:
	// <nil>
	// almanac: invalid input: rate is -1, and not between 0.000001 and 1000000
}

// A middleware sees every delivery and its error; this one refuses one type.
func ExampleWithMiddleware() {
	refusing := func(next almanac.Deliverer) almanac.Deliverer {
		return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
			if d.Event.Type == almanac.TypeBirthday {
				fmt.Println("refused", d.Event.OccurrenceKey)
				return almanac.Permanent(errors.New("no greeting is sent any more"))
			}
			return next.Deliver(ctx, d)
		})
	}
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{almanac.Birthday{}}, almanac.WithMiddleware(refusing))
	// Output: refused 2000
}

// A check sees each event before its delivery. This one postpones what would be delivered
// on a Sunday where the user lives.
func ExampleWithChecks() {
	noSundays := func(e almanac.Event, now time.Time) error {
		local := calendar.StoredTimezone(e.Zone).WallTime(now)
		if local.Labelled().Weekday() == time.Sunday {
			return almanac.Snooze(24*time.Hour, "no delivery on Sundays")
		}
		return nil
	}
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{almanac.Birthday{}}, almanac.WithChecks(noSundays))
	// Output: 2000-12-11T09:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} <nil>
}

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

// The handler decides which events are delivered after a downtime: the pending event, or
// all missed events.
func ExampleCatchUp() {
	tips := new(almanactest.Recorder)
	synctest.Test(new(testing.T), func(t *testing.T) { // from 2000-01-01 on, in virtual time
		daily := func(almanac.User) (calendar.Recurrence, error) {
			return calendar.Daily{At: calendar.Clock{Hour: 8}}, nil
		}
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

// Hooks are called for stored changes.
func ExampleHooks() {
	hooks := almanac.Hooks{
		Created: func(_ context.Context, e almanac.Event) { fmt.Println("planned:", e.Wall, e.Zone) },
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
	// planned: 2027-12-10T09:00:00 Europe/London
	// moved: Europe/London to Asia/Tokyo
	// instead: 2027-12-10T09:00:00 Asia/Tokyo
}

// A host can add its own checks to the chain, and get the first refusal or all of them.
func ExampleChecks() {
	quiet := func(_ almanac.Event, now time.Time) error {
		if now.Weekday() == time.Sunday {
			return errors.New("no greeting is sent on Sundays")
		}
		return nil
	}
	chain := almanac.Checks{almanac.HasStatus(almanac.Processing), almanac.IsDue(), almanac.NotOlderThan(24 * time.Hour), quiet}

	due := time.Date(2026, time.March, 13, 9, 0, 0, 0, time.UTC)
	event := almanac.Event{Status: almanac.Processing, Due: due}
	sunday := due.Add(48 * time.Hour)
	fmt.Println(chain.First(event, due))
	fmt.Println(chain.First(event, sunday))
	fmt.Println(chain.All(event, sunday))
	// Output:
	// <nil>
	// missed: 48h0m0s after its instant, more than 24h0m0s
	// missed: 48h0m0s after its instant, more than 24h0m0s
	// no greeting is sent on Sundays
}
