package ops_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/ops"
)

// Look at the events with a dry run, then change them.
func ExampleOperate() {
	ctx := context.Background()
	now := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	store := almanactest.NewRepository(func() time.Time { return now })
	scheduler := must(almanac.NewScheduler(store, must(almanac.NewRegistry(almanac.Birthday{}))))
	for _, name := range []string{"Ada", "Grace", "Katherine"} {
		must(scheduler.CreateUser(ctx, almanac.Profile{
			FirstName: name, LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		}))
	}
	december := almanac.DueBetween{From: time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)}

	for _, dry := range []bool{true, false} {
		done := must(ops.Operate(ctx, scheduler, ops.Cancel, december, ops.OperateOptions{
			Limit: 2, DryRun: dry, Cancel: almanac.CancelOptions{Reason: "the party is off"},
		}))
		for _, e := range done.Events {
			fmt.Printf("%s %s %q\n", e.OccurrenceKey, e.Status, e.FailureReason)
		}
		fmt.Println(len(done.Refused), "refused; more:", done.More)
	}
	// Output:
	// 2026 PENDING ""
	// 2026 PENDING ""
	// 0 refused; more: true
	// 2026 CANCELLED "the party is off"
	// 2026 CANCELLED "the party is off"
	// 0 refused; more: true
}

// A count says how exact it is.
func ExampleCount() {
	fmt.Println(ops.Count{N: 999}, ops.Count{N: 1234567}, ops.Count{N: -1234})
	fmt.Println(ops.Count{N: 100_000, Kind: ops.AtLeast}, ops.Count{N: 1_200_000, Kind: ops.Estimated})
	// Output:
	// 999 1,234,567 -1,234
	// 100,000+ ~1,200,000
}

// Operators see how many events wait, in which zones users live, and which processes hold leases.
func ExampleStatistics() {
	ctx := context.Background()
	store := almanactest.NewRepository(nil)
	create := func(due time.Time) {
		u := almanactest.User(almanactest.LivingIn("Europe/London"))
		_, _, err := almanactest.CreateUser(ctx, store, u, almanactest.Event(due, almanactest.For(u), almanactest.DueIn(0)))
		must(0, err)
	}
	create(time.Now().Add(-time.Hour))
	must(store.Claim(ctx, almanac.ClaimRequest{
		Token: uuid.New(), Owner: "example", Types: []string{almanac.TypeBirthday}, Limit: 100, Lease: time.Minute,
	}))
	create(time.Now().Add(-time.Minute))

	var s ops.Statistics = store
	stats := must(s.Stats(ctx))
	fmt.Println("can be claimed:", stats.Backlog)
	for _, e := range stats.Events {
		fmt.Println(e.Type, e.Status, e.Count)
	}
	fmt.Println(stats.Zones[0].Zone, stats.Zones[0].Users)
	for _, l := range must(s.Leases(ctx, 0)) {
		fmt.Println(l.Owner, "holds", l.Events)
	}
	// Output:
	// can be claimed: 1
	// BIRTHDAY PENDING 1
	// BIRTHDAY PROCESSING 1
	// Europe/London 2
	// example holds 1
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Count the events of the next 60 days, by the present rule and by a changed one.
func ExampleRehearse() {
	ctx := context.Background()
	now := time.Date(2027, time.June, 1, 0, 0, 0, 0, time.UTC)
	store := almanactest.NewRepository(func() time.Time { return now })
	before := must(almanac.NewScheduler(store, must(almanac.NewRegistry(notices(28, 9, "")))))
	must(before.CreateUsers(ctx, people(3), almanac.CreateUsersOptions{}))

	var users bytes.Buffer
	must(ops.CopyUsers(ctx, store, []string{"NOTICE"}, &users, ops.CopyUsersOptions{}))
	options := ops.RehearseOptions{For: 60 * 24 * time.Hour, RollOut: true}
	was := must(ops.Rehearse(ctx, before, bytes.NewReader(users.Bytes()), options))
	for _, d := range was.Days() {
		fmt.Println(d.Date, d.Type, d.Events)
	}
	after := must(almanac.NewScheduler(store, must(almanac.NewRegistry(notices(25, 9, "")))))
	is := must(ops.Rehearse(ctx, after, bytes.NewReader(users.Bytes()), options))
	fmt.Println("moved:", must(ops.CompareRehearsals(was, is)).Types[0].Moved)
	// Output:
	// 2027-06-28 NOTICE 3
	// 2027-07-28 NOTICE 3
	// moved: 6
}
