package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
)

// dentist is a scheduler of one-off events in spring 2027, and somebody with toothache.
func dentist() (almanac.Scheduler, almanac.User) {
	repository := almanactest.NewRepository(func() time.Time { return spring })
	scheduler := must(almanac.NewScheduler(repository, must(almanac.NewRegistry(almanac.OneOff{Type: "DENTIST"}))))
	return scheduler, must(scheduler.CreateUser(context.Background(), adaInLondon)).User
}

var toothache = almanac.ScheduleAtOptions{
	At:      must(almanac.ParseWallTime("2027-03-15T09:00:00")),
	Key:     "tooth-7",
	Payload: json.RawMessage(`{"message": "Brush your teeth"}`),
}

// A call that is made again finds what is there. Another event needs another key.
func ExampleOneOffPlanner() {
	scheduler, ada := dentist()
	var planner almanac.OneOffPlanner = scheduler
	first := must(planner.ScheduleAt(context.Background(), ada.ID, "DENTIST", toothache))
	fmt.Println(first.Event.Wall, first.Event.Zone, string(first.Event.Payload))
	again := must(planner.ScheduleAt(context.Background(), ada.ID, "DENTIST", toothache))
	fmt.Println(again.Existed, again.Event.ID == first.Event.ID)
	other := toothache
	other.At.Clock.Hour = 10
	_, err := planner.ScheduleAt(context.Background(), ada.ID, "DENTIST", other)
	fmt.Println(errors.Is(err, almanac.ErrExists))
	// Output:
	// 2027-03-15T09:00:00 Europe/London {"message": "Brush your teeth"}
	// true true
	// true
}

// An appointment stays where it is when its user moves; what follows the user does not.
func ExampleScheduleAtOptions() {
	ctx := context.Background()
	scheduler, ada := dentist()
	must(scheduler.ScheduleAt(ctx, ada.ID, "DENTIST", toothache))
	brush := almanac.ScheduleAtOptions{At: toothache.At, Key: "brush", FollowUser: true}
	must(scheduler.ScheduleAt(ctx, ada.ID, "DENTIST", brush))
	tokyo := "Asia/Tokyo"
	edited := must(scheduler.UpdateUser(ctx, ada.ID, almanac.ProfileChange{Timezone: &tokyo}))
	for _, e := range edited.Moved {
		fmt.Println(e.Wall, e.Zone, e.Due.Format(time.RFC3339), string(e.Payload))
	}
	// Output: 2027-03-15T09:00:00 Asia/Tokyo 2027-03-15T00:00:00Z {"key":"brush"}
}

func ExampleScheduleAtResult() {
	scheduler, ada := dentist()
	did := must(scheduler.ScheduleAt(context.Background(), ada.ID, "DENTIST", toothache))
	fmt.Println(did.Event.Status, did.Event.Due.Format(time.RFC3339), did.Existed)
	// Output: PENDING 2027-03-15T09:00:00Z false
}

// A type whose events the host schedules one by one owes nobody anything by itself.
func ExampleOneOff() {
	dentist := almanac.OneOff{Type: "DENTIST"}
	_, err := dentist.Next(almanac.User{}, spring)
	fmt.Println(dentist.EventType(), dentist.Channel(almanac.Event{}), errors.Is(err, almanac.ErrNoOccurrence))
	// Output: DENTIST webhook true
}
