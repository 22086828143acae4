package calendars_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// released is a calendar of this module under another name and in another release.
type released struct {
	calendar.System
	name, release string
}

func (r released) Info() calendar.SystemInfo {
	info := r.System.Info()
	info.Name, info.Release = r.name, r.release
	return info
}

// misprinted is the Chinese calendar with the error that other tables have: the year 2027 begins a day late.
type misprinted struct{ released }

func (m misprinted) Day(d calendar.Date) (calendar.SystemDate, error) {
	day, err := m.System.Day(d)
	switch {
	case day == calendar.SystemDate{Year: 2027, Month: 1, Day: 1}:
		return calendar.SystemDate{Year: 2026, Month: 12, Day: 30}, err
	case day.Year == 2027 && day.Month == 1:
		day.Day--
	}
	return day, err
}

func (m misprinted) Date(d calendar.SystemDate) (calendar.Date, error) {
	switch {
	case d == calendar.SystemDate{Year: 2026, Month: 12, Day: 30}:
		d = calendar.SystemDate{Year: 2027, Month: 1, Day: 1}
	case d.Year == 2027 && d.Month == 1:
		d.Day++
	}
	return m.System.Date(d)
}

func (m misprinted) Months(year int) ([]calendar.SystemMonth, error) {
	months, err := m.System.Months(year)
	switch {
	case err != nil:
	case year == 2026:
		months[len(months)-1].Days++
	case year == 2027:
		months[0].Days--
	}
	return months, err
}

// Row 23 of the table of docs/adr/0065-used-days.md: a new table moves the birthday, and its key stays.
func TestACorrectedTableMovesBirthdays(t *testing.T) {
	t.Parallel()
	name := "chinese-" + strings.ToLower(rand.Text())
	isOn := func(g *greeted, want string) {
		t.Helper()
		if next := g.pending(); next.OccurrenceKey+" "+next.Wall.Date.String() != want {
			t.Errorf("the next birthday is %s on %s, want %s", next.OccurrenceKey, next.Wall, want)
		}
	}
	reconcile := func(g *greeted) []almanac.CalendarReport {
		t.Helper()
		result, err := g.scheduler.Reconcile(g.ctx, almanac.ReconcileOptions{})
		g.ok(err)
		return result.Calendars
	}
	if err := calendar.RegisterSystems(misprinted{released{calendars.Chinese(), name, "2026-01-01"}}); err != nil {
		t.Fatal(err)
	}
	g := greet(t.Context(), t, at(t, "2026-12-01T10:00:00Z"), almanac.Profile{DateOfBirth: "1990-01-01", Calendar: name})
	if moved := reconcile(g); len(moved) > 0 {
		t.Errorf("%+v", moved)
	}
	isOn(g, "2027 2027-02-07")

	if err := calendar.RegisterSystems(released{calendars.Chinese(), name, "2026-02-01"}); err != nil {
		t.Fatal(err)
	}
	g.scheduler = g.program(almanac.Birthday{})
	moved := reconcile(g)
	if len(moved) != 1 || moved[0].Name != "system:"+name || moved[0].Moved != 1 || moved[0].Largest != -24*time.Hour {
		t.Errorf("%+v", moved)
	}
	isOn(g, "2027 2027-02-06")
	g.run(at(t, "2027-02-06T09:00:00Z"))
	isOn(g, "2028 2028-01-26")
	if len(g.delivered) != 1 {
		t.Errorf("delivered %d greetings", len(g.delivered))
	}
}

// After the last birthday that a calendar has, nothing is planned and nothing is wrong.
func TestASeriesEndsWithItsCalendar(t *testing.T) {
	t.Parallel()
	for name, born := range map[string]calendar.SystemDate{
		"chinese": {Year: 2080, Month: 1, Day: 1}, "dangi": {Year: 2080, Month: 12, Day: 1}, "persian": {Year: 1470, Month: 10, Day: 11}, "islamic-umalqura": {Year: 1580, Month: 8, Day: 17},
	} {
		s, err := calendars.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		last := born
		last.Year = s.Info().Last
		day, err := s.Date(last)
		if err != nil {
			t.Fatal(err)
		}
		due := time.Date(day.Year, day.Month, day.Day, 9, 0, 0, 0, time.UTC)
		g := greet(t.Context(), t, due.AddDate(0, -1, 0), almanac.Profile{DateOfBirth: born.String(), Calendar: name})
		g.run(due)
		found, err := g.store.Find(g.ctx, almanac.InStatus(almanac.Pending), almanac.Page{})
		g.ok(err)
		stalled, err := g.store.Stalled(g.ctx, g.id, 0)
		g.ok(err)
		if len(g.delivered) != 1 || len(found.Items) > 0 || len(stalled) > 0 {
			t.Errorf("%s: %d delivered, %d pending, stalled: %+v", name, len(g.delivered), len(found.Items), stalled)
		}
	}
}

// Days that no authority has published are provisional.
func TestKoreanDaysAfter2050AreProvisional(t *testing.T) {
	t.Parallel()
	for _, s := range calendars.All() {
		for _, year := range []int{2050, 2051, 2060} {
			rule := calendar.Recurrence(on(s, 1, false, 1))
			slot, err := rule.After(calendar.WallTime{Date: calendar.Date{Year: year, Month: time.January, Day: 1}}, calendar.Policies{})
			if want := s.Info().Name == "dangi" && year > 2050; err != nil || slot.Consulted.Provisional != want {
				t.Errorf("%s after %d: provisional is %t, %v", s.Info().Name, year, slot.Consulted.Provisional, err)
			}
		}
	}
}
