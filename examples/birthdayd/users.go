package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// zones are where the demo's users live: every offset in use, old and new names, and the
// few zones that are not places.
func zones() []string {
	return []string{
		"Pacific/Kiritimati", "Pacific/Apia", "Pacific/Tongatapu", "Pacific/Chatham", "Pacific/Auckland", "Pacific/Fiji",
		"Pacific/Norfolk", "Pacific/Noumea", "Pacific/Guadalcanal", "Asia/Magadan", "Australia/Sydney", "Australia/Lord_Howe",
		"Australia/Brisbane", "Pacific/Port_Moresby", "Asia/Vladivostok", "Australia/Adelaide", "Australia/Darwin", "Asia/Tokyo",
		"Asia/Seoul", "Asia/Pyongyang", "Australia/Eucla", "Asia/Shanghai", "Asia/Hong_Kong", "Singapore",
		"Asia/Manila", "Australia/Perth", "Asia/Taipei", "Asia/Jakarta", "Asia/Ho_Chi_Minh", "Asia/Bangkok",
		"Asia/Yangon", "Asia/Dhaka", "Asia/Thimphu", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Calcutta",
		"Asia/Colombo", "Asia/Tashkent", "Asia/Karachi", "Asia/Almaty", "Indian/Maldives", "Asia/Kabul",
		"Asia/Dubai", "Asia/Tbilisi", "Indian/Mauritius", "Asia/Tehran", "Europe/Moscow", "Europe/Istanbul",
		"Africa/Nairobi", "Asia/Riyadh", "Europe/Kyiv", "Asia/Jerusalem", "Africa/Cairo", "Africa/Johannesburg",
		"Europe/Athens", "Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Africa/Lagos", "Africa/Casablanca",
		"Europe/London", "Europe/Lisbon", "Africa/Accra", "Atlantic/Reykjavik", "UTC", "Atlantic/Azores",
		"Atlantic/Cape_Verde", "America/Nuuk", "America/Noronha", "America/Sao_Paulo", "America/Argentina/Buenos_Aires", "America/St_Johns",
		"America/Halifax", "America/Puerto_Rico", "America/Santiago", "America/New_York", "America/Bogota", "America/Lima",
		"America/Toronto", "America/Indiana/Knox", "America/Chicago", "America/Mexico_City", "America/Guatemala", "America/Denver",
		"America/Phoenix", "US/Pacific", "America/Vancouver", "Etc/GMT+8", "America/Anchorage", "Pacific/Gambier",
		"Pacific/Marquesas", "Pacific/Honolulu", "Pacific/Tahiti", "Pacific/Pago_Pago", "Pacific/Niue", "Etc/GMT+12",
	}
}

func firstNames() []string {
	return []string{
		"Aroha", "Mele", "Tomasi", "Ruby", "Jack", "Yuki", "Haruto", "Min-jun", "Seo-yeon", "Wei", "Li Na", "Siti", "Budi", "Linh",
		"Somchai", "Ananda", "Priya", "Arjun", "Nimal", "Fatima", "Omar", "Leila", "Reza", "Amina", "Kofi", "Zanele", "Chidi",
		"Anastasia", "Dmitri", "Elif", "Yannis", "Zofia", "Jürgen", "Amélie", "Sofía", "João", "Aoife", "Siân", "Björn", "Ingrid",
		"Inês", "Mateo", "Valentina", "Thiago", "Camila", "Diego", "Emma", "Noah", "Maya", "Leilani", "Kai",
	}
}

func lastNames() []string {
	return []string{
		"Ngata", "Taufa", "Smith", "Tanaka", "Suzuki", "Kim", "Park", "Wang", "Chen", "Rahman", "Santoso", "Nguyen", "Suwan",
		"Thapa", "Sharma", "Perera", "Khan", "Haddad", "Hosseini", "Mensah", "Dlamini", "Okafor", "Ivanova", "Yılmaz",
		"Papadopoulos", "Kowalska", "Müller", "Dubois", "García", "Silva", "O'Brien", "Jónsdóttir", "Larsen", "Fernández",
		"Souza", "Rojas", "Martin", "Johnson", "Begay", "Kahale", "Levi",
	}
}

// birthdayUser returns a user in the zone whose birthday is at the moment, at the time of day
// that clocks there show then. It returns false for a moment in a repeated hour: its wall
// time would mean another instant.
func birthdayUser(i int, zone string, moment time.Time) (almanac.Profile, bool) {
	z, err := calendar.LoadTimezone(zone)
	if err != nil {
		return almanac.Profile{}, false
	}
	wall := z.WallTime(moment)
	if r, err := z.Resolve(wall, calendar.Policies{}); err != nil || !r.Instant.Equal(moment) {
		return almanac.Profile{}, false
	}
	attributes, err := json.Marshal(map[string]string{"deliverAt": wall.Clock.String()})
	if err != nil {
		return almanac.Profile{}, false
	}
	first, last := firstNames(), lastNames()
	p := almanac.Profile{
		FirstName:   first[i%len(first)],
		LastName:    last[i%len(last)],
		DateOfBirth: birthday(wall.Date, 1932+i*37%80),
		Timezone:    zone,
		Attributes:  attributes,
	}
	if i%otherCalendar == otherCalendar-1 {
		all := demoCalendars()
		keepBy(&p, all[i/otherCalendar%len(all)], wall.Date, 20+i*37%60)
	}
	return p, true
}

// otherCalendar is how many users there are for each one who keeps birthdays by another calendar.
const otherCalendar = 12

// demoCalendars are the calendars of these users: those by which birthdays are kept, without the tabular
// variants of the Islamic calendar.
func demoCalendars() []calendar.System {
	return []calendar.System{calendars.Chinese(), calendars.Korean(), calendars.Hebrew(), calendars.UmmAlQura(), calendars.Persian(), calendars.Ethiopic()}
}

// keepBy makes a user keep today's birthday by another calendar, at about the given age. It looks for a
// year of birth that has the day. Without one, the user keeps the Gregorian birthday.
func keepBy(p *almanac.Profile, s calendar.System, today calendar.Date, age int) {
	day, err := s.Day(today)
	if err != nil {
		return
	}
	born := day
	for born.Year = day.Year - age; born.Year < day.Year; born.Year++ {
		if date, err := s.Date(born); err == nil && date.Year >= 1900 {
			p.DateOfBirth, p.Calendar = born.String(), s.Info().Name
			return
		}
	}
}

// birthday returns the date in the given year, which is after 1900 and before 2100. For 29
// February it uses the previous leap year.
func birthday(today calendar.Date, year int) string {
	if today.Month == time.February && today.Day == 29 {
		year -= year % 4
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, today.Month, today.Day)
}

const (
	demoUsers   = 300
	demoLead    = 2 * time.Second // when the first greeting is due, about
	demoSeconds = 4               // the greetings are due at this many full seconds
	demoMakers  = 8               // users created at once
	shortNotice = time.Second     // each user is created at least this long before their greeting
)

// populate creates the users, several at once, in the order of their greetings.
func (d *demo) populate(ctx context.Context, planner almanac.Planner, c clock) error {
	first := c.now().Add(demoLead).Truncate(time.Second).Add(time.Second)
	numbers := make(chan int)
	errs := make([]error, demoMakers)
	var making sync.WaitGroup
	for m := range demoMakers {
		making.Go(func() {
			for i := range numbers {
				if errs[m] != nil {
					continue // one error is enough
				}
				moment := first.Add(time.Duration(i*demoSeconds/demoUsers) * time.Second)
				for moment.Before(c.now().Add(shortNotice)) { // on a slow machine
					moment = moment.Add(time.Second)
				}
				errs[m] = d.enrol(ctx, planner, i, moment)
			}
		})
	}
	for i := range demoUsers {
		numbers <- i
	}
	close(numbers)
	making.Wait()
	return errors.Join(errs...)
}

var errNoZone = errors.New("no zone shows this moment once")

// enrol creates and stores the user of that number. The user's zone is the next one in
// which the wall time identifies the moment.
func (d *demo) enrol(ctx context.Context, planner almanac.Planner, i int, moment time.Time) error {
	names := zones()
	for skipped := range names {
		profile, ok := birthdayUser(i, names[(i+skipped)%len(names)], moment)
		if !ok {
			continue
		}
		enrolment, err := planner.CreateUser(ctx, profile)
		if err != nil {
			return err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.users[enrolment.User.ID] = true
		if moment.After(d.last) {
			d.last = moment
		}
		return nil
	}
	return errNoZone
}

// laterLead is how long after the start of the demo the greetings of the next day begin. Until then nothing
// but the demo's own greetings is due.
const laterLead = time.Hour

// laterHours are the hours of the day at which users of the next day are greeted, most of them at nine.
func laterHours() []int { return []int{9, 9, 9, 8, 12, 18} }

// populateLater creates users whose birthdays are in the next 25 hours, so that the dashboard has a day to show:
// a few of each zone, most of them greeted at nine o'clock there. Their ids are made of the date, so another run
// on the same day creates none.
func (d *demo) populateLater(ctx context.Context, planner almanac.Planner, now time.Time) error {
	_, err := planner.CreateUsers(ctx, func(yield func(almanac.Profile, error) bool) {
		for _, p := range laterUsers(now) {
			if !yield(p, nil) {
				return
			}
		}
	}, almanac.CreateUsersOptions{})
	return err
}

// laterUsers returns the users of the next day.
func laterUsers(now time.Time) (all []almanac.Profile) {
	for i, zone := range zones() {
		z, err := calendar.LoadTimezone(zone)
		if err != nil {
			continue
		}
		for n, hour := range laterHours() {
			// The wall times of the hours from now on are tried: a day has each hour once, save on days of clock changes.
			from := now.Add(laterLead).Truncate(15 * time.Minute)
			for moment := from; moment.Before(from.Add(24 * time.Hour)); moment = moment.Add(15 * time.Minute) {
				wall := z.WallTime(moment)
				if wall.Clock.Hour != hour || wall.Clock.Minute != 0 {
					continue
				}
				number := i*len(laterHours()) + n
				if p, ok := birthdayUser(demoUsers+number, zone, moment); ok {
					p.ID = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "birthdayd demo %s %d", wall.Date, number))
					all = append(all, p)
				}
			}
		}
	}
	return all
}
