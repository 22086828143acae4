package calendars_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// kept is the birthday that a user keeps, as the attributes have it. The year can be left out.
type kept struct{ Calendar, Birthday string }

// read returns the calendar and the day. The calendar is nil for a user who keeps the date of birth.
func (k *kept) read(u almanac.User) (s calendar.System, day calendar.SystemDate, err error) {
	if err := json.Unmarshal(u.Attributes, k); err != nil || k.Calendar == "" {
		return nil, day, err
	}
	if s, err = calendars.Load(k.Calendar); err == nil {
		day, err = calendar.ParseSystemDate(k.Birthday)
	}
	return s, day, err
}

// onBirthday is the rule of a user.
func onBirthday(u almanac.User) (calendar.Recurrence, error) {
	at := calendar.Clock{Hour: 9}
	s, day, err := new(kept).read(u)
	if s == nil && err == nil {
		born := u.DateOfBirth.Date()
		return calendar.Yearly{Month: born.Month, Day: born.Day, At: at}, nil
	}
	rule := calendar.YearlyBy{System: s, Month: day.Month, Leap: day.Leap, Day: day.Day, At: at}
	if err == nil {
		_, err = rule.After(calendar.WallTime{}, calendar.Policies{}) // whether any year has the day
	}
	if err != nil {
		return nil, &almanac.ValidationError{Fields: []almanac.FieldError{{Field: "attributes.birthday", Problem: err.Error()}}}
	}
	return rule, nil
}

// greeting has both dates, and the age in years of the user's calendar.
func greeting(u almanac.User, o almanac.Occurrence) string {
	text := "Happy birthday, " + u.FirstName
	s, born, err := new(kept).read(u)
	if s == nil || err != nil {
		return text
	}
	if year, err := strconv.Atoi(o.Key); err == nil && born.Year > 0 {
		text = fmt.Sprintf("%s, you are %d", text, year-born.Year)
	}
	today, err := s.Day(o.Wall.Date)
	if err != nil {
		return text
	}
	return fmt.Sprintf("%s: it is %s, %s", text, o.Wall.Date, today)
}

// A handler that greets each user by the calendar that the user keeps.
func Example_handler() {
	birthdays := almanac.Recurring{Type: "BIRTHDAY", Rule: onBirthday, Message: greeting}
	now := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	for _, attributes := range []string{`{}`, `{"calendar": "hebrew", "birthday": "5774-05L-08"}`, `{"calendar": "chinese", "birthday": "08-05"}`, `{"calendar": "hebrew", "birthday": "02-31"}`} {
		u, err := almanac.NewUser(almanac.Profile{
			FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "2014-02-08", Timezone: "Asia/Jerusalem", Attributes: json.RawMessage(attributes),
		}, now)
		if err != nil {
			panic(err)
		}
		next, err := birthdays.Next(u, now)
		if wrong := (*almanac.ValidationError)(nil); errors.As(err, &wrong) {
			fmt.Println(wrong.Fields[0].Field, "is refused")
			continue
		}
		fmt.Println(next.Unit, next.Key, greeting(u, almanac.Occurrence{Occurrence: next}), err)
	}
	// Output:
	// year 2027 Happy birthday, Ada <nil>
	// year:hebrew 5787 Happy birthday, Ada, you are 13: it is 2027-02-15, 5787-05L-08 <nil>
	// year:chinese 2027 Happy birthday, Ada: it is 2027-09-05, 2027-08-05 <nil>
	// attributes.birthday is refused
}
