// Cap delivers at most two events to each user on each of the user's days. Further events wait for
// the next morning. The program's own table counts.
package main

import (
	"context"
	"errors"
	"fmt"
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

// A row has the keys of the events that count on a day. Rows of past days can be deleted.
const schema = `CREATE TABLE IF NOT EXISTS capped (
	user_id uuid, day date, keys text[] NOT NULL, PRIMARY KEY (user_id, day))`

// take adds a key to a user's day, unless others have used up the day. The statement locks the row
// before it looks, so of attempts at the same time no more pass. A key that is there passes again.
const take = `INSERT INTO capped AS c VALUES ($1, $2, ARRAY[$3::text])
ON CONFLICT (user_id, day) DO UPDATE SET keys = array_append(array_remove(c.keys, $3), $3)
WHERE $3 = ANY (c.keys) OR cardinality(c.keys) < $4`

const untake = `UPDATE capped SET keys = array_remove(keys, $3) WHERE user_id = $1 AND day = $2`

// daily is a cap for each user and day. What counts is a successful attempt, on the day in the
// user's zone on which it began. While an attempt is under way it counts too, so that two at once
// cannot both be the last. If the program dies in an attempt, its event keeps its place that day.
type daily struct {
	pool    *pgxpool.Pool
	most    int            // at least 1
	morning calendar.Clock // when postponed events are tried again
}

// around is the middleware. An event that exceeds the cap is postponed, which uses up no attempt.
// Every type passes through it, so exempt here what must not wait.
func (c daily) around(next almanac.Deliverer) almanac.Deliverer {
	return almanac.DelivererFunc(func(ctx context.Context, d almanac.Delivery) error {
		today := d.User.Timezone.WallTime(d.At).Date
		place := []any{d.User.ID, today.String(), string(d.Event.IdempotencyKey)}
		taken, err := c.pool.Exec(ctx, take, append(place, c.most)...)
		if err != nil {
			return err
		}
		if taken.RowsAffected() == 0 {
			return c.postpone(d, today)
		}
		if err = next.Deliver(ctx, d); err == nil {
			return nil
		}
		// The context of the attempt may have ended, so the statement has one of its own.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, failed := c.pool.Exec(ctx, untake, place...)
		return errors.Join(err, failed)
	})
}

// postpone returns the error that postpones a delivery to the morning after today.
func (c daily) postpone(d almanac.Delivery, today calendar.Date) error {
	tomorrow := calendar.DateOf(calendar.WallTime{Date: today}.Labelled().AddDate(0, 0, 1))
	r, err := d.User.Timezone.Resolve(calendar.WallTime{Date: tomorrow, Clock: c.morning}, calendar.Policies{})
	if err != nil {
		return err
	}
	return almanac.Snooze(r.Instant.Sub(d.At), fmt.Sprintf("cap of %d reached on %s", c.most, today))
}

func newScheduler(pool *pgxpool.Pool, c daily, deliver almanac.Deliverer) almanac.Scheduler {
	daily := func(almanac.User) (calendar.Recurrence, error) {
		return calendar.Daily{At: calendar.Clock{Hour: 9}}, nil
	}
	registry := must(almanac.NewRegistry(almanac.Birthday{}, almanac.Recurring{Type: "NEWS", Rule: daily},
		almanac.Recurring{Type: "TIP", Rule: daily}))
	return must(almanac.NewScheduler(must(postgres.New(pool)), registry,
		almanac.WithMiddleware(c.around), almanac.WithDeliverer(almanac.ChannelWebhook, deliver)))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	check(postgres.Migrate(ctx, pool))
	must(pool.Exec(ctx, schema))
	print := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		_, err := fmt.Println(d.User.Name(), d.Event.Type, string(d.Event.Payload))
		return err
	})
	c := daily{pool, 2, calendar.Clock{Hour: 9}}
	check(newScheduler(pool, c, print).Run(ctx)) // until ctx is done; then it drains
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
