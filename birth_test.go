package almanac_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/internal/calendartest"
)

// lunar is registered in TestMain.
var lunar = calendartest.Lunar{}

const lunarName = "lunar"

func bornBy(t require.TestingT, text, by string) almanac.DateOfBirth {
	d, err := almanac.ParseDateOfBirth(text, by)
	require.NoError(t, err)
	return d
}

func TestDatesOfBirthByAnotherCalendarAreKeptAsGiven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		date := calendar.Date{Year: 1900, Month: time.January, Day: 1}.AddDays(rapid.IntRange(0, 250*365).Draw(t, "days"))
		day, err := lunar.Day(date)
		require.NoError(t, err)
		for _, text := range []string{day.String(), "--" + calendar.SystemDate{Month: day.Month, Leap: day.Leap, Day: day.Day}.String()} {
			d := bornBy(t, text, lunarName)
			stored, err := almanac.StoredDateOfBirth(d.String(), d.Calendar())
			require.NoError(t, err)
			year, known := d.Year()
			require.Equal(t, text, d.String())
			require.Equal(t, d, stored)
			require.Equal(t, lunarName, d.Calendar())
			require.Zero(t, d.Date(), "a birth is never converted")
			require.Equal(t, known, text[0] != '-')
			require.Equal(t, calendar.SystemDate{Year: year, Month: day.Month, Leap: day.Leap, Day: day.Day}, d.Day())
		}
	})
}

func TestDatesOfBirthByAnotherCalendarAreChecked(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		"2001-13-01": "is no day of the calendar lunar", "2001-01-31": "is no day of the calendar lunar", "2001-05L-01": "is no day of the calendar lunar",
		"1899-01-01": "is before 1900-01-01", "2900-01-01": "is beyond the years of the calendar lunar",
		"--13-01": "is no day of a year", "--01-31": "is no day of a year", "01-01": "is not of the form", "--2001-01-01": "is not of the form", "": "is not of the form", "--0101": "is not of the form",
	} {
		_, err := almanac.ParseDateOfBirth(text, lunarName)
		var invalid *almanac.InvalidDateOfBirthError
		require.ErrorAs(t, err, &invalid, text)
		require.ErrorContains(t, err, problem, text)
	}
	_, err := almanac.ParseDateOfBirth("5774-05L-08", "unheard-of")
	var unknown *calendar.UnknownSystemError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "unheard-of", unknown.Name)
	d, err := almanac.StoredDateOfBirth("5774-05L-08", "unheard-of")
	require.NoError(t, err, "a program reads users whose calendar it does not know")
	_, err = d.Birthdays(calendar.Clock{})
	require.ErrorIs(t, err, calendar.ErrUnknownSystem)
}

func TestProfilesNameTheCalendar(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	profile := func(by, born string) almanac.Profile {
		return almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: born, Calendar: by, Timezone: "UTC"}
	}
	u, err := almanac.NewUser(profile(lunarName, "1990-03-15"), now)
	require.NoError(t, err)
	require.Equal(t, bornBy(t, "1990-03-15", lunarName), u.DateOfBirth)

	tests := map[string]struct {
		change almanac.ProfileChange
		want   string // the fields and problems, or the date and its calendar
	}{
		"another day":                    {almanac.ProfileChange{DateOfBirth: ptr("1990-03-16"), Calendar: ptr(lunarName)}, "1990-03-16 lunar"},
		"another day of no calendar":     {almanac.ProfileChange{DateOfBirth: ptr("1990-03-16")}, "almanac: invalid input: calendar is required: the stored date is by the calendar lunar"},
		"the same calendar":              {almanac.ProfileChange{Calendar: ptr(lunarName)}, "1990-03-15 lunar"},
		"the Gregorian calendar":         {almanac.ProfileChange{DateOfBirth: ptr("1990-03-16"), Calendar: ptr("")}, "1990-03-16 "},
		"another calendar without a day": {almanac.ProfileChange{Calendar: ptr("")}, "almanac: invalid input: dateOfBirth is required with another calendar"},
		"an unknown calendar": {almanac.ProfileChange{DateOfBirth: ptr("1990-03-16"), Calendar: ptr("unheard-of")},
			"almanac: invalid input: calendar is no calendar that this program knows; it knows lunar"},
		"a day that is none": {almanac.ProfileChange{DateOfBirth: ptr("1990-03-31"), Calendar: ptr(lunarName)}, "almanac: invalid input: dateOfBirth is no day of the calendar lunar"},
	}
	for name, tt := range tests {
		edited, err := u.Edit(tt.change, now)
		if err != nil {
			require.ErrorIs(t, err, almanac.ErrInvalid)
			problem, _, _ := strings.Cut(err.Error(), ", ") // other tests make further calendars known
			require.Equal(t, tt.want, problem, name)
			continue
		}
		require.Equal(t, tt.want, edited.DateOfBirth.String()+" "+edited.DateOfBirth.Calendar(), name)
	}

	without, err := u.Edit(almanac.ProfileChange{DateOfBirth: ptr("")}, now, almanac.WithOptionalProfile())
	require.NoError(t, err, "a date is removed without its calendar")
	require.Zero(t, without.DateOfBirth)
	_, err = almanac.NewUser(profile(lunarName, "--03-15"), now)
	require.ErrorContains(t, err, "dateOfBirth has no year")
	_, err = almanac.NewUser(profile(lunarName, "--03-15"), now, almanac.WithOptionalProfile())
	require.NoError(t, err)
	_, err = almanac.NewUser(profile(lunarName, ""), now, almanac.WithOptionalProfile())
	require.EqualError(t, err, "almanac: invalid input: calendar needs a date of birth")
}

// In some calendars a day begins at the sunset before, so a child born tonight has tomorrow's date.
func TestADateByAnotherCalendarMayBeOfTomorrow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 28, 20, 0, 0, 0, time.UTC)
	for days, future := range map[int]bool{0: false, 1: false, 2: true} {
		day, err := lunar.Day(calendar.DateOf(now).AddDays(days))
		require.NoError(t, err)
		_, err = almanac.NewUser(almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: day.String(), Calendar: lunarName, Timezone: "UTC"}, now)
		require.Equal(t, future, errors.Is(err, almanac.ErrDateOfBirthInFuture), "in %d days: %v", days, err)
	}
}

// Each year of the calendar has one greeting, on the day that the rule of the calendar says, at 09:00 in every zone.
// The payload has both dates and the age.
func TestBirthdayGreetsByTheCalendarOfTheUser(t *testing.T) {
	t.Parallel()
	zones := slices.DeleteFunc(calendar.TimezoneNames(), func(name string) bool {
		_, err := calendar.LoadTimezone(name)
		return err != nil // this machine has no data for it
	})
	rapid.Check(t, func(t *rapid.T) {
		date := calendar.Date{Year: 1930, Month: time.January, Day: 1}.AddDays(rapid.IntRange(0, 60*365).Draw(t, "days"))
		day, err := lunar.Day(date)
		require.NoError(t, err)
		b := almanac.Birthday{Before: rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "before")}
		u := almanactest.User(almanactest.LivingIn(rapid.SampledFrom(zones).Draw(t, "zone")), func(p *almanac.Profile) { p.DateOfBirth, p.Calendar = day.String(), lunarName })
		after := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 20_000).Draw(t, "after"))
		rule := calendar.YearlyBy{System: lunar, Month: day.Month, Leap: day.Leap, Day: day.Day, At: calendar.Clock{Hour: 9}}
		key := 0
		for range 5 {
			next, err := b.Next(u, after)
			require.NoError(t, err)
			year, err := strconv.Atoi(next.Key)
			require.NoError(t, err)
			if key > 0 {
				require.Equal(t, key+1, year, "the next year of the calendar")
			}
			require.Equal(t, calendar.Unit("year:"+lunarName), next.Unit)
			slot, err := rule.After(calendar.WallTime{Date: next.Wall.Date.AddDays(b.Before - 1)}, calendar.Policies{})
			require.NoError(t, err)
			require.Equal(t, slot.Key, next.Key)
			require.Equal(t, slot.Wall.Date, next.Wall.Date.AddDays(b.Before))

			payload, err := b.Payload(u, almanac.Occurrence{Occurrence: next})
			require.NoError(t, err)
			shown, err := lunar.Day(slot.Wall.Date)
			require.NoError(t, err)
			var got struct {
				Message, Date, Calendar, CalendarDate string
				Age, DaysBefore                       int
			}
			require.NoError(t, json.Unmarshal(payload, &got))
			require.Equal(t, []any{slot.Wall.Date.String(), lunarName, shown.String(), year - day.Year, b.Before}, []any{got.Date, got.Calendar, got.CalendarDate, got.Age, got.DaysBefore})
			require.Contains(t, got.Message, shown.In(lunar))
			key, after = year, next.Resolution.Instant
		}
	})
}

// An age is in years of the calendar of the birth.
func TestAgesAreInYearsOfTheCalendarOfTheBirth(t *testing.T) {
	t.Parallel()
	tests := []struct {
		born, by, key string
		unit          calendar.Unit
		age           int
		known         bool
	}{
		{"1990-03-15", "", "2027", "year", 37, true},
		{"1990-03-15", "", "1990", "year", 0, true},
		{"1990-03-15", lunarName, "2028", "year:lunar", 38, true}, // in March 2027, too
		{"1989-01L-30", lunarName, "1990", "year:lunar", 1, true},
		{"--03-15", "", "2027", "year", 0, false},
		{"--05L-07", lunarName, "2028", "year:lunar", 0, false},
		{"1990-03-15", "", "2028", "year:lunar", 0, false}, // years of two calendars have no difference
		{"1990-03-15", lunarName, "2027", "year", 0, false},
		{"1990-03-15", lunarName, "2028-02-01", "day:lunar", 0, false},
	}
	for _, tt := range tests {
		born, err := almanac.StoredDateOfBirth(tt.born, tt.by)
		require.NoError(t, err)
		age, known := born.Age(calendar.Occurrence{Key: tt.key, Unit: tt.unit})
		require.Equal(t, []any{tt.age, tt.known}, []any{age, known}, "%s %s, in %s %s", tt.by, tt.born, tt.unit, tt.key)
	}

	u := almanactest.User(func(p *almanac.Profile) { p.DateOfBirth, p.Calendar = "1990-02-01", lunarName })
	next, err := almanac.Birthday{}.Next(u, time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	payload, err := almanac.Birthday{}.Payload(u, almanac.Occurrence{Occurrence: next})
	require.NoError(t, err)
	require.JSONEq(t, `{"message": "Hey, Ada Lovelace it's your birthday (1 Moon 2 2028, 5 March 2027)", "date": "2027-03-05",
		"calendar": "lunar", "calendarDate": "2028-02-01", "age": 38}`, string(payload))
}

func TestGregorianGreetingsSayNoOtherDate(t *testing.T) {
	t.Parallel()
	u := almanactest.User()
	next, err := almanac.Birthday{}.Next(u, time.Date(2026, time.November, 28, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	payload, err := almanac.Birthday{}.Payload(u, almanac.Occurrence{Occurrence: next})
	require.NoError(t, err)
	require.JSONEq(t, `{"message": "Hey, Ada Lovelace it's your birthday"}`, string(payload))
}

func TestBirthdayChecksItsPolicies(t *testing.T) {
	t.Parallel()
	_, err := almanac.NewRegistry(almanac.Birthday{Policies: calendar.Policies{Missing: calendar.Missing{Month: "sideways"}}})
	require.ErrorContains(t, err, `missing "sideways" is no policy for a missing month`)
}

// A program that does not know the calendar of a user plans nothing for the user, and says why.
func TestAProgramRefusesUsersOfACalendarThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	repository := almanactest.NewRepository(func() time.Time { return now })
	u := almanactest.User()
	var err error
	u.DateOfBirth, err = almanac.StoredDateOfBirth("5774-05L-08", "unheard-of")
	require.NoError(t, err)
	e := almanactest.Event(now, almanactest.For(u), almanactest.Of("5787")) // by a program that knows the calendar
	created, err := repository.CreateUsers(ctx, []almanac.UserWithEvents{{User: u, Events: []almanac.Event{e}}})
	require.NoError(t, err)
	require.NoError(t, created[0].Err)

	registry, err := almanac.NewRegistry(almanac.Birthday{})
	require.NoError(t, err)
	var delivered []uuid.UUID
	scheduler, err := almanac.NewScheduler(repository, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		delivered = append(delivered, d.Event.ID)
		return nil
	})))
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"an edit": func() error {
			_, err := scheduler.UpdateUser(ctx, u.ID, almanac.ProfileChange{FirstName: ptr("Augusta")})
			return err
		},
		"a preview":  func() error { _, err := scheduler.Preview(ctx, u.ID, almanac.TypeBirthday, 1); return err },
		"a new plan": func() error { _, err := scheduler.Reschedule(ctx, u.ID); return err },
	} {
		err := call()
		var unknown *calendar.UnknownSystemError
		require.ErrorAs(t, err, &unknown, name)
		require.Equal(t, "unheard-of", unknown.Name, name)
	}
	now = now.Add(time.Hour)
	_, err = scheduler.RunOnce(ctx, almanac.RunOnceOptions{})
	require.NoError(t, err)
	require.LessOrEqual(t, len(delivered), 1, "only what another program planned")
	stalled, err := repository.Stalled(ctx, u.ID, 10)
	require.NoError(t, err)
	require.Len(t, stalled, 1, "its successor is planned by a program that knows the calendar")
}

// A failure of a program that does not know the calendar postpones little, because another program may know it.
func TestAnUnknownCalendarPostponesALittle(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC)
	unknown := fmt.Errorf("planned: %w", &calendar.UnknownSystemError{Name: "unheard-of"})
	s := almanactest.Event(now).Stalled(unknown, now)
	for range 20 {
		require.Positive(t, s.RetryAt.Sub(now))
		require.LessOrEqual(t, s.RetryAt.Sub(now), 100*time.Second)
		s = s.Again(unknown, now)
	}
	require.Equal(t, 21, s.Failures)
	require.Greater(t, s.Again(errors.New("fails"), now).RetryAt.Sub(now), 30*time.Minute)
}
