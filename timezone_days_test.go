package almanac_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/almanac-go/almanac"
	"github.com/almanac-go/almanac/almanactest"
	"github.com/almanac-go/almanac/calendar"
)

// office is a handler whose rule looks up a work calendar.
func office(c *calendar.WorkCalendar, rule calendar.Recurrence) almanac.EventHandler {
	return almanac.Recurring{
		Execution: almanac.Execution{WorkCalendars: []*calendar.WorkCalendar{c}}, Type: "RENT",
		Rule: func(almanac.User) (calendar.Recurrence, error) { return rule, nil },
	}
}

// land is a release of a work calendar with holidays.
func land(t require.TestingT, release string, holidays ...string) *calendar.WorkCalendar {
	text := "name LAND\nrelease " + release + "\nuntil 2050-12-31\n"
	for _, day := range holidays {
		text += day + " holiday\n"
	}
	c, err := calendar.ParseWorkCalendar(text)
	require.NoError(t, err)
	return c
}

// ages has a repository in memory with a clock of its own.
type ages struct {
	*almanactest.Repository
	now *time.Time
}

func openAges(text string) ages {
	now, _ := time.Parse(time.RFC3339, text)
	return ages{almanactest.NewRepository(func() time.Time { return now }), &now}
}

// with returns a program of a handler.
func with(t require.TestingT, r almanac.Repository, h almanac.EventHandler, options ...almanac.Option) almanac.Scheduler {
	registry, err := almanac.NewRegistry(h)
	require.NoError(t, err)
	options = append(options, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(context.Context, almanac.Delivery) error { return nil })))
	s, err := almanac.NewScheduler(r, registry, options...)
	require.NoError(t, err)
	return s
}

var inLondon = almanac.Profile{FirstName: "Ada", LastName: "Lovelace", DateOfBirth: "1990-01-15", Timezone: "Europe/London"}

// pendingOf returns the pending events as "key wall time", in order of creation.
func pendingOf(t require.TestingT, r almanac.Repository) (all []string) {
	found, err := r.Find(context.Background(), almanac.InStatus(almanac.Pending), almanac.Page{})
	require.NoError(t, err)
	for _, e := range found.Items {
		all = append(all, e.OccurrenceKey+" "+e.Wall.String())
	}
	return all
}

func follow(t require.TestingT, s almanac.Scheduler, zones *calendar.ZoneData) []almanac.CalendarReport {
	result, err := s.Reconcile(context.Background(), almanac.ReconcileOptions{Data: zones})
	require.NoError(t, err)
	return result.Calendars
}

var (
	atNine     = calendar.Clock{Hour: 9}
	the28th    = calendar.Monthly{Day: 28, At: atNine}
	the10th    = calendar.Monthly{Day: 10, At: atNine}
	mondays    = calendar.Weekly{On: []time.Weekday{time.Monday}, At: atNine}
	onWorkDays = func(r calendar.Recurrence, c calendar.Convention) func(*calendar.WorkCalendar) calendar.Recurrence {
		return func(days *calendar.WorkCalendar) calendar.Recurrence {
			return calendar.Within{Of: r, WorkDays: days, Convention: c}
		}
	}
	lastWorkDay = func(days *calendar.WorkCalendar) calendar.Recurrence {
		return calendar.Monthly{Day: -1, At: atNine, WorkDays: days}
	}
	threeBefore = func(days *calendar.WorkCalendar) calendar.Recurrence {
		return calendar.Offset{Of: calendar.Once{At: calendar.WallTime{Date: calendar.Date{Year: 2026, Month: 12, Day: 17}, Clock: atNine}}, Days: -3, WorkDays: days, At: atNine}
	}
)

func TestANewReleaseOfACalendarMovesEvents(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rule         func(*calendar.WorkCalendar) calendar.Recurrence
		planned, now string // when it was planned, and when the news comes
		was, is      string // the holidays
		from, to     string
	}{
		"a new holiday":                {onWorkDays(the28th, ""), "2026-12-01", "2026-12-02T09:00:00Z", "", "2026-12-28", "2026-12 2026-12-28", "2026-12 2026-12-29"},
		"one that is withdrawn":        {onWorkDays(the28th, ""), "2026-12-01", "2026-12-02T09:00:00Z", "2026-12-28", "", "2026-12 2026-12-29", "2026-12 2026-12-28"},
		"its new time has passed":      {onWorkDays(the10th, calendar.Preceding), "2026-12-01", "2026-12-09T20:00:00Z", "", "2026-12-10", "2026-12 2026-12-10", "2026-12 2026-12-09"},
		"its own time has passed":      {lastWorkDay, "2026-12-01", "2026-12-30T20:00:00Z", "", "2026-12-31", "2026-12 2026-12-31", "2026-12 2026-12-30"},
		"an earlier one is to come":    {onWorkDays(mondays, calendar.SkipDay), "2026-11-26", "2026-11-27T20:00:00Z", "2026-11-30", "", "2026-12-07 2026-12-07", "2026-11-30 2026-11-30"},
		"it is left out":               {onWorkDays(mondays, calendar.SkipDay), "2026-12-01", "2026-12-02T20:00:00Z", "", "2026-12-07", "2026-12-07 2026-12-07", "2026-12-14 2026-12-14"},
		"it was announced, and passed": {threeBefore, "2026-12-01", "2026-12-12T08:00:00Z", "", "2026-12-15", "2026-12-17T09:00:00 2026-12-14", "2026-12-17T09:00:00 2026-12-11"},
		"another year":                 {onWorkDays(the28th, ""), "2026-12-01", "2026-12-02T09:00:00Z", "", "2027-12-28", "2026-12 2026-12-28", "2026-12 2026-12-28"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zones := rulesOf(t, "2026a", beirutAsItIs)
			r := openAges(tt.planned + "T10:00:00Z")
			was, is := land(t, "2026-11-01", strings.Fields(tt.was)...), land(t, "2026-12-01", strings.Fields(tt.is)...)
			before, after := with(t, r, office(was, tt.rule(was))), with(t, r, office(is, tt.rule(is)))
			require.Empty(t, follow(t, before, zones))
			_, err := before.CreateUser(t.Context(), inLondon)
			require.NoError(t, err)
			require.Equal(t, []string{tt.from + "T09:00:00"}, pendingOf(t, r))

			*r.now, err = time.Parse(time.RFC3339, tt.now)
			require.NoError(t, err)
			dry, err := after.Reconcile(t.Context(), almanac.ReconcileOptions{Data: zones, DryRun: true})
			require.NoError(t, err)
			require.Equal(t, []string{tt.from + "T09:00:00"}, pendingOf(t, r), "after a dry run")
			reports := follow(t, after, zones)
			require.Equal(t, reports, dry.Calendars)
			require.Equal(t, []string{tt.to + "T09:00:00"}, pendingOf(t, r))
			if tt.from == tt.to {
				require.Empty(t, reports)
				return
			}
			require.Len(t, reports, 1)
			require.Equal(t, []any{"LAND", "2026-12-01", 1, 0}, []any{reports[0].Name, reports[0].Release, reports[0].Checked, reports[0].Left})
			require.Equal(t, 1, reports[0].Moved+reports[0].Removed)
			require.Equal(t, reports[0].Removed, reports[0].Added)
			require.Empty(t, follow(t, after, zones), "there is nothing left to do")
			require.Empty(t, follow(t, before, zones), "the older program undoes nothing")
			require.Equal(t, []string{tt.to + "T09:00:00"}, pendingOf(t, r))
		})
	}
}

// A delivered event stays, and so does one that was claimed once. The next event follows the news.
func TestANewReleaseLeavesEventsThatWereClaimed(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := repository(t)
			now, err := r.Now(t.Context())
			require.NoError(t, err)
			zones := rulesOf(t, "2026a", beirutAsItIs)
			daily := onWorkDays(calendar.Daily{At: atNine}, calendar.SkipDay)
			was, is := land(t, "2026-11-01"), land(t, "2026-12-01", daysFrom(now, 28)...)
			h := office(was, daily(was))
			registry, err := almanac.NewRegistry(h)
			require.NoError(t, err)
			before, err := almanac.NewScheduler(r, registry, almanac.WithDeliverer(almanac.ChannelWebhook, almanac.DelivererFunc(func(_ context.Context, d almanac.Delivery) error {
				if d.User.FirstName == grace.FirstName {
					return almanac.RetryAfter(time.Hour, errBusy)
				}
				return nil
			})))
			require.NoError(t, err)
			follow(t, before, zones)
			var claimed []almanac.Event
			for _, profile := range []almanac.Profile{inLondon, grace} {
				u, err := almanac.NewUser(profile, now)
				require.NoError(t, err)
				due, err := h.Next(u, now.AddDate(0, 0, -5))
				require.NoError(t, err)
				e, err := almanac.NewEvent(u, h, almanac.Occurrence{Occurrence: due})
				require.NoError(t, err)
				_, _, err = almanactest.CreateUser(t.Context(), r, u, e)
				require.NoError(t, err)
				_, err = before.RunOnce(t.Context(), almanac.RunOnceOptions{})
				require.NoError(t, err)
				stored, err := r.Event(t.Context(), e.ID)
				require.NoError(t, err)
				claimed = append(claimed, stored)
			}
			require.Equal(t, []any{almanac.Completed, almanac.Pending, 1}, []any{claimed[0].Status, claimed[1].Status, claimed[1].ClaimCount})

			reports := follow(t, with(t, r, office(is, daily(is))), zones)
			require.Len(t, reports, 1)
			require.Equal(t, 1, reports[0].Checked, "the next event of Ada")
			for _, e := range claimed {
				stored, err := r.Event(t.Context(), e.ID)
				require.NoError(t, err)
				require.Equal(t, e, stored)
			}
		})
	}
}

// daysFrom returns the dates of days from the day before an instant on.
func daysFrom(now time.Time, n int) (all []string) {
	for i := range n {
		all = append(all, calendar.WallTimeOf(now).Date.AddDays(i-1).String())
	}
	return all
}

// A host with a newer release ends with the same events as one that began with it.
func TestANewReleaseGivesTheEventsThatItWouldHavePlanned(t *testing.T) {
	t.Parallel()
	zones := rulesOf(t, "2026a", beirutAsItIs)
	rapid.Check(t, func(t *rapid.T) {
		days := func(label string) (all []string) {
			for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 60), 0, 25, rapid.ID).Draw(t, label) {
				all = append(all, calendar.Date{Year: 2026, Month: 12, Day: 1}.AddDays(n).String())
			}
			return all
		}
		was, is := land(t, "2026-11-01", days("was")...), land(t, "2026-12-01", days("is")...)
		convention := rapid.SampledFrom([]calendar.Convention{calendar.Following, calendar.ModifiedFollowing, calendar.Preceding, calendar.ModifiedPreceding, calendar.Nearest, calendar.SkipDay}).Draw(t, "convention")
		of := rapid.SampledFrom([]calendar.Recurrence{mondays, the28th, the10th, calendar.Daily{At: atNine}, calendar.Yearly{Month: 12, Day: 25, At: atNine}}).Draw(t, "rule")
		rule := onWorkDays(of, convention)
		if rapid.Bool().Draw(t, "announced") {
			rule = func(days *calendar.WorkCalendar) calendar.Recurrence {
				return calendar.Offset{Of: onWorkDays(of, convention)(days), Days: -2, WorkDays: days, At: atNine}
			}
		}
		now := fmt.Sprintf("2026-12-%02dT10:00:00Z", rapid.IntRange(1, 28).Draw(t, "day"))
		older, newer := openAges(now), openAges(now)
		_, err := with(t, older, office(was, rule(was))).CreateUser(context.Background(), inLondon)
		require.NoError(t, err)
		after := with(t, older, office(is, rule(is)))
		follow(t, with(t, older, office(was, rule(was))), zones)
		follow(t, after, zones)
		_, err = with(t, newer, office(is, rule(is))).CreateUser(context.Background(), inLondon)
		require.NoError(t, err)
		found, err := older.Find(context.Background(), almanac.InStatus(almanac.Pending), almanac.Page{})
		require.NoError(t, err)
		if len(found.Items) == 1 && !found.Items[0].Due.After(*older.now) {
			return // its new time has passed, so it is due at once: the other host never owed it
		}
		require.Equal(t, pendingOf(t, newer), pendingOf(t, older))
	})
}

// An older program plans beside a newer one, and undoes nothing.
func TestAnOlderReleaseUndoesNothing(t *testing.T) {
	t.Parallel()
	zones := rulesOf(t, "2026a", beirutAsItIs)
	r := openAges("2026-12-01T10:00:00Z")
	was, is := land(t, "2026-11-01"), land(t, "2026-12-01", "2026-12-28")
	older, newer := with(t, r, office(was, onWorkDays(the28th, "")(was))), with(t, r, office(is, onWorkDays(the28th, "")(is)))
	follow(t, newer, zones)
	ada, err := newer.CreateUser(t.Context(), inLondon)
	require.NoError(t, err)
	want := []string{"2026-12 2026-12-29T09:00:00"}
	require.Equal(t, want, pendingOf(t, r))

	result, err := older.Reconcile(t.Context(), almanac.ReconcileOptions{Data: zones})
	require.NoError(t, err)
	require.Equal(t, []string{"LAND"}, result.OutdatedCalendars)
	_, err = older.Reschedule(t.Context(), ada.User.ID)
	require.NoError(t, err)
	name := "Augusta"
	edited, err := older.UpdateUser(t.Context(), ada.User.ID, almanac.ProfileChange{FirstName: &name})
	require.NoError(t, err)
	require.Empty(t, edited.Moved)
	require.Equal(t, want, pendingOf(t, r))

	_, err = older.CreateUser(t.Context(), inLondon)
	require.NoError(t, err)
	require.ElementsMatch(t, append(want, "2026-12 2026-12-28T09:00:00"), pendingOf(t, r))
	zone := "Europe/Dublin"
	_, err = older.UpdateUser(t.Context(), ada.User.ID, almanac.ProfileChange{Timezone: &zone})
	require.NoError(t, err)
	reports := follow(t, newer, zones)
	require.Equal(t, append(want, want...), pendingOf(t, r), "the newer program plans them again")
	require.Equal(t, 2, reports[0].Checked)
}

// An older program cannot say why a newer one has chosen the day of an event. So it keeps the reason, and counts
// the days to a birthday from the day on which the event is.
func TestAnOlderReleaseKeepsWhyAnEventWasMoved(t *testing.T) {
	t.Parallel()
	named := func(c *calendar.WorkCalendar) almanac.EventHandler {
		h := office(c, onWorkDays(the28th, "")(c)).(almanac.Recurring)
		h.Message = func(u almanac.User, _ almanac.Occurrence) string { return u.FirstName }
		return h
	}
	soon := func(c *calendar.WorkCalendar) almanac.EventHandler {
		open, err := calendar.ParseWindow("Mo-Su 08:00-20:00")
		require.NoError(t, err)
		open = open.ClosedOnHolidays(c)
		return almanac.Birthday{
			Execution: almanac.Execution{WorkCalendars: []*calendar.WorkCalendar{c}},
			Before:    2, Window: func(almanac.User) calendar.Window { return open },
		}
	}
	ahead := func(c *calendar.WorkCalendar) almanac.EventHandler {
		h := office(c, calendar.Offset{Of: the28th, Days: -3, WorkDays: c, At: calendar.Clock{Hour: 8}}).(almanac.Recurring)
		h.Message = func(u almanac.User, o almanac.Occurrence) string { return u.FirstName + " " + o.Announces.String() }
		return h
	}
	last := func(c *calendar.WorkCalendar) almanac.EventHandler {
		h := office(c, calendar.Monthly{Day: -1, At: atNine, WorkDays: c}).(almanac.Recurring)
		h.Message = func(u almanac.User, o almanac.Occurrence) string { return u.FirstName + " " + o.Wall.String() }
		return h
	}
	feast := func(c *calendar.WorkCalendar) almanac.EventHandler {
		s := shifted{release: c.Release()}
		if s.release == "2026-11-01" {
			s.by = 1
		}
		h := office(c, calendar.YearlyBy{System: s, Month: 2, Day: 29, At: atNine}).(almanac.Recurring)
		h.Message = func(u almanac.User, _ almanac.Occurrence) string { return u.FirstName }
		return h
	}
	for name, tt := range map[string]struct {
		handler       func(*calendar.WorkCalendar) almanac.EventHandler
		holiday, want string
	}{
		"an offset in working days": {ahead, "2026-12-24", `{"message": "Ada 2026-12-28T09:00:00", "occurrence": "2026-12", "date": "2026-12-28", "daysBefore": 6, "reason": "3 working days of LAND"}`},
		"the n-th working day":      {last, "2026-12-31", `{"message": "Ada 2026-12-30T09:00:00", "occurrence": "2026-12", "reason": "last working day of LAND"}`},
		"another calendar":          {feast, "2026-12-24", `{"message": "Ada", "occurrence": "2027", "reason": "29 month moved to 28 month"}`},
		"a rule":                    {named, "2026-12-28", `{"message": "Ada", "occurrence": "2026-12", "reason": "moved from Monday 28 December to Tuesday 29 December because of a holiday"}`},
		"an announcement": {soon, "2027-01-13", `{"message": "Hey, Ada Lovelace it's your birthday tomorrow", "date": "2027-01-15", "daysBefore": 1,
			"reason": "moved from Wednesday 13 January to Thursday 14 January because of a holiday"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openAges("2026-12-01T10:00:00Z")
			older, newer := with(t, r, tt.handler(land(t, "2026-11-01"))), with(t, r, tt.handler(land(t, "2026-12-01", tt.holiday)))
			follow(t, newer, rulesOf(t, "2026a", beirutAsItIs))
			ada, err := newer.CreateUser(t.Context(), inLondon)
			require.NoError(t, err)
			require.JSONEq(t, tt.want, string(ada.Events[0].Payload))
			name := "Augusta"
			_, err = older.UpdateUser(t.Context(), ada.User.ID, almanac.ProfileChange{FirstName: &name})
			require.NoError(t, err)
			kept, err := r.Event(t.Context(), ada.Events[0].ID)
			require.NoError(t, err)
			require.JSONEq(t, strings.ReplaceAll(tt.want, "Ada", name), string(kept.Payload))
		})
	}
}

// No rule of its type gives the occurrence of a follow-up again.
func TestAFollowUpKeepsWhyItWasMoved(t *testing.T) {
	t.Parallel()
	r, c := openAges("2026-12-01T10:00:00Z"), land(t, "2026-12-01", "2026-12-28")
	ahead := calendar.Offset{Of: calendar.Monthly{Day: 30, At: atNine}, Days: -2, At: atNine}
	h := office(c, onWorkDays(ahead, "")(c)).(almanac.Recurring)
	h.Message = func(u almanac.User, o almanac.Occurrence) string { return u.FirstName + " " + o.Announces.String() }
	u := almanactest.User()
	moved, err := h.Next(u, *r.now)
	require.NoError(t, err)
	e, err := almanac.NewEvent(u, h, almanac.Occurrence{Occurrence: moved})
	require.NoError(t, err)
	e.Origin = almanac.Origin{Kind: almanac.OriginFollowUp, From: uuid.New()}
	created, err := r.CreateUsers(t.Context(), []almanac.UserWithEvents{{User: u, Events: []almanac.Event{e}}})
	require.NoError(t, err)
	require.NoError(t, created[0].Err)
	name, zone := "Augusta", "Asia/Tokyo"
	for _, change := range []almanac.ProfileChange{{FirstName: &name}, {Timezone: &zone}} {
		_, err = with(t, r, h).UpdateUser(t.Context(), u.ID, change)
		require.NoError(t, err)
		kept, err := r.Event(t.Context(), e.ID)
		require.NoError(t, err)
		require.JSONEq(t, `{"message": "Augusta 2026-12-30T09:00:00", "occurrence": "2026-12", "date": "2026-12-30", "daysBefore": 1, "reason": "moved from Monday 28 December to Tuesday 29 December because of a holiday"}`, string(kept.Payload))
	}
}

// Run of a newer program notices what an older one plans, and need not wait for the next check.
func TestRunPlansEventsOfAnOlderReleaseAgainSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil)) // in the year 2000
		was, is := land(t, "1999-11-01"), land(t, "1999-12-01", "2000-01-28")
		w.run(t, office(is, onWorkDays(the28th, "")(is)), almanac.WithZoneCheck(30*24*time.Hour),
			almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))
		time.Sleep(3 * time.Hour)
		_, err := with(t, w.store, office(was, onWorkDays(the28th, "")(was))).CreateUser(t.Context(), inLondon)
		require.NoError(t, err)
		require.Equal(t, []string{"2000-01 2000-01-28T09:00:00"}, pendingOf(t, w.store))
		time.Sleep(3 * time.Minute)
		require.Equal(t, []string{"2000-01 2000-01-31T09:00:00"}, pendingOf(t, w.store))
		require.NoError(t, w.stop())
	})
}

// busyTexts is a repository with many events that a release of LAND has planned, and no change concerns.
type busyTexts struct {
	almanac.Repository
	looks atomic.Int32
	down  atomic.Bool // edits fail
}

func (r *busyTexts) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	if r.down.Load() {
		return almanac.Edit{}, errKilled
	}
	return r.Repository.EditUser(ctx, id, edit)
}

func (r *busyTexts) Consulted(ctx context.Context, eventType string, releases map[string]string) ([]calendar.Consulted, error) {
	r.looks.Add(1)
	all, err := r.Repository.Consulted(ctx, eventType, releases)
	for n := range 5000 {
		day := calendar.Date{Year: 1999, Month: time.January, Day: 1}.AddDays(n / 50)
		all = append(all, calendar.Consulted{Calendars: "LAND@1999-11-01", From: day, Until: day.AddDays(n % 50)})
	}
	return all, err
}

// Events that no change concerns keep their release for up to a year. Reading them all each minute would cost too much.
func TestRunLooksAtManyEventsOfEarlierReleasesOnceAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &busyTexts{Repository: almanactest.NewRepository(nil)} // in the year 2000
		w := openOn(r)
		was, is := land(t, "1999-11-01"), land(t, "1999-12-01", "2000-01-28")
		older := with(t, r, office(was, onWorkDays(the28th, "")(was)))
		follow(t, older, nil) // stores its release
		w.run(t, office(is, onWorkDays(the28th, "")(is)), almanac.WithZoneCheck(30*24*time.Hour), almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))
		time.Sleep(10 * time.Minute)
		r.looks.Store(0)
		time.Sleep(2 * time.Hour)
		require.LessOrEqual(t, r.looks.Load(), int32(5), "two, and those of checks of zone rules")
		_, err := older.CreateUser(t.Context(), inLondon)
		require.NoError(t, err)
		r.down.Store(true)
		time.Sleep(time.Hour + 10*time.Minute)
		require.Equal(t, []string{"2000-01 2000-01-28T09:00:00"}, pendingOf(t, w.store))
		r.down.Store(false)
		time.Sleep(5 * time.Minute) // a look whose edits failed is tried again soon
		require.Equal(t, []string{"2000-01 2000-01-31T09:00:00"}, pendingOf(t, w.store))
		require.NoError(t, w.stop())
	})
}

// An event that cannot be planned again neither hides others that have consulted the same, nor is forgotten.
func TestRunGoesOnAfterAnEventThatCannotBePlannedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := openOn(almanactest.NewRepository(nil)) // in the year 2000
		was, is := land(t, "1999-11-01"), land(t, "1999-12-01", "2000-01-28")
		var mended atomic.Bool
		h := office(is, nil).(almanac.Recurring)
		h.Rule = func(u almanac.User) (calendar.Recurrence, error) {
			if u.FirstName == "Byron" && !mended.Load() {
				return nil, errKilled
			}
			return onWorkDays(the28th, "")(is), nil
		}
		w.run(t, h, almanac.WithZoneCheck(30*24*time.Hour), almanac.WithDeliverer(almanac.ChannelWebhook, new(receiver)))
		time.Sleep(time.Minute)
		older, byron := with(t, w.store, office(was, onWorkDays(the28th, "")(was))), inLondon
		byron.FirstName = "Byron"
		_, err := older.CreateUser(t.Context(), byron)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		_, err = older.CreateUser(t.Context(), inLondon)
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		require.Equal(t, []string{"2000-01 2000-01-28T09:00:00", "2000-01 2000-01-31T09:00:00"}, pendingOf(t, w.store))
		mended.Store(true)
		time.Sleep(2 * time.Hour)
		require.Equal(t, []string{"2000-01 2000-01-31T09:00:00", "2000-01 2000-01-31T09:00:00"}, pendingOf(t, w.store))
		require.NoError(t, w.stop())
	})
}

// dying ends a reconciliation after so many users.
type dying struct {
	almanac.Repository
	left *int
}

var errKilled = errors.New("killed")

func (d dying) EditUser(ctx context.Context, id uuid.UUID, edit func(almanac.Roster) (almanac.Edit, error)) (almanac.Edit, error) {
	if *d.left--; *d.left < 0 {
		return almanac.Edit{}, errKilled
	}
	return d.Repository.EditUser(ctx, id, edit)
}

func TestAnotherProcessContinuesAPassThatWasKilled(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := repository(t)
			now, err := r.Now(t.Context())
			require.NoError(t, err)
			zones := rulesOf(t, "2026a", beirutAsItIs)
			daily := onWorkDays(calendar.Daily{At: atNine}, calendar.SkipDay)
			was, is := land(t, "2026-11-01"), land(t, "2026-12-01", daysFrom(now, 28)...)
			before, after := office(was, daily(was)), office(is, daily(is))
			for range 5 {
				_, err := with(t, r, before).CreateUser(t.Context(), inLondon)
				require.NoError(t, err)
			}
			left := 2
			_, err = with(t, dying{r, &left}, after).Reconcile(t.Context(), almanac.ReconcileOptions{Data: zones})
			require.ErrorIs(t, err, errKilled)
			reports := follow(t, with(t, r, after), zones)
			require.Equal(t, 3, reports[0].Checked)
			found, err := r.Find(t.Context(), almanac.InStatus(almanac.Pending), almanac.Page{})
			require.NoError(t, err)
			require.Len(t, found.Items, 5)
			for _, e := range found.Items {
				require.Contains(t, e.Consulted.Calendars, "2026-12-01")
				require.Equal(t, found.Items[0].Wall, e.Wall)
			}
			require.Empty(t, follow(t, with(t, r, after), zones))
		})
	}
}

// The same release with other days is refused for planning. Deliveries go on.
func TestTheSameReleaseWithOtherDaysIsRefusedForPlanning(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := repository(t)
			now, err := r.Now(t.Context())
			require.NoError(t, err)
			zones := rulesOf(t, "2026a", beirutAsItIs)
			daily := onWorkDays(calendar.Daily{At: atNine}, "")
			was, other := land(t, "2026-11-01"), land(t, "2026-11-01", calendar.WallTimeOf(now).Date.AddDays(40).String())
			first, second := with(t, r, office(was, daily(was))), with(t, r, office(other, daily(other)))
			follow(t, first, zones)
			ada, err := first.CreateUser(t.Context(), inLondon)
			require.NoError(t, err)

			var differs *calendar.ReleaseError
			_, err = second.Reconcile(t.Context(), almanac.ReconcileOptions{Data: zones})
			require.ErrorAs(t, err, &differs)
			require.Equal(t, []string{"LAND", "2026-11-01"}, []string{differs.Name, differs.Release})
			_, err = second.CreateUser(t.Context(), inLondon)
			require.ErrorAs(t, err, &differs)
			_, err = second.UpdateUser(t.Context(), ada.User.ID, almanac.ProfileChange{Timezone: ptr("Asia/Tokyo")})
			require.ErrorAs(t, err, &differs)
			byron, err := with(t, r, almanac.Birthday{}).CreateUser(t.Context(), inLondon)
			require.NoError(t, err)
			_, err = second.Schedule(t.Context(), byron.User.ID, "RENT")
			require.ErrorAs(t, err, &differs)
			added, err := second.Backfill(t.Context(), "RENT", almanac.BackfillOptions{})
			require.NoError(t, err)
			require.Equal(t, 0, added.Events)
			require.Len(t, added.Refused, 1)
			require.ErrorAs(t, added.Refused[0].Err, &differs)
			grace, err := first.CreateUser(t.Context(), inLondon)
			require.NoError(t, err)
			cancelled, err := second.Cancel(t.Context(), grace.Events[0].ID, almanac.CancelOptions{})
			require.NoError(t, err)
			require.True(t, cancelled.Unplanned)
			stalled, err := r.Stalled(t.Context(), grace.User.ID, 0)
			require.NoError(t, err)
			require.Len(t, stalled, 1)
			_, err = second.RunNow(t.Context(), ada.Events[0].ID, almanac.ForceOptions{})
			require.NoError(t, err)
			_, err = second.RunOnce(t.Context(), almanac.RunOnceOptions{})
			require.ErrorAs(t, err, &differs)
			done, err := r.Event(t.Context(), ada.Events[0].ID)
			require.NoError(t, err)
			require.Equal(t, almanac.Completed, done.Status)
			stalled, err = r.Stalled(t.Context(), ada.User.ID, 0)
			require.NoError(t, err)
			require.Len(t, stalled, 1)
			require.Contains(t, stalled[0].Error, "a changed calendar needs a later release")
			stalled, err = r.Stalled(t.Context(), grace.User.ID, 0)
			require.NoError(t, err)
			require.Len(t, stalled, 1)
			require.Contains(t, stalled[0].Error, "a changed calendar needs a later release")

			_, err = first.CreateUser(t.Context(), inLondon)
			require.NoError(t, err, "the program whose release is stored plans on")
		})
	}
}

// shifted is a calendar whose days have the names of other days.
type shifted struct {
	name, release string
	by            int
}

func (s shifted) Info() calendar.SystemInfo {
	skip := calendar.Missing{Month: calendar.MissingSkip, Day: calendar.MissingBackward}
	return calendar.SystemInfo{Name: s.name, Release: s.release, First: 100, Last: 9000, Missing: skip}
}

func (s shifted) Day(d calendar.Date) (calendar.SystemDate, error) {
	d = d.AddDays(-s.by)
	return calendar.SystemDate{Year: d.Year, Month: int(d.Month), Day: d.Day}, nil
}

func (s shifted) Date(d calendar.SystemDate) (calendar.Date, error) {
	return calendar.Date{Year: d.Year, Month: time.Month(d.Month), Day: d.Day}.AddDays(s.by), nil
}

func (s shifted) Months(year int) (all []calendar.SystemMonth, err error) {
	for n := range 12 {
		all = append(all, calendar.SystemMonth{Number: n + 1, Days: time.Date(year, time.Month(n+2), 0, 0, 0, 0, 0, time.UTC).Day(), Name: "month"})
	}
	return all, nil
}

// No handler names the calendar of a birthday: it is that of the user, whatever wraps the handler.
func TestACorrectedCalendarMovesBirthdays(t *testing.T) {
	t.Parallel()
	zones := rulesOf(t, "2026a", beirutAsItIs)
	for when, now := range map[string]string{"in time": "2026-12-02T10:00:00Z", "when the right day has passed": "2027-02-06T20:00:00Z"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			name := "shifted-" + strings.ToLower(rand.Text())
			r := openAges("2026-12-01T10:00:00Z")
			require.NoError(t, calendar.RegisterSystems(shifted{name, "2026-01-01", 1}))
			first := with(t, r, wrapped{almanac.Birthday{}})
			follow(t, first, zones)
			born := inLondon
			born.DateOfBirth, born.Calendar = "1990-02-06", name
			_, err := first.CreateUser(t.Context(), born)
			require.NoError(t, err)
			require.Equal(t, []string{"2027 2027-02-07T09:00:00"}, pendingOf(t, r))
			require.Empty(t, follow(t, first, zones))

			*r.now = instant(t, now)
			require.NoError(t, calendar.RegisterSystems(shifted{name, "2026-02-01", 0}))
			reports := follow(t, with(t, r, wrapped{almanac.Birthday{}}), zones)
			require.Equal(t, []string{"2027 2027-02-06T09:00:00"}, pendingOf(t, r))
			require.Len(t, reports, 1)
			require.Equal(t, []any{"system:" + name, "2026-02-01", 1, -24 * time.Hour}, []any{reports[0].Name, reports[0].Release, reports[0].Moved, reports[0].Largest})
			require.Empty(t, follow(t, first, zones), "a program that registers the release while it runs has it too")
		})
	}
}

// wrapped hides all abilities of a handler.
type wrapped struct{ almanac.EventHandler }

// An older program makes an edit that changes which occurrences the user has.
func TestAnOlderReleaseFollowsAnEdit(t *testing.T) {
	t.Parallel()
	r := openAges("2026-12-01T10:00:00Z") // a Tuesday
	program := func(c *calendar.WorkCalendar) almanac.Scheduler {
		h := office(c, nil).(almanac.Recurring)
		h.Rule = func(u almanac.User) (calendar.Recurrence, error) {
			on := []time.Weekday{time.Monday, time.Wednesday}
			if u.FirstName == "Augusta" {
				on[1] = time.Thursday
			}
			return calendar.Within{Of: calendar.Weekly{On: on, At: atNine}, WorkDays: c}, nil
		}
		return with(t, r, h)
	}
	older, newer := program(land(t, "2026-11-01")), program(land(t, "2026-12-01", "2026-12-28"))
	follow(t, newer, rulesOf(t, "2026a", beirutAsItIs))
	ada, err := newer.CreateUser(t.Context(), inLondon)
	require.NoError(t, err)
	require.Equal(t, []string{"2026-12-02 2026-12-02T09:00:00"}, pendingOf(t, r))
	name := "Augusta"
	_, err = older.UpdateUser(t.Context(), ada.User.ID, almanac.ProfileChange{FirstName: &name})
	require.NoError(t, err)
	require.Equal(t, []string{"2026-12-03 2026-12-03T09:00:00"}, pendingOf(t, r))
}

func TestARegistryHasOneReleaseOfACalendar(t *testing.T) {
	t.Parallel()
	one, other := land(t, "2026-11-01"), land(t, "2026-12-01")
	digest := func(c *calendar.WorkCalendar) almanac.EventHandler {
		h := office(c, mondays).(almanac.Recurring)
		h.Type = "DIGEST"
		return h
	}
	_, err := almanac.NewRegistry(office(one, mondays), digest(land(t, "2026-11-01")))
	require.NoError(t, err)
	_, err = almanac.NewRegistry(office(one, mondays), digest(other))
	require.ErrorContains(t, err, "its calendar LAND, release 2026-11-01, is not that of another handler, release 2026-12-01")
	_, err = almanac.NewRegistry(office(one, mondays), digest(land(t, "2026-11-01", "2026-12-28")))
	require.ErrorContains(t, err, "is not that of another handler")
	_, err = almanac.NewRegistry(digest(nil))
	require.ErrorContains(t, err, "one of its calendars is nil")
}

// The calendar of each user is an attribute. The handler names all of them, so that each user's events follow the
// releases of one.
func TestAnEditToAnotherCalendarMovesTheEvent(t *testing.T) {
	t.Parallel()
	for where, repository := range onBoth {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := repository(t)
			now, err := r.Now(t.Context())
			require.NoError(t, err)
			zones := rulesOf(t, "2026a", beirutAsItIs)
			day := calendar.WallTimeOf(now).Date.AddDays(10) // of the event
			named := func(name, release string, holidays ...calendar.Date) *calendar.WorkCalendar {
				text := "name " + name + "\nrelease " + release + "\nuntil " + day.AddDays(400).String() + "\nweek Mo-Su\n"
				for _, d := range holidays {
					text += d.String() + " holiday\n"
				}
				c, err := calendar.ParseWorkCalendar(text)
				require.NoError(t, err)
				return c
			}
			program := func(all ...*calendar.WorkCalendar) almanac.Scheduler {
				return with(t, r, almanac.Recurring{
					Execution: almanac.Execution{WorkCalendars: all}, Type: "RENT",
					Rule: func(u almanac.User) (calendar.Recurrence, error) {
						i := slices.IndexFunc(all, func(c *calendar.WorkCalendar) bool { return strings.Contains(string(u.Attributes), `"`+c.Name()+`"`) })
						return calendar.Within{Of: calendar.Once{At: calendar.WallTime{Date: day, Clock: atNine}}, WorkDays: all[i]}, nil
					},
				})
			}
			a, b := named("A", "2026-11-01"), named("B", "2026-11-01", day)
			s := program(a, b)
			follow(t, s, zones)
			chose := inLondon
			chose.Attributes = json.RawMessage(`{"holidays": "A"}`)
			ada, err := s.CreateUser(t.Context(), chose)
			require.NoError(t, err)
			e := ada.Events[0]
			check := func(on int, calendars string) {
				t.Helper()
				stored, err := r.Event(t.Context(), e.ID)
				require.NoError(t, err)
				require.Equal(t, []string{day.AddDays(on).String(), e.OccurrenceKey, calendars}, []string{stored.Wall.Date.String(), stored.OccurrenceKey, stored.Consulted.Calendars})
			}
			check(0, "A@2026-11-01")

			_, err = s.UpdateUser(t.Context(), ada.User.ID, almanac.ProfileChange{Attributes: json.RawMessage(`{"holidays": "B"}`)})
			require.NoError(t, err)
			check(1, "B@2026-11-01")
			require.Empty(t, follow(t, program(named("A", "2026-12-01", day.AddDays(1)), b), zones))
			check(1, "B@2026-11-01")
			reports := follow(t, program(a, named("B", "2026-12-01", day, day.AddDays(1))), zones)
			require.Equal(t, []any{"B", 1, 1}, []any{reports[0].Name, reports[0].Checked, reports[0].Moved})
			check(2, "B@2026-12-01")
		})
	}
}

// textual has many texts of an earlier release, none of which is news.
type textual struct {
	almanac.Repository
	text  calendar.Consulted
	reads int
}

func (r *textual) Consulted(context.Context, string, map[string]string) ([]calendar.Consulted, error) {
	r.reads++
	return slices.Repeat([]calendar.Consulted{r.text}, 1001), nil
}

// Passes of one program read a type with more than a thousand texts once an hour, as Run does.
func TestPassesReadManyTextsOnceAnHour(t *testing.T) {
	t.Parallel()
	now := instant(t, "2026-12-01T10:00:00Z")
	text, err := calendar.ParseConsulted("LAND@2026-10-01 2026-12-01 2026-12-02")
	require.NoError(t, err)
	r := &textual{Repository: almanactest.NewRepository(func() time.Time { return now }), text: text}
	daily := onWorkDays(calendar.Daily{At: atNine}, calendar.SkipDay)
	earlier, c := land(t, "2026-10-01"), land(t, "2026-11-01")
	follow(t, with(t, r, office(earlier, daily(earlier))), rulesOf(t, "2026a", beirutAsItIs))
	s := with(t, r, office(c, daily(c)))
	reads := func(after time.Duration) int {
		t.Helper()
		now, r.reads = now.Add(after), 0
		_, err := s.RunOnce(t.Context(), almanac.RunOnceOptions{})
		require.NoError(t, err)
		return r.reads
	}
	reads(0) // compares
	require.Equal(t, []int{1, 0, 0, 1}, []int{reads(time.Minute), reads(time.Minute), reads(57 * time.Minute), reads(2 * time.Minute)})
}
