package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
)

// Users are values: an edit makes another.
func ExampleUser() {
	ada := must(almanac.NewUser(adaInLondon, spring))
	name := "Augusta"
	edited := must(ada.Edit(almanac.ProfileChange{FirstName: &name}, spring.Add(time.Hour)))
	fmt.Println(ada.Name(), "at version", ada.Version, "in", ada.Timezone)
	fmt.Println(edited.Name(), "at version", edited.Version)
	// Output:
	// Ada Lovelace at version 1 in Europe/London
	// Augusta Lovelace at version 2
}

// A profile is what the host has: its own id, text, and what its handlers need to know.
func ExampleProfile() {
	scheduler, _ := birthdaysIn()
	ada := must(scheduler.CreateUser(context.Background(), almanac.Profile{
		ID:        uuid.MustParse("123e4567-e89b-12d3-a456-426614174000"),
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		Attributes: json.RawMessage(`{"hireDate": "2020-02-29"}`),
	}))
	fmt.Println(ada.User.ID, ada.User.DateOfBirth, string(ada.User.Attributes))
	// Output: 123e4567-e89b-12d3-a456-426614174000 1990-12-10 {"hireDate": "2020-02-29"}
}

// The law asks for erasure: nothing is left. Who has read an older version is refused.
func ExampleDelete() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon)).User

	_, err := scheduler.DeleteUser(ctx, ada.ID, almanac.Delete{Version: ada.Version + 1})
	fmt.Println(errors.Is(err, almanac.ErrOptimisticLock))
	must(scheduler.DeleteUser(ctx, ada.ID, almanac.Delete{Version: ada.Version, AtOnce: true}))
	_, err = repository.User(ctx, ada.ID)
	fmt.Println(errors.Is(err, almanac.ErrNotFound))
	fmt.Println(must(repository.Count(ctx, almanac.ForUser(ada.ID))), "events")
	// Output:
	// true
	// true
	// 0 events
}

// A deletion tells what it met: what is being delivered cannot be called back.
func ExampleDeletion() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn()
	ada, _ := stored(repository, spring)
	must(repository.Claim(ctx, claimAll()))

	gone := must(scheduler.DeleteUser(ctx, ada.ID, almanac.Delete{}))
	fmt.Println(gone.Removed, "removed,", len(gone.InFlight), "in flight")
	_, err := repository.User(ctx, ada.ID)
	fmt.Println(errors.Is(err, almanac.ErrNotFound), "already")
	// Output:
	// 0 removed, 1 in flight
	// true already
}

// An occurrence that is ahead comes with its instant, and says how that was found.
func ExampleUpcoming() {
	scheduler, _ := birthdaysIn()
	ada := must(scheduler.CreateUser(context.Background(), adaInLondon))
	for _, next := range must(scheduler.Preview(context.Background(), ada.User.ID, almanac.TypeBirthday, 1)) {
		fmt.Println(next.Occurrence.Key, next.Occurrence.Wall, next.Resolution.Instant.Format(time.RFC3339), next.Reason())
	}
	// Output: 2027 2027-12-10T09:00:00 2027-12-10T09:00:00Z exact
}
