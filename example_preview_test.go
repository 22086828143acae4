package almanac_test

import (
	"context"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// Before anybody relies on a birthday, they can see when it will come, and why then.
func ExampleScheduler_Preview() {
	ctx, now := context.Background(), time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	repository := almanactest.NewRepository(func() time.Time { return now })
	scheduler, err := almanac.NewScheduler(repository, registry)
	if err != nil {
		panic(err)
	}
	leapling, err := scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1992-02-29", Timezone: "America/New_York",
	})
	if err != nil {
		panic(err)
	}

	ahead, err := scheduler.Preview(ctx, leapling.User.ID, almanac.TypeBirthday, 3)
	if err != nil {
		panic(err)
	}
	for _, next := range ahead {
		fmt.Printf("%s UTC: %s\n", next.Resolution.Instant.Format(time.DateTime), next.Reason())
	}
	// Output:
	// 2027-02-28 14:00:00 UTC: 29 February moved to 28 February
	// 2028-02-29 14:00:00 UTC: exact
	// 2029-02-28 14:00:00 UTC: 29 February moved to 28 February
}
