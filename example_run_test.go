package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// Run returns nil when its context is done and every outcome is stored.
func ExampleRunner() {
	ctx, stop := context.WithCancel(context.Background())
	greet := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		fmt.Println("Hey", d.Event.OccurrenceKey)
		stop()
		return nil
	})
	repository := almanactest.NewRepository(nil)
	u := almanactest.User()
	must(repository.CreateUsers(ctx, []almanac.UserWithEvents{{User: u, Events: []almanac.Event{
		almanactest.Event(time.Now(), almanactest.For(u), almanactest.Of("2027")),
	}}}))
	var r almanac.Runner = must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.Birthday{})),
		almanac.WithDeliverer(almanac.ChannelWebhook, greet)))

	fmt.Println(r.Run(ctx))
	fmt.Println(must(repository.Count(context.Background(), almanac.InStatus(almanac.Completed))), "completed")
	// Output:
	// Hey 2027
	// <nil>
	// 1 completed
}

// The error names every option that is out of range.
func ExampleOption() {
	_, err := almanac.NewScheduler(almanactest.NewRepository(nil), must(almanac.NewRegistry(almanac.Birthday{})),
		almanac.WithWorkers(-1), almanac.WithPoll(0), almanac.WithSweep(time.Second))
	fmt.Println(err)
	// Output:
	// almanac: -1 workers, not 1 or more
	// almanac: poll of 0s is not positive
}

// tally counts what happens, by kind.
type tally struct {
	mu    sync.Mutex
	kinds map[almanac.NoticeKind]int
}

func (o *tally) Observe(_ context.Context, n almanac.Notice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds[n.Kind]++
}

// Observers are notified of each stored change.
func ExampleObserver() {
	o := &tally{kinds: make(map[almanac.NoticeKind]int)}
	scheduler, _ := birthdaysIn(almanac.WithObserver(o))
	ada := must(scheduler.CreateUser(context.Background(), adaInLondon))
	must(scheduler.DeleteUser(context.Background(), ada.User.ID, almanac.DeleteOptions{}))
	fmt.Println(o.kinds)
	// Output: map[event.created:1 user.created:1 user.deleted:1]
}

// passable returns a scheduler with n due birthdays.
func passable(due int) almanac.Scheduler {
	repository := almanactest.NewRepository(nil)
	for range due {
		u := almanactest.User()
		must(repository.CreateUsers(context.Background(), []almanac.UserWithEvents{{User: u, Events: []almanac.Event{
			almanactest.Event(time.Now(), almanactest.For(u)),
		}}}))
	}
	greet := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	return must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.Birthday{})), almanac.WithDeliverer(almanac.ChannelWebhook, greet)))
}

// A cron starts a pass each minute. The result says whether more events are due.
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

// gauge is an observer of the claims that find events.
type gauge struct{ almanac.Hooks }

func (gauge) Measure(_ context.Context, m almanac.Measurement) {
	if m.Found > 0 {
		fmt.Println(m.Found, "of at most", m.BatchSize, m.Err)
	}
}

// An observer that has the method is notified of each claim. This one was made ahead of
// the event's instant, for which half of the workers may be taken.
func ExampleMeasurer() {
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{almanac.Birthday{}}, almanac.WithObserver(gauge{}), almanac.WithWorkers(10))
	// Output:
	// 1 of at most 5 <nil>
	// 2000-12-10T09:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} <nil>
}

// rates is an observer of versioned updates and their conflicts.
type rates struct{ almanac.Hooks }

func (rates) Measure(_ context.Context, m almanac.Measurement) {
	fmt.Printf("%s: %d stored, %d in conflict\n", m.Kind, m.Stored, m.Conflicts)
}

// An edit of a version that is no longer the stored one is a conflict.
func ExampleMeasurer_conflicts() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn(almanac.WithObserver(rates{}))
	ada, tokyo := must(scheduler.CreateUser(ctx, adaInLondon)), "Asia/Tokyo"
	for range 2 {
		_, err := scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Version: 1, Timezone: &tokyo})
		fmt.Println(errors.Is(err, almanac.ErrOptimisticLock))
	}
	// Output:
	// user: 1 stored, 0 in conflict
	// false
	// user: 0 stored, 1 in conflict
	// true
}
