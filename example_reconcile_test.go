package almanac_test

import (
	"context"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// What would move if pending events followed the zone data that this program has:
// nothing, for it has just planned them by these.
func ExampleReconcile() {
	ctx := context.Background()
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(nil), registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := scheduler.CreateUser(ctx, almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London"}); err != nil {
		fmt.Println(err)
		return
	}

	result, err := scheduler.Reconcile(ctx, almanac.Reconcile{DryRun: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, z := range result.Zones {
		fmt.Printf("%s: %d of %d events would move\n", z.Zone, z.Moved, z.Checked)
	}
	// Output: Europe/London: 0 of 1 events would move
}

// What all zones did comes together in one number.
func ExampleReconciliation() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn()
	must(scheduler.CreateUser(ctx, adaInLondon))
	r := must(scheduler.Reconcile(ctx, almanac.Reconcile{}))
	fmt.Println(r.Moved(), "moved,", len(r.Zones), "zone looked at,", len(r.Outdated), "in which others know better")
	// Output: 0 moved, 1 zone looked at, 0 in which others know better
}

func ExampleZoneReport() {
	ctx := context.Background()
	scheduler, _ := birthdaysIn()
	must(scheduler.CreateUser(ctx, adaInLondon))
	for _, z := range must(scheduler.Reconcile(ctx, almanac.Reconcile{DryRun: true})).Zones {
		fmt.Println(z.Zone, z.Checked, "looked at,", z.Moved, "moved by", z.Smallest, "to", z.Largest, "and", z.Left, "left")
	}
	// Output: Europe/London 1 looked at, 0 moved by 0s to 0s and 0 left
}

// A program with other zone data says so of what it plans.
func ExampleZoneBook() {
	ctx := context.Background()
	r := almanactest.NewRepository(func() time.Time { return spring })
	u := almanactest.User()
	e := almanactest.Event(spring, almanactest.For(u))
	e.PlannedBy = &almanac.ZoneRules{Zone: "Asia/Beirut", Fingerprint: 42, Since: 2027, Version: "2027a"}
	if _, _, err := r.CreateUser(ctx, u, e); err != nil {
		panic(err)
	}
	book := must(r.ZoneRules(ctx))
	fmt.Println(len(book.Rules), book.Marks[0].Zone, book.Marks[0].Version)
	// Output: 0 Asia/Beirut 2027a
}
