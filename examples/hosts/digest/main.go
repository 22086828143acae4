// Digest sends each user what others wrote to the user in the week, on Sunday at 18:00 where the
// user lives. The program's own table has the comments. A week without comments has no digest.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/postgres"
)

const schema = `
CREATE TABLE IF NOT EXISTS comments (user_id uuid, at timestamptz, text text);
CREATE INDEX IF NOT EXISTS comments_of_user ON comments (user_id, at)`

// weekly is the handler. What happens in the week is not known when an event is planned, so the
// payload has none of it.
func weekly() almanac.Recurring {
	sunday := calendar.Weekly{On: []time.Weekday{time.Sunday}, At: calendar.Clock{Hour: 18}}
	return almanac.Recurring{
		Type: "DIGEST",
		Rule: func(almanac.User) (calendar.Recurrence, error) { return sunday, nil },
	}
}

// digest is the deliverer. The function send sends a letter; its receiver ignores a key that it has had.
type digest struct {
	pool *pgxpool.Pool
	send func(ctx context.Context, l letter) error
}

type letter struct {
	to       almanac.User
	key      almanac.IdempotencyKey
	comments []string
}

// Deliver collects the comments at the time of the attempt. The week is that of the event, not
// one before now, so a digest that is late or repeated is about the same week.
func (g digest) Deliver(ctx context.Context, d almanac.Delivery) error {
	begin, err := weekBefore(d.Event)
	if err != nil {
		return err
	}
	rows, err := g.pool.Query(ctx, "SELECT text FROM comments WHERE user_id = $1 AND at > $2 AND at <= $3 ORDER BY at, text",
		d.Event.UserID, begin, d.Event.Due)
	if err != nil {
		return err
	}
	comments, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err // tried again
	}
	if len(comments) == 0 {
		return almanac.NotOwed("no comments in the week")
	}
	return g.send(ctx, letter{d.User, d.Event.IdempotencyKey, comments})
}

// weekBefore returns the instant of the Sunday before, at the same time of day. That is 167 or 169
// hours before if clocks changed. For a user who moved in the week it is in the new zone.
func weekBefore(e almanac.Event) (time.Time, error) {
	before := e.Wall
	before.Date = calendar.DateOf(e.Wall.Labelled().AddDate(0, 0, -7))
	r, err := calendar.StoredTimezone(e.Zone).Resolve(before, e.Policies)
	return r.Instant, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	check(postgres.Migrate(ctx, pool))
	must(pool.Exec(ctx, schema))
	send := func(_ context.Context, l letter) error {
		_, err := fmt.Println(l.to.Email, l.key, l.comments)
		return err // package contrib/mail sends mails
	}
	scheduler := must(almanac.NewScheduler(must(postgres.New(pool)), must(almanac.NewRegistry(weekly())),
		almanac.WithDeliverer(almanac.ChannelWebhook, digest{pool, send})))
	check(scheduler.Run(ctx)) // until ctx is done; then it drains
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
