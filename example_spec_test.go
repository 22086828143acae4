package almanac_test

import (
	"fmt"
	"time"

	"github.com/almanac-go/almanac"
)

// Specs are literals. A repository makes the same value a query.
func ExampleSpec() {
	ready := almanac.And{almanac.Ready{}, almanac.Not{Spec: almanac.OfType("REMINDER")}}

	nine := time.Date(2026, time.December, 10, 9, 0, 0, 0, time.UTC)
	birthday := almanac.Event{Type: almanac.TypeBirthday, Status: almanac.Pending, Due: nine, AvailableAt: nine}
	reminder := birthday
	reminder.Type = "REMINDER"

	fmt.Println(ready.Matches(birthday, nine), ready.Matches(birthday, nine.Add(-time.Second)), ready.Matches(reminder, nine))
	// Output: true false false
}
