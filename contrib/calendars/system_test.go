package calendars_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// all returns each calendar by its name.
func all(t testing.TB) map[string]calendar.System {
	t.Helper()
	systems := make(map[string]calendar.System)
	for _, s := range calendars.All() {
		systems[s.Info().Name] = s
	}
	return systems
}

func dateAfter(d calendar.Date, days int) calendar.Date {
	return calendar.DateOf(calendar.WallTime{Date: d}.Labelled().AddDate(0, 0, days))
}

// In each year of the range, months follow each other without a gap, and years do too.
func TestMonthsPartitionTheDays(t *testing.T) {
	t.Parallel()
	for name, s := range all(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			info := s.Info()
			at, err := s.Date(calendar.SystemDate{Year: info.First, Month: 1, Day: 1})
			if err != nil {
				t.Fatal(err)
			}
			for year := info.First; year <= info.Last; year++ {
				months, err := s.Months(year)
				if err != nil {
					t.Fatal(err)
				}
				regular := 0
				for i, m := range months {
					if regular++; m.Leap {
						regular--
					}
					if m.Number != regular || m.Name == "" || m.Leap && i == 0 {
						t.Fatalf("%d: month %d is %+v", year, i, m)
					}
					first := calendar.SystemDate{Year: year, Month: m.Number, Leap: m.Leap, Day: 1}
					last := first
					last.Day = m.Days
					for day, want := range map[calendar.SystemDate]calendar.Date{first: at, last: dateAfter(at, m.Days-1)} {
						date, err := s.Date(day)
						back, errBack := s.Day(want)
						if err != nil || errBack != nil || date != want || back != day {
							t.Fatalf("%s is on %s, %v, and %s is %s, %v", day, date, err, want, back, errBack)
						}
					}
					at = dateAfter(at, m.Days)
				}
			}
			beyond(t, s, at)
		})
	}
}

// beyond checks what comes before the first year and, from a date on, after the last.
func beyond(t *testing.T, s calendar.System, end calendar.Date) {
	t.Helper()
	info := s.Info()
	begin, err := s.Date(calendar.SystemDate{Year: info.First, Month: 1, Day: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, date := range []calendar.Date{dateAfter(begin, -1), dateAfter(begin, -1000), end, dateAfter(end, 1000), {Year: 1, Month: time.January, Day: 1}, {Year: 9999, Month: time.December, Day: 31}} {
		if !date.Valid() || !date.Before(begin) && date.Before(end) {
			continue
		}
		if day, err := s.Day(date); !errors.Is(err, calendar.ErrOutOfRange) || errors.Is(err, calendar.ErrNoSuchDay) || day != (calendar.SystemDate{}) {
			t.Errorf("%s is %s, %v", date, day, err)
		}
	}
	for _, year := range []int{info.First - 1, info.Last + 1, 0, -5, math.MaxInt32} {
		_, err := s.Date(calendar.SystemDate{Year: year, Month: 1, Day: 1})
		months, errMonths := s.Months(year)
		if !errors.Is(err, calendar.ErrOutOfRange) || !errors.Is(errMonths, calendar.ErrOutOfRange) || months != nil {
			t.Errorf("year %d: %v; %d months, %v", year, err, len(months), errMonths)
		}
	}
}

// Every number is asked for, also those that no year has.
func TestDaysThatAYearLacksAreRefused(t *testing.T) {
	t.Parallel()
	for name, s := range all(t) {
		info := s.Info()
		for year := max(info.First, info.Last-100); year <= info.Last; year++ {
			months, err := s.Months(year)
			if err != nil {
				t.Fatal(err)
			}
			length := make(map[calendar.SystemDate]int)
			for _, m := range months {
				length[calendar.SystemDate{Year: year, Month: m.Number, Leap: m.Leap}] = m.Days
			}
			for n := range 15 * 2 * 5 {
				d := calendar.SystemDate{Year: year, Month: n / 10, Leap: n%2 == 1}
				days := length[d]
				d.Day = []int{-1, 0, 1, 6, 29, 30, 31, 32}[(n/2+year)%8]
				date, err := s.Date(d)
				if has := d.Day >= 1 && d.Day <= days; has != (err == nil) || !has && (!errors.Is(err, calendar.ErrNoSuchDay) || date != (calendar.Date{})) {
					t.Fatalf("%s: %s is on %s, %v; the month has %d days", name, d, date, err, days)
				}
			}
		}
		if _, err := s.Day(calendar.Date{Year: 2026, Month: time.February, Day: 30}); !errors.Is(err, calendar.ErrNoSuchDay) {
			t.Errorf("%s: 30 February is %v", name, err)
		}
	}
}

func TestEachDayGoesRoundAndRound(t *testing.T) {
	t.Parallel()
	for name, s := range all(t) {
		last := calendar.SystemDate{}
		for date := (calendar.Date{Year: 2015, Month: time.January, Day: 1}); date.Year < 2040; date = dateAfter(date, 1) {
			day, err := s.Day(date)
			back, errBack := s.Date(day)
			if err != nil || errBack != nil || back != date || day.String() <= last.String() {
				t.Fatalf("%s: %s is %s, %v, and that is on %s, %v; the day before is %s", name, date, day, err, back, errBack, last)
			}
			last = day
		}
	}
}

func TestAnyDateGoesRoundAndRound(t *testing.T) {
	t.Parallel()
	systems := all(t)
	rapid.Check(t, func(t *rapid.T) {
		s := systems[rapid.SampledFrom(calendars.Names()).Draw(t, "calendar")]
		date := dateAfter(calendar.Date{Year: 1, Month: time.January, Day: 1}, rapid.IntRange(0, 3652058).Draw(t, "day"))
		day, err := s.Day(date)
		if errors.Is(err, calendar.ErrOutOfRange) {
			return
		}
		if back, errBack := s.Date(day); err != nil || errBack != nil || back != date {
			t.Fatalf("%s is %s, %v, and that is on %s, %v", date, day, err, back, errBack)
		}
	})
}

func TestConversionsAllocateNothing(t *testing.T) {
	for name, s := range all(t) {
		date := calendar.Date{Year: 2033, Month: time.December, Day: 25}
		if n := testing.AllocsPerRun(100, func() {
			day, err := s.Day(date)
			if back, errBack := s.Date(day); err != nil || errBack != nil || back != date {
				t.Fatal(day, err, back, errBack)
			}
		}); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

// A birthday is on its day, once in each year of the calendar, whatever the policies are.
func TestOneBirthdayInEachYearOfTheCalendar(t *testing.T) {
	t.Parallel()
	systems := all(t)
	policies := []calendar.MissingPolicy{"", calendar.MissingBackward, calendar.MissingForward, calendar.MissingSkip}
	rapid.Check(t, func(t *rapid.T) {
		s := systems[rapid.SampledFrom(calendars.Names()).Draw(t, "calendar")]
		born := dateAfter(calendar.Date{Year: 1901, Month: time.January, Day: 1}, rapid.IntRange(0, 150*365).Draw(t, "born"))
		day, err := s.Day(born)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "a day that some years lack") {
			day = lacking(t, s, day.Year)
		}
		rule := on(s, day.Month, day.Leap, day.Day)
		rule.Missing = calendar.Missing{Month: rapid.SampledFrom(policies).Draw(t, "month"), Day: rapid.SampledFrom(policies).Draw(t, "day")}
		skips := rule.Missing.Month == calendar.MissingSkip || rule.Missing.Day == calendar.MissingSkip
		rule.From, err = s.Date(calendar.SystemDate{Year: day.Year, Month: 2, Day: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := calendar.WallTime{}
		year := 0
		for range 40 {
			slot, err := rule.After(w, calendar.Policies{})
			if errors.Is(err, calendar.ErrOutOfRange) {
				return
			}
			key := calendar.SystemDate{Year: year + 1}.String()[:4]
			if err != nil || !w.Before(slot.Wall) || year > 0 && (slot.Key < key || !skips && slot.Key != key) {
				t.Fatalf("%+v after %s: %+v, %v; want the year %s", rule, w, slot, err, key)
			}
			for year < 1 || (calendar.SystemDate{Year: year}).String()[:4] < slot.Key {
				year++
			}
			named := calendar.SystemDate{Year: year, Month: day.Month, Leap: day.Leap, Day: day.Day}
			if date, err := s.Date(named); (err == nil) != (slot.DayReason == "") || err == nil && date != slot.Wall.Date {
				t.Fatalf("%+v: %+v, but %s is on %s, %v", rule, slot, named, date, err)
			}
			w = slot.Wall
		}
	})
}

// lacking returns a day near a year that not every year has: the last of a long month, or one of a leap month.
func lacking(t *rapid.T, s calendar.System, year int) calendar.SystemDate {
	months, err := s.Months(year)
	if err != nil {
		t.Fatal(err)
	}
	m := months[rapid.IntRange(0, len(months)-1).Draw(t, "month")]
	for _, other := range months {
		if other.Leap {
			m = other
		}
	}
	return calendar.SystemDate{Year: year, Month: m.Number, Leap: m.Leap, Day: m.Days}
}
