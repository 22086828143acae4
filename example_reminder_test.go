package almanac_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// Reminders are set, moved and dropped by changing an attribute of the person. The
// merge leaves those alone that it does not name.
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

	for _, e := range changed.Moved {
		fmt.Println("moved", e.OccurrenceKey, e.Zone, string(e.Payload))
	}
	for _, e := range changed.Removed {
		fmt.Println("dropped", e.OccurrenceKey)
	}
	for _, e := range changed.Added {
		fmt.Println("added", e.OccurrenceKey, e.Zone, string(e.Payload))
	}
	// Output:
	// moved dentist/2027-03-22T14:30:00 Europe/London {"name":"dentist","message":"Brush your teeth"}
	// dropped bank/2027-03-15T09:00:00
	// added flight/2027-04-01T06:00:00 Asia/Tokyo {"name":"flight","message":"Set off"}
}

// An attribute can be made from Go values.
func ExampleAppointment() {
	at, err := almanac.ParseWallTime("2027-03-15T09:00:00")
	if err != nil {
		panic(err)
	}
	attributes, err := json.Marshal(map[string]any{
		"reminders": map[string]almanac.Appointment{"dentist": {At: at, Message: "Brush your teeth"}},
	})
	fmt.Println(string(attributes), err)
	// Output: {"reminders":{"dentist":{"at":"2027-03-15T09:00:00","message":"Brush your teeth"}}} <nil>
}
