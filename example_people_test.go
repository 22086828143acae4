package almanac_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// Every bad field is named at once, as a form needs it.
func ExampleValidationError() {
	now := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	_, err := almanac.NewUser(almanac.Profile{FirstName: "Ada", DateOfBirth: "1990-02-30", Timezone: "Europe/Londn"}, now)

	var invalid *almanac.ValidationError
	if errors.As(err, &invalid) {
		for _, f := range invalid.Fields {
			fmt.Println(f.Field, f.Problem)
		}
	}
	var zone *almanac.InvalidTimezoneError
	fmt.Println(errors.As(err, &zone), errors.Is(err, almanac.ErrInvalid))
	// Output:
	// lastName is empty
	// dateOfBirth is not a day of the calendar: February 1990 has 28 days
	// timezone is not a known time zone; did you mean "Europe/London"?
	// true true
}

// A change that was made to what was read earlier says at which version: who comes
// second is told, and reads again.
func ExampleOptimisticLockError() {
	ctx, now := context.Background(), time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	registry, err := almanac.NewRegistry(almanac.Birthday{})
	if err != nil {
		panic(err)
	}
	scheduler, err := almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return now }), registry)
	if err != nil {
		panic(err)
	}
	ada, err := scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Byron", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
	})
	if err != nil {
		panic(err)
	}

	for _, name := range []string{"King", "Lovelace"} { // both have read version 1
		changed, err := scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{LastName: &name, Version: ada.User.Version})
		var lost *almanac.OptimisticLockError
		if errors.As(err, &lost) {
			fmt.Println("not", name+": no longer at version", lost.Expected)
			continue
		}
		fmt.Println(changed.User.Name(), "at version", changed.User.Version)
	}
	// Output:
	// Ada King at version 2
	// not Lovelace: no longer at version 1
}

// Events come a page at a time, in order of creation.
func ExamplePage() {
	ctx, now := context.Background(), time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	ada := almanactest.User()
	var owed []almanac.Event
	for day := range 5 {
		owed = append(owed, almanactest.Event(now, almanactest.For(ada), almanactest.DueIn(time.Duration(day)*24*time.Hour)))
	}
	if _, _, err := repository.CreateUser(ctx, ada, owed...); err != nil {
		panic(err)
	}

	for page := (almanac.Page{Limit: 2}); ; {
		found, err := repository.Find(ctx, almanac.ForUser(ada.ID), page)
		if err != nil {
			panic(err)
		}
		var days []int
		for _, e := range found.Events {
			days = append(days, e.Due.Day())
		}
		fmt.Println(days)
		if page.After = found.Next; found.Next == "" {
			break
		}
	}
	// Output:
	// [1 2]
	// [3 4]
	// [5]
}
