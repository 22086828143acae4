// Wave greets the users of several tenants through one receiver, which accepts fifty requests a second from all
// processes together. The tenants share them, and while the receiver is down, all greetings wait. Start as many
// processes as you like.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/postgres"
	"github.com/almanac-go/almanac/webhook"
)

// receiver is the lane of all greetings. Its limits are stored, so they hold for all processes.
var receiver = almanac.Lane{Name: "crm", Rate: 50}

// greeting is a birthday in the lane of the user's tenant, which is in that of the receiver.
type greeting struct{ almanac.Birthday }

func (greeting) Lane(u almanac.User, _ almanac.Occurrence) string {
	var of struct{ Tenant string }
	_ = json.Unmarshal(u.Attributes, &of) // of a user without a tenant, no event is planned
	return receiver.Name + "/" + of.Tenant
}

// newScheduler returns the scheduler of this process. After some failures, the other greetings wait until the
// receiver accepts events again.
func newScheduler(r almanac.Repository, d almanac.Deliverer) almanac.Scheduler {
	greetings := greeting{almanac.Birthday{Execution: almanac.Execution{Breaker: true}}}
	return must(almanac.NewScheduler(r, must(almanac.NewRegistry(greetings)), almanac.WithDeliverer(almanac.ChannelWebhook, d)))
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	pool := must(pgxpool.New(ctx, os.Getenv("DATABASE_URL")))
	defer pool.Close()
	check(postgres.Migrate(ctx, pool))
	scheduler := newScheduler(must(postgres.New(pool)), must(webhook.New(os.Getenv("RECEIVER"))))
	check(scheduler.SetLane(ctx, receiver)) // it replaces what an operator has stored
	check(scheduler.Run(ctx))               // until ctx is done; then it drains
}

func must[T any](value T, err error) T { check(err); return value }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
