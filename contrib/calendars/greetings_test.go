package calendars_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
	"github.com/almanac-go/almanac/contrib/calendars"
	"github.com/almanac-go/almanac/internal/zoneinfo/zonetest"
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
	g.begin(almanac.Birthday{}, p)
	return g
}

// begin creates the user.
func (g *greeted) begin(h almanac.EventHandler, p almanac.Profile) {
	g.t.Helper()
	g.store = almanactest.NewRepository(func() time.Time { return g.now })
	g.scheduler = g.program(h)
	p.FirstName, p.LastName = "Ada", "Lovelace"
	if p.Timezone == "" {
		p.Timezone = "UTC"
	}
	created, err := g.scheduler.CreateUser(g.ctx, p)
	g.ok(err)
	g.id = created.User.ID
}

// program returns a scheduler with a handler of birthdays.
func (g *greeted) program(h almanac.EventHandler) almanac.Scheduler {
	g.t.Helper()
	registry, err := almanac.NewRegistry(h)
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
// greeted, and then keeps another calendar. TestACorrectedTableMovesBirthdays is row 23.
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
	if next := g.pending(); next.OccurrenceKey != "2026" || next.Wall.Date.String() != "2026-07-23" || next.Policies.Missing.Month != calendar.MissingBackward {
		t.Errorf("%s on %s", next.OccurrenceKey, next.Wall)
	}
	g.scheduler = g.program(almanac.Birthday{Policies: calendar.Policies{Missing: calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingForward}}})
	_, err := g.scheduler.Reschedule(g.ctx, g.id)
	g.ok(err)
	if next := g.pending(); next.OccurrenceKey != "2026" || next.Wall.Date.String() != "2026-08-22" ||
		next.Policies.Missing != (calendar.Missing{Month: calendar.MissingForward, Day: calendar.MissingForward}) {
		t.Errorf("%s on %s by %v", next.OccurrenceKey, next.Wall, next.Policies)
	}
}

// life is a user who is greeted over years, in which zone rules, tables and the calendar of the birthday change, too.
type life struct {
	*greeted
	tables
	dir   string            // for zone files
	rules int               // releases of zone rules since the first
	days  map[string]string // of birth, by calendar
	by    string
	zone  calendar.Timezone
	how   calendar.Policies
	owed  greeting
}

// tables are the releases of a calendar that is the Chinese one, or a day behind it.
type tables struct {
	name     string
	releases int
}

// release registers a table with newer release.
func (s *tables) release(behind int) error {
	s.releases++
	return calendar.RegisterSystems(behindBy{released{calendars.Chinese(), s.name, fmt.Sprintf("2026-%06d", s.releases)}, behind})
}

// behindBy is a calendar whose days are all so many days later.
type behindBy struct {
	calendar.System
	days int
}

func (b behindBy) Day(d calendar.Date) (calendar.SystemDate, error) {
	return b.System.Day(d.AddDays(-b.days))
}

func (b behindBy) Date(d calendar.SystemDate) (calendar.Date, error) {
	date, err := b.System.Date(d)
	return date.AddDays(b.days), err
}

// greeting names a greeting.
type greeting struct {
	unit calendar.Unit
	key  string
}

// year returns the year of a calendar for which the greeting is.
func (g greeting) year() int {
	year, err := strconv.Atoi(g.key)
	if err != nil {
		panic(err)
	}
	return year
}

// dayOf returns the day of a calendar that a date is, and whether some years lack it.
func dayOf(t rapid.TB, born calendar.Date, name string) (day string, rare bool) {
	if name == "" {
		return born.String(), born.Month == time.February && born.Day == 29
	}
	s, err := calendar.LoadSystem(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Day(born)
	if err != nil {
		t.Fatal(err)
	}
	return d.String(), d.Leap || d.Day >= 30 || d.Month == 13 && d.Day == 6
}

// first returns the first birthday after now that is not one of those already greeted: no year of a calendar comes
// twice, and years of two calendars are more than half of the shortest year apart.
func (l *life) first() greeting {
	u, err := l.store.User(l.ctx, l.id)
	l.ok(err)
	born := u.DateOfBirth.Date()
	rule := calendar.Recurrence(calendar.Yearly{Month: born.Month, Day: born.Day, At: calendar.Clock{Hour: 9}})
	if l.by != "" {
		s, err := calendar.LoadSystem(l.by)
		l.ok(err)
		day := u.DateOfBirth.Day()
		rule = calendar.YearlyBy{System: s, Month: day.Month, Leap: day.Leap, Day: day.Day, At: calendar.Clock{Hour: 9}}
	}
	for o, err := range calendar.Occurrences(rule, l.zone, l.how, l.now) {
		l.ok(err)
		if !slices.ContainsFunc(l.delivered, func(e almanac.Event) bool {
			if e.KeyUnit == o.Unit {
				return o.Key <= e.OccurrenceKey
			}
			return e.Wall.Date.DaysUntil(o.Wall.Date) <= 176
		}) {
			return greeting{o.Unit, o.Key}
		}
	}
	l.t.Fatalf("no birthday after %s", l.now)
	return greeting{}
}

// deliver lets the next greeting happen. The one after it is that of the next year, if the policies leave out none.
func (l *life) deliver() {
	l.t.Helper()
	before, due := len(l.delivered), l.pending().AvailableAt
	if due.Before(l.now) { // newer rules have moved it into the past
		due = l.now
	}
	l.run(due)
	if len(l.delivered) != before+1 {
		l.t.Fatalf("%d greetings at %s", len(l.delivered)-before, due)
	}
	e := l.delivered[before]
	got := greeting{e.KeyUnit, e.OccurrenceKey}
	if got != l.owed {
		l.t.Fatalf("greeted for %v on %s, want %v", got, e.Wall, l.owed)
	}
	l.owed = l.first()
	leaves := l.how.LeapDay == calendar.LeapDaySkip || l.how.Missing.Month == calendar.MissingSkip || l.how.Missing.Day == calendar.MissingSkip
	if l.owed.year() != got.year()+1 && !leaves {
		l.t.Fatalf("after the greeting for %s comes that for %s", got.key, l.owed.key)
	}
}

// move lets the user live elsewhere. The greeting stays the next one, and is due at once if its time has passed there. But
// an earlier birthday may be still to come there, whose time had passed at the old place when the calendar changed.
func (l *life) move(zone string) {
	result, err := l.scheduler.UpdateUser(l.ctx, l.id, almanac.ProfileChange{Timezone: &zone})
	l.ok(err)
	l.zone = result.User.Timezone
	if first := l.first(); first.key < l.owed.key {
		l.owed = first
	}
}

// convert lets the user keep the birthday by another calendar.
func (l *life) convert(by string) {
	l.keep(by, l.days[by])
	if by != l.by {
		l.by = by
		l.owed = l.first()
	}
}

// changeClocks gives the program newer zone rules, by which clocks of the zone always show another time.
func (l *life) changeClocks(hours int) {
	l.rules++
	dir := filepath.Join(l.dir, uuid.NewString())
	offset := int(l.zone.WallTime(l.now).Labelled().Sub(l.now).Seconds()) + hours*3600
	l.ok(zonetest.WriteDir(dir, fmt.Sprintf("2099%c", 'a'+l.rules), map[string][]byte{l.zone.String(): zonetest.File(offset, nil, "")}))
	data, err := calendar.OpenZoneData(dir)
	l.ok(err)
	_, err = l.scheduler.Reconcile(l.ctx, almanac.ReconcileOptions{Data: data})
	l.ok(err)
}

// correct gives the program a newer table of one of the calendars.
func (l *life) correct(behind int) {
	l.ok(l.release(behind))
	l.scheduler = l.program(almanac.Birthday{Policies: l.how})
	_, err := l.scheduler.Reconcile(l.ctx, almanac.ReconcileOptions{})
	l.ok(err)
}

// Each greeting is the one that is owed: that of the next year of the calendar, whatever zone rules and tables
// become, or after a change of the calendar the first that is not for a birthday already greeted.
func TestEachBirthdayHasOneGreeting(t *testing.T) {
	t.Parallel()
	zones := slices.DeleteFunc(calendar.TimezoneNames(), func(name string) bool {
		_, err := calendar.LoadTimezone(name)
		return err != nil // this machine has no data for it
	})
	dir := t.TempDir()
	corrected := tables{name: "chinese-" + strings.ToLower(rand.Text())}
	if err := corrected.release(0); err != nil {
		t.Fatal(err)
	}
	names := append(calendars.Names(), "", corrected.name)
	missing := rapid.SampledFrom([]calendar.MissingPolicy{"", calendar.MissingBackward, calendar.MissingForward, calendar.MissingSkip})
	rapid.Check(t, func(rt *rapid.T) {
		zone, name := rapid.SampledFrom(zones), rapid.SampledFrom(names)
		l := &life{tables: corrected, dir: dir, by: name.Draw(rt, "first"), days: make(map[string]string)}
		defer func() { corrected = l.tables }()
		if err := l.release(0); err != nil { // whatever the check before this one has left
			rt.Fatal(err)
		}
		born := calendar.Date{Year: 1950, Month: time.January, Day: 1}.AddDays(rapid.IntRange(0, 40*365).Draw(rt, "born"))
		if rapid.Bool().Draw(rt, "on a day that some years lack") {
			for _, rare := dayOf(rt, born, l.by); !rare; _, rare = dayOf(rt, born, l.by) {
				born = born.AddDays(1)
			}
		}
		for _, name := range names {
			l.days[name], _ = dayOf(rt, born, name)
		}
		l.how.LeapDay = rapid.SampledFrom([]calendar.LeapDayPolicy{"", calendar.LeapDayMar1, calendar.LeapDaySkip}).Draw(rt, "leap day")
		l.how.Missing = calendar.Missing{Month: missing.Draw(rt, "missing month"), Day: missing.Draw(rt, "missing day")}
		l.greeted = &greeted{t: rt, ctx: t.Context(), now: time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)}
		l.begin(almanac.Birthday{Policies: l.how}, almanac.Profile{DateOfBirth: l.days[l.by], Calendar: l.by, Timezone: zone.Draw(rt, "zone")})
		u, err := l.store.User(l.ctx, l.id)
		l.ok(err)
		l.zone = u.Timezone
		l.owed = l.first()
		for range rapid.IntRange(2, 6).Draw(rt, "greetings") {
			l.deliver()
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				due := l.pending().AvailableAt
				next := l.now.AddDate(0, 0, rapid.IntRange(0, 300).Draw(rt, "days"))
				if rapid.IntRange(0, 3).Draw(rt, "shortly before") == 0 {
					next = due.Add(-time.Duration(rapid.IntRange(1, 40).Draw(rt, "hours")) * time.Hour)
				}
				if next.Before(l.now) || !next.Before(due) {
					break
				}
				l.now = next
				switch rapid.SampledFrom(strings.Fields("move move convert convert clocks table")).Draw(rt, "change") {
				case "move":
					l.move(zone.Draw(rt, "to"))
				case "convert":
					l.convert(name.Draw(rt, "then"))
				case "clocks":
					l.changeClocks(rapid.IntRange(-3, 3).Draw(rt, "forward"))
				case "table":
					l.correct(rapid.IntRange(0, 1).Draw(rt, "days behind"))
				}
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
