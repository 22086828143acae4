package calendar_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// A stored name leads to the calendar that the program registered. Programs register those of the
// module contrib/calendars.
func ExampleLoadSystem() {
	if err := calendar.RegisterSystems(calendartest.Lunar{}); err != nil {
		panic(err)
	}
	lunar := must(calendar.LoadSystem("lunar"))
	day := must(lunar.Day(calendar.Date{Year: 2027, Month: time.February, Day: 15}))
	fmt.Println(day, "is", day.In(lunar))
	_, err := calendar.LoadSystem("julian")
	fmt.Println(errors.Is(err, calendar.ErrUnknownSystem))
	// Output:
	// 2028-01-13 is 13 Moon 1 2028
	// true
}
