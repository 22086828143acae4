package almanac_test

import (
	"context"
	"fmt"

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
