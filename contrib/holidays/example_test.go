package holidays_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/holidays"
)

// rent is due on the last working day of each month, by the holidays where the user lives. The
// attribute "holidays" of a user has the code. The handler names all calendars, so that a new release
// of each plans its events again.
func rent(all []*calendar.WorkCalendar) almanac.Recurring {
	return almanac.Recurring{
		Type:      "RENT",
		Execution: almanac.Execution{WorkCalendars: all},
		Rule: func(u almanac.User) (calendar.Recurrence, error) {
			var attributes struct{ Holidays string }
			if err := json.Unmarshal(u.Attributes, &attributes); err != nil {
				return nil, err
			}
			i := slices.IndexFunc(all, func(c *calendar.WorkCalendar) bool { return c.Name() == attributes.Holidays })
			if i < 0 {
				return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{
					Field: "attributes", Problem: fmt.Sprintf("name no holidays: %q", attributes.Holidays),
				}}}
			}
			return calendar.Monthly{Day: -1, At: calendar.Clock{Hour: 9}, WorkDays: all[i]}, nil
		},
	}
}

func Example() {
	zone, err := calendar.LoadTimezone("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := holidays.All()
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := rent(all)
	for _, attributes := range []string{`{"holidays": "DE-BY"}`, `{"holidays": "US"}`, `{"holidays": "Atlantis"}`} {
		u := almanac.User{Timezone: zone, Attributes: json.RawMessage(attributes)}
		next, err := handler.Next(u, time.Date(2027, time.December, 1, 0, 0, 0, 0, time.UTC))
		fmt.Println(attributes, next.Wall, err)
	}
	// Output:
	// {"holidays": "DE-BY"} 2027-12-31T09:00:00 <nil>
	// {"holidays": "US"} 2027-12-30T09:00:00 <nil>
	// {"holidays": "Atlantis"} 0000-00-00T00:00:00 almanac: invalid input: attributes name no holidays: "Atlantis"
}

// A file of the host is known by its name, also to handlers that read a code from a profile.
func ExampleRegister() {
	hungary, err := calendar.ParseWorkCalendar("name HU\nrelease 2026-11-02\nuntil 2026-12-31\n2026-10-23 holiday National Day\n")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := holidays.Register(hungary); err != nil {
		fmt.Println(err)
		return
	}
	known, err := holidays.Calendar("HU")
	fmt.Println(known.Release(), err)
	// Output: 2026-11-02 <nil>
}

func ExampleCalendar() {
	china, err := holidays.Calendar("CN")
	if err != nil {
		fmt.Println(err)
		return
	}
	saturday := calendar.Date{Year: 2026, Month: time.October, Day: 10}
	fmt.Println(china.IsWorking(saturday))
	fmt.Println(china.Holiday(calendar.Date{Year: 2026, Month: time.September, Day: 25}))
	fmt.Println(china.Until())
	// Output:
	// true true
	// Mid-Autumn Festival true
	// 2026-12-31
}
