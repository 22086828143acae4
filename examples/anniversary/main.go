// Anniversary shows a custom event type: it thanks a user on each anniversary of the day on
// which they were hired, at nine in the morning where they live. It stores its events in
// the database that DATABASE_URL names, and runs until it is interrupted.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

// service is the handler of the event type SERVICE. Embedding an Execution gives it
// the usual timeout and retries.
type service struct {
	almanac.Execution
	at calendar.Clock
}

func (service) EventType() string { return "SERVICE" }

func (s service) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	var facts struct{ Hired string }
	if err := json.Unmarshal(u.Attributes, &facts); err != nil || facts.Hired == "" {
		return calendar.Occurrence{}, calendar.ErrNoOccurrence // a user without a hiring date has no anniversary
	}
	hired, err := calendar.ParseDate(facts.Hired)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	nextYear := calendar.Date{Year: hired.Year + 1, Month: time.January, Day: 1}
	yearly := calendar.Yearly{Month: hired.Month, Day: hired.Day, At: s.at, From: nextYear}
	return calendar.Next(yearly, u.Timezone, calendar.Policies{}, after)
}

func (service) Payload(u almanac.User, o almanac.Occurrence) (json.RawMessage, error) {
	return json.Marshal(map[string]string{"message": "Thank you, " + u.FirstName, "year": o.Key})
}

func (service) Channel(almanac.Event) almanac.Channel { return "letter" }

// letters writes each due letter to out; a real program would print it.
func letters(out io.Writer) almanac.DelivererFunc {
	return func(_ context.Context, d almanac.Delivery) error {
		_, err := fmt.Fprintln(out, d.Event.Wall, d.Event.Zone, string(d.Event.Payload))
		return err // an error is retried
	}
}

func newScheduler(store almanac.Repository, s service, out io.Writer) (almanac.Scheduler, error) {
	registry, err := almanac.NewRegistry(almanac.Birthday{}, s) // besides a ready-made one
	if err != nil {
		return nil, err
	}
	return almanac.NewScheduler(store, registry,
		almanac.WithDeliverer("letter", letters(out)), almanac.WithDeliverer(almanac.ChannelWebhook, letters(out)))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	check(postgres.Migrate(ctx, pool))
	scheduler := must(newScheduler(must(postgres.New(pool)), service{at: calendar.Clock{Hour: 9}}, os.Stdout))

	grace := must(scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Grace", LastName: "Hopper",
		DateOfBirth: "1990-12-09", Timezone: "America/New_York",
		Attributes: json.RawMessage(`{"hired": "2020-02-29"}`),
	}))
	for _, e := range grace.Events {
		fmt.Println(e.Type, "of", grace.User.Name(), "at", e.Wall, e.Zone)
	}

	check(scheduler.Run(ctx)) // until ctx is done; then it drains
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
