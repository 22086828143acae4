package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
)

// Whenever the demo is started, each user's greeting must be due at the intended moment.
func TestUsersAreDueAtTheIntendedInstant(t *testing.T) {
	t.Parallel()
	moments := map[string]time.Time{
		"an ordinary day":         time.Date(2026, time.November, 21, 4, 12, 33, 0, time.UTC),
		"the turn of the year":    time.Date(2026, time.December, 31, 23, 59, 59, 0, time.UTC),
		"a leap day":              time.Date(2028, time.February, 29, 11, 0, 0, 0, time.UTC),
		"the day after":           time.Date(2028, time.March, 1, 1, 0, 0, 0, time.UTC),
		"28 February":             time.Date(2027, time.February, 28, 12, 0, 0, 0, time.UTC),
		"the gap in Berlin":       time.Date(2027, time.March, 28, 1, 0, 0, 0, time.UTC),
		"the fold in Berlin":      time.Date(2026, time.October, 25, 1, 30, 0, 0, time.UTC),
		"the fold in New York":    time.Date(2026, time.November, 1, 6, 30, 0, 0, time.UTC),
		"the fold on Lord Howe's": time.Date(2027, time.April, 3, 15, 15, 0, 0, time.UTC),
	}
	birthday := almanac.Birthday{At: almanac.AtAttribute(deliverAt, calendar.Clock{Hour: 9})}
	for name, moment := range moments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var skipped int
			by := make(map[string]int) // users by each calendar
			for i := range demoUsers {
				profile, ok := birthdayUser(i, zones()[i%len(zones())], moment)
				if !ok {
					skipped++
					continue
				}
				u, err := almanac.NewUser(profile, moment)
				if err != nil {
					t.Fatalf("%+v: %v", profile, err)
				}
				next, err := birthday.Next(u, moment.Add(-5*time.Second))
				if err != nil {
					t.Fatalf("%+v: %v", profile, err)
				}
				r, err := next.Zone.Resolve(next.Wall, next.Policies)
				if err != nil || !r.Instant.Equal(moment) {
					t.Errorf("%+v is greeted at %v, %v; want %v", profile, r.Instant, err, moment)
				}
				if profile.Calendar != "" {
					by[profile.Calendar]++
					checkBothDates(t, birthday, u, next)
				}
			}
			if skipped > demoUsers/4 {
				t.Errorf("%d of %d users are skipped", skipped, demoUsers)
			}
			for _, s := range demoCalendars() {
				if name := s.Info().Name; by[name] < 3 {
					t.Errorf("%d users keep their birthdays by the calendar %s", by[name], name)
				}
			}
		})
	}
}

// checkBothDates checks that the message of a birthday has its date by the user's calendar and the Gregorian one.
func checkBothDates(t *testing.T, birthday almanac.Birthday, u almanac.User, next calendar.Occurrence) {
	t.Helper()
	payload, err := birthday.Payload(u, almanac.Occurrence{Occurrence: next})
	if err != nil {
		t.Fatal(err)
	}
	var says struct{ Message string }
	if err := json.Unmarshal(payload, &says); err != nil {
		t.Fatal(err)
	}
	date := next.Wall.Date
	want := fmt.Sprintf("(%s, %d %s %d)", next.SystemDayText(), date.Day, date.Month, date.Year)
	if next.Unit.System() != u.DateOfBirth.Calendar() || !strings.HasSuffix(says.Message, want) {
		t.Errorf("the message of a user of the calendar %s, by %s: %q, want %s", u.DateOfBirth.Calendar(), next.Unit, says.Message, want)
	}
}

func TestARepeatedHourIsAvoided(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, time.October, 25, 0, 30, 0, 0, time.UTC)
	if _, ok := birthdayUser(0, "Europe/Berlin", first); !ok {
		t.Error("the first showing of 02:30 is what the wall time means")
	}
	if _, ok := birthdayUser(0, "Europe/Berlin", first.Add(time.Hour)); ok {
		t.Error("the second showing of 02:30 is not what the wall time means")
	}
}

func TestDeliverAtComesFromAValidAttribute(t *testing.T) {
	t.Parallel()
	preset := calendar.Clock{Hour: 9}
	tests := map[string]calendar.Clock{
		`{"deliverAt":"18:30"}`:    {Hour: 18, Minute: 30},
		`{"deliverAt":"00:00:01"}`: {Second: 1},
		`{"deliverAt":"24:00"}`:    preset,
		`{"deliverAt":9}`:          preset,
		`{}`:                       preset,
		``:                         preset,
	}
	for attributes, want := range tests {
		if got := almanac.AtAttribute(deliverAt, preset)(almanac.User{Attributes: []byte(attributes)}); got != want {
			t.Errorf("attributes %s: %v, want %v", attributes, got, want)
		}
	}
}

// The dashboard of the demo shows a day with events in most of its hours. None is due while the demo greets.
func TestTheDemoHasUsersForTheNextDay(t *testing.T) {
	t.Parallel()
	birthday := almanac.Birthday{At: almanac.AtAttribute(deliverAt, calendar.Clock{Hour: 9})}
	for _, now := range []time.Time{
		time.Date(2026, time.November, 30, 8, 31, 5, 0, time.UTC),
		time.Date(2028, time.February, 28, 23, 59, 59, 0, time.UTC),
		time.Date(2026, time.October, 24, 20, 0, 0, 0, time.UTC), // clocks in Europe go back in the night
	} {
		users, hours, ids := laterUsers(now), map[int]bool{}, map[uuid.UUID]bool{}
		for _, profile := range users {
			u, err := almanac.NewUser(profile, now)
			if err != nil {
				t.Fatalf("%+v: %v", profile, err)
			}
			next, err := birthday.Next(u, now)
			if err != nil {
				t.Fatalf("%+v: %v", profile, err)
			}
			r, err := next.Zone.Resolve(next.Wall, next.Policies)
			if ahead := r.Instant.Sub(now); err != nil || ahead < laterLead-15*time.Minute || ahead > 25*time.Hour {
				t.Errorf("%+v is greeted %v after the start, %v", profile, ahead, err)
			}
			hours[int(r.Instant.Sub(now).Hours())], ids[u.ID] = true, true
		}
		if len(ids) != len(users) || len(users) < 5*len(zones()) || len(users) > 1000 || len(hours) < 20 {
			t.Errorf("%v: %d users with %d ids, in %d hours", now, len(users), len(ids), len(hours))
		}
		for i, again := range laterUsers(now.Add(time.Minute)) {
			if again.ID != users[i].ID {
				t.Errorf("another run a minute later has another user %d", i)
				break
			}
		}
	}
}
