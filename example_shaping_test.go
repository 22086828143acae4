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

// overAYear runs a year of what Ada is owed in virtual time, and prints what was
// delivered.
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
	later := almanac.WallTimeOf(ended.Wall.Labelled().AddDate(0, 0, 2))
	return []almanac.FollowUp{{Type: "QUESTION", Occurrence: almanac.Occurrence{Key: ended.OccurrenceKey, Wall: later}}}, nil
}

// Two days after the birthday, a question is delivered. Its own handler says what;
// it plans nothing by itself.
func ExampleFollower() {
	question := almanac.Recurring{
		Type:    "QUESTION",
		Rule:    func(almanac.User) (almanac.Recurrence, error) { return nil, nil },
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

// A provider takes one text message a minute, whatever else is due. What makes no
// sense is refused when the scheduler is made.
func ExampleLimit() {
	texts := almanac.WithLimit("TEXT", almanac.Limit{Workers: 1, Rate: 1.0 / 60, Burst: 1})
	text := almanac.Reminder{Type: "TEXT"}
	registry, err := almanac.NewRegistry(almanac.Birthday{}, text)
	if err != nil {
		panic(err)
	}
	_, err = almanac.NewScheduler(almanactest.NewRepository(nil), registry, texts, almanac.WithLimit("TEXTS", almanac.Limit{Rate: -1}))
	fmt.Println(err)
	// Output:
	// almanac: limit for event type "TEXTS", which has no handler
	// almanac: limit for event type "TEXTS": rate of -1
}

// A middleware sees every delivery and its error; this one refuses one type.
func ExampleMiddleware() {
	refusing := func(next almanac.Deliverer) almanac.Deliverer {
		return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
			if d.Event.Type == almanac.TypeBirthday {
				fmt.Println("refused", d.Event.OccurrenceKey)
				return almanac.Permanent(errors.New("nobody is greeted any more"))
			}
			return next.Deliver(ctx, d)
		})
	}
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{almanac.Birthday{}}, almanac.WithMiddleware(refusing))
	// Output: refused 2000
}
