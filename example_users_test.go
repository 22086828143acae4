package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
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

// A profile has the host's data: its own id, text, and attributes for its handlers.
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

// The law asks for erasure: nothing is left. An update with an older version is refused.
func ExampleDeleteOptions() {
	ctx := context.Background()
	scheduler, repository := birthdaysIn()
	ada := must(scheduler.CreateUser(ctx, adaInLondon)).User

	_, err := scheduler.DeleteUser(ctx, ada.ID, almanac.DeleteOptions{Version: ada.Version + 1})
	fmt.Println(errors.Is(err, almanac.ErrOptimisticLock))
	must(scheduler.DeleteUser(ctx, ada.ID, almanac.DeleteOptions{Version: ada.Version, AtOnce: true}))
	_, err = repository.User(ctx, ada.ID)
	fmt.Println(errors.Is(err, almanac.ErrNotFound))
	fmt.Println(must(repository.Count(ctx, almanac.ForUser(ada.ID))), "events")
	// Output:
	// true
	// true
	// 0 events
}

func ExampleDateOfBirth() {
	fmt.Println(must(almanac.ParseDateOfBirth("1990-12-10", "")))
	_, err := almanac.ParseDateOfBirth("1899-12-31", "")
	fmt.Println(err)
	day := must(almanac.ParseDateOfBirth("--02-29", ""))
	_, known := day.Year()
	fmt.Println(day, known)
	// Output:
	// 1990-12-10
	// almanac: date of birth "1899-12-31" is before 1900-01-01
	// --02-29 false
}

// Users of one name, without a date of birth, or who keep the year to themselves.
func ExampleWithOptionalProfile() {
	ctx := context.Background()
	repository := almanactest.NewRepository(func() time.Time { return spring })
	registry := must(almanac.NewRegistry(almanac.Birthday{}))
	scheduler := must(almanac.NewScheduler(repository, registry, almanac.WithOptionalProfile()))
	for _, p := range []almanac.Profile{
		{FirstName: "Sukarno", DateOfBirth: "--06-06", Timezone: "Asia/Jakarta"},
		{DateOfBirth: "1992-02-29", Timezone: "UTC"},
		{FirstName: "Ada", LastName: "Lovelace", Timezone: "Europe/London"},
	} {
		created := must(scheduler.CreateUser(ctx, p))
		for _, e := range created.Events {
			fmt.Println(e.Wall, string(e.Payload))
		}
		if len(created.Events) == 0 {
			fmt.Println("no birthday for", created.User.Name())
		}
	}
	// Output:
	// 2027-06-06T09:00:00 {"message":"Hey, Sukarno it's your birthday"}
	// 2028-02-29T09:00:00 {"message":"Hey, it's your birthday"}
	// no birthday for Ada Lovelace
}

// Of a user only the country may be known. Most countries have one zone. A zone that the user declares
// later takes the place of the guess, and moves the events.
func ExampleWithZoneGuess() {
	guess := func(u almanac.User) string {
		var facts struct{ Country string }
		if err := json.Unmarshal(u.Attributes, &facts); err != nil {
			return ""
		}
		zones, err := calendar.ZonesOf(facts.Country)
		if err != nil || len(zones) > 1 {
			return ""
		}
		return zones[0].String()
	}
	ctx := context.Background()
	scheduler, _ := birthdaysIn(almanac.WithZoneGuess("Etc/UTC", guess))
	for _, country := range []string{"NO", "US"} {
		p := almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Attributes: json.RawMessage(`{"country": "` + country + `"}`)}
		ada := must(scheduler.CreateUser(ctx, p))
		fmt.Println(country, ada.User.Timezone, ada.User.ZoneSource, ada.Events[0].Due.Format(time.RFC3339))
		zone := "America/Denver"
		moved := must(scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Timezone: &zone}))
		fmt.Println(moved.User.Timezone, moved.User.ZoneSource, moved.Moved[0].Due.Format(time.RFC3339))
	}
	// Output:
	// NO Europe/Oslo guessed 2027-12-10T08:00:00Z
	// America/Denver declared 2027-12-10T16:00:00Z
	// US Etc/UTC default 2027-12-10T09:00:00Z
	// America/Denver declared 2027-12-10T16:00:00Z
}

// survey is a handler of the host: on the first of each month at 10:00. For a user of whom only the country is
// known, that is a time of day at which offices are open in all zones of the country.
type survey struct{ fireworks }

func (survey) EventType() string { return "SURVEY" }

func (survey) Next(u almanac.User, after time.Time) (calendar.Occurrence, error) {
	rule := calendar.Monthly{Day: 1, At: calendar.Clock{Hour: 10}}
	var facts struct{ Country string }
	if err := json.Unmarshal(u.Attributes, &facts); u.ZoneSource == almanac.ZoneDeclared || err != nil || facts.Country == "" {
		return calendar.Next(rule, u.Timezone, calendar.Policies{}, after)
	}
	zones, err := calendar.ZonesOf(facts.Country)
	if err != nil {
		return calendar.Occurrence{}, err
	}
	begin := calendar.WallTimeOf(after.AddDate(0, 0, -2)) // before what clocks show in any zone
	for {
		slot, err := rule.After(begin, calendar.Policies{})
		if err != nil {
			return calendar.Occurrence{}, err
		}
		at, err := calendar.InAllZones(zones, slot.Wall, must(calendar.ParseWindow("09:00-18:00")))
		if err != nil {
			return calendar.Occurrence{}, err
		}
		if at.Instant.After(after) {
			return calendar.Occurrence{Key: slot.Key, Unit: slot.Unit, Nominal: slot.Wall, Wall: at.Wall, Zone: at.Zone}, nil
		}
		begin = slot.Wall
	}
}

// A country can have several zones. The handler then plans for all of them, until the user declares one.
func ExampleWithZoneGuess_severalZones() {
	ctx := context.Background()
	scheduler := must(almanac.NewScheduler(almanactest.NewRepository(func() time.Time { return spring }), must(almanac.NewRegistry(survey{})),
		almanac.WithDeliverer("sky", new(almanactest.Recorder)), almanac.WithZoneGuess("Etc/UTC", nil)))
	ada := must(scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Attributes: json.RawMessage(`{"country": "US"}`),
	}))
	due := ada.Events[0].Due
	fmt.Println(ada.User.ZoneSource, ada.Events[0].OccurrenceKey, ada.Events[0].Wall, ada.Events[0].Zone)
	for _, name := range []string{"Pacific/Honolulu", "America/Denver", "America/New_York"} {
		fmt.Println(must(calendar.LoadTimezone(name)).WallTime(due).Clock, name)
	}
	zone := "America/Denver"
	moved := must(scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Timezone: &zone}))
	fmt.Println(moved.User.ZoneSource, moved.Moved[0].Wall, moved.Moved[0].Zone)
	// Output:
	// default 2027-03 2027-03-01T10:00:00 America/Adak
	// 10:00:00 Pacific/Honolulu
	// 13:00:00 America/Denver
	// 15:00:00 America/New_York
	// declared 2027-03-01T10:00:00 America/Denver
}

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
	var zone *calendar.InvalidTimezoneError
	fmt.Println(errors.As(err, &zone), errors.Is(err, almanac.ErrInvalid))
	// Output:
	// lastName is empty
	// dateOfBirth is not a day of the calendar: February 1990 has 28 days
	// timezone is not a known time zone; did you mean "Europe/London"?
	// true true
}

// A change names the version that it was made for. The second of two concurrent changes
// gets an error, and reads the user again.
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
	var stored []almanac.Event
	for day := range 5 {
		stored = append(stored, almanactest.Event(now, almanactest.For(ada), almanactest.DueIn(time.Duration(day)*24*time.Hour)))
	}
	if _, _, err := almanactest.CreateUser(ctx, repository, ada, stored...); err != nil {
		panic(err)
	}

	for page := (almanac.Page{Limit: 2}); ; {
		found, err := repository.Find(ctx, almanac.ForUser(ada.ID), page)
		if err != nil {
			panic(err)
		}
		var days []int
		for _, e := range found.Items {
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
