package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// A user who asked for the digest gets it on Mondays at 08:00 in the user's zone.
func ExampleRecurring() {
	digest := almanac.Recurring{
		Type: "DIGEST",
		Rule: func(u almanac.User) (calendar.Recurrence, error) {
			var wants struct{ Digest bool }
			if err := json.Unmarshal(u.Attributes, &wants); err != nil || !wants.Digest {
				return nil, err // no recurrence: no event
			}
			return calendar.Weekly{On: []time.Weekday{time.Monday}, At: calendar.Clock{Hour: 8}}, nil
		},
		Message: func(u almanac.User, _ almanac.Occurrence) string { return "Your week, " + u.FirstName },
	}
	now := time.Date(2026, time.January, 10, 0, 0, 0, 0, time.UTC)
	user, err := almanac.NewUser(almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Asia/Tokyo",
		Attributes: json.RawMessage(`{"digest": true}`),
	}, now)
	if err != nil {
		panic(err)
	}

	o, err := digest.Next(user, now)
	if err != nil {
		panic(err)
	}
	payload, err := digest.Payload(user, almanac.Occurrence{Occurrence: o})
	fmt.Println(o.Wall, "in", o.Zone)
	fmt.Println(string(payload), err)
	// Output:
	// 2026-01-12T08:00:00 in Asia/Tokyo
	// {"message":"Your week, Ada","occurrence":"2026-01-12"} <nil>
}

// The last working day of each month, at the time of day of the start.
func ExampleParseRRule() {
	start, err := calendar.ParseWallTime("2026-01-01T17:00:00")
	if err != nil {
		panic(err)
	}
	payday, err := calendar.ParseRRule("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=3", start)
	if err != nil {
		panic(err)
	}
	london, err := calendar.LoadTimezone("Europe/London")
	if err != nil {
		panic(err)
	}

	for next, err := range calendar.Occurrences(payday, london, calendar.Policies{}, time.Time{}) {
		fmt.Println(next.Wall, err)
	}
	// Output:
	// 2026-01-30T17:00:00 <nil>
	// 2026-02-27T17:00:00 <nil>
	// 2026-03-31T17:00:00 <nil>
}

// In the night in which New York shows an hour twice, each half hour happens once.
func ExampleParseCron() {
	halves, err := calendar.ParseCron("*/30 * * * *")
	if err != nil {
		panic(err)
	}
	newYork, err := calendar.LoadTimezone("America/New_York")
	if err != nil {
		panic(err)
	}

	after := time.Date(2026, time.November, 1, 4, 30, 0, 0, time.UTC)
	for range 3 {
		o, err := calendar.Next(halves, newYork, calendar.Policies{}, after)
		if err != nil {
			panic(err)
		}
		r, err := o.Zone.Resolve(o.Wall, o.Policies)
		fmt.Println(o.Wall.Clock, "at", r.Instant.Format(time.TimeOnly), "UTC", err)
		after = r.Instant
	}

	_, err = calendar.ParseCron("61 * * * FRY")
	fmt.Println(errors.Is(err, calendar.ErrInvalidRecurrence))
	// Output:
	// 01:00:00 at 05:00:00 UTC <nil>
	// 01:30:00 at 05:30:00 UTC <nil>
	// 02:00:00 at 07:00:00 UTC <nil>
	// true
}

// Reminders are added, moved and removed by changing an attribute of the user. The merge
// leaves the other reminders unchanged. A reminder at another time is another occurrence, so
// its event is dropped, and a new one added.
func ExampleReminder() {
	ctx, now := context.Background(), time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	registry, err := almanac.NewRegistry(almanac.Reminder{})
	if err != nil {
		panic(err)
	}
	repository := almanactest.NewRepository(func() time.Time { return now })
	scheduler, err := almanac.NewScheduler(repository, registry)
	if err != nil {
		panic(err)
	}

	ada, err := scheduler.CreateUser(ctx, almanac.Profile{
		FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: "Europe/London",
		Attributes: json.RawMessage(`{"reminders": {
			"dentist": {"at": "2027-03-15T09:00:00", "message": "Brush your teeth"},
			"bank":    {"at": "2027-03-15T09:00:00", "message": "Ask for the manager"}}}`),
	})
	if err != nil {
		panic(err)
	}
	changed, err := scheduler.UpdateUser(ctx, ada.User.ID, almanac.ProfileChange{Merge: json.RawMessage(`{"reminders": {
		"dentist": {"at": "2027-03-22T14:30:00"},
		"bank":    null,
		"flight":  {"at": "2027-04-01T06:00:00", "timezone": "Asia/Tokyo", "message": "Set off"}}}`)})
	if err != nil {
		panic(err)
	}

	for _, e := range changed.Removed {
		fmt.Println("dropped", e.Series, e.OccurrenceKey)
	}
	for _, e := range changed.Added {
		fmt.Println("added", e.Series, e.OccurrenceKey, e.Zone, string(e.Payload))
	}
	// Unordered output:
	// dropped bank 2027-03-15T09:00:00
	// dropped dentist 2027-03-15T09:00:00
	// added dentist 2027-03-22T14:30:00 Europe/London {"name":"dentist","message":"Brush your teeth"}
	// added flight 2027-04-01T06:00:00 Asia/Tokyo {"name":"flight","message":"Set off"}
}

// An attribute can be made from Go values.
func ExampleAppointment() {
	at, err := calendar.ParseWallTime("2027-03-15T09:00:00")
	if err != nil {
		panic(err)
	}
	attributes, err := json.Marshal(map[string]any{
		"reminders": map[string]almanac.Appointment{"dentist": {At: at, Message: "Brush your teeth"}},
	})
	fmt.Println(string(attributes), err)
	// Output: {"reminders":{"dentist":{"at":"2027-03-15T09:00:00","message":"Brush your teeth"}}} <nil>
}

// Each reminder of a user is a series with its own keys.
func ExampleSeries() {
	one := almanac.Event{Type: almanac.TypeReminder, Series: "dentist", OccurrenceKey: "2027-03-15T09:00:00"}
	another := almanac.Event{Type: almanac.TypeReminder, Series: "barber", OccurrenceKey: "2027-03-15T09:00:00"}
	used := map[almanac.Series]string{almanac.SeriesOf(one): one.OccurrenceKey}
	fmt.Println("used:", used[almanac.SeriesOf(one)])
	fmt.Println("the same series:", almanac.SeriesOf(one) == almanac.SeriesOf(another))
	// Output:
	// used: 2027-03-15T09:00:00
	// the same series: false
}
