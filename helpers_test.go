package almanac_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
	"github.com/almanac-go/almanac/internal/pgtest"
)

func TestMain(m *testing.M) {
	if err := calendar.RegisterSystems(lunar); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what a scheduler writes unless a test says otherwise
	pgtest.Main(m)
}

// Texts that the test itself wrote.
var (
	wall    = calendartest.Wall
	instant = calendartest.Instant
	zone    = calendartest.Zone
	rrule   = calendartest.RRule
	cron    = calendartest.Cron
)

// listed is a yearly rule by another calendar, as the years and dates of its slots at 09:00.
func listed(system string, years ...string) calendar.Recurrence {
	var rule slots
	for _, one := range years {
		key, date, _ := strings.Cut(one, " ")
		w, err := calendar.ParseWallTime(date + "T09:00:00")
		if err != nil {
			panic(err)
		}
		rule = append(rule, calendar.Slot{Key: key, Unit: calendar.Unit("year:" + system), Wall: w})
	}
	return rule
}

type slots []calendar.Slot

func (s slots) After(w calendar.WallTime, _ calendar.Policies) (calendar.Slot, error) {
	for _, slot := range s {
		if w.Before(slot.Wall) {
			return slot, nil
		}
	}
	return calendar.Slot{}, calendar.ErrNoOccurrence
}

// Three years of birthdays all over the world, in the time that the deliveries take.
func TestEveryUserIsGreetedOnceAYearAtNine(t *testing.T) {
	t.Parallel()
	zones := []string{
		"Pacific/Kiritimati", "Pacific/Apia", "Australia/Lord_Howe", "Asia/Tokyo", "Asia/Kathmandu", "Asia/Tehran",
		"Africa/Cairo", "Africa/Casablanca", "Europe/Dublin", "America/Sao_Paulo", "America/New_York", "America/Havana",
		"America/Los_Angeles", "Pacific/Marquesas", "Pacific/Niue",
	}
	births := []string{"1992-02-29", "1990-01-01", "1990-12-31", "1990-03-29", "1990-10-25"}
	const years = 3
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		greeted := make(map[string]int)
		deliver := almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			e := d.Event
			zone, err := calendar.LoadTimezone(e.Zone)
			if now := zone.WallTime(time.Now()); err != nil || now != e.Wall || now.Clock != (calendar.Clock{Hour: 9}) {
				t.Errorf("greeted at %s in %s, want %s", now, e.Zone, e.Wall)
			}
			greeted[fmt.Sprint(e.UserID, e.OccurrenceKey)]++
			return nil
		})
		repository := almanactest.NewRepository(nil)
		registry, err := almanac.NewRegistry(almanac.Birthday{})
		if err != nil {
			t.Fatal(err)
		}
		scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithDeliverer(almanac.ChannelWebhook, deliver),
			almanac.WithPoll(24*time.Hour), almanac.WithSweep(24*time.Hour), almanac.WithLease(24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, zone := range zones {
			for _, birth := range births {
				_, err := scheduler.CreateUser(t.Context(), almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: birth, Timezone: zone})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		start := time.Now()
		// The clock of a bubble begins at midnight, when it is nine in Tokyo; the hour
		// more gives that birthday its third year.
		ctx, stop := context.WithDeadline(t.Context(), start.AddDate(years, 0, 0).Add(time.Hour))
		defer stop()

		if err := scheduler.Run(ctx); err != nil {
			t.Fatal(err)
		}

		users := len(zones) * len(births)
		for who, times := range greeted {
			if times != 1 {
				t.Errorf("greeted %d times: %s", times, who)
			}
		}
		if n := len(greeted); n != users*years {
			t.Errorf("%d greetings in %d years, want %d for %d people", n, years, users*years, users)
		}
		if n, err := repository.Count(t.Context(), almanac.InStatus(almanac.Pending)); err != nil || n != users {
			t.Errorf("%d birthdays to come, want one for each of %d people (%v)", n, users, err)
		}
	})
}
