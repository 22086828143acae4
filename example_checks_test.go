package almanac_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// A host adds its own links to the chain, and hears of the first refusal or of all.
func ExampleChecks() {
	quiet := func(_ almanac.Event, now time.Time) error {
		if now.Weekday() == time.Sunday {
			return errors.New("nobody is greeted on Sundays")
		}
		return nil
	}
	chain := almanac.Checks{almanac.HasStatus(almanac.Processing), almanac.IsDue(), almanac.NotOlderThan(24 * time.Hour), quiet}

	due := time.Date(2026, time.March, 13, 9, 0, 0, 0, time.UTC)
	event := almanac.Event{Status: almanac.Processing, Due: due}
	sunday := due.Add(48 * time.Hour)
	fmt.Println(chain.First(event, due))
	fmt.Println(chain.First(event, sunday))
	fmt.Println(chain.All(event, sunday))
	// Output:
	// <nil>
	// missed: 48h0m0s after its instant, more than 24h0m0s
	// missed: 48h0m0s after its instant, more than 24h0m0s
	// nobody is greeted on Sundays
}

// A check is a function, so a host's own stand beside the ready-made ones.
func ExampleCheck() {
	var early almanac.Check = almanac.IsDue()
	due := time.Date(2026, time.March, 13, 9, 0, 0, 0, time.UTC)
	fmt.Println(early(almanac.Event{Due: due}, due.Add(-time.Minute)))
	fmt.Println(early(almanac.Event{Due: due}, due))
	// Output:
	// event is due in 1m0s
	// <nil>
}
