package calendars_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
)

// TestMain registers the calendars, as a program does.
func TestMain(m *testing.M) {
	if err := calendar.RegisterSystems(calendars.All()...); err != nil {
		panic(err)
	}
	m.Run()
}

// greeted is a scheduler with a user who is greeted by the ready-made handler.
type greeted struct {
	t         rapid.TB
	ctx       context.Context
	now       time.Time
	scheduler almanac.Scheduler
	store     *almanactest.Repository
	id        uuid.UUID
	delivered []almanac.Event
}

func greet(ctx context.Context, t rapid.TB, now time.Time, p almanac.Profile) *greeted {
	t.Helper()
	g := &greeted{t: t, ctx: ctx, now: now}
	g.store = almanactest.NewRepository(func() time.Time { return g.now })
	g.scheduler = g.program(calendar.Missing{})
	p.FirstName, p.LastName = "Ada", "Lovelace"
	if p.Timezone == "" {
		p.Timezone = "UTC"
	}
	created, err := g.scheduler.CreateUser(ctx, p)
	g.ok(err)
	g.id = created.User.ID
	return g
}

// program returns a scheduler with a policy for missing months and days.
func (g *greeted) program(missing calendar.Missing) almanac.Scheduler {
	g.t.Helper()
	registry, err := almanac.NewRegistry(almanac.Birthday{Missing: missing})
	g.ok(err)
	s, err := almanac.NewScheduler(g.store, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
		g.delivered = append(g.delivered, d.Event)
		return nil
	})))
	g.ok(err)
	return s
}

func (g *greeted) ok(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// run delivers what is due at a time.
func (g *greeted) run(at time.Time) {
	g.t.Helper()
	g.now = at
	_, err := g.scheduler.RunOnce(g.ctx, almanac.RunOnceOptions{})
	g.ok(err)
}

// keep gives the user another birthday.
func (g *greeted) keep(by, day string) almanac.UpdateUserResult {
	g.t.Helper()
	result, err := g.scheduler.UpdateUser(g.ctx, g.id, almanac.ProfileChange{Calendar: &by, DateOfBirth: &day})
	g.ok(err)
	return result
}

// pending returns the next greeting.
func (g *greeted) pending() almanac.Event {
	g.t.Helper()
	found, err := g.store.Find(g.ctx, almanac.InStatus(almanac.Pending), almanac.Page{})
	g.ok(err)
	if len(found.Items) != 1 {
		g.t.Fatalf("%d pending events", len(found.Items))
	}
	return found.Items[0]
}

// Rows 18 to 22 and 24 and 25 of the table of docs/adr/0065-used-days.md, by dates of birth: a user is
// greeted, and then keeps another calendar. Row 23 needs a table with an error.
func TestAnotherCalendarOfAUserThroughTheScheduler(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		by, born   string
		begin, ran string
		early      bool   // an operator makes the greeting due when it is delivered
		key        string // of that greeting
		change     string
		to, day    string // the calendar and the day after the change; no change if both are empty
		next, left string // key and date
	}{
		"18: run before its time, then Hebrew": {"", "1990-03-15", "2026-12-01T11:00:00Z", "2026-12-01T12:00:00Z", true, "2027", "2026-12-01T13:00:00Z", "hebrew", "5750-06-18", "5788 2028-03-16", "2027-03-27"},
		"19: Hebrew, then Gregorian":           {"hebrew", "5750-06-18", "2026-03-07T08:00:00Z", "2026-03-07T09:00:00Z", false, "5786", "2026-03-10T10:00:00Z", "", "1990-03-15", "2027 2027-03-15", "2026-03-15"},
		"20: Gregorian, then Hebrew":           {"", "1990-03-15", "2026-03-15T08:00:00Z", "2026-03-15T09:00:00Z", false, "2026", "2026-04-01T10:00:00Z", "hebrew", "5750-06-18", "5787 2027-03-27", ""},
		"21: Gregorian, then Umm al-Qura":      {"", "1990-03-15", "2026-03-15T08:00:00Z", "2026-03-15T09:00:00Z", false, "2026", "2026-04-01T10:00:00Z", "islamic-umalqura", "1410-08-17", "1448 2027-01-25", ""},
		"22: Chinese, then Korean":             {"chinese", "1990-01-01", "2027-02-06T08:00:00Z", "2027-02-06T09:00:00Z", false, "2027", "2027-02-06T10:00:00Z", "dangi", "1990-01-01", "2028 2028-01-27", "2027-02-07"},
		"24: Persian, twice in one year":       {"persian", "1369-10-11", "2028-01-01T08:00:00Z", "2028-01-01T09:00:00Z", false, "1406", "", "", "", "1407 2028-12-31", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := greet(t.Context(), t, at(t, tt.begin), almanac.Profile{DateOfBirth: tt.born, Calendar: tt.by})
			if tt.early {
				g.now = at(t, tt.ran)
				_, err := g.scheduler.RunNow(g.ctx, g.pending().ID, almanac.ForceOptions{})
				g.ok(err)
			}
			g.run(at(t, tt.ran))
			if len(g.delivered) != 1 || g.delivered[0].OccurrenceKey != tt.key {
				t.Fatalf("delivered: %+v", g.delivered)
			}
			var result almanac.UpdateUserResult
			if tt.change != "" {
				g.now = at(t, tt.change)
				result = g.keep(tt.to, tt.day)
			}
			next := g.pending()
			if got := next.OccurrenceKey + " " + next.Wall.Date.String(); got != tt.next {
				t.Errorf("next is %s, want %s", got, tt.next)
			}
			left := ""
			if o, is := result.LeftOut[almanac.Series{Type: almanac.TypeBirthday}]; is {
				left = o.Wall.Date.String()
			}
			if left != tt.left {
				t.Errorf("left out is %q, want %q", left, tt.left)
			}
		})
	}
}

// Row 25: the same calendar, but another policy for the month that a year lacks.
func TestAnotherPolicyMovesTheNextBirthday(t *testing.T) {
	t.Parallel()
	g := greet(t.Context(), t, at(t, "2025-08-03T08:00:00Z"), almanac.Profile{DateOfBirth: "1987-06L-10", Calendar: "chinese"})
	g.run(at(t, "2025-08-03T09:00:00Z"))
	if next := g.pending(); next.OccurrenceKey != "2026" || next.Wall.Date.String() != "2026-07-23" {
		t.Errorf("%s on %s", next.OccurrenceKey, next.Wall)
	}
	g.scheduler = g.program(calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingForward})
	_, err := g.scheduler.Reschedule(g.ctx, g.id)
	g.ok(err)
	if next := g.pending(); next.OccurrenceKey != "2026" || next.Wall.Date.String() != "2026-08-22" {
		t.Errorf("%s on %s", next.OccurrenceKey, next.Wall)
	}
}

// Over years in which a user moves and changes calendars, greetings of one calendar have each year once, and those of
// two calendars are more than half of the shortest year apart. What an edit leaves out is at most that far from a greeting.
func TestEachBirthdayHasOneGreeting(t *testing.T) {
	t.Parallel()
	names := []string{"", "hebrew", "chinese", "islamic-umalqura", "persian", "ethiopic"}
	zones := []string{"UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Asia/Tehran"}
	rapid.Check(t, func(rt *rapid.T) {
		born := calendar.Date{Year: 1950, Month: time.January, Day: 1}.AddDays(rapid.IntRange(0, 40*365).Draw(rt, "born"))
		day := func(name string) string {
			if name == "" {
				return born.String()
			}
			s, err := calendar.LoadSystem(name)
			if err != nil {
				rt.Fatal(err)
			}
			d, err := s.Day(born)
			if err != nil {
				rt.Fatal(err)
			}
			return d.String()
		}
		by := rapid.SampledFrom(names).Draw(rt, "first")
		g := greet(t.Context(), rt, time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC), almanac.Profile{DateOfBirth: day(by), Calendar: by})
		for range rapid.IntRange(2, 6).Draw(rt, "greetings") {
			g.run(g.pending().Due)
			g.now = g.now.AddDate(0, 0, rapid.IntRange(0, 300).Draw(rt, "days"))
			if !g.now.Before(g.pending().Due) {
				continue
			}
			if rapid.Bool().Draw(rt, "moves") {
				zone := rapid.SampledFrom(zones).Draw(rt, "zone")
				_, err := g.scheduler.UpdateUser(g.ctx, g.id, almanac.ProfileChange{Timezone: &zone})
				g.ok(err)
				continue
			}
			by = rapid.SampledFrom(names).Draw(rt, "then")
			g.keep(by, day(by))
		}
		for i, e := range g.delivered[1:] {
			before := g.delivered[i]
			days := before.Wall.Date.DaysUntil(e.Wall.Date)
			if e.KeyUnit == before.KeyUnit && e.OccurrenceKey <= before.OccurrenceKey || e.KeyUnit != before.KeyUnit && days <= 176 || days > 200+2*385 {
				rt.Fatalf("%s %s on %s, and then %s %s on %s", before.KeyUnit, before.OccurrenceKey, before.Wall, e.KeyUnit, e.OccurrenceKey, e.Wall)
			}
		}
	})
}

func at(t rapid.TB, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant
}
