package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// Run returns nil when it was told to stop, with everything stored that it had in hand.
func ExampleRunner() {
	ctx, stop := context.WithCancel(context.Background())
	greet := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		fmt.Println("Hey", d.Event.OccurrenceKey)
		stop()
		return nil
	})
	repository := almanactest.NewRepository(nil)
	u := almanactest.User()
	must(repository.CreateUsers(ctx, []almanac.Enrolment{{User: u, Events: []almanac.Event{
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

// Options that make no sense are all named at once.
func ExampleOption() {
	_, err := almanac.NewScheduler(almanactest.NewRepository(nil), must(almanac.NewRegistry(almanac.Birthday{})),
		almanac.WithWorkers(-1), almanac.WithPoll(0), almanac.WithSweep(time.Second))
	fmt.Println(err)
	// Output:
	// almanac: -1 workers
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

// An observer hears of what is stored, from whoever stored it.
func ExampleObserver() {
	o := &tally{kinds: make(map[almanac.NoticeKind]int)}
	scheduler, _ := birthdaysIn(almanac.WithObserver(o))
	ada := must(scheduler.CreateUser(context.Background(), adaInLondon))
	must(scheduler.DeleteUser(context.Background(), ada.User.ID, almanac.Delete{}))
	fmt.Println(o.kinds)
	// Output: map[event.created:1 user.created:1 user.deleted:1]
}

// A notice holds what its kind is about: events as stored, and people as they were too.
func ExampleNotice() {
	scheduler, _ := birthdaysIn(almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
		switch n.Kind {
		case almanac.EventRescheduled:
			fmt.Println(n.Event.Type, "is at", n.Event.Due.Format(time.TimeOnly), "UTC now")
		case almanac.UserTimezoneChanged:
			fmt.Println(n.User.FirstName, "moved from", n.Was.Timezone, "to", n.User.Timezone)
		}
	})))
	ada, tokyo := must(scheduler.CreateUser(context.Background(), adaInLondon)), "Asia/Tokyo"
	must(scheduler.UpdateUser(context.Background(), ada.User.ID, almanac.ProfileChange{Timezone: &tokyo}))
	// Output:
	// Ada moved from Europe/London to Asia/Tokyo
	// BIRTHDAY is at 00:00:00 UTC now
}

// Kinds are told in the order in which things happen.
func ExampleNoticeKind() {
	overAYear(new(almanactest.Recorder), []almanac.EventHandler{almanac.Birthday{}},
		almanac.WithObserver(almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) { fmt.Println(n.Kind) })))
	// Output:
	// user.created
	// event.created
	// event.claimed
	// event.completed
	// event.created
	// 2000-12-10T09:00:00 BIRTHDAY {"message":"Hey, Ada Lovelace it's your birthday"} <nil>
}

// The cause of a release says what was counted.
func ExampleReleaseCause() {
	synctest.Test(new(testing.T), func(t *testing.T) { // from 2000-01-01 on, in virtual time
		answers := []error{errors.New("receiver answered 503"), almanac.Snooze(time.Hour, "asleep"), nil}
		moody := almanac.DelivererFunc(func(context.Context, almanac.Delivery) (err error) {
			err, answers = answers[0], answers[1:]
			return err
		})
		released := almanac.ObserverFunc(func(_ context.Context, n almanac.Notice) {
			if n.Kind == almanac.EventReleased {
				fmt.Println(n.Cause, "after", n.Event.RetryCount, "failures:", n.Event.LastError)
			}
		})
		rehearsal := almanactest.Rehearse(t, must(almanac.NewRegistry(almanac.Birthday{})),
			almanac.WithDeliverer(almanac.ChannelWebhook, moody), almanac.WithObserver(released))
		must(rehearsal.Scheduler.CreateUser(t.Context(), adaInLondon))
		rehearsal.For(364 * 24 * time.Hour)
	})
	// Output:
	// failure after 1 failures: receiver answered 503
	// snooze after 1 failures: snoozed for 1h0m0s: asleep
}

// Trouble that lasts turns a program's health red.
func ExampleTrouble() {
	h := almanac.Health{Running: true, Workers: 100, Patience: 30 * time.Second}
	h.Settle = almanac.Trouble{For: 10 * time.Second, Err: errors.New("connection refused")}
	fmt.Println(h.Err())
	h.Settle.For = time.Minute
	fmt.Println(h.Err())
	// Output:
	// <nil>
	// almanac: settle: failing for 1m0s: connection refused
}

// The answer names those that may begin.
func ExampleConfirmed() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	stored(repository, spring)
	claimed := must(repository.Claim(ctx, claimAll())).Events
	confirmed := must(repository.Confirm(ctx, claimed))
	fmt.Println(confirmed.Held[0] == claimed[0].ID, len(confirmed.Busy), confirmed.At.Equal(spring))
	// Output: true 0 true
}
