package broadcast_test

import (
	"context"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/broadcast"
	"github.com/almanac-go/almanac/calendar"
)

func Example() {
	// A real program has postgres.New and time.
	now := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	store := almanactest.NewRepository(func() time.Time { return now })
	registry, _ := almanac.NewRegistry(almanac.OneOff{Type: "NEWS"})
	deliver := almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })
	scheduler, err := almanac.NewScheduler(store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, deliver))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, zone := range []string{"Asia/Tokyo", "Europe/Berlin", "America/Lima"} {
		_, err := scheduler.CreateUser(context.Background(), almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-12-10", Timezone: zone,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	sender, err := broadcast.New(scheduler, store)
	if err != nil {
		fmt.Println(err)
		return
	}
	at, _ := calendar.ParseWallTime("2026-11-03T10:00:00")
	sale := broadcast.Broadcast{Name: "autumn-sale", Type: "NEWS", At: at, Passed: broadcast.NextDay}
	preview, err := sender.Preview(context.Background(), sale)
	for _, z := range preview.Zones {
		fmt.Println(z.Name, z.At, z.Due.Format(time.RFC3339), z.Users)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := sender.Start(context.Background(), sale); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Europe/Berlin 2026-11-03T10:00:00 2026-11-03T09:00:00Z 1
	// America/Lima 2026-11-03T10:00:00 2026-11-03T15:00:00Z 1
	// Asia/Tokyo 2026-11-04T10:00:00 2026-11-04T01:00:00Z 1
}
