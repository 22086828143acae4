package almanac_test

import (
	"context"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// passable returns a scheduler with so many birthdays that are due.
func passable(due int) almanac.Scheduler {
	repository := almanactest.NewRepository(nil)
	for range due {
		u := almanactest.User()
		must(repository.CreateUsers(context.Background(), []almanac.Enrolment{{User: u, Events: []almanac.Event{
			almanactest.Event(time.Now(), almanactest.For(u)),
		}}}))
	}
	greet := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	return must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.Birthday{})), almanac.WithDeliverer(almanac.ChannelWebhook, greet)))
}

// A cron starts a pass each minute; a pass that has reached its limit says so.
func ExampleRunOnceOptions() {
	scheduler := passable(5)
	for more := true; more; {
		did := must(scheduler.RunOnce(context.Background(), almanac.RunOnceOptions{Limit: 3, Within: 50 * time.Second}))
		fmt.Println(did.Claimed, "claimed, more:", did.More)
		more = did.More
	}
	// Output:
	// 3 claimed, more: true
	// 2 claimed, more: false
}

func ExampleRunOnceResult() {
	did := must(passable(2).RunOnce(context.Background(), almanac.RunOnceOptions{}))
	fmt.Printf("%+v\n", did)
	// Output: {Claimed:2 Completed:2 Failed:0 Retried:0 Released:0 Unstored:0 Recovered:0 More:false}
}
